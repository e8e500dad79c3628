/* SPDX-License-Identifier: Apache-2.0
 *
 * What the gradient of a score function needs.
 */
#ifndef TC_MOD_SLOPE_H
#define TC_MOD_SLOPE_H

#include "ir/ir.h"

/* Does the slope by the function's first parameter depend on that? Then a
 * gradient keeps more of each element than the weight. True where it is not
 * known. */
bool tc_is_curved(tc_arena *a, const tc_module *m, const char *function);

#endif
