/* SPDX-License-Identifier: Apache-2.0
 *
 * The position of an op: the loops and ops around it, and insertion points.
 */
#ifndef TC_NESTING_H
#define TC_NESTING_H

#include "ir/ir.h"

/* The innermost loop around an op, or NULL. */
tc_op *tc_loop_around(const tc_op *op);
/* The op of region `r` that `op` is, or is nested in; NULL: neither. */
tc_op *tc_ancestor_in(const tc_region *r, tc_op *op);
/* The break_if of a region, which ends the loop; NULL: there is none. */
tc_op *tc_break_in(const tc_region *r);
/* Is v computed from the loop's counter and from before the loop, by pure ops
 * of the loop's body? Then it is known steps ahead. */
bool tc_is_known_ahead(const tc_op *loop, const tc_value *v);
/* Is `op` nested in `outer`? */
bool tc_is_nested_in(const tc_op *op, const tc_op *outer);

/* Is v a value of a region of `op`, or of one nested in that? */
bool tc_is_defined_in(const tc_value *v, const tc_op *op);
/* Is v a value of region `r`, or of one nested in it? */
bool tc_is_defined_under(const tc_value *v, const tc_region *r);

/* Where an op goes that uses v as early as possible. */
tc_builder tc_builder_after(tc_func *f, tc_value *v, tc_loc loc);

#endif
