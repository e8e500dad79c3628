/* SPDX-License-Identifier: Apache-2.0
 *
 * The position at which a layout holds given coordinates: its inverse, used for
 * offsets in shared memory and to express one distributed layout in terms of
 * another.
 *
 * Below the periods it is a linear system over F2, solved by elimination:
 * modes that depend on earlier ones are left at 0. Above, each axis is a
 * number in mixed radix, taken apart from the largest stride down.
 */
#include "ir/types/layout_linear.h"

#include <assert.h>
#include <string.h>

/* A mode of the layout that is inverted, and the value its digit has in the
 * result. */
typedef struct column {
    const tc_mode *mode;
    tc_input input;
    unsigned index; /* in its input */
    uint32_t low;
    bool is_low;
    int32_t value[TC_MAX_RANK];
} column;

/* Vectors with their leading bits apart, and what they were made from. */
typedef struct basis {
    uint32_t vector[32];
    uint64_t made_of[32];
} basis;

typedef struct inverse {
    tc_split split;
    unsigned n;
    column columns[TC_MAX_DIGITS];
    unsigned order[TC_MAX_DIGITS]; /* in which those above the periods count */
    basis bases[3];                /* of those below, in orders of one's own */
} inverse;

/* Which modes make some coordinates: a set of those below the periods, digits
 * of those above. */
typedef struct answer {
    uint64_t flips;
    int32_t digit[TC_MAX_DIGITS];
} answer;

static bool add_column(inverse *v, const tc_layout *l, tc_input in, unsigned i)
{
    if (v->n == TC_MAX_DIGITS)
        return false;
    column *c = &v->columns[v->n++];
    *c = (column){.mode = &l->modes[in][i], .input = in, .index = i};
    c->is_low = tc_split_is_low(&v->split, c->mode->image);
    if (c->is_low)
        c->low = tc_split_low(&v->split, c->mode->image);
    /* Neither below nor above: such a mode is not inverted. */
    return c->is_low || !tc_split_low(&v->split, c->mode->image);
}

/* ---- Below the periods ---- */

/* Reduces v as far as it goes; what was added is flipped in `made_of`. */
static uint32_t reduce(const basis *b, uint32_t v, uint64_t *made_of)
{
    for (uint32_t left = v; left;) {
        int bit = 31 - __builtin_clz(left);
        if (b->vector[bit]) {
            v ^= b->vector[bit];
            *made_of ^= b->made_of[bit];
        }
        left = v & ((1u << bit) - 1);
    }
    return v;
}

/* A column that depends on those before it is left out. */
static void extend(basis *b, const inverse *v, unsigned which)
{
    uint64_t made_of = (uint64_t)1 << which;
    uint32_t rest = reduce(b, v->columns[which].low, &made_of);
    if (!rest)
        return;
    int bit = 31 - __builtin_clz(rest);
    b->vector[bit] = rest;
    b->made_of[bit] = made_of;
}

/* ---- Above ---- */

/* The column with the largest stride on the axis that fits into `rest`, and is
 * below `limit`; the first of equal ones. */
static int largest_stride(const inverse *v, unsigned axis, int32_t rest,
                          int32_t limit)
{
    int best = -1;
    int32_t most = 0;
    for (unsigned k = 0; k < v->n; k++) {
        const column *c = &v->columns[v->order[k]];
        int32_t stride = c->mode->image[axis];
        if (!c->is_low && stride > most && stride <= rest && stride < limit) {
            best = (int)v->order[k];
            most = stride;
        }
    }
    return best;
}

static bool solve_high(const inverse *v, unsigned axis, int32_t rest,
                       answer *out)
{
    int32_t limit = INT32_MAX;
    while (rest) {
        int i = largest_stride(v, axis, rest, limit);
        if (i < 0)
            return false;
        const tc_mode *m = v->columns[i].mode;
        int32_t stride = m->image[axis], digit = rest / stride;
        if (digit >= (int32_t)m->count)
            return false;
        out->digit[i] += digit;
        rest -= digit * stride;
        limit = stride;
    }
    return true;
}

static void fill_basis(basis *b, const inverse *v, const unsigned *order)
{
    for (unsigned k = 0; k < v->n; k++)
        if (v->columns[order[k]].is_low)
            extend(b, v, order[k]);
}

/* The modes that make `image`, those of the basis below the periods. */
static bool solve(const inverse *v, const basis *b, const int32_t *image,
                  answer *out)
{
    memset(out, 0, sizeof *out);
    if (reduce(b, tc_split_low(&v->split, image), &out->flips))
        return false;
    for (unsigned a = 0; a < v->split.rank; a++)
        if (!solve_high(v, a, tc_split_high(&v->split, image, a), out))
            return false;
    return true;
}

/* ---- Both ---- */

static void layout_solve_put(tc_linear *r, const inverse *v, tc_input in,
                             uint32_t count, const answer *x)
{
    int32_t add[TC_MAX_RANK] = {0};
    for (unsigned i = 0; i < v->n; i++)
        for (unsigned a = 0; a < r->spec.rank; a++)
            add[a] += x->digit[i] * v->columns[i].value[a];
    tc_linear_put(r, in, count, x->flips, add);
}

/* Digits above the periods are added up over the modes of `a`: do they stay
 * digits, and do the strides of the inverted layout go along with them? All
 * digits that any index of `a` gives are tried, axis by axis: the odd part of a
 * side is small. */
typedef struct sums {
    const inverse *v;
    unsigned axis, nparts, rank;
    struct {
        uint32_t count;
        int32_t high;
        int32_t add[TC_MAX_RANK];
    } parts[TC_MAX_DIGITS];
} sums;

static bool sums_agree(const sums *s, unsigned part, int32_t high,
                       const int32_t *add)
{
    if (part < s->nparts) {
        int32_t sum[TC_MAX_RANK];
        memcpy(sum, add, sizeof sum);
        for (uint32_t d = 0; d < s->parts[part].count; d++) {
            int32_t at = high + (int32_t)d * s->parts[part].high;
            if (!sums_agree(s, part + 1, at, sum))
                return false;
            for (unsigned a = 0; a < s->rank; a++)
                sum[a] += s->parts[part].add[a];
        }
        return true;
    }
    answer x = {0};
    if (!solve_high(s->v, s->axis, high, &x))
        return false;
    int32_t expected[TC_MAX_RANK] = {0};
    for (unsigned i = 0; i < s->v->n; i++)
        for (unsigned a = 0; x.digit[i] && a < s->rank; a++)
            expected[a] += x.digit[i] * s->v->columns[i].value[a];
    return memcmp(expected, add, s->rank * sizeof *add) == 0;
}

static bool highs_are_linear(const inverse *v, const tc_layout *l,
                             unsigned rank)
{
    for (unsigned axis = 0; axis < l->rank; axis++) {
        sums s = {.v = v, .axis = axis, .rank = rank};
        for (int in = 0; in < TC_INPUT_COUNT; in++)
            for (unsigned i = 0; i < l->nmodes[in]; i++) {
                const tc_mode *m = &l->modes[in][i];
                int32_t high = tc_split_high(&v->split, m->image, axis);
                answer x = {0};
                if (!high)
                    continue;
                if (s.nparts == TC_MAX_DIGITS || !solve_high(v, axis, high, &x))
                    return false;
                s.parts[s.nparts].count = m->count;
                s.parts[s.nparts].high = high;
                for (unsigned k = 0; k < v->n; k++)
                    for (unsigned a = 0; a < rank; a++)
                        s.parts[s.nparts].add[a] +=
                            x.digit[k] * v->columns[k].value[a];
                s.nparts++;
            }
        int32_t none[TC_MAX_RANK] = {0};
        if (s.nparts && !sums_agree(&s, 0, 0, none))
            return false;
    }
    return true;
}

/* ---- Offsets ---- */

static const tc_layout *offsets_of(tc_context *cx, const tc_layout *shared,
                                   const tc_layout *tile)
{
    inverse v = {.split = tc_split_of(shared, tile)};
    tc_linear r = {.spec.rank = 1, .xored = {1}};
    uint32_t stride = 1;
    for (unsigned i = 0; i < shared->nmodes[TC_OFFSET]; i++) {
        v.order[i] = i;
        if (!add_column(&v, shared, TC_OFFSET, i))
            return NULL;
        v.columns[i].value[0] = r.digits[i].value[0] = (int32_t)stride;
        stride *= shared->modes[TC_OFFSET][i].count;
    }
    r.ndigits = v.n;
    r.spec.shape[0] = (int32_t)stride;
    fill_basis(&v.bases[0], &v, v.order);
    if (!tc_split_suits(&v.split, shared) || !tc_split_suits(&v.split, tile) ||
        !highs_are_linear(&v, tile, 1))
        return NULL;
    for (int in = 0; in < TC_INPUT_COUNT; in++)
        for (unsigned i = 0; i < tile->nmodes[in]; i++) {
            const tc_mode *m = &tile->modes[in][i];
            answer x;
            if (!solve(&v, &v.bases[0], m->image, &x))
                return NULL;
            layout_solve_put(&r, &v, (tc_input)in, m->count, &x);
        }
    return tc_linear_end(&r, cx);
}

const tc_layout *tc_layout_offsets(tc_context *cx, const tc_layout *shared,
                                   const tc_layout *tile)
{
    assert(shared->rank == tile->rank && tc_layout_is_shared(shared) &&
           memcmp(shared->shape, tile->shape, sizeof tile->shape) == 0);
    return offsets_of(cx, shared, tile);
}

/* ---- One distributed layout in terms of another ---- */

static const tc_input preferences[3][3] = {
    [TC_REGISTER] = {TC_REGISTER, TC_LANE, TC_WARP},
    [TC_LANE] = {TC_LANE, TC_REGISTER, TC_WARP},
    [TC_WARP] = {TC_WARP, TC_REGISTER, TC_LANE},
};

/* The order in which modes are preferred for those of `to`. */
static void prefer(const inverse *v, tc_input in, unsigned *order)
{
    unsigned n = 0;
    for (int p = 0; p < 3; p++)
        for (unsigned i = 0; i < v->n; i++)
            if (v->columns[i].input == preferences[in][p])
                order[n++] = i;
}

/* The digit of `from` in the same place as a lane's or warp's of `to`: it stays
 * if it can, that is if registers make up for the difference. */
static bool keep_place(const inverse *v, tc_input in, unsigned index,
                       const tc_mode *m, answer *out)
{
    for (unsigned i = 0; i < v->n && in != TC_REGISTER; i++) {
        const column *c = &v->columns[i];
        if (c->input != in || c->index != index || c->mode->count != m->count)
            continue;
        int32_t rest[TC_MAX_RANK];
        for (unsigned a = 0; a < v->split.rank; a++) {
            int32_t low = v->split.period[a] - 1;
            rest[a] = (m->image[a] ^ c->mode->image[a]) & low;
            if ((m->image[a] & ~low) != (c->mode->image[a] & ~low))
                return false;
        }
        if (!solve(v, &v->bases[TC_REGISTER], rest, out))
            return false;
        for (unsigned k = 0; k < v->n; k++)
            if (out->flips >> k & 1 && v->columns[k].input != TC_REGISTER)
                return false;
        if (c->is_low && c->mode->count == 2)
            out->flips ^= (uint64_t)1 << i;
        else
            out->digit[i]++;
        return true;
    }
    return false;
}

static const tc_layout *solution(tc_context *cx, const tc_layout *from,
                                 const tc_layout *to)
{
    inverse v = {.split = tc_split_of(from, to)};
    tc_linear r = {.spec.rank = 3, .xored = {1, 1, 1}};
    unsigned order[TC_MAX_DIGITS];
    for (tc_input in = TC_REGISTER; in <= TC_WARP; in++) {
        uint32_t stride = 1;
        for (unsigned i = 0; i < from->nmodes[in]; i++) {
            if (!add_column(&v, from, in, i))
                return NULL;
            v.columns[v.n - 1].value[in] = (int32_t)stride;
            stride *= from->modes[in][i].count;
        }
        r.spec.shape[in] = (int32_t)stride;
    }
    for (unsigned i = 0; i < v.n; i++)
        memcpy(r.digits[i].value, v.columns[i].value, sizeof v.columns->value);
    r.ndigits = v.n;
    for (tc_input in = TC_REGISTER; in <= TC_WARP; in++) {
        prefer(&v, in, order);
        fill_basis(&v.bases[in], &v, order);
    }
    prefer(&v, TC_REGISTER, v.order);
    if (!tc_split_suits(&v.split, from) || !tc_split_suits(&v.split, to) ||
        !highs_are_linear(&v, to, 3))
        return NULL;
    for (tc_input in = TC_REGISTER; in <= TC_WARP; in++)
        for (unsigned i = 0; i < to->nmodes[in]; i++) {
            const tc_mode *m = &to->modes[in][i];
            answer x;
            if (!keep_place(&v, in, i, m, &x) &&
                !solve(&v, &v.bases[in], m->image, &x))
                return NULL;
            layout_solve_put(&r, &v, in, m->count, &x);
        }
    return tc_linear_end(&r, cx);
}

const tc_layout *tc_layout_solve(tc_context *cx, const tc_layout *from,
                                 const tc_layout *to)
{
    assert(from->rank == to->rank && !tc_layout_is_shared(from) &&
           !tc_layout_is_shared(to) &&
           memcmp(from->shape, to->shape, sizeof to->shape) == 0);
    return solution(cx, from, to);
}
