/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a loop in which a condition on tiles may hold in some lane, and
 * those in which it surely holds in all lanes, as conditions on the index
 * alone.
 *
 *   %m = 64 * %j + range(64)                  any: %i < 64 * %j + 64
 *   for %i = 0 to %n step 64 {                all: %i < 64 * %j - 62
 *     %c = %i + range(64) <= %m[:, none]
 *
 * `any` may be true too often and `all` too seldom, never the other way round
 * (while tc_loop.sure holds). The analysis knows conditions made by and, or,
 * not, select and comparisons of bounds (bounds.h); all others are unknown.
 */
#ifndef TC_MASK_TRUTH_H
#define TC_MASK_TRUTH_H

#include "passes/analysis/bounds.h"

typedef enum tc_truth_kind {
    TC_TRUTH_NEVER,
    TC_TRUTH_ALWAYS,
    TC_TRUTH_GIVEN, /* value, an i1 from before the loop */
    TC_TRUTH_HERE,  /* value, an i1 of the step (tc_loop.asks_here) */
    TC_TRUTH_BELOW, /* index < at */
    TC_TRUTH_FROM,  /* index >= at */
    TC_TRUTH_BOTH,
    TC_TRUTH_EITHER
} tc_truth_kind;

typedef struct tc_truth tc_truth;
struct tc_truth {
    tc_truth_kind kind;
    tc_value *value;       /* GIVEN, HERE */
    tc_sum at;             /* BELOW, FROM */
    bool no;               /* HERE: its contrary */
    const tc_truth *a, *b; /* BOTH, EITHER */
    unsigned size;         /* truths in it, itself included */
};

typedef struct tc_mask {
    const tc_truth *any, *all;
    /* A condition that nothing is known of, also because its truth would be
     * too long; NULL: there is none. */
    const tc_value *unknown;
} tc_mask;

/* Of an i1 or a tile of them, in the loop or before it. `any` and `all` heed
 * tc_loop.sure. */
tc_mask tc_mask_of(tc_loop *l, tc_value *condition);
const tc_truth *tc_truth_not(tc_loop *l, const tc_truth *t);

/* The least range of the index, as i64 from before the loop, that holds all
 * steps in which t is true: low <= index < high. NULL: no bound. */
typedef struct tc_hull {
    tc_value *low, *high;
} tc_hull;
tc_hull tc_truth_hull(tc_loop *l, const tc_truth *t);
/* Is t true in all of its hull? */
bool tc_truth_is_range(const tc_truth *t);
/* The i1 at `b`, in the loop. */
tc_value *tc_truth_value(tc_loop *l, const tc_truth *t, tc_builder *b);

/* Why nothing is known of tc_mask.unknown, in words that follow its name. */
const char *tc_truth_why(tc_loop *l, const tc_value *unknown);

#endif
