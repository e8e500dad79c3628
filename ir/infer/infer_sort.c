/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of sort: tiles like the operands, with `first` elements along the
 * axis where it is given.
 */
#include "ir/infer/infer.h"

static bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* A side that is not known yet is checked when it is. */
static bool check_side(const tc_op *op, const tc_dim *side, const char *what,
                       const char *remedy)
{
    int64_t n = tc_dim_value(side);
    return n < 0 || is_power_of_two(n) ||
           tc_error(tc_op_context(op), op->loc,
                    "sort: %s is %lld, expected a power of two: %s", what,
                    (long long)n, remedy);
}

static bool check_first(const tc_op *op, const tc_dim *side)
{
    const tc_attr *first = tc_op_attr(op, "first");
    if (first->kind == TC_ATTR_NONE)
        return true;
    if (first->n != 1 || !first->dims[0])
        return tc_error(tc_op_context(op), op->loc,
                        "sort: expected one size, as first(8)");
    int64_t n = tc_dim_value(first->dims[0]), most = tc_dim_value(side);
    return check_side(op, first->dims[0], "first",
                      "take more, and use the first of them") &&
           (n < 0 || most < 0 || n <= most ||
            tc_error(tc_op_context(op), op->loc,
                     "sort: first is %lld, expected at most the side, %lld",
                     (long long)n, (long long)most));
}

static bool check_operand(const tc_op *op, unsigned i)
{
    const tc_type *t = op->in[i]->type;
    if (!tc_type_same_shape(t, op->in[0]->type))
        return tc_error(tc_op_context(op), tc_op_in_loc(op, i),
                        "sort: operand %u is %s, expected the shape of %s", i,
                        tc_op_in_type(op, i), tc_op_in_type(op, 0));
    bool is_number = tc_type_is_int(t) || tc_type_is_float(t);
    return is_number || (i && tc_type_is_bool(t)) ||
           tc_error(tc_op_context(op), tc_op_in_loc(op, i),
                    "sort: operand %u is %s, expected ints or floats", i,
                    tc_op_in_type(op, i));
}

bool tc_infer_sort(const tc_op *op, tc_results *r)
{
    if (op->nin == 0)
        return tc_error(tc_op_context(op), op->loc,
                        "sort: expected an operand");
    const tc_type *t = op->in[0]->type;
    if (!tc_infer_check_axis(op, "axis", t->rank))
        return false;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (!check_side(op, t->dims[axis], "the side of the axis",
                    "pad with the largest number, which comes last") ||
        !check_first(op, t->dims[axis]))
        return false;
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++)
        dims[i] = t->dims[i];
    const tc_attr *first = tc_op_attr(op, "first");
    if (first->kind != TC_ATTR_NONE)
        dims[axis] = first->dims[0];
    for (unsigned i = 0; i < op->nin; i++) {
        if (!check_operand(op, i))
            return false;
        tc_results_add(r,
                       tc_infer_tile(op, t->rank, dims, op->in[i]->type->elem));
    }
    return true;
}
