/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and compile-time sizes: interning, folding, substitution, matching,
 * text.
 */
#include "ir/ir.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <string.h>

static const tc_dim *M, *N;

static void setup(void)
{
    fixture_setup();
    M = tc_dim_param(cx, "M");
    N = tc_dim_param(cx, "N");
}

static void teardown(void)
{
    fixture_teardown();
}

static const tc_type *scalar(tc_kind kind)
{
    return tc_type_scalar(cx, kind);
}

static const tc_dim *number(int64_t i)
{
    return tc_dim_const(cx, i);
}

static const tc_type *shaped2(tc_kind kind, const tc_dim *a, const tc_dim *b,
                              const tc_type *elem)
{
    const tc_dim *dims[] = {a, b};
    return tc_type_shaped(cx, kind, 2, dims, elem);
}

static const tc_dim *binary(tc_dim_kind kind, const tc_dim *a, const tc_dim *b)
{
    return tc_dim_binary(cx, kind, a, b);
}

/* ---- Interning ---- */

START_TEST(test_equal_types_are_the_same_pointer)
{
    const tc_type *f32 = scalar(TC_F32);
    for (tc_kind a = TC_I1; a <= TC_F64; a++)
        for (tc_kind b = TC_I1; b <= TC_F64; b++)
            ck_assert_int_eq(scalar(a) == scalar(b), a == b);
    ck_assert_ptr_eq(tc_type_ptr(cx, f32), tc_type_ptr(cx, f32));
    ck_assert_ptr_eq(tc_type_param(cx, "T"), tc_type_param(cx, "T"));
    ck_assert_ptr_ne(tc_type_param(cx, "T"), tc_type_param(cx, "U"));
    const tc_type *t = shaped2(TC_TILE, number(8), N, f32);
    ck_assert_ptr_eq(shaped2(TC_TILE, number(8), N, f32), t);
    ck_assert_ptr_ne(shaped2(TC_BLOCK_PTR, number(8), N, f32), t);
    ck_assert_ptr_ne(shaped2(TC_TILE, N, number(8), f32), t);
    ck_assert_ptr_ne(shaped2(TC_TILE, number(8), N, scalar(TC_F16)), t);
    ck_assert_ptr_ne(tc_type_shaped(cx, TC_TILE, 1, t->dims, f32), t);
}
END_TEST

START_TEST(test_dims_of_a_type_are_copied)
{
    const tc_dim *dims[] = {number(8), number(16)};
    const tc_type *t = tc_type_shaped(cx, TC_TILE, 2, dims, scalar(TC_F32));
    dims[0] = number(24);
    ck_assert_int_eq(tc_dim_value(t->dims[0]), 8);
}
END_TEST

START_TEST(test_many_types)
{
    enum { COUNT = 2000 };
    static const tc_type *all[COUNT];
    for (int i = 0; i < COUNT; i++)
        all[i] = shaped2(TC_TILE, number(i), number(-i), scalar(TC_I8));
    for (int i = 0; i < COUNT; i++)
        ck_assert_ptr_eq(shaped2(TC_TILE, number(i), number(-i), scalar(TC_I8)),
                         all[i]);
}
END_TEST

/* ---- Sizes ---- */

/* What a size operation is, spelt out in 128 bits. */
static int64_t expected(tc_dim_kind kind, int64_t x, int64_t y)
{
    __int128 a = x, b = y, q = 0;
    if (b != 0) {
        q = a / b;
        if (a % b != 0 && (a < 0) != (b < 0))
            q--;
    }
    switch (kind) {
    case TC_DIM_ADD: return (int64_t)(uint64_t)(a + b);
    case TC_DIM_SUB: return (int64_t)(uint64_t)(a - b);
    case TC_DIM_MUL: return (int64_t)((uint64_t)x * (uint64_t)y);
    case TC_DIM_DIV: return (int64_t)(uint64_t)q;
    case TC_DIM_REM: return (int64_t)(uint64_t)(a - q * b);
    case TC_DIM_CDIV: return (int64_t)(uint64_t)(b == 0 ? 0 : q + (q * b != a));
    case TC_DIM_MIN: return x < y ? x : y;
    default: return x > y ? x : y;
    }
}

START_TEST(test_constant_sizes_fold)
{
    static const int64_t values[] = {
        0,         1,         -1,        2,         -2,           3,
        7,         -7,        8,         16,        100,          -100,
        INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    enum { COUNT = sizeof values / sizeof *values };
    for (tc_dim_kind k = TC_DIM_ADD; k <= TC_DIM_MAX; k++)
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < COUNT; j++) {
                int64_t a = values[i], b = values[j];
                if (k == TC_DIM_CDIV && a == INT64_MIN)
                    continue; /* below */
                const tc_dim *d = binary(k, number(a), number(b));
                ck_assert_int_eq(d->kind, TC_DIM_CONST);
                ck_assert_msg(d->value == expected(k, a, b),
                              "%d: %lld, %lld gives %lld", (int)k, (long long)a,
                              (long long)b, (long long)d->value);
            }
}
END_TEST

/* As the scalar ops: cdiv is -(-a / b), and -INT64_MIN wraps. */
START_TEST(test_cdiv_of_the_smallest)
{
    ck_assert_int_eq(binary(TC_DIM_CDIV, number(INT64_MIN), number(2))->value,
                     INT64_MAX / 2 + 1);
    ck_assert_int_eq(binary(TC_DIM_CDIV, number(INT64_MIN), number(0))->value,
                     0);
}
END_TEST

START_TEST(test_power_of_two_above)
{
    static const int64_t pairs[][2] = {
        {INT64_MIN, 1}, {-3, 1},
        {0, 1},         {1, 1},
        {2, 2},         {3, 4},
        {1000, 1024},   {1024, 1024},
        {1025, 2048},   {(int64_t)1 << 62, (int64_t)1 << 62}};
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
        ck_assert_int_eq(
            binary(TC_DIM_POW2CEIL, number(pairs[i][0]), number(1))->value,
            pairs[i][1]);
}
END_TEST

START_TEST(test_equal_sizes_are_the_same_pointer)
{
    ck_assert_ptr_eq(number(8), number(8));
    ck_assert_ptr_eq(tc_dim_param(cx, "N"), N);
    ck_assert_ptr_eq(binary(TC_DIM_ADD, N, number(1)),
                     binary(TC_DIM_ADD, N, number(1)));
    ck_assert_ptr_ne(binary(TC_DIM_ADD, N, number(1)),
                     binary(TC_DIM_ADD, number(1), N));
    ck_assert_ptr_ne(binary(TC_DIM_ADD, N, number(1)),
                     binary(TC_DIM_SUB, N, number(1)));
}
END_TEST

START_TEST(test_value_of_a_size)
{
    ck_assert_int_eq(tc_dim_value(number(0)), 0);
    ck_assert_int_eq(tc_dim_value(number(64)), 64);
    ck_assert_int_eq(tc_dim_value(number(-64)), -1);
    ck_assert_int_eq(tc_dim_value(N), -1);
    ck_assert_int_eq(tc_dim_value(NULL), -1);
    ck_assert(tc_dim_is(number(1), 1));
    ck_assert(!tc_dim_is(number(2), 1));
    ck_assert(!tc_dim_is(NULL, 1));
    ck_assert(!tc_dim_is(N, 0));
}
END_TEST

static const char *dim_text(const tc_dim *d)
{
    tc_text out = {.arena = &cx->arena};
    tc_dim_print(&out, d);
    return out.data;
}

START_TEST(test_text_of_sizes)
{
    const tc_dim *c = binary(TC_DIM_CDIV, N, number(16));
    ck_assert_str_eq(dim_text(binary(TC_DIM_MUL, c, number(16))),
                     "(cdiv(N, 16) * 16)");
    ck_assert_str_eq(dim_text(binary(TC_DIM_SUB, M, binary(TC_DIM_ADD, N, M))),
                     "(M - (N + M))");
    ck_assert_str_eq(dim_text(binary(TC_DIM_MIN, M, N)), "min(M, N)");
    ck_assert_str_eq(dim_text(binary(TC_DIM_MAX, M, N)), "max(M, N)");
    ck_assert_str_eq(dim_text(binary(TC_DIM_REM, M, N)), "rem(M, N)");
    ck_assert_str_eq(dim_text(binary(TC_DIM_DIV, M, N)), "(M / N)");
    ck_assert_str_eq(dim_text(binary(TC_DIM_POW2CEIL, N, number(1))),
                     "pow2ceil(N)");
    ck_assert_str_eq(dim_text(binary(TC_DIM_MUL, tc_dim_sms(cx), N)),
                     "(machine_sms() * N)");
    ck_assert_str_eq(dim_text(number(INT64_MIN)), "-9223372036854775808");
    ck_assert_str_eq(dim_text(NULL), "?");
}
END_TEST

/* ---- Queries ---- */

START_TEST(test_kinds_by_name)
{
    for (tc_kind k = TC_I1; k <= TC_F64; k++) {
        const char *name = tc_scalar_infos[k].name;
        ck_assert_int_eq(tc_kind_parse(name, strlen(name)), k);
        ck_assert_int_eq(tc_kind_parse(name, strlen(name) - 1) == k, 0);
    }
    ck_assert_int_eq(tc_kind_parse("f32x", 4), TC_KIND_COUNT);
    ck_assert_int_eq(tc_kind_parse("f32x", 3), TC_F32);
    ck_assert_int_eq(tc_kind_parse("", 0), TC_KIND_COUNT);
    ck_assert_int_eq(tc_kind_parse("tile", 4), TC_KIND_COUNT);
}
END_TEST

START_TEST(test_widths_of_floats_add_up)
{
    for (tc_kind k = TC_F8E4M3; k <= TC_F64; k++) {
        const tc_scalar_info *i = &tc_scalar_infos[k];
        ck_assert(i->is_float);
        ck_assert_uint_eq(i->bits, 1 + i->exponent_bits + i->mantissa_bits);
    }
}
END_TEST

START_TEST(test_predicates)
{
    const tc_type *T = tc_type_param(cx, "T");
    const tc_type *tile = shaped2(TC_TILE, number(8), N, scalar(TC_I8));
    ck_assert(tc_type_is_int(tile) && !tc_type_is_float(tile));
    ck_assert(tc_type_is_int(T) && tc_type_is_float(T) && !tc_type_is_bool(T));
    ck_assert(tc_type_is_bool(scalar(TC_I1)) && !tc_type_is_int(scalar(TC_I1)));
    ck_assert(tc_type_is_scalar(T) && !tc_type_is_scalar(tile));
    ck_assert(tc_type_is_scalar(tc_type_ptr(cx, T)));
    ck_assert(!tc_type_is_int(tc_type_ptr(cx, scalar(TC_I8))));
    ck_assert_ptr_eq(tc_type_elem(tile), scalar(TC_I8));
    ck_assert_ptr_eq(tc_type_elem(T), T);
    ck_assert(tc_type_is_generic(tile) && tc_type_is_generic(T));
    ck_assert(tc_type_is_generic(tc_type_ptr(cx, T)));
    ck_assert(!tc_type_is_generic(
        shaped2(TC_TENSOR, NULL, number(8), scalar(TC_I8))));
}
END_TEST

START_TEST(test_predicates_of_kinds)
{
    unsigned n_float = 0, n_f8 = 0, n_narrow = 0;
    for (tc_kind k = TC_I1; k < TC_KIND_COUNT; k++) {
        n_float += tc_kind_is_float(k);
        n_f8 += tc_kind_is_f8(k);
        n_narrow += tc_kind_is_narrow(k);
    }
    ck_assert_uint_eq(n_float, 6);
    ck_assert_uint_eq(n_f8, 2);
    ck_assert_uint_eq(n_narrow, 4);
    ck_assert(tc_kind_is_f8(TC_F8E4M3) && tc_kind_is_f8(TC_F8E5M2));
    ck_assert(tc_kind_is_narrow(TC_BF16) && tc_kind_is_narrow(TC_F16));
    ck_assert(!tc_kind_is_f8(TC_I8) && !tc_kind_is_narrow(TC_F32));
}
END_TEST

START_TEST(test_counts)
{
    const tc_type *f = scalar(TC_F32);
    ck_assert_int_eq(tc_type_count(f), 1);
    ck_assert_int_eq(tc_type_count(shaped2(TC_TILE, number(8), number(16), f)),
                     128);
    ck_assert_int_eq(tc_type_count(shaped2(TC_TILE, number(8), N, f)), -1);
    ck_assert_int_eq(tc_type_count(shaped2(TC_TENSOR, number(8), NULL, f)), -1);
    ck_assert_int_eq(tc_type_count(shaped2(TC_TILE, number(0), number(8), f)),
                     0);
    int64_t big = (int64_t)1 << 31;
    ck_assert_int_eq(
        tc_type_count(shaped2(TC_TILE, number(big - 1), number(1), f)),
        big - 1);
    ck_assert_int_eq(tc_type_count(shaped2(TC_TILE, number(big), number(1), f)),
                     -1);
    ck_assert_int_eq(
        tc_type_count(shaped2(TC_TILE, number(big), number(big), f)), -1);
}
END_TEST

START_TEST(test_bytes)
{
    ck_assert_uint_eq(tc_type_bytes(scalar(TC_I1)), 1);
    ck_assert_uint_eq(tc_type_bytes(scalar(TC_F8E5M2)), 1);
    ck_assert_uint_eq(tc_type_bytes(scalar(TC_BF16)), 2);
    ck_assert_uint_eq(tc_type_bytes(scalar(TC_F64)), 8);
    ck_assert_uint_eq(tc_type_bytes(tc_type_ptr(cx, scalar(TC_I1))), 8);
}
END_TEST

START_TEST(test_shapes_and_pointees)
{
    const tc_type *f = scalar(TC_F32), *p = tc_type_ptr(cx, f);
    const tc_type *tile = shaped2(TC_TILE, number(8), N, f);
    const tc_type *ptrs = shaped2(TC_TILE, number(8), N, p);
    ck_assert(tc_type_same_shape(tile, ptrs));
    ck_assert(tc_type_same_shape(f, p));
    ck_assert(!tc_type_same_shape(f, tile));
    ck_assert(!tc_type_same_shape(tile, shaped2(TC_TILE, N, number(8), f)));
    ck_assert_ptr_eq(tc_type_with_elem(cx, tile, p), ptrs);
    ck_assert_ptr_eq(tc_type_with_elem(cx, f, p), p);
    ck_assert_ptr_eq(tc_type_pointee(cx, p), f);
    ck_assert_ptr_eq(tc_type_pointee(cx, ptrs), tile);
    ck_assert_ptr_eq(
        tc_type_pointee(cx, shaped2(TC_BLOCK_PTR, number(8), N, f)), tile);
}
END_TEST

/* ---- Text ---- */

START_TEST(test_text_of_types)
{
    const tc_type *T = tc_type_param(cx, "T");
    const tc_dim *e = binary(TC_DIM_MUL, N, number(2));
    ck_assert_str_eq(tc_type_name(cx, scalar(TC_F8E4M3)), "f8e4m3");
    ck_assert_str_eq(tc_type_name(cx, tc_type_ptr(cx, T)), "ptr<T>");
    ck_assert_str_eq(tc_type_name(cx, shaped2(TC_TILE, N, e, T)),
                     "tile<Nx(N * 2) x T>");
    ck_assert_str_eq(
        tc_type_name(cx, shaped2(TC_BLOCK_PTR, number(64), number(1), T)),
        "block_ptr<64x1 x T>");
    ck_assert_str_eq(tc_type_name(cx, shaped2(TC_TENSOR, NULL, N, T)),
                     "tensor<[?, N] x T>");
    ck_assert_str_eq(
        tc_type_name(cx, tc_type_shaped(cx, TC_TENSOR, 0, NULL, T)),
        "tensor<[] x T>");
}
END_TEST

START_TEST(test_types_are_parsed_back)
{
    const tc_type *f = scalar(TC_F16), *p = tc_type_ptr(cx, f);
    const tc_type *const all[] = {
        f,
        p,
        tc_type_ptr(cx, p),
        shaped2(TC_TILE, number(8), number(176), p),
        shaped2(TC_BLOCK_PTR, number(1), number(80), f),
        shaped2(TC_TENSOR, NULL, number(72), f),
        tc_type_shaped(cx, TC_TENSOR, 0, NULL, f),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ck_assert_ptr_eq(
            tc_type_parse(cx, tc_type_name(cx, all[i]), (tc_loc){0}), all[i]);
}
END_TEST

/* ---- Substitution and matching ---- */

static const char *names[3];
static const tc_dim *dims[3];
static const tc_type *types[3];

/* Nothing bound yet: M, N, T. */
static tc_bindings no_bindings(void)
{
    names[0] = tc_string_get(cx, "M");
    names[1] = tc_string_get(cx, "N");
    names[2] = tc_string_get(cx, "T");
    memset(dims, 0, sizeof dims);
    memset(types, 0, sizeof types);
    return (tc_bindings){3, names, dims, types};
}

START_TEST(test_substitution)
{
    tc_bindings b = no_bindings();
    const tc_type *T = tc_type_param(cx, "T");
    const tc_dim *e =
        binary(TC_DIM_MUL, binary(TC_DIM_CDIV, N, number(16)), number(16));
    const tc_type *t = shaped2(TC_TILE, M, e, tc_type_ptr(cx, T));
    ck_assert_ptr_eq(tc_type_substitute(cx, t, &b), t);
    dims[1] = number(72);
    types[2] = scalar(TC_BF16);
    ck_assert_str_eq(tc_type_name(cx, tc_type_substitute(cx, t, &b)),
                     "tile<Mx80 x ptr<bf16>>");
    const tc_type *tensor = shaped2(TC_TENSOR, NULL, N, T);
    ck_assert_str_eq(tc_type_name(cx, tc_type_substitute(cx, tensor, &b)),
                     "tensor<[?, 72] x bf16>");
    ck_assert_ptr_eq(tc_dim_substitute(cx, NULL, &b), NULL);
}
END_TEST

START_TEST(test_unify_binds)
{
    tc_bindings b = no_bindings();
    const tc_type *T = tc_type_param(cx, "T");
    const tc_type *pattern = shaped2(TC_TILE, M, N, T);
    ck_assert(tc_type_unify(
        cx, pattern, shaped2(TC_TILE, number(8), number(16), scalar(TC_F16)),
        &b));
    ck_assert_ptr_eq(dims[0], number(8));
    ck_assert_ptr_eq(dims[1], number(16));
    ck_assert_ptr_eq(types[2], scalar(TC_F16));
    /* Bound now: it has to be the same again. */
    ck_assert(tc_type_unify(
        cx, shaped2(TC_TILE, N, M, T),
        shaped2(TC_TILE, number(16), number(8), scalar(TC_F16)), &b));
    ck_assert(!tc_type_unify(cx, T, scalar(TC_F32), &b));
    ck_assert(!tc_type_unify(
        cx, pattern, shaped2(TC_TILE, number(8), number(8), scalar(TC_F16)),
        &b));
}
END_TEST

START_TEST(test_unify_compares_expressions)
{
    tc_bindings b = no_bindings();
    const tc_type *f = scalar(TC_F32);
    const tc_type *pattern =
        shaped2(TC_TILE, N, binary(TC_DIM_MUL, N, number(2)), f);
    ck_assert(tc_type_unify(cx, pattern,
                            shaped2(TC_TILE, number(8), number(16), f), &b));
    b = no_bindings();
    ck_assert(!tc_type_unify(cx, pattern,
                             shaped2(TC_TILE, number(8), number(24), f), &b));
}
END_TEST

START_TEST(test_unify_of_tensors)
{
    tc_bindings b = no_bindings();
    const tc_type *f = scalar(TC_F32);
    /* `?` takes any size; a number does not take `?`. */
    ck_assert(tc_type_unify(cx, shaped2(TC_TENSOR, NULL, NULL, f),
                            shaped2(TC_TENSOR, number(3), NULL, f), &b));
    ck_assert(!tc_type_unify(cx, shaped2(TC_TENSOR, number(3), NULL, f),
                             shaped2(TC_TENSOR, NULL, NULL, f), &b));
    ck_assert(!tc_type_unify(cx, shaped2(TC_TENSOR, N, NULL, f),
                             shaped2(TC_TENSOR, NULL, NULL, f), &b));
}
END_TEST

START_TEST(test_unify_tells_types_apart)
{
    tc_bindings b = no_bindings();
    const tc_type *f = scalar(TC_F32), *T = tc_type_param(cx, "T");
    const tc_type *tile = shaped2(TC_TILE, number(8), number(8), f);
    ck_assert(!tc_type_unify(cx, f, scalar(TC_F16), &b));
    ck_assert(!tc_type_unify(cx, T, tile, &b)); /* T is an element */
    ck_assert(!tc_type_unify(
        cx, tile, shaped2(TC_BLOCK_PTR, number(8), number(8), f), &b));
    ck_assert(!tc_type_unify(cx, tc_type_shaped(cx, TC_TILE, 1, tile->dims, f),
                             tile, &b));
    /* Names that are nobody's stay themselves. */
    const tc_type *U = tc_type_param(cx, "U");
    ck_assert(tc_type_unify(cx, U, U, &b));
    ck_assert(!tc_type_unify(cx, U, f, &b));
    ck_assert(tc_type_unify(cx, tc_type_ptr(cx, T), tc_type_ptr(cx, U), &b));
    ck_assert_ptr_eq(types[2], U);
}
END_TEST

static void add_sizes(TCase *t)
{
    tcase_add_test(t, test_constant_sizes_fold);
    tcase_add_test(t, test_cdiv_of_the_smallest);
    tcase_add_test(t, test_power_of_two_above);
    tcase_add_test(t, test_equal_sizes_are_the_same_pointer);
    tcase_add_test(t, test_value_of_a_size);
    tcase_add_test(t, test_text_of_sizes);
}

static void add_types(TCase *t)
{
    tcase_add_test(t, test_equal_types_are_the_same_pointer);
    tcase_add_test(t, test_dims_of_a_type_are_copied);
    tcase_add_test(t, test_many_types);
    tcase_add_test(t, test_kinds_by_name);
    tcase_add_test(t, test_widths_of_floats_add_up);
    tcase_add_test(t, test_predicates);
    tcase_add_test(t, test_predicates_of_kinds);
    tcase_add_test(t, test_counts);
    tcase_add_test(t, test_bytes);
    tcase_add_test(t, test_shapes_and_pointees);
    tcase_add_test(t, test_text_of_types);
    tcase_add_test(t, test_types_are_parsed_back);
}

static void add_matching(TCase *t)
{
    tcase_add_test(t, test_substitution);
    tcase_add_test(t, test_unify_binds);
    tcase_add_test(t, test_unify_compares_expressions);
    tcase_add_test(t, test_unify_of_tensors);
    tcase_add_test(t, test_unify_tells_types_apart);
}

int main(void)
{
    Suite *s = suite_create("type");
    static void (*const add[])(TCase *) = {add_sizes, add_types, add_matching};
    static const char *const cases[] = {"sizes", "types", "matching"};
    for (int i = 0; i < 3; i++) {
        TCase *t = tcase_create(cases[i]);
        tcase_add_checked_fixture(t, setup, teardown);
        add[i](t);
        suite_add_tcase(s, t);
    }
    return run_suite(s);
}
