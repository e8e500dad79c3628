/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of ops on shapes; if the operand has a layout, the layout that
 * follows from it.
 */
#include "ir/infer/infer.h"
#include "ir/types/layout.h"

static bool expect_tile(const tc_op *op, const tc_type *t)
{
    return t->kind == TC_TILE ||
           tc_error(tc_op_context(op), op->loc,
                    "%s: result is %s, expected a tile", tc_op_name(op),
                    tc_type_name(tc_op_context(op), t));
}

bool tc_infer_splat(const tc_op *op, tc_results *r)
{
    const tc_type *t = r->types[0];
    if (!expect_tile(op, t))
        return false;
    return t->elem == op->in[0]->type ||
           tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                    "splat: operand is %s, expected %s, the element of the "
                    "result",
                    tc_op_in_type(op, 0),
                    tc_type_name(tc_op_context(op), t->elem));
}

bool tc_infer_range(const tc_op *op, tc_results *r)
{
    const tc_type *t = r->types[0];
    return (t->kind == TC_TILE && t->rank == 1 && t->elem->kind == TC_I32) ||
           tc_error(tc_op_context(op), op->loc,
                    "range: result is %s, expected a tile of i32 with one axis",
                    tc_type_name(tc_op_context(op), t));
}

bool tc_infer_ramp(const tc_op *op, tc_results *r)
{
    const tc_type *t = r->types[0], *a = op->in[0]->type;
    return (t->kind == TC_TILE && t->rank == 1 && t->elem->kind == TC_F32 &&
            a == t->elem) ||
           tc_error(tc_op_context(op), op->loc,
                    "ramp: operands are %s and the result %s, expected f32 and "
                    "a tile of f32 with one axis",
                    tc_op_in_type(op, 0), tc_type_name(tc_op_context(op), t));
}

bool tc_infer_expand_dims(const tc_op *op, tc_results *r)
{
    const tc_type *t = op->in[0]->type;
    if (t->rank == TC_MAX_RANK)
        return tc_error(tc_op_context(op), op->loc,
                        "expand_dims: %s has %d axes, which is the most",
                        tc_op_in_type(op, 0), TC_MAX_RANK);
    if (!tc_infer_check_axis(op, "axis", t->rank + 1))
        return false;
    const tc_dim *dims[TC_MAX_RANK];
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    for (unsigned i = 0; i < t->rank; i++)
        dims[i + (i >= axis)] = t->dims[i];
    dims[axis] = tc_dim_const(tc_op_context(op), 1);
    return tc_results_add(
        r, tc_infer_placed(
               op, tc_infer_tile(op, t->rank + 1, dims, t->elem),
               t->layout ? tc_layout_expand(tc_op_context(op), t->layout, axis)
                         : NULL));
}

bool tc_infer_broadcast(const tc_op *op, tc_results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    const tc_layout *layout = to->layout;
    bool fits =
        to->kind == TC_TILE && to->rank == from->rank && to->elem == from->elem;
    for (unsigned i = 0; fits && i < to->rank; i++)
        fits = from->dims[i] == to->dims[i] || tc_dim_is(from->dims[i], 1);
    for (unsigned i = 0; fits && to->layout && i < to->rank; i++)
        if (from->dims[i] != to->dims[i])
            layout = tc_layout_collapse(tc_op_context(op), layout, i);
    fits = fits && layout == from->layout;
    return fits ||
           tc_error(tc_op_context(op), op->loc,
                    "broadcast: %s does not broadcast to %s, expected "
                    "the same axes, or side 1 in the operand",
                    tc_op_in_type(op, 0), tc_type_name(tc_op_context(op), to));
}

bool tc_infer_trans(const tc_op *op, tc_results *r)
{
    const tc_type *t = op->in[0]->type;
    const tc_attr *perm = tc_op_attr(op, "perm");
    const tc_dim *dims[TC_MAX_RANK];
    unsigned seen = 0, order[TC_MAX_RANK] = {0};
    if (perm->kind == TC_ATTR_NONE && t->rank < 2)
        return tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                        "%s: operand is %s, expected at least two axes",
                        tc_op_name(op), tc_op_in_type(op, 0));
    for (unsigned i = 0; i < t->rank; i++) {
        /* No perm: the last two swap. */
        int64_t from = i + 2 < t->rank ? i : 2 * t->rank - 3 - i;
        if (perm->kind != TC_ATTR_NONE)
            from = i < perm->n ? perm->ints[i] : -1;
        if (from >= 0 && from < t->rank) {
            seen |= 1u << from;
            dims[i] = t->dims[from];
            order[i] = (unsigned)from;
        }
    }
    if (seen != (1u << t->rank) - 1 ||
        (perm->kind != TC_ATTR_NONE && perm->n != t->rank))
        return tc_error(tc_op_context(op), op->loc,
                        "%s: perm is no permutation of the %u axes of %s",
                        tc_op_name(op), t->rank, tc_op_in_type(op, 0));
    const tc_type *tile = tc_infer_tile(op, t->rank, dims, t->elem);
    const tc_layout *layout =
        t->layout ? tc_layout_trans(tc_op_context(op), t->layout, order) : NULL;
    return tc_results_add(
        r, t->kind == TC_SMEM
               ? tc_type_smem(tc_op_context(op), tile, layout, t->slots)
               : tc_infer_placed(op, tile, layout));
}

bool tc_infer_reshape(const tc_op *op, tc_results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    if (!expect_tile(op, to))
        return false;
    bool generic = tc_type_is_generic(from) || tc_type_is_generic(to);
    bool fits = from->elem == to->elem &&
                (generic || tc_type_count(from) == tc_type_count(to));
    if (fits && (from->layout || to->layout) && !generic) {
        int32_t sides[TC_MAX_RANK];
        tc_type_sides(to, sides);
        fits = from->layout && to->layout &&
               tc_layout_reshape(tc_op_context(op), from->layout, to->rank,
                                 sides) == to->layout;
    }
    return fits ||
           tc_error(tc_op_context(op), op->loc,
                    "reshape: %s cannot become %s, expected as many "
                    "elements of the same type",
                    tc_op_in_type(op, 0), tc_type_name(tc_op_context(op), to));
}
