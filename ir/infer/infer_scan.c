/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of scan and scan_carry: scanned tiles like the operands; of a
 * scan within warps also the totals of the warps.
 */
#include "ir/infer/infer.h"
#include "ir/types/layout.h"

static bool check_exclusive(const tc_op *op)
{
    return !tc_op_int(op, "exclusive") || op->nregions == 0 ||
           tc_error(tc_op_context(op), op->loc,
                    "scan: exclusive(true) with a region, expected a kind: "
                    "nothing says what the first element would be");
}

/* At machine level: are the elements along the axis in an order that threads
 * can go through? */
static bool check_digits(const tc_op *op)
{
    const tc_layout *l = op->in[0]->type->layout;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    return !l || tc_layout_can_scan(l, axis) ||
           tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                    "%s: operand is %s, expected a layout in which each warp "
                    "holds one piece of axis %u",
                    tc_op_name(op), tc_op_in_type(op, 0), axis);
}

bool tc_infer_scan(const tc_op *op, tc_results *r)
{
    if (!tc_infer_check_combined(op) || !check_exclusive(op) ||
        !check_digits(op))
        return false;
    for (unsigned i = 0; i < op->nin; i++)
        tc_results_add(r, op->in[i]->type);
    return tc_op_is_word(op, "within", "block") || tc_infer_partial(op, r);
}

/* Totals have a side for each warp that holds a piece of the axis. */
static bool check_totals(const tc_op *op, unsigned i)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *scanned = op->in[i - op->nin / 2]->type;
    const tc_type *totals = op->in[i]->type;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    int32_t side =
        tc_layout_partial(cx, scanned->layout, axis, TC_WARP)->shape[axis];
    bool fits = totals->rank == scanned->rank && totals->layout &&
                totals->elem == scanned->elem;
    for (unsigned k = 0; fits && k < totals->rank; k++)
        fits = k == axis ? tc_dim_is(totals->dims[k], side)
                         : totals->dims[k] == scanned->dims[k];
    return fits || tc_error(cx, tc_op_in_loc(op, i),
                            "scan_carry: operand %u is %s, expected totals of "
                            "%s, %d along axis %u",
                            i, tc_op_in_type(op, i),
                            tc_op_in_type(op, i - op->nin / 2), side, axis);
}

bool tc_infer_scan_carry(const tc_op *op, tc_results *r)
{
    if (op->nin % 2)
        return tc_error(tc_op_context(op), op->loc,
                        "scan_carry: %u operands, expected scans and as many "
                        "totals",
                        op->nin);
    if (!tc_infer_check_combined(op))
        return false;
    for (unsigned i = 0; i < op->nin / 2; i++)
        if (!op->in[i]->type->layout)
            return tc_error(tc_op_context(op), tc_op_in_loc(op, i),
                            "scan_carry: operand %u is %s, expected a tile "
                            "with a layout",
                            i, tc_op_in_type(op, i));
    if (!check_digits(op))
        return false;
    for (unsigned i = op->nin / 2; i < op->nin; i++)
        if (!check_totals(op, i))
            return false;
    for (unsigned i = 0; i < op->nin / 2; i++)
        tc_results_add(r, op->in[i]->type);
    return true;
}
