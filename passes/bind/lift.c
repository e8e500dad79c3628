/* SPDX-License-Identifier: Apache-2.0
 *
 * Lifting: each scalar op becomes the same op on tiles.
 *
 *   func @alibi(%s: f32, %h: i32, %q: i32, %slopes: tensor<[?] x f32>) -> f32 {
 *     %a = gather %slopes, %h : f32
 *     %b = cast %q : f32
 *     %c = mul %a, %b : f32
 *     %d = add %s, %c : f32
 *     return %d
 *   }
 *
 * called with a 64x32 score, a scalar %h and a %q broadcast from 64x1:
 *
 *     %a = gather %slopes, %h : f32               the same in all lanes
 *     %b = cast %q0 : tile<64x1 x f32>            differs along axis 0 only
 *     %c = mul (splat %a), %b : tile<64x1 x f32>
 *     %d = add %s, (broadcast %c) : tile<64x32 x f32>
 *
 * The pass first finds the axes of the call's shape along which each value
 * differs (a set of axes; empty: a scalar that all lanes share), then builds
 * each op in the smallest shape that holds its operands.
 *
 * `for` and `while` lift the values they carry; all lanes take the same number
 * of steps. A pure `if` whose condition differs between lanes runs both
 * branches and selects.
 */
#include "passes/bind/lift.h"

#include "passes/analysis/match.h"

#include <string.h>

/* value->data of the values of the callee's copy. */
struct lane {
    unsigned axes; /* bit i: differs along axis i of the shape */
    tc_value *now; /* what it became */
};

struct lift {
    tc_context *cx;
    tc_arena *scratch;
    tc_op *call;
    const char *callee;
    const tc_type *shape; /* of the call */
    unsigned all_axes;
};

static unsigned axes_of(const tc_value *v)
{
    const struct lane *lane = v->data;
    return lane->axes;
}

/* The axes only grow: loops are analysed until nothing does. */
static bool add_axes(struct lift *l, tc_value *v, unsigned axes)
{
    struct lane *lane = v->data;
    if (!lane)
        v->data = lane = tc_arena_new(l->scratch, struct lane);
    bool grows = axes & ~lane->axes;
    lane->axes |= axes;
    return grows;
}

static void set_now(tc_value *v, tc_value *now)
{
    struct lane *lane = v->data;
    lane->now = now;
}

static unsigned operand_axes(const tc_op *op)
{
    unsigned axes = 0;
    for (unsigned i = 0; i < op->nin; i++)
        axes |= axes_of(op->in[i]);
    return axes;
}

/* ---- Analysis ---- */

static bool cannot(struct lift *l, const tc_op *op, const char *why)
{
    tc_error(l->cx, op->loc,
             "inline: %s in %s cannot be applied lane by lane: %s",
             tc_op_name(op), l->callee, why);
    tc_note(l->cx, l->call->loc, "called with tiles here");
    return false;
}

/* May all lanes run the region although the condition holds in only some of
 * them? */
static bool check_speculation(struct lift *l, const tc_region *r)
{
    tc_each_nested (op, r) {
        if (op->code == TC_WHILE)
            return cannot(l, op,
                          "it stands under an `if` whose condition differs "
                          "between lanes, and may not end in lanes that skip "
                          "it; use a `for`");
        if (op->code == TC_LOAD)
            return cannot(l, op,
                          "it stands under an `if` whose condition differs "
                          "between lanes, and may be out of bounds in lanes "
                          "that skip it; read the tensor by index (gather), "
                          "or give the load a mask");
        if (tc_op_has(op, TC_WRITES) || tc_op_is_call(op))
            return cannot(l, op,
                          "it has an effect and stands under an `if` whose "
                          "condition differs between lanes; move it out of "
                          "the `if` and give it a mask");
    }
    return true;
}

static bool analyse_region(struct lift *l, tc_region *r);

static bool analyse_if(struct lift *l, tc_op *op)
{
    unsigned condition = axes_of(op->in[0]);
    for (unsigned i = 0; i < 2; i++)
        if ((condition && !check_speculation(l, op->regions[i])) ||
            !analyse_region(l, op->regions[i]))
            return false;
    for (unsigned i = 0; i < op->nout; i++) {
        unsigned axes = condition;
        for (unsigned j = 0; j < 2; j++)
            axes |= axes_of(tc_region_terminator(op->regions[j])->in[i]);
        add_axes(l, op->out[i], axes);
    }
    return true;
}

/* The regions of a loop with `ncarried` values that follow operand and arg
 * `first`, until the axes of the carried values do not grow any more. */
static bool analyse_loop(struct lift *l, tc_op *op, unsigned first_in,
                         unsigned first_arg)
{
    tc_region *head = op->regions[0], *body = op->regions[op->nregions - 1];
    bool grows = true;
    for (unsigned i = 0; i < op->nout; i++)
        add_axes(l, head->args[first_arg + i], axes_of(op->in[first_in + i]));
    while (grows) {
        grows = false;
        for (unsigned i = 0; i < op->nregions; i++)
            if (!analyse_region(l, op->regions[i]))
                return false;
        const tc_op *yield = tc_region_terminator(body);
        for (unsigned i = 0; i < op->nout; i++)
            grows |=
                add_axes(l, head->args[first_arg + i], axes_of(yield->in[i]));
    }
    for (unsigned i = 0; i < op->nout; i++)
        add_axes(l, op->out[i], axes_of(head->args[first_arg + i]));
    return true;
}

static bool analyse_for(struct lift *l, tc_op *op)
{
    if (axes_of(op->in[0]) | axes_of(op->in[1]) | axes_of(op->in[2]))
        return cannot(l, op,
                      "its bounds differ between lanes; take bounds that "
                      "hold for all, and select inside");
    add_axes(l, op->regions[0]->args[0], 0);
    return analyse_loop(l, op, 3, 1);
}

static bool analyse_while(struct lift *l, tc_op *op)
{
    if (!analyse_loop(l, op, 0, 0))
        return false;
    const tc_op *condition = tc_region_terminator(op->regions[0]);
    return !axes_of(condition->in[0]) ||
           cannot(l, op,
                  "its condition differs between lanes; use a `for` with "
                  "enough steps for all, and select inside");
}

static bool touches_pointer(const tc_op *op)
{
    return op->code == TC_LOAD || op->code == TC_STORE ||
           op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS;
}

/* Does the op take tiles where it takes scalars? */
static bool has_lanes(const tc_op *op)
{
    return tc_op_has(op, TC_ELEMENTWISE) || op->code == TC_GATHER ||
           op->code == TC_BISECT || op->code == TC_ASSERT ||
           op->code == TC_ASSUME || op->code == TC_PRINT ||
           (touches_pointer(op) && op->in[0]->type->kind == TC_PTR);
}

/* An atomic happens once a lane, whatever its operands are. */
static unsigned result_axes(const struct lift *l, const tc_op *op)
{
    bool atomic = op->code == TC_ATOMIC || op->code == TC_ATOMIC_CAS;
    return atomic ? l->all_axes : operand_axes(op);
}

static bool analyse_op(struct lift *l, tc_op *op)
{
    switch (op->code) {
    case TC_IF: return analyse_if(l, op);
    case TC_FOR: return analyse_for(l, op);
    case TC_WHILE: return analyse_while(l, op);
    default: break;
    }
    unsigned axes = result_axes(l, op);
    if (tc_op_has(op, TC_TERMINATOR))
        return true;
    if (axes && !has_lanes(op))
        return cannot(l, op,
                      "its operands differ between lanes, and it takes no "
                      "tiles there; let the function take tiles itself");
    for (unsigned i = 0; i < op->nout; i++)
        add_axes(l, op->out[i], axes);
    for (unsigned i = 0; i < op->nregions; i++) { /* reduce, all uniform */
        tc_region *r = op->regions[i];
        for (unsigned j = 0; j < r->nargs; j++)
            add_axes(l, r->args[j], 0);
        if (!analyse_region(l, r))
            return false;
    }
    return true;
}

static bool analyse_region(struct lift *l, tc_region *r)
{
    tc_each_op (op, r)
        if (!analyse_op(l, op))
            return false;
    return true;
}

/* ---- Building ---- */

/* `elem` in the shape that has the sides of the call's along `axes`, else 1. */
static const tc_type *type_at(struct lift *l, unsigned axes,
                              const tc_type *elem)
{
    if (!axes)
        return elem;
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < l->shape->rank; i++)
        dims[i] = axes >> i & 1 ? l->shape->dims[i] : tc_dim_const(l->cx, 1);
    return tc_type_shaped(l->cx, TC_TILE, l->shape->rank, dims, elem);
}

static tc_value *value_at(struct lift *l, tc_builder *b, const tc_value *v,
                          unsigned axes)
{
    const struct lane *lane = v->data;
    tc_value *now = lane->now;
    if (!axes)
        return now;
    const tc_type *type = type_at(l, axes, tc_type_elem(now->type));
    if (now->type == type)
        return now;
    return tc_build(b, lane->axes ? TC_BROADCAST : TC_SPLAT, 1, &now, type);
}

static void emit_region(struct lift *l, tc_builder *b, tc_region *r);

/* The axes along which operand i must have all lanes. */
static unsigned wanted_axes(const struct lift *l, const tc_op *op, unsigned i)
{
    const tc_op *owner = op->parent->op;
    switch (op->code) {
    case TC_FOR: return i < 3 ? 0 : axes_of(op->out[i - 3]);
    case TC_WHILE: return axes_of(op->out[i]);
    case TC_IF: return 0;
    case TC_CONDITION: return 0;
    case TC_YIELD: return tc_op_combines(owner) ? 0 : axes_of(owner->out[i]);
    case TC_PRINT: return axes_of(op->in[i]);
    /* Its tensor operand is uniform: it has no lanes. */
    case TC_GATHER:
    case TC_BISECT: return i == 0 ? 0 : operand_axes(op);
    default: return result_axes(l, op);
    }
}

static void emit_args(struct lift *l, tc_region *from, tc_region *to)
{
    for (unsigned i = 0; i < from->nargs; i++) {
        tc_value *arg = from->args[i];
        const tc_type *type = type_at(l, axes_of(arg), arg->type);
        set_now(arg, tc_region_add_arg(to, type, arg->name, arg->loc));
    }
}

static void emit_plain(struct lift *l, tc_builder *b, tc_op *op)
{
    tc_value **in = tc_arena_array(l->scratch, tc_value *, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = value_at(l, b, op->in[i], wanted_axes(l, op, i));
    tc_op *now =
        tc_op_new(b->func, op->code, op->loc, op->nin, in, op->nregions);
    unsigned nattrs = tc_op_nattrs(op->code);
    if (nattrs)
        memcpy(now->attrs, op->attrs, nattrs * sizeof *now->attrs);
    const tc_type **types =
        tc_arena_array(l->scratch, const tc_type *, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        types[i] = type_at(l, axes_of(op->out[i]), op->out[i]->type);
    tc_op_set_results(now, op->nout, types);
    for (unsigned i = 0; i < op->nout; i++) {
        now->out[i]->name = op->out[i]->name;
        set_now(op->out[i], now->out[i]);
    }
    tc_op_insert(now, b->region, b->before);
    for (unsigned i = 0; i < op->nregions; i++) {
        emit_args(l, op->regions[i], now->regions[i]);
        tc_builder inner = tc_builder_at_end(now->regions[i], op->loc);
        emit_region(l, &inner, op->regions[i]);
    }
}

static void emit_ops(struct lift *l, tc_builder *b, tc_region *r);

/* Both branches, then a select for each result. */
static void emit_select(struct lift *l, tc_builder *b, tc_op *op)
{
    emit_ops(l, b, op->regions[0]);
    emit_ops(l, b, op->regions[1]);
    const tc_op *yes = tc_region_terminator(op->regions[0]);
    const tc_op *no = tc_region_terminator(op->regions[1]);
    for (unsigned i = 0; i < op->nout; i++) {
        unsigned axes = axes_of(op->out[i]);
        b->loc = op->loc;
        tc_value *in[] = {value_at(l, b, op->in[0], axes),
                          value_at(l, b, yes->in[i], axes),
                          value_at(l, b, no->in[i], axes)};
        tc_value *now = tc_build(b, TC_SELECT, 3, in, NULL);
        now->name = op->out[i]->name;
        set_now(op->out[i], now);
    }
}

static void emit_op(struct lift *l, tc_builder *b, tc_op *op)
{
    b->loc = op->loc;
    if (op->code == TC_IF && axes_of(op->in[0]))
        emit_select(l, b, op);
    else
        emit_plain(l, b, op);
}

/* All but the terminator. */
static void emit_ops(struct lift *l, tc_builder *b, tc_region *r)
{
    tc_each_op (op, r)
        if (!tc_op_has(op, TC_TERMINATOR))
            emit_op(l, b, op);
}

static void emit_region(struct lift *l, tc_builder *b, tc_region *r)
{
    tc_each_op (op, r)
        emit_op(l, b, op);
}

/* ---- Arguments ---- */

/* Axes along which a tile has more than one element. A tile of one element is
 * not a scalar: it counts as differing along the last axis. */
static unsigned tile_axes(const tc_type *t)
{
    unsigned axes = 0;
    for (unsigned i = 0; i < t->rank; i++)
        axes |= (unsigned)!tc_dim_is(t->dims[i], 1) << i;
    return axes ? axes : 1u << (t->rank - 1);
}

static void set_argument(struct lift *l, tc_builder *b, tc_value *arg,
                         tc_value *operand)
{
    tc_value *v = tc_match_unbroadcast(operand);
    unsigned axes = v->type->kind == TC_TILE ? tile_axes(v->type) : 0;
    add_axes(l, arg, axes);
    set_now(arg, v);
    if (axes)
        set_now(arg, value_at(l, b, arg, axes));
}

bool tc_lift(tc_pass_env *env, tc_region *body, tc_op *call, const char *callee,
             tc_value **results)
{
    struct lift l = {
        .cx = env->cx, .scratch = env->scratch, .call = call, .callee = callee};
    for (unsigned i = 0; i < call->nin; i++)
        if (call->in[i]->type->kind == TC_TILE)
            l.shape = call->in[i]->type;
    l.all_axes = (1u << l.shape->rank) - 1;
    tc_builder b = tc_builder_before(call);
    for (unsigned i = 0; i < body->nargs; i++)
        set_argument(&l, &b, body->args[i], call->in[i]);
    if (!analyse_region(&l, body))
        return false;
    emit_ops(&l, &b, body);
    const tc_op *ret = tc_region_terminator(body);
    b.loc = call->loc;
    for (unsigned i = 0; i < call->nout; i++)
        results[i] = value_at(&l, &b, ret->in[i], l.all_axes);
    return true;
}
