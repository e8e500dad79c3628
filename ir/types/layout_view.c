/* SPDX-License-Identifier: Apache-2.0
 *
 * The same elements in another shape: transposed, without an axis, with one
 * more, reshaped. Registers, lanes and warps stay what they are; only the
 * coordinates are renamed.
 */
#include "ir/types/layout.h"

#include <assert.h>
#include <string.h>

const tc_layout *tc_layout_trans(tc_context *cx, const tc_layout *l,
                                 const unsigned *perm)
{
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    for (unsigned a = 0; a < l->rank; a++)
        s.shape[a] = l->shape[perm[a]];
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < l->nmodes[in]; i++)
            for (unsigned a = 0; a < l->rank; a++)
                s.modes[in][i].image[a] = l->modes[in][i].image[perm[a]];
    return tc_layout_get(cx, &s);
}

static bool is_zero(const tc_mode *m, unsigned rank)
{
    for (unsigned a = 0; a < rank; a++)
        if (m->image[a])
            return false;
    return true;
}

/* Clears a coordinate. Registers that hold nothing new then are dropped; zero
 * ones before that stay: they are somebody's wish. */
static void forget_axis(tc_layout_spec *s, unsigned axis, tc_input in)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->nmodes[in]; i++) {
        tc_mode m = s->modes[in][i];
        bool was_zero = is_zero(&m, s->rank);
        m.image[axis] = 0;
        if (in != TC_REGISTER || was_zero || !is_zero(&m, s->rank))
            s->modes[in][n++] = m;
    }
    s->nmodes[in] = n;
}

const tc_layout *tc_layout_collapse(tc_context *cx, const tc_layout *l,
                                    unsigned axis)
{
    assert(axis < l->rank && !tc_layout_is_shared(l));
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    s.shape[axis] = 1;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        forget_axis(&s, axis, (tc_input)in);
    return tc_layout_get(cx, &s);
}

const tc_layout *tc_layout_slice(tc_context *cx, const tc_layout *l,
                                 unsigned axis)
{
    tc_layout_spec s;
    tc_layout_spec_of(tc_layout_collapse(cx, l, axis), &s);
    s.rank--;
    for (unsigned a = axis; a < s.rank; a++)
        s.shape[a] = s.shape[a + 1];
    s.shape[s.rank] = 0;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s.nmodes[in]; i++)
            for (unsigned a = axis; a < s.rank; a++)
                s.modes[in][i].image[a] = s.modes[in][i].image[a + 1];
    return tc_layout_get(cx, &s);
}

const tc_layout *tc_layout_expand(tc_context *cx, const tc_layout *l,
                                  unsigned axis)
{
    assert(axis <= l->rank && l->rank < TC_MAX_RANK);
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    s.rank++;
    for (unsigned a = l->rank; a > axis; a--)
        s.shape[a] = l->shape[a - 1];
    s.shape[axis] = 1;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < s.nmodes[in]; i++) {
            int32_t *image = s.modes[in][i].image;
            for (unsigned a = l->rank; a > axis; a--)
                image[a] = image[a - 1];
            image[axis] = 0;
        }
    return tc_layout_get(cx, &s);
}

static int32_t common_divisor(int32_t a, int32_t b)
{
    while (b) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Counting the elements row-major in a new shape, digit by digit: layouts with
 * these digits can be seen in it. */
typedef struct counting {
    tc_layout_spec spec;
    unsigned axis;  /* of the new shape, from the last down */
    int32_t stride; /* what of its side is counted already */
} counting;

/* False: the digit straddles two axes of the new shape. */
static bool count_digit(counting *c, int32_t count)
{
    while (count > 1) {
        int32_t left = c->spec.shape[c->axis] / c->stride;
        if (left == 1) {
            c->axis--;
            c->stride = 1;
            continue;
        }
        int32_t part = common_divisor(count, left);
        if (part == 1)
            return false;
        tc_layout_spec_add(&c->spec, TC_OFFSET, (uint32_t)part, c->axis,
                           c->stride);
        c->stride *= part;
        count /= part;
    }
    return true;
}

/* The least stride of l along an axis that is above its period and at least
 * `least`; the mode has it. */
static const tc_mode *next_mode(const tc_layout *l, unsigned axis,
                                int32_t least)
{
    const tc_mode *next = NULL;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < l->nmodes[in]; i++) {
            const tc_mode *m = &l->modes[in][i];
            if (m->image[axis] >= l->period[axis] && m->image[axis] >= least &&
                (!next || m->image[axis] < next->image[axis]))
                next = m;
        }
    return next;
}

/* The digits that l has along an axis. */
static bool count_as_held(counting *c, const tc_layout *l, unsigned axis)
{
    if (!count_digit(c, l->period[axis]))
        return false;
    int32_t reached = l->period[axis];
    while (reached < l->shape[axis]) {
        const tc_mode *m = next_mode(l, axis, reached);
        if (!m || m->image[axis] != reached ||
            !count_digit(c, (int32_t)m->count))
            return false;
        reached *= (int32_t)m->count;
    }
    return true;
}

/* The digits of a side: a power of two, then the odd part. */
static bool count_side(counting *c, int32_t side)
{
    int32_t power = side & -side;
    return count_digit(c, power) && count_digit(c, side / power);
}

const tc_layout *tc_layout_reshape(tc_context *cx, const tc_layout *l,
                                   unsigned rank, const int32_t *shape)
{
    counting c = {.spec.rank = rank, .axis = rank - 1, .stride = 1};
    memcpy(c.spec.shape, shape, rank * sizeof *shape);
    counting out_of_l = c, into_shape = c;
    const tc_layout *r = NULL;
    bool ok = true;
    for (unsigned a = l->rank; ok && a-- > 0;)
        ok = count_as_held(&out_of_l, l, a);
    if (ok)
        r = tc_layout_compose(cx, l, tc_layout_get(cx, &out_of_l.spec));
    ok = !r;
    for (unsigned a = rank; ok && a-- > 0;)
        ok = count_side(&into_shape, shape[a]);
    if (!r && ok)
        r = tc_layout_compose(cx, l, tc_layout_get(cx, &into_shape.spec));
    return r;
}

/* A basis of what lanes and warps tell apart along the axis, below its period:
 * reduced images, and which new coordinates make them. */
typedef struct classes {
    int32_t image[32], made[32];
    unsigned n;
    int32_t side;
} classes;

static int32_t class_of(classes *c, int32_t image)
{
    int32_t made = 0;
    for (unsigned i = 0; i < c->n; i++)
        if ((image ^ c->image[i]) < image) {
            image ^= c->image[i];
            made ^= c->made[i];
        }
    if (!image)
        return made;
    c->image[c->n] = image;
    c->made[c->n++] = made ^ c->side;
    made = c->side;
    c->side *= 2;
    return made;
}

const tc_layout *tc_layout_partial(tc_context *cx, const tc_layout *l,
                                   unsigned axis, tc_input apart)
{
    assert(axis < l->rank && !tc_layout_is_shared(l));
    assert(apart == TC_LANE || apart == TC_WARP);
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    for (tc_input in = TC_REGISTER; in < apart; in++)
        forget_axis(&s, axis, in);
    classes c = {.side = 1};
    int32_t period = l->period[axis];
    for (tc_input in = apart; in <= TC_WARP; in++)
        for (unsigned i = 0; i < s.nmodes[in]; i++) {
            int32_t *image = &s.modes[in][i].image[axis];
            if (*image < period)
                *image = class_of(&c, *image);
        }
    /* Odd modes on top. */
    for (tc_input in = apart; in <= TC_WARP; in++)
        for (unsigned i = 0; i < s.nmodes[in]; i++)
            if (l->modes[in][i].image[axis] >= period) {
                s.modes[in][i].image[axis] = c.side;
                c.side *= (int32_t)s.modes[in][i].count;
            }
    s.shape[axis] = c.side;
    return tc_layout_get(cx, &s);
}
