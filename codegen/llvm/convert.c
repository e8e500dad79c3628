/* SPDX-License-Identifier: Apache-2.0
 *
 * Narrow floats, by one routine for all formats.
 *
 * |x| of f32 is e 8 bits, m 23 bits. For a format of m' mantissa bits, with
 * drop = 23 - m':
 *
 *   normal     add half of the last kept bit less one, plus that bit itself
 *              (ties to even), and cut `drop` bits; carries reach the exponent
 *   subnormal  add the number whose ulp is the format's smallest subnormal:
 *              the float addition rounds, and the low bits of the sum are the
 *              code
 *
 * The code of a normal number is then (bits >> drop) less the difference of
 * the exponent biases. Example, f8e4m3: 0.3 = 0x3e99999a, rounded at bit 20
 * 0x3ea00000, shifted 0x3ea, less (127 - 7) << 3 = 0x3c0: code 0x2a, 0.3125.
 */
#include "codegen/llvm/convert.h"

#include "codegen/llvm/lanes.h"

#include <assert.h>

#define F32_INFINITY 0x7f800000u
#define F32_SIGN     0x80000000u
enum { F32_MANTISSA = 23, F32_BIAS = 127 };

struct format {
    unsigned mantissa, bias, bits;
    bool has_infinity, saturates;
    unsigned top; /* code of the largest finite number */
    unsigned nan; /* a code of NaN; all positive codes above top are, but for
                     infinity where there is one */
};

static const struct format formats[TC_F64 + 1] = {
    [TC_F8E4M3] = {3, 7, 8, false, true, 0x7e, 0x7f},
    [TC_F8E5M2] = {2, 15, 8, true, true, 0x7b, 0x7e},
    [TC_F16] = {10, 15, 16, true, false, 0x7bff, 0x7e00},
    [TC_BF16] = {7, 127, 16, true, false, 0x7f7f, 0x7fc0},
};

static const struct format *format_of(tc_kind kind)
{
    assert(kind <= TC_F64 && formats[kind].bits);
    return &formats[kind];
}

static unsigned dropped(const struct format *f)
{
    return F32_MANTISSA - f->mantissa;
}

/* Bits of the f32 of the smallest normal number. */
static unsigned least_normal(const struct format *f)
{
    return (F32_BIAS + 1 - f->bias) << F32_MANTISSA;
}

/* The difference between a shifted f32 and the code. */
static unsigned rebias(const struct format *f)
{
    return (F32_BIAS - f->bias) << f->mantissa;
}

/* ---- Integer arithmetic on lanes ---- */

static LLVMValueRef convert_add(const tc_lanes *l, LLVMValueRef x, unsigned k)
{
    return LLVMBuildAdd(l->b, x, tc_lanes_int(l, k), "");
}

static LLVMValueRef sub(const tc_lanes *l, LLVMValueRef x, unsigned k)
{
    return LLVMBuildSub(l->b, x, tc_lanes_int(l, k), "");
}

static LLVMValueRef and (const tc_lanes *l, LLVMValueRef x, unsigned k)
{
    return LLVMBuildAnd(l->b, x, tc_lanes_int(l, k), "");
}

static LLVMValueRef shl(const tc_lanes *l, LLVMValueRef x, unsigned k)
{
    return LLVMBuildShl(l->b, x, tc_lanes_int(l, k), "");
}

static LLVMValueRef shr(const tc_lanes *l, LLVMValueRef x, unsigned k)
{
    return LLVMBuildLShr(l->b, x, tc_lanes_int(l, k), "");
}

static LLVMValueRef or (const tc_lanes *l, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildOr(l->b, x, y, "");
}

/* x above limit (unsigned) ? yes : no. */
static LLVMValueRef if_above(const tc_lanes *l, LLVMValueRef x, unsigned limit,
                             LLVMValueRef yes, LLVMValueRef no)
{
    LLVMValueRef c =
        LLVMBuildICmp(l->b, LLVMIntUGT, x, tc_lanes_int(l, limit), "");
    return LLVMBuildSelect(l->b, c, yes, no, "");
}

/* ---- Rounding ---- */

/* Bits of |x| rounded to f->mantissa bits, the dropped ones not yet cleared. */
static LLVMValueRef add_half(const tc_lanes *l, const struct format *f,
                             LLVMValueRef a)
{
    LLVMValueRef last = and(l, shr(l, a, dropped(f)), 1);
    LLVMValueRef half = convert_add(l, a, (1u << (dropped(f) - 1)) - 1);
    return LLVMBuildAdd(l->b, half, last, "");
}

/* Bits of the number whose f32 ulp is the smallest subnormal of f. */
static unsigned subnormal_magic(const struct format *f)
{
    return least_normal(f) + (dropped(f) << F32_MANTISSA);
}

static LLVMValueRef magic_float(const tc_lanes *l, const struct format *f)
{
    return tc_lanes_as_float(l, tc_lanes_int(l, subnormal_magic(f)));
}

/* Positive bits `a`, not NaN, to the bits of the nearest number of f. */
static LLVMValueRef round_bits(const tc_lanes *l, const struct format *f,
                               LLVMValueRef a)
{
    unsigned top = (f->top + rebias(f)) << dropped(f);
    LLVMValueRef r = and(l, add_half(l, f, a), ~0u << dropped(f));
    if (f->bias != F32_BIAS) { /* else they are subnormal in f32 too */
        LLVMValueRef m = magic_float(l, f);
        LLVMValueRef s = LLVMBuildFAdd(l->b, tc_lanes_as_float(l, a), m, "");
        s = tc_lanes_as_int(l, LLVMBuildFSub(l->b, s, m, ""));
        r = if_above(l, a, least_normal(f) - 1, r, s);
        unsigned over = f->saturates ? top : F32_INFINITY;
        r = if_above(l, r, top, tc_lanes_int(l, over), r);
    }
    return r;
}

static LLVMValueRef round_float(const tc_lanes *l, const struct format *f,
                                LLVMValueRef x)
{
    LLVMValueRef bits = tc_lanes_as_int(l, x);
    LLVMValueRef a = and(l, bits, ~F32_SIGN);
    LLVMValueRef r = or (l, round_bits(l, f, a), and(l, bits, F32_SIGN));
    return tc_lanes_as_float(l, if_above(l, a, F32_INFINITY, bits, r));
}

/* ---- Packing ---- */

/* Positive bits, not NaN, to the code of the nearest number of f. */
static LLVMValueRef encode(const tc_lanes *l, const struct format *f,
                           LLVMValueRef a)
{
    LLVMValueRef code = shr(l, add_half(l, f, a), dropped(f));
    if (f->bias == F32_BIAS)
        return code;
    LLVMValueRef s =
        LLVMBuildFAdd(l->b, tc_lanes_as_float(l, a), magic_float(l, f), "");
    s = sub(l, tc_lanes_as_int(l, s), subnormal_magic(f));
    code = if_above(l, a, least_normal(f) - 1, sub(l, code, rebias(f)), s);
    unsigned over = f->saturates ? f->top : f->top + 1;
    code = if_above(l, code, f->top, tc_lanes_int(l, over), code);
    if (f->saturates && f->has_infinity)
        code =
            if_above(l, a, F32_INFINITY - 1, tc_lanes_int(l, f->top + 1), code);
    return code;
}

static LLVMTypeRef code_type(const tc_lanes *l, const struct format *f)
{
    LLVMContextRef cx = LLVMGetTypeContext(l->ints);
    return tc_lanes_type(l, LLVMIntTypeInContext(cx, f->bits));
}

static LLVMValueRef pack_float(const tc_lanes *l, const struct format *f,
                               LLVMValueRef x)
{
    LLVMValueRef bits = tc_lanes_as_int(l, x);
    LLVMValueRef a = and(l, bits, ~F32_SIGN);
    LLVMValueRef code =
        if_above(l, a, F32_INFINITY, tc_lanes_int(l, f->nan), encode(l, f, a));
    LLVMValueRef sign = shr(l, and(l, bits, F32_SIGN), 32 - f->bits);
    return LLVMBuildTrunc(l->b, or (l, code, sign), code_type(l, f), "");
}

/* ---- Unpacking ---- */

/* A positive code to the bits of its f32. */
static LLVMValueRef decode(const tc_lanes *l, const struct format *f,
                           LLVMValueRef code)
{
    LLVMValueRef wide = shl(l, code, dropped(f));
    unsigned shift = rebias(f) << dropped(f);
    LLVMValueRef r = convert_add(l, wide, shift);
    /* Subnormal: put in the smallest normal exponent, it is too large by just
     * that power of two. */
    LLVMValueRef one_up = tc_lanes_as_float(
        l, convert_add(l, wide, shift + (1u << F32_MANTISSA)));
    LLVMValueRef least = tc_lanes_as_float(l, tc_lanes_int(l, least_normal(f)));
    LLVMValueRef s = tc_lanes_as_int(l, LLVMBuildFSub(l->b, one_up, least, ""));
    r = if_above(l, code, (1u << f->mantissa) - 1, r, s);
    /* Above the largest: infinity, or NaN with the payload moved along. */
    return if_above(l, code, f->top,
                    or (l, wide, tc_lanes_int(l, F32_INFINITY)), r);
}

static LLVMValueRef unpack_bits(const tc_lanes *l, const struct format *f,
                                LLVMValueRef bits)
{
    LLVMValueRef wide = LLVMBuildZExt(l->b, bits, l->ints, "");
    if (f->bias == F32_BIAS) /* bf16: the upper half of an f32 */
        return tc_lanes_as_float(l, shl(l, wide, 16));
    unsigned sign_bit = 1u << (f->bits - 1);
    LLVMValueRef sign = shl(l, and(l, wide, sign_bit), 32 - f->bits);
    LLVMValueRef r = decode(l, f, and(l, wide, sign_bit - 1));
    return tc_lanes_as_float(l, or (l, r, sign));
}

/* ---- F16C ---- */

static bool has_f16c(const tc_lanes *l)
{
    return tc_lanes_target_has(l->b, "f16c");
}

static LLVMTypeRef half_type(const tc_lanes *l)
{
    return tc_lanes_type(l, LLVMHalfTypeInContext(LLVMGetTypeContext(l->ints)));
}

static LLVMValueRef from_half_bits(const tc_lanes *l, LLVMValueRef bits)
{
    LLVMValueRef h = LLVMBuildBitCast(l->b, bits, half_type(l), "");
    return LLVMBuildFPExt(l->b, h, l->floats, "");
}

/* e4m3 moved into f16's exponent field is too small by the difference of the
 * biases, 2^8. */
static LLVMValueRef unpack_e4m3_by_half(const tc_lanes *l, LLVMValueRef bits)
{
    LLVMContextRef cx = LLVMGetTypeContext(l->ints);
    LLVMTypeRef i16 = tc_lanes_type(l, LLVMInt16TypeInContext(cx));
    LLVMValueRef wide = LLVMBuildZExt(l->b, bits, i16, "");
    tc_lanes h = tc_lanes_of(l->b, wide);
    LLVMValueRef sign = shl(&h, and(&h, wide, 0x80), 8);
    LLVMValueRef half = or (&h, shl(&h, and(&h, wide, 0x7f), 7), sign);
    LLVMValueRef r = LLVMBuildFMul(l->b, from_half_bits(l, half),
                                   tc_lanes_float(l, 0x1p8), "");
    /* NaN is the code after 448; its sign stays, so that a bitcast to e4m3 and
     * back gives all bits. */
    LLVMValueRef a = tc_lanes_as_int(l, tc_lanes_abs(l, r));
    LLVMValueRef same = tc_lanes_as_int(l, r);
    LLVMValueRef nan =
        or (l, and(l, same, F32_SIGN), tc_lanes_int(l, 0x7fc00000));
    return tc_lanes_as_float(l, if_above(l, a, 0x43e00000, nan, same));
}

/* e5m2 is the upper half of an f16. */
static LLVMValueRef unpack_e5m2_by_half(const tc_lanes *l, LLVMValueRef bits)
{
    LLVMContextRef cx = LLVMGetTypeContext(l->ints);
    LLVMTypeRef i16 = tc_lanes_type(l, LLVMInt16TypeInContext(cx));
    LLVMValueRef wide = LLVMBuildZExt(l->b, bits, i16, "");
    tc_lanes h = tc_lanes_of(l->b, wide);
    return from_half_bits(l, shl(&h, wide, 8));
}

static LLVMValueRef to_half(const tc_lanes *l, LLVMValueRef x)
{
    return LLVMBuildFPTrunc(l->b, x, half_type(l), "");
}

/* ---- From wider types ---- */

/* x (double) cut to float "to odd": toward 0, the last bit set if that lost
 * anything. float has more than two bits more than any narrow kind, so rounding
 * the result once more is the same as rounding x once. */
static LLVMValueRef cut_to_odd(LLVMBuilderRef b, LLVMValueRef x)
{
    tc_lanes d = tc_lanes_of(b, x);
    LLVMTypeRef f32 = LLVMFloatTypeInContext(LLVMGetTypeContext(d.floats));
    LLVMValueRef y = LLVMBuildFPTrunc(b, x, tc_lanes_type(&d, f32), "");
    tc_lanes l = tc_lanes_of(b, y);
    LLVMValueRef back = LLVMBuildFPExt(b, y, d.floats, "");
    LLVMValueRef away = LLVMBuildFCmp(b, LLVMRealOGT, tc_lanes_abs(&d, back),
                                      tc_lanes_abs(&d, x), "");
    LLVMValueRef lost = LLVMBuildFCmp(b, LLVMRealONE, back, x, "");
    LLVMValueRef bits = tc_lanes_as_int(&l, y);
    bits = LLVMBuildSub(b, bits, LLVMBuildZExt(b, away, l.ints, ""), "");
    bits = or (&l, bits, LLVMBuildZExt(b, lost, l.ints, ""));
    return tc_lanes_as_float(&l, bits);
}

/* x as float with enough of it left to round once to a narrow kind. */
static LLVMValueRef narrowed(LLVMBuilderRef b, LLVMValueRef x)
{
    return tc_lanes_of(b, x).bits == 64 ? cut_to_odd(b, x) : x;
}

/* An i64 to double: of what double cannot hold, bits 0 to 10 of a large
 * number, it is kept in bit 11 that there was something (a number of 2^53 or
 * more; of a smaller one these bits count). */
static LLVMValueRef long_to_double(LLVMBuilderRef b, LLVMValueRef x)
{
    tc_lanes l = tc_lanes_of(b, x);
    LLVMValueRef low = LLVMBuildAnd(b, x, tc_lanes_int(&l, 0x7ff), "");
    LLVMValueRef carried = LLVMBuildAdd(b, low, tc_lanes_int(&l, 0x7ff), "");
    LLVMValueRef sticky = or (&l, x, carried);
    sticky = LLVMBuildAnd(b, sticky, tc_lanes_int(&l, ~UINT64_C(0x7ff)), "");
    /* -2^53 <= x < 2^53, as one unsigned comparison. */
    LLVMValueRef moved =
        LLVMBuildAdd(b, x, tc_lanes_int(&l, UINT64_C(1) << 53), "");
    LLVMValueRef fits = LLVMBuildICmp(b, LLVMIntULT, moved,
                                      tc_lanes_int(&l, UINT64_C(1) << 54), "");
    LLVMValueRef kept = LLVMBuildSelect(b, fits, x, sticky, "");
    return LLVMBuildSIToFP(b, kept, l.floats, "");
}

/* ---- What the header declares ---- */

LLVMValueRef tc_llvm_round(LLVMBuilderRef b, tc_kind kind, LLVMValueRef x)
{
    tc_lanes l = tc_lanes_of(b, x);
    if (kind == TC_F32) {
        LLVMTypeRef f32 = LLVMFloatTypeInContext(LLVMGetTypeContext(l.floats));
        return l.bits == 64 ? LLVMBuildFPTrunc(b, x, tc_lanes_type(&l, f32), "")
                            : x;
    }
    x = narrowed(b, x);
    l = tc_lanes_of(b, x);
    if (kind == TC_F16 && has_f16c(&l))
        return LLVMBuildFPExt(b, to_half(&l, x), l.floats, "");
    return round_float(&l, format_of(kind), x);
}

LLVMValueRef tc_llvm_round_int(LLVMBuilderRef b, tc_kind kind, LLVMValueRef x)
{
    tc_lanes l = tc_lanes_of(b, x);
    LLVMContextRef cx = LLVMGetTypeContext(l.ints);
    if (kind == TC_F32) {
        LLVMTypeRef f32 = tc_lanes_type(&l, LLVMFloatTypeInContext(cx));
        return LLVMBuildSIToFP(b, x, f32, "");
    }
    if (l.bits == 64)
        return tc_llvm_round(b, kind, long_to_double(b, x));
    LLVMTypeRef f64 = tc_lanes_type(&l, LLVMDoubleTypeInContext(cx));
    return tc_llvm_round(b, kind, LLVMBuildSIToFP(b, x, f64, ""));
}

LLVMValueRef tc_llvm_pack(LLVMBuilderRef b, tc_kind kind, LLVMValueRef x)
{
    if (kind == TC_F32)
        return tc_llvm_round(b, kind, x);
    x = narrowed(b, x);
    tc_lanes l = tc_lanes_of(b, x);
    const struct format *f = format_of(kind);
    if (kind == TC_F16 && has_f16c(&l))
        return LLVMBuildBitCast(b, to_half(&l, x), code_type(&l, f), "");
    return pack_float(&l, f, x);
}

LLVMValueRef tc_llvm_unpack(LLVMBuilderRef b, tc_kind kind, LLVMValueRef bits)
{
    if (kind == TC_F32)
        return bits;
    LLVMContextRef cx = LLVMGetTypeContext(LLVMTypeOf(bits));
    tc_lanes code = tc_lanes_of(b, bits);
    LLVMTypeRef f32 = tc_lanes_type(&code, LLVMFloatTypeInContext(cx));
    tc_lanes l = tc_lanes_of(b, LLVMGetUndef(f32));
    /* Not for one i16: LLVM 22 merges a bitcast of a comparison's mask to half
     * into what no instruction does. */
    bool one = LLVMGetTypeKind(LLVMTypeOf(bits)) == LLVMIntegerTypeKind;
    if (kind == TC_BF16 || one || !has_f16c(&l))
        return unpack_bits(&l, format_of(kind), bits);
    return kind == TC_F16      ? from_half_bits(&l, bits)
           : kind == TC_F8E4M3 ? unpack_e4m3_by_half(&l, bits)
                               : unpack_e5m2_by_half(&l, bits);
}

LLVMTypeRef tc_llvm_storage(LLVMContextRef cx, tc_kind kind)
{
    if (kind == TC_F64)
        return LLVMDoubleTypeInContext(cx);
    if (kind == TC_F32)
        return LLVMFloatTypeInContext(cx);
    return LLVMIntTypeInContext(cx, format_of(kind)->bits);
}
