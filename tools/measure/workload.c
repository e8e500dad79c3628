/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/workload.h"

#include "lib/handles.h"
#include "tools/common/row.h"
#include "tools/measure/compare.h"
#include "tools/measure/quantizer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The command line ---- */

static int wrong_value(const tool_args *args, const char *option,
                       const char *expected)
{
    return tool_usage(args->command, "%s is `%s`, expected %s", option,
                      tool_value(args, option), expected);
}

static bool read_integer(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    *out = n;
    return end != text && !*end && !errno && n >= 0 && n <= INT32_MAX;
}

/* Leaves *out where the option is not given. */
static int read_size(const tool_args *args, const char *option, int64_t *out)
{
    const char *text = tool_value(args, option);
    if (!text || (read_integer(text, out) && *out > 0))
        return EXIT_DONE;
    return wrong_value(args, option, "a whole number above 0");
}

static int read_real(const tool_args *args, const char *option, double *out)
{
    const char *text = tool_value(args, option);
    char *end;
    if (!text)
        return EXIT_DONE;
    *out = strtod(text, &end);
    if (end != text && !*end && isfinite(*out) && *out >= 0)
        return EXIT_DONE;
    return wrong_value(args, option, "a number, 0 or above");
}

static int read_shape(workload *w)
{
    const char *text = tool_value(w->args, "--shape");
    long long n[4];
    char more;
    if (!text)
        return tool_usage(w->args->command,
                          "attention needs a --shape, as 4x32x4096x64");
    if (sscanf(text, "%lldx%lldx%lldx%lld%c", &n[0], &n[1], &n[2], &n[3],
               &more) != 4)
        return wrong_value(w->args, "--shape", "BxHxMxD, as 4x32x4096x64");
    for (int i = 0; i < 4; i++)
        if (n[i] < 1 || n[i] > INT32_MAX)
            return wrong_value(w->args, "--shape", "sizes above 0");
    w->batch = n[0];
    w->heads = w->kv_heads = n[1];
    w->length = w->kv_length = n[2];
    w->dim = w->dv = n[3];
    return EXIT_DONE;
}

/* By columns, as products want values of 8 bits. */
static int add_by_columns(workload *w, const char *name, const int64_t shape[4])
{
    char word[160];
    snprintf(word, sizeof word,
             "%s=random:%lldx%lldx%lldx%lldx%s:order(0,1,3,2)", name,
             (long long)shape[0], (long long)shape[1], (long long)shape[2],
             (long long)shape[3], w->dtype);
    return inputs_add(&w->in, word);
}

static int add_attention_tensors(workload *w, DLDataType t)
{
    const int64_t b = w->batch, h = w->heads, m = w->length;
    const int64_t hk = w->kv_heads, n = w->kv_length;
    const DLDataType f32 = {kDLFloat, 32, 1}, bf16 = {kDLBfloat, 16, 1};
    const bool narrow = is_narrow(t);
    const struct {
        const char *name;
        DLDataType type;
        int ndim;
        int64_t shape[4];
        bool is_input;
    } tensors[] = {{"q", t, 4, {b, h, m, w->dim}, true},
                   {"k", t, 4, {b, hk, n, w->dim}, true},
                   {"v", t, 4, {b, hk, n, w->dv}, true},
                   {"o", narrow ? bf16 : t, 4, {b, h, m, w->dv}, false},
                   {"lse", f32, 3, {b, h, m}, false}};
    int code = EXIT_DONE;
    /* Weights are rounded against the largest so far, which tiles decide. */
    if (narrow && w->tolerance == 0)
        w->tolerance = TOLERANCE_NARROW;
    for (size_t i = 0; !code && i < sizeof tensors / sizeof *tensors; i++)
        if (narrow && strcmp(tensors[i].name, "v") == 0)
            code = add_by_columns(w, "v", tensors[i].shape);
        else
            code = inputs_add_tensor(&w->in, tensors[i].name, tensors[i].type,
                                     tensors[i].ndim, tensors[i].shape,
                                     tensors[i].is_input);
    return code;
}

static void name_attention(workload *w)
{
    snprintf(w->name, sizeof w->name,
             "attention %lldx%sx%sx%s %s, mask %.60s, score %.60s",
             (long long)w->batch, sizes_name(w->heads, w->kv_heads).text,
             sizes_name(w->length, w->kv_length).text,
             sizes_name(w->dim, w->dv).text, w->dtype,
             w->mask ? w->mask : "none", w->score ? w->score : "none");
}

static int read_attention(workload *w)
{
    const char *dtype = tool_value(w->args, "--dtype");
    DLDataType t;
    int code;
    if ((code = read_shape(w)) ||
        (code = read_size(w->args, "--kv-heads", &w->kv_heads)) ||
        (code = read_size(w->args, "--kv-length", &w->kv_length)) ||
        (code = read_size(w->args, "--dv", &w->dv)) ||
        (code = tool_lists(w->args, &w->lists)))
        return code;
    snprintf(w->dtype, sizeof w->dtype, "%s", dtype ? dtype : "bf16");
    if (!dtype_read(w->dtype, &t))
        return wrong_value(w->args, "--dtype", "a data type, as bf16");
    if (w->heads % w->kv_heads)
        return tool_usage(w->args->command,
                          "%lld heads are not a multiple of %lld --kv-heads",
                          (long long)w->heads, (long long)w->kv_heads);
    w->mask = tool_value(w->args, "--mask");
    w->score = tool_value(w->args, "--score");
    name_attention(w);
    return add_attention_tensors(w, t);
}

/* Options that only attention has. */
static int refuse_shape(const workload *w)
{
    static const char *const options[] = {
        "--shape", "--kv-heads", "--kv-length", "--dv",
        "--dtype", "--mask",     "--score",     "--lists"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (tool_has(w->args, options[i]))
            return tool_usage(w->args->command,
                              "%s is for `%s attention`; a kernel's tensors "
                              "are arguments, as a=random:64x64xbf16",
                              options[i], w->args->command->name);
    return EXIT_DONE;
}

static void name_kernel(workload *w)
{
    size_t n =
        (size_t)snprintf(w->name, sizeof w->name, "%.80s", w->args->words[0]);
    for (size_t i = 0; i < w->in.n && n < sizeof w->name; i++) {
        const DLTensor *t = w->in.arguments[i].tensor;
        if (!t)
            continue;
        n += (size_t)snprintf(w->name + n, sizeof w->name - n, " %s ",
                              w->in.list[i].name);
        for (int d = 0; d < t->ndim && n < sizeof w->name; d++)
            n += (size_t)snprintf(w->name + n, sizeof w->name - n, "%lldx",
                                  (long long)t->shape[d]);
        if (n < sizeof w->name)
            n += (size_t)snprintf(w->name + n, sizeof w->name - n, "%s",
                                  tc_dtype_name(t->dtype).text);
    }
}

static int read_tensors(workload *w)
{
    int code = w->is_attention ? read_attention(w) : refuse_shape(w);
    for (int i = 1; !code && i < w->args->nwords; i++)
        code = inputs_add(&w->in, w->args->words[i]);
    if (!code && !w->is_attention)
        name_kernel(w);
    for (size_t i = 0; !code && i < w->in.n; i++)
        if (w->in.arguments[i].tensor)
            w->bytes += (double)tensor_bytes(w->in.arguments[i].tensor);
    return code;
}

int workload_read(workload *w, const tool_args *args)
{
    *w = (workload){.args = args};
    w->in.command = args->command;
    if (args->nwords < 1)
        return tool_usage(args->command,
                          "expected `attention` or a program, as matmul");
    int64_t seed = 0;
    const char *text = tool_value(args, "--seed");
    if (text && !read_integer(text, &seed))
        return wrong_value(args, "--seed", "a whole number");
    w->in.seed = (uint64_t)seed;
    w->is_attention = strcmp(args->words[0], "attention") == 0;
    int code = read_real(args, "--tolerance", &w->tolerance);
    if (!code)
        code = read_real(args, "--flops", &w->flops);
    if (!code)
        code = program_read(&w->program, args,
                            w->is_attention ? "attention_fwd" : args->words[0]);
    return code ? code : read_tensors(w);
}

void workload_free(workload *w)
{
    for (size_t i = 0; i < INPUTS_MOST; i++)
        free(w->want[i].dl.data);
    inputs_free(&w->in);
    program_free(&w->program);
}

/* ---- Kernels ---- */

static tilec_status build_attention(const workload *w, tilec_context *cx,
                                    const tilec_compile_options *c, int lists,
                                    built *out)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = c->target;
    o.mask = w->mask;
    o.score = w->score;
    o.read_source = read_source;
    o.bindings = c->bindings;
    o.nbindings = c->nbindings;
    o.warps = c->warps;
    o.stages = c->stages;
    o.ptxas_level = c->ptxas_level;
    o.tiles = c->tiles;
    o.block_lists = lists;
    const tilec_binding precision = {"FLOAT32_PRECISION", c->float32_precision};
    o.kernel_options = &precision;
    o.nkernel_options = precision.value != NULL;
    o.no_load = c->no_load;
    o.no_cache = c->no_cache;
    const tilec_argument *a = w->in.arguments;
    tilec_status s = tilec_attention_plan(cx, a[0].tensor, a[1].tensor,
                                          a[2].tensor, &o, &out->plan);
    out->kernel = tilec_attention_kernel(out->plan);
    return s;
}

tilec_status workload_build(const workload *w, tilec_context *cx,
                            const char *target, const variant *v, bool load,
                            built *out)
{
    tilec_binding bindings[PROGRAM_BINDINGS + SPACE_AXES];
    tilec_compile_options o = w->program.options;
    size_t n = o.nbindings;
    memcpy(bindings, w->program.bindings, n * sizeof *bindings);
    for (unsigned i = 0; v && i < v->nbindings; i++)
        bindings[n++] = v->bindings[i];
    o.bindings = bindings;
    o.nbindings = n;
    o.examples = w->in.arguments;
    o.nexamples = w->in.n;
    o.target = target ? target : o.target;
    o.warps = v && v->warps ? v->warps : o.warps;
    o.stages = v && v->stages ? v->stages : o.stages;
    o.ptxas_level = v && v->ptxas_level ? v->ptxas_level : o.ptxas_level;
    o.tiles = v && v->tiles ? v->tiles : o.tiles;
    o.no_load = !load;
    *out = (built){0};
    if (w->is_attention)
        return build_attention(w, cx, &o, target ? -1 : w->lists, out);
    tilec_status s = tilec_compile(cx, &w->program.source, 1, &o, &out->own);
    out->kernel = out->own;
    return s;
}

void built_free(built *b)
{
    tilec_attention_free(b->plan);
    tilec_kernel_free(b->own);
    *b = (built){0};
}

enum { ATTENTION_TENSORS = 5 };

tilec_status workload_launch(const workload *w, const built *b,
                             const tilec_argument *args,
                             const tilec_launch_options *options,
                             tilec_error *error)
{
    if (!w->is_attention)
        return tilec_launch(b->kernel, args, w->in.n, options, error);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = args[0].tensor;
    t.k = args[1].tensor;
    t.v = args[2].tensor;
    t.o = args[3].tensor;
    t.lse = args[4].tensor;
    t.captured = args + ATTENTION_TENSORS;
    t.ncaptured = w->in.n - ATTENTION_TENSORS;
    t.workspace = options->workspace;
    t.workspace_bytes = options->workspace_bytes;
    return tilec_attention_forward(b->plan, &t, options, error);
}

tilec_status workload_workspace(const workload *w, const built *b,
                                uint64_t *bytes, tilec_error *error)
{
    const tilec_argument *args = w->in.arguments;
    if (!w->is_attention)
        return tilec_kernel_workspace(b->kernel, args, w->in.n, bytes, error);
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = args[0].tensor;
    t.k = args[1].tensor;
    t.v = args[2].tensor;
    return tilec_attention_workspace(b->plan, &t, bytes, NULL, error);
}
