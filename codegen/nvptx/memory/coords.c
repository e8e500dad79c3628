/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinates of a thread's elements: a layout's map as LLVM values.
 *
 * A coordinate is the xor of images below the side's period plus the sum of
 * images above it (ir/types/layout.h). The part of lane and warp is computed at
 * the function's entry, once a layout and axis; the part of a register is a
 * constant, which ends up in the offset of an address.
 *
 *   accumulator of m16n8, axis 1: lane bits 0, 1 are columns 2, 4
 *     thread part (lane & 3) << 1, register 1 adds 1
 */
#include "codegen/nvptx/emit.h"

static uint32_t low_part(const tc_layout *l, unsigned axis, uint32_t image)
{
    return image & ((uint32_t)l->period[axis] - 1);
}

/* ---- The thread's part ---- */

/* The thread's part so far: bits below the period, which are xored, and the
 * rest, which is added. */
typedef struct sums {
    LLVMValueRef low, high;
} sums;

static bool is_bit(const tc_mode *m, uint32_t stride)
{
    return m->count == 2 && (stride & (stride - 1)) == 0;
}

static unsigned log2_of(uint32_t x)
{
    return (unsigned)__builtin_ctz(x);
}

/* Digits first, first + 1, ... of x (bits from `stride` on) whose images for
 * the axis double: they are one field of bits, moved. Returns their number. */
static unsigned field_length(const tc_layout *l, tc_input in, unsigned first,
                             unsigned axis)
{
    const tc_mode *m = l->modes[in];
    unsigned n = 1;
    while (first + n < l->nmodes[in] && m[first + n].count == 2 &&
           m[first + n].image[axis] == 2 * m[first + n - 1].image[axis] &&
           low_part(l, axis, (uint32_t)m[first + n].image[axis]) ==
               (uint32_t)m[first + n].image[axis])
        n++;
    return n;
}

static LLVMValueRef field(tc_gen *g, LLVMValueRef x, uint32_t stride,
                          unsigned n, uint32_t image)
{
    x = LLVMBuildLShr(g->entry, x, tc_gen_i32(g, log2_of(stride)), "");
    x = LLVMBuildAnd(g->entry, x, tc_gen_i32(g, (1 << n) - 1), "");
    return LLVMBuildMul(g->entry, x, tc_gen_i32(g, image), "");
}

static LLVMValueRef digit(tc_gen *g, LLVMValueRef x, uint32_t stride,
                          uint32_t count)
{
    x = LLVMBuildUDiv(g->entry, x, tc_gen_i32(g, stride), "");
    return LLVMBuildURem(g->entry, x, tc_gen_i32(g, count), "");
}

static void add_digit(tc_gen *g, sums *s, const tc_layout *l, unsigned axis,
                      LLVMValueRef d, uint32_t image)
{
    uint32_t low = low_part(l, axis, image);
    LLVMValueRef x = LLVMBuildMul(g->entry, d, tc_gen_i32(g, low), "");
    s->low = LLVMBuildXor(g->entry, s->low, x, "");
    x = LLVMBuildMul(g->entry, d, tc_gen_i32(g, image - low), "");
    s->high = LLVMBuildAdd(g->entry, s->high, x, "");
}

static void add_input(tc_gen *g, sums *s, tc_coords *coords, tc_input in,
                      LLVMValueRef x)
{
    const tc_layout *l = coords->layout;
    uint32_t stride = 1;
    for (unsigned i = 0; i < l->nmodes[in];) {
        const tc_mode *m = &l->modes[in][i];
        uint32_t image = (uint32_t)m->image[coords->axis];
        uint32_t low = low_part(l, coords->axis, image);
        unsigned n = 1;
        if (image && image == low && is_bit(m, stride)) {
            n = field_length(l, in, i, coords->axis);
            s->low = LLVMBuildXor(g->entry, s->low,
                                  field(g, x, stride, n, image), "");
            coords->thread_bits |= image * ((1u << n) - 1);
        } else if (image) {
            add_digit(g, s, l, coords->axis, digit(g, x, stride, m->count),
                      image);
            coords->thread_bits |= low;
        }
        for (; n; n--)
            stride *= l->modes[in][i++].count;
    }
}

static void make_coords(tc_gen *g, tc_coords *coords, const tc_layout *l,
                        unsigned axis)
{
    *coords = (tc_coords){.layout = l, .axis = axis};
    sums s = {tc_gen_i32(g, 0), tc_gen_i32(g, 0)};
    add_input(g, &s, coords, TC_LANE, g->lane);
    add_input(g, &s, coords, TC_WARP, g->warp);
    coords->thread = LLVMBuildAdd(g->entry, s.low, s.high, "");
}

tc_coords tc_coords_get(tc_gen *g, const tc_layout *l, unsigned axis)
{
    tc_coords *axes = tc_map_get(g->coords, l);
    if (!axes) {
        axes = tc_arena_array(g->arena, tc_coords, l->rank);
        tc_map_set(g->coords, l, axes);
    }
    if (!axes[axis].layout)
        make_coords(g, &axes[axis], l, axis);
    return axes[axis];
}

/* ---- The register's part ---- */

void tc_coords_first(const tc_layout *l, uint32_t r, int32_t coord[TC_MAX_RANK])
{
    uint32_t index[TC_INPUT_COUNT] = {[TC_REGISTER] = r};
    tc_layout_apply(l, index, coord);
}

uint32_t tc_coords_constant(const tc_coords *coords, uint32_t r, bool *add)
{
    int32_t coord[TC_MAX_RANK];
    tc_coords_first(coords->layout, r, coord);
    uint32_t c = (uint32_t)coord[coords->axis];
    *add = !(low_part(coords->layout, coords->axis, c) & coords->thread_bits);
    return c;
}

LLVMValueRef tc_coords_at(tc_gen *g, const tc_coords *coords, uint32_t r)
{
    bool add;
    uint32_t c = tc_coords_constant(coords, r, &add);
    if (add)
        return LLVMBuildAdd(g->b, coords->thread, tc_gen_i32(g, c), "");
    uint32_t low = low_part(coords->layout, coords->axis, c);
    LLVMValueRef x = LLVMBuildXor(g->b, coords->thread, tc_gen_i32(g, low), "");
    return LLVMBuildAdd(g->b, x, tc_gen_i32(g, c - low), "");
}

/* ---- Who holds an element ---- */

/* Row-major; not 0, which is no key. */
static const void *key_of(const tc_layout *l, const int32_t *coord)
{
    uintptr_t at = 0;
    for (unsigned i = 0; i < l->rank; i++)
        at = at * (uintptr_t)l->shape[i] + (uintptr_t)coord[i];
    return (const void *)(at + 1);
}

tc_held tc_held_new(tc_gen *g, const tc_layout *l)
{
    tc_held h = {.layout = l, .registers = {.arena = g->arena}};
    uint32_t n = tc_layout_size(l, TC_REGISTER);
    int32_t coord[TC_MAX_RANK];
    for (uint32_t r = n; r-- > 0;) {
        tc_coords_first(l, r, coord);
        tc_map_set(&h.registers, key_of(l, coord), (void *)(uintptr_t)(r + 1));
    }
    return h;
}

int64_t tc_held_find(const tc_held *h, const int32_t coord[TC_MAX_RANK])
{
    return (int64_t)(uintptr_t)tc_map_get(&h->registers,
                                          key_of(h->layout, coord)) -
           1;
}

static bool is_free(const tc_layout *l, const tc_mode *m)
{
    for (unsigned axis = 0; axis < l->rank; axis++)
        if (m->image[axis])
            return false;
    return true;
}

/* The value of an input's free digits: the input minus it is the owner's. */
static LLVMValueRef free_part(tc_gen *g, const tc_layout *l, tc_input in,
                              LLVMValueRef x)
{
    LLVMValueRef sum = tc_gen_i32(g, 0);
    uint32_t stride = 1;
    for (unsigned i = 0; i < l->nmodes[in]; i++) {
        const tc_mode *m = &l->modes[in][i];
        if (is_free(l, m)) {
            LLVMValueRef d = digit(g, x, stride, m->count);
            d = LLVMBuildMul(g->entry, d, tc_gen_i32(g, stride), "");
            sum = LLVMBuildAdd(g->entry, sum, d, "");
        }
        stride *= m->count;
    }
    return sum;
}

static bool has_free(const tc_layout *l, tc_input in)
{
    for (unsigned i = 0; i < l->nmodes[in]; i++)
        if (is_free(l, &l->modes[in][i]))
            return true;
    return false;
}

static LLVMValueRef free_threads(tc_gen *g, const tc_layout *l)
{
    LLVMValueRef warp = free_part(g, l, TC_WARP, g->warp);
    warp = LLVMBuildShl(g->entry, warp, tc_gen_i32(g, 5), "");
    return LLVMBuildAdd(g->entry, warp, free_part(g, l, TC_LANE, g->lane), "");
}

LLVMValueRef tc_coords_owner(tc_gen *g, const tc_layout *l)
{
    if (!has_free(l, TC_LANE) && !has_free(l, TC_WARP))
        return NULL;
    return LLVMBuildICmp(g->entry, LLVMIntEQ, free_threads(g, l),
                         tc_gen_i32(g, 0), "");
}

LLVMValueRef tc_coords_owning_thread(tc_gen *g, const tc_layout *l)
{
    LLVMValueRef own = LLVMBuildShl(g->entry, g->warp, tc_gen_i32(g, 5), "");
    own = LLVMBuildAdd(g->entry, own, g->lane, "");
    return LLVMBuildSub(g->entry, own, free_threads(g, l), "");
}
