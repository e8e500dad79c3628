/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders a product's columns as the next product needs them.
 *
 *   %s = dot %q, trans(%k)         columns of a thread in 16: 0 1 8 9
 *   %o = dot cast(f(%s), fp8), %v  operand A wants 4 in a row
 *
 * With the columns of %s reordered (tc_layout_reorder) such that each thread
 * holds its part of the next operand, lanes exchange nothing. The rows of %k
 * then lie in that order in shared memory: threads that copy write each row to
 * its place, a TMA load treats them as a tensor of more dims
 * (passes/instructions/tma.h), if rows come in whole groups.
 */
#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/tma.h"
#include "passes/layout/assign_layouts.h"

static const char pass[] = "assign-layouts";

/* The number of rows of a tensor must be a multiple of this. */
typedef struct rows {
    const tc_value *tensor;
    unsigned dim, of;
} rows;

/* The order that makes d's operand A of what the accumulator of `from` is;
 * false: it is as it should be, or cannot be. */
static bool find_order(tc_placing *s, const tc_dot *d, const tc_class *from,
                       tc_bit_order *o)
{
    const tc_layout *c = tc_layout_of_class(s, d->c);
    const tc_layout *l = tc_layout_of_class(s, from);
    const tc_layout *a =
        tc_mma_operand_of(s->cx, c, d->instr, d->op->in[0]->type, 0);
    return a && tc_layout_conversion(s->cx, l, a) > TC_CONVERT_REGISTERS &&
           tc_layout_find_order(l, a, 1, o) && o->n;
}

/* ---- Operand B ---- */

/* Do only products use the tile whose accumulators are in the class? */
static bool only_for(tc_placing *s, const tc_value *v, const tc_class *c)
{
    tc_each_use (u, v) {
        if (u->op->code == TC_TRANS) {
            if (!only_for(s, u->op->out[0], c))
                return false;
            continue;
        }
        const tc_dot *d = tc_dot_of(s, u->op);
        if (!d || u->index != 1 || tc_class_root(d->c) != c)
            return false;
    }
    return true;
}

/* Why operand B of e cannot have its columns in an order of groups of `of`;
 * NULL: it can. *r: a requirement on the launch, of == 0: none. */
static const char *why_not(tc_placing *s, const tc_dot *e, unsigned of, rows *r)
{
    const tc_op *trans = tc_match_op(e->op->in[1], TC_TRANS);
    const tc_value *tile = trans ? trans->in[0] : e->op->in[1];
    const tc_op *load = tc_match_op((tc_value *)tile, TC_LOAD);
    if (!load || load->in[0]->type->kind != TC_BLOCK_PTR)
        return "operand B is not loaded";
    const tc_op *block = tc_block_of(load->in[0]);
    unsigned axis = trans ? 0 : 1;
    if (!block || tc_contiguous_axis(block) == axis)
        return "the columns of operand B lie side by side in memory";
    if (!only_for(s, tile, tc_class_root(e->c)))
        return "what it loads is needed for other things too";
    bool by_index = axis < tc_block_index_rank(block);
    *r = (rows){block->in[0], by_index ? 0 : tc_block_dim(block, axis), 0};
    /* Operands of mma.sync do not come by TMA copies: any number of rows will
     * do. */
    if (!tc_dot_is_group(e))
        return NULL;
    if (by_index)
        return "the columns of operand B are windows by index";
    r->of = of;
    if (s->env->options->any_sizes)
        return "there may be any number of rows";
    if (r->tensor->def || r->tensor->region != s->f->body)
        return "its tensor is no argument";
    const char *why = tc_tma_why_not_apart(block, r->dim);
    if (why)
        return why;
    const tc_axis_info *info = tc_axis_info_of(s->axes, load->in[0]);
    return info->axis[r->dim].divisor % of
               ? tc_arena_printf(s->scratch,
                                 "its rows are not known to begin at a "
                                 "multiple of %u",
                                 of)
               : NULL;
}

static bool is_promised(const tc_func *f, const rows *r)
{
    for (unsigned i = 0; i < f->nmultiples; i++)
        if (f->multiples[i].arg == r->tensor->index &&
            f->multiples[i].dim == r->dim)
            return f->multiples[i].of % r->of == 0;
    return false;
}

static bool has_room(const tc_func *f, const rows *r)
{
    return !r->of || is_promised(f, r) || f->nmultiples < TC_MAX_MULTIPLES;
}

static void promise(tc_func *f, const rows *r)
{
    if (r->of && !is_promised(f, r))
        f->multiples[f->nmultiples++] =
            (tc_multiple){r->tensor->index, r->dim, r->of};
}

/* ---- The classes ---- */

/* All products whose accumulators are in the class. */
static const char *why_not_all(tc_placing *s, const tc_class *c, unsigned of,
                               rows *r)
{
    rows of_this;
    for (tc_dot *e = s->dots; e; e = e->next) {
        if (tc_class_root(e->c) != c)
            continue;
        if (!tc_dot_is_mma(e) || tc_dot_group(e)->wn > 1)
            return "warps share its columns";
        const char *why = why_not(s, e, of, &of_this);
        if (why)
            return why;
        bool same = !r->tensor ||
                    (r->tensor == of_this.tensor && r->dim == of_this.dim);
        if (!same || !has_room(s->f, &of_this))
            return "its rows are those of several tensors";
        *r = of_this;
    }
    return NULL;
}

static void orders_say(tc_placing *s, const tc_dot *d, unsigned of,
                       const rows *r, const char *why)
{
    if (why)
        tc_missed(s->cx, d->op->loc, pass,
                  "dot: operand A is exchanged between lanes; columns of the "
                  "product that it comes from could be reordered in %us "
                  "instead, but: %s",
                  of, why);
    else if (r->of)
        tc_remark(s->cx, d->op->loc, pass,
                  "dot: operand A needs no exchange: rows of %s are copied in "
                  "another order, where their number is a multiple of %u",
                  tc_value_name(s->cx, r->tensor), r->of);
    else
        tc_remark(s->cx, d->op->loc, pass,
                  "dot: operand A needs no exchange: rows of %s are copied in "
                  "another order",
                  tc_value_name(s->cx, r->tensor));
}

static void reorder_for(tc_placing *s, const tc_dot *d)
{
    tc_class *from = tc_class_of(s, d->op->in[0]);
    tc_bit_order o;
    rows r = {0};
    if (!d->packed || !from || from == tc_class_root(d->c) || from->order.n ||
        tc_dot_group((tc_dot *)d)->wn > 1 || !find_order(s, d, from, &o))
        return;
    const char *why = why_not_all(s, from, 1u << o.n, &r);
    if (!why && !r.tensor)
        return;
    orders_say(s, d, 1u << o.n, &r, why);
    if (why)
        return;
    promise(s->f, &r);
    from->order = o;
}

void tc_dots_reorder(tc_placing *s)
{
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_dot_is_mma(d))
            reorder_for(s, d);
}
