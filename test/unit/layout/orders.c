/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders of an axis: each coordinate where its bits say, and orders that are
 * found leave nothing to exchange.
 */
#include "test/unit/layout/fixture.h"

static const tc_bit_order orders[] = {
    {0, {0}}, {2, {1, 0}}, {3, {2, 0, 1}}, {4, {0, 2, 3, 1}}, {4, {3, 2, 1, 0}},
};
enum { NORDERS = sizeof orders / sizeof *orders };

static int32_t moved(const tc_bit_order *o, int32_t x)
{
    int32_t y = 0;
    for (unsigned i = 0; i < 31; i++)
        if (x >> i & 1)
            y |= 1 << (i < o->n ? o->to[i] : i);
    return y;
}

static void check_coordinates(const tc_layout *l, unsigned axis,
                              const tc_bit_order *o)
{
    const tc_layout *r = tc_layout_reorder(cx, l, axis, o);
    tc_bit_order back = tc_bit_order_inverse(o);
    ck_assert_ptr_nonnull(r);
    layout_is_whole(r);
    ck_assert_ptr_eq(tc_layout_reorder(cx, r, axis, &back), l);
    uint32_t n[TC_INPUT_COUNT];
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        n[in] = tc_layout_size(l, (tc_input)in);
    for (uint32_t i = 0; i < n[0] * n[1] * n[2] * n[3]; i++) {
        int32_t a[TC_MAX_RANK], b[TC_MAX_RANK];
        uint32_t reg = i % n[0], lane = i / n[0] % n[1];
        uint32_t warp = i / n[0] / n[1] % n[2], at = i / n[0] / n[1] / n[2];
        layout_at(l, reg, lane, warp, at, a);
        layout_at(r, reg, lane, warp, at, b);
        layout_is(b[axis], moved(o, a[axis]));
        layout_is(b[!axis], a[!axis]);
    }
}

START_TEST(coordinates_have_their_bits_moved)
{
    static const unsigned rows_last[] = {1, 0};
    const tc_bit_order *o = &orders[_i];
    const int32_t odd[] = {64, 224}, panels[] = {48, 128};
    check_coordinates(tc_layout_mma_c(cx, odd, 4, 1), 1, o);
    check_coordinates(tc_layout_mma_b(cx, panels, 1, 4, 8), 1, o);
    check_coordinates(tc_layout_wgmma_c(cx, odd, 1, 1), 0, o);
    check_coordinates(tc_layout_swizzled(cx, 2, panels, rows_last, 8, 128), 0,
                      o);
    check_coordinates(tc_layout_swizzled(cx, 2, panels, rows_last, 16, 64), 0,
                      o);
}
END_TEST

START_TEST(bits_must_be_below_the_period)
{
    const int32_t shape[] = {64, 24};
    const tc_layout *l = tc_layout_mma_c(cx, shape, 4, 1);
    ck_assert_ptr_nonnull(tc_layout_reorder(cx, l, 1, &orders[2]));
    ck_assert_ptr_null(tc_layout_reorder(cx, l, 1, &orders[3]));
}
END_TEST

START_TEST(an_order_is_recognised)
{
    const int32_t shape[] = {128, 224}, other[] = {128, 96};
    const tc_layout *l = tc_layout_wgmma_c(cx, shape, 2, 1);
    const tc_bit_order *o = &orders[_i];
    tc_bit_order found;
    const tc_layout *r = tc_layout_reorder(cx, l, 1, o);
    ck_assert(tc_layout_order_of(l, r, 1, &found));
    ck_assert_uint_eq(found.n, o->n);
    ck_assert_mem_eq(found.to, o->to, o->n);
    ck_assert(
        !tc_layout_order_of(tc_layout_wgmma_c(cx, other, 2, 1), r, 1, &found));
    ck_assert(
        !tc_layout_order_of(tc_layout_mma_c(cx, shape, 4, 2), r, 1, &found));
}
END_TEST

/* Everything that a thread wants of `to` it has in `from`. */
static void check_threads(const tc_layout *from, const tc_layout *to)
{
    uint32_t nregs = tc_layout_size(from, TC_REGISTER);
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t r = 0; r < tc_layout_size(to, TC_REGISTER); r++) {
            int32_t want[TC_MAX_RANK], has[TC_MAX_RANK];
            uint32_t k = 0;
            bool found = false;
            layout_at(to, r, lane, 1, 0, want);
            for (; k < nregs && !found; k++) {
                layout_at(from, k, lane, 1, 0, has);
                found = has[0] == want[0] && has[1] == want[1];
            }
            if (!found)
                ck_abort_msg("lane %u has not (%d,%d)", lane, want[0], want[1]);
        }
}

START_TEST(accumulators_become_operands)
{
    static const struct {
        int32_t shape[2];
        unsigned bits;
        tc_bit_order order;
    } all[] = {
        {{64, 32}, 8, {4, {0, 2, 3, 1}}}, {{64, 224}, 8, {4, {0, 2, 3, 1}}},
        {{64, 96}, 8, {4, {0, 2, 3, 1}}}, {{64, 64}, 32, {3, {2, 0, 1}}},
        {{64, 40}, 32, {3, {2, 0, 1}}},   {{64, 64}, 16, {0, {0}}},
    };
    const int32_t *shape = all[_i].shape;
    const tc_layout *c = tc_layout_mma_c(cx, shape, 4, 1);
    const tc_layout *a = tc_layout_mma_a(cx, shape, 4, 1, all[_i].bits);
    tc_bit_order o;
    ck_assert(tc_layout_find_order(c, a, 1, &o));
    ck_assert_uint_eq(o.n, all[_i].order.n);
    ck_assert_mem_eq(o.to, all[_i].order.to, o.n);
    check_threads(tc_layout_reorder(cx, c, 1, &o), a);
}
END_TEST

START_TEST(other_warps_cannot_be_reordered)
{
    const int32_t shape[] = {64, 64};
    tc_bit_order o;
    ck_assert(!tc_layout_find_order(tc_layout_mma_c(cx, shape, 2, 2),
                                    tc_layout_mma_a(cx, shape, 2, 2, 8), 1,
                                    &o));
    ck_assert(!tc_layout_find_order(tc_layout_mma_c(cx, shape, 4, 1),
                                    tc_layout_mma_a(cx, shape, 4, 1, 8), 0,
                                    &o));
}
END_TEST

void layout_orders_tests(TCase *t)
{
    tcase_add_loop_test(t, coordinates_have_their_bits_moved, 0, NORDERS);
    tcase_add_test(t, bits_must_be_below_the_period);
    tcase_add_loop_test(t, an_order_is_recognised, 0, NORDERS);
    tcase_add_loop_test(t, accumulators_become_operands, 0, 6);
    tcase_add_test(t, other_warps_cannot_be_reordered);
}
