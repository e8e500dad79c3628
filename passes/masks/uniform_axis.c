/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/masks/uniform_axis.h"

#include "passes/analysis/match.h"

/* Expressions are not followed further. */
enum { DEPTH = 16 };

static bool has_side_1(const tc_value *v, unsigned axis)
{
    return v->type->rank == 2 && tc_dim_is(v->type->dims[axis], 1);
}

static bool may_look_into(const tc_value *v)
{
    return v->def && v->def->nout == 1 && tc_op_has(v->def, TC_ELEMENTWISE) &&
           tc_op_has(v->def, TC_PURE);
}

static bool is_same(const tc_value *v, unsigned axis, unsigned depth)
{
    if (v->type->kind != TC_TILE || has_side_1(v, axis) ||
        tc_match_op(v, TC_SPLAT))
        return true;
    if (v->type->rank != 2 || depth == DEPTH)
        return false;
    if (tc_match_op(v, TC_BROADCAST))
        return is_same(v->def->in[0], axis, depth + 1);
    if (!may_look_into(v))
        return false;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (!is_same(v->def->in[i], axis, depth + 1))
            return false;
    return true;
}

bool tc_is_same_along(const tc_value *v, unsigned axis)
{
    return is_same(v, axis, 0);
}

static bool is_expanded(const tc_value *v, unsigned axis)
{
    const tc_op *op = tc_match_op(v, TC_EXPAND_DIMS);
    return op && tc_op_int(op, "axis") == (int64_t)axis;
}

bool tc_is_ready_without(const tc_value *v, unsigned axis, const tc_op *op)
{
    if (tc_match_op(v, TC_SPLAT) || tc_match_op(v, TC_BROADCAST))
        return tc_is_ready_without(v->def->in[0], axis, op);
    if (is_expanded(v, axis))
        return tc_value_is_visible(v->def->in[0], op);
    if (v->type->kind != TC_TILE || !may_look_into(v))
        return tc_value_is_visible(v, op);
    for (unsigned i = 0; i < v->def->nin; i++)
        if (!tc_is_ready_without(v->def->in[i], axis, op))
            return false;
    return true;
}

tc_value *tc_match_repeated(const tc_value *v, unsigned axis)
{
    if (tc_match_op(v, TC_BROADCAST))
        v = v->def->in[0];
    return v->type->rank == 2 && is_expanded(v, 1 - axis) ? v->def->in[0]
                                                          : NULL;
}

/* The type of v without the axis; of what is repeated along it too. */
static const tc_type *type_without(tc_builder *b, const tc_type *full,
                                   unsigned axis, const tc_value *v)
{
    return tc_type_shaped(b->func->module->cx, TC_TILE, 1,
                          &full->dims[1 - axis], tc_type_elem(v->type));
}

/* full: the type whose other side the result has. */
static tc_value *without(tc_builder *b, tc_value *v, unsigned axis,
                         const tc_type *full)
{
    const tc_type *type = type_without(b, full, axis, v);
    if (tc_match_op(v, TC_BROADCAST))
        return without(b, v->def->in[0], axis, full);
    if (tc_match_op(v, TC_SPLAT) || v->type->kind != TC_TILE) {
        tc_value *x = v->type->kind == TC_TILE ? v->def->in[0] : v;
        return tc_build(b, TC_SPLAT, 1, &x, type);
    }
    if (is_expanded(v, axis) && v->def->in[0]->type == type)
        return v->def->in[0];
    if (!may_look_into(v)) {
        v = tc_build(b, TC_RESHAPE, 1, &v, type_without(b, v->type, axis, v));
        return v->type == type ? v : tc_build(b, TC_BROADCAST, 1, &v, type);
    }
    tc_value *in[4];
    for (unsigned i = 0; i < v->def->nin; i++)
        in[i] = without(b, v->def->in[i], axis, full);
    return tc_build_like(b, v->def, in, type);
}

tc_value *tc_without_axis(tc_builder *b, tc_value *v, unsigned axis,
                          const tc_type *like)
{
    return without(b, v, axis, like);
}

tc_value *tc_with_axis(tc_builder *b, tc_value *v, unsigned axis,
                       const tc_type *like)
{
    v = tc_build_at(b, TC_EXPAND_DIMS, v, "axis", axis);
    const tc_type *type =
        tc_type_with_elem(b->func->module->cx, like, tc_type_elem(v->type));
    return v->type == type ? v : tc_build(b, TC_BROADCAST, 1, &v, type);
}

/* ---- Positions ---- */

static bool match_base(const tc_value *v, tc_positions *p)
{
    const tc_op *add = tc_match_op(v, TC_ADD);
    p->n = tc_type_count(v->type);
    if (tc_match_op(v, TC_RANGE))
        return true;
    for (unsigned i = 0; add && i < 2; i++)
        if (tc_match_op(add->in[i], TC_SPLAT) &&
            tc_match_op(add->in[1 - i], TC_RANGE)) {
            p->base = add->in[i]->def->in[0];
            return true;
        }
    return false;
}

bool tc_match_positions(const tc_value *v, unsigned axis, tc_positions *p)
{
    *p = (tc_positions){0};
    if (v->type->kind == TC_TILE && v->type->rank == 2)
        v = tc_match_repeated(v, axis);
    if (!v || v->type->kind != TC_TILE || v->type->rank != 1)
        return false;
    const tc_op *min = tc_match_op(v, TC_MIN);
    for (unsigned i = 0; min && i < 2; i++)
        if (tc_match_op(min->in[i], TC_SPLAT)) {
            p->most = min->in[i]->def->in[0];
            v = min->in[1 - i];
        }
    return match_base(v, p);
}

tc_int_range tc_positions_span(const tc_positions *p)
{
    tc_int_range s = {0, 0};
    if (p->base)
        s = tc_int_range_of(p->base);
    s.high += p->n - 1;
    return s;
}
