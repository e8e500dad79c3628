/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared memory through which a tile changes its layout: the well-known
 * ones are tried, and one that is made for the two layouts (Zhou et al. 2025,
 * "Linear Layouts", optimal swizzling).
 *
 * Below the periods an offset is vector | bank | segment bits. The vector
 * consists of elements that one thread holds. Of the rest, the segment is
 * chosen: a space of coordinates that meets neither the span of the lanes of a
 * storing phase nor that of a loading one. Then no two lanes of a phase differ
 * in the segment alone, and banks distinguish them:
 *
 *   store lanes  a b c      segment  a+d b+e c+f     (and what is in neither)
 *   load lanes   d e f      bank     a b c           (any complement)
 */
#include "ir/types/layout_linear.h"

#include <string.h>

/* ---- Subspaces ---- */

typedef struct space {
    unsigned n;
    uint32_t vector[32];  /* as they were added */
    uint32_t reduced[32]; /* by leading bit */
} space;

static uint32_t reduce(const space *s, uint32_t v)
{
    for (uint32_t left = v; left;) {
        int bit = 31 - __builtin_clz(left);
        v ^= s->reduced[bit];
        left = v & ((1u << bit) - 1);
    }
    return v;
}

/* False: it is in there already. */
static bool layout_scratch_add(space *s, uint32_t v)
{
    uint32_t rest = reduce(s, v);
    if (!rest)
        return false;
    s->reduced[31 - __builtin_clz(rest)] = rest;
    s->vector[s->n++] = v;
    return true;
}

/* ---- Images as vectors ---- */

typedef struct problem {
    tc_context *cx;
    const tc_layout *from, *to;
    unsigned bits, bytes; /* of an element */
    tc_split split;
    unsigned nbits; /* of all coordinates below the periods */
    const tc_layout *best;
    uint64_t cost;
} problem;

/* Images of an input that are all below the periods. */
static unsigned lows(const problem *p, const tc_layout *l, tc_input in,
                     uint32_t *out)
{
    unsigned n = 0;
    for (unsigned i = 0; i < l->nmodes[in]; i++) {
        const tc_mode *m = &l->modes[in][i];
        if (m->count == 2 && tc_split_is_low(&p->split, m->image))
            out[n++] = tc_split_low(&p->split, m->image);
    }
    return n;
}

static bool is_among(const uint32_t *all, unsigned n, uint32_t v)
{
    for (unsigned i = 0; i < n; i++)
        if (all[i] == v)
            return true;
    return false;
}

/* The elements that a thread of a layout holds, up to a vector; with `other`,
 * only those that its threads hold, too. */
static void add_vector(const problem *p, space *s, const tc_layout *l,
                       const tc_layout *other)
{
    uint32_t mine[32], theirs[32];
    unsigned n = lows(p, l, TC_REGISTER, mine), m = 0;
    if (other)
        m = lows(p, other, TC_REGISTER, theirs);
    for (unsigned i = 0; i < n; i++)
        if (p->bytes << s->n < 16 && (!other || is_among(theirs, m, mine[i])))
            layout_scratch_add(s, mine[i]);
}

/* Lanes of one phase: of an access as wide as the vector's part that one thread
 * of l holds. */
static unsigned phase_lanes(const problem *p, const space *vector,
                            const tc_layout *l)
{
    uint32_t held[32];
    unsigned n = lows(p, l, TC_REGISTER, held), k = 0;
    while (k < vector->n && is_among(held, n, vector->vector[k]))
        k++;
    unsigned bytes = p->bytes << k;
    return bytes >= 16 ? 3 : bytes >= 8 ? 4 : 5;
}

/* Appends to `s` what the lanes of a phase add to it, and lists that. */
static unsigned phase(const problem *p, const space *vector, const tc_layout *l,
                      space s, uint32_t *out)
{
    uint32_t lanes[32];
    unsigned n = lows(p, l, TC_LANE, lanes), k = 0;
    unsigned most = phase_lanes(p, vector, l);
    for (unsigned i = 0; i < n && i < most; i++)
        if (layout_scratch_add(&s, lanes[i]))
            out[k++] = lanes[i];
    return k;
}

/* ---- The one made for both ---- */

/* Vectors that are in neither phase, then sums of one of each: what the lanes
 * do not have in common. */
static void choose_segment(const problem *p, const space *vector,
                           unsigned wanted, space *segment)
{
    uint32_t a[32], b[32];
    unsigned na = phase(p, vector, p->from, *vector, a);
    unsigned nb = phase(p, vector, p->to, *vector, b);
    space both = *vector, all = *vector;
    for (unsigned i = 0; i < na; i++)
        layout_scratch_add(&both, a[i]);
    all = both;
    /* Bases of b that a does not have, bases of a that b does not have. */
    uint32_t only_b[32], only_a[32];
    unsigned nob = 0, noa = 0;
    for (unsigned i = 0; i < nb; i++)
        if (layout_scratch_add(&all, b[i]))
            only_b[nob++] = b[i];
    both = *vector;
    for (unsigned i = 0; i < nb; i++)
        layout_scratch_add(&both, b[i]);
    for (unsigned i = 0; i < na; i++)
        if (layout_scratch_add(&both, a[i]))
            only_a[noa++] = a[i];
    for (unsigned i = 0; i < p->nbits && segment->n < wanted; i++)
        if (layout_scratch_add(&all, 1u << i))
            layout_scratch_add(segment, 1u << i);
    for (unsigned i = 0; i < noa && i < nob && segment->n < wanted; i++)
        layout_scratch_add(segment, only_a[i] ^ only_b[i]);
    /* Conflicts that no choice avoids. */
    for (unsigned i = 0; i < p->nbits && segment->n < wanted; i++)
        if (reduce(vector, 1u << i))
            layout_scratch_add(segment, 1u << i);
}

static void put_vector(const problem *p, tc_layout_spec *s, uint32_t v)
{
    tc_mode m = {.count = 2};
    for (unsigned a = 0; a < p->split.rank; a++)
        m.image[a] =
            (int32_t)(v >> p->split.shift[a]) & (p->split.period[a] - 1);
    tc_layout_spec_add_mode(s, TC_OFFSET, &m);
}

static const tc_layout *made_for_both(const problem *p, const space *vector)
{
    unsigned group = 128 / (p->bytes << vector->n), wanted = 0;
    unsigned nbank = (unsigned)__builtin_ctz(group);
    if (p->nbits > vector->n + nbank)
        wanted = p->nbits - vector->n - nbank;
    space segment = {0}, all = *vector;
    choose_segment(p, vector, wanted, &segment);
    tc_layout_spec s = {.rank = p->from->rank};
    memcpy(s.shape, p->from->shape, sizeof s.shape);
    for (unsigned i = 0; i < vector->n; i++)
        put_vector(p, &s, vector->vector[i]);
    for (unsigned i = 0; i < segment.n; i++)
        layout_scratch_add(&all, segment.vector[i]);
    for (unsigned i = 0; i < p->nbits; i++)
        if (layout_scratch_add(&all, 1u << i))
            put_vector(p, &s, 1u << i);
    for (unsigned i = 0; i < segment.n; i++)
        put_vector(p, &s, segment.vector[i]);
    for (unsigned a = 0; a < s.rank; a++)
        tc_layout_spec_add(&s, TC_OFFSET,
                           (uint32_t)(s.shape[a] / p->split.period[a]), a,
                           p->split.period[a]);
    return tc_layout_check(p->cx, &s) ? NULL : tc_layout_get(p->cx, &s);
}

/* ---- The search ---- */

/* Bank cycles of a warp's accesses plus their number of instructions; 0: not
 * expressible. */
static uint64_t cost_of(const problem *p, const tc_layout *shared,
                        const tc_layout *tile)
{
    const tc_layout *offsets = tc_layout_offsets(p->cx, shared, tile);
    if (!offsets)
        return 0;
    tc_access a = tc_layout_access(offsets, p->bits);
    uint64_t n = tc_layout_size(tile, TC_REGISTER) / a.vector;
    uint64_t phases = a.vector * p->bytes > 4 ? a.vector * p->bytes / 4 : 1;
    return n * (2 * phases * a.ways + 1);
}

/* The first of equally good candidates is kept. */
static void try(problem *p, const tc_layout *shared)
{
    uint64_t store = shared ? cost_of(p, shared, p->from) : 0;
    uint64_t load = shared ? cost_of(p, shared, p->to) : 0;
    if (store && load && (!p->best || store + load < p->cost)) {
        p->best = shared;
        p->cost = store + load;
    }
}

static void try_known(problem *p, const unsigned *order)
{
    const tc_layout *l = p->from;
    unsigned bits = 8 * p->bytes;
    unsigned widest = tc_layout_widest_swizzle(l->shape[order[0]], bits);
    try(p, tc_layout_swizzled(p->cx, l->rank, l->shape, order, bits, 0));
    for (unsigned swizzle = widest; swizzle >= 32; swizzle /= 2)
        try(p,
            tc_layout_swizzled(p->cx, l->rank, l->shape, order, bits, swizzle));
    for (unsigned bytes = 32; l->rank > 1 && bytes >= 4; bytes /= 2)
        if (bytes >= p->bytes)
            try(p, tc_layout_xor(p->cx, l->rank, l->shape, order,
                                 bytes / p->bytes, 1, 128 / bytes));
}

static void try_made(problem *p)
{
    const tc_layout *const sides[][2] = {
        {p->to, p->from}, {p->to, NULL}, {p->from, NULL}};
    for (int i = 0; i < 3; i++) {
        space vector = {0};
        add_vector(p, &vector, sides[i][0], sides[i][1]);
        try(p, made_for_both(p, &vector));
    }
}

const tc_layout *tc_layout_scratch(tc_context *cx, const tc_layout *from,
                                   const tc_layout *to, unsigned bits)
{
    problem p = {.cx = cx, .from = from, .to = to, .bits = bits};
    p.bytes = bits <= 8 ? 1 : bits / 8;
    p.split = tc_split_of(from, to);
    for (unsigned a = 0; a < from->rank; a++)
        p.nbits += (unsigned)__builtin_ctz((unsigned)p.split.period[a]);
    /* Each axis as the fastest, the last one first. */
    for (unsigned fastest = from->rank; fastest-- > 0;) {
        unsigned n = 0, order[TC_MAX_RANK];
        order[n++] = fastest;
        for (unsigned a = from->rank; a-- > 0;)
            if (a != fastest)
                order[n++] = a;
        try_known(&p, order);
    }
    try_made(&p);
    return p.best;
}
