/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a program that matter to hazards: accesses to memory, the ops
 * that order them, and the loops and branches around these.
 */
#ifndef TC_ACCESS_NODES_H
#define TC_ACCESS_NODES_H

#include "passes/sync/ring_state.h"
#include "passes/sync/shared_memory.h"

/* Bytes of shared memory. */
typedef struct tc_access_place {
    tc_buffer_use use;
    bool ring;      /* `index` says which slot */
    uint32_t first; /* bytes of all slots, and of one */
    uint32_t bytes, slot_bytes;
    unsigned slots;
    tc_value *index;
    /* Each warp group touches its own part alone, along this axis of the
     * buffer as it is seen here. NULL: that is not known. */
    const tc_layout *parts;
    unsigned axis;
} tc_access_place;

/* In op->data of its op. */
typedef struct tc_access_node tc_access_node;
struct tc_access_node {
    tc_op *op;
    bool global;  /* accesses global memory */
    bool barrier; /* one is assumed before it */
    unsigned nplaces;
    tc_access_place *places;
    unsigned depth, position;
    tc_access_node *inside[2]; /* the first nodes of its regions */
    tc_access_node *next;
    tc_ring_states *states; /* of a `for` that is in no loop with known
                             * states */
    /* hazards.c */
    struct tc_loop_walk *last;
    unsigned walk, found; /* in that walk: 1 + the last hazard found here */
};

/* The first node; NULL: nothing matters. */
tc_access_node *tc_access_nodes_new(tc_arena *a, tc_func *f);

#endif
