/* SPDX-License-Identifier: Apache-2.0
 *
 * skip-row-max: the interface between its analysis (skip_row_max.c) and its
 * rewrite (row_max_expand.c).
 */
#ifndef TC_SKIP_ROW_MAX_H
#define TC_SKIP_ROW_MAX_H

#include "passes/passes.h"

enum { TC_MOST_NEAR = 256 };

/* A loop's maxima that may be those of its first steps. */
typedef struct tc_row_max {
    tc_op *loop, *reduce;
    tc_region *body;     /* of the loop */
    double octaves;      /* log2 of how far exponentials may be above 1 */
    tc_value *full;      /* no mask hides anything; NULL: in any step */
    tc_op *choice;       /* `if %full`; NULL: no mask */
    tc_value *bounded;   /* what maxima are of in such steps */
    tc_value *bound;     /* an upper bound of its elements .. */
    tc_value *fits;      /* .. that holds if this does; NULL: always */
    tc_value *old, *now; /* the maximum of the steps before, with this one */
    tc_value *step;      /* that of this one */
    double more;         /* added to a maximum */
    tc_op *power;        /* the exponentials */
    tc_value *rows;      /* the row values that their arguments add, .. */
    double unit;         /* .. where the maximum counts times this */
    unsigned ndependents;
    tc_op *dependents[TC_MOST_NEAR]; /* of what is bounded, in the body */
    tc_value *small, *low;           /* of row_max_expand.c */
} tc_row_max;

bool tc_row_max_depends(const tc_row_max *x, const tc_op *op);

/* Rewrites the loop. */
void tc_row_max_expand(tc_row_max *x);

#endif
