/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs that begin with their size: those of another header than the
 * library's, and those that nobody gave a size.
 */
#include "test/unit/api/fixture.h"

#include <stddef.h>

/* A call that is refused with this message. */
static void fail_with(tilec_error *error)
{
    ck_assert_int_eq(tilec_launch(NULL, NULL, 0, NULL, error), TILEC_USAGE);
}

START_TEST(an_error_is_written_up_to_its_size)
{
    struct {
        tilec_error error;
        char behind[64];
    } longer, shorter, first;
    memset(&longer, 'x', sizeof longer);
    shorter = longer;
    longer.error.size = sizeof longer;
    fail_with(&longer.error);
    ck_assert_str_eq(longer.error.message,
                     "tilec_launch: kernel or args is NULL");
    ck_assert_uint_eq(longer.error.line, 0);
    ck_assert_uint_eq(longer.error.size, sizeof longer);
    for (size_t i = 0; i < sizeof longer.behind; i++)
        ck_assert_int_eq(longer.behind[i], 'x');

    shorter.error.size = offsetof(tilec_error, line);
    fail_with(&shorter.error);
    ck_assert_str_eq(shorter.error.message, longer.error.message);
    ck_assert_uint_eq(shorter.error.line, 0x78787878);

    memset(&first, 0, sizeof first);
    fail_with(&first.error);
    ck_assert_str_eq(first.error.message, longer.error.message);
}
END_TEST

static void expect_refused(tilec_status s, const char *message,
                           const char *expected)
{
    ck_assert_int_eq(s, TILEC_USAGE);
    ck_assert_str_eq(message, expected);
}

static void expect_diagnostic(tilec_status s, const char *expected)
{
    expect_refused(s, tilec_diagnostics(cx)->message, expected);
}

/* One element of a list of arguments. */
static const size_t wrong_sizes[] = {0, sizeof(tilec_argument) - 8,
                                     sizeof(tilec_argument) + 8, (size_t)-1};

START_TEST(arguments_of_another_size_are_refused)
{
    tilec_kernel *k = api_scale_kernel(cx);
    matrix x, y;
    api_fill(&x, 3, 1);
    api_fill(&y, 3, 0);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_float(NULL, 1),
                             tilec_int(NULL, 1)};
    args[2].size = wrong_sizes[_i];
    int32_t grid[3];
    uint64_t bytes;
    tilec_error e = TILEC_INIT(tilec_error);
    expect_refused(tilec_launch(k, args, 4, NULL, &e), e.message,
                   "tilec_launch: an argument has a wrong size: use "
                   "tilec_tensor, tilec_int or tilec_float");
    ck_assert_int_eq(y.data[0] == 0, 1);
    expect_refused(tilec_kernel_grid(k, args, 4, grid, &e), e.message,
                   "tilec_kernel_grid: an argument has a wrong size: use "
                   "tilec_tensor, tilec_int or tilec_float");
    expect_refused(tilec_kernel_workspace(k, args, 4, &bytes, &e), e.message,
                   "tilec_kernel_workspace: an argument has a wrong size: use "
                   "tilec_tensor, tilec_int or tilec_float");
    tilec_kernel_free(k);

    tilec_source source = tilec_text("softmax", NULL, 0);
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.examples = args;
    o.nexamples = 4;
    expect_diagnostic(tilec_compile(cx, &source, 1, &o, &k),
                      "tilec_compile: an example has a wrong size: use "
                      "tilec_tensor, tilec_int or tilec_float");
}
END_TEST

START_TEST(sources_of_another_size_are_refused)
{
    tilec_source list[] = {tilec_text("softmax", NULL, 0),
                           tilec_text("mods", "", 0)};
    list[1].size = _i ? sizeof *list + 8 : 0;
    tilec_kernel *k;
    expect_diagnostic(
        tilec_compile(cx, list, 2, NULL, &k),
        "tilec_compile: a source has a wrong size: use tilec_text");
    int64_t shape[] = {1, 1, 16, 16};
    DLTensor q = {.device = {kDLCPU, 0},
                  .ndim = 4,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "cpu";
    o.sources = list;
    o.nsources = 2;
    tilec_attention *a;
    expect_diagnostic(tilec_attention_plan(cx, &q, &q, &q, &o, &a),
                      "tilec_attention_plan: a source has a wrong size: use "
                      "tilec_text");
}
END_TEST

START_TEST(captured_of_another_size_is_refused)
{
    int64_t shape[] = {1, 1, 16, 16};
    DLTensor q = {.device = {kDLCPU, 0},
                  .ndim = 4,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape};
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    o.target = "cpu";
    tilec_attention *a;
    ck_assert_int_eq(tilec_attention_plan(cx, &q, &q, &q, &o, &a), TILEC_OK);
    tilec_argument captured = tilec_int("w", 1);
    captured.size = 0;
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    t.captured = &captured;
    t.ncaptured = 1;
    tilec_error e = TILEC_INIT(tilec_error);
    expect_refused(tilec_attention_forward(a, &t, NULL, &e), e.message,
                   "tilec_attention_forward: an argument has a wrong size: use "
                   "tilec_tensor, tilec_int or tilec_float");
    tilec_attention_free(a);
}
END_TEST

START_TEST(what_the_library_gives_says_its_size)
{
    tilec_kernel *k = api_scale_kernel(cx);
    ck_assert_uint_eq(tilec_kernel_parameter(k, 0)->size,
                      sizeof(tilec_parameter));
    tilec_kernel_free(k);
    tilec_source source = tilec_text("bad", "?", 0);
    ck_assert_int_eq(tilec_compile(cx, &source, 1, NULL, &k), TILEC_INPUT);
    ck_assert_uint_eq(tilec_diagnostics(cx)->size, sizeof(tilec_diagnostic));
}
END_TEST

void api_sizes_tests(TCase *t)
{
    tcase_add_test(t, an_error_is_written_up_to_its_size);
    tcase_add_loop_test(t, arguments_of_another_size_are_refused, 0,
                        sizeof wrong_sizes / sizeof *wrong_sizes);
    tcase_add_loop_test(t, sources_of_another_size_are_refused, 0, 2);
    tcase_add_test(t, captured_of_another_size_is_refused);
    tcase_add_test(t, what_the_library_gives_says_its_size);
}
