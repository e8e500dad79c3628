/* SPDX-License-Identifier: Apache-2.0
 *
 * What configurations ask of a mask.
 */
#ifndef TC_MOD_WINDOW_H
#define TC_MOD_WINDOW_H

#include "ir/ir.h"

/* Is the mask a window that goes along with the query: does it hide keys far
 * before and far behind? False where it is not known. */
bool tc_is_window(const tc_module *m, const char *function);

#endif
