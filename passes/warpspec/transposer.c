/* SPDX-License-Identifier: Apache-2.0
 *
 * The role `transposer`: warps next to the producer's thread that bring loaded
 * tiles into the order that the consumers' products read.
 *
 *   for .. carry(%count = 0) {
 *     mbarrier_wait %full.rows, %slot, %phase
 *     mbarrier_wait %empty, %slot, %phase ^ 1
 *     smem_copy slot %slot of %ring.rows, slot %slot of %ring
 *     fence_async
 *     barrier scope(group)
 *     mbarrier_arrive %full, %slot
 *     mbarrier_arrive %empty.rows, %slot
 *     ..
 *
 * It receives the same scalars of a tile as the consumers, through the same
 * scalar channel.
 */
#include "passes/warpspec/warpspec.h"

#include "passes/analysis/roles.h"

/* ---- The scalar channel ---- */

static bool is_told(const tc_role_builder *e, const tc_value *v)
{
    return tc_map_get(e->needed, v) != NULL;
}

static void read_channel(tc_role_builder *e, tc_ring *r, tc_builder *b)
{
    tc_find_slot(r, b);
    tc_wait_until_full(r, b);
    for (unsigned i = 0; i < r->nscalars; i++) {
        if (!is_told(e, r->scalars[i]))
            continue;
        tc_value *box = tc_build_slot(r, b, r->boxes[i]);
        tc_role_is_here(e, r->scalars[i],
                        tc_build(b, TC_SMEM_LOAD_SCALAR, 1, &box, NULL));
    }
    if (!r->empty)
        return;
    tc_build_group_barrier(b);
    tc_build_arrive(r, b, r->empty);
}

/* Reads fetched tile numbers, which arrive late. */
static void read_fetched(tc_role_builder *e, const tc_region *region,
                         const tc_op *before, tc_builder *b)
{
    for (tc_ring *r = e->s->rings; r; r = r->next)
        if (r->for_transposer && r->fetched && r->region == region &&
            r->before == before)
            read_channel(e, r, b);
}

/* ---- Copies ---- */

static void move(tc_ring *r, tc_builder *b)
{
    const tc_tma_candidate *to = r->bulk[0], *from = to->from;
    b->loc = to->staged.store->loc;
    tc_find_slot(from->ring, b);
    tc_wait_until_full(from->ring, b);
    tc_find_slot(r, b);
    tc_wait_until_empty(r, b);
    tc_value *in[] = {tc_build_slot(from->ring, b, from->buffers),
                      tc_build_slot(r, b, to->buffers)};
    tc_build_effect(b, TC_SMEM_COPY, 2, in);
    tc_build_effect(b, TC_FENCE_ASYNC, 0, NULL);
    tc_build_group_barrier(b);
    tc_build_arrive(r, b, r->full);
    tc_build_arrive(from->ring, b, from->ring->empty);
}

static bool move_or_read(tc_role_builder *e, const tc_op *op, tc_builder *b)
{
    for (tc_ring *r = e->s->rings; r; r = r->next) {
        if (r->nbulk && r->bulk[0]->from && r->bulk[0]->staged.store == op) {
            move(r, b);
            return true;
        }
        if (r->for_transposer && !r->fetched && r->scalars[0]->def == op)
            read_channel(e, r, b);
    }
    return false;
}

void tc_build_transposer(tc_warpspec *s)
{
    tc_role_builder e = {.s = s,
                         .needed = &s->moving,
                         .values = {.arena = s->env->scratch},
                         .before = read_fetched,
                         .instead = move_or_read};
    tc_builder b = tc_builder_at_end(tc_transposer(s->roles), s->roles->loc);
    tc_build_role(&e, &b);
    tc_build_yield(&b, 0, NULL);
}
