/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of a kernel after its passes, as text.
 */
#ifndef TC_SCHEDULE_TEXT_H
#define TC_SCHEDULE_TEXT_H

#include "ir/ir.h"
#include "passes/target/target.h"

/* Tables of roles, buffers and loops, and of each role the ops of a step of its
 * loops, with the products that are in flight next to them. */
void tc_schedule_print(tc_text *out, tc_func *f, const tc_target *target);

#endif
