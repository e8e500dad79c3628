/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/transpose/transposes.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"

/* ---- What is passed through ---- */

bool tc_is_flat(const tc_value *v)
{
    return v->type->kind == TC_TILE && v->type->rank == 2 && !v->type->layout;
}

static bool is_swap(const tc_op *trans)
{
    const tc_attr *perm = tc_op_attr(trans, "perm");
    return perm->kind == TC_ATTR_NONE || perm->ints[0] == 1;
}

/* Ops that cost nothing if computed twice. */
static bool only_moves(const tc_op *op)
{
    return op->code == TC_SPLAT || op->code == TC_BROADCAST ||
           op->code == TC_TRANS ||
           (op->code == TC_EXPAND_DIMS && op->in[0]->type->rank == 1);
}

static bool is_lanes(const tc_op *op)
{
    return tc_op_has(op, TC_ELEMENTWISE) || op->code == TC_GATHER ||
           (op->code == TC_LOAD && op->in[0]->type->kind == TC_TILE);
}

static bool is_operand_of_dots(const tc_value *v)
{
    tc_each_use (u, v)
        if (u->op->code != TC_DOT || u->index > 1)
            return false;
    return true;
}

/* Used elsewhere too: not worth computing in both orders. */
static bool is_shared(const tc_value *v)
{
    return v->uses && v->uses->next && !is_operand_of_dots(v);
}

bool tc_passes_transposes(const tc_value *v)
{
    return v->def && tc_is_flat(v) &&
           (only_moves(v->def) || (is_lanes(v->def) && !is_shared(v)));
}

bool tc_is_source(const tc_value *v)
{
    if (tc_is_flat(v) && tc_match_op(v, TC_TRANS))
        v = v->def->in[0];
    return !tc_passes_transposes(v);
}

void tc_each_source(tc_value *v, bool swapped, tc_source_fn *fn, void *user)
{
    if (!tc_is_flat(v))
        return;
    if (!tc_passes_transposes(v)) {
        fn(user, v, swapped);
        return;
    }
    if (v->def->code == TC_TRANS)
        swapped ^= is_swap(v->def);
    for (unsigned i = 0; i < v->def->nin; i++)
        tc_each_source(v->def->in[i], swapped, fn, user);
}

unsigned tc_count_transposes(const tc_value *v)
{
    unsigned n = 0;
    if (!tc_is_flat(v) || !tc_passes_transposes(v))
        return 0;
    n = v->def->code == TC_TRANS && is_swap(v->def);
    for (unsigned i = 0; i < v->def->nin; i++)
        n += tc_count_transposes(v->def->in[i]);
    return n;
}

/* ---- How sources lie ---- */

tc_axis_order tc_source_order(const tc_value *v)
{
    for (unsigned i = 0; i < 2; i++)
        if (tc_dim_is(v->type->dims[i], 1))
            return TC_ORDER_ANY;
    if (!v->def || v->def->code != TC_LOAD)
        return TC_ORDER_ROWS;
    tc_op *block = tc_block_of(v->def->in[0]);
    unsigned axis = block ? tc_contiguous_axis(block) : TC_MAX_RANK;
    return axis == 0   ? TC_ORDER_COLUMNS
           : axis == 1 ? TC_ORDER_ROWS
                       : TC_ORDER_ANY;
}

/* ---- The same, transposed ---- */

const tc_type *tc_transposed_type(tc_context *cx, const tc_type *t)
{
    const tc_dim *dims[] = {t->dims[1], t->dims[0]};
    return tc_type_shaped(cx, TC_TILE, 2, dims, t->elem);
}

static tc_value *made(tc_transposes *t, tc_value *v, bool swapped,
                      tc_value *with)
{
    tc_map_set(&t->made[swapped], v, with);
    return with;
}

static tc_value *transposed_source(tc_value *v)
{
    tc_func *f = v->def ? v->def->func : v->region->func;
    tc_builder b = tc_builder_after(f, v, v->loc);
    return tc_build(&b, TC_TRANS, 1, &v, NULL);
}

static tc_value *transposed_op(tc_transposes *t, tc_op *op, bool swapped)
{
    enum { MOST = TC_MAX_RANK + 3 };
    tc_value *in[MOST], *v = op->out[0];
    bool same = !swapped;
    if (op->nin > MOST)
        return swapped ? transposed_source(v) : v;
    for (unsigned i = 0; i < op->nin; i++) {
        in[i] = tc_is_flat(op->in[i]) ? tc_transposed(t, op->in[i], swapped)
                                      : op->in[i];
        same &= in[i] == op->in[i];
    }
    if (same)
        return v;
    tc_builder b = tc_builder_before(op);
    tc_context *cx = op->func->module->cx;
    tc_value *r = tc_build_like(
        &b, op, in, swapped ? tc_transposed_type(cx, v->type) : v->type);
    if (op->code == TC_EXPAND_DIMS)
        tc_op_set_int(r->def, "axis", 1 - tc_op_int(op, "axis"));
    r->name = v->name;
    r->loc = v->loc;
    return r;
}

tc_value *tc_transposed(tc_transposes *t, tc_value *v, bool swapped)
{
    tc_value *r = tc_map_get(&t->made[swapped], v);
    if (r)
        return r;
    if (!tc_passes_transposes(v) && swapped)
        return made(t, v, swapped, transposed_source(v));
    if (!tc_passes_transposes(v))
        return v;
    if (v->def->code == TC_TRANS)
        return tc_transposed(t, v->def->in[0], swapped ^ is_swap(v->def));
    return made(t, v, swapped, transposed_op(t, v->def, swapped));
}

/* ---- Who minds ---- */

static bool is_8_bits(const tc_value *v)
{
    return tc_kind_is_f8(tc_lane_kind(v));
}

bool tc_dot_is_k_major_only(const tc_op *dot, const tc_target *target)
{
    bool ints = tc_lane_kind(dot->in[0]) == TC_I8;
    return (ints && target->shared_per_block > 0) ||
           (target->mma_fp8 && is_8_bits(dot->in[0]) && is_8_bits(dot->in[1]));
}
