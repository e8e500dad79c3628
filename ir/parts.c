/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/parts.h"

#include <assert.h>
#include <string.h>

bool tc_op_is_parts(const tc_op *op)
{
    return op->code == TC_SLICE || op->code == TC_JOIN ||
           op->code == TC_INTERLEAVE;
}

/* Of tiles, or of a buffer. */
static bool is_slice(const tc_op *op)
{
    return op->code == TC_SLICE || op->code == TC_SMEM_SLICE;
}

const tc_value *tc_op_whole(const tc_op *op)
{
    return is_slice(op) ? op->in[0] : op->out[0];
}

const tc_value *tc_op_part_value(const tc_op *op, unsigned i)
{
    return is_slice(op) ? op->out[0] : op->in[i];
}

static int32_t side(const tc_value *v, unsigned axis)
{
    return (int32_t)tc_dim_value(v->type->dims[axis]);
}

tc_tile_part tc_op_part(const tc_op *op, unsigned i)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    tc_tile_part p = {axis, 0, 1, side(tc_op_part_value(op, i), axis)};
    if (is_slice(op)) {
        const tc_attr *at = tc_op_attr(op, "at");
        if (at->kind != TC_ATTR_NONE)
            p.at = (int32_t)tc_dim_value(at->dims[0]);
        if (op->code == TC_SLICE && tc_op_has_attr(op, "step"))
            p.step = (int32_t)tc_op_int(op, "step");
    } else if (op->code == TC_INTERLEAVE) {
        p.at = (int32_t)i;
        p.step = 2;
    } else {
        for (unsigned k = 0; k < i; k++)
            p.at += side(op->in[k], axis);
    }
    return p;
}

unsigned tc_op_part_source(const tc_op *op, const int32_t *to, int32_t *from)
{
    memcpy(from, to, op->out[0]->type->rank * sizeof *from);
    tc_tile_part p = tc_op_part(op, 0);
    if (op->code == TC_SLICE) {
        from[p.axis] = p.at + p.step * to[p.axis];
        return 0;
    }
    for (unsigned i = 0; i < op->nin; i++) {
        p = tc_op_part(op, i);
        int32_t ahead = to[p.axis] - p.at;
        from[p.axis] = ahead / p.step;
        if (ahead >= 0 && ahead % p.step == 0 && from[p.axis] < p.side)
            return i;
    }
    assert(false);
    return 0;
}
