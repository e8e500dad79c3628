/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous copies, as cp.async: a thread starts pieces of 4, 8 or 16 bytes,
 * commits them as a group, and waits until at most N of its groups are in
 * flight. From issue to wait the bytes belong to the copy: they hold nothing,
 * and no thread may touch them. After the wait they are visible to the thread
 * that waited; to others after the next barrier (the epoch of the write is that
 * of the wait).
 *
 * The order of a run chooses when, in between, a piece reads its source and
 * writes its bytes. (PTX ISA, cp.async: "no ordering guarantee between any two
 * cp.async operations".)
 */
#include "codegen/interp/state.h"

#include <string.h>

/* ---- Landing ---- */

static void land(tc_interp *it, tc_ipiece *p)
{
    if (p->landed)
        return;
    p->landed = true;
    for (unsigned i = 0; i < p->bytes; i++)
        it->bytes[p->to + i].value = p->from ? p->from[i] : 0;
}

/* The wait has been executed: the copy's bytes may be read. */
static bool finish(tc_interp *it, tc_ipiece *p)
{
    unsigned step = tc_type_bytes(p->op->in[1]->type->elem);
    for (unsigned i = 0; p->from && i < p->bytes; i += step)
        if (!tc_interp_global_read(it, p->op, p->from + i, p->thread, p->epoch))
            return false;
    land(it, p);
    tc_iwriter w = tc_interp_thread_writer(it, p->thread);
    for (unsigned i = 0; i < p->bytes; i++) {
        tc_ibyte *b = &it->bytes[p->to + i];
        b->state = TC_BYTE_FULL;
        b->write_epoch = it->sync.now[w.component];
    }
    return true;
}

static void land_at_issue(tc_interp *it, tc_ipiece *p)
{
    tc_interp_order order = it->options->order;
    if (order == TC_INTERP_EARLY ||
        (order == TC_INTERP_RANDOM && tc_interp_random(it) % 4 == 0))
        land(it, p);
}

/* Some of what is in flight arrives, as the order has it. */
static void land_some(tc_interp *it)
{
    uint32_t oldest = it->npieces ? it->pieces[0].group : 0;
    for (size_t i = 0; i < it->npieces; i++) {
        tc_ipiece *p = &it->pieces[i];
        if (it->options->order == TC_INTERP_NEWEST ? p->group != oldest
            : it->options->order == TC_INTERP_RANDOM
                ? tc_interp_random(it) % 4 == 0
                : false)
            land(it, p);
    }
}

/* ---- Issue ---- */

static bool start_piece(tc_interp *it, const tc_op *op, uint32_t to,
                        const uint8_t *from, unsigned bytes, unsigned thread)
{
    unsigned step = tc_type_bytes(op->in[1]->type->elem);
    tc_iwriter w = tc_interp_thread_writer(it, thread);
    w.is_copy = true;
    if (!tc_interp_shared_claim(it, op, to, bytes, &w))
        return false;
    for (unsigned i = 0; from && i < bytes; i += step)
        if (!tc_interp_global_read(it, op, from + i, thread, it->epoch))
            return false;
    tc_interp_shared_stamp(it, op, to, bytes, &w, 0);
    for (unsigned i = 0; i < bytes; i++) {
        it->bytes[to + i].state = TC_BYTE_IN_FLIGHT;
        it->bytes[to + i].value =
            0xa5; /* neither the old content nor the new */
    }
    if (it->npieces == it->room_pieces) {
        size_t room = 2 * it->room_pieces + 256;
        tc_ipiece *more = tc_arena_array(&it->arena, tc_ipiece, room);
        if (it->npieces)
            memcpy(more, it->pieces, it->npieces * sizeof *more);
        it->pieces = more;
        it->room_pieces = room;
    }
    tc_ipiece *p = &it->pieces[it->npieces++];
    *p = (tc_ipiece){.op = op,
                     .from = from,
                     .to = to,
                     .group = it->group,
                     .epoch = it->epoch,
                     .thread = (uint16_t)thread,
                     .bytes = (uint8_t)bytes};
    land_at_issue(it, p);
    return true;
}

/* A copy, cut into the pieces of threads. */
typedef struct copy {
    tc_interp *it;
    const tc_op *op;
    const tc_iplaces *places;
    const uint32_t *offsets;
    int32_t sides[TC_MAX_RANK];
    const tc_ivalue *mask;
    unsigned bytes; /* of an element */
    unsigned most;  /* bytes of a piece */
    bool is_block;
} copy;

/* The copy of one register. */
typedef struct element {
    uint32_t to;
    uintptr_t at;        /* its address, if the tensor had no end */
    const uint8_t *from; /* NULL: outside, or masked: a zero */
} element;

static bool element_of(const copy *c, uint32_t i, element *e)
{
    tc_interp *it = c->it;
    uint32_t elem = c->places->elem[i];
    int32_t coord[TC_MAX_RANK];
    bool allowed = true;
    e->to = tc_ivalue_of(c->op->in[1])->at + c->offsets[elem] * c->bytes;
    if (c->is_block) {
        tc_interp_decode(c->sides, c->op->in[1]->type->rank, elem, coord);
        e->from = tc_interp_window(it, c->op, coord, &allowed, &e->at);
        return e->from || allowed || tc_interp_outside(it, c->op, "copies");
    }
    const tc_ivalue *p = tc_ivalue_of(c->op->in[0]);
    tc_ipoison poison = c->mask ? c->mask->poison[i] : 0;
    bool wanted = !c->mask || c->mask->x[i].i;
    e->at = (uintptr_t)p->x[i].i;
    e->from = NULL;
    if (!poison && wanted)
        poison = p->poison[i];
    if (poison)
        return tc_interp_poisoned(it, c->op, poison, "what is copied");
    if (!wanted)
        return true;
    if (!tc_interp_pointer_ok(it, p->x[i].i, c->bytes))
        return tc_interp_outside(it, c->op, "copies");
    e->from = (const uint8_t *)e->at;
    return true;
}

/* How many bytes, from e[0] on, one cp.async moves: the longest run that is
 * one in both memories and aligned in both. */
static unsigned piece_bytes(const copy *c, const element *e, unsigned n)
{
    unsigned run = 1;
    while (run < n && e[run].to == e[0].to + run * c->bytes &&
           e[run].at == e[0].at + run * c->bytes)
        run++;
    unsigned size = c->most;
    while (size > c->bytes &&
           (size > run * c->bytes || e[0].to % size || e[0].at % size))
        size /= 2;
    return size;
}

static bool start_run(const copy *c, unsigned thread, const element *e,
                      unsigned n)
{
    for (unsigned i = 0; i < n;) {
        unsigned size = piece_bytes(c, e + i, n - i), count = size / c->bytes;
        if (size < 4 || e[i].to % size || e[i].at % size)
            return tc_interp_find(c->it, c->op, NULL, NULL,
                                  "thread %u copies %u bytes from address "
                                  "...%02x to byte %u, expected 4, 8 or 16, "
                                  "aligned",
                                  thread, size, (unsigned)(e[i].at & 0xff),
                                  e[i].to);
        for (unsigned k = 1; k < count; k++)
            if (!e[i + k].from != !e[i].from)
                return tc_interp_find(c->it, c->op, NULL, NULL,
                                      "thread %u copies %u bytes that are half "
                                      "inside of the tensor",
                                      thread, size);
        if (!start_piece(c->it, c->op, e[i].to, e[i].from, size, thread))
            return false;
        i += count;
    }
    return true;
}

/* All that thread t copies: the registers that are the first to hold theirs. */
static bool start_thread(const copy *c, unsigned t, element *e)
{
    const tc_iplaces *p = c->places;
    unsigned n = 0;
    for (uint32_t i = t * p->nregs; i < (t + 1) * p->nregs; i++)
        if (p->first[p->elem[i]] == i && !element_of(c, i, &e[n++]))
            return false;
    return start_run(c, t, e, n);
}

static bool start_copy(tc_interp *it, const tc_op *op)
{
    const tc_type *p = op->in[0]->type, *smem = op->in[1]->type;
    bool is_block = p->kind == TC_BLOCK_PTR;
    const tc_ivalue *memory = tc_ivalue_of(op->in[0]);
    copy c = {.it = it,
              .op = op,
              .places = tc_interp_places(
                  it, is_block ? tc_op_layout(op, "layout") : p->layout),
              .offsets = tc_interp_offsets(it, smem->layout),
              .mask = op->nin > 3 ? tc_ivalue_of(op->in[3]) : NULL,
              .bytes = tc_type_bytes(smem->elem),
              .most = 16,
              .is_block = is_block};
    tc_type_sides(smem, c.sides);
    if (is_block && memory->poison[0])
        return tc_interp_poisoned(it, op, memory->poison[0],
                                  "where it copies from");
    /* Of an argument that nobody promised to be aligned: element by element. */
    if (is_block && !it->tensors[memory->tensor]->def &&
        !(it->f->aligned >> memory->tensor & 1))
        c.most = c.bytes;
    tc_iop *info = tc_iop_of(op);
    if (!info->plan)
        info->plan = tc_arena_array(&it->arena, element, c.places->nregs);
    for (unsigned t = 0; t < it->nthreads; t++)
        if (!start_thread(&c, t, info->plan))
            return false;
    return true;
}

bool tc_interp_async_copy(tc_interp *it, const tc_op *op)
{
    tc_inum condition = {.i = 1};
    if (op->nin > 2 && !tc_interp_decide(it, op, 2, &condition))
        return false;
    land_some(it);
    return !condition.i || start_copy(it, op);
}

/* ---- Groups ---- */

bool tc_interp_async_commit(tc_interp *it, const tc_op *op)
{
    it->group++;
    land_some(it);
    return true;
}

bool tc_interp_async_wait(tc_interp *it, const tc_op *op)
{
    /* Committed groups are 0 to group - 1; the newest `pending` may stay. */
    int64_t done = (int64_t)it->group - tc_op_int(op, "pending");
    size_t left = 0;
    it->wait = op;
    for (size_t i = 0; i < it->npieces; i++) {
        tc_ipiece *p = &it->pieces[i];
        if ((int64_t)p->group >= done)
            it->pieces[left++] = *p;
        else if (!finish(it, p))
            return false;
    }
    it->npieces = left;
    land_some(it);
    return true;
}

bool tc_interp_async_end(tc_interp *it)
{
    for (size_t i = 0; i < it->npieces; i++) {
        const tc_ipiece *p = &it->pieces[i];
        const char *why = p->group == it->group
                              ? "still in flight at the end, in no group"
                              : "still in flight at the end";
        if (!tc_interp_find(it, p->op, NULL, NULL, "%s", why))
            return false;
    }
    return true;
}
