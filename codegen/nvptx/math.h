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

/* angle.c: x = n pi/2 + r, |r| <= pi/4, for any x; r of infinities and NaN is
 * NaN. Calls a function that it adds to the module. */
typedef struct tc_angle {
    LLVMValueRef quadrant; /* n modulo 4, as an int of x's width */
    LLVMValueRef r;
} tc_angle;
tc_angle tc_nvptx_angle(LLVMBuilderRef b, LLVMValueRef x);

#endif
