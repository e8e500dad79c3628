/* SPDX-License-Identifier: Apache-2.0
 *
 * Mod expressions: their errors, at their places, and what they capture.
 */
#include "lib/mods/mods.h"
#include "test/unit/run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static tilec_context *cx;

static void make_context(void)
{
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cache_folder = ""; /* all is compiled, each time */
    ck_assert_int_eq(tilec_context_new(&o, &cx), TILEC_OK);
}

static void free_context(void)
{
    tilec_context_free(cx);
}

static const char file_text[] =
    "func @odd(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {\n"
    "  return (%k & 1) == 1\n"
    "}\n"
    "func @wide(%b: i32, %h: i32, %q: i32, %k: i32, %w: i64) -> i1 {\n"
    "  return cast(%k, i64) < %w\n"
    "}\n"
    "func @two(%a: i32) -> i32 {\n"
    "  return %a\n"
    "}\n";

static int read_text(void *user, const char *file, char **text)
{
    int *nread = user;
    if (strcmp(file, "my.tile") != 0)
        return 0;
    ++*nread;
    *text = strdup(file_text);
    return 1;
}

static tilec_status plan(const char *mask, const char *score,
                         tilec_attention **out, int *nread)
{
    int64_t shape[4] = {1, 2, 32, 16};
    DLTensor t = {.device = {kDLCPU, 0},
                  .ndim = 4,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.mask = mask;
    o.score = score;
    o.read_source = nread ? read_text : NULL;
    o.user = nread;
    return tilec_attention_plan(cx, &t, &t, &t, &o, out);
}

static const struct {
    const char *mask, *score;
    uint32_t column;
    const char *message;
} bad[] = {
    {"", NULL, 1, "the expression ends, expected a mask function"},
    {NULL, " ", 2, "the expression ends, expected a score function"},
    {"causal &", NULL, 9, "the expression ends, expected a mask function"},
    {"causal | | document", NULL, 10, "found `|`, expected a mask function"},
    {"causal causal", NULL, 8, "found `causal`, expected `&`, `|` or the end"},
    {NULL, "alibi & alibi", 7, "found `&`, expected `,` or the end"},
    {"(causal", NULL, 8, "the expression ends, expected `&`, `|` or `)`"},
    {"causal)", NULL, 7, "found `)`, expected `&`, `|` or the end"},
    {"3", NULL, 1, "found `3`, expected a mask function"},
    {"a.tile@", NULL, 1, "found `a.tile@`, expected a mask function"},
    {"caussal", NULL, 1,
     "there is no mask function `caussal`; did you mean `causal`?"},
    {"causal & qqqqqqq", NULL, 10, "there is no mask function `qqqqqqq`"},
    {"alibi", NULL, 1, "`alibi` is a score function, expected a mask function"},
    {NULL, "causal", 1,
     "`causal` is a mask function, expected a score function"},
    {"centre", NULL, 1,
     "`centre` is no mask function: expected (b: i32, h: i32, q: i32, k: "
     "i32, ...) -> i1"},
    {"sliding_window(1024)", NULL, 16, "found `1024`, expected NAME=VALUE"},
    {"sliding_window(w=)", NULL, 18,
     "found `)`, expected a number, or the name of a captured buffer"},
    {"sliding_window(w=1", NULL, 19,
     "the expression ends, expected `,` or `)`"},
    {"sliding_window(w=1, w=2)", NULL, 21, "`w` is given twice"},
    {"causal & sliding_window(size=3)", NULL, 25,
     "`sliding_window` captures no `size`, only: w"},
    {"causal(w=3)", NULL, 8, "`causal` captures no `w`, only: nothing"},
    {"sliding_window(w=1.5)", NULL, 16,
     "`w` of `sliding_window` is i32, expected a whole number"},
    {"document(offsets=3)", NULL, 10,
     "`offsets` of `document` is tensor<[?] x i32>, not a number: give the "
     "tensor at launch, or its name here"},
    {"shifted(causal", NULL, 15,
     "the expression ends, expected `&`, `|` or `)`"},
    {NULL, "shifted(alibi", 14, "the expression ends, expected `,` or `)`"},
    {"shifted(causal | mapped(document))", NULL, 25,
     "positions are given twice: `shifted` and `mapped` do not nest"},
    {"shifted", NULL, 1, "there is no mask function `shifted`"},
    {"causal & no.tile@f", NULL, 10, "`no.tile` cannot be read"},
    {"my.tile@od", NULL, 1,
     "there is no function `od` in `my.tile`; did you mean `odd`?"},
};

START_TEST(refuses)
{
    tilec_attention *a = (tilec_attention *)1;
    int nread = 0;
    ck_assert_int_eq(plan(bad[_i].mask, bad[_i].score, &a, &nread),
                     TILEC_INPUT);
    ck_assert_ptr_null(a);
    const tilec_diagnostic *d = tilec_diagnostics(cx);
    ck_assert_str_eq(d->message, bad[_i].message);
    ck_assert_str_eq(d->file, bad[_i].mask ? "<mask>" : "<score>");
    ck_assert_uint_eq(d->line, 1);
    ck_assert_uint_eq(d->column, bad[_i].column);
    ck_assert_str_eq(d->source, bad[_i].mask ? bad[_i].mask : bad[_i].score);
}
END_TEST

START_TEST(limits_depth_and_length)
{
    char deep[400], many[4000] = "causal";
    memset(deep, '!', 100);
    strcpy(deep + 100, "causal");
    tilec_attention *a;
    ck_assert_int_eq(plan(deep, NULL, &a, NULL), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "the expression is nested deeper than 64");
    for (int i = 0; i < 300; i++)
        strcat(many, "&causal");
    ck_assert_int_eq(plan(many, NULL, &a, NULL), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "the expression names more than 256 functions");
    ck_assert_int_eq(plan("my.tile@odd", NULL, &a, NULL), TILEC_INPUT);
    ck_assert_str_eq(tilec_diagnostics(cx)->message,
                     "`my.tile` cannot be read");
}
END_TEST

static void expect_captured(const char *mask, const char *score,
                            const char *expected)
{
    tilec_attention *a;
    int nread = 0;
    tilec_status s = plan(mask, score, &a, &nread);
    ck_assert_msg(s == TILEC_OK, "%s",
                  s == TILEC_OK ? "" : tilec_diagnostics(cx)->message);
    ck_assert_int_le(nread, 1);
    const tilec_kernel *k = tilec_attention_kernel(a);
    char got[300] = "";
    const tilec_parameter *p;
    for (size_t i = 0; (p = tilec_kernel_parameter(k, i)); i++)
        if (p->captured) {
            strcat(got, *got ? " " : "");
            strcat(got, p->name);
        }
    ck_assert_str_eq(got, expected);
    tilec_attention_free(a);
}

START_TEST(names_what_is_captured)
{
    expect_captured("causal", NULL, "");
    expect_captured("causal_bottom_right", NULL, "");
    expect_captured("!(causal & document) | causal", NULL, "mask.offsets");
    expect_captured("sliding_window(w=4)", "soft_cap(cap=3), alibi",
                    "score.cap score.slopes mask.w");
    /* The same value is shared, another one is named after its mod. */
    expect_captured("sliding_window(w=4) | !sliding_window(w=4)", NULL,
                    "mask.w");
    expect_captured("sliding_window(w=4) | sliding_window(w=8)", NULL,
                    "mask.sliding_window.w mask.sliding_window_2.w");
    expect_captured("sliding_window | sliding_window(w=8)", NULL,
                    "mask.w mask.sliding_window.w");
    expect_captured("sliding_window | my.tile@wide & my.tile@odd", NULL,
                    "mask.w mask.wide.w");
    expect_captured("document(offsets=a) & document(offsets=b)", NULL,
                    "mask.a mask.b");
    expect_captured("@causal", NULL, "");
    /* Placed mods have the lengths of the whole. */
    expect_captured("shifted(causal_bottom_right) & causal", "mapped(alibi)",
                    "score.slopes score.q_map score.k_map score.h_offset "
                    "mask.q_total mask.kv_total mask.q_offset mask.k_offset "
                    "mask.h_offset");
}
END_TEST

/* Allocation failures on the way through a foreign text. */
START_TEST(out_of_memory_is_a_status)
{
    for (unsigned long n = 1;; n += n < 100 ? 1 : 1 + n / 10) {
        tilec_attention *a;
        int nread = 0;
        cx->memory.fail_after = n;
        tilec_status s = plan("my.tile@odd & sliding_window(w=2)",
                              "soft_cap(cap=2.5)", &a, &nread);
        bool reached = cx->memory.fail_after == 0;
        cx->memory.fail_after = 0;
        if (!reached) {
            ck_assert_int_eq(s, TILEC_OK);
            tilec_attention_free(a);
            break;
        }
        ck_assert_int_eq(s, TILEC_MACHINE);
        ck_assert_ptr_null(a);
        ck_assert_str_eq(tilec_diagnostics(cx)->message, "out of memory");
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("mods");
    tcase_add_checked_fixture(t, make_context, free_context);
    tcase_add_loop_test(t, refuses, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, limits_depth_and_length);
    tcase_add_test(t, names_what_is_captured);
    tcase_add_test(t, out_of_memory_is_a_status);
    Suite *s = suite_create("mods");
    suite_add_tcase(s, t);
    return run_suite(s);
}
