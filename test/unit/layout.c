/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts against their definitions: each known layout at every index, written
 * here as a formula; views; what the check refuses.
 */
#include "ir/layout.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static jmp_buf unwind;
static tc_context *cx;

static void setup(void)
{
    cx = tc_context_new();
    ck_assert_ptr_nonnull(cx);
    ck_assert_int_eq(setjmp(unwind), 0);
    cx->memory.unwind = &unwind;
}

static void teardown(void)
{
    tc_context_free(cx);
}

typedef int32_t pair[2];

static void at(const tc_layout *l, uint32_t reg, uint32_t lane, uint32_t warp,
               uint32_t offset, int32_t coord[TC_MAX_RANK])
{
    uint32_t index[TC_INPUT_COUNT] = {reg, lane, warp, offset};
    tc_layout_apply(l, index, coord);
}

/* ck_assert notes each call in a file: too slow for millions. */
static void is(int32_t got, int32_t expected)
{
    if (got != expected)
        ck_abort_msg("%d, expected %d", got, expected);
}

static void has_mode(const tc_layout *l, tc_input in, unsigned i,
                     uint32_t count, int32_t r, int32_t c)
{
    ck_assert_uint_lt(i, l->nmodes[in]);
    const tc_mode *m = &l->modes[in][i];
    ck_assert_msg(m->count == count && m->image[0] == r && m->image[1] == c,
                  "input %d mode %u is %u*(%d,%d), expected %u*(%d,%d)",
                  (int)in, i, m->count, m->image[0], m->image[1], count, r, c);
}

static void has_bases(const tc_layout *l, tc_input in, unsigned n,
                      const pair *images)
{
    ck_assert_uint_eq(l->nmodes[in], n);
    for (unsigned i = 0; i < n; i++)
        has_mode(l, in, i, 2, images[i][0], images[i][1]);
}

/* Every known layout passes its own check. */
static void is_whole(const tc_layout *l)
{
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    const char *why = tc_layout_check(cx, &s);
    ck_assert_msg(!why, "%s", why);
    ck_assert_ptr_eq(tc_layout_get(cx, &s), l);
}

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
        at(l, r, 0, 0, 0, coord);
        ck_assert_int_eq(coord[0], (int32_t)r * 1024);
    }
}
END_TEST

/* ---- Golden values ---- */

START_TEST(test_wgmma_accumulator)
{
    const tc_layout *c = tc_layout_wgmma_c(cx, (pair){64, 64}, 1, 1);
    has_bases(c, TC_REGISTER, 5,
              (pair[]){{0, 1}, {8, 0}, {0, 8}, {0, 16}, {0, 32}});
    has_bases(c, TC_LANE, 5, (pair[]){{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}});
    has_bases(c, TC_WARP, 2, (pair[]){{16, 0}, {32, 0}});
    /* So P needs no conversion. */
    ck_assert_ptr_eq(tc_layout_wgmma_a(cx, (pair){64, 64}, 1, 1, 16), c);
    ck_assert_ptr_eq(tc_layout_mma_c(cx, (pair){64, 64}, 4, 1), c);
}
END_TEST

START_TEST(test_wgmma_operand_of_8_bits)
{
    const tc_layout *a = tc_layout_wgmma_a(cx, (pair){64, 64}, 1, 1, 8);
    has_bases(a, TC_REGISTER, 5,
              (pair[]){{0, 1}, {0, 2}, {8, 0}, {0, 16}, {0, 32}});
    has_bases(a, TC_LANE, 5, (pair[]){{0, 4}, {0, 8}, {1, 0}, {2, 0}, {4, 0}});
}
END_TEST

START_TEST(test_swizzle_of_128_bytes)
{
    const tc_layout *s =
        tc_layout_swizzled(cx, 2, (pair){64, 64}, (unsigned[]){1, 0}, 16, 128);
    has_bases(s, TC_OFFSET, 12,
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

/* ---- Fragments against the documents ---- */

/* Warp grids and tiles that fit. */
static const struct {
    int32_t m, n;
    int wm, wn;
} grids[] = {{16, 8, 1, 1},    {64, 64, 4, 1},  {128, 64, 4, 1},
             {64, 176, 4, 1},  {64, 80, 2, 2},  {192, 96, 12, 1},
             {192, 64, 3, 1},  {192, 64, 6, 2}, {192, 192, 4, 3},
             {176, 64, 11, 2}, {48, 24, 3, 1},  {128, 256, 2, 4},
             {80, 40, 1, 1},   {144, 72, 3, 3}, {32, 128, 2, 8}};
enum { NGRIDS = sizeof grids / sizeof *grids };

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
        is_whole(l);
        int per_n = n / 8 / wn, regs = 4 * per_n * (m / 16 / wm);
        ck_assert_uint_eq(tc_layout_size(l, TC_REGISTER), (unsigned)regs);
        ck_assert_uint_eq(tc_layout_size(l, TC_WARP), (unsigned)(wm * wn));
        for (int w = 0; w < wm * wn; w++)
            for (int lane = 0; lane < 32; lane++)
                for (int r = 0; r < regs; r++) {
                    int i = r % 4, tile = r / 4;
                    int32_t c[TC_MAX_RANK];
                    warp_at(w, wm, wn, &row, &col);
                    at(l, (unsigned)r, (unsigned)lane, (unsigned)w, 0, c);
                    /* c0, c1: row g, columns 2t, 2t+1; c2, c3: row g+8. */
                    is(c[0], 16 * block_of(m / 16, wm, row, tile / per_n) +
                                 lane / 4 + 8 * (i >> 1));
                    is(c[1], 8 * block_of(n / 8, wn, col, tile % per_n) +
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
                is_whole(la);
                is_whole(lb);
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
                            at(la, (unsigned)r, (unsigned)lane, (unsigned)w, 0,
                               c);
                            is(c[0], row + 16 * block_of(m / 16, wm, wr,
                                                         step / ksteps));
                            is(c[1], col + 8 * per * (step % ksteps));
                        }
                        for (int r = 0; r < nb; r++) {
                            int step = r / (2 * per);
                            fragment_b(bits, lane, r / per % 2, r % per, &row,
                                       &col);
                            at(lb, (unsigned)r, (unsigned)lane, (unsigned)w, 0,
                               c);
                            is(c[0], row + 8 * per * (step % ksteps));
                            is(c[1], col + 8 * block_of(n / 8, wn, wc,
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
        is_whole(l);
        int regs = held / 8 * 4 * (m / 64 / gm);
        ck_assert_uint_eq(tc_layout_size(l, TC_REGISTER), (unsigned)regs);
        for (int w = 0; w < 4 * gm * gn; w++)
            for (int lane = 0; lane < 32; lane++)
                for (int r = 0; r < regs; r++) {
                    int32_t c[TC_MAX_RANK];
                    int in_row = r % (held / 2), rep = r / (held / 2);
                    int g = w / 4;
                    at(l, (unsigned)r, (unsigned)lane, (unsigned)w, 0, c);
                    is(c[0], 64 * (g % gm + gm * rep) + 16 * (w % 4) +
                                 lane / 4 + 8 * (r >> 1 & 1));
                    is(c[1], held * (g / gm) + 8 * (in_row >> 2) +
                                 2 * (lane % 4) + (r & 1));
                }
        const tc_layout *a = tc_layout_wgmma_a(cx, (pair){m, 32}, gm, gn, 8);
        is_whole(a);
        for (int w = 0; w < 4 * gm * gn; w++)
            for (int lane = 0; lane < 32; lane++)
                for (int r = 0; r < 16; r++) {
                    int32_t c[TC_MAX_RANK], row, k;
                    fragment_a(8, lane, r / 4, r % 4, &row, &k);
                    at(a, (unsigned)r, (unsigned)lane, (unsigned)w, 0, c);
                    is(c[0], 64 * (w / 4 % gm) + 16 * (w % 4) + row);
                    is(c[1], k);
                }
    }
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
    is_whole(l);
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
        is_whole(l);
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
                    at(l, r, lane, w, 0, c);
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
                    is(c[0], want[0]);
                    is(c[1], want[1]);
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
    is_whole(l);
    has_bases(l, TC_WARP, 2, (pair[]){{4, 0}, {0, 32}});
    has_bases(l, TC_REGISTER, 3, (pair[]){{0, 1}, {0, 2}, {0, 64}});
    /* Nowhere any room: broadcast. */
    l = tc_layout_blocked(cx, 2, (pair){4, 16}, (pair){1, 4}, (pair){4, 8},
                          (pair){4, 1}, order);
    is_whole(l);
    has_bases(l, TC_LANE, 5, (pair[]){{0, 4}, {0, 8}, {1, 0}, {2, 0}, {0, 0}});
    has_bases(l, TC_WARP, 2, (pair[]){{0, 0}, {0, 0}});
    ck_assert_uint_eq(tc_layout_free_bits(l, TC_LANE), 16);
    ck_assert_uint_eq(tc_layout_free_bits(l, TC_WARP), 3);
    /* Three warps take the odd part of any side, or none. */
    l = tc_layout_blocked(cx, 2, (pair){64, 96}, (pair){1, 4}, (pair){4, 8},
                          (pair){6, 1}, order);
    is_whole(l);
    has_mode(l, TC_WARP, 0, 2, 4, 0);
    has_mode(l, TC_WARP, 1, 3, 0, 32);
    l = tc_layout_blocked(cx, 2, (pair){64, 64}, (pair){1, 4}, (pair){4, 8},
                          (pair){6, 1}, order);
    has_mode(l, TC_WARP, 1, 3, 0, 0);
    ck_assert_uint_eq(tc_layout_free_bits(l, TC_WARP), 6);
    /* More elements a thread than there are. */
    l = tc_layout_blocked(cx, 2, (pair){32, 4}, (pair){1, 8}, (pair){32, 1},
                          (pair){1, 1}, order);
    has_bases(l, TC_REGISTER, 2, (pair[]){{0, 1}, {0, 2}});
}
END_TEST

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
                is_whole(l);
                swizzled++;
                static char seen[192 * 256];
                memset(seen, 0, sizeof seen);
                for (int32_t o = 0; o < m * n; o++) {
                    int32_t c[TC_MAX_RANK];
                    at(l, 0, 0, 0, (uint32_t)o, c);
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
        is_whole(l);
        for (int32_t o = 0; o < 3 * 80 * 24; o++) {
            int32_t c[TC_MAX_RANK];
            at(l, 0, 0, 0, (uint32_t)o, c);
            int32_t back =
                c[order[0]] +
                shape[order[0]] * (c[order[1]] + shape[order[1]] * c[order[2]]);
            is(back, o);
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
        is_whole(l);
        for (uint32_t o = 0; o < (uint32_t)(shape[0] * shape[1]); o++) {
            int32_t c[TC_MAX_RANK];
            at(l, 0, 0, 0, o, c);
            uint32_t row = o / (uint32_t)shape[fast];
            uint32_t column = o % (uint32_t)shape[fast];
            column ^= row / cases[i].per % cases[i].phases * cases[i].vec;
            is(c[slow], (int32_t)row);
            is(c[fast], (int32_t)column);
        }
    }
    /* Fewer phases where they do not fit. */
    const tc_layout *l =
        tc_layout_xor(cx, 2, (pair){8, 16}, (unsigned[]){1, 0}, 8, 1, 8);
    is_whole(l);
    ck_assert_ptr_eq(
        l, tc_layout_xor(cx, 2, (pair){8, 16}, (unsigned[]){1, 0}, 8, 1, 2));
}
END_TEST

/* ---- Views ---- */

static const tc_layout *samples[64];
static int nsamples;

/* Layouts of all kinds, for laws that hold for each. */
static void make_samples(void)
{
    static const pair shapes[] = {{64, 64}, {176, 64}, {64, 80}, {192, 96}};
    nsamples = 0;
    for (int i = 0; i < 4; i++) {
        const int32_t *s = shapes[i];
        const unsigned order[] = {1, 0}, other[] = {0, 1};
        samples[nsamples++] = tc_layout_mma_c(cx, s, 1, 1);
        samples[nsamples++] = tc_layout_mma_c(cx, s, 2, 2);
        samples[nsamples++] = tc_layout_mma_a(cx, s, 1, 2, 16);
        samples[nsamples++] = tc_layout_mma_b(cx, s, 2, 1, 16);
        samples[nsamples++] = tc_layout_blocked(
            cx, 2, s, (pair){1, 8}, (pair){4, 8}, (pair){4, 1}, order);
        samples[nsamples++] = tc_layout_blocked(
            cx, 2, s, (pair){4, 1}, (pair){8, 4}, (pair){1, 2}, other);
    }
    samples[nsamples++] = tc_layout_mma_c(cx, (pair){192, 64}, 12, 1);
    samples[nsamples++] = tc_layout_wgmma_c(cx, (pair){128, 176}, 2, 2);
    ck_assert_int_le(nsamples, 64);
}

typedef void each_fn(const tc_layout *a, const tc_layout *b,
                     const uint32_t *index);

static void each_index(const tc_layout *a, const tc_layout *b, each_fn *fn)
{
    uint32_t i[TC_INPUT_COUNT] = {0};
    for (i[2] = 0; i[2] < tc_layout_size(a, TC_WARP); i[2]++)
        for (i[1] = 0; i[1] < tc_layout_size(a, TC_LANE); i[1]++)
            for (i[0] = 0; i[0] < tc_layout_size(a, TC_REGISTER); i[0]++)
                fn(a, b, i);
}

static void swapped(const tc_layout *a, const tc_layout *b,
                    const uint32_t *index)
{
    int32_t x[TC_MAX_RANK], y[TC_MAX_RANK];
    tc_layout_apply(a, index, x);
    tc_layout_apply(b, index, y);
    is(x[0], y[1]);
    is(x[1], y[0]);
}

START_TEST(test_trans)
{
    const unsigned swap[] = {1, 0};
    make_samples();
    for (int i = 0; i < nsamples; i++) {
        const tc_layout *t = tc_layout_trans(cx, samples[i], swap);
        is_whole(t);
        each_index(samples[i], t, swapped);
        ck_assert_ptr_eq(tc_layout_trans(cx, t, swap), samples[i]);
    }
    const tc_layout *l = tc_layout_swizzled(cx, 3, (int32_t[]){2, 64, 32},
                                            (unsigned[]){2, 1, 0}, 16, 64);
    const tc_layout *t = tc_layout_trans(cx, l, (unsigned[]){1, 2, 0});
    for (uint32_t o = 0; o < 2 * 64 * 32; o++) {
        int32_t x[TC_MAX_RANK], y[TC_MAX_RANK];
        at(l, 0, 0, 0, o, x);
        at(t, 0, 0, 0, o, y);
        ck_assert(y[0] == x[1] && y[1] == x[2] && y[2] == x[0]);
    }
}
END_TEST

START_TEST(test_slice_and_expand)
{
    make_samples();
    for (int i = 0; i < nsamples; i++)
        for (unsigned axis = 0; axis < 2; axis++) {
            const tc_layout *l = samples[i];
            const tc_layout *c = tc_layout_collapse(cx, l, axis);
            const tc_layout *s = tc_layout_slice(cx, l, axis);
            is_whole(c);
            is_whole(s);
            ck_assert_int_eq(c->shape[axis], 1);
            ck_assert_int_eq(c->shape[1 - axis], l->shape[1 - axis]);
            ck_assert_uint_eq(s->rank, 1);
            ck_assert_int_eq(s->shape[0], l->shape[1 - axis]);
            ck_assert_ptr_eq(tc_layout_expand(cx, s, axis), c);
            ck_assert_ptr_eq(tc_layout_slice(cx, c, axis), s);
            /* A thread holds the rows of its elements, each once. */
            for (uint32_t w = 0; w < tc_layout_size(l, TC_WARP); w++)
                for (uint32_t lane = 0; lane < 32; lane++) {
                    char of_l[192] = {0}, of_s[192] = {0};
                    int32_t x[TC_MAX_RANK];
                    for (uint32_t r = 0; r < tc_layout_size(l, 0); r++) {
                        at(l, r, lane, w, 0, x);
                        of_l[x[1 - axis]] = 1;
                    }
                    for (uint32_t r = 0; r < tc_layout_size(s, 0); r++) {
                        at(s, r, lane, w, 0, x);
                        of_s[x[0]]++;
                    }
                    ck_assert(memcmp(of_l, of_s, sizeof of_l) == 0);
                }
        }
    /* Zero registers that are somebody's wish stay. */
    tc_layout_spec s = {.rank = 1, .shape = {32}};
    tc_layout_spec_add(&s, TC_REGISTER, 2, 0, 0);
    tc_layout_spec_add(&s, TC_LANE, 32, 0, 1);
    const tc_layout *l = tc_layout_get(cx, &s);
    ck_assert_ptr_eq(tc_layout_slice(cx, tc_layout_expand(cx, l, 0), 0), l);
}
END_TEST

START_TEST(test_collapsed_fragments_keep_their_name)
{
    for (int g = 0; g < NGRIDS; g++) {
        int32_t m = grids[g].m, n = grids[g].n;
        int wm = grids[g].wm, wn = grids[g].wn;
        const tc_layout *l = tc_layout_mma_c(cx, (pair){m, n}, wm, wn);
        ck_assert_ptr_eq(tc_layout_collapse(cx, l, 1),
                         tc_layout_mma_c(cx, (pair){m, 1}, wm, wn));
        ck_assert_ptr_eq(tc_layout_collapse(cx, l, 0),
                         tc_layout_mma_c(cx, (pair){1, n}, wm, wn));
    }
}
END_TEST

static void same_number(const tc_layout *a, const tc_layout *b,
                        const uint32_t *index)
{
    int32_t x[TC_MAX_RANK], y[TC_MAX_RANK], m = 0, n = 0;
    tc_layout_apply(a, index, x);
    tc_layout_apply(b, index, y);
    for (unsigned i = 0; i < a->rank; i++)
        m = m * a->shape[i] + x[i];
    for (unsigned i = 0; i < b->rank; i++)
        n = n * b->shape[i] + y[i];
    is(m, n);
}

START_TEST(test_reshape)
{
    make_samples();
    for (int i = 0; i < nsamples; i++) {
        const tc_layout *l = samples[i];
        int32_t m = l->shape[0], n = l->shape[1];
        int32_t shapes[][3] = {{m * n, 0, 0},
                               {m / 16, 16, n},
                               {m, n / 16, 16},
                               {m / 8, 8 * n, 0},
                               {m, 1, n}};
        unsigned ranks[] = {1, 3, 3, 2, 3};
        for (int k = 0; k < 5; k++) {
            const tc_layout *s = tc_layout_reshape(cx, l, ranks[k], shapes[k]);
            /* Two groups of 88 columns: 8 * 11 is no number of 16s. */
            if (i == nsamples - 1 && k == 2) {
                ck_assert_ptr_null(s);
                continue;
            }
            ck_assert_msg(s, "sample %d, shape %d", i, k);
            is_whole(s);
            each_index(l, s, same_number);
            ck_assert_ptr_eq(tc_layout_reshape(cx, s, 2, l->shape), l);
        }
    }
    /* A warp's 9 columns cannot be counted in threes. */
    tc_layout_spec s = {.rank = 1, .shape = {32 * 9}};
    tc_layout_spec_add(&s, TC_LANE, 32, 0, 1);
    tc_layout_spec_add(&s, TC_REGISTER, 9, 0, 32);
    const tc_layout *l = tc_layout_get(cx, &s);
    ck_assert_ptr_null(tc_layout_reshape(cx, l, 2, (pair){3, 96}));
    ck_assert_ptr_nonnull(tc_layout_reshape(cx, l, 2, (pair){9, 32}));
}
END_TEST

START_TEST(test_partial)
{
    /* Warps along the columns: two parts, whatever else is where. */
    const tc_layout *l = tc_layout_mma_c(cx, (pair){64, 80}, 2, 2);
    const tc_layout *p = tc_layout_partial(cx, l, 1, TC_WARP);
    is_whole(p);
    ck_assert_int_eq(p->shape[0], 64);
    ck_assert_int_eq(p->shape[1], 2);
    has_bases(p, TC_WARP, 2, (pair[]){{16, 0}, {0, 1}});
    has_bases(p, TC_REGISTER, 2, (pair[]){{8, 0}, {32, 0}});
    has_bases(p, TC_LANE, 5, (pair[]){{0, 0}, {0, 0}, {1, 0}, {2, 0}, {4, 0}});
    /* None. */
    p = tc_layout_partial(cx, tc_layout_mma_c(cx, (pair){64, 80}, 4, 1), 1,
                          TC_WARP);
    ck_assert_int_eq(p->shape[1], 1);
    /* Twelve along the rows. */
    l = tc_layout_mma_c(cx, (pair){192, 64}, 12, 1);
    p = tc_layout_partial(cx, l, 0, TC_WARP);
    is_whole(p);
    ck_assert_int_eq(p->shape[0], 12);
    has_mode(p, TC_WARP, 0, 2, 1, 0);
    has_mode(p, TC_WARP, 1, 2, 2, 0);
    has_mode(p, TC_WARP, 2, 3, 4, 0);
    /* Elements with the same part are of one warp class: same warp digits. */
    make_samples();
    for (int i = 0; i < nsamples; i++)
        for (unsigned axis = 0; axis < 2; axis++)
            is_whole(tc_layout_partial(cx, samples[i], axis, TC_WARP));
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

int main(void)
{
    const TTest *const tests[] = {
        test_equal_specs_are_the_same_layout,
        test_images_are_added_above_the_period,
        test_wgmma_accumulator,
        test_wgmma_operand_of_8_bits,
        test_swizzle_of_128_bytes,
        test_slice_of_an_accumulator,
        test_mma_accumulator_is_the_documented_one,
        test_mma_operands_are_the_documented_ones,
        test_wgmma_is_the_documented_one,
        test_mma_fits,
        test_blocked,
        test_blocked_moves_what_has_no_room,
        test_swizzles_are_tma_s,
        test_widest_swizzle,
        test_rows,
        test_xor,
        test_trans,
        test_slice_and_expand,
        test_collapsed_fragments_keep_their_name,
        test_reshape,
        test_partial,
        test_check,
    };
    Suite *s = suite_create("layout");
    TCase *t = tcase_create("layout");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
