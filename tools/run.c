/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec run: any kernel on the tensors of files.
 */
#include "tools/check.h"
#include "tools/device.h"
#include "tools/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGS = 64 };

/* One `name=...` of the command line. */
typedef struct input {
    char name[64];
    tilec_safetensors *file; /* of name=FILE */
    DLTensor view;
    owned_tensor own; /* a copy, where the kernel writes */
} input;

typedef struct job {
    const tool_args *args;
    tilec_context *cx;
    tilec_kernel *kernel;
    size_t n;
    input inputs[MOST_ARGS];
    tilec_argument arguments[MOST_ARGS];
    device_tensors device;
} job;

static int bad_argument(const job *j, const char *word)
{
    return tool_usage(j->args->command,
                      "argument `%s`: expected NAME=FILE.safetensors[:TENSOR], "
                      "NAME=NUMBER, NAME=zeros:8x128xf32 or NAME=like:OTHER",
                      word);
}

static const DLTensor *find_tensor(const job *j, const char *name)
{
    for (size_t i = 0; i < j->n; i++)
        if (j->arguments[i].tensor && strcmp(j->inputs[i].name, name) == 0)
            return j->arguments[i].tensor;
    return NULL;
}

static int out_of_memory(void)
{
    fprintf(stderr, "tilec: error: no memory for the tensors\n");
    return EXIT_MACHINE;
}

/* zeros:8x128xf32 */
static int make_zeros(job *j, input *in, const char *text, const char *word)
{
    static const struct {
        const char *name;
        DLDataType dtype;
    } types[] = {
        {"i1", {TILEC_DL_BOOL, 8, 1}},
        {"i8", {kDLInt, 8, 1}},
        {"i16", {kDLInt, 16, 1}},
        {"i32", {kDLInt, 32, 1}},
        {"i64", {kDLInt, 64, 1}},
        {"f16", {kDLFloat, 16, 1}},
        {"f8e4m3", {TILEC_DL_F8E4M3, 8, 1}},
        {"bf16", {kDLBfloat, 16, 1}},
        {"f8e5m2", {TILEC_DL_F8E5M2, 8, 1}},
        {"f32", {kDLFloat, 32, 1}},
        {"f64", {kDLFloat, 64, 1}},
    };
    int64_t shape[8];
    int ndim = 0;
    while (*text >= '0' && *text <= '9' && ndim < 8) {
        char *end;
        errno = 0;
        shape[ndim++] = strtoll(text, &end, 10);
        if (errno || *end != 'x' || shape[ndim - 1] > INT32_MAX)
            return bad_argument(j, word);
        text = end + 1;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, text) == 0)
            return tensor_new(&in->own, types[i].dtype, ndim, shape)
                       ? EXIT_DONE
                       : out_of_memory();
    return bad_argument(j, word);
}

static int make_like(job *j, input *in, const char *other, const char *word)
{
    const DLTensor *t = find_tensor(j, other);
    if (!t)
        return tool_usage(j->args->command,
                          "argument `%s`: there is no tensor `%s` before it",
                          word, other);
    return tensor_new(&in->own, t->dtype, t->ndim, t->shape) ? EXIT_DONE
                                                             : out_of_memory();
}

/* FILE[:TENSOR]; without a tensor the one of the argument's name, or the only
 * one. A file name may hold a colon itself: the last one counts. */
static int open_tensor(input *in, const char *value)
{
    tilec_error e;
    const char *colon = strrchr(value, ':');
    char *path =
        strndup(value, colon ? (size_t)(colon - value) : strlen(value));
    if (!path)
        return out_of_memory();
    int code = tilec_safetensors_open(path, &in->file, &e) ? report_error(&e)
                                                           : EXIT_DONE;
    free(path);
    if (code)
        return code;
    const char *name = colon ? colon + 1 : in->name;
    if (!colon && tilec_safetensors_count(in->file) == 1)
        name = tilec_safetensors_name(in->file, 0);
    return tilec_safetensors_get(in->file, name, &in->view, &e)
               ? report_error(&e)
               : EXIT_DONE;
}

/* A number, or true or false. */
static bool read_number(const char *text, const char *name, tilec_argument *out)
{
    char *end;
    errno = 0;
    long long i = strtoll(text, &end, 0);
    if (end != text && !*end && !errno) {
        *out = tilec_int(name, i);
        return true;
    }
    double f = strtod(text, &end);
    if (end != text && !*end) {
        *out = tilec_float(name, f);
        return true;
    }
    bool yes = strcmp(text, "true") == 0;
    *out = tilec_int(name, yes);
    return yes || strcmp(text, "false") == 0;
}

static int add_argument(job *j, const char *word)
{
    const char *equals = strchr(word, '=');
    input *in = &j->inputs[j->n];
    if (!equals || equals == word || equals - word >= (long)sizeof in->name ||
        j->n == MOST_ARGS)
        return bad_argument(j, word);
    memcpy(in->name, word, (size_t)(equals - word));
    const char *value = equals + 1;
    tilec_argument *arg = &j->arguments[j->n];
    if (read_number(value, in->name, arg)) {
        j->n++;
        return EXIT_DONE;
    }
    int code;
    const DLTensor *t = &in->own.dl;
    if (strncmp(value, "zeros:", 6) == 0) {
        code = make_zeros(j, in, value + 6, word);
    } else if (strncmp(value, "like:", 5) == 0) {
        code = make_like(j, in, value + 5, word);
    } else {
        code = open_tensor(in, value);
        t = &in->view;
    }
    *arg = tilec_tensor(in->name, t);
    j->n++;
    return code;
}

/* What the kernel writes must not be the read-only mapping of a file. */
static int copy_written(job *j)
{
    const tilec_parameter *p;
    for (size_t i = 0; (p = tilec_kernel_parameter(j->kernel, i)); i++)
        for (size_t a = 0; a < j->n; a++) {
            input *in = &j->inputs[a];
            if (!p->written || !in->file || strcmp(in->name, p->name) != 0)
                continue;
            if (!tensor_new(&in->own, in->view.dtype, in->view.ndim,
                            in->view.shape))
                return out_of_memory();
            memcpy(in->own.dl.data,
                   (const char *)in->view.data + in->view.byte_offset,
                   tensor_bytes(&in->view));
            j->arguments[a].tensor = &in->own.dl;
        }
    return EXIT_DONE;
}

/* -o NAME=FILE */
static int write_outputs(const job *j)
{
    for (int i = 0; i < j->args->ngiven; i++) {
        const char *value = j->args->given[i].value;
        if (strcmp(j->args->given[i].name, "-o") != 0)
            continue;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(value, "="), value);
        tilec_named_tensor t = {name, find_tensor(j, name)};
        tilec_error e;
        if (tilec_safetensors_write(strchr(value, '=') + 1, &t, 1, NULL, 0, &e))
            return report_error(&e);
    }
    return EXIT_DONE;
}

/* Before anything runs: every -o names a tensor that was given. */
static int check_outputs(const job *j)
{
    for (int i = 0; i < j->args->ngiven; i++) {
        const char *value = j->args->given[i].value;
        if (strcmp(j->args->given[i].name, "-o") != 0)
            continue;
        size_t n = strcspn(value, "=");
        char name[64];
        if (!value[n] || n == 0 || n >= sizeof name)
            return tool_usage(j->args->command, "-o %s: expected NAME=FILE",
                              value);
        snprintf(name, sizeof name, "%.*s", (int)n, value);
        if (!find_tensor(j, name))
            return tool_usage(j->args->command,
                              "-o %s: there is no tensor argument `%s`; give "
                              "its shape, as %s=zeros:8x128xf32 or %s=like:x",
                              value, name, name, name);
    }
    return EXIT_DONE;
}

static bool is_written(const job *j, const char *name)
{
    const tilec_parameter *p;
    for (size_t i = 0; (p = tilec_kernel_parameter(j->kernel, i)); i++)
        if (strcmp(p->name, name) == 0)
            return p->written;
    return false;
}

/* The arguments of the launch: on a GPU, copies of the tensors there. */
static int place_arguments(job *j, tilec_argument *args)
{
    int code = device_open(&j->device, j->cx, j->kernel);
    for (size_t i = 0; !code && i < j->n; i++) {
        args[i] = j->arguments[i];
        if (args[i].kind == TILEC_ARG_TENSOR)
            code = device_put(&j->device, &args[i].tensor,
                              is_written(j, args[i].name));
    }
    return code;
}

static int launch(job *j)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.print = show_line;
    o.progress = show_progress;
    tilec_error e;
    tilec_argument args[MOST_ARGS];
    int code = place_arguments(j, args);
    if (code)
        return code;
    double start = seconds_now();
    if (tilec_launch(j->kernel, args, j->n, &o, &e))
        return report_error(&e);
    if ((code = device_wait(j->kernel)))
        return code;
    double seconds = seconds_now() - start;
    end_progress();
    int32_t grid[3];
    if (tilec_kernel_grid(j->kernel, args, j->n, grid, &e))
        return report_error(&e);
    fprintf(stderr, "%s: grid %dx%dx%d on %s, %.3f ms\n",
            tilec_kernel_name(j->kernel), grid[0], grid[1], grid[2],
            tilec_kernel_target(j->kernel), 1e3 * seconds);
    return device_get(&j->device);
}

static int run_job(job *j)
{
    int code = EXIT_DONE;
    bool checks = tool_has(j->args, "--check-schedule");
    for (int i = 1; !code && i < j->args->nwords; i++)
        code = add_argument(j, j->args->words[i]);
    if (!code)
        code = check_outputs(j);
    if (!code)
        code = program_compile(j->args, j->cx, j->args->words[0], j->arguments,
                               j->n, !checks, &j->kernel);
    if (!code)
        code = copy_written(j);
    if (!code)
        code =
            checks ? check_schedule(j->kernel, j->arguments, j->n) : launch(j);
    return code ? code : write_outputs(j);
}

static int run(const tool_args *args)
{
    if (args->nwords < 1)
        return tool_usage(args->command, "expected a program");
    job *j = calloc(1, sizeof *j);
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.remarks = tool_has(args, "--remarks");
    if (!j || tilec_context_new(&o, &j->cx)) {
        free(j);
        return out_of_memory();
    }
    j->args = args;
    int code = run_job(j);
    for (size_t i = 0; i < j->n; i++) {
        free(j->inputs[i].own.dl.data);
        tilec_safetensors_free(j->inputs[i].file);
    }
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
    "Compiles a kernel and runs it over its grid.",
    "FILE may be the name of an embedded program, such as matmul. Arguments:\n"
    "  NAME=FILE.safetensors[:TENSOR]  a tensor of a file (default: of that "
    "name)\n"
    "  NAME=zeros:8x128xf32            a new tensor of zeros\n"
    "  NAME=like:OTHER                 zeros in the shape and type of another\n"
    "  NAME=3.5                        a number, true or false\n"
    "Compile-time parameters that -D does not bind follow from the tensors.\n",
    options,
    run};
