/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions of f64: GPUs have no instructions for them. Range
 * reduction, a polynomial, reconstruction, as for f32
 * (codegen/llvm/math.c); within a few ulp.
 *
 * The coefficients are minimax (Remez); comments give the polynomial's own
 * error, relative to the result.
 */
#include "codegen/nvptx/math/math.h"

#include "codegen/llvm/lanes.h"
#include "codegen/llvm/math_shape.h"

#include <math.h>

#define LOG2_E    0x1.71547652b82fep+0
#define LOG2_E_LO 0x1.777d0ffda0d24p-56
/* Of ln 2, 32 bits and the rest: n times the first is exact. */
#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33
enum { MANTISSA = 52, BIAS = 1023 };

static LLVMValueRef fma_by(const tc_lanes *l, LLVMValueRef a, double b,
                           LLVMValueRef c)
{
    return tc_lanes_fma(l, a, tc_lanes_float(l, b), c);
}

/* ---- Powers ---- */

/* 2^n of a whole number in an i64, -1022 to 1023. */
static LLVMValueRef power(const tc_lanes *l, LLVMValueRef n)
{
    n = LLVMBuildAdd(l->b, n, tc_lanes_int(l, BIAS), "");
    n = LLVMBuildShl(l->b, n, tc_lanes_int(l, MANTISSA), "");
    return tc_lanes_as_float(l, n);
}

/* p * 2^n in two steps, as either may leave the range: |n| < 2000. NaN in p
 * stays; n is then anything. */
static LLVMValueRef scaled(const tc_lanes *l, LLVMValueRef p, LLVMValueRef n)
{
    n = tc_lanes_choose(l, n, LLVMRealUNO, 0, tc_lanes_float(l, 0), n);
    n = LLVMBuildFPToSI(l->b, n, l->ints, "");
    LLVMValueRef half = LLVMBuildAShr(l->b, n, tc_lanes_int(l, 1), "");
    LLVMValueRef rest = LLVMBuildSub(l->b, n, half, "");
    return tc_lanes_mul(l, tc_lanes_mul(l, p, power(l, half)), power(l, rest));
}

/* e^r for |r| <= (ln 2) / 2, 1 + r + r^2 P(r); error 2^-64. */
static LLVMValueRef exp_fraction(const tc_lanes *l, LLVMValueRef r)
{
    static const double c[] = {0x1p-1,
                               0x1.555555555555cp-3,
                               0x1.555555555555ep-5,
                               0x1.111111110eb72p-7,
                               0x1.6c16c16c134c3p-10,
                               0x1.a01a01b3d51dcp-13,
                               0x1.a01a01b48df73p-16,
                               0x1.71ddef51295a1p-19,
                               0x1.27e4bebc2dd27p-22,
                               0x1.af6d43baaaac1p-26,
                               0x1.1f9e9e94ba841p-29};
    LLVMValueRef tail =
        tc_lanes_fma(l, tc_lanes_mul(l, r, r), TC_LANES_POLY(l, r, c), r);
    return tc_lanes_add(l, tc_lanes_float(l, 1), tail);
}

static LLVMValueRef emit_exp(const tc_lanes *l, LLVMValueRef x)
{
    /* Beyond, the result is infinity or 0 all the same. */
    x = tc_lanes_at_least(l, tc_lanes_at_most(l, x, 800), -800);
    LLVMValueRef n =
        tc_lanes_nearest(l, tc_lanes_mul(l, x, tc_lanes_float(l, LOG2_E)));
    LLVMValueRef r = fma_by(l, n, -LN2_HI, x);
    return scaled(l, exp_fraction(l, fma_by(l, n, -LN2_LO, r)), n);
}

static LLVMValueRef emit_exp2(const tc_lanes *l, LLVMValueRef x)
{
    x = tc_lanes_at_least(l, tc_lanes_at_most(l, x, 1100), -1100);
    LLVMValueRef n = tc_lanes_nearest(l, x), f = tc_lanes_sub(l, x, n);
    LLVMValueRef low = tc_lanes_mul(l, f, tc_lanes_float(l, LN2_LO));
    return scaled(l, exp_fraction(l, fma_by(l, f, LN2_HI, low)), n);
}

/* ---- Logarithms ---- */

/* log1p(f) = f - (f^2 / 2 - s (f^2 / 2 + R(s^2))), s = f / (2 + f); R error
 * 2^-66. The parts: f, and what is to be taken off. */
static LLVMValueRef log_tail(const tc_lanes *l, LLVMValueRef f,
                             LLVMValueRef low)
{
    static const double c[] = {0x1.5555555555555p-1, 0x1.9999999999e0fp-2,
                               0x1.249249242a072p-2, 0x1.c71c725a71dc9p-3,
                               0x1.745cddc097396p-3, 0x1.3b20bfa6f945dp-3,
                               0x1.0f5b01e9c7ef8p-3, 0x1.0f734dacc5627p-3};
    LLVMValueRef s =
        tc_lanes_div(l, f, tc_lanes_add(l, f, tc_lanes_float(l, 2)));
    LLVMValueRef z = tc_lanes_mul(l, s, s);
    LLVMValueRef half =
        tc_lanes_mul(l, tc_lanes_mul(l, f, f), tc_lanes_float(l, 0.5));
    LLVMValueRef r = tc_lanes_fma(l, z, TC_LANES_POLY(l, z, c), half);
    return tc_lanes_sub(l, half, tc_lanes_fma(l, s, r, low));
}

static LLVMValueRef emit_log(const tc_lanes *l, LLVMValueRef x)
{
    tc_math_split s = tc_math_split_exponent(l, x);
    LLVMValueRef low = tc_lanes_mul(l, s.n, tc_lanes_float(l, LN2_LO));
    LLVMValueRef r = tc_lanes_sub(l, s.f, log_tail(l, s.f, low));
    return tc_math_log_ends(l, x, fma_by(l, s.n, LN2_HI, r));
}

static LLVMValueRef emit_log2(const tc_lanes *l, LLVMValueRef x)
{
    tc_math_split s = tc_math_split_exponent(l, x);
    LLVMValueRef r =
        tc_lanes_sub(l, s.f, log_tail(l, s.f, tc_lanes_float(l, 0)));
    LLVMValueRef low = tc_lanes_mul(l, r, tc_lanes_float(l, LOG2_E_LO));
    return tc_math_log_ends(l, x,
                            tc_lanes_add(l, s.n, fma_by(l, r, LOG2_E, low)));
}

/* ---- Sigmoid shapes: odd functions, computed for |x| ---- */

static LLVMValueRef emit_tanh(const tc_lanes *l, LLVMValueRef x)
{
    /* tanh(t) = t + t^3 P(t^2) for t < 0.55; error 2^-76. */
    static const double c[] = {
        -0x1.5555555555555p-2,  0x1.1111111111111p-3,   -0x1.ba1ba1ba1b9e2p-5,
        0x1.664f4882bf8aap-6,   -0x1.226e355e0b76fp-7,  0x1.d6d3d0c233ef9p-9,
        -0x1.7da360e5486bap-10, 0x1.3557e0536f277p-11,  -0x1.f575d994ce746p-13,
        0x1.962f4bca25b7ap-14,  -0x1.473226555c6cep-15, 0x1.fdeb9adf88176p-17,
        -0x1.595bc5aaf8594p-18, 0x1.2447ed80a3ad2p-20};
    static const tc_math_odd how = {.near = 0.55,
                                    .flat = 20,
                                    .nnear = sizeof c / sizeof *c,
                                    .near_c = c,
                                    .exp = emit_exp};
    return tc_math_tanh(l, x, &how);
}

static LLVMValueRef emit_erf(const tc_lanes *l, LLVMValueRef x)
{
    /* erf(t) = t + t P(t^2) for t < 0.9375; error 2^-71. */
    static const double near_c[] = {
        0x1.06eba8214db69p-3,   -0x1.812746b0379e7p-2,  0x1.ce2f21a042be1p-4,
        -0x1.b82ce31288aebp-6,  0x1.565bcd0e68cedp-8,   -0x1.c02db3ffd17d8p-11,
        0x1.f9a326e51c9ccp-14,  -0x1.f4d259a5e94d7p-17, 0x1.b9e68f84a114bp-20,
        -0x1.5f709055923e7p-23, 0x1.fc747b0757115p-27,  -0x1.4f64a39e2ba88p-30,
        0x1.854a636e25777p-34,  -0x1.3acb5cc8263ccp-38};
    /* -log(1 - erf(t)) = t Q(t) from there to 6, where erf is 1; error of erf
     * 2^-67. */
    static const double far_c[] = {
        0x1.20dd75252ee29p+0,   0x1.45f303a6b796fp-1,   0x1.a4f5793c9e54cp-4,
        -0x1.396f29524fb32p-6,  -0x1.ab963ba7b236cp-13, 0x1.b9fbce52bf2bbp-10,
        -0x1.2d851143b99c1p-11, 0x1.1c64d86dd484bp-17,  0x1.5137fe8f0fe7bp-14,
        -0x1.58a326a83c2d5p-15, 0x1.3e94bb85a9724p-17,  0x1.7f79c9ac7eb52p-21,
        -0x1.b807ddcfb39d3p-20, 0x1.b1bb3d189aad6p-21,  -0x1.18675d2c74433p-22,
        0x1.0f3ebc336c908p-24,  -0x1.96d6af1511dbep-27, 0x1.db198029d0ab3p-30,
        -0x1.a9f8ee3b7c984p-33, 0x1.1c0e0ee3c1ac4p-36,  -0x1.09cb2039df0f0p-40,
        0x1.379f8c673f3adp-45,  -0x1.588b14fd47115p-51};
    static const tc_math_odd how = {.near = 0.9375,
                                    .flat = 6,
                                    .nnear = sizeof near_c / sizeof *near_c,
                                    .nfar = sizeof far_c / sizeof *far_c,
                                    .near_c = near_c,
                                    .far_c = far_c,
                                    .exp = emit_exp};
    return tc_math_erf(l, x, &how);
}

/* ---- The table ---- */

typedef LLVMValueRef emit_fn(const tc_lanes *l, LLVMValueRef x);

static emit_fn *const rows[TC_OPCODE_COUNT] = {
    [TC_EXP] = emit_exp,   [TC_EXP2] = emit_exp2, [TC_LOG] = emit_log,
    [TC_LOG2] = emit_log2, [TC_TANH] = emit_tanh, [TC_ERF] = emit_erf,
};

LLVMValueRef tc_nvptx_math64(LLVMBuilderRef b, tc_opcode op, LLVMValueRef x)
{
    tc_lanes l = tc_lanes_of(b, x);
    return rows[op] ? rows[op](&l, x) : NULL;
}
