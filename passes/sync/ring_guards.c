/* SPDX-License-Identifier: Apache-2.0
 *
 * Barriers and buffers of a ring are values of their own; the producer's ops
 * connect them:
 *
 *   mbarrier_wait %empty.k, ..            the loads up to the next wait are
 *   mbarrier_arrive %full.k, .. bytes(n)  those that %empty.k permits,
 *   tma_load .., %ring.k, %full.k, ..     and %full.k reports
 */
#include "passes/sync/ring_guards.h"

#include "passes/analysis/roles.h"
#include "passes/instructions/mma.h"
#include "passes/sync/shared_memory.h"

/* What the loads seen so far fill. */
struct filled {
    const tc_op *alloc;
    bool any, unknown; /* any: some buffer */
    bool hit;          /* that of alloc */
};

/* Do other ops than products read the buffer, or a view of it? */
static bool is_read_by_threads(const tc_value *buffer)
{
    tc_each_use (u, buffer)
        if (tc_is_buffer_view(u->op)
                ? is_read_by_threads(u->op->out[0])
                : u->op->code != TC_TMA_LOAD && !tc_is_group_mma(u->op))
            return true;
    return false;
}

static void add_buffer(struct filled *f, tc_value *buffer)
{
    tc_buffer of[TC_MAX_BUFFERS];
    unsigned n = tc_trace_buffers(buffer, of);
    f->any = true;
    f->unknown |= n == 0 || n > TC_MAX_BUFFERS;
    for (unsigned i = 0; i < n && i < TC_MAX_BUFFERS; i++) {
        f->hit |= of[i].alloc == f->alloc;
        f->unknown |= is_read_by_threads(of[i].alloc->out[0]);
    }
}

static bool is_in_producer(const tc_op *op)
{
    const tc_op *roles = tc_roles_around(op);
    return roles && tc_region_contains(tc_producer(roles), op);
}

/* The loads from there on, up to the next wait. True: there is one. */
static bool add_permitted(struct filled *f, const tc_op *op)
{
    for (; op; op = op->next) {
        if (op->code == TC_MBARRIER_WAIT)
            return true;
        if (op->code == TC_TMA_LOAD)
            add_buffer(f, op->in[1]);
        bool waits = op->nregions != 0;
        for (unsigned i = 0; i < op->nregions; i++)
            waits &= add_permitted(f, op->regions[i]->first);
        if (waits)
            return true;
    }
    return false;
}

bool tc_may_guard(const tc_value *mbarrier, const tc_op *alloc)
{
    struct filled f = {.alloc = alloc};
    tc_each_use (u, mbarrier) {
        if (u->op->code == TC_TMA_LOAD)
            add_buffer(&f, u->op->in[1]);
        else if (u->op->code == TC_MBARRIER_WAIT && is_in_producer(u->op))
            add_permitted(&f, u->op->next);
    }
    return !f.any || f.unknown || f.hit;
}
