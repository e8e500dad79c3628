/* SPDX-License-Identifier: Apache-2.0
 *
 * canonicalize: applies the rules of fold.h until none applies any more.
 *
 *   %a = const 2 : i32                      %c = const 6 : i32
 *   %b = const 3 : i32                      %y = add %x, %c : i32
 *   %c = mul %a, %b : i32         becomes
 *   %y = add %c, %x : i32
 *
 * An op that a rule builds has the numerics flags of the op it replaces.
 * Pure ops without uses are erased on the way, so that a rule sees the uses
 * that count. Tests: test/ir/passes/canonicalize, test/unit/fold.c.
 */
#include "ir/fastmath.h"
#include "passes/passes.h"
#include "passes/simplify/fold.h"

/* Rules only shrink or canonicalise, so a few sweeps do; a rule that undoes
 * another would show here as a pass that takes all of them. */
enum { MOST_SWEEPS = 100 };

static bool is_dead(const tc_op *op)
{
    return !tc_op_is_used(op) && !tc_op_has(op, TC_TERMINATOR) &&
           tc_op_is_pure(op);
}

static bool try_rules(tc_op *op, tc_rule *const *rules)
{
    for (unsigned i = 0; i < TC_MAX_RULES && rules[i]; i++) {
        tc_builder b = tc_builder_before(op);
        b.fastmath = tc_op_own_fastmath(op);
        tc_value *v = rules[i](&b, op);
        if (!v)
            continue;
        if (v == op->out[0])
            return true;
        if (!v->name)
            v->name = op->out[0]->name;
        tc_value_replace(op->out[0], v);
        tc_op_erase(op);
        return true;
    }
    return false;
}

static bool try_control(tc_op *op)
{
    tc_control_rule *const *rules = tc_control_rules[op->code];
    for (unsigned i = 0; i < TC_MAX_RULES && rules[i]; i++)
        if (rules[i](op))
            return true;
    return false;
}

static bool simplify(tc_op *op)
{
    if (is_dead(op)) {
        tc_op_erase(op);
        return true;
    }
    if (try_control(op))
        return true;
    if (op->nout != 1)
        return false;
    return (tc_op_has(op, TC_ELEMENTWISE) && try_rules(op, tc_lane_rules)) ||
           try_rules(op, tc_arith_rules[op->code]) ||
           try_rules(op, tc_logic_rules[op->code]) ||
           try_rules(op, tc_shape_rules[op->code]);
}

/* Walks from the last op to the first: users that are erased free their
 * operands, and ops that a rule builds before the current op are visited
 * next. */
static bool sweep(tc_region *r)
{
    bool changed = false;
    for (tc_op *op = r->last, *prev; op; op = prev) {
        tc_module_spend(r->func->module, 8); /* of all rules */
        for (unsigned i = op->nregions; i-- > 0;)
            changed |= sweep(op->regions[i]);
        tc_op *next = op->next;
        if (!simplify(op)) {
            prev = op->prev;
            continue;
        }
        changed = true;
        prev = next ? next->prev : r->last;
        if (prev == op) /* changed in place */
            prev = op->prev;
    }
    return changed;
}

tc_change tc_pass_canonicalize(tc_func *f, tc_pass_env *env)
{
    bool changed = false;
    for (int i = 0; i < MOST_SWEEPS; i++) {
        bool again = f->grid && sweep(f->grid);
        again |= sweep(f->body);
        if (!again)
            break;
        changed = true;
    }
    return changed ? TC_CHANGED : TC_UNCHANGED;
}
