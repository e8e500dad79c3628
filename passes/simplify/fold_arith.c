/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of arithmetic. Ints wrap, so they may be reordered; floats may not,
 * and keep NaN and the sign of zero: x + 0.0 is not x for x = -0.0.
 */
#include "passes/simplify/fold.h"

#include <math.h>

static bool ints(const tc_op *op)
{
    return tc_has_int_lanes(op->in[0]);
}

static bool floats(const tc_op *op)
{
    return tc_has_float_lanes(op->in[0]);
}

/* Arithmetic of f8e5m2 turns a loaded infinity into the largest number, so that
 * even x + -0.0 is not x. Rules that give an operand back ask this first. */
static bool saturates(const tc_op *op)
{
    return tc_lane_kind(op->in[0]) == TC_F8E5M2;
}

static bool is_one(const tc_value *v)
{
    return tc_match_int(v, 1) || tc_match_float(v, 1);
}

static bool is_minus_one(const tc_value *v)
{
    return tc_match_int(v, -1) || tc_match_float(v, -1);
}

/* A size that is known by now. */
static tc_value *dim_known(tc_builder *b, tc_op *op)
{
    tc_scalar x;
    return tc_eval_op(op, NULL, &x) ? tc_build_const(b, op->out[0]->type, x)
                                    : NULL;
}

/* x + 0, and for floats x + -0.0: only that one leaves both zeros. */
static tc_value *add_zero(tc_builder *b, tc_op *op)
{
    bool zero = tc_match_int(op->in[1], 0) || tc_match_float(op->in[1], -0.0);
    return zero && !saturates(op) ? op->in[0] : NULL;
}

static tc_value *sub_zero(tc_builder *b, tc_op *op)
{
    bool zero = tc_match_int(op->in[1], 0) || tc_match_float(op->in[1], 0.0);
    return zero && !saturates(op) ? op->in[0] : NULL;
}

/* x + -y = x - y, -x + y = y - x */
static tc_value *add_negated(tc_builder *b, tc_op *op)
{
    tc_op *neg = tc_match_op(op->in[1], TC_NEG);
    if (saturates(op))
        return NULL;
    if (neg)
        return tc_build_binary(b, TC_SUB, op->in[0], neg->in[0]);
    neg = tc_match_op(op->in[0], TC_NEG);
    return neg ? tc_build_binary(b, TC_SUB, op->in[1], neg->in[0]) : NULL;
}

/* (a - c) + c = a */
static tc_value *add_cancel(tc_builder *b, tc_op *op)
{
    for (unsigned i = 0; i < 2 && ints(op); i++) {
        tc_op *sub = tc_match_op(op->in[i], TC_SUB);
        if (sub && sub->in[1] == op->in[1 - i])
            return sub->in[0];
    }
    return NULL;
}

/* (x + 2) + 3 = x + 5; for mul, and, or, xor, min and max alike. */
static tc_value *reassociate(tc_builder *b, tc_op *op)
{
    tc_scalar c;
    tc_op *inner = tc_match_op(op->in[0], op->code);
    if (!ints(op) || !inner || !tc_match_const(op->in[1], &c) ||
        !tc_match_const(inner->in[1], &c))
        return NULL;
    tc_value *both = tc_build_binary(b, op->code, inner->in[1], op->in[1]);
    return tc_build_binary(b, op->code, inner->in[0], both);
}

static tc_value *sub_self(tc_builder *b, tc_op *op)
{
    return ints(op) && op->in[0] == op->in[1]
               ? tc_build_int_const(b, op->out[0]->type, 0)
               : NULL;
}

/* x - 3 = x + -3, so that constants meet in adds. */
static tc_value *sub_constant(tc_builder *b, tc_op *op)
{
    tc_scalar c;
    if (!ints(op) || !tc_match_const(op->in[1], &c))
        return NULL;
    int64_t minus =
        tc_int_wrap(tc_lane_kind(op->in[0]), (int64_t)(0 - (uint64_t)c.i));
    return tc_build_binary(b, TC_ADD, op->in[0],
                           tc_build_int_const(b, op->out[0]->type, minus));
}

/* 0 - x = -x; for floats only -0.0 - x, as 0.0 - 0.0 is 0.0 */
static tc_value *sub_from_zero(tc_builder *b, tc_op *op)
{
    bool zero = tc_match_int(op->in[0], 0) || tc_match_float(op->in[0], -0.0);
    return zero ? tc_build_unary(b, TC_NEG, op->in[1]) : NULL;
}

static tc_value *sub_negated(tc_builder *b, tc_op *op)
{
    tc_op *neg = tc_match_op(op->in[1], TC_NEG);
    return neg && !saturates(op)
               ? tc_build_binary(b, TC_ADD, op->in[0], neg->in[0])
               : NULL;
}

/* (a + c) - c = a */
static tc_value *sub_cancel(tc_builder *b, tc_op *op)
{
    tc_op *add = tc_match_op(op->in[0], TC_ADD);
    if (!add || !ints(op))
        return NULL;
    for (unsigned i = 0; i < 2; i++)
        if (add->in[i] == op->in[1])
            return add->in[1 - i];
    return NULL;
}

static tc_value *mul_by_one(tc_builder *b, tc_op *op)
{
    return is_one(op->in[1]) && !saturates(op) ? op->in[0] : NULL;
}

static tc_value *mul_by_minus_one(tc_builder *b, tc_op *op)
{
    return is_minus_one(op->in[1]) ? tc_build_unary(b, TC_NEG, op->in[0])
                                   : NULL;
}

/* x * 0 = 0 for ints; inf * 0.0 is NaN. */
static tc_value *mul_by_zero(tc_builder *b, tc_op *op)
{
    return tc_match_int(op->in[1], 0) ? op->in[1] : NULL;
}

static tc_value *div_by_unit(tc_builder *b, tc_op *op)
{
    if (is_one(op->in[1]))
        return saturates(op) ? NULL : op->in[0];
    return is_minus_one(op->in[1]) ? tc_build_unary(b, TC_NEG, op->in[0])
                                   : NULL;
}

/* x / 0 = 0 and 0 / x = 0 */
static tc_value *div_of_zero(tc_builder *b, tc_op *op)
{
    if (tc_match_int(op->in[1], 0))
        return op->in[1];
    return tc_match_int(op->in[0], 0) ? op->in[0] : NULL;
}

/* x / 8.0 = x * 0.125: the same real number is rounded. */
static tc_value *div_by_power_of_two(tc_builder *b, tc_op *op)
{
    tc_scalar c;
    int exponent;
    if (!floats(op) || !tc_match_const(op->in[1], &c) || !isnormal(c.f) ||
        fabs(frexp(c.f, &exponent)) != 0.5)
        return NULL;
    tc_kind kind = tc_lane_kind(op->in[0]);
    int bias = (1 << (tc_scalar_infos[kind].exponent_bits - 1)) - 1;
    /* 1 / c must be representable, and not as a denormal. */
    double inverse = 1 / c.f;
    if (tc_round_to(kind, inverse) != inverse || ilogb(inverse) < 1 - bias)
        return NULL;
    tc_value *factor =
        tc_build_const(b, op->out[0]->type, (tc_scalar){.f = inverse});
    return tc_build_binary(b, TC_MUL, op->in[0], factor);
}

/* x rem 1 = x rem -1 = 0, x rem 0 = x, 0 rem x = 0 */
static tc_value *rem_trivial(tc_builder *b, tc_op *op)
{
    if (tc_match_int(op->in[1], 1) || tc_match_int(op->in[1], -1))
        return tc_build_int_const(b, op->out[0]->type, 0);
    return tc_match_int(op->in[1], 0) || tc_match_int(op->in[0], 0) ? op->in[0]
                                                                    : NULL;
}

/* The high half of x * 0 and x * 1. */
static tc_value *mulhi_trivial(tc_builder *b, tc_op *op)
{
    bool trivial = tc_match_int(op->in[1], 0) || tc_match_int(op->in[1], 1);
    return trivial ? tc_build_int_const(b, op->out[0]->type, 0) : NULL;
}

/* min(x, x) = x; and, or too. */
static tc_value *same_operands(tc_builder *b, tc_op *op)
{
    return op->in[0] == op->in[1] && !saturates(op) ? op->in[0] : NULL;
}

static int64_t smallest(tc_kind kind)
{
    return -(int64_t)(~0ull >> (65 - tc_scalar_infos[kind].bits)) - 1;
}

/* max(x, smallest) = x, max(x, largest) = largest, and so for min. With a
 * constant NaN it is x. */
static tc_value *extreme_bound(tc_builder *b, tc_op *op)
{
    tc_scalar c;
    if (!tc_match_const(op->in[1], &c))
        return NULL;
    if (floats(op))
        return isnan(c.f) && !saturates(op) ? op->in[0] : NULL;
    int64_t low = smallest(tc_lane_kind(op->in[0])), high = -(low + 1);
    if (c.i != low && c.i != high)
        return NULL;
    return (c.i == low) == (op->code == TC_MAX) ? op->in[0] : op->in[1];
}

/* a * b + -0.0 = a * b; a * 1.0 + c = a + c */
static tc_value *fma_trivial(tc_builder *b, tc_op *op)
{
    if (tc_match_float(op->in[2], -0.0))
        return tc_build_binary(b, TC_MUL, op->in[0], op->in[1]);
    for (unsigned i = 0; i < 2; i++)
        if (tc_match_float(op->in[i], 1))
            return tc_build_binary(b, TC_ADD, op->in[1 - i], op->in[2]);
    return NULL;
}

/* -(-x) = x */
static tc_value *neg_of_neg(tc_builder *b, tc_op *op)
{
    tc_op *inner = tc_match_op(op->in[0], TC_NEG);
    return inner && !saturates(op) ? inner->in[0] : NULL;
}

/* -(a - b) = b - a for ints; for floats the zeros differ. */
static tc_value *neg_of_sub(tc_builder *b, tc_op *op)
{
    tc_op *sub = tc_match_op(op->in[0], TC_SUB);
    return sub && ints(op) ? tc_build_binary(b, TC_SUB, sub->in[1], sub->in[0])
                           : NULL;
}

/* |-x| = |x|, ||x|| = |x| */
static tc_value *abs_of_signed(tc_builder *b, tc_op *op)
{
    tc_op *neg = tc_match_op(op->in[0], TC_NEG);
    if (neg)
        return tc_build_unary(b, TC_ABS, neg->in[0]);
    return tc_match_op(op->in[0], TC_ABS) ? op->in[0] : NULL;
}

/* floor, ceil and round of a whole number */
static tc_value *round_of_whole(tc_builder *b, tc_op *op)
{
    const tc_op *def = op->in[0]->def;
    bool whole = def && (def->code == TC_FLOOR || def->code == TC_CEIL ||
                         def->code == TC_ROUND);
    return whole ? op->in[0] : NULL;
}

tc_rule_table tc_arith_rules = {
    [TC_DIM] = {dim_known},
    [TC_ADD] = {add_zero, add_negated, add_cancel, reassociate},
    [TC_SUB] = {sub_zero, sub_self, sub_from_zero, sub_constant, sub_negated,
                sub_cancel},
    [TC_MUL] = {mul_by_one, mul_by_minus_one, mul_by_zero, reassociate},
    [TC_DIV] = {div_by_unit, div_of_zero, div_by_power_of_two},
    [TC_REM] = {rem_trivial},
    [TC_MULHI] = {mulhi_trivial},
    [TC_MIN] = {same_operands, extreme_bound, reassociate},
    [TC_MAX] = {same_operands, extreme_bound, reassociate},
    [TC_AND] = {same_operands, reassociate},
    [TC_OR] = {same_operands, reassociate},
    [TC_XOR] = {reassociate},
    [TC_FMA] = {fma_trivial},
    [TC_NEG] = {neg_of_neg, neg_of_sub},
    [TC_ABS] = {abs_of_signed},
    [TC_FLOOR] = {round_of_whole},
    [TC_CEIL] = {round_of_whole},
    [TC_ROUND] = {round_of_whole},
};
