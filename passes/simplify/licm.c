/* SPDX-License-Identifier: Apache-2.0
 *
 * licm: computes loop-invariant ops once, before the loop.
 *
 *   for %i = 0 to %n {                      %b = exp2 %x : f32
 *     %b = exp2 %x : f32                    for %i = 0 to %n {
 *     %c = mul %b, %i1 : f32      becomes     %c = mul %b, %i1 : f32
 *     ...                                     ...
 *
 * Inner loops first, so that an op can leave several. Moved are
 *   pure ops: they cannot fail, so it does not matter if the loop never runs;
 *   gathers, where the loop does not store to what they read: nor can they
 *     fail;
 *   other loads, where the loop surely runs, does not store to what they read,
 *     and does nothing (assert, print) that the load might come before; and of
 *     a `while` only from its first region.
 * Different arguments of a kernel are different memory here (hazards.h).
 * Tiles that repeat a smaller value (splat, broadcast, expand_dims, range)
 * cost nothing where they are used and memory where they are kept: they move
 * only along with a user. Tests: test/ir/passes/licm.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/passes.h"
#include "passes/sync/hazards.h"

struct licm {
    tc_pass_env *env;
    bool is_kernel;
    bool changed;
};

/* Outside of the loop, or inside of an op of it that is to move? */
static bool is_outside(const tc_value *v, const tc_op *loop, const tc_op *op)
{
    return tc_is_defined_in(v, op) || !tc_is_defined_in(v, loop);
}

/* Is all that the op (with its regions) uses outside? */
static bool uses_outside_only(const tc_op *op, const tc_op *loop,
                              const tc_op *within)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (!is_outside(op->in[i], loop, within))
            return false;
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i]) {
            if (!uses_outside_only(inner, loop, within))
                return false;
        }
    return true;
}

static bool repeats_smaller_value(const tc_op *op)
{
    return op->code == TC_SPLAT || op->code == TC_BROADCAST ||
           op->code == TC_EXPAND_DIMS || op->code == TC_RANGE;
}

/* A product whose only use is as the initial sum of another one: outside of the
 * loop its tile would be kept, and copied in each step. */
static bool begins_sum(const tc_op *op)
{
    const tc_use *u = op->nout ? op->out[0]->uses : NULL;
    tc_opcode code = op->code;
    return (code == TC_DOT || code == TC_MMA) && u && !u->next &&
           u->op->code == code && u->index == 2;
}

static bool surely_runs(const tc_op *loop, const tc_region *r)
{
    tc_scalar lo, hi, step;
    if (loop->code == TC_WHILE)
        return r == loop->regions[0];
    return tc_match_const(loop->in[0], &lo) &&
           tc_match_const(loop->in[1], &hi) &&
           tc_match_const(loop->in[2], &step) &&
           tc_trip_count(lo.i, hi.i, step.i) > 0;
}

/* A read that stays inside of its tensor. */
static bool cannot_fail(const tc_op *op)
{
    return op->code == TC_GATHER || op->code == TC_BISECT;
}

static bool reads_tensor(const tc_op *op)
{
    return op->code == TC_LOAD || cannot_fail(op);
}

/* May `load` read other contents in another step? */
static bool may_change_loaded(const struct licm *s, const tc_op *loop,
                              const tc_op *load)
{
    bool stores = tc_op_effects(loop).stores;
    if (!stores || !s->is_kernel || !reads_tensor(load))
        return stores;
    for (unsigned i = 0; i < loop->nregions; i++)
        if (tc_may_change_loaded_in(loop->regions[i], load))
            return true;
    return false;
}

/* Why a load cannot move; NULL: it can. */
static const char *why_load_stays(const struct licm *s, const tc_op *op,
                                  const tc_op *loop, const tc_region *r)
{
    if (may_change_loaded(s, loop, op))
        return "the loop may store to what it reads";
    if (cannot_fail(op))
        return NULL;
    if (!surely_runs(loop, r))
        return "the loop may run no step, and then the load must not happen";
    bool others = false;
    for (unsigned i = 0; i < loop->nregions; i++)
        others |= tc_region_effects(loop->regions[i]).other;
    return others ? "the loop has other effects that must come first" : NULL;
}

static bool may_move(struct licm *s, const tc_op *op, const tc_op *loop,
                     const tc_region *r)
{
    if (tc_op_has(op, TC_TERMINATOR) || !uses_outside_only(op, loop, op))
        return false;
    if (tc_op_is_pure(op))
        return !repeats_smaller_value(op) && !begins_sum(op);
    if (!tc_op_has(op, TC_READS) || tc_op_has(op, TC_WRITES))
        return false;
    const char *why = why_load_stays(s, op, loop, r);
    if (why)
        tc_missed(s->env->cx, op->loc, "licm",
                  "%s is the same in every step but stays in the loop: %s",
                  tc_op_name(op), why);
    return !why;
}

/* Its operands in the loop are tiles that could stay in the loop: they are
 * hoisted too. */
static void move(struct licm *s, tc_op *op, tc_op *loop)
{
    tc_op_remove(op);
    tc_op_insert(op, loop->parent, loop);
    s->changed = true;
}

/* Is `v`, if computed in the loop, a repeated value that may move along? */
static bool may_come_along(const tc_value *v, const tc_op *loop,
                           const tc_op *op)
{
    if (is_outside(v, loop, op))
        return true;
    return v->def && v->def->parent && v->def->parent->op == loop &&
           repeats_smaller_value(v->def) &&
           (v->def->nin == 0 || may_come_along(v->def->in[0], loop, op));
}

static void bring(struct licm *s, tc_value *v, tc_op *loop, const tc_op *op)
{
    if (is_outside(v, loop, op))
        return;
    if (v->def->nin)
        bring(s, v->def->in[0], loop, op);
    move(s, v->def, loop);
}

/* Pure ops without regions, and reads that cannot fail, whose operands are
 * outside but for repeated values: these are moved first. */
static void bring_operands(struct licm *s, tc_op *op, tc_op *loop)
{
    bool moves = tc_op_has(op, TC_PURE) ||
                 (cannot_fail(op) && !may_change_loaded(s, loop, op));
    if (op->nregions || op->nin == 0 || !moves || repeats_smaller_value(op))
        return;
    for (unsigned i = 0; i < op->nin; i++)
        if (!may_come_along(op->in[i], loop, op))
            return;
    for (unsigned i = 0; i < op->nin; i++)
        bring(s, op->in[i], loop, op);
}

static void visit_region(struct licm *s, tc_region *r);

static void visit_loop(struct licm *s, tc_op *loop)
{
    for (unsigned i = 0; i < loop->nregions; i++)
        tc_each_op_safe (op, loop->regions[i]) {
            bring_operands(s, op, loop);
            if (may_move(s, op, loop, loop->regions[i]))
                move(s, op, loop);
        }
}

static void visit_region(struct licm *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (tc_op_is_loop(op))
            visit_loop(s, op);
    }
}

tc_change tc_pass_licm(tc_func *f, tc_pass_env *env)
{
    struct licm s = {env, f->is_kernel, false};
    visit_region(&s, f->body);
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
