/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts for scans: the same elements, each thread as many, and each warp one
 * piece of the axis.
 */
#include "test/unit/layout/fixture.h"

/* First and last coordinate of each warp; as many elements between them. */
static void has_pieces(const tc_layout *l, unsigned axis)
{
    layout_is_whole(l);
    for (uint32_t w = 0; w < tc_layout_size(l, TC_WARP); w++) {
        int32_t least = INT32_MAX, most = -1;
        uint8_t seen[1024] = {0};
        int32_t n = 0;
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t r = 0; r < tc_layout_size(l, TC_REGISTER); r++) {
                int32_t x[TC_MAX_RANK];
                layout_at(l, r, lane, w, 0, x);
                least = x[axis] < least ? x[axis] : least;
                most = x[axis] > most ? x[axis] : most;
                n += !seen[x[axis]];
                seen[x[axis]] = 1;
            }
        ck_assert_int_eq(n, most - least + 1);
    }
}

START_TEST(test_warps_on_top)
{
    static const unsigned order[] = {1, 0};
    for (int32_t warps = 1; warps <= 8; warps *= 2)
        for (int32_t n = 32; n <= 512; n *= 4) {
            const tc_layout *l = tc_layout_blocked(
                cx, 2, (int32_t[]){8, n}, (int32_t[]){1, 4}, (int32_t[]){4, 8},
                (int32_t[]){1, warps}, order);
            const tc_layout *s = tc_layout_for_scan(cx, l, 1);
            ck_assert(tc_layout_can_scan(s, 1));
            has_pieces(s, 1);
            ck_assert_uint_eq(tc_layout_size(s, TC_REGISTER),
                              tc_layout_size(l, TC_REGISTER));
        }
}
END_TEST

START_TEST(test_rows_of_accumulators)
{
    const tc_layout *l = tc_layout_mma_c(cx, (pair){128, 64}, 4, 1);
    ck_assert(!tc_layout_can_scan(l, 0));
    ck_assert(tc_layout_can_scan(l, 1));
    has_pieces(tc_layout_for_scan(cx, l, 0), 0);
    ck_assert_ptr_eq(tc_layout_for_scan(cx, l, 1), l);
}
END_TEST

START_TEST(test_digits_in_order)
{
    tc_axis_digits d;
    const tc_layout *l = tc_layout_mma_c(cx, (pair){64, 64}, 4, 1);
    ck_assert(tc_layout_axis_digits(l, 1, &d));
    int32_t stride = 1;
    for (unsigned i = 0; i < d.n; i++) {
        ck_assert_int_eq(d.all[i].stride, stride);
        stride *= (int32_t)d.all[i].count;
    }
    ck_assert_int_eq(stride, 64);
}
END_TEST

void layout_scans_tests(TCase *t)
{
    tcase_add_test(t, test_warps_on_top);
    tcase_add_test(t, test_rows_of_accumulators);
    tcase_add_test(t, test_digits_in_order);
}
