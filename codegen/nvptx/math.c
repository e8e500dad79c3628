/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions: those of the host (codegen/host/math.c: range
 * reduction and a polynomial, all plain LLVM IR), apart from what the GPU has
 * (2^x) and from what the host asks the C library for (sin, cos, most of f64).
 *
 *   sin, cos   x = n pi/2 + r, |r| <= pi/4, reduced in f64: exact enough for
 *              any x of usual size. The quadrant n mod 4 chooses between the
 *              polynomials of sin r and cos r and the sign.
 */
#include "codegen/nvptx/math.h"

#include "codegen/host/lanes.h"
#include "codegen/host/math.h"

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1). */
static LLVMValueRef poly(const tc_lanes *l, LLVMValueRef x, unsigned n,
                         const double *c)
{
    LLVMValueRef p = tc_lanes_float(l, c[n - 1]);
    for (unsigned i = n - 1; i-- > 0;)
        p = tc_lanes_fma(l, p, x, tc_lanes_float(l, c[i]));
    return p;
}
#define POLY(l, x, c) poly(l, x, sizeof(c) / sizeof *(c), c)

static LLVMValueRef mul(const tc_lanes *l, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFMul(l->b, a, b, "");
}

/* ---- sin, cos ---- */

/* x = quadrant * pi/2 + r. */
struct angle {
    LLVMValueRef quadrant, r; /* i64, x's type */
};

/* pi/2 in two parts of 53 bits. */
#define HALF_PI_HI 0x1.921fb54442d18p+0
#define HALF_PI_LO 0x1.1a62633145c07p-54
#define TWO_BY_PI  0x1.45f306dc9c883p-1

/* Beyond 2^31 quadrants there is no telling any more: the angle is 0 there,
 * and NaN for infinities. */
static struct angle reduce_angle(LLVMBuilderRef b, LLVMValueRef x)
{
    LLVMContextRef cx = LLVMGetTypeContext(LLVMTypeOf(x));
    LLVMTypeRef f64 = LLVMDoubleTypeInContext(cx);
    LLVMValueRef wide =
        LLVMTypeOf(x) == f64 ? x : LLVMBuildFPExt(b, x, f64, "");
    tc_lanes d = tc_lanes_of(b, wide);
    LLVMValueRef n = mul(&d, wide, tc_lanes_float(&d, TWO_BY_PI));
    n = tc_lanes_call(b, "llvm.roundeven", 1, &n);
    LLVMValueRef size = tc_lanes_abs(&d, n);
    LLVMValueRef usual =
        LLVMBuildFCmp(b, LLVMRealOLT, size, tc_lanes_float(&d, 0x1p31), "");
    LLVMValueRef zero = tc_lanes_float(&d, 0);
    n = LLVMBuildSelect(b, usual, n, zero, "");
    LLVMValueRef minus_n = LLVMBuildFNeg(b, n, "");
    LLVMValueRef r =
        tc_lanes_fma(&d, minus_n, tc_lanes_float(&d, HALF_PI_HI), wide);
    r = tc_lanes_fma(&d, minus_n, tc_lanes_float(&d, HALF_PI_LO), r);
    r = LLVMBuildSelect(b, usual, r, mul(&d, wide, zero), "");
    LLVMTypeRef i64 = LLVMInt64TypeInContext(cx);
    struct angle a = {LLVMBuildFPToSI(b, n, i64, ""), r};
    if (LLVMTypeOf(x) != f64)
        a.r = LLVMBuildFPTrunc(b, r, LLVMTypeOf(x), "");
    return a;
}

/* r + r^3 P(r^2); error 0.06 of half an ulp of 1. */
static LLVMValueRef sin_32(const tc_lanes *l, LLVMValueRef r, LLVMValueRef rr)
{
    static const double c[] = {-0x1.555546p-3, 0x1.11075cp-7, -0x1.994cfap-13};
    return tc_lanes_fma(l, mul(l, r, rr), POLY(l, rr, c), r);
}

/* 1 - r^2 / 2 + r^4 P(r^2); error 0.002. */
static LLVMValueRef cos_32(const tc_lanes *l, LLVMValueRef rr)
{
    static const double c[] = {1, -0.5, 0x1.55554ap-5, -0x1.6c0c86p-10,
                               0x1.9a00cep-16};
    return POLY(l, rr, c);
}

/* sin x turned by so many quadrants: of sin r, cos r the one that is asked
 * for, negative in quadrants 2 and 3. */
static LLVMValueRef turned_sin(LLVMBuilderRef b, LLVMValueRef x, unsigned by)
{
    struct angle a = reduce_angle(b, x);
    tc_lanes l = tc_lanes_of(b, a.r), i = tc_lanes_of(b, a.quadrant);
    LLVMValueRef rr = mul(&l, a.r, a.r), zero = tc_lanes_int(&i, 0);
    LLVMValueRef s = sin_32(&l, a.r, rr), c = cos_32(&l, rr);
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

/* ---- The table ---- */

typedef LLVMValueRef plain_fn(LLVMBuilderRef b, LLVMValueRef x);

/* What the host would call the C library for. */
static const struct math_row {
    plain_fn *f32, *f64;
    bool host32, host64; /* the host has plain IR for it */
} rows[TC_OPCODE_COUNT] = {
    [TC_EXP] = {.host32 = true},
    [TC_EXP2] = {.host32 = true},
    [TC_LOG] = {.host32 = true},
    [TC_LOG2] = {.host32 = true},
    [TC_TANH] = {.host32 = true},
    [TC_ERF] = {.host32 = true},
    [TC_SIN] = {.f32 = emit_sin},
    [TC_COS] = {.f32 = emit_cos},
    [TC_SQRT] = {.host32 = true, .host64 = true},
    [TC_RSQRT] = {.host32 = true, .host64 = true},
    [TC_RCP] = {.host32 = true, .host64 = true},
    [TC_FLOOR] = {.host32 = true, .host64 = true},
    [TC_CEIL] = {.host32 = true, .host64 = true},
    [TC_ROUND] = {.host32 = true, .host64 = true},
};

LLVMValueRef tc_nvptx_math(LLVMBuilderRef b, tc_opcode op, LLVMValueRef x)
{
    const struct math_row *row = &rows[op];
    bool is_64 = tc_lanes_of(b, x).bits == 64;
    if (is_64 ? row->host64 : row->host32)
        return tc_host_math(b, op, x);
    plain_fn *emit = is_64 ? row->f64 : row->f32;
    return emit ? emit(b, x) : NULL;
}
