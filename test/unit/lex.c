/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/text/lex.h"
#include "ir/base/escape.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <locale.h>
#include <math.h>
#include <string.h>

static tc_arena arena;

static void set_up(void)
{
    fixture_setup();
    tc_arena_init(&arena, &cx->memory);
}

static void tear_down(void)
{
    tc_arena_reset(&arena);
    fixture_teardown();
}

static tc_tokens lex(const char *text)
{
    return tc_lex(cx, &arena, 1, text, strlen(text), (tc_loc){0});
}

/* The tokens' texts, a blank between; END is not there. */
static const char *spelled(const char *text)
{
    tc_text out = {.arena = &arena};
    tc_tokens t = lex(text);
    tc_text_add(&out, "");
    for (uint32_t i = 0; i + 1 < t.n; i++) {
        tc_text_add(&out, i ? " " : "");
        tc_text_addn(&out, text + t.all[i].at, t.all[i].len);
    }
    return out.data;
}

START_TEST(punctuation_takes_the_longest)
{
    ck_assert_str_eq(spelled("a>>>b>>c>=d->e+:f+ :g==h=!= !"),
                     "a >>> b >> c >= d -> e +: f + : g == h = != !");
    tc_tokens t = lex("< <= << > - / *");
    static const tc_token_kind kinds[] = {
        TC_TOKEN_LT,    TC_TOKEN_LE,    TC_TOKEN_SHL,  TC_TOKEN_GT,
        TC_TOKEN_MINUS, TC_TOKEN_SLASH, TC_TOKEN_STAR, TC_TOKEN_END};
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(t.all[i].kind, kinds[i]);
}
END_TEST

START_TEST(sides_end_at_x)
{
    ck_assert_str_eq(spelled("tile<128x64xf32>"), "tile < 128 x 64 x f32 >");
    ck_assert_str_eq(spelled("tile<BMxD x T>"), "tile < BM x D x T >");
    ck_assert_str_eq(spelled("block_ptr<BMx(cdiv(Dx, 16) * ax)x8 x T>"),
                     "block_ptr < BM x ( cdiv ( Dx , 16 ) * ax ) x 8 x T >");
    ck_assert_str_eq(spelled("tile<max(D, 8)xmax(x, 8) x f8e4m3>"),
                     "tile < max ( D , 8 ) x max ( x , 8 ) x f8e4m3 >");
    ck_assert_str_eq(spelled("tile<8 x ptr<f32>>"), "tile < 8 x ptr < f32 > >");
    /* Elsewhere names keep their x, also after a shape. */
    ck_assert_str_eq(spelled("tile<8xf32> max exp 0x1f"),
                     "tile < 8 x f32 > max exp 0x1f");
    ck_assert_str_eq(spelled("tensor<[BMx, 8] x T>"),
                     "tensor < [ BMx , 8 ] x T >");
    ck_assert_str_eq(spelled("tile axb < cxd"), "tile axb < cxd");
    /* A shape never closed ends where no type goes on. */
    ck_assert_str_eq(spelled("tile<8) { max"), "tile < 8 ) { max");
}
END_TEST

START_TEST(x_is_a_token_of_its_own_between_sides)
{
    tc_tokens t = lex("tile<8xBMxf32> x");
    ck_assert_uint_eq(t.all[3].kind, TC_TOKEN_X);
    ck_assert_uint_eq(t.all[5].kind, TC_TOKEN_X);
    ck_assert_uint_eq(t.all[8].kind, TC_TOKEN_NAME);
}
END_TEST

START_TEST(tokens_know_their_place)
{
    tc_tokens t = lex("func // note\n  @f(\n\"s\" %v.w");
    static const uint32_t lines[] = {1, 2, 2, 3, 3};
    static const uint32_t cols[] = {1, 3, 5, 1, 5};
    static const bool glued[] = {true, false, true, false, false};
    ck_assert_uint_eq(t.n, 6);
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(t.all[i].line, lines[i]);
        ck_assert_uint_eq(t.all[i].col, cols[i]);
        ck_assert_int_eq(t.all[i].glued, glued[i]);
    }
    ck_assert_uint_eq(t.all[4].len, 3); /* without the % */
}
END_TEST

START_TEST(numbers_are_ints_or_floats)
{
    static const struct {
        const char *text;
        tc_token_kind kind;
    } cases[] = {{"0", TC_TOKEN_INT},       {"0x1F", TC_TOKEN_INT},
                 {"12", TC_TOKEN_INT},      {"1.5", TC_TOKEN_FLOAT},
                 {"1e5", TC_TOKEN_FLOAT},   {"1e-5", TC_TOKEN_FLOAT},
                 {"1.5E+9", TC_TOKEN_FLOAT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tc_tokens t = lex(cases[i].text);
        ck_assert_uint_eq(t.n, 2);
        ck_assert_uint_eq(t.all[0].kind, cases[i].kind);
        ck_assert_uint_eq(t.all[0].len, strlen(cases[i].text));
    }
    ck_assert_uint_eq(cx->nerrors, 0);
    static const char *const bad[] = {"0x", "1a", "0xfg", "1.5f", "1e5x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tc_tokens t = lex(bad[i]);
        ck_assert_uint_eq(t.n, 2);
        ck_assert_uint_eq(t.all[0].kind, TC_TOKEN_BAD);
        ck_assert_uint_eq(cx->nerrors, i + 1);
    }
}
END_TEST

START_TEST(bytes_that_are_no_text)
{
    static const char text[] = "a \0 b \xff \xc3\xa4 c";
    tc_tokens t = tc_lex(cx, &arena, 1, text, sizeof text - 1, (tc_loc){0});
    static const tc_token_kind kinds[] = {
        TC_TOKEN_NAME, TC_TOKEN_BAD,  TC_TOKEN_NAME, TC_TOKEN_BAD,
        TC_TOKEN_BAD,  TC_TOKEN_NAME, TC_TOKEN_END};
    ck_assert_uint_eq(t.n, 7);
    for (int i = 0; i < 7; i++)
        ck_assert_uint_eq(t.all[i].kind, kinds[i]);
    ck_assert_str_eq(cx->diags->message, "unexpected byte 0x00");
    ck_assert_str_eq(cx->diags->next->message, "unexpected byte 0xff");
    ck_assert_str_eq(cx->diags->next->next->message,
                     "unexpected character `\xc3\xa4`");
}
END_TEST

START_TEST(utf8_sequences)
{
    static const struct {
        const char *s;
        size_t n;
    } cases[] = {{"a", 1},
                 {"\x7f", 1},
                 {"\xc2\x80", 2},
                 {"\xdf\xbf", 2},
                 {"\xe0\xa0\x80", 3},
                 {"\xef\xbf\xbf", 3},
                 {"\xf0\x90\x80\x80", 4},
                 {"\xf4\x8f\xbf\xbf", 4},
                 {"\x80", 0},     /* a continuation */
                 {"\xc0\x80", 0}, /* overlong */
                 {"\xc1\xbf", 0},
                 {"\xe0\x9f\xbf", 0},
                 {"\xf0\x8f\xbf\xbf", 0},
                 {"\xed\xa0\x80", 0},     /* a surrogate */
                 {"\xf4\x90\x80\x80", 0}, /* beyond U+10FFFF */
                 {"\xf5\x80\x80\x80", 0},
                 {"\xc2", 0}, /* cut off */
                 {"\xe2\x82", 0},
                 {"\xe2\x82z", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_uint_eq(tc_utf8_length(cases[i].s, strlen(cases[i].s)),
                          cases[i].n);
    ck_assert_uint_eq(tc_utf8_length("a", 0), 0);
}
END_TEST

/* Every string of one and two bytes is printed as a literal that reads back as
 * itself. */
START_TEST(strings_round_trip)
{
    for (unsigned a = 1; a < 256; a++)
        for (unsigned b = 0; b < 256; b++) {
            char s[] = {(char)a, (char)b, 0};
            tc_text out = {.arena = &arena};
            tc_string_print(&out, s);
            tc_tokens t = lex(out.data);
            ck_assert_uint_eq(t.n, 2);
            ck_assert_uint_eq(t.all[0].kind, TC_TOKEN_STRING);
            const char *back = tc_string_unescape(
                cx, &arena, out.data + t.all[0].at, t.all[0].len);
            ck_assert_str_eq(back, s);
        }
    ck_assert_uint_eq(cx->nerrors, 0);
}
END_TEST

START_TEST(ints_of_64_bits)
{
    uint64_t v;
    ck_assert(tc_int_parse("18446744073709551615", 20, &v));
    ck_assert(v == UINT64_MAX);
    ck_assert(!tc_int_parse("18446744073709551616", 20, &v));
    ck_assert(tc_int_parse("0xFFFFFFFFFFFFFFFF", 18, &v));
    ck_assert(v == UINT64_MAX);
    ck_assert(!tc_int_parse("0x10000000000000000", 19, &v));
    ck_assert(tc_int_parse("007", 3, &v));
    ck_assert(v == 7);
}
END_TEST

START_TEST(floats_do_not_depend_on_the_locale)
{
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "C"};
    for (int i = 0; i < 3; i++) {
        setlocale(LC_ALL, locales[i]);
        ck_assert(tc_float_parse(&arena, "1.25e2", 6) == 125.0);
    }
    setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(a_text_without_a_file_reports_at_the_given_place)
{
    tc_loc where = {7, 8, 9, 0};
    tc_lex(cx, &arena, 0, "  $", 3, where);
    ck_assert_uint_eq(cx->diags->loc.file, 7);
    ck_assert_uint_eq(cx->diags->loc.line, 8);
    ck_assert_uint_eq(cx->diags->loc.col, 9);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("lex");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, punctuation_takes_the_longest);
    tcase_add_test(tc, sides_end_at_x);
    tcase_add_test(tc, x_is_a_token_of_its_own_between_sides);
    tcase_add_test(tc, tokens_know_their_place);
    tcase_add_test(tc, numbers_are_ints_or_floats);
    tcase_add_test(tc, bytes_that_are_no_text);
    tcase_add_test(tc, utf8_sequences);
    tcase_add_test(tc, strings_round_trip);
    tcase_add_test(tc, ints_of_64_bits);
    tcase_add_test(tc, floats_do_not_depend_on_the_locale);
    tcase_add_test(tc, a_text_without_a_file_reports_at_the_given_place);
    Suite *s = suite_create("lex");
    suite_add_tcase(s, tc);
    return run_suite(s);
}
