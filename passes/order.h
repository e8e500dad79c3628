/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of passes: what passes.def says that they need, make and precede.
 */
#ifndef TC_ORDER_H
#define TC_ORDER_H

#include "passes/passes.h"

/* Is `fact` in the list, which ` ` or `,` separates? */
bool tc_has_fact(const char *list, const char *fact);

/* May the passes run in this order? A need that no pass of the list makes is
 * met by the program that is read. Reports the first pass that may not stand
 * where it stands, and what to do. */
bool tc_check_order(tc_context *cx, const tc_pass_info *const *passes,
                    unsigned n) TC_MUST_CHECK;

#endif
