/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from outside as a terminal may be shown it.
 */
#include "ir/base/escape.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *from, *kept, *to;
} cases[] = {
    {"plain ~ text", "", "plain ~ text"},
    {"\x1b[2J\x07", "", "\\x1b[2J\\x07"},
    {"a\nb\tc\rd", "", "a\\nb\\tc\\rd"},
    {"a\nb\tc\rd", "\n\t", "a\nb\tc\\rd"},
    {"\x7f", "", "\\x7f"},
    {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "",
     "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
    /* A control of C1 as UTF-8, and as a byte of its own. */
    {"\xc2\x9b", "", "\\u009b"},
    {"\x9b", "", "\\x9b"},
    {"\xc3", "", "\\xc3"},
    {"\xe2\x80\xae"
     "abc\xe2\x81\xa6",
     "",
     "\\u202e"
     "abc\\u2066"},
    {"", "", ""},
};

START_TEST(escapes)
{
    char to[100];
    tc_memory memory = {0};
    tc_arena a;
    tc_escape(to, sizeof to, cases[_i].from, strlen(cases[_i].from),
              cases[_i].kept);
    ck_assert_str_eq(to, cases[_i].to);
    tc_arena_init(&a, &memory);
    const char *copy = tc_escape_in(&a, cases[_i].from, cases[_i].kept);
    ck_assert_str_eq(copy, cases[_i].to);
    ck_assert_int_eq(copy == cases[_i].from,
                     strcmp(cases[_i].from, cases[_i].to) == 0);
    tc_arena_reset(&a);
}
END_TEST

START_TEST(is_cut_between_characters)
{
    char to[8];
    tc_escape(to, 8, "abcd\x1b", 5, "");
    ck_assert_str_eq(to, "abcd");
    tc_escape(to, 8, "abc\x1b", 4, "");
    ck_assert_str_eq(to, "abc\\x1b");
    tc_escape(to, 3, "a\xc3\xbc", 3, "");
    ck_assert_str_eq(to, "a");
    tc_escape(to, 1, "a", 1, "");
    ck_assert_str_eq(to, "");
    /* A NUL in the midst. */
    tc_escape(to, 8, "a\0b", 3, "");
    ck_assert_str_eq(to, "a\\x00b");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("escape");
    TCase *c = tcase_create("escape");
    tcase_add_loop_test(c, escapes, 0, sizeof cases / sizeof *cases);
    tcase_add_test(c, is_cut_between_characters);
    suite_add_tcase(s, c);
    return run_suite(s);
}
