/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of shared memory by index.
 *
 * smem_take: which elements a thread reads is known as late as the indices are,
 * so each group counts as a reader of all lines that it reads from.
 *
 * smem_count: atomics of threads do not race with each other, so first each
 * thread claims the counters that it adds to, then the sums are written.
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

/* ---- Counters ---- */

enum { BYTES = 4 };

typedef struct count {
    uint32_t element; /* of the indices */
    uint32_t at;      /* the counter's byte */
    tc_iwriter writer;
} count;

/* Whether the element counts, and where. */
static bool find_counter(tc_interp *it, const tc_op *op, const tc_iplaces *p,
                         uint32_t e, count *c)
{
    const tc_ivalue *index = tc_ivalue_of(op->in[1]);
    const tc_type *t = op->in[0]->type;
    int64_t at = index->x[p->first[e]].i;
    if (at < 0 || at >= tc_dim_value(t->dims[0]) || index->poison[p->first[e]])
        return false;
    uint32_t offset = tc_interp_offsets(it, t->layout)[at];
    *c = (count){e, tc_ivalue_of(op->in[0])->at + offset * BYTES,
                 tc_interp_thread_writer(it, p->first[e] / p->nregs)};
    return true;
}

static void add_one(tc_interp *it, const tc_op *op, const count *c)
{
    tc_ibyte *b = &it->bytes[c->at];
    tc_ipoison poison = b->poison;
    if (b->state == TC_BYTE_EMPTY)
        poison = tc_interp_reason(
            it, op, "this counts in shared memory that was never written",
            NULL);
    uint8_t value[BYTES];
    for (unsigned i = 0; i < BYTES; i++)
        value[i] = b[i].value;
    tc_inum x = tc_interp_read(TC_I32, value);
    x.i++;
    tc_interp_write(TC_I32, value, x);
    tc_interp_shared_stamp(it, op, c->at, BYTES, &c->writer, poison);
    for (unsigned i = 0; i < BYTES; i++)
        b[i].value = value[i];
}

/* Which counters are wrong is not known: all are. */
static void spoil(tc_interp *it, const tc_op *op, tc_ipoison poison)
{
    const tc_type *t = op->in[0]->type;
    tc_iwriter w = tc_interp_thread_writer(it, 0);
    tc_interp_shared_stamp(it, op, tc_ivalue_of(op->in[0])->at,
                           BYTES * (unsigned)tc_type_count(t), &w, poison);
}

bool tc_interp_smem_count(tc_interp *it, const tc_op *op)
{
    const tc_iplaces *p = tc_interp_places(it, op->in[1]->type->layout);
    const tc_ivalue *index = tc_ivalue_of(op->in[1]);
    tc_ipoison poison = 0;
    count c;
    for (uint32_t e = 0; e < p->count; e++) {
        poison = poison ? poison : index->poison[p->first[e]];
        if (find_counter(it, op, p, e, &c) &&
            !tc_interp_shared_claim(it, op, c.at, BYTES, &c.writer))
            return false;
    }
    for (uint32_t e = 0; e < p->count; e++)
        if (find_counter(it, op, p, e, &c))
            add_one(it, op, &c);
    if (poison)
        spoil(it, op, poison);
    return true;
}
