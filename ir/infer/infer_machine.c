/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of ops of the machine level: tiles have layouts, buffers are
 * types.
 */
#include "ir/infer/infer.h"
#include "ir/types/layout.h"

#include <string.h>

/* Of a buffer and a tile. */
static bool same_dims(const tc_type *a, const tc_type *b)
{
    return a->rank == b->rank &&
           memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

bool tc_infer_convert_layout(const tc_op *op, tc_results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    bool fits = to->kind == TC_TILE && to->layout && from->layout &&
                to->elem == from->elem && tc_type_same_sides(from, to);
    return fits ||
           tc_error(tc_op_context(op), op->loc,
                    "convert_layout: %s cannot become %s, expected the "
                    "same tile in another layout",
                    tc_op_in_type(op, 0), tc_type_name(tc_op_context(op), to));
}

bool tc_infer_mma(const tc_op *op, tc_results *r)
{
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type,
                  *c = op->in[2]->type;
    bool fits = a->rank == 2 && b->rank == 2 && c->rank == 2 &&
                a->dims[0] == c->dims[0] && a->dims[1] == b->dims[0] &&
                b->dims[1] == c->dims[1] && a->layout && b->layout &&
                c->layout && !a->slots && !b->slots;
    if (!fits)
        return tc_error(tc_op_context(op), op->loc,
                        "mma: operands are %s, %s and %s, expected [M, K], "
                        "[K, N] and [M, N] with layouts",
                        tc_op_in_type(op, 0), tc_op_in_type(op, 1),
                        tc_op_in_type(op, 2));
    return tc_results_add(r, c);
}

bool tc_infer_smem_alloc(const tc_op *op, tc_results *r)
{
    const tc_type *t = r->types[0];
    return t->kind == TC_SMEM ||
           tc_error(tc_op_context(op), op->loc,
                    "smem_alloc: result is %s, expected smem<...>",
                    tc_type_name(tc_op_context(op), t));
}

bool tc_infer_smem_index(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = op->in[0]->type;
    if (!t->slots)
        return tc_error(cx, tc_op_in_loc(op, 0),
                        "smem_index: operand is %s, expected a ring",
                        tc_op_in_type(op, 0));
    return tc_results_add(
        r, tc_type_smem(cx, tc_infer_tile(op, t->rank, t->dims, t->elem),
                        t->layout, 0));
}

/* Is `to` a part of `from`, of those that tiles of its sides cut it into? */
static bool is_part(const tc_op *op, const tc_type *from, const tc_type *to)
{
    const tc_attr *at = tc_op_attr(op, "at");
    bool fits = from->rank == to->rank && at->n == to->rank;
    for (unsigned i = 0; fits && i < to->rank; i++) {
        int32_t whole = from->layout->shape[i], part = to->layout->shape[i];
        fits = whole % part == 0 && at->ints[i] >= 0 && at->ints[i] < whole &&
               at->ints[i] % part == 0;
    }
    return fits;
}

bool tc_infer_smem_load(const tc_op *op, tc_results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    if (tc_op_has_attr(op, "at") && to->kind == TC_TILE && to->layout &&
        to->elem == from->elem && !from->slots)
        return is_part(op, from, to) ||
               tc_error(tc_op_context(op), op->loc,
                        "smem_load: %s is no part of %s that begins there, "
                        "expected sides that divide the buffer's, and "
                        "multiples of them",
                        tc_type_name(tc_op_context(op), to),
                        tc_op_in_type(op, 0));
    bool fits = to->kind == TC_TILE && to->layout && to->elem == from->elem &&
                !from->slots && same_dims(from, to);
    return fits ||
           tc_error(tc_op_context(op), op->loc,
                    "smem_load: %s cannot be read as %s, expected a "
                    "tile of the same sides with a layout",
                    tc_op_in_type(op, 0), tc_type_name(tc_op_context(op), to));
}

bool tc_infer_smem_reshape(const tc_op *op, tc_results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    int32_t sides[TC_MAX_RANK];
    bool fits = to->kind == TC_SMEM && to->elem == from->elem &&
                to->slots == from->slots && to->layout &&
                tc_type_count(to) == tc_type_count(from);
    if (fits) {
        tc_type_sides(to, sides);
        fits = tc_layout_reshape(tc_op_context(op), from->layout, to->rank,
                                 sides) == to->layout;
    }
    return fits ||
           tc_error(tc_op_context(op), op->loc,
                    "smem_reshape: %s cannot be seen as %s, expected as many "
                    "elements of the same type, in the same places",
                    tc_op_in_type(op, 0), tc_type_name(tc_op_context(op), to));
}

bool tc_infer_mma_wait(const tc_op *op, tc_results *r)
{
    bool ok = true;
    for (unsigned i = 0; ok && i < op->nin; i++)
        ok = tc_results_add(r, op->in[i]->type);
    return ok;
}

bool tc_infer_mbarrier_alloc(const tc_op *op, tc_results *r)
{
    const tc_type *t = r->types[0];
    return t->kind == TC_MBARRIER ||
           tc_error(tc_op_context(op), op->loc,
                    "mbarrier_alloc: result is %s, expected mbarrier<...>",
                    tc_type_name(tc_op_context(op), t));
}

bool tc_infer_smem_load_scalar(const tc_op *op, tc_results *r)
{
    return tc_results_add(r, op->in[0]->type->elem);
}

bool tc_infer_i32(const tc_op *op, tc_results *r)
{
    return tc_results_add(r, tc_type_scalar(tc_op_context(op), TC_I32));
}

/* Within warps or threads only: the axis stays, with a part for each along it.
 */
bool tc_infer_partial(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    const tc_type *first = op->in[0]->type;
    if (!first->layout)
        return tc_error(
            cx, op->loc, "%s: within(%s) of %s, expected a tile with a layout",
            tc_op_name(op), tc_op_word(op, "within"), tc_op_in_type(op, 0));
    const tc_layout *layout = tc_layout_partial(
        cx, first->layout, axis,
        tc_op_is_word(op, "within", "thread") ? TC_LANE : TC_WARP);
    const tc_dim *dims[TC_MAX_RANK];
    memcpy(dims, first->dims, first->rank * sizeof *dims);
    dims[axis] = tc_dim_const(cx, layout->shape[axis]);
    for (unsigned i = 0; i < op->nin; i++)
        tc_results_add(r, tc_infer_placed(op,
                                          tc_infer_tile(op, first->rank, dims,
                                                        op->in[i]->type->elem),
                                          layout));
    return true;
}
