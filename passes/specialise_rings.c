/* SPDX-License-Identifier: Apache-2.0
 *
 * What both roles do with a ring: they go round it, each on its own.
 *
 *   for .. carry(%slot = 0, %phase = 1) {
 *     mbarrier_wait %empty, %slot, %phase
 *     %buffer = smem_index %ring, %slot
 *     ..
 *     %wrap = %slot == 3
 *     yield select(%wrap, 0, %slot + 1), %phase ^ cast(%wrap, i32)
 *   }
 *
 * A loop carries slot and phase of the rings in it, in nested loops too, so
 * that they go on where the step before left them. Rings of one region that
 * have equally many slots share them.
 */
#include "passes/specialise.h"

#include "passes/match.h"

#include <string.h>

uint32_t tc_ring_slot_bytes(const tc_ring *r)
{
    uint32_t sum = r->nbulk ? 0 : TC_SMEM_ALIGN;
    for (unsigned i = 0; i < r->nbulk; i++)
        sum += r->bulk[i]->staged.bytes;
    return sum;
}

/* ---- Uses ---- */

bool tc_is_group_mma(const tc_op *op)
{
    return op->code == TC_MMA &&
           strncmp(tc_op_word(op, "instr"), "m64", 3) == 0;
}

struct uses {
    const tc_region *region;
    tc_map ops; /* of the region, that read */
    bool by_threads;
    bool together; /* a product in each step that all warps of a group do */
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

/* ---- Slots and phases ---- */

/* A fresh mbarrier counts as if a phase of parity 1 had ended: nobody has to
 * empty a slot first. */
void tc_start_rings(tc_specialiser *s, tc_builder *b, bool producer)
{
    const tc_type *i32 = tc_type_scalar(s->env->cx, TC_I32);
    tc_value *zero = tc_build_int(b, i32, 0);
    tc_value *one = producer ? tc_build_int(b, i32, 1) : zero;
    for (tc_ring *r = s->rings; r; r = r->next) {
        r->slot = zero;
        r->phase = r->once ? zero : one;
        r->pace = s->rings;
        while (r->pace->region != r->region || r->pace->slots != r->slots)
            r->pace = r->pace->next;
    }
}

static bool is_in(const tc_ring *ring, const tc_op *loop)
{
    for (const tc_region *r = ring->region; r->op; r = r->op->parent)
        if (r->op == loop)
            return true;
    return false;
}

tc_carried_rings tc_rings_carried_by(tc_specialiser *s, const tc_op *loop)
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
        if (r->slots > 1) {
            c.at[c.n] = &r->slot;
            c.names[c.n++] = "slot";
        }
        c.at[c.n] = &r->phase;
        c.names[c.n++] = "phase";
    }
    return c;
}

static void advance(tc_ring *r, tc_builder *b)
{
    const tc_type *i32 = r->phase->type;
    tc_value *one = tc_build_int(b, i32, 1);
    if (r->slots == 1) {
        r->phase = tc_build_binary(b, TC_XOR, r->phase, one);
        return;
    }
    if (r->slots == 2) {
        r->phase = tc_build_binary(b, TC_XOR, r->phase, r->slot);
        r->slot = tc_build_binary(b, TC_XOR, r->slot, one);
        return;
    }
    tc_value *in[] = {r->slot, tc_build_int(b, i32, r->slots - 1)};
    tc_op *cmp = tc_op_new(b->func, TC_CMP, b->loc, 2, in, 0);
    tc_op_set_word(cmp, "pred", "eq");
    tc_value *wrap = tc_build_op(b, cmp, NULL);
    tc_value *zero = tc_build_int(b, i32, 0);
    tc_value *next = tc_build_binary(b, TC_ADD, r->slot, one);
    tc_value *choice[] = {wrap, zero, next};
    r->slot = tc_build(b, TC_SELECT, 3, choice, NULL);
    tc_value *flip = tc_build(b, TC_CAST, 1, &wrap, i32);
    r->phase = tc_build_binary(b, TC_XOR, r->phase, flip);
}

void tc_advance_rings(tc_specialiser *s, const tc_region *r, tc_builder *b)
{
    for (tc_ring *ring = s->rings; ring; ring = ring->next)
        if (ring->region == r && ring->pace == ring && !ring->once)
            advance(ring, b);
}

/* ---- Ops ---- */

tc_value *tc_build_slot(const tc_ring *r, tc_builder *b, tc_value *buffers)
{
    if (r->slots == 1)
        return buffers;
    tc_value *in[] = {buffers, r->pace->slot};
    return tc_build(b, TC_SMEM_INDEX, 2, in, NULL);
}

void tc_build_mbarrier_wait(const tc_ring *r, tc_builder *b, tc_value *which)
{
    tc_value *in[] = {which, r->pace->slot, r->pace->phase};
    tc_op_insert(tc_op_new(b->func, TC_MBARRIER_WAIT, b->loc, 3, in, 0),
                 b->region, b->before);
}

tc_op *tc_build_mbarrier_arrive(const tc_ring *r, tc_builder *b,
                                tc_value *which)
{
    tc_value *in[] = {which, r->pace->slot};
    tc_op *op = tc_op_new(b->func, TC_MBARRIER_ARRIVE, b->loc, 2, in, 0);
    tc_op_insert(op, b->region, b->before);
    return op;
}
