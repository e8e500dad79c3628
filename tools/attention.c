/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec attention: attention on the tensors of a file, and its gradients.
 */
#include "tools/attention_cache.h"
#include "tools/common/commands.h"
#include "tools/common/progress.h"
#include "tools/measure/compare.h"
#include "tools/measure/device.h"
#include "tools/measure/quantizer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CAPTURED = 64, MOST_OPTIONS = 32 };
/* The factors of 8-bit numbers, and the one that o is multiplied by. */
static const char *const factor_names[] = {"descale_q", "descale_k",
                                           "descale_v", "scale_o"};
enum { NFACTORS = sizeof factor_names / sizeof *factor_names };

/* All that a run holds; freed in one place. */
typedef struct job {
    const tool_args *args;
    tilec_context *cx;
    tilec_safetensors *in;
    tilec_attention *plan; /* NULL: over a cache */
    attention_cache cache;
    DLTensor q, k, v;
    bool is_narrow; /* of 8 bits, at least one of them */
    quantized rounded[3];
    DLTensor factors[NFACTORS]; /* of ndim 0: not given */
    owned_tensor o, lse, max;
    bool is_backward, wants_max;
    DLTensor dout, dlse; /* the latter of ndim 0: not given */
    owned_tensor sinks;  /* of data NULL: likewise */
    owned_tensor dq, dk, dv, dsinks;
    double dropout;    /* 0: none */
    int64_t seed, one; /* the seed, and its shape */
    DLTensor seed_tensor;
    size_t ngradients; /* of what is captured */
    owned_tensor gradients[MOST_CAPTURED];
    tilec_argument gradient_args[MOST_CAPTURED];
    size_t ncaptured;
    DLTensor captured_tensors[MOST_CAPTURED];
    tilec_argument captured[MOST_CAPTURED + 2]; /* and those of dropout */
    device_tensors device;
    double compile_seconds, run_seconds, backward_seconds;
} job;

static const tilec_kernel *kernel_of(const job *j)
{
    return j->cache.plan ? tilec_kvcache_kernel(j->cache.plan)
                         : tilec_attention_kernel(j->plan);
}

/* --quantize: v by columns, which is how products want it. */
static int quantize_inputs(job *j, const char *type)
{
    DLTensor *const all[] = {&j->q, &j->k, &j->v};
    quantizer z = {.cx = j->cx};
    int code = quantizer_read(j->args, type, &z);
    for (int i = 0; !code && i < 3; i++) {
        code = quantize(&z, "qkv"[i], all[i], i == 2, &j->rounded[i]);
        *all[i] = j->rounded[i].numbers.dl;
        j->factors[i] = j->rounded[i].scales.dl;
    }
    return code;
}

static int get_factors(job *j)
{
    const char *type = tool_value(j->args, "--quantize");
    int code = type ? quantize_inputs(j, type) : EXIT_DONE;
    j->is_narrow =
        is_narrow(j->q.dtype) || is_narrow(j->k.dtype) || is_narrow(j->v.dtype);
    for (int i = 0; !code && j->is_narrow && i < NFACTORS; i++)
        if (!j->factors[i].ndim)
            tilec_safetensors_get(j->in, factor_names[i], &j->factors[i], NULL);
    return code;
}

/* --sinks: of any float type; the kernels read float32. */
static int get_sinks(job *j)
{
    const char *name = tool_value(j->args, "--sinks");
    const DLDataType f32 = {kDLFloat, 32, 1};
    DLTensor t;
    tilec_error e = TILEC_INIT(tilec_error);
    if (!name)
        return EXIT_DONE;
    if (tilec_safetensors_get(j->in, name, &t, &e))
        return report_error(&e);
    if (!tolerance_of(t.dtype)) {
        report("--sinks %s: the tensor's type is no float", name);
        return EXIT_INPUT;
    }
    if (!tensor_new(&j->sinks, f32, t.ndim, t.shape)) {
        report("no memory for the sinks");
        return EXIT_MACHINE;
    }
    for (int64_t i = 0, n = tensor_count(&t); i < n; i++)
        ((float *)j->sinks.dl.data)[i] = (float)tensor_element(&t, i);
    return EXIT_DONE;
}

static int get_inputs(job *j)
{
    const struct {
        const char *name;
        DLTensor *to;
    } wanted[] = {{"q", &j->q}, {"k", &j->k}, {"v", &j->v}};
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_safetensors_open(j->args->words[0], &j->in, &e))
        return report_error(&e);
    for (int i = 0; i < 3; i++)
        if (tilec_safetensors_get(j->in, wanted[i].name, wanted[i].to, &e))
            return report_error(&e);
    const char *dout = tool_value(j->args, "--do"),
               *dlse = tool_value(j->args, "--dlse");
    int code = get_sinks(j);
    if (!code)
        code = cache_get(&j->cache, j->args, j->in);
    if (code || !j->is_backward)
        return code ? code : get_factors(j);
    if (tilec_safetensors_get(j->in, dout ? dout : "do", &j->dout, &e) ||
        (dlse && tilec_safetensors_get(j->in, dlse, &j->dlse, &e)))
        return report_error(&e);
    return EXIT_DONE;
}

/* Options of backward are none without it, those of 8 bits none without them
 * (which have no gradients). */
static int check_options(job *j)
{
    static const char *const options[] = {"--do", "--dlse", "--deterministic",
                                          "--captured"};
    static const char *const narrow[] = {"--rows", "--rotate"};
    const char *path = tool_value(j->args, "-o");
    if (path && !is_tensor_file(j->args->command, path))
        return EXIT_USAGE;
    bool quantizes = tool_has(j->args, "--quantize");
    j->is_backward = tool_has(j->args, "--backward");
    j->wants_max = tool_has(j->args, "--max");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!j->is_backward && tool_has(j->args, options[i]))
            return tool_usage(j->args->command, "%s is for --backward",
                              options[i]);
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        if (!quantizes && tool_has(j->args, narrow[i]))
            return tool_usage(j->args->command, "%s is for --quantize",
                              narrow[i]);
    int code = tool_dropout(j->args, &j->dropout, &j->seed);
    if (code)
        return code;
    if (quantizes && j->is_backward)
        return tool_usage(j->args->command,
                          "--backward: there are no gradients of numbers of 8 "
                          "bits");
    return cache_read_options(&j->cache, j->args);
}

/* -D and --option: FlexAttention's names, which the library knows. */
typedef struct kernel_options {
    size_t n;
    tilec_binding all[MOST_OPTIONS];
    char names[MOST_OPTIONS][64];
} kernel_options;

static int read_kernel_options(const job *j, kernel_options *to)
{
    to->n = 0;
    for (int i = 0; i < j->args->ngiven; i++) {
        const char *name = j->args->given[i].name,
                   *value = j->args->given[i].value;
        if (strcmp(name, "-D") != 0 && strcmp(name, "--option") != 0)
            continue;
        size_t n = strcspn(value, "=");
        if (!value[n] || n == 0 || n >= sizeof to->names[0] ||
            to->n == MOST_OPTIONS)
            return tool_usage(j->args->command, "%s %s: expected NAME=VALUE",
                              name, value);
        snprintf(to->names[to->n], sizeof to->names[0], "%.*s", (int)n, value);
        to->all[to->n] = (tilec_binding){to->names[to->n], value + n + 1};
        to->n++;
    }
    return EXIT_DONE;
}

static void give_factors(const job *j, tilec_attention_options *o)
{
    const DLTensor **const to[] = {&o->descale_q, &o->descale_k, &o->descale_v,
                                   &o->scale_o};
    for (int i = 0; i < NFACTORS; i++)
        if (j->factors[i].ndim)
            *to[i] = &j->factors[i];
}

static int make_plan(job *j)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = tool_value(j->args, "--target");
    o.mask = tool_value(j->args, "--mask");
    o.score = tool_value(j->args, "--score");
    o.read_source = read_source;
    o.backward = j->is_backward;
    o.deterministic = tool_has(j->args, "--deterministic");
    o.captured_gradients = tool_has(j->args, "--captured");
    o.max = j->wants_max;
    o.sinks = j->sinks.dl.data != NULL;
    o.dropout = j->dropout > 0;
    give_factors(j, &o);
    kernel_options given;
    int enforce, code = read_kernel_options(j, &given);
    if (code || (code = tool_lists(j->args, &o.block_lists)))
        return code;
    if (!tool_enforce(j->args, &enforce))
        return EXIT_USAGE;
    o.enforce = (tilec_enforce)enforce;
    o.kernel_options = given.all;
    o.nkernel_options = given.n;
    const char *scale = tool_value(j->args, "--scale");
    if (scale) {
        char *end;
        o.scale = strtod(scale, &end);
        if (end == scale || *end || !(fabs(o.scale) <= FLT_MAX) ||
            o.scale == 0.0)
            return tool_usage(j->args->command,
                              "--scale is `%s`, expected a number that is "
                              "not 0 and fits f32, such as 0.125",
                              scale);
    }
    double start = seconds_now();
    if (j->cache.is_given) {
        code = cache_plan(&j->cache, j->cx, j->args, &j->q, &j->k, &j->v, &o);
        j->compile_seconds = seconds_now() - start;
        return code;
    }
    tilec_status status =
        tilec_attention_plan(j->cx, &j->q, &j->k, &j->v, &o, &j->plan);
    j->compile_seconds = seconds_now() - start;
    return status ? report_compile(j->cx, status) : EXIT_DONE;
}

/* "descale_k.scales" as descale_k of the file or of --quantize. */
static const DLTensor *find_factor(const job *j, const char *name)
{
    for (int i = 0; i < NFACTORS; i++) {
        size_t n = strlen(factor_names[i]);
        if (strncmp(name, factor_names[i], n) == 0 && name[n] == '.')
            return j->factors[i].ndim ? &j->factors[i] : NULL;
    }
    return NULL;
}

static void capture_dropout(job *j)
{
    if (!j->dropout)
        return;
    j->one = 1;
    j->seed_tensor = (DLTensor){.data = &j->seed,
                                .device = {kDLCPU, 0},
                                .ndim = 1,
                                .dtype = {kDLInt, 64, 1},
                                .shape = &j->one};
    j->captured[j->ncaptured++] = tilec_tensor("dropout_seed", &j->seed_tensor);
    j->captured[j->ncaptured++] = tilec_float("dropout_p", j->dropout);
}

/* Does the command give it, and not a tensor of the file? */
static bool is_given(const job *j, const char *name)
{
    return strncmp(name, "sink.", strlen("sink.")) == 0 ||
           strncmp(name, "dropout.", strlen("dropout.")) == 0 ||
           cache_owns(&j->cache, name);
}

/* Tensors of the file with the name of a captured buffer, with or without the
 * `mask.` or `score.` before it. What is missing the library names. */
static int find_captured(job *j)
{
    const tilec_kernel *kernel = kernel_of(j);
    const tilec_parameter *p;
    for (size_t i = 0; (p = tilec_kernel_parameter(kernel, i)); i++) {
        const char *dot = strchr(p->name, '.');
        if (!p->captured ||
            (p->kind != TILEC_PARAM_TENSOR && p->kind != TILEC_PARAM_POINTER) ||
            j->ncaptured == MOST_CAPTURED || is_given(j, p->name))
            continue;
        DLTensor *t = &j->captured_tensors[j->ncaptured];
        const DLTensor *factor = find_factor(j, p->name);
        tilec_error e = TILEC_INIT(tilec_error);
        if (factor)
            *t = *factor;
        else if (tilec_safetensors_get(j->in, p->name, t, NULL) &&
                 (!dot || tilec_safetensors_get(j->in, dot + 1, t, &e))) {
            report("the mod reads `%s`, a %s, but %s has no "
                   "tensor of that name",
                   dot ? dot + 1 : p->name, p->type, j->args->words[0]);
            return EXIT_INPUT;
        }
        j->captured[j->ncaptured++] = tilec_tensor(p->name, t);
    }
    capture_dropout(j);
    return EXIT_DONE;
}

/* The workspace of forward and backward, which run one after the other. */
static int give_workspace(job *j, tilec_attention_tensors *t)
{
    uint64_t forward = 0, backward = 0;
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_attention_workspace(j->plan, t, &forward,
                                  j->is_backward ? &backward : NULL, &e))
        return report_error(&e);
    t->workspace_bytes = forward > backward ? forward : backward;
    return device_workspace(&j->device, t->workspace_bytes, &t->workspace);
}

/* Everything to where the kernel runs; on the CPU it is there. */
static int put_tensors(job *j, tilec_attention_tensors *t)
{
    int code = device_open(&j->device, j->cx, kernel_of(j));
    if (code || (code = device_put(&j->device, &t->q, false)) ||
        (code = device_put(&j->device, &t->k, false)) ||
        (code = device_put(&j->device, &t->v, false)) ||
        (code = device_put(&j->device, &t->o, true)) ||
        (code = device_put(&j->device, &t->lse, true)) ||
        (t->max && (code = device_put(&j->device, &t->max, true))) ||
        (t->sinks && (code = device_put(&j->device, &t->sinks, false))))
        return code;
    for (size_t i = 0; !code && i < j->ncaptured; i++)
        if (j->captured[i].kind == TILEC_ARG_TENSOR)
            code = device_put(&j->device, &j->captured[i].tensor, false);
    if (!code)
        code = j->cache.plan ? cache_put(&j->cache, &j->device, t)
                             : give_workspace(j, t);
    return code;
}

static bool new_like(owned_tensor *to, const DLTensor *t)
{
    return tensor_new(to, t->dtype, t->ndim, t->shape);
}

/* In the shape of what is captured; that of a number has one element. */
static bool new_gradients(job *j)
{
    const DLDataType f32 = {kDLFloat, 32, 1};
    const int64_t one = 1;
    const tilec_parameter *p;
    for (size_t i = 0; (p = tilec_attention_gradient(j->plan, i)) &&
                       j->ngradients < MOST_CAPTURED;
         i++) {
        const char *name = p->name + strlen("grad.");
        const DLTensor *of = NULL;
        for (size_t k = 0; k < j->ncaptured; k++)
            if (strcmp(j->captured[k].name, name) == 0)
                of = &j->captured_tensors[k];
        if (!tensor_new(&j->gradients[i], f32, of ? of->ndim : 1,
                        of ? of->shape : &one))
            return false;
        j->gradient_args[i] = tilec_tensor(p->name, &j->gradients[i].dl);
        j->ngradients++;
    }
    return new_like(&j->dq, &j->q) && new_like(&j->dk, &j->k) &&
           new_like(&j->dv, &j->v) &&
           (!j->sinks.dl.data || new_like(&j->dsinks, &j->sinks.dl));
}

static int put_gradients(job *j, tilec_attention_tensors *t)
{
    int code = EXIT_DONE;
    t->dout = &j->dout;
    t->dlse = j->dlse.ndim ? &j->dlse : NULL;
    t->dq = &j->dq.dl;
    t->dk = &j->dk.dl;
    t->dv = &j->dv.dl;
    t->dsinks = t->sinks ? &j->dsinks.dl : NULL;
    if ((code = device_put(&j->device, &t->dout, false)) ||
        (t->dlse && (code = device_put(&j->device, &t->dlse, false))) ||
        (code = device_put(&j->device, &t->dq, true)) ||
        (code = device_put(&j->device, &t->dk, true)) ||
        (code = device_put(&j->device, &t->dv, true)) ||
        (t->dsinks && (code = device_put(&j->device, &t->dsinks, true))))
        return code;
    for (size_t i = 0; !code && i < j->ngradients; i++)
        code = device_put(&j->device, &j->gradient_args[i].tensor, true);
    return code;
}

/* After forward, whose o and lse it reads. */
static int launch_backward(job *j, tilec_attention_tensors *t)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error e = TILEC_INIT(tilec_error);
    int code = put_gradients(j, t);
    if (code)
        return code;
    double start = seconds_now();
    code = tilec_attention_backward(j->plan, t, &o, &e)
               ? report_error(&e)
               : device_wait(tilec_attention_backward_kernel(j->plan));
    j->backward_seconds = seconds_now() - start;
    return code;
}

static int launch_forward(job *j, const tilec_attention_tensors *t,
                          const tilec_launch_options *o)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (j->cache.plan)
        return cache_launch(&j->cache, o);
    return tilec_attention_forward(j->plan, t, o, &e) ? report_error(&e)
                                                      : EXIT_DONE;
}

static int launch(job *j, const tilec_attention_tensors *t)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.progress = progress_launch;
    o.print = show_line;
    double start = seconds_now();
    int code = launch_forward(j, t, &o);
    code = code ? code : device_wait(kernel_of(j));
    j->run_seconds = seconds_now() - start;
    progress_end();
    return code;
}

/* The data type of the tensor that the kernel writes. */
static DLDataType type_of_o(const job *j)
{
    const tilec_kernel *k = kernel_of(j);
    for (size_t i = 0, n = tilec_kernel_parameter_count(k); i < n; i++) {
        const tilec_parameter *p = tilec_kernel_parameter(k, i);
        if (strcmp(p->name, "o") == 0)
            return p->dtype;
    }
    return j->q.dtype;
}

static int compute(job *j)
{
    const DLTensor *q = &j->q;
    int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2], j->v.shape[3]};
    DLDataType f32 = {kDLFloat, 32, 1};
    if (!tensor_new(&j->o, type_of_o(j), 4, shape) ||
        !tensor_new(&j->lse, f32, 3, shape) ||
        (j->wants_max && !tensor_new(&j->max, f32, 3, shape)) ||
        (j->is_backward && !new_gradients(j))) {
        report("no memory for the output");
        return EXIT_MACHINE;
    }
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.q = q;
    t.k = &j->k;
    t.v = &j->v;
    t.o = &j->o.dl;
    t.lse = &j->lse.dl;
    t.max = j->wants_max ? &j->max.dl : NULL;
    t.sinks = j->sinks.dl.data ? &j->sinks.dl : NULL;
    t.captured = j->captured;
    t.ncaptured = j->ncaptured;
    t.captured_grads = j->gradient_args;
    t.ncaptured_grads = j->ngradients;
    int code = put_tensors(j, &t);
    code = code ? code : launch(j, &t);
    if (!code && j->is_backward)
        code = launch_backward(j, &t);
    return code ? code : device_get(&j->device);
}

static void put_shape(const char *name, const DLTensor *t)
{
    printf(" %s", name);
    for (int i = 0; i < t->ndim; i++)
        printf("%c%lld", i ? 'x' : ' ', (long long)t->shape[i]);
}

static double flop_of(const job *j)
{
    return 2.0 * (double)j->q.shape[0] * (double)j->q.shape[1] *
           (double)j->q.shape[2] * (double)j->k.shape[2] *
           (double)(j->q.shape[3] + j->v.shape[3]);
}

static void describe(const job *j)
{
    const tilec_kernel *kernel = kernel_of(j);
    const char *mask = tool_value(j->args, "--mask");
    const char *score = tool_value(j->args, "--score");
    printf("%s: attention", printable(j->args->words[0]).text);
    put_shape("q", &j->q);
    put_shape("k", &j->k);
    put_shape("v", &j->v);
    printf(" %s, mask %s, score %s\n", tilec_kernel_binding(kernel, "T"),
           mask ? mask : "none", score ? score : "none");
    char machine[160];
    if (j->device.device)
        snprintf(machine, sizeof machine, "%s",
                 tilec_device_name(j->device.device));
    else
        machine_name(machine, sizeof machine);
    printf("  on %s (%s): compiled in %.1f ms, ran in %.2f ms",
           tilec_kernel_target(kernel), machine, 1e3 * j->compile_seconds,
           1e3 * j->run_seconds);
    /* The lengths of a cache are the device's. */
    if (j->cache.plan)
        printf("\n");
    else
        printf(" (%.1f GFLOP/s, all keys counted)\n",
               flop_of(j) / j->run_seconds * 1e-9);
    /* Five products instead of two. */
    if (j->is_backward)
        printf("  backward ran in %.2f ms (%.1f GFLOP/s)\n",
               1e3 * j->backward_seconds,
               2.5 * flop_of(j) / j->backward_seconds * 1e-9);
}

/* Which result a tensor of the file is compared with, by its name: dq, dq_..,
 * .. or that of a captured buffer's gradient; else o, and lse of 3 dims. */
static const DLTensor *result_for(const job *j, const DLTensor *ref,
                                  const char *name, const char **what)
{
    const struct {
        const char *name;
        const DLTensor *tensor;
    } all[] = {{"dq", &j->dq.dl},
               {"dk", &j->dk.dl},
               {"dv", &j->dv.dl},
               {"dsinks", &j->dsinks.dl}};
    int n = j->dsinks.dl.data ? 4 : 3;
    for (int i = 0; j->is_backward && i < n; i++) {
        size_t length = strlen(all[i].name);
        if (strncmp(name, all[i].name, length) == 0 &&
            (name[length] == 0 || name[length] == '_')) {
            *what = all[i].name;
            return all[i].tensor;
        }
    }
    for (size_t i = 0; i < j->ngradients; i++)
        if (strcmp(j->gradient_args[i].name, name) == 0) {
            *what = name;
            return &j->gradients[i].dl;
        }
    if (j->wants_max && strncmp(name, "max", 3) == 0) {
        *what = "max";
        return &j->max.dl;
    }
    *what = ref->ndim == 3 ? "lse" : "o";
    return ref->ndim == 3 ? &j->lse.dl : &j->o.dl;
}

static int check(const job *j)
{
    int code = EXIT_DONE;
    for (int i = 0; i < j->args->ngiven; i++) {
        if (strcmp(j->args->given[i].name, "--check") != 0)
            continue;
        DLTensor ref;
        tilec_error e = TILEC_INIT(tilec_error);
        const char *name = j->args->given[i].value;
        if (tilec_safetensors_get(j->in, name, &ref, &e))
            return report_error(&e);
        const char *what;
        const DLTensor *got = result_for(j, &ref, name, &what);
        bool of_rows = got == &j->lse.dl || got == &j->max.dl;
        double most = !j->is_narrow ? 0
                      : of_rows     ? TOLERANCE_NARROW_ABSOLUTE
                                    : TOLERANCE_NARROW;
        if (!compare(what, got, name, &ref, most, of_rows,
                     tool_has(j->args, "--json")))
            code = EXIT_INPUT;
    }
    return code;
}

static int write_output(const job *j)
{
    const char *path = tool_value(j->args, "-o");
    if (!path)
        return EXIT_DONE;
    tilec_named_tensor t[7 + MOST_CAPTURED] = {{"o", &j->o.dl},
                                               {"lse", &j->lse.dl},
                                               {"dq", &j->dq.dl},
                                               {"dk", &j->dk.dl},
                                               {"dv", &j->dv.dl}};
    size_t n = j->is_backward ? 5 : 2;
    tilec_error e = TILEC_INIT(tilec_error);
    for (size_t i = 0; i < j->ngradients; i++)
        t[n++] = (tilec_named_tensor){
            tilec_attention_gradient(j->plan, i)->name, &j->gradients[i].dl};
    if (j->wants_max)
        t[n++] = (tilec_named_tensor){"max", &j->max.dl};
    if (j->dsinks.dl.data)
        t[n++] = (tilec_named_tensor){"dsinks", &j->dsinks.dl};
    return tilec_safetensors_write(path, t, n, NULL, 0, &e) ? report_error(&e)
                                                            : EXIT_DONE;
}

static int run_job(job *j)
{
    int code;
    if ((code = check_options(j)) || (code = get_inputs(j)) ||
        (code = make_plan(j)) || (code = find_captured(j)) ||
        (code = compute(j)))
        return code;
    report_remarks(j->cx);
    describe(j);
    code = write_output(j);
    return code ? code : check(j);
}

static int attention_run(const tool_args *args)
{
    if (args->nwords != 1)
        return tool_usage(args->command,
                          "expected one file, found %d words (a check takes "
                          "tensors of that file: FILE --check o_full)",
                          args->nwords);
    job j = {.args = args};
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    bool remarks;
    if (!tool_remarks(args, &remarks))
        return EXIT_USAGE;
    o.remarks = remarks;
    if (tilec_context_new(&o, &j.cx)) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    int code = run_job(&j);
    free(j.o.dl.data);
    free(j.lse.dl.data);
    free(j.max.dl.data);
    free(j.dq.dl.data);
    free(j.dk.dl.data);
    free(j.dv.dl.data);
    free(j.sinks.dl.data);
    free(j.dsinks.dl.data);
    for (size_t i = 0; i < j.ngradients; i++)
        free(j.gradients[i].dl.data);
    for (int i = 0; i < 3; i++)
        quantized_free(&j.rounded[i]);
    device_close(&j.device);
    tilec_attention_free(j.plan);
    tilec_kvcache_free(j.cache.plan);
    tilec_safetensors_free(j.in);
    tilec_context_free(j.cx);
    return code;
}

static const tool_option options[] = {
    {"--mask", "MASK",
     "which keys a query sees: causal, sliding_window(w=1024),\n"
     "causal & !document, a | b, FILE.tile@FUNC (`tilec info mods`)"},
    {"--score", "SCORE",
     "what becomes of a score: alibi, soft_cap(cap=30),\n"
     "several in turn with `,`, FILE.tile@FUNC"},
    {"--scale", "X", "of q k^T (default: 1 / sqrt(head dim))"},
    {"--target", "TARGET", TARGET_HELP},
    {"--backward", NULL, "the gradients too, of sum(do * o)"},
    {"--do", "TENSOR", "the gradient of o (default: do)"},
    {"--dlse", "TENSOR", "the gradient of lse (default: none)"},
    {"--deterministic", NULL, "backward gives the same bits in every run"},
    {"--captured", NULL, "backward: those for what the score captures, too"},
    {"--sinks", "TENSOR",
     "a logit a head, [H], that joins the sums of its rows"},
    {"--dropout", "P", "drop weights with this probability, at random"},
    {"--seed", "N", "of --dropout (default: 0); the same one drops the same"},
    {"--kv-lens", "TENSOR",
     "k and v are a cache: the keys of each sequence, [B]; this and\n"
     "the next ones name int32 tensors of the file"},
    {"--page-table", "TENSOR",
     "[B, pages]: k and v are pages [pages, HK, keys of a page, D]"},
    {"--kv-indptr", "TENSOR",
     "[B + 1]: the pages of b are those in --kv-indices from\n"
     "element indptr[b] to indptr[b + 1] - 1"},
    {"--kv-indices", "TENSOR", "pages, one sequence after the other"},
    {"--kv-last-page-len", "TENSOR", "the keys of each last page, [B]"},
    {"--cu-seqlens-k", "TENSOR",
     "[B + 1]: k and v are [1, HK, T, D], b has the rows cu_seqlens[b]\n"
     "to cu_seqlens[b + 1] - 1"},
    {"--cu-seqlens-q", "TENSOR", "the same of q, [1, HQ, T, D]"},
    {"--query-offsets", "TENSOR",
     "[B]: the position of the first query of each sequence"},
    {"--piece", "N",
     "over a cache: pieces of N keys (a multiple of 128), so that\n"
     "results do not depend on the batch"},
    {"--max", NULL, "the largest scores of each query, too"},
    {"--quantize", "TYPE", "round q, k and v to f8e4m3 or f8e5m2 first"},
    {"--rows", "N", QUANTIZE_ROWS_HELP},
    {"--rotate", NULL, QUANTIZE_ROTATE_HELP},
    {"--enforce", "HOW", ENFORCE_HELP},
    {"--lists", "WHEN", LISTS_HELP},
    {"--option", "NAME=VALUE",
     "as FlexAttention's kernel_options: BLOCK_M, BLOCK_N1,\n"
     "num_warps, fwd_.., bwd_.., ..; an unknown one lists them"},
    {"-D", "NAME=VALUE", "the same"},
    {"-o", "FILE",
     "write o and lse (max, dq, dk, dv, dsinks, grad.NAME) there,\n"
     "as safetensors"},
    {"--check", "TENSOR...",
     "compare o (or lse, with a tensor of 3 dims; max, dq, dk, dv,\n"
     "dsinks or grad.NAME, with one of that name) with that tensor of\n"
     "the input file; beyond the tolerance (0.1 of 8-bit inputs): exit 1"},
    {"--json", NULL, "print the checks as JSON, one object a line"},
    REMARKS_OPTION,
    {0}};

const tool_command tool_attention = {
    "attention",
    "FILE.safetensors [options]",
    "Computes attention on the tensors q [B,H,M,D], k [B,HK,N,D], v "
    "[B,HK,N,DV]\n"
    "of a file, the logsumexp of each row, and the gradients.",
    "Buffers that a mask or score function captures are tensors of that file, "
    "by\ntheir names; so are descale_q, descale_k and descale_v, what numbers "
    "of 8 bits\nare times of (`tilec quantize` writes both), and "
    "scale_o.\nOver a cache, query i of M in a sequence with N keys is at "
    "position N - M + i\n(with --query-offsets: at that offset + i).\n",
    options,
    attention_run};
