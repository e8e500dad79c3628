/* SPDX-License-Identifier: Apache-2.0
 *
 * Races in global memory between the programs of a grid. They run one after
 * another here, on a GPU in any order and concurrently: what one program has
 * written another one may access only after an atomic that acquires what an
 * atomic of the first one has released. Vector clocks with a component for each
 * program, which counts its releases.
 *
 * An element remembers its last write, its last read, and its last ordered
 * addition (follow.c).
 */
#include "codegen/interp/state.h"

#include <string.h>

typedef struct access {
    uint32_t program; /* + 1; 0: none */
    uint32_t step;
    uint16_t op;
} access;

struct tc_ielement {
    uintptr_t at; /* 0: free */
    access write, read;
    tc_iadded added;
};

void tc_interp_programs_new(tc_interp *it, uint32_t count)
{
    tc_iprograms *p = &it->programs;
    *p = (tc_iprograms){.count = count, .words.arena = &it->arena};
    p->steps = tc_arena_array(&it->arena, uint32_t, count);
    p->known = tc_arena_array(&it->arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++)
        p->steps[i] = 1;
}

void tc_interp_programs_enter(tc_interp *it, uint32_t index)
{
    tc_iprograms *p = &it->programs;
    p->now = index;
    memset(p->known, 0, p->count * sizeof *p->known);
}

/* ---- Elements ---- */

static size_t slot_of(const tc_iprograms *p, uintptr_t at)
{
    size_t i = (size_t)(at * 0x9e3779b97f4a7c15u >> 20) % p->room;
    while (p->elements[i].at && p->elements[i].at != at)
        i = i + 1 == p->room ? 0 : i + 1;
    return i;
}

static void grow(tc_interp *it)
{
    tc_iprograms *p = &it->programs;
    struct tc_ielement *old = p->elements;
    size_t n = p->room;
    p->room = n ? 2 * n : 1 << 12;
    p->elements = tc_arena_array(&it->arena, struct tc_ielement, p->room);
    for (size_t i = 0; i < n; i++)
        if (old[i].at)
            p->elements[slot_of(p, old[i].at)] = old[i];
}

static struct tc_ielement *element_of(tc_interp *it, uintptr_t at)
{
    tc_iprograms *p = &it->programs;
    if (2 * p->nelements >= p->room)
        grow(it);
    struct tc_ielement *e = &p->elements[slot_of(p, at)];
    p->nelements += e->at == 0;
    e->at = at;
    return e;
}

/* ---- Accesses ---- */

/* Neither this program's own, nor released by its program and acquired by this
 * one. Atomics have no order that matters. */
static bool collides(const tc_interp *it, const access *a, const tc_op *op)
{
    const tc_iprograms *p = &it->programs;
    return a->program && a->program - 1 != p->now &&
           p->known[a->program - 1] < a->step &&
           !(tc_interp_is_atomic(op) && tc_interp_is_atomic(it->ops[a->op]));
}

static access this_access(const tc_interp *it, const tc_op *op)
{
    const tc_iprograms *p = &it->programs;
    return (access){p->now + 1, p->steps[p->now], tc_iop_of(op)->id};
}

bool tc_interp_programs_read(tc_interp *it, const tc_op *op, const void *at)
{
    struct tc_ielement *e = element_of(it, (uintptr_t)at);
    e->read = this_access(it, op);
    return !collides(it, &e->write, op) ||
           tc_interp_find(it, op, it->ops[e->write.op], "written here",
                          "race: reads global memory that program %u of the "
                          "grid writes, with no release there and acquire here",
                          e->write.program - 1);
}

/* A read of a word that a plain store has written acquires nothing. */
static void forget_word(tc_iprograms *p, const void *at)
{
    uint32_t *released = p->nwords ? tc_map_get(&p->words, at) : NULL;
    if (released)
        memset(released, 0, p->count * sizeof *released);
}

bool tc_interp_programs_write(tc_interp *it, const tc_op *op, const void *at)
{
    struct tc_ielement *e = element_of(it, (uintptr_t)at);
    bool ok = true;
    if (collides(it, &e->write, op))
        ok = tc_interp_find(it, op, it->ops[e->write.op], "written here",
                            "race: writes global memory that program %u of the "
                            "grid writes, with no release there and acquire "
                            "here",
                            e->write.program - 1);
    else if (collides(it, &e->read, op))
        ok = tc_interp_find(it, op, it->ops[e->read.op], "read here",
                            "race: writes global memory that program %u of the "
                            "grid reads, with no release there and acquire "
                            "here",
                            e->read.program - 1);
    e->write = this_access(it, op);
    if (!tc_interp_is_atomic(op))
        forget_word(&it->programs, at);
    return ok && tc_interp_follow_add(it, op, &e->added);
}

/* ---- Order ---- */

void tc_interp_programs_acquire(tc_interp *it, const void *word)
{
    tc_iprograms *p = &it->programs;
    const uint32_t *released = tc_map_get(&p->words, word);
    for (uint32_t i = 0; released && i < p->count; i++)
        if (p->known[i] < released[i])
            p->known[i] = released[i];
}

void tc_interp_programs_release(tc_interp *it, const void *word)
{
    tc_iprograms *p = &it->programs;
    uint32_t *released = tc_map_get(&p->words, word);
    if (!released) {
        released = tc_arena_array(&it->arena, uint32_t, p->count);
        tc_map_set(&p->words, word, released);
        p->nwords++;
    }
    p->known[p->now] = p->steps[p->now]++;
    for (uint32_t i = 0; i < p->count; i++)
        if (released[i] < p->known[i])
            released[i] = p->known[i];
}

static bool is_in_order(const tc_op *op, const char *one_sided)
{
    return !tc_op_is_word(op, "order", "relaxed") &&
           !tc_op_is_word(op, "order", one_sided) &&
           !tc_op_is_word(op, "scope", "block");
}

void tc_interp_programs_before(tc_interp *it, const tc_op *op, const void *word)
{
    if (is_in_order(op, "release"))
        tc_interp_programs_acquire(it, word);
}

void tc_interp_programs_after(tc_interp *it, const tc_op *op, const void *word)
{
    if (is_in_order(op, "acquire"))
        tc_interp_programs_release(it, word);
}
