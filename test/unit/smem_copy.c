/* SPDX-License-Identifier: Apache-2.0
 *
 * smem_copy against a model of ldmatrix.x4.trans, prmt and stmatrix.x4: every
 * byte arrives where the other buffer's layout has it, and no phase of either
 * meets in a bank more often than expected.
 */
#include "passes/instructions/smem_copy.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, MATRIX = 8 };

static const tc_type *buffer(int32_t rows, int32_t columns, tc_kind kind,
                             const char *layout)
{
    const int32_t shape[] = {rows, columns};
    const tc_dim *dims[] = {tc_dim_const(cx, rows), tc_dim_const(cx, columns)};
    const tc_type *elem = tc_type_scalar(cx, kind);
    size_t used;
    const tc_layout *l =
        tc_layout_parse(cx, layout, strlen(layout), 2, shape,
                        8 * tc_type_bytes(elem), (tc_loc){0}, &used);
    ck_assert_msg(l != NULL, "%s: %s", layout,
                  cx->diags ? cx->diags->message : "");
    return tc_type_smem(cx, tc_type_shaped(cx, TC_TILE, 2, dims, elem), l, 0);
}

static uint32_t offset_of(const tc_layout *l, uint32_t step, uint32_t lane)
{
    int32_t coord[TC_MAX_RANK];
    tc_layout_apply(
        l, (uint32_t[TC_INPUT_COUNT]){[TC_REGISTER] = step, [TC_LANE] = lane},
        coord);
    return (uint32_t)coord[0];
}

/* The element at an offset, counted row by row, from 1 on. */
static uint32_t name_at(const tc_type *t, uint32_t offset)
{
    int32_t coord[TC_MAX_RANK];
    tc_layout_apply(t->layout, (uint32_t[TC_INPUT_COUNT]){[TC_OFFSET] = offset},
                    coord);
    return (uint32_t)(coord[0] * t->layout->shape[1] + coord[1]) + 1;
}

/* ---- The hardware ---- */

/* Rows of 16 bytes that 8 lanes give: how often the worst bank is hit. */
static unsigned ways_of(const tc_layout *l, uint32_t step, uint32_t lane)
{
    unsigned hits[8] = {0}, most = 0;
    for (uint32_t i = 0; i < MATRIX; i++) {
        unsigned n = ++hits[offset_of(l, step, lane + i) / 16 % 8];
        most = n > most ? n : most;
    }
    return most;
}

typedef uint32_t words[LANES][4][4]; /* of a lane: its words' bytes */

static void load_transposed(const tc_smem_copy *c, const uint32_t *memory,
                            uint32_t step, words to)
{
    for (uint32_t m = 0; m < 4; m++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            for (uint32_t byte = 0; byte < 4; byte++) {
                uint32_t row = 2 * (lane % 4) + byte / 2;
                uint32_t at = offset_of(c->read, step, MATRIX * m + row);
                to[lane][m][byte] = memory[at + lane / 4 * 2 + byte % 2];
            }
}

static void permute(words from, words to)
{
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t m = 0; m < 4; m++)
            for (uint32_t byte = 0; byte < 4; byte++) {
                uint32_t odd = (m & 1) ^ (lane >= LANES / 2);
                uint32_t at = 2 * byte + odd; /* of two words */
                to[lane][m][byte] = from[lane][(m & 2) + at / 4][at % 4];
            }
}

static void store(const tc_smem_copy *c, uint32_t *memory, uint32_t step,
                  words from)
{
    for (uint32_t m = 0; m < 4; m++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            for (uint32_t byte = 0; byte < 4; byte++) {
                uint32_t at = offset_of(c->write, step, MATRIX * m + lane / 4);
                memory[at + lane % 4 * 4 + byte] = from[lane][m][byte];
            }
}

typedef struct sample {
    int32_t rows, columns;
    const char *from, *to;
    unsigned read_ways, write_ways;
} sample;

static void check_sample(const sample *s)
{
    const tc_type *from = buffer(s->rows, s->columns, TC_F8E4M3, s->from);
    const tc_type *to = buffer(s->rows, s->columns, TC_F8E4M3, s->to);
    uint32_t n = (uint32_t)(s->rows * s->columns), wrong = 0;
    uint32_t *source = calloc(n, sizeof *source);
    uint32_t *target = calloc(n, sizeof *target);
    const char *why = "";
    tc_smem_copy c;
    words a, b;
    unsigned read = 0, write = 0;
    ck_assert_msg(tc_smem_copy_of(cx, from, to, &c, &why), "%s to %s: %s",
                  s->from, s->to, why);
    for (uint32_t i = 0; i < n; i++)
        source[i] = name_at(from, i);
    ck_assert_uint_eq(c.nsteps * c.nbands * 512, n);
    for (uint32_t step = 0; step < c.nsteps * c.nbands; step++) {
        load_transposed(&c, source, step, a);
        permute(a, b);
        store(&c, target, step, b);
        for (uint32_t m = 0; m < 4; m++) {
            unsigned r = ways_of(c.read, step, MATRIX * m);
            unsigned w = ways_of(c.write, step, MATRIX * m);
            read = r > read ? r : read;
            write = w > write ? w : write;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        wrong += target[i] != name_at(to, i);
    ck_assert_msg(wrong == 0, "%dx%d %s to %s: %u bytes are wrong", s->rows,
                  s->columns, s->from, s->to, wrong);
    ck_assert_msg(read == s->read_ways && write == s->write_ways,
                  "%dx%d %s to %s: %u ways read, %u written", s->rows,
                  s->columns, s->from, s->to, read, write);
    free(source);
    free(target);
}

/* Rows 2 t, 2 t + 1, 8 + 2 t, 9 + 2 t are bytes 4 t on: as the sums of a
 * product have them. */
#define AS_SUMS(more) "#bases(offset [(1,0), (8,0), (2,0), (4,0), " more "])"

static const sample samples[] = {
    {128, 128, "#swizzle128", "#swizzle128(order(0, 1))", 2, 1},
    {64, 128, "#swizzle128", "#swizzle64(order(0, 1))", 2, 1},
    {224, 128, "#swizzle128", "#swizzle32(order(0, 1))", 2, 1},
    {160, 128, "#swizzle128", "#swizzle32(order(0, 1))", 2, 1},
    {96, 64, "#swizzle64", "#swizzle32(order(0, 1))", 2, 1},
    {128, 256, "#swizzle128", "#swizzle128(order(0, 1))", 2, 1},
    {32, 32, "#swizzle32", "#swizzle32(order(0, 1))", 2, 1},
    /* No two chunks side by side: two bands of rows at once. */
    {64, 80, "#rows", "#swizzle64(order(0, 1))", 2, 1},
    {128, 48, "#rows", "#swizzle128(order(0, 1))", 2, 1},
    /* Axis 0 first. */
    {128, 64, "#swizzle128(order(0, 1))", "#swizzle64", 2, 1},
    {32, 32, "#swizzle32",
     AS_SUMS("(0,1), (0,2), (16,4), (0,8), (0,16), (16,0)"), 1, 1},
};

START_TEST(test_every_byte)
{
    check_sample(&samples[_i]);
}
END_TEST

/* ---- Refusals ---- */

START_TEST(test_refusals)
{
    static const struct {
        int32_t rows, columns;
        tc_kind kind;
        const char *from, *to, *why;
    } all[] = {
        {64, 64, TC_BF16, "#swizzle128", "#swizzle128(order(0, 1))",
         "elements are bf16, expected 8 bits"},
        {64, 64, TC_F8E5M2, "#swizzle64", "#rows",
         "expected 16 bytes in one piece along one axis, and then along the "
         "other one"},
        {64, 24, TC_F8E5M2, "#rows", "#rows(order(0, 1))",
         "expected 16 bytes in one piece"},
        {48, 48, TC_F8E4M3, "#rows", "#rows(order(0, 1))",
         "expected a side of a multiple of 32"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const tc_type *from =
            buffer(all[i].rows, all[i].columns, all[i].kind, all[i].from);
        const tc_type *to =
            buffer(all[i].rows, all[i].columns, all[i].kind, all[i].to);
        tc_smem_copy c;
        const char *why = "";
        ck_assert(!tc_smem_copy_of(cx, from, to, &c, &why));
        ck_assert_msg(strstr(why, all[i].why) != NULL, "%s", why);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("smem_copy");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_loop_test(t, test_every_byte, 0,
                        sizeof samples / sizeof *samples);
    tcase_add_test(t, test_refusals);
    suite_add_tcase(s, t);
    return run_suite(s);
}
