/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels compute the gradients of wide heads on sm_90a: dq, dk and dv
 * one each, where that is tuned. That the gradients are right: test/numerics.
 */
#include "lib/handles.h"
#include "test/unit/run.h"

#include <check.h>
#include <string.h>

static tilec_context *cx;

static void set_up(void)
{
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = "none";
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
}

static void tear_down(void)
{
    tilec_context_free(cx);
}

struct heads {
    int64_t d, dv;
    int key_heads; /* of 4 */
    int bits;      /* 16: bf16, 32: f32 */
    const char *mask, *score;
    tilec_binding given;
    bool is_apart;
};

static tilec_attention *plan_of(const struct heads *h, bool deterministic)
{
    int64_t shapes[3][4] = {{1, 4, 256, h->d},
                            {1, h->key_heads, 256, h->d},
                            {1, h->key_heads, 256, h->dv}};
    DLTensor t[3];
    for (int i = 0; i < 3; i++)
        t[i] = (DLTensor){.device = {kDLCPU, 0},
                          .ndim = 4,
                          .dtype = {h->bits == 16 ? kDLBfloat : kDLFloat,
                                    (uint8_t)h->bits, 1},
                          .shape = shapes[i]};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "sm_90a";
    o.mask = h->mask;
    o.score = h->score;
    o.backward = o.no_load = o.no_cache = 1;
    o.deterministic = deterministic;
    o.backward_bindings = &h->given;
    o.nbackward_bindings = h->given.name != NULL;
    tilec_attention *a;
    tilec_status s = tilec_attention_plan(cx, &t[0], &t[1], &t[2], &o, &a);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    return a;
}

static const tilec_kernel *part(const tilec_attention *a, const char *name)
{
    const tilec_kernel *all = tilec_attention_backward_kernel(a), *k;
    for (size_t i = 0; (k = tilec_kernel_part(all, i)); i++)
        if (strcmp(tilec_kernel_name(k), name) == 0)
            return k;
    return NULL;
}

static const struct heads ways[] = {
    {512, 512, 4, 16, NULL, NULL, {0}, true},
    {320, 320, 4, 16, NULL, NULL, {0}, true},
    {512, 64, 4, 16, NULL, NULL, {0}, true},
    {512, 512, 1, 16, "causal", NULL, {0}, true},
    {512, 512, 2, 16, "sliding_window(w=100)", "soft_cap(cap=30)", {0}, true},
    {512, 512, 2, 16, "document_causal", "alibi", {0}, true},
    {512, 512, 4, 16, NULL, NULL, {"SPLIT", "2"}, true},
    /* without lists, of a step ahead there are two: too much */
    {512, 512, 2, 16, "document_ids", NULL, {0}, false},
    /* blocks of one kernel for both */
    {512, 512, 4, 16, NULL, NULL, {"BN", "32"}, false},
    {512, 512, 4, 32, NULL, NULL, {0}, false},
    {256, 256, 4, 16, "causal", NULL, {0}, false},
    {64, 512, 4, 16, NULL, NULL, {0}, false},
};

START_TEST(kernels_of_gradients)
{
    const struct heads *h = &ways[_i];
    tilec_attention *a = plan_of(h, true);
    ck_assert(!part(a, "attention_bwd_dk") == !h->is_apart);
    ck_assert(!part(a, "attention_bwd_dv") == !h->is_apart);
    ck_assert(!part(a, "attention_bwd_dkv") == h->is_apart);
    ck_assert_ptr_nonnull(part(a, "attention_bwd_dq"));
    tilec_attention_free(a);
}
END_TEST

static void expect_bound(const tilec_attention *a, const char *name,
                         const char *value)
{
    const tilec_kernel *k = tilec_attention_backward_kernel(a);
    ck_assert_str_eq(tilec_kernel_binding(k, name), value);
}

/* Without the same bits, too; with the columns of dv that a program takes. */
START_TEST(wide_heads_take_three_kernels)
{
    tilec_attention *a = plan_of(&ways[0], false);
    ck_assert_ptr_null(part(a, "attention_bwd"));
    ck_assert_ptr_nonnull(part(a, "attention_bwd_dk"));
    expect_bound(a, "BLOCK_DV", "256");
    expect_bound(a, "BN", "64");
    expect_bound(a, "BNV", "128");
    tilec_attention_free(a);
    a = plan_of(&ways[2], false);
    expect_bound(a, "BLOCK_DV", "64");
    tilec_attention_free(a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wide");
    TCase *t = tcase_create("wide");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, kernels_of_gradients, 0, sizeof ways / sizeof *ways);
    tcase_add_test(t, wide_heads_take_three_kernels);
    suite_add_tcase(s, t);
    return run_suite(s);
}
