/* SPDX-License-Identifier: Apache-2.0
 *
 * Exponents split off, the ends of logarithms, tanh and erf from their
 * polynomials.
 */
#include "codegen/llvm/math_shape.h"

#include <math.h>

typedef struct format {
    unsigned mantissa;
    double least;       /* normal number */
    uint64_t sqrt_half; /* its bits */
} format;

static const format *format_of(const tc_lanes *l)
{
    static const format f32 = {23, 0x1p-126, 0x3f3504f3},
                        f64 = {52, 0x1p-1022, 0x3fe6a09e667f3bcd};
    return l->bits == 64 ? &f64 : &f32;
}

tc_math_split tc_math_split_exponent(const tc_lanes *l, LLVMValueRef x)
{
    const format *is = format_of(l);
    /* Subnormal numbers are scaled up first. */
    LLVMValueRef up =
        tc_lanes_mul(l, x, tc_lanes_float(l, ldexp(1, (int)is->mantissa)));
    LLVMValueRef y = tc_lanes_choose(l, x, LLVMRealOLT, is->least, up, x);
    LLVMValueRef bias = tc_lanes_choose(
        l, x, LLVMRealOLT, is->least, tc_lanes_float(l, -(double)is->mantissa),
        tc_lanes_float(l, 0));
    LLVMValueRef sqrt_half = tc_lanes_int(l, is->sqrt_half);
    LLVMValueRef i = LLVMBuildSub(l->b, tc_lanes_as_int(l, y), sqrt_half, "");
    LLVMValueRef n = LLVMBuildAShr(l->b, i, tc_lanes_int(l, is->mantissa), "");
    LLVMValueRef m = LLVMBuildAnd(
        l->b, i, tc_lanes_int(l, (UINT64_C(1) << is->mantissa) - 1), "");
    m = tc_lanes_as_float(l, LLVMBuildAdd(l->b, m, sqrt_half, ""));
    n = LLVMBuildSIToFP(l->b, n, l->floats, "");
    return (tc_math_split){tc_lanes_add(l, n, bias),
                           tc_lanes_sub(l, m, tc_lanes_float(l, 1))};
}

LLVMValueRef tc_math_log_ends(const tc_lanes *l, LLVMValueRef x, LLVMValueRef r)
{
    r = tc_lanes_choose(l, x, LLVMRealOLT, INFINITY, r, x);
    LLVMValueRef low =
        tc_lanes_choose(l, x, LLVMRealOEQ, 0, tc_lanes_float(l, -INFINITY),
                        tc_lanes_float(l, NAN));
    return tc_lanes_choose(l, x, LLVMRealOLE, 0, low, r);
}

static LLVMValueRef joined(const tc_lanes *l, LLVMValueRef x, LLVMValueRef t,
                           const tc_math_odd *how, LLVMValueRef near_0,
                           LLVMValueRef far)
{
    LLVMValueRef r = tc_lanes_choose(l, t, LLVMRealOLT, how->near, near_0, far);
    return tc_lanes_copysign(l, r, x);
}

LLVMValueRef tc_math_tanh(const tc_lanes *l, LLVMValueRef x,
                          const tc_math_odd *how)
{
    LLVMValueRef one = tc_lanes_float(l, 1), t = tc_lanes_abs(l, x);
    LLVMValueRef tt = tc_lanes_mul(l, t, t);
    LLVMValueRef p = tc_lanes_poly(l, tt, how->nnear, how->near_c);
    LLVMValueRef near_0 = tc_lanes_fma(l, tc_lanes_mul(l, t, tt), p, t);
    LLVMValueRef far = tc_lanes_at_most(l, t, how->flat);
    LLVMValueRef e = how->exp(l, tc_lanes_add(l, far, far));
    LLVMValueRef below =
        tc_lanes_div(l, tc_lanes_float(l, 2), tc_lanes_add(l, e, one));
    return joined(l, x, t, how, near_0, tc_lanes_sub(l, one, below));
}

LLVMValueRef tc_math_erf(const tc_lanes *l, LLVMValueRef x,
                         const tc_math_odd *how)
{
    LLVMValueRef t = tc_lanes_abs(l, x);
    LLVMValueRef tt = tc_lanes_mul(l, t, t);
    LLVMValueRef near_0 =
        tc_lanes_fma(l, t, tc_lanes_poly(l, tt, how->nnear, how->near_c), t);
    LLVMValueRef far = tc_lanes_at_most(l, t, how->flat);
    LLVMValueRef q = LLVMBuildFNeg(
        l->b,
        tc_lanes_mul(l, far, tc_lanes_poly(l, far, how->nfar, how->far_c)), "");
    far = tc_lanes_sub(l, tc_lanes_float(l, 1), how->exp(l, q));
    return joined(l, x, t, how, near_0, far);
}
