/* SPDX-License-Identifier: Apache-2.0
 *
 * mbarriers. A phase ends when as many arrivals have come as the alloc says and
 * no bytes are missing. Waiting for the end of a phase merges the clocks of all
 * that arrived.
 *
 * A wait distinguishes phases by one bit. Each role has to see all of them, one
 * after another: its wait for the parity that it saw last passes at once, the
 * other parity is the next phase. A wait that comes after the end of yet
 * another phase would miss its own; so would a wait that may come then. The
 * clocks find that: a phase must not end before all roles that saw the last one
 * have allowed it.
 */
#include "codegen/interp/state.h"

#include <string.h>

enum { MOST_BYTES = (1 << 20) - 1 }; /* PTX ISA, tx-count */

static bool is_visible(const tc_interp *it, const tc_imbarrier *b)
{
    const tc_isync *s = &it->sync;
    unsigned group = tc_clock_group(0);
    if (it->agent->role == TC_ROLE_PRODUCER)
        return tc_interp_knows(it, TC_ACTOR_PRODUCER, group, b->init_epoch);
    unsigned last = tc_last_group(s, it->agent->role);
    for (unsigned g = tc_first_group(s, it->agent->role); g <= last; g++)
        if (!tc_interp_knows(it, tc_actor_group(g), group, b->init_epoch))
            return false;
    return true;
}

/* Without checks; NULL: slot or parity means nothing. */
static tc_imbarrier *interp_mbarrier_find(tc_interp *it, const tc_op *op,
                                          unsigned i)
{
    const tc_ivalue *ring = tc_ivalue_of(op->in[i]);
    int64_t slot = tc_ivalue_of(op->in[i + 1])->x[0].i;
    return slot < 0 || slot >= op->in[i]->type->slots
               ? NULL
               : &it->sync.mbarriers[ring->at + (uint32_t)slot];
}

tc_imbarrier *tc_interp_mbarrier_of(tc_interp *it, const tc_op *op, unsigned i)
{
    tc_inum slot;
    if (!tc_interp_decide(it, op, i + 1, &slot))
        return NULL;
    tc_imbarrier *b = interp_mbarrier_find(it, op, i);
    bool ok = true;
    if (!b)
        ok = tc_interp_find(it, op, NULL, NULL, "slot %lld of a ring of %u",
                            (long long)slot.i, op->in[i]->type->slots);
    else if (!is_visible(it, b))
        ok = tc_interp_find(it, op, b->alloc, "initialised here",
                            "race: no barrier after the mbarrier was "
                            "initialised by another thread");
    return ok ? b : NULL;
}

bool tc_interp_mbarrier_alloc(tc_interp *it, const tc_op *op)
{
    unsigned first = tc_iop_of(op)->first, n = op->out[0]->type->slots;
    tc_ivalue_of(op->out[0])->at = first;
    for (unsigned i = 0; i < n; i++) {
        tc_imbarrier *b = &it->sync.mbarriers[first + i];
        if (b->alloc)
            return tc_interp_find(it, op, NULL, NULL,
                                  "initialised for the second time") &&
                   false;
        b->alloc = op;
        b->count = b->pending = (unsigned)tc_op_int(op, "arrivals");
        b->init_epoch = it->sync.now[tc_clock_group(0)];
    }
    for (unsigned i = 0; i < 8 * n; i++) {
        tc_ibyte *byte = &it->bytes[tc_iop_of(op)->offset + i];
        if (byte->state == TC_BYTE_MBARRIER)
            return tc_interp_find(it, op, it->ops[byte->write_op],
                                  "they are here",
                                  "in the place of other mbarriers") &&
                   false;
        byte->state = TC_BYTE_MBARRIER;
        byte->write_op = tc_iop_of(op)->id;
    }
    return true;
}

/* ---- Phases ---- */

/* Whether a clock has passed the last wait of a role. */
static bool has_passed(const tc_isync *s, const uint32_t *clock,
                       const tc_iwaiter *w, tc_irole role)
{
    if (role == TC_ROLE_PRODUCER)
        return clock[tc_clock_producer()] >= w->epoch[0];
    for (unsigned g = tc_first_group(s, role); g <= tc_last_group(s, role); g++)
        if (clock[tc_clock_group(g)] < w->epoch[g] &&
            clock[tc_clock_products(s, g)] < w->mma[g])
            return false;
    return true;
}

/* All roles that saw the phase before this one did so before this one ends. */
static bool check_waiters(tc_interp *it, tc_imbarrier *b, const tc_op *op)
{
    for (tc_irole role = TC_ROLE_ALL; role < TC_ROLE_COUNT; role++) {
        const tc_iwaiter *w = &b->waiters[role];
        if (w->op && w->seen == b->phase &&
            !has_passed(&it->sync, b->release, w, role) &&
            !tc_interp_find(it, op, w->op, "this wait would miss it",
                            "may end a phase of the mbarrier before all have "
                            "seen the end of the one before"))
            return false;
    }
    return true;
}

static bool is_seen(const tc_imbarrier *b)
{
    bool seen = false;
    for (tc_irole role = TC_ROLE_ALL; role < TC_ROLE_COUNT; role++)
        seen |= b->waiters[role].seen >= b->phase;
    return seen;
}

/* Copies of the phase before that nobody waited for. */
static bool check_copies(tc_interp *it, tc_imbarrier *b)
{
    return !b->loads_before || is_seen(b) ||
           tc_interp_find(it, b->loads_before, NULL, NULL,
                          "nobody waits for this copy");
}

/* `op` has counted. */
static bool end_phase(tc_interp *it, unsigned i, const tc_op *op)
{
    tc_isync *s = &it->sync;
    tc_imbarrier *b = &s->mbarriers[i];
    if (b->pending || b->bytes)
        return true;
    if (!check_waiters(it, b, op) || !check_copies(it, b) ||
        !tc_interp_bulk_phase(it, i))
        return false;
    b->phase++;
    b->pending = b->count;
    b->loads_before = b->load;
    b->load = NULL;
    b->release[tc_clock_mbarrier(s, i)] = b->phase;
    uint32_t *done = b->done;
    b->done = b->release;
    b->release = done;
    memset(b->release, 0, s->ncomponents * sizeof *b->release);
    return true;
}

static bool check_bytes(tc_interp *it, const tc_imbarrier *b, const tc_op *op)
{
    return (b->bytes <= MOST_BYTES && b->bytes >= -MOST_BYTES) ||
           tc_interp_find(it, op, NULL, NULL,
                          "the mbarrier waits for %lld bytes, beyond what it "
                          "can count",
                          (long long)b->bytes);
}

bool tc_interp_mbarrier_landed(tc_interp *it, unsigned i, uint32_t bytes)
{
    tc_imbarrier *b = &it->sync.mbarriers[i];
    b->bytes -= bytes;
    return check_bytes(it, b, b->load ? b->load : b->alloc) &&
           end_phase(it, i, b->arrive ? b->arrive : b->alloc);
}

/* ---- Arrivals ---- */

static bool arrive(tc_interp *it, tc_imbarrier *b, const tc_op *op,
                   const uint32_t *clock)
{
    tc_isync *s = &it->sync;
    if (b->pending == 0)
        return tc_interp_find(it, op, b->alloc, "initialised here",
                              "one arrival more than the %u that end a phase",
                              b->count) &&
               false;
    b->bytes += tc_op_int(op, "bytes");
    b->pending--;
    b->arrive = op;
    tc_interp_clock_join(s, b->release, clock);
    return check_bytes(it, b, op) &&
           end_phase(it, (unsigned)(b - s->mbarriers), op);
}

/* Each warp of a group arrives for itself. The group's work is known to threads
 * that wait for the last of its warps; to its other warps it is not. */
static bool arrive_by_warp(tc_interp *it, tc_imbarrier *b, const tc_op *op,
                           unsigned g)
{
    tc_isync *s = &it->sync;
    uint32_t *clock = s->known[tc_actor_group(g)];
    uint32_t known = clock[tc_clock_group(g)];
    bool ok = true;
    for (unsigned warp = 0; ok && warp < 4; warp++) {
        if (warp == 3)
            clock[tc_clock_group(g)] = s->now[tc_clock_group(g)]++;
        ok = arrive(it, b, op, clock);
    }
    clock[tc_clock_group(g)] = known;
    return ok;
}

bool tc_interp_mbarrier_arrive(tc_interp *it, const tc_op *op)
{
    tc_isync *s = &it->sync;
    tc_imbarrier *b = tc_interp_mbarrier_of(it, op, 0);
    if (!b)
        return false;
    if (it->agent->role == TC_ROLE_PRODUCER) {
        uint32_t *clock = s->known[TC_ACTOR_PRODUCER];
        if (!arrive(it, b, op, clock))
            return false;
        clock[tc_clock_producer()] = ++s->now[tc_clock_producer()];
        return true;
    }
    bool by_warp = tc_op_is_word(op, "scope", "warp"), ok = true;
    unsigned last = tc_last_group(s, it->agent->role);
    for (unsigned g = tc_first_group(s, it->agent->role); ok && g <= last; g++)
        ok = by_warp ? arrive_by_warp(it, b, op, g)
                     : arrive(it, b, op, s->known[tc_actor_first(s, g)]);
    return ok;
}

/* ---- Waits ---- */

/* How many phases have to be over. */
static uint32_t wanted(const tc_iwaiter *w, int64_t parity)
{
    return w->seen + (w->seen % 2 == parity);
}

bool tc_interp_mbarrier_passes(tc_interp *it, const tc_op *wait, tc_irole role)
{
    tc_imbarrier *b = interp_mbarrier_find(it, wait, 0);
    int64_t parity = tc_ivalue_of(wait->in[2])->x[0].i;
    return !b || b->phase >= wanted(&b->waiters[role], parity);
}

static void learn(tc_interp *it, const tc_imbarrier *b, tc_iwaiter *w)
{
    tc_isync *s = &it->sync;
    tc_irole role = it->agent->role;
    if (role == TC_ROLE_PRODUCER) {
        tc_interp_clock_join(s, s->known[TC_ACTOR_PRODUCER], b->done);
        w->epoch[0] = s->now[tc_clock_producer()];
        return;
    }
    unsigned first = tc_first_group(s, role), last = tc_last_group(s, role);
    tc_interp_groups_learn(it, first, last, b->done);
    for (unsigned g = first; g <= last; g++) {
        w->epoch[g] = s->now[tc_clock_group(g)];
        w->mma[g] = s->now[tc_clock_products(s, g)] + 1;
    }
}

bool tc_interp_mbarrier_wait(tc_interp *it, const tc_op *op)
{
    tc_inum parity;
    tc_imbarrier *b = tc_interp_mbarrier_of(it, op, 0);
    if (!b || !tc_interp_decide(it, op, 2, &parity))
        return false;
    if (parity.i != 0 && parity.i != 1)
        return tc_interp_find(it, op, NULL, NULL,
                              "parity %lld, expected 0 or 1",
                              (long long)parity.i) &&
               false;
    tc_iwaiter *w = &b->waiters[it->agent->role];
    uint32_t over = wanted(w, parity.i);
    if (b->phase > over)
        return tc_interp_find(it, op, b->arrive, "the last arrival",
                              "comes too late: the phase after the one that "
                              "it waits for has ended as well, so that it "
                              "waits for a third") &&
               false;
    if (b->phase < over) {
        it->agent->waits = op;
        return it->agent->role != TC_ROLE_ALL ||
               (tc_interp_find(it, op, NULL, NULL, "waits for ever: %s",
                               tc_interp_mbarrier_state(it, op)) &&
                false);
    }
    w->seen = over;
    w->op = op;
    learn(it, b, w);
    return true;
}

const char *tc_interp_mbarrier_state(tc_interp *it, const tc_op *wait)
{
    const tc_imbarrier *b = interp_mbarrier_find(it, wait, 0);
    tc_text t = {.arena = &it->arena};
    tc_text_printf(&t,
                   "slot %lld has seen %u phases, in this one %u of %u "
                   "arrivals",
                   (long long)tc_ivalue_of(wait->in[1])->x[0].i, b->phase,
                   b->count - b->pending, b->count);
    if (b->bytes)
        tc_text_printf(&t, ", and %lld bytes %s",
                       (long long)(b->bytes < 0 ? -b->bytes : b->bytes),
                       b->bytes < 0 ? "too many" : "are missing");
    return t.data;
}

/* ---- The end ---- */

bool tc_interp_mbarrier_end(tc_interp *it)
{
    for (unsigned i = 0; i < it->sync.nmbarriers; i++) {
        tc_imbarrier *b = &it->sync.mbarriers[i];
        if (b->bytes &&
            !tc_interp_find(it, b->arrive ? b->arrive : b->alloc, b->load,
                            "the last copy on it",
                            "at the end its mbarrier still waits for %lld "
                            "bytes",
                            (long long)b->bytes))
            return false;
        if (!check_copies(it, b))
            return false;
    }
    return true;
}
