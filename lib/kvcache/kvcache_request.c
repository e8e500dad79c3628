/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec_kvcache_plan: from a bundle of the context that has such a plan, else
 * from the compiler, where there is one.
 */
#include "lib/kvcache/kvcache.h"

#include "lib/bundle/bundle.h"
#include "lib/gpu/gpu.h"

#include <math.h>
#include <stdlib.h>

static const char *wrong(const tc_kvcache_request *r, bool options_ok)
{
    const tilec_kvcache_options *o = &r->options;
    if (!r->q || !r->k || !r->v)
        return "tilec_kvcache_plan: q, k or v is NULL";
    if (!options_ok)
        return "tilec_kvcache_plan: options have a wrong size: use TILEC_INIT";
    if (o->nsources && !o->sources)
        return "tilec_kvcache_plan: sources is NULL";
    if (!tc_sources_fit(o->sources, o->nsources))
        return "tilec_kvcache_plan: a source has a wrong size: use tilec_text";
    if ((unsigned)o->layout > TILEC_KV_INDEXED)
        return "tilec_kvcache_plan: layout is none of tilec_kv_layout";
    if (o->piece < 0 || o->piece % 128 != 0 || o->piece > INT32_MAX)
        return "tilec_kvcache_plan: piece is no multiple of 128 keys";
    return NULL;
}

/* ---- The handle ---- */

void tc_kvcache_keep_options(tilec_kvcache *c, const tilec_kvcache_options *o,
                             const DLTensor *q, const DLTensor *k)
{
    c->layout = o->layout;
    c->ragged_queries = o->ragged_queries != 0;
    c->piece = o->piece;
    c->has_sinks = o->sinks != 0;
    c->has_offsets = o->query_offsets != 0;
    c->has_factors[0] = o->descale_k != NULL;
    c->has_factors[1] = o->descale_v != NULL;
    c->v_in_k = o->v_in_k != 0;
    c->group = q->shape[1] / k->shape[1];
    c->scale = o->scale;
    if (o->scale == 0.0 || isnan(o->scale))
        c->scale = 1.0 / sqrt((double)q->shape[3]);
}

void tilec_kvcache_free(tilec_kvcache *c)
{
    if (!c)
        return;
    tilec_kernel_free(c->merge);
    tilec_kernel_free(c->schedule);
    tilec_kernel_free(c->forward);
}

const tilec_kernel *tilec_kvcache_kernel(const tilec_kvcache *c)
{
    return c ? c->forward : NULL;
}

/* ---- Bundles ---- */

/* Of a tensor of factors: kernels differ by whose they are, not by how many
 * rows there are. */
static void add_factors(tc_text *key, const char *name, const DLTensor *f)
{
    if (f && f->shape)
        tc_key_add_text(key, name,
                        f->ndim == 3       ? "rows"
                        : f->shape[0] == 1 ? "one"
                                           : "heads");
}

static void make_key(const void *user, tc_text *key)
{
    const tc_kvcache_request *r = user;
    const tilec_kvcache_options *o = &r->options;
    static const char *const layouts[] = {[TILEC_KV_DENSE] = "dense",
                                          [TILEC_KV_RAGGED] = "ragged",
                                          [TILEC_KV_PAGED] = "paged",
                                          [TILEC_KV_INDEXED] = "indexed"};
    tc_key_add_tensor(key, "q", r->q);
    tc_key_add_tensor(key, "k", r->k);
    tc_key_add_tensor(key, "v", r->v);
    tc_key_add_number(key, "d", r->q->shape[3]);
    tc_key_add_number(key, "dv", r->v->shape[3]);
    tc_key_add_number(key, "group", r->q->shape[1] / r->k->shape[1]);
    tc_key_add_text(key, "layout", layouts[o->layout]);
    if (o->layout >= TILEC_KV_PAGED)
        tc_key_add_number(key, "page", r->k->shape[2]);
    tc_key_add_text(key, "mask", o->mask);
    tc_key_add_text(key, "score", o->score);
    tc_key_add_sources(key, o->sources, o->nsources);
    tc_key_add_number(key, "ragged_queries", o->ragged_queries != 0);
    tc_key_add_number(key, "piece", o->piece);
    tc_key_add_number(key, "sinks", o->sinks != 0);
    tc_key_add_number(key, "v_in_k", o->v_in_k != 0);
    tc_key_add_number(key, "query_offsets", o->query_offsets != 0);
    tc_key_add_number(key, "negative_scale", o->scale < 0);
    add_factors(key, "descale_k", o->descale_k);
    add_factors(key, "descale_v", o->descale_v);
}

char *tc_kvcache_key(tilec_context *cx, const tc_kvcache_request *r,
                     tc_bundle_request *out)
{
    const char *target = r->options.target ? r->options.target : cx->target;
    char *key = tc_bundle_key(make_key, r);
    *out = (tc_bundle_request){
        .kind = "kvcache",
        .key = key,
        .target = tc_target_find(cx, target),
        .any_target = tc_target_is_auto(target),
        .nsides = 3,
        .sides = {r->q->shape[2], r->q->shape[0], r->q->shape[1]}};
    return key;
}

struct reading {
    const tc_kvcache_request *r;
    tc_record facts;
    tilec_kernel *forward;
    tilec_kvcache *c;
};

static bool read_number(tc_record facts, const char *name, int64_t least,
                        int64_t *out)
{
    return tc_record_int(tc_record_get(facts, name), least, INT32_MAX, out);
}

static void read_facts(void *arg)
{
    struct reading *x = arg;
    tc_arena *a = &x->forward->cx->arena;
    tilec_kvcache *c = tc_arena_new(a, tilec_kvcache);
    int64_t sms, per_sm;
    tc_kvcache_keep_options(c, &x->r->options, x->r->q, x->r->k);
    c->has_reach = tc_record_is_set(tc_record_get(x->facts, "reach"));
    c->by_heads = tc_record_is_set(tc_record_get(x->facts, "by_heads"));
    bool ok = read_number(x->facts, "block", 1, &c->block) &&
              read_number(x->facts, "sms", 0, &sms) &&
              read_number(x->facts, "per_sm", 0, &per_sm) &&
              tc_facts_values(x->facts, "values", a, &c->values, &c->nvalues);
    c->sms = ok ? (unsigned)sms : 0;
    c->per_sm = ok ? (unsigned)per_sm : 0;
    if (ok)
        x->c = c;
}

static tilec_status make_plan(tilec_context *cx, const tc_kvcache_request *r,
                              const tc_bundle_entry *e, tilec_kvcache **out,
                              tilec_error *error)
{
    struct reading x = {.r = r, .facts = e->facts};
    tilec_kernel *schedule = NULL, *merge = NULL;
    tilec_status s = tc_bundle_kernel(cx, e, "forward", &x.forward, error);
    if (s == TILEC_OK)
        s = tc_bundle_kernel(cx, e, "schedule", &schedule, error);
    if (s == TILEC_OK && tc_bundle_has(e, "merge"))
        s = tc_bundle_kernel(cx, e, "merge", &merge, error);
    if (s == TILEC_OK && !tc_guard(&x.forward->cx->memory, read_facts, &x))
        s = tc_fail_memory(error);
    if (s == TILEC_OK && !x.c)
        s = tc_fail(error, TILEC_INPUT, "%s: entry `%s` has no sound facts",
                    e->bundle->name, e->key);
    if (s != TILEC_OK) {
        tilec_kernel_free(merge);
        tilec_kernel_free(schedule);
        tilec_kernel_free(x.forward);
        return s;
    }
    x.c->forward = x.forward;
    x.c->schedule = schedule;
    x.c->merge = merge;
    x.c->merges_apart = merge != NULL;
    /* Work is dealt to the GPU that there is, not to the one that the plan was
     * made for. */
    unsigned sms = tc_gpu_multiprocessors(cx, x.forward->target, r->q->device);
    x.c->sms = sms ? sms : x.c->sms;
    *out = x.c;
    return TILEC_OK;
}

static const tc_bundle_entry *
find(tilec_context *cx, const tc_kvcache_request *r, char *why, size_t room)
{
    tc_bundle_request request;
    const tc_bundle_entry *e = NULL;
    char *key = tc_kvcache_key(cx, r, &request);
    if (key && request.target)
        e = tc_bundle_find(cx, &request, why, room);
    free(key);
    return e;
}

static bool is_sound(const DLTensor *t)
{
    return t->ndim == 4 && t->shape && t->shape[1] > 0;
}

tilec_status tilec_kvcache_plan(tilec_context *cx, const DLTensor *q,
                                const DLTensor *k, const DLTensor *v,
                                const tilec_kvcache_options *options,
                                tilec_kvcache **out)
{
    if (!out)
        return TILEC_USAGE;
    *out = NULL;
    if (!cx)
        return TILEC_USAGE;
    tc_kvcache_request r = {.q = q, .k = k, .v = v};
    bool ok = tc_options_read(&r.options, sizeof r.options, options);
    const char *why_not = wrong(&r, ok);
    char why[400] = "q, k or v is no tensor of 4 dims, or the target unknown";
    if (why_not)
        return tc_say(cx, TILEC_USAGE, why_not);
    bool looks = (cx->bundles || !tc_the_compiler) && is_sound(q) &&
                 is_sound(k) && is_sound(v);
    const tc_bundle_entry *e = looks ? find(cx, &r, why, sizeof why) : NULL;
    if (!e)
        return tc_the_compiler ? tc_the_compiler->kvcache(cx, &r, out)
                               : tc_say(cx, TILEC_INPUT, why);
    tilec_error error = TILEC_INIT(tilec_error);
    tc_diagnostics_clear(cx);
    tilec_status s = make_plan(cx, &r, e, out, &error);
    return s == TILEC_OK ? s : tc_say(cx, s, error.message);
}
