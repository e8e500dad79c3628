/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector clocks: which accesses are known to be over, and barriers, which merge
 * the clocks of their threads.
 */
#include "codegen/interp/state.h"

#include <assert.h>
#include <string.h>

void tc_interp_clock_join(const tc_isync *s, uint32_t *to, const uint32_t *from)
{
    for (unsigned i = 0; i < s->ncomponents; i++)
        if (to[i] < from[i])
            to[i] = from[i];
}

void tc_interp_groups_learn(tc_interp *it, unsigned first, unsigned last,
                            const uint32_t *clock)
{
    tc_isync *s = &it->sync;
    for (unsigned g = first; g <= last; g++) {
        tc_interp_clock_join(s, s->known[tc_actor_group(g)], clock);
        tc_interp_clock_join(s, s->known[tc_actor_first(s, g)], clock);
    }
}

/* The threads of groups first to last meet, and the producer's. */
static void meet(tc_interp *it, unsigned first, unsigned last, bool producer)
{
    tc_isync *s = &it->sync;
    uint32_t *all = s->known[tc_actor_group(first)];
    for (unsigned g = first; g <= last; g++) {
        tc_interp_clock_join(s, all, s->known[tc_actor_group(g)]);
        tc_interp_clock_join(s, all, s->known[tc_actor_first(s, g)]);
        all[tc_clock_group(g)] = s->now[tc_clock_group(g)]++;
        all[tc_clock_fences(s, g)] = s->now[tc_clock_fences(s, g)];
    }
    if (producer) {
        tc_interp_clock_join(s, s->known[TC_ACTOR_PRODUCER], all);
        s->known[TC_ACTOR_PRODUCER][tc_clock_producer()] =
            s->now[tc_clock_producer()];
    }
    tc_interp_groups_learn(it, first, last, all);
}

void tc_interp_meet(tc_interp *it)
{
    tc_irole role = it->agent->role;
    assert(role != TC_ROLE_PRODUCER); /* the verifier refuses that */
    it->epoch += role != TC_ROLE_TRANSPOSER;
    meet(it, tc_first_group(&it->sync, role), tc_last_group(&it->sync, role),
         role == TC_ROLE_ALL);
}

bool tc_interp_barrier(tc_interp *it, const tc_op *op)
{
    tc_irole role = it->agent->role;
    unsigned last = tc_last_group(&it->sync, role);
    if (!tc_op_is_word(op, "scope", "group"))
        tc_interp_meet(it);
    else
        for (unsigned g = tc_first_group(&it->sync, role); g <= last; g++)
            meet(it, g, g, false);
    return true;
}

/* Groups may not rely on the order in which they have their turns. */
bool tc_interp_turn(tc_interp *it, const tc_op *op)
{
    if (it->options->turns && op->code == TC_ORDER_WAIT)
        ++*it->options->turns;
    return it->agent->role == TC_ROLE_CONSUMER ||
           (tc_interp_find(it, op, NULL, NULL, "expected in the consumer") &&
            false);
}

bool tc_interp_fence_async(tc_interp *it, const tc_op *op)
{
    tc_isync *s = &it->sync;
    if (it->agent->role == TC_ROLE_PRODUCER)
        return true; /* it writes scalars of the channel only */
    unsigned last = tc_last_group(s, it->agent->role);
    for (unsigned g = tc_first_group(s, it->agent->role); g <= last; g++)
        s->now[tc_clock_fences(s, g)]++;
    return true;
}
