/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a launch with given sides of tiles, for kernels whose one loop of
 * products makes sums only (no product reads another one's result), by the
 * cost model of passes/persistent/launch_cost.h. The grid and the steps of the
 * loop are evaluated with the sizes of example tensors.
 *
 * Tests: test/unit/blocks.c, test/ir/schedule/blocks.
 */
#ifndef TC_SUM_BLOCKS_H
#define TC_SUM_BLOCKS_H

#include "passes/schedule/choose_blocks.h"

/* The kernel's loop; NULL: it is none of these. */
const tc_op *tc_sum_loop(const tc_func *kernel);

typedef struct tc_sum_candidate {
    const tc_func *kernel;
    const tc_op *loop;
    const tc_target *target;
    const tc_bindings *values; /* of all parameters */
    const tc_blocks_launch *launch;
} tc_sum_candidate;

typedef struct tc_sum_cost {
    int64_t cycles;
    unsigned warps;
    int64_t pieces; /* CTAs that share a tile */
} tc_sum_cost;

/* With the warps and pieces that take the fewest cycles. False: no program has
 * room for such tiles, or a number does not follow from the sizes. */
bool tc_sum_cost_of(const tc_sum_candidate *c, tc_sum_cost *out);

#endif
