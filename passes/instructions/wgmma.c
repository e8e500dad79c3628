/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers as operands of wgmma.
 *
 * The instruction reads panels: `width` bytes (the swizzle's, 16 without one)
 * along the fast axis, eight of those consecutively along the slow axis, then a
 * distance `slow` to the next eight, and a distance `fast` to the next panel.
 * That is linear in the bits of the coordinates, and so is the buffer's layout
 * (tc_layout_offsets): they agree everywhere if they agree on the powers of
 * two.
 *
 *   128x128 x bf16, #swizzle128 as A: K is the fast axis, 64 of it a panel
 *     column 1, 2, .. 32: byte 2, 4, .. 64       column 64: fast = 16384
 *     row 1, 2, 4: byte 128 ^ 16, 256 ^ 32, 512 ^ 64
 *     row 8, 16, .. 64: byte 1024, 2048, .. 8192: slow = 1024
 *   K steps of 16 at 0, 32, 64, 96, 16384, ...; the second 64 rows at 8192
 */
#include "passes/instructions/wgmma.h"

#include "passes/instructions/mma.h"
#include "passes/target/machine_model.h"

enum { MOST_N = 256, CHUNK = 16, GROUP = 8 };

static unsigned wgmma_bits_of(const char *instr)
{
    return tc_mma_is_group(instr) ? tc_mma_bits(instr) : 0;
}

unsigned tc_wgmma_k(const char *instr)
{
    unsigned bits = wgmma_bits_of(instr);
    return bits ? 256 / bits : 0;
}

unsigned tc_wgmma_n(int32_t columns)
{
    for (int32_t n = MOST_N; n >= 8; n -= 8)
        if (columns % n == 0)
            return (unsigned)n;
    return 0;
}

bool tc_wgmma_has_columns(tc_kind kind, int32_t columns)
{
    unsigned n = tc_wgmma_n(columns);
    return kind != TC_I8 || n <= 32 || n % 16 == 0;
}

/* ---- Panels ---- */

typedef struct places {
    const tc_layout
        *offsets; /* of register coordinate0 + side0 * coordinate1 */
    int32_t side[2];
    uint32_t bytes; /* of an element */
} places;

static bool places_of(tc_context *cx, const tc_type *t, places *out)
{
    tc_layout_spec s = {.rank = 2};
    tc_type_sides(t, s.shape);
    for (unsigned axis = 0; axis < 2; axis++)
        tc_layout_spec_add(&s, TC_REGISTER, (uint32_t)s.shape[axis], axis, 1);
    *out = (places){tc_layout_offsets(cx, t->layout, tc_layout_get(cx, &s)),
                    {s.shape[0], s.shape[1]},
                    tc_type_bytes(t->elem)};
    return out->offsets;
}

/* Where element `i` along the axis begins, 0 along the other one. */
static uint32_t byte_of(const places *b, unsigned axis, uint32_t i)
{
    uint32_t index[TC_INPUT_COUNT] = {0};
    int32_t coord[TC_MAX_RANK];
    index[TC_REGISTER] = axis ? i * (uint32_t)b->side[0] : i;
    tc_layout_apply(b->offsets, index, coord);
    return (uint32_t)coord[0] * b->bytes;
}

typedef struct panels {
    unsigned fast_axis;
    unsigned swizzle;    /* bytes; 0: none */
    uint32_t width;      /* of a panel: bytes */
    uint32_t fast, slow; /* distances in bytes */
} panels;

static uint32_t side_bytes(const places *b, const panels *p)
{
    return (uint32_t)b->side[p->fast_axis] * b->bytes;
}

/* The offset that the instruction adds for element i along an axis, and *xored,
 * which it xors. */
static uint32_t wanted(const places *b, const panels *p, unsigned axis,
                       uint32_t i, uint32_t *xored)
{
    *xored = 0;
    if (axis == p->fast_axis)
        return i * b->bytes < p->width ? i * b->bytes
                                       : i * b->bytes / p->width * p->fast;
    if (i >= GROUP)
        return i / GROUP * p->slow;
    if (p->swizzle) /* address bits 4.. with bits 7.. */
        *xored = (i * p->width >> 3) & (p->swizzle - CHUNK);
    return i * p->width;
}

/* Powers of two up to the odd part of the side. What they add has no bits in
 * common where offsets are xored. */
static bool axis_fits(const places *b, const panels *p, unsigned axis,
                      uint32_t *seen)
{
    uint32_t side = (uint32_t)b->side[axis], power = side & -side, xored;
    uint32_t low = (uint32_t)b->offsets->period[0] * b->bytes - 1;
    for (uint32_t i = 1; i < side && i <= power; i *= 2) {
        uint32_t add = wanted(b, p, axis, i, &xored);
        if (byte_of(b, axis, i) != (add ^ xored) || *seen & add & low)
            return false;
        *seen |= add & low;
    }
    return true;
}

static bool panels_fit(const places *b, unsigned fast_axis, unsigned swizzle,
                       panels *out)
{
    unsigned slow_axis = 1 - fast_axis;
    panels p = {fast_axis, swizzle, swizzle ? swizzle : CHUNK, 0, 0};
    uint32_t group = GROUP * p.width, seen = 0;
    if (side_bytes(b, &p) % p.width || b->side[slow_axis] % GROUP)
        return false;
    p.slow = b->side[slow_axis] > GROUP ? byte_of(b, slow_axis, GROUP) : group;
    p.fast = p.slow * (uint32_t)b->side[slow_axis] / GROUP;
    if (side_bytes(b, &p) > p.width)
        p.fast = byte_of(b, fast_axis, p.width / b->bytes);
    *out = p;
    /* The xor is of absolute address bits. */
    return p.slow % group == 0 && p.fast % group == 0 &&
           (uint32_t)b->offsets->period[0] * b->bytes % group == 0 &&
           axis_fits(b, &p, fast_axis, &seen) &&
           axis_fits(b, &p, slow_axis, &seen);
}

static bool panels_of(const places *b, unsigned fast_axis, panels *out)
{
    for (unsigned swizzle = 128; swizzle >= 32; swizzle /= 2)
        if (panels_fit(b, fast_axis, swizzle, out))
            return true;
    return panels_fit(b, fast_axis, 0, out);
}

/* ---- Operands ---- */

static void fill_k_major(const panels *p, tc_wgmma_operand *o)
{
    o->k_major = true;
    o->sbo = p->slow;
    o->row_unit = GROUP;
    o->row_bytes = o->rows / GROUP * p->slow;
    /* An instruction reads 32 bytes of a row; of a panel without a swizzle two,
     * at the distance lbo. */
    o->lbo = p->swizzle ? CHUNK : p->fast;
    o->step_bytes = p->swizzle ? 2 * CHUNK : 2 * p->fast;
    o->panel_steps = p->swizzle ? p->swizzle / (2 * CHUNK) : o->nsteps;
    o->panel_bytes = p->fast;
}

static void fill_mn_major(const places *b, const panels *p, tc_wgmma_operand *o)
{
    o->k_major = false;
    o->lbo = p->swizzle ? p->fast : p->slow;
    o->sbo = p->swizzle ? p->slow : p->fast;
    o->row_unit = p->width / b->bytes;
    o->row_bytes =
        (uint32_t)((uint64_t)o->rows * b->bytes * p->fast / p->width);
    o->step_bytes = 2 * p->slow; /* 16 rows of K */
    o->panel_steps = o->nsteps;
    o->panel_bytes = 0;
}

static bool refuse(const char **why, const char *reason)
{
    *why = reason;
    return false;
}

static bool check_sides(tc_context *cx, const places *b, unsigned row_axis,
                        unsigned k, unsigned unit, const char **why)
{
    int32_t rows = b->side[row_axis], depth = b->side[1 - row_axis];
    if (rows % (int32_t)unit)
        return refuse(why,
                      tc_arena_printf(&cx->diag_arena,
                                      "%d %s, expected a multiple of %u", rows,
                                      row_axis ? "columns" : "rows", unit));
    if (depth % (int32_t)k)
        return refuse(why, tc_arena_printf(&cx->diag_arena,
                                           "K is %d, expected a multiple of %u",
                                           depth, k));
    return true;
}

static bool check_type(tc_context *cx, const tc_type *t, const char *instr,
                       const char **why)
{
    unsigned bits = wgmma_bits_of(instr);
    if (!bits)
        return refuse(why, "this instruction takes no buffers by descriptors");
    if (t->kind != TC_SMEM || t->rank != 2)
        return refuse(why, "expected a buffer in shared memory with two axes");
    if (tc_type_bytes(t->elem) * 8 != bits)
        return refuse(why,
                      tc_arena_printf(&cx->diag_arena,
                                      "elements of %u bits, %s has %u",
                                      tc_type_bytes(t->elem) * 8, instr, bits));
    if (bits == 32)
        return refuse(why, "f32 in shared memory is cut to tf32, not rounded");
    return true;
}

static bool fill_operand(const places *b, unsigned row_axis,
                         tc_wgmma_operand *o, const char **why)
{
    panels p;
    if (panels_of(b, 1 - row_axis, &p))
        fill_k_major(&p, o);
    else if (!panels_of(b, row_axis, &p))
        return refuse(why, "its layout has no panels of 128, 64 or 32 bytes "
                           "with their swizzle, expected #swizzle128, "
                           "#swizzle64 or #swizzle32");
    else if (b->bytes != 2)
        return refuse(why, "elements of 8 bits are read along K, expected K as "
                           "the fastest axis");
    else
        fill_mn_major(b, &p, o);
    o->swizzle = p.swizzle;
    return true;
}

bool tc_wgmma_operand_of(tc_context *cx, const tc_type *t, unsigned i,
                         const char *instr, tc_wgmma_operand *out,
                         const char **why)
{
    places b;
    unsigned k = tc_wgmma_k(instr), row_axis = i;
    if (!check_type(cx, t, instr, why))
        return false;
    if (!places_of(cx, t, &b))
        return refuse(why, "its layout has no linear addresses");
    if (!check_sides(cx, &b, row_axis, k, i ? 8 : TC_WARPGROUP_ROWS, why))
        return false;
    *out = (tc_wgmma_operand){.rows = i ? tc_wgmma_n(b.side[1]) : 64,
                              .nsteps = (unsigned)b.side[1 - row_axis] / k};
    if (!fill_operand(&b, row_axis, out, why))
        return false;
    if (out->rows != (unsigned)b.side[row_axis] && out->rows % out->row_unit)
        return refuse(
            why, tc_arena_printf(&cx->diag_arena,
                                 "instructions of %u columns do not begin at "
                                 "panels of %u, expected a narrower swizzle",
                                 out->rows, out->row_unit));
    return true;
}

uint32_t tc_wgmma_step_byte(const tc_wgmma_operand *o, unsigned step)
{
    return step / o->panel_steps * o->panel_bytes +
           step % o->panel_steps * o->step_bytes;
}

uint32_t tc_wgmma_row_byte(const tc_wgmma_operand *o, unsigned row)
{
    return (uint32_t)((uint64_t)row * o->row_bytes / o->rows);
}

uint64_t tc_wgmma_descriptor(const tc_wgmma_operand *o)
{
    uint64_t layout = o->swizzle == 128  ? 1
                      : o->swizzle == 64 ? 2
                      : o->swizzle == 32 ? 3
                                         : 0;
    return layout << 62 | (uint64_t)(o->sbo >> 4) << 32 | o->lbo >> 4 << 16;
}

/* ---- Accumulators ---- */

bool tc_wgmma_grid(const tc_layout *c, int *groups_m, int *groups_n)
{
    unsigned warps = 1, columns = 1;
    if (c->rank != 2 || tc_layout_is_shared(c))
        return false;
    for (unsigned i = 0; i < c->nmodes[TC_WARP]; i++) {
        const tc_mode *m = &c->modes[TC_WARP][i];
        warps *= m->count;
        columns *= m->image[1] ? m->count : 1;
    }
    if (warps % (TC_WARPGROUP_WARPS * columns))
        return false;
    *groups_n = (int)columns;
    *groups_m = (int)tc_warpgroups(warps / columns);
    return c->shape[0] % (TC_WARPGROUP_ROWS * *groups_m) == 0 &&
           c->shape[1] % (8 * *groups_n) == 0 &&
           tc_layout_wgmma_c(c->cx, c->shape, *groups_m, *groups_n) == c;
}

/* ---- Parts ---- */

/* Adds what modes can move along the axis at most; false: group modes that do
 * not count parts. */
static bool take_warps(const tc_layout *l, unsigned axis, int32_t part,
                       int64_t *most)
{
    uint32_t warps = 1;
    for (unsigned i = 0; i < l->nmodes[TC_WARP]; i++) {
        const tc_mode *m = &l->modes[TC_WARP][i];
        bool group = warps >= TC_WARPGROUP_WARPS;
        for (unsigned a = 0; group && a < l->rank; a++)
            if (m->image[a] !=
                (a == axis ? part * (int32_t)tc_warpgroups(warps) : 0))
                return false;
        if (!group)
            *most += (int64_t)(m->count - 1) * m->image[axis];
        warps *= m->count;
        if (!group && warps > TC_WARPGROUP_WARPS)
            return false;
    }
    return true;
}

static bool is_split_along(const tc_layout *l, unsigned groups, unsigned axis)
{
    int32_t part = l->shape[axis] / (int32_t)groups;
    int64_t most = 0;
    /* Xored bits must not reach beyond a part. */
    bool apart = part % l->period[axis] == 0 || (part & (part - 1)) == 0;
    if (!apart || l->shape[axis] % (int32_t)groups)
        return false;
    for (tc_input in = TC_REGISTER; in <= TC_LANE; in++)
        for (unsigned i = 0; i < l->nmodes[in]; i++) {
            const tc_mode *m = &l->modes[in][i];
            most += (int64_t)(m->count - 1) * m->image[axis];
        }
    return take_warps(l, axis, part, &most) && most < part;
}

bool tc_held_by_groups(const tc_layout *l, unsigned groups, unsigned *axis)
{
    if (!l || tc_layout_is_shared(l) ||
        tc_layout_size(l, TC_WARP) != 4 * groups)
        return false;
    for (*axis = 0; *axis < l->rank; ++*axis)
        if (is_split_along(l, groups, *axis))
            return true;
    return false;
}

/* ---- Alignment ---- */

/* The panel's width where its first rows are xored: 16-byte chunks with address
 * bit 7. 0: they are not. */
static unsigned swizzle_of(const tc_type *t)
{
    const tc_layout *l = t->layout;
    unsigned bytes = tc_type_bytes(t->elem), fast = 0;
    uint32_t stride = bytes, width = bytes;
    if (!l->nmodes[TC_OFFSET])
        return 0;
    while (fast + 1 < l->rank && !l->modes[TC_OFFSET][0].image[fast])
        fast++;
    for (unsigned i = 0; i < l->nmodes[TC_OFFSET]; i++) {
        const tc_mode *m = &l->modes[TC_OFFSET][i];
        if (width == stride && (uint32_t)m->image[fast] * bytes == stride)
            width *= m->count;
        else if (stride == 128 && (uint32_t)m->image[fast] * bytes == CHUNK)
            return width;
        stride *= m->count;
    }
    return 0;
}

unsigned tc_shared_alignment(const tc_type *buffer)
{
    unsigned swizzle = swizzle_of(buffer);
    return swizzle == 32 || swizzle == 64 || swizzle == 128 ? 8 * swizzle
                                                            : TC_SMEM_ALIGN;
}

bool tc_wgmma_suits(const tc_op *op)
{
    if (op->code != TC_DOT || op->in[0]->type->rank != 2)
        return false;
    tc_kind a = op->in[0]->type->elem->kind, b = op->in[1]->type->elem->kind;
    bool fits = (a == b && (a == TC_F16 || a == TC_BF16)) ||
                (tc_kind_is_f8(a) && tc_kind_is_f8(b)) ||
                (a == TC_I8 && b == TC_I8);
    const tc_type *t = op->out[0]->type;
    return fits && tc_wgmma_has_columns(a, (int32_t)tc_dim_value(t->dims[1])) &&
           tc_dim_value(t->dims[0]) % TC_WARPGROUP_ROWS == 0 &&
           tc_dim_value(t->dims[1]) % 8 == 0;
}
