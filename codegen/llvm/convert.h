/* SPDX-License-Identifier: Apache-2.0
 *
 * Narrow floats: f16, bf16, f8e4m3, f8e5m2 are computed with in f32 and stored
 * as bits.
 *
 * All rounding is to nearest, ties to even, with exact subnormals. Overflow of
 * f16 and bf16 gives infinity; fp8 saturates: larger values, infinity included,
 * become the largest finite number. NaN stays NaN. No code made here calls a
 * run-time library; F16C is used if the function that the builder stands in has
 * it among its `target-features` (lanes.h).
 *
 * Any value may be a scalar or a fixed vector. `kind` may be TC_F32 as well:
 * then there is nothing to do (or, from f64 or integers, one rounding).
 */
#ifndef TC_LLVM_CONVERT_H
#define TC_LLVM_CONVERT_H

#include "ir/types/type.h"

#include <llvm-c/Core.h>

/* x: float or double. The nearest number of `kind`, as float. Doubles are
 * rounded once, not by way of the nearest float. */
LLVMValueRef tc_llvm_round(LLVMBuilderRef b, tc_kind kind, LLVMValueRef x);
/* The same for a signed integer of any width. */
LLVMValueRef tc_llvm_round_int(LLVMBuilderRef b, tc_kind kind, LLVMValueRef x);
/* x: float or double. What is stored for it: i16 or i8 bits, float for F32.
 * An infinity stays one where the kind has it, f8e5m2 too: results have been
 * through tc_llvm_round, so that it was read as such. */
LLVMValueRef tc_llvm_pack(LLVMBuilderRef b, tc_kind kind, LLVMValueRef x);
/* The float that is stored as `bits`. */
LLVMValueRef tc_llvm_unpack(LLVMBuilderRef b, tc_kind kind, LLVMValueRef bits);
/* The type of one stored element: i16, i8, or float and double. */
LLVMTypeRef tc_llvm_storage(LLVMContextRef cx, tc_kind kind);

#endif
