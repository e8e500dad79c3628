/* SPDX-License-Identifier: Apache-2.0
 *
 * The terms of bounds (bounds.h): limits that are linear in the induction
 * variable plus a loop-invariant sum, and the minimum or maximum of two.
 */
#ifndef TC_BOUND_TERMS_H
#define TC_BOUND_TERMS_H

#include "ir/ir.h"

typedef struct tc_loop tc_loop; /* bounds.h */

/* Something that is the same in every step: value + constant, with what it can
 * be at least and at most. value is an i64, NULL for 0. */
typedef struct tc_sum {
    tc_value *value;
    int64_t constant;
    int64_t low, high;
} tc_sum;

typedef enum tc_limit_kind {
    TC_LIMIT_LINEAR, /* floor((factor * i + sum) / divisor), or / by */
    TC_LIMIT_MIN,
    TC_LIMIT_MAX
} tc_limit_kind;

/* A factor or divisor of a bound. */
enum { TC_MOST_DIVISOR = 1 << 24 };

typedef struct tc_limit tc_limit;
struct tc_limit {
    tc_limit_kind kind;
    int64_t factor, divisor; /* LINEAR; divisor is 1 or more */
    tc_value *by; /* i64 from before the loop, 1 to TC_MOST_DIVISOR; or NULL */
    tc_sum sum;
    const tc_limit *a, *b; /* MIN, MAX */
    unsigned size;         /* LINEARs in it */
};

/* ---- Sums ---- */

/* The sum as a value before the loop. */
tc_value *tc_sum_value(tc_loop *l, tc_sum s);
/* by times the sum; false where it may grow too large. */
bool tc_sum_scale(tc_loop *l, tc_sum a, int64_t by, tc_sum *out);
/* Too large to be computed with. */
bool tc_sum_is_far(int64_t x);

/* ---- Limits: NULL where one is too long, or a part is NULL ---- */

/* floor((factor * i + sum) / divisor) */
const tc_limit *tc_limit_linear(tc_loop *l, int64_t factor, tc_sum sum,
                                int64_t divisor);
const tc_limit *tc_limit_constant(tc_loop *l, int64_t c);
const tc_limit *tc_limit_of_sum(tc_loop *l, tc_sum s);
const tc_limit *tc_limit_choose(tc_loop *l, tc_limit_kind kind,
                                const tc_limit *a, const tc_limit *b);
const tc_limit *tc_limit_add(tc_loop *l, const tc_limit *a, const tc_limit *b);
const tc_limit *tc_limit_negate(tc_loop *l, const tc_limit *a);
/* by is not negative */
const tc_limit *tc_limit_scale(tc_loop *l, const tc_limit *a, int64_t by);
/* by is 1 or more */
const tc_limit *tc_limit_divide(tc_loop *l, const tc_limit *a, int64_t by);
/* by: an i64 from before the loop, 1 to TC_MOST_DIVISOR */
const tc_limit *tc_limit_divide_by(tc_loop *l, const tc_limit *a, tc_value *by);
/* t, divided by a value, is not above 0 where this is not. */
const tc_limit *tc_limit_undivided(tc_loop *l, const tc_limit *t);

/* As an i64 before the loop; NULL where it changes from step to step. */
tc_value *tc_limit_value(tc_loop *l, const tc_limit *t);
/* The least (most) that it can be in any step, known now. */
int64_t tc_limit_extreme_known(const tc_loop *l, const tc_limit *t, bool most);
/* The same, computed before the loop. (A loop that makes no step has no
 * extremes, and then it does not matter.) */
tc_value *tc_limit_extreme(tc_loop *l, const tc_limit *t, bool most);

#endif
