/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention for callers who have tensors and no interest in kernels: chooses
 * the kernels, turns mod expressions into functions, and keeps the values of
 * the expressions.
 *
 * Forward is one kernel, or with lists of blocks a plan; backward a plan. Each
 * is a compile of its own, from the same mods.
 */
#include "lib/attention/attention.h"

#include "lib/attention/mask_rows.h"
#include "lib/gpu/gpu.h"
#include "lib/program/link.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

static bool check_tensor(tc_job *job, const char *name, const DLTensor *t)
{
    if (t->ndim != 4)
        return tc_job_error(job, TILEC_INPUT,
                            "argument %s: rank is %d, expected 4 (batch, "
                            "heads, length, dim)",
                            name, t->ndim);
    if (!t->shape)
        return tc_job_error(job, TILEC_USAGE, "argument %s: shape is NULL",
                            name);
    for (int i = 0; i < 3; i++)
        if (t->shape[i] < 0 || t->shape[i] > TC_MAX_SIZE)
            return tc_job_error(job, TILEC_INPUT,
                                "argument %s: dim %d is %lld, expected 0 to %d",
                                name, i, (long long)t->shape[i], TC_MAX_SIZE);
    if (t->shape[3] < 1 || t->shape[3] > 1024)
        return tc_job_error(job, TILEC_INPUT,
                            "argument %s: dim 3 is %lld, expected 1 to 1024",
                            name, (long long)t->shape[3]);
    return true;
}

/* k and v are of q's type, or 8 bits of either kind. */
static bool check_type(tc_job *job, const char *name, const DLTensor *t,
                       const DLTensor *q)
{
    tc_kind kind = tc_kind_from_dl(t->dtype);
    if (tc_kind_is_f8(kind) || kind == tc_kind_from_dl(q->dtype))
        return true;
    return tc_job_error(job, TILEC_INPUT,
                        "argument %s: data type is %s, expected %s (as q), "
                        "f8e4m3 or f8e5m2",
                        name, tc_dtype_name(t->dtype).text,
                        tc_dtype_name(q->dtype).text);
}

static tilec_attention *make_plan(tc_attention_job *p)
{
    const tilec_attention_options *o = &p->r->options;
    tilec_attention *a = tc_arena_new(p->arena, tilec_attention);
    a->has_max = o->max != 0;
    a->has_sinks = o->sinks != 0;
    a->scale = tc_attention_scale(p->r);
    a->nvalues = tc_mods_values(&p->mods, p->arena, &a->values);
    return a;
}

static bool read_mods(tc_attention_job *p)
{
    const tilec_attention_options *o = &p->r->options;
    tc_mods_texts texts = {
        .texts = {[TC_MOD_MASK] = o->mask, [TC_MOD_SCORE] = o->score},
        .sources = o->sources,
        .nsources = o->nsources,
        .read_source = o->read_source,
        .user = o->user};
    return tc_mods_add(p->job, &texts, &p->mods);
}

static void add_functions(const tilec_binding *list, size_t n, tc_wanted *names,
                          unsigned *nnames)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].value[0] == '@')
            names[(*nnames)++].name = list[i].value + 1;
}

/* Functions that bindings name: descale_k=@per_head. */
static tc_wanted *bound_functions(const tc_attention_job *p, unsigned *n)
{
    const tilec_attention_options *o = &p->r->options;
    const tc_attention_factors *f = &p->factors;
    tc_wanted *names =
        tc_arena_array(p->arena, tc_wanted, o->nbindings + f->n + 2);
    *n = 0;
    add_functions(o->bindings, o->nbindings, names, n);
    add_functions(f->bindings, f->n, names, n);
    if (o->sinks)
        add_functions(&tc_attention_sink, 1, names, n);
    if (o->dropout)
        add_functions(&tc_attention_dropout, 1, names, n);
    return names;
}

/* A plan with what it launches. */
static bool parse_program(tc_attention_job *p, const char *name)
{
    tilec_source embedded = tilec_text(name, NULL, 0);
    tc_source program;
    unsigned n, nnames;
    tc_wanted *names = bound_functions(p, &nnames);
    if (!tc_job_source(p->job, &embedded, &program))
        return false;
    tc_texts texts = {
        .sources = &program, .nsources = 1, .before = p->job->module};
    tc_source *linked = tc_link(p->job->cx, &texts, names, nnames, &n);
    return linked && tc_job_parse(p->job, linked, n) &&
           tc_job_parse(p->job, &program, 1);
}

static bool is_float(tc_job *job, const DLTensor *q)
{
    tc_kind kind = tc_kind_from_dl(q->dtype);
    if (tc_kind_is_f8(kind) || kind == TC_F16 || kind == TC_BF16 ||
        kind == TC_F32)
        return true;
    return tc_job_error(job, TILEC_INPUT,
                        "argument q: data type is %s, expected f32, f16, bf16, "
                        "f8e4m3 or f8e5m2",
                        tc_dtype_name(q->dtype).text);
}

static bool check_tensors(tc_job *job, const tc_attention_request *r)
{
    return check_tensor(job, "q", r->q) && check_tensor(job, "k", r->k) &&
           check_tensor(job, "v", r->v) && is_float(job, r->q) &&
           check_type(job, "k", r->k, r->q) && check_type(job, "v", r->v, r->q);
}

/* Before the kernels are in its module. */
static tc_attention_lists find_lists(const tc_attention_job *p)
{
    const tc_attention_request *r = p->r;
    return tc_attention_find_lists(p->job, &r->options, r->direction, r->q,
                                   r->k, &p->mods.all[TC_MOD_MASK]);
}

static bool build_forward(tc_attention_job *p, tc_attention_request *r)
{
    p->lists = find_lists(p);
    p->copies_values = tc_attention_copies_values(p);
    if (!tc_attention_find_pieces(p))
        return false;
    bool is_plan = p->lists.of_queries || p->copies_values;
    if (!parse_program(p, p->splits_keys ? "attention_split"
                          : is_plan      ? "attention"
                                         : "attention_fwd"))
        return false;
    r->plan = make_plan(p);
    return tc_attention_finish_forward(p);
}

static bool build_backward(tc_attention_job *p, tilec_attention_options *o)
{
    if (tc_attention_prefers_pair(p))
        o->deterministic = 1;
    p->lists = find_lists(p);
    return parse_program(p, "attention") && tc_attention_finish_backward(p);
}

static bool attention_build(tc_job *job)
{
    tc_attention_request *r = job->request;
    tilec_attention_options *o = &r->options;
    tc_attention_job p = {.job = job, .arena = &job->cx->arena, .r = r};
    bool forward = r->direction == TC_FORWARD;
    p.target =
        tc_target_find(job->owner, o->target ? o->target : job->owner->target);
    if (!check_tensors(job, r) ||
        (forward &&
         !tc_attention_find_factors(job, o, r->q, r->k, r->v, &p.factors)) ||
        !tc_attention_read_options(job, o, r->direction, &p.tuning) ||
        !read_mods(&p))
        return false;
    if (r->smaller[r->direction])
        tc_missed(job->cx, (tc_loc){0}, "attention",
                  "tiles smaller than configured: those take too much shared "
                  "memory, or lose speed in the assembler");
    return forward ? build_forward(&p, r) : build_backward(&p, o);
}

/* ---- The compiles ---- */

static tilec_status compile(tilec_context *cx, tc_attention_request *r,
                            tc_direction direction, tilec_kernel **out)
{
    r->direction = direction;
    tc_job job = {.owner = cx,
                  .build = attention_build,
                  .request = r,
                  .is_nested = direction == TC_BACKWARD};
    return tc_job_run(&job, out);
}

/* How often smaller tiles may help: often where they take more shared memory
 * than there is; at times where an assembler refuses to make fast code. */
static unsigned smallest(const tilec_context *cx)
{
    for (const tilec_diagnostic *d = tilec_diagnostics(cx); d; d = d->next) {
        if (d->severity != TILEC_ERROR)
            continue;
        if (strstr(d->message, TC_TOO_MUCH_SHARED))
            return 8;
        if (tc_loss_find(d->message))
            return 2;
    }
    return 0;
}

static tilec_status compile_all(tilec_context *cx, tc_attention_request *r,
                                tilec_kernel **forward, tilec_kernel **backward)
{
    *forward = *backward = NULL;
    tilec_status s = compile(cx, r, TC_FORWARD, forward);
    if (s == TILEC_OK && r->options.backward)
        s = compile(cx, r, TC_BACKWARD, backward);
    if (s != TILEC_OK)
        tilec_kernel_free(*forward);
    return s;
}

int64_t tilec_attention_variant(const tilec_context *cx, const DLTensor *q,
                                const DLTensor *k, const DLTensor *v,
                                const tilec_attention_options *options)
{
    tilec_attention_options o;
    const DLTensor *const all[] = {q, k, v};
    bool is_forced = false;
    if (!cx || !tc_options_read(&o, sizeof o, options))
        return -1;
    for (int i = 0; i < 3; i++)
        if (!all[i] || all[i]->ndim != 4 || !all[i]->shape)
            return -1;
    for (size_t i = 0; o.kernel_options && i < o.nkernel_options; i++)
        is_forced |= tc_attention_forces_pieces(&o.kernel_options[i]);
    const tc_target *target =
        tc_target_find(cx, o.target ? o.target : cx->target);
    unsigned sms = tc_gpu_multiprocessors(cx, target, q->device);
    return tc_attention_pieces_of(q, k, v, target, sms, is_forced) * 2 +
           tc_attention_has_few_blocks(q, k, sms);
}

/* Makes the handle whole. False: there is no memory, or code that is to be
 * recorded in a bundle would be slow. */
static tilec_status finish(tilec_context *cx, tc_attention_request *r,
                           tilec_kernel *forward, tilec_kernel *backward)
{
    tilec_error e = TILEC_INIT(tilec_error);
    r->plan->forward = forward;
    r->plan->unsplit = tc_attention_unsplit(forward);
    r->plan->backward = backward;
    if (!cx->recorder)
        return TILEC_OK;
    tilec_status s = tc_attention_record(cx, r, &e);
    if (s == TILEC_OK)
        return s;
    tilec_attention_free(r->plan);
    return tc_say(cx, s, e.message);
}

static tilec_status attempt(tilec_context *cx, tc_attention_request *r)
{
    tilec_kernel *forward, *backward;
    tilec_status s = compile_all(cx, r, &forward, &backward);
    return s == TILEC_OK ? finish(cx, r, forward, backward) : s;
}

tilec_status tc_attention_compile(tilec_context *cx, void *request,
                                  tilec_attention **out)
{
    tc_attention_request *r = request;
    tilec_status s = attempt(cx, r);
    /* Wide heads, or what a mod computes, may need what a tile takes. */
    while (s != TILEC_OK && r->smaller[r->direction] < smallest(cx)) {
        r->smaller[r->direction]++;
        s = attempt(cx, r);
    }
    if (s == TILEC_OK)
        *out = r->plan;
    return s;
}
