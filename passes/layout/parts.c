/* SPDX-License-Identifier: Apache-2.0
 *
 * slice, join, interleave: parts are other names for some registers of each
 * thread where a layout can be chosen for that.
 *
 *   %x = load %a : tile<16x128 x bf16>       cut in units of 64 columns: a warp
 *   %l = slice %x axis(1) side(64)           loads 4 rows of 64, then those of
 *   %h = slice %x axis(1) at(64) side(64)    the other half
 *   %r = interleave %l, %h axis(1)           also cut in steps of 2
 *
 * Cuts are handed on from class to class before layouts are chosen.
 * Accumulators of products have layouts of their own: if which registers are in
 * a part depends on the thread, a conversion of the whole stands before it.
 */
#include "ir/parts.h"
#include "passes/layout/assign_layouts.h"

static int32_t common_divisor(int32_t a, int32_t b)
{
    while (b) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int32_t side_of(const tc_type *t, unsigned axis)
{
    return (int32_t)tc_dim_value(t->dims[axis]);
}

static unsigned count_parts(const tc_op *op)
{
    return op->code == TC_SLICE ? 1 : op->nin;
}

void tc_parts_relate(tc_placing *s, const tc_op *op)
{
    for (unsigned i = 0; i < count_parts(op); i++) {
        tc_class *whole = tc_class_of(s, tc_op_whole(op));
        tc_class *part = tc_class_of(s, tc_op_part_value(op, i));
        if (!whole || !part)
            continue;
        tc_part_relation *r = tc_arena_new(s->scratch, tc_part_relation);
        *r = (tc_part_relation){s->parts, whole, part, op, i};
        s->parts = r;
    }
}

/* ---- Cuts ---- */

/* Adds what a part asks of the whole. True: something is new. */
static bool cut(tc_cut *whole, const tc_cut *part, const tc_tile_part *p,
                int32_t side)
{
    int32_t step = p->step * (part->step ? part->step : 1);
    int32_t unit = common_divisor(p->at - p->at % p->step, p->side * p->step);
    unit = common_divisor(unit, whole->unit ? whole->unit : side);
    if (part->unit)
        unit = common_divisor(unit, part->unit * p->step);
    tc_cut old = *whole;
    if (unit < side)
        whole->unit = unit;
    if (step > 1 && step > whole->step)
        whole->step = step;
    return whole->unit != old.unit || whole->step != old.step;
}

/* Cuts the part as its whole is cut. True: something changed. */
static bool cut_part(tc_cut *part, const tc_cut *whole, const tc_tile_part *p)
{
    tc_cut old = *part;
    int32_t unit = whole->unit / p->step, step = whole->step / p->step;
    if (unit > 0 && unit < p->side)
        part->unit = part->unit ? common_divisor(part->unit, unit) : unit;
    if (step > 1 && step > part->step && p->side % step == 0)
        part->step = step;
    return part->unit != old.unit || part->step != old.step;
}

void tc_parts_cut(tc_placing *s)
{
    bool again = s->parts != NULL;
    while (again) {
        again = false;
        for (tc_part_relation *r = s->parts; r; r = r->next) {
            tc_tile_part p = tc_op_part(r->op, r->i);
            tc_class *whole = tc_class_root(r->whole);
            tc_class *part = tc_class_root(r->part);
            int32_t side = side_of(whole->tile, p.axis);
            again |= cut(&whole->cuts[p.axis], &part->cuts[p.axis], &p, side);
            again |= cut_part(&part->cuts[p.axis], &whole->cuts[p.axis], &p);
        }
    }
}

/* Where units are not made of whole steps, a thread holds the whole axis. */
static tc_cut possible(tc_cut c, int32_t side)
{
    c.unit = c.unit ? c.unit : side;
    c.step = c.step ? c.step : 1;
    return c.unit % c.step ? (tc_cut){1, 1} : c;
}

const tc_type *tc_cuts_tile(tc_context *cx, const tc_type *tile,
                            const tc_cut *cuts)
{
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned a = 0; a < tile->rank; a++) {
        tc_cut c = possible(cuts[a], side_of(tile, a));
        dims[a] = tc_dim_const(cx, c.unit / c.step);
    }
    return tc_type_shaped(cx, TC_TILE, tile->rank, dims, tile->elem);
}

const tc_layout *tc_cuts_grow(tc_context *cx, const tc_type *tile,
                              const tc_cut *cuts, const tc_layout *l)
{
    for (unsigned a = 0; a < tile->rank; a++) {
        tc_cut c = possible(cuts[a], side_of(tile, a));
        l = tc_layout_spread(cx, l, a, c.step);
        l = tc_layout_repeat(cx, l, a, side_of(tile, a) / c.unit);
    }
    return l;
}

/* ---- Layouts ---- */

const tc_layout *tc_part_layout(tc_placing *s, const tc_part_relation *r,
                                const tc_layout *whole)
{
    tc_tile_part p = tc_op_part(r->op, r->i);
    return tc_layout_part(s->cx, whole, &p);
}

static const tc_layout *whole_of(tc_placing *s, const tc_op *op, unsigned i,
                                 const tc_layout *l)
{
    tc_tile_part p = tc_op_part(op, i);
    return tc_layout_whole(s->cx, l, &p,
                           side_of(tc_op_whole(op)->type, p.axis));
}

const tc_layout *tc_whole_layout(tc_placing *s, const tc_part_relation *r,
                                 const tc_layout *part)
{
    const tc_layout *l = whole_of(s, r->op, r->i, part);
    return l && tc_part_layout(s, r, l) == part ? l : NULL;
}

static bool has_all_parts(tc_placing *s, const tc_op *op, const tc_layout *l)
{
    for (unsigned i = 0; l && i < count_parts(op); i++) {
        tc_tile_part p = tc_op_part(op, i);
        if (!tc_layout_part(s->cx, l, &p))
            return false;
    }
    return l != NULL;
}

/* The default layout of the whole, cut as this op needs it. */
static const tc_layout *cut_default(tc_placing *s, const tc_op *op)
{
    const tc_type *t = tc_op_whole(op)->type;
    tc_cut cuts[TC_MAX_RANK] = {0}, none = {0};
    t = tc_type_with_layout(s->cx, t, NULL);
    for (unsigned i = 0; i < count_parts(op); i++) {
        tc_tile_part p = tc_op_part(op, i);
        (void)cut(&cuts[p.axis], &none, &p, side_of(t, p.axis));
    }
    const tc_layout *l = tc_layout_default(s, tc_cuts_tile(s->cx, t, cuts));
    return tc_cuts_grow(s->cx, t, cuts, l);
}

/* A layout of the whole: its own, one that a part suggests, else any. */
static const tc_layout *layout_of_whole(tc_placing *s, const tc_op *op)
{
    const tc_layout *l = tc_op_whole(op)->type->layout;
    if (has_all_parts(s, op, l))
        return l;
    for (unsigned i = 0; i < count_parts(op); i++) {
        l = tc_op_part_value(op, i)->type->layout;
        l = l ? whole_of(s, op, i, l) : NULL;
        if (has_all_parts(s, op, l))
            return l;
    }
    return cut_default(s, op);
}

void tc_parts_type(tc_placing *s, tc_op *op)
{
    const tc_layout *l = layout_of_whole(s, op);
    tc_map_set(&s->shapes, op, (void *)l);
    if (op->code == TC_SLICE) {
        tc_tile_part p = tc_op_part(op, 0);
        l = tc_layout_part(s->cx, l, &p);
    }
    op->out[0]->type = tc_type_with_layout(s->cx, op->out[0]->type, l);
}

const tc_layout *tc_parts_wanted(tc_placing *s, const tc_op *op, unsigned i)
{
    const tc_layout *l = tc_map_get(&s->shapes, op);
    tc_tile_part p = tc_op_part(op, i);
    return op->code == TC_SLICE ? l : tc_layout_part(s->cx, l, &p);
}
