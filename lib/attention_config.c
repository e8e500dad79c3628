/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tuned configurations say of the kernels of attention: the query that
 * follows from tensors, mods and options.
 */
#include "lib/attention.h"

#include "lib/mod_slope.h"

#include <stdlib.h>
#include <string.h>

static bool sums_are_exact(const tc_attention_job *p)
{
    const tc_attention_tuning *t = &p->tuning;
    for (size_t i = 0; i < t->nbindings; i++)
        if (strcmp(t->bindings[i].name, "EXACT") == 0)
            return strcmp(t->bindings[i].value, "0") != 0;
    return false;
}

static const char *score_class(const tc_attention_job *p)
{
    const tc_mod *score = &p->mods.all[TC_MOD_SCORE];
    return score->wanted &&
                   tc_is_curved(p->arena, p->job->module, score->func.name)
               ? "curved"
               : NULL;
}

bool tc_attention_is_small(const tc_attention_request *r)
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

bool tc_attention_config(const tc_attention_job *p, const char *kernel,
                         tc_config *config)
{
    const tc_attention_request *r = p->r;
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
    if (tc_attention_is_small(r))
        halve_step(p->arena, kernel, config);
    return true;
}

bool tc_attention_prefers_pair(const tc_attention_job *p)
{
    tc_config c;
    return p->target && !p->r->options.captured_gradients &&
           tc_attention_config(p, "attention_bwd", &c) && c.pair;
}
