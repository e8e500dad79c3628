/* SPDX-License-Identifier: Apache-2.0
 *
 * smem_count: atomics of threads do not race with each other, so first each thread
 * claims the counters that it adds to, then the sums are written, each by the last
 * thread that adds to it.
 */
#include "codegen/interp/state.h"

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
