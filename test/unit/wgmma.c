/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors of wgmma: where the instruction, as PTX defines its canonical
 * layouts, reads each element of an operand, and where the buffer has it.
 */
#include "passes/instructions/wgmma.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <string.h>

static const unsigned last_fastest[] = {1, 0}, first_fastest[] = {0, 1};

/* ---- Buffers ---- */

static const tc_type *tile_type(int32_t rows, int32_t columns, tc_kind kind)
{
    const tc_dim *dims[] = {tc_dim_const(cx, rows), tc_dim_const(cx, columns)};
    return tc_type_shaped(cx, TC_TILE, 2, dims, tc_type_scalar(cx, kind));
}

static const tc_type *with_layout(int32_t rows, int32_t columns, tc_kind kind,
                                  const tc_layout *l)
{
    return tc_type_smem(cx, tile_type(rows, columns, kind), l, 0);
}

static unsigned bits_of(tc_kind kind)
{
    return tc_type_bytes(tc_type_scalar(cx, kind)) * 8;
}

/* order: the axis that is the fastest comes first; as smem_trans makes it. */
static const tc_type *swizzled(int32_t rows, int32_t columns, tc_kind kind,
                               const unsigned *order, unsigned swizzle)
{
    return with_layout(rows, columns, kind,
                       tc_layout_swizzled(cx, 2, (int32_t[]){rows, columns},
                                          order, bits_of(kind), swizzle));
}

static const tc_type *widest(int32_t rows, int32_t columns, tc_kind kind,
                             const unsigned *order)
{
    int32_t fast = order[0] ? columns : rows;
    return swizzled(rows, columns, kind, order,
                    tc_layout_widest_swizzle(fast, bits_of(kind)));
}

/* Byte of every element, [row][column]. */
static void fill_bytes(const tc_type *t, uint32_t *bytes)
{
    const tc_layout *l = t->layout;
    uint32_t n = tc_layout_size(l, TC_OFFSET);
    for (uint32_t i = 0; i < n; i++) {
        int32_t x[TC_MAX_RANK];
        tc_layout_apply(l, (uint32_t[]){0, 0, 0, i}, x);
        bytes[x[0] * l->shape[1] + x[1]] = i * tc_type_bytes(t->elem);
    }
}

/* ---- The hardware ---- */

static uint32_t field(uint64_t descriptor, unsigned bit)
{
    return (uint32_t)(descriptor >> bit & 0x3FFF) << 4;
}

/* Element (row, k) of an instruction. */
static uint32_t address(uint64_t descriptor, bool k_major, unsigned bytes,
                        uint32_t row, uint32_t k)
{
    static const unsigned widths[] = {16, 128, 64, 32};
    unsigned width = widths[descriptor >> 62];
    uint32_t start = field(descriptor, 0), lbo = field(descriptor, 16),
             sbo = field(descriptor, 32);
    uint32_t fast = (k_major ? k : row) * bytes, slow = k_major ? row : k, a;
    if (width == 16 && k_major)
        a = start + fast % 16 + fast / 16 * lbo + slow % 8 * 16 +
            slow / 8 * sbo;
    else if (width == 16)
        a = start + fast % 16 + fast / 16 * sbo + slow % 8 * 16 +
            slow / 8 * lbo;
    else if (k_major)
        a = start + fast + slow % 8 * width + slow / 8 * sbo;
    else
        a = start + fast % width + fast / width * lbo + slow % 8 * width +
            slow / 8 * sbo;
    return width == 16 ? a : a ^ ((a >> 7 & (width / 16 - 1)) << 4);
}

static uint32_t bytes[1 << 17];

/* Every element of the operand, read by the instructions that make it up. */
static void check_elements(const tc_type *t, unsigned i, const char *instr,
                           const tc_wgmma_operand *o)
{
    unsigned k_side = tc_wgmma_k(instr), elem = tc_type_bytes(t->elem);
    uint32_t base = 4 * tc_shared_alignment(t);
    int32_t columns = t->layout->shape[1];
    uint32_t nrows = (uint32_t)t->layout->shape[i];
    fill_bytes(t, bytes);
    ck_assert_uint_eq(o->nsteps * k_side, (uint32_t)t->layout->shape[1 - i]);
    for (uint32_t first = 0; first < nrows; first += o->rows)
        for (uint32_t step = 0; step < o->nsteps; step++) {
            uint32_t start = base + first / o->rows * o->row_bytes +
                             tc_wgmma_step_byte(o, step);
            ck_assert_uint_eq(tc_wgmma_row_byte(o, first),
                              first / o->rows * o->row_bytes);
            ck_assert_uint_eq(start % 16, 0);
            uint64_t d = tc_wgmma_descriptor(o) + (start >> 4);
            for (uint32_t row = 0; row < o->rows; row++)
                for (uint32_t k = 0; k < k_side; k++) {
                    uint32_t r = first + row, c = step * k_side + k;
                    uint32_t at = i ? c * (uint32_t)columns + r
                                    : r * (uint32_t)columns + c;
                    ck_assert_uint_eq(address(d, o->k_major, elem, row, k),
                                      base + bytes[at]);
                }
        }
}

static tc_wgmma_operand fits(const tc_type *t, unsigned i, const char *instr)
{
    tc_wgmma_operand o;
    const char *why = NULL;
    bool ok = tc_wgmma_operand_of(cx, t, i, instr, &o, &why);
    ck_assert_msg(ok, "%s: %s", tc_type_name(cx, t), why);
    check_elements(t, i, instr, &o);
    return o;
}

/* ---- Operands of 16 bits ---- */

START_TEST(a_k_major)
{
    static const int32_t ms[] = {64, 128, 192, 256, 320},
                         ks[] = {16, 32, 48, 64, 80, 96, 128, 176, 192, 256};
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < 10; k++) {
            tc_wgmma_operand o =
                fits(widest(ms[i], ks[k], TC_BF16, last_fastest), 0, "m64k16");
            ck_assert(o.k_major);
            ck_assert_uint_eq(o.rows, 64);
        }
}
END_TEST

/* W^T: the rows of [K, M] through smem_trans. */
START_TEST(a_mn_major)
{
    static const int32_t ms[] = {64, 128, 192, 256},
                         ks[] = {16, 48, 64, 80, 128};
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 5; k++)
            for (unsigned swizzle = 32; swizzle <= 128; swizzle *= 2) {
                tc_wgmma_operand o =
                    fits(swizzled(ms[i], ks[k], TC_F16, first_fastest, swizzle),
                         0, "m64k16");
                ck_assert(!o.k_major);
                ck_assert_uint_eq(o.swizzle, swizzle);
            }
}
END_TEST

/* K [N, D] through smem_trans. */
START_TEST(b_k_major)
{
    static const int32_t ns[] = {8, 16, 24, 64, 80, 96, 128, 176, 256, 512},
                         ds[] = {16, 32, 64, 80, 96, 128, 192, 256};
    for (unsigned i = 0; i < 10; i++)
        for (unsigned d = 0; d < 8; d++) {
            tc_wgmma_operand o =
                fits(widest(ds[d], ns[i], TC_BF16, first_fastest), 1, "m64k16");
            ck_assert(o.k_major);
            ck_assert_uint_eq(o.rows, tc_wgmma_n(ns[i]));
        }
}
END_TEST

/* V [N, D], and B [K, N] of a product. */
START_TEST(b_mn_major)
{
    static const int32_t ks[] = {16, 32, 48, 64, 80, 112, 128, 176},
                         ns[] = {16, 32, 64, 80, 96, 128, 176, 192, 256, 512};
    for (unsigned i = 0; i < 8; i++)
        for (unsigned n = 0; n < 10; n++) {
            tc_wgmma_operand o =
                fits(widest(ks[i], ns[n], TC_BF16, last_fastest), 1, "m64k16");
            ck_assert(!o.k_major);
        }
}
END_TEST

/* Numbers that a reader can check. */
START_TEST(known_values)
{
    tc_wgmma_operand q =
        fits(swizzled(128, 128, TC_BF16, last_fastest, 128), 0, "m64k16");
    ck_assert_uint_eq(tc_wgmma_descriptor(&q), 0x4000004000010000);
    ck_assert_uint_eq(tc_wgmma_step_byte(&q, 3), 96);
    ck_assert_uint_eq(tc_wgmma_step_byte(&q, 5), 16384 + 32);
    ck_assert_uint_eq(q.row_bytes, 8192);
    tc_wgmma_operand v =
        fits(swizzled(80, 256, TC_BF16, last_fastest, 128), 1, "m64k16");
    ck_assert_uint_eq(v.lbo, 80 * 128);
    ck_assert_uint_eq(v.sbo, 1024);
    ck_assert_uint_eq(tc_wgmma_step_byte(&v, 3), 3 * 2048);
}
END_TEST

/* ---- Operands of 8 bits ---- */

START_TEST(fp8)
{
    static const int32_t rows[] = {64, 128, 192},
                         ks[] = {32, 64, 96, 128, 160, 224, 256};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 7; k++) {
            fits(widest(rows[i], ks[k], TC_F8E4M3, last_fastest), 0, "m64k32");
            fits(widest(ks[k], rows[i], TC_F8E5M2, first_fastest), 1, "m64k32");
        }
}
END_TEST

/* ---- Other layouts ---- */

/* Core matrices of 8 rows of 16 bytes: along the columns first, or along the
 * rows. */
static const tc_type *core_matrices(int32_t rows, int32_t columns,
                                    unsigned fast, unsigned then)
{
    tc_layout_spec s = {.rank = 2, .shape = {rows, columns}};
    unsigned slow = 1 - fast;
    tc_layout_spec_add(&s, TC_OFFSET, 8, fast, 1);
    tc_layout_spec_add(&s, TC_OFFSET, 8, slow, 1);
    tc_layout_spec_add(&s, TC_OFFSET, (uint32_t)s.shape[then] / 8, then, 8);
    tc_layout_spec_add(&s, TC_OFFSET, (uint32_t)s.shape[1 - then] / 8, 1 - then,
                       8);
    return with_layout(rows, columns, TC_F16, tc_layout_get(cx, &s));
}

START_TEST(without_swizzle)
{
    for (unsigned fast = 0; fast < 2; fast++)
        for (unsigned then = 0; then < 2; then++) {
            fits(core_matrices(128, 80, fast, then), 0, "m64k16");
            fits(core_matrices(64, 64, fast, then), 0, "m64k16");
            fits(core_matrices(48, 176, fast, then), 1, "m64k16");
            fits(core_matrices(64, 512, fast, then), 1, "m64k16");
        }
}
END_TEST

/* A ring's slots are as one buffer. */
START_TEST(ring)
{
    const tc_type *t = swizzled(128, 64, TC_BF16, last_fastest, 128);
    tc_wgmma_operand o;
    const char *why;
    t = tc_type_smem(cx, tile_type(128, 64, TC_BF16), t->layout, 3);
    ck_assert(tc_wgmma_operand_of(cx, t, 0, "m64k16", &o, &why));
}
END_TEST

/* Every layout that is accepted is read right, whatever it is. */
START_TEST(any_layout)
{
    static const unsigned pers[] = {1, 2, 4};
    unsigned accepted = 0;
    for (unsigned vec = 1; vec <= 16; vec *= 2)
        for (unsigned per = 0; per < 3; per++)
            for (unsigned phases = 1; phases <= 8; phases *= 2)
                for (int32_t k = 16; k <= 128; k *= 2) {
                    int32_t shape[] = {64, k};
                    const tc_type *t =
                        with_layout(64, k, TC_BF16,
                                    tc_layout_xor(cx, 2, shape, last_fastest,
                                                  vec, pers[per], phases));
                    tc_wgmma_operand o;
                    const char *why;
                    if (!tc_wgmma_operand_of(cx, t, 0, "m64k16", &o, &why))
                        continue;
                    check_elements(t, 0, "m64k16", &o);
                    accepted++;
                }
    /* Rows of 32 bytes with 2 phases or more, of 64 with 4, of 128 with 8. */
    ck_assert_uint_eq(accepted, 3 + 2 + 1);
}
END_TEST

/* ---- Refusals ---- */

static void refused(const tc_type *t, unsigned i, const char *instr,
                    const char *words)
{
    tc_wgmma_operand o;
    const char *why = NULL;
    ck_assert(!tc_wgmma_operand_of(cx, t, i, instr, &o, &why));
    ck_assert_msg(strstr(why, words), "%s", why);
}

START_TEST(refusals)
{
    const tc_type *t = swizzled(128, 64, TC_BF16, last_fastest, 128);
    refused(t, 0, "m16n8k16", "takes no buffers");
    refused(tile_type(128, 64, TC_BF16), 0, "m64k16", "expected a buffer");
    refused(t, 0, "m64k32", "elements of 16 bits, m64k32 has 8");
    refused(swizzled(128, 32, TC_F32, last_fastest, 128), 0, "m64k8",
            "cut to tf32");
    refused(swizzled(96, 64, TC_BF16, last_fastest, 128), 0, "m64k16",
            "96 rows, expected a multiple of 64");
    refused(swizzled(64, 24, TC_BF16, last_fastest, 0), 0, "m64k16",
            "K is 24, expected a multiple of 16");
    refused(swizzled(64, 12, TC_BF16, last_fastest, 0), 1, "m64k16",
            "12 columns, expected a multiple of 8");
    refused(swizzled(64, 64, TC_BF16, last_fastest, 0), 0, "m64k16",
            "expected #swizzle128");
    refused(swizzled(64, 128, TC_F8E4M3, last_fastest, 128), 1, "m64k32",
            "expected K as the fastest axis");
    refused(swizzled(64, 320, TC_BF16, last_fastest, 128), 1, "m64k16",
            "instructions of 160 columns do not begin at panels of 64");
    fits(swizzled(64, 320, TC_BF16, last_fastest, 64), 1, "m64k16");
}
END_TEST

/* ---- Numbers ---- */

START_TEST(instructions)
{
    ck_assert_uint_eq(tc_wgmma_k("m64k8"), 8);
    ck_assert_uint_eq(tc_wgmma_k("m64k16"), 16);
    ck_assert_uint_eq(tc_wgmma_k("m64k32"), 32);
    ck_assert_uint_eq(tc_wgmma_k("m16n8k16"), 0);
    ck_assert_uint_eq(tc_wgmma_n(8), 8);
    ck_assert_uint_eq(tc_wgmma_n(176), 176);
    ck_assert_uint_eq(tc_wgmma_n(256), 256);
    ck_assert_uint_eq(tc_wgmma_n(272), 136);
    ck_assert_uint_eq(tc_wgmma_n(320), 160);
    ck_assert_uint_eq(tc_wgmma_n(512), 256);
    ck_assert_uint_eq(tc_wgmma_n(12), 0);
}
END_TEST

START_TEST(alignment)
{
    for (unsigned w = 32; w <= 128; w *= 2) {
        ck_assert_uint_eq(
            tc_shared_alignment(swizzled(96, 128, TC_F16, last_fastest, w)),
            8 * w);
        ck_assert_uint_eq(
            tc_shared_alignment(swizzled(256, 80, TC_F16, first_fastest, w)),
            8 * w);
    }
    ck_assert_uint_eq(
        tc_shared_alignment(swizzled(64, 64, TC_F16, last_fastest, 0)), 128);
    ck_assert_uint_eq(tc_shared_alignment(core_matrices(64, 64, 0, 1)), 128);
}
END_TEST

static void check_grid(int32_t m, int32_t n, int groups_m, int groups_n)
{
    int gm, gn;
    const tc_layout *c =
        tc_layout_wgmma_c(cx, (int32_t[]){m, n}, groups_m, groups_n);
    ck_assert(tc_wgmma_grid(c, &gm, &gn));
    ck_assert_int_eq(gm, groups_m);
    ck_assert_int_eq(gn, groups_n);
}

START_TEST(grid)
{
    int gm, gn;
    check_grid(64, 8, 1, 1);
    check_grid(128, 176, 2, 1);
    check_grid(192, 128, 3, 1);
    check_grid(256, 128, 2, 1);
    check_grid(384, 64, 3, 1);
    check_grid(64, 256, 1, 2);
    check_grid(128, 256, 2, 2);
    ck_assert(!tc_wgmma_grid(tc_layout_wgmma_c(cx, (int32_t[]){64, 64}, 2, 1),
                             &gm, &gn)); /* two groups hold the same */
    ck_assert(!tc_wgmma_grid(tc_layout_mma_c(cx, (int32_t[]){64, 64}, 2, 2),
                             &gm, &gn));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wgmma");
    TCase *t = tcase_create("wgmma");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_test(t, a_k_major);
    tcase_add_test(t, a_mn_major);
    tcase_add_test(t, b_k_major);
    tcase_add_test(t, b_mn_major);
    tcase_add_test(t, known_values);
    tcase_add_test(t, fp8);
    tcase_add_test(t, without_swizzle);
    tcase_add_test(t, ring);
    tcase_add_test(t, any_layout);
    tcase_add_test(t, refusals);
    tcase_add_test(t, instructions);
    tcase_add_test(t, alignment);
    tcase_add_test(t, grid);
    suite_add_tcase(s, t);
    return run_suite(s);
}
