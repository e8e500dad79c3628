/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TC_TRIM_WARPGROUPS_H
#define TC_TRIM_WARPGROUPS_H

#include "passes/passes.h"

/* May each warp group skip the steps of the loop that its masks hide? */
bool tc_can_trim(tc_pass_env *env, tc_op *loop);
/* Does the loop ask for turns (pingpong) in each step? The steps that groups
 * skip have theirs already. */
bool tc_takes_turns(const tc_op *loop);
/* A turn without products: order_wait, order_arrive. */
void tc_build_turn(tc_builder *b);

#endif
