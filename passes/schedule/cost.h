/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model of a step: cycles of the units that it uses.
 */
#ifndef TC_SCHEDULE_COST_H
#define TC_SCHEDULE_COST_H

#include "passes/target/machine_model.h"

#include "ir/ir.h"

typedef struct tc_step_cost {
    int64_t special, products; /* cycles of special functions, of wgmma */
    bool narrow;               /* some products are of 8 bits */
} tc_step_cost;

/* Of an op that computes a tile, with the ops in it; of a branch, those of its
 * first region. */
int64_t tc_special_cycles(const tc_target *t, const tc_op *op);
int64_t tc_product_cycles(const tc_target *t, const tc_op *mma);
/* Is it an m64 product that runs concurrently with its step, or will? */
bool tc_is_running_product(const tc_op *op);
/* Of a loop's step. */
tc_step_cost tc_cost_of_step(const tc_target *t, const tc_region *r);

#endif
