/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention for callers who have tensors and no interest in kernels: chooses
 * the kernels and their tiles, turns mod expressions into functions, and keeps
 * the values that the expressions give.
 *
 * Forward is one kernel, or with lists of blocks a plan; backward a plan. Each
 * is a compile of its own, from the same mods.
 */
#include "lib/attention.h"

#include "lib/config.h"
#include "lib/cuda.h"
#include "lib/gpu.h"
#include "lib/link.h"
#include "lib/mask_rows.h"
#include "lib/mod_slope.h"
#include "lib/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct request {
    const DLTensor *q, *k, *v;
    tilec_attention_options options;
    tc_direction direction;
    unsigned small; /* bit of a direction: with steps half as long */
    tilec_attention *plan;
};

struct plan {
    tc_job *job;
    tc_arena *arena;
    const struct request *r;
    tc_mods mods;
    tc_attention_tuning tuning; /* what kernel_options say */
    tc_attention_lists lists;
    tc_attention_factors factors;
    const tc_target *target;
    bool rows_are_safe; /* each has a key */
};

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
    if (t->shape[3] < 1 || t->shape[3] > 1024)
        return tc_job_error(job, TILEC_INPUT,
                            "argument %s: dim 3 is %lld, expected 1 to 1024",
                            name, (long long)t->shape[3]);
    return true;
}

static bool is_8_bit(const DLTensor *t)
{
    tc_kind kind = tc_kind_from_dl(t->dtype);
    return kind == TC_F8E4M3 || kind == TC_F8E5M2;
}

/* k and v are of q's type, or 8 bits of either kind. */
static bool check_type(tc_job *job, const char *name, const DLTensor *t,
                       const DLTensor *q)
{
    if (is_8_bit(t) || tc_kind_from_dl(t->dtype) == tc_kind_from_dl(q->dtype))
        return true;
    return tc_job_error(job, TILEC_INPUT,
                        "argument %s: data type is %s, expected %s (as q), "
                        "f8e4m3 or f8e5m2",
                        name, tc_dtype_name(t->dtype).text,
                        tc_dtype_name(q->dtype).text);
}

/* Rows of a query tile: 64 keep a core's registers and first cache busy; few
 * queries (decoding) take no more rows than they are. */
static const char *query_rows(int64_t length)
{
    return length <= 16 ? "16" : length <= 32 ? "32" : "64";
}

static bool sums_are_exact(const struct plan *p)
{
    const tc_attention_tuning *t = &p->tuning;
    for (size_t i = 0; i < t->nbindings; i++)
        if (strcmp(t->bindings[i].name, "EXACT") == 0)
            return strcmp(t->bindings[i].value, "0") != 0;
    return false;
}

static const char *score_class(const struct plan *p)
{
    const tc_mod *score = &p->mods.all[TC_MOD_SCORE];
    return score->wanted &&
                   tc_is_curved(p->arena, p->job->module, score->func.name)
               ? "curved"
               : NULL;
}

static bool is_small(const struct request *r)
{
    return r->small >> r->direction & 1;
}

/* What a step of its loop takes: keys, or queries where keys stay. */
static const char *step_of(const char *kernel)
{
    return strcmp(kernel, "attention_fwd") == 0 ||
                   strcmp(kernel, "attention_bwd_dq") == 0
               ? "BN"
               : "BM";
}

static void halve_step(tc_arena *a, const char *kernel, tc_config *c)
{
    for (unsigned i = 0; i < c->nbindings; i++) {
        tilec_binding *b = &c->bindings[i];
        long side = strtol(b->value, NULL, 0);
        if (strcmp(b->name, step_of(kernel)) == 0 && side >= 32)
            b->value = tc_arena_printf(a, "%ld", (side / 2 + 15) / 16 * 16);
    }
}

/* What the tuned configurations say of a kernel for these tensors. */
static bool find_config(const struct plan *p, const char *kernel,
                        tc_config *config)
{
    const struct request *r = p->r;
    tc_dtype_text dtype = tc_dtype_name(r->q->dtype);
    tc_config_query query = {
        .kernel = kernel,
        .target = p->target,
        .dtype = dtype.text,
        .d = r->q->shape[3],
        .dv = r->v->shape[3],
        .vc = tc_contiguous_dim(r->v),
        .mask = p->mods.all[TC_MOD_MASK].wanted ? "masked" : "none",
        .score = score_class(p),
        .length = r->k->shape[2],
        .exact = sums_are_exact(p),
    };
    if (!tc_config_find(p->arena, &query, config))
        return false;
    if (is_small(r))
        halve_step(p->arena, kernel, config);
    return true;
}

/* Bindings as they are found; what is there already stays. */
struct bindings {
    tilec_binding *all;
    size_t n;
};

static void bind(struct bindings *b, const char *name, const char *value)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->all[i].name, name) == 0)
            return;
    b->all[b->n++] = (tilec_binding){name, value};
}

static void bind_all(struct bindings *b, const tilec_binding *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bind(b, list[i].name, list[i].value);
}

/* Twice the same is for `specialize` to refuse. */
static void copy_all(struct bindings *b, const tilec_binding *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b->all[b->n++] = list[i];
}

static struct bindings new_bindings(const struct plan *p)
{
    const tilec_attention_options *o = &p->r->options;
    enum { BESIDES = 2 * TC_CONFIG_BINDINGS + TC_ATTENTION_BINDINGS + 24 };
    size_t room = o->nbindings + o->nbackward_bindings + BESIDES;
    return (struct bindings){tc_arena_array(p->arena, tilec_binding, room), 0};
}

static void bind_mods(const struct plan *p, struct bindings *b)
{
    if (p->mods.all[TC_MOD_MASK].wanted)
        copy_all(b,
                 &(tilec_binding){"mask_mod", p->mods.all[TC_MOD_MASK].binding},
                 1);
    if (p->mods.all[TC_MOD_SCORE].wanted)
        copy_all(
            b, &(tilec_binding){"score_mod", p->mods.all[TC_MOD_SCORE].binding},
            1);
}

/* What a plan has to know of lists; `sides`: the names of theirs. */
static void bind_lists(const struct plan *p, struct bindings *b,
                       const char *const sides[2])
{
    for (int i = 0; i < 2; i++)
        if (p->tuning.list_sides[i])
            bind(b, sides[i], p->tuning.list_sides[i]);
    bind(b, "BATCHES", p->lists.by_batch ? "1" : "0");
    bind(b, "HEADS", p->lists.by_head ? "1" : "0");
}

/* Of queries of 8 bits: the weights meet v in that type with more digits,
 * scaled into its range; 16 bits for o, unless gradients are computed from it.
 */
static void bind_narrow(const struct plan *p, struct bindings *b)
{
    if (!is_8_bit(p->r->q))
        return;
    bind(b, "TP", "f8e4m3");
    bind(b, "PBITS", "8");
    if (!p->r->options.backward)
        bind(b, "TO", "bf16");
}

/* The options of the forward kernel within its plan are of no other kernel. */
static void keep_for_forward(struct plan *p, tilec_compile_options *c)
{
    tc_plan_tuning *t = tc_arena_new(p->arena, tc_plan_tuning);
    *t = (tc_plan_tuning){.kernel = c->kernel,
                          .warps = c->warps,
                          .stages = c->stages,
                          .ptxas_level = c->ptxas_level,
                          .tiles = c->tiles};
    p->job->tunings = t;
    p->job->ntunings = 1;
    c->kernel = "attention_forward";
    c->warps = c->stages = c->ptxas_level = 0;
    c->tiles = TILEC_TILES_ANY;
}

static bool finish_forward(struct plan *p)
{
    static const char *const sides[] = {"LQ", "LK"};
    const struct request *r = p->r;
    const tilec_attention_options *o = &r->options;
    const tc_attention_tuning *t = &p->tuning;
    tc_config config = {0};
    struct bindings b = new_bindings(p);
    tilec_argument examples[] = {tilec_tensor("q", r->q),
                                 tilec_tensor("k", r->k),
                                 tilec_tensor("v", r->v)};
    bool is_gpu = p->target && tc_target_is_gpu(p->target);
    if (p->target && (is_gpu || r->q->shape[2] > 32))
        find_config(p, "attention_fwd", &config);
    if (config.nbindings == 0 && p->target && !is_gpu)
        config.bindings[config.nbindings++] =
            (tilec_binding){"BM", query_rows(r->q->shape[2])};
    copy_all(&b, o->bindings, o->nbindings);
    bind_all(&b, p->factors.bindings, p->factors.n);
    bind_all(&b, t->bindings, t->nbindings);
    bind_all(&b, config.bindings, config.nbindings);
    if (p->factors.n) { /* the kernel's own */
        bind(&b, "BM", "64");
        bind(&b, "BN", "64");
    }
    if (!tc_config_suits(&config, b.all, b.n))
        config = (tc_config){0};
    tc_attention_fit_sides(p->arena, b.all, b.n);
    bind(&b, "MAX", o->max ? "1" : "0");
    bind(&b, "SAFE", p->rows_are_safe ? "1" : "0");
    bind_narrow(p, &b);
    if (p->lists.of_queries)
        bind_lists(p, &b, sides);
    bind_mods(p, &b);
    unsigned warps = o->warps ? o->warps : t->warps,
             stages = o->stages ? o->stages : t->stages;
    tilec_compile_options c = {
        .kernel = "attention_fwd",
        .target = o->target,
        .bindings = b.all,
        .nbindings = b.n,
        .examples = examples,
        .nexamples = 3,
        .warps = warps ? warps : config.warps,
        .stages = stages ? stages : config.stages,
        .ptxas_level = o->ptxas_level ? o->ptxas_level : config.ptxas_level,
        .tiles = o->tiles ? o->tiles : (tilec_tiles)config.tiles,
        .no_load = o->no_load,
        .no_cache = o->no_cache,
        .float32_precision = t->precision,
        .enforce = o->enforce,
    };
    if (p->lists.of_queries)
        keep_for_forward(p, &c);
    return tc_job_finish(p->job, &c);
}

/* ---- Backward ---- */

/* The kernels that are tuned, and what the plan calls their blocks. */
static const struct tuned {
    const char *kernel;
    bool is_deterministic;
    const char *rows, *columns;
} tuned[] = {{"attention_bwd", false, "BM", "BN"},
             {"attention_bwd_dkv", true, "BM", "BN"},
             {"attention_bwd_dq", true, "BMQ", "BNQ"}};
enum { NTUNED = sizeof tuned / sizeof *tuned };

static void use_config(struct plan *p, const struct tuned *t,
                       struct bindings *b, tc_plan_tuning *tuning)
{
    tc_config *c = tc_arena_new(p->arena, tc_config);
    *tuning = (tc_plan_tuning){.kernel = t->kernel};
    if (!p->target || !find_config(p, t->kernel, c))
        return;
    for (unsigned i = 0; i < c->nbindings; i++) {
        if (strcmp(c->bindings[i].name, "BM") == 0)
            bind(b, t->rows, c->bindings[i].value);
        if (strcmp(c->bindings[i].name, "BN") == 0)
            bind(b, t->columns, c->bindings[i].value);
    }
    tuning->warps = c->warps;
    tuning->stages = c->stages;
    tuning->ptxas_level = c->ptxas_level;
    tuning->tiles = (tilec_tiles)c->tiles;
}

static void bind_key_and_query_lists(const struct plan *p, struct bindings *b)
{
    static const char *const of_keys[] = {"LQ", "LK"}, *const of_queries[] = {
                                                           "LQQ", "LKQ"};
    bind(b, "KEY_LISTS", p->lists.of_keys ? "1" : "0");
    bind(b, "QUERY_LISTS", p->lists.of_queries ? "1" : "0");
    if (p->lists.of_keys)
        bind_lists(p, b, of_keys);
    if (p->lists.of_queries)
        bind_lists(p, b, of_queries);
}

/* Of the GPU that q is on, or else the current one; 0: no GPU. */
static unsigned multiprocessors(const struct plan *p)
{
    const DLDevice *at = &p->r->q->device;
    if (!p->target || !tc_target_is_gpu(p->target))
        return 0;
    const tc_cuda *cuda = tc_cuda_get(p->job->owner->cuda_library);
    if (*cuda->why_not)
        return 0;
    int i = at->device_type == kDLCUDA ? at->device_id
                                       : tc_cuda_current_device(cuda);
    return i >= 0 && i < cuda->ndevices ? cuda->devices[i].sm_count : 0;
}

/* Once BN is known. */
static void bind_split(const struct plan *p, struct bindings *b)
{
    const int64_t *q = p->r->q->shape, *k = p->r->k->shape;
    tc_attention_work w = {.batch = k[0],
                           .heads = k[1],
                           .group = k[1] > 0 ? q[1] / k[1] : 0,
                           .queries = q[2],
                           .keys = k[2],
                           .block = 64,
                           .is_masked = p->mods.all[TC_MOD_MASK].wanted};
    if (w.group < 2)
        return;
    w.sms = multiprocessors(p);
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->all[i].name, "BN") == 0)
            w.block = strtoll(b->all[i].value, NULL, 0);
    unsigned split = tc_attention_split(&w);
    if (split == 1)
        return;
    tc_remark(
        p->job->cx, (tc_loc){0}, "attention",
        "%u programs share the %lld query heads of a block of keys: blocks "
        "are few for %u multiprocessors",
        split, (long long)w.group, w.sms);
    bind(b, "SPLIT", tc_arena_printf(p->arena, "%u", split));
}

static bool finish_backward(struct plan *p)
{
    const struct request *r = p->r;
    const tilec_attention_options *o = &r->options;
    const tc_attention_tuning *t = &p->tuning;
    struct bindings b = new_bindings(p);
    tc_plan_tuning *tunings = tc_arena_array(p->arena, tc_plan_tuning, NTUNED);
    tilec_argument examples[] = {tilec_tensor("q", r->q),
                                 tilec_tensor("k", r->k),
                                 tilec_tensor("v", r->v)};
    copy_all(&b, o->backward_bindings, o->nbackward_bindings);
    bind_all(&b, t->bindings, t->nbindings);
    bool deterministic = o->deterministic != 0;
    for (int i = 0; i < NTUNED; i++)
        if (tuned[i].is_deterministic == deterministic)
            use_config(p, &tuned[i], &b, &tunings[p->job->ntunings++]);
    p->job->tunings = tunings;
    bind(&b, "DETERMINISTIC", deterministic ? "1" : "0");
    bind(&b, "CAPTURED", o->captured_gradients ? "1" : "0");
    bind_key_and_query_lists(p, &b);
    bind_split(p, &b);
    bind_mods(p, &b);
    tilec_compile_options c = {
        .kernel = "attention_backward",
        .target = o->target,
        .bindings = b.all,
        .nbindings = b.n,
        .examples = examples,
        .nexamples = 3,
        .warps = t->warps,
        .stages = t->stages,
        .no_load = o->no_load,
        .no_cache = o->no_cache,
        .float32_precision = t->precision,
        .enforce = o->enforce,
    };
    return tc_job_finish(p->job, &c);
}

/* ---- All of it ---- */

static void keep_values(tilec_attention *a, const tc_mod *m)
{
    for (unsigned i = 0; i < m->func.nvalues; i++) {
        const tc_mod_value *v = &m->func.values[i];
        a->values[a->nvalues++] = v->number.is_float
                                      ? tilec_float(v->name, v->number.f)
                                      : tilec_int(v->name, v->number.i);
    }
}

static tilec_attention *make_plan(struct plan *p)
{
    const tilec_attention_options *o = &p->r->options;
    tilec_attention *a = tc_arena_new(p->arena, tilec_attention);
    a->has_max = o->max != 0;
    a->scale = o->scale;
    if (o->scale == 0.0 || isnan(o->scale))
        a->scale = 1.0 / sqrt((double)p->r->q->shape[3]);
    a->values = tc_arena_array(p->arena, tilec_argument,
                               p->mods.all[0].func.nvalues +
                                   p->mods.all[1].func.nvalues);
    keep_values(a, &p->mods.all[0]);
    keep_values(a, &p->mods.all[1]);
    return a;
}

static bool read_mods(struct plan *p)
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

static void add_functions(const tilec_binding *list, size_t n,
                          const char **names, unsigned *nnames)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].value[0] == '@')
            names[(*nnames)++] = list[i].value + 1;
}

/* Functions that bindings name: descale_k=@per_head. */
static const char **bound_functions(const struct plan *p, unsigned *n)
{
    const tilec_attention_options *o = &p->r->options;
    const tc_attention_factors *f = &p->factors;
    const char **names =
        tc_arena_array(p->arena, const char *, o->nbindings + f->n);
    *n = 0;
    add_functions(o->bindings, o->nbindings, names, n);
    add_functions(f->bindings, f->n, names, n);
    return names;
}

/* A plan with what it launches. */
static bool parse_program(struct plan *p, const char *name)
{
    tilec_source embedded = {name, NULL, 0};
    tc_source program;
    unsigned n, nnames;
    const char **names = bound_functions(p, &nnames);
    if (!tc_job_source(p->job, &embedded, &program))
        return false;
    tc_source *linked = tc_link(p->arena, &program, 1, names, nnames, &n);
    return tc_job_parse(p->job, linked, n) && tc_job_parse(p->job, &program, 1);
}

/* Two kernels that compute dk and dv, and dq, may be faster than one that adds
 * dq up; captured gradients would lose by what else `deterministic` means. */
static void prefer_pair(const struct plan *p, tilec_attention_options *o)
{
    tc_config c;
    if (p->target && !o->captured_gradients &&
        find_config(p, "attention_bwd", &c) && c.pair)
        o->deterministic = 1;
}

static bool build(tc_job *job)
{
    struct request *r = job->request;
    struct plan p = {.job = job, .arena = &job->cx->arena, .r = r};
    bool forward = r->direction == TC_FORWARD;
    const char *target =
        r->options.target ? r->options.target : job->owner->target;
    p.target = tc_target_find(job->owner, target);
    if (!check_tensor(job, "q", r->q) || !check_tensor(job, "k", r->k) ||
        !check_tensor(job, "v", r->v) ||
        (forward && (!check_type(job, "k", r->k, r->q) ||
                     !check_type(job, "v", r->v, r->q) ||
                     !tc_attention_find_factors(job, &r->options, r->q, r->k,
                                                r->v, &p.factors))) ||
        !tc_attention_read_options(job, &r->options, r->direction, &p.tuning) ||
        !read_mods(&p))
        return false;
    if (is_small(r))
        tc_remark(job->cx, (tc_loc){0}, "attention",
                  "steps half as long as configured: those lose speed in the "
                  "assembler");
    const char *key = NULL;
    if (forward)
        key = tc_mask_sure_key(job, &p.mods.all[TC_MOD_MASK], r->q->shape[2],
                               r->k->shape[2]);
    p.rows_are_safe = key != NULL;
    if (!forward)
        prefer_pair(&p, &r->options);
    p.lists = tc_attention_find_lists(job, &r->options, r->direction, r->q,
                                      r->k, &p.mods.all[TC_MOD_MASK]);
    if (!parse_program(&p, forward && !p.lists.of_queries ? "attention_fwd"
                                                          : "attention"))
        return false;
    if (!forward)
        return finish_backward(&p);
    r->plan = make_plan(&p);
    return finish_forward(&p);
}

static bool is_wrong_list(const tilec_binding *list, size_t n)
{
    for (size_t i = 0; list && i < n; i++)
        if (!list[i].name || !list[i].value)
            return true;
    return n && !list;
}

static const char *wrong(const struct request *r, bool options_ok)
{
    const tilec_attention_options *o = &r->options;
    if (!r->q || !r->k || !r->v)
        return "tilec_attention_plan: q, k or v is NULL";
    if (!options_ok)
        return "tilec_attention_plan: options have a wrong size: use "
               "TILEC_INIT";
    if (o->nsources && !o->sources)
        return "tilec_attention_plan: sources is NULL";
    if (is_wrong_list(o->bindings, o->nbindings) ||
        is_wrong_list(o->backward_bindings, o->nbackward_bindings))
        return "tilec_attention_plan: a binding has no name or no value";
    if (is_wrong_list(o->kernel_options, o->nkernel_options))
        return "tilec_attention_plan: a kernel option has no name or no value";
    if (!o->backward && (o->deterministic || o->captured_gradients))
        return "tilec_attention_plan: deterministic and captured_gradients are "
               "of backward, which is not asked for";
    return NULL;
}

static tilec_status compile(tilec_context *cx, struct request *r,
                            tc_direction direction, tilec_kernel **out)
{
    r->direction = direction;
    tc_job job = {.owner = cx,
                  .build = build,
                  .request = r,
                  .is_nested = direction == TC_BACKWARD};
    return tc_job_run(&job, out);
}

/* Has an assembler refused to make fast code of it? */
static bool has_loss(const tilec_context *cx)
{
    for (const tilec_diagnostic *d = tilec_diagnostics(cx); d; d = d->next)
        if (d->severity == TILEC_ERROR && tc_loss_find(d->message))
            return true;
    return false;
}

static tilec_status compile_all(tilec_context *cx, struct request *r,
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

tilec_status tilec_attention_plan(tilec_context *cx, const DLTensor *q,
                                  const DLTensor *k, const DLTensor *v,
                                  const tilec_attention_options *options,
                                  tilec_attention **out)
{
    if (!cx || !out)
        return TILEC_USAGE;
    *out = NULL;
    struct request r = {.q = q, .k = k, .v = v};
    bool ok = tc_options_read(&r.options, sizeof r.options, options);
    const char *why = wrong(&r, ok);
    tilec_kernel *forward, *backward;
    if (why)
        return tc_job_refuse(cx, why, &forward);
    tilec_status s = compile_all(cx, &r, &forward, &backward);
    /* What a mod computes may need the registers of a tuned step. */
    while (s == TILEC_MACHINE && has_loss(cx) && !is_small(&r)) {
        r.small |= 1u << r.direction;
        s = compile_all(cx, &r, &forward, &backward);
    }
    if (s != TILEC_OK)
        return s;
    r.plan->forward = forward;
    r.plan->backward = backward;
    *out = r.plan;
    return TILEC_OK;
}

void tilec_attention_free(tilec_attention *a)
{
    if (!a)
        return;
    tilec_kernel_free(a->backward);
    tilec_kernel_free(a->forward);
}

const tilec_kernel *tilec_attention_kernel(const tilec_attention *a)
{
    return a ? a->forward : NULL;
}

const tilec_kernel *tilec_attention_backward_kernel(const tilec_attention *a)
{
    return a ? a->backward : NULL;
}
