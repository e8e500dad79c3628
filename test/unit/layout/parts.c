/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of layouts, against their definition: each thread holds of the part
 * what it held of it in the whole.
 */
#include "test/unit/layout/fixture.h"

/* The elements of the part that thread (lane, warp) holds: one byte each. */
static void held(const tc_layout *l, uint32_t lane, uint32_t warp,
                 const tc_tile_part *p, bool is_whole, uint8_t *out)
{
    memset(out, 0, 192 * 192);
    for (uint32_t r = 0; r < tc_layout_size(l, TC_REGISTER); r++) {
        int32_t x[TC_MAX_RANK];
        layout_at(l, r, lane, warp, 0, x);
        int32_t *at = &x[p->axis];
        if (is_whole && (*at < p->at || (*at - p->at) % p->step ||
                         (*at - p->at) / p->step >= p->side))
            continue;
        if (is_whole)
            *at = (*at - p->at) / p->step;
        out[x[0] * 192 + x[1]] = 1;
    }
}

static void is_part(const tc_layout *whole, const tc_layout *part,
                    const tc_tile_part *p)
{
    static uint8_t a[192 * 192], b[192 * 192];
    layout_is_whole(part);
    layout_is(part->shape[p->axis], p->side);
    for (uint32_t w = 0; w < tc_layout_size(whole, TC_WARP); w++)
        for (uint32_t lane = 0; lane < 32; lane++) {
            held(whole, lane, w, p, true, a);
            held(part, lane, w, p, false, b);
            ck_assert(memcmp(a, b, sizeof a) == 0);
        }
}

START_TEST(test_halves_of_fragments)
{
    const tc_layout *l = tc_layout_mma_c(cx, (pair){64, 64}, 4, 1);
    tc_tile_part p = {1, 32, 1, 32};
    ck_assert_ptr_eq(tc_layout_part(cx, l, &p),
                     tc_layout_mma_c(cx, (pair){64, 32}, 4, 1));
    p = (tc_tile_part){1, 1, 2, 32};
    is_part(l, tc_layout_part(cx, l, &p), &p);
    /* Rows 0 to 31 are in warps 0 and 1. */
    p = (tc_tile_part){0, 0, 1, 32};
    ck_assert_ptr_null(tc_layout_part(cx, l, &p));
    /* Every fourth column: of each lane's two only some. */
    p = (tc_tile_part){1, 0, 4, 16};
    ck_assert_ptr_null(tc_layout_part(cx, l, &p));
    /* Two warps share the columns of 16. */
    p = (tc_tile_part){1, 8, 1, 8};
    ck_assert_ptr_null(
        tc_layout_part(cx, tc_layout_mma_c(cx, (pair){64, 64}, 2, 2), &p));
}
END_TEST

START_TEST(test_units_and_steps)
{
    static const struct {
        int32_t side, unit, step;
        tc_tile_part p;
    } cases[] = {{64, 32, 1, {1, 32, 1, 32}}, {64, 64, 2, {1, 1, 2, 32}},
                 {96, 16, 1, {1, 16, 1, 48}}, {192, 64, 1, {1, 64, 1, 128}},
                 {64, 32, 2, {1, 33, 2, 16}}, {64, 16, 4, {1, 18, 4, 8}},
                 {64, 1, 1, {1, 5, 1, 8}},    {48, 3, 1, {1, 9, 1, 24}},
                 {48, 24, 1, {1, 24, 1, 24}}, {96, 48, 2, {1, 49, 2, 24}}};
    const unsigned order[] = {1, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t side = cases[i].side, base = cases[i].unit / cases[i].step;
        const tc_tile_part *p = &cases[i].p;
        int32_t vector = (base & -base) < 4 ? (base & -base) : 4;
        const tc_layout *l =
            tc_layout_blocked(cx, 2, (pair){32, base}, (pair){1, vector},
                              (pair){8, 4}, (pair){4, 1}, order);
        l = tc_layout_spread(cx, l, 1, cases[i].step);
        layout_is(l->shape[1], cases[i].unit);
        l = tc_layout_repeat(cx, l, 1, side / cases[i].unit);
        layout_is_whole(l);
        const tc_layout *part = tc_layout_part(cx, l, p);
        ck_assert_msg(part, "case %d", (int)i);
        is_part(l, part, p);
        /* And back: some whole of which this is the part. */
        const tc_layout *whole = tc_layout_whole(cx, part, p, side);
        ck_assert_msg(whole, "case %d", (int)i);
        layout_is_whole(whole);
        is_part(whole, part, p);
    }
}
END_TEST

/* Element (i, j) of the part is where element (i, at + j) of the whole is. */
static void is_run(const tc_layout *whole, const tc_tile_part *p)
{
    static uint32_t places[192][192];
    uint32_t first;
    const tc_layout *run = tc_layout_run(cx, whole, p, &first);
    int32_t x[TC_MAX_RANK];
    ck_assert_ptr_nonnull(run);
    layout_is(run->shape[p->axis], p->side);
    for (uint32_t i = 0; i < tc_layout_size(whole, TC_OFFSET); i++) {
        layout_at(whole, 0, 0, 0, i, x);
        places[x[0]][x[1]] = i;
    }
    for (uint32_t i = 0; i < tc_layout_size(run, TC_OFFSET); i++) {
        layout_at(run, 0, 0, 0, i, x);
        x[p->axis] += p->at;
        layout_is((int)places[x[0]][x[1]], (int)(first + i));
    }
}

START_TEST(test_runs)
{
    const unsigned order[] = {1, 0}, other[] = {0, 1};
    static const tc_tile_part runs[] = {
        {1, 0, 1, 128}, {1, 64, 1, 64}, {1, 64, 1, 128}, {1, 0, 1, 192}};
    const tc_layout *l =
        tc_layout_swizzled(cx, 2, (pair){64, 192}, order, 16, 128);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        is_run(l, &runs[i]);
    /* It is the layout of a buffer with as many columns. */
    ck_assert_ptr_eq(
        tc_layout_run(cx, l, &runs[0], &(uint32_t){0}),
        tc_layout_swizzled(cx, 2, (pair){64, 128}, order, 16, 128));
    is_run(tc_layout_swizzled(cx, 2, (pair){64, 192}, order, 16, 64),
           &(tc_tile_part){1, 32, 1, 96});
    is_run(tc_layout_swizzled(cx, 2, (pair){128, 64}, order, 16, 128),
           &(tc_tile_part){0, 64, 1, 64});
    is_run(tc_layout_swizzled(cx, 2, (pair){192, 64}, other, 16, 128),
           &(tc_tile_part){0, 64, 1, 64});
}
END_TEST

START_TEST(test_parts_in_pieces)
{
    static const tc_tile_part pieces[] = {
        {1, 32, 1, 64}, {1, 0, 1, 32}, {0, 0, 1, 32}, {1, 0, 2, 64}};
    const unsigned order[] = {1, 0};
    const tc_layout *l =
        tc_layout_swizzled(cx, 2, (pair){64, 128}, order, 16, 128);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        ck_assert_ptr_null(tc_layout_run(cx, l, &pieces[i], &(uint32_t){0}));
}
END_TEST

void layout_parts_tests(TCase *t)
{
    tcase_add_test(t, test_halves_of_fragments);
    tcase_add_test(t, test_units_and_steps);
    tcase_add_test(t, test_runs);
    tcase_add_test(t, test_parts_in_pieces);
}
