/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector clocks: the roles of a kernel, what each knows of the others'
 * accesses, and the asynchronous work that runs concurrently with them.
 *
 *   agents.c    the roles, which take turns
 *   clock.c     clocks; barriers
 *   mbarrier.c  mbarriers: arrivals, bytes, phases, waits
 *   bulk.c      TMA copies to and from shared memory, fence_async
 *   products.c  asynchronous mma and their waits
 *   tiles.c     the scalar channel, the counter of tiles
 *
 * A clock has a component for each agent that does things one after another.
 * The component says how many of these things are certainly over for the owner
 * of the clock:
 *
 *   the producer       its accesses, stamped with its arrivals so far
 *   a warp group       (the transposer's is one too) accesses of its threads,
 *                      stamped with its barriers so far: accesses stamped with
 *                      the last one are known to no agent, since the threads
 *                      of a group run apart
 *   its products       reads by its asynchronous mma, numbered
 *   its TMA stores     reads by them, numbered; those of the whole consumer
 *                      are the first group's
 *   their writes       likewise
 *   its fences         fence_async of all its threads, numbered
 *   an mbarrier        phases: writes of the TMA loads that it counts
 *
 * Clocks have: the producer, each warp group (what all its threads know), and
 * the first thread of each, which starts and awaits TMA stores.
 */
#ifndef TC_INTERP_SYNC_H
#define TC_INTERP_SYNC_H

#include "ir/ir.h"

enum { TC_MAX_GROUPS = 8 };

typedef enum tc_irole {
    TC_ROLE_ALL, /* outside of warp_groups, or there are none */
    TC_ROLE_PRODUCER,
    TC_ROLE_CONSUMER,
    TC_ROLE_TRANSPOSER,
    TC_ROLE_COUNT
} tc_irole;

/* A region that is being run. */
typedef struct tc_iframe {
    const tc_region *region;
    const tc_op *next;
    uint64_t trips, step; /* of a `for`: steps to come, and how far one goes */
} tc_iframe;

typedef struct tc_iagent {
    tc_iframe *frames;
    unsigned depth, room;
    tc_irole role;
    const tc_op *waits; /* the mbarrier_wait that it cannot get past */
    bool to_switch;     /* its last op may be seen by other roles */
} tc_iagent;

/* The phase of an mbarrier that a role saw last. */
typedef struct tc_iwaiter {
    uint32_t seen;   /* phases that it knows to be over */
    const tc_op *op; /* the last wait that got through; NULL: none */
    /* When that was: of the producer (0) or of each group, and the next mma of
     * the group (the transposer has none), which all its warps start. */
    uint32_t epoch[TC_MAX_GROUPS], mma[TC_MAX_GROUPS];
} tc_iwaiter;

typedef struct tc_imbarrier {
    const tc_op *alloc; /* NULL: not initialised */
    uint32_t init_epoch;
    unsigned count, pending;
    int64_t bytes;  /* expected and not there yet; below 0: came early */
    uint32_t phase; /* the one that is going on */
    uint32_t *release, *done; /* clocks: of its arrivals; of the phase before */
    const tc_op *arrive, *load; /* the last ones */
    const tc_op *loads_before;  /* a copy of the phase before; NULL: none */
    tc_iwaiter waiters[TC_ROLE_COUNT];
} tc_imbarrier;

/* A TMA copy to shared memory that some may not know to be over. */
typedef struct tc_iflight {
    const tc_op *op;
    uint32_t at;       /* of the buffer */
    unsigned mbarrier; /* that counts it, */
    uint32_t phase;    /* in this phase */
    uint32_t bytes;
    bool landed;
    unsigned tensor; /* the window */
    int64_t offset[TC_MAX_RANK];
    int axis[TC_MAX_RANK];
} tc_iflight;

/* An asynchronous mma. */
typedef struct tc_iproduct {
    const tc_op *op;
    const tc_op *taken; /* the mma whose accumulator its result became */
} tc_iproduct;

typedef struct tc_isync {
    unsigned ngroups; /* of warps: the consumer's, then the transposer's one */
    unsigned nconsumers; /* of these, the consumer's */
    bool roles;          /* there are warp_groups */
    unsigned ncomponents, nreaders;
    uint32_t *known[2 * TC_MAX_GROUPS + 1]; /* by actor */
    uint32_t *now;                          /* by component */

    tc_imbarrier *mbarriers;
    unsigned nmbarriers;
    tc_iflight *flights;
    size_t nflights, room_flights;
    bool keep_flights; /* loaded tensors are stored to */

    tc_iproduct *products; /* from 1 */
    uint32_t nproducts, products_done, room_products;

    const tc_op *store; /* the last one */

    uint32_t tiles; /* fetched in this launch */
    const tc_op *fetch, *end;
} tc_isync;

/* Components; those of readers come first. */
static inline unsigned tc_clock_producer(void)
{
    return 0;
}
static inline unsigned tc_clock_group(unsigned group)
{
    return 1 + group;
}
static inline unsigned tc_clock_products(const tc_isync *s, unsigned group)
{
    return 1 + s->ngroups + group;
}
static inline unsigned tc_clock_stores(const tc_isync *s, unsigned group)
{
    return 1 + 2 * s->ngroups + group;
}
static inline unsigned tc_clock_written(const tc_isync *s, unsigned group)
{
    return 1 + 3 * s->ngroups + group;
}
static inline unsigned tc_clock_fences(const tc_isync *s, unsigned group)
{
    return 1 + 4 * s->ngroups + group;
}
static inline unsigned tc_clock_mbarrier(const tc_isync *s, unsigned i)
{
    return 1 + 5 * s->ngroups + i;
}

/* The groups of a role that has some: first to last. */
static inline unsigned tc_first_group(const tc_isync *s, tc_irole role)
{
    return role == TC_ROLE_TRANSPOSER ? s->nconsumers : 0;
}
static inline unsigned tc_last_group(const tc_isync *s, tc_irole role)
{
    return role == TC_ROLE_CONSUMER ? s->nconsumers - 1 : s->ngroups - 1;
}

/* Actors. */
enum { TC_ACTOR_PRODUCER = 0 };
static inline unsigned tc_actor_group(unsigned group)
{
    return 1 + group;
}
static inline unsigned tc_actor_first(const tc_isync *s, unsigned group)
{
    return 1 + s->ngroups + group;
}

#endif
