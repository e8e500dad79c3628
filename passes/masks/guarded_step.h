/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops whose steps consist of one guarded `if`:
 *
 *   for %i = 0 to %n step 64 carry(%a = %x) {
 *     %b = if %c speculatable { ... } else { yield %a }
 *     yield %b
 *   }
 */
#ifndef TC_GUARDED_STEP_H
#define TC_GUARDED_STEP_H

#include "ir/ir.h"

/* The `if` that is all that a step of a `for` does, and whose second region
 * changes nothing; NULL: there is none. */
tc_op *tc_guarded_step_of(const tc_op *loop);
/* Its first region runs unasked. */
void tc_guarded_step_unguard(tc_op *branch);

#endif
