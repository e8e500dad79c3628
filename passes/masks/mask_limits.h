/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions on positions along an axis, as limits of these positions.
 *
 *   %k = %n0 + range(64)         in a tile <32x64>, positions along axis 1
 *   %k <= %q[:, none]            at most %q
 *   %q[:, none] - %k < %w        at least %q - %w + 1
 *
 * A limit is uniform along the axis. A comparison counts only if its ints are
 * known not to wrap (int_range.h).
 */
#ifndef TC_MASK_LIMITS_H
#define TC_MASK_LIMITS_H

#include "ir/base/arena.h"
#include "passes/masks/uniform_axis.h"

/* sign * position + rest, of ints that do not wrap: positions along an axis,
 * and what is the same along it. */
typedef struct tc_position_sum {
    int sign; /* 1 or -1 */
    tc_positions at;
    tc_value *rest; /* NULL: 0 */
    bool subtracts; /* position - rest (sign is 1) */
} tc_position_sum;

/* Is the tile v, of two axes, such a sum? */
bool tc_match_position_sum(tc_value *v, unsigned axis, tc_position_sum *s);

/* position <= limit, or position >= limit, where
 * limit = value + plus - minus + constant, exactly. */
typedef struct tc_mask_limit {
    bool is_upper;
    tc_positions at;
    tc_value *value, *plus, *minus; /* tiles of the mask's shape; plus, minus
                                       may be NULL */
    int64_t constant;
} tc_mask_limit;

/* One of the conditions that a mask joins by `and`. */
typedef struct tc_mask_part {
    tc_value *condition;
    bool is_limit;
    tc_mask_limit limit; /* if it is one */
} tc_mask_part;

typedef struct tc_mask_parts {
    unsigned axis; /* of the positions */
    unsigned n;
    tc_mask_part *all;
} tc_mask_parts;

/* Of a tile of i1 with two axes, positions being along `axis`. Positions of all
 * limits have one base. `min(position, %n - 1)` counts as the position where
 * another part says that it is below %n. */
tc_mask_parts tc_mask_parts_of(tc_arena *a, tc_value *mask, unsigned axis);
/* Is min(position, most) the position wherever the mask may hold? */
bool tc_mask_bounds(const tc_mask_parts *parts, const tc_positions *at);

#endif
