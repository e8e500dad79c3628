/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors of q, k and v: the functions and blocks that follow from the shapes
 * of their tensors, and what is said of other shapes.
 */
#include "lib/tilec.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, HQ = 4, HK = 2, M = 100, N = 1000, D = 32 };

static tilec_context *cx;

static void set_up(void)
{
    ck_assert_int_eq(tilec_context_new(NULL, &cx), TILEC_OK);
}

static void tear_down(void)
{
    tilec_context_free(cx);
}

typedef struct factors {
    char of; /* q, k, v or o */
    int ndim;
    int64_t shape[4];
    const char *function; /* or what is wrong */
    const char *rows;     /* NULL: not said */
} factors;

static tilec_status plan(const factors *f, const char *columns,
                         tilec_attention **a)
{
    int64_t q[] = {B, HQ, M, D}, k[] = {B, HK, N, D};
    const DLDataType e4m3 = {TILEC_DL_F8E4M3, 8, 1}, f32 = {kDLFloat, 32, 1};
    DLTensor tq = {.ndim = 4, .dtype = e4m3, .shape = q}, tk = tq, scales;
    tk.shape = k;
    scales =
        (DLTensor){.ndim = f->ndim, .dtype = f32, .shape = (int64_t *)f->shape};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    const tilec_binding side = {"BLOCK_N", columns};
    o.target = "sm_90a";
    o.no_load = o.no_cache = 1;
    o.kernel_options = &side;
    o.nkernel_options = columns != NULL;
    o.enforce = TILEC_ENFORCE_OFF;
    *(f->of == 'q'   ? &o.descale_q
      : f->of == 'k' ? &o.descale_k
      : f->of == 'v' ? &o.descale_v
                     : &o.scale_o) = &scales;
    return tilec_attention_plan(cx, &tq, &tk, &tk, &o, a);
}

static const char *bound(const tilec_attention *a, const char *name)
{
    return tilec_kernel_binding(tilec_attention_kernel(a), name);
}

static const factors right[] = {
    {'q', 1, {1}, "@per_tensor", NULL},
    {'k', 1, {HK}, "@per_head", NULL},
    {'v', 2, {B, HK}, "@per_batch_head", NULL},
    {'q', 2, {B, HQ}, "@per_batch_head", NULL},
    {'q', 2, {B, HK}, "@per_key_head", NULL},
    {'q', 3, {B, HQ, 2}, "@per_block", "64"},
    {'k', 3, {B, HK, 8}, "@per_block", "128"},
    {'v', 3, {B, HK, 16}, "@per_block", "64"},
    {'k', 3, {B, HK, 1}, "@per_block", "1024"},
    {'o', 1, {HQ}, "@per_head", NULL},
    {'o', 2, {B, HK}, "@per_key_head", NULL},
};

START_TEST(functions)
{
    const factors *f = &right[_i];
    char name[] = "descale_?", rows[] = "SCALE_BLOCK_?";
    name[8] = f->of;
    rows[12] = f->of == 'q' ? 'Q' : f->of == 'k' ? 'K' : 'V';
    tilec_attention *a;
    ck_assert_int_eq(plan(f, NULL, &a), TILEC_OK);
    ck_assert_str_eq(bound(a, f->of == 'o' ? "scale_o" : name), f->function);
    if (f->rows)
        ck_assert_str_eq(bound(a, rows), f->rows);
    tilec_attention_free(a);
}
END_TEST

/* A tile has one factor. */
START_TEST(tiles)
{
    const struct {
        const char *columns;
        factors f;
        const char *is;
    } all[] = {{"96", {'k', 3, {B, HK, 16}, NULL, NULL}, "64"},
               {"128", {'v', 3, {B, HK, 32}, NULL, NULL}, "32"},
               {"64", {'k', 3, {B, HK, 8}, NULL, NULL}, "64"},
               {"96", {'k', 2, {B, HK}, NULL, NULL}, "96"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tilec_attention *a;
        ck_assert_int_eq(plan(&all[i].f, all[i].columns, &a), TILEC_OK);
        ck_assert_str_eq(bound(a, "BN"), all[i].is);
        tilec_attention_free(a);
    }
}
END_TEST

static const factors wrong[] = {
    {'k',
     3,
     {B, HK, INT64_C(1) << 60},
     "argument descale_k: the shape is [2, 2, 1152921504606846976], "
     "expected [1], [2], [2, 2] or one for each block of a power of two of "
     "rows",
     NULL},
    {'k',
     1,
     {3},
     "argument descale_k: the shape is [3], expected [1], [2], [2, 2] or one "
     "for each block of a power of two of rows",
     NULL},
    {'q',
     2,
     {3, HQ},
     "argument descale_q: the shape is [3, 4], expected [1], [4], [2, 4], "
     "[2, 2] or one for each block of a power of two of rows",
     NULL},
    {'k',
     2,
     {B, HQ},
     "argument descale_k: the shape is [2, 4], expected [1], [2], [2, 2] or "
     "one for each block of a power of two of rows",
     NULL},
    {'k',
     3,
     {B, HK, 3}, /* 512 make 2, 256 make 4 */
     "argument descale_k: the shape is [2, 2, 3], expected [1], [2], [2, 2] "
     "or one for each block of a power of two of rows",
     NULL},
    {'k',
     3,
     {B, HK, 125},
     "argument descale_k: the shape is [2, 2, 125], expected [1], [2], "
     "[2, 2] or one for each block of a power of two of rows",
     NULL},
    {'o',
     3,
     {B, HQ, 2},
     "argument scale_o: the shape is [2, 4, 2], expected [1], [4], [2, 4], "
     "[2, 2]",
     NULL},
    {'v',
     0,
     {0},
     "argument descale_v: the shape is [], expected [1], [2], [2, 2] or one "
     "for each block of a power of two of rows",
     NULL},
};

START_TEST(shapes)
{
    tilec_attention *a;
    ck_assert_int_eq(plan(&wrong[_i], NULL, &a), TILEC_INPUT);
    ck_assert_ptr_null(a);
    ck_assert_str_eq(tilec_diagnostics(cx)->message, wrong[_i].function);
}
END_TEST

/* What is bound by name is meant. */
START_TEST(bindings)
{
    int64_t size[] = {B, HQ, M, D}, of[] = {B, HQ};
    DLTensor t = {.ndim = 4, .dtype = {kDLFloat, 32, 1}, .shape = size};
    DLTensor scales = {.ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = of};
    const tilec_binding by_name = {"descale_k", "@per_head"};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.bindings = &by_name;
    o.nbindings = 1;
    o.descale_k = &scales;
    tilec_attention *a;
    ck_assert_int_eq(tilec_attention_plan(cx, &t, &t, &t, &o, &a), TILEC_OK);
    ck_assert_str_eq(bound(a, "descale_k"), "@per_head");
    tilec_attention_free(a);
}
END_TEST

/* By rows v is read byte by byte on sm_89. */
START_TEST(enforced)
{
    int64_t size[] = {B, HQ, M, D};
    DLTensor t = {.ndim = 4, .dtype = {TILEC_DL_F8E4M3, 8, 1}, .shape = size};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "sm_89";
    o.no_load = o.no_cache = 1;
    tilec_attention *a;
    ck_assert_int_eq(tilec_attention_plan(cx, &t, &t, &t, &o, &a), TILEC_OK);
    ck_assert_int_eq(tilec_diagnostics(cx)->severity, TILEC_WARNING);
    tilec_attention_free(a);
    o.enforce = TILEC_ENFORCE_OFF;
    ck_assert_int_eq(tilec_attention_plan(cx, &t, &t, &t, &o, &a), TILEC_OK);
    ck_assert_ptr_null(tilec_diagnostics(cx));
    tilec_attention_free(a);
    o.enforce = TILEC_ENFORCE_ERROR;
    ck_assert_int_eq(tilec_attention_plan(cx, &t, &t, &t, &o, &a), TILEC_INPUT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("factors");
    TCase *c = tcase_create("factors");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_loop_test(c, functions, 0, sizeof right / sizeof *right);
    tcase_add_test(c, tiles);
    tcase_add_loop_test(c, shapes, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(c, bindings);
    tcase_add_test(c, enforced);
    suite_add_tcase(s, c);
    return run_suite(s);
}
