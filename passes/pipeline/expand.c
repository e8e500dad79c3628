/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds a loop whose copies run ahead.
 *
 *   for %i = %lo to %hi {              %ring = smem_alloc : smem<.., 3>
 *     %t = load block %k[%i]           async_copy block %k[%lo], slot 0, if 0
 *     smem_store %s, %t                  < trips; async_commit; and so on up to
 *     use %s                             slot 1
 *   }                                  for %i .. carry(%slot = 0, %free = 2) {
 *                                        async_wait pending(1)
 *                              becomes   async_copy block %k[%i + 2], slot
 *                                          %free, if there is such a step
 *                                        async_commit
 *                                        use slot %slot
 *                                        yield next of %slot, %slot
 *                                      }
 *                                      async_wait pending(0)
 *
 * The free slot is that of the previous step. Every step ends one group, even
 * if nothing is left to copy, so that a wait for all but N groups means the
 * same in every step.
 *
 * The ops of its step that a copy needs are computed again for it: the
 * induction variable advances by steps, a carried value becomes the value that
 * the steps in between would yield, pure ops are cloned. A load that an address
 * depends on (the page of a block of keys) runs one step before the copies,
 * guarded, so that nothing waits for it; its values are carried.
 *
 * If a step has one product, of warp groups, the copies are issued while it
 * runs: `async_wait`, the product, copies, `mma_wait`.
 */
#include "passes/pipeline/pipeline_loops.h"

#include "passes/analysis/effects.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/wgmma.h"
#include "passes/target/machine_model.h"

#include <string.h>

/* ---- Loads of addresses ---- */

/* Limits: steps ahead, and depth of loads whose addresses depend on loads. */
enum {
    MOST_AHEAD = 16,
    MOST_LEVELS = 4,
    MOST_STEPS = MOST_AHEAD + MOST_LEVELS + 1
};

/* A load that addresses depend on: it runs `ahead` steps ahead; the values for
 * `least` up to ahead - 1 steps ahead are carried. */
struct fetch {
    tc_op *op;
    unsigned least, ahead;
    tc_value *queue[MOST_STEPS]; /* of the new loop's body, by steps */
    struct fetch *next;
};

struct expander {
    tc_pipeliner *p;
    const tc_schedule *s;
    tc_op *loop;
    tc_arena *arena;
    struct fetch *fetches;
};

static bool is_inside(const tc_value *v, const tc_op *loop)
{
    return v->def ? tc_is_nested_in(v->def, loop) : v->region->op == loop;
}

static bool is_load(const tc_op *op)
{
    return tc_op_has(op, TC_READS);
}

static struct fetch *fetch_of(const struct expander *x, const tc_op *op)
{
    for (struct fetch *f = x->fetches; f; f = f->next)
        if (f->op == op)
            return f;
    return NULL;
}

/* v is needed k steps ahead: loads that it depends on must run earlier
 * still. */
static void need(struct expander *x, const tc_value *v, unsigned k);

static void need_operands(struct expander *x, const tc_op *op, unsigned k)
{
    for (unsigned i = 0; i < op->nin; i++)
        need(x, op->in[i], k);
}

static void need_fetch(struct expander *x, tc_op *op, unsigned k)
{
    struct fetch *f = fetch_of(x, op);
    if (!f) {
        f = tc_arena_new(x->arena, struct fetch);
        *f = (struct fetch){.op = op, .least = k, .next = x->fetches};
        x->fetches = f;
    }
    if (k < f->least)
        f->least = k;
    if (k + 1 > f->ahead) {
        f->ahead = k + 1;
        if (f->ahead < MOST_STEPS)
            need_operands(x, op, f->ahead);
    }
}

static void need(struct expander *x, const tc_value *v, unsigned k)
{
    if (!is_inside(v, x->loop))
        return;
    if (v->def && is_load(v->def))
        need_fetch(x, v->def, k);
    else if (v->def)
        need_operands(x, v->def, k);
    else if (v->index && k)
        need(x, tc_slot_yield(x->loop)->in[v->index - 1], k - 1);
}

/* ---- Values of other steps ---- */

/* Where code for steps ahead of a step goes. In the prologue that step is the
 * loop's first. */
struct frame {
    struct expander *x;
    tc_builder b;
    bool prologue;
    tc_value *base;   /* induction variable of the step */
    tc_map *values;   /* by steps: value -> what it is then */
    tc_value **exist; /* by steps: does the step? NULL: not asked yet */
    tc_value *left;   /* hi - base */
};

static struct frame new_frame(struct expander *x, tc_builder b, bool prologue)
{
    struct frame f = {.x = x, .b = b, .prologue = prologue};
    f.base = prologue ? x->loop->in[0] : x->loop->regions[0]->args[0];
    f.values = tc_arena_array(x->arena, tc_map, MOST_STEPS);
    for (unsigned i = 0; i < MOST_STEPS; i++)
        f.values[i].arena = x->arena;
    f.exist = tc_arena_array(x->arena, tc_value *, MOST_STEPS);
    return f;
}

static tc_value *at(struct frame *f, tc_value *v, unsigned k);

static bool constant_step(const tc_op *loop, int64_t *step)
{
    tc_scalar x;
    bool known = tc_match_const(loop->in[2], &x);
    *step = known ? x.i : 0;
    return known;
}

/* Unsigned, which is exact: a step that exists has base < hi. */
static tc_value *left(struct frame *f)
{
    if (!f->left)
        f->left = tc_build_binary(&f->b, TC_SUB, f->x->loop->in[1], f->base);
    return f->left;
}

static tc_value *both(struct frame *f, tc_value *a, tc_value *b)
{
    return a ? tc_build_binary(&f->b, TC_AND, a, b) : b;
}

static bool known_trips(const tc_op *loop, uint64_t *trips)
{
    tc_scalar lo, hi, step;
    bool known = tc_match_const(loop->in[0], &lo) &&
                 tc_match_const(loop->in[1], &hi) &&
                 tc_match_const(loop->in[2], &step);
    *trips = known ? tc_trip_count(lo.i, hi.i, step.i) : 0;
    return known;
}

static tc_value *exists(struct frame *f, unsigned k);

/* The step k ahead exists where more than k steps' way is left. */
static tc_value *build_exists(struct frame *f, unsigned k)
{
    const tc_op *loop = f->x->loop;
    int64_t step;
    bool constant = constant_step(loop, &step);
    if (k == 0) {
        tc_value *any = tc_build_cmp(&f->b, "lt", f->base, loop->in[1]);
        if (constant)
            return any;
        tc_value *none = tc_build_int(&f->b, loop->in[2]->type, 0);
        return both(f, any, tc_build_cmp(&f->b, "gt", loop->in[2], none));
    }
    tc_value *before = f->prologue || (!constant && k > 1)
                           ? exists(f, constant ? 0 : k - 1)
                           : NULL;
    tc_value *rest = left(f), *way = loop->in[2];
    if (constant)
        way = tc_build_int(&f->b, loop->in[2]->type, (int64_t)k * step);
    for (unsigned i = 1; !constant && i < k; i++)
        rest = tc_build_binary(&f->b, TC_SUB, rest, way);
    return both(f, before, tc_build_cmp(&f->b, "ugt", rest, way));
}

static tc_value *exists(struct frame *f, unsigned k)
{
    if (!f->exist[k])
        f->exist[k] = build_exists(f, k);
    return f->exist[k];
}

/* NULL: it surely exists. *never: it surely does not. */
static tc_value *condition(struct frame *f, unsigned k, bool *never)
{
    uint64_t trips;
    bool known = f->prologue && known_trips(f->x->loop, &trips);
    *never = known && trips <= k;
    if (known || (!f->prologue && k == 0))
        return NULL;
    return exists(f, k);
}

static tc_value *induction(struct frame *f, unsigned k)
{
    const tc_op *loop = f->x->loop;
    int64_t step;
    if (!constant_step(loop, &step))
        return tc_build_binary(&f->b, TC_ADD,
                               at(f, loop->regions[0]->args[0], k - 1),
                               loop->in[2]);
    tc_value *way = tc_build_int(&f->b, loop->in[2]->type, (int64_t)k * step);
    return tc_build_binary(&f->b, TC_ADD, f->base, way);
}

/* The value of a carried value k steps ahead: what the step before that
 * yields. */
static tc_value *argument(struct frame *f, tc_value *v, unsigned k)
{
    tc_op *loop = f->x->loop;
    if (v->index == 0)
        return k ? induction(f, k) : f->base;
    if (k)
        return at(f, tc_slot_yield(loop)->in[v->index - 1], k - 1);
    return f->prologue ? tc_slot_init(loop, v->index - 1) : v;
}

static tc_value *splat_like(struct frame *f, tc_value *cond, const tc_op *load)
{
    const tc_type *t = load->out[0]->type;
    tc_context *cx = f->b.func->module->cx;
    if (t->kind != TC_TILE)
        return cond;
    t = tc_type_with_elem(cx, t, tc_type_scalar(cx, TC_I1));
    return tc_build(&f->b, TC_SPLAT, 1, &cond, t);
}

/* In a step that may not exist a load must not touch memory; a gather outside
 * of its tensor does not. */
static tc_value *clone_load(struct frame *f, tc_op *op, tc_value **in,
                            unsigned k)
{
    bool never;
    tc_value *cond = condition(f, k, &never);
    if (never)
        cond = tc_build_int(&f->b, tc_type_scalar(f->b.func->module->cx, TC_I1),
                            0);
    if (!cond || op->code == TC_GATHER)
        return tc_build_like(&f->b, op, in, op->out[0]->type);
    tc_value *masked[3] = {in[0], splat_like(f, cond, op)};
    if (op->nin > 1)
        masked[1] = tc_build_binary(&f->b, TC_AND, in[1], masked[1]);
    if (op->nin > 2)
        masked[2] = in[2];
    tc_op *load =
        tc_op_new(f->b.func, TC_LOAD, op->loc, op->nin > 2 ? 3 : 2, masked, 0);
    tc_op_set_attr(load, "boundary", *tc_op_attr(op, "boundary"));
    tc_op_set_attr(load, "pad", *tc_op_attr(op, "pad"));
    tc_op_copy_hints(load, op);
    return tc_build_op(&f->b, load, op->out[0]->type);
}

static tc_value *clone(struct frame *f, tc_op *op, unsigned k)
{
    tc_value **in = tc_arena_array(f->x->arena, tc_value *, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = at(f, op->in[i], k);
    f->b.loc = op->loc;
    tc_value *v = is_load(op) ? clone_load(f, op, in, k)
                              : tc_build_like(&f->b, op, in, op->out[0]->type);
    v->name = op->out[0]->name;
    return v;
}

static tc_value *build_at(struct frame *f, tc_value *v, unsigned k)
{
    if (!v->def)
        return argument(f, v, k);
    struct fetch *fetch = is_load(v->def) ? fetch_of(f->x, v->def) : NULL;
    if (!f->prologue && fetch && k < fetch->ahead)
        return fetch->queue[k];
    return clone(f, v->def, k);
}

static tc_value *at(struct frame *f, tc_value *v, unsigned k)
{
    if (!is_inside(v, f->x->loop))
        return v;
    tc_value *known = tc_map_get(&f->values[k], v);
    if (!known) {
        known = build_at(f, v, k);
        tc_map_set(&f->values[k], v, known);
    }
    return known;
}

/* ---- Copies of a step ---- */

static void copy_for(struct frame *f, const tc_staged *s, tc_value *to,
                     unsigned k)
{
    bool never;
    tc_value *cond = condition(f, k, &never);
    if (never)
        return;
    tc_value *from = at(f, s->load->in[0], k);
    tc_value *mask = s->load->nin > 1 ? at(f, s->load->in[1], k) : NULL;
    tc_build_copy(&f->b, s, from, to, cond, mask);
}

static tc_value *slot(tc_builder *b, tc_value *ring, tc_value *index,
                      const tc_staged *s)
{
    tc_value *v = tc_build_smem_index(b, ring, index);
    v->name = s->alloc->out[0]->name;
    return v;
}

/* ---- The new loop ---- */

/* Carried values that are added to the loop. */
struct extra {
    unsigned n, room;
    tc_value **init, **arg, **next;
};

static unsigned add_extra(struct expander *x, struct extra *e, tc_value *init,
                          const char *name)
{
    if (e->n == e->room) {
        unsigned room = e->room ? 2 * e->room : 8;
        struct extra more = {e->n, room,
                             tc_arena_array(x->arena, tc_value *, room),
                             tc_arena_array(x->arena, tc_value *, room),
                             tc_arena_array(x->arena, tc_value *, room)};
        for (unsigned i = 0; i < e->n; i++) {
            more.init[i] = e->init[i];
            more.arg[i] = e->arg[i];
        }
        *e = more;
    }
    e->init[e->n] = init;
    e->arg[e->n] =
        tc_region_add_arg(x->loop->regions[0], init->type, name, x->loop->loc);
    return e->n++;
}

/* The loop with the added values, in place of the old one, whose region it
 * takes over. */
static tc_op *extend_loop(struct expander *x, const struct extra *e)
{
    tc_op *old = x->loop;
    unsigned nin = old->nin + e->n, nout = old->nout + e->n;
    tc_value **in = tc_arena_array(x->arena, tc_value *, nin);
    const tc_type **types = tc_arena_array(x->arena, const tc_type *, nout);
    memcpy(in, old->in, old->nin * sizeof *in);
    for (unsigned i = 0; i < e->n; i++)
        in[old->nin + i] = e->init[i];
    for (unsigned i = 0; i < nout; i++)
        types[i] = in[3 + i]->type;
    tc_op *now = tc_op_new(old->func, TC_FOR, old->loc, nin, in, 1);
    now->regions[0] = old->regions[0];
    now->regions[0]->op = now;
    old->nregions = 0;
    memcpy(now->attrs, old->attrs, tc_op_nattrs(TC_FOR) * sizeof *now->attrs);
    tc_op_set_results(now, nout, types);
    tc_op_insert(now, old->parent, old);
    for (unsigned i = 0; i < old->nout; i++) {
        now->out[i]->name = old->out[i]->name;
        now->out[i]->loc = old->out[i]->loc;
        tc_value_replace(old->out[i], now->out[i]);
    }
    tc_op_erase(old);
    return now;
}

static void extend_yield(struct expander *x, const struct extra *e)
{
    tc_op *yield = tc_region_terminator(x->loop->regions[0]);
    unsigned n = yield->nin + e->n;
    tc_value **in = tc_arena_array(x->arena, tc_value *, n);
    memcpy(in, yield->in, yield->nin * sizeof *in);
    for (unsigned i = 0; i < e->n; i++)
        in[yield->nin + i] = e->next[i];
    tc_builder b = tc_builder_before(yield);
    tc_build_yield(&b, n, in);
    tc_op_erase(yield);
}

/* The slot after this one. */
static tc_value *next_slot(tc_builder *b, tc_value *index, unsigned slots)
{
    tc_value *zero = tc_build_i32(b, 0);
    tc_value *next = tc_build_with(b, TC_ADD, index, 1);
    tc_value *wrap = tc_build_cmp(b, "eq", next, tc_build_i32(b, slots));
    return tc_build_select(b, wrap, zero, next);
}

/* ---- The whole ---- */

struct rings {
    unsigned n;
    tc_value **of; /* in the order of the schedule's copies */
};

static struct rings build_rings(struct expander *x, tc_builder *b)
{
    struct rings rings = {0};
    for (const tc_staged *s = x->s->copies; s; s = s->next)
        rings.n++;
    rings.of = tc_arena_array(x->arena, tc_value *, rings.n);
    unsigned i = 0;
    for (const tc_staged *s = x->s->copies; s; s = s->next, i++) {
        const tc_type *t = s->alloc->out[0]->type;
        const tc_type *tile =
            tc_type_shaped(x->p->env->cx, TC_TILE, t->rank, t->dims, t->elem);
        b->loc = s->alloc->loc;
        rings.of[i] = tc_build(
            b, TC_SMEM_ALLOC, 0, NULL,
            tc_type_smem(x->p->env->cx, tile, t->layout, x->s->ahead + 1));
        rings.of[i]->name = s->alloc->out[0]->name;
    }
    return rings;
}

static void build_prologue(struct expander *x, struct frame *f,
                           const struct rings *rings)
{
    for (unsigned k = 0; k < x->s->ahead; k++) {
        unsigned i = 0;
        for (const tc_staged *s = x->s->copies; s; s = s->next, i++)
            copy_for(f, s, slot(&f->b, rings->of[i], tc_build_i32(&f->b, k), s),
                     k);
        f->b.loc = x->loop->loc;
        tc_build_commit(&f->b);
    }
}

/* The first values of the fetches, and where they stand in the loop. */
static void begin_fetches(struct expander *x, struct frame *prologue,
                          struct extra *e)
{
    for (struct fetch *f = x->fetches; f; f = f->next)
        for (unsigned k = f->least; k < f->ahead; k++)
            f->queue[k] = e->arg[add_extra(x, e, at(prologue, f->op->out[0], k),
                                           f->op->out[0]->name)];
}

/* Runs each fetch one step further, and moves its carried values up by one. */
static void continue_fetches(struct expander *x, struct frame *body,
                             struct extra *e, unsigned first)
{
    for (struct fetch *f = x->fetches; f; f = f->next)
        for (unsigned k = f->least; k < f->ahead; k++)
            e->next[first++] = k + 1 < f->ahead
                                   ? f->queue[k + 1]
                                   : at(body, f->op->out[0], f->ahead);
}

/* Reads of the buffers read the step's slot. */
static void use_slots(struct expander *x, struct frame *f,
                      const struct rings *rings, tc_value *index)
{
    unsigned i = 0;
    for (const tc_staged *s = x->s->copies; s; s = s->next, i++) {
        f->b.loc = s->alloc->loc;
        tc_value_replace(s->alloc->out[0], slot(&f->b, rings->of[i], index, s));
    }
}

static void erase_loads(struct expander *x)
{
    for (const tc_staged *s = x->s->copies; s; s = s->next) {
        tc_op_erase(s->store);
        tc_op_erase(s->load);
        tc_op_erase(s->alloc);
    }
}

static void need_all(struct expander *x)
{
    for (const tc_staged *c = x->s->copies; c; c = c->next)
        need_operands(x, c->load, x->s->ahead);
}

bool tc_can_expand(tc_pipeliner *p, const tc_schedule *s)
{
    struct expander x = {p, s, s->loop, p->env->scratch, NULL};
    int64_t step;
    if (s->ahead > MOST_AHEAD)
        return false;
    need_all(&x);
    for (const struct fetch *f = x.fetches; f; f = f->next)
        if (f->ahead > MOST_AHEAD + MOST_LEVELS)
            return false;
    return !constant_step(s->loop, &step) || step <= INT32_MAX / MOST_STEPS;
}

/* ---- Copies during a product ---- */

/* The product of warp groups of each step, which is waited for at once; NULL:
 * there is none, or there are several. */
static tc_op *only_product(const tc_region *r)
{
    tc_op *found = NULL;
    tc_each_op (op, r) {
        if (!tc_is_group_mma(op))
            continue;
        if (found || tc_op_int(op, "async"))
            return NULL;
        found = op;
    }
    return found;
}

/* Does each warp group copy the rows that it multiplies? Then it need not wait
 * for the others. */
static bool copies_by_groups(const tc_schedule *s, const tc_op *product)
{
    unsigned axis, groups = tc_warpgroups(product->func->warps);
    for (const tc_staged *c = s->copies; c; c = c->next) {
        const tc_value *buffer = c->alloc->out[0];
        tc_each_use (u, buffer)
            if (u->op != c->store && (u->op != product || u->index != 0))
                return false;
        if (!tc_held_by_groups(c->load->out[0]->type->layout, groups, &axis) ||
            axis != 0)
            return false;
    }
    return groups > 1;
}

/* The last op before the loop, but for buffers that rings take the place of. */
static tc_op *last_kept(const tc_schedule *s)
{
    tc_op *before = s->loop->prev;
    for (const tc_staged *c = s->copies; c;)
        if (c->alloc == before) {
            before = before->prev;
            c = s->copies;
        } else {
            c = c->next;
        }
    return before;
}

tc_expanded tc_expand_loop(tc_pipeliner *p, const tc_schedule *s)
{
    struct expander x = {p, s, s->loop, p->env->scratch, NULL};
    need_all(&x);
    tc_op *before = last_kept(s);
    tc_region *around = s->loop->parent;

    struct frame start = new_frame(&x, tc_builder_before(s->loop), true);
    struct rings rings = build_rings(&x, &start.b);
    build_prologue(&x, &start, &rings);
    start.b.loc = s->loop->loc;
    struct extra e = {0};
    unsigned at_slot = add_extra(&x, &e, tc_build_i32(&start.b, 0), "slot");
    unsigned at_free =
        add_extra(&x, &e, tc_build_i32(&start.b, s->ahead), "free");
    begin_fetches(&x, &start, &e);

    tc_op *top = s->loop->regions[0]->first;
    struct frame body = new_frame(&x, tc_builder_before(top), false);
    body.b.loc = s->loop->loc;
    tc_build_wait(&body.b, s->ahead - 1);
    struct frame reads = body;
    tc_op *product = only_product(s->loop->regions[0]);
    if (product && copies_by_groups(s, product))
        tc_op_set_word(tc_build_effect(&body.b, TC_BARRIER, 0, NULL), "scope",
                       "group");
    if (product) {
        /* The copies of a later step are issued while the product runs: they go
         * to a slot that the product of the step before has read. */
        body = new_frame(&x, tc_builder_before(tc_mma_issue(product, true)),
                         false);
        body.b.loc = s->loop->loc;
    }
    unsigned i = 0;
    for (const tc_staged *c = s->copies; c; c = c->next, i++)
        copy_for(&body, c, slot(&body.b, rings.of[i], e.arg[at_free], c),
                 s->ahead);
    body.b.loc = s->loop->loc;
    tc_build_commit(&body.b);
    continue_fetches(&x, &body, &e, at_free + 1);
    tc_value *index = e.arg[at_slot];
    use_slots(&x, &reads, &rings, index);
    erase_loads(&x);
    tc_builder end =
        tc_builder_before(tc_region_terminator(s->loop->regions[0]));
    end.loc = s->loop->loc;
    e.next[at_slot] = next_slot(&end, index, s->ahead + 1);
    e.next[at_free] = index;
    extend_yield(&x, &e);
    tc_op *loop = extend_loop(&x, &e);

    tc_builder after = {
        .func = p->f, .region = around, .before = loop->next, .loc = loop->loc};
    tc_build_wait(&after, 0);
    return (tc_expanded){loop, before ? before->next : around->first};
}

void tc_copy_in_step(tc_pipeliner *p, const tc_schedule *s)
{
    struct expander x = {p, s, s->loop, p->env->scratch, NULL};
    tc_region *r = s->loop->regions[0];
    for (tc_staged *c = s->copies; c; c = c->next) {
        tc_op_remove(c->alloc);
        tc_op_insert(c->alloc, r, r->first);
    }
    tc_op *top = r->first;
    while (top->code == TC_SMEM_ALLOC)
        top = top->next;
    struct frame body = new_frame(&x, tc_builder_before(top), false);
    for (tc_staged *c = s->copies; c; c = c->next) {
        copy_for(&body, c, c->alloc->out[0], 0);
        tc_build_commit(&body.b);
    }
    for (tc_staged *c = s->copies; c; c = c->next) {
        tc_op_erase(c->store);
        tc_op_erase(c->load);
    }
}
