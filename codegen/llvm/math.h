/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions as LLVM IR.
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
#ifndef TC_LLVM_MATH_H
#define TC_LLVM_MATH_H

#include "codegen/llvm/libm.h"
#include "ir/ir.h"

#include <llvm-c/Core.h>

/* x: float, double or a fixed vector of one. The opcodes: EXP EXP2 LOG LOG2
 * SQRT RSQRT RCP SIN COS TANH ERF FLOOR CEIL ROUND ABS; NULL for another. */
LLVMValueRef tc_llvm_math(LLVMBuilderRef b, tc_opcode op, LLVMValueRef x);

#endif
