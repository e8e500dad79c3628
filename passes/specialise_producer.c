/* SPDX-License-Identifier: Apache-2.0
 *
 * The producer: the loops around the bulk copies with what these need, and
 * nothing else.
 *
 *   for .. carry(%count = 0) {
 *     mbarrier_wait %empty, %slot, %phase         not where it is filled once
 *     mbarrier_arrive %full, %slot bytes(16384)
 *     %buffer = smem_index %ring, %slot
 *     tma_load block %k[..], %buffer, %full, %slot
 *     ..
 */
#include "passes/specialise.h"

static void issue(tc_role *e, tc_ring *r, const tc_bulk *bulk, tc_builder *b)
{
    if (bulk == r->bulk[0]) {
        tc_find_slot(r, b);
        uint32_t bytes = 0;
        for (unsigned i = 0; i < r->nbulk; i++)
            bytes += r->bulk[i]->bytes;
        if (r->empty)
            tc_wait_until_empty(r, b);
        tc_op_set_int(tc_build_arrive(r, b, r->full), "bytes", bytes);
    }
    tc_build_tma_load(r, b, tc_role_here(e, bulk->staged.load->in[0]),
                      bulk->buffers);
}

static bool issue_if_bulk(tc_role *e, const tc_op *load, tc_builder *b)
{
    for (tc_ring *r = e->s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nbulk; i++)
            if (r->bulk[i]->staged.load == load && !r->bulk[i]->from) {
                issue(e, r, r->bulk[i], b);
                return true;
            }
    return false;
}

static void begin_put(tc_ring *r, tc_builder *b)
{
    tc_find_slot(r, b);
    if (r->empty)
        tc_wait_until_empty(r, b);
}

static void put(tc_role *e, const tc_ring *r, unsigned i, tc_builder *b)
{
    tc_value *in[] = {tc_build_slot(r, b, r->boxes[i]),
                      tc_role_here(e, r->scalars[i])};
    tc_build_effect(b, TC_SMEM_PUT, 2, in);
}

/* What was fetched: as late as the consumers may ask for it, as it takes some
 * time to come. */
static void put_fetched(tc_role *e, const tc_region *r, const tc_op *before,
                        tc_builder *b)
{
    for (tc_ring *ring = e->s->rings; ring; ring = ring->next) {
        if (!ring->fetched || ring->region != r || ring->before != before)
            continue;
        b->loc = ring->scalars[0]->loc;
        begin_put(ring, b);
        put(e, ring, 0, b);
        tc_build_arrive(ring, b, ring->full);
    }
}

/* What was computed: at once, so that it need not be kept. */
static void put_computed(tc_role *e, const tc_op *op, tc_builder *b)
{
    for (tc_ring *r = e->s->rings; r; r = r->next)
        for (unsigned i = 0; i < r->nscalars && !r->fetched; i++) {
            if (r->scalars[i]->def != op)
                continue;
            if (i == 0)
                begin_put(r, b);
            put(e, r, i, b);
            if (i + 1 == r->nscalars)
                tc_build_arrive(r, b, r->full);
        }
}

void tc_build_producer(tc_specialiser *s)
{
    tc_role e = {.s = s,
                 .needed = &s->needed,
                 .values = {.arena = s->env->scratch},
                 .before = put_fetched,
                 .instead = issue_if_bulk,
                 .behind = put_computed};
    tc_builder b = tc_builder_at_end(s->roles->regions[0], s->roles->loc);
    tc_build_role(&e, &b);
    if (s->end_tiles)
        tc_op_insert(
            tc_op_new(s->f, TC_END_TILES, s->end_tiles->loc, 0, NULL, 0),
            b.region, NULL);
    tc_build_yield(&b, 0, NULL);
}
