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
 * slots. Runs after specialize-warps, if there are barriers to save. Tests:
 * test/ir/passes/defer-branches.
 */
#include "passes/epilogue/defer_branches.h"

#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"
#include "passes/analysis/tile_loop.h"
#include "passes/layout/conversion_scratch.h"
#include "passes/passes.h"
#include "passes/sync/hazards.h"
#include "passes/target/machine_model.h"

#include "ir/types/layout.h"

static const char pass[] = "defer-branches";

/* ---- What can be late ---- */

static bool only_yields(const tc_region *r)
{
    return tc_op_has(r->first, TC_TERMINATOR);
}

tc_region *tc_late_step(const tc_op *loop)
{
    return loop->regions[loop->code == TC_WHILE];
}

/* Releases, and other ops that may come before the branch as well as after
 * it. */
static bool may_come_first(const tc_op *op)
{
    switch (op->code) {
    case TC_FENCE_ASYNC:
    case TC_BARRIER:
    case TC_MBARRIER_ARRIVE:
    case TC_MBARRIER_WAIT:
    case TC_TMA_STORE_WAIT:
    case TC_SMEM_LOAD_SCALAR: return true;
    default: return tc_op_is_pure(op) || tc_op_has(op, TC_TERMINATOR);
    }
}

/* At the step's end, with one region that does something; NULL: none. */
static tc_op *find_branch(const tc_region *step)
{
    for (tc_op *op = step->last; op; op = op->prev) {
        if (op->code == TC_IF && !op->nout &&
            !tc_op_is_word(op, "epilogue", "none") &&
            only_yields(op->regions[0]) != only_yields(op->regions[1]))
            return op;
        if (!may_come_first(op))
            return NULL;
    }
    return NULL;
}

tc_op *tc_late_reduce(const tc_value *v, bool *turned)
{
    tc_op *op = v->def;
    if (!op)
        return NULL;
    if (op->code == TC_NOT) {
        *turned = !*turned;
        return tc_late_reduce(op->in[0], turned);
    }
    if (op->code == TC_AND || op->code == TC_OR) {
        bool other = *turned;
        tc_op *x = tc_late_reduce(op->in[0], turned);
        tc_op *y = tc_late_reduce(op->in[1], &other);
        *turned = x ? *turned : other;
        return x && y ? NULL : x ? x : y;
    }
    bool fits =
        op->code == TC_REDUCE && op->nin == 1 && v->type->kind == TC_I1 &&
        (tc_op_is_word(op, "kind", "and") || tc_op_is_word(op, "kind", "or")) &&
        tc_op_is_word(op, "within", "block");
    return fits ? op : NULL;
}

/* One vote of each warp. */
static bool is_of_all_warps(tc_late *l)
{
    const tc_layout *from = l->reduce->in[0]->type->layout;
    const tc_layout *parts = from && from->rank == 1
                                 ? tc_layout_partial(l->cx, from, 0, TC_WARP)
                                 : NULL;
    return parts && parts->shape[0] == (int32_t)l->f->warps;
}

static const char *find_condition(tc_late *l)
{
    bool turned = l->taken == l->branch->regions[1];
    l->reduce = tc_late_reduce(l->branch->in[0], &turned);
    if (!l->reduce || !is_of_all_warps(l))
        return NULL; /* the branch needs no barrier */
    bool is_and = tc_op_is_word(l->reduce, "kind", "and");
    l->kind = is_and != turned ? "and" : "or";
    return "";
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

bool tc_late_is_inside(const tc_late *l, const tc_value *v)
{
    const tc_region *r = v->def ? v->def->parent : v->region;
    for (; r; r = r->op ? r->op->parent : NULL)
        if (r == l->taken)
            return true;
    return false;
}

static bool bring_all(tc_late *l, const tc_region *r)
{
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nin; i++)
            if (!tc_late_is_inside(l, op->in[i]) && !bring(l, op->in[i]))
                return false;
        for (unsigned i = 0; i < op->nregions; i++)
            if (!bring_all(l, op->regions[i]))
                return false;
    }
    return true;
}

/* ---- Room ---- */

static uint64_t most_exchanged(tc_context *cx, const tc_region *r)
{
    uint64_t most = 0;
    tc_each_op (op, r) {
        uint64_t bytes = tc_exchange_bytes(cx, op);
        for (unsigned i = 0; i < op->nregions; i++) {
            uint64_t inner = most_exchanged(cx, op->regions[i]);
            bytes = inner > bytes ? inner : bytes;
        }
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

static const char *try_loop(tc_late *l)
{
    l->branch = find_branch(tc_late_step(l->loop));
    if (!l->branch)
        return NULL;
    l->taken = l->branch->regions[only_yields(l->branch->regions[0])];
    if (!find_condition(l))
        return NULL;
    if (!tc_late_barrier(l->roles))
        return "there is no barrier before the roles";
    if (!bring_all(l, l->taken))
        return "it needs tiles, or many scalars, of its own tile";
    if (!has_room(l))
        return "its shared memory would be in use in addition to all other";
    tc_op *part = tc_reduce_like_within(l->reduce);
    l->part = part->out[0]->type;
    tc_op_erase(part);
    tc_late_expand(l);
    return NULL;
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
    l.loop = l.roles ? find_loop(l.roles) : NULL;
    if (!l.loop || tc_warpgroups(f->warps) < 2)
        return TC_UNCHANGED;
    const char *why = try_loop(&l);
    if (why)
        tc_missed(env->cx, l.branch->loc, pass,
                  "the warp groups meet to decide this: %s", why);
    if (why || !l.votes)
        return TC_UNCHANGED;
    tc_remark(env->cx, l.branch->loc, pass,
              "the warp groups decide this a tile later, and do not meet");
    return TC_CHANGED;
}
