/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows and elements of tensors with two elements a byte (i4, u4, f4e2m1), as
 * those of tensors of bytes, which have half as many along the contiguous dim.
 */
#ifndef TC_PACKED_H
#define TC_PACKED_H

#include "passes/analysis/axis_info.h"
#include "passes/passes.h"

/* Of a `block` or `advance` of such a tensor, before anything is changed: do
 * whole bytes hold its window? Else reports why not. */
bool tc_packed_is_whole(const tc_axis_analysis *a, const tc_op *op);

/* The side or size in bytes of so many elements. */
const tc_dim *tc_packed_bytes(tc_context *cx, const tc_dim *elements);
/* The offset (operand `index`) of a `block` or `advance` in bytes. */
void tc_packed_halve_offset(tc_op *op, unsigned index);

/* Codes along an axis of a tile of bytes, low bits first; and back. */
tc_value *tc_packed_unpack(tc_builder *b, tc_value *bytes, unsigned axis,
                           tc_kind kind);
tc_value *tc_packed_pack(tc_builder *b, tc_value *codes, unsigned axis);
/* The code of the element of that index, in the byte that holds it. */
tc_value *tc_packed_select(tc_builder *b, tc_value *bytes, tc_value *index,
                           tc_kind kind);

#endif
