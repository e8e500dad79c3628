/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds shared memory for the staging buffer of a TMA store: next to two slots
 * for each load of the hot loop (one if two have no room), or only while the
 * buffer is written and copied.
 */
#include "passes/epilogue/tma_stores.h"

#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/persistent/rasterize.h"
#include "passes/sync/shared_memory.h"
#include "passes/target/machine_model.h"

const tc_op *tc_tma_store_loop(const tc_tma_stores *s, const tc_op *op)
{
    const tc_op *loop = tc_loop_around(op);
    return loop == s->tiles ? NULL : loop;
}

unsigned tc_tma_store_hot_slots(const tc_tma_stores *s)
{
    return tc_planned_slots(s->env->options->stages);
}

/* Slots of the buffer that TMA loads fill ahead of use; 0: it is no ring. */
static unsigned slots_of(const tc_tma_stores *s, const tc_op *alloc)
{
    const tc_op *store = NULL;
    tc_each_use (u, alloc->out[0])
        if (u->op->code == TC_SMEM_STORE && tc_match_op(u->op->in[1], TC_LOAD))
            store = u->op;
    if (!store)
        return 0;
    for (const tc_op *op = store->parent->op; op; op = op->parent->op)
        if (op->code == TC_IF)
            return 0;
    const tc_op *loop = tc_tma_store_loop(s, store);
    return loop && tc_region_any(loop->regions[0], tc_is_group_mma)
               ? tc_tma_store_hot_slots(s)
               : 1;
}

struct room {
    tc_tma_stores *s;
    tc_lifetimes all;
    uint64_t rings;       /* bytes of rings that are filled ahead: always in
                           * use */
    const tc_op *convert; /* will go */
};

/* With at most that many slots each. */
static uint64_t ring_bytes(const struct room *m, unsigned most)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < m->all.n; i++) {
        unsigned n = slots_of(m->s, m->all.of[i].alloc);
        sum += (uint64_t)m->all.of[i].bytes * (n < most ? n : most);
    }
    return sum;
}

static uint64_t others_at(const struct room *m, const tc_op *op)
{
    uint64_t sum = op == m->convert ? 0 : tc_exchange_bytes(m->s->env->cx, op);
    for (unsigned i = 0; i < m->all.n; i++)
        if (!slots_of(m->s, m->all.of[i].alloc) &&
            tc_is_in_use_at(&m->all.of[i], op))
            sum += m->all.of[i].bytes;
    return sum;
}

static uint64_t most_others(const struct room *m, const tc_region *r)
{
    uint64_t most = 0;
    tc_each_op (op, r) {
        bool leaf = op->nregions == 0 || tc_op_combines(op);
        uint64_t here = leaf ? others_at(m, op) : 0;
        for (unsigned i = 0; i < op->nregions && !leaf; i++) {
            uint64_t inner = most_others(m, op->regions[i]);
            here = inner > here ? inner : here;
        }
        most = here > most ? here : most;
    }
    return most;
}

/* The buffer of a load whose last use in the tile comes before the store. If
 * there is no room otherwise, the next load into it waits for the store
 * (specialize-warps). */
static uint64_t lent_bytes(const struct room *m, tc_op *store)
{
    tc_op *tiles = m->s->tiles;
    uint64_t most = 0;
    for (unsigned i = 0; tiles && i < m->all.n; i++) {
        const tc_lifetime *l = &m->all.of[i];
        const tc_region *r = tiles->regions[tiles->code == TC_WHILE];
        if (slots_of(m->s, l->alloc) != 1 || l->alloc->parent != r)
            continue;
        const tc_op *last = tc_ancestor_in(r, l->last_op);
        const tc_op *op = tc_ancestor_in(r, store);
        while (op && op != last)
            op = op->prev;
        if (op && !tc_is_in_use_at(l, store) && l->bytes > most)
            most = l->bytes;
    }
    return most;
}

tc_op *tc_tma_store_whole_loop(const tc_tma_stores *s, const tc_op *op)
{
    tc_op *whole = NULL;
    for (tc_op *loop = tc_loop_around(op); loop && loop != s->tiles;
         loop = tc_loop_around(loop))
        whole = loop;
    return whole;
}

tc_tma_store_place tc_tma_store_find_place(tc_tma_stores *s, tc_op *store,
                                           const tc_type *buffer)
{
    struct room m = {.s = s,
                     .all = tc_find_lifetimes(s->env->scratch, s->f, false)};
    if (tc_tma_store_source(s, store) != store->in[1] &&
        !store->in[1]->uses->next)
        m.convert = tc_match_op(store->in[1], TC_RESHAPE) ||
                            tc_tma_store_is_transposed(
                                store, tc_tma_store_source(s, store))
                        ? store->in[1]->def->in[0]->def
                        : store->in[1]->def;
    uint32_t limit = tc_shared_limit(s->env->target);
    m.rings = ring_bytes(&m, tc_tma_store_hot_slots(s));
    if (m.rings > limit)
        m.rings = ring_bytes(&m, 1);
    uint64_t bytes = m.rings + tc_smem_bytes(buffer) +
                     (s->added_from ? TC_STORE_RESERVE : TC_CHANNEL_RESERVE);
    if (s->tiles && bytes + most_others(&m, s->f->body) <= limit)
        return TC_TMA_STORE_ALWAYS;
    const tc_op *loop = tc_tma_store_whole_loop(s, store);
    if (loop) {
        const tc_region *body = loop->regions[loop->nregions - 1];
        return bytes + most_others(&m, body) <= limit ? TC_TMA_STORE_IN_LOOP
                                                      : TC_TMA_STORE_NOWHERE;
    }
    bytes += others_at(&m, store);
    return bytes <= limit + lent_bytes(&m, store) ? TC_TMA_STORE_WHILE_COPIED
                                                  : TC_TMA_STORE_NOWHERE;
}
