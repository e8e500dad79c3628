/* SPDX-License-Identifier: Apache-2.0
 *
 * A value in another layout: cheap ops are computed again, lane by lane, the
 * rest is converted.
 *
 *   %r = range : tile<64 x i32>             %r1 = range : tile<64 x i32, #a>
 *   %c = cmp %r, %n : tile<64 x i1>         %c1 = cmp %r1, %n1 : ...
 *                              wanted in #a and in #b: one such copy each
 *
 *   %x = load %p : tile<64 x f32, #a>       %y = convert_layout %x : ... #b
 *
 * Cheap ops are pure ops without regions whose tiles all come from splats and
 * ranges: they have no layout of their own.
 */
#ifndef TC_RELAYOUT_H
#define TC_RELAYOUT_H

#include "ir/base/map.h"
#include "ir/ir.h"
#include "ir/types/layout.h"

/* The result's layout of expand_dims, trans, reshape, reduce where the operand
 * has layout l; NULL: not determined, or it cannot be expressed. */
const tc_layout *tc_layout_of_result(tc_context *cx, const tc_op *op,
                                     const tc_layout *l);
/* The operand's of expand_dims, broadcast, trans, reshape where the result has
 * layout l; likewise. Of a load or store of windows by index: that of the
 * indices where the tile has layout l. */
const tc_layout *tc_layout_of_operand(tc_context *cx, const tc_op *op,
                                      const tc_layout *l);

/* Zeroed but for cx and arena it is ready; its maps are kept in the arena. */
typedef struct tc_relayout {
    tc_context *cx;
    tc_arena *arena;
    tc_map cheap;  /* value -> one of two marks */
    tc_map copies; /* value -> list of itself in other layouts */
} tc_relayout;

bool tc_relayout_is_cheap(tc_relayout *r, const tc_value *v);
/* v itself, if it has layout l, else a copy or a conversion that stands right
 * after it and is made once. Of values that are not cheap the layout must be
 * known. */
tc_value *tc_relayout_get(tc_relayout *r, tc_value *v, const tc_layout *l);
/* Is v computed, as far as the loop computes it, by ops on ints and addresses,
 * lane by lane, from tiles from before the loop? */
bool tc_relayout_is_light(const tc_value *v, const tc_op *loop);
/* As tc_relayout_get, of such a value: computed again in the loop, and what it
 * takes from before the loop is converted there. */
tc_value *tc_relayout_in_loop(tc_relayout *r, tc_value *v, const tc_layout *l,
                              const tc_op *loop);

/* Erases pure ops without uses, users first: cheap values that have copies,
 * conversions. */
void tc_region_sweep(tc_region *r);

#endif
