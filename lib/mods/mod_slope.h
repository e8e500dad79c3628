/* SPDX-License-Identifier: Apache-2.0
 *
 * The class of a score function, for the choice of configurations.
 */
#ifndef TC_MOD_SLOPE_H
#define TC_MOD_SLOPE_H

#include "ir/ir.h"

/* "nonlinear" if the slope by the function's first parameter depends on that
 * parameter, so that a gradient keeps more of each element than the weight, or
 * where that is not known; else "linear": a bias, or a factor. */
const char *tc_score_class(tc_arena *a, const tc_module *m,
                           const char *function);

#endif
