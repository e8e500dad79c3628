/* SPDX-License-Identifier: Apache-2.0
 *
 * The slots of `for`, `while` and `if`: result i and its sources (the initial
 * value, the region's argument, the operand of the yields).
 */
#ifndef TC_LOOP_SLOTS_H
#define TC_LOOP_SLOTS_H

#include "ir/ir.h"

bool tc_op_has_slots(const tc_op *op);
/* Operands, and arguments of region 0, that come before the carried ones. */
unsigned tc_slot_operands_before(const tc_op *op);
/* Region argument of slot i; NULL for `if`. */
tc_value *tc_slot_arg(const tc_op *op, unsigned i);
/* Value carried in at the start; NULL for `if`. */
tc_value *tc_slot_init(const tc_op *op, unsigned i);
/* The yield at the end of each step; of an `if` that of its first branch. */
tc_op *tc_slot_yield(const tc_op *op);

/* Removing slots takes two steps, so that what feeds a slot only by itself can
 * be erased between them. First: the yields lose the operands i with drop[i].
 * Then: the op loses the slots themselves, whose results and arguments must
 * have no uses by now. The op is replaced by the one returned (a `for`, `while`
 * or `if` without results may be left). */
void tc_slots_unyield(tc_op *op, const bool *drop);
tc_op *tc_slots_remove(tc_op *op, const bool *drop);

/* A `for` or `while` that carries n values more, after the others; each step
 * yields them as they are (tc_slot_set_next: as something else). The op is
 * replaced by the one returned. */
tc_op *tc_slots_add(tc_op *op, unsigned n, tc_value *const *init,
                    const char *const *names);
/* An `if` with one result more: `v` of region `from`, else `other` of the other
 * one. The op is replaced by the one returned. */
tc_op *tc_slots_add_result(tc_op *op, unsigned from, tc_value *v,
                           tc_value *other);
/* Makes the yields of all steps give v for slot i. */
void tc_slot_set_next(tc_op *op, unsigned i, tc_value *next);

/* Is v an operand of the region's terminator? */
bool tc_region_yields(const tc_region *r, const tc_value *v);
/* Moves the ops of the region, but its terminator, to before `op`. */
void tc_region_move_before(tc_region *r, tc_op *op);

#endif
