/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec run: any kernel on the tensors of files.
 */
#include "tools/check.h"
#include "tools/common/progress.h"
#include "tools/common/render.h"
#include "tools/measure/device.h"
#include "tools/measure/inputs.h"
#include "tools/measure/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const tool_args *args;
    tilec_context *cx;
    tilec_kernel *kernel;
    inputs in;
    device_tensors device;
} job;

/* -o NAME=FILE */
static int write_outputs(const job *j)
{
    for (int i = 0; i < j->args->ngiven; i++) {
        const char *value = j->args->given[i].value;
        if (strcmp(j->args->given[i].name, "-o") != 0)
            continue;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(value, "="), value);
        tilec_named_tensor t = {name, inputs_find(&j->in, name)};
        tilec_error e = TILEC_INIT(tilec_error);
        if (tilec_safetensors_write(strchr(value, '=') + 1, &t, 1, NULL, 0, &e))
            return report_error(&e);
    }
    return EXIT_DONE;
}

/* Whether an earlier -o has the same file. */
static bool is_repeated(const tool_args *args, int given)
{
    const char *file = strchr(args->given[given].value, '=');
    for (int i = 0; i < given; i++)
        if (strcmp(args->given[i].name, "-o") == 0 &&
            strcmp(strchr(args->given[i].value, '='), file) == 0)
            return true;
    return false;
}

/* Before anything runs: every -o names a tensor that was given, and a file of
 * its own. */
static int check_outputs(const job *j)
{
    for (int i = 0; i < j->args->ngiven; i++) {
        const char *value = j->args->given[i].value;
        if (strcmp(j->args->given[i].name, "-o") != 0)
            continue;
        size_t n = strcspn(value, "=");
        char name[64];
        if (!value[n] || !value[n + 1] || n == 0 || n >= sizeof name)
            return tool_usage(j->args->command, "-o %s: expected NAME=FILE",
                              value);
        if (!is_tensor_file(j->args->command, value + n + 1))
            return EXIT_USAGE;
        if (is_repeated(j->args, i))
            return tool_usage(j->args->command,
                              "-o %s: that file is written already, expected "
                              "another for each tensor",
                              value);
        snprintf(name, sizeof name, "%.*s", (int)n, value);
        if (!inputs_find(&j->in, name))
            return tool_usage(j->args->command,
                              "-o %s: there is no tensor argument `%s`; give "
                              "its shape, as %s=zeros:8x128xf32 or %s=like:x",
                              value, name, name, name);
    }
    return EXIT_DONE;
}

/* The arguments of the launch: on a GPU, copies of the tensors there. */
static int place_arguments(job *j, tilec_argument *args)
{
    int code = device_open(&j->device, j->cx, j->kernel);
    for (size_t i = 0; !code && i < j->in.n; i++) {
        args[i] = j->in.arguments[i];
        if (args[i].kind == TILEC_ARG_TENSOR)
            code = device_put(&j->device, &args[i].tensor,
                              kernel_writes(j->kernel, args[i].name));
    }
    return code;
}

/* The workspace of a plan. */
static int give_workspace(job *j, const tilec_argument *args,
                          tilec_launch_options *o)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_kernel_workspace(j->kernel, args, j->in.n, &o->workspace_bytes,
                               &e))
        return report_error(&e);
    return device_workspace(&j->device, o->workspace_bytes, &o->workspace);
}

static int say_done(const job *j, const tilec_argument *args, double seconds)
{
    int32_t grid[3];
    tilec_error e = TILEC_INIT(tilec_error);
    size_t n = 0;
    while (tilec_kernel_part(j->kernel, n))
        n++;
    if (n) {
        render_line(stderr, "%s: %zu kernel%s on %s, %.3f ms",
                    tilec_kernel_name(j->kernel), n, n == 1 ? "" : "s",
                    tilec_kernel_target(j->kernel), 1e3 * seconds);
        return EXIT_DONE;
    }
    if (tilec_kernel_grid(j->kernel, args, j->in.n, grid, &e))
        return report_error(&e);
    render_line(stderr, "%s: grid %dx%dx%d on %s, %.3f ms",
                tilec_kernel_name(j->kernel), grid[0], grid[1], grid[2],
                tilec_kernel_target(j->kernel), 1e3 * seconds);
    return EXIT_DONE;
}

static int launch(job *j)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.print = show_line;
    o.progress = progress_launch;
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_argument args[INPUTS_MOST];
    int code = place_arguments(j, args);
    code = code ? code : give_workspace(j, args, &o);
    if (code)
        return code;
    double start = seconds_now();
    if (tilec_launch(j->kernel, args, j->in.n, &o, &e))
        return report_error(&e);
    if ((code = device_wait(j->kernel)))
        return code;
    double seconds = seconds_now() - start;
    progress_end();
    if ((code = say_done(j, args, seconds)))
        return code;
    return device_get(&j->device);
}

static int run_job(job *j)
{
    int code = EXIT_DONE;
    bool checks = tool_has(j->args, "--check-schedule");
    for (int i = 1; !code && i < j->args->nwords; i++)
        code = inputs_add(&j->in, j->args->words[i]);
    if (!code)
        code = check_outputs(j);
    if (!code)
        code = program_compile(j->args, j->cx, j->args->words[0],
                               j->in.arguments, j->in.n, !checks, &j->kernel);
    if (!code)
        code = inputs_copy_written(&j->in, j->kernel);
    if (!code)
        code = checks ? check_schedule(j->kernel, j->in.arguments, j->in.n)
                      : launch(j);
    return code ? code : write_outputs(j);
}

static int run_command(const tool_args *args)
{
    if (args->nwords < 1)
        return tool_usage(args->command, "expected a program");
    bool remarks;
    if (!tool_remarks(args, &remarks))
        return EXIT_USAGE;
    job *j = calloc(1, sizeof *j);
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.remarks = remarks;
    if (!j || tilec_context_new(&o, &j->cx)) {
        free(j);
        report("out of memory");
        return EXIT_MACHINE;
    }
    j->args = args;
    j->in.command = args->command;
    int code = run_job(j);
    inputs_free(&j->in);
    device_close(&j->device);
    tilec_kernel_free(j->kernel);
    tilec_context_free(j->cx);
    free(j);
    return code;
}

static const tool_option options[] = {
    {"-o", "NAME=FILE", "write that tensor to a safetensors file when done"},
    {"--check-schedule", NULL,
     "GPU targets: run it on the host, slowly, and look for races"},
    PROGRAM_OPTIONS,
    {0}};

const tool_command tool_run = {
    "run",
    "FILE.tile[@kernel] [NAME=VALUE...] [options]",
    "Compiles a kernel and runs it over its grid, or a plan's one by one.",
    "FILE may be the name of an embedded program, such as matmul. "
    "Arguments:\n" INPUTS_HELP
    "Compile-time parameters that -D does not bind follow from the tensors.\n",
    options,
    run_command};
