/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic on the terms of bounds.
 */
#include "passes/analysis/bounds.h"

#include "passes/analysis/match.h"

#include <assert.h>

/* A bound with more terms costs more ops than it saves. Sums stay far below the
 * largest i64. */
enum { MOST_TERMS = 16 };
static const int64_t MOST = (int64_t)1 << 60;
static const int64_t MOST_FACTOR = TC_MOST_DIVISOR;

/* ---- Sums ---- */

tc_value *tc_sum_value(tc_loop *l, tc_sum s)
{
    if (s.value && s.constant == 0)
        return s.value;
    tc_value *c = tc_build_i64(&l->before, s.constant);
    return s.value ? tc_build_binary(&l->before, TC_ADD, s.value, c) : c;
}

bool tc_sum_is_far(int64_t x)
{
    return x > MOST || x < -MOST;
}

static bool add_sums(tc_loop *l, tc_sum a, tc_sum b, tc_sum *out)
{
    *out =
        (tc_sum){NULL, a.constant + b.constant, a.low + b.low, a.high + b.high};
    if (tc_sum_is_far(out->low) || tc_sum_is_far(out->high) ||
        tc_sum_is_far(out->constant))
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
        __builtin_mul_overflow(a.constant, by, &out->constant) ||
        tc_sum_is_far(low) || tc_sum_is_far(high) ||
        tc_sum_is_far(out->constant))
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

/* The sum times `by`, a divisor. */
static bool scale_by_value(tc_loop *l, tc_sum a, tc_value *by, tc_sum *out)
{
    *out = (tc_sum){.low = a.low * (a.low < 0 ? MOST_FACTOR : 1),
                    .high = a.high * (a.high > 0 ? MOST_FACTOR : 1)};
    if (a.low < -MOST / MOST_FACTOR || a.high > MOST / MOST_FACTOR)
        return false;
    out->value = tc_build_binary(&l->before, TC_MUL, tc_sum_value(l, a), by);
    return true;
}

/* ---- Limits ---- */

const tc_limit *tc_limit_linear(tc_loop *l, int64_t factor, tc_sum sum,
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
    const tc_limit *whole = tc_limit_linear(l, factor, sum, 1);
    if (!whole || tc_sum_is_far(sum.low - MOST_FACTOR) ||
        tc_sum_is_far(sum.high + MOST_FACTOR))
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

const tc_limit *tc_limit_choose(tc_loop *l, tc_limit_kind kind,
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
    return tc_limit_linear(l, 0, (tc_sum){NULL, c, c, c}, 1);
}

const tc_limit *tc_limit_of_sum(tc_loop *l, tc_sum s)
{
    return tc_limit_linear(l, 0, s, 1);
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
                 : tc_limit_linear(l, a->factor + b->factor * a->divisor, sum,
                                   a->divisor);
}

const tc_limit *tc_limit_add(tc_loop *l, const tc_limit *a, const tc_limit *b)
{
    if (!a || !b)
        return NULL;
    if (a->kind != TC_LIMIT_LINEAR)
        return tc_limit_choose(l, a->kind, tc_limit_add(l, a->a, b),
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
                 : tc_limit_linear(l, -a->factor, sum, a->divisor);
}

const tc_limit *tc_limit_negate(tc_loop *l, const tc_limit *a)
{
    if (!a || a->kind == TC_LIMIT_LINEAR)
        return a ? negate_linear(l, a) : NULL;
    return tc_limit_choose(
        l, a->kind == TC_LIMIT_MIN ? TC_LIMIT_MAX : TC_LIMIT_MIN,
        tc_limit_negate(l, a->a), tc_limit_negate(l, a->b));
}

const tc_limit *tc_limit_undivided(tc_loop *l, const tc_limit *t)
{
    tc_sum minus, up = {t->by, -1, 0, MOST_FACTOR - 1}, sum;
    bool fits =
        tc_sum_scale(l, up, -1, &minus) && add_sums(l, t->sum, minus, &sum);
    assert(fits); /* new_divided left room */
    return fits ? tc_limit_linear(l, t->factor, sum, 1) : NULL;
}

const tc_limit *tc_limit_scale(tc_loop *l, const tc_limit *a, int64_t by)
{
    tc_sum sum;
    if (!a)
        return NULL;
    if (a->kind != TC_LIMIT_LINEAR)
        return tc_limit_choose(l, a->kind, tc_limit_scale(l, a->a, by),
                               tc_limit_scale(l, a->b, by));
    if (by > MOST_FACTOR || is_divided(a) || !tc_sum_scale(l, a->sum, by, &sum))
        return NULL;
    return tc_limit_linear(l, a->factor * by, sum, 1);
}

/* floor(sum / by), the same in every step, is a sum; by is least to most. */
static const tc_limit *divide_sum(tc_loop *l, tc_sum s, tc_value *by,
                                  int64_t least, int64_t most)
{
    tc_sum q = {NULL, 0, tc_int_div(TC_I64, s.low, s.low < 0 ? least : most),
                tc_int_div(TC_I64, s.high, s.high < 0 ? most : least)};
    q.value = tc_build_binary(&l->before, TC_DIV, tc_sum_value(l, s), by);
    return tc_limit_linear(l, 0, q, 1);
}

const tc_limit *tc_limit_divide(tc_loop *l, const tc_limit *a, int64_t by)
{
    if (!a)
        return NULL;
    if (a->kind != TC_LIMIT_LINEAR)
        return tc_limit_choose(l, a->kind, tc_limit_divide(l, a->a, by),
                               tc_limit_divide(l, a->b, by));
    if (a->factor == 0 && !is_divided(a))
        return divide_sum(l, a->sum, tc_build_i64(&l->before, by), by, by);
    return by > MOST_FACTOR || a->by
               ? NULL
               : tc_limit_linear(l, a->factor, a->sum, a->divisor * by);
}

const tc_limit *tc_limit_divide_by(tc_loop *l, const tc_limit *a, tc_value *by)
{
    if (!a)
        return NULL;
    if (a->kind != TC_LIMIT_LINEAR)
        return tc_limit_choose(l, a->kind, tc_limit_divide_by(l, a->a, by),
                               tc_limit_divide_by(l, a->b, by));
    if (is_divided(a)) { /* floor(floor(x / d) / by) = floor(x / (d by)) */
        tc_value *d = a->by ? a->by : tc_build_i64(&l->before, a->divisor);
        by = tc_build_binary(&l->before, TC_MUL, d, by);
        tc_loop_ask(l, by, true, MOST_FACTOR);
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
        return tc_build_binary(
            b, TC_DIV, x, t->by ? t->by : tc_build_i64(&l->before, t->divisor));
    }
    tc_value *x = tc_limit_value(l, t->a), *y = tc_limit_value(l, t->b);
    if (!x || !y)
        return NULL;
    return tc_build_binary(b, t->kind == TC_LIMIT_MIN ? TC_MIN : TC_MAX, x, y);
}

/* ---- Extremes ---- */

int64_t tc_limit_extreme_known(const tc_loop *l, const tc_limit *t, bool most)
{
    if (t->kind != TC_LIMIT_LINEAR) {
        int64_t a = tc_limit_extreme_known(l, t->a, most);
        int64_t b = tc_limit_extreme_known(l, t->b, most);
        return (t->kind == TC_LIMIT_MIN) == (a < b) ? a : b;
    }
    int64_t at = most == (t->factor > 0) ? l->high : l->low;
    int64_t x = t->factor * at + (most ? t->sum.high : t->sum.low);
    if (t->by)
        return most == (x < 0) ? tc_int_div(TC_I64, x, MOST_FACTOR) : x;
    return tc_int_div(TC_I64, x, t->divisor);
}

tc_value *tc_limit_extreme(tc_loop *l, const tc_limit *t, bool most)
{
    tc_builder *b = &l->before;
    if (t->kind != TC_LIMIT_LINEAR)
        return tc_build_binary(b, t->kind == TC_LIMIT_MIN ? TC_MIN : TC_MAX,
                               tc_limit_extreme(l, t->a, most),
                               tc_limit_extreme(l, t->b, most));
    tc_value *x = tc_sum_value(l, t->sum);
    if (t->factor) {
        bool last = most == (t->factor > 0);
        tc_value *at = tc_loop_i64(l, l->op->in[last ? 1 : 0]);
        if (last)
            at = tc_build_with(b, TC_ADD, at, -1);
        at = tc_build_with(b, TC_MUL, at, t->factor);
        x = tc_build_binary(b, TC_ADD, x, at);
    }
    if (!is_divided(t))
        return x;
    tc_value *by = t->by ? t->by : tc_build_int(b, x->type, t->divisor);
    return tc_build_binary(b, TC_DIV, x, by);
}
