/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of the values of a loop: one rule for each op that computes ints. Each
 * rule requires that its op does not wrap.
 */
#include "passes/analysis/bounds.h"

#include "passes/analysis/int_range.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"

/* ---- Do the program's ints wrap? ---- */

static void be_sure(tc_loop *l, const tc_limit *t, bool most, int64_t limit)
{
    tc_loop_ask(l, tc_limit_extreme(l, t, most), most, limit);
}

/* Bounds of what an op computes, if it does not wrap: asks that. */
static tc_bounds without_wrap(tc_loop *l, const tc_type *type, tc_bounds x)
{
    tc_int_range all = tc_int_range_of_kind(tc_type_elem(type)->kind);
    if (!x.low || !x.high)
        return (tc_bounds){NULL, NULL};
    if (tc_limit_extreme_known(l, x.low, false) < all.low)
        be_sure(l, x.low, false, all.low);
    if (tc_limit_extreme_known(l, x.high, true) > all.high)
        be_sure(l, x.high, true, all.high);
    return x;
}

/* ---- Values ---- */

static tc_bounds none(void)
{
    return (tc_bounds){NULL, NULL};
}

static tc_bounds both(const tc_limit *t)
{
    return (tc_bounds){t, t};
}

static tc_bounds negated(tc_loop *l, tc_bounds x)
{
    return (tc_bounds){tc_limit_negate(l, x.high), tc_limit_negate(l, x.low)};
}

static tc_bounds added(tc_loop *l, tc_bounds x, tc_bounds y)
{
    return (tc_bounds){tc_limit_add(l, x.low, y.low),
                       tc_limit_add(l, x.high, y.high)};
}

static tc_bounds operand(tc_loop *l, const tc_op *op, unsigned i)
{
    return tc_bounds_of(l, op->in[i]);
}

static tc_bounds of_same(tc_loop *l, const tc_op *op)
{
    return operand(l, op, 0);
}

static tc_bounds of_range(tc_loop *l, const tc_op *op)
{
    int64_t n = tc_type_count(op->out[0]->type);
    if (n < 1)
        return none();
    return (tc_bounds){tc_limit_constant(l, 0), tc_limit_constant(l, n - 1)};
}

static tc_bounds of_add(tc_loop *l, const tc_op *op)
{
    return added(l, operand(l, op, 0), operand(l, op, 1));
}

static tc_bounds of_sub(tc_loop *l, const tc_op *op)
{
    return added(l, operand(l, op, 0), negated(l, operand(l, op, 1)));
}

static tc_bounds of_neg(tc_loop *l, const tc_op *op)
{
    return negated(l, operand(l, op, 0));
}

static tc_bounds of_min(tc_loop *l, const tc_op *op)
{
    tc_bounds x = operand(l, op, 0), y = operand(l, op, 1);
    return (tc_bounds){tc_limit_choose(l, TC_LIMIT_MIN, x.low, y.low),
                       tc_limit_choose(l, TC_LIMIT_MIN, x.high, y.high)};
}

static tc_bounds of_max(tc_loop *l, const tc_op *op)
{
    tc_bounds x = operand(l, op, 0), y = operand(l, op, 1);
    return (tc_bounds){tc_limit_choose(l, TC_LIMIT_MAX, x.low, y.low),
                       tc_limit_choose(l, TC_LIMIT_MAX, x.high, y.high)};
}

static tc_bounds of_select(tc_loop *l, const tc_op *op)
{
    tc_bounds x = operand(l, op, 1), y = operand(l, op, 2);
    return (tc_bounds){tc_limit_choose(l, TC_LIMIT_MIN, x.low, y.low),
                       tc_limit_choose(l, TC_LIMIT_MAX, x.high, y.high)};
}

static tc_bounds of_abs(tc_loop *l, const tc_op *op)
{
    tc_bounds x = operand(l, op, 0), y = negated(l, x);
    return (tc_bounds){tc_limit_choose(l, TC_LIMIT_MAX, x.low, y.low),
                       tc_limit_choose(l, TC_LIMIT_MAX, x.high, y.high)};
}

static tc_bounds times(tc_loop *l, tc_bounds x, int64_t by)
{
    if (by < 0)
        return by < -TC_MOST_DIVISOR ? none() : times(l, negated(l, x), -by);
    return (tc_bounds){tc_limit_scale(l, x.low, by),
                       tc_limit_scale(l, x.high, by)};
}

static tc_bounds of_mul(tc_loop *l, const tc_op *op)
{
    tc_scalar c;
    for (unsigned i = 0; i < 2; i++)
        if (tc_match_const(op->in[i], &c))
            return times(l, operand(l, op, 1 - i), c.i);
    return none();
}

static tc_bounds of_shl(tc_loop *l, const tc_op *op)
{
    tc_scalar c;
    if (!tc_match_const(op->in[1], &c) || c.i < 0 || c.i > 24)
        return none();
    return times(l, operand(l, op, 0), (int64_t)1 << c.i);
}

/* The divisor, if it is a scalar from before the loop: adds the tests that it
 * is positive and not too large. NULL: it is something else. */
static tc_value *divisor_of(tc_loop *l, const tc_op *op)
{
    tc_value *v = op->in[1];
    while (v->def && v->type->kind == TC_TILE &&
           (v->def->code == TC_SPLAT || v->def->code == TC_BROADCAST))
        v = v->def->in[0];
    if (v->type->kind == TC_TILE || !tc_loop_has_outside(l, v))
        return NULL;
    tc_int_range s = tc_int_range_of(v);
    tc_value *by = tc_loop_i64(l, v);
    if (s.low < 1)
        tc_loop_ask(l, by, false, 1);
    if (s.high > TC_MOST_DIVISOR)
        tc_loop_ask(l, by, true, TC_MOST_DIVISOR);
    return by;
}

static tc_bounds of_div(tc_loop *l, const tc_op *op)
{
    tc_scalar c;
    tc_bounds x = operand(l, op, 0);
    bool is_const = tc_match_const(op->in[1], &c);
    if (!x.low || (is_const && c.i < 1))
        return none();
    if (is_const)
        return (tc_bounds){tc_limit_divide(l, x.low, c.i),
                           tc_limit_divide(l, x.high, c.i)};
    tc_value *by = divisor_of(l, op);
    if (!by)
        return none();
    return (tc_bounds){tc_limit_divide_by(l, x.low, by),
                       tc_limit_divide_by(l, x.high, by)};
}

/* x rem y is from 0 to y - 1 whatever x is; an x that is in this range already
 * is its own remainder. */
static tc_bounds of_rem(tc_loop *l, const tc_op *op)
{
    tc_scalar c;
    bool is_const = tc_match_const(op->in[1], &c);
    const tc_limit *last = NULL;
    if (is_const && c.i >= 1)
        last = tc_limit_constant(l, c.i - 1);
    tc_value *by = is_const ? NULL : divisor_of(l, op);
    if (by)
        last =
            tc_limit_linear(l, 0, (tc_sum){by, -1, 0, TC_MOST_DIVISOR - 1}, 1);
    if (!last)
        return none();
    tc_bounds x = operand(l, op, 0);
    const tc_limit *less = NULL;
    if (x.low && tc_limit_extreme_known(l, x.low, false) >= 0)
        less = tc_limit_choose(l, TC_LIMIT_MIN, last, x.high);
    return (tc_bounds){tc_limit_constant(l, 0), less ? less : last};
}

/* bisect: between the results for the smallest and for the largest value
 * searched for, if the table does not change in the loop; else unknown. */
static tc_bounds of_bisect(tc_loop *l, const tc_op *op)
{
    tc_builder *b = &l->before;
    tc_bounds x = operand(l, op, 1);
    tc_value *ends[] = {tc_limit_value(l, x.low), tc_limit_value(l, x.high)};
    const tc_limit *t[2];
    if (!ends[0] || !ends[1])
        return (tc_bounds){tc_limit_constant(l, 0),
                           tc_limit_constant(l, INT32_MAX)};
    for (int i = 0; i < 2; i++) {
        tc_value *in[] = {op->in[0], tc_build(b, TC_CAST, 1, &ends[i],
                                              op->in[0]->type->elem)};
        tc_value *n = tc_loop_i64(l, tc_build(b, TC_BISECT, 2, in, NULL));
        t[i] = tc_limit_linear(l, 0, (tc_sum){n, 0, 0, INT32_MAX}, 1);
    }
    return (tc_bounds){t[0], t[1]};
}

/* Bits that a constant leaves. */
static tc_bounds of_and(tc_loop *l, const tc_op *op)
{
    tc_scalar c;
    for (unsigned i = 0; i < 2; i++)
        if (tc_match_const(op->in[i], &c) && c.i >= 0)
            return (tc_bounds){tc_limit_constant(l, 0),
                               tc_limit_constant(l, c.i)};
    return none();
}

static tc_bounds of_shr(tc_loop *l, const tc_op *op)
{
    tc_scalar c;
    if (!tc_match_const(op->in[1], &c) || c.i < 0 || c.i > 24)
        return none();
    tc_bounds x = operand(l, op, 0);
    return (tc_bounds){tc_limit_divide(l, x.low, (int64_t)1 << c.i),
                       tc_limit_divide(l, x.high, (int64_t)1 << c.i)};
}

static tc_bounds of_cast(tc_loop *l, const tc_op *op)
{
    tc_kind from = tc_lane_kind(op->in[0]);
    if (from == TC_I1)
        return (tc_bounds){tc_limit_constant(l, 0), tc_limit_constant(l, 1)};
    return from <= TC_I64 ? operand(l, op, 0) : none();
}

typedef tc_bounds bounds_fn(tc_loop *l, const tc_op *op);
static bounds_fn *const by_op[TC_OPCODE_COUNT] = {
    [TC_SPLAT] = of_same,       [TC_BROADCAST] = of_same,
    [TC_EXPAND_DIMS] = of_same, [TC_RESHAPE] = of_same,
    [TC_TRANS] = of_same,       [TC_RANGE] = of_range,
    [TC_ADD] = of_add,          [TC_SUB] = of_sub,
    [TC_NEG] = of_neg,          [TC_MIN] = of_min,
    [TC_MAX] = of_max,          [TC_ABS] = of_abs,
    [TC_MUL] = of_mul,          [TC_SHL] = of_shl,
    [TC_DIV] = of_div,          [TC_SHR] = of_shr,
    [TC_SELECT] = of_select,    [TC_CAST] = of_cast,
    [TC_REM] = of_rem,          [TC_AND] = of_and,
    [TC_BISECT] = of_bisect,
};

/* A scalar from before the loop is itself. */
static tc_bounds of_scalar(tc_loop *l, tc_value *v)
{
    tc_int_range s = tc_int_range_of(v);
    if (tc_sum_is_far(s.low) || tc_sum_is_far(s.high))
        return none();
    tc_sum sum = {tc_loop_i64(l, v), 0, s.low, s.high};
    return both(tc_limit_linear(l, 0, sum, 1));
}

tc_value *tc_loop_reduce(tc_loop *l, tc_value *v, const char *kind)
{
    while (v->type->kind == TC_TILE) {
        tc_builder *b = &l->before;
        tc_op *op = tc_op_new(b->func, TC_REDUCE, b->loc, 1, &v, 0);
        tc_op_set_word(op, "kind", kind);
        tc_op_set_int(op, "axis", (int64_t)v->type->rank - 1);
        v = tc_build_op(b, op, NULL);
    }
    return v;
}

/* A tile from before the loop: its smallest and its largest lane. */
static tc_bounds of_tile(tc_loop *l, tc_value *v)
{
    return (tc_bounds){of_scalar(l, tc_loop_reduce(l, v, "min")).low,
                       of_scalar(l, tc_loop_reduce(l, v, "max")).high};
}

static tc_bounds bounds_find(tc_loop *l, tc_value *v)
{
    tc_scalar c;
    tc_kind kind = tc_lane_kind(v);
    bool outside = tc_loop_has_outside(l, v);
    if (kind == TC_KIND_COUNT || kind == TC_I1 || !tc_has_int_lanes(v))
        return none();
    if (v == l->op->regions[0]->args[0])
        return both(tc_limit_linear(l, 1, (tc_sum){0}, 1));
    if (tc_match_const(v, &c))
        return both(tc_limit_constant(l, c.i));
    if (outside && v->type->kind != TC_TILE)
        return of_scalar(l, v);
    tc_bounds x = none();
    if (v->def && by_op[v->def->code])
        x = without_wrap(l, v->type, by_op[v->def->code](l, v->def));
    if (!x.low && outside && kind != TC_I64)
        x = of_tile(l, v);
    return x;
}

tc_bounds tc_bounds_of(tc_loop *l, tc_value *v)
{
    tc_bounds *known = tc_map_get(&l->known, v);
    if (!known) {
        known = tc_arena_new(l->scratch, tc_bounds);
        *known = bounds_find(l, v);
        if (!known->low || !known->high)
            *known = none();
        tc_map_set(&l->known, v, known);
    }
    return *known;
}

/* ---- Loops ---- */

bool tc_loop_has_outside(const tc_loop *l, const tc_value *v)
{
    return !tc_is_defined_in(v, l->op);
}

bool tc_loop_open(tc_loop *l, tc_op *op, tc_arena *scratch, const char **why)
{
    tc_scalar lo, step;
    tc_value *i = op->regions[0]->args[0];
    *l = (tc_loop){.op = op, .scratch = scratch};
    l->before = tc_builder_before(op);
    l->known.arena = l->truths.arena = l->contraries.arena = scratch;
    if (i->type->kind != TC_I32) {
        *why = "its index is i64, only i32 leaves room to compute bounds";
        return false;
    }
    if (!tc_match_const(op->in[2], &step) || step.i <= 0) {
        *why = "its step is not known at compile time";
        return false;
    }
    l->low = tc_int_range_of(op->in[0]).low;
    l->high = tc_int_range_of(op->in[1]).high - 1;
    if (tc_match_const(op->in[0], &lo) && lo.i <= l->high)
        l->high = lo.i + (l->high - lo.i) / step.i * step.i;
    if (l->high < l->low)
        l->high = l->low; /* no steps */
    return true;
}

tc_value *tc_loop_i64(tc_loop *l, tc_value *scalar)
{
    return tc_build_cast(&l->before, scalar, TC_I64);
}

void tc_loop_ask(tc_loop *l, tc_value *x, bool most, int64_t limit)
{
    tc_builder *b = &l->before;
    tc_value *ok =
        tc_build_cmp(b, most ? "le" : "ge", x, tc_build_int(b, x->type, limit));
    l->sure = tc_build_both(b, l->sure, ok);
}
