/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans: each warp goes along the lines of the tile, as far as it holds them.
 * A warp must hold whole lines, or the scan is one within warps; what it holds
 * is one piece then, whose totals scan_carry combines with those of the pieces
 * before. A thread must hold these totals itself.
 */
#include "codegen/interp/combine.h"

#include <string.h>

/* Elements combined at once. */
enum { MOST = 16 };

typedef struct tuple {
    tc_inum x[MOST];
    tc_ipoison poison[MOST];
} tuple;

typedef struct scanning {
    tc_interp *it;
    const tc_op *op;
    unsigned axis, n, rank; /* n: elements combined at once */
    bool reverse, exclusive, within;
    const tc_iplaces *in;
    int32_t sides[TC_MAX_RANK];
    uint32_t *held; /* for each element a register of the warp, or none */
    tuple *result;  /* of each element that the warp holds */
} scanning;

static tuple element_at(const scanning *s, uint32_t reg, unsigned operand)
{
    tuple t;
    for (unsigned k = 0; k < s->n; k++) {
        const tc_ivalue *v = tc_ivalue_of(s->op->in[operand + k]);
        t.x[k] = v->x[reg];
        t.poison[k] = v->poison[reg];
    }
    return t;
}

static bool combine(const scanning *s, tuple *sum, tuple next)
{
    return tc_interp_combine(s->it, s->op, sum->x, sum->poison, next.x,
                             next.poison);
}

/* Rounded to the type, as results are. */
static tuple rounded(const scanning *s, tuple t)
{
    for (unsigned k = 0; k < s->n; k++) {
        tc_kind kind = tc_type_elem(s->op->in[k]->type)->kind;
        if (tc_kind_is_float(kind))
            t.x[k].f = tc_round_to(kind, t.x[k].f);
    }
    return t;
}

static bool lacks(const scanning *s, unsigned warp)
{
    return tc_interp_find(s->it, s->op, NULL, NULL,
                          "warp %u does not hold all elements along axis %u; "
                          "totals must go through shared memory",
                          warp, s->axis) &&
           false;
}

/* The line whose first element is `first`; *sum: all of it. */
static bool scan_line(scanning *s, unsigned warp, uint32_t first, tuple *sum,
                      bool *any)
{
    int32_t coord[TC_MAX_RANK];
    tc_interp_decode(s->sides, s->rank, first, coord);
    bool missing = false;
    *any = false;
    for (int32_t i = 0; i < s->sides[s->axis]; i++) {
        coord[s->axis] = s->reverse ? s->sides[s->axis] - 1 - i : i;
        uint32_t e = tc_interp_encode(s->sides, s->rank, coord);
        if (s->held[e] == UINT32_MAX) {
            missing = true;
            continue;
        }
        tuple next = element_at(s, s->held[e], 0);
        if (s->exclusive) {
            tuple before = {0};
            before.x[0] = tc_interp_neutral(s->op);
            s->result[e] = rounded(s, *any ? *sum : before);
        }
        if (!*any)
            *sum = next;
        else if (!combine(s, sum, next))
            return false;
        if (!s->exclusive)
            s->result[e] = rounded(s, *sum);
        *any = true;
    }
    return !missing || !*any || s->within || lacks(s, warp);
}

static void put(const scanning *s, unsigned result, uint32_t reg, tuple t)
{
    for (unsigned k = 0; k < s->n; k++) {
        tc_ivalue *v = tc_ivalue_of(s->op->out[result + k]);
        v->x[reg] = t.x[k];
        v->poison[reg] = t.poison[k];
    }
}

/* The warp's registers of the totals of a line. */
static void put_totals(const scanning *s, unsigned warp, uint32_t first,
                       tuple sum)
{
    const tc_type *t = s->op->out[s->n]->type;
    const tc_iplaces *p = tc_interp_places(s->it, t->layout);
    uint32_t regs = TC_LANES * p->nregs;
    int32_t sides[TC_MAX_RANK], coord[TC_MAX_RANK];
    tc_type_sides(t, sides);
    for (uint32_t i = warp * regs; i < (warp + 1) * regs; i++) {
        tc_interp_decode(sides, s->rank, p->elem[i], coord);
        coord[s->axis] = 0;
        if (tc_interp_encode(s->sides, s->rank, coord) == first)
            put(s, s->n, i, sum);
    }
}

static bool scan_warp(scanning *s, unsigned warp)
{
    uint32_t regs = TC_LANES * s->in->nregs;
    int32_t coord[TC_MAX_RANK];
    memset(s->held, 0xff, s->in->count * sizeof *s->held);
    for (uint32_t i = (warp + 1) * regs; i-- > warp * regs;)
        s->held[s->in->elem[i]] = i;
    for (uint32_t e = 0; e < s->in->count; e++) {
        tuple sum;
        bool any;
        tc_interp_decode(s->sides, s->rank, e, coord);
        if (coord[s->axis])
            continue;
        if (!scan_line(s, warp, e, &sum, &any))
            return false;
        if (s->within && any)
            put_totals(s, warp, e, rounded(s, sum));
    }
    for (uint32_t i = warp * regs; i < (warp + 1) * regs; i++)
        put(s, 0, i, s->result[s->in->elem[i]]);
    return true;
}

static scanning scanning_of(tc_interp *it, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    scanning s = {.it = it,
                  .op = op,
                  .axis = (unsigned)tc_op_int(op, "axis"),
                  .n = tc_op_ncombined(op),
                  .rank = t->rank,
                  .reverse = tc_op_int(op, "reverse"),
                  .in = tc_interp_places(it, t->layout)};
    tc_type_sides(t, s.sides);
    return s;
}

static bool too_many(const scanning *s)
{
    return s->n > MOST && (tc_interp_find(s->it, s->op, NULL, NULL,
                                          "more than %d operands", MOST),
                           true);
}

bool tc_interp_scan(tc_interp *it, const tc_op *op)
{
    scanning s = scanning_of(it, op);
    if (too_many(&s))
        return false;
    s.exclusive = tc_op_int(op, "exclusive");
    s.within = tc_op_is_word(op, "within", "warp");
    s.held = tc_arena_array(&it->scratch, uint32_t, s.in->count);
    s.result = tc_arena_array(&it->scratch, tuple, s.in->count);
    for (unsigned warp = 0; warp < it->nwarps; warp++)
        if (!scan_warp(&s, warp))
            return false;
    return true;
}

/* ---- Totals of other warps ---- */

/* The register of thread t that holds an element of the totals; UINT32_MAX:
 * found. */
static uint32_t find_total(const scanning *s, const tc_iplaces *p, uint32_t t,
                           uint32_t element)
{
    for (uint32_t i = t * p->nregs; i < (t + 1) * p->nregs; i++)
        if (p->elem[i] == element)
            return i;
    (void)!tc_interp_find(s->it, s->op, NULL, NULL,
                          "thread %u needs totals that it does not hold", t);
    return UINT32_MAX;
}

/* What comes before the element in register i of all pieces. */
static bool find_carry(const scanning *s, uint32_t i, tuple *sum, bool *any)
{
    const tc_type *type = s->op->in[s->n]->type;
    const tc_iplaces *p = tc_interp_places(s->it, type->layout);
    int32_t sides[TC_MAX_RANK], coord[TC_MAX_RANK];
    tc_type_sides(type, sides);
    tc_interp_decode(s->sides, s->rank, s->in->elem[i], coord);
    int32_t pieces = sides[s->axis];
    int32_t own = coord[s->axis] / (s->sides[s->axis] / pieces);
    own = s->reverse ? pieces - 1 - own : own;
    *any = own > 0;
    for (int32_t k = 0; k < own; k++) {
        coord[s->axis] = s->reverse ? pieces - 1 - k : k;
        uint32_t reg = find_total(s, p, i / s->in->nregs,
                                  tc_interp_encode(sides, s->rank, coord));
        if (reg == UINT32_MAX)
            return false;
        tuple next = element_at(s, reg, s->n);
        if (k == 0)
            *sum = next;
        else if (!combine(s, sum, next))
            return false;
    }
    return true;
}

bool tc_interp_scan_carry(tc_interp *it, const tc_op *op)
{
    scanning s = scanning_of(it, op);
    if (too_many(&s))
        return false;
    for (uint32_t i = 0; i < s.in->n; i++) {
        tuple sum, own = element_at(&s, i, 0);
        bool any;
        if (!find_carry(&s, i, &sum, &any))
            return false;
        if (any && !combine(&s, &sum, own))
            return false;
        put(&s, 0, i, any ? rounded(&s, sum) : own);
    }
    return true;
}
