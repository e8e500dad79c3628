/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops that move elements between registers, and reductions. Moves are computed
 * once an op: each register of the result has a source register, which must be
 * of the same thread (of the same warp for convert_layout and reduce, which may
 * shuffle).
 */
#include "codegen/interp/combine.h"
#include "ir/parts.h"

#include <math.h>
#include <string.h>

bool tc_interp_splat(tc_interp *it, const tc_op *op)
{
    const tc_ivalue *from = tc_ivalue_of(op->in[0]);
    tc_ivalue *to = tc_ivalue_of(op->out[0]);
    for (unsigned i = 0; i < to->n; i++) {
        to->x[i] = from->x[0];
        to->poison[i] = from->poison[0];
    }
    return true;
}

bool tc_interp_range(tc_interp *it, const tc_op *op)
{
    tc_ivalue *to = tc_ivalue_of(op->out[0]);
    const tc_iplaces *p = tc_interp_places(it, op->out[0]->type->layout);
    for (unsigned i = 0; i < to->n; i++)
        to->x[i].i = p->elem[i];
    return true;
}

bool tc_interp_ramp(tc_interp *it, const tc_op *op)
{
    const tc_ivalue *start = tc_ivalue_of(op->in[0]);
    const tc_ivalue *step = tc_ivalue_of(op->in[1]);
    tc_ivalue *to = tc_ivalue_of(op->out[0]);
    const tc_iplaces *p = tc_interp_places(it, op->out[0]->type->layout);
    for (unsigned i = 0; i < to->n; i++) {
        to->x[i].f =
            fmaf((float)p->elem[i], (float)step->x[0].f, (float)start->x[0].f);
        to->poison[i] = start->poison[0] ? start->poison[0] : step->poison[0];
    }
    return true;
}

/* ---- Moves ---- */

/* The coordinates in the operand of an element of the result. */
static void source_coord(const tc_op *op, const int32_t *to, int32_t *from)
{
    unsigned rank = op->in[0]->type->rank;
    for (unsigned i = 0; i < rank; i++) {
        unsigned axis = i;
        if (op->code == TC_EXPAND_DIMS)
            axis = i + (i >= (unsigned)tc_op_int(op, "axis"));
        from[i] = to[axis];
        if (op->code == TC_BROADCAST && tc_dim_is(op->in[0]->type->dims[i], 1))
            from[i] = 0;
    }
    if (op->code != TC_TRANS)
        return;
    const tc_attr *perm = tc_op_attr(op, "perm");
    for (unsigned i = 0; i < rank; i++) {
        /* No perm: the last two swap. */
        unsigned axis = i + 2 < rank ? i : 2 * rank - 3 - i;
        if (perm->kind != TC_ATTR_NONE)
            axis = (unsigned)perm->ints[i];
        from[axis] = to[i];
    }
}

/* For each element of the result the operand's; both row-major. */
static const uint32_t *source_elements(tc_interp *it, const tc_op *op)
{
    const tc_type *from = op->in[0]->type, *to = op->out[0]->type;
    uint32_t n = tc_interp_places(it, to->layout)->count;
    uint32_t *source = tc_arena_array(&it->arena, uint32_t, n);
    int32_t a[TC_MAX_RANK], b[TC_MAX_RANK], at[TC_MAX_RANK], in[TC_MAX_RANK];
    tc_type_sides(from, a);
    tc_type_sides(to, b);
    for (uint32_t e = 0; e < n; e++) {
        tc_interp_decode(b, to->rank, e, at);
        source_coord(op, at, in);
        source[e] = tc_interp_encode(a, from->rank, in);
    }
    return source;
}

static void move(const tc_op *op, const uint32_t *moves)
{
    const tc_ivalue *from = tc_ivalue_of(op->in[0]);
    tc_ivalue *to = tc_ivalue_of(op->out[0]);
    for (unsigned i = 0; i < to->n; i++) {
        to->x[i] = from->x[moves[i]];
        to->poison[i] = from->poison[moves[i]];
    }
}

static bool move_by_plan(tc_interp *it, const tc_op *op, tc_ireach reach)
{
    tc_iop *info = tc_iop_of(op);
    if (!info->plan) {
        bool same = op->code == TC_CONVERT_LAYOUT || op->code == TC_RESHAPE;
        info->plan = (void *)tc_interp_moves(
            it, op, op->in[0]->type->layout, op->out[0]->type->layout,
            same ? NULL : source_elements(it, op), reach);
    }
    if (!info->plan)
        return false;
    move(op, info->plan);
    return true;
}

bool tc_interp_moved(tc_interp *it, const tc_op *op)
{
    return move_by_plan(it, op, TC_REACH_THREAD);
}

bool tc_interp_convert(tc_interp *it, const tc_op *op)
{
    return move_by_plan(it, op, TC_REACH_WARP);
}

/* Where in all operands' registers, those of operand 0 first, each register of
 * the result comes from. */
typedef struct parts {
    uint8_t *operand;
    uint32_t *from;
} parts;

/* `to`: registers of one thread. */
static bool plan_thread(tc_interp *it, const tc_op *op, uint32_t thread,
                        parts *plan)
{
    const tc_type *type = op->out[0]->type;
    const tc_iplaces *to = tc_interp_places(it, type->layout);
    int32_t sides[TC_MAX_RANK], at[TC_MAX_RANK], in[TC_MAX_RANK];
    tc_type_sides(type, sides);
    for (uint32_t r = 0; r < to->nregs; r++) {
        uint32_t i = thread * to->nregs + r;
        tc_interp_decode(sides, type->rank, to->elem[i], at);
        unsigned k = tc_op_part_source(op, at, in);
        const tc_type *t = op->in[k]->type;
        const tc_iplaces *from = tc_interp_places(it, t->layout);
        int32_t from_sides[TC_MAX_RANK];
        tc_type_sides(t, from_sides);
        uint32_t e = tc_interp_encode(from_sides, t->rank, in), held = 0;
        while (held < from->nregs &&
               from->elem[thread * from->nregs + held] != e)
            held++;
        if (held == from->nregs) {
            (void)!tc_interp_find(it, op, NULL, NULL,
                                  "thread %u needs an element that it does "
                                  "not hold",
                                  thread);
            return false;
        }
        plan->operand[i] = (uint8_t)k;
        plan->from[i] = thread * from->nregs + held;
    }
    return true;
}

static parts *plan_parts(tc_interp *it, const tc_op *op)
{
    uint32_t n = tc_interp_places(it, op->out[0]->type->layout)->n;
    parts *plan = tc_arena_new(&it->arena, parts);
    plan->operand = tc_arena_array(&it->arena, uint8_t, n);
    plan->from = tc_arena_array(&it->arena, uint32_t, n);
    for (uint32_t t = 0; t < it->nthreads; t++)
        if (!plan_thread(it, op, t, plan))
            return NULL;
    return plan;
}

bool tc_interp_parts(tc_interp *it, const tc_op *op)
{
    tc_iop *info = tc_iop_of(op);
    if (!info->plan)
        info->plan = plan_parts(it, op);
    const parts *plan = info->plan;
    tc_ivalue *to = tc_ivalue_of(op->out[0]);
    for (unsigned i = 0; plan && i < to->n; i++) {
        const tc_ivalue *from = tc_ivalue_of(op->in[plan->operand[i]]);
        to->x[i] = from->x[plan->from[i]];
        to->poison[i] = from->poison[plan->from[i]];
    }
    return plan != NULL;
}

/* ---- Reductions ---- */

/* Registers of the operand that each register of the result (each warp's lane
 * 0, where that is a scalar) combines: start[i] to start[i + 1] of `from`. */
typedef struct reduction {
    unsigned n;
    uint32_t *start, *from;
} reduction;

typedef struct reducing {
    tc_interp *it;
    const tc_op *op;
    unsigned axis;
    bool partial;   /* lanes or warps in the axis keep their parts apart */
    unsigned lanes; /* lanes that are combined: those of a warp, or 1 */
    const tc_iplaces *in, *out; /* out NULL: a scalar */
    int32_t sides[TC_MAX_RANK], out_sides[TC_MAX_RANK];
    uint32_t *held; /* for each element a register that takes part, or none */
} reducing;

/* group: of lanes that meet. */
static void note_group(reducing *r, unsigned group)
{
    uint32_t regs = r->lanes * r->in->nregs;
    memset(r->held, 0xff, r->in->count * sizeof *r->held);
    for (uint32_t i = (group + 1) * regs; i-- > group * regs;)
        r->held[r->in->elem[i]] = i;
}

/* Coordinates in the operand, 0 along the axis, of register i of the result. */
static void line_of(const reducing *r, uint32_t i, int32_t *coord)
{
    int32_t at[TC_MAX_RANK] = {0};
    unsigned rank = r->op->in[0]->type->rank;
    if (r->out)
        tc_interp_decode(r->out_sides, r->op->out[0]->type->rank,
                         r->out->elem[i], at);
    for (unsigned k = 0, from = 0; k < rank; k++) {
        bool reduced = k == r->axis;
        coord[k] = reduced ? 0 : at[from];
        from += !reduced || r->partial;
    }
}

/* The registers that make up one result; their number, 0: the warp lacks some.
 */
static uint32_t collect(reducing *r, uint32_t i, uint32_t *from)
{
    int32_t coord[TC_MAX_RANK];
    unsigned rank = r->op->in[0]->type->rank;
    uint32_t n = 0;
    line_of(r, i, coord);
    for (; coord[r->axis] < r->sides[r->axis]; coord[r->axis]++) {
        uint32_t held = r->held[tc_interp_encode(r->sides, rank, coord)];
        if (held != UINT32_MAX)
            from[n++] = held;
        else if (!r->partial)
            return 0;
    }
    return n;
}

static reduction *plan_reduction(tc_interp *it, const tc_op *op)
{
    const tc_type *type = op->in[0]->type, *to = op->out[0]->type;
    reducing r = {.it = it,
                  .op = op,
                  .axis = (unsigned)tc_op_int(op, "axis"),
                  .partial = !tc_op_is_word(op, "within", "block"),
                  .lanes = tc_op_is_word(op, "within", "thread") ? 1 : TC_LANES,
                  .in = tc_interp_places(it, type->layout)};
    tc_type_sides(type, r.sides);
    if (to->kind == TC_TILE) {
        r.out = tc_interp_places(it, to->layout);
        tc_type_sides(to, r.out_sides);
    }
    r.held = tc_arena_array(&it->arena, uint32_t, r.in->count);
    reduction *plan = tc_arena_new(&it->arena, reduction);
    plan->n = r.out ? r.out->n : it->nwarps;
    plan->start = tc_arena_array(&it->arena, uint32_t, plan->n + 1);
    plan->from = tc_arena_array(&it->arena, uint32_t,
                                (size_t)plan->n * (size_t)r.sides[r.axis]);
    unsigned per_group =
        plan->n / (it->nwarps * (r.out ? TC_LANES / r.lanes : 1));
    for (uint32_t i = 0; i < plan->n; i++) {
        if (i % per_group == 0)
            note_group(&r, i / per_group);
        uint32_t n = collect(&r, i, plan->from + plan->start[i]);
        if (n == 0) {
            (void)!tc_interp_find(it, op, NULL, NULL,
                                  "a warp does not hold all elements along "
                                  "axis %u; they must go through shared memory",
                                  r.axis);
            return NULL;
        }
        plan->start[i + 1] = plan->start[i] + n;
    }
    return plan;
}

/* x and poison: one for each operand. */
static bool reduce_line(tc_interp *it, const tc_op *op, const uint32_t *from,
                        uint32_t n, tc_inum *x, tc_ipoison *poison)
{
    enum { MOST = 16 };
    tc_inum y[MOST];
    tc_ipoison other[MOST];
    tc_kind kind = tc_type_elem(op->in[0]->type)->kind;
    for (uint32_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < op->nin; k++) {
            const tc_ivalue *in = tc_ivalue_of(op->in[k]);
            (i ? y : x)[k] = in->x[from[i]];
            (i ? other : poison)[k] = in->poison[from[i]];
        }
        if (i && !tc_interp_combine(it, op, x, poison, y, other))
            return false;
        if (op->nregions == 0 && tc_kind_is_float(kind))
            x->f = tc_round_to(kind, x->f);
    }
    return true;
}

/* Result i of operand k. A scalar is the same in all warps or wrong. */
static bool deliver(tc_interp *it, const tc_op *op, unsigned k, uint32_t i,
                    tc_inum x, tc_ipoison poison)
{
    tc_ivalue *out = tc_ivalue_of(op->out[k]);
    bool is_scalar = op->out[k]->type->kind != TC_TILE;
    if (is_scalar && i > 0) {
        bool agrees = out->x[0].i == x.i || out->poison[0] || poison;
        return agrees || tc_interp_find(it, op, NULL, NULL,
                                        "warps 0 and %u get different results, "
                                        "which must be the same for all",
                                        i);
    }
    out->x[i] = x;
    out->poison[i] = poison;
    return true;
}

bool tc_interp_reduce(tc_interp *it, const tc_op *op)
{
    tc_iop *info = tc_iop_of(op);
    if (!info->plan)
        info->plan = plan_reduction(it, op);
    const reduction *plan = info->plan;
    if (!plan)
        return false;
    enum { MOST = 16 };
    tc_inum x[MOST];
    tc_ipoison poison[MOST];
    if (op->nin > MOST)
        return tc_interp_find(it, op, NULL, NULL, "more than %d operands",
                              MOST) &&
               false;
    for (uint32_t i = 0; i < plan->n; i++) {
        const uint32_t *from = plan->from + plan->start[i];
        uint32_t n = plan->start[i + 1] - plan->start[i];
        if (!reduce_line(it, op, from, n, x, poison))
            return false;
        for (unsigned k = 0; k < op->nin; k++)
            if (!deliver(it, op, k, i, x[k], poison[k]))
                return false;
    }
    return true;
}
