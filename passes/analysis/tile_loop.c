/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/tile_loop.h"

#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"

static bool is_axis_0(const tc_value *v, tc_opcode code)
{
    const tc_op *op = tc_match_op(v, code);
    return op && tc_op_int(op, "axis") == 0;
}

bool tc_is_tile_loop(const tc_op *op)
{
    if (op->code == TC_FOR)
        return is_axis_0(op->in[0], TC_PROGRAM_ID) &&
               is_axis_0(op->in[2], TC_NUM_PROGRAMS);
    return op->code == TC_WHILE &&
           tc_region_has_op(op->regions[1], TC_NEXT_TILE);
}

static const tc_op *tile_loop_in(const tc_region *r)
{
    tc_each_op (op, r)
        if (tc_is_tile_loop(op))
            return op;
    return NULL;
}

bool tc_goes_through_tiles(const tc_op *op)
{
    const tc_op *around = op->parent->op;
    if (tc_is_tile_loop(op))
        return true;
    if (op->code != TC_WHILE || !around)
        return false;
    if (around->code == TC_WARP_GROUPS)
        return op->parent == tc_consumers(around) &&
               tile_loop_in(tc_producer(around));
    /* The loop that defer-branches puts around it has no guard of its own. */
    return around->code == TC_WHILE && op == around->regions[1]->first &&
           around->regions[0]->first->code == TC_CONDITION &&
           tc_goes_through_tiles(around);
}
