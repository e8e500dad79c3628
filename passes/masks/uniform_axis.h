/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of two axes that differ along one of them only: finds them, and builds
 * them with that axis alone.
 *
 *   %m0 + range(128)[:, none]    broadcast to 128x64: the same along axis 1,
 *                                without it %m0 + range(128)
 */
#ifndef TC_UNIFORM_AXIS_H
#define TC_UNIFORM_AXIS_H

#include "ir/ir.h"
#include "passes/analysis/int_range.h"

/* Is the tile v, of two axes, the same along one of them? (No: not known.) */
bool tc_is_same_along(const tc_value *v, unsigned axis);
/* Could tc_without_axis be used before `op`? v is the same along the axis. */
bool tc_is_ready_without(const tc_value *v, unsigned axis, const tc_op *op);
/* The tile of one axis that is left, its side that of `like` (of two axes); the
 * ops that it needs are built. */
tc_value *tc_without_axis(tc_builder *b, tc_value *v, unsigned axis,
                          const tc_type *like);
/* Where v, of two axes, plainly repeats a tile that has `axis` alone: that
 * tile, else NULL. */
tc_value *tc_match_repeated(const tc_value *v, unsigned axis);
/* A tile of one axis repeated along a further one, as `like` has it. */
tc_value *tc_with_axis(tc_builder *b, tc_value *v, unsigned axis,
                       const tc_type *like);

/* base + range(n), ints, along an axis; of min(base + range(n), most) where
 * `most` is not NULL. */
typedef struct tc_positions {
    tc_value *base; /* a scalar; NULL: 0 */
    tc_value *most;
    int64_t n;
} tc_positions;

/* Is the tile v, of one axis or of two, such positions along `axis`? */
bool tc_match_positions(const tc_value *v, unsigned axis, tc_positions *p);
/* The value range of base + range(n), without `most`. */
tc_int_range tc_positions_span(const tc_positions *p);

#endif
