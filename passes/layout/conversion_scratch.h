/* SPDX-License-Identifier: Apache-2.0
 *
 * The two parts into which lower-conversions splits a reduction across warps: a
 * reduction within each warp, then one of the warps' partial results.
 */
#ifndef TC_CONVERSION_SCRATCH_H
#define TC_CONVERSION_SCRATCH_H

#include "ir/ir.h"

/* A copy of the reduction, detached, which leaves a part of each warp. */
tc_op *tc_reduce_like_within(tc_op *reduce);
/* The same, inserted. */
tc_op *tc_reduce_within_warps(tc_builder *b, tc_op *reduce);
/* The warps' parts, all of them in registers of every thread that had one: what
 * told warps apart along the axis now tells registers apart. */
const tc_layout *tc_gathered_layout(tc_context *cx, const tc_layout *parts,
                                    unsigned axis);
/* Of a buffer that the parts (one axis) go through. */
const tc_layout *tc_exchange_layout(tc_context *cx, const tc_type *parts);

#endif
