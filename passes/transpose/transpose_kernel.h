/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that run before a launch and only change the order of a tensor.
 */
#ifndef TC_TRANSPOSE_KERNEL_H
#define TC_TRANSPOSE_KERNEL_H

#include "passes/passes.h"

/* Launches of the plan that want a tensor in another order get it from a tensor
 * of the workspace, which another kernel fills, where many programs read each
 * part of it. Did any? */
bool tc_transpose_beforehand(tc_pass_env *env, tc_func *plan);

/* An `if` before the op, with two branches of nothing; then, one after the
 * other, ops after it go into its first one, copies of them (each the `data`
 * of what the op gives) into the second. */
tc_op *tc_branch_before(tc_op *op, tc_value *condition);
tc_op *tc_branch_take(tc_op *branch, tc_op *op);
/* value % n == 0 */
tc_value *tc_build_is_multiple(tc_builder *b, tc_value *value, unsigned n);

#endif
