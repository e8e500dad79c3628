/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs planned attention: turns tensors and captured values into the arguments
 * of the forward kernel, or of the plan that computes the gradients.
 */
#include "lib/attention/attention.h"
#include "lib/mods/captured.h"

#include "lib/gpu/gpu.h"
#include "lib/overlap.h"

#include <stdlib.h>
#include <string.h>

/* Arguments by parameter; those without a name are not there. */
struct call {
    const tilec_attention *a;
    const tilec_kernel *k;
    const tilec_attention_tensors *t;
    const DLTensor *lse, *max; /* also where the caller wants none */
    const DLTensor *dsinks;    /* likewise, of backward */
    tilec_argument *captured;  /* by parameter of k */
    tilec_argument *args;
    size_t nargs;
    uint64_t *workspace; /* what is asked for, in place of a launch; or NULL */
    tilec_error *error;
};

static void place_sinks(const struct call *c)
{
    static const char name[] = "sink.sinks";
    int at = tc_kernel_param_index(c->k, name);
    if (c->t->sinks && at >= 0)
        c->captured[at] = tilec_tensor(name, c->t->sinks);
}

static tilec_status place_captured(const struct call *c)
{
    const tilec_attention *a = c->a;
    tc_captured_values(c->k, a->values, a->nvalues, c->captured);
    place_sinks(c);
    tilec_status s = tc_captured_place(c->k, c->t->captured, c->t->ncaptured,
                                       c->captured, c->error);
    if (s != TILEC_OK || c->k != a->backward)
        return s;
    return tc_captured_place_gradients(c->k, c->t->captured_grads,
                                       c->t->ncaptured_grads, c->captured,
                                       c->error);
}

/* ---- Launching ---- */

static void add_tensor(struct call *c, const char *name, const DLTensor *t)
{
    c->args[c->nargs++] = tilec_tensor(name, t);
}

static void add_inputs(struct call *c)
{
    add_tensor(c, "q", c->t->q);
    add_tensor(c, "k", c->t->k);
    add_tensor(c, "v", c->t->v);
}

static void add_own(struct call *c)
{
    const tilec_attention_tensors *t = c->t;
    add_inputs(c);
    add_tensor(c, "o", t->o);
    add_tensor(c, "lse", c->lse);
    c->args[c->nargs++] = tilec_float("scale", c->a->scale);
    if (c->max)
        add_tensor(c, "max", c->max);
    if (c->k != c->a->backward)
        return;
    add_tensor(c, "do", t->dout);
    add_tensor(c, "dlse", t->dlse ? t->dlse : c->lse);
    add_tensor(c, "dq", t->dq);
    add_tensor(c, "dk", t->dk);
    add_tensor(c, "dv", t->dv);
    c->args[c->nargs++] = tilec_int("with_dlse", t->dlse != NULL);
    add_tensor(c, "dsinks", c->dsinks);
}

/* One of the kernels, which have code. */
static const tilec_kernel *any_kernel(const tilec_kernel *k)
{
    return k->plan ? tilec_kernel_part(k, 0) : k;
}

/* The gradient for a number, one element, where the caller does not want it. */
struct unwanted {
    DLTensor dl;
    int64_t shape[1];
    float host;
};

static bool is_number(const tilec_parameter *p)
{
    return tc_is_gradient(p->name) && p->ndim == 1 && p->shape[0] == 1;
}

static tilec_status add_unwanted(struct call *c, struct unwanted *u,
                                 const tilec_parameter *p, void *stream)
{
    *u = (struct unwanted){.shape = {1}};
    u->dl = (DLTensor){.data = &u->host,
                       .device = c->t->q->device,
                       .ndim = 1,
                       .dtype = {kDLFloat, 32, 1},
                       .shape = u->shape};
    add_tensor(c, p->name, &u->dl);
    if (!tc_target_is_gpu(c->k->target) ||
        c->t->q->device.device_type == kDLCPU)
        return TILEC_OK;
    return tc_gpu_spare(any_kernel(c->k), c->t->q->device, stream, &u->dl.data,
                        c->error);
}

/* Captured parameters without an argument stay out: the launch names them. */
static tilec_status attention_run_call(struct call *c,
                                       const tilec_launch_options *options)
{
    tilec_status s = place_captured(c);
    if (s != TILEC_OK)
        return s;
    add_own(c);
    struct unwanted unwanted;
    for (unsigned i = c->k->nown; s == TILEC_OK && i < c->k->nparams; i++)
        if (c->captured[i].name)
            c->args[c->nargs++] = c->captured[i];
        else if (is_number(&c->k->params[i].info))
            s = add_unwanted(c, &unwanted, &c->k->params[i].info,
                             options->stream);
    if (s != TILEC_OK)
        return s;
    return tilec_launch(c->k, c->args, c->nargs, options, c->error);
}

/* The size of the workspace, from what there is: it may be that of what is
 * captured, and of its gradients. */
static tilec_status measure(struct call *c)
{
    tilec_status s = place_captured(c);
    if (s != TILEC_OK)
        return s;
    add_inputs(c);
    for (unsigned i = c->k->nown; i < c->k->nparams; i++)
        if (c->captured[i].name)
            c->args[c->nargs++] = c->captured[i];
    return tilec_kernel_workspace(c->k, c->args, c->nargs, c->workspace,
                                  c->error);
}

/* As many arguments as attention has but with the wildest mods: no malloc. */
enum { FEW = 40 };

static tilec_status call_with_room(struct call *c,
                                   const tilec_launch_options *options)
{
    size_t n = 2 * (size_t)c->k->nparams;
    tilec_argument few[FEW];
    c->captured = few;
    if (n > FEW)
        c->captured = malloc(n * sizeof *c->captured);
    if (!c->captured)
        return tc_fail_memory(c->error);
    memset(c->captured, 0, n * sizeof *c->captured);
    c->args = c->captured + c->k->nparams;
    tilec_status s = c->workspace ? measure(c) : attention_run_call(c, options);
    if (n > FEW)
        free(c->captured);
    return s;
}

/* ---- Forward ---- */

/* A place for a result that the caller does not want: of each row (the
 * logsumexp, the largest score) or head (the gradient of its sink). On the CPU
 * one of its size; on a GPU, where a launch must not allocate, all of it is one
 * element that every result is written to. */
struct spare {
    DLTensor tensor;
    int64_t shape[3], strides[3];
    void *owned;
};

static tilec_status spare_memory(struct spare *s, tilec_error *error)
{
    int64_t n = 4;
    bool overflow = false;
    for (int i = 0; i < s->tensor.ndim; i++)
        overflow |=
            __builtin_mul_overflow(n, s->shape[i] < 0 ? 0 : s->shape[i], &n);
    s->owned = overflow ? NULL : malloc(n ? (size_t)n : 1);
    s->tensor.data = s->owned;
    return s->owned ? TILEC_OK : tc_fail_memory(error);
}

/* With these sizes. */
static tilec_status spare_result(const tilec_kernel *k, const DLTensor *q,
                                 int ndim, const int64_t *shape, void *stream,
                                 struct spare *s, tilec_error *error)
{
    s->tensor = (DLTensor){.device = q->device,
                           .ndim = ndim,
                           .dtype = {kDLFloat, 32, 1},
                           .shape = s->shape};
    memcpy(s->shape, shape, (size_t)ndim * sizeof *shape);
    for (int i = 0; i < ndim; i++)
        if (shape[i] == 0)
            return TILEC_OK;
    if (!tc_target_is_gpu(k->target))
        return spare_memory(s, error);
    s->tensor.strides = s->strides;
    /* Tensors that are not on a device are refused by the launch, q first. */
    s->tensor.data = s;
    return q->device.device_type == kDLCPU
               ? TILEC_OK
               : tc_gpu_spare(any_kernel(k), q->device, stream, &s->tensor.data,
                              error);
}

static tilec_status spare_rows(const tilec_kernel *k, const DLTensor *q,
                               void *stream, struct spare *s,
                               tilec_error *error)
{
    return spare_result(k, q, 3, q->shape, stream, s, error);
}

static tilec_status place_rows(struct call *c, void *stream, struct spare *lse,
                               struct spare *max)
{
    const tilec_attention_tensors *t = c->t;
    tilec_status s = TILEC_OK;
    /* A q of another rank is refused by the launch. */
    bool is_sound = t->q->ndim == 4 && t->q->shape;
    c->lse = t->lse ? t->lse : &lse->tensor;
    if (!t->lse && is_sound)
        s = spare_rows(c->k, t->q, stream, lse, c->error);
    /* A plan passes something on. */
    if (c->k->plan && !c->a->has_max)
        c->max = c->lse;
    if (!c->a->has_max || s != TILEC_OK)
        return s;
    c->max = t->max ? t->max : &max->tensor;
    return !t->max && is_sound ? spare_rows(c->k, t->q, stream, max, c->error)
                               : s;
}

/* The checks of all calls. */
static tilec_status read_tensors(const tilec_attention *a,
                                 const tilec_attention_tensors *from,
                                 const char *function,
                                 tilec_attention_tensors *t, tilec_error *error)
{
    if (!a || !from || !tc_options_read(t, sizeof *t, from))
        return tc_fail(error, TILEC_USAGE,
                       "%s: plan or tensors is NULL or of a wrong size: use "
                       "TILEC_INIT",
                       function);
    if ((t->ncaptured && !t->captured) ||
        (t->ncaptured_grads && !t->captured_grads))
        return tc_fail(error, TILEC_USAGE, "%s: captured is NULL", function);
    if (!tc_arguments_fit(t->captured, t->ncaptured) ||
        !tc_arguments_fit(t->captured_grads, t->ncaptured_grads))
        return tc_fail(error, TILEC_USAGE,
                       "%s: an argument has a wrong size: use tilec_tensor, "
                       "tilec_int or tilec_float",
                       function);
    return TILEC_OK;
}

static tilec_status read_call(const tilec_attention *a,
                              const tilec_attention_tensors *tensors,
                              const tilec_launch_options *options,
                              const char *function, tilec_attention_tensors *t,
                              tilec_launch_options *o, tilec_error *error)
{
    tilec_status s = read_tensors(a, tensors, function, t, error);
    if (s != TILEC_OK)
        return s;
    if (!tc_options_read(o, sizeof *o, options))
        return tc_fail(error, TILEC_USAGE,
                       "%s: options have a wrong size: use TILEC_INIT",
                       function);
    o->size = sizeof *o;
    o->workspace = t->workspace;
    o->workspace_bytes = t->workspace_bytes;
    return TILEC_OK;
}

/* The tensors that forward and backward both read. */
static tilec_status check_sinks(const struct call *c, const char *function)
{
    const DLTensor *sinks = c->t->sinks, *q = c->t->q;
    if (!c->a->has_sinks && (sinks || c->t->dsinks))
        return tc_fail(c->error, TILEC_USAGE,
                       "%s: the plan takes no sinks: it was made without that "
                       "option",
                       function);
    if (c->a->has_sinks && !sinks)
        return tc_fail(c->error, TILEC_USAGE,
                       "%s: sinks is NULL, which the plan was made for",
                       function);
    if (!sinks || q->ndim != 4 || !q->shape)
        return TILEC_OK;
    if (sinks->ndim != 1 || !sinks->shape)
        return tc_fail(c->error, TILEC_INPUT,
                       "argument sinks: rank is %d, expected 1 (heads of q)",
                       sinks->ndim);
    if (sinks->shape[0] != q->shape[1])
        return tc_fail(c->error, TILEC_INPUT,
                       "argument sinks: dim 0 is %lld, expected %lld (heads of "
                       "q)",
                       (long long)sinks->shape[0], (long long)q->shape[1]);
    return TILEC_OK;
}

/* Refuses results that lie where something else does. */
static tilec_status check_views(const tilec_attention_tensors *t,
                                tilec_error *error)
{
    const tc_named_tensor all[] = {{"argument o", t->o},
                                   {"argument lse", t->lse},
                                   {"argument q", t->q},
                                   {"argument k", t->k},
                                   {"argument v", t->v}};
    enum { ALL = sizeof all / sizeof *all };
    tilec_status s = tc_check_written(&all[0], all + 1, ALL - 1, t->q, error);
    return s == TILEC_OK
               ? tc_check_written(&all[1], all + 2, ALL - 2, NULL, error)
               : s;
}

tilec_status tilec_attention_forward(const tilec_attention *a,
                                     const tilec_attention_tensors *tensors,
                                     const tilec_launch_options *options,
                                     tilec_error *error)
{
    static const char name[] = "tilec_attention_forward";
    tilec_attention_tensors t = {0};
    tilec_launch_options o = {0};
    tilec_status s = read_call(a, tensors, options, name, &t, &o, error);
    if (s != TILEC_OK)
        return s;
    if (!t.q || !t.k || !t.v || !t.o)
        return tc_fail(error, TILEC_USAGE, "%s: q, k, v or o is NULL", name);
    if (t.max && !a->has_max)
        return tc_fail(error, TILEC_USAGE,
                       "%s: the plan gives no max: it was made without that "
                       "option",
                       name);
    struct spare lse = {0}, max = {0};
    struct call c = {.a = a, .k = a->forward, .t = &t, .error = error};
    /* Splits are for speed: without room for them there are none. */
    if (a->unsplit && !t.workspace)
        c.k = a->unsplit;
    s = check_sinks(&c, name);
    if (s == TILEC_OK)
        s = check_views(&t, error);
    if (s == TILEC_OK)
        s = place_rows(&c, o.stream, &lse, &max);
    if (s == TILEC_OK)
        s = call_with_room(&c, &o);
    free(lse.owned);
    free(max.owned);
    return s;
}

/* ---- Backward ---- */

static tilec_status no_backward(const char *function, tilec_error *error)
{
    return tc_fail(error, TILEC_USAGE,
                   "%s: the plan has no backward: it was made without that "
                   "option",
                   function);
}

/* A plan without sinks takes one for no head. */
static tilec_status place_dsinks(struct call *c, void *stream,
                                 struct spare *spare)
{
    const DLTensor *q = c->t->q;
    int64_t heads =
        c->a->has_sinks && q->ndim == 4 && q->shape ? q->shape[1] : 0;
    c->dsinks = c->t->dsinks ? c->t->dsinks : &spare->tensor;
    return c->t->dsinks
               ? TILEC_OK
               : spare_result(c->k, q, 1, &heads, stream, spare, c->error);
}

tilec_status tilec_attention_backward(const tilec_attention *a,
                                      const tilec_attention_tensors *tensors,
                                      const tilec_launch_options *options,
                                      tilec_error *error)
{
    static const char name[] = "tilec_attention_backward";
    tilec_attention_tensors t = {0};
    tilec_launch_options o = {0};
    tilec_status s = read_call(a, tensors, options, name, &t, &o, error);
    if (s != TILEC_OK)
        return s;
    if (!a->backward)
        return no_backward(name, error);
    if (!t.q || !t.k || !t.v || !t.o || !t.lse || !t.dout)
        return tc_fail(error, TILEC_USAGE,
                       "%s: q, k, v, o, lse or dout is NULL", name);
    if (!t.dq || !t.dk || !t.dv)
        return tc_fail(error, TILEC_USAGE, "%s: dq, dk or dv is NULL", name);
    struct spare dsinks = {0};
    struct call c = {
        .a = a, .k = a->backward, .t = &t, .lse = t.lse, .error = error};
    s = check_sinks(&c, name);
    if (s == TILEC_OK)
        s = place_dsinks(&c, o.stream, &dsinks);
    if (s == TILEC_OK)
        s = call_with_room(&c, &o);
    free(dsinks.owned);
    return s;
}

const tilec_parameter *tilec_attention_gradient(const tilec_attention *a,
                                                size_t index)
{
    const tilec_kernel *k = a ? a->backward : NULL;
    for (unsigned i = k ? k->nown : 0; k && i < k->nparams; i++)
        if (tc_is_gradient(k->params[i].info.name) && index-- == 0)
            return &k->params[i].info;
    return NULL;
}

/* ---- Workspace ---- */

tilec_status tilec_attention_workspace(const tilec_attention *a,
                                       const tilec_attention_tensors *tensors,
                                       uint64_t *forward, uint64_t *backward,
                                       tilec_error *error)
{
    static const char name[] = "tilec_attention_workspace";
    tilec_attention_tensors t = {0};
    tilec_status s = read_tensors(a, tensors, name, &t, error);
    if (s != TILEC_OK)
        return s;
    if (!t.q || !t.k || !t.v)
        return tc_fail(error, TILEC_USAGE, "%s: q, k or v is NULL", name);
    if (backward && !a->backward)
        return no_backward(name, error);
    struct call of[] = {
        {.k = a->forward, .workspace = forward},
        {.k = a->backward, .workspace = backward},
    };
    for (int i = 0; i < 2; i++) {
        of[i].a = a;
        of[i].t = &t;
        of[i].error = error;
        if (of[i].workspace && s == TILEC_OK)
            s = call_with_room(&of[i], NULL);
    }
    return s;
}
