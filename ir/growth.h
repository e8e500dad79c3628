/* SPDX-License-Identifier: Apache-2.0
 *
 * The cause of a program that got too large: the line of the text with the most
 * ops, or with the most of another weight.
 */
#ifndef TC_GROWTH_H
#define TC_GROWTH_H

#include "ir/ir.h"

typedef uint64_t tc_weigh_fn(const tc_op *op);

typedef struct tc_share {
    tc_loc loc;      /* of the line's first op */
    uint64_t weight; /* of the line's ops; those nested in one are their own */
    uint64_t total;  /* of all lines */
} tc_share;

/* weigh NULL: each op is 1. Memory comes from `a`. */
tc_share tc_growth_of_module(tc_arena *a, const tc_module *m,
                             tc_weigh_fn *weigh);
tc_share tc_growth_of_region(tc_arena *a, const tc_region *r,
                             tc_weigh_fn *weigh);

#endif
