/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of an access to memory: vector widths, bank conflicts, ldmatrix.
 *
 * Shared memory has 32 banks of 4 bytes. An access of 16 bytes a lane runs in
 * phases of 8 lanes, of 8 bytes in phases of 16, narrower ones in one. All
 * phases conflict alike, for any registers and warps: their part of an address
 * is the same for all lanes, so xored it permutes the banks and added it
 * rotates them. So only one phase is examined, lane by lane.
 */
#include "ir/types/layout.h"

#include <string.h>

/* ---- Vectors ---- */

/* Is 2^n, n < k, the image along the axis of just the modes in `chosen`, and is
 * every other image a multiple of 2^k? */
static bool is_vector(const tc_layout *l, unsigned axis, unsigned k,
                      const unsigned *chosen)
{
    int32_t below = (1 << k) - 1;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < l->nmodes[in]; i++) {
            bool is_chosen = false;
            for (unsigned n = 0; n < k; n++)
                is_chosen |= in == TC_REGISTER && chosen[n] == i;
            if (!is_chosen && l->modes[in][i].image[axis] & below)
                return false;
        }
    return true;
}

static bool is_unit(const tc_layout *l, unsigned axis, const tc_mode *m,
                    int32_t stride)
{
    for (unsigned a = 0; a < l->rank; a++)
        if (m->image[a] != (a == axis ? stride : 0))
            return false;
    return m->count == 2;
}

unsigned tc_layout_contiguous(const tc_layout *l, unsigned axis, unsigned max)
{
    static const unsigned in_order[] = {0, 1, 2, 3, 4, 5, 6, 7};
    unsigned k = 0;
    while (k < 8 && k < l->nmodes[TC_REGISTER] && 2u << k <= max &&
           is_unit(l, axis, &l->modes[TC_REGISTER][k], 1 << k))
        k++;
    while (!is_vector(l, axis, k, in_order))
        k--;
    return 1u << k;
}

/* ---- Banks ---- */

/* The words that a phase touches; how many of one bank at most. */
typedef struct words {
    unsigned n;
    uint32_t word[128];
} words;

static void touch(words *w, uint32_t word)
{
    for (unsigned i = 0; i < w->n; i++)
        if (w->word[i] == word)
            return;
    w->word[w->n++] = word;
}

/* `unit` words a bank: 1, or 4 for the 16-byte groups of ldmatrix. */
static unsigned most_of_one_bank(const words *w, uint32_t nbanks)
{
    unsigned counts[32] = {0}, most = 0;
    for (unsigned i = 0; i < w->n; i++) {
        unsigned n = ++counts[w->word[i] % nbanks];
        most = n > most ? n : most;
    }
    return most;
}

static uint32_t lane_offset(const tc_layout *offsets, uint32_t lane)
{
    int32_t coord[TC_MAX_RANK];
    tc_layout_apply(offsets, (uint32_t[TC_INPUT_COUNT]){0, lane, 0, 0}, coord);
    return (uint32_t)coord[0];
}

static unsigned bank_ways(const tc_layout *offsets, uint32_t unit_bytes,
                          uint32_t vector_bytes)
{
    uint32_t lanes = vector_bytes >= 16 ? 8 : vector_bytes >= 8 ? 16 : 32;
    uint32_t all = tc_layout_size(offsets, TC_LANE);
    words w = {0};
    for (uint32_t lane = 0; lane < lanes && lane < all; lane++) {
        uint32_t at = lane_offset(offsets, lane) * unit_bytes;
        for (uint32_t b = 0; b < vector_bytes; b += 4)
            touch(&w, (at + b) / 4);
    }
    return most_of_one_bank(&w, 32);
}

/* The register modes whose offsets are 1, 2, 4, ... */
static unsigned vector_modes(const tc_layout *offsets, unsigned most,
                             unsigned modes[4])
{
    unsigned k = 0;
    for (; k < 4 && 2u << k <= most; k++) {
        unsigned i = 0;
        while (i < offsets->nmodes[TC_REGISTER] &&
               !is_unit(offsets, 0, &offsets->modes[TC_REGISTER][i], 1 << k))
            i++;
        if (i == offsets->nmodes[TC_REGISTER])
            break;
        modes[k] = i;
    }
    while (!is_vector(offsets, 0, k, modes))
        k--;
    return k;
}

tc_access tc_layout_access(const tc_layout *offsets, unsigned bits)
{
    uint32_t bytes = bits <= 8 ? 1 : bits / 8;
    tc_access a = {0};
    unsigned k = vector_modes(offsets, 16 / bytes, a.modes);
    a.vector = 1u << k;
    a.ways = bank_ways(offsets, bytes, a.vector * bytes);
    return a;
}

/* ---- Staggered accesses ----
 *
 * Registers of m64 products hold two f32 of row l / 4 in lane l, and swizzled
 * rows of 128 bytes keep what two neighbouring rows have in one column in the
 * same banks. Odd rows that store another column first meet no even row. */

static bool is_chosen(const tc_access *a, unsigned reg)
{
    for (unsigned i = 0; 1u << i < a->vector; i++)
        if (a->modes[i] == reg)
            return true;
    return false;
}

static bool is_xored(const tc_layout *offsets, const tc_mode *m)
{
    return m->count == 2 && m->image[0] > 0 && m->image[0] < offsets->period[0];
}

static const tc_layout *staggered(const tc_layout *offsets, unsigned lane,
                                  unsigned reg)
{
    tc_layout_spec s;
    tc_layout_spec_of(offsets, &s);
    s.modes[TC_LANE][lane].image[0] ^= s.modes[TC_REGISTER][reg].image[0];
    return tc_layout_get(offsets->cx, &s);
}

tc_stagger tc_layout_stagger(const tc_layout *offsets, unsigned bits)
{
    uint32_t bytes = bits <= 8 ? 1 : bits / 8;
    tc_access a = tc_layout_access(offsets, bits);
    tc_stagger best = {.ways = a.ways};
    for (unsigned r = 0; a.ways > 1 && r < offsets->nmodes[TC_REGISTER]; r++)
        for (unsigned l = 0; l < offsets->nmodes[TC_LANE]; l++) {
            if (is_chosen(&a, r) ||
                !is_xored(offsets, &offsets->modes[TC_REGISTER][r]) ||
                !is_xored(offsets, &offsets->modes[TC_LANE][l]))
                continue;
            const tc_layout *to = staggered(offsets, l, r);
            unsigned ways = bank_ways(to, bytes, a.vector * bytes);
            if (ways < best.ways)
                best = (tc_stagger){to, l, r, ways};
        }
    return best;
}

/* ---- ldmatrix ----
 *
 * A matrix is 8 rows of 16 bytes, each at an address that one lane gives. Lane
 * l then holds 32 bits: of row l / 4 the ones at 4 * (l % 4) bytes; with
 * .trans, of 16-bit units in column l / 4 those of rows 2 * (l % 4) and one
 * more. */

/* Modes that count what lies within one row of 16 bytes have the images 1, 2,
 * 4, ... in this order; all others keep away from those bits. */
typedef struct row_modes {
    unsigned n;
    const tc_mode *modes[4];
} row_modes;

static bool is_row_mode(const row_modes *r, const tc_mode *m)
{
    for (unsigned i = 0; i < r->n; i++)
        if (r->modes[i] == m)
            return true;
    return false;
}

static bool rows_fit(const tc_layout *offsets, const row_modes *r)
{
    int32_t below = (1 << r->n) - 1;
    for (unsigned i = 0; i < r->n; i++)
        if (r->modes[i]->count != 2 || r->modes[i]->image[0] != 1 << i)
            return false;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < offsets->nmodes[in]; i++) {
            const tc_mode *m = &offsets->modes[in][i];
            if (!is_row_mode(r, m) && m->image[0] & below)
                return false;
        }
    return true;
}

/* The register mode with that offset. */
static const tc_mode *register_at(const tc_layout *offsets, int32_t image)
{
    for (unsigned i = 0; i < offsets->nmodes[TC_REGISTER]; i++)
        if (is_unit(offsets, 0, &offsets->modes[TC_REGISTER][i], image))
            return &offsets->modes[TC_REGISTER][i];
    return NULL;
}

static unsigned register_index(const tc_layout *offsets, const tc_mode *m)
{
    return (unsigned)(m - offsets->modes[TC_REGISTER]);
}

/* Neighbours in a 32-bit register are neighbours in memory. */
static bool plan_straight(const tc_layout *offsets, unsigned bits,
                          tc_matrix_access *out, const tc_mode *rows[3])
{
    const tc_mode *lanes = offsets->modes[TC_LANE];
    row_modes r = {0};
    out->nwithin = 0;
    for (unsigned n = 1; n < 32 / bits; n *= 2) {
        const tc_mode *m = register_at(offsets, (int32_t)n);
        if (!m)
            return false;
        out->within[out->nwithin++] = register_index(offsets, m);
        r.modes[r.n++] = m;
    }
    r.modes[r.n++] = &lanes[0];
    r.modes[r.n++] = &lanes[1];
    out->trans = false;
    for (int i = 0; i < 3; i++)
        rows[i] = &lanes[2 + i];
    return rows_fit(offsets, &r);
}

/* Neighbours in a 32-bit register are in two rows. A unit of 16 bits has two
 * elements of 8: those of a thread's two rows then come in turn. */
static bool plan_trans(const tc_layout *offsets, unsigned bits,
                       tc_matrix_access *out, const tc_mode *rows[3])
{
    const tc_mode *lanes = offsets->modes[TC_LANE];
    row_modes r = {0};
    if (bits > 16 || offsets->nmodes[TC_REGISTER] == 0)
        return false;
    const tc_mode *pair = &offsets->modes[TC_REGISTER][0];
    const tc_mode *unit = bits == 8 ? register_at(offsets, 1) : NULL;
    if (pair->count != 2 || pair->image[0] == 0 || (bits == 8 && !unit) ||
        pair == unit)
        return false;
    out->trans = true;
    out->nwithin = 1;
    out->within[0] = 0;
    if (unit) {
        out->within[out->nwithin++] = register_index(offsets, unit);
        r.modes[r.n++] = unit;
    }
    for (int i = 2; i < 5; i++)
        r.modes[r.n++] = &lanes[i];
    rows[0] = pair;
    rows[1] = &lanes[0];
    rows[2] = &lanes[1];
    return rows_fit(offsets, &r);
}

/* Two further registers' modes select the matrix, and the others are left. */
static void choose_matrices(const tc_layout *offsets, tc_matrix_access *out,
                            tc_layout_spec *address)
{
    out->nmatrix = 0;
    for (unsigned i = 0; i < offsets->nmodes[TC_REGISTER]; i++) {
        const tc_mode *m = &offsets->modes[TC_REGISTER][i];
        bool taken = false;
        for (unsigned n = 0; n < out->nwithin; n++)
            taken |= out->within[n] == i;
        if (taken)
            continue;
        if (m->count == 2 && m->image[0] && out->nmatrix < 2)
            out->matrix[out->nmatrix++] = i;
        else
            tc_layout_spec_add_mode(address, TC_REGISTER, m);
    }
    out->count = 1u << out->nmatrix;
}

static const tc_layout *row_addresses(tc_context *cx, const tc_layout *offsets,
                                      const tc_mode *const rows[3],
                                      tc_matrix_access *out)
{
    tc_layout_spec s = {.rank = 1, .shape = {offsets->shape[0]}};
    choose_matrices(offsets, out, &s);
    for (int i = 0; i < 3; i++)
        tc_layout_spec_add_mode(&s, TC_LANE, rows[i]);
    for (unsigned i = 0; i < 2; i++)
        if (i < out->nmatrix)
            tc_layout_spec_add_mode(
                &s, TC_LANE, &offsets->modes[TC_REGISTER][out->matrix[i]]);
        else
            tc_layout_spec_add(&s, TC_LANE, 2, 0, 0);
    for (unsigned i = 0; i < offsets->nmodes[TC_WARP]; i++)
        tc_layout_spec_add_mode(&s, TC_WARP, &offsets->modes[TC_WARP][i]);
    return tc_layout_get(cx, &s);
}

/* Rows of a matrix that lie in the same 16-byte group of banks. */
static unsigned matrix_ways(const tc_layout *address, unsigned bits)
{
    words groups = {0};
    for (uint32_t lane = 0; lane < 8; lane++)
        touch(&groups, lane_offset(address, lane) * bits / 128);
    return most_of_one_bank(&groups, 8);
}

static bool has_five_lane_bits(const tc_layout *l)
{
    return l->nmodes[TC_LANE] == 5 && tc_layout_size(l, TC_LANE) == 32;
}

bool tc_layout_matrix_access(tc_context *cx, const tc_layout *shared,
                             const tc_layout *tile, unsigned bits,
                             tc_matrix_access *out)
{
    const tc_mode *rows[3];
    if ((bits != 8 && bits != 16 && bits != 32) || !has_five_lane_bits(tile))
        return false;
    const tc_layout *offsets = tc_layout_offsets(cx, shared, tile);
    if (!offsets || (!plan_straight(offsets, bits, out, rows) &&
                     !plan_trans(offsets, bits, out, rows)))
        return false;
    out->address = row_addresses(cx, offsets, rows, out);
    /* Bytes of one matrix: two loads of 16 bits bring them too, in order. */
    if (bits == 8 && out->trans && out->count == 1)
        return false;
    out->ways = matrix_ways(out->address, bits);
    return true;
}
