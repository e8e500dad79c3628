/* SPDX-License-Identifier: Apache-2.0
 *
 * Over how many programs backward splits the query heads of a block of keys,
 * and that its plan does so. That the sums are right: test/numerics.
 */
#include "lib/attention/attention.h"
#include "lib/cache/cache.h"
#include "lib/handles.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- How many ---- */

/* Of a device with 132 multiprocessors. */
static const struct choice {
    int batch, heads, group, length, block;
    bool is_masked;
    unsigned split;
    bool longest_first;
} choices[] = {
    /* 128 unequal programs: the longest takes twice the mean. */
    {8, 2, 16, 1024, 128, true, 16, false},
    {8, 2, 6, 1024, 128, true, 6, false},
    /* Halves that are well dealt out do. */
    {8, 2, 16, 1024, 128, true, 2, true},
    {8, 2, 6, 1024, 128, true, 2, true},
    {2, 2, 16, 1024, 128, true, 8, true},
    /* 128 equal ones: each has a place. */
    {8, 2, 16, 1024, 128, false, 1, false},
    /* 136: a second turn for four. */
    {17, 1, 16, 1024, 128, false, 16, false},
    /* Enough. */
    {8, 2, 16, 16384, 128, true, 1, false},
    {8, 16, 4, 1024, 128, true, 1, false},
    /* A few keys and many heads. */
    {1, 1, 64, 1024, 128, false, 16, false},
    /* Little work for each key: the parts would cost more. */
    {8, 2, 4, 16, 128, true, 1, false},
    /* Nothing to split. */
    {8, 2, 1, 1024, 128, true, 1, false},
    {0, 2, 16, 1024, 128, true, 1, false},
    {8, 2, 16, 0, 128, true, 1, false},
};

START_TEST(as_many_as_pay)
{
    const struct choice *c = &choices[_i];
    tc_attention_work w = {c->batch,     c->heads,         c->group,
                           c->length,    c->length,        c->block,
                           c->is_masked, c->longest_first, 132};
    ck_assert_uint_eq(tc_attention_split(&w), c->split);
    w.sms = 0;
    ck_assert_uint_eq(tc_attention_split(&w), 1);
}
END_TEST

/* ---- In a plan ---- */

static tilec_context *cx;
static char folder[64];

static void set_up(void)
{
    strcpy(folder, "/tmp/tilec-split-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = FAKE_CUDA; /* 132 multiprocessors */
    o.cache_folder = folder;
    o.remarks = 1;
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

static bool is_split(const tilec_kernel *k)
{
    const tilec_kernel *part;
    for (size_t i = 0; (part = tilec_kernel_part(k, i)); i++)
        if (strcmp(tilec_kernel_name(part), "attention_bwd_sum") == 0)
            return true;
    return false;
}

static const struct plan {
    const char *target;
    int kv_heads;
    const char *given; /* SPLIT */
    bool is_split;
} plans[] = {
    {"sm_80", 2, NULL, true},   {"sm_80", 2, "1", false},
    {"sm_80", 32, NULL, false}, {"sm_80", 32, "2", true},
    {"cpu", 2, NULL, false},
};

START_TEST(plans_are_split)
{
    const struct plan *p = &plans[_i];
    int64_t sizes[2][4] = {{8, 32, 1024, 16}, {8, p->kv_heads, 1024, 16}};
    DLTensor t[2];
    for (int i = 0; i < 2; i++)
        t[i] = (DLTensor){.device = {kDLCPU, 0},
                          .ndim = 4,
                          .dtype = {kDLBfloat, 16, 1},
                          .shape = sizes[i]};
    tilec_binding given = {"SPLIT", p->given};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = p->target;
    o.mask = "causal";
    o.backward = 1;
    o.backward_bindings = &given;
    o.nbackward_bindings = p->given ? 1 : 0;
    tilec_attention *a;
    tilec_status s = tilec_attention_plan(cx, &t[0], &t[1], &t[1], &o, &a);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    ck_assert_int_eq(is_split(tilec_attention_backward_kernel(a)), p->is_split);
    tilec_attention_free(a);
}
END_TEST

/* How dq is added: "0" in any order, "1" by a kernel of its own, "2" in order.
 */
static void expect_way(bool deterministic, const char *mask, int kv_heads,
                       int length, int dim, const char *way)
{
    int64_t sizes[2][4] = {{8, 32, length, dim}, {8, kv_heads, length, dim}};
    DLTensor t[2];
    for (int i = 0; i < 2; i++)
        t[i] = (DLTensor){.device = {kDLCPU, 0},
                          .ndim = 4,
                          .dtype = {kDLBfloat, 16, 1},
                          .shape = sizes[i]};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "sm_90a";
    o.mask = mask;
    o.backward = o.no_load = 1;
    o.deterministic = deterministic;
    tilec_attention *a;
    ck_assert_int_eq(tilec_attention_plan(cx, &t[0], &t[1], &t[1], &o, &a),
                     TILEC_OK);
    const tilec_kernel *k = tilec_attention_backward_kernel(a);
    ck_assert_str_eq(tilec_kernel_binding(k, "DETERMINISTIC"), way);
    tilec_attention_free(a);
}

START_TEST(few_unequal_blocks_take_two_kernels)
{
    expect_way(false, "causal", 2, 1024, 128, "1");
    expect_way(false, NULL, 2, 1024, 128, "0");
    expect_way(false, "causal", 32, 1024, 128, "0");
    expect_way(false, "causal", 2, 1024, 64, "0");
}
END_TEST

START_TEST(same_bits)
{
    expect_way(true, NULL, 32, 1024, 128, "2");
    expect_way(true, "causal", 32, 4096, 64, "2");
    expect_way(true, NULL, 32, 1024, 256, "1");
    expect_way(true, "causal", 2, 1024, 128, "1");
}
END_TEST

START_TEST(short_masked_lengths_take_two_kernels)
{
    expect_way(false, "causal", 32, 512, 128, "1");
    expect_way(false, "causal", 32, 512, 64, "0");
    expect_way(false, NULL, 32, 512, 128, "0");
    expect_way(false, "causal", 32, 513, 128, "0");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("split");
    TCase *t = tcase_create("split");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, as_many_as_pay, 0, sizeof choices / sizeof *choices);
    tcase_add_loop_test(t, plans_are_split, 0, sizeof plans / sizeof *plans);
    tcase_add_test(t, few_unequal_blocks_take_two_kernels);
    tcase_add_test(t, same_bits);
    tcase_add_test(t, short_masked_lengths_take_two_kernels);
    suite_add_tcase(s, t);
    return run_suite(s);
}
