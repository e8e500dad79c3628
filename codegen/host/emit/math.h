/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions and comparisons as LLVM IR, for the host.
 *
 * f32: branch-free polynomials within 2 ulp over the whole range, written for
 * vectors of any width; a result that would be subnormal may be 0. sin and cos
 * and all of f64 call the C library lane by lane (a JIT must be given
 * tc_host_libm), except for functions of the machine: sqrt, rounding, division.
 *
 * Fused multiply-add and AVX-512's scalef are used if the function that the
 * builder stands in has them among its `target-features` (lanes.h); without
 * them the same bounds hold.
 */
#ifndef TC_HOST_MATH_H
#define TC_HOST_MATH_H

#include "ir/ir.h"

#include <llvm-c/Core.h>

/* x: float, double or a fixed vector of one. The opcodes: EXP EXP2 LOG LOG2
 * SQRT RSQRT RCP SIN COS TANH ERF FLOOR CEIL ROUND ABS; NULL for another. */
LLVMValueRef tc_host_math(LLVMBuilderRef b, tc_opcode op, LLVMValueRef x);

/* pred: "eq", "ult", ..; is_unsigned: whatever it says. */
LLVMValueRef tc_host_compare(LLVMBuilderRef b, const char *pred, bool is_float,
                             bool is_unsigned, LLVMValueRef x, LLVMValueRef y);

/* The C library's functions that code made here may call; NULL name ends. */
typedef struct tc_host_symbol {
    const char *name;
    void *address;
} tc_host_symbol;
extern const tc_host_symbol tc_host_libm[];

#endif
