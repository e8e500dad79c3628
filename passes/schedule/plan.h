/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions of plan-schedule on the epilogue of a tile.
 */
#ifndef TC_PLAN_H
#define TC_PLAN_H

#include "passes/passes.h"

/* Of a branch without results, one of whose regions does something if warps
 * vote for it. */
typedef struct tc_vote {
    tc_region *taken;
    tc_op *reduce;    /* the reduction over all warps in its condition */
    const char *kind; /* the votes are combined by it: `and`, `or` */
} tc_vote;

/* False: not all warps vote, so that the branch needs no barrier. */
bool tc_find_vote(const tc_op *branch, tc_vote *out);
/* The reduction over all warps in a condition of `and`, `or`, `not`; *turned:
 * an odd number of `not`. NULL: there is none, or more. */
tc_op *tc_vote_reduce(const tc_value *v, bool *turned);
/* Decides whether the branch at the end of a step of the loop over tiles runs a
 * tile later: `epilogue(defer)`. True: it does. */
bool tc_plan_branch(const tc_op *tiles);

#endif
