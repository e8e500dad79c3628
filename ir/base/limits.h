/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a compile may expand a text: counts, so that the same program
 * compiles on every machine or on none. The programs that ship with tilec need
 * a quarter of them at most (attention_fwd: 1,500 ops, 29,000 instructions as
 * counted here).
 *
 * Text alone gives at most some 30,000 ops in 64 KiB; passes that copy code
 * (inlining, gradients, split loops) produce the rest.
 */
#ifndef TC_LIMITS_H
#define TC_LIMITS_H

enum {
    /* Ops of a module while passes run; of one that has more than half of
     * that to begin with, twice as many as those (passes/runner.c). */
    TC_MOST_OPS = 1 << 16,
    /* Parameters that all uses of `params` in a text stand for. */
    TC_MOST_PACKED = 1 << 14,
    /* Of a plan: each is compiled by itself. */
    TC_MOST_KERNELS = 64,
    /* Of one pass that compares each op with many others (tc_module_spend).
     * Shipped kernels need a seventh of it at most: insert-barriers, backward
     * attention with 4 stages on 12 warps. */
    TC_MOST_STEPS = 1 << 30,
    /* Of LLVM, of a kernel: before LLVM's own passes (codegen/code_size.h);
     * a basic block counts as TC_BLOCK_INSTRUCTIONS. */
    TC_MOST_INSTRUCTIONS = 1 << 17,
    TC_BLOCK_INSTRUCTIONS = 32,
};

#endif
