/* SPDX-License-Identifier: Apache-2.0
 *
 * The communication of the roles of a persistent kernel: the scalar channel,
 * and the tile counter, which all programs of a launch share.
 */
#include "codegen/interp/state.h"

#include <string.h>

bool tc_interp_smem_store_scalar(tc_interp *it, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    const tc_ivalue *value = tc_ivalue_of(op->in[1]);
    unsigned bytes = tc_type_bytes(t->elem);
    uint32_t at = tc_ivalue_of(op->in[0])->at;
    uint8_t x[8];
    tc_iwriter w = tc_interp_thread_writer(it, 0);
    if (it->agent->role == TC_ROLE_PRODUCER)
        w = (tc_iwriter){.actor = TC_ACTOR_PRODUCER,
                         .component = tc_clock_producer()};
    if (!tc_interp_shared_claim(it, op, at, bytes, &w))
        return false;
    tc_interp_shared_stamp(it, op, at, bytes, &w, value->poison[0]);
    tc_interp_write(t->elem->kind, x, value->x[0]);
    for (unsigned i = 0; i < bytes; i++)
        it->bytes[at + i].value = x[i];
    return true;
}

bool tc_interp_smem_load_scalar(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    bool producer = it->agent->role == TC_ROLE_PRODUCER;
    return tc_interp_shared_read(it, op, 0,
                                 producer ? TC_READ_PRODUCER : TC_READ_THREADS,
                                 NULL, out->x, out->poison);
}

bool tc_interp_next_tile(tc_interp *it, const tc_op *op)
{
    tc_isync *s = &it->sync;
    if (it->agent->role > TC_ROLE_PRODUCER)
        return tc_interp_find(it, op, NULL, NULL,
                              "in the consumer, where each thread would get a "
                              "number of its own") &&
               false;
    if (s->end)
        return tc_interp_find(it, op, s->end, "ended here",
                              "after end_tiles, when the counter may be that "
                              "of the next launch") &&
               false;
    s->fetch = op;
    int64_t n = tc_int_wrap(TC_I32, (int64_t)it->grid[0] + s->tiles++);
    bool is = n < tc_ivalue_of(op->in[0])->x[0].i;
    tc_ivalue_of(op->out[0])->x[0].i = is ? n : INT32_MAX;
    return true;
}

bool tc_interp_end_tiles(tc_interp *it, const tc_op *op)
{
    tc_isync *s = &it->sync;
    const tc_op *before = s->end;
    s->end = op;
    return !before || (tc_interp_find(it, op, before, "ended here",
                                      "the second end_tiles of a program: the "
                                      "counter is reset too early") &&
                       false);
}

bool tc_interp_tiles_end(tc_interp *it)
{
    const tc_isync *s = &it->sync;
    return !s->fetch || s->end ||
           tc_interp_find(it, s->fetch, NULL, NULL,
                          "no end_tiles after it: the counter is never "
                          "reset");
}
