/* SPDX-License-Identifier: Apache-2.0
 *
 * A role's loop as sections with the cycles and bytes that they ask for: of its
 * step, and of what comes before it in the same tile.
 */
#ifndef TC_ROLE_SECTIONS_H
#define TC_ROLE_SECTIONS_H

#include "ir/ir.h"
#include "passes/profile/section.h"
#include "passes/target/target.h"

/* A section of a step. Cycles are those of one warp group. */
typedef struct tc_step_section {
    const tc_op *op; /* the first of it */
    tc_section is;
    unsigned mark;            /* number of the `mark` before it; 0: none */
    unsigned pending;         /* of `await`, and of a wait for cp.async */
    unsigned commits;         /* groups of cp.async that start here */
    double async_bytes;       /* of them */
    double products, special; /* cycles that it asks of the units */
    double lanes;             /* cycles of elementwise ops */
    double bytes;             /* of `copy` */
    const tc_value *mbarrier; /* of `wait`, `release`, `copy` */
    double cycles;            /* modelled duration in the steady state */
} tc_step_section;

typedef struct tc_role_sections {
    unsigned n, nbefore;
    tc_step_section *of, *before;
} tc_role_sections;

/* Of each of `groups` warp groups that share the work. False: too many
 * sections. In the arena. */
bool tc_read_role(tc_arena *a, tc_context *cx, const tc_target *target,
                  unsigned groups, const tc_op *loop,
                  tc_role_sections *out) TC_MUST_CHECK;

#endif
