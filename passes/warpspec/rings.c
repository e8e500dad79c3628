/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring indices in both roles: each role advances through a ring on its own.
 *
 *   for .. carry(%count = 0) {
 *     %slot = %count & 3
 *     mbarrier_wait %full, %slot, %count >> 2
 *     %buffer = smem_index %ring, %slot
 *     ..
 *     yield %count + 1 & 7
 *   }
 *
 * A loop carries the counts of the rings in it, also of those in nested loops,
 * so that the counts continue from step to step. Rings of one region share
 * them: 2 slots are the last bit of a count, 4 the last two; the next higher
 * bit is the phase. Of 3 slots there is no such bit: then the loop carries slot
 * and phase. Each ring decodes the count for itself, so that its ops can be
 * moved without those of the others.
 */
#include "passes/warpspec/warpspec.h"

#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"

uint32_t tc_ring_slot_bytes(const tc_ring *r)
{
    uint32_t sum = r->nscalars * TC_SMEM_ALIGN;
    for (unsigned i = 0; i < r->nbulk; i++)
        sum += r->bulk[i]->staged.bytes;
    return sum;
}

/* ---- Uses ---- */

struct uses {
    const tc_region *region;
    tc_map ops; /* of the region, that read */
    bool by_threads;
    bool together; /* in each step all warps of a group meet in a product */
};

static void find_uses(struct uses *u, const tc_value *buffer)
{
    tc_each_use (use, buffer) {
        if (tc_is_buffer_view(use->op)) {
            find_uses(u, use->op->out[0]);
        } else if (tc_buffer_use_of(use->op, use->index) == TC_BUFFER_READ) {
            tc_map_set(&u->ops, tc_ancestor_in(u->region, use->op), use->op);
            bool group = tc_is_group_mma(use->op);
            u->by_threads |= !group;
            u->together |= group && use->op->parent == u->region;
        }
    }
}

tc_ring_uses tc_find_ring_uses(tc_arena *a, const tc_ring *r)
{
    struct uses u = {.region = r->region, .ops = {.arena = a}};
    for (unsigned i = 0; i < r->nbulk; i++)
        find_uses(&u, r->bulk[i]->staged.alloc->out[0]);
    tc_ring_uses found = {.by_threads = u.by_threads || !u.together};
    tc_each_op (op, r->region) {
        if (!tc_map_get(&u.ops, op))
            continue;
        found.last = op;
        if (!found.first)
            found.first = op;
    }
    return found;
}

bool tc_is_read_at_once(tc_arena *a, const tc_ring *r)
{
    const tc_op *last = tc_find_ring_uses(a, r).last;
    return !last || last->nregions == 0;
}

/* ---- Where the role is ---- */

/* A number of slots that is a power of two: the last bits of a count. */
static bool is_counted(const tc_ring *r)
{
    return (r->slots & (r->slots - 1)) == 0;
}

static bool go_together(const tc_ring *a, const tc_ring *b)
{
    return a->region == b->region &&
           (a->slots == b->slots || (is_counted(a) && is_counted(b)));
}

void tc_start_rings(tc_warpspec *s, tc_builder *b)
{
    tc_value *zero = tc_build_int(b, tc_type_scalar(s->env->cx, TC_I32), 0);
    for (tc_ring *r = s->rings; r; r = r->next) {
        r->count = r->slot = r->phase = r->zero = zero;
        r->pace = s->rings;
        while (!go_together(r->pace, r))
            r->pace = r->pace->next;
        if (r->pace->period < 2 * r->slots)
            r->pace->period = 2 * r->slots;
    }
}

void tc_find_slot(tc_ring *r, tc_builder *b)
{
    if (r->slots == 1)
        r->at = r->zero;
    else if (is_counted(r))
        r->at = tc_build_with(b, TC_AND, r->pace->count, r->slots - 1);
    else
        r->at = r->pace->slot;
}

/* The parity of the number of rounds through the ring. */
static tc_value *phase_of(const tc_ring *r, tc_builder *b)
{
    if (r->once)
        return r->zero;
    if (!is_counted(r))
        return r->pace->phase;
    tc_value *round = r->pace->count;
    unsigned bits = 0;
    for (; 1u << bits < r->slots; bits++)
        ;
    if (bits)
        round = tc_build_binary(b, TC_SHRU, round,
                                tc_build_int(b, round->type, bits));
    return r->pace->period > 2 * r->slots ? tc_build_with(b, TC_AND, round, 1)
                                          : round;
}

static bool is_in(const tc_ring *ring, const tc_op *loop)
{
    for (const tc_region *r = ring->region; r->op; r = r->op->parent)
        if (r->op == loop)
            return true;
    return false;
}

tc_carried_rings tc_rings_carried_by(tc_warpspec *s, const tc_op *loop)
{
    tc_arena *a = &s->f->module->arena;
    unsigned room = 0;
    for (const tc_ring *r = s->rings; r; r = r->next)
        room += 2;
    tc_carried_rings c = {0, tc_arena_array(a, tc_value **, room),
                          tc_arena_array(a, const char *, room)};
    for (tc_ring *r = s->rings; r; r = r->next) {
        if (r->pace != r || !is_in(r, loop))
            continue;
        if (is_counted(r)) {
            c.at[c.n] = &r->count;
            c.names[c.n++] = "count";
            continue;
        }
        c.at[c.n] = &r->slot;
        c.names[c.n++] = "slot";
        c.at[c.n] = &r->phase;
        c.names[c.n++] = "phase";
    }
    return c;
}

static void advance(tc_ring *r, tc_builder *b)
{
    const tc_type *i32 = r->zero->type;
    tc_value *one = tc_build_int(b, i32, 1);
    if (is_counted(r)) {
        tc_value *next = tc_build_binary(b, TC_ADD, r->count, one);
        r->count = tc_build_with(b, TC_AND, next, r->period - 1);
        return;
    }
    tc_value *last = tc_build_int(b, i32, r->slots - 1);
    tc_value *wrap = tc_build_cmp(b, "eq", r->slot, last);
    tc_value *zero = tc_build_int(b, i32, 0);
    tc_value *next = tc_build_binary(b, TC_ADD, r->slot, one);
    r->slot = tc_build_select(b, wrap, zero, next);
    tc_value *flip = tc_build(b, TC_CAST, 1, &wrap, i32);
    r->phase = tc_build_binary(b, TC_XOR, r->phase, flip);
}

void tc_advance_rings(tc_warpspec *s, const tc_region *r, tc_builder *b)
{
    for (tc_ring *ring = s->rings; ring; ring = ring->next)
        if (ring->region == r && ring->pace == ring && !ring->once)
            advance(ring, b);
}

/* ---- Ops ---- */

tc_value *tc_build_slot(const tc_ring *r, tc_builder *b, tc_value *buffers)
{
    return r->slots == 1 ? buffers : tc_build_smem_index(b, buffers, r->at);
}

void tc_wait_until_full(const tc_ring *r, tc_builder *b)
{
    tc_value *in[] = {r->full, r->at, phase_of(r, b)};
    tc_build_effect(b, TC_MBARRIER_WAIT, 3, in);
}

/* In the first round all slots are empty: of a fresh mbarrier a phase of parity
 * 1 counts as ended. */
void tc_wait_until_empty(const tc_ring *r, tc_builder *b)
{
    tc_value *phase = phase_of(r, b);
    tc_value *one = tc_build_int(b, phase->type, 1);
    tc_value *in[] = {r->empty, r->at, tc_build_binary(b, TC_XOR, phase, one)};
    tc_build_effect(b, TC_MBARRIER_WAIT, 3, in);
}

tc_op *tc_build_arrive(const tc_ring *r, tc_builder *b, tc_value *which)
{
    tc_value *in[] = {which, r->at};
    return tc_build_effect(b, TC_MBARRIER_ARRIVE, 2, in);
}

tc_op *tc_build_tma_load(const tc_ring *r, tc_builder *b, tc_value *window,
                         tc_value *buffers)
{
    tc_value *buffer = tc_build_slot(r, b, buffers);
    tc_value *in[] = {window, buffer, r->full, r->at};
    return tc_build_effect(b, TC_TMA_LOAD, 4, in);
}
