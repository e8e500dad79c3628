/* SPDX-License-Identifier: Apache-2.0
 *
 * The well-known layouts. Each is built mode by mode: along every axis the next
 * free stride is kept, and a mode takes it.
 *
 *   mma_c of 64x32 by 4x1 warps
 *     register (0,1) (8,0)                       the fragment
 *     lane     (0,2) (0,4) (1,0) (2,0) (4,0)
 *     warp     (16,0) (32,0)
 *     register (0,8) (0,16)                      what is left, repeated
 */
#include "ir/types/layout.h"

#include <assert.h>
#include <string.h>

enum { NOWHERE = TC_MAX_RANK }; /* an axis: broadcast */

/* A spec being filled, and what of each axis is free: a side is power * odd,
 * strides below `next` and odd multiples of power below `next_odd` are taken.
 */
typedef struct fill {
    tc_layout_spec spec;
    int32_t power[TC_MAX_RANK], next[TC_MAX_RANK];
    int32_t odd[TC_MAX_RANK], next_odd[TC_MAX_RANK];
} fill;

static void begin(fill *f, unsigned rank, const int32_t *shape)
{
    *f = (fill){.spec.rank = rank};
    for (unsigned a = 0; a < rank; a++) {
        f->spec.shape[a] = shape[a];
        f->power[a] = shape[a] & -shape[a];
        f->next[a] = 1;
        f->odd[a] = shape[a] / f->power[a];
        f->next_odd[a] = 1;
    }
}

static uint32_t power_of_two_in(uint32_t n)
{
    return n & (0u - n);
}

/* Deals a power of two `count` to an axis; returns what it has no room for. */
static uint32_t layout_known_put(fill *f, tc_input in, unsigned axis,
                                 uint32_t count)
{
    for (; count > 1 && f->next[axis] < f->power[axis]; count /= 2) {
        tc_layout_spec_add(&f->spec, in, 2, axis, f->next[axis]);
        f->next[axis] *= 2;
    }
    return count;
}

/* An odd count, whole or not at all. */
static uint32_t put_odd(fill *f, tc_input in, unsigned axis, uint32_t count)
{
    int32_t left = f->odd[axis] / f->next_odd[axis];
    if (count == 1 || left % (int32_t)count != 0)
        return count;
    tc_layout_spec_add(&f->spec, in, count, axis,
                       f->power[axis] * f->next_odd[axis]);
    f->next_odd[axis] *= (int32_t)count;
    return 1;
}

/* Broadcast of a power of two, or of an odd count. */
static void put_nowhere(fill *f, tc_input in, uint32_t count)
{
    for (; count > 1 && count % 2 == 0; count /= 2)
        tc_layout_spec_add(&f->spec, in, 2, NOWHERE, 0);
    tc_layout_spec_add(&f->spec, in, count, NOWHERE, 0);
}

static void put_rest(fill *f, tc_input in, unsigned axis)
{
    layout_known_put(f, in, axis, (uint32_t)f->power[axis]);
    put_odd(f, in, axis, (uint32_t)(f->odd[axis] / f->next_odd[axis]));
}

/* ---- Blocked ---- */

/* want[a] along each axis; what has no room goes to the next axes in order. */
static void spread(fill *f, tc_input in, const int32_t *want,
                   const unsigned *order)
{
    unsigned rank = f->spec.rank;
    uint32_t left = 1;
    for (unsigned i = 0; i < rank; i++) {
        uint32_t n = power_of_two_in((uint32_t)want[order[i]]);
        left = layout_known_put(f, in, order[i], n * left);
    }
    for (unsigned i = 0; i < rank; i++)
        left = layout_known_put(f, in, order[i], left);
    put_nowhere(f, in, left);
    for (unsigned i = 0; i < rank; i++) {
        uint32_t n = (uint32_t)want[order[i]];
        n /= power_of_two_in(n);
        for (unsigned k = 0; k < rank; k++)
            n = put_odd(f, in, order[(i + k) % rank], n);
        put_nowhere(f, in, n);
    }
}

const tc_layout *tc_layout_blocked(tc_context *cx, unsigned rank,
                                   const int32_t *shape,
                                   const int32_t *per_thread,
                                   const int32_t *lanes, const int32_t *warps,
                                   const unsigned *order)
{
    fill f;
    begin(&f, rank, shape);
    for (unsigned i = 0; i < rank; i++)
        layout_known_put(&f, TC_REGISTER, order[i],
                         power_of_two_in((uint32_t)per_thread[order[i]]));
    spread(&f, TC_LANE, lanes, order);
    spread(&f, TC_WARP, warps, order);
    for (unsigned i = 0; i < rank; i++)
        put_rest(&f, TC_REGISTER, order[i]);
    return tc_layout_get(cx, &f.spec);
}

/* ---- Matrix fragments ---- */

/* One bit of a fragment, at a stride that need not be the next one. Registers
 * beyond the side are left out, lanes broadcast. */
static void fragment_bit(fill *f, tc_input in, unsigned axis, int32_t stride)
{
    if (stride < f->power[axis]) {
        tc_layout_spec_add(&f->spec, in, 2, axis, stride);
        if (f->next[axis] <= stride)
            f->next[axis] = 2 * stride;
    } else if (in != TC_REGISTER) {
        tc_layout_spec_add(&f->spec, in, 2, NOWHERE, 0);
    }
}

/* All fragments are one: a 32-bit register holds `within` neighbours of the
 * inner axis, lanes run 4 along it and 8 along the outer one, and an outer
 * fragment of 16 needs a second register. */
static void put_fragment(fill *f, unsigned inner, int32_t within, int32_t outer)
{
    unsigned o = 1 - inner;
    for (int32_t n = 1; n < within; n *= 2)
        fragment_bit(f, TC_REGISTER, inner, n);
    fragment_bit(f, TC_LANE, inner, within);
    fragment_bit(f, TC_LANE, inner, 2 * within);
    for (int32_t n = 1; n < 8; n *= 2)
        fragment_bit(f, TC_LANE, o, n);
    if (outer == 16)
        fragment_bit(f, TC_REGISTER, o, 8);
}

/* Axes of the warp grid: where its rows and its columns go. */
static void put_warps(fill *f, int wm, unsigned m, int wn, unsigned n)
{
    const uint32_t counts[2] = {(uint32_t)wm, (uint32_t)wn};
    const unsigned axes[2] = {m, n};
    for (int i = 0; i < 2; i++) {
        uint32_t left = power_of_two_in(counts[i]);
        if (axes[i] != NOWHERE)
            left = layout_known_put(f, TC_WARP, axes[i], left);
        put_nowhere(f, TC_WARP, left);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t left = counts[i] / power_of_two_in(counts[i]);
        if (axes[i] != NOWHERE)
            left = put_odd(f, TC_WARP, axes[i], left);
        put_nowhere(f, TC_WARP, left);
    }
}

static const tc_layout *repeated(tc_context *cx, fill *f, unsigned inner)
{
    put_rest(f, TC_REGISTER, inner);
    put_rest(f, TC_REGISTER, 1 - inner);
    return tc_layout_get(cx, &f->spec);
}

const tc_layout *tc_layout_mma_c(tc_context *cx, const int32_t shape[2], int wm,
                                 int wn)
{
    fill f;
    begin(&f, 2, shape);
    put_fragment(&f, 1, 2, 16);
    put_warps(&f, wm, 0, wn, 1);
    return repeated(cx, &f, 1);
}

const tc_layout *tc_layout_mma_a(tc_context *cx, const int32_t shape[2], int wm,
                                 int wn, unsigned bits)
{
    assert(bits == 8 || bits == 16 || bits == 32);
    fill f;
    begin(&f, 2, shape);
    put_fragment(&f, 1, (int32_t)(32 / bits), 16);
    put_warps(&f, wm, 0, wn, NOWHERE);
    return repeated(cx, &f, 1);
}

const tc_layout *tc_layout_mma_b(tc_context *cx, const int32_t shape[2], int wm,
                                 int wn, unsigned bits)
{
    assert(bits == 8 || bits == 16 || bits == 32);
    fill f;
    begin(&f, 2, shape);
    put_fragment(&f, 0, (int32_t)(32 / bits), 8);
    put_warps(&f, wm, NOWHERE, wn, 1);
    return repeated(cx, &f, 0);
}

/* `unit` rows (columns) a warp: its power of two, then the odd part. */
static bool fits_side(int32_t side, int32_t unit, int warps)
{
    uint32_t power = power_of_two_in((uint32_t)side);
    uint32_t n = power_of_two_in((uint32_t)warps);
    return (uint32_t)unit * n <= power &&
           (uint32_t)side / power % ((uint32_t)warps / n) == 0;
}

bool tc_layout_mma_fits(int32_t m, int32_t n, int wm, int wn)
{
    return fits_side(m, 16, wm) && fits_side(n, 8, wn);
}

/* Columns of a warp group are contiguous: what a group holds first, then the
 * groups. Each holds whole fragments, or all of them hold all. */
static void put_column_groups(fill *f, int groups)
{
    int32_t columns = f->spec.shape[1];
    if (columns % (groups * f->next[1]) != 0) {
        put_nowhere(f, TC_WARP, (uint32_t)groups);
        put_rest(f, TC_REGISTER, 1);
        return;
    }
    int32_t held = columns / groups, power = held & -held;
    for (int32_t n = f->next[1]; n < power; n *= 2)
        tc_layout_spec_add(&f->spec, TC_REGISTER, 2, 1, n);
    tc_layout_spec_add(&f->spec, TC_REGISTER, (uint32_t)(held / power), 1,
                       power);
    tc_layout_spec_add(&f->spec, TC_WARP, (uint32_t)groups, 1, held);
}

const tc_layout *tc_layout_wgmma_c(tc_context *cx, const int32_t shape[2],
                                   int groups_m, int groups_n)
{
    fill f;
    begin(&f, 2, shape);
    put_fragment(&f, 1, 2, 16);
    put_warps(&f, 4 * groups_m, 0, 1, NOWHERE);
    put_column_groups(&f, groups_n);
    put_rest(&f, TC_REGISTER, 0);
    return tc_layout_get(cx, &f.spec);
}

const tc_layout *tc_layout_wgmma_a(tc_context *cx, const int32_t shape[2],
                                   int groups_m, int groups_n, unsigned bits)
{
    assert(bits == 8 || bits == 16 || bits == 32);
    fill f;
    begin(&f, 2, shape);
    put_fragment(&f, 1, (int32_t)(32 / bits), 16);
    put_warps(&f, 4 * groups_m, 0, 1, NOWHERE);
    put_nowhere(&f, TC_WARP, (uint32_t)groups_n);
    return repeated(cx, &f, 1);
}

/* ---- Shared memory ---- */

unsigned tc_layout_widest_swizzle(int32_t row_elements, unsigned bits)
{
    uint64_t row_bits = (uint64_t)row_elements * bits;
    for (unsigned swizzle = 128; swizzle >= 32; swizzle /= 2)
        if (row_bits % (8 * swizzle) == 0)
            return swizzle;
    return 0;
}

/* Row major; order[0] is the fastest axis. */
static void put_rows(fill *f, const unsigned *order, int32_t panel)
{
    layout_known_put(f, TC_OFFSET, order[0], (uint32_t)panel);
    if (panel == f->spec.shape[order[0]])
        put_rest(f, TC_OFFSET, order[0]);
    for (unsigned i = 1; i < f->spec.rank; i++)
        put_rest(f, TC_OFFSET, order[i]);
    put_rest(f, TC_OFFSET, order[0]);
}

/* Xors chunk bits into the images of the modes whose own stride is an address
 * bit from 128 bytes on. */
static void put_swizzle(fill *f, unsigned axis, unsigned bits, unsigned swizzle)
{
    uint64_t stride = bits; /* in bits: elements may be narrower than a byte */
    for (unsigned i = 0; i < f->spec.nmodes[TC_OFFSET]; i++) {
        tc_mode *m = &f->spec.modes[TC_OFFSET][i];
        for (unsigned chunk = 16; chunk < swizzle; chunk *= 2)
            if (stride == 8 * 8 * (uint64_t)chunk && m->count == 2)
                m->image[axis] ^= (int32_t)(chunk * 8 / bits);
        stride *= m->count;
    }
}

const tc_layout *tc_layout_swizzled(tc_context *cx, unsigned rank,
                                    const int32_t *shape, const unsigned *order,
                                    unsigned bits, unsigned swizzle)
{
    fill f;
    begin(&f, rank, shape);
    int32_t panel = swizzle ? (int32_t)(swizzle * 8 / bits) : shape[order[0]];
    assert(shape[order[0]] % panel == 0);
    put_rows(&f, order, panel);
    put_swizzle(&f, order[0], bits, swizzle);
    return tc_layout_get(cx, &f.spec);
}

const tc_layout *tc_layout_xor(tc_context *cx, unsigned rank,
                               const int32_t *shape, const unsigned *order,
                               unsigned vec, unsigned per, unsigned phases)
{
    fill f;
    begin(&f, rank, shape);
    put_rows(&f, order, shape[order[0]]);
    for (unsigned i = 0; rank > 1 && i < f.spec.nmodes[TC_OFFSET]; i++) {
        tc_mode *m = &f.spec.modes[TC_OFFSET][i];
        unsigned row = m->count == 2 ? (unsigned)m->image[order[1]] : 0;
        unsigned column = row / per * vec;
        if (row >= per && row / per < phases &&
            row < (unsigned)f.power[order[1]] &&
            column < (unsigned)f.power[order[0]])
            m->image[order[0]] ^= (int32_t)column;
    }
    return tc_layout_get(cx, &f.spec);
}
