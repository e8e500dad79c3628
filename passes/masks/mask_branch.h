/* SPDX-License-Identifier: Apache-2.0
 *
 * A branch in place of an op of a mask.
 */
#ifndef TC_MASK_BRANCH_H
#define TC_MASK_BRANCH_H

#include "ir/ir.h"

/* The loop whose steps `op` belongs to; NULL: none, or it is in a body that
 * takes other turns. */
tc_op *tc_mask_loop(const tc_op *op);

/* `if question { yield x } else { yield op }` in place of `op`, which has one
 * result. Ops that only the second region needs move there. */
void tc_mask_branch(tc_op *op, tc_value *question, tc_value *x);

#endif
