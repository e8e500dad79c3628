/* SPDX-License-Identifier: Apache-2.0
 *
 * defer-branches: the interface between its analysis (defer_branches.c) and its
 * rewrite (defer_branches_expand.c).
 */
#ifndef TC_DEFER_BRANCHES_H
#define TC_DEFER_BRANCHES_H

#include "passes/passes.h"
#include "passes/schedule/plan.h"

enum { TC_MOST_KEPT = 12 };

/* A branch at the end of a loop over tiles, to be decided a tile later. */
typedef struct tc_late {
    tc_pass_env *env;
    tc_func *f;
    tc_context *cx;
    tc_op *roles, *loop, *branch;
    tc_region *taken; /* of the branch */
    tc_op *reduce;    /* the reduction over all warps that its condition
                       * needs */
    const char *kind; /* the votes are combined by it: `and`, `or` */
    unsigned nkept;
    tc_value *kept[TC_MOST_KEPT], *boxes[TC_MOST_KEPT];
    tc_value *votes, *voted; /* rings: buffers, mbarriers */
    const tc_type *part;     /* the votes as each warp reads them */
    unsigned late, count;    /* slots of the loop */
} tc_late;

/* The last barrier before the roles, or NULL. */
tc_op *tc_late_barrier(const tc_op *roles);

/* The region that runs in each step, also of a `while`. */
tc_region *tc_late_step(const tc_op *loop);

/* Rewrites the loop and the branch. */
void tc_late_expand(tc_late *l);

#endif
