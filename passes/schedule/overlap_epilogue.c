/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap-epilogue: ops that do not need the loop's last product run
 * concurrently with it.
 *
 *   %sum, %acc = if %any epilogue(..) {  %sum, %acc, %r = if %any {
 *     ..                                   ..
 *     %0 = mma .. async(true)              %0 = mma .. async(true)
 *                                          %r1 = reduce %sum1 kind(sum)
 *     %acc1 = mma_wait %0 pending(0)       %acc1 = mma_wait %0 pending(0)
 *     yield %sum1, %acc1           =>      yield %sum1, %acc1, %r1
 *   } else {                             } else {
 *                                          %r2 = reduce %sum2 kind(sum)
 *     yield %sum2, %zero                   yield %sum2, %zero, %r2
 *   }                                    }
 *   %r = reduce %sum kind(sum)
 *
 * `epilogue(overlap)` says that of a branch; overlap-mma hands it on from the
 * loop to the branch that it leaves for a loop that may have no steps. Only
 * values of few registers move: rows, not tiles. So do reads of the scalar
 * channel and its release, and waits for TMA stores, that precede all other
 * effects. Tests: test/ir/passes/overlap-epilogue.
 */
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"

#include "ir/types/layout.h"

static const char pass[] = "overlap-epilogue";

/* An `if` whose first region ends with a wait for a product. */
typedef struct ending {
    tc_op *branch, *wait;
} ending;

/* ---- What can move ---- */

static bool is_small(const tc_type *t)
{
    if (t->kind != TC_TILE)
        return t->kind <= TC_F64 || t->kind == TC_SMEM;
    return t->layout &&
           tc_layout_size(t->layout, TC_REGISTER) * tc_type_bytes(t->elem) <=
               4 * TC_SMALL_TILE_REGISTERS;
}

static bool is_after_branch(const ending *e, const tc_op *op)
{
    if (op->parent != e->branch->parent)
        return false;
    for (const tc_op *o = e->branch->next; o; o = o->next)
        if (o == op)
            return true;
    return false;
}

/* A result of the branch that is there before the wait. */
static bool is_early(const ending *e, const tc_value *v)
{
    if (v->def != e->branch)
        return false;
    const tc_op *yield = tc_region_terminator(e->branch->regions[0]);
    return tc_value_is_visible(yield->in[v->index], e->wait);
}

static bool has_it(const ending *e, const tc_value *v)
{
    return is_early(e, v) || tc_value_is_visible(v, e->branch);
}

static bool can_move(const ending *e, const tc_op *op,
                     bool (*has)(const ending *, const tc_value *))
{
    if (op->nregions || op->nout > 1 ||
        (op->nout && !is_small(op->out[0]->type)))
        return false;
    for (unsigned i = 0; i < op->nin; i++)
        if (!has(e, op->in[i]))
            return false;
    return true;
}

static bool needs_branch(const ending *e, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->def == e->branch)
            return true;
    return false;
}

/* Constants and the like, which stand after the branch but don't need it. */
static bool has_or_gets(const ending *e, const tc_value *v)
{
    return has_it(e, v) ||
           (v->def && is_after_branch(e, v->def) && tc_op_is_pure(v->def) &&
            can_move(e, v->def, has_or_gets));
}

/* ---- The scalar channel ---- */

static bool reads_channel(const tc_op *op)
{
    return op->code == TC_SMEM_LOAD_SCALAR ||
           (op->code == TC_SMEM_LOAD && tc_op_int(op, "by_mbarrier"));
}

static bool guards(const tc_op *sync, const char *what)
{
    const tc_op *alloc = tc_match_op(sync->in[0], TC_MBARRIER_ALLOC);
    return alloc && tc_op_is_word(alloc, "guards", what);
}

/* Arrivals of the scalar channel: the producer waits for them before it writes
 * the next scalars. */
static bool releases_channel(const tc_op *op)
{
    return op->code == TC_MBARRIER_ARRIVE && guards(op, "scalars");
}

/* Ops that may move to before the product ends: the product does not need them,
 * and nothing else waits for it there. */
static bool may_come_early(const tc_op *op)
{
    switch (op->code) {
    case TC_TMA_STORE_WAIT: return true;
    case TC_MBARRIER_WAIT: return !guards(op, "tiles");
    case TC_BARRIER: return !tc_op_is_word(op, "guards", "tiles");
    default: return reads_channel(op) || releases_channel(op);
    }
}

/* ---- Remarks ---- */

static const char at_end[] =
    "nothing is computed while the last product runs: ";

/* A remark for a branch with a product and results of which no op moves: names
 * the first op that only its size holds back, or says that all ops need the
 * product. */
static void say_declined(tc_pass_env *env, const ending *e)
{
    bool needs_product = false;
    for (const tc_op *op = e->branch->next; op; op = op->next) {
        if (!tc_op_is_pure(op) || !needs_branch(e, op))
            continue;
        unsigned early = 0;
        for (unsigned i = 0; i < op->nin; i++)
            early += has_or_gets(e, op->in[i]);
        if (early < op->nin) {
            needs_product = true;
            continue;
        }
        tc_missed(env->cx, op->loc, pass, "%s%s", at_end,
                  op->nregions || op->nout > 1
                      ? "an op with a body stays: `sum` and `max` have none"
                      : "its tile takes too many registers to be kept: reduce "
                        "it to rows first, or take smaller tiles");
        return;
    }
    if (needs_product)
        tc_remark(env->cx, e->wait->loc, pass,
                  "%swhat follows needs the product", at_end);
}

/* ---- Moving ---- */

static void bring(const ending *e, tc_op *op)
{
    if (!is_after_branch(e, op))
        return;
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->def)
            bring(e, op->in[i]->def);
    tc_op_remove(op);
    tc_op_insert(op, e->branch->parent, e->branch);
}

/* The op on what region i of the branch yields. */
static tc_op *build_in(const ending *e, tc_op *op, unsigned i, tc_op *before)
{
    const tc_op *yield = tc_region_terminator(e->branch->regions[i]);
    tc_op *copy = tc_op_clone(op->func, op);
    for (unsigned k = 0; k < op->nin; k++)
        if (op->in[k]->def == e->branch)
            tc_op_set_in(copy, k, yield->in[op->in[k]->index]);
    tc_op_insert(copy, before->parent, before);
    return copy;
}

static void move(ending *e, tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->def && op->in[i]->def != e->branch)
            bring(e, op->in[i]->def);
    const tc_op *one = build_in(e, op, 0, e->wait);
    const tc_op *two =
        build_in(e, op, 1, tc_region_terminator(e->branch->regions[1]));
    if (op->nout) {
        e->branch = tc_slots_add_result(e->branch, 0, one->out[0], two->out[0]);
        tc_value *now = e->branch->out[e->branch->nout - 1];
        now->name = op->out[0]->name;
        now->loc = op->out[0]->loc;
        tc_value_replace(op->out[0], now);
    }
    tc_op_erase(op);
}

static bool fill(tc_pass_env *env, ending *e)
{
    bool changed = false, alone = true;
    for (tc_op *op = e->branch->next, *next; op; op = next) {
        next = op->next;
        bool pure = tc_op_is_pure(op);
        bool moves = pure ? needs_branch(e, op) : alone && may_come_early(op);
        if (!moves || !can_move(e, op, has_or_gets)) {
            alone &= pure;
            continue;
        }
        move(e, op);
        changed = true;
    }
    if (changed)
        tc_remark(env->cx, e->wait->loc, pass,
                  "row math of the epilogue runs while the last product does");
    else
        say_declined(env, e);
    return changed;
}

/* ---- The walk ---- */

/* The last op of a region with effects, but for releases; NULL: none. */
static tc_op *last_effect(const tc_region *r)
{
    tc_op *op = r->last;
    while (op && (op->code == TC_MBARRIER_ARRIVE ||
                  tc_op_has(op, TC_TERMINATOR) || tc_op_is_pure(op)))
        op = op->prev;
    return op;
}

static bool is_last_wait(const tc_op *op)
{
    return op && op->code == TC_MMA_WAIT && tc_op_int(op, "pending") == 0;
}

/* The region's products are all done before this effect. */
static void say_effect(tc_pass_env *env, const tc_op *effect)
{
    for (const tc_op *op = effect; op; op = op->prev)
        if (is_last_wait(op)) {
            tc_missed(env->cx, effect->loc, pass,
                      "%s%s follows it in the branch: let it come before the "
                      "product, or after the branch",
                      at_end, tc_op_name(effect));
            return;
        }
}

static bool find_wait(tc_pass_env *env, ending *e)
{
    e->wait = last_effect(e->branch->regions[0]);
    if (is_last_wait(e->wait))
        return true;
    if (e->wait && e->branch->nout)
        say_effect(env, e->wait);
    return false;
}

static bool overlap_epilogue_visit(tc_pass_env *env, tc_region *r)
{
    bool changed = false;
    for (tc_op *op = r->first, *next; op; op = next) {
        next = op->next;
        for (unsigned i = 0; i < op->nregions; i++)
            changed |= overlap_epilogue_visit(env, op->regions[i]);
        if (op->code != TC_IF || !tc_op_is_word(op, "epilogue", "overlap"))
            continue;
        ending e = {.branch = op};
        if (!find_wait(env, &e))
            continue;
        if (fill(env, &e)) {
            changed = true;
            next = e.branch->next;
        }
    }
    return changed;
}

tc_change tc_pass_overlap_epilogue(tc_func *f, tc_pass_env *env)
{
    return overlap_epilogue_visit(env, f->body) ? TC_CHANGED : TC_UNCHANGED;
}
