/* SPDX-License-Identifier: Apache-2.0
 *
 * What elementary functions of f32 (math.c) and of f64 on GPUs
 * (codegen/nvptx/math/math64.c) have in common: everything but coefficients,
 * limits and powers of e.
 */
#ifndef TC_MATH_SHAPE_H
#define TC_MATH_SHAPE_H

#include "codegen/llvm/lanes.h"

/* x = 2^n (1 + f), 1 + f in [sqrt 1/2, sqrt 2), for finite x > 0. */
typedef struct tc_math_split {
    LLVMValueRef n, f;
} tc_math_split;
tc_math_split tc_math_split_exponent(const tc_lanes *l, LLVMValueRef x);

/* r, a logarithm of x > 0: infinity and NaN stay, 0 gives -infinity, numbers
 * below it NaN. */
LLVMValueRef tc_math_log_ends(const tc_lanes *l, LLVMValueRef x,
                              LLVMValueRef r);

/* An odd function, computed for t = |x|. */
typedef struct tc_math_odd {
    double near; /* below it a polynomial */
    double flat; /* from there on it is 1 */
    unsigned nnear, nfar;
    const double *near_c, *far_c;
    LLVMValueRef (*exp)(const tc_lanes *l, LLVMValueRef x); /* |x| to 80 */
} tc_math_odd;

/* t + t^3 P(t^2), from `near` on 1 - 2 / (e^2t + 1). */
LLVMValueRef tc_math_tanh(const tc_lanes *l, LLVMValueRef x,
                          const tc_math_odd *how);
/* t + t P(t^2), from `near` on 1 - e^(-t Q(t)). */
LLVMValueRef tc_math_erf(const tc_lanes *l, LLVMValueRef x,
                         const tc_math_odd *how);

#endif
