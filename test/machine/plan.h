/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MACHINE_PLAN_H
#define TEST_MACHINE_PLAN_H

#include "lib/tilec.h"

#include <stdbool.h>

/* Runs the kernels of a plan for a GPU one after the other in the interpreter,
 * on tensors of the host; a kernel that is no plan by itself. False: something
 * was found, and printed. */
bool plan_interpret(const tilec_kernel *plan, const tilec_argument *args,
                    size_t nargs);

#endif
