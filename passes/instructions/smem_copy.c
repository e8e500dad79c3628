/* SPDX-License-Identifier: Apache-2.0
 *
 * Transposes bytes by instructions for units of 16 bits: ldmatrix.trans reads
 * pairs, prmt separates them, stmatrix writes quadruples.
 *
 *   from   x0 y0 ..   row k = 0        to   x0 x1 x2 x3 ..   row d = 0
 *          x1 y1 ..   row 1                 y0 y1 y2 y3 ..   row 1
 *
 * A matrix has 8 rows of 8 pairs. After ldmatrix.trans lane 4 g + t holds pair
 * g of rows 2 t and 2 t + 1. So two matrices give it x0 y0 x1 y1 and x2 y2 x3
 * y3, of d = 2 g and 2 g + 1: the even bytes are four elements of row d, the
 * odd ones four of row d + 1. A lane of stmatrix provides bytes 4 t to 4 t + 3
 * of row g. The rows that the lane has read determine these bytes: any order of
 * 16 rows in `to` is possible.
 *
 * Rows 0, 2, .. 14 of a matrix would be written with two ways of bank
 * conflicts: lanes with g >= 4 write the odd row first.
 */
#include "passes/instructions/smem_copy.h"

enum { CHUNK = 16 }; /* bytes of a row of a matrix */

/* Sets the reason and is false, as tc_error is. */
#define REFUSE(cx, why, ...)                                                   \
    (*(why) = tc_arena_printf(&(cx)->diag_arena, __VA_ARGS__), false)

/* Do 16 bytes in one piece lie along the axis? order[i]: where bit i of them
 * leads. */
static bool is_along(const tc_layout *l, unsigned axis, int32_t order[4])
{
    int32_t all = 0;
    if (l->nmodes[TC_OFFSET] < 4 || l->shape[axis] % CHUNK)
        return false;
    for (unsigned i = 0; i < 4; i++) {
        const tc_mode *m = &l->modes[TC_OFFSET][i];
        order[i] = m->image[axis];
        if (m->count != 2 || m->image[1 - axis])
            return false;
        all |= order[i];
    }
    return all == CHUNK - 1;
}

static void add_bit(tc_layout_spec *s, unsigned axis, int32_t image)
{
    tc_layout_spec_add(s, TC_LANE, 2, axis, image);
}

/* Lane: 3 bits are the row of a matrix, 2 the matrix. Of ldmatrix the first of
 * these two has the other rows of 16, of stmatrix the other ones of a pair. */
static void add_reading_lanes(tc_layout_spec *s, unsigned along,
                              const int32_t order[4])
{
    add_bit(s, 1 - along, order[0]);
    add_bit(s, 1 - along, order[2]);
    add_bit(s, 1 - along, order[3]);
    add_bit(s, 1 - along, order[1]);
}

static void add_writing_lanes(tc_layout_spec *s, unsigned along)
{
    add_bit(s, along, 2);
    add_bit(s, along, 4);
    add_bit(s, along, 8 + 1);
    add_bit(s, along, 1);
}

/* The other bit of the matrix, and the steps. */
static const tc_layout *addresses(const tc_type *t, tc_layout_spec *s,
                                  unsigned along, tc_smem_copy *c,
                                  unsigned *bands)
{
    bool wide = s->shape[along] % (2 * CHUNK) == 0;
    int32_t step = wide ? 2 * CHUNK : CHUNK, band = wide ? CHUNK : 2 * CHUNK;
    c->nsteps = (unsigned)(s->shape[along] / step);
    c->nbands = (unsigned)(s->shape[1 - along] / band);
    add_bit(s, wide ? along : 1 - along, CHUNK);
    tc_layout_spec_add(s, TC_REGISTER, c->nsteps, along, step);
    tc_layout_spec_add(s, TC_REGISTER, c->nbands, 1 - along, band);
    tc_context *cx = t->layout->cx;
    const tc_layout *l = tc_layout_offsets(cx, t->layout, tc_layout_get(cx, s));
    uint32_t n = 1;
    for (*bands = 0; l && n < c->nsteps; ++*bands)
        n *= l->modes[TC_REGISTER][*bands].count;
    return n == c->nsteps ? l : NULL;
}

static bool check_types(tc_context *cx, const tc_type *from, const tc_type *to,
                        const char **why)
{
    if (tc_type_bytes(to->elem) != 1)
        return REFUSE(cx, why, "elements are %s, expected 8 bits",
                      tc_type_name(cx, to->elem));
    if (from->rank != 2 || to->rank != 2)
        return REFUSE(cx, why, "%u axes, expected 2", to->rank);
    return true;
}

bool tc_smem_copy_of(tc_context *cx, const tc_type *from, const tc_type *to,
                     tc_smem_copy *out, const char **why)
{
    int32_t order[4], rows[4];
    if (!check_types(cx, from, to, why))
        return false;
    *out = (tc_smem_copy){.along = is_along(from->layout, 1, rows)};
    unsigned along = out->along;
    if (!is_along(from->layout, along, rows) || rows[0] != 1 || rows[1] != 2 ||
        rows[2] != 4 || !is_along(to->layout, 1 - along, order))
        return REFUSE(cx, why,
                      "from %s to %s, expected 16 bytes in one piece along "
                      "one axis, and then along the other one",
                      tc_type_name(cx, from), tc_type_name(cx, to));
    tc_layout_spec s = {.rank = 2};
    tc_type_sides(to, s.shape);
    if (s.shape[along] % (2 * CHUNK) && s.shape[1 - along] % (2 * CHUNK))
        return REFUSE(cx, why, "%s, expected a side of a multiple of 32",
                      tc_type_name(cx, to));
    tc_layout_spec read = s, write = s;
    add_reading_lanes(&read, along, order);
    add_writing_lanes(&write, along);
    out->read = addresses(from, &read, along, out, &out->read_bands);
    out->write = addresses(to, &write, along, out, &out->write_bands);
    return (out->read && out->write) ||
           REFUSE(cx, why, "%s has no linear addresses",
                  tc_type_name(cx, out->read ? to : from));
}
