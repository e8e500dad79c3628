/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions: range reduction, a polynomial, reconstruction.
 *
 * The coefficients are minimax (Remez, relative error of the result), rounded
 * to f32; the error that remains is rounding. Comments give the polynomial's
 * own error, in units of half an ulp of 1 (2^-24).
 *
 *   exp2(x) = 2^n 2^f         n nearest to x, |f| <= 1/2
 *   exp(x)  = 2^n e^r         n nearest to x / ln 2, r = x - n ln 2 in 2 steps
 *   log(x)  = n ln 2 + log1p(f)   x = 2^n (1 + f), 1 + f in [sqrt 1/2, sqrt 2)
 *   tanh    near 0 a polynomial, else 1 - 2 / (e^2x + 1)
 *   erf     near 0 a polynomial, else 1 - e^-q(x)
 */
#include "codegen/llvm/math.h"

#include "codegen/llvm/lanes.h"
#include "codegen/llvm/math_shape.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Adding it to a small x leaves x, rounded to a whole number, in the low bits
 * of the sum: 1.5 * 2^23. */
#define ROUND_MAGIC 0x1.8p23
#define LOG2_E      0x1.715476p+0
/* Of ln 2, 16 bits and the rest: n times the first is exact. */
#define LN2_HI   0x1.62e3p-1
#define LN2_LO   0x1.2fefa2p-17
#define MANTISSA 23

/* ---- Powers ---- */

/* 2^f for |f| <= 1/2; error 0.03. */
static LLVMValueRef exp2_fraction(const tc_lanes *l, LLVMValueRef f)
{
    static const double c[] = {1.0f,           0x1.62e430p-1f, 0x1.ebfbdcp-3f,
                               0x1.c6aee8p-5f, 0x1.3b2d4cp-7f, 0x1.5f3e54p-10f,
                               0x1.41fbbep-13f};
    return TC_LANES_POLY(l, f, c);
}

/* e^r for |r| <= (ln 2) / 2; error 0.05. */
static LLVMValueRef exp_fraction(const tc_lanes *l, LLVMValueRef r)
{
    static const double c[] = {1.0f,           1.0f,           0x1.fffffcp-2f,
                               0x1.555490p-3f, 0x1.5558f4p-5f, 0x1.123a6cp-7f,
                               0x1.6a234ap-10f};
    return TC_LANES_POLY(l, r, c);
}

/* x - n ln 2. */
static LLVMValueRef minus_n_ln2(const tc_lanes *l, LLVMValueRef x,
                                LLVMValueRef n)
{
    LLVMValueRef r = tc_lanes_fma(l, n, tc_lanes_float(l, -LN2_HI), x);
    return tc_lanes_fma(l, n, tc_lanes_float(l, -LN2_LO), r);
}

/* The name of AVX-512's scalef for this width, or NULL. */
static const char *scalef_name(const tc_lanes *l)
{
    if (l->width == 16 && tc_lanes_target_has(l->b, "avx512f"))
        return "llvm.x86.avx512.mask.scalef.ps.512";
    if (!tc_lanes_target_has(l->b, "avx512vl"))
        return NULL;
    return l->width == 8   ? "llvm.x86.avx512.mask.scalef.ps.256"
           : l->width == 4 ? "llvm.x86.avx512.mask.scalef.ps.128"
                           : NULL;
}

/* p * 2^n, rounded once, for every whole n; of infinite n 0 or infinity,
 * even if p is NaN. */
static LLVMValueRef scalef(const tc_lanes *l, const char *name, LLVMValueRef p,
                           LLVMValueRef n)
{
    LLVMContextRef cx = LLVMGetTypeContext(l->floats);
    LLVMTypeRef mask = LLVMIntTypeInContext(cx, l->width < 8 ? 8 : l->width);
    LLVMValueRef args[] = {
        p, n, p, LLVMConstAllOnes(mask),
        /* The rounding mode in force; the narrower forms have no such one. */
        LLVMConstInt(LLVMInt32TypeInContext(cx), 4, false)};
    return tc_lanes_call(l->b, name, l->width == 16 ? 5 : 4, args);
}

/* p * 2^n by adding n to the exponent, where `rounded` is n + ROUND_MAGIC: its
 * low bits are n, and the shift drops the others. The result must be a normal
 * number. */
static LLVMValueRef add_exponent(const tc_lanes *l, LLVMValueRef p,
                                 LLVMValueRef rounded)
{
    LLVMValueRef n = LLVMBuildShl(l->b, tc_lanes_as_int(l, rounded),
                                  tc_lanes_int(l, MANTISSA), "");
    return tc_lanes_as_float(l,
                             LLVMBuildAdd(l->b, tc_lanes_as_int(l, p), n, ""));
}

static bool is_minus_abs(LLVMValueRef x)
{
    if (!LLVMIsAInstruction(x) || LLVMGetInstructionOpcode(x) != LLVMFNeg)
        return false;
    LLVMValueRef of = LLVMGetOperand(x, 0);
    unsigned id =
        LLVMIsACallInst(of) ? LLVMGetIntrinsicID(LLVMGetCalledValue(of)) : 0;
    return id && id == LLVMLookupIntrinsicID("llvm.fabs", 9);
}

/* Above the range infinity, below it 0, and NaN for NaN. Nothing of -|y| is
 * above the range: ptxas 13.0 takes |y| > -88 for true, also of NaN, so the
 * program asks for NaN instead. */
static LLVMValueRef exp_ends(const tc_lanes *l, LLVMValueRef x, LLVMValueRef r,
                             double overflow, double underflow)
{
    LLVMValueRef beyond = tc_lanes_add(l, x, tc_lanes_float(l, INFINITY));
    r = is_minus_abs(x)
            ? tc_lanes_choose(l, x, LLVMRealORD, 0, r, beyond)
            : tc_lanes_choose(l, x, LLVMRealOLT, overflow, r, beyond);
    return tc_lanes_choose(l, x, LLVMRealOLT, underflow, tc_lanes_float(l, 0),
                           r);
}

static LLVMValueRef emit_exp2(const tc_lanes *l, LLVMValueRef x)
{
    const char *name = scalef_name(l);
    if (name) {
        /* Infinite x makes the fraction NaN; scalef mends it. */
        LLVMValueRef n = tc_lanes_nearest(l, x);
        return scalef(l, name, exp2_fraction(l, tc_lanes_sub(l, x, n)), n);
    }
    LLVMValueRef magic = tc_lanes_float(l, ROUND_MAGIC);
    LLVMValueRef rounded = tc_lanes_add(l, x, magic);
    LLVMValueRef f = tc_lanes_sub(l, x, tc_lanes_sub(l, rounded, magic));
    LLVMValueRef r = add_exponent(l, exp2_fraction(l, f), rounded);
    return exp_ends(l, x, r, 128, -126);
}

static LLVMValueRef emit_exp(const tc_lanes *l, LLVMValueRef x)
{
    const char *name = scalef_name(l);
    if (name) {
        /* Past the ends r would be anything; these give infinity and 0. */
        LLVMValueRef y = tc_lanes_at_least(l, tc_lanes_at_most(l, x, 89), -104);
        LLVMValueRef n =
            tc_lanes_nearest(l, tc_lanes_mul(l, y, tc_lanes_float(l, LOG2_E)));
        return scalef(l, name, exp_fraction(l, minus_n_ln2(l, y, n)), n);
    }
    LLVMValueRef magic = tc_lanes_float(l, ROUND_MAGIC);
    LLVMValueRef rounded = tc_lanes_fma(l, x, tc_lanes_float(l, LOG2_E), magic);
    LLVMValueRef r = minus_n_ln2(l, x, tc_lanes_sub(l, rounded, magic));
    r = add_exponent(l, exp_fraction(l, r), rounded);
    /* The first x above log(FLT_MAX), the last with a normal result. */
    return exp_ends(l, x, r, 0x1.62e430p6, -0x1.5d589ep6);
}

/* e^x where neither end of the range is near: |x| <= 80, or NaN. */
static LLVMValueRef exp_inside(const tc_lanes *l, LLVMValueRef x)
{
    LLVMValueRef magic = tc_lanes_float(l, ROUND_MAGIC);
    LLVMValueRef rounded = tc_lanes_fma(l, x, tc_lanes_float(l, LOG2_E), magic);
    LLVMValueRef p =
        exp_fraction(l, minus_n_ln2(l, x, tc_lanes_sub(l, rounded, magic)));
    /* A product, unlike a sum of bits, keeps NaN. */
    return tc_lanes_mul(l, p, add_exponent(l, tc_lanes_float(l, 1), rounded));
}

/* ---- Logarithms ---- */

static LLVMValueRef emit_log(const tc_lanes *l, LLVMValueRef x)
{
    /* log1p(f) = f - f^2 / 2 + f^3 P(f); error 0.01. */
    static const double c[] = {
        0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4cap-3f,
        -0x1.555c5cp-3f, 0x1.2335b4p-3f,  -0x1.fc1d48p-4f,
        0x1.e706e6p-4f,  -0x1.de65eep-4f, 0x1.145776p-4f};
    tc_math_split s = tc_math_split_exponent(l, x);
    LLVMValueRef ff = tc_lanes_mul(l, s.f, s.f);
    LLVMValueRef tail =
        tc_lanes_mul(l, tc_lanes_mul(l, ff, s.f), TC_LANES_POLY(l, s.f, c));
    tail = tc_lanes_fma(l, s.n, tc_lanes_float(l, LN2_LO), tail);
    LLVMValueRef half = tc_lanes_mul(l, ff, tc_lanes_float(l, 0.5));
    LLVMValueRef r = tc_lanes_sub(l, s.f, tc_lanes_sub(l, half, tail));
    r = tc_lanes_fma(l, s.n, tc_lanes_float(l, LN2_HI), r);
    return tc_math_log_ends(l, x, r);
}

static LLVMValueRef emit_log2(const tc_lanes *l, LLVMValueRef x)
{
    /* log2(1 + f) = f log2(e) + f^2 P(f); error 0.01. log2(e) comes in two
     * parts, the second with the small terms. */
    static const double c[] = {
        0x1.4ae0c0p-26f, -0x1.715476p-1f, 0x1.ec7088p-2f, -0x1.715490p-2f,
        0x1.277f3ap-2f,  -0x1.ec786cp-3f, 0x1.a41246p-3f, -0x1.6e9424p-3f,
        0x1.5fb1b2p-3f,  -0x1.591acap-3f, 0x1.8d682ap-4f};
    tc_math_split s = tc_math_split_exponent(l, x);
    LLVMValueRef small = tc_lanes_mul(l, s.f, TC_LANES_POLY(l, s.f, c));
    LLVMValueRef r = tc_lanes_fma(l, s.f, tc_lanes_float(l, LOG2_E), small);
    return tc_math_log_ends(l, x, tc_lanes_add(l, s.n, r));
}

/* ---- Sigmoid shapes: odd functions, computed for |x| ---- */

static LLVMValueRef emit_tanh(const tc_lanes *l, LLVMValueRef x)
{
    /* tanh(t) = t + t^3 P(t^2) for t < 0.6; error 0.05. */
    static const double c[] = {-0x1.55553ep-2f, 0x1.1109aep-3f, -0x1.b898dcp-5f,
                               0x1.54b898p-6f, -0x1.825830p-8f};
    static const tc_math_odd how = {.near = 0.6,
                                    .flat = 10,
                                    .nnear = sizeof c / sizeof *c,
                                    .near_c = c,
                                    .exp = exp_inside};
    return tc_math_tanh(l, x, &how);
}

static LLVMValueRef emit_erf(const tc_lanes *l, LLVMValueRef x)
{
    /* erf(t) = t + t P(t^2) for t < 0.9375; error 0.01. */
    static const double near_c[] = {
        0x1.06eba8p-3f, -0x1.812742p-2f,  0x1.ce2df4p-4f, -0x1.b80cb4p-6f,
        0x1.54b5e2p-8f, -0x1.a99ee8p-11f, 0x1.5ac306p-14f};
    /* -log(1 - erf(t)) = t Q(t) from there to 4, where erf is 1; 0.01. */
    static const double far_c[] = {
        0x1.20ef1cp+0f, 0x1.45328ep-1f,   0x1.b32574p-4f, -0x1.85515ep-6f,
        0x1.dd6cdep-9f, -0x1.527c78p-12f, 0x1.78ddc4p-17f};
    static const tc_math_odd how = {.near = 0.9375,
                                    .flat = 4,
                                    .nnear = sizeof near_c / sizeof *near_c,
                                    .nfar = sizeof far_c / sizeof *far_c,
                                    .near_c = near_c,
                                    .far_c = far_c,
                                    .exp = exp_inside};
    return tc_math_erf(l, x, &how);
}

/* ---- What the machine has ---- */

static LLVMValueRef emit_abs(const tc_lanes *l, LLVMValueRef x)
{
    return tc_lanes_abs(l, x);
}

static LLVMValueRef emit_sqrt(const tc_lanes *l, LLVMValueRef x)
{
    return tc_lanes_call(l->b, "llvm.sqrt", 1, &x);
}

static LLVMValueRef emit_rcp(const tc_lanes *l, LLVMValueRef x)
{
    return tc_lanes_div(l, tc_lanes_float(l, 1), x);
}

static LLVMValueRef emit_rsqrt(const tc_lanes *l, LLVMValueRef x)
{
    return emit_rcp(l, emit_sqrt(l, x));
}

/* Before SSE4.1 LLVM would call the C library, lane by lane. Adding the number
 * whose ulp is 1 rounds to nearest; larger ones are whole already. */
static LLVMValueRef round_by_adding(const tc_lanes *l, LLVMValueRef x)
{
    double unit = l->bits == 64 ? 0x1p52 : 0x1p23;
    LLVMValueRef t = tc_lanes_abs(l, x), k = tc_lanes_float(l, unit);
    LLVMValueRef r = tc_lanes_sub(l, tc_lanes_add(l, t, k), k);
    return tc_lanes_copysign(l, tc_lanes_choose(l, t, LLVMRealOLT, unit, r, t),
                             x);
}

/* r + step where r is on the wrong side of x. The sign of 0 is that of x. */
static LLVMValueRef corrected(const tc_lanes *l, LLVMValueRef x,
                              LLVMRealPredicate wrong, double step)
{
    LLVMValueRef r = round_by_adding(l, x);
    LLVMValueRef c = LLVMBuildFCmp(l->b, wrong, r, x, "");
    LLVMValueRef moved = tc_lanes_add(l, r, tc_lanes_float(l, step));
    return tc_lanes_copysign(l, LLVMBuildSelect(l->b, c, moved, r, ""), x);
}

static LLVMValueRef emit_round(const tc_lanes *l, LLVMValueRef x)
{
    if (!tc_lanes_has_round(l->b))
        return round_by_adding(l, x);
    return tc_lanes_nearest(l, x);
}

static LLVMValueRef emit_floor(const tc_lanes *l, LLVMValueRef x)
{
    if (!tc_lanes_has_round(l->b))
        return corrected(l, x, LLVMRealOGT, -1);
    return tc_lanes_call(l->b, "llvm.floor", 1, &x);
}

static LLVMValueRef emit_ceil(const tc_lanes *l, LLVMValueRef x)
{
    if (!tc_lanes_has_round(l->b))
        return corrected(l, x, LLVMRealOLT, 1);
    return tc_lanes_call(l->b, "llvm.ceil", 1, &x);
}

/* ---- The C library ---- */

static void set_attribute(LLVMContextRef cx, LLVMValueRef call,
                          const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call,
                             (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(cx, kind, 0));
}

static LLVMValueRef call_scalar(LLVMBuilderRef b, const char *name,
                                LLVMValueRef x)
{
    LLVMModuleRef m =
        LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInsertBlock(b)));
    LLVMTypeRef scalar = LLVMTypeOf(x);
    LLVMTypeRef type = LLVMFunctionType(scalar, &scalar, 1, false);
    LLVMValueRef fn = LLVMGetNamedFunction(m, name);
    if (!fn)
        fn = LLVMAddFunction(m, name, type);
    LLVMValueRef call = LLVMBuildCall2(b, type, fn, &x, 1, "");
    LLVMContextRef cx = LLVMGetModuleContext(m);
    /* nobuiltin: LLVM must not turn it into a call of another function, which
     * the JIT was not given (sin and cos into sincos, exp2 into ldexp).
     * memory with value 0 is memory(none). */
    set_attribute(cx, call, "nobuiltin");
    set_attribute(cx, call, "nounwind");
    set_attribute(cx, call, "willreturn");
    set_attribute(cx, call, "memory");
    return call;
}

static LLVMValueRef call_libm(const tc_lanes *l, const char *name,
                              LLVMValueRef x)
{
    if (!l->width)
        return call_scalar(l->b, name, x);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(LLVMGetTypeContext(l->floats));
    LLVMValueRef all = LLVMGetPoison(l->floats);
    for (unsigned i = 0; i < l->width; i++) {
        LLVMValueRef lane = LLVMConstInt(i32, i, false);
        LLVMValueRef y =
            call_scalar(l->b, name, LLVMBuildExtractElement(l->b, x, lane, ""));
        all = LLVMBuildInsertElement(l->b, all, y, lane, "");
    }
    return all;
}

/* ---- The table ---- */

typedef LLVMValueRef emit_fn(const tc_lanes *l, LLVMValueRef x);

/* An emitter for f32 and one for f64, or the name of a C function. */
static const struct math_row {
    emit_fn *f32, *f64;
    const char *libm32, *libm64;
} rows[TC_OPCODE_COUNT] = {
    [TC_EXP] = {.f32 = emit_exp, .libm64 = "exp"},
    [TC_EXP2] = {.f32 = emit_exp2, .libm64 = "exp2"},
    [TC_LOG] = {.f32 = emit_log, .libm64 = "log"},
    [TC_LOG2] = {.f32 = emit_log2, .libm64 = "log2"},
    [TC_TANH] = {.f32 = emit_tanh, .libm64 = "tanh"},
    [TC_ERF] = {.f32 = emit_erf, .libm64 = "erf"},
    [TC_SIN] = {.libm32 = "sinf", .libm64 = "sin"},
    [TC_COS] = {.libm32 = "cosf", .libm64 = "cos"},
    [TC_SQRT] = {emit_sqrt, emit_sqrt, NULL, NULL},
    [TC_RSQRT] = {emit_rsqrt, emit_rsqrt, NULL, NULL},
    [TC_RCP] = {emit_rcp, emit_rcp, NULL, NULL},
    [TC_FLOOR] = {emit_floor, emit_floor, NULL, NULL},
    [TC_CEIL] = {emit_ceil, emit_ceil, NULL, NULL},
    [TC_ROUND] = {emit_round, emit_round, NULL, NULL},
    [TC_ABS] = {emit_abs, emit_abs, NULL, NULL},
};

LLVMValueRef tc_llvm_math(LLVMBuilderRef b, tc_opcode op, LLVMValueRef x)
{
    tc_lanes l = tc_lanes_of(b, x);
    const struct math_row *row = &rows[op];
    emit_fn *emit = l.bits == 64 ? row->f64 : row->f32;
    if (emit)
        return emit(&l, x);
    const char *name = l.bits == 64 ? row->libm64 : row->libm32;
    return name ? call_libm(&l, name, x) : NULL;
}
