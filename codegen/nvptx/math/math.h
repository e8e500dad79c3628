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

/* tanh(x f) + addend (NULL: 0) of floats, for |x f| up to `most`, by products
 * and sums alone, off by at most 2^-21 absolutely: x P(x^2), whose n
 * coefficients depend on f, which is 2^-12 to 2^12 or the negative of it. */
enum { TC_TANH_FITS = 2, TC_TANH_COEFFICIENTS = 5 };
typedef struct tc_tanh_fit {
    double most;
    unsigned n;
    double c[TC_TANH_COEFFICIENTS];
} tc_tanh_fit;
extern const tc_tanh_fit tc_tanh_fits[TC_TANH_FITS]; /* the cheapest first */
void tc_nvptx_tanh_coefficients(LLVMBuilderRef b, const tc_tanh_fit *fit,
                                LLVMValueRef f, LLVMValueRef *k);
LLVMValueRef tc_nvptx_tanh_near(LLVMBuilderRef b, const tc_tanh_fit *fit,
                                LLVMValueRef x, const LLVMValueRef *k,
                                LLVMValueRef addend);

/* angle.c: x = n pi/2 + r, |r| <= pi/4, for any x; r of infinities and NaN is
 * NaN. Calls a function that it adds to the module. */
typedef struct tc_angle {
    LLVMValueRef quadrant; /* n modulo 4, as an int of x's width */
    LLVMValueRef r;
} tc_angle;
tc_angle tc_nvptx_angle(LLVMBuilderRef b, LLVMValueRef x);

#endif
