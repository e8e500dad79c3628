/* SPDX-License-Identifier: Apache-2.0
 *
 * Hints to caches, where a pass makes another access of one (ir/hints.c).
 */
#ifndef TC_HINTS_H
#define TC_HINTS_H

#include "ir/ir.h"

/* Gives `to`, or each of several, the hints of `from`. One that they cannot say
 * is a remark of the pass, once, with the reason, such as "a TMA store goes to
 * the L2 cache". */
void tc_hints_move(const char *pass, tc_op *to, tc_op *from, const char *why);

#endif
