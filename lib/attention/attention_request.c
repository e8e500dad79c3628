/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec_attention_plan: from a bundle of the context that has such a plan, else
 * from the compiler, where there is one.
 */
#include "lib/attention/attention.h"

#include "lib/bundle/bundle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The call ---- */

static bool is_wrong_list(const tilec_binding *list, size_t n)
{
    for (size_t i = 0; list && i < n; i++)
        if (!list[i].name || !list[i].value)
            return true;
    return n && !list;
}

static const char *wrong(const tc_attention_request *r, bool options_ok)
{
    const tilec_attention_options *o = &r->options;
    if (!r->q || !r->k || !r->v)
        return "tilec_attention_plan: q, k or v is NULL";
    if (!options_ok)
        return "tilec_attention_plan: options have a wrong size: use "
               "TILEC_INIT";
    if (o->nsources && !o->sources)
        return "tilec_attention_plan: sources is NULL";
    if (!tc_sources_fit(o->sources, o->nsources))
        return "tilec_attention_plan: a source has a wrong size: use "
               "tilec_text";
    if (is_wrong_list(o->bindings, o->nbindings) ||
        is_wrong_list(o->backward_bindings, o->nbackward_bindings))
        return "tilec_attention_plan: a binding has no name or no value";
    if (is_wrong_list(o->kernel_options, o->nkernel_options))
        return "tilec_attention_plan: a kernel option has no name or no value";
    if ((unsigned)o->enforce >= TC_ENFORCE_COUNT ||
        (unsigned)o->tiles >= TC_TILES_COUNT)
        return "tilec_attention_plan: enforce is none of tilec_enforce, or "
               "tiles none of tilec_tiles";
    if (o->stages > 16 || o->ptxas_level > 3)
        return "tilec_attention_plan: expected at most 16 stages, a "
               "ptxas_level of at most 3";
    if (!o->backward && (o->deterministic || o->captured_gradients))
        return "tilec_attention_plan: deterministic and captured_gradients are "
               "of backward, which is not asked for";
    return NULL;
}

/* ---- Bundles ---- */

static void add_tensors(tc_text *key, const tc_attention_request *r)
{
    tc_key_add_tensor(key, "q", r->q);
    tc_key_add_tensor(key, "k", r->k);
    tc_key_add_tensor(key, "v", r->v);
    tc_key_add_number(key, "d", r->q->shape[3]);
    tc_key_add_number(key, "dv", r->v->shape[3]);
}

static void make_key(const void *user, tc_text *key)
{
    const tc_attention_request *r = user;
    const tilec_attention_options *o = &r->options;
    add_tensors(key, r);
    tc_key_add_text(key, "mask", o->mask);
    tc_key_add_text(key, "score", o->score);
    tc_key_add_sources(key, o->sources, o->nsources);
    tc_key_add_number(key, "backward", o->backward != 0);
    tc_key_add_number(key, "deterministic", o->deterministic != 0);
    tc_key_add_number(key, "captured_gradients", o->captured_gradients != 0);
    tc_key_add_number(key, "max", o->max != 0);
    tc_key_add_number(key, "sinks", o->sinks != 0);
    tc_key_add_number(key, "dropout", o->dropout != 0);
    tc_key_add_number(key, "block_lists", o->block_lists);
    tc_key_add_number(key, "warps", o->warps);
    tc_key_add_number(key, "stages", o->stages);
    tc_key_add_number(key, "ptxas_level", o->ptxas_level);
    tc_key_add_number(key, "tiles", o->tiles);
    tc_key_add_bindings(key, "D", o->bindings, o->nbindings);
    tc_key_add_bindings(key, "option", o->kernel_options, o->nkernel_options);
    tc_key_add_bindings(key, "backward", o->backward_bindings,
                        o->nbackward_bindings);
    tc_key_add_shape(key, "descale_q", o->descale_q);
    tc_key_add_shape(key, "descale_k", o->descale_k);
    tc_key_add_shape(key, "descale_v", o->descale_v);
    tc_key_add_shape(key, "scale_o", o->scale_o);
}

char *tc_attention_key(tilec_context *cx, const tc_attention_request *r,
                       tc_bundle_request *out)
{
    const char *target = r->options.target ? r->options.target : cx->target;
    char *key = tc_bundle_key(make_key, r);
    *out = (tc_bundle_request){.kind = "attention",
                               .key = key,
                               .target = tc_target_find(cx, target),
                               .any_target = tc_target_is_auto(target),
                               .nsides = 3,
                               .sides = {r->q->shape[0] * r->q->shape[1],
                                         r->q->shape[2], r->k->shape[2]}};
    return key;
}

struct reading {
    const tc_attention_request *r;
    tc_record facts;
    tilec_kernel *forward;
    tilec_attention *a;
};

static void read_facts(void *arg)
{
    struct reading *x = arg;
    tc_arena *arena = &x->forward->cx->arena;
    const tilec_attention_options *o = &x->r->options;
    tilec_attention *a = tc_arena_new(arena, tilec_attention);
    a->has_max = o->max != 0;
    a->has_sinks = o->sinks != 0;
    a->scale = tc_attention_scale(x->r);
    if (tc_facts_values(x->facts, "values", arena, &a->values, &a->nvalues))
        x->a = a;
}

static tilec_status make_plan(tilec_context *cx, const tc_attention_request *r,
                              const tc_bundle_entry *e, tilec_attention **out,
                              tilec_error *error)
{
    struct reading x = {.r = r, .facts = e->facts};
    tilec_kernel *backward = NULL;
    tilec_status s = tc_bundle_kernel(cx, e, "forward", &x.forward, error);
    if (s == TILEC_OK && r->options.backward)
        s = tc_bundle_kernel(cx, e, "backward", &backward, error);
    if (s == TILEC_OK && !tc_guard(&x.forward->cx->memory, read_facts, &x))
        s = tc_fail_memory(error);
    if (s == TILEC_OK && !x.a)
        s = tc_fail(error, TILEC_INPUT, "%s: entry `%s` has no sound values",
                    e->bundle->name, e->key);
    if (s != TILEC_OK) {
        tilec_kernel_free(backward);
        tilec_kernel_free(x.forward);
        return s;
    }
    x.a->forward = x.forward;
    x.a->unsplit = tc_attention_unsplit(x.forward);
    x.a->backward = backward;
    *out = x.a;
    return TILEC_OK;
}

/* A plan with the gradients serves those who want none. */
static const tc_bundle_entry *
find(tilec_context *cx, const tc_attention_request *r, char *why, size_t room)
{
    tc_bundle_request request;
    const tc_bundle_entry *e = NULL;
    tc_attention_request with = *r;
    for (int i = 0; !e && i < 2; i++) {
        with.options.backward = i ? 1 : r->options.backward;
        char *key = tc_attention_key(cx, &with, &request);
        if (key && request.target)
            e = tc_bundle_find(cx, &request, i ? NULL : why, room);
        free(key);
    }
    return e;
}

static bool is_sound(const DLTensor *t)
{
    return t->ndim == 4 && t->shape;
}

tilec_status tilec_attention_plan(tilec_context *cx, const DLTensor *q,
                                  const DLTensor *k, const DLTensor *v,
                                  const tilec_attention_options *options,
                                  tilec_attention **out)
{
    if (!out)
        return TILEC_USAGE;
    *out = NULL;
    if (!cx)
        return TILEC_USAGE;
    tc_attention_request r = {.q = q, .k = k, .v = v};
    bool ok = tc_options_read(&r.options, sizeof r.options, options);
    const char *why_not = wrong(&r, ok);
    char why[400] = "q, k or v is no tensor of 4 dims, or the target unknown";
    if (why_not)
        return tc_say(cx, TILEC_USAGE, why_not);
    bool looks = (cx->bundles || !tc_the_compiler) && is_sound(q) &&
                 is_sound(k) && is_sound(v);
    const tc_bundle_entry *e = looks ? find(cx, &r, why, sizeof why) : NULL;
    if (!e)
        return tc_the_compiler ? tc_the_compiler->attention(cx, &r, out)
                               : tc_say(cx, TILEC_INPUT, why);
    tilec_error error = TILEC_INIT(tilec_error);
    tc_diagnostics_clear(cx);
    tilec_status s = make_plan(cx, &r, e, out, &error);
    return s == TILEC_OK ? s : tc_say(cx, s, error.message);
}

/* ---- The handle ---- */

double tc_attention_scale(const tc_attention_request *r)
{
    double scale = r->options.scale;
    return scale == 0.0 || isnan(scale) ? 1.0 / sqrt((double)r->q->shape[3])
                                        : scale;
}

const tilec_kernel *tc_attention_unsplit(const tilec_kernel *forward)
{
    static const char plan[] = "split_attention", kernel[] = "attention_fwd";
    const tilec_kernel *part;
    if (strcmp(tilec_kernel_name(forward), plan) != 0)
        return NULL;
    for (size_t i = 0; (part = tilec_kernel_part(forward, i)); i++)
        if (strncmp(tilec_kernel_name(part), kernel, strlen(kernel)) == 0)
            return part;
    return NULL;
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
