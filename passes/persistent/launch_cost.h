/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model of a launch: cycles of a kernel with one loop of products, by
 * its tiles, the steps of a tile's loop and the bytes of the loop's tensors.
 * Each is known, or computed by ops of a plan at each launch.
 *
 * Used by split_k_pieces.c, for the CTAs that share a tile, and by
 * passes/schedule/sum_blocks.c, for the sides of tiles.
 */
#ifndef TC_LAUNCH_COST_H
#define TC_LAUNCH_COST_H

#include "passes/analysis/match.h"
#include "passes/target/target.h"

/* Of a kernel: cycles, bytes and CTAs. */
typedef struct tc_launch_cost {
    int64_t latency, work; /* of a step */
    int64_t sums;          /* of a tile, bytes */
    int64_t sms, resident;
} tc_launch_cost;

/* values: of the kernel's parameters; NULL: types are those of values. */
tc_launch_cost tc_launch_cost_of(const tc_target *target, const tc_func *kernel,
                                 const tc_op *loop, const tc_bindings *values,
                                 unsigned warps);

/* An i64 that is known (op NULL), or that an op computes. */
typedef struct tc_count {
    tc_value *op;
    int64_t n;
} tc_count;

typedef struct tc_launch_counts {
    tc_count tiles, steps, bytes;
} tc_launch_counts;

/* With so many CTAs for each tile. b: where ops are built; may be NULL if all
 * counts are known. */
tc_count tc_launch_cycles(tc_builder *b, const tc_launch_cost *c,
                          int64_t pieces, const tc_launch_counts *l);

/* Is the operand of a product in shared memory? What is computed is in
 * registers. */
bool tc_is_copied_operand(const tc_value *v);

/* Numbers of CTAs that are tried, from 1; 0 ends the list. */
extern const int64_t tc_launch_pieces[];

/* Arguments whose windows the loop loads: a flag for each of the kernel. */
void tc_mark_loaded(const tc_op *loop, bool *is_loaded);

#endif
