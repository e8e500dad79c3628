/* SPDX-License-Identifier: Apache-2.0
 *
 * Fragments as the documents of mma and wgmma have them; blocked layouts.
 */
#include "test/unit/layout/fixture.h"

/* ---- Fragments against the documents ---- */

/* The row (column) block of 16 (8) that a warp's k-th is: warps take the low
 * bits, then what is left of the odd part. */
static int32_t block_of(int32_t nblocks, int nwarps, int warp, int k)
{
    int wp = nwarps & -nwarps;
    int32_t power = nblocks & -nblocks, reps = power / wp;
    int32_t bit = warp % wp + wp * (k % reps);
    return bit + power * (warp / wp + nwarps / wp * (k / reps));
}

/* Warp index to its row and column in the grid: powers of two of both first,
 * then the odd parts. */
static void warp_at(int warp, int wm, int wn, int *m, int *n)
{
    int pm = wm & -wm, pn = wn & -wn;
    int high = warp / (pm * pn);
    *m = warp % pm + pm * (high % (wm / pm));
    *n = warp / pm % pn + pn * (high / (wm / pm));
}

START_TEST(test_mma_accumulator_is_the_documented_one)
{
    for (int g = 0; g < NGRIDS; g++) {
        int32_t m = grids[g].m, n = grids[g].n;
        int wm = grids[g].wm, wn = grids[g].wn, row, col;
        const tc_layout *l = tc_layout_mma_c(cx, (pair){m, n}, wm, wn);
        ck_assert(tc_layout_mma_fits(m, n, wm, wn));
        layout_is_whole(l);
        int per_n = n / 8 / wn, regs = 4 * per_n * (m / 16 / wm);
        ck_assert_uint_eq(tc_layout_size(l, TC_REGISTER), (unsigned)regs);
        ck_assert_uint_eq(tc_layout_size(l, TC_WARP), (unsigned)(wm * wn));
        for (int w = 0; w < wm * wn; w++)
            for (int lane = 0; lane < 32; lane++)
                for (int r = 0; r < regs; r++) {
                    int i = r % 4, tile = r / 4;
                    int32_t c[TC_MAX_RANK];
                    warp_at(w, wm, wn, &row, &col);
                    layout_at(l, (unsigned)r, (unsigned)lane, (unsigned)w, 0,
                              c);
                    /* c0, c1: row g, columns 2t, 2t+1; c2, c3: row g+8. */
                    layout_is(c[0],
                              16 * block_of(m / 16, wm, row, tile / per_n) +
                                  lane / 4 + 8 * (i >> 1));
                    layout_is(c[1], 8 * block_of(n / 8, wn, col, tile % per_n) +
                                        2 * (lane % 4) + (i & 1));
                }
    }
}
END_TEST

/* Element j of 32-bit register i of A and B. */
static void fragment_a(unsigned bits, int lane, int i, int j, int32_t *row,
                       int32_t *k)
{
    int per = 32 / (int)bits;
    *row = lane / 4 + 8 * (i & 1);
    *k = per * (lane % 4) + j + 4 * per * (i >> 1);
}

static void fragment_b(unsigned bits, int lane, int i, int j, int32_t *k,
                       int32_t *n)
{
    int per = 32 / (int)bits;
    *k = per * (lane % 4) + j + 4 * per * i;
    *n = lane / 4;
}

START_TEST(test_mma_operands_are_the_documented_ones)
{
    static const unsigned all_bits[] = {8, 16, 32};
    for (int b = 0; b < 3; b++) {
        unsigned bits = all_bits[b];
        int per = 32 / (int)bits;
        for (int32_t k = 8 * per; k <= 24 * per; k += 8 * per)
            for (int g = 0; g < NGRIDS; g++) {
                int32_t m = grids[g].m, n = grids[g].n, row, col;
                int wm = grids[g].wm, wn = grids[g].wn, wr, wc;
                int ksteps = k / (8 * per);
                const tc_layout *la =
                    tc_layout_mma_a(cx, (pair){m, k}, wm, wn, bits);
                const tc_layout *lb =
                    tc_layout_mma_b(cx, (pair){k, n}, wm, wn, bits);
                layout_is_whole(la);
                layout_is_whole(lb);
                int na = 4 * per * ksteps * (m / 16 / wm);
                int nb = 2 * per * ksteps * (n / 8 / wn);
                ck_assert_uint_eq(tc_layout_size(la, TC_REGISTER),
                                  (unsigned)na);
                ck_assert_uint_eq(tc_layout_size(lb, TC_REGISTER),
                                  (unsigned)nb);
                for (int w = 0; w < wm * wn; w++)
                    for (int lane = 0; lane < 32; lane++) {
                        int32_t c[TC_MAX_RANK];
                        warp_at(w, wm, wn, &wr, &wc);
                        for (int r = 0; r < na; r++) {
                            int step = r / (4 * per);
                            fragment_a(bits, lane, r / per % 4, r % per, &row,
                                       &col);
                            layout_at(la, (unsigned)r, (unsigned)lane,
                                      (unsigned)w, 0, c);
                            layout_is(c[0], row + 16 * block_of(m / 16, wm, wr,
                                                                step / ksteps));
                            layout_is(c[1], col + 8 * per * (step % ksteps));
                        }
                        for (int r = 0; r < nb; r++) {
                            int step = r / (2 * per);
                            fragment_b(bits, lane, r / per % 2, r % per, &row,
                                       &col);
                            layout_at(lb, (unsigned)r, (unsigned)lane,
                                      (unsigned)w, 0, c);
                            layout_is(c[0], row + 8 * per * (step % ksteps));
                            layout_is(c[1], col + 8 * block_of(n / 8, wn, wc,
                                                               step / ksteps));
                        }
                    }
            }
    }
}
END_TEST

START_TEST(test_wgmma_is_the_documented_one)
{
    static const struct {
        int32_t m, n;
        int gm, gn;
    } cases[] = {{64, 8, 1, 1},    {64, 256, 1, 1},  {128, 176, 2, 1},
                 {192, 128, 3, 1}, {128, 176, 2, 2}, {64, 192, 1, 2},
                 {64, 192, 1, 3},  {128, 80, 1, 1},  {256, 96, 2, 2}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t m = cases[i].m, n = cases[i].n;
        int gm = cases[i].gm, gn = cases[i].gn, held = n / gn;
        const tc_layout *l = tc_layout_wgmma_c(cx, (pair){m, n}, gm, gn);
        layout_is_whole(l);
        int regs = held / 8 * 4 * (m / 64 / gm);
        ck_assert_uint_eq(tc_layout_size(l, TC_REGISTER), (unsigned)regs);
        for (int w = 0; w < 4 * gm * gn; w++)
            for (int lane = 0; lane < 32; lane++)
                for (int r = 0; r < regs; r++) {
                    int32_t c[TC_MAX_RANK];
                    int in_row = r % (held / 2), rep = r / (held / 2);
                    int g = w / 4;
                    layout_at(l, (unsigned)r, (unsigned)lane, (unsigned)w, 0,
                              c);
                    layout_is(c[0], 64 * (g % gm + gm * rep) + 16 * (w % 4) +
                                        lane / 4 + 8 * (r >> 1 & 1));
                    layout_is(c[1], held * (g / gm) + 8 * (in_row >> 2) +
                                        2 * (lane % 4) + (r & 1));
                }
        const tc_layout *a = tc_layout_wgmma_a(cx, (pair){m, 32}, gm, gn, 8);
        layout_is_whole(a);
        for (int w = 0; w < 4 * gm * gn; w++)
            for (int lane = 0; lane < 32; lane++)
                for (int r = 0; r < 16; r++) {
                    int32_t c[TC_MAX_RANK], row, k;
                    fragment_a(8, lane, r / 4, r % 4, &row, &k);
                    layout_at(a, (unsigned)r, (unsigned)lane, (unsigned)w, 0,
                              c);
                    layout_is(c[0], 64 * (w / 4 % gm) + 16 * (w % 4) + row);
                    layout_is(c[1], k);
                }
    }
}
END_TEST

/* Without room for whole fragments groups hold the same. */
START_TEST(test_wgmma_is_whole_for_any_side)
{
    static const int32_t sides[] = {8, 16, 24, 40, 64, 80, 96, 176, 192};
    enum { NSIDES = sizeof sides / sizeof *sides };
    for (unsigned i = 0; i < NSIDES * NSIDES; i++)
        for (int g = 0; g < 16; g++)
            layout_is_whole(tc_layout_wgmma_c(
                cx, (pair){sides[i / NSIDES], sides[i % NSIDES]}, g / 4 + 1,
                g % 4 + 1));
}
END_TEST

START_TEST(test_mma_fits)
{
    ck_assert(tc_layout_mma_fits(64, 8, 4, 1));
    ck_assert(tc_layout_mma_fits(192, 64, 12, 1));
    ck_assert(tc_layout_mma_fits(192, 64, 3, 8));
    ck_assert(!tc_layout_mma_fits(80, 64, 4, 1));
    ck_assert(tc_layout_mma_fits(80, 64, 5, 1));
    ck_assert(!tc_layout_mma_fits(64, 8, 4, 2));
    ck_assert(!tc_layout_mma_fits(8, 8, 1, 1));
    /* Without room warps hold the same. */
    const tc_layout *l = tc_layout_mma_c(cx, (pair){80, 64}, 4, 1);
    layout_is_whole(l);
    ck_assert_uint_eq(tc_layout_free_bits(l, TC_WARP), 3);
}
END_TEST

/* ---- Blocked ---- */

START_TEST(test_blocked)
{
    static const struct {
        int32_t shape[2], per[2], lanes[2], warps[2];
        unsigned order[2];
    } cases[] = {
        {{64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0}},
        {{64, 64}, {8, 1}, {8, 4}, {1, 4}, {0, 1}},
        {{128, 32}, {1, 4}, {4, 8}, {2, 1}, {1, 0}},
        {{192, 64}, {1, 8}, {4, 8}, {12, 1}, {1, 0}},
        {{192, 96}, {1, 8}, {8, 4}, {2, 1}, {1, 0}},
        {{176, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0}},
        {{8, 80}, {1, 2}, {4, 8}, {2, 1}, {1, 0}},
        {{96, 176}, {2, 2}, {4, 8}, {1, 2}, {0, 1}},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int32_t *shape = cases[i].shape, *per = cases[i].per;
        const int32_t *lanes = cases[i].lanes, *warps = cases[i].warps;
        const unsigned *order = cases[i].order;
        const tc_layout *l =
            tc_layout_blocked(cx, 2, shape, per, lanes, warps, order);
        layout_is_whole(l);
        int reps[2], pw[2];
        for (int a = 0; a < 2; a++) {
            int32_t power = shape[a] & -shape[a];
            pw[a] = warps[a] & -warps[a];
            int full = per[a] * lanes[a] * pw[a];
            /* Here all fit. */
            if (power % full != 0)
                goto next;
            reps[a] = power / full;
        }
        uint32_t regs = tc_layout_size(l, TC_REGISTER);
        for (uint32_t w = 0; w < tc_layout_size(l, TC_WARP); w++)
            for (uint32_t lane = 0; lane < 32; lane++)
                for (uint32_t r = 0; r < regs; r++) {
                    int32_t c[TC_MAX_RANK], want[2];
                    uint32_t x = r, y = lane, z = w;
                    layout_at(l, r, lane, w, 0, c);
                    for (int k = 0; k < 2; k++) {
                        unsigned a = order[k];
                        want[a] = (int32_t)(x % (uint32_t)per[a]);
                        x /= (uint32_t)per[a];
                        want[a] += per[a] * (int32_t)(y % (uint32_t)lanes[a]);
                        y /= (uint32_t)lanes[a];
                        want[a] +=
                            per[a] * lanes[a] * (int32_t)(z % (uint32_t)pw[a]);
                        z /= (uint32_t)pw[a];
                    }
                    for (int k = 0; k < 2; k++) {
                        unsigned a = order[k];
                        int32_t power = shape[a] & -shape[a];
                        int32_t odd = warps[a] / pw[a];
                        want[a] += per[a] * lanes[a] * pw[a] *
                                   (int32_t)(x % (uint32_t)reps[a]);
                        x /= (uint32_t)reps[a];
                        want[a] += power * (int32_t)(z % (uint32_t)odd);
                        z /= (uint32_t)odd;
                        uint32_t rest = (uint32_t)(shape[a] / power / odd);
                        want[a] += power * odd * (int32_t)(x % rest);
                        x /= rest;
                    }
                    layout_is(c[0], want[0]);
                    layout_is(c[1], want[1]);
                }
    next:;
    }
}
END_TEST

START_TEST(test_blocked_moves_what_has_no_room)
{
    const unsigned order[] = {1, 0};
    /* 4 x 4 lanes and warps over 8 rows: the warps' rest goes to columns. */
    const tc_layout *l = tc_layout_blocked(cx, 2, (pair){8, 128}, (pair){1, 4},
                                           (pair){4, 8}, (pair){4, 1}, order);
    layout_is_whole(l);
    layout_has_bases(l, TC_WARP, 2, (pair[]){{4, 0}, {0, 32}});
    layout_has_bases(l, TC_REGISTER, 3, (pair[]){{0, 1}, {0, 2}, {0, 64}});
    /* Nowhere any room: broadcast. */
    l = tc_layout_blocked(cx, 2, (pair){4, 16}, (pair){1, 4}, (pair){4, 8},
                          (pair){4, 1}, order);
    layout_is_whole(l);
    layout_has_bases(l, TC_LANE, 5,
                     (pair[]){{0, 4}, {0, 8}, {1, 0}, {2, 0}, {0, 0}});
    layout_has_bases(l, TC_WARP, 2, (pair[]){{0, 0}, {0, 0}});
    ck_assert_uint_eq(tc_layout_free_bits(l, TC_LANE), 16);
    ck_assert_uint_eq(tc_layout_free_bits(l, TC_WARP), 3);
    /* Three warps take the odd part of any side, or none. */
    l = tc_layout_blocked(cx, 2, (pair){64, 96}, (pair){1, 4}, (pair){4, 8},
                          (pair){6, 1}, order);
    layout_is_whole(l);
    layout_has_mode(l, TC_WARP, 0, 2, 4, 0);
    layout_has_mode(l, TC_WARP, 1, 3, 0, 32);
    l = tc_layout_blocked(cx, 2, (pair){64, 64}, (pair){1, 4}, (pair){4, 8},
                          (pair){6, 1}, order);
    layout_has_mode(l, TC_WARP, 1, 3, 0, 0);
    ck_assert_uint_eq(tc_layout_free_bits(l, TC_WARP), 6);
    /* More elements a thread than there are. */
    l = tc_layout_blocked(cx, 2, (pair){32, 4}, (pair){1, 8}, (pair){32, 1},
                          (pair){1, 1}, order);
    layout_has_bases(l, TC_REGISTER, 2, (pair[]){{0, 1}, {0, 2}});
}
END_TEST

void layout_fragments_tests(TCase *t)
{
    tcase_add_test(t, test_mma_accumulator_is_the_documented_one);
    tcase_add_test(t, test_mma_operands_are_the_documented_ones);
    tcase_add_test(t, test_wgmma_is_the_documented_one);
    tcase_add_test(t, test_wgmma_is_whole_for_any_side);
    tcase_add_test(t, test_mma_fits);
    tcase_add_test(t, test_blocked);
    tcase_add_test(t, test_blocked_moves_what_has_no_room);
}
