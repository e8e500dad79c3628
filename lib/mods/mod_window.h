/* SPDX-License-Identifier: Apache-2.0
 *
 * The class of a mask, for the choice of configurations.
 */
#ifndef TC_MOD_WINDOW_H
#define TC_MOD_WINDOW_H

#include "ir/ir.h"

/* "window" if the mask goes along with the query: hides keys far before and far
 * behind; "causal" if it is known to hide those behind only; else "masked". */
const char *tc_mask_class(const tc_module *m, const char *function);

#endif
