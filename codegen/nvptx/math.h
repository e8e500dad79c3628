/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions as plain LLVM IR, without instructions of a target: the
 * host can run (and test) what the GPU runs.
 */
#ifndef TC_NVPTX_MATH_H
#define TC_NVPTX_MATH_H

#include "ir/ir.h"

#include <llvm-c/Core.h>

/* x: float or double. The opcodes: EXP EXP2 LOG LOG2 SQRT RSQRT RCP SIN COS
 * TANH ERF FLOOR CEIL ROUND; NULL: none for this type. */
LLVMValueRef tc_nvptx_math(LLVMBuilderRef b, tc_opcode op, LLVMValueRef x);
/* The part of it that is in math64.c: x is a double. */
LLVMValueRef tc_nvptx_math64(LLVMBuilderRef b, tc_opcode op, LLVMValueRef x);

/* 1 / x of floats from 1 on, or NaN, by products and sums alone. */
LLVMValueRef tc_nvptx_rcp_by_steps(LLVMBuilderRef b, LLVMValueRef x);

/* tanh(x f) of floats, for |x f| up to TC_TANH_NEAR, by products and sums
 * alone, off by at most 2^-21 absolutely: x P(x^2), whose coefficients depend
 * on f, which is 2^-12 to 2^12 or the negative of it. */
enum { TC_TANH_COEFFICIENTS = 5 };
#define TC_TANH_NEAR 0.75
void tc_nvptx_tanh_coefficients(LLVMBuilderRef b, LLVMValueRef f,
                                LLVMValueRef *k);
LLVMValueRef tc_nvptx_tanh_near(LLVMBuilderRef b, LLVMValueRef x,
                                LLVMValueRef *k);

/* angle.c: x = n pi/2 + r, |r| <= pi/4, for any x; r of infinities and NaN is
 * NaN. Calls a function that it adds to the module. */
typedef struct tc_angle {
    LLVMValueRef quadrant; /* n modulo 4, as an int of x's width */
    LLVMValueRef r;
} tc_angle;
tc_angle tc_nvptx_angle(LLVMBuilderRef b, LLVMValueRef x);

#endif
