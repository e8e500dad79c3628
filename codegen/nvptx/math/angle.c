/* SPDX-License-Identifier: Apache-2.0
 *
 * Angles: x = n pi/2 + r, |r| <= pi/4, for sin and cos.
 *
 *   usual x   n = x 2/pi to nearest; r = x - n pi/2, by three fused
 *             multiply-adds with pi/2 in three parts: the first is exact, the
 *             others make up for each other's rounding
 *   far       Payne and Hanek: of x = m 2^e, m whole, only those bits of 2/pi
 *             matter that are of weight 2 and less once multiplied by 2^e (what
 *             is above adds multiples of 4 quadrants). Three words of them
 *             times m, in integers, give the quadrant and its fraction to more
 *             bits than the nearest x to a multiple of pi/2 cancels.
 *
 * Words are as wide as x: 24 bits times 3 * 32, 53 times 3 * 64.
 *
 * A function of the module does it, which LLVM inlines after merging equal
 * calls: those of sin and cos of the same x. The far case is a call in the
 * machine code, too, after a branch, so that an unusual case takes neither time
 * nor registers nor, in tiles, code once a register.
 */
#include "codegen/nvptx/math/math.h"

#include "codegen/llvm/lanes.h"

#include <string.h>

/* 2/pi, the bits after the point; a word of 0 bits comes first. */
static const uint64_t two_by_pi[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
    0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

/* Of a type of float. */
static const struct format {
    const char *near_name, *far_name;
    unsigned mantissa, bias;
    unsigned nwords;     /* of the table that far x needs */
    double usual;        /* below which x is */
    double to_quadrants; /* 2/pi */
    double half_pi[3];   /* each rounded to nearest */
} formats[] = {{.near_name = "tilec.angle.f32",
                .far_name = "tilec.far_angle.f32",
                .mantissa = 23,
                .bias = 127,
                .nwords = 8,
                .usual = 0x1p17,
                .to_quadrants = 0x1.45f306p-1,
                .half_pi = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50}},
               {.near_name = "tilec.angle.f64",
                .far_name = "tilec.far_angle.f64",
                .mantissa = 52,
                .bias = 1023,
                .nwords = 20,
                .usual = 0x1p31,
                .to_quadrants = 0x1.45f306dc9c883p-1,
                .half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                            -0x1.f1976b7ed8fbcp-110}}};

static const struct format *format_of(const tc_lanes *l)
{
    return &formats[l->bits == 64];
}

/* ---- Usual x ---- */

/* Adding 1.5 times the number whose ulp is 1 rounds to a whole number, and
 * leaves it in the low bits. */
static tc_angle near_angle(const tc_lanes *l, LLVMValueRef x)
{
    const struct format *f = format_of(l);
    uint64_t ulp_1 = UINT64_C(1) << f->mantissa;
    LLVMValueRef shift = tc_lanes_float(l, 1.5 * (double)ulp_1);
    LLVMValueRef shifted =
        tc_lanes_fma(l, x, tc_lanes_float(l, f->to_quadrants), shift);
    LLVMValueRef n = tc_lanes_sub(l, shifted, shift), r = x;
    for (unsigned i = 0; i < 3; i++)
        r = tc_lanes_fma(l, n, tc_lanes_float(l, -f->half_pi[i]), r);
    return (tc_angle){tc_lanes_as_int(l, shifted), r};
}

/* ---- Far x ---- */

static LLVMTypeRef double_width(const tc_lanes *l)
{
    return LLVMIntTypeInContext(LLVMGetTypeContext(l->ints), 2 * l->bits);
}

static LLVMValueRef widened(const tc_lanes *l, LLVMValueRef word)
{
    return LLVMBuildZExt(l->b, word, double_width(l), "");
}

static LLVMValueRef wide(const tc_lanes *l, unsigned value)
{
    return LLVMConstInt(double_width(l), value, false);
}

/* In constant memory, one a type: words of its width. */
static LLVMValueRef table(const tc_lanes *l, LLVMModuleRef module)
{
    const struct format *f = format_of(l);
    enum { CONSTANT_MEMORY = 4, MAX = sizeof two_by_pi / sizeof *two_by_pi };
    LLVMValueRef words[MAX];
    for (unsigned i = 0; i < f->nwords; i++) {
        uint64_t half = two_by_pi[(i + 1) / 2] >> (i % 2 ? 32 : 0);
        words[i] = tc_lanes_int(l, l->bits == 64 ? two_by_pi[i] : half);
    }
    LLVMTypeRef type = LLVMArrayType2(l->ints, f->nwords);
    LLVMValueRef global = LLVMAddGlobalInAddressSpace(
        module, type, "tilec.two_by_pi", CONSTANT_MEMORY);
    LLVMSetInitializer(global, LLVMConstArray2(l->ints, words, f->nwords));
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    return global;
}

/* Three words of the table, from bit `at` of it on. */
static void take_window(const tc_lanes *l, LLVMValueRef table, LLVMValueRef at,
                        LLVMValueRef window[3])
{
    LLVMValueRef words[4];
    unsigned log2_bits = l->bits == 64 ? 6 : 5;
    LLVMValueRef first =
        LLVMBuildLShr(l->b, at, tc_lanes_int(l, log2_bits), "");
    for (unsigned i = 0; i < 4; i++) {
        LLVMValueRef index = LLVMBuildAdd(l->b, first, tc_lanes_int(l, i), "");
        LLVMValueRef p = LLVMBuildGEP2(l->b, l->ints, table, &index, 1, "");
        words[i] = LLVMBuildLoad2(l->b, l->ints, p, "");
    }
    for (unsigned i = 0; i < 3; i++) {
        LLVMValueRef args[] = {words[i], words[i + 1], at}; /* modulo width */
        window[i] = tc_lanes_call(l->b, "llvm.fshl", 3, args);
    }
}

/* |x| 2/pi modulo 4, a fixed-point number of twice the width with 2 bits before
 * the point. */
static LLVMValueRef quadrants(const tc_lanes *l, LLVMValueRef table,
                              LLVMValueRef x)
{
    const struct format *f = format_of(l);
    uint64_t one = UINT64_C(1) << f->mantissa;
    LLVMValueRef bits = tc_lanes_as_int(l, tc_lanes_abs(l, x));
    LLVMValueRef exponent =
        LLVMBuildLShr(l->b, bits, tc_lanes_int(l, f->mantissa), "");
    LLVMValueRef m = LLVMBuildAnd(l->b, bits, tc_lanes_int(l, one - 1), "");
    m = widened(l, LLVMBuildOr(l->b, m, tc_lanes_int(l, one), ""));
    /* e = exponent - bias - mantissa; bit i after the point of 2/pi has weight
     * 2^-(i + 1), the window begins with the one where that is 2^(1 - e). */
    unsigned less = f->bias + f->mantissa + 2 - l->bits;
    LLVMValueRef at = LLVMBuildSub(l->b, exponent, tc_lanes_int(l, less), "");
    LLVMValueRef w[3], width = wide(l, l->bits);
    take_window(l, table, at, w);
    LLVMValueRef high = LLVMBuildShl(l->b, widened(l, w[0]), width, "");
    high = LLVMBuildOr(l->b, high, widened(l, w[1]), "");
    LLVMValueRef low = LLVMBuildMul(l->b, widened(l, w[2]), m, "");
    low = LLVMBuildLShr(l->b, low, width, "");
    return LLVMBuildAdd(l->b, LLVMBuildMul(l->b, high, m, ""), low, "");
}

/* A number as the sum of two floats. */
struct sum {
    LLVMValueRef high, low;
};

/* A signed fixed-point number with `point` bits after the point, in thirds
 * that are exact as floats. Each sum here has its larger operand first, so
 * that what it rounds off is known exactly. */
static struct sum to_floats(const tc_lanes *l, LLVMValueRef fixed, int point)
{
    LLVMValueRef part[3];
    unsigned step = 2 * l->bits / 3;
    uint64_t mask = (UINT64_C(1) << step) - 1;
    double unit = 1;
    for (int i = 0; i < point; i++)
        unit /= 2;
    for (unsigned i = 0; i < 3; i++, unit *= (double)(mask + 1)) {
        LLVMValueRef n = LLVMBuildAShr(l->b, fixed, wide(l, i * step), "");
        n = LLVMBuildTrunc(l->b, n, l->ints, "");
        if (i < 2)
            n = LLVMBuildAnd(l->b, n, tc_lanes_int(l, mask), "");
        n = LLVMBuildSIToFP(l->b, n, l->floats, "");
        part[i] = tc_lanes_mul(l, n, tc_lanes_float(l, unit));
    }
    LLVMValueRef s = tc_lanes_add(l, part[2], part[1]);
    LLVMValueRef rest = tc_lanes_add(
        l, tc_lanes_sub(l, part[1], tc_lanes_sub(l, s, part[2])), part[0]);
    LLVMValueRef high = tc_lanes_add(l, s, rest);
    return (struct sum){high, tc_lanes_sub(l, rest, tc_lanes_sub(l, high, s))};
}

/* s * pi/2, rounded about once. */
static LLVMValueRef times_half_pi(const tc_lanes *l, struct sum s)
{
    const double *half_pi = format_of(l)->half_pi;
    LLVMValueRef c = tc_lanes_float(l, half_pi[0]),
                 p = tc_lanes_mul(l, s.high, c);
    LLVMValueRef low = tc_lanes_fma(l, s.high, c, LLVMBuildFNeg(l->b, p, ""));
    low = tc_lanes_fma(l, s.high, tc_lanes_float(l, half_pi[1]), low);
    return tc_lanes_add(l, p, tc_lanes_fma(l, s.low, c, low));
}

static tc_angle far_angle(const tc_lanes *l, LLVMValueRef table, LLVMValueRef x)
{
    LLVMValueRef all = quadrants(l, table, x), zero = tc_lanes_int(l, 0);
    unsigned point = 2 * l->bits - 2;
    /* The fraction from -1/2 to 1/2: the highest of its bits is one quadrant
     * more. */
    LLVMValueRef fraction = LLVMBuildShl(l->b, all, wide(l, 2), "");
    fraction = LLVMBuildAShr(l->b, fraction, wide(l, 2), "");
    LLVMValueRef n = LLVMBuildSub(l->b, all, fraction, "");
    n = LLVMBuildLShr(l->b, n, wide(l, point), "");
    n = LLVMBuildTrunc(l->b, n, l->ints, "");
    LLVMValueRef r = times_half_pi(l, to_floats(l, fraction, (int)point));
    LLVMValueRef negative =
        LLVMBuildICmp(l->b, LLVMIntSLT, tc_lanes_as_int(l, x), zero, "");
    n = LLVMBuildSelect(l->b, negative, LLVMBuildNeg(l->b, n, ""), n, "");
    r = LLVMBuildSelect(l->b, negative, LLVMBuildFNeg(l->b, r, ""), r, "");
    /* Infinities and NaN: NaN. */
    r = tc_lanes_fma(l, x, tc_lanes_float(l, 0), r);
    return (tc_angle){n, r};
}

/* ---- Functions ---- */

static void set_attribute(LLVMContextRef cx, LLVMValueRef fn, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(cx, kind, 0));
}

/* A function of a float to {quadrant, r}, the builder in it. For the same
 * machine as `caller`. */
static LLVMValueRef begin(LLVMBuilderRef b, LLVMValueRef caller,
                          const char *name, LLVMTypeRef type,
                          const char *inlining)
{
    LLVMContextRef cx = LLVMGetTypeContext(type);
    LLVMValueRef fn = LLVMAddFunction(LLVMGetGlobalParent(caller), name, type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    static const char *const keys[] = {"target-cpu", "target-features"};
    for (unsigned i = 0; i < 2; i++) {
        LLVMAttributeIndex at = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
        LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(
            caller, at, keys[i], (unsigned)strlen(keys[i]));
        if (a)
            LLVMAddAttributeAtIndex(fn, at, a);
    }
    /* memory with value 0 is memory(none): equal calls are one. */
    set_attribute(cx, fn, inlining);
    set_attribute(cx, fn, "memory");
    set_attribute(cx, fn, "nounwind");
    set_attribute(cx, fn, "willreturn");
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(cx, fn, ""));
    return fn;
}

static void give(LLVMBuilderRef b, tc_angle a)
{
    LLVMBuildAggregateRet(b, (LLVMValueRef[]){a.quadrant, a.r}, 2);
}

static tc_angle angle_call(LLVMBuilderRef b, LLVMTypeRef type, LLVMValueRef fn,
                           LLVMValueRef x)
{
    LLVMValueRef both = LLVMBuildCall2(b, type, fn, &x, 1, "");
    return (tc_angle){LLVMBuildExtractValue(b, both, 0, ""),
                      LLVMBuildExtractValue(b, both, 1, "")};
}

static LLVMValueRef far_function(LLVMBuilderRef b, LLVMValueRef caller,
                                 const char *name, LLVMTypeRef type)
{
    LLVMValueRef fn = begin(b, caller, name, type, "noinline");
    LLVMValueRef x = LLVMGetParam(fn, 0);
    tc_lanes l = tc_lanes_of(b, x);
    give(b, far_angle(&l, table(&l, LLVMGetGlobalParent(fn)), x));
    return fn;
}

static LLVMValueRef near_function(LLVMBuilderRef b, LLVMValueRef caller,
                                  const struct format *f, LLVMTypeRef type)
{
    LLVMContextRef cx = LLVMGetTypeContext(type);
    LLVMValueRef far = far_function(b, caller, f->far_name, type);
    LLVMValueRef fn = begin(b, caller, f->near_name, type, "alwaysinline");
    LLVMValueRef x = LLVMGetParam(fn, 0);
    tc_lanes l = tc_lanes_of(b, x);
    tc_angle a = near_angle(&l, x);
    LLVMValueRef usual = LLVMBuildFCmp(b, LLVMRealOLT, tc_lanes_abs(&l, x),
                                       tc_lanes_float(&l, f->usual), "");
    LLVMBasicBlockRef is_usual = LLVMAppendBasicBlockInContext(cx, fn, "usual");
    LLVMBasicBlockRef is_far = LLVMAppendBasicBlockInContext(cx, fn, "far");
    LLVMBuildCondBr(b, usual, is_usual, is_far);
    LLVMPositionBuilderAtEnd(b, is_usual);
    give(b, a);
    LLVMPositionBuilderAtEnd(b, is_far);
    give(b, angle_call(b, type, far, x));
    return fn;
}

tc_angle tc_nvptx_angle(LLVMBuilderRef b, LLVMValueRef x)
{
    tc_lanes l = tc_lanes_of(b, x);
    const struct format *f = format_of(&l);
    LLVMTypeRef both =
        LLVMStructTypeInContext(LLVMGetTypeContext(l.ints),
                                (LLVMTypeRef[]){l.ints, l.floats}, 2, false);
    LLVMTypeRef type = LLVMFunctionType(both, &l.floats, 1, false);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMValueRef caller = LLVMGetBasicBlockParent(here);
    LLVMValueRef fn =
        LLVMGetNamedFunction(LLVMGetGlobalParent(caller), f->near_name);
    if (!fn) {
        LLVMMetadataRef location = LLVMGetCurrentDebugLocation2(b);
        LLVMSetCurrentDebugLocation2(b, NULL);
        fn = near_function(b, caller, f, type);
        LLVMPositionBuilderAtEnd(b, here);
        LLVMSetCurrentDebugLocation2(b, location);
    }
    return angle_call(b, type, fn, x);
}
