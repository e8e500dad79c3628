/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ops: every row well-formed, known to the tests, and as its
 * queries say.
 */
#include "ir/fastmath.h"
#include "ir/ir.h"
#include "test/unit/run.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define each_code(c) for (tc_opcode c = 0; c < TC_OPCODE_COUNT; c++)

static const tc_op_info *info(tc_opcode c)
{
    return &tc_op_infos[c];
}

/* ---- Rows ---- */

START_TEST(test_names)
{
    each_code(c)
    {
        const char *name = info(c)->name;
        ck_assert_uint_gt(strlen(name), 1);
        ck_assert_uint_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789"),
                          strlen(name));
        ck_assert_int_eq(tc_opcode_parse(name, strlen(name)), c);
        ck_assert_int_ne(tc_opcode_parse(name, strlen(name) - 1), c);
        size_t n = strlen(info(c)->summary);
        ck_assert_msg(n > 2 && info(c)->summary[n - 1] == '.', "%s", name);
    }
    ck_assert_int_eq(tc_opcode_parse("nothing", 7), TC_OPCODE_COUNT);
    ck_assert_int_eq(tc_opcode_parse("", 0), TC_OPCODE_COUNT);
}
END_TEST

START_TEST(test_operand_letters)
{
    each_code(c)
    {
        const char *in = info(c)->in;
        for (size_t i = 0; in[i]; i++) {
            ck_assert_msg(strchr("fixlnbscptwvmakoh=#@e?*", in[i]), "%s: %c",
                          info(c)->name, in[i]);
            /* These speak of an operand before them. */
            if (strchr("=#@e?*", in[i]))
                ck_assert_msg(i > 0, "%s: %s", info(c)->name, in);
            if (in[i] == '*')
                ck_assert_msg(!in[i + 1], "%s: %s", info(c)->name, in);
            if (in[i] == '?' && in[i + 1])
                ck_assert_msg(in[i + 2] == '?', "%s: %s", info(c)->name, in);
        }
    }
}
END_TEST

START_TEST(test_results)
{
    each_code(c)
    {
        const char *out = info(c)->out;
        ck_assert_uint_le(strlen(out), 1);
        ck_assert_msg(strspn(out, "=!:*") == strlen(out), "%s: %s",
                      info(c)->name, out);
        if (*out == '=')
            ck_assert_msg(*info(c)->in, "%s: %s", info(c)->name, out);
    }
}
END_TEST

START_TEST(test_traits_go_together)
{
    each_code(c)
    {
        unsigned t = info(c)->traits;
        const char *name = info(c)->name;
        if (t & TC_PURE)
            ck_assert_msg(!(t & (TC_READS | TC_WRITES | TC_TERMINATOR)), "%s",
                          name);
        if (t & TC_ELEMENTWISE)
            ck_assert_msg(t & TC_PURE, "%s", name);
        /* Operands 0 and 1 of one kind may change places. */
        if (t & TC_COMMUTES)
            ck_assert_msg(info(c)->in[1] == '=', "%s", name);
        if (t & TC_TERMINATOR)
            ck_assert_msg(!*info(c)->out, "%s", name);
    }
}
END_TEST

/* ---- Attributes ---- */

START_TEST(test_attributes)
{
    each_code(c)
    {
        unsigned n = tc_op_nattrs(c);
        ck_assert_uint_le(n, TC_MAX_ATTRS);
        for (unsigned i = 0; i < n; i++) {
            tc_attr_decl d = tc_op_attr_decl(c, i);
            ck_assert_uint_gt(strlen(d.name), 0);
            ck_assert_int_ne(d.kind, TC_ATTR_NONE);
            ck_assert_int_eq(tc_op_attr_index(c, d.name), (int)i);
            if (d.words)
                ck_assert_int_eq(d.kind, TC_ATTR_SYMBOL);
        }
        ck_assert_int_eq(tc_op_attr_index(c, "nothing"), -1);
        ck_assert_int_eq(tc_op_attr_index(c, ""), -1);
    }
}
END_TEST

/* Of a+b+c: are all of them flags, and none twice? */
static bool are_flags(const char *words, size_t n)
{
    unsigned flags = 0;
    for (const char *end = words + n; words < end; words++) {
        size_t len = strcspn(words, "+ ");
        unsigned flag = tc_fastmath_parse(words, len);
        if (!flag || flags & flag)
            return false;
        flags |= flag;
        words += len;
    }
    return n > 0;
}

/* Kinds that the table's head does not know would read as a single word. */
START_TEST(test_attribute_kinds_are_known)
{
    each_code(c) for (const char *s = info(c)->attrs; *s;)
    {
        size_t n = strcspn(s, " ");
        const char *kind = memchr(s, ':', n);
        ck_assert_msg(kind, "%s: %s", info(c)->name, s);
        size_t len = n - (size_t)(kind + 1 - s);
        static const char *const known[] = {"int",  "number",  "string",
                                            "bool", "symbol",  "ints",
                                            "dims", "strings", "layout"};
        bool found = memchr(kind, '|', len) || are_flags(kind + 1, len);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strlen(known[i]) == len &&
                     strncmp(known[i], kind + 1, len) == 0;
        ck_assert_msg(found, "%s: %s", info(c)->name, s);
        s += n + strspn(s + n, " ");
    }
}
END_TEST

START_TEST(test_attribute_of_load)
{
    tc_attr_decl d = tc_op_attr_decl(TC_LOAD, 0);
    ck_assert_str_eq(d.name, "boundary");
    ck_assert_int_eq(d.kind, TC_ATTR_INTS);
    ck_assert(d.optional);
    ck_assert_ptr_null(d.words);
    ck_assert_int_eq(tc_op_attr_decl(TC_LOAD, 1).kind, TC_ATTR_NUMBER);
    d = tc_op_attr_decl(TC_ATOMIC, 0);
    ck_assert_str_eq(d.name, "kind");
    ck_assert(!d.optional);
    ck_assert_int_eq(strncmp(d.words, "add|max|", 8), 0);
}
END_TEST

/* ---- The tests know every op ---- */

static void read_file(const char *path, tc_text *out)
{
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        tc_text_addn(out, buffer, n);
    fclose(f);
}

static void read_folder(const char *path, tc_text *out)
{
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *e; (e = readdir(folder));) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        size_t n = strlen(e->d_name);
        if (e->d_name[0] != '.' && n > 5 &&
            strcmp(e->d_name + n - 5, ".tile") == 0)
            read_file(inner, out);
        else if (!strchr(e->d_name, '.'))
            read_folder(inner, out);
    }
    closedir(folder);
}

static bool has_word(const char *text, const char *word)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789%@";
    size_t n = strlen(word);
    for (const char *s = text; (s = strstr(s, word)); s += n)
        if ((s == text || !strchr(letters, s[-1])) && !strchr(letters, s[n]))
            return true;
    return false;
}

START_TEST(test_every_op_is_in_a_test)
{
    tc_memory memory = {0};
    tc_arena arena;
    tc_arena_init(&arena, &memory);
    tc_text all = {.arena = &arena};
    read_folder("test/ir", &all);
    ck_assert_msg(all.len > 0, "run from the root of the repository");
    each_code(c) ck_assert_msg(has_word(all.data, info(c)->name),
                               "no file under test/ir has `%s`", info(c)->name);
    tc_arena_reset(&arena);
}
END_TEST

/* The words that libFuzzer puts into texts. */
START_TEST(test_every_op_is_a_word_for_fuzzing)
{
    tc_memory memory = {0};
    tc_arena arena;
    tc_arena_init(&arena, &memory);
    tc_text all = {.arena = &arena};
    read_file("test/fuzz/parse.dict", &all);
    each_code(c)
    {
        ck_assert_msg(has_word(all.data, info(c)->name),
                      "test/fuzz/parse.dict lacks `%s`", info(c)->name);
        for (unsigned i = 0; i < tc_op_nattrs(c); i++)
            ck_assert_msg(has_word(all.data, tc_op_attr_decl(c, i).name),
                          "test/fuzz/parse.dict lacks `%s` of `%s`",
                          tc_op_attr_decl(c, i).name, info(c)->name);
    }
    tc_arena_reset(&arena);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("op");
    TCase *t = tcase_create("table");
    tcase_add_test(t, test_names);
    tcase_add_test(t, test_operand_letters);
    tcase_add_test(t, test_results);
    tcase_add_test(t, test_traits_go_together);
    tcase_add_test(t, test_attributes);
    tcase_add_test(t, test_attribute_kinds_are_known);
    tcase_add_test(t, test_attribute_of_load);
    tcase_add_test(t, test_every_op_is_in_a_test);
    tcase_add_test(t, test_every_op_is_a_word_for_fuzzing);
    suite_add_tcase(s, t);
    return run_suite(s);
}
