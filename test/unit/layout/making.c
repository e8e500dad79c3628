/* SPDX-License-Identifier: Apache-2.0
 *
 * Specifications, golden values, what is no layout.
 */
#include "test/unit/layout/fixture.h"

/* ---- Making ---- */

START_TEST(test_equal_specs_are_the_same_layout)
{
    tc_layout_spec s = {.rank = 2, .shape = {8, 96}};
    tc_layout_spec_add(&s, TC_OFFSET, 32, 1, 1);
    tc_layout_spec_add(&s, TC_OFFSET, 1, 1, 5);
    tc_layout_spec_add(&s, TC_OFFSET, 3, 1, 32);
    tc_layout_spec_add(&s, TC_OFFSET, 8, 0, 1);
    tc_layout_spec t = {.rank = 2, .shape = {8, 96}};
    tc_layout_spec_add(&t, TC_OFFSET, 96, 1, 1);
    tc_layout_spec_add(&t, TC_OFFSET, 2, 0, 1);
    tc_layout_spec_add(&t, TC_OFFSET, 4, 0, 2);
    const tc_layout *l = tc_layout_get(cx, &s);
    ck_assert_ptr_eq(tc_layout_get(cx, &t), l);
    ck_assert_ptr_eq(tc_layout_swizzled(cx, 2, (int32_t[]){8, 96},
                                        (unsigned[]){1, 0}, 16, 0),
                     l);
    ck_assert_uint_eq(l->nmodes[TC_OFFSET], 9);
    ck_assert_uint_eq(tc_layout_size(l, TC_OFFSET), 8 * 96);
    ck_assert_int_eq(l->period[0], 8);
    ck_assert_int_eq(l->period[1], 32);
    t.shape[0] = 16;
    ck_assert_ptr_ne(tc_layout_get(cx, &t), l);
}
END_TEST

START_TEST(test_images_are_added_above_the_period)
{
    tc_layout_spec s = {.rank = 1, .shape = {2 * 11 * 1024}};
    tc_layout_spec_add(&s, TC_REGISTER, 11, 0, 1024);
    tc_layout_spec_add(&s, TC_REGISTER, 2, 0, 11 * 1024);
    const tc_layout *l = tc_layout_get(cx, &s);
    ck_assert_int_eq(l->period[0], 1024);
    for (uint32_t r = 0; r < 22; r++) {
        int32_t coord[TC_MAX_RANK];
        layout_at(l, r, 0, 0, 0, coord);
        ck_assert_int_eq(coord[0], (int32_t)r * 1024);
    }
}
END_TEST

/* ---- Golden values ---- */

START_TEST(test_wgmma_accumulator)
{
    const tc_layout *c = tc_layout_wgmma_c(cx, (pair){64, 64}, 1, 1);
    layout_has_bases(c, TC_REGISTER, 5,
                     (pair[]){{0, 1}, {8, 0}, {0, 8}, {0, 16}, {0, 32}});
    layout_has_bases(c, TC_LANE, 5,
                     (pair[]){{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}});
    layout_has_bases(c, TC_WARP, 2, (pair[]){{16, 0}, {32, 0}});
    /* So P needs no conversion. */
    ck_assert_ptr_eq(tc_layout_wgmma_a(cx, (pair){64, 64}, 1, 1, 16), c);
    ck_assert_ptr_eq(tc_layout_mma_c(cx, (pair){64, 64}, 4, 1), c);
}
END_TEST

START_TEST(test_wgmma_operand_of_8_bits)
{
    const tc_layout *a = tc_layout_wgmma_a(cx, (pair){64, 64}, 1, 1, 8);
    layout_has_bases(a, TC_REGISTER, 5,
                     (pair[]){{0, 1}, {0, 2}, {8, 0}, {0, 16}, {0, 32}});
    layout_has_bases(a, TC_LANE, 5,
                     (pair[]){{0, 4}, {0, 8}, {1, 0}, {2, 0}, {4, 0}});
}
END_TEST

START_TEST(test_swizzle_of_128_bytes)
{
    const tc_layout *s =
        tc_layout_swizzled(cx, 2, (pair){64, 64}, (unsigned[]){1, 0}, 16, 128);
    layout_has_bases(s, TC_OFFSET, 12,
                     (pair[]){{0, 1},
                              {0, 2},
                              {0, 4},
                              {0, 8},
                              {0, 16},
                              {0, 32},
                              {1, 8},
                              {2, 16},
                              {4, 32},
                              {8, 0},
                              {16, 0},
                              {32, 0}});
}
END_TEST

START_TEST(test_slice_of_an_accumulator)
{
    const tc_layout *c = tc_layout_wgmma_c(cx, (pair){64, 64}, 1, 1);
    const tc_layout *s = tc_layout_slice(cx, c, 1);
    ck_assert_uint_eq(s->rank, 1);
    ck_assert_int_eq(s->shape[0], 64);
    static const int32_t lanes[] = {0, 0, 1, 2, 4};
    ck_assert_uint_eq(s->nmodes[TC_REGISTER], 1);
    ck_assert_int_eq(s->modes[TC_REGISTER][0].image[0], 8);
    ck_assert_uint_eq(s->nmodes[TC_LANE], 5);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(s->modes[TC_LANE][i].image[0], lanes[i]);
    ck_assert_uint_eq(s->nmodes[TC_WARP], 2);
    ck_assert_int_eq(s->modes[TC_WARP][0].image[0], 16);
    ck_assert_int_eq(s->modes[TC_WARP][1].image[0], 32);
    ck_assert_uint_eq(tc_layout_free_bits(s, TC_LANE), 3);
    ck_assert_uint_eq(tc_layout_free_bits(s, TC_WARP), 0);
}
END_TEST

/* ---- The check ---- */

static void refuses(const tc_layout_spec *s, const char *why)
{
    const char *said = tc_layout_check(cx, s);
    ck_assert_msg(said && strstr(said, why), "said %s, expected %s",
                  said ? said : "nothing", why);
}

START_TEST(test_check)
{
    tc_layout_spec good = {.rank = 2, .shape = {16, 16}}, s;
    tc_layout_spec_add(&good, TC_REGISTER, 8, 1, 1);
    tc_layout_spec_add(&good, TC_LANE, 2, 1, 8);
    tc_layout_spec_add(&good, TC_LANE, 16, 0, 1);
    ck_assert_ptr_null(tc_layout_check(cx, &good));
    s = good;
    tc_layout_spec_add(&s, TC_REGISTER, 2, 1, 16);
    refuses(&s, "register mode 3 leaves the tile along axis 1");
    s = good;
    s.shape[0] = 32;
    refuses(&s, "some elements are held nowhere");
    s = good;
    s.shape[0] = 48;
    refuses(&s, "some elements along axis 0 are held nowhere");
    s = good;
    s.modes[TC_LANE][1].count = 8;
    refuses(&s, "lane has 16 values, expected 32");
    s = good;
    s.modes[TC_REGISTER][0].image[1] = 2;
    refuses(&s, "some elements are held nowhere");
    s.modes[TC_REGISTER][0].image[1] = 4;
    refuses(&s, "register mode 2 leaves the tile along axis 1");
    s = good;
    s.modes[TC_REGISTER][0].image[1] = -1;
    refuses(&s, "negative");
    s = good;
    s.modes[TC_REGISTER][0].count = 0;
    refuses(&s, "count 0");
    s = good;
    s.modes[TC_REGISTER][0].count = UINT32_MAX;
    refuses(&s, "register has more than 16777216 values");
    s = good;
    s.shape[1] = 0;
    refuses(&s, "side 1 of the tile is 0");
    s = good;
    s.shape[0] = s.shape[1] = INT32_MAX;
    refuses(&s, "more than 16777216 elements");
    s = good;
    tc_layout_spec_add(&s, TC_OFFSET, 2, 1, 1);
    refuses(&s, "one or the other");
    s = good;
    for (int i = 0; i < 30; i++)
        tc_layout_spec_add(&s, TC_WARP, 1, 2, 0);
    refuses(&s, "warp has more than 24 modes");
    s = (tc_layout_spec){.rank = 1, .shape = {8}};
    tc_layout_spec_add(&s, TC_OFFSET, 8, 0, 1);
    ck_assert_ptr_null(tc_layout_check(cx, &s));
    tc_layout_spec_add(&s, TC_OFFSET, 2, 2, 0);
    refuses(&s, "offset has 16 values for 8 elements");
    s = (tc_layout_spec){.rank = 2, .shape = {3, 3}};
    tc_layout_spec_add(&s, TC_OFFSET, 3, 0, 1);
    tc_layout_spec_add(&s, TC_OFFSET, 3, 1, 1);
    ck_assert_ptr_null(tc_layout_check(cx, &s));
    s.modes[TC_OFFSET][0].image[1] = 1;
    refuses(&s, "leaves the tile");
}
END_TEST

void layout_making_tests(TCase *t)
{
    tcase_add_test(t, test_equal_specs_are_the_same_layout);
    tcase_add_test(t, test_images_are_added_above_the_period);
    tcase_add_test(t, test_wgmma_accumulator);
    tcase_add_test(t, test_wgmma_operand_of_8_bits);
    tcase_add_test(t, test_swizzle_of_128_bytes);
    tcase_add_test(t, test_slice_of_an_accumulator);
    tcase_add_test(t, test_check);
}
