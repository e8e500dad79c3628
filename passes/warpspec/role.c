/* SPDX-License-Identifier: Apache-2.0
 *
 * A role of scalars next to the consumer: the loops and branches of the
 * kernel's body with the ops that the role needs of them, and its actions at
 * some ops.
 *
 * The role is built next to the body, which stays unchanged. Arguments of the
 * kernel, and values computed before the roles, are the same in it.
 */
#include "passes/warpspec/warpspec.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/tile_loop.h"

tc_value *tc_role_here(const tc_role_builder *e, tc_value *v)
{
    tc_value *now = tc_map_get(&e->values, v);
    if (!now && e->outer)
        return tc_role_here(e->outer, v);
    return now ? now : v;
}

void tc_role_is_here(tc_role_builder *e, const tc_value *v, tc_value *now)
{
    now->name = v->name;
    tc_map_set(&e->values, v, now);
}

static bool is_needed(const tc_role_builder *e, const void *op_or_value)
{
    return tc_map_get(e->needed, op_or_value) != NULL;
}

/* ---- Ops ---- */

static void emit_region(tc_role_builder *e, const tc_region *r, tc_builder *b);

void tc_role_emit(tc_role_builder *e, const tc_op *op, tc_builder *b)
{
    tc_value **in = tc_arena_array(e->s->env->scratch, tc_value *, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = tc_role_here(e, op->in[i]);
    tc_role_is_here(e, op->out[0], tc_build_like(b, op, in, op->out[0]->type));
}

/* A loop or branch that is being built: the needed slots of the old one, then
 * the rings' counts. */
typedef struct nest {
    const tc_op *old;
    tc_op *now;
    unsigned n; /* needed slots */
    unsigned *slots;
    tc_carried_rings rings;
} nest;

static nest new_nest(tc_role_builder *e, const tc_op *op)
{
    nest x = {.old = op, .rings = tc_rings_carried_by(e->s, op)};
    x.slots = tc_arena_array(e->s->env->scratch, unsigned, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        if (is_needed(e, op->out[i]))
            x.slots[x.n++] = i;
    return x;
}

static void build_nest(tc_role_builder *e, nest *x, tc_builder *b)
{
    tc_arena *a = &e->s->f->module->arena;
    const tc_op *op = x->old;
    unsigned first = tc_slot_operands_before(op), total = x->n + x->rings.n;
    tc_value **in = tc_arena_array(a, tc_value *, first + total);
    const tc_type **types = tc_arena_array(a, const tc_type *, total);
    unsigned nin = 0;
    for (; nin < first; nin++)
        in[nin] = tc_role_here(e, op->in[nin]);
    for (unsigned i = 0; i < x->n; i++) {
        types[i] = op->out[x->slots[i]]->type;
        if (op->code != TC_IF)
            in[nin++] = tc_role_here(e, tc_slot_init(op, x->slots[i]));
    }
    for (unsigned i = 0; i < x->rings.n; i++) {
        types[x->n + i] = (*x->rings.at[i])->type;
        in[nin++] = *x->rings.at[i];
    }
    x->now = tc_op_new(e->s->f, op->code, op->loc, nin, in, op->nregions);
    if (tc_is_tile_loop(op))
        tc_mark_tile_loop(x->now);
    tc_op_set_results(x->now, total, types);
    tc_op_insert(x->now, b->region, b->before);
}

static void add_arg(tc_role_builder *e, tc_region *r, const tc_value *like)
{
    tc_role_is_here(e, like,
                    tc_region_add_arg(r, like->type, like->name, like->loc));
}

static void build_args(tc_role_builder *e, nest *x)
{
    tc_region *r = x->now->regions[0];
    if (x->old->code == TC_FOR)
        add_arg(e, r, x->old->regions[0]->args[0]);
    for (unsigned i = 0; i < x->n && x->old->code != TC_IF; i++)
        add_arg(e, r, tc_slot_arg(x->old, x->slots[i]));
    for (unsigned i = 0; i < x->rings.n; i++) {
        tc_value **at = x->rings.at[i];
        *at = tc_region_add_arg(r, (*at)->type, x->rings.names[i], x->old->loc);
    }
}

static void build_terminator(tc_role_builder *e, const nest *x,
                             const tc_op *old, tc_builder *b)
{
    b->loc = old->loc;
    if (old->code == TC_CONDITION) {
        tc_value *go_on = tc_role_here(e, old->in[0]);
        tc_build_effect(b, TC_CONDITION, 1, &go_on);
        return;
    }
    tc_value **in =
        tc_arena_array(e->s->env->scratch, tc_value *, x->n + x->rings.n);
    for (unsigned i = 0; i < x->n; i++)
        in[i] = tc_role_here(e, old->in[x->slots[i]]);
    for (unsigned i = 0; i < x->rings.n; i++)
        in[x->n + i] = *x->rings.at[i];
    tc_build_yield(b, x->n + x->rings.n, in);
}

static void emit_nest(tc_role_builder *e, const tc_op *op, tc_builder *b)
{
    nest x = new_nest(e, op);
    build_nest(e, &x, b);
    build_args(e, &x);
    for (unsigned i = 0; i < op->nregions; i++) {
        tc_builder inner = tc_builder_at_end(x.now->regions[i], op->loc);
        emit_region(e, op->regions[i], &inner);
        build_terminator(e, &x, tc_region_terminator(op->regions[i]), &inner);
    }
    for (unsigned i = 0; i < x.n; i++)
        tc_role_is_here(e, op->out[x.slots[i]], x.now->out[i]);
    for (unsigned i = 0; i < x.rings.n; i++) {
        *x.rings.at[i] = x.now->out[x.n + i];
        x.now->out[x.n + i]->name = x.rings.names[i];
    }
}

/* All but the terminator. */
static void emit_region(tc_role_builder *e, const tc_region *r, tc_builder *b)
{
    const tc_op *last = tc_region_terminator(r);
    for (const tc_op *op = r->first; op && op != last && op != e->s->roles;
         op = op->next) {
        e->before(e, r, op, b);
        b->loc = op->loc;
        if (e->instead(e, op, b) || !is_needed(e, op) ||
            tc_map_get(&e->s->both, op))
            continue;
        if (op->nregions)
            emit_nest(e, op, b);
        else
            tc_role_emit(e, op, b);
        if (e->after)
            e->after(e, op, b);
    }
    e->before(e, r, NULL, b);
    b->loc = last->loc;
    tc_advance_rings(e->s, r, b);
}

void tc_build_role(tc_role_builder *e, tc_builder *b)
{
    tc_start_rings(e->s, b);
    emit_region(e, e->s->f->body, b);
    b->loc = e->s->roles->loc;
}
