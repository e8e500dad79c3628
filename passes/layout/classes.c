/* SPDX-License-Identifier: Apache-2.0
 *
 * Which values should have one layout: values that one op needs alike, results
 * and operands of elementwise ops, values that a loop carries. Uses are
 * processed from the innermost loop outwards, and a use that would join an
 * accumulator of mma with one of fma is left out: a conversion goes there.
 *
 *   %s = dot ..            class 1, an accumulator
 *   %m = reduce %s         from class 1 (a slice) to class 2
 *   %t = max %m0, %m       class 2, as what the loop carries for %m0
 *   %p = exp2 (%s - ..)    class 1
 */
#include "passes/analysis/match.h"
#include "passes/analysis/tile_loop.h"
#include "passes/layout/assign_layouts.h"

tc_class *tc_class_root(tc_class *c)
{
    while (c->parent)
        c = c->parent;
    return c;
}

tc_class *tc_class_of(tc_placing *s, const void *key)
{
    tc_class *c = tc_map_get(&s->classes, key);
    return c ? tc_class_root(c) : NULL;
}

unsigned tc_layout_depth(const tc_op *op)
{
    unsigned depth = 0;
    while ((op = tc_layout_loop(op)))
        depth++;
    return depth;
}

const tc_op *tc_layout_loop(const tc_op *op)
{
    do
        op = op->parent ? op->parent->op : NULL;
    while (op && ((op->code != TC_FOR && op->code != TC_WHILE) ||
                  tc_is_tile_loop(op)));
    return op;
}

static tc_class *new_class(tc_placing *s, const void *key, const tc_type *tile)
{
    tc_class *c = tc_arena_new(s->scratch, tc_class);
    c->tile = tile;
    c->next = s->all;
    s->all = c;
    tc_map_set(&s->classes, key, c);
    return c;
}

/* NULL of what has no layout of its own: scalars, cheap values. */
static tc_class *class_of_value(tc_placing *s, const tc_value *v)
{
    if (v->type->kind != TC_TILE || tc_relayout_is_cheap(&s->relayout, v))
        return NULL;
    tc_class *c = tc_class_of(s, v);
    return c ? c : new_class(s, v, v->type);
}

static bool can_join(const tc_class *a, const tc_class *b)
{
    return !a->dot || !b->dot || tc_dot_is_mma(a->dot) == tc_dot_is_mma(b->dot);
}

/* A store that can be exchanged through shared memory (choice.c) leaves
 * the layout to a load that walks another axis. */
static bool gives_way(const tc_placing *s, const tc_op *store,
                      const tc_op *load)
{
    return store && load && store->code == TC_STORE && load->code == TC_LOAD &&
           tc_layout_depth(store) == 0 &&
           store->in[0]->type->kind == TC_BLOCK_PTR &&
           tc_axis_vector(s->axes, store).axis !=
               tc_axis_vector(s->axes, load).axis;
}

static void classes_join(tc_placing *s, tc_class *a, tc_class *b)
{
    a = tc_class_root(a);
    b = tc_class_root(b);
    if (a == b)
        return;
    if (!a->dot)
        a->dot = b->dot;
    const tc_op *across = gives_way(s, a->access, b->access)   ? a->access
                          : gives_way(s, b->access, a->access) ? b->access
                                                               : NULL;
    if (across ? across == a->access : b->weight > a->weight) {
        a->access = b->access;
        a->weight = b->weight;
    }
    a->across = across ? across : a->across ? a->across : b->across;
    a->scanned |= b->scanned;
    b->parent = a;
}

static void join_values(tc_placing *s, const tc_value *a, const tc_value *b)
{
    tc_class *x = class_of_value(s, a), *y = class_of_value(s, b);
    if (x && y)
        classes_join(s, x, y);
}

static void tie(tc_placing *s, tc_class *a, const tc_value *v, unsigned depth)
{
    tc_class *b = a ? class_of_value(s, v) : NULL;
    if (!b)
        return;
    tc_tie *t = tc_arena_new(s->scratch, tc_tie);
    *t = (tc_tie){s->ties, a, b, depth};
    s->ties = t;
}

static void relate(tc_placing *s, tc_class *from, tc_class *to, const tc_op *op)
{
    if (!from || !to)
        return;
    tc_relation *r = tc_arena_new(s->scratch, tc_relation);
    *r = (tc_relation){s->relations, from, to, op};
    s->relations = r;
}

/* ---- Ops ---- */

static void visit_region(tc_placing *s, const tc_region *r, unsigned depth);

static void visit_for(tc_placing *s, const tc_op *op, unsigned depth)
{
    const tc_region *body = op->regions[0];
    const tc_op *yield = tc_region_terminator(body);
    for (unsigned i = 0; i < op->nout; i++) {
        join_values(s, body->args[1 + i], op->out[i]);
        tc_class *c = class_of_value(s, op->out[i]);
        tie(s, c, op->in[3 + i], depth);
        tie(s, c, yield->in[i], depth + 1);
    }
    visit_region(s, body, depth + 1);
}

static void visit_while(tc_placing *s, const tc_op *op, unsigned depth)
{
    const tc_op *yield = tc_region_terminator(op->regions[1]);
    for (unsigned i = 0; i < op->nout; i++) {
        join_values(s, op->regions[0]->args[i], op->out[i]);
        tc_class *c = class_of_value(s, op->out[i]);
        tie(s, c, op->in[i], depth);
        tie(s, c, yield->in[i], depth + 1);
    }
    visit_region(s, op->regions[0], depth + 1);
    visit_region(s, op->regions[1], depth + 1);
}

static void visit_if(tc_placing *s, const tc_op *op, unsigned depth)
{
    for (unsigned i = 0; i < op->nregions; i++) {
        const tc_op *yield = tc_region_terminator(op->regions[i]);
        for (unsigned k = 0; k < op->nout; k++)
            tie(s, class_of_value(s, op->out[k]), yield->in[k], depth);
        visit_region(s, op->regions[i], depth);
    }
}

static void visit_reduce(tc_placing *s, const tc_op *op, unsigned depth)
{
    if (op->in[0]->type->kind != TC_TILE)
        return;
    tc_class *c = new_class(s, op, op->in[0]->type);
    for (unsigned i = 0; i < op->nin; i++)
        tie(s, c, op->in[i], depth);
    for (unsigned i = 1; i < op->nout; i++)
        join_values(s, op->out[0], op->out[i]);
    relate(s, c, class_of_value(s, op->out[0]), op);
}

/* Operands and results lie alike, and as the scan wants it. */
static void visit_scan(tc_placing *s, const tc_op *op, unsigned depth)
{
    tc_class *c = class_of_value(s, op->out[0]);
    for (unsigned i = 1; i < op->nout; i++)
        join_values(s, op->out[0], op->out[i]);
    for (unsigned i = 0; i < op->nin; i++)
        tie(s, c, op->in[i], depth);
    tc_class_root(c)->scanned |= 1u << tc_op_int(op, "axis");
}

/* The result lies as its indices do; what they are looked up in as it wants. */
static void visit_take(tc_placing *s, const tc_op *op, unsigned depth)
{
    (void)class_of_value(s, op->in[0]);
    tie(s, class_of_value(s, op->out[0]), op->in[1], depth);
}

/* The counts lie as their users want them. */
static void visit_histogram(tc_placing *s, const tc_op *op)
{
    (void)class_of_value(s, op->in[0]);
    (void)class_of_value(s, op->out[0]);
}

static void add_access(tc_class *c, const tc_op *op, unsigned depth)
{
    int64_t count = tc_type_count(c->tile);
    const tc_type *t = op->in[0]->type;
    const tc_type *elem = t->kind == TC_TILE ? t->elem->elem : t->elem;
    uint64_t weight = (uint64_t)count * tc_type_bytes(elem)
                      << (4 * (depth < 6 ? depth : 6));
    c = tc_class_root(c);
    if (weight > c->weight) {
        c->weight = weight;
        c->access = op;
    }
}

/* The indices of windows lie as the tile does, along the first axes. */
static void relate_indices(tc_placing *s, tc_class *c, const tc_op *op)
{
    const tc_op *block = tc_match_op(op->in[0], TC_BLOCK);
    for (unsigned i = 1; block && i < block->nin; i++)
        if (block->in[i]->type->kind == TC_TILE)
            relate(s, class_of_value(s, block->in[i]), c, op);
}

/* Loads, stores, gathers, atomics: pointers, values, masks and indices lie
 * alike. */
static void visit_access(tc_placing *s, const tc_op *op, unsigned depth)
{
    unsigned value = op->code == TC_STORE;
    const tc_type *t = op->nout ? op->out[0]->type : op->in[value]->type;
    if (t->kind != TC_TILE)
        return;
    tc_class *c =
        op->nout ? class_of_value(s, op->out[0]) : new_class(s, op, t);
    add_access(c, op, depth);
    for (unsigned i = 0; i < op->nin; i++)
        tie(s, c, op->in[i], depth);
    relate_indices(s, c, op);
}

static void visit_dot(tc_placing *s, const tc_op *op, unsigned depth)
{
    tc_class *c = tc_class_root(class_of_value(s, op->out[0]));
    tc_dot *d = tc_dot_of(s, op);
    c->dot = d;
    d->c = c;
    if (op->nin == 3)
        tie(s, c, op->in[2], depth + 1);
}

static void visit_lanes(tc_placing *s, const tc_op *op, unsigned depth)
{
    if (op->nout == 0)
        return;
    tc_class *c = class_of_value(s, op->out[0]);
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind == TC_TILE)
            tie(s, c, op->in[i], depth);
}

static void visit_op(tc_placing *s, const tc_op *op, unsigned depth)
{
    switch (op->code) {
    case TC_FOR: visit_for(s, op, depth); return;
    case TC_WHILE: visit_while(s, op, depth); return;
    case TC_IF: visit_if(s, op, depth); return;
    case TC_REDUCE: visit_reduce(s, op, depth); return;
    case TC_SCAN: visit_scan(s, op, depth); return;
    case TC_LOAD:
    case TC_STORE:
    case TC_GATHER:
    case TC_ATOMIC:
    case TC_ATOMIC_CAS: visit_access(s, op, depth); return;
    case TC_DOT: visit_dot(s, op, depth); return;
    case TC_TAKE: visit_take(s, op, depth); return;
    case TC_HISTOGRAM: visit_histogram(s, op); return;
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_TRANS:
    case TC_RESHAPE:
        relate(s, class_of_value(s, op->in[0]), class_of_value(s, op->out[0]),
               op);
        return;
    case TC_SLICE:
    case TC_JOIN:
    case TC_INTERLEAVE:
        for (unsigned i = 0; i < op->nin; i++)
            class_of_value(s, op->in[i]);
        class_of_value(s, op->out[0]);
        tc_parts_relate(s, op);
        return;
    default: visit_lanes(s, op, depth);
    }
}

static void visit_region(tc_placing *s, const tc_region *r, unsigned depth)
{
    tc_each_op (op, r)
        visit_op(s, op, depth);
}

/* The innermost first. */
static void join_ties(tc_placing *s)
{
    unsigned deepest = 0;
    for (tc_tie *t = s->ties; t; t = t->next)
        deepest = t->depth > deepest ? t->depth : deepest;
    for (unsigned depth = deepest + 1; depth-- > 0;)
        for (tc_tie *t = s->ties; t; t = t->next)
            if (t->depth == depth &&
                can_join(tc_class_root(t->a), tc_class_root(t->b)))
                classes_join(s, t->a, t->b);
}

void tc_classes_build(tc_placing *s)
{
    s->classes.arena = s->scratch;
    visit_region(s, s->f->body, 0);
    join_ties(s);
}
