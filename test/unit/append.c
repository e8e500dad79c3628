/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface that fills a cache: its messages, and that tensors arrive where
 * they should. (Values are tested in test/numerics/append.c.)
 */
#include "lib/handles.h"
#include "test/unit/run.h"

#include <string.h>

enum { B = 2, HK = 2, M = 3, D = 16, PAGE = 4, PAGES = 5, WIDTH = 2 };

/* The tensors of a call, all of which exist. */
static struct inputs {
    float k[B * HK * M * D], v[B * HK * M * D], q[B * HK * M * D];
    float k_cache[PAGES * HK * PAGE * D], v_cache[PAGES * HK * PAGE * D];
    float cos[64 * D / 2], sin[64 * D / 2];
    float k_scales[PAGES * HK * PAGE], v_scales[HK];
    int32_t kv_lens[B], table[B * WIDTH], indptr[B + 1], positions[B * M];
} in;

static tilec_context *cx;
static int64_t shapes[16][4];
static DLTensor tensors[16];
static int ntensors;

static const DLTensor *tensor(void *data, DLDataType type, int ndim, int64_t a,
                              int64_t b, int64_t c, int64_t d)
{
    int i = ntensors++;
    memcpy(shapes[i], (int64_t[]){a, b, c, d}, sizeof shapes[i]);
    tensors[i] = (DLTensor){.data = data,
                            .device = {kDLCPU, 0},
                            .ndim = ndim,
                            .dtype = type,
                            .shape = shapes[i]};
    return &tensors[i];
}

static const DLDataType f32 = {kDLFloat, 32, 1}, i32 = {kDLInt, 32, 1};

/* Contiguous caches would be [B, HK, N, D]: these are pages. */
static tilec_append_tensors paged(void)
{
    tilec_append_tensors t = TILEC_INIT(tilec_append_tensors);
    t.k = tensor(in.k, f32, 4, B, HK, M, D);
    t.v = tensor(in.v, f32, 4, B, HK, M, D);
    t.k_cache = tensor(in.k_cache, f32, 4, PAGES, HK, PAGE, D);
    t.v_cache = tensor(in.v_cache, f32, 4, PAGES, HK, PAGE, D);
    t.kv_lens = tensor(in.kv_lens, i32, 1, B, 0, 0, 0);
    t.page_table = tensor(in.table, i32, 2, B, WIDTH, 0, 0);
    return t;
}

static void set_up(void)
{
    ck_assert_int_eq(tilec_context_new(NULL, &cx), TILEC_OK);
    memset(&in, 0, sizeof in);
    ntensors = 0;
    for (int i = 0; i < B * HK * M * D; i++) {
        in.k[i] = (float)(1 + i);
        in.v[i] = (float)-(1 + i);
    }
    for (int i = 0; i < B * WIDTH; i++)
        in.table[i] = PAGES - 1 - i;
    in.kv_lens[0] = 2;
}

static void tear_down(void)
{
    tilec_context_free(cx);
}

static tilec_append *plan_of(const tilec_append_tensors *t,
                             const tilec_append_options *given)
{
    tilec_append_options o = TILEC_INIT(tilec_append_options);
    if (given)
        o = *given;
    o.target = "cpu";
    tilec_append *a;
    tilec_status s = tilec_append_plan(cx, t, &o, &a);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    return a;
}

static void runs(const tilec_append *a, const tilec_append_tensors *t)
{
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_status s = tilec_append_run(a, t, NULL, &error);
    ck_assert_msg(s == TILEC_OK, "%s", error.message);
}

static void fails(const tilec_append *a, const tilec_append_tensors *t,
                  const char *why)
{
    tilec_error error = TILEC_INIT(tilec_error);
    ck_assert_int_ne(tilec_append_run(a, t, NULL, &error), TILEC_OK);
    ck_assert_msg(strstr(error.message, why), "%s", error.message);
}

static void plan_fails(const tilec_append_tensors *t, const char *why)
{
    tilec_append *a;
    ck_assert_int_ne(tilec_append_plan(cx, t, NULL, &a), TILEC_OK);
    ck_assert_ptr_null(a);
    const char *message = tilec_diagnostics(cx)->message;
    ck_assert_msg(strstr(message, why), "%s", message);
}

/* Element [p, h, n, 0] of a cache. */
static float cached(const float *cache, int p, int h, int n)
{
    return cache[((p * HK + h) * PAGE + n) * D];
}

START_TEST(test_pages)
{
    tilec_append_tensors t = paged();
    tilec_append *a = plan_of(&t, NULL);
    ck_assert_str_eq(tilec_kernel_name(tilec_append_kernel(a)), "append");
    runs(a, &t);
    /* Sequence 0 has its rows at 2, 3 and 4: pages 4 and 3. */
    ck_assert_float_eq(cached(in.k_cache, 4, 1, 2), in.k[3 * D]);
    ck_assert_float_eq(cached(in.k_cache, 4, 1, 3), in.k[4 * D]);
    ck_assert_float_eq(cached(in.v_cache, 3, 1, 0), in.v[5 * D]);
    ck_assert_float_eq(cached(in.k_cache, 2, 0, 0), in.k[6 * D]);
    ck_assert_float_eq(cached(in.k_cache, 4, 0, 0), 0);
    tilec_append_free(a);
    tilec_append_free(NULL);
}
END_TEST

START_TEST(test_lists_of_pages)
{
    tilec_append_tensors t = paged();
    t.page_table = NULL;
    t.kv_indices = tensor(in.table, i32, 1, B * WIDTH, 0, 0, 0);
    t.kv_indptr = tensor(in.indptr, i32, 1, B + 1, 0, 0, 0);
    in.indptr[1] = 3;
    in.indptr[2] = 4;
    tilec_append *a = plan_of(&t, NULL);
    runs(a, &t);
    ck_assert_float_eq(cached(in.k_cache, 3, 1, 0), in.k[5 * D]);
    ck_assert_float_eq(cached(in.k_cache, 1, 0, 0), in.k[6 * D]);
    tilec_append_free(a);
}
END_TEST

START_TEST(test_rotary_and_factors)
{
    tilec_append_tensors t = paged();
    /* By 90 degrees in the second row of the tables only. */
    for (int i = 0; i < 64 * D / 4; i++) {
        in.cos[i] = i / (D / 4) != 1;
        in.sin[i] = i / (D / 4) == 1;
    }
    in.positions[1] = 1;
    in.v_scales[0] = 2;
    in.v_scales[1] = 4;
    t.q = t.q_out = tensor(in.q, f32, 4, B, HK, M, D);
    memcpy(in.q, in.k, sizeof in.q);
    t.cos = tensor(in.cos, f32, 2, 64, D / 4, 0, 0);
    t.sin = tensor(in.sin, f32, 2, 64, D / 4, 0, 0);
    t.positions = tensor(in.positions, i32, 2, B, M, 0, 0);
    t.k_scales = tensor(in.v_scales, f32, 1, 1, 0, 0, 0);
    t.v_scales = tensor(in.v_scales, f32, 1, HK, 0, 0, 0);
    tilec_append_options o = TILEC_INIT(tilec_append_options);
    o.rotary_offset = D / 2;
    o.interleaved = 1;
    tilec_append *a = plan_of(&t, &o);
    runs(a, &t);
    const float *row = &in.k[D], *out = &in.q[D];
    ck_assert_float_eq(out[D / 2 - 1], row[D / 2 - 1]);
    ck_assert_float_eq(out[D / 2], -row[D / 2 + 1]);
    ck_assert_float_eq(out[D / 2 + 1], row[D / 2]);
    ck_assert_float_eq(in.q[D / 2], in.k[D / 2]);
    ck_assert_float_eq(cached(in.k_cache, 4, 1, 2), in.k[3 * D] / 2);
    ck_assert_float_eq(cached(in.v_cache, 4, 1, 2), in.v[3 * D] / 4);
    tilec_append_free(a);
}
END_TEST

START_TEST(test_no_place)
{
    tilec_append_tensors t = paged();
    tilec_append *a = plan_of(&t, NULL);
    static const char why[] = "a new row has no place";
    tilec_error error = TILEC_INIT(tilec_error);
    in.table[1] = PAGES;
    ck_assert_int_eq(tilec_append_run(a, &t, NULL, &error), TILEC_INPUT);
    ck_assert(strstr(error.message, why) && strstr(error.file, "append.tile"));
    ck_assert_uint_gt(error.line, 0);
    in.table[1] = -1;
    fails(a, &t, why);
    in.table[1] = 0;
    in.kv_lens[1] = PAGE * WIDTH - M + 1;
    fails(a, &t, why);
    in.kv_lens[1]--;
    runs(a, &t);
    tilec_append_free(a);
}
END_TEST

START_TEST(test_messages)
{
    tilec_append_tensors t = paged(), u;
    u = t;
    u.k = NULL;
    plan_fails(&u, "k is NULL");
    u = t;
    u.v_cache = NULL;
    plan_fails(&u, "v needs v_cache");
    u = t;
    u.cos = tensor(in.cos, f32, 2, 64, D / 2, 0, 0);
    plan_fails(&u, "cos needs sin");
    u = t;
    u.kv_indptr = tensor(in.indptr, i32, 1, B + 1, 0, 0, 0);
    plan_fails(&u, "kv_indptr needs kv_indices");
    u.kv_indices = tensor(in.table, i32, 1, 4, 0, 0, 0);
    plan_fails(&u, "page_table and kv_indices are both given");
    u = t;
    u.k_scales = tensor(in.v_scales, f32, 1, HK, 0, 0, 0);
    plan_fails(&u, "k_scales needs v_scales");
    u.v_scales = tensor(in.k_scales, f32, 3, PAGES, HK, PAGE, 0);
    plan_fails(&u, "v_scales: rank is 3, expected 1 as of k_scales");
    u = t;
    u.page_table = tensor(in.table, i32, 1, B, 0, 0, 0);
    plan_fails(&u, "page_table: rank is 1, expected 2");
    tilec_append *a;
    ck_assert_int_eq(tilec_append_plan(cx, NULL, NULL, &a), TILEC_USAGE);
    ck_assert_int_eq(tilec_append_plan(cx, &t, NULL, NULL), TILEC_USAGE);
    a = plan_of(&t, NULL);
    u = t;
    u.v = u.v_cache = NULL;
    fails(a, &u, "v is NULL, but not in the call of tilec_append_plan");
    u = t;
    u.kv_lens = tensor(in.kv_lens, i32, 1, 1, 0, 0, 0);
    fails(a, &u, "kv_lens must have one length for each sequence");
    u = t;
    u.v_cache = u.k_cache;
    fails(a, &u, "v_cache: overlaps k_cache in memory");
    fails(NULL, &t, "the plan or tensors is NULL");
    tilec_append_free(a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("append");
    TCase *t = tcase_create("append");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, test_pages);
    tcase_add_test(t, test_lists_of_pages);
    tcase_add_test(t, test_rotary_and_factors);
    tcase_add_test(t, test_no_place);
    tcase_add_test(t, test_messages);
    suite_add_tcase(s, t);
    return run_suite(s);
}
