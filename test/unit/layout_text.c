/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of layouts: names, round trips, what is refused and where.
 */
#include "ir/types/layout.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

typedef int32_t pair[2];
static const unsigned last_fastest[] = {1, 0}, first_fastest[] = {0, 1};

static const char *text_of(const tc_layout *l, unsigned bits)
{
    tc_text out = {.arena = &cx->arena};
    tc_layout_print(&out, l, bits);
    return out.data;
}

static const tc_layout *parse(const char *text, unsigned rank,
                              const int32_t *shape, unsigned bits)
{
    size_t used = 0;
    const tc_layout *l = tc_layout_parse(cx, text, strlen(text), rank, shape,
                                         bits, (tc_loc){1, 1, 1, 0}, &used);
    if (l)
        ck_assert_uint_eq(used, strlen(text));
    return l;
}

static void prints(const tc_layout *l, unsigned bits, const char *expected)
{
    ck_assert_str_eq(text_of(l, bits), expected);
    ck_assert_ptr_eq(parse(expected, l->rank, l->shape, bits), l);
}

static const tc_layout *blocked(const int32_t *shape, const int32_t *per,
                                const int32_t *lanes, const int32_t *warps,
                                const unsigned *order)
{
    return tc_layout_blocked(cx, 2, shape, per, lanes, warps, order);
}

/* ---- Names ---- */

START_TEST(test_names_of_fragments)
{
    static const pair s = {128, 64}, t = {64, 64};
    prints(tc_layout_mma_c(cx, s, 4, 1), 32, "#mma(4x1)");
    prints(tc_layout_mma_c(cx, s, 2, 2), 32, "#mma(2x2)");
    prints(tc_layout_mma_a(cx, s, 4, 1, 16), 16, "#mma(4x1)");
    prints(tc_layout_mma_a(cx, s, 4, 1, 8), 8, "#mma_a(4x1)");
    prints(tc_layout_mma_a(cx, s, 4, 1, 32), 32, "#mma_a(4x1)");
    prints(tc_layout_mma_a(cx, s, 2, 2, 16), 16, "#mma_a(2x2)");
    prints(tc_layout_mma_b(cx, s, 4, 1, 16), 16, "#mma_b(4x1)");
    prints(tc_layout_mma_b(cx, s, 2, 2, 32), 32, "#mma_b(2x2)");
    prints(tc_layout_wgmma_c(cx, s, 1, 1), 32, "#mma(4x1)");
    prints(tc_layout_wgmma_c(cx, t, 1, 2), 32, "#wgmma(1x2)");
    prints(tc_layout_wgmma_a(cx, t, 1, 2, 16), 16, "#mma_a(4x2)");
    prints(tc_layout_mma_c(cx, (pair){192, 96}, 12, 1), 32, "#mma(12x1)");
    prints(tc_layout_mma_c(cx, (pair){128, 1}, 4, 1), 32, "#mma(4x1)");
    prints(tc_layout_mma_c(cx, (pair){1, 64}, 2, 2), 32, "#mma(2x2)");
}
END_TEST

START_TEST(test_names_of_blocked)
{
    static const pair s = {64, 64};
    prints(blocked(s, (pair){1, 8}, (pair){4, 8}, (pair){4, 1}, last_fastest),
           16, "#blocked(1x8, 4x8, 4x1)");
    prints(blocked(s, (pair){8, 1}, (pair){8, 4}, (pair){1, 4}, first_fastest),
           16, "#blocked(8x1, 8x4, 1x4, order(0, 1))");
    prints(blocked((pair){192, 96}, (pair){1, 8}, (pair){8, 4}, (pair){12, 1},
                   last_fastest),
           16, "#blocked(1x8, 8x4, 12x1)");
    /* Rows all in registers. */
    prints(blocked((pair){8, 128}, (pair){1, 4}, (pair){1, 32}, (pair){1, 1},
                   last_fastest),
           32, "#blocked(1x4, 1x32, 1x1)");
    int32_t n = 256, per = 2, lanes = 32, warps = 4;
    prints(tc_layout_blocked(cx, 1, &n, &per, &lanes, &warps, (unsigned[]){0}),
           32, "#blocked(2, 32, 4)");
    prints(tc_layout_blocked(cx, 3, (int32_t[]){4, 8, 64}, (int32_t[]){1, 1, 4},
                             (int32_t[]){1, 2, 16}, (int32_t[]){2, 2, 1},
                             (unsigned[]){2, 1, 0}),
           32, "#blocked(1x1x4, 1x2x16, 2x2x1)");
}
END_TEST

START_TEST(test_names_of_memory)
{
    static const pair s = {64, 64}, d = {176, 80};
    prints(tc_layout_swizzled(cx, 2, s, last_fastest, 16, 128), 16,
           "#swizzle128");
    prints(tc_layout_swizzled(cx, 2, s, last_fastest, 16, 64), 16,
           "#swizzle64");
    prints(tc_layout_swizzled(cx, 2, s, last_fastest, 16, 0), 16, "#rows");
    prints(tc_layout_swizzled(cx, 2, d, last_fastest, 16, 32), 16,
           "#swizzle32");
    prints(tc_layout_swizzled(cx, 2, d, first_fastest, 16, 32), 16,
           "#swizzle32(order(0, 1))");
    prints(tc_layout_swizzled(cx, 2, d, first_fastest, 16, 0), 16,
           "#rows(order(0, 1))");
    prints(tc_layout_trans(cx,
                           tc_layout_swizzled(cx, 2, s, last_fastest, 16, 128),
                           last_fastest),
           16, "#swizzle128(order(0, 1))");
    prints(tc_layout_xor(cx, 2, s, last_fastest, 8, 1, 4), 16, "#xor(8, 1, 4)");
    prints(tc_layout_xor(cx, 2, s, first_fastest, 4, 2, 8), 16,
           "#xor(4, 2, 8, order(0, 1))");
    prints(tc_layout_swizzled(cx, 3, (int32_t[]){2, 64, 64},
                              (unsigned[]){2, 1, 0}, 16, 128),
           16, "#swizzle128");
    prints(tc_layout_swizzled(cx, 1, (int32_t[]){96}, (unsigned[]){0}, 32, 0),
           32, "#rows");
}
END_TEST

START_TEST(test_names_of_slices)
{
    static const pair s = {128, 64};
    const tc_layout *c = tc_layout_mma_c(cx, s, 4, 1);
    prints(tc_layout_slice(cx, c, 1), 32, "#slice(1 of 8, #mma(4x1))");
    prints(tc_layout_slice(cx, c, 0), 32, "#slice(0 of 64, #mma(4x1))");
    const tc_layout *b =
        blocked(s, (pair){1, 8}, (pair){4, 8}, (pair){4, 1}, last_fastest);
    prints(tc_layout_slice(cx, b, 1), 32,
           "#slice(1 of 8, #blocked(1x1, 4x8, 4x1))");
    prints(tc_layout_collapse(cx, b, 1), 32,
           "#expand(1, #slice(1 of 8, #blocked(1x1, 4x8, 4x1)))");
    prints(tc_layout_expand(cx, tc_layout_slice(cx, c, 1), 1), 32, "#mma(4x1)");
}
END_TEST

START_TEST(test_reordered_names)
{
    static const tc_bit_order bytes = {4, {0, 2, 3, 1}}, words = {3, {2, 0, 1}},
                              other = {2, {1, 0}};
    const pair s = {64, 64};
    const tc_layout *c = tc_layout_mma_c(cx, s, 4, 1);
    const tc_layout *r = tc_layout_reorder(cx, c, 1, &bytes);
    prints(r, 32, "#reorder(1, 0 2 3 1, #mma(4x1))");
    prints(tc_layout_slice(cx, r, 1), 32, "#slice(1 of 8, #mma(4x1))");
    prints(tc_layout_slice(cx, r, 0), 32,
           "#slice(1 of 32, #blocked(4x1, 4x8, 1x4, order(0, 1)))");
    prints(tc_layout_reorder(cx, c, 1, &words), 32,
           "#reorder(1, 2 0 1, #mma(4x1))");
    const tc_layout *b = tc_layout_swizzled(cx, 2, s, last_fastest, 16, 128);
    prints(tc_layout_reorder(cx, b, 0, &bytes), 16,
           "#reorder(0, 0 2 3 1, #swizzle128)");
    /* What nothing asks for has no name, but is read. */
    const tc_layout *x = tc_layout_reorder(cx, c, 1, &other);
    ck_assert_ptr_eq(parse("#reorder(1, 1 0, #mma(4x1))", 2, s, 32), x);
    ck_assert_ptr_eq(parse(text_of(x, 32), 2, s, 32), x);
}
END_TEST

START_TEST(test_bases)
{
    tc_layout_spec s = {.rank = 2, .shape = {16, 176}};
    tc_layout_spec_add(&s, TC_REGISTER, 2, 0, 8);
    tc_layout_spec_add(&s, TC_LANE, 2, 0, 1);
    tc_layout_spec_add(&s, TC_LANE, 4, 1, 1);
    tc_layout_spec_add(&s, TC_LANE, 4, 0, 2);
    tc_layout_spec_add(&s, TC_REGISTER, 11, 1, 16);
    tc_layout_spec_add(&s, TC_WARP, 4, 1, 4);
    prints(tc_layout_get(cx, &s), 32,
           "#bases(register [(8,0), 11*(0,16)], lane [(1,0), (0,1), (0,2), "
           "(2,0), (4,0)], warp [(0,4), (0,8)])");
    s = (tc_layout_spec){.rank = 1, .shape = {6}};
    tc_layout_spec_add(&s, TC_OFFSET, 3, 0, 2);
    tc_layout_spec_add(&s, TC_OFFSET, 2, 0, 1);
    prints(tc_layout_get(cx, &s), 32, "#bases(offset [3*(2), (1)])");
    /* Blanks, even repeats and modes of one value are read too. */
    ck_assert_ptr_eq(parse("# bases", 1, s.shape, 32), NULL);
    ck_assert_ptr_eq(
        parse("#bases ( offset[6 * ( 1 ), 1*(0)] )", 1, s.shape, 32),
        parse("#rows", 1, s.shape, 32));
    /* Without warps. */
    static const pair t = {4, 8};
    ck_assert_ptr_nonnull(parse("#bases(register [], lane [8*(0,1), 4*(1,0)], "
                                "warp [])",
                                2, t, 32));
}
END_TEST

START_TEST(test_text_ends_where_the_layout_does)
{
    static const pair s = {64, 64};
    static const char text[] = "#mma(4x1)> {";
    size_t used;
    ck_assert_ptr_eq(
        tc_layout_parse(cx, text, strlen(text), 2, s, 32, (tc_loc){0}, &used),
        tc_layout_mma_c(cx, s, 4, 1));
    ck_assert_uint_eq(used, 9);
}
END_TEST

/* ---- Round trips ---- */

START_TEST(test_everything_round_trips)
{
    static const pair shapes[] = {{64, 64},  {176, 64}, {64, 80},
                                  {192, 96}, {16, 8},   {8, 128}};
    static const int32_t all[] = {1, 2, 4, 8, 16, 32};
    int n = 0;
    for (int i = 0; i < 6; i++)
        for (int lr = 0; lr < 6; lr++)
            for (int p = 0; p < 4; p++)
                for (int w = 0; w < 3; w++)
                    for (int o = 0; o < 2; o++) {
                        const tc_layout *l =
                            blocked(shapes[i], (pair){all[p % 2], all[p]},
                                    (pair){all[lr], all[5 - lr]},
                                    (pair){all[w], all[2 - w]},
                                    o ? first_fastest : last_fastest);
                        const tc_layout *views[] = {
                            l,
                            tc_layout_trans(cx, l, last_fastest),
                            tc_layout_slice(cx, l, 0),
                            tc_layout_slice(cx, l, 1),
                            tc_layout_collapse(cx, l, 1),
                            tc_layout_partial(cx, l, 0, TC_WARP)};
                        for (int v = 0; v < 6; v++) {
                            const char *text = text_of(views[v], 16);
                            if (parse(text, views[v]->rank, views[v]->shape,
                                      16) != views[v])
                                ck_abort_msg("%s", text);
                            n++;
                        }
                    }
    ck_assert_int_eq(n, 6 * 6 * 4 * 3 * 2 * 6);
}
END_TEST

START_TEST(test_scratch_round_trips)
{
    static const pair s = {64, 64};
    const tc_layout *c = tc_layout_mma_c(cx, s, 4, 1);
    const tc_layout *b =
        blocked(s, (pair){1, 8}, (pair){4, 8}, (pair){4, 1}, last_fastest);
    const tc_layout *m = tc_layout_scratch(cx, c, b, 32);
    ck_assert_ptr_eq(parse(text_of(m, 32), 2, s, 32), m);
}
END_TEST

/* ---- Errors ---- */

static void refuses(const char *text, unsigned bits, unsigned col,
                    const char *why)
{
    static const pair s = {64, 80};
    tc_diags_clear(cx);
    ck_assert_ptr_null(parse(text, 2, s, bits));
    ck_assert_ptr_nonnull(cx->diags);
    ck_assert_ptr_null(cx->diags->next);
    ck_assert_msg(strstr(cx->diags->message, why), "%s: `%s`, expected `%s`",
                  text, cx->diags->message, why);
    ck_assert_msg(cx->diags->loc.col == col, "%s: column %u, expected %u", text,
                  cx->diags->loc.col, col);
}

START_TEST(test_errors_of_form)
{
    refuses("mma", 32, 1, "found `mma`, expected `#`");
    refuses("", 32, 1, "found the end, expected `#`");
    refuses("#", 32, 1, "unknown name `#`");
    refuses("#mna(4x1)", 32, 1, "unknown name `#mna`; did you mean #mma?");
    refuses("#swizzle256", 16, 1, "unknown name `#swizzle256`; did you mean");
    refuses("#mma", 32, 5, "found the end, expected `(`");
    refuses("#mma(4)", 32, 7, "found `)`, expected `x`");
    refuses("#mma(4x1x2)", 32, 9, "warps for more than the 2 axes");
    refuses("#mma(4x1", 32, 9, "found the end, expected `)`");
    refuses("#mma(ax1)", 32, 6, "found `ax1`, expected a number");
    refuses("#mma(0x1)", 32, 6, "warps are 0, expected 1 to 64");
    refuses("#mma(99999999999x1)", 32, 6, "the number is too large");
    refuses("#mma(16x16)", 32, 5, "256 warps, expected at most 64");
    refuses("#rows(order(0))", 16, 14, "found `)`, expected `,`");
    refuses("#rows(order(0, 0))", 16, 16,
            "axis 0 in order, expected each of the 2 axes once");
    refuses("#rows(order(0, 2))", 16, 16, "axis 2 in order");
    refuses("#rows(odder(0, 1))", 16, 7, "found `odder`, expected `order`");
    refuses("#blocked(1x8, 4x8)", 16, 18, "found `)`, expected `,`");
}
END_TEST

START_TEST(test_errors_of_meaning)
{
    refuses("#mma_a(4x1)", 64, 1, "elements of 8, 16 or 32 bits, not 64");
    refuses("#blocked(1x8, 4x4, 4x1)", 16, 15, "16 lanes, expected 32 in all");
    refuses("#blocked(1x3, 4x8, 4x1)", 16, 12,
            "elements of a thread are 3, expected a power of two");
    refuses("#blocked(1x8, 3x8, 4x1)", 16, 15,
            "lanes are 3, expected a power of two");
    refuses("#blocked(1x8, 4x8, 64x2)", 16, 20,
            "128 warps, expected at most 64");
    refuses("#swizzle128", 16, 1,
            "#swizzle128 does not divide rows of 160 bytes; the widest is "
            "#swizzle32");
    refuses("#swizzle64(order(0, 1))", 2, 1,
            "does not divide rows of 16 bytes; use #rows");
    refuses("#xor(8, 1, 8)", 16, 1,
            "#xor needs 64 columns and 8 rows, the powers of two of the "
            "tile's are 16 and 64");
    refuses("#xor(8, 1, 3)", 16, 12, "phases are 3, expected a power of two");
    refuses("#slice(3 of 8, #mma(4x1))", 16, 1,
            "axis 3 was not in a tile of rank 3");
    refuses("#slice(1 of 8, #mma(4x1))", 16, 16,
            "#mma is for tiles of rank 2, not 3");
    refuses("#slice(1 of 8, #rows)", 16, 16, "of shared memory");
    refuses("#slice(1 of 1000000, #blocked(1x1x1, 32x1x1, 1x1x1))", 16, 1,
            "more than 16777216 elements");
    refuses("#expand(1, #rows)", 16, 1, "axis 1 has not side 1");
    refuses("#reorder(2, 1 0, #rows)", 16, 1, "has no axis 2");
    refuses("#reorder(0, 1 1, #rows)", 16, 12, "each of 0 to 1 once");
    refuses("#reorder(0, 1 2, #rows)", 16, 12, "each of 0 to 1 once");
    refuses("#reorder(0, 0 1 2 3 4 5 6 7 8, #rows)", 16, 12,
            "more than 8 bits");
    refuses("#reorder(0, 1 0, #nothing)", 16, 18, "unknown name");
    refuses("#expand(7, #rows)", 16, 1, "axis 7 has not side 1");
}
END_TEST

START_TEST(test_errors_of_bases)
{
    refuses("#bases(register [(0,1)], lane [], warp [])", 16, 1,
            "lane has 1 values, expected 32");
    refuses("#bases(register [(0,1)], lane [32*(1,0)], warp [])", 16, 1,
            "some elements along axis 1 are held nowhere");
    refuses("#bases(register [80*(0,1)], lane [32*(1,0)], warp [])", 16, 1,
            "some elements are held nowhere");
    refuses("#bases(register [80*(0,1)], lane [32*(2,0)], warp [(64,0)])", 16,
            1, "warp mode 0 leaves the tile along axis 0");
    refuses("#bases(offset [80*(0,1), 32*(1,0)])", 16, 1,
            "some elements are held nowhere");
    refuses("#bases(offset [80*(0,1), 64*(1,0), (0,0)])", 16, 1,
            "offset has 10240 values for 5120 elements");
    refuses("#bases(offset [80*(0)])", 16, 21, "found `)`, expected `,`");
    refuses("#bases(offset [80(0,1)])", 16, 18, "found `(`, expected `*`");
    refuses("#bases(registers [])", 16, 8,
            "found `registers`, expected `register`");
    refuses("#bases(register [], warp [], lane [])", 16, 21,
            "found `warp`, expected `lane`");
    refuses("#bases(offset [(4294967296,0)])", 16, 17, "too large");
}
END_TEST

START_TEST(test_nesting_is_bounded)
{
    char text[4096] = "";
    int32_t one = 1;
    for (int i = 0; i < 100; i++)
        strcat(text, "#expand(0, #slice(0 of 1, ");
    tc_diags_clear(cx);
    ck_assert_ptr_null(parse(text, 1, &one, 32));
    ck_assert_ptr_nonnull(strstr(cx->diags->message, "nested"));
    /* Wrong sides are told as such. */
    tc_diags_clear(cx);
    ck_assert_ptr_null(parse("#rows", 2, (pair){INT32_MAX, INT32_MAX}, 32));
    ck_assert_ptr_nonnull(cx->diags);
    tc_diags_clear(cx);
    ck_assert_ptr_null(parse("#rows", 1, (pair){0}, 32));
    ck_assert_ptr_nonnull(strstr(cx->diags->message, "side 0"));
}
END_TEST

/* ---- Damage ---- */

/* Any text is a layout or an error. */
START_TEST(test_random_text)
{
    static const char *const seeds[] = {
        "#mma(4x1)",
        "#blocked(1x8, 4x8, 4x1, order(0, 1))",
        "#swizzle32(order(0, 1))",
        "#xor(8, 1, 2)",
        "#slice(1 of 8, #blocked(1x1x1, 4x8x1, 4x1x1))",
        "#bases(register [(8,0), 5*(0,16)], lane [(1,0), (2,0), (4,0), (0,1), "
        "(0,2)], warp [(0,4), (0,8), 4*(16,0)])",
        "#bases(offset [80*(0,1), 64*(1,0)])"};
    static const pair s = {64, 80};
    uint64_t state = 1;
    for (int round = 0; round < 20000; round++) {
        char text[256];
        strcpy(text, seeds[round % 7]);
        for (int k = 0; k < 1 + round % 3; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(state >> 33) % strlen(text);
            text[at] = "0123456789()[],*x# "[(state >> 20) % 19];
        }
        const tc_layout *l = NULL;
        size_t used;
        tc_diags_clear(cx);
        l = tc_layout_parse(cx, text, strlen(text), 2, s, 16, (tc_loc){0},
                            &used);
        if (!l != (cx->nerrors > 0))
            ck_abort_msg("%s", text);
        if (l && parse(text_of(l, 16), 2, s, 16) != l)
            ck_abort_msg("%s becomes %s", text, text_of(l, 16));
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_names_of_fragments,
        test_names_of_blocked,
        test_names_of_memory,
        test_names_of_slices,
        test_reordered_names,
        test_bases,
        test_text_ends_where_the_layout_does,
        test_everything_round_trips,
        test_scratch_round_trips,
        test_errors_of_form,
        test_errors_of_meaning,
        test_errors_of_bases,
        test_nesting_is_bounded,
        test_random_text,
    };
    Suite *s = suite_create("layout_text");
    TCase *t = tcase_create("layout_text");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return run_suite(s);
}
