/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: one float or a fixed vector of them, seen as numbers or as bits.
 *
 * The building blocks of math.c and convert.c work on any width, so they ask
 * for constants and intrinsics "in the shape of x". The attributes `target-cpu`
 * and `target-features` of the function under construction say what the host
 * can do: LLVM generates code for them, so the answer cannot disagree with the
 * code generator. A function without them counts as the plainest machine of its
 * architecture.
 */
#ifndef TC_LANES_H
#define TC_LANES_H

#include <llvm-c/Core.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tc_lanes {
    LLVMBuilderRef b;
    unsigned width;     /* 0: a scalar */
    unsigned bits;      /* of one lane */
    LLVMTypeRef ints;   /* same shape, same bits a lane */
    LLVMTypeRef floats; /* likewise; NULL where there is no such float */
} tc_lanes;

/* The function under construction is built for `cpu` with `features` (comma
 * separated, each `+name` or `-name`, as LLVMGetHostCPUFeatures gives). */
void tc_lanes_set_target(LLVMValueRef fn, const char *cpu,
                         const char *features);
/* Does the function that `b` stands in have the feature (no `+`)? */
bool tc_lanes_target_has(LLVMBuilderRef b, const char *feature);
/* Rounding to whole numbers, in hardware. */
bool tc_lanes_has_round(LLVMBuilderRef b);

/* The shape of x: a float, an integer or a fixed vector of one. */
tc_lanes tc_lanes_of(LLVMBuilderRef b, LLVMValueRef x);
/* `scalar` in the shape of the lanes. */
LLVMTypeRef tc_lanes_type(const tc_lanes *l, LLVMTypeRef scalar);
LLVMValueRef tc_lanes_float(const tc_lanes *l, double value);
LLVMValueRef tc_lanes_int(const tc_lanes *l, uint64_t value);
/* Bit casts between the two views. */
LLVMValueRef tc_lanes_as_int(const tc_lanes *l, LLVMValueRef x);
LLVMValueRef tc_lanes_as_float(const tc_lanes *l, LLVMValueRef bits);

/* Calls an intrinsic overloaded on the type of args[0] alone. */
LLVMValueRef tc_lanes_call(LLVMBuilderRef b, const char *name, unsigned nargs,
                           LLVMValueRef *args);
/* a * b + c; with one rounding where the host has it in hardware. */
LLVMValueRef tc_lanes_fma(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b,
                          LLVMValueRef c);
LLVMValueRef tc_lanes_abs(const tc_lanes *l, LLVMValueRef x);
/* Sum, difference, product and quotient of floats. */
LLVMValueRef tc_lanes_add(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tc_lanes_sub(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tc_lanes_mul(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef tc_lanes_div(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b);
/* x `pred` limit ? yes : no. */
LLVMValueRef tc_lanes_choose(const tc_lanes *l, LLVMValueRef x,
                             LLVMRealPredicate pred, double limit,
                             LLVMValueRef yes, LLVMValueRef no);
/* The limit where x is above (below) it; NaN stays. */
LLVMValueRef tc_lanes_at_most(const tc_lanes *l, LLVMValueRef x, double limit);
LLVMValueRef tc_lanes_at_least(const tc_lanes *l, LLVMValueRef x, double limit);
/* The nearest whole number, to even. */
LLVMValueRef tc_lanes_nearest(const tc_lanes *l, LLVMValueRef x);
/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1). */
LLVMValueRef tc_lanes_poly(const tc_lanes *l, LLVMValueRef x, unsigned n,
                           const double *c);
#define TC_LANES_POLY(l, x, c) tc_lanes_poly(l, x, sizeof(c) / sizeof *(c), c)
LLVMValueRef tc_lanes_copysign(const tc_lanes *l, LLVMValueRef size,
                               LLVMValueRef sign);

#endif
