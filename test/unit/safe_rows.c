/* SPDX-License-Identifier: Apache-2.0
 *
 * Which masks surely leave every query a key (lib/attention/mask_rows.h), as
 * remarks say it.
 */
#include "lib/attention/mask_blocks.h"
#include "lib/tilec.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tilec_context *cx;

static void set_up(void)
{
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.remarks = 1;
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
}

static void tear_down(void)
{
    tilec_context_free(cx);
}

/* The key that the remark names; "" where there is none. */
static const char *named_key(void)
{
    static char key[64];
    *key = '\0';
    for (const tilec_diagnostic *d = tilec_diagnostics(cx); d; d = d->next)
        sscanf(d->message, "every query sees a key (%63[^)])", key);
    return key;
}

static const struct mask_case {
    const char *mask;
    int queries, keys;
    const char *key; /* NULL: not known */
} masks[] = {
    {"causal", 9, 9, "its own position"},
    {"causal", 9, 8, NULL},
    {"causal", 9, 0, NULL},
    {"causal_bottom_right", 8, 9, "its own position from the end"},
    {"causal_bottom_right", 9, 8, NULL},
    {"sliding_window(w=4)", 8, 8, "its own position"},
    {"sliding_window(w=4)", 9, 8, NULL},
    {"sliding_window(w=0)", 8, 8, NULL},
    {"sliding_window", 8, 8, NULL},
    {"sliding_window(w=4) & document", 8, 8, "its own position"},
    {"!causal | causal", 8, 8, "its own position"},
    {"!causal", 8, 8, NULL},
    {"dilated_sliding_window(w=4, d=2)", 8, 8, "its own position"},
    {"draft_blocks(prefix=3, c=2)", 9, 4, "the first one"},
    {"document_causal", 8, 9, "its own position"},
    {"document_ids", 8, 8, "its own position"},
    {"shared_prefix", 8, 8, "its own position"},
    {"tree", 8, 8, NULL},
};

START_TEST(rows_with_keys)
{
    const struct mask_case *m = &masks[_i];
    tc_mask_blocks from = {.texts = {.texts = {[TC_MOD_MASK] = m->mask}},
                           .target = "cpu",
                           .kernel = "block_kinds",
                           .q_side = 8,
                           .k_side = 8,
                           .q_len = m->queries,
                           .k_len = m->keys};
    tilec_kernel *k;
    tilec_argument *values;
    size_t nvalues;
    ck_assert_int_eq(tc_mask_blocks_new(cx, &from, &k, &values, &nvalues),
                     TILEC_OK);
    ck_assert_str_eq(named_key(), m->key ? m->key : "");
    tilec_kernel_free(k);
}
END_TEST

/* What is wrong with a mask is said once. */
START_TEST(wrong_masks)
{
    static const char text[] =
        "func @wrong(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {\n"
        "  %x = dot %q, %k : i32\n  return true\n}\n";
    int64_t shape[] = {1, 1, 8, 16};
    DLTensor q = {.device = {kDLCPU, 0},
                  .ndim = 4,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape};
    tilec_source source = tilec_text("wrong.tile", text, 0);
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = "wrong";
    o.sources = &source;
    o.nsources = 1;
    tilec_attention *a;
    ck_assert_int_eq(tilec_attention_plan(cx, &q, &q, &q, &o, &a), TILEC_INPUT);
    unsigned n = 0;
    for (const tilec_diagnostic *d = tilec_diagnostics(cx); d; d = d->next)
        n += d->severity == TILEC_ERROR;
    ck_assert_uint_eq(n, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("safe_rows");
    TCase *c = tcase_create("safe_rows");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_loop_test(c, rows_with_keys, 0, sizeof masks / sizeof *masks);
    tcase_add_test(c, wrong_masks);
    suite_add_tcase(s, c);
    return run_suite(s);
}
