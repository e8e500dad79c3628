/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a tile that are other names for some of each thread's registers.
 *
 *   tile<16x128>   register (0,1) (0,2) (0,64)   lane (0,4) .. (0,32) (1,0) ..
 *   columns 64 to 127: the registers with (0,64), by the others' modes
 *   odd columns:       the registers with (0,1), other images halved
 *
 * A part that begins at any place: the axis is cut into units, which begin and
 * end where parts do. Only register modes may count units.
 *
 * In shared memory a part is one run of offsets if the slowest digits of the
 * offset count its units: of panels of 64 columns, columns 64 to 191 are two.
 */
#include "ir/types/layout.h"

#include <assert.h>

static int32_t common_divisor(int32_t a, int32_t b)
{
    while (b) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Does it move along this axis only? */
static bool is_pure(const tc_layout *l, const tc_mode *m, unsigned axis)
{
    for (unsigned a = 0; a < l->rank; a++)
        if (a != axis && m->image[a])
            return false;
    return true;
}

static void remove_register(tc_layout_spec *s, unsigned i)
{
    s->nmodes[TC_REGISTER]--;
    for (; i < s->nmodes[TC_REGISTER]; i++)
        s->modes[TC_REGISTER][i] = s->modes[TC_REGISTER][i + 1];
}

/* ---- Units ---- */

const tc_layout *tc_layout_repeat(tc_context *cx, const tc_layout *l,
                                  unsigned axis, int32_t n)
{
    if (n == 1)
        return l;
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    tc_layout_spec_add(&s, TC_REGISTER, (uint32_t)n, axis, s.shape[axis]);
    s.shape[axis] *= n;
    return tc_layout_get(cx, &s);
}

/* The first unit of an axis; NULL: others than registers count units. */
static const tc_layout *first_unit(tc_context *cx, const tc_layout *l,
                                   unsigned axis, int32_t unit)
{
    if (l->shape[axis] == unit)
        return l;
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    int32_t count = 1;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = l->nmodes[in]; i-- > 0;) {
            const tc_mode *m = &l->modes[in][i];
            if (m->image[axis] < unit)
                continue;
            if (in != TC_REGISTER || m->image[axis] % unit ||
                !is_pure(l, m, axis))
                return NULL;
            count *= (int32_t)m->count;
            remove_register(&s, i);
        }
    s.shape[axis] = unit;
    if (count * unit != l->shape[axis] || tc_layout_check(cx, &s))
        return NULL;
    return tc_layout_get(cx, &s);
}

/* ---- Steps ---- */

const tc_layout *tc_layout_spread(tc_context *cx, const tc_layout *l,
                                  unsigned axis, int32_t n)
{
    if (n == 1)
        return l;
    tc_layout_spec s, old;
    tc_layout_spec_of(l, &old);
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < old.nmodes[in]; i++)
            old.modes[in][i].image[axis] *= n;
    s = old;
    s.shape[axis] *= n;
    s.nmodes[TC_REGISTER] = 0;
    tc_layout_spec_add(&s, TC_REGISTER, (uint32_t)n, axis, 1);
    for (unsigned i = 0; i < old.nmodes[TC_REGISTER]; i++)
        tc_layout_spec_add_mode(&s, TC_REGISTER, &old.modes[TC_REGISTER][i]);
    return tc_layout_get(cx, &s);
}

/* Every step-th element; NULL: others than registers count those between. */
static const tc_layout *every(tc_context *cx, const tc_layout *l, unsigned axis,
                              int32_t step)
{
    if (step == 1)
        return l;
    if (l->shape[axis] % step || l->period[axis] % step)
        return NULL;
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    int32_t count = 1;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = l->nmodes[in]; i-- > 0;) {
            const tc_mode *m = &l->modes[in][i];
            s.modes[in][i].image[axis] /= step;
            if (m->image[axis] % step == 0)
                continue;
            if (in != TC_REGISTER || m->image[axis] > step / 2 ||
                !is_pure(l, m, axis))
                return NULL;
            count *= (int32_t)m->count;
            remove_register(&s, i);
        }
    s.shape[axis] /= step;
    if (count != step || tc_layout_check(cx, &s))
        return NULL;
    return tc_layout_get(cx, &s);
}

/* ---- Parts ---- */

/* Of the axis in steps. */
static int32_t unit_of(const tc_tile_part *p, int32_t side)
{
    return common_divisor(common_divisor(p->at / p->step, p->side),
                          side / p->step);
}

const tc_layout *tc_layout_part(tc_context *cx, const tc_layout *l,
                                const tc_tile_part *p)
{
    assert(!tc_layout_is_shared(l));
    int32_t unit = unit_of(p, l->shape[p->axis]);
    l = every(cx, l, p->axis, p->step);
    l = l ? first_unit(cx, l, p->axis, unit) : NULL;
    return l ? tc_layout_repeat(cx, l, p->axis, p->side / unit) : NULL;
}

const tc_layout *tc_layout_whole(tc_context *cx, const tc_layout *l,
                                 const tc_tile_part *p, int32_t side)
{
    assert(!tc_layout_is_shared(l) && l->shape[p->axis] == p->side);
    if (side % p->step)
        return NULL;
    int32_t unit = unit_of(p, side);
    l = first_unit(cx, l, p->axis, unit);
    if (!l)
        return NULL;
    l = tc_layout_repeat(cx, l, p->axis, side / p->step / unit);
    return tc_layout_spread(cx, l, p->axis, p->step);
}

/* ---- Runs ---- */

/* Takes the slowest digits of the offset that count along the axis alone, as
 * long as no unit ends where the part begins or ends. */
static bool find_run_unit(const tc_layout *l, tc_layout_spec *s,
                          const tc_tile_part *p)
{
    int32_t *unit = &s->shape[p->axis];
    unsigned *n = &s->nmodes[TC_OFFSET];
    for (; p->at % *unit || p->side % *unit; --*n) {
        const tc_mode *m = *n ? &s->modes[TC_OFFSET][*n - 1] : NULL;
        if (!m || !is_pure(l, m, p->axis) ||
            m->image[p->axis] * (int32_t)m->count != *unit)
            return false;
        *unit = m->image[p->axis];
    }
    return !tc_layout_check(l->cx, s);
}

const tc_layout *tc_layout_run(tc_context *cx, const tc_layout *l,
                               const tc_tile_part *p, uint32_t *first)
{
    assert(tc_layout_is_shared(l));
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    if (p->step != 1 || !find_run_unit(l, &s, p))
        return NULL;
    int32_t unit = s.shape[p->axis];
    *first = (uint32_t)(p->at / unit) *
             tc_layout_size(tc_layout_get(cx, &s), TC_OFFSET);
    tc_layout_spec_add(&s, TC_OFFSET, (uint32_t)(p->side / unit), p->axis,
                       unit);
    s.shape[p->axis] = p->side;
    return tc_layout_get(cx, &s);
}
