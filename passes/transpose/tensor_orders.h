/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a kernel prefers the elements of a tensor argument, and
 * whether another order is of any use to it.
 */
#ifndef TC_TENSOR_ORDERS_H
#define TC_TENSOR_ORDERS_H

#include "ir/ir.h"
#include "passes/target/target.h"

/* The dim that should be in one piece in memory. */
typedef struct tc_order_wish {
    const tc_op *dot;   /* whose operand it is; NULL: there is no wish */
    const tc_op *other; /* one that wants another dim so; NULL: none does */
    unsigned dim;
    bool computed; /* what is multiplied is computed from it, somewhere */
    unsigned axes; /* bit a: the loaded tile depends on axis a of the grid */
} tc_order_wish;
tc_order_wish tc_order_wish_of(const tc_func *kernel, unsigned arg,
                               const tc_target *target);

/* Why the kernel should not be given such a tensor, contiguous in `dim`; NULL:
 * there is nothing against it. */
const char *tc_why_not_contiguous(tc_arena *a, const tc_func *kernel,
                                  unsigned arg, unsigned dim);

#endif
