/* SPDX-License-Identifier: Apache-2.0
 *
 * The printer: numbers, names, locations, programs built by hand.
 */
#include "ir/eval/eval.h"

#include "ir/text/lex.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static tc_module *m;

static void set_up(void)
{
    fixture_setup();
    m = tc_module_new(cx);
}

static void tear_down(void)
{
    tc_module_free(m);
    fixture_teardown();
}

static const char *number(double value, tc_kind kind)
{
    tc_text out = {.arena = &m->arena};
    tc_number_print(&out, value, kind);
    return out.data;
}

START_TEST(numbers_as_people_write_them)
{
    static const struct {
        double value;
        tc_kind kind;
        const char *text;
    } cases[] = {
        {0.0, TC_F32, "0.0"},
        {-0.0, TC_F32, "-0.0"},
        {1.0, TC_F32, "1.0"},
        {-12.5, TC_F64, "-12.5"},
        {0.1, TC_F32, "0.1"},
        {0.1, TC_BF16, "0.100097656"},
        {1.0 / 3, TC_F64, "0.3333333333333333"},
        {1.0 / 3, TC_F32, "0.33333334"},
        {1e-30, TC_F32, "1e-30"},
        {1e-5, TC_F64, "0.00001"},
        {1.5e-6, TC_F64, "1.5e-6"},
        {1e15, TC_F64, "1000000000000000.0"},
        {1e16, TC_F64, "1e16"},
        {123456789.0, TC_F64, "123456789.0"},
        {INFINITY, TC_F16, "inf"},
        {INFINITY, TC_F8E5M2, "inf"},
        {-INFINITY, TC_F32, "-inf"},
        {NAN, TC_F32, "nan"},
        {-NAN, TC_F64, "nan"},
        {3.4028234663852886e38, TC_F32, "3.4028235e38"},
        {448, TC_F8E4M3, "448.0"},
        {1.7976931348623157e308, TC_F64, "1.7976931348623157e308"},
        {5e-324, TC_F64, "5e-324"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(number(cases[i].value, cases[i].kind), cases[i].text);
}
END_TEST

/* Reads a number as the parser does, sign apart. */
static double read_back(const char *text, tc_kind kind)
{
    double sign = *text == '-' ? -1 : 1;
    text += *text == '-';
    if (strcmp(text, "inf") == 0)
        return sign * INFINITY;
    double value = tc_float_parse(&m->arena, text, strlen(text));
    return sign * tc_round_to(kind, value);
}

static void check_number(double value, tc_kind kind)
{
    const char *text = number(value, kind);
    double back = read_back(text, kind);
    ck_assert_msg(back == value && signbit(back) == signbit(value),
                  "%a prints as %s", value, text);
    size_t n = strlen(text);
    ck_assert_msg(strchr(text, '.') || strchr(text, 'e') || text[n - 1] == 'f',
                  "%s reads as an int", text);
}

START_TEST(narrow_numbers_all_read_back)
{
    static const struct {
        tc_kind kind;
        unsigned bits;
    } kinds[] = {{TC_F8E4M3, 8}, {TC_F8E5M2, 8}, {TC_F16, 16}, {TC_BF16, 16}};
    for (int k = 0; k < 4; k++)
        for (uint64_t bits = 0; bits >> kinds[k].bits == 0; bits++) {
            double value = tc_float_from_bits(kinds[k].kind, bits);
            if (!isnan(value))
                check_number(value, kinds[k].kind);
        }
}
END_TEST

START_TEST(wide_numbers_read_back)
{
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double f = tc_float_from_bits(TC_F32, state >> 32);
        double d = tc_float_from_bits(TC_F64, state ^ state >> 31);
        if (!isnan(f))
            check_number(f, TC_F32);
        if (!isnan(d))
            check_number(d, TC_F64);
    }
}
END_TEST

START_TEST(numbers_do_not_depend_on_the_locale)
{
    setlocale(LC_ALL, "de_DE.UTF-8");
    ck_assert_str_eq(number(1.5, TC_F32), "1.5");
    setlocale(LC_ALL, "C");
}
END_TEST

static tc_func *parsed(const char *text)
{
    uint32_t source = tc_source_add(cx, "p.tile", text, strlen(text));
    ck_assert(tc_parse(m, source));
    return m->first;
}

START_TEST(locations_stand_behind_ops)
{
    parsed("func @f(%x: i32) -> i32 {\n"
           "  if %x > 0 {\n"
           "    assume true }\n"
           "  return %x\n"
           "}\n");
    tc_text out = {.arena = &m->arena};
    tc_module_print(&out, m, TC_PRINT_LOCATIONS);
    ck_assert_str_eq(out.data, "func @f(%x: i32) -> i32 {\n"
                               "  %0 = const 0 : i32 // p.tile:2:11\n"
                               "  %1 = cmp %x, %0 pred(gt) : i1 // "
                               "p.tile:2:9\n"
                               "  if %1 {\n"
                               "    %2 = const true : i1 // p.tile:3:12\n"
                               "    assume %2 // p.tile:3:5\n"
                               "    yield // p.tile:3:17\n"
                               "  } // p.tile:2:3\n"
                               "  return %x // p.tile:4:3\n"
                               "}\n");
}
END_TEST

START_TEST(hints_that_are_no_names_are_cleaned)
{
    tc_func *f = tc_func_new(m, "f", false, (tc_loc){0});
    const tc_type *i32 = tc_type_scalar(cx, TC_I32);
    static const char *const hints[] = {"a b", "a_b", "12", NULL, "", "a b_1"};
    for (int i = 0; i < 6; i++)
        tc_region_add_arg(f->body, i32, hints[i], (tc_loc){0});
    tc_func_append(m, f);
    tc_text out = {.arena = &m->arena};
    tc_func_print(&out, f, TC_PRINT_PLAIN);
    ck_assert_str_eq(out.data, "func @f(%a_b: i32, %a_b_1: i32, %0: i32, "
                               "%1: i32, %2: i32, %a_b_1_1: i32) {\n}\n");
}
END_TEST

START_TEST(messages_name_values_like_the_text)
{
    tc_func *f = parsed("func @f(%x: i32) -> i32 {\n"
                        "  %5 = %x * %x\n"
                        "  for %x2 = 0 to 3 { assume %x2 < %5 }\n"
                        "  for %x2 = 0 to 3 { assume %x2 > %5 }\n"
                        "  return %5\n"
                        "}\n");
    tc_op *mul = f->body->first;
    tc_op *second = f->body->last->prev;
    ck_assert_str_eq(tc_value_name(cx, f->body->args[0]), "%x");
    ck_assert_str_eq(tc_value_name(cx, mul->out[0]), "%0");
    ck_assert_str_eq(tc_value_name(cx, second->regions[0]->args[0]), "%x2_1");
    tc_op *loose = tc_op_new(f, TC_NEG, f->loc, 1, mul->out, 0);
    ck_assert(tc_op_infer(loose, 0, NULL));
    ck_assert_str_eq(tc_value_name(cx, loose->out[0]), "%?");
}
END_TEST

START_TEST(values_of_the_grid_have_names_of_their_own)
{
    tc_func *f = parsed("kernel @k(%n: i32) grid {\n"
                        "  %m = %n + %n\n"
                        "  yield %m * %m\n"
                        "} {\n"
                        "  %m = program_id 0\n"
                        "}\n");
    tc_op *add = f->grid->first;
    ck_assert_str_eq(tc_value_name(cx, add->out[0]), "%m");
    ck_assert_str_eq(tc_value_name(cx, add->next->out[0]), "%0");
    ck_assert_str_eq(tc_value_name(cx, f->grid->args[0]), "%n");
    ck_assert_str_eq(tc_value_name(cx, f->body->first->out[0]), "%m");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("print");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, numbers_as_people_write_them);
    tcase_add_test(tc, narrow_numbers_all_read_back);
    tcase_add_test(tc, wide_numbers_read_back);
    tcase_add_test(tc, numbers_do_not_depend_on_the_locale);
    tcase_add_test(tc, locations_stand_behind_ops);
    tcase_add_test(tc, hints_that_are_no_names_are_cleaned);
    tcase_add_test(tc, messages_name_values_like_the_text);
    tcase_add_test(tc, values_of_the_grid_have_names_of_their_own);
    Suite *s = suite_create("print");
    suite_add_tcase(s, tc);
    return run_suite(s);
}
