/* SPDX-License-Identifier: Apache-2.0
 *
 * The roles of a kernel: two or three programs that run concurrently, each on a
 * stack of regions of its own. The order of a run says whose turn it is, so
 * that each role is once as far ahead of the others as mbarriers allow;
 * conflicts between roles are found independently of that order (clock.c). If
 * all roles wait, a TMA copy arrives; if none is in flight, that is a deadlock.
 *
 *   LATE            the consumer runs while it can, then the transposer, then
 *                   the producer
 *   EARLY, NEWEST   the other way round
 *   RANDOM          by chance, at each op that the other may notice
 */
#include "codegen/interp/state.h"
#include "passes/instructions/mma.h"

#include <string.h>

/* ---- A run, a program ---- */

static bool is_asynchronous(const tc_op *op)
{
    return op->code == TC_WARP_GROUPS || op->code == TC_MBARRIER_ALLOC ||
           op->code == TC_TMA_STORE || tc_is_group_mma(op) ||
           (op->code == TC_BARRIER && tc_op_is_word(op, "scope", "group"));
}

/* Groups are told apart only where that may matter. */
static unsigned count_groups(const tc_interp *it)
{
    for (unsigned i = 1; i <= it->nops; i++)
        if (is_asynchronous(it->ops[i]) && it->nwarps % 4 == 0 &&
            it->nwarps / 4 < TC_MAX_GROUPS)
            return it->nwarps / 4;
    return 1;
}

static bool has_transposer(const tc_op *roles)
{
    return roles->nregions > TC_ROLE_TRANSPOSER - TC_ROLE_PRODUCER;
}

static void make_mbarriers(tc_interp *it)
{
    tc_isync *s = &it->sync;
    s->mbarriers = tc_arena_array(&it->arena, tc_imbarrier, s->nmbarriers);
    for (unsigned i = 0; i < s->nmbarriers; i++) {
        s->mbarriers[i].release =
            tc_arena_array(&it->arena, uint32_t, s->ncomponents);
        s->mbarriers[i].done =
            tc_arena_array(&it->arena, uint32_t, s->ncomponents);
    }
}

void tc_interp_sync_new(tc_interp *it)
{
    tc_isync *s = &it->sync;
    s->ngroups = s->nconsumers = count_groups(it);
    for (unsigned i = 1; i <= it->nops; i++)
        if (it->ops[i]->code == TC_WARP_GROUPS)
            s->ngroups += has_transposer(it->ops[i]);
    s->nreaders = tc_clock_stores(s, s->ngroups - 1) + 1;
    for (unsigned i = 1; i <= it->nops; i++) {
        s->roles |= it->ops[i]->code == TC_WARP_GROUPS;
        if (it->ops[i]->code != TC_MBARRIER_ALLOC)
            continue;
        tc_iop_of(it->ops[i])->first = s->nmbarriers;
        s->nmbarriers += it->ops[i]->out[0]->type->slots;
    }
    s->ncomponents = tc_clock_mbarrier(s, s->nmbarriers);
    for (unsigned i = 0; i <= tc_actor_first(s, s->ngroups - 1); i++)
        s->known[i] = tc_arena_array(&it->arena, uint32_t, s->ncomponents);
    s->now = tc_arena_array(&it->arena, uint32_t, s->ncomponents);
    make_mbarriers(it);
    if (it->nbytes)
        it->reads = tc_arena_array(&it->arena, tc_iread,
                                   (size_t)it->nbytes * s->nreaders);
}

void tc_interp_sync_reset(tc_interp *it)
{
    tc_isync *s = &it->sync;
    size_t clock = s->ncomponents * sizeof(uint32_t);
    for (unsigned i = 0; i <= tc_actor_first(s, s->ngroups - 1); i++)
        memset(s->known[i], 0, clock);
    memset(s->now, 0, clock);
    s->now[tc_clock_producer()] = 1;
    s->known[TC_ACTOR_PRODUCER][tc_clock_producer()] = 1;
    for (unsigned g = 0; g < s->ngroups; g++)
        s->now[tc_clock_group(g)] = 1;
    for (unsigned i = 0; i < s->nmbarriers; i++) {
        tc_imbarrier *b = &s->mbarriers[i];
        memset(b->release, 0, clock);
        memset(b->done, 0, clock);
        *b = (tc_imbarrier){.release = b->release, .done = b->done};
    }
    s->nflights = 0;
    s->nproducts = s->products_done = 0;
    s->store = s->fetch = s->end = NULL;
    for (unsigned i = 0; i < TC_ROLE_COUNT; i++) {
        it->agents[i].depth = 0;
        it->agents[i].role = (tc_irole)i;
        it->agents[i].waits = NULL;
    }
    it->agent = &it->agents[TC_ROLE_ALL];
}

/* ---- Turns ---- */

static bool can_run(tc_interp *it, tc_irole role)
{
    tc_iagent *a = &it->agents[role];
    return a->depth > 0 &&
           (!a->waits || tc_interp_mbarrier_passes(it, a->waits, role));
}

/* The role whose turn it is, among those that can run; TC_ROLE_ALL: none
 * can. */
static tc_irole interp_agents_choose(tc_interp *it)
{
    static const tc_irole late[] = {TC_ROLE_CONSUMER, TC_ROLE_TRANSPOSER,
                                    TC_ROLE_PRODUCER};
    static const tc_irole early[] = {TC_ROLE_PRODUCER, TC_ROLE_TRANSPOSER,
                                     TC_ROLE_CONSUMER};
    bool is_late = it->options->order == TC_INTERP_LATE;
    tc_irole ready[TC_ROLE_COUNT];
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof late / sizeof *late; i++)
        if (can_run(it, is_late ? late[i] : early[i]))
            ready[n++] = is_late ? late[i] : early[i];
    if (n > 1 && it->options->order == TC_INTERP_RANDOM)
        return ready[tc_interp_random(it) % n];
    return n ? ready[0] : TC_ROLE_ALL;
}

/* Runs until the other one may have a turn. */
static bool order_wait(tc_interp *it, tc_irole role)
{
    tc_iagent *a = &it->agents[role];
    bool go_on = true;
    a->waits = NULL;
    it->agent = a;
    while (go_on) {
        if (!tc_interp_step(it))
            return false;
        go_on = a->depth > 0 && !a->waits &&
                !(a->to_switch && it->options->order == TC_INTERP_RANDOM);
    }
    return tc_interp_bulk_land_some(it);
}

/* Reports the deadlock at the wait of the role that comes last, with a note at
 * that of the one that should go first. */
static bool find_deadlock(tc_interp *it)
{
    static const tc_irole order[] = {TC_ROLE_CONSUMER, TC_ROLE_TRANSPOSER,
                                     TC_ROLE_PRODUCER};
    const tc_op *wait = NULL, *other = NULL;
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++) {
        const tc_op *waits = it->agents[order[i]].waits;
        other = wait && waits ? waits : other;
        wait = wait ? wait : waits;
    }
    const char *state = tc_interp_mbarrier_state(it, wait);
    bool consumer = wait == it->agents[TC_ROLE_CONSUMER].waits;
    return tc_interp_find(it, wait, other, "another role waits here",
                          "waits for ever: %s%s", state,
                          other      ? ""
                          : consumer ? "; the producer has ended"
                                     : "; the consumer has ended") &&
           false;
}

static bool is_done(const tc_interp *it)
{
    bool done = true;
    for (tc_irole role = TC_ROLE_PRODUCER; role < TC_ROLE_COUNT; role++)
        done &= it->agents[role].depth == 0;
    return done;
}

bool tc_interp_warp_groups(tc_interp *it, const tc_op *op)
{
    tc_iagent *outer = it->agent;
    for (unsigned i = 0; i < op->nregions; i++) {
        it->agent = &it->agents[TC_ROLE_PRODUCER + i];
        tc_interp_enter(it, op->regions[i]);
    }
    while (!is_done(it)) {
        tc_irole role = interp_agents_choose(it);
        bool none = false;
        if (role != TC_ROLE_ALL) {
            if (!order_wait(it, role))
                return false;
        } else if (!tc_interp_bulk_land(it, &none)) {
            return false;
        } else if (none) {
            return find_deadlock(it);
        }
    }
    it->agent = outer;
    return true;
}
