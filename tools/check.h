/* SPDX-License-Identifier: Apache-2.0
 *
 * `tilec run --check-schedule`: a GPU kernel run on the host by the interpreter
 * of machine-level programs, which finds races and copies read too early; of a
 * plan its kernels, one after the other.
 */
#ifndef TOOL_CHECK_H
#define TOOL_CHECK_H

#include "tools/common/commands.h"

/* Runs the kernel over its grid, or the plan, with arguments in host memory,
 * all named. The exit code; what was found has been printed with the lines of
 * the machine program. */
int check_schedule(const tilec_kernel *k, const tilec_argument *args,
                   size_t nargs);

#endif
