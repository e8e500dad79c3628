/* SPDX-License-Identifier: Apache-2.0
 *
 * slice, join, interleave: ops of which one tile is a part of another along an
 * axis.
 *
 *   slice %x axis(1) at(32) side(32)    result: elements 32 to 63 of operand 0
 *                                       (smem_slice: of a buffer)
 *   join %a, %b axis(1)                 operand 1: elements 32 to 63 of the
 *                                       result, where %a has 32
 *   interleave %a, %b axis(1)           operand 1: elements 1, 3, 5, ...
 */
#ifndef TC_PARTS_H
#define TC_PARTS_H

#include "ir/ir.h"
#include "ir/types/layout.h"

bool tc_op_is_parts(const tc_op *op); /* one of the three */
/* The part that operand i is of the result; of a slice: the result of operand
 * 0. All sides are numbers. */
tc_tile_part tc_op_part(const tc_op *op, unsigned i);
/* The tile that has the parts, and part i of it. */
const tc_value *tc_op_whole(const tc_op *op);
const tc_value *tc_op_part_value(const tc_op *op, unsigned i);
/* The operand that holds the element `to` of the result; its coordinates
 * there. */
unsigned tc_op_part_source(const tc_op *op, const int32_t *to, int32_t *from);
#endif
