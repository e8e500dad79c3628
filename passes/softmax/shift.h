/* SPDX-License-Identifier: Apache-2.0
 *
 * How values depend on the number that an online softmax subtracts from its
 * exponents: by what they change if it is larger by d in each row.
 *
 *   for .. carry(%m0, %l0, %acc0) {
 *     %m = max(%m0, max(%s, axis=1))               plus d
 *     %p = exp2(%s - %m[:, none])                  times 2^-d
 *     %r = exp2(%m0 - %m)                          times 2^(d0 - d)
 *     yield %m, %l0 * %r + sum(%p, axis=1), ..     times 2^-d
 *   }
 *   %lse = %m + log2(%l)                           not at all
 *
 * d0 is the d of the step before. Of a loop whose effects do not depend on d
 * the subtracted number need not be the maximum.
 */
#ifndef TC_SHIFT_H
#define TC_SHIFT_H

#include "ir/ir.h"

typedef struct tc_running_max {
    tc_op *loop;
    unsigned slot;
    tc_op *max;     /* max(carried, of this step) */
    tc_value *now;  /* of this step */
    tc_op *change;  /* carried - max, an exponential's argument */
    double octaves; /* what 1 of it is as powers of two: log2(e) for exp */
} tc_running_max;

/* Does the loop carry a maximum of rows in that slot, and rescale by powers of
 * its change? */
bool tc_match_running_max(tc_op *loop, unsigned slot, tc_running_max *x);
/* The op that keeps results from being independent of what is subtracted; NULL:
 * none does. Overwrites the values' data. */
const tc_op *tc_find_use_of_shift(const tc_running_max *x, tc_arena *scratch);

#endif
