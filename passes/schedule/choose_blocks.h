/* SPDX-License-Identifier: Apache-2.0
 *
 * Sides of tiles (`BM: block = 128`) that nobody has given, and warps that suit
 * them, by the cost model: for targets whose warp groups multiply
 * asynchronously. The kernel still has its compile-time parameters; those
 * without a value in `known` have a default.
 *
 * Of all candidates that fit (registers of a thread, rings and other buffers in
 * shared memory) it takes the one with the fewest cycles for an element of the
 * products:
 *
 *     busy    the longer of products and other ops of a step
 *     waits   the shorter of them, by the number of warp groups: a group's ops
 *             run while another's products do; by one group fewer where special
 *             functions take as long as products
 *     reads   of an operand that all steps share, if registers have no room
 *     step    a part that does not depend on the sides
 *
 * Rows and columns of last programs and steps that are there for nothing count.
 *
 * A kernel whose products are sums only (sum_blocks.h), such as a product of
 * matrices, takes the sides with the fewest cycles of a launch with tensors of
 * the examples' sizes.
 *
 * Test: test/ir/schedule/blocks.tile, test/unit/blocks.c.
 */
#ifndef TC_CHOOSE_BLOCKS_H
#define TC_CHOOSE_BLOCKS_H

#include "passes/passes.h"

typedef struct tc_blocks {
    tc_bindings values; /* of all int parameters */
    unsigned warps;
    int64_t pieces; /* CTAs that share a tile; more than 1: by split-k */
} tc_blocks;

/* What is known of launches. */
typedef struct tc_blocks_launch {
    int64_t length; /* of rows and columns, 0 if not known */
    /* Of each argument of the kernel its dims; NULL, all or one: not known. */
    const int64_t *const *sizes;
    bool may_split;
} tc_blocks_launch;

/* Has the kernel a block parameter without a value in `known`? */
bool tc_has_free_blocks(const tc_func *kernel, const tc_bindings *known);
/* False: the kernel has no such loop, or no candidate fits; the defaults stay.
 */
bool tc_choose_blocks(const tc_func *kernel, const tc_target *target,
                      const tc_bindings *known, const tc_blocks_launch *launch,
                      tc_arena *scratch, tc_blocks *out);

#endif
