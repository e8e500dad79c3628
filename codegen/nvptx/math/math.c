/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions: those of codegen/llvm/math.c (range reduction and a
 * polynomial), except for functions of the GPU (2^x, and tanh by it) and for
 * functions that the host takes from the C library: sin and cos, and f64
 * (math64.c).
 *
 *   sin, cos   x = n pi/2 + r, |r| <= pi/4 (angle.c). The quadrant n mod 4
 *              chooses between the polynomials of sin r and cos r and the sign.
 */
#include "codegen/nvptx/math/math.h"

#include "codegen/llvm/lanes.h"
#include "codegen/llvm/math.h"

/* ---- sin, cos ---- */

/* r + r^3 P(r^2); error of f32 0.06 of half an ulp of 1, of f64 2^-69. */
static LLVMValueRef sin_near_0(const tc_lanes *l, LLVMValueRef r,
                               LLVMValueRef rr)
{
    static const double c64[] = {-0x1.5555555555555p-3,  0x1.111111111110bp-7,
                                 -0x1.a01a01a018ab4p-13, 0x1.71de3a53357fap-19,
                                 -0x1.ae64529305da3p-26, 0x1.61208f4ab9cc4p-33,
                                 -0x1.aaa38c3eceba5p-41};
    static const double c[] = {-0x1.555546p-3, 0x1.11075cp-7, -0x1.994cfap-13};
    LLVMValueRef p =
        l->bits == 64 ? TC_LANES_POLY(l, rr, c64) : TC_LANES_POLY(l, rr, c);
    return tc_lanes_fma(l, tc_lanes_mul(l, r, rr), p, r);
}

/* 1 - r^2 / 2 + r^4 P(r^2); error 0.002 and 2^-64. */
static LLVMValueRef cos_near_0(const tc_lanes *l, LLVMValueRef rr)
{
    static const double c64[] = {1,
                                 -0.5,
                                 0x1.555555555554cp-5,
                                 -0x1.6c16c16c15144p-10,
                                 0x1.a01a019cabbeep-16,
                                 -0x1.27e4f8056471fp-22,
                                 0x1.1ee9e8af429edp-29,
                                 -0x1.8face01f1aa38p-37};
    static const double c[] = {1, -0.5, 0x1.55554ap-5, -0x1.6c0c86p-10,
                               0x1.9a00cep-16};
    return l->bits == 64 ? TC_LANES_POLY(l, rr, c64) : TC_LANES_POLY(l, rr, c);
}

/* sin x turned by so many quadrants: of sin r, cos r the one that is asked
 * for, negative in quadrants 2 and 3. */
static LLVMValueRef turned_sin(LLVMBuilderRef b, LLVMValueRef x, unsigned by)
{
    tc_angle a = tc_nvptx_angle(b, x);
    tc_lanes l = tc_lanes_of(b, a.r), i = tc_lanes_of(b, a.quadrant);
    LLVMValueRef rr = tc_lanes_mul(&l, a.r, a.r), zero = tc_lanes_int(&i, 0);
    LLVMValueRef s = sin_near_0(&l, a.r, rr), c = cos_near_0(&l, rr);
    LLVMValueRef q = LLVMBuildAdd(b, a.quadrant, tc_lanes_int(&i, by), "");
    LLVMValueRef odd = LLVMBuildICmp(
        b, LLVMIntNE, LLVMBuildAnd(b, q, tc_lanes_int(&i, 1), ""), zero, "");
    LLVMValueRef minus = LLVMBuildICmp(
        b, LLVMIntNE, LLVMBuildAnd(b, q, tc_lanes_int(&i, 2), ""), zero, "");
    LLVMValueRef y = LLVMBuildSelect(b, odd, c, s, "");
    return LLVMBuildSelect(b, minus, LLVMBuildFNeg(b, y, ""), y, "");
}

static LLVMValueRef emit_sin(LLVMBuilderRef b, LLVMValueRef x)
{
    return turned_sin(b, x, 0);
}

static LLVMValueRef emit_cos(LLVMBuilderRef b, LLVMValueRef x)
{
    return turned_sin(b, x, 1);
}

/* ---- tanh ---- */

static LLVMValueRef approximate(LLVMBuilderRef b, const char *name,
                                LLVMValueRef x)
{
    return tc_lanes_call(b, name, 1, &x);
}

/* Far from 0 by ex2.approx and rcp.approx, which cost an instruction each. What
 * they are off by counts for little there, as 2 / (e^2t + 1) is small against
 * 1. */
static LLVMValueRef emit_tanh(LLVMBuilderRef b, LLVMValueRef x)
{
    /* tanh(t) = t + t^3 P(t^2) for t < 0.6. */
    static const double c[] = {-0x1.55553ep-2, 0x1.1109aep-3, -0x1.b898dcp-5,
                               0x1.54b898p-6, -0x1.825830p-8};
    tc_lanes l = tc_lanes_of(b, x);
    LLVMValueRef one = tc_lanes_float(&l, 1), t = tc_lanes_abs(&l, x);
    LLVMValueRef tt = tc_lanes_mul(&l, t, t);
    LLVMValueRef near_0 =
        tc_lanes_fma(&l, tc_lanes_mul(&l, t, tt), TC_LANES_POLY(&l, tt, c), t);
    LLVMValueRef e =
        tc_lanes_mul(&l, t, tc_lanes_float(&l, 0x1.715476p+1)); /* 2 log2 e */
    e = approximate(b, "llvm.nvvm.ex2.approx.ftz", e);
    e = LLVMBuildFAdd(b, e, one, "");
    e = approximate(b, "llvm.nvvm.rcp.approx.ftz.f", e);
    LLVMValueRef far = tc_lanes_fma(&l, e, tc_lanes_float(&l, -2), one);
    LLVMValueRef is_near =
        LLVMBuildFCmp(b, LLVMRealOLT, t, tc_lanes_float(&l, 0.6), "");
    return tc_lanes_copysign(&l, LLVMBuildSelect(b, is_near, near_0, far, ""),
                             x);
}

/* Off by 2^-22.1 and 2^-22.4 at most, by 2^-21.9 and 2^-21.8 as they are
 * rounded. */
const tc_tanh_fit tc_tanh_fits[TC_TANH_FITS] = {
    {0.3125, 3, {0.99999494, -0.33291348, 0.12457082}},
    {0.75, 5, {0.99999723, -0.33323076, 0.13226092, -0.04928045, 0.01231883}}};

void tc_nvptx_tanh_coefficients(LLVMBuilderRef b, const tc_tanh_fit *fit,
                                LLVMValueRef f, LLVMValueRef *k)
{
    tc_lanes l = tc_lanes_of(b, f);
    LLVMValueRef square = tc_lanes_mul(&l, f, f);
    for (unsigned i = 0; i < fit->n; i++) {
        k[i] = tc_lanes_mul(&l, f, tc_lanes_float(&l, fit->c[i]));
        f = tc_lanes_mul(&l, f, square);
    }
}

LLVMValueRef tc_nvptx_tanh_near(LLVMBuilderRef b, const tc_tanh_fit *fit,
                                LLVMValueRef x, const LLVMValueRef *k,
                                LLVMValueRef addend)
{
    tc_lanes l = tc_lanes_of(b, x);
    LLVMValueRef square = tc_lanes_mul(&l, x, x), p = k[fit->n - 1];
    for (unsigned i = fit->n - 1; i-- > 0;)
        p = tc_lanes_fma(&l, p, square, k[i]);
    return addend ? tc_lanes_fma(&l, x, p, addend) : tc_lanes_mul(&l, x, p);
}

/* ---- Reciprocals ---- */

/* Bits of x, subtracted, negate the exponent: that is within 1/8 of it, and
 * each of three steps squares the error. */
LLVMValueRef tc_nvptx_rcp_by_steps(LLVMBuilderRef b, LLVMValueRef x)
{
    tc_lanes l = tc_lanes_of(b, x);
    LLVMTypeRef type = LLVMTypeOf(x),
                ints = LLVMInt32TypeInContext(LLVMGetTypeContext(type));
    LLVMValueRef most[] = {x, tc_lanes_float(&l, 0x1p126)};
    x = tc_lanes_call(b, "llvm.minimum", 2, most);
    LLVMValueRef bits = LLVMBuildBitCast(b, x, ints, "");
    LLVMValueRef y =
        LLVMBuildSub(b, LLVMConstInt(ints, 0x7ef311c7, false), bits, "");
    y = LLVMBuildBitCast(b, y, type, "");
    x = LLVMBuildFNeg(b, x, "");
    for (unsigned i = 0; i < 3; i++)
        y = tc_lanes_fma(&l, y, tc_lanes_fma(&l, x, y, tc_lanes_float(&l, 1)),
                         y);
    return y;
}

/* ---- The table ---- */

typedef LLVMValueRef plain_fn(LLVMBuilderRef b, LLVMValueRef x);

/* Functions for which the host calls the C library; the others are plain IR
 * there. */
static plain_fn *const rows[TC_OPCODE_COUNT] = {
    [TC_SIN] = emit_sin, [TC_COS] = emit_cos};

static bool has_instructions(tc_opcode op)
{
    switch (op) {
    case TC_SQRT:
    case TC_RSQRT:
    case TC_RCP:
    case TC_FLOOR:
    case TC_CEIL:
    case TC_ROUND: return true;
    default: return false;
    }
}

LLVMValueRef tc_nvptx_math(LLVMBuilderRef b, tc_opcode op, LLVMValueRef x)
{
    if (op == TC_TANH && tc_lanes_of(b, x).bits == 32)
        return emit_tanh(b, x);
    if (rows[op])
        return rows[op](b, x);
    if (tc_lanes_of(b, x).bits == 64 && !has_instructions(op))
        return tc_nvptx_math64(b, op, x);
    return tc_llvm_math(b, op, x);
}
