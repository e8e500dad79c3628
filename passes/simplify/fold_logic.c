/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of bits, comparisons, selections and conversions.
 */
#include "passes/simplify/fold.h"

#include <string.h>

/* All bits set: -1, and of i1 `true`. */
static bool is_all_ones(const tc_value *v)
{
    return tc_match_int(v, tc_lane_kind(v) == TC_I1 ? 1 : -1);
}

static tc_value *and_trivial(tc_builder *b, tc_op *op)
{
    if (tc_match_int(op->in[1], 0))
        return op->in[1];
    return is_all_ones(op->in[1]) ? op->in[0] : NULL;
}

static tc_value *or_trivial(tc_builder *b, tc_op *op)
{
    if (tc_match_int(op->in[1], 0))
        return op->in[0];
    return is_all_ones(op->in[1]) ? op->in[1] : NULL;
}

static tc_value *xor_trivial(tc_builder *b, tc_op *op)
{
    if (tc_match_int(op->in[1], 0))
        return op->in[0];
    if (is_all_ones(op->in[1]))
        return tc_build_unary(b, TC_NOT, op->in[0]);
    return op->in[0] == op->in[1] && tc_has_int_lanes(op->in[0])
               ? tc_build_int_const(b, op->out[0]->type, 0)
               : NULL;
}

/* x & not x = 0, x | not x = all ones */
static tc_value *with_complement(tc_builder *b, tc_op *op)
{
    if (!tc_has_int_lanes(op->in[0]))
        return NULL;
    for (unsigned i = 0; i < 2; i++) {
        tc_op *complement = tc_match_op(op->in[i], TC_NOT);
        if (complement && complement->in[0] == op->in[1 - i]) {
            int64_t ones = tc_lane_kind(op->in[0]) == TC_I1 ? 1 : -1;
            return tc_build_int_const(b, op->out[0]->type,
                                      op->code == TC_AND ? 0 : ones);
        }
    }
    return NULL;
}

static bool is_ordering(const char *pred)
{
    return strcmp(pred, "eq") != 0 && strcmp(pred, "ne") != 0;
}

/* The predicate that holds where `pred` does not. */
static const char *inverse(const char *pred)
{
    static const char *const pairs[][2] = {
        {"eq", "ne"},   {"lt", "ge"},   {"le", "gt"},
        {"ult", "uge"}, {"ule", "ugt"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int side = 0; side < 2; side++)
            if (strcmp(pred, pairs[i][side]) == 0)
                return pairs[i][1 - side];
    return pred;
}

/* The predicate for exchanged operands. */
static const char *mirrored(const char *pred)
{
    static const char *const pairs[][2] = {
        {"lt", "gt"},
        {"le", "ge"},
        {"ult", "ugt"},
        {"ule", "uge"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int side = 0; side < 2; side++)
            if (strcmp(pred, pairs[i][side]) == 0)
                return pairs[i][1 - side];
    return pred;
}

/* not not x = x; not (x < y) = x >= y for ints. With NaN neither < nor >= is
 * true, so of float predicates only == and != can be inverted. */
static tc_value *not_of_boolean(tc_builder *b, tc_op *op)
{
    tc_op *inner = tc_match_op(op->in[0], TC_NOT);
    if (inner)
        return inner->in[0];
    tc_op *cmp = tc_match_op(op->in[0], TC_CMP);
    if (!cmp)
        return NULL;
    const char *pred = tc_op_word(cmp, "pred");
    if (is_ordering(pred) && !tc_has_int_lanes(cmp->in[0]))
        return NULL;
    return tc_build_cmp(b, inverse(pred), cmp->in[0], cmp->in[1]);
}

/* The orders of x and y in which the predicate holds, without a `u`. */
enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };
static const struct {
    const char *pred;
    unsigned orders;
} predicates[] = {
    {"eq", EQUAL},    {"ne", LESS | GREATER | UNORDERED},
    {"lt", LESS},     {"le", LESS | EQUAL},
    {"gt", GREATER},  {"ge", GREATER | EQUAL},
    {"ult", LESS},    {"ule", LESS | EQUAL},
    {"ugt", GREATER}, {"uge", GREATER | EQUAL},
};
enum { NPREDICATES = sizeof predicates / sizeof *predicates };

static unsigned orders_of(const char *pred)
{
    unsigned i = 0;
    while (strcmp(pred, predicates[i].pred) != 0)
        i++;
    return predicates[i].orders;
}

/* NULL: none that holds in these alone. */
static const char *pred_of(unsigned orders, unsigned all, bool of_unsigned)
{
    for (unsigned i = 0; i < NPREDICATES; i++) {
        const char *pred = predicates[i].pred;
        if ((predicates[i].orders & all) == orders &&
            (!is_ordering(pred) || (pred[0] == 'u') == of_unsigned))
            return pred;
    }
    return NULL;
}

/* x < y | x == y = x <= y, and all others of the same two */
static tc_value *two_comparisons(tc_builder *b, tc_op *op)
{
    const tc_op *p = tc_match_op(op->in[0], TC_CMP);
    const tc_op *q = tc_match_op(op->in[1], TC_CMP);
    if (!p || !q)
        return NULL;
    bool same = p->in[0] == q->in[0] && p->in[1] == q->in[1];
    bool swapped = p->in[0] == q->in[1] && p->in[1] == q->in[0];
    const char *x = tc_op_word(p, "pred"), *y = tc_op_word(q, "pred");
    y = same ? y : mirrored(y);
    bool ux = x[0] == 'u', uy = y[0] == 'u';
    if ((!same && !swapped) || (ux != uy && is_ordering(x) && is_ordering(y)))
        return NULL;
    unsigned all = LESS | EQUAL | GREATER;
    if (!tc_has_int_lanes(p->in[0]))
        all |= UNORDERED;
    unsigned orders = op->code == TC_AND ? orders_of(x) & orders_of(y)
                                         : orders_of(x) | orders_of(y);
    orders &= all;
    if (orders == 0 || orders == all)
        return tc_build_int_const(b, op->out[0]->type, orders != 0);
    const char *pred = pred_of(orders, all, ux || uy);
    return pred ? tc_build_cmp(b, pred, p->in[0], p->in[1]) : NULL;
}

/* x << 0 = x, 0 << x = 0, and so for the others */
static tc_value *shift_trivial(tc_builder *b, tc_op *op)
{
    bool trivial = tc_match_int(op->in[1], 0) || tc_match_int(op->in[0], 0);
    return trivial ? op->in[0] : NULL;
}

/* Beyond the width all bits are lost (shr keeps the sign: left alone). */
static tc_value *shift_beyond(tc_builder *b, tc_op *op)
{
    tc_scalar by;
    if (!tc_has_int_lanes(op->in[0]) || !tc_match_const(op->in[1], &by))
        return NULL;
    unsigned bits = tc_scalar_infos[tc_lane_kind(op->in[0])].bits;
    return by.i < 0 || by.i >= bits ? tc_build_int_const(b, op->out[0]->type, 0)
                                    : NULL;
}

static tc_value *cmp_constant_to_the_right(tc_builder *b, tc_op *op)
{
    tc_scalar c;
    if (!tc_match_const(op->in[0], &c) || tc_match_const(op->in[1], &c))
        return NULL;
    return tc_build_cmp(b, mirrored(tc_op_word(op, "pred")), op->in[1],
                        op->in[0]);
}

/* x <= x and the like: of ints. Of floats only < and > are sure: x == x asks
 * whether x is a NaN. */
static tc_value *cmp_self(tc_builder *b, tc_op *op)
{
    if (op->in[0] != op->in[1] || tc_lane_kind(op->in[0]) == TC_KIND_COUNT)
        return NULL;
    const char *pred = tc_op_word(op, "pred");
    bool is_true = strstr("eq le ge ule uge", pred) != NULL;
    bool is_strict = strcmp(pred, "lt") == 0 || strcmp(pred, "gt") == 0;
    if (!tc_has_int_lanes(op->in[0]) && !is_strict)
        return NULL;
    return tc_build_int_const(b, op->out[0]->type, is_true);
}

/* Of i1: c == true, c != false is c; c == false, c != true is not c. */
static tc_value *cmp_boolean(tc_builder *b, tc_op *op)
{
    tc_scalar c;
    const char *pred = tc_op_word(op, "pred");
    if (tc_lane_kind(op->in[0]) != TC_I1 || is_ordering(pred) ||
        !tc_match_const(op->in[1], &c))
        return NULL;
    bool same = (strcmp(pred, "eq") == 0) == (c.i == 1);
    return same ? op->in[0] : tc_build_unary(b, TC_NOT, op->in[0]);
}

static tc_value *select_constant(tc_builder *b, tc_op *op)
{
    tc_scalar c;
    if (!tc_match_const(op->in[0], &c))
        return NULL;
    return c.i ? op->in[1] : op->in[2];
}

static tc_value *select_equal_arms(tc_builder *b, tc_op *op)
{
    return op->in[1] == op->in[2] ? op->in[1] : NULL;
}

/* select c, true, false = c; select c, false, true = not c */
static tc_value *select_boolean(tc_builder *b, tc_op *op)
{
    tc_scalar yes, no;
    if (op->out[0]->type != op->in[0]->type ||
        !tc_match_const(op->in[1], &yes) || !tc_match_const(op->in[2], &no) ||
        yes.i == no.i)
        return NULL;
    return yes.i ? op->in[0] : tc_build_unary(b, TC_NOT, op->in[0]);
}

static tc_value *select_not(tc_builder *b, tc_op *op)
{
    tc_op *complement = tc_match_op(op->in[0], TC_NOT);
    if (!complement)
        return NULL;
    return tc_build_select(b, complement->in[0], op->in[2], op->in[1]);
}

/* A condition that is the same in all lanes chooses between whole tiles. */
static tc_value *select_splat(tc_builder *b, tc_op *op)
{
    tc_op *splat = tc_match_op(op->in[0], TC_SPLAT);
    if (!splat)
        return NULL;
    return tc_build_select(b, splat->in[0], op->in[1], op->in[2]);
}

/* select c, (select c, x, y), z = select c, x, z */
static tc_value *select_of_select(tc_builder *b, tc_op *op)
{
    for (unsigned arm = 1; arm <= 2; arm++) {
        tc_op *inner = tc_match_op(op->in[arm], TC_SELECT);
        if (!inner || inner->in[0] != op->in[0])
            continue;
        tc_value *in[] = {op->in[0], op->in[1], op->in[2]};
        in[arm] = inner->in[arm];
        return tc_build(b, TC_SELECT, 3, in, NULL);
    }
    return NULL;
}

/* A cast to f8e5m2 saturates infinities, one from it to itself as well. */
static bool saturates(tc_kind from, tc_kind to)
{
    return from == TC_F8E5M2 && to == TC_F8E5M2;
}

static tc_value *cast_to_itself(tc_builder *b, tc_op *op)
{
    tc_kind kind = tc_lane_kind(op->in[0]);
    bool kept = kind != TC_KIND_COUNT && !saturates(kind, kind);
    return kept && op->in[0]->type == op->out[0]->type ? op->in[0] : NULL;
}

static tc_value *bitcast_to_itself(tc_builder *b, tc_op *op)
{
    return op->in[0]->type == op->out[0]->type ? op->in[0] : NULL;
}

/* May cast(cast(x: a -> b) -> c) skip b? */
static bool may_skip(tc_kind a, tc_kind b, tc_kind c)
{
    bool a_float = tc_scalar_infos[a].is_float;
    bool b_float = tc_scalar_infos[b].is_float;
    bool c_float = tc_scalar_infos[c].is_float;
    unsigned a_bits = tc_scalar_infos[a].bits;
    if (tc_cast_is_exact(
            a, b)) /* but a narrower int: floats saturate, ints wrap */
        return a_float || !b_float || c_float || c == TC_I1 ||
               tc_scalar_infos[c].bits >= a_bits;
    /* Two ints that both cut: the second cuts all that the first did. */
    return !a_float && !b_float && !c_float && b != TC_I1 && c != TC_I1 &&
           tc_scalar_infos[c].bits <= tc_scalar_infos[b].bits;
}

static tc_value *cast_of_cast(tc_builder *b, tc_op *op)
{
    tc_op *inner = tc_match_op(op->in[0], TC_CAST);
    if (!inner)
        return NULL;
    tc_kind from = tc_lane_kind(inner->in[0]), to = tc_lane_kind(op->out[0]);
    tc_kind via = tc_lane_kind(op->in[0]);
    if (from == TC_KIND_COUNT || to == TC_KIND_COUNT || via == TC_KIND_COUNT ||
        saturates(from, via) || saturates(from, to) || !may_skip(from, via, to))
        return NULL;
    return from == to ? inner->in[0]
                      : tc_build(b, TC_CAST, 1, inner->in, op->out[0]->type);
}

static tc_value *bitcast_of_bitcast(tc_builder *b, tc_op *op)
{
    tc_op *inner = tc_match_op(op->in[0], TC_BITCAST);
    bool direct = inner && tc_type_may_bitcast(tc_type_elem(inner->in[0]->type),
                                               tc_type_elem(op->out[0]->type));
    return direct ? tc_build(b, TC_BITCAST, 1, inner->in, op->out[0]->type)
                  : NULL;
}

static tc_value *move_by_zero(tc_builder *b, tc_op *op)
{
    return tc_match_int(op->in[1], 0) ? op->in[0] : NULL;
}

tc_rule_table tc_logic_rules = {
    [TC_AND] = {and_trivial, with_complement, two_comparisons},
    [TC_OR] = {or_trivial, with_complement, two_comparisons},
    [TC_XOR] = {xor_trivial},
    [TC_NOT] = {not_of_boolean},
    [TC_SHL] = {shift_trivial, shift_beyond},
    [TC_SHR] = {shift_trivial},
    [TC_SHRU] = {shift_trivial, shift_beyond},
    [TC_CMP] = {cmp_constant_to_the_right, cmp_self, cmp_boolean},
    [TC_SELECT] = {select_constant, select_equal_arms, select_boolean,
                   select_not, select_splat, select_of_select},
    [TC_CAST] = {cast_to_itself, cast_of_cast},
    [TC_BITCAST] = {bitcast_to_itself, bitcast_of_bitcast},
    [TC_PTR_ADD] = {move_by_zero},
};
