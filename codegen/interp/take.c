/* SPDX-License-Identifier: Apache-2.0
 *
 * smem_take: which elements a thread reads is known as late as the indices are,
 * so each group counts as a reader of all lines that it reads from.
 */
#include "codegen/interp/state.h"

#include <string.h>

typedef struct lines {
    uint8_t *groups; /* of each element of the buffer: who reads its line */
    tc_inum *x;
    tc_ipoison *poison;
} lines;

/* The element of the buffer in the line of element e of the result. */
static uint32_t element_in_line(const tc_op *op, uint32_t e, int32_t index)
{
    const tc_type *t = op->in[0]->type, *to = op->out[0]->type;
    int32_t coord[TC_MAX_RANK];
    tc_interp_decode(to->layout->shape, to->rank, e, coord);
    coord[tc_op_int(op, "axis")] = index;
    return tc_interp_encode(t->layout->shape, t->rank, coord);
}

static lines *lines_of(tc_interp *it, const tc_op *op)
{
    tc_iop *info = tc_iop_of(op);
    if (info->plan)
        return info->plan;
    const tc_type *t = op->in[0]->type;
    uint32_t n = (uint32_t)tc_type_count(t);
    int32_t side = (int32_t)tc_dim_value(t->dims[tc_op_int(op, "axis")]);
    const uint8_t *groups = tc_interp_groups(it, op->out[0]->type->layout);
    lines *l = info->plan = tc_arena_new(&it->arena, lines);
    l->groups = tc_arena_array(&it->arena, uint8_t, n);
    l->x = tc_arena_array(&it->arena, tc_inum, n);
    l->poison = tc_arena_array(&it->arena, tc_ipoison, n);
    memset(l->groups, 0, n);
    uint32_t count = (uint32_t)tc_type_count(op->out[0]->type);
    for (uint32_t e = 0; e < count; e++)
        for (int32_t i = 0; i < side; i++)
            l->groups[element_in_line(op, e, i)] |= groups[e];
    return l;
}

bool tc_interp_smem_take(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    const tc_ivalue *index = tc_ivalue_of(op->in[1]);
    const tc_type *t = op->in[0]->type;
    const tc_iplaces *p = tc_interp_places(it, op->out[0]->type->layout);
    int64_t side = tc_dim_value(t->dims[tc_op_int(op, "axis")]);
    tc_inum pad = tc_interp_pad(op, t->elem->kind);
    lines *l = lines_of(it, op);
    if (!tc_interp_shared_read(it, op, 0, TC_READ_THREADS, l->groups, l->x,
                               l->poison))
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        int64_t at = index->x[i].i;
        out->x[i] = pad;
        out->poison[i] = index->poison[i];
        if (at < 0 || at >= side || index->poison[i])
            continue;
        uint32_t e = element_in_line(op, p->elem[i], (int32_t)at);
        out->x[i] = l->x[e];
        out->poison[i] = l->poison[e];
    }
    return true;
}
