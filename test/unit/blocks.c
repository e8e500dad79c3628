/* SPDX-License-Identifier: Apache-2.0
 *
 * Sides of tiles by the cost model: of products of matrices for the sizes of a
 * launch, of kernels whose products need each other's results, and the cost of
 * a launch by itself. That the choice is the fastest one: test/bench.
 */
#include "ir/text/parse.h"
#include "passes/persistent/launch_cost.h"
#include "passes/persistent/split_k.h"
#include "passes/schedule/choose_blocks.h"
#include "passes/schedule/sum_blocks.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <string.h>

#define PRODUCT(more)                                                          \
    "kernel @product[BM: block = 64, BN: block = 64, BK: block = 64](\n"       \
    "    %a: tensor<[?, ?] x bf16>, %b: tensor<[?, ?] x bf16>,\n"              \
    "    %c: tensor<[?, ?] x f32>) grid {\n" more                              \
    "  yield cdiv(size(%a, 0), BM), cdiv(size(%b, 1), BN)\n"                   \
    "}\n"                                                                      \
    "{\n"                                                                      \
    "  %m0 = program_id(0) * BM\n"                                             \
    "  %n0 = program_id(1) * BN\n"                                             \
    "  %acc = for %k0 = 0 to size(%a, 1) step BK\n"                            \
    "      carry(%acc0 = splat(0.0, tile<BMxBN x f32>)) {\n"                   \
    "    %at = load %a[%m0 +: BM, %k0 +: BK] boundary(0, 1)\n"                 \
    "    %bt = load %b[%k0 +: BK, %n0 +: BN] boundary(0, 1)\n"                 \
    "    yield dot(%at, %bt, %acc0)\n"                                         \
    "  }\n"                                                                    \
    "  store %c[%m0 +: BM, %n0 +: BN], %acc boundary(0, 1)\n"                  \
    "}\n"

typedef struct choice {
    bool found;
    int64_t rows, columns, depth, pieces;
    unsigned warps;
} choice;

static int64_t side(const tc_blocks *b, const char *name)
{
    for (unsigned i = 0; i < b->values.n; i++)
        if (strcmp(b->values.names[i], name) == 0)
            return tc_dim_value(b->values.dims[i]);
    return -1;
}

static choice choose(const char *text, const char *target,
                     const tc_blocks_launch *launch)
{
    tc_module *m = fixture_parse(text);
    tc_bindings known = tc_bindings_of(&cx->arena, m->first);
    tc_blocks b;
    choice c = {.found = tc_choose_blocks(m->first, tc_target_get(target),
                                          &known, launch, &cx->arena, &b)};
    if (c.found) {
        c.rows = side(&b, "BM");
        c.columns = side(&b, "BN");
        c.depth = side(&b, "BK");
        c.pieces = b.pieces;
        c.warps = b.warps;
    }
    tc_module_free(m);
    return c;
}

static choice choose_for(int64_t m, int64_t n, int64_t k, bool may_split)
{
    const int64_t a[] = {m, k}, b[] = {k, n}, c[] = {m, n};
    const int64_t *sizes[] = {a, b, c};
    tc_blocks_launch launch = {m > n ? m : n, sizes, may_split};
    return choose(PRODUCT(""), "sm_90a", &launch);
}

static int64_t tiles_of(const choice *c, int64_t m, int64_t n)
{
    return (m + c->rows - 1) / c->rows * ((n + c->columns - 1) / c->columns);
}

/* ---- Products of matrices ---- */

START_TEST(large_products_have_large_tiles)
{
    static const int64_t sides[] = {4096, 8192};
    choice c = choose_for(sides[_i], sides[_i], sides[_i], false);
    ck_assert(c.found);
    ck_assert_int_ge(c.rows * c.columns, 128 * 192);
    ck_assert_uint_eq(c.warps, 8);
    ck_assert_int_eq(c.pieces, 1);
}
END_TEST

/* 144 tiles of 128 x 256 take two waves of 132 multiprocessors. */
START_TEST(waves_count)
{
    choice c = choose_for(2304, 2048, 2048, false);
    ck_assert(c.found);
    ck_assert(tiles_of(&c, 2304, 2048) <= 132 ||
              c.rows * c.columns < 128 * 256);
    c = choose_for(512, 4096, 4096, false);
    ck_assert_int_ge(tiles_of(&c, 512, 4096), 100);
}
END_TEST

START_TEST(few_rows_have_tiles_of_few)
{
    static const int64_t rows[] = {1, 16, 32, 64, 128, 256};
    choice c = choose_for(rows[_i], 4096, 4096, false);
    ck_assert(c.found);
    ck_assert_int_le(c.rows, rows[_i] < 16 ? 16 : rows[_i]);
    ck_assert_int_ge(tiles_of(&c, rows[_i], 4096), 66);
    ck_assert_uint_eq(c.warps, c.rows > 64 ? c.rows / 16 : 4);
}
END_TEST

/* Two tiles with a long loop occupy 2 of 132 multiprocessors. */
START_TEST(long_loops_are_split_where_launches_allow_it)
{
    choice c = choose_for(64, 128, 65536, true);
    ck_assert(c.found);
    ck_assert_int_gt(c.pieces, 1);
    c = choose_for(64, 128, 65536, false);
    ck_assert(c.found);
    ck_assert_int_eq(c.pieces, 1);
    c = choose_for(8192, 8192, 8192, true);
    ck_assert_int_eq(c.pieces, 1);
}
END_TEST

START_TEST(sizes_need_not_be_known)
{
    tc_blocks_launch none = {0, NULL, true};
    choice c = choose(PRODUCT(""), "sm_90a", &none);
    choice same = choose_for(4096, 4096, 4096, true);
    ck_assert(c.found);
    ck_assert_int_eq(c.rows, same.rows);
    ck_assert_int_eq(c.columns, same.columns);
    ck_assert_int_eq(c.depth, same.depth);
}
END_TEST

START_TEST(sizes_may_be_any)
{
    static const int64_t sides[] = {INT64_MIN, -1, 0, 1, INT32_MAX, INT64_MAX};
    const int64_t n = sides[_i];
    choice c = choose_for(n, n, n, true);
    ck_assert(c.found);
    c = choose_for(n, 64, 64, true);
    ck_assert(c.found);
}
END_TEST

START_TEST(asserts_of_the_grid_refuse_sides)
{
    const int64_t a[] = {4096, 4096};
    const int64_t *sizes[] = {a, a, a};
    tc_blocks_launch launch = {4096, sizes, false};
    choice c = choose(PRODUCT("  assert rem(128, BN) == 0, \"BN\"\n"), "sm_90a",
                      &launch);
    ck_assert(c.found);
    ck_assert_int_eq(128 % c.columns, 0);
    c = choose(PRODUCT("  assert BN == 24, \"BN\"\n"), "sm_90a", &launch);
    ck_assert(!c.found);
}
END_TEST

START_TEST(other_targets_keep_defaults)
{
    tc_blocks_launch none = {0, NULL, true};
    ck_assert(!choose(PRODUCT(""), "sm_80", &none).found);
    ck_assert(!choose(PRODUCT(""), "cpu", &none).found);
}
END_TEST

/* ---- The loop ---- */

#define KERNEL(step)                                                           \
    "kernel @k(%a: tensor<[?, 64] x bf16>, %b: tensor<[?, 64] x bf16>, "       \
    "%c: tensor<[?, 64] x f32>) grid(1) {\n"                                   \
    "  %at = load %a[0 +: 64, 0 +: 64] boundary(0)\n"                          \
    "  %acc = for %k0 = 0 to size(%b, 0) step 64\n"                            \
    "      carry(%acc0 = splat(0.0, tile<64x64 x f32>)) {\n"                   \
    "    %bt = load %b[%k0 +: 64, 0 +: 64] boundary(0)\n" step "  }\n"         \
    "  store %c[0 +: 64, 0 +: 64], %acc boundary(0)\n"                         \
    "}\n"

static bool makes_sums(const char *text)
{
    tc_module *m = fixture_parse(text);
    bool found = tc_sum_loop(m->first) != NULL;
    tc_module_free(m);
    return found;
}

START_TEST(products_that_need_products_make_no_sums)
{
    ck_assert(makes_sums(KERNEL("yield dot(%at, %bt, %acc0)\n")));
    ck_assert(makes_sums(KERNEL("yield %acc0 + dot(%at, %bt)\n")));
    ck_assert(makes_sums(
        KERNEL("yield dot(cast(cast(%bt, f32) * 2.0, bf16), %bt, %acc0)\n")));
    ck_assert(!makes_sums(KERNEL("%p = cast(dot(%at, trans(%bt)), bf16)\n"
                                 "yield dot(%p, %bt, %acc0)\n")));
    ck_assert(!makes_sums(KERNEL("yield dot(cast(%acc0, bf16), %bt)\n")));
}
END_TEST

/* ---- A launch ---- */

static int64_t cycles(int64_t tiles, int64_t steps, int64_t bytes,
                      int64_t pieces)
{
    static const tc_launch_cost c = {.latency = 1000,
                                     .work = 800,
                                     .sums = 128 * 128 * 4,
                                     .sms = 100,
                                     .resident = 1};
    tc_launch_counts l = {{NULL, tiles}, {NULL, steps}, {NULL, bytes}};
    return tc_launch_cycles(NULL, &c, pieces, &l).n;
}

START_TEST(launches_go_by_waves)
{
    /* A cycle for each CTA, so that of equal choices the fewest win. */
    ck_assert_int_eq(cycles(1, 64, 0, 1) + 99, cycles(100, 64, 0, 1));
    ck_assert_int_eq(2 * cycles(100, 64, 0, 1) - 99, cycles(101, 64, 0, 1));
    ck_assert_int_eq(cycles(100, 128, 0, 1) - cycles(100, 64, 0, 1), 64 * 1000);
}
END_TEST

START_TEST(memory_bounds_a_launch)
{
    int64_t least = cycles(1, 1, 0, 1);
    ck_assert_int_gt(cycles(1, 1, (int64_t)1 << 30, 1), 100 * least);
    /* What is read does not depend on how many CTAs share a tile. */
    ck_assert_int_ge(cycles(1, 1, (int64_t)1 << 30, 4),
                     cycles(1, 1, (int64_t)1 << 30, 1));
}
END_TEST

START_TEST(pieces_share_steps_and_cost_sums)
{
    ck_assert_int_lt(cycles(10, 4096, 0, 8), cycles(10, 4096, 0, 1));
    ck_assert_int_gt(cycles(10, 4, 0, 8), cycles(10, 4, 0, 1));
    ck_assert_int_gt(cycles(100, 64, 0, 2), cycles(100, 64, 0, 1));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("blocks");
    TCase *t = tcase_create("blocks");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_loop_test(t, large_products_have_large_tiles, 0, 2);
    tcase_add_test(t, waves_count);
    tcase_add_loop_test(t, few_rows_have_tiles_of_few, 0, 6);
    tcase_add_test(t, long_loops_are_split_where_launches_allow_it);
    tcase_add_test(t, sizes_need_not_be_known);
    tcase_add_loop_test(t, sizes_may_be_any, 0, 6);
    tcase_add_test(t, asserts_of_the_grid_refuse_sides);
    tcase_add_test(t, other_targets_keep_defaults);
    tcase_add_test(t, products_that_need_products_make_no_sums);
    tcase_add_test(t, launches_go_by_waves);
    tcase_add_test(t, memory_bounds_a_launch);
    tcase_add_test(t, pieces_share_steps_and_cost_sums);
    suite_add_tcase(s, t);
    return run_suite(s);
}
