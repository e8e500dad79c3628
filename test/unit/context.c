/* SPDX-License-Identifier: Apache-2.0
 *
 * The context: interned strings, sources, diagnostics, suggestions; and the
 * tables (ir/base/intern.h, ir/base/map.h) that it uses.
 */
#include "ir/base/diag.h"
#include "ir/base/intern.h"
#include "ir/base/map.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tc_loc nowhere;

/* ---- Strings and tables ---- */

START_TEST(test_free_accepts_null)
{
    tc_context_free(NULL);
}
END_TEST

START_TEST(test_equal_strings_are_the_same_pointer)
{
    char buffer[] = "name and more";
    const char *name = tc_string_get(cx, "name");
    ck_assert_str_eq(name, "name");
    ck_assert_ptr_eq(tc_string_getn(cx, buffer, 4), name);
    ck_assert_ptr_ne(tc_string_getn(cx, buffer, 3), name);
    ck_assert_ptr_ne(tc_string_getn(cx, buffer, 5), name);
    ck_assert_str_eq(tc_string_getn(cx, buffer, 0), "");
    ck_assert_ptr_eq(tc_string_get(cx, ""), tc_string_getn(cx, buffer, 0));
}
END_TEST

START_TEST(test_strings_keep_their_place)
{
    enum { N = 5000 };
    static const char *all[N];
    char text[16];
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "s%d", i);
        all[i] = tc_string_get(cx, text);
    }
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "s%d", i);
        ck_assert_str_eq(all[i], text);
        ck_assert_ptr_eq(tc_string_get(cx, text), all[i]);
    }
}
END_TEST

static bool same_int(const void *stored, const void *key)
{
    return *(const int *)stored == *(const int *)key;
}

START_TEST(test_intern_with_equal_hashes)
{
    /* All in one chain: only the contents tell them apart. */
    tc_intern table = {0};
    static int numbers[200];
    for (int i = 0; i < 200; i++) {
        numbers[i] = i;
        ck_assert_ptr_null(tc_intern_find(&table, 7, same_int, &i));
        tc_intern_add(&table, &cx->arena, 7, &numbers[i]);
    }
    for (int i = 0; i < 200; i++)
        ck_assert_ptr_eq(tc_intern_find(&table, 7, same_int, &i), &numbers[i]);
    int other = 3;
    ck_assert_ptr_null(tc_intern_find(&table, 8, same_int, &other));
}
END_TEST

START_TEST(test_hash_depends_on_every_byte)
{
    unsigned char bytes[16] = {0};
    uint64_t zero = tc_hash_bytes(0, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        ck_assert_uint_ne(tc_hash_bytes(0, bytes, sizeof bytes), zero);
        bytes[i] = 0;
    }
    ck_assert_uint_ne(tc_hash_bytes(1, bytes, sizeof bytes), zero);
}
END_TEST

START_TEST(test_map)
{
    static char keys[3000];
    tc_map map = {.arena = &cx->arena};
    ck_assert_ptr_null(tc_map_get(&map, keys));
    for (size_t i = 0; i < sizeof keys; i += 2)
        tc_map_set(&map, &keys[i], &keys[i / 2]);
    for (size_t i = 0; i < sizeof keys; i++)
        ck_assert_ptr_eq(tc_map_get(&map, &keys[i]),
                         i % 2 ? NULL : &keys[i / 2]);
    tc_map_set(&map, &keys[0], NULL);
    ck_assert_ptr_null(tc_map_get(&map, &keys[0]));
    tc_map_set(&map, &keys[0], keys);
    ck_assert_ptr_eq(tc_map_get(&map, &keys[0]), keys);
}
END_TEST

START_TEST(test_sources)
{
    char text[] = "func";
    for (uint32_t i = 1; i <= 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u.tile", i);
        ck_assert_uint_eq(tc_source_add(cx, name, text, 4), i);
    }
    text[0] = 'x'; /* the context has its own copy */
    ck_assert_uint_eq(cx->nsources, 40);
    ck_assert_str_eq(cx->sources[0].name, "f1.tile");
    ck_assert_str_eq(cx->sources[39].name, "f40.tile");
    ck_assert_str_eq(cx->sources[39].text, "func");
    ck_assert_uint_eq(cx->sources[39].len, 4);
}
END_TEST

/* Every allocation of a new context fails once. */
START_TEST(test_out_of_memory)
{
    jmp_buf here;
    cx->memory.unwind = &here;
    volatile unsigned failures = 0;
    for (volatile unsigned long n = 1; n < 50; n++) {
        cx->memory.fail_after = n;
        if (setjmp(here)) {
            failures++;
            continue;
        }
        char text[3000];
        for (unsigned i = 0; i < 100; i++) {
            memset(text, 'a' + (int)n % 26, sizeof text);
            snprintf(text, sizeof text, "%lu %u", n, i);
            text[8] = '.';
            tc_string_getn(cx, text, sizeof text - 1);
        }
        break;
    }
    cx->memory.fail_after = 0;
    ck_assert_uint_gt(failures, 0);
}
END_TEST

/* ---- Diagnostics ---- */

START_TEST(test_diagnostics_in_order)
{
    tc_loc loc = {1, 2, 3, 0};
    ck_assert(!tc_error(cx, loc, "add: operand %d", 1));
    tc_warning(cx, nowhere, "odd");
    tc_note(cx, nowhere, "first");
    tc_note(cx, nowhere, "second");
    const tc_diag *d = cx->diags;
    ck_assert_int_eq(d->severity, TC_ERROR);
    ck_assert_str_eq(d->message, "add: operand 1");
    ck_assert_uint_eq(d->loc.line, 2);
    ck_assert_ptr_null(d->notes);
    d = d->next;
    ck_assert_int_eq(d->severity, TC_WARNING);
    ck_assert_str_eq(d->notes->message, "first");
    ck_assert_str_eq(d->notes->next->message, "second");
    ck_assert_int_eq(d->notes->severity, TC_NOTE);
    ck_assert_ptr_null(d->next);
    ck_assert_uint_eq(cx->nerrors, 1);
}
END_TEST

START_TEST(test_errors_beyond_the_limit_are_counted)
{
    for (int i = 0; i < TC_MAX_ERRORS + 10; i++) {
        tc_error(cx, nowhere, "%d", i);
        tc_note(cx, nowhere, "of %d", i);
    }
    unsigned n = 0;
    for (const tc_diag *d = cx->diags; d; d = d->next) {
        ck_assert_str_eq(d->message, tc_arena_printf(&cx->arena, "%u", n++));
        /* Notes of what was dropped go with it. */
        ck_assert_ptr_null(d->notes->next);
    }
    ck_assert_uint_eq(n, TC_MAX_ERRORS);
    ck_assert_uint_eq(cx->nerrors, TC_MAX_ERRORS + 10);
}
END_TEST

START_TEST(test_note_without_a_diagnostic_is_dropped)
{
    tc_note(cx, nowhere, "alone");
    ck_assert_ptr_null(cx->diags);
}
END_TEST

START_TEST(test_remarks_are_asked_for)
{
    tc_remark(cx, nowhere, "licm", "load not moved");
    ck_assert_ptr_null(cx->diags);
    cx->want_remarks = true;
    tc_remark(cx, nowhere, "licm", "load of %%%s not moved", "x");
    ck_assert_int_eq(cx->diags->severity, TC_REMARK);
    ck_assert_str_eq(cx->diags->pass, "licm");
    ck_assert_str_eq(cx->diags->message, "load of %x not moved");
    ck_assert_uint_eq(cx->nerrors, 0);
}
END_TEST

START_TEST(test_clear)
{
    tc_error(cx, nowhere, "old");
    tc_diags_clear(cx);
    ck_assert_ptr_null(cx->diags);
    ck_assert_uint_eq(cx->nerrors, 0);
    tc_error(cx, nowhere, "new");
    ck_assert_str_eq(cx->diags->message, "new");
    ck_assert_ptr_null(cx->diags->next);
}
END_TEST

/* ---- Suggestions ---- */

static const char *const ops[] = {"exp2",   "expand_dims", "select",
                                  "splat",  "reduce",      "log",
                                  "atomic", "program_id"};

static const char *nearest(const char *got)
{
    return tc_nearest_name(got, ops, sizeof ops / sizeof *ops);
}

START_TEST(test_nearest_name)
{
    ck_assert_str_eq(nearest("ex2"), "exp2");
    ck_assert_str_eq(nearest("slect"), "select");
    ck_assert_str_eq(nearest("slecet"), "select");
    ck_assert_str_eq(nearest("programid"), "program_id");
    ck_assert_str_eq(nearest("rdeuce"), "reduce"); /* a swap is one step */
    ck_assert_str_eq(nearest("splat"), "splat");
    ck_assert_ptr_null(nearest("convolution"));
    ck_assert_ptr_null(nearest("q"));
    ck_assert_ptr_null(nearest(""));
    ck_assert_ptr_null(tc_nearest_name("x", ops, 0));
}
END_TEST

START_TEST(test_nearest_name_is_no_other_word)
{
    static const char *const words[] = {"and", "for", "call", "min",
                                        "pad", "max", "exp",  "expand_dims"};
    static const struct {
        const char *got, *nearest;
    } cases[] = {{"rand", NULL},           {"pow", NULL},  {"clz", NULL},
                 {"join", NULL},           {"mean", NULL}, {"pading", "pad"},
                 {"maximum", "max"},       {"adn", "and"}, {"Max", "max"},
                 {"expand", "expand_dims"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name =
            tc_nearest_name(cases[i].got, words, sizeof words / sizeof *words);
        ck_assert_pstr_eq(name, cases[i].nearest);
    }
}
END_TEST

START_TEST(test_nearest_name_of_very_long_names)
{
    char text[500];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    ck_assert_ptr_null(nearest(text));
    const char *names[] = {text};
    ck_assert_ptr_null(tc_nearest_name("xx", names, 1));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("context");
    TCase *t = tcase_create("tables");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_test(t, test_free_accepts_null);
    tcase_add_test(t, test_equal_strings_are_the_same_pointer);
    tcase_add_test(t, test_strings_keep_their_place);
    tcase_add_test(t, test_intern_with_equal_hashes);
    tcase_add_test(t, test_hash_depends_on_every_byte);
    tcase_add_test(t, test_map);
    tcase_add_test(t, test_sources);
    tcase_add_test(t, test_out_of_memory);
    suite_add_tcase(s, t);
    t = tcase_create("diagnostics");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_test(t, test_diagnostics_in_order);
    tcase_add_test(t, test_errors_beyond_the_limit_are_counted);
    tcase_add_test(t, test_note_without_a_diagnostic_is_dropped);
    tcase_add_test(t, test_remarks_are_asked_for);
    tcase_add_test(t, test_clear);
    tcase_add_test(t, test_nearest_name);
    tcase_add_test(t, test_nearest_name_is_no_other_word);
    tcase_add_test(t, test_nearest_name_of_very_long_names);
    suite_add_tcase(s, t);
    return run_suite(s);
}
