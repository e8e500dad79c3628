/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/layout/relayout.h"

#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"

/* ---- Through ops on shapes ---- */

static void order_of(const tc_op *op, unsigned rank,
                     unsigned order[TC_MAX_RANK])
{
    const tc_attr *perm = tc_op_attr(op, "perm");
    for (unsigned i = 0; i < rank; i++) {
        order[i] = i + 2 < rank ? i : 2 * rank - 3 - i;
        if (perm->kind != TC_ATTR_NONE)
            order[i] = (unsigned)perm->ints[i];
    }
}

static const tc_layout *reshaped(tc_context *cx, const tc_layout *l,
                                 const tc_type *t)
{
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(t, sides);
    return tc_layout_reshape(cx, l, t->rank, sides);
}

const tc_layout *tc_layout_of_result(tc_context *cx, const tc_op *op,
                                     const tc_layout *l)
{
    unsigned order[TC_MAX_RANK];
    switch (op->code) {
    case TC_EXPAND_DIMS:
        return tc_layout_expand(cx, l, (unsigned)tc_op_int(op, "axis"));
    case TC_REDUCE:
        return l->rank > 1
                   ? tc_layout_slice(cx, l, (unsigned)tc_op_int(op, "axis"))
                   : NULL;
    case TC_TRANS:
        order_of(op, l->rank, order);
        return tc_layout_trans(cx, l, order);
    case TC_RESHAPE: return reshaped(cx, l, op->out[0]->type);
    default: return NULL;
    }
}

static const tc_layout *of_broadcast(tc_context *cx, const tc_op *op,
                                     const tc_layout *l)
{
    const tc_type *from = op->in[0]->type, *to = op->out[0]->type;
    for (unsigned i = 0; i < to->rank; i++)
        if (from->dims[i] != to->dims[i])
            l = tc_layout_collapse(cx, l, i);
    return l;
}

static unsigned index_rank(const tc_op *access)
{
    const tc_op *block = tc_match_op(access->in[0], TC_BLOCK);
    return block ? tc_block_index_rank(block) : 0;
}

const tc_layout *tc_layout_of_operand(tc_context *cx, const tc_op *op,
                                      const tc_layout *l)
{
    unsigned order[TC_MAX_RANK], back[TC_MAX_RANK];
    switch (op->code) {
    case TC_BROADCAST: return of_broadcast(cx, op, l);
    case TC_EXPAND_DIMS:
        return tc_layout_slice(cx, l, (unsigned)tc_op_int(op, "axis"));
    case TC_TRANS:
        order_of(op, l->rank, order);
        for (unsigned i = 0; i < l->rank; i++)
            back[order[i]] = i;
        return tc_layout_trans(cx, l, back);
    case TC_RESHAPE: {
        const tc_layout *from = reshaped(cx, l, op->in[0]->type);
        return from && tc_layout_of_result(cx, op, from) == l ? from : NULL;
    }
    case TC_LOAD:
    case TC_STORE: /* of windows: the indices */
        for (unsigned i = l->rank; i-- > index_rank(op);)
            l = tc_layout_slice(cx, l, i);
        return l;
    default: return NULL;
    }
}

/* ---- Cheap values ---- */

static bool may_be_cheap(const tc_op *op)
{
    if (!op || op->nout != 1 || op->nregions || !tc_op_has(op, TC_PURE) ||
        op->out[0]->type->kind != TC_TILE)
        return false;
    switch (op->code) {
    case TC_SPLAT:
    case TC_RANGE:
    case TC_RAMP:
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_TRANS: return true;
    default: return tc_op_has(op, TC_ELEMENTWISE);
    }
}

bool tc_relayout_is_cheap(tc_relayout *r, const tc_value *v)
{
    static char yes, no;
    r->cheap.arena = r->arena;
    const char *mark = tc_map_get(&r->cheap, v);
    if (mark)
        return mark == &yes;
    bool cheap = may_be_cheap(v->def);
    for (unsigned i = 0; cheap && i < v->def->nin; i++)
        if (v->def->in[i]->type->kind == TC_TILE)
            cheap = tc_relayout_is_cheap(r, v->def->in[i]);
    tc_map_set(&r->cheap, v, cheap ? &yes : &no);
    return cheap;
}

typedef struct copy copy;
struct copy {
    const tc_layout *layout;
    tc_value *v;
    copy *next;
};

static tc_value *find_copy(tc_relayout *r, const tc_value *v,
                           const tc_layout *l)
{
    r->copies.arena = r->arena;
    for (copy *c = tc_map_get(&r->copies, v); c; c = c->next)
        if (c->layout == l)
            return c->v;
    return NULL;
}

static const tc_layout *layout_below(tc_relayout *r, const tc_op *op,
                                     const tc_layout *l)
{
    return tc_op_has(op, TC_ELEMENTWISE) ? l
                                         : tc_layout_of_operand(r->cx, op, l);
}

static void keep_copy(tc_relayout *r, const tc_value *of, tc_value *made,
                      const tc_layout *l)
{
    made->name = of->name;
    made->loc = of->loc;
    copy *c = tc_arena_new(r->arena, copy);
    *c = (copy){l, made, tc_map_get(&r->copies, of)};
    tc_map_set(&r->copies, of, c);
}

static tc_value *compute_again(tc_relayout *r, tc_value *v, const tc_layout *l)
{
    tc_op *op = v->def;
    tc_value **in = tc_arena_array(r->arena, tc_value *, op->nin + 1);
    const tc_layout *below = layout_below(r, op, l);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = op->in[i]->type->kind == TC_TILE
                    ? tc_relayout_get(r, op->in[i], below)
                    : op->in[i];
    tc_builder b = tc_builder_before(op);
    return tc_build_like(&b, op, in, tc_type_with_layout(r->cx, v->type, l));
}

tc_value *tc_relayout_get(tc_relayout *r, tc_value *v, const tc_layout *l)
{
    if (v->type->layout == l)
        return v;
    tc_value *made = find_copy(r, v, l);
    if (made)
        return made;
    if (tc_relayout_is_cheap(r, v)) {
        made = compute_again(r, v, l);
    } else {
        tc_region *at = v->def ? v->def->parent : v->region;
        tc_builder b = tc_builder_after(at->func, v, v->loc);
        if (v->def)
            b.loc = v->def->loc;
        made = tc_build(&b, TC_CONVERT_LAYOUT, 1, &v,
                        tc_type_with_layout(r->cx, v->type, l));
    }
    keep_copy(r, v, made, l);
    return made;
}

/* ---- Values of a loop ---- */

static bool is_of_loop(const tc_value *v, const tc_op *loop)
{
    return v->def ? tc_is_nested_in(v->def, loop)
                  : v->region->op == loop ||
                        (v->region->op && tc_is_nested_in(v->region->op, loop));
}

/* An integer op, a comparison, an address: fewer instructions than an exchange
 * between threads. */
static bool is_light(const tc_op *op)
{
    const tc_type *t = op->out[0]->type;
    tc_kind kind = tc_type_elem(t)->kind;
    return kind == TC_PTR || (kind >= TC_I1 && kind <= TC_I64);
}

bool tc_relayout_is_light(const tc_value *v, const tc_op *loop)
{
    if (!is_of_loop(v, loop))
        return true;
    if (!may_be_cheap(v->def) || !is_light(v->def))
        return false;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (v->def->in[i]->type->kind == TC_TILE &&
            !tc_relayout_is_light(v->def->in[i], loop))
            return false;
    return true;
}

tc_value *tc_relayout_in_loop(tc_relayout *r, tc_value *v, const tc_layout *l,
                              const tc_op *loop)
{
    if (!is_of_loop(v, loop))
        return tc_relayout_get(r, v, l);
    tc_value *made = v->type->layout == l ? v : find_copy(r, v, l);
    if (made)
        return made;
    tc_op *op = v->def;
    tc_value **in = tc_arena_array(r->arena, tc_value *, op->nin + 1);
    const tc_layout *below = layout_below(r, op, l);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = op->in[i]->type->kind == TC_TILE
                    ? tc_relayout_in_loop(r, op->in[i], below, loop)
                    : op->in[i];
    tc_builder b = tc_builder_before(op);
    made = tc_build_like(&b, op, in, tc_type_with_layout(r->cx, v->type, l));
    keep_copy(r, v, made, l);
    return made;
}

void tc_region_sweep(tc_region *r)
{
    for (tc_op *op = r->last, *prev; op; op = prev) {
        prev = op->prev;
        for (unsigned i = 0; i < op->nregions; i++)
            tc_region_sweep(op->regions[i]);
        if (op->nout && !tc_op_is_used(op) && tc_op_is_pure(op))
            tc_op_erase(op);
    }
}
