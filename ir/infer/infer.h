/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to infer*.c: the rules for the types of an op's results.
 */
#ifndef TC_INFER_H
#define TC_INFER_H

#include "ir/ir.h"

/* The input and output of a rule. `stated[i]` may be NULL. */
typedef struct tc_results {
    unsigned nstated;
    const tc_type *const *stated;
    unsigned n;
    const tc_type **types; /* room for as many as the op may have */
} tc_results;

/* Adds the results' types to `r`, or reports. Operands and attributes fit the
 * signature; of ops with ":" the type that the text states is there. */
typedef bool tc_infer_fn(const tc_op *op, tc_results *r);

tc_infer_fn tc_infer_call, tc_infer_vjp;
/* Shapes (infer_shape.c) */
tc_infer_fn tc_infer_splat, tc_infer_range, tc_infer_ramp, tc_infer_expand_dims,
    tc_infer_broadcast, tc_infer_trans, tc_infer_reshape;
/* Tensors from pointers (infer_tensor.c) */
tc_infer_fn tc_infer_make_tensor;
/* Parts of tiles (infer_parts.c) */
tc_infer_fn tc_infer_slice, tc_infer_join, tc_infer_interleave;
tc_infer_fn tc_infer_scan, tc_infer_scan_carry, tc_infer_sort, tc_infer_take,
    tc_infer_histogram;
/* Machine level (infer_machine.c) */
tc_infer_fn tc_infer_convert_layout, tc_infer_mma, tc_infer_smem_alloc,
    tc_infer_smem_index, tc_infer_smem_load, tc_infer_smem_reshape,
    tc_infer_partial, tc_infer_mma_wait, tc_infer_mbarrier_alloc,
    tc_infer_smem_load_scalar, tc_infer_i32;

/* True, for `return`. */
bool tc_results_add(tc_results *r, const tc_type *t);
const tc_type *tc_infer_tile(const tc_op *op, unsigned rank,
                             const tc_dim *const *dims, const tc_type *elem);
/* The type in a layout that follows from an operand's; none: as it is. */
const tc_type *tc_infer_placed(const tc_op *op, const tc_type *t,
                               const tc_layout *layout);
/* Whether an attribute is 0 to count - 1; reports. */
bool tc_infer_check_axis(const tc_op *op, const char *attr, unsigned count);
/* Of reduce and scan: operands of one shape, with an axis, and a kind or a
 * region that combines them. */
bool tc_infer_check_combined(const tc_op *op);

#endif
