/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory, byte by byte.
 *
 * The threads of a block may run as far apart as barriers let them. All of
 * them pass the same barriers (control is uniform), so the barriers cut a run
 * into epochs, and two accesses of different threads are in order if and only
 * if their epochs differ. A byte remembers its last write and last read and
 * their epochs; an access in the same epoch as one that it collides with is a
 * race. smem_store, smem_load and mma may move data between lanes (ldmatrix,
 * stmatrix), so nothing in them counts as done by the same thread; a thread's
 * copies do.
 *
 * What is read must have been written, and through the same buffer: bytes that
 * nobody wrote, or that another buffer in the same place wrote, are poison.
 */
#include "codegen/interp/state.h"

#include <string.h>

/* ---- Buffers ---- */

static bool place(tc_interp *it, const tc_op *op, bool finished)
{
    unsigned bytes = tc_smem_bytes(op->out[0]->type);
    int64_t at = tc_op_int(op, "offset");
    if (!finished) /* allocate-shared has not run: all side by side */
        at = (it->nbytes + TC_SMEM_ALIGN - 1) / TC_SMEM_ALIGN * TC_SMEM_ALIGN;
    tc_iop_of(op)->offset = (unsigned)at;
    if (finished && at + bytes > it->f->shared_bytes)
        return tc_error(it->cx, op->loc,
                        "smem_alloc: bytes %lld to %lld are outside of the "
                        "kernel's shared(%u)",
                        (long long)at, (long long)at + bytes - 1,
                        it->f->shared_bytes);
    if (at % TC_SMEM_ALIGN)
        return tc_error(it->cx, op->loc,
                        "smem_alloc: offset %lld, expected a multiple of %d",
                        (long long)at, TC_SMEM_ALIGN);
    if (it->nbytes < at + bytes)
        it->nbytes = (unsigned)(at + bytes);
    return true;
}

bool tc_interp_shared_new(tc_interp *it)
{
    bool finished = false, ok = true;
    for (unsigned i = 1; i <= it->nops; i++)
        finished |= it->ops[i]->code == TC_SMEM_ALLOC &&
                    tc_op_has_attr(it->ops[i], "offset");
    for (unsigned i = 1; i <= it->nops; i++)
        if (it->ops[i]->code == TC_SMEM_ALLOC)
            ok &= place(it, it->ops[i], finished);
    if (ok && it->nbytes)
        it->bytes = tc_arena_array(&it->arena, tc_ibyte, it->nbytes);
    return ok;
}

void tc_interp_shared_reset(tc_interp *it)
{
    if (it->nbytes)
        memset(it->bytes, 0, it->nbytes * sizeof *it->bytes);
}

bool tc_interp_smem_alloc(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    out->at = tc_iop_of(op)->offset;
    out->alloc = tc_iop_of(op)->id;
    return true;
}

bool tc_interp_smem_index(tc_interp *it, const tc_op *op)
{
    const tc_ivalue *ring = tc_ivalue_of(op->in[0]);
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    tc_inum slot;
    if (!tc_interp_decide(it, op, 1, &slot))
        return false;
    if (slot.i < 0 || slot.i >= op->in[0]->type->slots)
        return tc_interp_find(it, op, NULL, NULL, "slot %lld of a ring of %u",
                              (long long)slot.i, op->in[0]->type->slots) &&
               false;
    out->at = ring->at + (uint32_t)slot.i * tc_smem_slot_bytes(op->in[0]->type);
    out->alloc = ring->alloc;
    return true;
}

bool tc_interp_smem_trans(tc_interp *it, const tc_op *op)
{
    tc_interp_copy(tc_ivalue_of(op->out[0]), tc_ivalue_of(op->in[0]));
    return true;
}

/* ---- Accesses ---- */

static const tc_op *writer(const tc_interp *it, const tc_ibyte *b)
{
    return it->ops[b->write_op];
}

/* A byte under way: who reads or writes it comes too soon. */
static bool find_in_flight(tc_interp *it, const tc_op *op, const tc_ibyte *b,
                           const char *verb)
{
    const tc_op *copy = writer(it, b);
    unsigned before = it->nfindings;
    bool go_on = tc_interp_find(
        it, op, copy, "the copy starts here",
        "%s shared memory that a copy of thread %u is still writing", verb,
        b->write_thread);
    if (it->nfindings > before && it->wait)
        tc_note(it->cx, it->wait->loc,
                "the last wait before leaves groups under way");
    return go_on;
}

/* A byte that only the thread that wrote it can be sure to see. */
static bool find_unseen(tc_interp *it, const tc_op *op, const tc_ibyte *b)
{
    unsigned before = it->nfindings;
    bool go_on = tc_interp_find(it, op, writer(it, b), "written here",
                                "race: reads what thread %u has written with "
                                "no barrier in between",
                                b->write_thread);
    if (it->nfindings > before && writer(it, b)->code == TC_ASYNC_COPY)
        tc_note(it->cx, it->wait->loc,
                "each thread has waited here for its "
                "own copies only");
    return go_on;
}

/* One byte is read; its poison. */
static bool read_byte(tc_interp *it, const tc_op *op, tc_ibyte *b,
                      uint16_t alloc, tc_ipoison *poison)
{
    bool ok = true;
    if (b->state == TC_BYTE_EMPTY)
        *poison = tc_interp_reason(
            it, op, "this reads shared memory that was never written", NULL);
    else if (b->alloc != alloc)
        *poison = tc_interp_reason(it, op,
                                   "this reads a buffer whose place another "
                                   "buffer has taken",
                                   writer(it, b));
    else if (b->poison)
        *poison = b->poison;
    if (b->state == TC_BYTE_IN_FLIGHT) {
        ok = find_in_flight(it, op, b, "reads");
        *poison = tc_interp_reason(
            it, op, "this reads a copy that is under way", writer(it, b));
    } else if (b->state == TC_BYTE_FULL && b->write_epoch == it->epoch) {
        ok = find_unseen(it, op, b);
    }
    b->read_epoch = it->epoch;
    b->read_op = tc_iop_of(op)->id;
    return ok;
}

bool tc_interp_shared_read(tc_interp *it, const tc_op *op, unsigned operand,
                           tc_inum *x, tc_ipoison *poison)
{
    const tc_type *t = op->in[operand]->type;
    const tc_ivalue *v = tc_ivalue_of(op->in[operand]);
    const uint32_t *offsets = tc_interp_offsets(it, t->layout);
    unsigned bytes = tc_type_bytes(t->elem);
    uint32_t n = (uint32_t)tc_layout_size(t->layout, TC_OFFSET);
    for (uint32_t e = 0; e < n; e++) {
        tc_ibyte *b = &it->bytes[v->at + offsets[e] * bytes];
        uint8_t value[8];
        poison[e] = 0;
        for (unsigned i = 0; i < bytes; i++) {
            value[i] = b[i].value;
            if (!read_byte(it, op, &b[i], v->alloc, &poison[e]))
                return false;
        }
        x[e] = tc_interp_read(t->elem->kind, value);
    }
    return true;
}

static bool claim_byte(tc_interp *it, const tc_op *op, const tc_ibyte *b,
                       unsigned thread, bool is_copy)
{
    if (b->state == TC_BYTE_IN_FLIGHT)
        return find_in_flight(it, op, b, "writes");
    if (b->read_epoch == it->epoch)
        return tc_interp_find(it, op, it->ops[b->read_op], "read here",
                              "race: thread %u overwrites what other threads "
                              "may still read, with no barrier in between",
                              thread);
    bool own = is_copy && b->write_op && writer(it, b)->code == TC_ASYNC_COPY &&
               b->write_thread == thread;
    if (b->state == TC_BYTE_FULL && b->write_epoch == it->epoch && !own)
        return tc_interp_find(it, op, writer(it, b), "written here",
                              "race: thread %u overwrites what thread %u has "
                              "written with no barrier in between",
                              thread, b->write_thread);
    return true;
}

bool tc_interp_shared_claim(tc_interp *it, const tc_op *op, uint32_t at,
                            unsigned bytes, unsigned thread, bool is_copy)
{
    for (unsigned i = 0; i < bytes; i++)
        if (!claim_byte(it, op, &it->bytes[at + i], thread, is_copy))
            return false;
    return true;
}

/* ---- The ops ---- */

bool tc_interp_smem_load(tc_interp *it, const tc_op *op)
{
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    const tc_iplaces *p = tc_interp_places(it, op->out[0]->type->layout);
    tc_iop *info = tc_iop_of(op);
    if (!info->plan)
        info->plan = tc_arena_alloc(
            &it->arena, p->count * (sizeof(tc_inum) + sizeof(tc_ipoison)));
    tc_inum *x = info->plan;
    tc_ipoison *poison = (tc_ipoison *)(x + p->count);
    if (!tc_interp_shared_read(it, op, 0, x, poison))
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        out->x[i] = x[p->elem[i]];
        out->poison[i] = poison[p->elem[i]];
    }
    return true;
}

static bool store_element(tc_interp *it, const tc_op *op, uint32_t at,
                          unsigned thread, tc_inum x, tc_ipoison poison)
{
    const tc_type *t = op->in[0]->type;
    unsigned bytes = tc_type_bytes(t->elem);
    uint8_t value[8];
    tc_interp_write(t->elem->kind, value, x);
    if (!tc_interp_shared_claim(it, op, at, bytes, thread, false))
        return false;
    for (unsigned i = 0; i < bytes; i++) {
        tc_ibyte *b = &it->bytes[at + i];
        b->value = value[i];
        b->state = TC_BYTE_FULL;
        b->poison = poison;
        b->alloc = tc_ivalue_of(op->in[0])->alloc;
        b->write_op = tc_iop_of(op)->id;
        b->write_thread = (uint16_t)thread;
        b->write_epoch = it->epoch;
    }
    return true;
}

bool tc_interp_smem_store(tc_interp *it, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    const tc_iplaces *p = tc_interp_places(it, op->in[1]->type->layout);
    const uint32_t *offsets = tc_interp_offsets(it, t->layout);
    tc_iop *info = tc_iop_of(op);
    if (!info->plan)
        info->plan = tc_arena_alloc(
            &it->arena, p->count * (sizeof(tc_inum) + sizeof(tc_ipoison)));
    tc_inum *x = info->plan;
    tc_ipoison *poison = (tc_ipoison *)(x + p->count);
    if (!tc_interp_gather(it, op, 1, x, poison))
        return false;
    uint32_t base = tc_ivalue_of(op->in[0])->at;
    for (uint32_t e = 0; e < p->count; e++)
        if (!store_element(it, op, base + offsets[e] * tc_type_bytes(t->elem),
                           p->first[e] / p->nregs, x[e], poison[e]))
            return false;
    return true;
}

bool tc_interp_barrier(tc_interp *it, const tc_op *op)
{
    it->epoch++;
    return true;
}
