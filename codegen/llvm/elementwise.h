/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops as LLVM IR, on one element or a vector of them, for every
 * target. ir/eval/eval.c defines their results; these functions follow it case
 * by case. No fast-math flags: LLVM may not change a result.
 */
#ifndef TC_LLVM_ELEMENTWISE_H
#define TC_LLVM_ELEMENTWISE_H

#include "ir/ir.h"

#include <llvm-c/Core.h>

/* One op. Floats are computed in the type of x: for narrow ones the caller
 * passes f32, and rounds the result. */
typedef struct tc_elementwise {
    LLVMBuilderRef b;
    const tc_op *op;
    const tc_type *elem; /* of operand 0 */
    bool is_float;
    LLVMValueRef x, y, z; /* operands; NULL past the last */
} tc_elementwise;

tc_elementwise tc_elementwise_of(LLVMBuilderRef b, const tc_op *op,
                                 LLVMValueRef *in);
/* NULL: not one of these (functions, casts and pointers differ by target). */
LLVMValueRef tc_elementwise_emit(const tc_elementwise *e);

/* By the kind of a reduction or an atomic: "sum" (or "add"), "prod", "max",
 * "min", "and", "or", "xor". */
LLVMValueRef tc_elementwise_combine(LLVMBuilderRef b, const char *kind,
                                    bool is_float, LLVMValueRef x,
                                    LLVMValueRef y);

#endif
