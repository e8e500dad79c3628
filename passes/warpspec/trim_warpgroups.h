/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TC_TRIM_WARPGROUPS_H
#define TC_TRIM_WARPGROUPS_H

#include "passes/passes.h"

/* May each warp group skip the steps of the loop that its masks hide? */
bool tc_can_trim(tc_pass_env *env, tc_op *loop);

#endif
