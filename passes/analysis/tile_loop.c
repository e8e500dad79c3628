/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/tile_loop.h"

bool tc_is_tile_loop(const tc_op *op)
{
    return tc_op_is_loop(op) && tc_op_int(op, "over_tiles");
}

void tc_mark_tile_loop(tc_op *loop)
{
    tc_op_set_attr(loop, "over_tiles", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
}
