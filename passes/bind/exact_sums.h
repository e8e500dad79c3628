/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of floats that do not depend on the order.
 *
 * An element has TC_BINS integers of 64 bits. A float is a whole number of at
 * most 31 bits times 2^(8 b - 149): that number is added to bin b, exactly, so
 * that any order gives the same bins. 2^32 of the largest fit. The last bin
 * counts values that are not finite: NaNs, infinities in the bits above them,
 * negative infinities above those, 20 bits each. At the end the bins, each
 * times its unit, are added up in f64.
 */
#ifndef TC_EXACT_SUMS_H
#define TC_EXACT_SUMS_H

#include "passes/passes.h"

enum { TC_BINS = 33 };

/* The type of bins for a tensor (its dims, and one for the bins). */
const tc_type *tc_exact_bins(tc_context *cx, const tc_type *tensor);
/* Adds g (f32, a scalar or a tile) to the bins from `at` (pointers to i64 in
 * its shape) on, `stride` (i64) apart, where the condition holds (NULL:
 * everywhere). */
void tc_exact_add(tc_builder *b, tc_value *at, tc_value *stride, tc_value *g,
                  tc_value *condition);
/* A kernel (%bins, %sums) that adds what bins of that rank, less 1, come to. */
tc_func *tc_exact_kernel(tc_module *m, unsigned rank);

#endif
