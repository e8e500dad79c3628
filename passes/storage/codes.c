/* SPDX-License-Identifier: Apache-2.0
 *
 *   cast %c : tile<64 x f8e8m0>, f32
 *   ->
 *   %e = and (cast %c, i32), 255
 *   %bits = max (shl %e, 23), 0x400000           // 2^-127 is subnormal in f32
 *   bitcast (select %e == 255, 0x7fc00000, %bits), f32
 *
 * The functions of kernels/std/formats.tile do the same with codes that a
 * kernel unpacks itself.
 *
 * Tests: test/ir/passes/lower-storage, test/numerics/storage.c.
 */
#include "passes/storage/codes.h"

#include "passes/analysis/match.h"

static tc_kind kind_of(const tc_value *v)
{
    return tc_type_elem(v->type)->kind;
}

static tc_value *as_bits(tc_builder *b, tc_value *v, tc_kind to)
{
    return tc_build_bitcast(b, v, tc_build_type(b, v->type, to));
}

static unsigned bits_of(tc_kind kind)
{
    return tc_scalar_infos[kind].bits;
}

static bool is_unsigned(tc_kind kind)
{
    return kind == TC_U8 || kind == TC_U16 || kind == TC_U32;
}

static bool is_int_format(tc_kind kind)
{
    return is_unsigned(kind) || kind == TC_I4 || kind == TC_U4;
}

tc_kind tc_stored_widest(tc_kind kind)
{
    if (!is_int_format(kind))
        return TC_F32;
    return kind == TC_U32 ? TC_I64 : TC_I32;
}

tc_value *tc_stored_of_low_bits(tc_builder *b, tc_value *v, tc_kind kind)
{
    if (kind != TC_I4)
        return tc_build_with(b, TC_AND, v, 15);
    return tc_build_with(b, TC_SHR, tc_build_with(b, TC_SHL, v, 4), 4);
}

/* ---- From codes ---- */

static tc_value *decode_unsigned(tc_builder *b, tc_value *v, tc_kind from,
                                 tc_kind to)
{
    bool fits = !tc_kind_is_float(to) && bits_of(to) <= bits_of(from);
    if (fits) /* the low bits, of i1 whether it is 0 */
        return tc_build_cast(b, v, to);
    int64_t mask = (int64_t)(~0ull >> (64 - bits_of(from)));
    v = tc_build_with(b, TC_AND, tc_build_cast(b, v, tc_stored_widest(from)),
                      mask);
    return tc_build_cast(b, v, to);
}

/* 2^(e - 127), 255 is NaN. In bf16 the bits are those of f32, without the low
 * ones. */
static tc_value *decode_e8m0(tc_builder *b, tc_value *v, tc_kind to)
{
    bool narrow = to == TC_BF16;
    tc_value *e = tc_build_with(
        b, TC_AND, tc_build_cast(b, v, narrow ? TC_I16 : TC_I32), 255);
    tc_value *bits = tc_build_with(b, TC_SHL, e, narrow ? 7 : 23);
    bits = tc_build_with(b, TC_MAX, bits, narrow ? 0x40 : 0x400000);
    tc_value *nan =
        tc_build_int_const(b, e->type, narrow ? 0x7fc0 : 0x7fc00000);
    bits = tc_build_select(
        b, tc_build_cmp(b, "eq", e, tc_build_int_const(b, e->type, 255)), nan,
        bits);
    return tc_build_cast(b, as_bits(b, bits, narrow ? TC_BF16 : TC_F32), to);
}

/* From 1 on the bits of the magnitude are those of a larger float, shifted and
 * with a larger bias; 0 and 0.5 are subnormal. */
static tc_value *decode_e2m1(tc_builder *b, tc_value *v, tc_kind to)
{
    static const struct {
        tc_kind to, bits;
        unsigned shift;
        int64_t half; /* 0.5 */
    } formats[] = {{TC_F16, TC_I16, 9, 0x3800},
                   {TC_BF16, TC_I16, 6, 0x3f00},
                   {TC_F32, TC_I32, 22, 0x3f000000}};
    unsigned i = to == TC_F16 ? 0 : to == TC_BF16 ? 1 : 2;
    tc_value *code = tc_build_cast(b, v, formats[i].bits);
    tc_value *magnitude = tc_build_with(b, TC_AND, code, 7);
    tc_value *normal = tc_build_with(
        b, TC_ADD, tc_build_with(b, TC_SHL, magnitude, formats[i].shift),
        formats[i].half);
    tc_value *tiny = tc_build_with(b, TC_MUL, magnitude, formats[i].half);
    tc_value *is_tiny = tc_build_cmp(b, "lt", magnitude,
                                     tc_build_int_const(b, magnitude->type, 2));
    tc_value *sign = tc_build_with(b, TC_SHL, tc_build_with(b, TC_AND, code, 8),
                                   bits_of(formats[i].bits) - 4);
    tc_value *bits = tc_build_binary(
        b, TC_OR, tc_build_select(b, is_tiny, tiny, normal), sign);
    return tc_build_cast(b, as_bits(b, bits, formats[i].to), to);
}

tc_value *tc_stored_decode(tc_builder *b, tc_value *v, tc_kind from, tc_kind to)
{
    if (is_unsigned(from))
        return decode_unsigned(b, v, from, to);
    if (is_int_format(from))
        return tc_build_cast(b, v, to);
    return from == TC_F8E8M0 ? decode_e8m0(b, v, to) : decode_e2m1(b, v, to);
}

/* ---- To codes ---- */

/* Of floats towards 0, and saturated; NaN gives 0. Ints wrap. */
static tc_value *encode_int(tc_builder *b, tc_value *v, tc_kind to)
{
    tc_kind code = tc_scalar_infos[to].code;
    unsigned bits = bits_of(to);
    if (tc_kind_is_float(kind_of(v))) {
        int64_t low = to == TC_I4 ? -8 : 0;
        v = tc_build_cast(b, v, tc_stored_widest(to));
        v = tc_build_with(b, TC_MAX, v, low);
        v = tc_build_with(b, TC_MIN, v, low + (int64_t)(~0ull >> (64 - bits)));
        return tc_build_cast(b, v, code);
    }
    v = tc_build_cast(b, v, code);
    return bits == 4 ? tc_stored_of_low_bits(b, v, to) : v;
}

/* The nearest power of two of the magnitude, of two the larger. */
static tc_value *encode_e8m0(tc_builder *b, tc_value *v)
{
    enum { INF = 0x7f800000, NORMAL = 0x800000 };
    tc_value *bits = tc_build_with(
        b, TC_AND, as_bits(b, tc_build_cast(b, v, TC_F32), TC_I32), 0x7fffffff);
    tc_value *subnormal =
        tc_build_cmp(b, "lt", bits, tc_build_int_const(b, bits->type, NORMAL));
    tc_value *half = tc_build_select(
        b, subnormal, tc_build_int_const(b, bits->type, 0x200000),
        tc_build_int_const(b, bits->type, 0x400000));
    tc_value *e =
        tc_build_with(b, TC_SHRU, tc_build_binary(b, TC_ADD, bits, half), 23);
    e = tc_build_with(b, TC_MIN, e, 254);
    tc_value *is_nan =
        tc_build_cmp(b, "gt", bits, tc_build_int_const(b, bits->type, INF));
    return tc_build_cast(
        b, tc_build_select(b, is_nan, tc_build_int_const(b, e->type, 255), e),
        TC_I8);
}

/* To nearest, ties to an even code, saturated; NaN gives 6, as PTX's cvt. The
 * code counts the bounds between neighbours that the magnitude is above; on one
 * that leads to an odd code it stays below. */
static tc_value *encode_e2m1(tc_builder *b, tc_value *v)
{
    static const double bounds[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0};
    v = kind_of(v) == TC_F64 ? v : tc_build_cast(b, v, TC_F32);
    tc_value *magnitude = tc_build_unary(b, TC_ABS, v), *code = NULL;
    for (unsigned i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        tc_value *bound =
            tc_build_const(b, v->type, (tc_scalar){.f = bounds[i]});
        tc_value *above =
            tc_build_cmp(b, i % 2 ? "ge" : "gt", magnitude, bound);
        above = tc_build_cast(b, above, TC_I32);
        code = code ? tc_build_binary(b, TC_ADD, code, above) : above;
    }
    tc_value *sign = as_bits(b, tc_build_cast(b, v, TC_F32), TC_I32);
    sign = tc_build_with(b, TC_SHL, tc_build_with(b, TC_SHRU, sign, 31), 3);
    code = tc_build_binary(b, TC_OR, code, sign);
    tc_value *is_nan = tc_build_cmp(b, "ne", v, v);
    return tc_build_cast(
        b,
        tc_build_select(b, is_nan, tc_build_int_const(b, code->type, 7), code),
        TC_I8);
}

tc_value *tc_stored_encode(tc_builder *b, tc_value *v, tc_kind to)
{
    if (is_int_format(to))
        return encode_int(b, v, to);
    if (!tc_kind_is_float(kind_of(v)))
        v = tc_build_cast(b, v, TC_F32);
    return to == TC_F8E8M0 ? encode_e8m0(b, v) : encode_e2m1(b, v);
}

tc_value *tc_stored_convert(tc_builder *b, tc_value *v, tc_kind from,
                            tc_kind to)
{
    if (from == to)
        return v;
    return tc_stored_encode(
        b, tc_stored_decode(b, v, from, tc_stored_widest(from)), to);
}

/* ---- None left ---- */

bool tc_storage_is_lowered(const tc_func *f, const char *user)
{
    tc_each_nested (op, f->body)
        for (unsigned i = 0; i < op->nout; i++)
            if (tc_type_is_stored(op->out[i]->type))
                return tc_error(
                    tc_op_context(op), op->loc,
                    "%s: %s, of a storage type: %s takes the ints "
                    "that hold its codes, `lower-storage` comes "
                    "first",
                    tc_op_name(op),
                    tc_type_name(tc_op_context(op), op->out[i]->type), user);
    return true;
}
