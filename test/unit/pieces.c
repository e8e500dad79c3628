/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether attention without a cache splits keys over programs: sizes, masks and
 * options that do and do not, and what such a plan does with other tensors than
 * it was made for. That results are right: numerics_attention --split 1.
 */
#include "lib/attention/attention.h"
#include "lib/cache/cache.h"
#include "lib/handles.h"
#include "test/unit/run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tilec_context *cx;
static char folder[64];
static int64_t sizes[3][4];
static DLTensor t[3];

static void set_up(void)
{
    strcpy(folder, "/tmp/tilec-pieces-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = FAKE_CUDA; /* 132 multiprocessors */
    o.cache_folder = folder;
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
}

static void tear_down(void)
{
    size_t n;
    tc_cache cache = {.folder = folder};
    tilec_context_free(cx);
    tc_cache_clear(&cache, &n);
    rmdir(folder);
}

static void make_tensors(int batch, int heads, int group, int queries, int keys,
                         int dim)
{
    const int64_t all[3][4] = {{batch, heads, queries, dim},
                               {batch, heads / group, keys, dim},
                               {batch, heads / group, keys, dim}};
    memcpy(sizes, all, sizeof sizes);
    for (int i = 0; i < 3; i++)
        t[i] = (DLTensor){.device = {kDLCPU, 0},
                          .ndim = 4,
                          .dtype = {kDLBfloat, 16, 1},
                          .shape = sizes[i]};
}

/* ---- Sizes ---- */

static const struct size {
    int batch, heads, group, queries, keys, dim;
    bool is_split;
} all_sizes[] = {
    {1, 32, 4, 1, 32768, 128, true},
    {1, 32, 4, 1, 1024, 128, true},
    {1, 32, 4, 1, 1023, 128, false}, /* too few keys */
    {1, 32, 4, 64, 2048, 128, true},
    {1, 32, 4, 64, 2047, 128, false},
    {64, 32, 4, 8, 4096, 128, true}, /* few rows: any number of blocks */
    {64, 32, 4, 9, 4096, 128, false},
    {1, 32, 4, 256, 4096, 128, true}, /* 8 blocks of each of 8 heads */
    {1, 32, 4, 257, 4096, 128, false},
    {2, 32, 4, 128, 4096, 128, true},
    {2, 32, 4, 129, 4096, 128, false},
    {1, 32, 4, 1, 4096, 512, false}, /* wide */
};

START_TEST(few_blocks_are_split)
{
    const struct size *s = &all_sizes[_i];
    make_tensors(s->batch, s->heads, s->group, s->queries, s->keys, s->dim);
    const tc_target *target = tc_target_get("sm_90a");
    ck_assert_int_eq(
        tc_attention_pieces_of(&t[0], &t[1], &t[2], target, 132, false) > 0,
        s->is_split);
    /* Without a GPU nobody knows, unless it is asked for. */
    ck_assert_int_eq(
        tc_attention_pieces_of(&t[0], &t[1], &t[2], target, 0, false), 0);
    ck_assert_int_gt(
        tc_attention_pieces_of(&t[0], &t[1], &t[2], target, 0, true), 0);
}
END_TEST

/* ---- Plans ---- */

static const struct plan {
    const char *target, *mask, *option, *value;
    int max;
    bool is_split;
} plans[] = {
    {"sm_90a", NULL, NULL, NULL, 0, true},
    {"sm_80", NULL, NULL, NULL, 0, true},
    {"cpu", NULL, NULL, NULL, 0, false},
    {"cpu", NULL, "SPLIT_KEYS", "true", 0, true},
    {"sm_90a", NULL, "SPLIT_KEYS", "false", 0, false},
    {"sm_90a", NULL, "BLOCK_N", "64", 0, false}, /* of @attention_fwd */
    {"sm_90a", NULL, NULL, NULL, 1, false},      /* the largest scores */
    {"sm_90a", "causal_bottom_right", NULL, NULL, 0, true},
    {"sm_90a", "causal", NULL, NULL, 0, false}, /* hides the last keys */
    {"sm_90a", "sliding_window(w=100)", NULL, NULL, 0, false},
    {"sm_90a", "local_window_bottom_right(left=9, right=0)", NULL, NULL, 0,
     false},                                            /* the first ones */
    {"sm_90a", "sliding_window", NULL, NULL, 0, false}, /* by any w */
    {"sm_90a", "padding", NULL, NULL, 0, true},         /* not known */
};

START_TEST(plans_that_split)
{
    const struct plan *p = &plans[_i];
    make_tensors(1, 8, 4, 2, 4096, 16);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_binding given = {p->option, p->value};
    tilec_attention *a;
    o.target = p->target;
    o.mask = p->mask;
    o.max = p->max;
    o.no_load = 1;
    o.kernel_options = &given;
    o.nkernel_options = p->option != NULL;
    tilec_status s = tilec_attention_plan(cx, &t[0], &t[1], &t[2], &o, &a);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    ck_assert_str_eq(tilec_kernel_name(tilec_attention_kernel(a)),
                     p->is_split ? "split_attention" : "attention_fwd");
    tilec_attention_free(a);
}
END_TEST

START_TEST(what_is_not_split)
{
    make_tensors(1, 8, 4, 2, 4096, 16);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    const tilec_binding given = {"SPLIT_KEYS", "true"},
                        wrong = {"SPLIT_KEYS", "2"};
    tilec_attention *a;
    o.target = "cpu";
    o.max = 1;
    o.kernel_options = &given;
    o.nkernel_options = 1;
    ck_assert_int_eq(tilec_attention_plan(cx, &t[0], &t[1], &t[2], &o, &a),
                     TILEC_USAGE);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "kernel option SPLIT_KEYS: keys are not split with the "
                     "largest scores as a result");
    o.max = 0;
    o.kernel_options = &wrong;
    ck_assert_int_eq(tilec_attention_plan(cx, &t[0], &t[1], &t[2], &o, &a),
                     TILEC_USAGE);
    ck_assert_ptr_nonnull(
        strstr(tilec_diagnostics(cx)->message, "expected true or false"));
}
END_TEST

START_TEST(variants_tell_plans_apart)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    const tilec_binding given = {"SPLIT_KEYS", "true"};
    make_tensors(1, 32, 4, 1, 4096, 64);
    o.target = "sm_90a";
    int64_t one = tilec_attention_variant(cx, &t[0], &t[1], &t[2], &o);
    ck_assert_int_gt(one, 0);
    sizes[1][2] = sizes[2][2] = 8192;
    ck_assert_int_eq(tilec_attention_variant(cx, &t[0], &t[1], &t[2], &o), one);
    sizes[0][2] = 40; /* tiles of many rows */
    ck_assert_int_ne(tilec_attention_variant(cx, &t[0], &t[1], &t[2], &o), one);
    sizes[1][2] = sizes[2][2] = 100; /* few blocks, and short */
    ck_assert_int_eq(tilec_attention_variant(cx, &t[0], &t[1], &t[2], &o), 1);
    sizes[0][2] = 5000;
    ck_assert_int_eq(tilec_attention_variant(cx, &t[0], &t[1], &t[2], &o), 0);
    o.target = "cpu";
    ck_assert_int_eq(tilec_attention_variant(cx, &t[0], &t[1], &t[2], &o), 0);
    o.kernel_options = &given;
    o.nkernel_options = 1;
    ck_assert_int_gt(tilec_attention_variant(cx, &t[0], &t[1], &t[2], &o), 0);
    t[2].ndim = 3;
    ck_assert_int_eq(tilec_attention_variant(cx, &t[0], &t[1], &t[2], &o), -1);
    ck_assert_int_eq(tilec_attention_variant(NULL, NULL, NULL, NULL, NULL), -1);
}
END_TEST

/* ---- Calls ---- */

enum { MOST = 2 * 4 * 700 * 16 };
static float data[4][MOST], lse[64], expected[MOST], expected_lse[64];

static tilec_attention *plan_on_cpu(const char *splits)
{
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_binding given = {"SPLIT_KEYS", splits};
    tilec_attention *a;
    o.target = "cpu";
    o.mask = "causal_bottom_right";
    o.kernel_options = &given;
    o.nkernel_options = 1;
    ck_assert_int_eq(tilec_attention_plan(cx, &t[0], &t[1], &t[2], &o, &a),
                     TILEC_OK);
    return a;
}

static void call(const tilec_attention *a, bool has_room)
{
    DLTensor o = t[0], rows = t[0];
    rows.ndim = 3;
    for (int i = 0; i < 3; i++)
        t[i].data = data[i];
    o.data = data[3];
    rows.data = lse;
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_attention_tensors all = TILEC_INIT(tilec_attention_tensors);
    all.q = &t[0];
    all.k = &t[1];
    all.v = &t[2];
    all.o = &o;
    all.lse = &rows;
    ck_assert_int_eq(
        tilec_attention_workspace(a, &all, &all.workspace_bytes, NULL, &e),
        TILEC_OK);
    if (has_room && all.workspace_bytes)
        all.workspace =
            aligned_alloc(256, (all.workspace_bytes + 255) / 256 * 256);
    memset(data[3], 0, sizeof data[3]);
    ck_assert_msg(tilec_attention_forward(a, &all, NULL, &e) == TILEC_OK, "%s",
                  e.message);
    free(all.workspace);
}

static void as_floats(void)
{
    for (int i = 0; i < 3; i++) {
        t[i].dtype = (DLDataType){kDLFloat, 32, 1};
        for (int j = 0; j < MOST; j++)
            data[i][j] = sinf((float)(j * (i + 3) % 1009));
    }
}

/* With room and without, for tensors that it was made for and others: other
 * lengths, heads that share a head of k otherwise. */
START_TEST(calls_of_all_sizes)
{
    static const int cases[][5] = {{2, 4, 2, 3, 700},
                                   {1, 4, 2, 16, 90},
                                   {2, 4, 4, 2, 300},
                                   {1, 4, 1, 1, 5}};
    make_tensors(2, 4, 2, 3, 700, 16);
    as_floats();
    tilec_attention *split = plan_on_cpu("true"), *whole = plan_on_cpu("false");
    for (int i = 0; i < 4; i++) {
        const int *c = cases[i];
        make_tensors(c[0], c[1], c[2], c[3], c[4], 16);
        as_floats();
        call(whole, true);
        memcpy(expected, data[3], sizeof expected);
        memcpy(expected_lse, lse, sizeof lse);
        for (int has_room = 0; has_room < 2; has_room++) {
            call(split, has_room);
            for (int j = 0; j < c[0] * c[1] * c[3] * 16; j++)
                ck_assert_double_eq_tol(data[3][j], expected[j], 1e-5);
            for (int j = 0; j < c[0] * c[1] * c[3]; j++)
                ck_assert_double_eq_tol(lse[j], expected_lse[j], 1e-5);
        }
    }
    tilec_attention_free(split);
    tilec_attention_free(whole);
}
END_TEST

/* The same texts with splits and without. */
START_TEST(the_same_errors)
{
    static const struct {
        int tensor, dim;
        const char *message;
    } cases[] = {
        {1, 0, "q, k and v must have the same batch"},
        {2, 2, "k and v must have the same heads and length"},
        {3, 2, "o must have the batch, heads and length of q"},
    };
    make_tensors(2, 4, 2, 3, 40, 16);
    as_floats();
    tilec_attention *plans_of[] = {plan_on_cpu("true"), plan_on_cpu("false")};
    for (int i = 0; i < 6; i++) {
        int64_t o_sizes[4];
        tilec_error e = TILEC_INIT(tilec_error);
        tilec_attention_tensors all = TILEC_INIT(tilec_attention_tensors);
        make_tensors(2, 4, 2, 3, 40, 16);
        as_floats();
        memcpy(o_sizes, sizes[0], sizeof o_sizes);
        int64_t *const shapes[] = {sizes[0], sizes[1], sizes[2], o_sizes};
        shapes[cases[i % 3].tensor][cases[i % 3].dim]--;
        DLTensor o = t[0];
        o.shape = o_sizes;
        o.data = data[3];
        for (int j = 0; j < 3; j++)
            t[j].data = data[j];
        all.q = &t[0];
        all.k = &t[1];
        all.v = &t[2];
        all.o = &o;
        all.workspace_bytes = 1 << 20;
        all.workspace = aligned_alloc(256, all.workspace_bytes);
        ck_assert_int_eq(
            tilec_attention_forward(plans_of[i / 3], &all, NULL, &e),
            TILEC_INPUT);
        ck_assert_msg(strstr(e.message, cases[i % 3].message), "%s", e.message);
        free(all.workspace);
    }
    tilec_attention_free(plans_of[0]);
    tilec_attention_free(plans_of[1]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pieces");
    TCase *tc = tcase_create("pieces");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, few_blocks_are_split, 0,
                        sizeof all_sizes / sizeof *all_sizes);
    tcase_add_loop_test(tc, plans_that_split, 0, sizeof plans / sizeof *plans);
    tcase_add_test(tc, what_is_not_split);
    tcase_add_test(tc, variants_tell_plans_apart);
    tcase_add_test(tc, calls_of_all_sizes);
    tcase_add_test(tc, the_same_errors);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
