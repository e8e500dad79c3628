/* SPDX-License-Identifier: Apache-2.0
 *
 * The algebra of layouts: each result against what it means, at every index,
 * for pairs of known layouts and for random ones.
 */
#include "ir/types/layout.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <string.h>

static uint64_t state;

typedef int32_t pair[2];
static const unsigned last_fastest[] = {1, 0}, first_fastest[] = {0, 1};

static void setup(void)
{
    fixture_setup();
    state = 88172645463325252u;
}

static void teardown(void)
{
    fixture_teardown();
}

static uint32_t dice(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

/* ---- Samples ---- */

enum { MANY = 64 };
typedef struct samples {
    int n;
    const tc_layout *l[MANY];
} samples;

static void add(samples *s, const tc_layout *l)
{
    ck_assert_int_lt(s->n, MANY);
    s->l[s->n++] = l;
}

static samples tiles_of(const int32_t *s, bool small)
{
    samples t = {0};
    for (int wm = 1; wm <= 12; wm++)
        for (int wn = 1; wn <= 4; wn *= 2) {
            if (wm * wn > (small ? 4 : 12) ||
                !tc_layout_mma_fits(s[0], s[1], wm, wn))
                continue;
            add(&t, tc_layout_mma_c(cx, s, wm, wn));
            if (wm <= 4 && wn <= 2) {
                add(&t, tc_layout_mma_a(cx, s, wm, wn, 16));
                add(&t, tc_layout_mma_b(cx, s, wm, wn, 16));
            }
        }
    add(&t, tc_layout_mma_a(cx, s, 1, 1, 32));
    add(&t, tc_layout_mma_b(cx, s, 1, 1, 32));
    add(&t, tc_layout_mma_a(cx, s, 1, 1, 8));
    add(&t, tc_layout_mma_b(cx, s, 1, 1, 8));
    add(&t, tc_layout_blocked(cx, 2, s, (pair){1, 8}, (pair){4, 8},
                              (pair){4, 1}, last_fastest));
    add(&t, tc_layout_blocked(cx, 2, s, (pair){1, 1}, (pair){8, 4},
                              (pair){2, 2}, last_fastest));
    add(&t, tc_layout_blocked(cx, 2, s, (pair){8, 1}, (pair){8, 4},
                              (pair){1, 2}, first_fastest));
    add(&t, tc_layout_blocked(cx, 2, s, (pair){2, 2}, (pair){2, 16},
                              (pair){1, 1}, first_fastest));
    return t;
}

static samples memories_of(const int32_t *s)
{
    samples m = {0};
    for (int i = 0; i < 2; i++) {
        const unsigned *order = i ? first_fastest : last_fastest;
        unsigned widest = tc_layout_widest_swizzle(s[order[0]], 16);
        add(&m, tc_layout_swizzled(cx, 2, s, order, 16, 0));
        for (unsigned w = widest; w >= 32; w /= 2)
            add(&m, tc_layout_swizzled(cx, 2, s, order, 16, w));
        add(&m, tc_layout_xor(cx, 2, s, order, 8, 1, 8));
        add(&m, tc_layout_xor(cx, 2, s, order, 1, 1, 4));
    }
    return m;
}

static const pair shapes[] = {{64, 32}, {176, 16}, {16, 176}, {32, 80},
                              {80, 32}, {192, 24}, {16, 8},   {144, 16}};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

/* 9 as one digit is no sum of two digits below 3, of registers and warps. */
static bool may_be_nonlinear(int shape, const tc_layout *from)
{
    uint32_t warps = tc_layout_size(from, TC_WARP);
    return shape == 7 && warps % 3 == 0 && warps % 9 != 0;
}

/* ---- Laws ---- */

typedef void law(const tc_layout *result, const tc_layout *a,
                 const tc_layout *b, const uint32_t *index);

static void each_index(const tc_layout *inputs, law *fn, const tc_layout *r,
                       const tc_layout *a, const tc_layout *b)
{
    uint32_t i[TC_INPUT_COUNT], n[TC_INPUT_COUNT];
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        n[in] = tc_layout_size(inputs, (tc_input)in);
    for (i[3] = 0; i[3] < n[3]; i[3]++)
        for (i[2] = 0; i[2] < n[2]; i[2]++)
            for (i[1] = 0; i[1] < n[1]; i[1]++)
                for (i[0] = 0; i[0] < n[0]; i[0]++)
                    fn(r, a, b, i);
}

/* ck_assert notes each call in a file: too slow for millions. */
static void same(const int32_t *x, const int32_t *y, unsigned rank)
{
    for (unsigned a = 0; a < rank; a++)
        if (x[a] != y[a])
            ck_abort_msg("coordinate %u is %d, expected %d", a, x[a], y[a]);
}

static void below(int32_t i, uint32_t n)
{
    if ((uint32_t)i >= n)
        ck_abort_msg("index %d, expected less than %u", i, n);
}

/* shared(offsets(i)) == tile(i) */
static void holds_offset(const tc_layout *offsets, const tc_layout *shared,
                         const tc_layout *tile, const uint32_t *index)
{
    int32_t o[TC_MAX_RANK], x[TC_MAX_RANK], y[TC_MAX_RANK];
    tc_layout_apply(offsets, index, o);
    tc_layout_apply(shared, (uint32_t[]){0, 0, 0, (uint32_t)o[0]}, x);
    tc_layout_apply(tile, index, y);
    same(x, y, tile->rank);
    below(o[0], tc_layout_size(shared, TC_OFFSET));
}

/* from(solve(i)) == to(i) */
static void holds_solution(const tc_layout *x, const tc_layout *from,
                           const tc_layout *to, const uint32_t *index)
{
    int32_t p[TC_MAX_RANK], a[TC_MAX_RANK], b[TC_MAX_RANK];
    tc_layout_apply(x, index, p);
    for (tc_input in = TC_REGISTER; in <= TC_WARP; in++)
        below(p[in], tc_layout_size(from, in));
    tc_layout_apply(
        from, (uint32_t[]){(uint32_t)p[0], (uint32_t)p[1], (uint32_t)p[2], 0},
        a);
    tc_layout_apply(to, index, b);
    same(a, b, to->rank);
}

/* b(a(i)) == compose(a, b)(i), b counted row-major by a's coordinates */
static void holds_composition(const tc_layout *ab, const tc_layout *a,
                              const tc_layout *b, const uint32_t *index)
{
    int32_t x[TC_MAX_RANK], y[TC_MAX_RANK], z[TC_MAX_RANK];
    uint32_t n = 0, at[TC_INPUT_COUNT] = {0};
    tc_layout_apply(a, index, x);
    for (unsigned i = 0; i < a->rank; i++)
        n = n * (uint32_t)a->shape[i] + (uint32_t)x[i];
    int in = 0;
    while (!b->nmodes[in])
        in++;
    at[in] = n;
    tc_layout_apply(b, at, y);
    tc_layout_apply(ab, index, z);
    same(y, z, b->rank);
}

START_TEST(test_offsets_of_known_layouts)
{
    for (int k = 0; k < NSHAPES; k++) {
        samples t = tiles_of(shapes[k], true), m = memories_of(shapes[k]);
        for (int i = 0; i < t.n; i++)
            for (int j = 0; j < m.n; j++) {
                const tc_layout *o = tc_layout_offsets(cx, m.l[j], t.l[i]);
                ck_assert_msg(o, "shape %d, tile %d, memory %d", k, i, j);
                each_index(t.l[i], holds_offset, o, m.l[j], t.l[i]);
                for (int in = 0; in < TC_INPUT_COUNT; in++)
                    for (unsigned n = 0; n < t.l[i]->nmodes[in]; n++)
                        ck_assert_uint_eq(o->modes[in][n].count,
                                          t.l[i]->modes[in][n].count);
            }
    }
}
END_TEST

START_TEST(test_offsets_beyond_a_repeat_are_added)
{
    /* Panels of 64 x 176 elements: 11 * 1024 each. */
    static const pair s = {176, 128};
    const tc_layout *m = tc_layout_swizzled(cx, 2, s, last_fastest, 16, 128);
    const tc_layout *t = tc_layout_mma_a(cx, s, 1, 1, 16);
    const tc_layout *o = tc_layout_offsets(cx, m, t);
    ck_assert_ptr_nonnull(o);
    ck_assert_int_eq(o->period[0], 1024);
    each_index(t, holds_offset, o, m, t);
    bool found = false;
    for (unsigned i = 0; i < t->nmodes[TC_REGISTER]; i++)
        if (t->modes[TC_REGISTER][i].image[1] == 64) {
            ck_assert_int_eq(o->modes[TC_REGISTER][i].image[0], 64 * 176);
            found = true;
        }
    ck_assert(found);
}
END_TEST

START_TEST(test_solve_of_known_layouts)
{
    for (int k = 0; k < NSHAPES; k++) {
        samples t = tiles_of(shapes[k], k != 5);
        for (int i = 0; i < t.n; i++)
            for (int j = 0; j < t.n; j++) {
                const tc_layout *x = tc_layout_solve(cx, t.l[i], t.l[j]);
                ck_assert_msg(x || may_be_nonlinear(k, t.l[i]),
                              "shape %d, %d to %d", k, i, j);
                if (x && (i == j || (i + j) % 4 == k % 4))
                    each_index(t.l[j], holds_solution, x, t.l[i], t.l[j]);
                if (i != j)
                    continue;
                ck_assert_ptr_nonnull(x);
                for (tc_input in = TC_REGISTER; in <= TC_WARP; in++)
                    for (unsigned n = 0; n < x->nmodes[in]; n++)
                        for (int c = 0; c < 3; c++)
                            ck_assert_int_eq(x->modes[in][n].image[c] != 0,
                                             c == (int)in);
            }
    }
}
END_TEST

START_TEST(test_solve_of_slices)
{
    /* The rows of a matrix from and to vectors, with broadcasts on both
     * sides. */
    for (int k = 0; k < NSHAPES; k++)
        for (unsigned axis = 0; axis < 2; axis++) {
            samples t = tiles_of(shapes[k], false);
            for (int i = 0; i < t.n; i++)
                for (int j = 0; j < t.n; j++) {
                    const tc_layout *a = tc_layout_slice(cx, t.l[i], axis);
                    const tc_layout *b = tc_layout_slice(cx, t.l[j], axis);
                    const tc_layout *x = tc_layout_solve(cx, a, b);
                    ck_assert(x || may_be_nonlinear(k, t.l[i]));
                    if (x)
                        each_index(b, holds_solution, x, a, b);
                }
        }
}
END_TEST

START_TEST(test_solve_keeps_lanes_and_warps)
{
    /* All lanes and warps hold all, then each its own: nobody else is asked. */
    tc_layout_spec all = {.rank = 1, .shape = {256}}, own = all;
    tc_layout_spec_add(&all, TC_REGISTER, 256, 0, 1);
    tc_layout_spec_add(&all, TC_LANE, 32, 1, 0);
    tc_layout_spec_add(&all, TC_WARP, 4, 1, 0);
    tc_layout_spec_add(&own, TC_REGISTER, 2, 0, 1);
    tc_layout_spec_add(&own, TC_LANE, 32, 0, 2);
    tc_layout_spec_add(&own, TC_WARP, 4, 0, 64);
    const tc_layout *a = tc_layout_get(cx, &all), *b = tc_layout_get(cx, &own);
    const tc_layout *x = tc_layout_solve(cx, a, b);
    ck_assert_ptr_nonnull(x);
    each_index(b, holds_solution, x, a, b);
    for (tc_input in = TC_LANE; in <= TC_WARP; in++)
        for (unsigned i = 0; i < x->nmodes[in]; i++)
            for (tc_input c = TC_LANE; c <= TC_WARP; c++)
                ck_assert_int_eq(x->modes[in][i].image[c],
                                 c == in ? 1 << i : 0);
    /* Three warps with the same: each stays with its own copy. */
    all = (tc_layout_spec){.rank = 1, .shape = {32}};
    tc_layout_spec_add(&all, TC_LANE, 32, 0, 1);
    tc_layout_spec_add(&all, TC_WARP, 3, 1, 0);
    a = tc_layout_get(cx, &all);
    x = tc_layout_solve(cx, a, a);
    ck_assert_int_eq(x->modes[TC_WARP][0].image[TC_WARP], 1);
}
END_TEST

START_TEST(test_compose_of_known_layouts)
{
    /* Tiles in memory, and back: shared after offsets is the tile. */
    for (int k = 0; k < NSHAPES; k++) {
        samples t = tiles_of(shapes[k], true), m = memories_of(shapes[k]);
        for (int i = 0; i < t.n; i++)
            for (int j = 0; j < m.n; j++) {
                const tc_layout *o = tc_layout_offsets(cx, m.l[j], t.l[i]);
                const tc_layout *back = tc_layout_compose(cx, o, m.l[j]);
                if (!back)
                    continue;
                ck_assert(tc_layout_equal(back, t.l[i]));
                each_index(o, holds_composition, back, o, m.l[j]);
            }
    }
    /* Without odd parts always. */
    samples t = tiles_of(shapes[0], true), m = memories_of(shapes[0]);
    for (int i = 0; i < t.n; i++)
        for (int j = 0; j < m.n; j++) {
            const tc_layout *o = tc_layout_offsets(cx, m.l[j], t.l[i]);
            ck_assert_ptr_eq(tc_layout_compose(cx, o, m.l[j]), t.l[i]);
        }
}
END_TEST

START_TEST(test_compose_refuses_what_straddles)
{
    tc_layout_spec s = {.rank = 1, .shape = {9}},
                   t = {.rank = 2, .shape = {3, 3}};
    tc_layout_spec_add(&s, TC_REGISTER, 9, 0, 1);
    tc_layout_spec_add(&t, TC_OFFSET, 3, 0, 1);
    tc_layout_spec_add(&t, TC_OFFSET, 3, 1, 1);
    const tc_layout *a = tc_layout_get(cx, &s), *b = tc_layout_get(cx, &t);
    ck_assert_ptr_null(tc_layout_compose(cx, a, b));
    s = (tc_layout_spec){.rank = 1, .shape = {9}};
    tc_layout_spec_add(&s, TC_REGISTER, 3, 0, 3);
    tc_layout_spec_add(&s, TC_LANE, 3, 0, 1);
    a = tc_layout_get(cx, &s);
    const tc_layout *ab = tc_layout_compose(cx, a, b);
    ck_assert_ptr_nonnull(ab);
    each_index(a, holds_composition, ab, a, b);
}
END_TEST

/* ---- Random layouts ---- */

/* Bits of a 2^m x 2^n tile under a random change of basis (columns of a
 * triangular matrix, shuffled: invertible). */
static void random_basis(unsigned n, uint32_t *vectors)
{
    for (unsigned i = 0; i < n; i++)
        vectors[i] = 1u << i | (dice(2) ? dice(1u << i) : 0);
    for (unsigned i = n; i-- > 1;) {
        unsigned j = dice(i + 1);
        uint32_t v = vectors[i];
        vectors[i] = vectors[j];
        vectors[j] = v;
    }
}

static tc_mode mode_of(uint32_t count, uint32_t v, unsigned nbits)
{
    tc_mode m = {.count = count};
    m.image[1] = (int32_t)(v & ((1u << nbits) - 1));
    m.image[0] = (int32_t)(v >> nbits);
    return m;
}

/* Of a tile of 2^m * odd x 2^n; odd rows in registers, memory after all. */
static const tc_layout *random_layout(unsigned m, unsigned n, uint32_t odd,
                                      bool shared)
{
    tc_layout_spec s = {.rank = 2, .shape = {(int32_t)(odd << m), 1 << n}};
    uint32_t vectors[32];
    unsigned odd_at = dice(m + n);
    random_basis(m + n, vectors);
    for (unsigned i = 0; i < m + n; i++) {
        tc_input in = shared    ? TC_OFFSET
                      : i < 5   ? TC_LANE
                      : dice(3) ? TC_REGISTER
                                : TC_WARP;
        tc_mode mode = mode_of(2, vectors[i], n);
        tc_mode many = mode_of(odd, 1u << (m + n), n);
        if (odd > 1 && i == odd_at)
            tc_layout_spec_add_mode(&s, shared ? TC_OFFSET : TC_REGISTER,
                                    &many);
        tc_layout_spec_add_mode(&s, in, &mode);
        if (!shared && dice(6) == 0) {
            mode = mode_of(2, dice(2) ? 0 : dice(1u << (m + n)), n);
            tc_layout_spec_add_mode(&s, dice(2) ? TC_WARP : TC_REGISTER, &mode);
        }
    }
    return tc_layout_get(cx, &s);
}

START_TEST(test_random_layouts)
{
    int linear = 0;
    for (int round = 0; round < 200; round++) {
        unsigned m = 3 + dice(3), n = 3 + dice(3);
        uint32_t odd = dice(2) ? 1 : 3 + 2 * dice(4);
        const tc_layout *a = random_layout(m, n, odd, false);
        const tc_layout *b = random_layout(m, n, odd, false);
        const tc_layout *s = random_layout(m, n, odd, true);
        const tc_layout *o = tc_layout_offsets(cx, s, a);
        const tc_layout *x = tc_layout_solve(cx, a, b);
        ck_assert(odd > 1 || (o && x));
        linear += o && x;
        if (o)
            each_index(a, holds_offset, o, s, a);
        if (x)
            each_index(b, holds_solution, x, a, b);
        const tc_layout *back = o ? tc_layout_compose(cx, o, s) : NULL;
        ck_assert(odd > 1 || back == a);
        if (back)
            each_index(o, holds_composition, back, o, s);
    }
    ck_assert_int_gt(linear, 80);
}
END_TEST

/* ---- Division ---- */

START_TEST(test_divide)
{
    const tc_layout *c = tc_layout_mma_c(cx, (pair){192, 80}, 4, 1);
    const tc_layout *tile = tc_layout_mma_c(cx, (pair){16, 8}, 1, 1);
    const tc_layout *rest;
    ck_assert(tc_layout_divide(cx, c, tile, &rest));
    ck_assert_int_eq(rest->shape[0], 12);
    ck_assert_int_eq(rest->shape[1], 10);
    /* Every index is one of the tile and one of the rest. */
    for (uint32_t w = 0; w < 4; w++)
        for (uint32_t r = 0; r < tc_layout_size(c, TC_REGISTER); r++)
            for (uint32_t lane = 0; lane < 32; lane++) {
                int32_t x[TC_MAX_RANK], y[TC_MAX_RANK], z[TC_MAX_RANK];
                tc_layout_apply(c, (uint32_t[]){r, lane, w, 0}, x);
                tc_layout_apply(tile, (uint32_t[]){r % 4, lane, 0, 0}, y);
                tc_layout_apply(rest, (uint32_t[]){r / 4, 0, w, 0}, z);
                ck_assert_int_eq(x[0], y[0] + 16 * z[0]);
                ck_assert_int_eq(x[1], y[1] + 8 * z[1]);
            }
    /* Not of another fragment, nor of what does not divide. */
    ck_assert(!tc_layout_divide(
        cx, c, tc_layout_mma_a(cx, (pair){16, 8}, 1, 1, 32), &rest));
    ck_assert(!tc_layout_divide(
        cx, c, tc_layout_mma_c(cx, (pair){128, 8}, 1, 1), &rest));
    ck_assert(!tc_layout_divide(cx, tile, c, &rest));
    /* A core matrix in swizzled memory. */
    const tc_layout *m =
        tc_layout_swizzled(cx, 2, (pair){64, 128}, last_fastest, 16, 128);
    const tc_layout *core =
        tc_layout_swizzled(cx, 2, (pair){8, 64}, last_fastest, 16, 128);
    ck_assert(tc_layout_divide(cx, m, core, &rest));
    ck_assert_uint_eq(tc_layout_size(rest, TC_OFFSET), 16);
}
END_TEST

/* ---- Equality and copies ---- */

START_TEST(test_equal)
{
    tc_layout_spec s = {.rank = 1, .shape = {96}}, t = s;
    tc_layout_spec_add(&s, TC_OFFSET, 16, 0, 1);
    tc_layout_spec_add(&t, TC_OFFSET, 16, 0, 1);
    tc_layout_spec_add(&s, TC_OFFSET, 3, 0, 16);
    tc_layout_spec_add(&s, TC_OFFSET, 2, 0, 48);
    tc_layout_spec_add(&t, TC_OFFSET, 6, 0, 16);
    const tc_layout *a = tc_layout_get(cx, &s), *b = tc_layout_get(cx, &t);
    ck_assert_ptr_ne(a, b);
    ck_assert(tc_layout_equal(a, b));
    ck_assert(tc_layout_equal(a, a));
    samples m = memories_of(shapes[1]);
    for (int i = 0; i < m.n; i++)
        for (int j = 0; j < m.n; j++)
            ck_assert_int_eq(tc_layout_equal(m.l[i], m.l[j]), m.l[i] == m.l[j]);
}
END_TEST

/* Of equal holders just one has all free bits of lane and warp 0. */
static void one_stores(const tc_layout *l)
{
    static int holders[192 * 176];
    memset(holders, 0, sizeof holders);
    uint32_t lanes = tc_layout_free_bits(l, TC_LANE);
    uint32_t warps = tc_layout_free_bits(l, TC_WARP);
    for (uint32_t w = 0; w < tc_layout_size(l, TC_WARP); w++)
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t r = 0; r < tc_layout_size(l, TC_REGISTER); r++) {
                int32_t x[TC_MAX_RANK];
                if (lane & lanes || w & warps)
                    continue;
                tc_layout_apply(l, (uint32_t[]){r, lane, w, 0}, x);
                holders[l->rank == 2 ? x[0] * l->shape[1] + x[1] : x[0]]++;
            }
    int n = l->rank == 2 ? l->shape[0] * l->shape[1] : l->shape[0];
    for (int i = 0; i < n; i++)
        if (holders[i] != 1)
            ck_abort_msg("element %d is stored %d times", i, holders[i]);
}

START_TEST(test_one_of_equal_holders_stores)
{
    for (int k = 0; k < NSHAPES; k++) {
        samples t = tiles_of(shapes[k], false);
        for (int i = 0; i < t.n; i++) {
            one_stores(t.l[i]);
            one_stores(tc_layout_slice(cx, t.l[i], 0));
            one_stores(tc_layout_slice(cx, t.l[i], 1));
            one_stores(tc_layout_collapse(cx, t.l[i], 1));
        }
    }
    one_stores(tc_layout_mma_a(cx, (pair){192, 32}, 4, 3, 16));
    one_stores(tc_layout_mma_b(cx, (pair){32, 96}, 4, 3, 16));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_offsets_of_known_layouts,
        test_offsets_beyond_a_repeat_are_added,
        test_solve_of_known_layouts,
        test_solve_of_slices,
        test_solve_keeps_lanes_and_warps,
        test_compose_of_known_layouts,
        test_compose_refuses_what_straddles,
        test_random_layouts,
        test_divide,
        test_equal,
        test_one_of_equal_holders_stores,
    };
    Suite *s = suite_create("layout_algebra");
    TCase *t = tcase_create("layout_algebra");
    tcase_add_checked_fixture(t, setup, teardown);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return run_suite(s);
}
