/* SPDX-License-Identifier: Apache-2.0
 *
 * Which axes of a function's tiles must have one length: those that
 * elementwise ops, loops and accesses tie together.
 *
 *   %t = load %x[..]         axis 0 of %t                        side A
 *   %e = exp (%t - ..)       axis 0 of %e                        side A
 *   %s = expand_dims %e      axis 1 of %s                        side A
 *   %p = dot %a, %b          its axes, and those of %a and %b:   fixed
 *
 * A side is fixed where an op would compute something else, were it longer:
 * products, reshapes of the axis, parts of it.
 */
#ifndef TC_SIDES_H
#define TC_SIDES_H

#include "ir/base/map.h"
#include "ir/ir.h"

typedef struct tc_side {
    struct tc_side *parent, *next; /* parent: NULL of a root */
    int64_t length;
    int64_t padded; /* that is chosen for it; of a root */
    bool fixed;     /* of a root */
} tc_side;

typedef struct tc_sides {
    tc_arena *arena;
    tc_map of; /* value -> array of tc_side, one an axis */
    tc_side *all;
} tc_sides;

/* Of all tiles and block pointers of the body. */
void tc_sides_build(tc_sides *s, const tc_func *f, tc_arena *arena);
/* The root of an axis; NULL: of a value that came later, or is neither tile
 * nor block pointer. */
tc_side *tc_side_of(const tc_sides *s, const tc_value *v, unsigned axis);

#endif
