/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the bytes in the buffer determines the box of a TMA copy.
 * Without the xor of a swizzle, offsets count digits of one axis each, the
 * fastest first. The leading digits that count the tensor's contiguous dim,
 * then the others from the last dim on, are the box; the remaining digits count
 * copies.
 *
 *   128x128 of 16 bits in #swizzle128: 64 columns, 128 rows, 2 x 64 columns
 *     box 128x64, copies at [0, 0] (byte 0) and [0, 64] (byte 16384)
 *
 * Rows may be in another order (tc_layout_reorder). Then each digit that counts
 * them is a dim of the map:
 *
 *   row 8b + 2q + d of each 16 of the buffer is row 4q + 2b + d of the tensor
 *     dims 128 columns, d: 2, q: 4 of 4 rows, b: 2 of 2 rows, groups of 16 rows
 *
 * TMA checks the end of the tensor by groups, whole ones only. The other dims
 * have no room in the map; they are counted along the columns, whose end is
 * therefore not checked: windows must not reach past it.
 *
 * test/unit/tma.c does the copies byte by byte.
 */
#include "passes/instructions/tma.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/target/machine_model.h"

#include <string.h>

/* `count` steps along an axis of the tile, `stride` elements each. */
typedef struct digit {
    uint32_t count, stride;
    unsigned axis;
} digit;

typedef struct copies {
    tc_context *cx;
    const tc_type *buffer;
    const tc_layout *layout;
    unsigned bytes;              /* of an element */
    unsigned dims[TC_MAX_RANK];  /* of the tensor: the tile's axes */
    unsigned place[TC_MAX_RANK]; /* of the axes in memory, 0 the closest */
    unsigned unit;               /* the axis of place 0 */
    unsigned ndigits;
    digit digits[TC_MAX_MODES];
    unsigned axis, groups; /* whose parts it is copied in */
    /* Of the window, by dims of the tensor; NULL: it has one element there. */
    const tc_dim *sides[TC_MAX_RANK];
    const char **why;
    tc_tma *out;
} copies;

/* Sets the reason and is false, as tc_error is. */
#define REFUSE(c, ...)                                                         \
    (*(c)->why = tc_arena_printf(&(c)->cx->diag_arena, __VA_ARGS__), false)

static unsigned min_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* ---- The tensor ---- */

static bool is_aligned(const tc_func *f, const tc_value *tensor)
{
    return !tensor->def && tensor->region == f->body && tensor->index < 64 &&
           (f->aligned >> tensor->index & 1);
}

static bool same_sides(const tc_type *window, const tc_type *buffer)
{
    bool same = window->rank == buffer->rank && window->elem == buffer->elem;
    for (unsigned i = 0; same && i < buffer->rank; i++)
        same = window->dims[i] == buffer->dims[i];
    return same;
}

static void take_axes(copies *c)
{
    unsigned rank = 0;
    c->unit = TC_MAX_RANK;
    for (unsigned i = 0; i < c->out->rank; i++) {
        if (!c->sides[i])
            continue;
        if (i == c->out->contiguous)
            c->unit = rank;
        unsigned place = 0;
        while (tc_dim_by_stride(c->out->rank, c->out->contiguous, place) != i)
            place++;
        c->place[rank] = place;
        c->dims[rank++] = i;
    }
}

static bool take_tensor(copies *c, const tc_op *block)
{
    const tc_value *tensor = block->in[0];
    const tc_type *t = tensor->type;
    if (tensor->def)
        return REFUSE(c,
                      "%s is made in the kernel: TMA copies need a tensor map, "
                      "which the host makes of arguments",
                      tc_value_name(c->cx, tensor));
    if (!is_aligned(block->func, tensor))
        return REFUSE(c,
                      "%s is not promised to be aligned (aligned(..) of the "
                      "kernel): its rows' addresses must be multiples of 16 "
                      "bytes",
                      tc_value_name(c->cx, tensor));
    if (t->rank > TC_TMA_MAX_RANK)
        return REFUSE(c, "%s has %u dims, TMA copies go up to %d",
                      tc_value_name(c->cx, tensor), t->rank, TC_TMA_MAX_RANK);
    if (t->elem->kind > TC_F64)
        return REFUSE(c, "elements are %s, TMA copies move numbers",
                      tc_type_name(c->cx, t->elem));
    c->out->arg = tensor->index;
    c->out->rank = t->rank;
    c->out->contiguous = tc_type_contiguous(t);
    take_axes(c);
    if (c->unit == TC_MAX_RANK)
        return REFUSE(c,
                      "the window has one element of the contiguous dim of %s, "
                      "TMA copies move 16 bytes of it or more",
                      tc_value_name(c->cx, tensor));
    return true;
}

/* ---- The buffer's order ---- */

/* The axis that alone has an image; the rank where that is not one. */
static unsigned only_axis(const tc_mode *m, unsigned rank)
{
    unsigned axis = rank;
    for (unsigned i = 0; i < rank; i++) {
        if (m->image[i] && axis < rank)
            return rank;
        if (m->image[i])
            axis = i;
    }
    return axis;
}

/* Is the image added to those of other modes, or, which is the same, a bit that
 * is xored? */
static bool is_stride(const tc_layout *l, unsigned axis, int32_t image)
{
    int32_t low = image & (l->period[axis] - 1);
    return image > 0 && (!low || (low == image && !(low & (low - 1))));
}

static void add_digit(copies *c, uint32_t count, unsigned axis, uint32_t stride)
{
    digit *d = c->ndigits ? &c->digits[c->ndigits - 1] : NULL;
    if (d && d->axis == axis && stride == d->count * d->stride)
        d->count *= count;
    else
        c->digits[c->ndigits++] = (digit){count, stride, axis};
}

/* The digits, if the buffer has this swizzle (or none, 0). The hardware xors
 * bits of the address, chunk 16 with bit 128 and so on: below the swizzle's
 * period every mode must be a bit. */
static bool unswizzle(copies *c, unsigned swizzle)
{
    const tc_layout *l = c->layout;
    uint64_t at = c->bytes;
    c->ndigits = 0;
    if (swizzle && (uint32_t)l->period[c->unit] * c->bytes < swizzle)
        return false;
    for (unsigned i = 0; i < l->nmodes[TC_OFFSET]; i++) {
        tc_mode m = l->modes[TC_OFFSET][i];
        if (at < 8 * swizzle && m.count != 2)
            return false;
        for (unsigned chunk = 16; chunk < swizzle; chunk *= 2)
            if (at == 8 * chunk)
                m.image[c->unit] ^= (int32_t)(chunk / c->bytes);
        unsigned axis = only_axis(&m, l->rank);
        if (axis == l->rank || !is_stride(l, axis, m.image[axis]))
            return false;
        add_digit(c, m.count, axis, (uint32_t)m.image[axis]);
        at *= m.count;
    }
    return true;
}

static bool find_order(copies *c)
{
    static const unsigned swizzles[] = {0, 128, 64, 32};
    const tc_layout *l = c->layout;
    unsigned fast = l->nmodes[TC_OFFSET]
                        ? only_axis(&l->modes[TC_OFFSET][0], l->rank)
                        : l->rank;
    if (fast < l->rank && fast != c->unit)
        return REFUSE(c,
                      "axis %u of %s is the fast one, TMA copies want the "
                      "tensor's contiguous dim there, axis %u",
                      fast, tc_type_name(c->cx, c->buffer), c->unit);
    for (unsigned i = 0; i < 4; i++)
        if (unswizzle(c, swizzles[i])) {
            c->out->swizzle = swizzles[i];
            return true;
        }
    return REFUSE(c,
                  "%s is in no order that TMA copies write (#rows, #swizzle32, "
                  "#swizzle64, #swizzle128)",
                  tc_type_name(c->cx, c->buffer));
}

/* ---- The box ---- */

static uint32_t largest_divisor(uint32_t n, uint32_t most)
{
    for (uint32_t k = min_of(n, most); k > 1; k--)
        if (n % k == 0)
            return k;
    return 1;
}

/* Along an axis, of what one group copies. */
static uint32_t part_of(const copies *c, unsigned axis)
{
    uint32_t side = (uint32_t)c->layout->shape[axis];
    return axis == c->axis ? side / c->groups : side;
}

/* Takes digits from the front; those of c->digits that it leaves count the
 * copies. */
static void grow_box(copies *c)
{
    tc_tma *t = c->out;
    unsigned axis = c->unit, n = 0;
    for (; n < c->ndigits && !t->nparts; n++) {
        digit *d = &c->digits[n];
        uint32_t *side = &t->box[c->dims[d->axis]];
        if (c->place[d->axis] < c->place[axis] || d->stride != *side)
            break;
        axis = d->axis;
        unsigned most = min_of(TC_TMA_MAX_BOX, part_of(c, axis));
        if (t->swizzle && axis == c->unit)
            most = min_of(most, t->swizzle / c->bytes);
        uint32_t k = largest_divisor(d->count, most / *side);
        *side *= k;
        d->stride *= k;
        d->count /= k;
        if (d->count > 1)
            break;
    }
    c->ndigits -= n;
    for (unsigned i = 0; i < c->ndigits; i++)
        c->digits[i] = c->digits[n + i];
}

/* ---- Rows in another order ---- */

const char *tc_tma_why_not_apart(const tc_op *block, unsigned dim)
{
    const tc_type *t = block->in[0]->type;
    unsigned unit = tc_type_contiguous(t);
    const tc_dim *end = t->dims[unit];
    const tc_attr *sides = tc_op_attr(block, "sides");
    if (dim == unit)
        return "these rows are elements side by side";
    if (!sides->dims[unit] || !end || end->kind != TC_DIM_CONST ||
        !tc_match_int(block->in[1 + unit], 0) ||
        tc_dim_value(sides->dims[unit]) > tc_dim_value(end))
        return "the window may reach past the ends of rows";
    return NULL;
}

/* The digits that count rows, after those of the box's width; the number of
 * rows that they count, 0: not all, or not the last one groups of the others.
 */
static uint32_t list_parts(const copies *c, unsigned first)
{
    tc_tma *t = c->out;
    uint32_t rows = 1, groups = 0;
    for (t->nparts = 0; first + t->nparts < c->ndigits; t->nparts++) {
        const digit *d = &c->digits[first + t->nparts];
        if (d->axis != c->digits[first].axis)
            break;
        if (t->nparts == TC_MAX_ROW_PARTS || d->count > TC_TMA_MAX_BOX)
            return 0;
        t->parts[t->nparts] = (tc_row_part){d->count, d->stride};
        rows *= d->count;
        groups = rows / d->count == d->stride ? d->stride : 0;
    }
    return groups ? rows : 0;
}

/* All of the row's digits at the front; c->ndigits: none are so. */
static unsigned digits_of_width(const copies *c)
{
    unsigned n = 0;
    while (n < c->ndigits && c->digits[n].axis == c->unit)
        n++;
    return n;
}

static bool has_whole_groups(const copies *c, const tc_op *block, unsigned dim,
                             unsigned of)
{
    const tc_func *f = block->func;
    for (unsigned i = 0; i < f->nmultiples; i++)
        if (f->multiples[i].arg == c->out->arg && f->multiples[i].dim == dim &&
            f->multiples[i].of % of == 0)
            return true;
    return false;
}

static bool begins_at_groups(const copies *c, const tc_op *block, unsigned dim,
                             unsigned of)
{
    const tc_func *f = block->func;
    tc_axis_analysis *a = tc_axis_analyse(&c->cx->diag_arena, f, f->aligned);
    return tc_axis_info_of(a, block->out[0])->axis[dim].divisor % of == 0;
}

/* Rows in their usual order need no map of their own. */
static bool take_apart(copies *c, const tc_op *block)
{
    tc_tma *t = c->out;
    unsigned first = digits_of_width(c);
    if (first == 0 || first == c->ndigits || c->digits[first].axis == c->unit)
        return true;
    uint32_t rows = list_parts(c, first);
    unsigned n = t->nparts, axis = c->digits[first].axis;
    unsigned of = n ? t->parts[n - 1].step : 0, dim = c->dims[axis];
    tc_row_part parts[TC_MAX_ROW_PARTS];
    memcpy(parts, t->parts, sizeof parts);
    memset(t->parts, 0, sizeof parts);
    t->nparts = 0;
    if (n < 2 || !rows || of & (of - 1) || first > 1 ||
        c->digits[0].count > TC_TMA_MAX_BOX)
        return true;
    const char *why = tc_tma_why_not_apart(block, dim);
    if (!why && c->groups > 1)
        why = "warp groups have parts of it";
    if (!why && !has_whole_groups(c, block, dim, of))
        why = "their number is not promised to be a multiple (multiples(..) of "
              "the kernel)";
    if (!why && !begins_at_groups(c, block, dim, of))
        why = "windows are not known to begin at a multiple";
    if (why)
        return REFUSE(c,
                      "rows of %s are wanted in another order, %u a group: %s",
                      tc_value_name(c->cx, block->in[0]), of, why);
    memcpy(t->parts, parts, sizeof parts);
    t->nparts = n;
    t->apart = dim;
    t->box[dim] = rows;
    t->box[t->contiguous] = c->digits[0].count;
    c->ndigits -= first + n;
    for (unsigned i = 0; i < c->ndigits; i++)
        c->digits[i] = c->digits[first + n + i];
    return true;
}

uint32_t tc_tma_box_bytes(const tc_tma *t, unsigned element_bytes)
{
    uint32_t n = element_bytes;
    for (unsigned i = 0; i < t->rank; i++)
        n *= t->box[i];
    return n;
}

static uint32_t box_bytes(const copies *c)
{
    return tc_tma_box_bytes(c->out, c->bytes);
}

static bool check_box(copies *c)
{
    tc_tma *t = c->out;
    uint32_t row = t->box[t->contiguous] * c->bytes, box = box_bytes(c);
    /* A swizzle counts address bits, from its period on. */
    uint32_t align = t->swizzle ? 8 * t->swizzle : 128;
    uint32_t n = t->bytes / box;
    if (row % 16)
        return REFUSE(c,
                      "%u contiguous bytes, TMA copies want a multiple of "
                      "16",
                      row);
    if (t->swizzle && row != t->swizzle)
        return REFUSE(c, "rows of %u bytes in a swizzle of %u", row,
                      t->swizzle);
    if (n > TC_TMA_MAX_COPIES)
        return REFUSE(c, "%u copies of %u bytes, expected at most %d", n, box,
                      TC_TMA_MAX_COPIES);
    if (n > 1 && box % align)
        return REFUSE(c,
                      "copies of %u bytes, where each must start at a multiple "
                      "of %u",
                      box, align);
    return true;
}

static void place_copies(copies *c)
{
    tc_tma *t = c->out;
    uint32_t box = box_bytes(c);
    t->ncopies = t->bytes / box;
    for (uint32_t i = 0; i < t->ncopies; i++) {
        struct tc_tma_copy *copy = &t->copies[i];
        *copy = (struct tc_tma_copy){.byte = i * box};
        uint32_t rest = i;
        for (unsigned k = 0; k < c->ndigits; k++) {
            const digit *d = &c->digits[k];
            copy->at[c->dims[d->axis]] +=
                (int32_t)(rest % d->count * d->stride);
            rest /= d->count;
        }
    }
}

/* ---- Groups ---- */

static const struct tc_tma_copy *copy_at(const tc_tma *t, const int32_t *at)
{
    for (unsigned i = 0; i < t->ncopies; i++)
        if (memcmp(t->copies[i].at, at, sizeof t->copies[i].at) == 0)
            return &t->copies[i];
    return NULL;
}

/* The next group's copies lie as far after each one of this group. */
static bool find_distance(copies *c, const struct tc_tma_copy *copy)
{
    tc_tma *t = c->out;
    struct tc_tma_copy next = *copy;
    next.at[t->group_dim] += t->group_at;
    const struct tc_tma_copy *found = copy_at(t, next.at);
    uint32_t far = found ? found->byte - copy->byte : 0;
    if (!found || (t->group_byte && far != t->group_byte))
        return REFUSE(c, "the parts of %u warp groups lie differently in %s",
                      c->groups, tc_type_name(c->cx, c->buffer));
    t->group_byte = far;
    return true;
}

/* Leaves the first group's. */
static bool split(copies *c)
{
    tc_tma *t = c->out;
    unsigned n = 0, dim = c->dims[c->axis];
    t->group_dim = dim;
    t->group_at = (int32_t)part_of(c, c->axis);
    for (unsigned i = 0; i < t->ncopies; i++) {
        int32_t end = t->copies[i].at[dim] + t->group_at;
        if (end < c->layout->shape[c->axis] && !find_distance(c, &t->copies[i]))
            return false;
    }
    for (unsigned i = 0; i < t->ncopies; i++)
        if (t->copies[i].at[dim] < t->group_at)
            t->copies[n++] = t->copies[i];
    t->ncopies = n;
    return true;
}

/* ---- All ---- */

static copies copies_of(const tc_op *block, const tc_type *buffer,
                        unsigned axis, unsigned groups, tc_tma *out,
                        const char **why)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    *out = (tc_tma){0};
    copies c = {.cx = block->func->module->cx,
                .buffer = buffer,
                .layout = buffer->layout,
                .bytes = tc_type_bytes(buffer->elem),
                .axis = axis,
                .groups = groups,
                .why = why,
                .out = out};
    for (unsigned i = 0; i < sides->n; i++)
        c.sides[i] = sides->dims[i];
    return c;
}

static bool find_copies(copies *c, const tc_op *block, bool may_be_apart)
{
    tc_tma *out = c->out;
    if (!take_tensor(c, block) || !find_order(c))
        return false;
    out->bytes = tc_layout_size(c->layout, TC_OFFSET) * c->bytes;
    for (unsigned i = 0; i < TC_TMA_MAX_RANK; i++)
        out->box[i] = i < out->rank;
    if (may_be_apart && !take_apart(c, block))
        return false;
    grow_box(c);
    if (!check_box(c))
        return false;
    place_copies(c);
    return c->groups == 1 || split(c);
}

bool tc_tma_of_groups(const tc_value *window, const tc_type *buffer,
                      unsigned axis, unsigned groups, tc_tma *out,
                      const char **why)
{
    const tc_op *block = tc_block_of(window);
    copies c = copies_of(block, buffer, axis, groups, out, why);
    if (!same_sides(window->type, buffer))
        return REFUSE(&c, "%s and %s differ in sides or elements",
                      tc_type_name(c.cx, window->type),
                      tc_type_name(c.cx, buffer));
    if ((uint32_t)c.layout->shape[axis] % groups)
        return REFUSE(&c, "%u warp groups, which do not divide axis %u of %s",
                      groups, axis, tc_type_name(c.cx, buffer));
    return find_copies(&c, block, true);
}

bool tc_tma_of(const tc_value *window, const tc_type *buffer, tc_tma *out,
               const char **why)
{
    return tc_tma_of_groups(window, buffer, 0, 1, out, why);
}

bool tc_tma_of_rows(const tc_op *block, unsigned dim, unsigned rows,
                    const tc_type *buffer, tc_tma *out, const char **why)
{
    unsigned parts = (unsigned)tc_dim_value(buffer->dims[0]) / rows;
    copies c = copies_of(block, buffer, 0, parts, out, why);
    c.sides[dim] = tc_dim_const(c.cx, rows);
    for (unsigned i = 0; i < dim; i++)
        if (c.sides[i])
            return REFUSE(&c,
                          "dim %u of %s, whose rows the indices count, "
                          "comes after a dim with a side",
                          dim, tc_value_name(c.cx, block->in[0]));
    if (!find_copies(&c, block, false))
        return false;
    out->bytes /= parts;
    return true;
}

/* A window of some rows of the buffer, from row(..) on. */
static bool find_rows(const tc_op *op, tc_tma *out, const char **why)
{
    const tc_op *block = tc_block_of(op->in[0]);
    const tc_type *window = op->in[0]->type;
    unsigned rows = (unsigned)tc_dim_value(window->dims[0]), dim = 0;
    while (!tc_op_attr(block, "sides")->dims[dim])
        dim++;
    if (!tc_tma_of_rows(block, dim, rows, op->in[1]->type, out, why))
        return false;
    uint32_t part = (uint32_t)tc_op_int(op, "row") / rows;
    for (unsigned i = 0; i < out->ncopies; i++)
        out->copies[i].byte += part * out->group_byte;
    out->group_byte = 0;
    return true;
}

bool tc_tma_of_op(const tc_op *op, tc_tma *out, const char **why)
{
    if (op->code != TC_TMA_STORE && tc_op_has_attr(op, "row"))
        return find_rows(op, out, why);
    bool by_group =
        op->code == TC_TMA_STORE && tc_op_is_word(op, "scope", "group");
    return tc_tma_of_groups(op->in[0], op->in[1]->type,
                            by_group ? (unsigned)tc_op_int(op, "axis") : 0,
                            by_group ? tc_warpgroups(op->func->warps) : 1, out,
                            why);
}
