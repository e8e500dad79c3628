/* SPDX-License-Identifier: Apache-2.0
 *
 * A program named on the command line, FILE.tile[@kernel] or an embedded one,
 * compiled with -D, --target and the options that show the work of the passes.
 */
#ifndef TOOL_PROGRAM_H
#define TOOL_PROGRAM_H

#include "tools/common/commands.h"

#define TILES_HELP                                                             \
    "GPU targets: none (a program a tile), static or dynamic (a program a\n"   \
    "multiprocessor: every n-th tile, or the next)"
#define PROGRAM_OPTIONS                                                        \
    {"-D", "NAME=VALUE",                                                       \
     "bind a compile-time parameter: a size, a type, @func"},                  \
        {"--target", "TARGET", TARGET_HELP},                                   \
        {"--warps", "N", "GPU targets: warps of a block, 1 to 32"},            \
        {"--stages", "N", "GPU targets: stages of pipelined loops"},           \
        {"--tiles", "HOW", TILES_HELP},                                        \
        {"--precision", "P",                                                   \
         "GPU targets: of products of f32: ieee, tf32 or tf32x3"},             \
        {"--enforce", "HOW", ENFORCE_HELP},                                    \
        {"--ptxas-level", "N",                                                 \
         "GPU targets: NVIDIA's assembler optimises so much, 1 to 3"},         \
        {"--print-after", "LIST",                                              \
         "print the program after these passes, or `all`"},                    \
        {"--time-passes", NULL, "print the time of each pass to stderr"},      \
        {"--no-cache", NULL, "GPU targets: compile anew, and keep nothing"},   \
        REMARKS_OPTION

/* The program on the command line: freed with program_free in any case. */
enum { PROGRAM_BINDINGS = 64 };
typedef struct program {
    char *file, *text;
    tilec_source source;           /* text NULL: an embedded one */
    tilec_compile_options options; /* without examples */
    tilec_binding bindings[PROGRAM_BINDINGS];
    char names[PROGRAM_BINDINGS][64];
} program;
int program_read(program *p, const tool_args *args, const char *word);
void program_free(program *p);

/* The exit code; *kernel is set on 0. `examples` may have none. load: onto the
 * GPU, if the target is one. */
int program_compile(const tool_args *args, tilec_context *cx, const char *word,
                    const tilec_argument *examples, size_t nexamples, bool load,
                    tilec_kernel **kernel);
/* The same up to the compile, which `compile` does. */
typedef tilec_status program_compile_fn(void *user, tilec_context *cx,
                                        const tilec_source *source,
                                        const tilec_compile_options *options);
int program_with(const tool_args *args, tilec_context *cx, const char *word,
                 const tilec_compile_options *options,
                 program_compile_fn *compile, void *user);

/* A command for one program: `work` with a context of its own. */
int program_command(const tool_args *args,
                    int (*work)(const tool_args *args, tilec_context *cx));

#endif
