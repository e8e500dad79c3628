/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of a launch: the products and sums of its dots, counted in the
 * program's text.
 */
#ifndef TOOL_FLOPS_H
#define TOOL_FLOPS_H

#include "lib/tilec.h"

#include <stdbool.h>

/* Of a kernel of the CPU target, over its grid: loops by their trip counts, of
 * an `if` on data the first region. False: a trip count depends on data. */
bool count_flops(const tilec_kernel *kernel, const tilec_argument *args,
                 size_t nargs, double *flops);

#endif
