/* SPDX-License-Identifier: Apache-2.0
 *
 * skip-row-max: builds the variants of a loop's step.
 *
 *   %p = exp2(%s + (-%top)[:, none])
 *   ..
 *   yield %top ..
 * becomes
 *   %top, %p = if %full {
 *     yield if %known0 {
 *       yield what depends on bounded numbers, with %top0 for %top
 *     } else {
 *       yield the same with a maximum, 80 octaves up where it is small
 *     }
 *   } else {
 *     yield the same, masked
 *   }
 *   ..
 *   yield %top .., %known0 or %full and %small
 */
#include "passes/softmax/skip_row_max.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"

#include <math.h>

/* ---- The ways ---- */

static tc_value *mapped(const tc_row_max *x, tc_builder *b, tc_value *v);

static void map_operands(const tc_row_max *x, tc_builder *b, tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        mapped(x, b, op->in[i]);
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            map_operands(x, b, inner);
}

/* v in the variant: ops that depend on bounded values are cloned. */
static tc_value *mapped(const tc_row_max *x, tc_builder *b, tc_value *v)
{
    if (v->data || !v->def || !tc_row_max_depends(x, v->def))
        return v->data ? v->data : v;
    map_operands(x, b, v->def);
    tc_op_insert(tc_op_clone(b->func, v->def), b->region, NULL);
    return v->data;
}

/* Maps the branch's result to what one of its regions yields. */
static void map_arm(const tc_row_max *x, tc_builder *b, tc_op *branch,
                    unsigned arm)
{
    tc_region *r = branch->regions[arm];
    tc_op *yield = tc_region_terminator(r);
    for (tc_op *op = r->first; op != yield; op = op->next) {
        map_operands(x, b, op);
        tc_op_insert(tc_op_clone(b->func, op), b->region, NULL);
    }
    branch->out[0]->data = mapped(x, b, yield->in[0]);
}

/* 80 octaves more below %low. */
static tc_value *build_raised(const tc_row_max *x, tc_builder *b,
                              tc_value *most)
{
    const tc_type *t = most->type;
    tc_value *low = tc_build(b, TC_SPLAT, 1, (tc_value *[]){x->low}, t);
    tc_value *up = tc_build_const(b, t, (tc_scalar){.f = x->octaves / x->unit});
    return tc_build_select(b, tc_build_cmp(b, "lt", most, low),
                           tc_build_binary(b, TC_ADD, most, up), most);
}

static void build_yield(const tc_row_max *x, tc_builder *b)
{
    tc_value *out[2] = {mapped(x, b, x->now)};
    mapped(x, b, x->rows); /* first: tanh.c */
    out[1] = mapped(x, b, x->power->out[0]);
    tc_build_yield(b, 2, out);
}

static tc_builder begin(const tc_row_max *x, tc_region *r)
{
    tc_region_clear_data(x->loop->func->body);
    return tc_builder_at_end(r, x->reduce->loc);
}

static void build_known(const tc_row_max *x, tc_region *r)
{
    tc_builder b = begin(x, r);
    x->now->data = x->old;
    mapped(x, &b, x->rows);
    if (x->fits)
        map_arm(x, &b, x->bounded->def, 0);
    if (x->choice)
        map_arm(x, &b, x->choice, 0);
    build_yield(x, &b);
}

static void build_unknown(const tc_row_max *x, tc_region *r, bool full)
{
    tc_builder b = begin(x, r);
    if (x->choice)
        map_arm(x, &b, x->choice, !full);
    tc_value *most = mapped(x, &b, x->now);
    x->now->data = build_raised(x, &b, most);
    build_yield(x, &b);
}

static tc_op *build_if(const tc_row_max *x, tc_region *r, tc_op *before,
                       tc_value *condition)
{
    const tc_type *types[] = {x->now->type, x->power->out[0]->type};
    tc_builder b = tc_builder_at_end(r, x->reduce->loc);
    b.before = before;
    return tc_build_if(&b, condition, 2, types);
}

static tc_op *build_ways(const tc_row_max *x, tc_region *r, tc_op *before,
                         tc_value *known)
{
    tc_op *op = build_if(x, r, before, known);
    build_known(x, op->regions[0]);
    build_unknown(x, op->regions[1], true);
    return op;
}

static tc_op *build_branch(const tc_row_max *x, tc_value *known)
{
    if (!x->full)
        return build_ways(x, x->body, x->power, known);
    tc_op *outer = build_if(x, x->body, x->power, x->full);
    tc_op *op = build_ways(x, outer->regions[0], NULL, known);
    tc_builder b = tc_builder_at_end(outer->regions[0], x->reduce->loc);
    tc_build_yield(&b, 2, op->out);
    build_unknown(x, outer->regions[1], false);
    return outer;
}

/* ---- The loop ---- */

static void build_limits(tc_row_max *x)
{
    tc_builder b = tc_builder_before(x->loop);
    b.loc = x->reduce->loc;
    const tc_type *t = x->bound->type;
    tc_value *size = tc_build_unary(&b, TC_ABS, x->bound);
    x->small = tc_build_cmp(&b, "le", size, tc_build_float(&b, t, x->octaves));
    if (x->fits)
        x->small = tc_build_binary(&b, TC_AND, x->small, x->fits);
    tc_value *low =
        tc_build_binary(&b, TC_SUB, size, tc_build_float(&b, t, x->octaves));
    low = tc_build_binary(&b, TC_MUL, low, tc_build_float(&b, t, 1 / x->unit));
    x->low =
        tc_build_select(&b, x->small, low, tc_build_float(&b, t, -INFINITY));
}

/* %known0, which ends as %known0 or %full and %small. */
static tc_value *carry_known(tc_row_max *x)
{
    tc_context *cx = x->loop->func->module->cx;
    tc_builder b = tc_builder_before(x->loop);
    tc_value *no = tc_build_int(&b, tc_type_scalar(cx, TC_I1), 0);
    const char *name = tc_string_get(cx, "known");
    x->loop = tc_slots_add(x->loop, 1, &no, &name);
    x->body = x->loop->regions[0];
    unsigned slot = x->loop->nout - 1;
    tc_value *known = tc_slot_arg(x->loop, slot), *now = x->small;
    b = tc_builder_before(tc_region_terminator(x->body));
    if (x->full)
        now = tc_build_binary(&b, TC_AND, x->full, now);
    tc_slot_set_next(x->loop, slot, tc_build_binary(&b, TC_OR, known, now));
    return known;
}

/* Moves the branch to before the users of its results. */
static void put_in_front(const tc_row_max *x, tc_op *branch)
{
    tc_op *after = branch->next;
    for (tc_op *op = x->body->first, *next; op != branch; op = next) {
        next = op->next;
        if (!tc_row_max_depends(x, op))
            continue;
        tc_op_remove(op);
        tc_op_insert(op, x->body, after);
    }
}

static void erase_unused(const tc_row_max *x)
{
    for (tc_op *op = x->power, *prev; op; op = prev) {
        prev = op->prev;
        if (!tc_op_is_used(op) && tc_row_max_depends(x, op) &&
            tc_op_is_pure(op))
            tc_op_erase(op);
    }
}

void tc_row_max_expand(tc_row_max *x)
{
    build_limits(x);
    tc_op *branch = build_branch(x, carry_known(x));
    tc_value_replace(x->power->out[0], branch->out[1]);
    tc_value_replace(x->now, branch->out[0]);
    branch->out[0]->name = x->now->name;
    branch->out[1]->name = x->power->out[0]->name;
    erase_unused(x);
    put_in_front(x, branch);
}
