/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of products: a tile that a loop carries and adds products to, or a dot
 * that no loop adds up, and computing them transposed, (a b)^T = b^T a^T.
 *
 *   %sum = for .. carry(%acc = splat(0.0)) { yield dot %x, %w, %acc }
 *   %sum = for .. { yield %acc + dot(%x, %w) * %factors[:, none] }
 *   %sum = for .. { yield dot(%y, %v, dot(%x, %w, %acc)) }
 *
 * The same products are added up in the same order.
 */
#ifndef TC_SUMS_H
#define TC_SUMS_H

#include "ir/ir.h"

enum { TC_SUM_MAX_DOTS = 16 };

typedef struct tc_sum {
    tc_value *value; /* a result of a loop, or of a dot */
    unsigned ndots;  /* 0: it is no sum of products */
    /* A dot comes after those whose results it adds to. */
    tc_op *dots[TC_SUM_MAX_DOTS];
    const char *why; /* it cannot be computed transposed; NULL: it can */
} tc_sum;

/* v: a result of a loop, or of a dot. */
tc_sum tc_sum_of(tc_value *v);
/* Computes it transposed; gives the trans that all its users now read. A sum
 * without `why` only. */
tc_value *tc_sum_turn(const tc_sum *sum, tc_arena *scratch);

/* Erases v and what it alone is computed from, if nothing uses it. */
void tc_erase_unused(tc_value *v, tc_arena *scratch);

#endif
