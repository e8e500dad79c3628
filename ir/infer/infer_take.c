/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of take and smem_take: what the indices say along the axis, the
 * other axes as they are; of histogram the stated type.
 *
 *   take tile<16x32 x f32>, i32, axis 1                    tile<16 x f32>
 *   take tile<16x32 x f32>, tile<16x8 x i32>, axis 1       tile<16x8 x f32>
 */
#include "ir/infer/infer.h"

/* Without the axis: of a tile that has no other one an element. */
static bool take_one(const tc_op *op, tc_results *r, unsigned axis)
{
    const tc_type *t = op->in[0]->type;
    const tc_dim *dims[TC_MAX_RANK];
    if (t->layout)
        return tc_error(tc_op_context(op), tc_op_in_loc(op, 1),
                        "%s: the index is %s, expected a tile of ints at "
                        "machine level",
                        tc_op_name(op), tc_op_in_type(op, 1));
    if (t->rank == 1)
        return tc_results_add(r, t->elem);
    for (unsigned i = 0; i < t->rank; i++)
        if (i != axis)
            dims[i - (i > axis)] = t->dims[i];
    return tc_results_add(r, tc_infer_tile(op, t->rank - 1, dims, t->elem));
}

static bool fits(const tc_type *t, const tc_type *index, unsigned axis)
{
    bool same = t->rank == index->rank;
    for (unsigned i = 0; same && i < t->rank; i++)
        same = i == axis || t->dims[i] == index->dims[i];
    return same;
}

bool tc_infer_take(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = op->in[0]->type, *index = op->in[1]->type;
    if (!tc_infer_check_axis(op, "axis", t->rank))
        return false;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (t->elem->kind == TC_PTR)
        return tc_error(cx, tc_op_in_loc(op, 0),
                        "%s: operand 0 is %s, expected ints, floats or i1: "
                        "take the offsets of the pointers",
                        tc_op_name(op), tc_op_in_type(op, 0));
    if (index->kind != TC_TILE)
        return take_one(op, r, axis);
    if (!fits(t, index, axis))
        return tc_error(cx, tc_op_in_loc(op, 1),
                        "%s: the indices are %s, expected the sides of %s but "
                        "for axis %u: expand and broadcast them, or write them "
                        "in brackets, %%x[:, %%j]",
                        tc_op_name(op), tc_op_in_type(op, 1),
                        tc_op_in_type(op, 0), axis);
    return tc_results_add(
        r, tc_infer_placed(op,
                           tc_infer_tile(op, index->rank, index->dims, t->elem),
                           index->layout));
}

bool tc_infer_histogram(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = r->types[0];
    if (op->in[0]->type->kind != TC_TILE)
        return tc_error(cx, tc_op_in_loc(op, 0),
                        "histogram: operand 0 is %s, expected a tile of ints",
                        tc_op_in_type(op, 0));
    return (t->kind == TC_TILE && t->rank == 1 && t->elem->kind == TC_I32) ||
           tc_error(cx, op->loc,
                    "histogram: result is %s, expected a tile of i32 with one "
                    "axis, such as tile<256 x i32>",
                    tc_type_name(cx, t));
}
