/* SPDX-License-Identifier: Apache-2.0
 *
 * Accesses to memory: vectors, bank conflicts counted for every phase of every
 * access, ldmatrix as the instruction defines it, conversions, scratch memory.
 */
#include "ir/types/layout.h"
#include "test/unit/fixture/fixture.h"
#include "test/unit/run.h"

#include <check.h>
#include <string.h>

typedef int32_t pair[2];
static const unsigned last_fastest[] = {1, 0}, first_fastest[] = {0, 1};

static const tc_layout *blocked(const int32_t *shape, int32_t pr, int32_t pc,
                                int32_t lr, int32_t lc, int32_t wr, int32_t wc,
                                const unsigned *order)
{
    return tc_layout_blocked(cx, 2, shape, (pair){pr, pc}, (pair){lr, lc},
                             (pair){wr, wc}, order);
}

static uint32_t offset_at(const tc_layout *o, uint32_t r, uint32_t lane,
                          uint32_t w)
{
    int32_t x[TC_MAX_RANK];
    tc_layout_apply(o, (uint32_t[]){r, lane, w, 0}, x);
    return (uint32_t)x[0];
}

/* ---- Bank conflicts by counting ---- */

/* The registers that access k moves: vector of them, with the bits of the
 * chosen modes running. */
static uint32_t register_of(const tc_layout *o, const tc_access *a, uint32_t k,
                            uint32_t element)
{
    uint32_t r = 0, stride = 1;
    for (unsigned i = 0; i < o->nmodes[TC_REGISTER]; i++) {
        uint32_t count = o->modes[TC_REGISTER][i].count, digit = 0;
        unsigned n = 0, log2 = (unsigned)__builtin_ctz(a->vector);
        while (n < log2 && a->modes[n] != i)
            n++;
        if (n < log2) {
            digit = element >> n & 1;
        } else {
            digit = k % count;
            k /= count;
        }
        r += stride * digit;
        stride *= count;
    }
    return r;
}

/* The most distinct words of one bank in a phase. */
static unsigned ways_of_phase(const uint32_t *bytes, unsigned lanes,
                              unsigned width)
{
    uint32_t words[32][32];
    unsigned n[32] = {0}, most = 1;
    for (unsigned l = 0; l < lanes; l++)
        for (uint32_t b = 0; b < width; b += 4) {
            uint32_t word = (bytes[l] + b) / 4, bank = word % 32;
            unsigned i = 0;
            while (i < n[bank] && words[bank][i] != word)
                i++;
            if (i == n[bank])
                words[bank][n[bank]++] = word;
            most = n[bank] > most ? n[bank] : most;
        }
    return most;
}

static void is_counted(const tc_layout *shared, const tc_layout *tile,
                       unsigned bits)
{
    const tc_layout *o = tc_layout_offsets(cx, shared, tile);
    ck_assert_ptr_nonnull(o);
    tc_access a = tc_layout_access(o, bits);
    uint32_t width = a.vector * bits / 8;
    ck_assert_uint_le(width, 16);
    unsigned lanes = width == 16 ? 8 : width == 8 ? 16 : 32;
    uint32_t n = tc_layout_size(o, TC_REGISTER) / a.vector;
    for (uint32_t w = 0; w < tc_layout_size(o, TC_WARP); w++)
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t first = 0; first < 32; first += lanes) {
                uint32_t bytes[32];
                for (uint32_t l = 0; l < lanes; l++) {
                    uint32_t lane = first + l;
                    uint32_t at =
                        offset_at(o, register_of(o, &a, k, 0), lane, w);
                    bytes[l] = at * bits / 8;
                    if (at % a.vector)
                        ck_abort_msg("access at %u is not aligned", at);
                    for (uint32_t e = 1; e < a.vector; e++)
                        if (offset_at(o, register_of(o, &a, k, e), lane, w) !=
                            at + e)
                            ck_abort_msg("element %u is not next", e);
                }
                unsigned ways = ways_of_phase(bytes, lanes, width);
                if (ways != a.ways)
                    ck_abort_msg("%u ways, expected %u", a.ways, ways);
            }
}

static const pair shapes[] = {
    {64, 64}, {176, 64}, {64, 80}, {32, 96}, {16, 176}};

START_TEST(test_ways_are_those_of_every_access)
{
    static const unsigned all_bits[] = {8, 16, 32};
    for (int k = 0; k < 5; k++)
        for (int b = 0; b < 3; b++) {
            const int32_t *s = shapes[k];
            unsigned bits = all_bits[b];
            const tc_layout *tiles[] = {
                tc_layout_mma_c(cx, s, 1, 2),
                tc_layout_mma_a(cx, s, 1, 1, bits),
                tc_layout_mma_b(cx, s, 1, 1, bits),
                blocked(s, 1, 8, 4, 8, 2, 1, last_fastest),
                blocked(s, 4, 1, 4, 8, 1, 1, first_fastest),
                blocked(s, 2, 2, 2, 16, 1, 2, last_fastest),
            };
            for (int i = 0; i < 2; i++) {
                const unsigned *order = i ? first_fastest : last_fastest;
                unsigned widest = tc_layout_widest_swizzle(s[order[0]], bits);
                const tc_layout *memories[] = {
                    tc_layout_swizzled(cx, 2, s, order, bits, 0),
                    tc_layout_swizzled(cx, 2, s, order, bits, widest),
                    tc_layout_xor(cx, 2, s, order, 128 / bits, 1, 8),
                    tc_layout_xor(cx, 2, s, order, 1, 1, 8)};
                for (int m = 0; m < 4; m++)
                    for (int t = 0; t < 6; t++)
                        is_counted(memories[m], tiles[t], bits);
            }
        }
}
END_TEST

/* ---- Golden values ---- */

static void accesses(const tc_layout *shared, const tc_layout *tile,
                     unsigned bits, unsigned vector, unsigned ways)
{
    const tc_layout *o = tc_layout_offsets(cx, shared, tile);
    ck_assert_ptr_nonnull(o);
    tc_access a = tc_layout_access(o, bits);
    ck_assert_uint_eq(a.vector, vector);
    ck_assert_uint_eq(a.ways, ways);
}

START_TEST(test_golden_accesses)
{
    static const pair s = {64, 64}, v = {128, 128};
    const tc_layout *c = tc_layout_wgmma_c(cx, s, 1, 1);
    accesses(tc_layout_swizzled(cx, 2, s, last_fastest, 16, 128), c, 16, 2, 1);
    accesses(tc_layout_swizzled(cx, 2, s, last_fastest, 16, 0), c, 16, 2, 8);
    /* V of 8 bits, its keys along the rows. */
    const tc_layout *rows = tc_layout_swizzled(cx, 2, v, last_fastest, 8, 128);
    const tc_layout *keys = tc_layout_swizzled(cx, 2, v, first_fastest, 8, 128);
    const tc_layout *along_rows = blocked(v, 1, 16, 4, 8, 4, 1, last_fastest);
    const tc_layout *along_keys = blocked(v, 16, 1, 8, 4, 1, 4, first_fastest);
    accesses(rows, along_rows, 8, 16, 1);
    accesses(keys, along_rows, 8, 1, 8);
    accesses(keys, along_keys, 8, 16, 1);
}
END_TEST

/* Lane by lane, from its definition: the offsets of both orders of a register
 * mode are those of the plain access, and phases have as many ways as said. */
static void is_staggered(const tc_layout *shared, const tc_layout *tile,
                         unsigned ways)
{
    const tc_layout *o = tc_layout_offsets(cx, shared, tile);
    tc_stagger s = tc_layout_stagger(o, 32);
    tc_access a = tc_layout_access(o, 32);
    ck_assert_uint_eq(s.ways, ways);
    ck_assert(!s.offsets == (ways == a.ways));
    if (!s.offsets)
        return;
    ck_assert_uint_eq(tc_layout_access(s.offsets, 32).vector, a.vector);
    ck_assert_uint_eq(tc_layout_access(s.offsets, 32).ways, ways);
    uint32_t weight = 1, nregs = tc_layout_size(o, TC_REGISTER);
    for (unsigned i = 0; i < s.reg; i++)
        weight *= o->modes[TC_REGISTER][i].count;
    for (uint32_t w = 0; w < tc_layout_size(o, TC_WARP); w++)
        for (uint32_t l = 0; l < 32; l++)
            for (uint32_t r = 0; r < nregs; r++) {
                uint32_t other = l >> s.lane & 1 ? r ^ weight : r;
                if (offset_at(s.offsets, r, l, w) != offset_at(o, other, l, w))
                    ck_abort_msg("register %u of lane %u is elsewhere", r, l);
            }
}

START_TEST(test_staggered)
{
    static const pair s = {64, 64}, narrow = {64, 8};
    const tc_layout *c = tc_layout_wgmma_c(cx, s, 1, 1);
    is_staggered(tc_layout_swizzled(cx, 2, s, last_fastest, 32, 128), c, 1);
    is_staggered(tc_layout_swizzled(cx, 2, s, last_fastest, 32, 64), c, 1);
    is_staggered(tc_layout_swizzled(cx, 2, s, last_fastest, 32, 32), c, 1);
    is_staggered(tc_layout_swizzled(cx, 2, s, last_fastest, 32, 0), c, 2);
    /* No other column. */
    is_staggered(tc_layout_swizzled(cx, 2, narrow, last_fastest, 32, 32),
                 tc_layout_wgmma_c(cx, narrow, 1, 1), 1);
}
END_TEST

START_TEST(test_contiguous)
{
    static const pair s = {64, 64};
    const tc_layout *b = blocked(s, 1, 8, 4, 8, 4, 1, last_fastest);
    ck_assert_uint_eq(tc_layout_contiguous(b, 1, 8), 8);
    ck_assert_uint_eq(tc_layout_contiguous(b, 1, 16), 8);
    ck_assert_uint_eq(tc_layout_contiguous(b, 1, 4), 4);
    ck_assert_uint_eq(tc_layout_contiguous(b, 1, 1), 1);
    ck_assert_uint_eq(tc_layout_contiguous(b, 0, 8), 1);
    ck_assert_uint_eq(tc_layout_contiguous(tc_layout_mma_c(cx, s, 1, 1), 1, 8),
                      2);
    ck_assert_uint_eq(
        tc_layout_contiguous(tc_layout_mma_b(cx, s, 1, 1, 8), 0, 16), 4);
    /* Columns in registers beyond the lanes are not next to each other. */
    ck_assert_uint_eq(
        tc_layout_contiguous(blocked(s, 1, 1, 1, 32, 1, 1, last_fastest), 1, 8),
        1);
    /* Lanes in between: no. */
    tc_layout_spec x = {.rank = 1, .shape = {128}};
    tc_layout_spec_add(&x, TC_REGISTER, 2, 0, 1);
    tc_layout_spec_add(&x, TC_REGISTER, 2, 0, 2);
    tc_layout_spec_add(&x, TC_LANE, 32, 0, 4);
    const tc_layout *l = tc_layout_get(cx, &x);
    ck_assert_uint_eq(tc_layout_contiguous(l, 0, 8), 4);
    x.modes[TC_LANE][0].image[0] = 2;
    x.modes[TC_REGISTER][1].image[0] = 64;
    l = tc_layout_get(cx, &x);
    ck_assert_uint_eq(tc_layout_contiguous(l, 0, 8), 2);
}
END_TEST

/* ---- ldmatrix ---- */

/* The register index with these digits for the modes within, of the matrix, and
 * left over. */
static uint32_t matrix_register(const tc_layout *tile,
                                const tc_matrix_access *m, uint32_t within,
                                uint32_t matrix, uint32_t rest)
{
    uint32_t r = 0, stride = 1;
    for (unsigned i = 0; i < tile->nmodes[TC_REGISTER]; i++) {
        uint32_t count = tile->modes[TC_REGISTER][i].count, digit;
        unsigned w = 0, k = 0;
        while (w < m->nwithin && m->within[w] != i)
            w++;
        while (k < m->nmatrix && m->matrix[k] != i)
            k++;
        if (w < m->nwithin) {
            digit = within >> w & 1;
        } else if (k < m->nmatrix) {
            digit = matrix >> k & 1;
        } else {
            digit = rest % count;
            rest /= count;
        }
        r += stride * digit;
        stride *= count;
    }
    return r;
}

/* The instruction: lane 8 * matrix + i gives the address of row i. Lane l gets
 * of row l / 4 the bytes from 4 * (l % 4) on; with .trans the 16-bit unit in
 * column l / 4 of rows 2 * (l % 4) and the next. */
static uint32_t loaded_from(const tc_matrix_access *m, uint32_t rest,
                            uint32_t w, uint32_t matrix, uint32_t lane,
                            uint32_t within, unsigned bits)
{
    uint32_t per = 32 / bits, row = lane / 4, column = lane % 4 * per + within;
    if (m->trans) { /* of two columns of bytes: column by column */
        row = lane % 4 * 2 + within % 2;
        column = lane / 4 * (16 / bits) + within / 2;
    }
    return offset_at(m->address, rest, 8 * matrix + row, w) + column;
}

static bool is_loaded(const tc_layout *shared, const tc_layout *tile,
                      unsigned bits, tc_matrix_access *m)
{
    if (!tc_layout_matrix_access(cx, shared, tile, bits, m))
        return false;
    const tc_layout *o = tc_layout_offsets(cx, shared, tile);
    ck_assert_uint_eq(1u << m->nmatrix, m->count);
    ck_assert_uint_eq(1u << m->nwithin, 32 / bits);
    uint32_t nrest = tc_layout_size(m->address, TC_REGISTER);
    ck_assert_uint_eq(nrest * m->count * 32 / bits,
                      tc_layout_size(tile, TC_REGISTER));
    ck_assert_uint_eq(tc_layout_size(m->address, TC_LANE), 32);
    for (uint32_t w = 0; w < tc_layout_size(tile, TC_WARP); w++)
        for (uint32_t rest = 0; rest < nrest; rest++)
            for (uint32_t x = 0; x < m->count; x++) {
                uint32_t bytes[8];
                for (uint32_t i = 0; i < 8; i++) {
                    bytes[i] =
                        offset_at(m->address, rest, 8 * x + i, w) * bits / 8;
                    if (bytes[i] % 16)
                        ck_abort_msg("row at byte %u", bytes[i]);
                }
                unsigned ways = ways_of_phase(bytes, 8, 16);
                if (ways != m->ways)
                    ck_abort_msg("%u ways, expected %u", m->ways, ways);
                for (uint32_t lane = 0; lane < 32; lane++)
                    for (uint32_t e = 0; e < 32 / bits; e++) {
                        uint32_t r = matrix_register(tile, m, e, x, rest);
                        uint32_t got =
                            loaded_from(m, rest, w, x, lane, e, bits);
                        if (got != offset_at(o, r, lane, w))
                            ck_abort_msg("lane %u register %u", lane, r);
                    }
            }
    return true;
}

START_TEST(test_ldmatrix_of_operands)
{
    /* Keys and queries as they lie, values by .trans; head dimensions and
     * blocks with odd parts too. */
    static const int32_t dims[] = {16, 32, 64, 80, 96, 128, 176, 192};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            int32_t d = dims[i], n = dims[j];
            unsigned sw = tc_layout_widest_swizzle(d, 16);
            tc_matrix_access m;
            const tc_layout *q =
                tc_layout_swizzled(cx, 2, (pair){n, d}, last_fastest, 16, sw);
            ck_assert(is_loaded(q, tc_layout_mma_a(cx, (pair){n, d}, 1, 1, 16),
                                16, &m));
            ck_assert(!m.trans);
            ck_assert_uint_eq(m.count, 4);
            ck_assert_uint_eq(m.ways, 1);
            /* K transposed: [D, N] of a buffer [N, D]. */
            const tc_layout *k = tc_layout_trans(cx, q, last_fastest);
            const tc_layout *b = tc_layout_mma_b(cx, (pair){d, n}, 1, 1, 16);
            ck_assert(is_loaded(k, b, 16, &m));
            ck_assert(!m.trans);
            ck_assert_uint_eq(m.count, 4);
            ck_assert_uint_eq(m.ways, 1);
            /* V: [N, D]. */
            b = tc_layout_mma_b(cx, (pair){n, d}, 1, 1, 16);
            ck_assert(is_loaded(q, b, 16, &m));
            ck_assert(m.trans);
            ck_assert_uint_eq(m.count, 4);
            ck_assert_uint_eq(m.ways, 1);
            /* Without a swizzle it works too, and shows why there is one. */
            const tc_layout *rows =
                tc_layout_swizzled(cx, 2, (pair){n, d}, last_fastest, 16, 0);
            ck_assert(is_loaded(rows, b, 16, &m));
            ck_assert_uint_eq(m.ways, d == 128 || d == 64 || d == 192 ? 8
                                      : d == 32 || d == 96            ? 4
                                                                      : 2);
        }
}
END_TEST

START_TEST(test_ldmatrix_of_other_widths)
{
    static const pair s = {64, 128};
    tc_matrix_access m;
    const tc_layout *m8 = tc_layout_swizzled(cx, 2, s, last_fastest, 8, 128);
    ck_assert(is_loaded(m8, tc_layout_mma_a(cx, s, 4, 1, 8), 8, &m));
    ck_assert_uint_eq(m.nwithin, 2);
    ck_assert_uint_eq(m.ways, 1);
    const tc_layout *t8 = tc_layout_trans(cx, m8, last_fastest);
    const tc_layout *b8 = tc_layout_mma_b(cx, (pair){128, 64}, 1, 4, 8);
    ck_assert(is_loaded(t8, b8, 8, &m));
    /* There is no transposed one of 8 bits, nor of 32. */
    ck_assert(!is_loaded(m8, tc_layout_mma_b(cx, s, 1, 1, 8), 8, &m));
    const tc_layout *m32 = tc_layout_swizzled(cx, 2, s, last_fastest, 32, 128);
    ck_assert(is_loaded(m32, tc_layout_mma_a(cx, s, 2, 1, 32), 32, &m));
    ck_assert_uint_eq(m.nwithin, 0);
    ck_assert_uint_eq(m.ways, 1);
    ck_assert(!is_loaded(m32, tc_layout_mma_b(cx, s, 1, 1, 32), 32, &m));
    ck_assert(is_loaded(tc_layout_trans(cx, m32, last_fastest),
                        tc_layout_mma_b(cx, (pair){128, 64}, 1, 1, 32), 32,
                        &m));
    /* Too short rows, elements that are not next to each other, 64 bits. */
    const tc_layout *c = tc_layout_mma_c(cx, s, 1, 1);
    ck_assert(
        !is_loaded(tc_layout_xor(cx, 2, s, last_fastest, 2, 1, 8), c, 16, &m));
    ck_assert(!is_loaded(m32, c, 32, &m));
    ck_assert(!is_loaded(m32, c, 64, &m));
    ck_assert(
        !is_loaded(m8, blocked(s, 1, 8, 4, 8, 1, 1, last_fastest), 16, &m));
}
END_TEST

START_TEST(test_ldmatrix_of_pairs_of_bytes)
{
    /* Columns of two products of four warps in turn. */
    static const tc_bit_order columns = {.n = 6, .to = {1, 2, 3, 4, 5, 0}};
    static const pair s = {32, 64};
    tc_matrix_access m;
    const tc_layout *b =
        tc_layout_reorder(cx, tc_layout_mma_b(cx, s, 1, 4, 16), 1, &columns);
    const tc_layout *v = tc_layout_swizzled(cx, 2, s, last_fastest, 8, 64);
    ck_assert(is_loaded(v, b, 8, &m));
    ck_assert(m.trans);
    ck_assert_uint_eq(m.count, 4);
    ck_assert_uint_eq(m.ways, 1);
    /* Columns as they come; elements of 16 bits. */
    ck_assert(!is_loaded(v, tc_layout_mma_b(cx, s, 1, 4, 16), 8, &m));
    ck_assert(!is_loaded(tc_layout_trans(cx, v, last_fastest),
                         tc_layout_trans(cx, b, last_fastest), 16, &m));
    /* A single matrix: by two loads. */
    static const pair small = {8, 64};
    b = tc_layout_reorder(cx, tc_layout_mma_b(cx, small, 1, 4, 16), 1,
                          &columns);
    v = tc_layout_swizzled(cx, 2, small, last_fastest, 8, 64);
    ck_assert(!is_loaded(v, b, 8, &m));
}
END_TEST

START_TEST(test_ldmatrix_moves_fewer_matrices)
{
    tc_matrix_access m;
    static const pair s = {16, 8}, t = {8, 8};
    const tc_layout *rows = tc_layout_swizzled(cx, 2, s, last_fastest, 16, 0);
    ck_assert(is_loaded(rows, tc_layout_mma_c(cx, s, 1, 1), 16, &m));
    ck_assert_uint_eq(m.count, 2);
    rows = tc_layout_swizzled(cx, 2, t, last_fastest, 16, 0);
    ck_assert(is_loaded(rows, tc_layout_mma_c(cx, t, 1, 1), 16, &m));
    ck_assert_uint_eq(m.count, 1);
}
END_TEST

/* ---- Conversions ---- */

static void converts(const tc_layout *from, const tc_layout *to,
                     tc_conversion expected)
{
    ck_assert_int_eq(tc_layout_conversion(cx, from, to), expected);
}

START_TEST(test_conversions)
{
    static const pair s = {64, 64};
    const tc_layout *c = tc_layout_mma_c(cx, s, 4, 1);
    converts(c, c, TC_CONVERT_NOTHING);
    /* P needs none for 16 bits, one exchange for 8. */
    converts(c, tc_layout_mma_a(cx, s, 4, 1, 16), TC_CONVERT_NOTHING);
    converts(c, tc_layout_mma_a(cx, s, 4, 1, 8), TC_CONVERT_SHUFFLES);
    converts(c, tc_layout_mma_a(cx, s, 4, 1, 32), TC_CONVERT_SHUFFLES);
    converts(c, tc_layout_mma_c(cx, s, 2, 2), TC_CONVERT_SHARED);
    converts(c, blocked(s, 1, 8, 4, 8, 4, 1, last_fastest), TC_CONVERT_SHARED);
    /* Other orders of registers. */
    const tc_layout *a = blocked(s, 2, 4, 4, 8, 4, 1, last_fastest);
    const tc_layout *b = blocked(s, 2, 4, 4, 8, 4, 1, first_fastest);
    ck_assert_ptr_ne(a, b);
    /* Their lanes run the other way round. */
    converts(a, b, TC_CONVERT_SHUFFLES);
    tc_layout_spec x;
    tc_layout_spec_of(a, &x);
    tc_mode first = x.modes[TC_REGISTER][0];
    x.modes[TC_REGISTER][0] = x.modes[TC_REGISTER][2];
    x.modes[TC_REGISTER][2] = first;
    converts(a, tc_layout_get(cx, &x), TC_CONVERT_REGISTERS);
    /* Vectors of an accumulator's rows. */
    const tc_layout *row = tc_layout_slice(cx, c, 1);
    converts(row, tc_layout_slice(cx, tc_layout_mma_a(cx, s, 4, 1, 8), 1),
             TC_CONVERT_NOTHING);
    converts(row, tc_layout_slice(cx, tc_layout_mma_c(cx, s, 2, 2), 1),
             TC_CONVERT_SHARED);
    int32_t n = 64, per = 1, lanes = 32, warps = 4;
    const tc_layout *line =
        tc_layout_blocked(cx, 1, &n, &per, &lanes, &warps, (unsigned[]){0});
    converts(row, line, TC_CONVERT_SHARED);
    /* Twelve warps. */
    static const pair t = {192, 64};
    converts(tc_layout_mma_c(cx, t, 12, 1), tc_layout_mma_a(cx, t, 12, 1, 16),
             TC_CONVERT_NOTHING);
    converts(tc_layout_mma_c(cx, t, 3, 1), tc_layout_mma_a(cx, t, 3, 1, 8),
             TC_CONVERT_SHUFFLES);
}
END_TEST

/* ---- Scratch memory ---- */

START_TEST(test_scratch_has_few_conflicts)
{
    static const unsigned all_bits[] = {16, 32};
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < 5; k++) {
            const int32_t *s = shapes[k];
            unsigned bits = all_bits[b];
            const tc_layout *c = tc_layout_mma_c(cx, s, 1, 1);
            const tc_layout *t = blocked(s, 1, 8, 4, 8, 1, 1, last_fastest);
            const tc_layout *m = tc_layout_scratch(cx, c, t, bits);
            ck_assert_ptr_nonnull(m);
            is_counted(m, c, bits);
            is_counted(m, t, bits);
            tc_access store =
                tc_layout_access(tc_layout_offsets(cx, m, c), bits);
            tc_access load =
                tc_layout_access(tc_layout_offsets(cx, m, t), bits);
            ck_assert_uint_eq(store.ways, 1);
            ck_assert_uint_eq(load.ways, 1);
            ck_assert_uint_ge(load.vector * bits, 64);
        }
    /* A transposition in shared memory. */
    static const pair s = {64, 64};
    const tc_layout *a = blocked(s, 1, 1, 1, 32, 4, 1, last_fastest);
    const tc_layout *b = blocked(s, 1, 1, 32, 1, 1, 4, last_fastest);
    const tc_layout *m = tc_layout_scratch(cx, a, b, 32);
    ck_assert_uint_eq(tc_layout_access(tc_layout_offsets(cx, m, a), 32).ways,
                      1);
    ck_assert_uint_eq(tc_layout_access(tc_layout_offsets(cx, m, b), 32).ways,
                      1);
    /* Vectors of rank 1. */
    int32_t n = 64, per = 1, lanes = 32, warps = 4;
    const tc_layout *line =
        tc_layout_blocked(cx, 1, &n, &per, &lanes, &warps, (unsigned[]){0});
    const tc_layout *row = tc_layout_slice(cx, tc_layout_mma_c(cx, s, 4, 1), 1);
    m = tc_layout_scratch(cx, row, line, 32);
    ck_assert_ptr_nonnull(m);
    ck_assert_uint_eq(m->rank, 1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_ways_are_those_of_every_access,
        test_golden_accesses,
        test_staggered,
        test_contiguous,
        test_ldmatrix_of_operands,
        test_ldmatrix_of_other_widths,
        test_ldmatrix_of_pairs_of_bytes,
        test_ldmatrix_moves_fewer_matrices,
        test_conversions,
        test_scratch_has_few_conflicts,
    };
    Suite *s = suite_create("layout_access");
    TCase *t = tcase_create("layout_access");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    return run_suite(s);
}
