/* SPDX-License-Identifier: Apache-2.0
 *
 * The class of a mask, for the choice of configurations.
 */
#ifndef TC_MOD_WINDOW_H
#define TC_MOD_WINDOW_H

#include "ir/ir.h"

/* "window" if the mask moves with the query: it hides keys far before and far
 * after it; "causal" if it is known to hide later keys only; else "masked". */
const char *tc_mask_class(const tc_module *m, const char *function);

#endif
