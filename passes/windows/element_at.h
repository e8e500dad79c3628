/* SPDX-License-Identifier: Apache-2.0
 *
 * Single elements of a tile, without the tile: its ops again, at other
 * positions.
 *
 *   %t = load %table[%b, %i * 4 +: 4] boundary(0)
 *   %p = %t + 1
 *
 *   element [2] of %p          gather(%table, %b, %i * 4 + 2) + 1
 *   [range(64) / 16] of %p     gather(%table, %b, %i * 4 + range(64) / 16) + 1
 *                              a tile of 64
 */
#ifndef TC_ELEMENT_AT_H
#define TC_ELEMENT_AT_H

#include "ir/ir.h"

/* Can its elements be computed one by one? The tile must come from loads of
 * windows, gathers, ranges, scalars, elementwise ops and ops on shapes, few
 * enough to be repeated. */
bool tc_has_elements(const tc_value *v);

typedef struct tc_elements {
    tc_builder *b; /* where the ops go */
    bool in_place; /* only sums of positions go there; each other op goes next
                    * to the one that it repeats */
    /* The value that stands for a scalar there; NULL: the scalar itself. */
    tc_value *(*leaf)(void *user, tc_value *scalar);
    void *user;
} tc_elements;

/* The elements of a tile that has them (above) at these positions, an i32 for
 * each of its axes, or tiles of them of one shape. */
tc_value *tc_element_at(const tc_elements *e, tc_value *v, tc_value *const *at);
/* Positions in a tile of type `from` of the elements that have positions `at`
 * in one of type `to`, as `reshape` moves them; b: where sums go. */
void tc_positions_before_reshape(tc_builder *b, const tc_type *from,
                                 const tc_type *to, tc_value *const *at,
                                 tc_value **before);
/* Sums and products that fold constants and drop zeros and ones. */
tc_value *tc_build_position(tc_builder *b, tc_opcode code, tc_value *x,
                            tc_value *y);

#endif
