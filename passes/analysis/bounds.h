/* SPDX-License-Identifier: Apache-2.0
 *
 * Lower and upper bounds of the ints of a loop, over all lanes of a tile, as
 * functions of the induction variable.
 *
 *   for %i = 0 to %n step 64 {
 *     %x = min(%i + range(64), %n - 1)     low  min(%i, %n - 1)
 *                                          high min(%i + 63, %n - 1)
 *
 * A bound is linear in %i, rounded down after a division, or the minimum or
 * maximum of two bounds. Its other parts are loop-invariant: they are computed
 * before the loop as i64, where nothing overflows. The ints of the program may
 * wrap, and its divisors may not be positive; if compile time cannot exclude
 * that, the program tests it once, before the loop (`sure`). If the test fails
 * the bounds mean nothing.
 */
#ifndef TC_BOUNDS_H
#define TC_BOUNDS_H

#include "passes/analysis/bound_terms.h"

#include "ir/base/map.h"

/* Both NULL where nothing is known. */
typedef struct tc_bounds {
    const tc_limit *low, *high;
} tc_bounds;

/* A loop under analysis. */
struct tc_loop {
    tc_op *op; /* a `for` over i32 */
    tc_arena *scratch;
    tc_builder before; /* where new ops go */
    int64_t low, high; /* what the induction variable can be */
    /* i1: nothing that the bounds rest on wraps; NULL: that is known. */
    tc_value *sure;
    tc_map known; /* value -> tc_bounds */
    /* truth.h: condition -> tc_mask, truth -> the truth that it is not. */
    tc_map truths, contraries;
    unsigned nconditions;     /* conditions analysed so far */
    const tc_value *too_long; /* the first condition whose truth grew too long,
                               * or NULL */
    /* Set by callers whose questions are answered inside of the loop: scalar
     * conditions that are computed there count as known (TC_TRUTH_HERE). */
    bool asks_here;
};

/* False where the loop cannot be analysed; `why` says it. */
bool tc_loop_open(tc_loop *l, tc_op *op, tc_arena *scratch, const char **why);
/* Is v the same in every step? */
bool tc_loop_has_outside(const tc_loop *l, const tc_value *v);
/* A tile reduced to a scalar before the loop: kind "min", "or". */
tc_value *tc_loop_reduce(tc_loop *l, tc_value *v, const char *kind);

/* Adds a test to `sure`, made once before the loop: x <= limit (most), or x >=
 * limit. */
void tc_loop_ask(tc_loop *l, tc_value *x, bool most, int64_t limit);
/* A scalar int as an i64 before the loop. */
tc_value *tc_loop_i64(tc_loop *l, tc_value *scalar);

/* Of an int, or a tile of ints, in the loop or before it. */
tc_bounds tc_bounds_of(tc_loop *l, tc_value *v);

#endif
