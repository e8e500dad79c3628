/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans attention over a cache: compiles of kernels/attention_kvcache.tile, of
 * the schedule, of the kernel that computes attention by it, and where splits
 * are the rule, of the kernel that merges pieces.
 */
#include "lib/kvcache/kvcache.h"

#include "lib/gpu/gpu.h"
#include "lib/kvcache/kvcache_choice.h"
#include "lib/kvcache/kvcache_reach.h"
#include "lib/mods/mods_job.h"
#include "lib/program/link.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

static const char program[] = "attention_kvcache"; /* the text */

/* Of a program that merges: one, so that no row's sum crosses warps. */
enum { MERGE_WARPS = 1 };

enum part { FORWARD, SCHEDULE, MERGE, PARTS };
static const char *const kernels[PARTS] = {
    [FORWARD] = "attention_kvcache",
    [SCHEDULE] = "kvcache_schedule",
    [MERGE] = "kvcache_merge",
};

/* The arguments of tilec_kvcache_plan; a job's `request`. */
struct request {
    const DLTensor *q, *k, *v;
    tilec_kvcache_options options;
    enum part part;          /* the compile in hand */
    const tc_target *target; /* NULL: there is none of that name */
    tc_kv_choice choice;
    unsigned smaller; /* how often tiles are made smaller */
    tilec_kvcache *plan;
};

/* ---- Checks ---- */

enum { MOST_PAGE = 65536, MOST_DIM = 1024 };

static bool check_tensor(tc_job *job, const char *name, const DLTensor *t)
{
    if (t->ndim != 4 || !t->shape)
        return tc_job_error(job, TILEC_INPUT,
                            "argument %s: rank is %d, expected 4", name,
                            t->ndim);
    if (t->shape[3] < 1 || t->shape[3] > MOST_DIM)
        return tc_job_error(job, TILEC_INPUT,
                            "argument %s: dim 3 is %lld, expected 1 to %d",
                            name, (long long)t->shape[3], MOST_DIM);
    return true;
}

static bool is_float(tc_kind kind)
{
    return kind == TC_F16 || kind == TC_BF16 || kind == TC_F32;
}

static bool check_types(tc_job *job, const struct request *r)
{
    tc_kind q = tc_kind_from_dl(r->q->dtype);
    if (!is_float(q))
        return tc_job_error(job, TILEC_INPUT,
                            "argument q: data type is %s, expected f32, f16 or "
                            "bf16",
                            tc_dtype_name(r->q->dtype).text);
    const DLTensor *const all[] = {r->k, r->v};
    for (int i = 0; i < 2; i++) {
        tc_kind kind = tc_kind_from_dl(all[i]->dtype);
        if (kind != q && !tc_kind_is_f8(kind))
            return tc_job_error(
                job, TILEC_INPUT,
                "argument %c: data type is %s, expected %s (as q), f8e4m3 or "
                "f8e5m2",
                "kv"[i], tc_dtype_name(all[i]->dtype).text,
                tc_dtype_name(r->q->dtype).text);
    }
    return true;
}

static bool check_shapes(tc_job *job, const struct request *r)
{
    const int64_t *q = r->q->shape, *k = r->k->shape;
    if (k[1] < 1 || q[1] % k[1] != 0 || q[1] < 1)
        return tc_job_error(job, TILEC_INPUT,
                            "q has %lld heads, k %lld: expected a multiple",
                            (long long)q[1], (long long)k[1]);
    if (q[3] != k[3])
        return tc_job_error(job, TILEC_INPUT,
                            "argument k: dim 3 is %lld, expected %lld as of q",
                            (long long)k[3], (long long)q[3]);
    bool paged = r->options.layout >= TILEC_KV_PAGED;
    if (paged && (k[2] < 1 || k[2] > MOST_PAGE))
        return tc_job_error(job, TILEC_INPUT,
                            "argument k: a page has %lld keys, expected 1 to "
                            "%d",
                            (long long)k[2], MOST_PAGE);
    return true;
}

static bool check_v_in_k(tc_job *job, const struct request *r)
{
    if (!r->options.v_in_k && r->v->data && tc_kv_is_in(r->v, r->k))
        tc_missed(job->cx, (tc_loc){0}, "attention",
                  "v is the first columns of k: with v_in_k they are loaded "
                  "once for both");
    if (!r->options.v_in_k || tc_kv_is_in(r->v, r->k))
        return true;
    return tc_job_error(job, TILEC_INPUT,
                        "argument v: is not the first columns of k, as v_in_k "
                        "says: expected its data, data type, sides but for dim "
                        "3, and strides");
}

/* Which function of mods/kvcache.tile reads the factors. NULL: none does. */
static const char *factor_function(const DLTensor *factors, const DLTensor *of)
{
    const int64_t *size = factors->shape, *cache = of->shape;
    if (factors->ndim == 1 && size[0] == 1)
        return "@cache_factor";
    if (factors->ndim == 1 && size[0] == cache[1])
        return "@cache_head_factor";
    if (factors->ndim == 3 && size[0] == cache[0] && size[1] == cache[1] &&
        size[2] == cache[2])
        return "@cache_row_factor";
    return NULL;
}

static bool check_factors(tc_job *job, const char *name,
                          const DLTensor *factors, const DLTensor *of)
{
    const int64_t *cache = of->shape;
    if (!factors || (factors->shape && factor_function(factors, of)))
        return true;
    return tc_job_error(job, TILEC_INPUT,
                        "argument %s: expected the shape [1], [%lld] or "
                        "[%lld, %lld, %lld]",
                        name, (long long)cache[1], (long long)cache[0],
                        (long long)cache[1], (long long)cache[2]);
}

/* ---- Bindings ---- */

/* The arguments that tell the kernels where keys lie. */
static const struct {
    const char *count, *place;
} functions[] = {
    [TILEC_KV_DENSE] = {"@counted_keys", "@dense_place"},
    [TILEC_KV_RAGGED] = {"@ragged_keys", "@ragged_place"},
    [TILEC_KV_PAGED] = {"@counted_keys", "@paged_place"},
    [TILEC_KV_INDEXED] = {"@indexed_keys", "@indexed_place"},
};

enum { BINDINGS = 24 };
struct bindings {
    tilec_binding *all;
    size_t n;
};

static void bind(struct bindings *b, const char *name, const char *value)
{
    b->all[b->n++] = (tilec_binding){name, value};
}

static void bind_number(struct bindings *b, tc_arena *arena, const char *name,
                        int64_t value)
{
    bind(b, name, tc_arena_printf(arena, "%lld", (long long)value));
}

static bool is_bytes(const DLTensor *t)
{
    return tc_kind_is_f8(tc_kind_from_dl(t->dtype));
}

/* Caches of 8 bits meet q and weights in f16: it holds what they do, and GPUs
 * widen to it in a quarter of the instructions that bf16 takes. Weights are
 * in its range where no key has a factor of its own. */
static void bind_products(struct bindings *b, const struct request *r)
{
    const DLTensor *factors = r->options.descale_v;
    tc_kind q = tc_kind_from_dl(r->q->dtype);
    if (q == TC_F32)
        return;
    if (is_bytes(r->k)) {
        bind(b, "TM", "f16");
        bind(b, "SCALE_ROWS", q == TC_BF16 ? "1" : "0");
    }
    if (is_bytes(r->v) && (!factors || factors->ndim == 1)) {
        bind(b, "TP", "f16");
        bind(b, "P_SHIFT", "15");
        bind(b, "ONE_FACTOR", factors ? "1" : "0");
    }
}

static struct bindings bindings_of(const struct request *r, tc_arena *arena)
{
    const tilec_kvcache_options *o = &r->options;
    struct bindings b = {tc_arena_array(arena, tilec_binding, BINDINGS), 0};
    bind_number(&b, arena, "GROUP", r->plan->group);
    bind_number(&b, arena, "BM", r->plan->block);
    if (r->part != SCHEDULE)
        bind(&b, "BY_HEADS", r->plan->by_heads ? "1" : "0");
    if (o->sinks && r->part != SCHEDULE)
        bind(&b, "sink", "@head_sinks");
    if (o->query_offsets && r->part != MERGE)
        bind(&b, "query_position", "@given_positions");
    if (r->part == MERGE) {
        bind_number(&b, arena, "DV", r->v->shape[3]);
        bind_number(&b, arena, "MANY", r->choice.many);
        bind_number(&b, arena, "PARTS", r->choice.parts);
        bind_number(&b, arena, "MOST_COLUMNS", r->choice.columns);
        bind_number(&b, arena, "PROGRAMS", r->choice.programs);
        bind(&b, "TO",
             tc_arena_printf(arena, "%s", tc_dtype_name(r->q->dtype).text));
        return b;
    }
    bind_number(&b, arena, "BN", r->choice.keys);
    bind_number(&b, arena, "PAGE",
                o->layout >= TILEC_KV_PAGED ? r->k->shape[2] : 1);
    if (r->part == FORWARD) {
        bind(&b, "key_place", functions[o->layout].place);
        bind(&b, "CHECK",
             r->target && !tc_target_is_gpu(r->target) ? "1" : "0");
        bind(&b, "NEGATIVE", r->plan->scale < 0 ? "1" : "0");
        bind_number(&b, arena, "TAIL", r->choice.tail);
        if (r->choice.is_pieced)
            return b;
        if (o->descale_k)
            bind(&b, "descale_k", factor_function(o->descale_k, r->k));
        if (o->descale_v)
            bind(&b, "descale_v", factor_function(o->descale_v, r->v));
        bind_products(&b, r);
        bind(&b, "V_IN_K", o->v_in_k ? "1" : "0");
        bind(&b, "WHOLE_STEPS", r->choice.has_many_rows ? "1" : "0");
        bind(&b, "ONCE",
             r->target && r->target->wgmma && !r->choice.has_many_rows ? "1"
                                                                       : "0");
        bind(&b, "MERGE", r->plan->merges_apart ? "0" : "1");
        return b;
    }
    bind(&b, "key_count", functions[o->layout].count);
    bind_number(&b, arena, "PIECE", o->piece);
    if (o->ragged_queries)
        bind(&b, "query_span", "@ragged_queries");
    return b;
}

static void bind_mods(struct bindings *b, const tc_mods *mods)
{
    static const char *const names[] = {
        [TC_MOD_MASK] = "mask_mod", [TC_MOD_SCORE] = "score_mod"};
    for (int i = 0; i < 2; i++)
        if (mods->all[i].wanted)
            bind(b, names[i], mods->all[i].binding);
}

/* ---- The compiles ---- */

static bool parse_program(tc_job *job, const struct bindings *b)
{
    tilec_source embedded = tilec_text(program, NULL, 0);
    tc_source source;
    tc_wanted *names = tc_arena_array(&job->cx->arena, tc_wanted, b->n);
    unsigned n, nnames = 0;
    for (size_t i = 0; i < b->n; i++)
        if (b->all[i].value[0] == '@')
            names[nnames++].name = b->all[i].value + 1;
    if (!tc_job_source(job, &embedded, &source))
        return false;
    tc_texts texts = {.sources = &source, .nsources = 1, .before = job->module};
    tc_source *linked = tc_link(job->cx, &texts, names, nnames, &n);
    return linked && tc_job_parse(job, linked, n) &&
           tc_job_parse(job, &source, 1);
}

static tilec_kvcache *make_plan(tc_job *job, const struct request *r,
                                const tc_mods *mods)
{
    tilec_kvcache *c = tc_arena_new(&job->cx->arena, tilec_kvcache);
    tc_kvcache_keep_options(c, &r->options, r->q, r->k);
    c->nvalues = tc_mods_values(mods, &job->cx->arena, &c->values);
    return c;
}

static void choose(struct request *r, unsigned sms)
{
    r->choice = tc_kv_choose(r->q, r->k, r->v, &r->options, r->target, sms);
    for (unsigned i = 0; i < r->smaller; i++)
        tc_kv_make_smaller(&r->choice, r->plan->group);
    r->plan->sms = sms;
    r->plan->block = r->choice.rows;
    r->plan->by_heads = r->choice.by_heads;
    r->plan->merges_apart = r->choice.merges_apart;
    r->plan->per_sm = r->choice.per_sm;
}

static bool finish(tc_job *job, const struct request *r,
                   const struct bindings *b)
{
    const tilec_kvcache_options *o = &r->options;
    const tilec_argument examples[] = {tilec_tensor("q", r->q),
                                       tilec_tensor("k", r->k),
                                       tilec_tensor("v", r->v)};
    bool pieced = r->part == FORWARD && r->choice.is_pieced;
    tilec_compile_options c = {.kernel = pieced ? "attention_kvcache_latent"
                                                : kernels[r->part],
                               .target = o->target,
                               .bindings = b->all,
                               .nbindings = b->n,
                               .no_load = o->no_load,
                               .no_cache = o->no_cache};
    if (r->part == FORWARD) {
        c.examples = tc_arena_copy(&job->cx->arena, examples, sizeof examples);
        c.nexamples = 3;
        c.tiles = r->choice.runs_ahead ? TILEC_TILES_DYNAMIC : TILEC_TILES_NONE;
        c.warps = r->choice.warps;
        c.stages = r->choice.stages;
    }
    if (r->part == MERGE)
        c.warps = MERGE_WARPS;
    return tc_job_finish(job, &c);
}

/* A schedule depends on the mask alone. */
static bool add_mods(tc_job *job, const struct request *r, tc_mods *mods)
{
    const tilec_kvcache_options *o = &r->options;
    bool scores = r->part == FORWARD;
    tc_mods_texts texts = {.texts = {[TC_MOD_MASK] = o->mask,
                                     [TC_MOD_SCORE] = scores ? o->score : NULL},
                           .sources = o->sources,
                           .nsources = o->nsources,
                           .read_source = o->read_source,
                           .user = o->user};
    return tc_mods_add(job, &texts, mods);
}

static bool build_forward(tc_job *job, struct request *r)
{
    const tilec_kvcache_options *o = &r->options;
    tc_mods mods;
    if (!check_tensor(job, "q", r->q) || !check_tensor(job, "k", r->k) ||
        !check_tensor(job, "v", r->v) || !check_types(job, r) ||
        !check_shapes(job, r) || !check_v_in_k(job, r) ||
        !check_factors(job, "descale_k", o->descale_k, r->k) ||
        !check_factors(job, "descale_v", o->descale_v, r->v) ||
        !add_mods(job, r, &mods))
        return false;
    r->plan = make_plan(job, r, &mods);
    r->target =
        tc_target_find(job->owner, o->target ? o->target : job->owner->target);
    choose(r, tc_gpu_multiprocessors(job->owner, r->target, r->q->device));
    struct bindings b = bindings_of(r, &job->cx->arena);
    bind_mods(&b, &mods);
    return parse_program(job, &b) && finish(job, r, &b);
}

static bool build_schedule(tc_job *job, struct request *r)
{
    tc_mods mods;
    if (!add_mods(job, r, &mods))
        return false;
    struct bindings b = bindings_of(r, &job->cx->arena);
    const char *reach;
    if (!parse_program(job, &b) ||
        !tc_kv_find_reach(job, &mods.all[TC_MOD_MASK], r->choice.keys,
                          r->plan->has_offsets, &reach))
        return false;
    r->plan->has_reach = reach != NULL;
    if (r->plan->has_reach)
        bind(&b, "reach", reach);
    return finish(job, r, &b);
}

static bool build_merge(tc_job *job, struct request *r)
{
    struct bindings b = bindings_of(r, &job->cx->arena);
    return parse_program(job, &b) && finish(job, r, &b);
}

static bool build(tc_job *job)
{
    static bool (*const parts[PARTS])(tc_job *, struct request *) = {
        [FORWARD] = build_forward,
        [SCHEDULE] = build_schedule,
        [MERGE] = build_merge,
    };
    struct request *r = job->request;
    return parts[r->part](job, r);
}

static tilec_status compile(tilec_context *cx, struct request *r,
                            enum part part, tilec_kernel **out)
{
    r->part = part;
    tc_job job = {.owner = cx,
                  .build = build,
                  .request = r,
                  .is_nested = part != FORWARD};
    return tc_job_run(&job, out);
}

static bool needs_too_much(const tilec_diagnostic *d)
{
    while (d && !(d->severity == TILEC_ERROR &&
                  strstr(d->message, TC_TOO_MUCH_SHARED)))
        d = d->next;
    return d != NULL;
}

static tilec_status compile_all(tilec_context *cx, struct request *r,
                                tilec_kernel *made[PARTS])
{
    tilec_status s = TILEC_OK;
    for (int i = 0; s == TILEC_OK && i < PARTS; i++)
        if (i != MERGE || r->plan->merges_apart)
            s = compile(cx, r, (enum part)i, &made[i]);
    for (int i = 0; s != TILEC_OK && i < PARTS; i++)
        tilec_kernel_free(made[i]);
    for (int i = 0; s != TILEC_OK && i < PARTS; i++)
        made[i] = NULL;
    return s;
}

/* Wide heads of f32 may need more shared memory than there is: smaller tiles,
 * as often as that helps. */
static tilec_status compile_fitting(tilec_context *cx, struct request *r,
                                    tilec_kernel *made[PARTS])
{
    enum { MOST_TIMES = 8 };
    tilec_status s = compile_all(cx, r, made);
    while (s != TILEC_OK && r->smaller < MOST_TIMES &&
           needs_too_much(tilec_diagnostics(cx))) {
        r->smaller++;
        s = compile_all(cx, r, made);
    }
    return s;
}

/* ---- All of them ---- */

tilec_status tc_kvcache_compile(tilec_context *cx, void *request,
                                tilec_kvcache **out)
{
    const tc_kvcache_request *given = request;
    struct request r = {
        .q = given->q, .k = given->k, .v = given->v, .options = given->options};
    tilec_kernel *made[PARTS] = {0};
    tilec_status s = compile_fitting(cx, &r, made);
    if (s != TILEC_OK)
        return s;
    r.plan->forward = made[FORWARD];
    r.plan->schedule = made[SCHEDULE];
    r.plan->merge = made[MERGE];
    tilec_error e = TILEC_INIT(tilec_error);
    if (cx->recorder)
        s = tc_kvcache_record(cx, given, r.plan, &e);
    if (s != TILEC_OK) {
        tilec_kvcache_free(r.plan);
        return tc_say(cx, s, e.message);
    }
    *out = r.plan;
    return TILEC_OK;
}
