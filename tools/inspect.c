/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec inspect: what became of a kernel's loads and products.
 */
#include "tools/measure/program.h"

#include <stdio.h>

static tilec_status ask(void *user, tilec_context *cx,
                        const tilec_source *source,
                        const tilec_compile_options *options)
{
    return tilec_inspect(cx, source, 1, options, user);
}

static int inspect(const tool_args *args, tilec_context *cx)
{
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    char *text = NULL;
    int code = program_with(args, cx, args->words[0], &o, ask, &text);
    if (!code)
        code = write_text(tool_value(args, "-o"), text);
    tilec_free(text);
    return code;
}

static int inspect_run(const tool_args *args)
{
    return program_command(args, inspect);
}

static const tool_option options[] = {
    {"-o", "FILE", "write it there (default: standard output)"},
    PROGRAM_OPTIONS,
    {0}};

const tool_command tool_inspect = {
    "inspect",
    "FILE.tile[@kernel] --target TARGET [options]",
    "Shows how a kernel's loads and products are done on a GPU.",
    "For every load: its source line, bytes next to each other in memory, "
    "bytes that an\naccess moves, whether it is asynchronous (and why not), "
    "how its buffer lies in\nshared memory, and bank conflicts of what reads "
    "and writes the buffer. For every\nproduct: its instruction, where its "
    "operands come from, and the orders in which it\ntakes them. Then pictures "
    "of the hot loop's buffers (`tilec info layout` draws\nwhole ones).\n",
    options,
    inspect_run};
