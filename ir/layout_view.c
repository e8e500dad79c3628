/* SPDX-License-Identifier: Apache-2.0
 *
 * The same elements in another shape: transposed, without an axis, with one
 * more, reshaped. Registers, lanes and warps stay what they are; only the
 * coordinates are renamed.
 */
#include "ir/layout.h"

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

/* Counting the elements row-major in a new shape, in the digits of another one
 * (a side is a power of two, then the odd part): digits of tiles of that shape
 * stay digits. */
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

/* l, numbered in the digits that the sides of `by` have. */
static const tc_layout *recounted(tc_context *cx, const tc_layout *l,
                                  unsigned rank, const int32_t *shape,
                                  unsigned by_rank, const int32_t *by)
{
    counting c = {.spec.rank = rank, .axis = rank - 1, .stride = 1};
    memcpy(c.spec.shape, shape, rank * sizeof *shape);
    for (unsigned a = by_rank; a-- > 0;) {
        int32_t power = by[a] & -by[a];
        if (!count_digit(&c, power) || !count_digit(&c, by[a] / power))
            return NULL;
    }
    return tc_layout_compose(cx, l, tc_layout_get(cx, &c.spec));
}

const tc_layout *tc_layout_reshape(tc_context *cx, const tc_layout *l,
                                   unsigned rank, const int32_t *shape)
{
    /* Out of the old shape, or back into it. */
    const tc_layout *r = recounted(cx, l, rank, shape, l->rank, l->shape);
    return r ? r : recounted(cx, l, rank, shape, rank, shape);
}

/* A basis of what warps tell apart along the axis, below its period: reduced
 * images, and which new coordinates make them. */
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
                                   unsigned axis)
{
    assert(axis < l->rank && !tc_layout_is_shared(l));
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    forget_axis(&s, axis, TC_REGISTER);
    forget_axis(&s, axis, TC_LANE);
    classes c = {.side = 1};
    tc_mode *warps = s.modes[TC_WARP];
    int32_t period = l->period[axis];
    for (unsigned i = 0; i < s.nmodes[TC_WARP]; i++)
        if (warps[i].image[axis] < period)
            warps[i].image[axis] = class_of(&c, warps[i].image[axis]);
    /* Odd modes on top. */
    for (unsigned i = 0; i < s.nmodes[TC_WARP]; i++)
        if (l->modes[TC_WARP][i].image[axis] >= period) {
            warps[i].image[axis] = c.side;
            c.side *= (int32_t)warps[i].count;
        }
    s.shape[axis] = c.side;
    return tc_layout_get(cx, &s);
}
