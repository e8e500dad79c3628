/* SPDX-License-Identifier: Apache-2.0
 *
 * The scalar semantics, rule by rule (ir/LANGUAGE.md, "Scalar semantics").
 *
 * Conversions to floats are compared with a reference that shares nothing
 * with ir/eval/eval.c: the list of all numbers that a format has, decoded bit
 * by bit, and a search for the nearest one.
 */
#include "ir/eval/eval.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The reference for narrow floats ---- */

struct format {
    tc_kind kind;
    int bits, exponent_bits, mantissa_bits;
    bool has_inf, saturates;
};

static const struct format formats[] = {
    {TC_F8E4M3, 8, 4, 3, false, true},
    {TC_F8E5M2, 8, 5, 2, true, true},
    {TC_F16, 16, 5, 10, true, false},
    {TC_BF16, 16, 8, 7, true, false},
};

static double two_to(int e)
{
    double x = 1;
    for (; e > 0; e--)
        x *= 2;
    for (; e < 0; e++)
        x /= 2;
    return x;
}

/* What the OCP fp8 and IEEE 754 documents say of a bit pattern. */
static double decode(const struct format *f, unsigned bits)
{
    int m = f->mantissa_bits, top = (1 << f->exponent_bits) - 1;
    int exponent = (int)(bits >> m) & top;
    int mantissa = (int)(bits & ((1u << m) - 1));
    int bias = top / 2;
    double sign = bits >> (f->bits - 1) ? -1 : 1;
    if (exponent == top && f->has_inf)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == top && mantissa == (1 << m) - 1)
        return NAN;
    if (exponent == 0)
        return sign * mantissa * two_to(1 - bias - m);
    return sign * (mantissa + (1 << m)) * two_to(exponent - bias - m);
}

/* The non-negative finite numbers, which ascend with their bits. */
static double numbers[1 << 15];
static unsigned nnumbers;

static void list_numbers(const struct format *f)
{
    nnumbers = 0;
    while (nnumbers < 1u << (f->bits - 1) && isfinite(decode(f, nnumbers))) {
        numbers[nnumbers] = decode(f, nnumbers);
        nnumbers++;
    }
}

/* To nearest, ties to an even last bit. */
static double round_by_search(const struct format *f, double x)
{
    unsigned lo = 0, hi = nnumbers - 1;
    double a = fabs(x), max = numbers[hi];
    double step = max - numbers[hi - 1];
    if (isnan(x))
        return x;
    if (a > max && f->saturates)
        return copysign(max, x);
    if (a >= max + step / 2) /* the tie would go to the even 2^k: infinity */
        return copysign(INFINITY, x);
    if (a >= max)
        return copysign(max, x);
    while (hi - lo > 1) {
        unsigned middle = (lo + hi) / 2;
        *(numbers[middle] <= a ? &lo : &hi) = middle;
    }
    double below = a - numbers[lo], above = numbers[hi] - a;
    bool up = above < below || (above == below && lo % 2 == 1);
    return copysign(numbers[up ? hi : lo], x);
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

START_TEST(test_bits_of_every_pattern)
{
    const struct format *f = &formats[_i];
    for (unsigned bits = 0; bits < 1u << f->bits; bits++) {
        double want = decode(f, bits), got = tc_float_from_bits(f->kind, bits);
        ck_assert_msg(same(want, got), "%x: %a, expected %a", bits, got, want);
        bool saturated = f->saturates && isinf(want);
        if (!isnan(want) && !saturated)
            ck_assert_uint_eq(tc_float_to_bits(f->kind, want), bits);
    }
}
END_TEST

static void check_rounding(const struct format *f, double x)
{
    for (int sign = 0; sign < 2; sign++, x = -x) {
        double want = round_by_search(f, x), got = tc_round_to(f->kind, x);
        ck_assert_msg(same(want, got), "%a: %a, expected %a", x, got, want);
    }
}

/* Each number, the middle to the next, and the neighbors of both: all
 * places where rounding can go wrong. */
START_TEST(test_rounding_at_every_boundary)
{
    const struct format *f = &formats[_i];
    list_numbers(f);
    for (unsigned i = 0; i < nnumbers; i++) {
        double a = numbers[i];
        double b = i + 1 < nnumbers ? numbers[i + 1] : 2 * a - numbers[i - 1];
        double middle = a + (b - a) / 2;
        const double probes[] = {a, middle};
        for (int k = 0; k < 2; k++) {
            check_rounding(f, probes[k]);
            check_rounding(f, nextafter(probes[k], INFINITY));
            check_rounding(f, nextafter(probes[k], -INFINITY));
        }
    }
    check_rounding(f, INFINITY);
    check_rounding(f, NAN);
    check_rounding(f, 1e300);
    check_rounding(f, 4.9406564584124654e-324);
}
END_TEST

START_TEST(test_round_to_f32)
{
    /* 1 + 2^-24 is a tie, to even; next to it, to the nearest. */
    ck_assert(tc_round_to(TC_F32, 1 + 0x1p-24) == 1);
    ck_assert(tc_round_to(TC_F32, 1 + 0x1p-24 + 0x1p-50) == 1 + 0x1p-23);
    ck_assert(tc_round_to(TC_F32, 1e39) == INFINITY);
    ck_assert(tc_round_to(TC_F32, 0x1p-150) == 0);
    ck_assert(tc_round_to(TC_F64, 0.1) == 0.1);
    ck_assert_uint_eq(tc_float_to_bits(TC_F32, -0.0), 0x80000000u);
    ck_assert_uint_eq(tc_float_to_bits(TC_F32, 1.5), 0x3fc00000u);
    ck_assert_uint_eq(tc_float_to_bits(TC_F32, NAN), 0x7fc00000u);
    ck_assert_uint_eq(tc_float_to_bits(TC_F64, NAN), 0x7ff8000000000000u);
    ck_assert_uint_eq(tc_float_to_bits(TC_F64, -INFINITY), 0xfff0000000000000u);
    srand(1);
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)rand() << 16 ^ (uint32_t)rand();
        float x;
        memcpy(&x, &bits, 4);
        ck_assert(same(tc_float_from_bits(TC_F32, bits), (double)x));
        if (!isnan(x))
            ck_assert_uint_eq(tc_float_to_bits(TC_F32, (double)x), bits);
    }
}
END_TEST

/* ---- Ops ---- */

static tc_module *m;
static tc_func *f;
static tc_op *latest[TC_OPCODE_COUNT]; /* mostly the same again */

static void setup(void)
{
    memset(latest, 0, sizeof latest);
    fixture_setup();
    m = tc_module_new(cx);
    f = tc_func_new(m, "f", false, (tc_loc){0});
}

static void teardown(void)
{
    tc_module_free(m);
    fixture_teardown();
}

static tc_op *build(tc_opcode code, tc_kind kind, tc_kind to, unsigned nin)
{
    tc_value *values[3];
    for (unsigned i = 0; i < nin; i++) {
        bool condition = code == TC_SELECT && i == 0;
        values[i] = tc_region_add_arg(
            f->body, tc_type_scalar(cx, condition ? TC_I1 : kind), NULL,
            (tc_loc){0});
    }
    tc_op *op = tc_op_new(f, code, (tc_loc){0}, nin, values, 0);
    const tc_type *type = tc_type_scalar(cx, to);
    tc_op_set_results(op, 1, &type);
    return op;
}

/* `word` is a predicate or NULL; `to` the result's kind. */
static bool eval(tc_opcode code, tc_kind kind, tc_kind to, const char *word,
                 unsigned nin, const tc_scalar *in, tc_scalar *out)
{
    tc_op *op = latest[code];
    if (!op || op->nin != nin ||
        op->in[nin - 1]->type != tc_type_scalar(cx, kind) ||
        op->out[0]->type != tc_type_scalar(cx, to))
        op = latest[code] = build(code, kind, to, nin);
    if (word)
        tc_op_set_word(op, "pred", word);
    return tc_eval_op(op, in, out);
}

static int64_t int_op(tc_opcode code, tc_kind kind, int64_t a, int64_t b)
{
    tc_scalar in[] = {{.i = a}, {.i = b}}, out;
    bool one = code == TC_NEG || code == TC_NOT || code == TC_ABS;
    ck_assert(eval(code, kind, kind, NULL, one ? 1 : 2, in, &out));
    return out.i;
}

static double float_op(tc_opcode code, tc_kind kind, double a, double b)
{
    tc_scalar in[] = {{.f = a}, {.f = b}}, out;
    bool two = tc_op_infos[code].in[1] == '=';
    ck_assert(eval(code, kind, kind, NULL, two ? 2 : 1, in, &out));
    return out.f;
}

static bool cmp(tc_kind kind, const char *pred, tc_scalar a, tc_scalar b)
{
    tc_scalar in[] = {a, b}, out;
    ck_assert(eval(TC_CMP, kind, TC_I1, pred, 2, in, &out));
    return out.i;
}

START_TEST(test_ints_wrap)
{
    ck_assert_int_eq(int_op(TC_ADD, TC_I8, 127, 1), -128);
    ck_assert_int_eq(int_op(TC_SUB, TC_I16, -32768, 1), 32767);
    ck_assert_int_eq(int_op(TC_MUL, TC_I32, 1 << 30, 4), 0);
    ck_assert_int_eq(int_op(TC_ADD, TC_I64, INT64_MAX, 1), INT64_MIN);
    ck_assert_int_eq(int_op(TC_NEG, TC_I32, INT32_MIN, 0), INT32_MIN);
    ck_assert_int_eq(int_op(TC_ABS, TC_I32, INT32_MIN, 0), INT32_MIN);
    ck_assert_int_eq(int_op(TC_ABS, TC_I8, -5, 0), 5);
}
END_TEST

START_TEST(test_div_and_rem_floor)
{
    ck_assert_int_eq(int_op(TC_DIV, TC_I32, 7, 2), 3);
    ck_assert_int_eq(int_op(TC_DIV, TC_I32, -7, 2), -4);
    ck_assert_int_eq(int_op(TC_DIV, TC_I32, 7, -2), -4);
    ck_assert_int_eq(int_op(TC_DIV, TC_I32, -7, -2), 3);
    ck_assert_int_eq(int_op(TC_REM, TC_I32, 7, 2), 1);
    ck_assert_int_eq(int_op(TC_REM, TC_I32, -7, 2), 1);
    ck_assert_int_eq(int_op(TC_REM, TC_I32, 7, -2), -1);
    ck_assert_int_eq(int_op(TC_REM, TC_I32, -7, -2), -1);
}
END_TEST

/* q = floor(a / b) and a = q b + r, for all pairs of i8. */
START_TEST(test_div_and_rem_of_all_i8)
{
    for (int a = -128; a < 128; a++)
        for (int b = -128; b < 128; b++) {
            int64_t q = int_op(TC_DIV, TC_I8, a, b);
            int64_t r = int_op(TC_REM, TC_I8, a, b);
            if (b == 0) {
                ck_assert_int_eq(q, 0);
                ck_assert_int_eq(r, a);
            } else if (a == -128 && b == -1) {
                ck_assert_int_eq(q, -128);
                ck_assert_int_eq(r, 0);
            } else {
                ck_assert_int_eq(q, (int64_t)floor((double)a / b));
                ck_assert_int_eq(r, a - q * b);
            }
        }
}
END_TEST

START_TEST(test_division_never_traps)
{
    const tc_kind kinds[] = {TC_I8, TC_I16, TC_I32, TC_I64};
    for (int k = 0; k < 4; k++) {
        tc_kind kind = kinds[k];
        int64_t min =
            tc_int_wrap(kind, INT64_MIN >> (64 - tc_scalar_infos[kind].bits));
        ck_assert_int_eq(int_op(TC_DIV, kind, min, -1), min);
        ck_assert_int_eq(int_op(TC_REM, kind, min, -1), 0);
        ck_assert_int_eq(int_op(TC_DIV, kind, min, 0), 0);
        ck_assert_int_eq(int_op(TC_REM, kind, min, 0), min);
    }
}
END_TEST

START_TEST(test_shifts_beyond_the_width)
{
    const int64_t by[] = {8, 9, 100, -1, -128};
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(int_op(TC_SHL, TC_I8, -3, by[i]), 0);
        ck_assert_int_eq(int_op(TC_SHRU, TC_I8, -3, by[i]), 0);
        ck_assert_int_eq(int_op(TC_SHR, TC_I8, -3, by[i]), -1);
        ck_assert_int_eq(int_op(TC_SHR, TC_I8, 3, by[i]), 0);
    }
    ck_assert_int_eq(int_op(TC_SHL, TC_I8, 1, 7), -128);
    ck_assert_int_eq(int_op(TC_SHR, TC_I8, -128, 7), -1);
    ck_assert_int_eq(int_op(TC_SHRU, TC_I8, -128, 7), 1);
    ck_assert_int_eq(int_op(TC_SHL, TC_I64, 1, 63), INT64_MIN);
    ck_assert_int_eq(int_op(TC_SHL, TC_I64, 1, 64), 0);
    ck_assert_int_eq(int_op(TC_SHR, TC_I64, -1, 64), -1);
}
END_TEST

START_TEST(test_mulhi_is_unsigned)
{
    for (int a = -128; a < 128; a++)
        for (int b = -128; b < 128; b++) {
            unsigned product = (uint8_t)a * (unsigned)(uint8_t)b;
            ck_assert_int_eq(int_op(TC_MULHI, TC_I8, a, b),
                             (int8_t)(product >> 8));
        }
    const int64_t hard[] = {
        -1,         INT64_MIN,    INT64_MAX,         0,     1, 0x100000000,
        0xffffffff, -0x100000000, 0x7fffffffffffff1, -12345};
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++) {
            unsigned __int128 product =
                (unsigned __int128)(uint64_t)hard[i] * (uint64_t)hard[j];
            ck_assert_int_eq(int_op(TC_MULHI, TC_I64, hard[i], hard[j]),
                             (int64_t)(uint64_t)(product >> 64));
        }
}
END_TEST

START_TEST(test_bitwise)
{
    ck_assert_int_eq(int_op(TC_AND, TC_I8, 12, 10), 8);
    ck_assert_int_eq(int_op(TC_OR, TC_I8, 12, 10), 14);
    ck_assert_int_eq(int_op(TC_XOR, TC_I8, 12, 10), 6);
    ck_assert_int_eq(int_op(TC_NOT, TC_I8, 0, 0), -1);
    ck_assert_int_eq(int_op(TC_NOT, TC_I1, 0, 0), 1);
    ck_assert_int_eq(int_op(TC_NOT, TC_I1, 1, 0), 0);
    ck_assert_int_eq(int_op(TC_XOR, TC_I1, 1, 1), 0);
}
END_TEST

START_TEST(test_min_and_max_ignore_nan)
{
    ck_assert(float_op(TC_MAX, TC_F32, NAN, 2) == 2);
    ck_assert(float_op(TC_MAX, TC_F32, 2, NAN) == 2);
    ck_assert(float_op(TC_MIN, TC_F32, NAN, 2) == 2);
    ck_assert(float_op(TC_MIN, TC_F16, -INFINITY, NAN) == -INFINITY);
    ck_assert(isnan(float_op(TC_MAX, TC_F32, NAN, NAN)));
    ck_assert_int_eq(int_op(TC_MIN, TC_I8, -128, 127), -128);
    ck_assert_int_eq(int_op(TC_MAX, TC_I8, -128, 127), 127);
}
END_TEST

START_TEST(test_float_arithmetic_rounds_once)
{
    srand(2);
    for (int i = 0; i < 100000; i++) {
        float a = (float)ldexp(rand() - RAND_MAX / 2, rand() % 60 - 60);
        float b = (float)ldexp(rand() - RAND_MAX / 2, rand() % 60 - 60);
        volatile float sum = a + b, product = a * b, quotient = a / b;
        ck_assert(same(float_op(TC_ADD, TC_F32, a, b), sum));
        ck_assert(same(float_op(TC_MUL, TC_F32, a, b), product));
        ck_assert(same(float_op(TC_DIV, TC_F32, a, b), quotient));
        ck_assert(
            same(float_op(TC_SQRT, TC_F32, fabsf(a), 0), sqrtf(fabsf(a))));
    }
    ck_assert(float_op(TC_DIV, TC_F32, 1, 0) == INFINITY);
    ck_assert(isnan(float_op(TC_DIV, TC_F32, 0, 0)));
}
END_TEST

/* In f32 first: 2049 (a tie of f16) and the small number is 2049 still. */
START_TEST(test_narrow_floats_round_after_each_op)
{
    ck_assert(float_op(TC_ADD, TC_F16, 2048, 1) == 2048);
    ck_assert(float_op(TC_ADD, TC_F16, 2048, 3) == 2052);
    ck_assert(float_op(TC_MUL, TC_F16, 60000, 2) == INFINITY);
    ck_assert(float_op(TC_ADD, TC_BF16, 256, 1) == 256);
    ck_assert(float_op(TC_ADD, TC_F8E4M3, 448, 448) == 448);
    ck_assert(float_op(TC_MUL, TC_F8E5M2, -57344, 57344) == -57344);
    ck_assert(float_op(TC_ADD, TC_F8E4M3, 16, 1) == 16);
}
END_TEST

START_TEST(test_fma_rounds_once)
{
    double a = 1 + 0x1p-12, c = -(1 + 0x1p-11);
    tc_scalar in[] = {{.f = a}, {.f = a}, {.f = c}}, out;
    ck_assert(eval(TC_FMA, TC_F32, TC_F32, NULL, 3, in, &out));
    ck_assert(out.f == 0x1p-24);
    ck_assert(float_op(TC_MUL, TC_F32, a, a) + c == 0);
}
END_TEST

START_TEST(test_float_rem_floors)
{
    ck_assert(float_op(TC_REM, TC_F32, 7.5, 2) == 1.5);
    ck_assert(float_op(TC_REM, TC_F32, -7.5, 2) == 0.5);
    ck_assert(float_op(TC_REM, TC_F64, 7.5, -2) == -0.5);
    ck_assert(isnan(float_op(TC_REM, TC_F32, 1, 0)));
}
END_TEST

START_TEST(test_rounding_ops)
{
    ck_assert(float_op(TC_ROUND, TC_F32, 2.5, 0) == 2);
    ck_assert(float_op(TC_ROUND, TC_F32, 3.5, 0) == 4);
    ck_assert(float_op(TC_ROUND, TC_F32, -2.5, 0) == -2);
    ck_assert(float_op(TC_FLOOR, TC_F32, -0.5, 0) == -1);
    ck_assert(same(float_op(TC_CEIL, TC_F32, -0.5, 0), -0.0));
    ck_assert(same(float_op(TC_NEG, TC_F32, 0, 0), -0.0));
    ck_assert(same(float_op(TC_ABS, TC_F32, -0.0, 0), 0.0));
}
END_TEST

/* Correctly rounded, so within any tolerance; special values exactly. */
START_TEST(test_functions)
{
    ck_assert(float_op(TC_EXP2, TC_F32, 10, 0) == 1024);
    ck_assert(float_op(TC_EXP2, TC_F32, -INFINITY, 0) == 0);
    ck_assert(float_op(TC_EXP, TC_F32, 1, 0) == (float)2.718281828459045);
    ck_assert(float_op(TC_LOG2, TC_F32, 8, 0) == 3);
    ck_assert(float_op(TC_LOG, TC_F32, 0, 0) == -INFINITY);
    ck_assert(isnan(float_op(TC_LOG, TC_F32, -1, 0)));
    ck_assert(float_op(TC_RSQRT, TC_F32, 4, 0) == 0.5);
    ck_assert(float_op(TC_RCP, TC_F32, 3, 0) == (float)(1.0 / 3));
    ck_assert(float_op(TC_TANH, TC_F32, INFINITY, 0) == 1);
    ck_assert(float_op(TC_ERF, TC_F32, 0, 0) == 0);
    ck_assert(float_op(TC_SIN, TC_F64, 1, 0) == sin(1));
    ck_assert(float_op(TC_COS, TC_F16, 0, 0) == 1);
}
END_TEST

START_TEST(test_cmp_with_nan)
{
    tc_scalar one = {.f = 1}, nan = {.f = NAN};
    const char *preds[] = {"eq", "lt", "le", "gt", "ge"};
    for (int i = 0; i < 5; i++) {
        ck_assert(!cmp(TC_F32, preds[i], one, nan));
        ck_assert(!cmp(TC_F32, preds[i], nan, nan));
    }
    ck_assert(cmp(TC_F32, "ne", nan, nan));
    ck_assert(cmp(TC_F32, "ne", nan, one));
    ck_assert(cmp(TC_F32, "eq", (tc_scalar){.f = -0.0}, (tc_scalar){0}));
}
END_TEST

START_TEST(test_cmp_of_ints)
{
    tc_scalar minus = {.i = -1}, one = {.i = 1};
    ck_assert(cmp(TC_I32, "lt", minus, one));
    ck_assert(!cmp(TC_I32, "ult", minus, one));
    ck_assert(cmp(TC_I32, "ugt", minus, one));
    ck_assert(cmp(TC_I32, "uge", minus, minus));
    ck_assert(cmp(TC_I32, "ule", one, minus));
    ck_assert(cmp(TC_I1, "lt", (tc_scalar){0}, one));
    ck_assert(cmp(TC_I8, "ge", one, minus));
}
END_TEST

static tc_scalar cast_int(tc_kind from, tc_kind to, int64_t i)
{
    return tc_eval_cast(from, to, (tc_scalar){.i = i});
}

static tc_scalar cast_float(tc_kind from, tc_kind to, double x)
{
    return tc_eval_cast(from, to, (tc_scalar){.f = x});
}

START_TEST(test_cast_float_to_int_saturates)
{
    ck_assert_int_eq(cast_float(TC_F32, TC_I32, 2.9).i, 2);
    ck_assert_int_eq(cast_float(TC_F32, TC_I32, -2.9).i, -2);
    ck_assert_int_eq(cast_float(TC_F32, TC_I32, 1e10).i, INT32_MAX);
    ck_assert_int_eq(cast_float(TC_F32, TC_I32, -1e10).i, INT32_MIN);
    ck_assert_int_eq(cast_float(TC_F32, TC_I8, 127.9).i, 127);
    ck_assert_int_eq(cast_float(TC_F32, TC_I8, 128).i, 127);
    ck_assert_int_eq(cast_float(TC_F32, TC_I8, -128.9).i, -128);
    ck_assert_int_eq(cast_float(TC_F64, TC_I64, INFINITY).i, INT64_MAX);
    ck_assert_int_eq(cast_float(TC_F64, TC_I64, -INFINITY).i, INT64_MIN);
    ck_assert_int_eq(cast_float(TC_F64, TC_I64, 0x1p63).i, INT64_MAX);
    ck_assert_int_eq(cast_float(TC_F64, TC_I64, -0x1p63).i, INT64_MIN);
    ck_assert_int_eq(cast_float(TC_F32, TC_I32, NAN).i, 0);
    ck_assert_int_eq(cast_float(TC_F32, TC_I1, 0.25).i, 1);
    ck_assert_int_eq(cast_float(TC_F32, TC_I1, -0.0).i, 0);
}
END_TEST

START_TEST(test_cast_int_to_float_rounds_once)
{
    ck_assert(cast_int(TC_I64, TC_F32, 0x1000001).f == 0x1000000);
    ck_assert(cast_int(TC_I64, TC_F32, 0x1000003).f == 0x1000004);
    /* Above a tie of f32 by less than an f64 can tell: rounds up. */
    ck_assert(cast_int(TC_I64, TC_F32, 0x4000004000000001).f ==
              0x1p62 + 0x1p39);
    ck_assert(cast_int(TC_I64, TC_F32, -0x4000004000000001).f ==
              -(0x1p62 + 0x1p39));
    ck_assert(cast_int(TC_I64, TC_F32, 0x4000004000000000).f == 0x1p62);
    ck_assert(cast_int(TC_I64, TC_F64, INT64_MIN).f == -0x1p63);
    ck_assert(cast_int(TC_I32, TC_F16, 65520).f == INFINITY);
    ck_assert(cast_int(TC_I32, TC_F16, 65519).f == 65504);
    ck_assert(cast_int(TC_I32, TC_F8E4M3, -1000).f == -448);
    ck_assert(cast_int(TC_I1, TC_F32, 1).f == 1);
    srand(3);
    for (int i = 0; i < 100000; i++) {
        int64_t x = (int64_t)((uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^
                              (uint64_t)rand()) >>
                    (rand() % 60);
        ck_assert(cast_int(TC_I64, TC_F32, x).f == (double)(float)x);
    }
}
END_TEST

START_TEST(test_cast_between_ints)
{
    ck_assert_int_eq(cast_int(TC_I32, TC_I8, 300).i, 44);
    ck_assert_int_eq(cast_int(TC_I8, TC_I64, -1).i, -1);
    ck_assert_int_eq(cast_int(TC_I32, TC_I1, 2).i, 1);
    ck_assert_int_eq(cast_int(TC_I1, TC_I32, 1).i, 1);
}
END_TEST

START_TEST(test_cast_to_fp8_saturates)
{
    ck_assert(cast_float(TC_F32, TC_F8E4M3, INFINITY).f == 448);
    ck_assert(cast_float(TC_F32, TC_F8E4M3, -500).f == -448);
    ck_assert(cast_float(TC_F32, TC_F8E5M2, INFINITY).f == 57344);
    ck_assert(cast_float(TC_F32, TC_F8E5M2, -1e9).f == -57344);
    ck_assert(isnan(cast_float(TC_F32, TC_F8E4M3, NAN).f));
    ck_assert(isnan(cast_float(TC_F32, TC_F8E5M2, NAN).f));
    ck_assert(cast_float(TC_F8E5M2, TC_F32, INFINITY).f == INFINITY);
}
END_TEST

START_TEST(test_bitcast)
{
    tc_scalar in = {.f = 1}, out;
    ck_assert(eval(TC_BITCAST, TC_F32, TC_I32, NULL, 1, &in, &out));
    ck_assert_int_eq(out.i, 0x3f800000);
    in = (tc_scalar){.i = -0x4080};
    ck_assert(eval(TC_BITCAST, TC_I16, TC_BF16, NULL, 1, &in, &out));
    ck_assert(out.f == -1);
    in = (tc_scalar){.f = NAN}; /* which NaN? not known at compile time */
    ck_assert(!eval(TC_BITCAST, TC_F32, TC_I32, NULL, 1, &in, &out));
}
END_TEST

START_TEST(test_select)
{
    tc_scalar in[] = {{.i = 1}, {.f = 2}, {.f = 3}}, out;
    ck_assert(eval(TC_SELECT, TC_F32, TC_F32, NULL, 3, in, &out));
    ck_assert(out.f == 2);
    in[0].i = 0;
    ck_assert(eval(TC_SELECT, TC_F32, TC_F32, NULL, 3, in, &out));
    ck_assert(out.f == 3);
}
END_TEST

START_TEST(test_trip_count)
{
    ck_assert_uint_eq(tc_trip_count(0, 10, 3), 4);
    ck_assert_uint_eq(tc_trip_count(0, 9, 3), 3);
    ck_assert_uint_eq(tc_trip_count(5, 5, 1), 0);
    ck_assert_uint_eq(tc_trip_count(6, 5, 1), 0);
    ck_assert_uint_eq(tc_trip_count(0, 10, 0), 0);
    ck_assert_uint_eq(tc_trip_count(0, 10, -1), 0);
    ck_assert_uint_eq(tc_trip_count(INT64_MIN, INT64_MAX, 1), UINT64_MAX);
    ck_assert_uint_eq(tc_trip_count(INT64_MIN, INT64_MAX, INT64_MAX), 3);
    ck_assert_uint_eq(tc_trip_count(INT32_MAX - 1, INT32_MAX, INT32_MAX), 1);
}
END_TEST

START_TEST(test_dim_is_known_when_constant)
{
    tc_op *op = tc_op_new(f, TC_DIM, (tc_loc){0}, 0, NULL, 0);
    const tc_type *type = tc_type_scalar(cx, TC_I32);
    tc_op_set_results(op, 1, &type);
    const tc_dim *d = tc_dim_param(cx, "N");
    tc_scalar out;
    tc_op_set_dims(op, "value", 1, &d);
    ck_assert(!tc_eval_op(op, NULL, &out));
    d = tc_dim_const(cx, 48);
    tc_op_set_dims(op, "value", 1, &d);
    ck_assert(tc_eval_op(op, NULL, &out));
    ck_assert_int_eq(out.i, 48);
}
END_TEST

static Suite *eval_suite(void)
{
    Suite *s = suite_create("eval");
    TCase *formats_case = tcase_create("formats");
    tcase_add_loop_test(formats_case, test_bits_of_every_pattern, 0, 4);
    tcase_add_loop_test(formats_case, test_rounding_at_every_boundary, 0, 4);
    tcase_add_test(formats_case, test_round_to_f32);
    suite_add_tcase(s, formats_case);
    TCase *ops = tcase_create("ops");
    tcase_add_checked_fixture(ops, setup, teardown);
    tcase_add_test(ops, test_ints_wrap);
    tcase_add_test(ops, test_div_and_rem_floor);
    tcase_add_test(ops, test_div_and_rem_of_all_i8);
    tcase_add_test(ops, test_division_never_traps);
    tcase_add_test(ops, test_shifts_beyond_the_width);
    tcase_add_test(ops, test_mulhi_is_unsigned);
    tcase_add_test(ops, test_bitwise);
    tcase_add_test(ops, test_min_and_max_ignore_nan);
    tcase_add_test(ops, test_float_arithmetic_rounds_once);
    tcase_add_test(ops, test_narrow_floats_round_after_each_op);
    tcase_add_test(ops, test_fma_rounds_once);
    tcase_add_test(ops, test_float_rem_floors);
    tcase_add_test(ops, test_rounding_ops);
    tcase_add_test(ops, test_functions);
    tcase_add_test(ops, test_cmp_with_nan);
    tcase_add_test(ops, test_cmp_of_ints);
    tcase_add_test(ops, test_cast_float_to_int_saturates);
    tcase_add_test(ops, test_cast_int_to_float_rounds_once);
    tcase_add_test(ops, test_cast_between_ints);
    tcase_add_test(ops, test_cast_to_fp8_saturates);
    tcase_add_test(ops, test_bitcast);
    tcase_add_test(ops, test_select);
    tcase_add_test(ops, test_trip_count);
    tcase_add_test(ops, test_dim_is_known_when_constant);
    suite_add_tcase(s, ops);
    return s;
}

int main(void)
{
    return run_suite(eval_suite());
}
