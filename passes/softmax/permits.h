/* SPDX-License-Identifier: Apache-2.0
 *
 * Rewrites that change numerics ask the ops that they change.
 */
#ifndef TC_PERMITS_H
#define TC_PERMITS_H

#include "passes/passes.h"

/* Does the op carry all of these numerics flags (ir/fastmath.h)? If not, a
 * remark says `what` the rewrite would have done, and where the missing flags
 * can be written. */
bool tc_permits(const tc_pass_env *env, const char *pass, const tc_op *op,
                unsigned flags, const char *what);

#endif
