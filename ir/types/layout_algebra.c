/* SPDX-License-Identifier: Apache-2.0
 *
 * Composition of layouts, a layout as a multiple of another, and elements that
 * are held more than once.
 *
 *   a: register (1) (2)          index -> number
 *   b: offset (0,1) (1,0)        number -> coordinates
 *   compose(a, b): register (0,1) (1,0)
 */
#include "ir/types/layout_linear.h"

#include <assert.h>
#include <string.h>

/* ---- Composition ---- */

static tc_input only_input(const tc_layout *l)
{
    tc_input only = TC_REGISTER;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        if (l->nmodes[in])
            only = (tc_input)in;
    return only;
}

/* b, whose index is counted by a's coordinates row-major. */
typedef struct composition {
    tc_split split;              /* of a */
    int64_t stride[TC_MAX_RANK]; /* of a's coordinates in the index */
    const tc_mode *modes;        /* of b */
    unsigned nmodes;
    /* The sum over all pieces of a's coordinates of the largest digits: while
     * they stay digits, nothing is carried from one into the next. */
    uint64_t most[TC_MAX_MODES];
    unsigned nbits;
    uint64_t bits[32]; /* of a's coordinates, below the periods: the digits of
                        * b that they make */
    tc_linear r;
} composition;

/* The digits of an index. */
static void digits_of(const composition *c, int64_t index, uint32_t *digits)
{
    for (unsigned i = 0; i < c->nmodes; i++) {
        digits[i] = (uint32_t)(index % c->modes[i].count);
        index /= c->modes[i].count;
    }
}

/* Digits of repeat modes of b that a bit of a's coordinates makes: as a digit
 * of its own, since the bit is 0 or 1. */
static void bit_to_digits(composition *c, int64_t index, uint64_t *flips)
{
    uint32_t digits[TC_MAX_MODES];
    tc_digit own = {.users = 0};
    bool any = false;
    digits_of(c, index, digits);
    *flips = 0;
    for (unsigned i = 0; i < c->nmodes; i++) {
        c->most[i] += digits[i];
        if (c->modes[i].count == 2) {
            *flips |= (uint64_t)digits[i] << i;
        } else if (digits[i]) {
            any = true;
            for (unsigned a = 0; a < c->r.spec.rank; a++)
                own.value[a] += (int32_t)digits[i] * c->modes[i].image[a];
        }
    }
    if (!any)
        return;
    *flips |= (uint64_t)1 << c->r.ndigits;
    c->r.digits[c->r.ndigits++] = own;
}

/* The image of what a mode of `a` adds above the period of an axis. */
static void add_high(composition *c, const tc_mode *m, unsigned axis,
                     uint64_t *flips, int32_t *add)
{
    uint32_t digits[TC_MAX_MODES];
    int32_t high = tc_split_high(&c->split, m->image, axis);
    digits_of(c, high * c->stride[axis], digits);
    for (unsigned i = 0; high && i < c->nmodes; i++) {
        const tc_mode *b = &c->modes[i];
        c->most[i] += (uint64_t)(m->count - 1) * digits[i];
        if (b->count == 2 && digits[i])
            *flips ^= (uint64_t)1 << i;
        for (unsigned a = 0; b->count > 2 && a < c->r.spec.rank; a++)
            add[a] += (int32_t)digits[i] * b->image[a];
    }
}

/* Which bits of a's coordinates are ever 1. */
static uint32_t used_bits(const composition *c, const tc_layout *a)
{
    uint32_t used = 0;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < a->nmodes[in]; i++)
            used |= tc_split_low(&c->split, a->modes[in][i].image);
    return used;
}

static void put_composed(composition *c, tc_input in, const tc_mode *m)
{
    uint64_t flips = 0;
    int32_t add[TC_MAX_RANK] = {0};
    uint32_t low = tc_split_low(&c->split, m->image);
    for (unsigned i = 0; i < c->nbits; i++)
        if (low >> i & 1)
            flips ^= c->bits[i];
    for (unsigned axis = 0; axis < c->split.rank; axis++)
        add_high(c, m, axis, &flips, add);
    tc_linear_put(&c->r, in, m->count, flips, add);
}

static void begin_composition(composition *c, const tc_layout *a,
                              const tc_layout *b)
{
    tc_input in = only_input(b);
    *c = (composition){.split = tc_split_of(a, a),
                       .modes = b->modes[in],
                       .nmodes = b->nmodes[in]};
    c->r.spec.rank = b->rank;
    memcpy(c->r.spec.shape, b->shape, sizeof b->shape);
    memcpy(c->r.xored, b->period, sizeof b->period);
    c->r.ndigits = c->nmodes;
    for (unsigned i = 0; i < c->nmodes; i++)
        memcpy(c->r.digits[i].value, c->modes[i].image, sizeof c->modes->image);
    int64_t stride = 1;
    for (unsigned axis = a->rank; axis-- > 0;) {
        c->stride[axis] = stride;
        stride *= a->shape[axis];
    }
}

const tc_layout *tc_layout_compose(tc_context *cx, const tc_layout *a,
                                   const tc_layout *b)
{
    composition c;
    begin_composition(&c, a, b);
    uint32_t used = used_bits(&c, a);
    for (unsigned axis = 0; axis < a->rank; axis++)
        for (int32_t bit = 1; bit < a->period[axis]; bit *= 2) {
            unsigned i =
                c.split.shift[axis] + (unsigned)__builtin_ctz((unsigned)bit);
            c.nbits = i + 1 > c.nbits ? i + 1 : c.nbits;
            if (used >> i & 1)
                bit_to_digits(&c, bit * c.stride[axis], &c.bits[i]);
        }
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < a->nmodes[in]; i++)
            put_composed(&c, (tc_input)in, &a->modes[in][i]);
    for (unsigned i = 0; i < c.nmodes; i++)
        if (c.most[i] >= c.modes[i].count)
            return NULL;
    return tc_linear_end(&c.r, cx);
}

/* ---- Multiples ---- */

static bool same_mode(const tc_mode *a, const tc_mode *b)
{
    return a->count == b->count &&
           memcmp(a->image, b->image, sizeof a->image) == 0;
}

bool tc_layout_divide(tc_context *cx, const tc_layout *l, const tc_layout *tile,
                      const tc_layout **rest)
{
    if (l->rank != tile->rank)
        return false;
    tc_layout_spec s = {.rank = l->rank};
    for (unsigned a = 0; a < l->rank; a++) {
        if (l->shape[a] % tile->shape[a] != 0)
            return false;
        s.shape[a] = l->shape[a] / tile->shape[a];
    }
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < l->nmodes[in]; i++) {
            tc_mode m = l->modes[in][i];
            if (i < tile->nmodes[in]) {
                if (!same_mode(&m, &tile->modes[in][i]))
                    return false;
                continue;
            }
            for (unsigned a = 0; a < l->rank; a++) {
                if (m.image[a] % tile->shape[a] != 0)
                    return false;
                m.image[a] /= tile->shape[a];
            }
            tc_layout_spec_add_mode(&s, (tc_input)in, &m);
        }
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        if (l->nmodes[in] < tile->nmodes[in])
            return false;
    *rest = tc_layout_get(cx, &s);
    return true;
}

/* ---- Equality ---- */

static bool same_sizes(const tc_layout *a, const tc_layout *b)
{
    if (a->rank != b->rank || memcmp(a->shape, b->shape, sizeof a->shape) != 0)
        return false;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        if (tc_layout_size(a, (tc_input)in) != tc_layout_size(b, (tc_input)in))
            return false;
    return true;
}

static bool same_place(const tc_layout *a, const tc_layout *b,
                       const uint32_t *index)
{
    int32_t at_a[TC_MAX_RANK], at_b[TC_MAX_RANK];
    tc_layout_apply(a, index, at_a);
    tc_layout_apply(b, index, at_b);
    return memcmp(at_a, at_b, sizeof at_a) == 0;
}

/* Other modes may still be the same map, as 3*(16) (48) is (16) 3*(32): each
 * index is tried. */
bool tc_layout_equal(const tc_layout *a, const tc_layout *b)
{
    if (a == b)
        return true;
    if (!same_sizes(a, b))
        return false;
    uint32_t n[TC_INPUT_COUNT], i[TC_INPUT_COUNT];
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        n[in] = tc_layout_size(a, (tc_input)in);
    for (i[3] = 0; i[3] < n[3]; i[3]++)
        for (i[2] = 0; i[2] < n[2]; i[2]++)
            for (i[1] = 0; i[1] < n[1]; i[1]++)
                for (i[0] = 0; i[0] < n[0]; i[0]++)
                    if (!same_place(a, b, i))
                        return false;
    return true;
}

/* ---- Broadcasts ---- */

/* Registers come first: what a lane adds to them is not free, what a warp adds
 * to both neither. A mode whose image the ones before it make is free. */
typedef struct held {
    tc_split split;
    uint32_t vector[32];
    unsigned nhigh;
    int32_t high[TC_MAX_DIGITS][TC_MAX_RANK];
} held;

static bool adds_low(held *h, uint32_t v)
{
    while (v && h->vector[31 - __builtin_clz(v)])
        v ^= h->vector[31 - __builtin_clz(v)];
    if (v)
        h->vector[31 - __builtin_clz(v)] = v;
    return v;
}

static bool adds(held *h, const tc_mode *m)
{
    int32_t high[TC_MAX_RANK] = {0};
    if (tc_split_is_low(&h->split, m->image))
        return adds_low(h, tc_split_low(&h->split, m->image));
    for (unsigned a = 0; a < h->split.rank; a++)
        high[a] = tc_split_high(&h->split, m->image, a);
    for (unsigned i = 0; i < h->nhigh; i++)
        if (memcmp(h->high[i], high, sizeof high) == 0)
            return adds_low(h, tc_split_low(&h->split, m->image));
    if (h->nhigh < TC_MAX_DIGITS)
        memcpy(h->high[h->nhigh++], high, sizeof high);
    return true;
}

/* The bits of an index that a digit changes; an odd one is the last. */
static uint32_t bits_of_digit(uint32_t stride, uint32_t count)
{
    uint32_t bits = 0;
    for (uint32_t d = 1; d < count; d++)
        bits |= d * stride;
    return bits;
}

uint32_t tc_layout_free_bits(const tc_layout *l, tc_input wanted)
{
    held h = {.split = tc_split_of(l, l)};
    uint32_t bits = 0;
    for (int in = 0; in <= (int)wanted; in++) {
        uint32_t stride = 1;
        for (unsigned i = 0; i < l->nmodes[in]; i++) {
            const tc_mode *m = &l->modes[in][i];
            if (!adds(&h, m) && in == (int)wanted)
                bits |= bits_of_digit(stride, m->count);
            stride *= m->count;
        }
    }
    return bits;
}
