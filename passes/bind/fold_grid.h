/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TC_FOLD_GRID_H
#define TC_FOLD_GRID_H

#include "ir/ir.h"

/* Has the grid at most TC_GRID_AXES axes, and does the body name no others? */
bool tc_grid_is_folded(const tc_func *f);
/* A kernel without calls, whose grid has up to TC_MAX_GRID_AXES axes: it gets
 * one of at most TC_GRID_AXES. False: reported. */
bool tc_fold_grid(tc_func *f, bool *changed) TC_MUST_CHECK;
/* In the body of a kernel: the index 0, and 1 program, along axes that its grid
 * does not have. */
void tc_fold_missing_axes(tc_func *f);

#endif
