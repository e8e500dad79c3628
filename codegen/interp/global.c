/* SPDX-License-Identifier: Apache-2.0
 *
 * Races in global memory, within a block: one thread stores an element, and
 * another one loads or stores it with no barrier in between. (Blocks of a grid
 * are compared in programs.c.)
 *
 * Only tensors that the kernel stores to are checked. Arguments may lie in the
 * same memory (a kernel launched in place), so elements are identified by their
 * addresses. Tensors with a stride of 0, whose elements are one, are not
 * checked: callers pass unwanted outputs like that.
 */
#include "codegen/interp/state.h"

#include <string.h>

enum { MANY = TC_ALL_THREADS };

/* The accesses of an element so far. */
struct tc_icell {
    uintptr_t at; /* 0: free */
    uint32_t write_epoch, read_epoch;
    uint16_t write_op, write_thread, read_op, read_thread;
    bool write_atomic, read_atomic;
    /* The TMA store that writes the element and is not known to be over: its
     * group, and its number. */
    uint8_t bulk_group;
    uint32_t bulk; /* 0: not by one */
};

/* ---- What is looked after ---- */

static bool has_zero_stride(const tc_type *t, const tc_launch_arg *arg)
{
    for (unsigned i = 0; i < t->rank; i++)
        if (arg->strides[i] == 0 && arg->sizes[i] > 1)
            return true;
    return false;
}

/* The argument that a store goes to; NULL: pointers, and tensors made of them,
 * which go anywhere. */
static const tc_value *tensor_of(const tc_op *op)
{
    const tc_op *block = op->in[0]->def;
    bool known = block && block->code == TC_BLOCK && !block->in[0]->def;
    return known ? block->in[0] : NULL;
}

/* Whether a TMA copy loads from memory that is stored to. */
static bool may_be_stored(const tc_interp *it, const tc_op *load)
{
    const tc_value *t = tensor_of(load);
    if (!t)
        return true;
    tc_irange r = tc_interp_extent(t->type, &it->args[t->index]);
    for (unsigned i = 0; i < it->ntracked; i++)
        if (it->tracked[i].from < r.to && r.from < it->tracked[i].to)
            return true;
    return false;
}

void tc_interp_global_new(tc_interp *it)
{
    const tc_region *body = it->f->body;
    bool *stored = tc_arena_array(&it->arena, bool, body->nargs);
    bool anywhere = false;
    for (unsigned i = 1; i <= it->nops; i++) {
        const tc_op *op = it->ops[i];
        bool atomic = op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS;
        bool store = op->code == TC_STORE || op->code == TC_TMA_STORE;
        const tc_value *t = store ? tensor_of(op) : NULL;
        if (t)
            stored[t->index] = true;
        else
            anywhere |= atomic || store;
    }
    it->tracked = tc_arena_array(&it->arena, tc_irange, body->nargs);
    for (unsigned i = 0; i < body->nargs; i++) {
        const tc_type *t = body->args[i]->type;
        if (t->kind == TC_TENSOR && (stored[i] || anywhere) &&
            !has_zero_stride(t, &it->args[i]))
            it->tracked[it->ntracked++] = tc_interp_extent(t, &it->args[i]);
    }
    for (unsigned i = 1; i <= it->nops; i++)
        if (it->ops[i]->code == TC_TMA_LOAD)
            it->sync.keep_flights |= may_be_stored(it, it->ops[i]);
}

void tc_interp_global_reset(tc_interp *it)
{
    if (it->cells)
        memset(it->cells, 0, it->room_cells * sizeof *it->cells);
    it->ncells = 0;
}

static bool is_tracked(const tc_interp *it, uintptr_t at)
{
    for (unsigned i = 0; i < it->ntracked; i++)
        if (at >= it->tracked[i].from && at < it->tracked[i].to)
            return true;
    return false;
}

/* ---- Cells ---- */

static size_t slot_of(const tc_interp *it, uintptr_t at)
{
    size_t i = (size_t)(at * 0x9e3779b97f4a7c15u >> 20) % it->room_cells;
    while (it->cells[i].at && it->cells[i].at != at)
        i = i + 1 == it->room_cells ? 0 : i + 1;
    return i;
}

static void grow(tc_interp *it)
{
    struct tc_icell *old = it->cells;
    size_t n = it->room_cells;
    it->room_cells = n ? 2 * n : 1 << 12;
    it->cells = tc_arena_array(&it->arena, struct tc_icell, it->room_cells);
    for (size_t i = 0; i < n; i++)
        if (old[i].at)
            it->cells[slot_of(it, old[i].at)] = old[i];
}

static struct tc_icell *cell_of(tc_interp *it, uintptr_t at)
{
    if (2 * it->ncells >= it->room_cells)
        grow(it);
    struct tc_icell *c = &it->cells[slot_of(it, at)];
    it->ncells += c->at == 0;
    c->at = at;
    return c;
}

bool tc_interp_is_atomic(const tc_op *op)
{
    return op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS ||
           ((op->code == TC_STORE || op->code == TC_TMA_STORE) &&
            tc_op_is_word(op, "kind", "add"));
}

/* ---- Accesses ---- */

/* Once its completion is known, the elements that a TMA store has written count
 * as if they had always been there. */
static void forget_bulk(tc_interp *it, struct tc_icell *c, unsigned group)
{
    const tc_isync *s = &it->sync;
    unsigned actor = tc_actor_group(group);
    if (c->bulk &&
        tc_interp_knows(it, actor, tc_clock_written(s, c->bulk_group), c->bulk))
        c->bulk = c->write_epoch = c->write_op = 0;
}

bool tc_interp_global_read(tc_interp *it, const tc_op *op, const void *p,
                           unsigned thread, uint32_t since)
{
    if (!is_tracked(it, (uintptr_t)p))
        return true;
    struct tc_icell *c = cell_of(it, (uintptr_t)p);
    forget_bulk(it, c, tc_interp_group_of(it, thread));
    bool own = c->write_thread == thread && since == it->epoch;
    bool ok = true;
    if (c->write_epoch >= since && c->write_op && !own &&
        !(c->write_atomic && tc_interp_is_atomic(op)))
        ok = tc_interp_find(it, op, it->ops[c->write_op], "written here",
                            "race: reads global memory that thread %u writes "
                            "with no barrier in between",
                            c->write_thread);
    bool more = c->read_epoch == it->epoch && c->read_thread != thread;
    c->read_thread = more ? MANY : (uint16_t)thread;
    c->read_epoch = it->epoch;
    c->read_op = tc_iop_of(op)->id;
    c->read_atomic = tc_interp_is_atomic(op);
    return ok && tc_interp_programs_read(it, op, p);
}

bool tc_interp_global_write(tc_interp *it, const tc_op *op, const void *p,
                            unsigned thread)
{
    if (!is_tracked(it, (uintptr_t)p))
        return true;
    struct tc_icell *c = cell_of(it, (uintptr_t)p);
    bool ok = true;
    forget_bulk(it, c, tc_interp_group_of(it, thread));
    if (c->read_epoch == it->epoch && c->read_thread != thread &&
        !(c->read_atomic && tc_interp_is_atomic(op)))
        ok = tc_interp_find(it, op, it->ops[c->read_op], "read here",
                            "race: thread %u overwrites global memory that "
                            "other threads may still read, with no barrier in "
                            "between",
                            thread);
    else if (c->write_epoch >= it->epoch && c->write_thread != thread &&
             !(c->write_atomic && tc_interp_is_atomic(op)))
        ok = tc_interp_find(it, op, it->ops[c->write_op], "written here",
                            "race: threads %u and %u write one element of "
                            "global memory with no barrier in between",
                            c->write_thread, thread);
    c->write_thread = (uint16_t)thread;
    c->write_epoch = it->epoch;
    c->write_op = tc_iop_of(op)->id;
    c->write_atomic = tc_interp_is_atomic(op);
    c->bulk = 0;
    return ok && tc_interp_programs_write(it, op, p) &&
           tc_interp_bulk_stored(it, op, p, thread);
}

/* TMA copies are in order with no other access of the program to global memory:
 * nothing else may write an element that one touches, except for threads that
 * have waited until it was written. */

bool tc_interp_global_bulk_read(tc_interp *it, const tc_op *op, const void *p)
{
    if (!is_tracked(it, (uintptr_t)p))
        return true;
    const struct tc_icell *c = cell_of(it, (uintptr_t)p);
    if (!tc_interp_programs_read(it, op, p))
        return false;
    return !c->write_op ||
           tc_interp_find(it, op, it->ops[c->write_op], "written here",
                          "race: a TMA copy reads global memory that the "
                          "program writes");
}

bool tc_interp_global_bulk_write(tc_interp *it, const tc_op *op, const void *p,
                                 unsigned group)
{
    if (!is_tracked(it, (uintptr_t)p))
        return true;
    struct tc_icell *c = cell_of(it, (uintptr_t)p);
    forget_bulk(it, c, group);
    bool added = c->write_op && tc_interp_is_atomic(op) &&
                 tc_interp_is_atomic(it->ops[c->write_op]);
    if (c->write_op && !added &&
        !tc_interp_find(it, op, it->ops[c->write_op], "written here",
                        "race: a TMA copy writes global memory that was "
                        "written before"))
        return false;
    if (c->read_epoch == it->epoch &&
        !tc_interp_find(it, op, it->ops[c->read_op], "read here",
                        "race: a TMA copy overwrites global memory that "
                        "threads may still read, with no barrier in between"))
        return false;
    c->write_op = tc_iop_of(op)->id;
    c->write_thread = MANY;
    c->write_epoch = UINT32_MAX; /* until it is waited for */
    c->bulk = it->sync.now[tc_clock_stores(&it->sync, group)];
    c->bulk_group = (uint8_t)group;
    return tc_interp_programs_write(it, op, p) &&
           tc_interp_bulk_stored(it, op, p, 0);
}
