/* SPDX-License-Identifier: Apache-2.0
 *
 * late-branches: warp groups that go from tile to tile need not meet to agree
 * on a branch at a tile's end: they vote, and look at the votes a tile later.
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
 * Who votes goes on; a group may be a tile ahead of another one. B is where it
 * disturbs the loop least. What it needs of its tile are scalars, which are
 * kept in shared memory with the votes; tiles of a grid are in no order, so
 * that the next one may come first. Votes and what belongs to them are in rings
 * of two. Behind specialise-warps, where there are barriers to save.
 * Tests: test/ir/passes/late-branches.
 */
#include "passes/effects.h"
#include "passes/exchanges.h"
#include "passes/hazards.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/shared_memory.h"
#include "passes/slots.h"
#include "passes/specialise.h"
#include "passes/tile_order.h"

#include "ir/layout.h"

static const char pass[] = "late-branches";

enum { SLOTS = 2, MOST_KEPT = 12 };

typedef struct late {
    tc_pass_env *env;
    tc_func *f;
    tc_context *cx;
    tc_op *roles, *loop, *branch;
    tc_region *taken; /* of the branch */
    tc_op *reduce;    /* what its condition waits for */
    const char *kind; /* the votes are combined by it: `and`, `or` */
    unsigned nkept;
    tc_value *kept[MOST_KEPT], *boxes[MOST_KEPT];
    tc_value *votes, *voted; /* rings: buffers, mbarriers */
    const tc_type *part;     /* what warps hold of the votes */
    unsigned late, count;    /* slots of the loop */
} late;

/* ---- What can be late ---- */

static bool only_yields(const tc_region *r)
{
    return tc_op_has(r->first, TC_TERMINATOR);
}

static tc_region *step_of(const tc_op *loop)
{
    return loop->regions[loop->code == TC_WHILE];
}

/* Releases, and what else may come before the branch as well as behind it. */
static bool may_come_first(const tc_op *op)
{
    switch (op->code) {
    case TC_FENCE_ASYNC:
    case TC_BARRIER:
    case TC_MBARRIER_ARRIVE:
    case TC_MBARRIER_WAIT:
    case TC_TMA_STORE_WAIT:
    case TC_SMEM_GET: return true;
    default: return tc_op_is_pure(op) || tc_op_has(op, TC_TERMINATOR);
    }
}

/* At the step's end, with one region that does something; NULL: none. */
static tc_op *find_branch(const tc_region *step)
{
    for (tc_op *op = step->last; op; op = op->prev) {
        if (op->code == TC_IF && !op->nout &&
            only_yields(op->regions[0]) != only_yields(op->regions[1]))
            return op;
        if (!may_come_first(op))
            return NULL;
    }
    return NULL;
}

/* The reduction over all warps in a condition of `and`, `or`, `not`; *turned:
 * an odd number of `not`. NULL: there is none, or more. */
static tc_op *find_reduce(const tc_value *v, bool *turned)
{
    tc_op *op = v->def;
    if (!op)
        return NULL;
    if (op->code == TC_NOT) {
        *turned = !*turned;
        return find_reduce(op->in[0], turned);
    }
    if (op->code == TC_AND || op->code == TC_OR) {
        bool other = *turned;
        tc_op *x = find_reduce(op->in[0], turned);
        tc_op *y = find_reduce(op->in[1], &other);
        *turned = x ? *turned : other;
        return x && y ? NULL : x ? x : y;
    }
    bool fits =
        op->code == TC_REDUCE && op->nin == 1 && v->type->kind == TC_I1 &&
        (tc_op_is_word(op, "kind", "and") || tc_op_is_word(op, "kind", "or")) &&
        tc_op_is_word(op, "within", "block");
    return fits ? op : NULL;
}

/* Of each warp one vote. */
static bool is_of_all_warps(late *l)
{
    const tc_layout *from = l->reduce->in[0]->type->layout;
    const tc_layout *parts = from && from->rank == 1
                                 ? tc_layout_partial(l->cx, from, 0, TC_WARP)
                                 : NULL;
    return parts && parts->shape[0] == (int32_t)l->f->warps;
}

static const char *find_condition(late *l)
{
    bool turned = l->taken == l->branch->regions[1];
    l->reduce = find_reduce(l->branch->in[0], &turned);
    if (!l->reduce || !is_of_all_warps(l))
        return NULL; /* nobody has to meet */
    bool is_and = tc_op_is_word(l->reduce, "kind", "and");
    l->kind = is_and != turned ? "and" : "or";
    return "";
}

/* ---- What the branch takes along ---- */

static bool keep(late *l, tc_value *v)
{
    for (unsigned i = 0; i < l->nkept; i++)
        if (l->kept[i] == v)
            return true;
    if (l->nkept == MOST_KEPT || v->type->kind > TC_F64)
        return false;
    l->kept[l->nkept++] = v;
    return true;
}

/* Computed again where it is needed: of scalars, or of nothing. */
static bool is_cloned(const late *l, const tc_value *v)
{
    const tc_op *op = v->def;
    bool scalar = v->type->kind <= TC_F64;
    return op && !tc_value_is_visible(v, l->loop) && tc_op_is_pure(op) &&
           !op->nregions && op->nout == 1 && (!scalar || op->nin == 0);
}

static bool bring(late *l, tc_value *v)
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

static bool is_inside(const late *l, const tc_value *v)
{
    const tc_region *r = v->def ? v->def->parent : v->region;
    for (; r; r = r->op ? r->op->parent : NULL)
        if (r == l->taken)
            return true;
    return false;
}

static bool bring_all(late *l, const tc_region *r)
{
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nin; i++)
            if (!is_inside(l, op->in[i]) && !bring(l, op->in[i]))
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

/* Beside what the producer fills ahead and what outlives a tile: that is in use
 * whenever the branch will be. */
static bool has_room(const late *l)
{
    enum { RESERVED = 1024 };
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
    return always + most + RESERVED <= tc_shared_limit(l->env->target);
}

/* ---- Rings ---- */

static tc_op *barrier_before(const tc_op *roles)
{
    tc_op *op = roles->prev;
    while (op && op->code != TC_BARRIER)
        op = op->prev;
    return op;
}

static tc_value *build_buffers(late *l, tc_builder *b, const tc_type *tile,
                               const tc_layout *shared, const char *name)
{
    tc_value *v = tc_build(b, TC_SMEM_ALLOC, 0, NULL,
                           tc_type_smem(l->cx, tile, shared, SLOTS));
    v->name = tc_string_get(l->cx, name);
    return v;
}

static tc_value *build_box(late *l, tc_builder *b, const tc_type *scalar)
{
    const int32_t shape[] = {1};
    const unsigned order[] = {0};
    const tc_dim *one = tc_dim_const(l->cx, 1);
    const tc_type *tile = tc_type_shaped(l->cx, TC_TILE, 1, &one, scalar);
    const tc_layout *rows = tc_layout_swizzled(l->cx, 1, shape, order,
                                               8 * tc_type_bytes(scalar), 0);
    return build_buffers(l, b, tile, rows, "kept");
}

static void build_rings(late *l)
{
    tc_builder b = tc_builder_before(barrier_before(l->roles));
    b.loc = l->branch->loc;
    for (unsigned i = 0; i < l->nkept; i++)
        l->boxes[i] = build_box(l, &b, l->kept[i]->type);
    l->votes = build_buffers(l, &b, l->part, tc_exchange_layout(l->cx, l->part),
                             "votes");
    tc_op *op = tc_op_new(l->f, TC_MBARRIER_ALLOC, b.loc, 0, NULL, 0);
    tc_op_set_int(op, "arrivals", l->f->warps / 4);
    l->voted = tc_build_op(&b, op, tc_type_mbarrier(l->cx, SLOTS));
    l->voted->name = tc_string_get(l->cx, "voted");
}

/* ---- Votes ---- */

static tc_value *int_of(late *l, tc_builder *b, int64_t x)
{
    return tc_build_int(b, tc_type_scalar(l->cx, TC_I32), x);
}

static tc_value *bool_of(late *l, tc_builder *b, bool x)
{
    return tc_build_int(b, tc_type_scalar(l->cx, TC_I1), x);
}

static tc_value *binary(tc_builder *b, tc_opcode code, tc_value *x, tc_value *y)
{
    return tc_build_binary(b, code, x, y);
}

static tc_value *slot_of(late *l, tc_builder *b, tc_value *count)
{
    return binary(b, TC_AND, count, int_of(l, b, 1));
}

static tc_value *in_slot(tc_builder *b, tc_value *ring, tc_value *slot)
{
    tc_value *in[] = {ring, slot};
    return tc_build(b, TC_SMEM_INDEX, 2, in, NULL);
}

static tc_op *insert(tc_builder *b, tc_opcode code, unsigned nin,
                     tc_value *const *in)
{
    tc_op *op = tc_op_new(b->func, code, b->loc, nin, in, 0);
    tc_op_insert(op, b->region, b->before);
    return op;
}

/* mbarriers order these. */
static void by_mbarrier(tc_op *op)
{
    tc_op_set_attr(op, "by_mbarrier", (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
}

static void put_vote(tc_builder *b, late *l, tc_value *count, tc_value *vote)
{
    tc_value *slot = slot_of(l, b, count);
    tc_value *store[] = {in_slot(b, l->votes, slot), vote};
    tc_value *arrive[] = {l->voted, slot};
    by_mbarrier(insert(b, TC_SMEM_STORE, 2, store));
    tc_build_group_barrier(b);
    insert(b, TC_MBARRIER_ARRIVE, 2, arrive);
}

/* What all have said, when all have voted. */
static tc_value *get_votes(tc_builder *b, late *l, tc_value *count)
{
    tc_value *slot = slot_of(l, b, count), *one = int_of(l, b, 1);
    tc_value *phase = binary(b, TC_SHRU, count, one);
    tc_value *wait[] = {l->voted, slot, binary(b, TC_AND, phase, one)};
    insert(b, TC_MBARRIER_WAIT, 3, wait);
    tc_value *box = in_slot(b, l->votes, slot);
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
static tc_value *own_view(late *l, tc_builder *b, tc_value *v, tc_value *part)
{
    bool turned = false;
    tc_op *op = v->def;
    if (op == l->reduce)
        return part;
    if (!find_reduce(v, &turned))
        return tc_build(b, TC_SPLAT, 1, &v, l->part);
    tc_value *in[2];
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = own_view(l, b, op->in[i], part);
    return tc_build(b, op->code, op->nin, in, NULL);
}

static tc_value *own_vote(late *l, tc_builder *b)
{
    tc_op *part = tc_reduce_within_warps(b, l->reduce);
    tc_value *vote = own_view(l, b, l->branch->in[0], part->out[0]);
    if (l->taken == l->branch->regions[1])
        vote = tc_build(b, TC_NOT, 1, &vote, NULL);
    return vote;
}

/* ---- Loops ---- */

/* The same as a `while`, its counter the first of what it carries. */
static tc_op *as_while(late *l, tc_op *loop)
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
    tc_op_set_results(now, n, types);
    tc_op_insert(now, loop->parent, loop);
    for (unsigned i = 0; i < n; i++)
        tc_value_replace(body->args[i],
                         tc_region_add_arg(now->regions[0], types[i],
                                           body->args[i]->name, loop->loc));
    tc_value *counter = now->regions[0]->args[0];
    tc_builder b = tc_builder_at_end(now->regions[0], loop->loc);
    tc_value *bounds[] = {counter, loop->in[1]};
    tc_op *cmp = tc_op_new(l->f, TC_CMP, b.loc, 2, bounds, 0);
    tc_op_set_word(cmp, "pred", "lt");
    tc_value *more = tc_build_op(&b, cmp, NULL);
    insert(&b, TC_CONDITION, 1, &more);
    tc_op *yield = tc_region_terminator(body);
    b = tc_builder_before(yield);
    tc_value **next = tc_arena_array(a, tc_value *, n);
    next[0] = binary(&b, TC_ADD, counter, loop->in[2]);
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
static void stop_late(late *l)
{
    tc_op *end = tc_region_terminator(l->loop->regions[0]);
    tc_builder b = tc_builder_before(end);
    tc_value *go = tc_slot_arg(l->loop, l->late);
    go = tc_build(&b, TC_NOT, 1, &go, NULL);
    tc_op_set_in(end, 0, binary(&b, TC_AND, end->in[0], go));
}

/* The step's end: the votes of the tile before, then this one's. */
static void vote_in_step(late *l)
{
    tc_builder b = tc_builder_before(tc_region_terminator(step_of(l->loop)));
    b.loc = l->branch->loc;
    tc_value *count = tc_slot_arg(l->loop, l->count);
    tc_value *before = binary(&b, TC_SUB, count, int_of(l, &b, 1));
    tc_slot_set_next(l->loop, l->late, get_votes(&b, l, before));
    tc_value *slot = slot_of(l, &b, count);
    for (unsigned i = 0; i < l->nkept; i++) {
        tc_value *in[] = {in_slot(&b, l->boxes[i], slot), l->kept[i]};
        insert(&b, TC_SMEM_PUT, 2, in);
    }
    put_vote(&b, l, count, own_vote(l, &b));
    tc_value *next = binary(&b, TC_ADD, count, int_of(l, &b, 1));
    tc_slot_set_next(l->loop, l->count,
                     binary(&b, TC_AND, next, int_of(l, &b, 3)));
}

/* A `while` around the loop that carries the same, but for `late`, and goes on
 * until it was not left late; the first slot says so. */
static tc_op *build_around(late *l)
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
    insert(&b, TC_CONDITION, 1, &around->regions[0]->args[l->late]);
    tc_op_remove(loop);
    tc_op_insert(loop, around->regions[1], NULL);
    b = tc_builder_at_end(around->regions[1], loop->loc);
    tc_build_yield(&b, n, loop->out);
    return around;
}

/* ---- The branch ---- */

static tc_value *value_there(late *l, tc_map *known, tc_builder *b, tc_value *v)
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

static void rewire(late *l, tc_map *known, tc_builder *b, tc_op *first)
{
    for (tc_op *op = first; op; op = op->next) {
        for (unsigned i = 0; i < op->nin; i++)
            if (!is_inside(l, op->in[i]))
                tc_op_set_in(op, i, value_there(l, known, b, op->in[i]));
        for (unsigned i = 0; i < op->nregions; i++)
            rewire(l, known, b, op->regions[i]->first);
    }
}

/* What it needs is read from where it was kept; then all must have read it
 * before the next votes come to that slot. */
static void take_along(late *l, tc_value *slot)
{
    tc_map known = {.arena = l->env->scratch};
    tc_op *first = l->taken->first;
    tc_builder b = tc_builder_before(first);
    b.loc = l->branch->loc;
    for (unsigned i = 0; i < l->nkept; i++) {
        tc_value *box = in_slot(&b, l->boxes[i], slot);
        tc_value *v = tc_build(&b, TC_SMEM_GET, 1, &box, NULL);
        v->name = l->kept[i]->name;
        tc_map_set(&known, l->kept[i], v);
    }
    insert(&b, TC_BARRIER, 0, NULL);
    rewire(l, &known, &b, first);
}

/* Nobody asks any more. */
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

static void move_branch(late *l)
{
    tc_op *branch = l->branch;
    tc_builder b = tc_builder_before(tc_region_terminator(l->loop->parent));
    b.loc = branch->loc;
    const tc_type *i32 = tc_type_scalar(l->cx, TC_I32);
    tc_value *more = tc_build(&b, TC_CAST, 1, &l->loop->out[l->late], i32);
    tc_value *count =
        binary(&b, TC_SUB, l->loop->out[l->count], int_of(l, &b, 1));
    count = binary(&b, TC_SUB, count, more);
    tc_value *taken = get_votes(&b, l, count), *slot = slot_of(l, &b, count);
    tc_op *question = branch->in[0]->def;
    tc_op_remove(branch);
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

static void build(late *l)
{
    build_rings(l);
    if (l->loop->code == TC_FOR)
        l->loop = as_while(l, l->loop);
    tc_builder b = tc_builder_before(l->loop);
    b.loc = l->branch->loc;
    /* Nobody has voted for the tile before the first one. */
    tc_value *no = bool_of(l, &b, false), *zero = int_of(l, &b, 0);
    put_vote(&b, l, zero, tc_build(&b, TC_SPLAT, 1, &no, l->part));
    tc_value *init[] = {no, int_of(l, &b, 1)};
    const char *names[] = {tc_string_get(l->cx, "late"),
                           tc_string_get(l->cx, "count")};
    l->late = l->loop->nout;
    l->count = l->late + 1;
    l->loop = tc_slots_add(l->loop, 2, init, names);
    stop_late(l);
    vote_in_step(l);
    build_around(l);
    move_branch(l);
}

static const char *try_loop(late *l)
{
    l->branch = find_branch(step_of(l->loop));
    if (!l->branch)
        return NULL;
    l->taken = l->branch->regions[only_yields(l->branch->regions[0])];
    if (!find_condition(l))
        return NULL;
    if (!barrier_before(l->roles))
        return "there is no barrier before the roles";
    if (!bring_all(l, l->taken))
        return "it needs tiles, or many scalars, of its own tile";
    if (!has_room(l))
        return "its shared memory would be in use beside all other";
    tc_op *part = tc_reduce_like_within(l->reduce);
    l->part = part->out[0]->type;
    tc_op_erase(part);
    build(l);
    return NULL;
}

static tc_op *find_loop(const tc_op *roles)
{
    tc_each_op (op, roles->regions[1])
        if (tc_goes_through_tiles(op))
            return op;
    return NULL;
}

tc_change tc_pass_late_branches(tc_func *f, tc_pass_env *env)
{
    late l = {.env = env, .f = f, .cx = env->cx};
    tc_each_op (op, f->body)
        if (op->code == TC_WARP_GROUPS)
            l.roles = op;
    l.loop = l.roles ? find_loop(l.roles) : NULL;
    if (!l.loop || f->warps < 8)
        return TC_UNCHANGED;
    const char *why = try_loop(&l);
    if (why)
        tc_remark(env->cx, l.branch->loc, pass,
                  "the warp groups meet to decide this: %s", why);
    if (why || !l.votes)
        return TC_UNCHANGED;
    tc_remark(env->cx, l.branch->loc, pass,
              "the warp groups decide this a tile later, and do not meet");
    return TC_CHANGED;
}
