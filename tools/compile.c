/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec compile: prints the code of a kernel, at any stage.
 */
#include "tools/bundle_make.h"
#include "tools/measure/program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int emit(const tool_args *args, tilec_context *cx)
{
    const char *what = tool_value(args, "--emit");
    const char *path = tool_value(args, "-o");
    tilec_kernel *kernel = NULL;
    what = what ? what : "tile";
    bool is_binary = strcmp(what, "cubin") == 0;
    if (is_binary && is_stdout(path) && isatty(STDOUT_FILENO))
        return tool_usage(args->command,
                          "a cubin is nothing for a terminal: -o FILE");
    /* The driver's report about registers is in the JSON and a remark. */
    bool load = strcmp(what, "json") == 0 || tool_has(args, "--remarks");
    int code =
        program_compile(args, cx, args->words[0], NULL, 0, load, &kernel);
    if (code)
        return code;
    char *data = NULL;
    size_t size;
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_status status =
        tilec_kernel_emit_data(kernel, what, &data, &size, &e);
    code = status ? report_error(&e) : write_data(path, data, size);
    tilec_free(data);
    tilec_kernel_free(kernel);
    return code;
}

static int compile_run(const tool_args *args)
{
    const char *what = tool_value(args, "--emit");
    if (what && strcmp(what, "bundle") == 0)
        return bundle_make(args);
    return program_command(args, emit);
}

static const tool_option options[] = {
    {"--emit", "WHAT",
     "tile (the optimised program, the default), schedule\n"
     "(roles, buffers, a step of each loop), llvm, llvm-opt,\n"
     "json (parameters, grid, bindings, resources);\n"
     "cpu: asm; GPU targets: machine, ptx, cubin, sass, timeline\n"
     "(the modelled steady state of a step, as JSON);\n"
     "bundle (a file for programs without a compiler; --target\n"
     "may be a list; of `attention`: plans of all combinations)"},
    {"-o", "FILE", "write it there (default: standard output)"},
    PROGRAM_OPTIONS,
    BUNDLE_OPTIONS,
    {0}};

const tool_command tool_compile = {
    "compile",
    "FILE.tile[@kernel] [options]",
    "Compiles a kernel and prints what became of it.",
    "FILE may be the name of an embedded program, such as matmul.\n",
    options,
    compile_run};
