/* SPDX-License-Identifier: Apache-2.0
 *
 * How small and how large the ints of a loop can be, over all lanes of a tile,
 * as functions of the induction variable.
 *
 *   for %i = 0 to %n step 64 {
 *     %x = min(%i + range(64), %n - 1)     low  min(%i, %n - 1)
 *                                          high min(%i + 63, %n - 1)
 *
 * A bound is linear in %i, rounded down after a division, or the smaller or
 * larger of two bounds. Its other parts are the same in every step: they are
 * computed before the loop as i64, where nothing overflows. The ints of the
 * program wrap, and what it divides by may be no positive number; where it is
 * not known at compile time that this does not happen, the program asks, once,
 * before the loop (`sure`), and without that the bounds mean nothing.
 */
#ifndef TC_BOUNDS_H
#define TC_BOUNDS_H

#include "ir/ir.h"
#include "ir/map.h"

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

/* Both NULL where nothing is known. */
typedef struct tc_bounds {
    const tc_limit *low, *high;
} tc_bounds;

/* A loop under analysis. */
typedef struct tc_loop {
    tc_op *op; /* a `for` over i32 */
    tc_arena *scratch;
    tc_builder before; /* where new ops go */
    int64_t low, high; /* what the induction variable can be */
    /* i1: nothing that the bounds rest on wraps; NULL: that is known. */
    tc_value *sure;
    tc_map known; /* value -> tc_bounds */
    /* Set by whoever asks in the loop: scalar conditions computed there count
     * as known (TC_TRUTH_HERE). */
    bool asks_here;
} tc_loop;

/* False where the loop cannot be analysed; `why` says it. */
bool tc_loop_open(tc_loop *l, tc_op *op, tc_arena *scratch, const char **why);
/* Is v the same in every step? */
bool tc_loop_has_outside(const tc_loop *l, const tc_value *v);
/* All lanes of what is, reduced before the loop: "min", "or". */
tc_value *tc_loop_reduce(tc_loop *l, tc_value *v, const char *kind);

/* Of an int, or a tile of ints, in the loop or before it. */
tc_bounds tc_bounds_of(tc_loop *l, tc_value *v);
/* NULL where it is too long, or a part is NULL. */
const tc_limit *tc_limit_add(tc_loop *l, const tc_limit *a, const tc_limit *b);
const tc_limit *tc_limit_negate(tc_loop *l, const tc_limit *a);
const tc_limit *tc_limit_constant(tc_loop *l, int64_t c);
const tc_limit *tc_limit_of_sum(tc_loop *l, tc_sum s);

/* As an i64 before the loop; NULL where it changes from step to step. */
tc_value *tc_limit_value(tc_loop *l, const tc_limit *t);

/* The sum as a value before the loop. */
tc_value *tc_sum_value(tc_loop *l, tc_sum s);
/* by times the sum; false where it may grow too large. */
bool tc_sum_scale(tc_loop *l, tc_sum a, int64_t by, tc_sum *out);
/* t, divided by a value, is not above 0 where this is not. */
const tc_limit *tc_limit_undivided(tc_loop *l, const tc_limit *t);

#endif
