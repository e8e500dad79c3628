/* SPDX-License-Identifier: Apache-2.0
 *
 * Split K: several programs share the loop of a tile (split_k.c). `split(4)`,
 * `split(auto)` of a kernel, or the binding kernel.split.
 */
#ifndef TC_SPLIT_K_H
#define TC_SPLIT_K_H

#include "passes/passes.h"

/* Is the kernel to become a plan? Not if split(auto) cannot be had. */
bool tc_splits(const tc_func *kernel, const tc_binding *bindings,
               unsigned nbindings);

/* split_k_pieces.c: the number of CTAs for each tile of a launch, by the cost
 * model, as ops of a plan: for so many tiles, of so many steps of the kernel's
 * loop (i32). */
tc_value *tc_build_pieces(tc_builder *b, const tc_func *kernel,
                          const tc_pass_env *env, const tc_op *loop,
                          tc_value *tiles, tc_value *steps);

#endif
