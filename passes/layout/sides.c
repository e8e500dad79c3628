/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/layout/sides.h"

#include <string.h>

static bool has_sides(const tc_type *t)
{
    return t->kind == TC_TILE || t->kind == TC_BLOCK_PTR;
}

static tc_side *root_of(tc_side *x)
{
    while (x->parent)
        x = x->parent;
    return x;
}

static tc_side *sides_of(tc_sides *s, const tc_value *v)
{
    tc_side *found = tc_map_get(&s->of, v);
    if (found || !has_sides(v->type))
        return found;
    found = tc_arena_array(s->arena, tc_side, v->type->rank);
    for (unsigned i = 0; i < v->type->rank; i++) {
        int64_t length = tc_dim_value(v->type->dims[i]);
        found[i] = (tc_side){NULL, s->all, length, length, false};
        s->all = &found[i];
    }
    tc_map_set(&s->of, v, found);
    return found;
}

tc_side *tc_side_of(const tc_sides *s, const tc_value *v, unsigned axis)
{
    tc_side *found = tc_map_get(&s->of, v);
    return found ? root_of(&found[axis]) : NULL;
}

static void join(tc_sides *s, const tc_value *a, unsigned i, const tc_value *b,
                 unsigned k)
{
    tc_side *x = root_of(&sides_of(s, a)[i]), *y = root_of(&sides_of(s, b)[k]);
    if (x == y)
        return;
    y->parent = x;
    x->fixed |= y->fixed;
}

static void fix(tc_sides *s, const tc_value *v, unsigned axis)
{
    root_of(&sides_of(s, v)[axis])->fixed = true;
}

/* ---- Ops ---- */

/* All axes; of values of other shapes (scalars) nothing. */
static void join_values(tc_sides *s, const tc_value *a, const tc_value *b)
{
    if (has_sides(a->type) && has_sides(b->type) &&
        a->type->rank == b->type->rank)
        for (unsigned i = 0; i < a->type->rank; i++)
            join(s, a, i, b, i);
}

static void fix_value(tc_sides *s, const tc_value *v)
{
    for (unsigned i = 0; has_sides(v->type) && i < v->type->rank; i++)
        fix(s, v, i);
}

static void fix_all(tc_sides *s, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        fix_value(s, op->in[i]);
    for (unsigned i = 0; i < op->nout; i++)
        fix_value(s, op->out[i]);
}

static void join_all(tc_sides *s, const tc_op *op)
{
    const tc_value *first = op->nout ? op->out[0] : NULL;
    for (unsigned i = 0; i < op->nin; i++)
        if (!first && has_sides(op->in[i]->type))
            first = op->in[i];
    for (unsigned i = 0; i < op->nin; i++)
        join_values(s, first, op->in[i]);
}

static void visit_block(tc_sides *s, const tc_op *op)
{
    if (tc_block_index(op))
        fix_all(s, op);
    else
        sides_of(s, op->out[0]);
}

static void visit_expand(tc_sides *s, const tc_op *op)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    for (unsigned i = 0; i < op->in[0]->type->rank; i++)
        join(s, op->out[0], i + (i >= axis), op->in[0], i);
}

static void visit_broadcast(tc_sides *s, const tc_op *op)
{
    const tc_type *from = op->in[0]->type, *to = op->out[0]->type;
    for (unsigned i = 0; i < to->rank; i++)
        if (from->dims[i] == to->dims[i])
            join(s, op->out[0], i, op->in[0], i);
}

static void visit_trans(tc_sides *s, const tc_op *op)
{
    const tc_attr *perm = tc_op_attr(op, "perm");
    unsigned rank = op->out[0]->type->rank;
    for (unsigned i = 0; i < rank; i++) {
        unsigned from = i + 2 < rank ? i : 2 * rank - 3 - i;
        if (perm->kind != TC_ATTR_NONE)
            from = (unsigned)perm->ints[i];
        join(s, op->out[0], i, op->in[0], from);
    }
}

/* First and last axes that both shapes have stay what they are. */
static void visit_reshape(tc_sides *s, const tc_op *op)
{
    const tc_value *a = op->in[0], *b = op->out[0];
    unsigned m = a->type->rank, n = b->type->rank, least = m < n ? m : n;
    unsigned front = 0, back = 0;
    while (front < least && a->type->dims[front] == b->type->dims[front])
        front++;
    while (front + back < least &&
           a->type->dims[m - 1 - back] == b->type->dims[n - 1 - back])
        back++;
    for (unsigned i = 0; i < front; i++)
        join(s, b, i, a, i);
    for (unsigned i = 1; i <= back; i++)
        join(s, b, n - i, a, m - i);
    for (unsigned i = front; i < m - back; i++)
        fix(s, a, i);
    for (unsigned i = front; i < n - back; i++)
        fix(s, b, i);
}

static void visit_parts(tc_sides *s, const tc_op *op)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    for (unsigned k = 0; k < op->nin; k++) {
        fix(s, op->in[k], axis);
        for (unsigned i = 0; i < op->out[0]->type->rank; i++)
            if (i != axis)
                join(s, op->out[0], i, op->in[k], i);
    }
    fix(s, op->out[0], axis);
}

/* pad-sides gives a combiner of the user one more operand. */
enum { MOST_REDUCED = 15 };

static void visit_reduce(tc_sides *s, const tc_op *op)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    const tc_value *first = op->in[0];
    for (unsigned k = 1; k < op->nin; k++)
        join_values(s, first, op->in[k]);
    if (op->nin > MOST_REDUCED || !tc_op_is_word(op, "within", "block"))
        fix(s, first, axis);
    for (unsigned k = 0; k < op->nout; k++)
        for (unsigned i = 0; i < first->type->rank; i++)
            if (i != axis && has_sides(op->out[k]->type))
                join(s, op->out[k], i - (i > axis), first, i);
}

/* pad-sides keeps indices out of what it adds to the operand. */
static void visit_take(tc_sides *s, const tc_op *op)
{
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (op->in[1]->type->kind != TC_TILE) {
        fix_all(s, op);
        return;
    }
    join_values(s, op->out[0], op->in[1]);
    for (unsigned i = 0; i < op->out[0]->type->rank; i++)
        if (i != axis)
            join(s, op->out[0], i, op->in[0], i);
}

/* pad-sides keeps what it adds to the operand from being counted; what it adds
 * to the result counts numbers that nobody asks for. */
static void visit_histogram(tc_sides *s, const tc_op *op)
{
    (void)sides_of(s, op->in[0]);
    (void)sides_of(s, op->out[0]);
}

/* Elements past a side come after all others, or before them: pad-sides makes
 * them neutral then, as far as they are. */
static void visit_scan(tc_sides *s, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++) {
        join_values(s, op->out[0], op->in[i]);
        join_values(s, op->out[0], op->out[i]);
    }
    if (op->nregions && tc_op_int(op, "reverse"))
        fix(s, op->out[0], (unsigned)tc_op_int(op, "axis"));
}

static void join_yields(tc_sides *s, const tc_region *r, const tc_op *op)
{
    const tc_op *yield = tc_region_terminator(r);
    for (unsigned i = 0; i < op->nout; i++)
        join_values(s, op->out[i], yield->in[i]);
}

static void visit_for(tc_sides *s, const tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++) {
        join_values(s, op->out[i], op->in[3 + i]);
        join_values(s, op->out[i], op->regions[0]->args[1 + i]);
    }
    join_yields(s, op->regions[0], op);
}

static void visit_while(tc_sides *s, const tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++) {
        join_values(s, op->out[i], op->in[i]);
        join_values(s, op->out[i], op->regions[0]->args[i]);
    }
    join_yields(s, op->regions[1], op);
}

static void visit_if(tc_sides *s, const tc_op *op)
{
    join_yields(s, op->regions[0], op);
    join_yields(s, op->regions[1], op);
}

/* What is seen here: results alone have any length. */
static void visit_nothing(tc_sides *s, const tc_op *op)
{
    (void)s;
    (void)op;
}

/* Ops that are not here and are not elementwise fix all sides. */
static void (*const visits[TC_OPCODE_COUNT])(tc_sides *, const tc_op *) = {
    [TC_YIELD] = visit_nothing, /* see the op that it belongs to */
    [TC_SPLAT] = visit_nothing,
    [TC_RANGE] = visit_nothing,
    [TC_RAMP] = visit_nothing,
    [TC_BLOCK] = visit_block,
    [TC_ADVANCE] = join_all,
    [TC_LOAD] = join_all,
    [TC_STORE] = join_all,
    [TC_ATOMIC] = join_all,
    [TC_GATHER] = join_all,
    [TC_EXPAND_DIMS] = visit_expand,
    [TC_BROADCAST] = visit_broadcast,
    [TC_TRANS] = visit_trans,
    [TC_RESHAPE] = visit_reshape,
    [TC_SLICE] = visit_parts,
    [TC_JOIN] = visit_parts,
    [TC_INTERLEAVE] = visit_parts,
    [TC_TAKE] = visit_take,
    [TC_HISTOGRAM] = visit_histogram,
    [TC_REDUCE] = visit_reduce,
    [TC_SCAN] = visit_scan,
    [TC_FOR] = visit_for,
    [TC_WHILE] = visit_while,
    [TC_IF] = visit_if,
};

static bool touches_sides(const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (has_sides(op->in[i]->type))
            return true;
    for (unsigned i = 0; i < op->nout; i++)
        if (has_sides(op->out[i]->type))
            return true;
    return false;
}

static void visit_region(tc_sides *s, const tc_region *r)
{
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            visit_region(s, op->regions[i]);
        for (unsigned i = 0; i < op->nout; i++)
            sides_of(s, op->out[i]);
        if (!touches_sides(op))
            continue;
        if (visits[op->code])
            visits[op->code](s, op);
        else if (tc_op_has(op, TC_ELEMENTWISE))
            join_all(s, op);
        else
            fix_all(s, op);
    }
}

void tc_sides_build(tc_sides *s, const tc_func *f, tc_arena *arena)
{
    memset(s, 0, sizeof *s);
    s->arena = s->of.arena = arena;
    for (unsigned i = 0; i < f->body->nargs; i++)
        fix_value(s, f->body->args[i]);
    visit_region(s, f->body);
}
