/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TC_PREFETCH_TILE_H
#define TC_PREFETCH_TILE_H

#include "passes/passes.h"

/* Decides when next_tile is requested: `prefetch(last_step)`, before the last
 * copies of the loop right before it, or `prefetch(none)`. False: it does not
 * matter, or the text says it. */
bool tc_plan_request(tc_pass_env *env, tc_op *op);

#endif
