/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of expand-windows.
 */
#ifndef TC_EXPAND_WINDOWS_H
#define TC_EXPAND_WINDOWS_H

#include "passes/analysis/axis_info.h"

/* one_window.c: makes a load or store of windows by index one of a single
 * window, if all its rows are of one. False: they are not. */
bool tc_access_one_window(tc_axis_analysis *a, tc_op *access);

#endif
