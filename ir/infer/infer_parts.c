/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of slice, join and interleave. Layouts follow from the whole's:
 * join and interleave take theirs from the text, and their operands must have
 * what is left of it.
 */
#include "ir/infer/infer.h"
#include "ir/parts.h"

static const tc_dim *number(const tc_op *op, int64_t n)
{
    return tc_dim_const(tc_op_context(op), n);
}

static const tc_type *with_side(const tc_op *op, const tc_type *t,
                                unsigned axis, const tc_dim *side)
{
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++)
        dims[i] = i == axis ? side : t->dims[i];
    return tc_infer_tile(op, t->rank, dims, t->elem);
}

/* ---- slice ---- */

static bool check_step(const tc_op *op, const tc_dim *side, int64_t step)
{
    if (step < 1 || (step & (step - 1)))
        return tc_error(tc_op_context(op), op->loc,
                        "slice: step %lld, expected a power of two",
                        (long long)step);
    return side->kind != TC_DIM_CONST || side->value % step == 0 ||
           tc_error(tc_op_context(op), op->loc,
                    "slice: step %lld does not divide the side %lld of %s",
                    (long long)step, (long long)side->value,
                    tc_op_in_type(op, 0));
}

/* Once all are numbers: is what it takes in the operand? */
static bool check_inside(const tc_op *op, unsigned axis, const tc_dim *at,
                         const tc_dim *n, int64_t step)
{
    const tc_dim *side = op->in[0]->type->dims[axis];
    if (at->kind != TC_DIM_CONST || n->kind != TC_DIM_CONST ||
        side->kind != TC_DIM_CONST)
        return true;
    int64_t first = at->value, last = first + (n->value - 1) * step;
    return (first >= 0 && n->value > 0 && last < side->value) ||
           tc_error(tc_op_context(op), op->loc,
                    "%s: takes %lld to %lld of axis %u of %s, expected a "
                    "part of 0 to %lld",
                    tc_op_name(op), (long long)first, (long long)last, axis,
                    tc_op_in_type(op, 0), (long long)side->value - 1);
}

/* A view of a buffer: its memory is not copied, so it must be in one piece. */
static bool add_view(const tc_op *op, tc_results *r, const tc_type *part,
                     const tc_tile_part *p)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = op->in[0]->type;
    uint32_t first;
    const tc_layout *l = tc_layout_run(cx, t->layout, p, &first);
    if (t->slots)
        return tc_error(cx, tc_op_in_loc(op, 0),
                        "smem_slice: operand is %s, expected one buffer of the "
                        "ring, by smem_index",
                        tc_op_in_type(op, 0));
    return l ? tc_results_add(r, tc_type_smem(cx, part, l, 0))
             : tc_error(cx, op->loc,
                        "smem_slice: the part of %s is not in one piece in "
                        "memory, expected whole panels",
                        tc_op_in_type(op, 0));
}

bool tc_infer_slice(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = op->in[0]->type;
    const tc_attr *at = tc_op_attr(op, "at"), *side = tc_op_attr(op, "side");
    if (!tc_infer_check_axis(op, "axis", t->rank))
        return false;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if ((at->kind != TC_ATTR_NONE && (at->n != 1 || !at->dims[0])) ||
        side->n != 1 || !side->dims[0])
        return tc_error(cx, op->loc,
                        "%s: expected one size expression each for at and "
                        "side",
                        tc_op_name(op));
    const tc_dim *first =
        at->kind == TC_ATTR_NONE ? number(op, 0) : at->dims[0];
    bool stepped = op->code == TC_SLICE && tc_op_has_attr(op, "step");
    int64_t step = stepped ? tc_op_int(op, "step") : 1;
    if (!check_step(op, t->dims[axis], step) ||
        !check_inside(op, axis, first, side->dims[0], step))
        return false;
    const tc_type *part = with_side(op, t, axis, side->dims[0]);
    if (!t->layout)
        return tc_results_add(r, part);
    tc_tile_part p = {axis, (int32_t)tc_dim_value(first), (int32_t)step,
                      (int32_t)tc_dim_value(side->dims[0])};
    if (t->kind == TC_SMEM)
        return add_view(op, r, part, &p);
    const tc_layout *l = tc_layout_part(cx, t->layout, &p);
    return l ? tc_results_add(r, tc_infer_placed(op, part, l))
             : tc_error(cx, op->loc,
                        "slice: which registers of %s hold the part depends "
                        "on the thread",
                        tc_op_in_type(op, 0));
}

/* ---- join, interleave ---- */

/* The result in the layout that the text states. */
static bool add_whole(const tc_op *op, tc_results *r, const tc_type *t)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *stated = r->nstated == 1 ? r->stated[0] : NULL;
    bool fits = stated && stated->kind == TC_TILE && stated->layout &&
                tc_type_same_sides(stated, t);
    if (!op->in[0]->type->layout)
        return tc_results_add(r, t);
    for (unsigned i = 0, at = 0; fits && i < op->nin; i++) {
        const tc_type *in = op->in[i]->type;
        unsigned axis = (unsigned)tc_op_int(op, "axis");
        tc_tile_part p = {axis, (int32_t)at, 1,
                          (int32_t)tc_dim_value(in->dims[axis])};
        if (op->code == TC_INTERLEAVE)
            p = (tc_tile_part){axis, (int32_t)i, 2, p.side};
        at += (unsigned)p.side;
        fits = tc_layout_part(cx, stated->layout, &p) == in->layout;
    }
    return fits ? tc_results_add(r, tc_infer_placed(op, t, stated->layout))
                : tc_error(cx, op->loc,
                           "%s: the operands do not have the layouts of parts "
                           "of the result",
                           tc_op_name(op));
}

bool tc_infer_join(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = op->in[0]->type;
    if (!tc_infer_check_axis(op, "axis", t->rank))
        return false;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    const tc_dim *side = t->dims[axis];
    for (unsigned i = 1; i < op->nin; i++) {
        const tc_type *in = op->in[i]->type;
        if (in->elem != t->elem || in->rank != t->rank ||
            !in->layout != !t->layout ||
            !tc_type_same_sides(with_side(op, in, axis, t->dims[axis]), t))
            return tc_error(cx, tc_op_in_loc(op, i),
                            "join: operand %u is %s, expected the element "
                            "type and all sides but that of axis %u of %s",
                            i, tc_op_in_type(op, i), axis,
                            tc_op_in_type(op, 0));
        side = tc_dim_binary(cx, TC_DIM_ADD, side, in->dims[axis]);
    }
    return add_whole(op, r, with_side(op, t, axis, side));
}

bool tc_infer_interleave(const tc_op *op, tc_results *r)
{
    const tc_type *t = op->in[0]->type;
    if (!tc_infer_check_axis(op, "axis", t->rank))
        return false;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    /* As join of the two has it, where the side is a parameter. */
    const tc_dim *side = tc_dim_binary(tc_op_context(op), TC_DIM_ADD,
                                       t->dims[axis], t->dims[axis]);
    return add_whole(op, r, with_side(op, t, axis, side));
}
