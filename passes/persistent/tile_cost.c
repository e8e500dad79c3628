/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the hot loops, whether their number of steps is the same for all tiles,
 * and their loads.
 *
 *   %m0 = program_id(0) * 128
 *   %end = min(%n, %m0 + 128)               steps[0]: GROWS
 *   for %n0 = 0 to %end step 128 {          hot
 *     %kt = load %k[%h, %n0 +: 128, ..]     moves[0]: false
 *
 * Trends only choose among orders that are all right, so they may ignore that
 * ints wrap, and a `select` counts as the common part of its two values.
 */
#include "passes/persistent/rasterize.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/int_range.h"
#include "passes/analysis/match.h"
#include "passes/instructions/wgmma.h"
#include "passes/target/machine_model.h"

#include "ir/base/map.h"

struct finder {
    const tc_pass_env *env;
    tc_tile_work work;
    bool any_product;
    tc_map trends[TC_GRID_AXES]; /* value -> trend + 1 */
    tc_map seen;                 /* loads */
};

/* ---- Trends ---- */

static tc_trend flip(tc_trend t)
{
    return t == TC_TREND_GROWS     ? TC_TREND_SHRINKS
           : t == TC_TREND_SHRINKS ? TC_TREND_GROWS
                                   : t;
}

static tc_trend tile_cost_join(tc_trend a, tc_trend b)
{
    if (a == TC_TREND_SAME || a == b)
        return b;
    return b == TC_TREND_SAME ? a : TC_TREND_UNKNOWN;
}

static tc_trend trend_of(struct finder *s, const tc_value *v, unsigned axis);

static bool is_scalar_int(const tc_value *v)
{
    return v->type->kind <= TC_I64;
}

/* Of a product or quotient: `by` is the same for all tiles. */
static tc_trend scaled(tc_trend t, const tc_value *by)
{
    if (t == TC_TREND_SAME || !is_scalar_int(by))
        return t == TC_TREND_SAME ? t : TC_TREND_UNKNOWN;
    tc_int_range span = tc_int_range_of(by);
    if (span.low >= 0)
        return t;
    return span.high <= 0 ? flip(t) : TC_TREND_UNKNOWN;
}

static tc_trend trend_of_op(struct finder *s, const tc_op *op, unsigned axis)
{
    tc_trend in[3], all = TC_TREND_SAME;
    if (op->code == TC_PROGRAM_ID)
        return tc_op_int(op, "axis") == axis ? TC_TREND_GROWS : TC_TREND_SAME;
    if (op->nregions)
        return TC_TREND_UNKNOWN;
    for (unsigned i = 0; i < op->nin; i++) {
        tc_trend t = trend_of(s, op->in[i], axis);
        if (i < 3)
            in[i] = t;
        all = tile_cost_join(all, t);
    }
    if (all == TC_TREND_SAME)
        return tc_op_has(op, TC_WRITES) ? TC_TREND_UNKNOWN : all;
    switch (op->code) {
    case TC_ADD:
    case TC_MIN:
    case TC_MAX:
    case TC_CAST: return all;
    case TC_SUB: return tile_cost_join(in[0], flip(in[1]));
    case TC_NEG: return flip(all);
    case TC_SELECT: return tile_cost_join(in[1], in[2]);
    case TC_MUL:
        return in[1] == TC_TREND_SAME   ? scaled(in[0], op->in[1])
               : in[0] == TC_TREND_SAME ? scaled(in[1], op->in[0])
                                        : TC_TREND_UNKNOWN;
    case TC_DIV:
        return in[1] == TC_TREND_SAME ? scaled(in[0], op->in[1])
                                      : TC_TREND_UNKNOWN;
    default: return TC_TREND_UNKNOWN;
    }
}

static tc_trend trend_of(struct finder *s, const tc_value *v, unsigned axis)
{
    if (!v->def)
        return v->region->op ? TC_TREND_UNKNOWN : TC_TREND_SAME;
    uintptr_t known = (uintptr_t)tc_map_get(&s->trends[axis], v);
    if (!known) {
        known = 1 + (uintptr_t)trend_of_op(s, v->def, axis);
        tc_map_set(&s->trends[axis], v, (void *)known);
    }
    return (tc_trend)(known - 1);
}

/* ---- Loads ---- */

/* Does the window's position depend on the axis of the grid? Values that a loop
 * carries count as in its first step: another step is not another tile. */
static bool depends(struct finder *s, const tc_value *v, unsigned axis)
{
    if (!v->def && v->region->op)
        return false;
    if (v->def && v->def->code == TC_BLOCK) {
        for (unsigned i = 1; i < v->def->nin; i++)
            if (depends(s, v->def->in[i], axis))
                return true;
        return false;
    }
    if (v->def && !v->def->nregions && !tc_op_has(v->def, TC_READS)) {
        bool any =
            v->def->code == TC_PROGRAM_ID && tc_op_int(v->def, "axis") == axis;
        for (unsigned i = 0; i < v->def->nin && !any; i++)
            any = depends(s, v->def->in[i], axis);
        return any;
    }
    return trend_of(s, v, axis) != TC_TREND_SAME;
}

static void add_load(struct finder *s, const tc_op *op)
{
    tc_tile_work *w = &s->work;
    tc_op *block =
        op->in[0]->type->kind == TC_BLOCK_PTR ? tc_block_of(op->in[0]) : NULL;
    if (!block || block->in[0]->def || w->nloads == TC_WORK_LOADS ||
        !tc_can_be_aligned(block->in[0]->type) || tc_map_get(&s->seen, op))
        return;
    tc_map_set(&s->seen, op, (void *)op);
    struct tc_tile_load *l = &w->loads[w->nloads++];
    const tc_type *t = op->out[0]->type;
    l->tensor = block->in[0];
    l->bytes = (uint32_t)tc_type_count(t) * tc_type_bytes(tc_type_elem(t));
    for (unsigned axis = 0; axis < TC_GRID_AXES; axis++)
        l->moves[axis] = depends(s, block->out[0], axis);
}

static void add_loads(struct finder *s, const tc_region *r)
{
    tc_each_nested (op, r) {
        if (op->code == TC_LOAD)
            add_load(s, op);
    }
}

/* ---- Loops ---- */

/* How often one op nested in `op` is done, by what `op` says. */
static tc_trend trend_of_steps(struct finder *s, const tc_op *op, unsigned axis)
{
    tc_trend t;
    switch (op->code) {
    case TC_FOR:
        t = tile_cost_join(trend_of(s, op->in[1], axis),
                           flip(trend_of(s, op->in[0], axis)));
        return trend_of(s, op->in[2], axis) == TC_TREND_SAME ? t
                                                             : TC_TREND_UNKNOWN;
    case TC_IF:
        return trend_of(s, op->in[0], axis) == TC_TREND_SAME ? TC_TREND_SAME
                                                             : TC_TREND_UNKNOWN;
    default: return TC_TREND_UNKNOWN;
    }
}

static void add_product(struct finder *s, const tc_op *dot)
{
    tc_op *loop = NULL;
    s->any_product = true;
    for (tc_op *op = dot->parent->op; op; op = op->parent->op)
        if (!loop && op->code == TC_FOR)
            loop = op;
    if (!loop)
        return;
    if (!s->work.hot)
        s->work.hot = loop;
    add_loads(s, loop->regions[0]);
    for (unsigned axis = 0; axis < TC_GRID_AXES; axis++)
        for (tc_op *op = dot->parent->op; op; op = op->parent->op)
            s->work.steps[axis] = tile_cost_join(s->work.steps[axis],
                                                 trend_of_steps(s, op, axis));
}

static void tile_cost_visit(struct finder *s, const tc_region *r)
{
    tc_each_nested (op, r) {
        if (tc_wgmma_suits(op))
            add_product(s, op);
    }
}

tc_tile_work tc_tile_work_of(const tc_func *f, const tc_pass_env *env)
{
    struct finder s = {.env = env, .seen.arena = env->scratch};
    for (unsigned axis = 0; axis < TC_GRID_AXES; axis++)
        s.trends[axis].arena = env->scratch;
    s.work.follows = tc_region_has_op(f->body, TC_FOLLOW);
    tile_cost_visit(&s, f->body);
    if (!s.any_product)
        s.work.why = "no product is large enough for instructions of 64 rows";
    else if (!s.work.hot)
        s.work.why = "no loop holds its products";
    else if (!s.work.nloads)
        s.work.why = "its loop loads nothing that TMA copies could bring";
    if (s.work.why)
        s.work.hot = NULL;
    return s.work;
}
