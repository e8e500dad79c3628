/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of control flow.
 *
 *   if true { A } else { B }              A
 *   if %c { yield %x } else { yield %y }  select %c, %x, %y
 *   for %i = 0 to 0 { A }                 the initial values
 *   for %i = 3 to 4 { A }                 A with %i = 3
 *   carry(%x = %a) { ... yield %x }       %a in its place
 *   results that nobody uses              removed, with what only feeds them
 */
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/nesting.h"
#include "passes/simplify/fold.h"

/* The op gives way to `values`, one a result. */
static void replace_by(tc_op *op, tc_value *const *values)
{
    for (unsigned i = 0; i < op->nout; i++) {
        if (!values[i]->name)
            values[i]->name = op->out[i]->name;
        tc_value_replace(op->out[i], values[i]);
    }
    tc_op_erase(op);
}

/* ---- if ---- */

static bool if_constant(tc_op *op)
{
    tc_scalar c;
    if (!tc_match_const(op->in[0], &c))
        return false;
    tc_region *taken = op->regions[c.i ? 0 : 1];
    tc_region_move_before(taken, op);
    replace_by(op, tc_region_terminator(taken)->in);
    return true;
}

/* (Of a speculatable one only the first region may run unasked.) */
static bool if_not(tc_op *op)
{
    tc_op *complement = tc_match_op(op->in[0], TC_NOT);
    if (!complement || tc_op_int(op, "speculatable"))
        return false;
    tc_region *then = op->regions[0];
    op->regions[0] = op->regions[1];
    op->regions[1] = then;
    tc_op_set_in(op, 0, complement->in[0]);
    return true;
}

static bool only_yields(const tc_region *r)
{
    return r->first == tc_region_terminator(r);
}

/* Branches without ops: a selection; without results: nothing. */
static bool if_without_ops(tc_op *op)
{
    if (!only_yields(op->regions[0]) || !only_yields(op->regions[1]))
        return false;
    tc_builder b = tc_builder_before(op);
    for (unsigned i = 0; i < op->nout; i++) {
        tc_value *v =
            tc_build_select(&b, op->in[0], op->regions[0]->first->in[i],
                            op->regions[1]->first->in[i]);
        v->name = op->out[i]->name;
        tc_value_replace(op->out[i], v);
    }
    tc_op_erase(op);
    return true;
}

/* A value that both branches yield comes from outside. */
static bool if_same_yields(tc_op *op)
{
    const tc_op *yes = tc_region_terminator(op->regions[0]);
    const tc_op *no = tc_region_terminator(op->regions[1]);
    bool changed = false;
    for (unsigned i = 0; i < op->nout; i++)
        if (yes->in[i] == no->in[i] && op->out[i]->uses) {
            tc_value_replace(op->out[i], yes->in[i]);
            changed = true;
        }
    return changed;
}

/* ---- Slots ---- */

/* Does only its own slot's yield use the argument? */
static bool only_feeds_itself(const tc_op *op, unsigned i)
{
    const tc_value *arg = tc_slot_arg(op, i);
    const tc_op *yield = tc_slot_yield(op);
    if (arg)
        tc_each_use (u, arg)
            if (u->op != yield || u->index != i)
                return false;
    return true;
}

static bool remove_dead_slots(tc_op *op)
{
    bool any = false;
    bool *drop = tc_arena_array(&op->func->module->arena, bool, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        any |= drop[i] = !op->out[i]->uses && only_feeds_itself(op, i);
    if (!any)
        return false;
    tc_slots_unyield(op, drop);
    tc_slots_remove(op, drop);
    return true;
}

static bool unused_results(tc_op *op)
{
    if (tc_break_in(op->regions[0]))
        return false;
    for (unsigned i = 0; i < op->nout; i++)
        if (!op->out[i]->uses && only_feeds_itself(op, i))
            return remove_dead_slots(op);
    return false;
}

/* A carried value that each step hands on as it is, or sets to the initial
 * one again. (The slot is dead then, and goes by the rule above.) */
static bool carried_unchanged(tc_op *op)
{
    bool changed = false;
    if (tc_break_in(op->regions[0]))
        return false;
    for (unsigned i = 0; i < op->nout; i++) {
        tc_value *arg = tc_slot_arg(op, i), *init = tc_slot_init(op, i);
        const tc_value *next = tc_slot_yield(op)->in[i];
        if ((next != arg && next != init) || (!arg->uses && !op->out[i]->uses))
            continue;
        if (!op->out[i]->uses && only_feeds_itself(op, i))
            continue;
        tc_value_replace(arg, init);
        if (op->out[i]->uses)
            tc_value_replace(op->out[i], init);
        changed = true;
    }
    return changed;
}

/* ---- for ---- */

static bool trip_count(const tc_op *op, uint64_t *trips)
{
    tc_scalar lo, hi, step;
    if (!tc_match_const(op->in[0], &lo) || !tc_match_const(op->in[1], &hi) ||
        !tc_match_const(op->in[2], &step))
        return false;
    *trips = tc_trip_count(lo.i, hi.i, step.i);
    return true;
}

/* A step that folds to 0 or less: no trips either, and the verifier rejects
 * what is written like that. */
static bool steps_nowhere(const tc_op *op)
{
    tc_scalar step;
    return tc_match_const(op->in[2], &step) && step.i <= 0;
}

static bool for_never(tc_op *op)
{
    uint64_t trips;
    if (op->in[0] == op->in[1] || steps_nowhere(op))
        trips = 0;
    else if (!trip_count(op, &trips))
        return false;
    if (trips == 0)
        replace_by(op, op->in + 3);
    return trips == 0;
}

static bool for_once(tc_op *op)
{
    uint64_t trips;
    tc_region *body = op->regions[0];
    if (!trip_count(op, &trips) || trips != 1 || tc_break_in(op->regions[0]))
        return false;
    tc_value_replace(body->args[0], op->in[0]);
    for (unsigned i = 0; i < op->nout; i++)
        tc_value_replace(tc_slot_arg(op, i), tc_slot_init(op, i));
    tc_region_move_before(body, op);
    replace_by(op, tc_region_terminator(body)->in);
    return true;
}

/* ---- while ---- */

/* Never goes on: only the first region runs, once. */
static bool while_never(tc_op *op)
{
    tc_region *head = op->regions[0];
    if (!tc_match_int(tc_region_terminator(head)->in[0], 0))
        return false;
    /* Erases the second region, with its uses of values of the first. */
    while (op->regions[1]->last)
        tc_op_erase(op->regions[1]->last);
    for (unsigned i = 0; i < op->nout; i++)
        tc_value_replace(head->args[i], op->in[i]);
    tc_region_move_before(head, op);
    replace_by(op, op->in);
    return true;
}

/* ---- Promises ---- */

static bool certainly_true(tc_op *op)
{
    if (!tc_match_int(op->in[0], 1))
        return false;
    tc_op_erase(op);
    return true;
}

static bool certainly_false(tc_op *op)
{
    if (!tc_match_int(op->in[0], 0))
        return false;
    tc_op_erase(op);
    return true;
}

tc_control_rule *const tc_control_rules[TC_OPCODE_COUNT][TC_MAX_RULES] = {
    [TC_IF] = {if_constant, if_not, if_without_ops, if_same_yields,
               unused_results},
    [TC_FOR] = {for_never, for_once, carried_unchanged, unused_results},
    [TC_WHILE] = {while_never, carried_unchanged, unused_results},
    [TC_ASSERT] = {certainly_true},
    [TC_ASSUME] = {certainly_true},
    [TC_EXIT_IF] = {certainly_false},
};
