/* SPDX-License-Identifier: Apache-2.0
 *
 * The slot of a ring that an index means, found by computing the index.
 *
 * A loop advances through a ring by carried ints that depend on nothing but
 * themselves:
 *
 *   for .. carry(%slot = 0, %free = 2) {
 *     %s = smem_index %ring, %slot
 *     %1 = add %slot, 1
 *     %2 = cmp %1, 3 pred(eq)
 *     %next = select %2, 0, %1
 *     yield %next, %slot
 *   }
 *
 * Their values repeat after a few steps: (0, 2), (1, 0), (2, 1), (0, 2), ...
 * An analysis that walks the loop once for each of these states knows all
 * slots as numbers, however they are computed.
 */
#ifndef TC_RING_STATE_H
#define TC_RING_STATE_H

#include "ir/ir.h"

/* Values that are known while an analysis walks, innermost loop first. */
typedef struct tc_known tc_known;
struct tc_known {
    unsigned n;
    tc_value *const *values;
    const int64_t *are;
    const bool *certain; /* false: this one is not known after all */
    const tc_known *outer;
};

/* The int that v is. False: not known. */
bool tc_known_int(const tc_known *known, const tc_value *v, int64_t *x);

/* The states of the values that a `for` carries to index rings. Step k of the
 * loop is in state k, until the states repeat from `again` on. */
typedef struct tc_ring_states {
    unsigned nvalues;
    tc_value **values;
    unsigned n, again;
    int64_t **are;
    bool **certain;
} tc_ring_states;
enum { TC_MAX_RING_STATES = 256 };
tc_ring_states tc_find_ring_states(tc_arena *a, tc_op *loop,
                                   const tc_known *outer);

#endif
