/* SPDX-License-Identifier: Apache-2.0
 *
 * The positions of elements. Layouts become tables once, by their definition
 * (tc_layout_apply) and nothing else: the interpreter must not repeat a mistake
 * of the algebra.
 */
#include "codegen/interp/state.h"

#include <string.h>

void tc_interp_decode(const int32_t *sides, unsigned rank, uint32_t elem,
                      int32_t coord[TC_MAX_RANK])
{
    for (unsigned i = rank; i-- > 0;) {
        coord[i] = (int32_t)(elem % (uint32_t)sides[i]);
        elem /= (uint32_t)sides[i];
    }
}

uint32_t tc_interp_encode(const int32_t *sides, unsigned rank,
                          const int32_t *coord)
{
    uint32_t elem = 0;
    for (unsigned i = 0; i < rank; i++)
        elem = elem * (uint32_t)sides[i] + (uint32_t)coord[i];
    return elem;
}

static uint32_t element_at(const tc_layout *l,
                           const uint32_t index[TC_INPUT_COUNT])
{
    int32_t coord[TC_MAX_RANK];
    tc_layout_apply(l, index, coord);
    return tc_interp_encode(l->shape, l->rank, coord);
}

static uint32_t count_elements(const tc_layout *l)
{
    uint32_t n = 1;
    for (unsigned i = 0; i < l->rank; i++)
        n *= (uint32_t)l->shape[i];
    return n;
}

const tc_iplaces *tc_interp_places(tc_interp *it, const tc_layout *l)
{
    tc_iplaces *p = tc_map_get(&it->places, l);
    if (p)
        return p;
    p = tc_arena_new(&it->arena, tc_iplaces);
    p->nregs = tc_layout_size(l, TC_REGISTER);
    p->n = p->nregs * it->nthreads;
    p->count = count_elements(l);
    p->elem = tc_arena_array(&it->arena, uint32_t, p->n);
    p->first = tc_arena_array(&it->arena, uint32_t, p->count);
    memset(p->first, 0xff, p->count * sizeof *p->first);
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t thread = i / p->nregs;
        uint32_t index[TC_INPUT_COUNT] = {[TC_REGISTER] = i % p->nregs,
                                          [TC_LANE] = thread % TC_LANES,
                                          [TC_WARP] = thread / TC_LANES};
        uint32_t e = element_at(l, index);
        p->elem[i] = e;
        if (p->first[e] == UINT32_MAX)
            p->first[e] = i;
    }
    tc_map_set(&it->places, l, p);
    return p;
}

const uint8_t *tc_interp_groups(tc_interp *it, const tc_layout *l)
{
    uint8_t *groups = tc_map_get(&it->groups, l);
    if (groups)
        return groups;
    const tc_iplaces *p = tc_interp_places(it, l);
    groups = tc_arena_array(&it->arena, uint8_t, p->count);
    for (uint32_t i = 0; i < p->n; i++)
        groups[p->elem[i]] |=
            (uint8_t)(1u << tc_interp_group_of(it, i / p->nregs));
    tc_map_set(&it->groups, l, groups);
    return groups;
}

const uint32_t *tc_interp_offsets(tc_interp *it, const tc_layout *l)
{
    uint32_t *offsets = tc_map_get(&it->offsets, l);
    if (offsets)
        return offsets;
    uint32_t n = tc_layout_size(l, TC_OFFSET);
    offsets = tc_arena_array(&it->arena, uint32_t, count_elements(l));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t index[TC_INPUT_COUNT] = {[TC_OFFSET] = i};
        offsets[element_at(l, index)] = i;
    }
    tc_map_set(&it->offsets, l, offsets);
    return offsets;
}

/* held[e] becomes the first register of one thread, or of one warp, that holds
 * element e; stale entries are told apart by their range. */
static void note_held(const tc_iplaces *p, uint32_t from, uint32_t to,
                      uint32_t *held)
{
    for (uint32_t i = to; i-- > from;)
        held[p->elem[i]] = i;
}

static bool is_in(uint32_t i, uint32_t from, uint32_t to)
{
    return i >= from && i < to;
}

static const uint32_t *missing(tc_interp *it, const tc_op *op, uint32_t thread,
                               tc_ireach reach)
{
    (void)!tc_interp_find(
        it, op, NULL, NULL,
        reach == TC_REACH_THREAD
            ? "thread %u needs an element that it does not hold"
            : "thread %u needs an element that its warp does not hold; it must "
              "go through shared memory",
        thread);
    return NULL;
}

const uint32_t *tc_interp_moves(tc_interp *it, const tc_op *op,
                                const tc_layout *from, const tc_layout *to,
                                const uint32_t *source, tc_ireach reach)
{
    const tc_iplaces *a = tc_interp_places(it, from);
    const tc_iplaces *b = tc_interp_places(it, to);
    uint32_t *moves = tc_arena_array(&it->arena, uint32_t, b->n);
    uint32_t *own = tc_arena_array(&it->arena, uint32_t, a->count);
    uint32_t *near = tc_arena_array(&it->arena, uint32_t, a->count);
    memset(own, 0xff, a->count * sizeof *own);
    memset(near, 0xff, a->count * sizeof *near);
    uint32_t warp_regs = TC_LANES * a->nregs;
    for (uint32_t t = 0; t < it->nthreads; t++) {
        uint32_t first = t * a->nregs, warp = t / TC_LANES * warp_regs;
        if (t % TC_LANES == 0)
            note_held(a, warp, warp + warp_regs, near);
        note_held(a, first, first + a->nregs, own);
        for (uint32_t i = t * b->nregs; i < (t + 1) * b->nregs; i++) {
            uint32_t e = source ? source[b->elem[i]] : b->elem[i];
            moves[i] = own[e];
            if (!is_in(own[e], first, first + a->nregs))
                moves[i] = reach == TC_REACH_WARP ? near[e] : UINT32_MAX;
            if (!is_in(moves[i], warp, warp + warp_regs))
                return missing(it, op, t, reach);
        }
    }
    return moves;
}

/* Bit for bit, but that all NaNs are one. */
static bool same(tc_inum a, tc_inum b, bool is_float)
{
    if (!is_float)
        return a.i == b.i;
    return a.i == b.i || (a.f != a.f && b.f != b.f);
}

bool tc_interp_gather(tc_interp *it, const tc_op *op, unsigned operand,
                      tc_inum *x, tc_ipoison *poison)
{
    const tc_value *v = op->in[operand];
    const tc_ivalue *from = tc_ivalue_of(v);
    const tc_iplaces *p = tc_interp_places(it, v->type->layout);
    bool is_float = tc_type_is_float(v->type);
    for (uint32_t e = 0; e < p->count; e++) {
        x[e] = from->x[p->first[e]];
        poison[e] = from->poison[p->first[e]];
    }
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t e = p->elem[i];
        if (from->poison[i] || poison[e] || same(from->x[i], x[e], is_float))
            continue;
        return tc_interp_find(it, op, v->def, "computed here",
                              "threads %u and %u hold one element of operand "
                              "%u and disagree on it",
                              p->first[e] / p->nregs, i / p->nregs, operand);
    }
    return true;
}
