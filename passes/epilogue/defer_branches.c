/* SPDX-License-Identifier: Apache-2.0
 *
 * defer-branches: defers the rare slow-path branch at a tile's end by one tile,
 * so that it needs no barrier: warp groups vote, and read the votes a tile
 * later.
 *
 *   for %tile = .. {                 while carry(%again = true, ..) {
 *     ..                               condition %again
 *     %all = reduce %x kind(and)     } do {
 *     if %all {} else { B }            %late = while carry(%late = false) {
 *   }                                    condition %tile < %n and not %late
 *                                      } do {
 *                         becomes        ..
 *                                        %late of the votes before
 *                                        vote: smem_store, mbarrier_arrive
 *                                        yield %tile + .., %late
 *                                      }
 *                                      if (the last votes, or those before
 *                                          where %late) { B }
 *                                      yield %late
 *                                    }
 *
 * A group continues after its vote; it may be a tile ahead of another group. B
 * runs where it disturbs the loop least. The scalars of its tile that B needs
 * are kept in shared memory with the votes; tiles of a grid have no order, so
 * the next tile may run first. Votes and their scalars are in rings of two
 * slots. `epilogue(defer)` of the branch asks for it (plan_branch.c). Tests:
 * test/ir/passes/defer-branches.
 */
#include "passes/epilogue/defer_branches.h"

#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/analysis/roles.h"
#include "passes/analysis/tile_loop.h"
#include "passes/layout/conversion_scratch.h"
#include "passes/passes.h"
#include "passes/sync/hazards.h"
#include "passes/target/machine_model.h"

#include "ir/types/layout.h"

static const char pass[] = "defer-branches";

/* ---- What is late ---- */

tc_region *tc_late_step(const tc_op *loop)
{
    return loop->regions[loop->code == TC_WHILE];
}

/* The branch of the step with epilogue(defer); NULL: there is none. */
static tc_op *find_branch(const tc_region *step)
{
    tc_each_op (op, step)
        if (op->code == TC_IF && tc_op_is_word(op, "epilogue", "defer"))
            return op;
    return NULL;
}

/* ---- What the branch takes along ---- */

static bool keep(tc_late *l, tc_value *v)
{
    for (unsigned i = 0; i < l->nkept; i++)
        if (l->kept[i] == v)
            return true;
    if (l->nkept == TC_MOST_KEPT || v->type->kind > TC_F64)
        return false;
    l->kept[l->nkept++] = v;
    return true;
}

/* Cheap scalars, which are computed again where they are needed. */
static bool is_cloned(const tc_late *l, const tc_value *v)
{
    const tc_op *op = v->def;
    bool scalar = v->type->kind <= TC_F64;
    return op && !tc_value_is_visible(v, l->loop) && tc_op_is_pure(op) &&
           !op->nregions && op->nout == 1 && (!scalar || op->nin == 0);
}

static bool bring(tc_late *l, tc_value *v)
{
    if (tc_value_is_visible(v, l->loop))
        return true;
    if (!is_cloned(l, v))
        return keep(l, v);
    for (unsigned i = 0; i < v->def->nin; i++)
        if (!bring(l, v->def->in[i]))
            return false;
    return true;
}

static bool bring_all(tc_late *l, const tc_region *r)
{
    tc_each_nested (op, r) {
        for (unsigned i = 0; i < op->nin; i++)
            if (!tc_is_defined_under(op->in[i], l->taken) &&
                !bring(l, op->in[i]))
                return false;
    }
    return true;
}

/* ---- Room ---- */

static uint64_t most_exchanged(tc_context *cx, const tc_region *r)
{
    uint64_t most = 0;
    tc_each_nested (op, r) {
        uint64_t bytes = tc_exchange_bytes(cx, op);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Is there memory for the votes next to the producer's rings and the buffers
 * that outlive a tile? All of these are in use when the branch runs. */
static bool has_room(const tc_late *l)
{
    tc_lifetimes all = tc_find_lifetimes(l->env->scratch, l->f, false);
    tc_lifetimes inside = {
        .of = tc_arena_array(l->env->scratch, tc_lifetime, all.n)};
    uint64_t always = 0;
    for (unsigned i = 0; i < all.n; i++) {
        if (tc_region_contains(l->taken, all.of[i].alloc))
            inside.of[inside.n++] = all.of[i];
        else if (!tc_is_nested_in(all.of[i].alloc, l->loop))
            always += all.of[i].bytes + all.of[i].align;
    }
    uint64_t most = tc_plan_shared(l->env->scratch, &inside) +
                    most_exchanged(l->cx, l->taken);
    return always + most + TC_CHANNEL_RESERVE <=
           tc_shared_limit(l->env->target);
}

/* ---- The whole ---- */

tc_op *tc_late_barrier(const tc_op *roles)
{
    tc_op *op = roles->prev;
    while (op && op->code != TC_BARRIER)
        op = op->prev;
    return op;
}

/* Why it cannot be late; NULL: it can. */
static const char *why_not(tc_late *l)
{
    if (!tc_late_barrier(l->roles))
        return "there is no barrier before the roles";
    if (!bring_all(l, l->taken))
        return "it needs tiles, or many scalars, of its own tile";
    if (!has_room(l))
        return "its shared memory would be in use in addition to all other";
    return NULL;
}

static void defer(tc_late *l)
{
    tc_op *part = tc_reduce_like_within(l->reduce);
    l->part = part->out[0]->type;
    tc_op_erase(part);
    tc_late_expand(l);
    tc_remark(l->cx, l->branch->loc, pass,
              "the warp groups decide this a tile later, and do not meet");
}

static tc_op *find_loop(const tc_op *roles)
{
    tc_each_op (op, tc_consumers(roles))
        if (tc_is_tile_loop(op))
            return op;
    return NULL;
}

tc_change tc_pass_defer_branches(tc_func *f, tc_pass_env *env)
{
    tc_late l = {.env = env, .f = f, .cx = env->cx, .roles = tc_roles_of(f)};
    tc_vote vote;
    l.loop = l.roles ? find_loop(l.roles) : NULL;
    l.branch = l.loop ? find_branch(tc_late_step(l.loop)) : NULL;
    if (!l.branch)
        return TC_UNCHANGED;
    if (!tc_find_vote(l.branch, &vote)) {
        tc_error(env->cx, l.branch->loc,
                 "if: epilogue(defer) needs a condition that all warps reduce "
                 "by `and` or `or`, no results, and one region that does "
                 "nothing: write epilogue(none)");
        return TC_FAILED;
    }
    l.taken = vote.taken;
    l.reduce = vote.reduce;
    l.kind = vote.kind;
    const char *why = why_not(&l);
    if (why)
        tc_missed(env->cx, l.branch->loc, pass,
                  "the warp groups meet to decide this: %s", why);
    else
        defer(&l);
    return why ? TC_UNCHANGED : TC_CHANGED;
}
