/* SPDX-License-Identifier: Apache-2.0
 *
 * An embedded kernel compiled by its name gets the tile sizes, warps and stages
 * that were tuned for the target, unless the caller gives them:
 *
 *     tilec_source source = tilec_text("matmul", NULL, 0);
 *     tilec_compile(cx, &source, 1, &options, &kernel);
 *
 * is as if options gave the entry of kernels/configs/matmul.json for the
 * target. A plan gets the entry of the attention kernel that it launches.
 *
 * Block parameters, `BM: block = 128`, that this leaves open (of any kernel)
 * get sides, and the kernel warps that suit them, by the cost model
 * (passes/schedule/choose_blocks.h).
 */
#include "lib/files/config.h"
#include "lib/mods/mod_slope.h"
#include "lib/mods/mod_window.h"
#include "lib/program/compile.h"
#include "lib/program/plan.h"
#include "passes/analysis/substitute.h"
#include "passes/persistent/split_k.h"
#include "passes/schedule/choose_blocks.h"

#include <stdlib.h>
#include <string.h>

static const char *value_of(const tc_bound *bound, const char *name)
{
    for (unsigned i = 0; i < bound->nall; i++)
        if (strcmp(bound->all[i].name, name) == 0)
            return bound->all[i].value;
    return NULL;
}

static int64_t configure_size_of(const tc_bound *bound, const char *name)
{
    const char *value = value_of(bound, name);
    return value ? strtoll(value, NULL, 10) : 0;
}

static int64_t largest_side(const tilec_compile_options *o)
{
    int64_t n = 0;
    for (size_t i = 0; i < o->nexamples; i++) {
        const DLTensor *t = o->examples[i].tensor;
        if (o->examples[i].kind != TILEC_ARG_TENSOR || !t || !t->shape)
            continue;
        for (int d = 0; d < t->ndim; d++)
            n = t->shape[d] > n ? t->shape[d] : n;
    }
    return n;
}

/* The class of the mask that is bound, "@causal". */
static const char *mask_class(const tc_module *m, const char *mask)
{
    if (!mask || strcmp(mask, "@no_mask") == 0)
        return "none";
    return tc_mask_class(m, mask + 1);
}

/* The same of the score function, "@alibi". */
static const char *score_class(const tc_job *job, const char *score)
{
    if (!score || strcmp(score, "@no_score") == 0)
        return "none";
    return tc_score_class(&job->cx->arena, job->module, score + 1);
}

static tc_config_query query_of(const tc_job *job, const tc_target *target,
                                const char *kernel, const tc_bound *bound)
{
    const tc_request *r = job->request;
    const char *dtype = value_of(bound, "T");
    const char *mask = value_of(bound, "mask_mod");
    const char *score = value_of(bound, "score_mod");
    const char *dropout = value_of(bound, "dropout");
    return (tc_config_query){
        .kernel = kernel,
        .target = target,
        .dtype = dtype ? dtype : "",
        .d = configure_size_of(bound, "D"),
        .dv = configure_size_of(bound, "DV"),
        .v_contig_dim = configure_size_of(bound, "V_CONTIG_DIM"),
        .mask = mask_class(job->module, mask),
        .score = score_class(job, score),
        .dropout = dropout && strcmp(dropout, "@keep_all") != 0,
        .length = largest_side(&r->options)};
}

static bool is_given(const tilec_compile_options *o, const char *name)
{
    for (size_t i = 0; i < o->nbindings; i++)
        if (strcmp(o->bindings[i].name, name) == 0)
            return true;
    return false;
}

static void apply(tc_arena *a, tilec_compile_options *o, const tc_config *c)
{
    tilec_binding *b =
        tc_arena_array(a, tilec_binding, o->nbindings + c->nbindings);
    size_t n = 0;
    for (; n < o->nbindings; n++)
        b[n] = o->bindings[n];
    for (unsigned i = 0; i < c->nbindings; i++)
        if (!is_given(o, c->bindings[i].name))
            b[n++] = c->bindings[i];
    bool suits = tc_config_suits(c, o->bindings, o->nbindings);
    o->bindings = b;
    o->nbindings = n;
    if (!suits)
        return;
    o->warps = o->warps ? o->warps : c->warps;
    o->stages = o->stages ? o->stages : c->stages;
    o->ptxas_level = o->ptxas_level ? o->ptxas_level : c->ptxas_level;
    o->tiles = o->tiles ? o->tiles : (tilec_tiles)c->tiles;
}

/* ---- Plans ---- */

static const char attention[] = "attention_fwd";

static bool launches(const tc_region *r, const char *kernel)
{
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            if (launches(op->regions[i], kernel))
                return true;
        if (op->code == TC_LAUNCH &&
            strcmp(tc_op_word(op, "callee") + 1, kernel) == 0)
            return true;
    }
    return false;
}

/* Values of 8 bits that a plan makes lie by columns
 * (passes/transpose/transpose_plan.c). */
static int64_t columns_of_values(const tc_func *plan, const tc_bound *bound)
{
    const char *type = value_of(bound, "TV");
    for (unsigned i = 0; i < plan->body->nargs; i++)
        if (strcmp(plan->body->args[i]->name, "v") == 0)
            return 0;
    return type && strncmp(type, "f8", 2) == 0 ? 2 : 0;
}

/* Of a plan with the sides of its blocks; warps and the like are for that
 * kernel alone. */
static void configure_plan(tc_job *job, const tc_func *plan,
                           tc_config_query *query, const tc_bound *bound)
{
    tc_request *r = job->request;
    tc_arena *a = &job->cx->arena;
    tc_config config;
    query->kernel = attention;
    query->v_contig_dim = columns_of_values(plan, bound);
    if (!value_of(bound, "BM") || !value_of(bound, "BN") ||
        !launches(plan->body, attention) || !tc_config_find(a, query, &config))
        return;
    if (!tc_config_suits(&config, r->options.bindings, r->options.nbindings))
        return;
    tc_plan_tuning *t = tc_arena_new(a, tc_plan_tuning);
    *t = (tc_plan_tuning){attention, config.warps, config.stages,
                          config.ptxas_level, (tilec_tiles)config.tiles};
    job->tunings = t;
    job->ntunings = 1;
    config.warps = config.stages = config.ptxas_level = 0;
    config.tiles = TC_TILES_ANY;
    apply(a, &r->options, &config);
}

/* ---- Block sizes of any kernel ---- */

/* The kernel of that name; NULL: one of them. */
static bool has_blocks(const tc_module *m, const char *kernel)
{
    tc_each_func (f, m)
        for (unsigned i = 0; i < f->nparams; i++)
            if (f->params[i].is_block &&
                (!kernel || strcmp(f->name, kernel) == 0))
                return true;
    return false;
}

static int index_of(const tc_func *f, const char *name)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (strcmp(f->params[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Values that cannot be read are left for bind-params to report. */
static void add_known(tc_context *cx, const tc_func *f, const char *name,
                      const char *value, tc_bindings *known)
{
    int at = index_of(f, name);
    tc_kind kind = tc_kind_parse(value, strlen(value));
    if (at >= 0 && f->params[at].kind == TC_PARAM_INT)
        known->dims[at] = tc_dim_const(cx, strtoll(value, NULL, 0));
    else if (at >= 0 && kind != TC_KIND_COUNT)
        known->types[at] = tc_type_scalar(cx, kind);
}

/* What was given, follows from the examples, or is of the configuration. */
static tc_bindings known_of(tc_context *cx, const tc_func *f,
                            const tilec_compile_options *o,
                            const tc_bound *bound)
{
    tc_bindings known = tc_bindings_of(&cx->arena, f);
    for (unsigned i = 0; i < bound->ngiven; i++)
        add_known(cx, f, bound->given[i].name, bound->given[i].value, &known);
    for (size_t i = 0; i < o->nbindings; i++)
        add_known(cx, f, o->bindings[i].name, o->bindings[i].value, &known);
    return known;
}

/* The dims of each argument of the kernel that an example is for. */
static const int64_t *const *sizes_of(tc_arena *a, const tc_func *f,
                                      const tilec_compile_options *o)
{
    const tc_region *body = f->body;
    const int64_t **sizes = tc_arena_array(a, const int64_t *, body->nargs);
    for (size_t i = 0; i < o->nexamples; i++) {
        const tilec_argument *e = &o->examples[i];
        for (unsigned k = 0; k < body->nargs; k++)
            if (e->kind == TILEC_ARG_TENSOR && e->tensor &&
                body->args[k]->type->kind == TC_TENSOR &&
                (e->name ? strcmp(body->args[k]->name, e->name) == 0 : i == k))
                sizes[k] = e->tensor->shape;
    }
    return sizes;
}

static const char split_name[] = "kernel.split";

/* May the choice be that CTAs share a tile? If a number of them is asked for,
 * or the launches have no workspace, it is not one of these sides. */
static bool may_split(tc_arena *a, const tc_func *f,
                      const tilec_compile_options *o, const tc_bound *bound)
{
    tc_binding *b = tc_arena_array(a, tc_binding, bound->ngiven + 1);
    bool may = f->split ? f->split == TC_SPLIT_AUTO : o->may_split;
    for (size_t i = 0; i < o->nbindings; i++)
        if (strcmp(o->bindings[i].name, split_name) == 0)
            may = strcmp(o->bindings[i].value, "auto") == 0;
    for (unsigned i = 0; i < bound->ngiven; i++)
        b[i] = bound->given[i];
    b[bound->ngiven] = (tc_binding){split_name, "auto"};
    return may && tc_splits(f, b, bound->ngiven + 1);
}

/* Gives the free block parameters values, and the kernel its warps. */
static void choose_blocks(tc_job *job, const tc_target *target,
                          const tc_func *f, const tc_bound *bound)
{
    tc_context *cx = job->cx;
    tc_request *r = job->request;
    tilec_compile_options *o = &r->options;
    tc_bindings known = known_of(cx, f, o, bound);
    tc_blocks blocks;
    if (o->warps || !tc_has_free_blocks(f, &known))
        return;
    tc_blocks_launch launch = {largest_side(o), sizes_of(&cx->arena, f, o),
                               !r->linked &&
                                   may_split(&cx->arena, f, o, bound)};
    if (!tc_choose_blocks(f, target, &known, &launch, &cx->arena, &blocks))
        return;
    tc_config c = {.warps = blocks.warps};
    if (blocks.pieces > 1)
        c.bindings[c.nbindings++] = (tilec_binding){split_name, "auto"};
    for (unsigned i = 0; i < f->nparams; i++)
        if (f->params[i].is_block && !known.dims[i] &&
            c.nbindings < TC_CONFIG_BINDINGS)
            c.bindings[c.nbindings++] = (tilec_binding){
                f->params[i].name, tc_arena_printf(&cx->arena, "%lld",
                                                   (long long)tc_dim_value(
                                                       blocks.values.dims[i]))};
    apply(&cx->arena, o, &c);
}

/* ---- All of it ---- */

bool tc_request_configure(tc_job *job)
{
    tc_request *r = job->request;
    const tc_target *target;
    tc_func *f;
    tc_bound bound;
    tc_config config;
    bool is_embedded = !r->linked && r->nsources == 1 && !r->sources[0].text;
    if (!is_embedded && !has_blocks(job->module, r->options.kernel))
        return true;
    if (!tc_job_choose(job, &r->options, &target, &f, &bound))
        return false;
    tc_config_query query = query_of(job, target, f->name, &bound);
    if (is_embedded && f->is_plan)
        configure_plan(job, f, &query, &bound);
    else if (is_embedded && tc_config_find(&job->cx->arena, &query, &config))
        apply(&job->cx->arena, &r->options, &config);
    if (!f->is_plan)
        choose_blocks(job, target, f, &bound);
    return true;
}
