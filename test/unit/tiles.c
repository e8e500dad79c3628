/* SPDX-License-Identifier: Apache-2.0
 *
 * persist-tiles: the programs compute each tile of the grid once, in the order
 * that tile_order.c promises. The kernels print their indices; the scalar ops
 * up to there are evaluated for each number of a tile.
 */
#include "ir/base/map.h"
#include "ir/eval/eval.h"
#include "passes/passes.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <string.h>

/* Kernels of %n0, %n1, %n2. The length of a tensor %b is `length`. */
#define BEGIN                                                                  \
    "kernel @k(%a: tensor<[?, ?, ?] x bf16>, %b: tensor<[?, ?, 64] x bf16>, "  \
    "%c: tensor<[?, ?, ?] x f32>, %n0: i32, %n1: i32, %n2: i32) "
#define PRINT "print \"ids\", program_id(0), program_id(1), program_id(2)\n"
#define LOOP(hi, a, b)                                                         \
    "%s = for %k = 0 to " hi " step 64 carry(%s0 = splat(0.0, tile<64x64 x "   \
    "f32>)) {\n %x = load %a" a "\n %y = load %b" b                            \
    "\n yield dot(%x, %y, %s0)\n }\n"                                          \
    "store %c[program_id(2), %i +: 64, 0 +: 64], %s boundary(0, 1)\n}"
#define ROWS "%i = program_id(0) * 64\n"

static const char *const matmul[] = {
    BEGIN "grid(%n0) {\n" PRINT ROWS LOOP(
        "size(%a, 2)", "[0, %i +: 64, %k +: 64]", "[0, %k +: 64, 0 +: 64]"),
    BEGIN "grid(%n0, %n1) {\n" PRINT ROWS LOOP(
        "size(%a, 2)", "[0, %i +: 64, %k +: 64]",
        "[program_id(1), %k +: 64, 0 +: 64]"),
    BEGIN "grid(%n0, %n1, %n2) {\n" PRINT ROWS LOOP(
        "size(%a, 2)", "[program_id(2), %i +: 64, %k +: 64]",
        "[program_id(1), %k +: 64, 0 +: 64]"),
};
/* One operand moves with both axes. */
static const char *const plain[] = {
    BEGIN "grid(%n0, %n1) {\n" PRINT ROWS LOOP(
        "size(%a, 2)", "[program_id(1), %i +: 64, %k +: 64]",
        "[0, %k +: 64, 0 +: 64]"),
    BEGIN "grid(%n0, %n1, %n2) {\n" PRINT ROWS LOOP(
        "size(%a, 2)",
        "[program_id(1) * %n2 + program_id(2), %i +: 64, "
        "%k +: 64]",
        "[0, %k +: 64, 0 +: 64]"),
};
#define TRIANGLE(hi, h)                                                        \
    ROWS LOOP(hi, "[" h ", %i +: 64, %k +: 64]", "[" h ", %k +: 64, 0 +: 64]")
static const char *const grows[] = {
    BEGIN "grid(%n0) {\n" PRINT TRIANGLE("%i + 64", "0"),
    BEGIN "grid(%n0, %n1) {\n" PRINT TRIANGLE("min(%i + 64, size(%a, 2))",
                                              "program_id(1)"),
    BEGIN "grid(%n0, %n1, %n2) {\n" PRINT TRIANGLE(
        "max(%i - 10, 0)", "program_id(1) + program_id(2) * %n1"),
};
static const char *const shrinks[] = {
    BEGIN "grid(%n0) {\n" PRINT TRIANGLE("size(%a, 2) - %i", "0"),
    BEGIN "grid(%n0, %n1) {\n" PRINT TRIANGLE("%n0 * 64 - %i", "program_id(1)"),
    BEGIN "grid(%n0, %n1, %n2) {\n" PRINT TRIANGLE("64 * (%n0 - program_id(0))",
                                                   "program_id(2)"),
};
#define COUNT(list) ((unsigned)(sizeof(list) / sizeof *(list)))

static tc_func *compile(const char *text, tc_module **m)
{
    tc_pass_options o = {.target = tc_target_get("sm_90a"),
                         .verify_each = true};
    *m = fixture_parse(text);
    ck_assert(
        tc_run_pipeline(*m, "bind-params,canonicalize,cse,persist-tiles", &o));
    ck_assert_msg((*m)->first->tiles != TC_TILES_ANY, "not persistent: %s",
                  text);
    return (*m)->first;
}

/* ---- Evaluation ---- */

/* As ck_assert, which makes a system call each time. */
#define EACH(x)                                                                \
    do {                                                                       \
        if (!(x))                                                              \
            ck_abort_msg("%s", #x);                                            \
    } while (0)

struct grid {
    int32_t n[3];
    int32_t length; /* of each dim of a tensor */
    tc_map values;  /* -> tc_scalar */
    tc_arena *arena;
};

static tc_scalar *slot(struct grid *g, const tc_value *v)
{
    tc_scalar *x = tc_map_get(&g->values, v);
    if (!x) {
        x = tc_arena_new(g->arena, tc_scalar);
        tc_map_set(&g->values, v, x);
    }
    return x;
}

/* All scalars up to the `print`, or to the end of the region; the op at which
 * it stopped. */
static const tc_op *evaluate(struct grid *g, const tc_region *r)
{
    tc_each_op (op, r) {
        tc_scalar in[3];
        if (op->code == TC_PRINT || op->nregions)
            return op;
        if (!tc_op_has(op, TC_PURE))
            continue;
        for (unsigned i = 0; i < op->nin && i < 3; i++)
            in[i] = *slot(g, op->in[i]);
        if (op->code == TC_SIZE)
            slot(g, op->out[0])->i = g->length;
        else if (op->code == TC_PROGRAM_ID || op->code == TC_NUM_PROGRAMS)
            slot(g, op->out[0])->i = op->code == TC_NUM_PROGRAMS;
        else
            EACH(tc_eval_op(op, in, slot(g, op->out[0])));
    }
    return NULL;
}

enum { MOST = 4096 };
struct tiles {
    int32_t total, n;
    int32_t ids[MOST][3];
};

/* In order, for one program that does them all. */
static void decode(tc_func *f, const int32_t n[3], int32_t length,
                   struct tiles *out)
{
    tc_arena arena;
    tc_arena_init(&arena, &cx->memory);
    struct grid g = {.length = length, .values.arena = &arena, .arena = &arena};
    for (unsigned i = 0; i < 3; i++)
        slot(&g, f->body->args[3 + i])->i = n[i];
    const tc_op *loop = evaluate(&g, f->body);
    ck_assert_ptr_nonnull(loop);
    bool fetches = loop->code == TC_WHILE;
    const tc_value *tile = loop->regions[0]->args[0];
    const tc_value *total =
        fetches ? loop->regions[0]->first->in[1] : loop->in[1];
    out->total = (int32_t)slot(&g, total)->i;
    ck_assert_int_le(out->total, MOST);
    for (out->n = 0; out->n < out->total; out->n++) {
        slot(&g, tile)->i = out->n;
        const tc_op *print = evaluate(&g, loop->regions[fetches]);
        EACH(print && print->code == TC_PRINT);
        for (unsigned i = 0; i < 3; i++)
            out->ids[out->n][i] = (int32_t)slot(&g, print->in[i])->i;
    }
    tc_arena_reset(&arena);
}

static void check_once(const struct tiles *t, const int32_t n[3],
                       const char *text)
{
    static bool seen[MOST];
    ck_assert_int_eq(t->total, n[0] * n[1] * n[2]);
    memset(seen, 0, sizeof seen);
    for (int32_t i = 0; i < t->n; i++) {
        const int32_t *id = t->ids[i];
        bool inside = true;
        for (unsigned a = 0; a < 3; a++)
            inside &= id[a] >= 0 && id[a] < n[a];
        if (!inside)
            ck_abort_msg("tile %d of %dx%dx%d is (%d, %d, %d) in\n%s", i, n[0],
                         n[1], n[2], id[0], id[1], id[2], text);
        int32_t at = (id[2] * n[1] + id[1]) * n[0] + id[0];
        if (seen[at])
            ck_abort_msg("(%d, %d, %d) of %dx%dx%d twice in\n%s", id[0], id[1],
                         id[2], n[0], n[1], n[2], text);
        seen[at] = true;
    }
}

static const int32_t sides[] = {0, 1, 2, 3, 5, 8, 9, 17, 33};
enum { NSIDES = sizeof sides / sizeof *sides };

typedef void check_fn(const struct tiles *t, const int32_t n[3]);

/* Sides of axes after the kernel's are 1. */
static void check_all(const char *text, unsigned naxes, int32_t length,
                      check_fn *check)
{
    static struct tiles t;
    tc_module *m;
    tc_func *f = compile(text, &m);
    for (unsigned i = 0; i < NSIDES; i++)
        for (unsigned j = 0; j < (naxes > 1 ? NSIDES : 1u); j++)
            for (unsigned k = 0; k < (naxes > 2 ? 6u : 1u); k++) {
                int32_t n[] = {sides[i], naxes > 1 ? sides[j] : 1,
                               naxes > 2 ? sides[k] : 1};
                if (n[0] * n[1] * n[2] > MOST)
                    continue;
                decode(f, n, length, &t);
                check_once(&t, n, text);
                if (check)
                    check(&t, n);
            }
    tc_module_free(m);
}

/* ---- The orders ---- */

static void check_plain(const struct tiles *t, const int32_t n[3])
{
    for (int32_t i = 0; i < t->n; i++) {
        EACH(t->ids[i][0] == i % n[0]);
        EACH(t->ids[i][1] == i / n[0] % n[1]);
    }
}

START_TEST(test_plain)
{
    for (unsigned i = 0; i < COUNT(plain); i++)
        check_all(plain[i], i + 2, 100, check_plain);
}
END_TEST

/* Eight rows at a time: the next group when all columns are through. */
static void check_groups(const struct tiles *t, const int32_t n[3])
{
    for (int32_t i = 1; i < t->n; i++) {
        const int32_t *a = t->ids[i - 1], *b = t->ids[i];
        EACH(b[2] >= a[2]);
        if (a[2] == b[2] && n[1] > 1)
            EACH(b[0] / 8 >= a[0] / 8);
        if (a[2] == b[2] && a[0] / 8 == b[0] / 8)
            EACH(b[1] >= a[1]);
    }
}

START_TEST(test_groups)
{
    for (unsigned i = 0; i < COUNT(matmul); i++)
        check_all(matmul[i], i + 1, 100, check_groups);
}
END_TEST

/* All fits one section: axis 0 falls all the way. */
static void check_falls(const struct tiles *t, const int32_t n[3])
{
    (void)n;
    for (int32_t i = 1; i < t->n; i++)
        EACH(t->ids[i][0] <= t->ids[i - 1][0]);
}

static void check_rises(const struct tiles *t, const int32_t n[3])
{
    (void)n;
    for (int32_t i = 1; i < t->n; i++)
        EACH(t->ids[i][0] >= t->ids[i - 1][0]);
}

START_TEST(test_longest_first)
{
    for (unsigned i = 0; i < COUNT(grows); i++) {
        check_all(grows[i], i + 1, 100, check_falls);
        check_all(shrinks[i], i + 1, 100, check_rises);
    }
}
END_TEST

/* 1000 * 1000 * 64 elements of 2 bytes are seven sections of 16 MiB or more,
 * if that leaves each 128 tiles; or the power of two before that: of equal
 * length, one after the other, each from the longest to the shortest. */
static void check_sections(const struct tiles *t, const int32_t n[3])
{
    int32_t others = n[1] * n[2], sections = 4;
    while (sections > 1 &&
           (sections > others * n[0] / 128 || sections > others))
        sections /= 2;
    int32_t length = (others + sections - 1) / sections;
    for (int32_t i = 1; i < t->n; i++) {
        const int32_t *a = t->ids[i - 1], *b = t->ids[i];
        int32_t before = (a[2] * n[1] + a[1]) / length;
        int32_t now = (b[2] * n[1] + b[1]) / length;
        EACH(now >= before);
        if (now == before)
            EACH(b[0] <= a[0]);
        else
            EACH(b[0] == n[0] - 1);
    }
}

START_TEST(test_sections)
{
    check_all(grows[1], 2, 1000, check_sections);
    check_all(grows[2], 3, 1000, check_sections);
}
END_TEST

/* Lengths so large that nothing fits, and no sum may overflow. */
START_TEST(test_long_tensors)
{
    check_all(grows[2], 3, INT32_MAX / 1024, NULL);
}
END_TEST

/* ---- The launch ---- */

static bool launch(tc_func *f, int64_t n0, int64_t n1, int64_t n2,
                   int32_t grid[3])
{
    tc_launch_arg args[6] = {0};
    args[3].scalar.i = n0;
    args[4].scalar.i = n1;
    args[5].scalar.i = n2;
    return tc_eval_grid(cx, f, args, 132, grid);
}

START_TEST(test_grid)
{
    tc_module *m;
    tc_func *f = compile(grows[2], &m);
    int32_t grid[3];
    ck_assert(launch(f, 3, 5, 7, grid));
    ck_assert_int_eq(grid[0], 105);
    ck_assert_int_eq(grid[1], 1);
    ck_assert(launch(f, 30, 5, 7, grid));
    ck_assert_int_eq(grid[0], 132);
    ck_assert(launch(f, 0, 5, 7, grid));
    ck_assert_int_eq(grid[0], 0);
    ck_assert(launch(f, 5, 7, 0, grid));
    ck_assert_int_eq(grid[0], 0);
    ck_assert(!launch(f, 1 << 20, 1 << 10, 2, grid));
    ck_assert(!launch(f, 1 << 30, 1 << 30, 4, grid));
    ck_assert(!launch(f, -1, -1, 1, grid));
    tc_module_free(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tiles");
    TCase *t = tcase_create("tiles");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_test(t, test_plain);
    tcase_add_test(t, test_groups);
    tcase_add_test(t, test_longest_first);
    tcase_add_test(t, test_sections);
    tcase_add_test(t, test_long_tensors);
    tcase_add_test(t, test_grid);
    suite_add_tcase(s, t);
    return run_suite(s);
}
