/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile-time parameters of a kernel: those given, those inferred from example
 * tensors, and the resulting defaults.
 *
 *     kernel @k[D: int, DP: int = cdiv(D, 16) * 16, T: type = f32](
 *         %q: tensor<[?, D] x T>)
 *
 * with q a bf16 tensor of [100, 72]: D=72, T=bf16 (given to `bind-params`), and
 * DP=80 (known from the default, for tilec_kernel_binding).
 */
#include "lib/program/compile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct binder {
    tc_job *job;
    tc_context *cx;
    const tc_func *kernel;
    const tilec_compile_options *options;
    tc_bindings known;   /* dims and types by parameter */
    const char **values; /* texts by parameter; NULL: left to the default */
    const char **origin; /* the example that a value was inferred from */
};

/* ---- Given values ---- */

static void read_value(struct binder *b, unsigned i, const char *value)
{
    b->values[i] = tc_string_get(b->cx, value);
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 0);
    tc_kind kind = tc_kind_parse(value, strlen(value));
    /* Values that cannot be read are left for `bind-params` to report. */
    if (b->kernel->params[i].kind == TC_PARAM_INT && end != value && !*end &&
        !errno)
        b->known.dims[i] = tc_dim_const(b->cx, n);
    if (b->kernel->params[i].kind == TC_PARAM_TYPE && kind != TC_KIND_COUNT)
        b->known.types[i] = tc_type_scalar(b->cx, kind);
}

static int param_index(const struct binder *b, const char *name)
{
    for (unsigned i = 0; i < b->kernel->nparams; i++)
        if (strcmp(b->kernel->params[i].name, name) == 0)
            return (int)i;
    return -1;
}

static void read_given(struct binder *b)
{
    for (size_t i = 0; i < b->options->nbindings; i++) {
        int at = param_index(b, b->options->bindings[i].name);
        if (at >= 0)
            read_value(b, (unsigned)at, b->options->bindings[i].value);
    }
}

/* ---- Inference ---- */

static const char *where_from(struct binder *b, int param)
{
    return b->origin[param] ? tc_arena_printf(&b->cx->diag_arena, "from %s",
                                              b->origin[param])
                            : "as given";
}

static void infer_dim(struct binder *b, const char *arg, int at, int64_t value)
{
    const char *text =
        tc_arena_printf(&b->cx->diag_arena, "%lld", (long long)value);
    b->known.dims[at] = tc_dim_const(b->cx, value);
    b->values[at] = tc_string_get(b->cx, text);
    b->origin[at] = arg;
}

static bool match_dim(struct binder *b, const char *arg, unsigned i,
                      const tc_dim *pattern, int64_t actual)
{
    if (!pattern)
        return true;
    int at = pattern->kind == TC_DIM_PARAM ? param_index(b, pattern->name) : -1;
    if (at >= 0 && !b->values[at]) {
        infer_dim(b, arg, at, actual);
        return true;
    }
    int64_t n = tc_dim_value(tc_dim_substitute(b->cx, pattern, &b->known));
    if (n < 0 || n == actual)
        return true;
    if (at < 0)
        return tc_job_error(b->job, TILEC_INPUT,
                            "argument %s: dim %u is %lld, expected %lld", arg,
                            i, (long long)actual, (long long)n);
    return tc_job_error(b->job, TILEC_INPUT,
                        "argument %s: dim %u is %lld, but %s is %lld (%s)", arg,
                        i, (long long)actual, pattern->name, (long long)n,
                        where_from(b, at));
}

int64_t tc_contiguous_dim(const DLTensor *x)
{
    for (int i = x->ndim - 1; x->strides && i >= 0; i--)
        if (x->strides[i] == 1 && x->shape[i] != 1)
            return i;
    return (int64_t)x->ndim - 1;
}

/* Other strides than the type expects are none of its business: results are the
 * same. */
static void infer_contiguous(struct binder *b, const char *arg,
                             const tc_dim *pattern, const DLTensor *x)
{
    bool named = x->ndim && pattern && pattern->kind == TC_DIM_PARAM;
    int at = named ? param_index(b, pattern->name) : -1;
    if (at >= 0 && !b->values[at])
        infer_dim(b, arg, at, tc_contiguous_dim(x));
}

static bool match_elem(struct binder *b, const char *arg,
                       const tc_type *pattern, DLDataType actual)
{
    tc_kind kind = tc_kind_from_dl(actual);
    if (kind == TC_KIND_COUNT)
        return tc_job_error(b->job, TILEC_INPUT,
                            "argument %s: data type %s is none of tilec's", arg,
                            tc_dtype_name(actual).text);
    int at =
        pattern->kind == TC_TYPE_PARAM ? param_index(b, pattern->name) : -1;
    if (at >= 0 && !b->values[at]) {
        b->known.types[at] = tc_type_scalar(b->cx, kind);
        b->values[at] = tc_scalar_infos[kind].name;
        b->origin[at] = arg;
        return true;
    }
    const tc_type *t = tc_type_substitute(b->cx, pattern, &b->known);
    if (t->kind > TC_LAST_SCALAR || tc_dl_holds(actual, t->kind))
        return true;
    if (at < 0)
        return tc_job_error(
            b->job, TILEC_INPUT, "argument %s: data type is %s, expected %s",
            arg, tc_scalar_infos[kind].name, tc_scalar_infos[t->kind].name);
    return tc_job_error(b->job, TILEC_INPUT,
                        "argument %s: data type is %s, but %s is %s (%s)", arg,
                        tc_scalar_infos[kind].name, pattern->name,
                        tc_scalar_infos[t->kind].name, where_from(b, at));
}

static bool match_tensor(struct binder *b, const char *arg, const tc_type *t,
                         const DLTensor *x)
{
    if (t->kind != TC_TENSOR && t->kind != TC_PTR)
        return true; /* a scalar: the launch will say so */
    if (!match_elem(b, arg, t->elem, x->dtype))
        return false;
    if (t->kind == TC_PTR)
        return true;
    if (x->ndim < 0 || (unsigned)x->ndim != t->rank)
        return tc_job_error(b->job, TILEC_INPUT,
                            "argument %s: rank is %d, expected %u", arg,
                            x->ndim, t->rank);
    if (x->ndim && !x->shape)
        return tc_job_error(b->job, TILEC_USAGE, "argument %s: shape is NULL",
                            arg);
    bool ok = true;
    tc_kind elem = tc_type_substitute(b->cx, t->elem, &b->known)->kind;
    unsigned packed = tc_kind_is_packed(elem) ? tc_type_contiguous(t) : ~0u;
    for (unsigned i = 0; i < t->rank; i++)
        ok &= match_dim(b, arg, i, t->dims[i], x->shape[i] << (i == packed));
    infer_contiguous(b, arg, t->contiguous, x);
    return ok;
}

static bool match_example(struct binder *b, const tilec_argument *e,
                          size_t position)
{
    if (e->kind != TILEC_ARG_TENSOR || !e->tensor)
        return true;
    const tc_region *args = b->kernel->body;
    for (unsigned i = 0; i < args->nargs; i++)
        if (e->name ? strcmp(args->args[i]->name, e->name) == 0 : i == position)
            return match_tensor(b, args->args[i]->name, args->args[i]->type,
                                e->tensor);
    return true; /* perhaps a captured one, not known yet */
}

/* ---- Defaults ---- */

static const char *default_text(struct binder *b, unsigned i)
{
    const tc_param *p = &b->kernel->params[i];
    tc_text out = {.arena = &b->cx->arena};
    if (p->dim) {
        b->known.dims[i] = tc_dim_substitute(b->cx, p->dim, &b->known);
        tc_dim_print(&out, b->known.dims[i]);
    } else if (p->type) {
        b->known.types[i] = tc_type_substitute(b->cx, p->type, &b->known);
        tc_type_print(&out, b->known.types[i]);
    } else if (p->symbol) {
        tc_text_printf(&out, "@%s", p->symbol);
    }
    return out.data;
}

/* ---- All of it ---- */

static struct binder new_binder(tc_job *job, const tc_func *kernel,
                                const tilec_compile_options *options)
{
    tc_arena *a = &job->cx->arena;
    unsigned n = kernel->nparams;
    struct binder b = {.job = job,
                       .cx = job->cx,
                       .kernel = kernel,
                       .options = options,
                       .values = tc_arena_array(a, const char *, n),
                       .origin = tc_arena_array(a, const char *, n)};
    b.known = (tc_bindings){.n = n,
                            .names = tc_arena_array(a, const char *, n),
                            .dims = tc_arena_array(a, const tc_dim *, n),
                            .types = tc_arena_array(a, const tc_type *, n)};
    for (unsigned i = 0; i < n; i++)
        b.known.names[i] = kernel->params[i].name;
    return b;
}

/* For `bind-params`: what was given, as it was given (so that it reports what
 * is wrong with it), then what was inferred. */
static void list_bindings(struct binder *b, tc_binding **list, unsigned *n)
{
    const tilec_compile_options *o = b->options;
    *list = tc_arena_array(&b->cx->arena, tc_binding,
                           o->nbindings + b->kernel->nparams);
    *n = 0;
    for (size_t i = 0; i < o->nbindings; i++)
        (*list)[(*n)++] =
            (tc_binding){tc_string_get(b->cx, o->bindings[i].name),
                         tc_string_get(b->cx, o->bindings[i].value)};
    for (unsigned i = 0; i < b->kernel->nparams; i++)
        if (b->origin[i])
            (*list)[(*n)++] =
                (tc_binding){b->kernel->params[i].name, b->values[i]};
}

bool tc_bind(tc_job *job, const tc_func *kernel,
             const tilec_compile_options *options, tc_bound *out)
{
    struct binder b = new_binder(job, kernel, options);
    read_given(&b);
    bool ok = true;
    for (size_t i = 0; i < options->nexamples; i++)
        ok &= match_example(&b, &options->examples[i], i);
    if (!ok)
        return false;
    list_bindings(&b, &out->given, &out->ngiven);
    out->all = tc_arena_array(&job->cx->arena, tilec_binding, kernel->nparams);
    out->nall = kernel->nparams;
    for (unsigned i = 0; i < kernel->nparams; i++) {
        const char *value = b.values[i] ? b.values[i] : default_text(&b, i);
        out->all[i] = (tilec_binding){kernel->params[i].name, value};
    }
    return true;
}
