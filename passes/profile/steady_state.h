/* SPDX-License-Identifier: Apache-2.0
 *
 * The modelled steady state of a kernel's hot loop: when each warp group is in
 * which section of its step, and when tensor cores, special functions and
 * copies are busy.
 */
#ifndef TC_STEADY_STATE_H
#define TC_STEADY_STATE_H

#include "passes/profile/role_sections.h"
#include "passes/target/target.h"

typedef enum tc_track_kind {
    TC_TRACK_PRODUCER,
    TC_TRACK_GROUP,
    TC_TRACK_PRODUCTS,
    TC_TRACK_SPECIAL,
    TC_TRACK_COPIES
} tc_track_kind;

typedef struct tc_span {
    tc_track_kind track;
    unsigned group; /* that the track is of, or that asked the unit */
    double start, end;
    unsigned step;
    const tc_step_section *section;
} tc_span;

/* cycles of a step; the spans of `shown` cycles. In the arena. */
typedef struct tc_steady_state {
    const tc_op *loop;
    unsigned ngroups;
    double cycles, shown;
    unsigned nsections; /* of the loop's step, then of the producer's */
    unsigned nproducer;
    tc_step_section *sections, *producer;
    unsigned nspans;
    tc_span *spans;
    /* Cycles that a step asks of each unit, of all groups. */
    double products, special, lanes, copies;
} tc_steady_state;

/* NULL: the kernel has no loop of products, or one that the model does not
 * know. */
const tc_steady_state *tc_steady_state_of(tc_arena *a, tc_func *f,
                                          const tc_target *target);
/* The same as if the rings that the step waits for had `more` slots more. */
const tc_steady_state *tc_steady_state_with(tc_arena *a, tc_func *f,
                                            const tc_target *target,
                                            unsigned more);

#endif
