/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/bounds.h"

#include "passes/match.h"
#include "passes/span.h"

#include <assert.h>

/* Of a bound: what is longer is not worth the ops. And sums stay far from what
 * an i64 holds. */
enum { MOST_TERMS = 16 };
static const int64_t MOST = (int64_t)1 << 60;
static const int64_t MOST_FACTOR = TC_MOST_DIVISOR;

/* ---- Sums ---- */

static tc_value *build_i64(tc_loop *l, tc_value *scalar)
{
    const tc_type *i64 = tc_type_scalar(l->before.func->module->cx, TC_I64);
    return scalar->type == i64 ? scalar
                               : tc_build(&l->before, TC_CAST, 1, &scalar, i64);
}

static tc_value *i64_const(tc_loop *l, int64_t c)
{
    const tc_type *i64 = tc_type_scalar(l->before.func->module->cx, TC_I64);
    return tc_build_int(&l->before, i64, c);
}

tc_value *tc_sum_value(tc_loop *l, tc_sum s)
{
    if (s.value && s.constant == 0)
        return s.value;
    tc_value *c = i64_const(l, s.constant);
    return s.value ? tc_build_binary(&l->before, TC_ADD, s.value, c) : c;
}

static bool is_far(int64_t x)
{
    return x > MOST || x < -MOST;
}

static bool add_sums(tc_loop *l, tc_sum a, tc_sum b, tc_sum *out)
{
    *out =
        (tc_sum){NULL, a.constant + b.constant, a.low + b.low, a.high + b.high};
    if (is_far(out->low) || is_far(out->high) || is_far(out->constant))
        return false;
    out->value = a.value ? a.value : b.value;
    if (a.value && b.value)
        out->value = tc_build_binary(&l->before, TC_ADD, a.value, b.value);
    return true;
}

bool tc_sum_scale(tc_loop *l, tc_sum a, int64_t by, tc_sum *out)
{
    int64_t low, high;
    if (__builtin_mul_overflow(a.low, by, &low) ||
        __builtin_mul_overflow(a.high, by, &high) ||
        __builtin_mul_overflow(a.constant, by, &out->constant) || is_far(low) ||
        is_far(high) || is_far(out->constant))
        return false;
    out->low = by < 0 ? high : low;
    out->high = by < 0 ? low : high;
    out->value = a.value;
    if (a.value && by == -1)
        out->value = tc_build_unary(&l->before, TC_NEG, a.value);
    else if (a.value && by != 1)
        out->value =
            tc_build_binary(&l->before, TC_MUL, a.value,
                            tc_build_int(&l->before, a.value->type, by));
    return true;
}

/* by times the sum, where by is a divisor. */
static bool scale_by_value(tc_loop *l, tc_sum a, tc_value *by, tc_sum *out)
{
    *out = (tc_sum){.low = a.low * (a.low < 0 ? MOST_FACTOR : 1),
                    .high = a.high * (a.high > 0 ? MOST_FACTOR : 1)};
    if (a.low < -MOST / MOST_FACTOR || a.high > MOST / MOST_FACTOR)
        return false;
    out->value = tc_build_binary(&l->before, TC_MUL, tc_sum_value(l, a), by);
    return true;
}

/* ---- Bounds ---- */

/* The program asks: x <= limit (most), or x >= limit. */
static void ask(tc_loop *l, tc_value *x, bool most, int64_t limit)
{
    tc_builder *b = &l->before;
    tc_value *ok =
        tc_build_cmp(b, most ? "le" : "ge", x, tc_build_int(b, x->type, limit));
    l->sure = l->sure ? tc_build_binary(b, TC_AND, l->sure, ok) : ok;
}

static const tc_limit *new_linear(tc_loop *l, int64_t factor, tc_sum sum,
                                  int64_t divisor)
{
    if (factor > MOST_FACTOR || factor < -MOST_FACTOR || divisor > MOST_FACTOR)
        return NULL;
    tc_limit *t = tc_arena_new(l->scratch, tc_limit);
    *t = (tc_limit){TC_LIMIT_LINEAR, factor, divisor, NULL, sum, NULL, NULL, 1};
    return t;
}

/* floor((factor * i + sum) / by) */
static const tc_limit *new_divided(tc_loop *l, int64_t factor, tc_sum sum,
                                   tc_value *by)
{
    const tc_limit *whole = new_linear(l, factor, sum, 1);
    if (!whole || is_far(sum.low - MOST_FACTOR) ||
        is_far(sum.high + MOST_FACTOR))
        return NULL;
    tc_limit *t = tc_arena_new(l->scratch, tc_limit);
    *t = *whole;
    t->by = by;
    return t;
}

static bool is_divided(const tc_limit *t)
{
    return t->by || t->divisor != 1;
}

static const tc_limit *new_choice(tc_loop *l, tc_limit_kind kind,
                                  const tc_limit *a, const tc_limit *b)
{
    if (!a || !b || a->size + b->size > MOST_TERMS)
        return NULL;
    tc_limit *t = tc_arena_new(l->scratch, tc_limit);
    *t = (tc_limit){.kind = kind, .a = a, .b = b, .size = a->size + b->size};
    return t;
}

const tc_limit *tc_limit_constant(tc_loop *l, int64_t c)
{
    return new_linear(l, 0, (tc_sum){NULL, c, c, c}, 1);
}

const tc_limit *tc_limit_of_sum(tc_loop *l, tc_sum s)
{
    return new_linear(l, 0, s, 1);
}

/* floor((f i + s) / d) + floor((g i + t) / e), where one of d and e is 1 */
static const tc_limit *add_linear(tc_loop *l, const tc_limit *a,
                                  const tc_limit *b)
{
    if (!is_divided(a)) {
        const tc_limit *swap = a;
        a = b;
        b = swap;
    }
    tc_sum scaled, sum;
    if (is_divided(b) || (a->by && b->factor))
        return NULL;
    if (a->by ? !scale_by_value(l, b->sum, a->by, &scaled)
              : !tc_sum_scale(l, b->sum, a->divisor, &scaled))
        return NULL;
    if (!add_sums(l, a->sum, scaled, &sum))
        return NULL;
    return a->by ? new_divided(l, a->factor, sum, a->by)
                 : new_linear(l, a->factor + b->factor * a->divisor, sum,
                              a->divisor);
}

const tc_limit *tc_limit_add(tc_loop *l, const tc_limit *a, const tc_limit *b)
{
    if (!a || !b)
        return NULL;
    if (a->kind != TC_LIMIT_LINEAR)
        return new_choice(l, a->kind, tc_limit_add(l, a->a, b),
                          tc_limit_add(l, a->b, b));
    if (b->kind != TC_LIMIT_LINEAR)
        return tc_limit_add(l, b, a);
    return add_linear(l, a, b);
}

/* -floor(x / d) = floor((-x + d - 1) / d) */
static const tc_limit *negate_linear(tc_loop *l, const tc_limit *a)
{
    tc_sum minus, sum;
    tc_sum up = {NULL, a->divisor - 1, a->divisor - 1, a->divisor - 1};
    if (a->by)
        up = (tc_sum){a->by, -1, 0, MOST_FACTOR - 1};
    if (!tc_sum_scale(l, a->sum, -1, &minus) || !add_sums(l, minus, up, &sum))
        return NULL;
    return a->by ? new_divided(l, -a->factor, sum, a->by)
                 : new_linear(l, -a->factor, sum, a->divisor);
}

const tc_limit *tc_limit_negate(tc_loop *l, const tc_limit *a)
{
    if (!a || a->kind == TC_LIMIT_LINEAR)
        return a ? negate_linear(l, a) : NULL;
    return new_choice(l, a->kind == TC_LIMIT_MIN ? TC_LIMIT_MAX : TC_LIMIT_MIN,
                      tc_limit_negate(l, a->a), tc_limit_negate(l, a->b));
}

const tc_limit *tc_limit_undivided(tc_loop *l, const tc_limit *t)
{
    tc_sum minus, up = {t->by, -1, 0, MOST_FACTOR - 1}, sum;
    bool fits =
        tc_sum_scale(l, up, -1, &minus) && add_sums(l, t->sum, minus, &sum);
    assert(fits); /* new_divided left room */
    return fits ? new_linear(l, t->factor, sum, 1) : NULL;
}

/* by is not negative */
static const tc_limit *scale(tc_loop *l, const tc_limit *a, int64_t by)
{
    tc_sum sum;
    if (!a)
        return NULL;
    if (a->kind != TC_LIMIT_LINEAR)
        return new_choice(l, a->kind, scale(l, a->a, by), scale(l, a->b, by));
    if (by > MOST_FACTOR || is_divided(a) || !tc_sum_scale(l, a->sum, by, &sum))
        return NULL;
    return new_linear(l, a->factor * by, sum, 1);
}

/* floor(sum / by), the same in every step, is a sum; by is least to most. */
static const tc_limit *divide_sum(tc_loop *l, tc_sum s, tc_value *by,
                                  int64_t least, int64_t most)
{
    tc_sum q = {NULL, 0, tc_int_div(TC_I64, s.low, s.low < 0 ? least : most),
                tc_int_div(TC_I64, s.high, s.high < 0 ? most : least)};
    q.value = tc_build_binary(&l->before, TC_DIV, tc_sum_value(l, s), by);
    return new_linear(l, 0, q, 1);
}

/* by is 1 or more */
static const tc_limit *divide(tc_loop *l, const tc_limit *a, int64_t by)
{
    if (!a)
        return NULL;
    if (a->kind != TC_LIMIT_LINEAR)
        return new_choice(l, a->kind, divide(l, a->a, by), divide(l, a->b, by));
    if (a->factor == 0 && !is_divided(a))
        return divide_sum(l, a->sum, i64_const(l, by), by, by);
    return by > MOST_FACTOR || a->by
               ? NULL
               : new_linear(l, a->factor, a->sum, a->divisor * by);
}

static const tc_limit *divide_by_value(tc_loop *l, const tc_limit *a,
                                       tc_value *by)
{
    if (!a)
        return NULL;
    if (a->kind != TC_LIMIT_LINEAR)
        return new_choice(l, a->kind, divide_by_value(l, a->a, by),
                          divide_by_value(l, a->b, by));
    if (is_divided(a)) { /* floor(floor(x / d) / by) = floor(x / (d by)) */
        tc_value *d = a->by ? a->by : i64_const(l, a->divisor);
        by = tc_build_binary(&l->before, TC_MUL, d, by);
        ask(l, by, true, MOST_FACTOR);
    }
    return a->factor ? new_divided(l, a->factor, a->sum, by)
                     : divide_sum(l, a->sum, by, 1, MOST_FACTOR);
}

tc_value *tc_limit_value(tc_loop *l, const tc_limit *t)
{
    tc_builder *b = &l->before;
    if (!t || (t->kind == TC_LIMIT_LINEAR && t->factor))
        return NULL;
    if (t->kind == TC_LIMIT_LINEAR) {
        tc_value *x = tc_sum_value(l, t->sum);
        if (!is_divided(t))
            return x;
        return tc_build_binary(b, TC_DIV, x,
                               t->by ? t->by : i64_const(l, t->divisor));
    }
    tc_value *x = tc_limit_value(l, t->a), *y = tc_limit_value(l, t->b);
    if (!x || !y)
        return NULL;
    return tc_build_binary(b, t->kind == TC_LIMIT_MIN ? TC_MIN : TC_MAX, x, y);
}

/* ---- Do the program's ints wrap? ---- */

/* The least (most) that the bound can be in any step, known now. */
static int64_t extreme_known(const tc_loop *l, const tc_limit *t, bool most)
{
    if (t->kind != TC_LIMIT_LINEAR) {
        int64_t a = extreme_known(l, t->a, most);
        int64_t b = extreme_known(l, t->b, most);
        return (t->kind == TC_LIMIT_MIN) == (a < b) ? a : b;
    }
    int64_t at = most == (t->factor > 0) ? l->high : l->low;
    int64_t x = t->factor * at + (most ? t->sum.high : t->sum.low);
    if (t->by)
        return most == (x < 0) ? tc_int_div(TC_I64, x, MOST_FACTOR) : x;
    return tc_int_div(TC_I64, x, t->divisor);
}

/* The same, computed before the loop. (A loop that makes no step has no
 * extremes, and then it does not matter.) */
static tc_value *extreme(tc_loop *l, const tc_limit *t, bool most)
{
    tc_builder *b = &l->before;
    if (t->kind != TC_LIMIT_LINEAR)
        return tc_build_binary(b, t->kind == TC_LIMIT_MIN ? TC_MIN : TC_MAX,
                               extreme(l, t->a, most), extreme(l, t->b, most));
    tc_value *x = tc_sum_value(l, t->sum);
    if (t->factor) {
        bool last = most == (t->factor > 0);
        tc_value *at = build_i64(l, l->op->in[last ? 1 : 0]);
        if (last)
            at = tc_build_binary(b, TC_ADD, at, tc_build_int(b, at->type, -1));
        at = tc_build_binary(b, TC_MUL, at,
                             tc_build_int(b, at->type, t->factor));
        x = tc_build_binary(b, TC_ADD, x, at);
    }
    if (!is_divided(t))
        return x;
    tc_value *by = t->by ? t->by : tc_build_int(b, x->type, t->divisor);
    return tc_build_binary(b, TC_DIV, x, by);
}

static void be_sure(tc_loop *l, const tc_limit *t, bool most, int64_t limit)
{
    ask(l, extreme(l, t, most), most, limit);
}

/* Bounds of what an op computes, if it does not wrap: asks that. */
static tc_bounds without_wrap(tc_loop *l, const tc_type *type, tc_bounds x)
{
    tc_span all = tc_span_of_kind(tc_type_elem(type)->kind);
    if (!x.low || !x.high)
        return (tc_bounds){NULL, NULL};
    if (extreme_known(l, x.low, false) < all.low)
        be_sure(l, x.low, false, all.low);
    if (extreme_known(l, x.high, true) > all.high)
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
    return (tc_bounds){new_choice(l, TC_LIMIT_MIN, x.low, y.low),
                       new_choice(l, TC_LIMIT_MIN, x.high, y.high)};
}

static tc_bounds of_max(tc_loop *l, const tc_op *op)
{
    tc_bounds x = operand(l, op, 0), y = operand(l, op, 1);
    return (tc_bounds){new_choice(l, TC_LIMIT_MAX, x.low, y.low),
                       new_choice(l, TC_LIMIT_MAX, x.high, y.high)};
}

static tc_bounds of_select(tc_loop *l, const tc_op *op)
{
    tc_bounds x = operand(l, op, 1), y = operand(l, op, 2);
    return (tc_bounds){new_choice(l, TC_LIMIT_MIN, x.low, y.low),
                       new_choice(l, TC_LIMIT_MAX, x.high, y.high)};
}

static tc_bounds of_abs(tc_loop *l, const tc_op *op)
{
    tc_bounds x = operand(l, op, 0), y = negated(l, x);
    return (tc_bounds){new_choice(l, TC_LIMIT_MAX, x.low, y.low),
                       new_choice(l, TC_LIMIT_MAX, x.high, y.high)};
}

static tc_bounds times(tc_loop *l, tc_bounds x, int64_t by)
{
    if (by < 0)
        return by < -MOST_FACTOR ? none() : times(l, negated(l, x), -by);
    return (tc_bounds){scale(l, x.low, by), scale(l, x.high, by)};
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

/* What a division is by, if that is a scalar from before the loop: asks
 * whether it is positive and not too large. NULL: it is something else. */
static tc_value *divisor_of(tc_loop *l, const tc_op *op)
{
    tc_value *v = op->in[1];
    while (v->def && v->type->kind == TC_TILE &&
           (v->def->code == TC_SPLAT || v->def->code == TC_BROADCAST))
        v = v->def->in[0];
    if (v->type->kind == TC_TILE || !tc_loop_has_outside(l, v))
        return NULL;
    tc_span s = tc_span_of(v);
    tc_value *by = build_i64(l, v);
    if (s.low < 1)
        ask(l, by, false, 1);
    if (s.high > MOST_FACTOR)
        ask(l, by, true, MOST_FACTOR);
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
        return (tc_bounds){divide(l, x.low, c.i), divide(l, x.high, c.i)};
    tc_value *by = divisor_of(l, op);
    if (!by)
        return none();
    return (tc_bounds){divide_by_value(l, x.low, by),
                       divide_by_value(l, x.high, by)};
}

/* From 0 to below the divisor, whatever is divided; and what is between, stays
 * what it is. */
static tc_bounds of_rem(tc_loop *l, const tc_op *op)
{
    tc_scalar c;
    bool is_const = tc_match_const(op->in[1], &c);
    const tc_limit *last = NULL;
    if (is_const && c.i >= 1)
        last = tc_limit_constant(l, c.i - 1);
    tc_value *by = is_const ? NULL : divisor_of(l, op);
    if (by)
        last = new_linear(l, 0, (tc_sum){by, -1, 0, MOST_FACTOR - 1}, 1);
    if (!last)
        return none();
    tc_bounds x = operand(l, op, 0);
    const tc_limit *less = NULL;
    if (x.low && extreme_known(l, x.low, false) >= 0)
        less = new_choice(l, TC_LIMIT_MIN, last, x.high);
    return (tc_bounds){tc_limit_constant(l, 0), less ? less : last};
}

/* From the number of the smallest to that of the largest, if they do not
 * change; else anything. */
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
        tc_value *n = build_i64(l, tc_build(b, TC_BISECT, 2, in, NULL));
        t[i] = new_linear(l, 0, (tc_sum){n, 0, 0, INT32_MAX}, 1);
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
    return (tc_bounds){divide(l, x.low, (int64_t)1 << c.i),
                       divide(l, x.high, (int64_t)1 << c.i)};
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
    tc_span s = tc_span_of(v);
    if (is_far(s.low) || is_far(s.high))
        return none();
    tc_sum sum = {build_i64(l, v), 0, s.low, s.high};
    return both(new_linear(l, 0, sum, 1));
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

static tc_bounds find(tc_loop *l, tc_value *v)
{
    tc_scalar c;
    tc_kind kind = tc_lane_kind(v);
    bool outside = tc_loop_has_outside(l, v);
    if (kind == TC_KIND_COUNT || kind == TC_I1 || !tc_has_int_lanes(v))
        return none();
    if (v == l->op->regions[0]->args[0])
        return both(new_linear(l, 1, (tc_sum){0}, 1));
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
        *known = find(l, v);
        if (!known->low || !known->high)
            *known = none();
        tc_map_set(&l->known, v, known);
    }
    return *known;
}

/* ---- Loops ---- */

bool tc_loop_has_outside(const tc_loop *l, const tc_value *v)
{
    const tc_region *at = v->def ? v->def->parent : v->region;
    for (; at; at = at->op ? at->op->parent : NULL)
        if (at->op == l->op)
            return false;
    return true;
}

bool tc_loop_open(tc_loop *l, tc_op *op, tc_arena *scratch, const char **why)
{
    tc_scalar lo, step;
    tc_value *i = op->regions[0]->args[0];
    *l = (tc_loop){.op = op, .scratch = scratch};
    l->before = tc_builder_before(op);
    l->known.arena = scratch;
    if (i->type->kind != TC_I32) {
        *why = "its index is i64, only i32 leaves room to compute bounds";
        return false;
    }
    if (!tc_match_const(op->in[2], &step) || step.i <= 0) {
        *why = "its step is not known at compile time";
        return false;
    }
    l->low = tc_span_of(op->in[0]).low;
    l->high = tc_span_of(op->in[1]).high - 1;
    if (tc_match_const(op->in[0], &lo) && lo.i <= l->high)
        l->high = lo.i + (l->high - lo.i) / step.i * step.i;
    if (l->high < l->low)
        l->high = l->low; /* no steps */
    return true;
}
