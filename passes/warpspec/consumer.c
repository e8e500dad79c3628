/* SPDX-License-Identifier: Apache-2.0
 *
 * The consumers: the kernel, without the loads that became TMA loads.
 *
 *   for .. carry(.., %count = 0) {
 *     %s = smem_index %ring, %slot
 *     mbarrier_wait %full, %slot, %phase        before the first use
 *     .. mma of %s ..
 *     mbarrier_arrive %empty, %slot             after the last one; not where
 *     ..                                        it is filled once
 *
 * If only a branch or a loop uses the buffer, wait and arrive stand around it:
 * a step does both exactly once, on every path. One thread of a warp group
 * arrives for all its warps. If no mma of the step has synchronized these warps
 * they meet first: other warps may still be reading, or even waiting, and would
 * miss the phase that they wait for.
 */
#include "passes/warpspec/warpspec.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/roles.h"

tc_op *tc_build_group_barrier(tc_builder *b)
{
    tc_op *barrier = tc_build_effect(b, TC_BARRIER, 0, NULL);
    tc_op_set_word(barrier, "scope", "group");
    return barrier;
}

/* ---- Dead ops ---- */

void tc_erase_if_dead(tc_arena *a, tc_op *op)
{
    bool may = (tc_op_has(op, TC_PURE) || op->code == TC_LOAD ||
                op->code == TC_GATHER) &&
               op->nregions == 0;
    for (unsigned i = 0; i < op->nout; i++)
        may &= !op->out[i]->uses;
    if (!may)
        return;
    unsigned n = op->nin;
    tc_op **defs = tc_arena_array(a, tc_op *, n);
    for (unsigned i = 0; i < n; i++)
        defs[i] = op->in[i]->def;
    tc_op_erase(op);
    for (unsigned i = 0; i < n; i++)
        if (defs[i] && defs[i]->parent)
            tc_erase_if_dead(a, defs[i]);
}

/* ---- One ring ---- */

static void use_slot(tc_arena *a, const tc_ring *r,
                     const tc_tma_candidate *bulk)
{
    const tc_staged *s = &bulk->staged;
    tc_builder b = tc_builder_before(s->alloc);
    tc_value *slot = tc_build_slot(r, &b, bulk->buffers);
    tc_op_erase(s->store);
    tc_erase_if_dead(a, s->load);
    tc_value_replace(s->alloc->out[0], slot);
    tc_op_erase(s->alloc);
    if (!bulk->from)
        return;
    tc_op_erase(bulk->from->staged.store);
    tc_erase_if_dead(a, bulk->from->staged.load);
    tc_op_erase(bulk->from->staged.alloc);
}

/* After the op, and after what releases other rings there. */
static void release(const tc_ring *r, tc_op *last, bool meet)
{
    tc_op *next = last->next;
    if (next->code == TC_BARRIER && tc_op_is_word(next, "scope", "group")) {
        if (meet)
            tc_op_set_word(next, "guards", "tiles");
        meet = false;
        next = next->next;
    }
    while (next->code == TC_MBARRIER_ARRIVE)
        next = next->next;
    tc_builder b = tc_builder_before(next);
    b.loc = last->loc;
    if (meet)
        tc_build_group_barrier(&b);
    tc_build_arrive(r, &b, r->empty);
}

/* Releases the slot at the step's end: the buffers that shared its memory since
 * may have been written, and the next copy must come after that. */
static void release_late(const tc_ring *r)
{
    tc_builder b = tc_builder_before(tc_region_terminator(r->region));
    b.loc = r->bulk[0]->staged.load->loc;
    tc_op_insert(tc_op_new(b.func, TC_FENCE_ASYNC, b.loc, 0, NULL, 0), b.region,
                 b.before);
    tc_build_group_barrier(&b);
    tc_build_arrive(r, &b, r->empty);
}

static void take_tiles(tc_warpspec *s, tc_ring *r)
{
    tc_ring_uses uses = tc_find_ring_uses(s->env->scratch, r);
    tc_builder first = tc_builder_before(r->region->first);
    first.loc = r->bulk[0]->staged.load->loc;
    tc_find_slot(r, &first);
    tc_builder before = tc_builder_before(uses.first);
    tc_wait_until_full(r, &before);
    if (r->empty && !r->lent)
        release(r, uses.last, uses.by_threads);
    for (unsigned i = 0; i < r->nbulk; i++)
        use_slot(s->env->scratch, r, r->bulk[i]);
}

/* ---- Loops ---- */

static void consumer_visit(tc_warpspec *s, tc_region *r);

/* Adds the rings' counts to the values that the loop carries. */
static void carry(tc_warpspec *s, tc_op *loop, const tc_carried_rings *c)
{
    tc_value **init = tc_arena_array(s->env->scratch, tc_value *, c->n);
    unsigned first = loop->nout;
    for (unsigned i = 0; i < c->n; i++)
        init[i] = *c->at[i];
    loop = tc_slots_add(loop, c->n, init, c->names);
    for (unsigned i = 0; i < c->n; i++)
        *c->at[i] = tc_slot_arg(loop, first + i);
    for (unsigned i = 0; i < loop->nregions; i++)
        consumer_visit(s, loop->regions[i]);
    for (unsigned i = 0; i < c->n; i++) {
        tc_slot_set_next(loop, first + i, *c->at[i]);
        *c->at[i] = loop->out[first + i];
    }
}

static void consumer_visit(tc_warpspec *s, tc_region *r)
{
    for (tc_ring *ring = s->rings; ring; ring = ring->next)
        if (ring->region == r && ring->lent) {
            tc_builder first = tc_builder_before(r->first);
            tc_find_slot(ring, &first);
            release_late(ring);
        }
    for (tc_ring *ring = s->rings; ring; ring = ring->next)
        if (ring->region == r && ring->nbulk && !ring->bulk[0]->moved)
            take_tiles(s, ring);
    tc_each_op_safe (op, r) {
        if (op->code != TC_FOR && op->code != TC_WHILE)
            continue;
        tc_carried_rings c = tc_rings_carried_by(s, op);
        if (c.n)
            carry(s, op, &c);
    }
    /* When the loads of nested loops are gone, and what only they needed. */
    for (tc_ring *ring = s->rings; ring; ring = ring->next)
        if (ring->region == r && ring->nscalars)
            tc_read_channel(s, ring);
    tc_builder end = tc_builder_before(tc_region_terminator(r));
    tc_advance_rings(s, r, &end);
}

void tc_build_consumer(tc_warpspec *s)
{
    tc_region *r = tc_consumers(s->roles);
    for (tc_ring *ring = s->rings; ring; ring = ring->next)
        if (ring->once)
            ring->region = r;
    tc_builder b = {
        .func = s->f, .region = r, .before = r->first, .loc = s->roles->loc};
    tc_start_rings(s, &b);
    consumer_visit(s, r);
}
