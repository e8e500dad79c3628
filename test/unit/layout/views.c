/* SPDX-License-Identifier: Apache-2.0
 *
 * Views: trans, slice, expand, reshape, partial.
 */
#include "test/unit/layout/fixture.h"

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
    layout_is(x[0], y[1]);
    layout_is(x[1], y[0]);
}

START_TEST(test_trans)
{
    const unsigned swap[] = {1, 0};
    make_samples();
    for (int i = 0; i < nsamples; i++) {
        const tc_layout *t = tc_layout_trans(cx, samples[i], swap);
        layout_is_whole(t);
        each_index(samples[i], t, swapped);
        ck_assert_ptr_eq(tc_layout_trans(cx, t, swap), samples[i]);
    }
    const tc_layout *l = tc_layout_swizzled(cx, 3, (int32_t[]){2, 64, 32},
                                            (unsigned[]){2, 1, 0}, 16, 64);
    const tc_layout *t = tc_layout_trans(cx, l, (unsigned[]){1, 2, 0});
    for (uint32_t o = 0; o < 2 * 64 * 32; o++) {
        int32_t x[TC_MAX_RANK], y[TC_MAX_RANK];
        layout_at(l, 0, 0, 0, o, x);
        layout_at(t, 0, 0, 0, o, y);
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
            layout_is_whole(c);
            layout_is_whole(s);
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
                        layout_at(l, r, lane, w, 0, x);
                        of_l[x[1 - axis]] = 1;
                    }
                    for (uint32_t r = 0; r < tc_layout_size(s, 0); r++) {
                        layout_at(s, r, lane, w, 0, x);
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
    layout_is(m, n);
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
            layout_is_whole(s);
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
    layout_is_whole(p);
    ck_assert_int_eq(p->shape[0], 64);
    ck_assert_int_eq(p->shape[1], 2);
    layout_has_bases(p, TC_WARP, 2, (pair[]){{16, 0}, {0, 1}});
    layout_has_bases(p, TC_REGISTER, 2, (pair[]){{8, 0}, {32, 0}});
    layout_has_bases(p, TC_LANE, 5,
                     (pair[]){{0, 0}, {0, 0}, {1, 0}, {2, 0}, {4, 0}});
    /* None. */
    p = tc_layout_partial(cx, tc_layout_mma_c(cx, (pair){64, 80}, 4, 1), 1,
                          TC_WARP);
    ck_assert_int_eq(p->shape[1], 1);
    /* Twelve along the rows. */
    l = tc_layout_mma_c(cx, (pair){192, 64}, 12, 1);
    p = tc_layout_partial(cx, l, 0, TC_WARP);
    layout_is_whole(p);
    ck_assert_int_eq(p->shape[0], 12);
    layout_has_mode(p, TC_WARP, 0, 2, 1, 0);
    layout_has_mode(p, TC_WARP, 1, 2, 2, 0);
    layout_has_mode(p, TC_WARP, 2, 3, 4, 0);
    /* Elements with the same part are of one warp class: same warp digits. */
    make_samples();
    for (int i = 0; i < nsamples; i++)
        for (unsigned axis = 0; axis < 2; axis++)
            layout_is_whole(tc_layout_partial(cx, samples[i], axis, TC_WARP));
}
END_TEST

void layout_views_tests(TCase *t)
{
    tcase_add_test(t, test_trans);
    tcase_add_test(t, test_slice_and_expand);
    tcase_add_test(t, test_collapsed_fragments_keep_their_name);
    tcase_add_test(t, test_reshape);
    tcase_add_test(t, test_partial);
}
