/* SPDX-License-Identifier: Apache-2.0
 *
 * defer-branches: builds the votes, the loops that they end, and the branch
 * after these loops.
 */
#include "passes/epilogue/defer_branches.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/analysis/tile_loop.h"
#include "passes/instructions/mma.h"
#include "passes/layout/conversion_scratch.h"
#include "passes/warpspec/warpspec.h"

#include "ir/types/layout.h"

enum { SLOTS = 2 }; /* of this tile and the one before */

/* ---- Rings ---- */

static tc_value *build_buffers(tc_late *l, tc_builder *b, const tc_type *tile,
                               const tc_layout *shared, const char *name)
{
    tc_value *v = tc_build(b, TC_SMEM_ALLOC, 0, NULL,
                           tc_type_smem(l->cx, tile, shared, SLOTS));
    v->name = tc_string_get(l->cx, name);
    return v;
}

static tc_value *build_box(tc_late *l, tc_builder *b, const tc_type *scalar)
{
    const int32_t shape[] = {1};
    const unsigned order[] = {0};
    const tc_dim *one = tc_dim_const(l->cx, 1);
    const tc_type *tile = tc_type_shaped(l->cx, TC_TILE, 1, &one, scalar);
    const tc_layout *rows = tc_layout_swizzled(l->cx, 1, shape, order,
                                               8 * tc_type_bytes(scalar), 0);
    return build_buffers(l, b, tile, rows, "kept");
}

static void build_rings(tc_late *l)
{
    tc_builder b = tc_builder_before(tc_late_barrier(l->roles));
    b.loc = l->branch->loc;
    for (unsigned i = 0; i < l->nkept; i++)
        l->boxes[i] = build_box(l, &b, l->kept[i]->type);
    l->votes = build_buffers(l, &b, l->part, tc_exchange_layout(l->cx, l->part),
                             "votes");
    tc_op *op = tc_op_new(l->f, TC_MBARRIER_ALLOC, b.loc, 0, NULL, 0);
    tc_op_set_int(op, "arrivals", l->f->warps);
    tc_op_set_word(op, "guards", "votes");
    l->voted = tc_build_op(&b, op, tc_type_mbarrier(l->cx, SLOTS));
    l->voted->name = tc_string_get(l->cx, "voted");
}

/* ---- Votes ---- */

static tc_value *int_of(tc_late *l, tc_builder *b, int64_t x)
{
    return tc_build_int(b, tc_type_scalar(l->cx, TC_I32), x);
}

static tc_value *bool_of(tc_late *l, tc_builder *b, bool x)
{
    return tc_build_int(b, tc_type_scalar(l->cx, TC_I1), x);
}

static tc_value *slot_of(tc_late *l, tc_builder *b, tc_value *count)
{
    return tc_build_binary(b, TC_AND, count, int_of(l, b, 1));
}

/* mbarriers order these. */
static void by_mbarrier(tc_op *op)
{
    tc_op_set_attr(op, "by_mbarrier", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
}

static void put_vote(tc_builder *b, tc_late *l, tc_value *count, tc_value *vote)
{
    tc_value *slot = slot_of(l, b, count);
    tc_value *store[] = {tc_build_smem_index(b, l->votes, slot), vote};
    tc_value *arrive[] = {l->voted, slot};
    by_mbarrier(tc_build_effect(b, TC_SMEM_STORE, 2, store));
    tc_op_set_word(tc_build_effect(b, TC_MBARRIER_ARRIVE, 2, arrive), "scope",
                   "warp");
}

/* The votes combined, once all warps have voted. */
static tc_value *get_votes(tc_builder *b, tc_late *l, tc_value *count)
{
    tc_value *slot = slot_of(l, b, count), *one = int_of(l, b, 1);
    tc_value *phase = tc_build_binary(b, TC_SHRU, count, one);
    tc_value *wait[] = {l->voted, slot, tc_build_binary(b, TC_AND, phase, one)};
    tc_build_effect(b, TC_MBARRIER_WAIT, 3, wait);
    tc_value *box = tc_build_smem_index(b, l->votes, slot);
    const tc_layout *all = tc_gathered_layout(l->cx, l->part->layout, 0);
    tc_value *votes = tc_build(b, TC_SMEM_LOAD, 1, &box,
                               tc_type_with_layout(l->cx, l->part, all));
    by_mbarrier(votes->def);
    tc_op *op = tc_op_new(l->f, TC_REDUCE, b->loc, 1, &votes, 0);
    tc_op_set_int(op, "axis", 0);
    tc_op_set_word(op, "kind", l->kind);
    return tc_build_op(b, op, NULL);
}

/* The condition as one warp sees it. */
static tc_value *own_view(tc_late *l, tc_builder *b, tc_value *v,
                          tc_value *part)
{
    bool turned = false;
    tc_op *op = v->def;
    if (op == l->reduce)
        return part;
    if (!tc_vote_reduce(v, &turned))
        return tc_build(b, TC_SPLAT, 1, &v, l->part);
    tc_value *in[2];
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = own_view(l, b, op->in[i], part);
    return tc_build(b, op->code, op->nin, in, NULL);
}

static tc_value *own_vote(tc_late *l, tc_builder *b)
{
    tc_op *part = tc_reduce_within_warps(b, l->reduce);
    tc_value *vote = own_view(l, b, l->branch->in[0], part->out[0]);
    if (l->taken == l->branch->regions[1])
        vote = tc_build(b, TC_NOT, 1, &vote, NULL);
    return vote;
}

/* ---- Loops ---- */

/* Scalars that the branch needs may be carried by the loop. */
static void keep_instead(tc_late *l, const tc_value *before, tc_value *now)
{
    for (unsigned i = 0; i < l->nkept; i++)
        if (l->kept[i] == before)
            l->kept[i] = now;
}

/* The `for` as a `while`: its counter is the first carried value. */
static tc_op *as_while(tc_late *l, tc_op *loop)
{
    tc_arena *a = l->env->scratch;
    unsigned n = loop->nout + 1;
    tc_value **in = tc_arena_array(a, tc_value *, n);
    const tc_type **types = tc_arena_array(a, const tc_type *, n);
    tc_region *body = loop->regions[0];
    for (unsigned i = 0; i < n; i++) {
        in[i] = i ? tc_slot_init(loop, i - 1) : loop->in[0];
        types[i] = in[i]->type;
    }
    tc_op *now = tc_op_new(l->f, TC_WHILE, loop->loc, n, in, 2);
    tc_mark_tile_loop(now);
    tc_op_set_results(now, n, types);
    tc_op_insert(now, loop->parent, loop);
    for (unsigned i = 0; i < n; i++) {
        tc_value *arg = tc_region_add_arg(now->regions[0], types[i],
                                          body->args[i]->name, loop->loc);
        tc_value_replace(body->args[i], arg);
        keep_instead(l, body->args[i], arg);
    }
    tc_value *counter = now->regions[0]->args[0];
    tc_builder b = tc_builder_at_end(now->regions[0], loop->loc);
    tc_value *more = tc_build_cmp(&b, "lt", counter, loop->in[1]);
    tc_build_effect(&b, TC_CONDITION, 1, &more);
    tc_op *yield = tc_region_terminator(body);
    b = tc_builder_before(yield);
    tc_value **next = tc_arena_array(a, tc_value *, n);
    next[0] = tc_build_binary(&b, TC_ADD, counter, loop->in[2]);
    for (unsigned i = 1; i < n; i++)
        next[i] = yield->in[i - 1];
    tc_op_erase(yield);
    for (tc_op *op = body->first, *after; op; op = after) {
        after = op->next;
        tc_op_remove(op);
        tc_op_insert(op, now->regions[1], NULL);
    }
    b = tc_builder_at_end(now->regions[1], loop->loc);
    tc_build_yield(&b, n, next);
    for (unsigned i = 0; i < loop->nout; i++) {
        now->out[i + 1]->name = loop->out[i]->name;
        tc_value_replace(loop->out[i], now->out[i + 1]);
    }
    tc_op_erase(loop);
    return now;
}

/* The loop also ends where the votes say so. */
static void stop_late(tc_late *l)
{
    tc_op *end = tc_region_terminator(l->loop->regions[0]);
    tc_builder b = tc_builder_before(end);
    tc_value *go = tc_slot_arg(l->loop, l->late);
    go = tc_build(&b, TC_NOT, 1, &go, NULL);
    tc_op_set_in(end, 0, tc_build_binary(&b, TC_AND, end->in[0], go));
}

/* Does slot i count the steps from 0 on, modulo a multiple of the phases? */
static bool counts_steps(const tc_op *loop, unsigned i)
{
    tc_scalar last, one;
    const tc_op *wrap = tc_match_op(tc_slot_yield(loop)->in[i], TC_AND);
    const tc_op *add = wrap ? tc_match_op(wrap->in[0], TC_ADD) : NULL;
    return add && add->in[0] == tc_slot_arg(loop, i) &&
           tc_match_const(add->in[1], &one) && one.i == 1 &&
           tc_match_const(wrap->in[1], &last) && (last.i & 3) == 3 &&
           (last.i & (last.i + 1)) == 0 &&
           tc_match_int(tc_slot_init(loop, i), 0);
}

/* The loop's own step count, or a new one if there is none. */
static void count_votes(tc_late *l)
{
    for (l->count = 0; l->count < l->late; l->count++)
        if (counts_steps(l->loop, l->count))
            return;
    tc_builder b = tc_builder_before(l->loop);
    tc_value *zero = int_of(l, &b, 0);
    const char *name = tc_string_get(l->cx, "count");
    l->count = l->loop->nout;
    l->loop = tc_slots_add(l->loop, 1, &zero, &name);
    tc_builder end =
        tc_builder_before(tc_region_terminator(tc_late_step(l->loop)));
    tc_value *next = tc_build_binary(
        &end, TC_ADD, tc_slot_arg(l->loop, l->count), int_of(l, &end, 1));
    tc_slot_set_next(l->loop, l->count,
                     tc_build_binary(&end, TC_AND, next, int_of(l, &end, 3)));
}

/* The place for reading the votes: after the wait for the step's products,
 * since all warps wait there; else, or if it is not urgent, at the step's
 * end. */
static tc_op *where_to_look(const tc_func *f, const tc_region *step)
{
    for (tc_op *op = step->last; op && tc_reads_channel_early(f); op = op->prev)
        if (tc_op_any(op, tc_is_group_mma))
            return op->next;
    return tc_region_terminator(step);
}

/* Reads the votes of the previous tile as soon as the products are done: the
 * warps that wait for products read them during the wait (overlap_epilogue.c).
 * This tile's votes are cast at the step's end; the next step counts them. */
static void vote_in_step(tc_late *l)
{
    tc_region *step = tc_late_step(l->loop);
    tc_builder look = tc_builder_before(where_to_look(l->f, step));
    look.loc = l->branch->loc;
    tc_value *before = tc_slot_arg(l->loop, l->count);
    tc_slot_set_next(l->loop, l->late, get_votes(&look, l, before));
    tc_op *yield = tc_region_terminator(step);
    tc_builder b = tc_builder_before(yield);
    b.loc = l->branch->loc;
    tc_value *count = yield->in[l->count], *slot = slot_of(l, &b, count);
    for (unsigned i = 0; i < l->nkept; i++) {
        tc_value *in[] = {tc_build_smem_index(&b, l->boxes[i], slot),
                          l->kept[i]};
        tc_build_effect(&b, TC_SMEM_STORE_SCALAR, 2, in);
    }
    put_vote(&b, l, count, own_vote(l, &b));
}

/* A `while` around the loop that carries the same values and `late`. It goes on
 * until the loop ends without a late branch; slot 0 says so. */
static tc_op *build_around(tc_late *l)
{
    tc_op *loop = l->loop;
    unsigned n = loop->nout;
    tc_arena *a = l->env->scratch;
    tc_value **in = tc_arena_array(a, tc_value *, n);
    const tc_type **types = tc_arena_array(a, const tc_type *, n);
    tc_builder b = tc_builder_before(loop);
    for (unsigned i = 0; i < n; i++) {
        in[i] = i == l->late ? bool_of(l, &b, true) : loop->in[i];
        types[i] = in[i]->type;
    }
    tc_op *around = tc_op_new(l->f, TC_WHILE, loop->loc, n, in, 2);
    tc_mark_tile_loop(around);
    tc_op_set_results(around, n, types);
    tc_op_insert(around, loop->parent, loop);
    for (unsigned i = 0; i < n; i++) {
        tc_value *arg = tc_region_add_arg(
            around->regions[0], types[i],
            i == l->late ? tc_string_get(l->cx, "again") : loop->out[i]->name,
            loop->loc);
        tc_value_replace(loop->out[i], around->out[i]);
        if (i != l->late)
            tc_op_set_in(loop, i, arg);
    }
    b = tc_builder_at_end(around->regions[0], loop->loc);
    tc_build_effect(&b, TC_CONDITION, 1, &around->regions[0]->args[l->late]);
    tc_op_remove(loop);
    tc_op_insert(loop, around->regions[1], NULL);
    b = tc_builder_at_end(around->regions[1], loop->loc);
    tc_build_yield(&b, n, loop->out);
    return around;
}

/* ---- The branch ---- */

static tc_value *value_there(tc_late *l, tc_map *known, tc_builder *b,
                             tc_value *v)
{
    if (tc_value_is_visible(v, l->loop) || tc_map_get(known, v))
        return tc_map_get(known, v) ? tc_map_get(known, v) : v;
    tc_op *copy = tc_op_clone(l->f, v->def);
    for (unsigned i = 0; i < copy->nin; i++)
        tc_op_set_in(copy, i, value_there(l, known, b, v->def->in[i]));
    tc_op_insert(copy, b->region, b->before);
    tc_map_set(known, v, copy->out[0]);
    return copy->out[0];
}

static void rewire(tc_late *l, tc_map *known, tc_builder *b, tc_op *first)
{
    for (tc_op *op = first; op; op = op->next) {
        for (unsigned i = 0; i < op->nin; i++)
            if (!tc_is_defined_under(op->in[i], l->taken))
                tc_op_set_in(op, i, value_there(l, known, b, op->in[i]));
        for (unsigned i = 0; i < op->nregions; i++)
            rewire(l, known, b, op->regions[i]->first);
    }
}

/* Reads the scalars that the branch needs from the ring; all warps must have
 * read them before the next votes are written to that slot. */
static void take_along(tc_late *l, tc_value *slot)
{
    tc_map known = {.arena = l->env->scratch};
    tc_op *first = l->taken->first;
    tc_builder b = tc_builder_before(first);
    b.loc = l->branch->loc;
    for (unsigned i = 0; i < l->nkept; i++) {
        tc_value *box = tc_build_smem_index(&b, l->boxes[i], slot);
        tc_value *v = tc_build(&b, TC_SMEM_LOAD_SCALAR, 1, &box, NULL);
        v->name = l->kept[i]->name;
        tc_map_set(&known, l->kept[i], v);
    }
    tc_build_effect(&b, TC_BARRIER, 0, NULL);
    rewire(l, &known, &b, first);
}

/* Erase the branch whose condition is no longer used. */
static void erase_question(tc_op *op)
{
    if (!op || op->out[0]->uses || !tc_op_is_pure(op))
        return;
    tc_op *defs[2] = {NULL, NULL};
    for (unsigned i = 0; i < op->nin && i < 2; i++)
        defs[i] = op->in[i]->def;
    bool more = op->code == TC_NOT || op->code == TC_AND || op->code == TC_OR;
    tc_op_erase(op);
    for (unsigned i = 0; more && i < 2; i++)
        if (i == 0 || defs[1] != defs[0])
            erase_question(defs[i]);
}

static void move_branch(tc_late *l)
{
    tc_op *branch = l->branch;
    tc_builder b = tc_builder_before(tc_region_terminator(l->loop->parent));
    b.loc = branch->loc;
    const tc_type *i32 = tc_type_scalar(l->cx, TC_I32);
    tc_value *more = tc_build(&b, TC_CAST, 1, &l->loop->out[l->late], i32);
    tc_value *count = tc_build_binary(&b, TC_SUB, l->loop->out[l->count], more);
    tc_value *taken = get_votes(&b, l, count), *slot = slot_of(l, &b, count);
    tc_op *question = branch->in[0]->def;
    tc_op_remove(branch);
    tc_op_set_word(branch, "epilogue", "deferred");
    tc_op_set_in(branch, 0, taken);
    erase_question(question);
    if (l->taken == branch->regions[1]) {
        branch->regions[1] = branch->regions[0];
        branch->regions[0] = l->taken;
    }
    tc_op_insert(branch, b.region, b.before);
    take_along(l, slot);
}

/* ---- The whole ---- */

void tc_late_expand(tc_late *l)
{
    build_rings(l);
    if (l->loop->code == TC_FOR)
        l->loop = as_while(l, l->loop);
    tc_builder b = tc_builder_before(l->loop);
    b.loc = l->branch->loc;
    /* Before the first tile there are no votes. */
    tc_value *no = bool_of(l, &b, false), *zero = int_of(l, &b, 0);
    put_vote(&b, l, zero, tc_build(&b, TC_SPLAT, 1, &no, l->part));
    const char *name = tc_string_get(l->cx, "late");
    l->late = l->loop->nout;
    l->loop = tc_slots_add(l->loop, 1, &no, &name);
    count_votes(l);
    stop_late(l);
    vote_in_step(l);
    build_around(l);
    move_branch(l);
}
