/* SPDX-License-Identifier: Apache-2.0
 *
 * The effects of an op, nested ops included, apart from computing its results.
 */
#ifndef TC_EFFECTS_H
#define TC_EFFECTS_H

#include "ir/ir.h"

typedef struct tc_effects {
    bool reads;  /* memory */
    bool stores; /* may change memory, so that loads differ before and after */
    bool stores_global; /* the same, leaving out memory shared by a block */
    bool other;         /* assert, print, assume; a loop that may not end */
} tc_effects;

tc_effects tc_op_effects(const tc_op *op);
tc_effects tc_region_effects(const tc_region *r);

/* An effect has come into region `r`: no `if` around it may run its first
 * region unasked any more. */
void tc_forget_speculatable(tc_region *r);

#endif
