/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention for callers who have tensors and no interest in kernels: chooses
 * the kernel and its tiles, turns mod expressions into functions, and keeps
 * the values that the expressions give.
 */
#include "lib/config.h"
#include "lib/gpu.h"
#include "lib/mods_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Lives in the arena of its kernel's context. */
struct tilec_attention {
    tilec_kernel *kernel;
    double scale;
    tilec_argument *values; /* captured scalars */
    unsigned nvalues;
};

/* ---- Making the plan ---- */

struct request {
    const DLTensor *q, *k, *v;
    tilec_attention_options options;
    tilec_attention *plan;
};

struct plan {
    tc_job *job;
    tc_arena *arena;
    const struct request *r;
    tc_mods mods;
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

/* Rows of a query tile: 64 keep a core's registers and first cache busy; few
 * queries (decoding) take no more rows than they are. */
static const char *query_rows(int64_t length)
{
    return length <= 16 ? "16" : length <= 32 ? "32" : "64";
}

static bool has_binding(const tilec_attention_options *o, const char *name)
{
    for (size_t i = 0; i < o->nbindings; i++)
        if (strcmp(o->bindings[i].name, name) == 0)
            return true;
    return false;
}

/* What the tuned configurations say of these tensors. */
static void find_config(const struct plan *p, const tc_target *target,
                        tc_config *config)
{
    const struct request *r = p->r;
    tc_dtype_text dtype = tc_dtype_name(r->q->dtype);
    tc_config_query query = {
        .kernel = "attention_fwd",
        .target = target,
        .dtype = dtype.text,
        .d = r->q->shape[3],
        .dv = r->v->shape[3],
        .mask = p->mods.all[TC_MOD_MASK].wanted ? "masked" : "none",
        .length = r->k->shape[2],
    };
    tc_config_find(p->arena, &query, config);
}

static bool compile(struct plan *p)
{
    const struct request *r = p->r;
    const tilec_attention_options *o = &r->options;
    const char *name = o->target ? o->target : p->job->owner->target;
    const tc_target *target = tc_target_find(p->job->owner, name);
    tc_config config = {0};
    tilec_argument examples[] = {tilec_tensor("q", r->q),
                                 tilec_tensor("k", r->k),
                                 tilec_tensor("v", r->v)};
    if (target && (tc_target_is_gpu(target) || r->q->shape[2] > 32))
        find_config(p, target, &config);
    if (config.nbindings == 0 && target && !tc_target_is_gpu(target))
        config.bindings[config.nbindings++] =
            (tilec_binding){"BM", query_rows(r->q->shape[2])};
    tilec_binding *b = tc_arena_array(p->arena, tilec_binding,
                                      o->nbindings + TC_CONFIG_BINDINGS + 2);
    size_t n = 0;
    for (; n < o->nbindings; n++)
        b[n] = o->bindings[n];
    for (unsigned i = 0; i < config.nbindings; i++)
        if (!has_binding(o, config.bindings[i].name))
            b[n++] = config.bindings[i];
    if (p->mods.all[TC_MOD_MASK].wanted)
        b[n++] = (tilec_binding){"mask_mod", p->mods.all[TC_MOD_MASK].binding};
    if (p->mods.all[TC_MOD_SCORE].wanted)
        b[n++] =
            (tilec_binding){"score_mod", p->mods.all[TC_MOD_SCORE].binding};
    tilec_compile_options c = {
        .kernel = "attention_fwd",
        .target = o->target,
        .bindings = b,
        .nbindings = n,
        .examples = examples,
        .nexamples = 3,
        .warps = o->warps ? o->warps : config.warps,
        .stages = o->stages ? o->stages : config.stages,
        .ptxas_level = o->ptxas_level ? o->ptxas_level : config.ptxas_level,
        .tiles = o->tiles ? o->tiles : (tilec_tiles)config.tiles,
        .no_load = o->no_load,
        .no_cache = o->no_cache,
    };
    return tc_job_finish(p->job, &c);
}

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

static bool build(tc_job *job)
{
    struct request *r = job->request;
    struct plan p = {.job = job, .arena = &job->cx->arena, .r = r};
    tilec_source embedded = {"attention_fwd", NULL, 0};
    tc_source kernel;
    const tilec_attention_options *o = &r->options;
    tc_mods_texts texts = {
        .texts = {[TC_MOD_MASK] = o->mask, [TC_MOD_SCORE] = o->score},
        .sources = o->sources,
        .nsources = o->nsources,
        .read_source = o->read_source,
        .user = o->user};
    if (!check_tensor(job, "q", r->q) || !check_tensor(job, "k", r->k) ||
        !check_tensor(job, "v", r->v) || !tc_mods_add(job, &texts, &p.mods) ||
        !tc_job_source(job, &embedded, &kernel) ||
        !tc_job_parse(job, &kernel, 1))
        return false;
    r->plan = make_plan(&p);
    return compile(&p);
}

static const char *wrong(const struct request *r, bool options_ok)
{
    const tilec_attention_options *o = &r->options;
    if (!r->q || !r->k || !r->v)
        return "tilec_attention_plan: q, k or v is NULL";
    if (!options_ok)
        return "tilec_attention_plan: options have a wrong size: use "
               "TILEC_INIT";
    if (o->backward)
        return "tilec_attention_plan: backward is not available";
    if ((o->nsources && !o->sources) || (o->nbindings && !o->bindings))
        return "tilec_attention_plan: sources or bindings is NULL";
    for (size_t i = 0; i < o->nbindings; i++)
        if (!o->bindings[i].name || !o->bindings[i].value)
            return "tilec_attention_plan: a binding has no name or no value";
    return NULL;
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
    tc_job job = {.owner = cx, .build = build, .request = &r};
    tilec_kernel *kernel;
    tilec_status s =
        why ? tc_job_refuse(cx, why, &kernel) : tc_job_run(&job, &kernel);
    if (s != TILEC_OK)
        return s;
    r.plan->kernel = kernel;
    *out = r.plan;
    return TILEC_OK;
}

void tilec_attention_free(tilec_attention *a)
{
    if (a)
        tilec_kernel_free(a->kernel);
}

const tilec_kernel *tilec_attention_kernel(const tilec_attention *a)
{
    return a ? a->kernel : NULL;
}

/* ---- Running it ---- */

/* "offsets": the captured parameter of that name, of whichever mod. -1: none,
 * -2: several. */
static int captured_index(const tilec_kernel *k, const char *name)
{
    int found = -1;
    for (unsigned i = k->nown; i < k->nparams; i++) {
        const char *full = k->params[i].info.name;
        const char *dot = strchr(full, '.');
        if (strcmp(full, name) == 0)
            return (int)i;
        if (dot && strcmp(dot + 1, name) == 0)
            found = found == -1 ? (int)i : -2;
    }
    return found;
}

static tilec_status place_captured(const tilec_attention *a,
                                   const tilec_argument *given, size_t ngiven,
                                   tilec_argument *args, tilec_error *error)
{
    const tilec_kernel *k = a->kernel;
    for (unsigned i = 0; i < a->nvalues; i++) {
        int at = tc_kernel_param_index(k, a->values[i].name);
        if (at >= 0)
            args[at] = a->values[i];
    }
    for (size_t i = 0; i < ngiven; i++) {
        if (!given[i].name)
            return tc_fail(error, TILEC_USAGE,
                           "captured argument %zu has no name", i);
        int at = captured_index(k, given[i].name);
        if (at == -2)
            return tc_fail(error, TILEC_USAGE,
                           "both mods capture `%.64s`: say mask.%.64s or "
                           "score.%.64s",
                           given[i].name, given[i].name, given[i].name);
        if (at < 0)
            return tc_fail(error, TILEC_USAGE, "no mod captures `%.64s`",
                           given[i].name);
        args[at] = given[i];
        args[at].name = k->params[at].info.name;
    }
    return TILEC_OK;
}

/* Captured parameters without an argument stay out: the launch names them. */
static tilec_status launch(const tilec_attention *a,
                           const tilec_attention_tensors *t,
                           const DLTensor *lse, tilec_argument *args,
                           const tilec_launch_options *options,
                           tilec_error *error)
{
    const tilec_kernel *k = a->kernel;
    tilec_argument *own = args + k->nparams;
    tilec_status s = place_captured(a, t->captured, t->ncaptured, args, error);
    if (s != TILEC_OK)
        return s;
    size_t n = 0;
    own[n++] = tilec_tensor("q", t->q);
    own[n++] = tilec_tensor("k", t->k);
    own[n++] = tilec_tensor("v", t->v);
    own[n++] = tilec_tensor("o", t->o);
    own[n++] = tilec_tensor("lse", lse);
    own[n++] = tilec_float("scale", a->scale);
    for (unsigned i = k->nown; i < k->nparams; i++)
        if (args[i].name)
            own[n++] = args[i];
    return tilec_launch(k, own, n, options, error);
}

/* As many arguments as attention has but with the wildest mods: no malloc. */
enum { FEW = 32 };

static tilec_status launch_with_room(const tilec_attention *a,
                                     const tilec_attention_tensors *t,
                                     const DLTensor *lse,
                                     const tilec_launch_options *options,
                                     tilec_error *error)
{
    size_t n = 2 * (size_t)a->kernel->nparams;
    tilec_argument few[FEW];
    if (n <= FEW) {
        memset(few, 0, n * sizeof *few);
        return launch(a, t, lse, few, options, error);
    }
    tilec_argument *args = calloc(n, sizeof *args);
    tilec_status s =
        args ? launch(a, t, lse, args, options, error) : tc_fail_memory(error);
    free(args);
    return s;
}

/* A place for the logsumexp where the caller wants none. On the CPU one of its
 * size; on a GPU, where a launch must not allocate, all of it is one element
 * that every row is written to. */
struct spare {
    DLTensor lse;
    int64_t shape[3], strides[3];
    void *owned;
};

static tilec_status spare_memory(struct spare *s, tilec_error *error)
{
    int64_t n = 4;
    bool overflow = false;
    for (int i = 0; i < 3; i++)
        overflow |=
            __builtin_mul_overflow(n, s->shape[i] < 0 ? 0 : s->shape[i], &n);
    s->owned = overflow ? NULL : malloc(n ? (size_t)n : 1);
    s->lse.data = s->owned;
    return s->owned ? TILEC_OK : tc_fail_memory(error);
}

static tilec_status spare_lse(const tilec_kernel *k, const DLTensor *q,
                              struct spare *s, tilec_error *error)
{
    s->lse = (DLTensor){.device = q->device,
                        .ndim = 3,
                        .dtype = {kDLFloat, 32, 1},
                        .shape = s->shape};
    for (int i = 0; i < 3; i++)
        s->shape[i] = q->shape[i];
    if (!k->gpu)
        return spare_memory(s, error);
    s->lse.strides = s->strides;
    /* What is not on a device the launch refuses, q first. */
    s->lse.data = s;
    return q->device.device_type == kDLCPU
               ? TILEC_OK
               : tc_gpu_spare(k, q->device, &s->lse.data, error);
}

tilec_status tilec_attention_forward(const tilec_attention *a,
                                     const tilec_attention_tensors *tensors,
                                     const tilec_launch_options *options,
                                     tilec_error *error)
{
    tilec_attention_tensors t = {0};
    if (!a || !tensors || !tc_options_read(&t, sizeof t, tensors))
        return tc_fail(error, TILEC_USAGE,
                       "tilec_attention_forward: plan or tensors is NULL or of "
                       "a wrong size: use TILEC_INIT");
    if (!t.q || !t.k || !t.v || !t.o)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_attention_forward: q, k, v or o is NULL");
    if (t.ncaptured && !t.captured)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_attention_forward: captured is NULL");
    struct spare spare = {0};
    tilec_status s = TILEC_OK;
    /* A q of another rank is refused by the launch. */
    if (!t.lse && t.q->ndim == 4 && t.q->shape)
        s = spare_lse(a->kernel, t.q, &spare, error);
    if (s == TILEC_OK)
        s = launch_with_room(a, &t, t.lse ? t.lse : &spare.lse, options, error);
    free(spare.owned);
    return s;
}

tilec_status tilec_attention_workspace(const tilec_attention *a,
                                       const tilec_attention_tensors *tensors,
                                       uint64_t *forward, uint64_t *backward,
                                       tilec_error *error)
{
    if (!a || !tensors)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_attention_workspace: plan or tensors is NULL");
    if (forward)
        *forward = 0;
    if (backward)
        return tc_fail(error, TILEC_USAGE,
                       "tilec_attention_workspace: the plan has no backward");
    return TILEC_OK;
}

const tilec_parameter *tilec_attention_gradient(const tilec_attention *a,
                                                size_t index)
{
    (void)a;
    (void)index;
    return NULL;
}

tilec_status tilec_attention_backward(const tilec_attention *a,
                                      const tilec_attention_tensors *tensors,
                                      const tilec_launch_options *options,
                                      tilec_error *error)
{
    (void)tensors;
    (void)options;
    return tc_fail(error, TILEC_USAGE, "tilec_attention_backward: %s",
                   a ? "the plan has no backward" : "plan is NULL");
}
