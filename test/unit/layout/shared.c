/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory: swizzles, rows, xor.
 */
#include "test/unit/layout/fixture.h"

/* ---- Shared memory ---- */

/* The address of an element as TMA writes it, in bytes. */
static uint32_t tma_address(int32_t rows, int32_t row, int32_t col,
                            unsigned bits, unsigned swizzle)
{
    uint32_t x = (uint32_t)col * bits / 8;
    uint32_t a = x / swizzle * (uint32_t)rows * swizzle +
                 (uint32_t)row * swizzle + x % swizzle;
    return a ^ ((a >> 7 & (swizzle / 16 - 1)) << 4);
}

START_TEST(test_swizzles_are_tma_s)
{
    static const pair shapes[] = {{64, 64}, {128, 128}, {176, 64},  {176, 128},
                                  {80, 80}, {8, 96},    {192, 192}, {64, 176},
                                  {88, 32}, {24, 256},  {16, 16}};
    static const unsigned all_bits[] = {8, 16, 32};
    int swizzled = 0;
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int b = 0; b < 3; b++) {
            unsigned bits = all_bits[b];
            int32_t m = shapes[i][0], n = shapes[i][1];
            unsigned widest = tc_layout_widest_swizzle(n, bits);
            for (unsigned swizzle = widest; swizzle >= 32; swizzle /= 2) {
                const tc_layout *l = tc_layout_swizzled(
                    cx, 2, shapes[i], (unsigned[]){1, 0}, bits, swizzle);
                layout_is_whole(l);
                swizzled++;
                static char seen[192 * 256];
                memset(seen, 0, sizeof seen);
                for (int32_t o = 0; o < m * n; o++) {
                    int32_t c[TC_MAX_RANK];
                    layout_at(l, 0, 0, 0, (uint32_t)o, c);
                    ck_assert(c[0] < m && c[1] < n);
                    ck_assert(!seen[c[0] * n + c[1]]++);
                    ck_assert_uint_eq(tma_address(m, c[0], c[1], bits, swizzle),
                                      (uint32_t)o * bits / 8);
                }
            }
        }
    ck_assert_int_gt(swizzled, 40);
}
END_TEST

START_TEST(test_widest_swizzle)
{
    ck_assert_uint_eq(tc_layout_widest_swizzle(64, 16), 128);
    ck_assert_uint_eq(tc_layout_widest_swizzle(192, 16), 128);
    ck_assert_uint_eq(tc_layout_widest_swizzle(96, 16), 64);
    ck_assert_uint_eq(tc_layout_widest_swizzle(80, 16), 32);
    ck_assert_uint_eq(tc_layout_widest_swizzle(176, 16), 32);
    ck_assert_uint_eq(tc_layout_widest_swizzle(8, 16), 0);
    ck_assert_uint_eq(tc_layout_widest_swizzle(64, 8), 64);
    ck_assert_uint_eq(tc_layout_widest_swizzle(1, 1), 0);
}
END_TEST

START_TEST(test_rows)
{
    static const int32_t shape[] = {3, 80, 24};
    static const unsigned orders[][3] = {{2, 1, 0}, {0, 1, 2}, {1, 2, 0}};
    for (int i = 0; i < 3; i++) {
        const unsigned *order = orders[i];
        const tc_layout *l = tc_layout_swizzled(cx, 3, shape, order, 32, 0);
        layout_is_whole(l);
        for (int32_t o = 0; o < 3 * 80 * 24; o++) {
            int32_t c[TC_MAX_RANK];
            layout_at(l, 0, 0, 0, (uint32_t)o, c);
            int32_t back =
                c[order[0]] +
                shape[order[0]] * (c[order[1]] + shape[order[1]] * c[order[2]]);
            layout_is(back, o);
        }
    }
}
END_TEST

START_TEST(test_xor)
{
    static const struct {
        pair shape;
        unsigned order[2], vec, per, phases;
    } cases[] = {{{64, 64}, {1, 0}, 8, 1, 8},
                 {{64, 96}, {1, 0}, 4, 2, 8},
                 {{80, 64}, {1, 0}, 1, 1, 16},
                 {{64, 176}, {0, 1}, 8, 2, 8},
                 {{32, 32}, {0, 1}, 2, 4, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int32_t *shape = cases[i].shape;
        unsigned fast = cases[i].order[0], slow = cases[i].order[1];
        const tc_layout *l =
            tc_layout_xor(cx, 2, shape, cases[i].order, cases[i].vec,
                          cases[i].per, cases[i].phases);
        layout_is_whole(l);
        for (uint32_t o = 0; o < (uint32_t)(shape[0] * shape[1]); o++) {
            int32_t c[TC_MAX_RANK];
            layout_at(l, 0, 0, 0, o, c);
            uint32_t row = o / (uint32_t)shape[fast];
            uint32_t column = o % (uint32_t)shape[fast];
            column ^= row / cases[i].per % cases[i].phases * cases[i].vec;
            layout_is(c[slow], (int32_t)row);
            layout_is(c[fast], (int32_t)column);
        }
    }
    /* Fewer phases where they do not fit. */
    const tc_layout *l =
        tc_layout_xor(cx, 2, (pair){8, 16}, (unsigned[]){1, 0}, 8, 1, 8);
    layout_is_whole(l);
    ck_assert_ptr_eq(
        l, tc_layout_xor(cx, 2, (pair){8, 16}, (unsigned[]){1, 0}, 8, 1, 2));
}
END_TEST

void layout_shared_tests(TCase *t)
{
    tcase_add_test(t, test_swizzles_are_tma_s);
    tcase_add_test(t, test_widest_swizzle);
    tcase_add_test(t, test_rows);
    tcase_add_test(t, test_xor);
}
