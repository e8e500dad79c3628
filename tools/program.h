/* SPDX-License-Identifier: Apache-2.0
 *
 * A program named on the command line, FILE.tile[@kernel] or an embedded one,
 * compiled with -D, --target and the options that show what the passes did.
 */
#ifndef TOOL_PROGRAM_H
#define TOOL_PROGRAM_H

#include "tools/commands.h"

#define PROGRAM_OPTIONS                                                        \
    {"-D", "NAME=VALUE",                                                       \
     "bind a compile-time parameter: a size, a type, @func"},                  \
        {"--target", "TARGET", "cpu or auto (default: auto)"},                 \
        {"--print-after", "LIST",                                              \
         "print the program after these passes, or `all`"},                    \
        {"--time-passes", NULL, "print the time of each pass to stderr"},      \
    {                                                                          \
        "--remarks", NULL, "say what the compiler did and did not do"          \
    }

/* The exit code; *kernel is set on 0. `examples` may have none. */
int program_compile(const tool_args *args, tilec_context *cx, const char *word,
                    const tilec_argument *examples, size_t nexamples,
                    tilec_kernel **kernel);

#endif
