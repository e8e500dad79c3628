/* SPDX-License-Identifier: Apache-2.0
 *
 * dce: removes ops that no effect and no result of the function needs.
 *
 *   for %i = 0 to %n carry(%a = %x, %b = %y) {      for %i = 0 to %n
 *     %a1 = add %a, %c                                carry(%b = %y) {
 *     %b1 = mul %b, %c                    becomes     %b1 = mul %b, %c
 *     yield %a1, %b1                                  yield %b1
 *   }                                               }
 *
 * if only the second result is used. Marks the needed ops, from the effects
 * backwards, then sweeps. Each slot of `for`, `while` and `if` (result, carried
 * value, operand of the yield) is needed or not on its own. Loads are no
 * effect; a `while` is, as it may not end. A store of an integer to shared
 * memory is no effect either, unless a needed op reads that memory. Tests:
 * test/ir/passes/dce.
 */
#include "passes/analysis/loop_slots.h"
#include "passes/passes.h"

struct dce {
    tc_pass_env *env;
    bool changed;
};

/* The marks, in op->data and (slots: results and args) value->data. */
static char needed;

/* ---- Marking ---- */

static void mark_value(tc_value *v);

static void mark_operands(tc_op *op, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        mark_value(op->in[i]);
}

static void mark_contents(tc_region *r);
static void mark_slot(tc_op *op, unsigned i);

/* Marks the op as needed. For an op with slots only its fixed operands (bounds,
 * conditions) are marked; each slot is marked on its own. */
static void mark_op(tc_op *op)
{
    if (op->data)
        return;
    op->data = &needed;
    if (op->parent->op)
        mark_op(op->parent->op);
    switch (op->code) {
    case TC_FOR: mark_operands(op, 0, 3); return;
    case TC_IF: mark_operands(op, 0, 1); return;
    case TC_WHILE: mark_op(tc_region_terminator(op->regions[0])); return;
    case TC_WARP_GROUPS: return;
    case TC_BREAK_IF: /* gives all that the loop carries */
        for (unsigned i = 0; i < op->parent->op->nout; i++)
            mark_slot(op->parent->op, i);
        break;
    default: break;
    }
    mark_operands(op, 0, op->nin);
    for (unsigned i = 0; i < op->nregions; i++)
        mark_contents(op->regions[i]);
}

static void mark_contents(tc_region *r)
{
    tc_each_op (op, r)
        mark_op(op);
}

static void mark_slot(tc_op *op, unsigned i)
{
    mark_op(op);
    if (op->out[i]->data)
        return;
    op->out[i]->data = &needed;
    if (tc_slot_init(op, i))
        mark_value(tc_slot_init(op, i));
    for (unsigned r = 0; r < op->nregions; r++) {
        tc_op *last = tc_region_terminator(op->regions[r]);
        if (last->code == TC_YIELD)
            mark_value(last->in[i]);
    }
}

static void mark_value(tc_value *v)
{
    if (v->def && tc_op_has_slots(v->def)) {
        mark_slot(v->def, v->index);
        return;
    }
    if (v->def) {
        mark_op(v->def);
        return;
    }
    tc_op *owner = v->region->op;
    if (!owner)
        return;
    bool counter = owner->code == TC_FOR && v->index == 0;
    if (tc_op_has_slots(owner) && !counter)
        mark_slot(owner, v->index - (owner->code == TC_FOR));
    else
        mark_op(owner);
}

/* The buffer of a smem_store_scalar. NULL: the op is another one, or the buffer
 * is unknown or may overlap others. */
static const tc_op *buffer_of_put(const tc_op *op)
{
    if (op->code != TC_SMEM_STORE_SCALAR)
        return NULL;
    const tc_op *made = op->in[0]->def;
    while (made && made->code == TC_SMEM_INDEX)
        made = made->in[0]->def;
    bool alone =
        made && made->code == TC_SMEM_ALLOC && !tc_op_has_attr(made, "offset");
    return alone ? made : NULL;
}

static bool is_effect(const tc_op *op)
{
    return tc_op_has(op, TC_WRITES) || tc_op_is_call(op) ||
           op->code == TC_WHILE;
}

static void mark_effects(tc_region *r)
{
    tc_each_nested (op, r) {
        if (is_effect(op) && !buffer_of_put(op))
            mark_op(op);
    }
}

/* Marks the scalar stores to buffers that a needed op reads; they may need
 * others. */
static bool mark_puts(tc_region *r)
{
    bool more = false;
    tc_each_nested (op, r) {
        const tc_op *buffer = buffer_of_put(op);
        if (buffer && buffer->data && !op->data) {
            mark_op(op);
            more = true;
        }
    }
    return more;
}

/* ---- Sweeping ---- */

static void sweep_region(struct dce *s, tc_region *r);

/* Removes slots that are not needed, and the ops in the regions for them. */
static void sweep_slots(struct dce *s, tc_op *op)
{
    bool any = false;
    bool *drop = tc_arena_array(s->env->scratch, bool, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        any |= drop[i] = !op->out[i]->data;
    if (any)
        tc_slots_unyield(op, drop);
    for (unsigned i = op->nregions; i-- > 0;)
        sweep_region(s, op->regions[i]);
    if (any) {
        tc_slots_remove(op, drop);
        s->changed = true;
    }
}

/* Backwards: the users of a dead value are dead and gone before it. */
static void sweep_region(struct dce *s, tc_region *r)
{
    for (tc_op *op = r->last, *prev; op; op = prev) {
        prev = op->prev;
        if (tc_op_has(op, TC_TERMINATOR))
            continue;
        if (!op->data) {
            tc_op_erase(op);
            s->changed = true;
        } else if (tc_op_has_slots(op)) {
            sweep_slots(s, op);
        } else if (op->code == TC_WARP_GROUPS) {
            for (unsigned i = 0; i < op->nregions; i++)
                sweep_region(s, op->regions[i]);
        }
    }
}

static void clean(struct dce *s, tc_region *r)
{
    tc_region_clear_all_data(r);
    mark_effects(r);
    mark_op(tc_region_terminator(r));
    while (mark_puts(r)) {
    }
    sweep_region(s, r);
}

tc_change tc_pass_dce(tc_func *f, tc_pass_env *env)
{
    struct dce s = {env, false};
    if (f->grid)
        clean(&s, f->grid);
    clean(&s, f->body);
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
