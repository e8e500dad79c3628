/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: a sequence of kernels, and the tensors between them.
 *
 *     plan @mean_of[T: type](%x: tensor<[?, ?] x T>, %y: tensor<[?] x T>) {
 *       %sums = workspace size(%x, 0) : tensor<[?] x f32>
 *       fill %sums
 *       launch @row_sums[T=T, BM=64](%x, %sums)
 *       launch @scale[T=T](%sums, %y)
 *     }
 *
 * The kernels are functions of the same module: from a tensor of the workspace
 * one finds the launches that read it and the one that made it, and from a
 * launch its kernel. Passes of the pipeline "plan" see all of that:
 *
 *   bind-plan   binds the plan's parameters; every launch gets a kernel
 *                     of its own, with its parameters bound (launches with the
 *                     same ones share it)
 *   bind-captured     what mods capture becomes arguments of the plan
 *
 * A plan is run by the host (lib/plan/plan.c), its kernels are compiled one by
 * one.
 */
#ifndef TC_PLAN_H
#define TC_PLAN_H

#include "ir/ir.h"

enum { TC_LEAST_ALIGN = 256, TC_MOST_ALIGN = 65536 }; /* of workspace, bytes */

/* The kernel of a launch; NULL: there is none of that name. */
tc_func *tc_launch_kernel(const tc_op *launch);
/* A copy of a kernel, @k_1, @k_2, .., for launches that need another one. */
tc_func *tc_kernel_copy(tc_func *kernel);
/* The compile-time parameters of the kernel that are sizes and types: those
 * given in brackets, then those that follow from the arguments, as far as they
 * are known. *b is of tc_bindings_of(kernel). Reports what does not fit. */
bool tc_launch_bind(const tc_op *launch, const tc_func *kernel,
                    tc_bindings *b) TC_MUST_CHECK;
/* The parameters of a kernel that a launch must give: not those that mods
 * capture (`score.bias`), which come last. */
unsigned tc_kernel_own_args(const tc_func *kernel);

#endif
