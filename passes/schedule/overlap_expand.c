/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds prologue, steady state and epilogue from a schedule.
 *
 *   for %i = %lo to %hi {         if %lo < %hi {
 *     stage 0, stage 1              stage 0 of step %lo
 *   }                               for %i = %lo + %step to %hi {
 *                        becomes      stage 0 of step %i, and stage 1 of the
 *                                       step before (overlap_order.c)
 *                                   }
 *                                   stage 1 of the last step
 *                                 }
 *
 * An `if %lo < %hi epilogue(join)` after the loop becomes part of that one.
 * Values of stage 0 that stage 1 needs are carried from iteration to iteration.
 * A value that the step carries and stage 1 produces is not: stage 0 of the
 * next step finds it in its own iteration. Ops are cloned, once a section,
 * under the values of their step.
 */
#include "passes/schedule/overlap_mma.h"

#include "ir/base/map.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

struct expander {
    tc_step *step;
    tc_op *loop;
    const tc_op *yield;
    tc_map now, before; /* values of the step in stage 0, in stage 1 */
    tc_builder b;
    tc_loop_section section;
    unsigned ncrossing; /* values that stage 1 needs of stage 0 */
    tc_value **crossing;
    unsigned *slot_of;  /* carried value -> the new loop's */
    tc_value **results; /* the new loop's */
    tc_value **given;   /* what the step carried, in the end */
};

/* ---- Values ---- */

static tc_value *value_in(struct expander *x, tc_value *v, unsigned stage);

/* Is v a result of stage 1? Then it is known within the same iteration. */
static bool is_from_stage_1(const struct expander *x, const tc_value *v)
{
    const tc_part *p = tc_part_of(x->step, v);
    return p && p->stage == 1;
}

/* A cheap constant: it is computed again, not carried. */
static bool is_constant(const struct expander *x, const tc_value *v)
{
    const tc_part *p = tc_part_of(x->step, v);
    return p && p->constant;
}

static tc_map *map_of(struct expander *x, unsigned stage)
{
    return stage ? &x->before : &x->now;
}

/* `op`, for the step that is in this stage. */
static tc_op *clone(struct expander *x, const tc_part *p, unsigned stage)
{
    for (unsigned i = 0; i < p->nuses; i++) /* may clone */
        value_in(x, p->uses[i], stage);
    for (unsigned i = 0; i < p->nuses; i++)
        p->uses[i]->data = value_in(x, p->uses[i], stage);
    tc_op *copy = tc_op_clone(x->b.func, p->op);
    copy->stage = copy->place = 0;
    tc_op_insert(copy, x->b.region, x->b.before);
    for (unsigned i = 0; i < p->nuses; i++)
        p->uses[i]->data = NULL;
    for (unsigned i = 0; i < p->op->nout; i++) {
        p->op->out[i]->data = NULL;
        tc_map_set(map_of(x, stage), p->op->out[i], copy->out[i]);
    }
    return copy;
}

static tc_value *value_in(struct expander *x, tc_value *v, unsigned stage)
{
    if (!tc_is_step_value(x->step, v))
        return v;
    tc_value *known = tc_map_get(map_of(x, stage), v);
    if (known)
        return known;
    if (!v->def) {
        /* Of the step before, which is in stage 1 now. */
        known = tc_map_get(&x->before, x->yield->in[v->index - 1]);
        tc_map_set(map_of(x, stage), v, known);
        return known;
    }
    return clone(x, tc_part_of(x->step, v), stage)->out[0];
}

/* ---- Parts ---- */

static tc_op *build_wait(struct expander *x, const tc_part *p, tc_value *v)
{
    tc_op *op = tc_op_new(x->b.func, TC_MMA_WAIT, p->op->loc, v != NULL, &v, 0);
    tc_op_set_int(op, "pending", p->pending[x->section]);
    if (v) {
        tc_op_set_results(op, 1, &v->type);
        op->out[0]->name = p->op->out[0]->name;
    }
    tc_op_insert(op, x->b.region, x->b.before);
    return op;
}

static void emit_wait(struct expander *x, const tc_part *p)
{
    if (p->spare)
        return;
    if (p->in_flight && x->section == TC_EPILOGUE) {
        unsigned slot = x->slot_of[p->slot];
        x->given[p->slot] = build_wait(x, p, x->results[slot])->out[0];
    } else if (!p->op->out[0]->uses) {
        build_wait(x, p, NULL);
    } else {
        tc_value *v = value_in(x, p->op->in[0], p->stage);
        tc_map_set(map_of(x, p->stage), p->op->out[0],
                   build_wait(x, p, v)->out[0]);
    }
}

static void emit_section(struct expander *x, tc_loop_section section)
{
    x->section = section;
    for (unsigned i = 0; i < x->step->norder; i++) {
        const tc_part *p = x->step->order[i];
        if ((section == TC_PROLOGUE && p->stage == 1) ||
            (section == TC_EPILOGUE && p->stage == 0))
            continue;
        if (p->kind == TC_PART_WAIT)
            emit_wait(x, p);
        else if (p->op->nout != 1 ||
                 !tc_map_get(map_of(x, p->stage), p->op->out[0]))
            clone(x, p, p->stage);
    }
}

/* ---- What is carried ---- */

static bool is_crossing(const struct expander *x, const tc_value *v)
{
    for (unsigned i = 0; i < x->ncrossing; i++)
        if (x->crossing[i] == v)
            return true;
    return false;
}

/* For a view of a buffer, the slot's index is carried. */
static void add_crossing(struct expander *x, const tc_part *p)
{
    for (unsigned i = 0; i < p->nuses; i++) {
        tc_value *v = p->uses[i];
        if (is_from_stage_1(x, v) || is_constant(x, v) || is_crossing(x, v))
            continue;
        if (v->def && tc_is_buffer_view(v->def))
            add_crossing(x, tc_part_of(x->step, v));
        else
            x->crossing[x->ncrossing++] = v;
    }
}

static void find_crossing(struct expander *x)
{
    const tc_step *s = x->step;
    unsigned room = 0;
    for (unsigned i = 0; i < s->nparts; i++)
        room += s->parts[i]->nuses;
    x->crossing = tc_arena_array(s->arena, tc_value *, room);
    for (unsigned i = 0; i < s->norder; i++) {
        const tc_part *p = s->order[i];
        bool bare = p->kind == TC_PART_WAIT && !p->op->out[0]->uses;
        if (p->stage == 1 && !bare)
            add_crossing(x, p);
    }
}

/* The carried values of the new loop: those of the old one that stage 0 gives,
 * then what crosses. */
struct carried {
    unsigned n, first_crossing;
    tc_value **init;
};

static struct carried find_carried(struct expander *x)
{
    struct carried c = {0};
    unsigned most = x->loop->nout + x->ncrossing;
    c.init = tc_arena_array(x->step->arena, tc_value *, most);
    for (unsigned k = 0; k < x->loop->nout; k++) {
        if (is_from_stage_1(x, x->yield->in[k]))
            continue;
        x->slot_of[k] = c.n;
        c.init[c.n++] = value_in(x, x->yield->in[k], 0);
    }
    c.first_crossing = c.n;
    for (unsigned i = 0; i < x->ncrossing; i++)
        c.init[c.n++] = value_in(x, x->crossing[i], 0);
    return c;
}

/* ---- Bounds ---- */

/* The condition that the loop has a step; NULL: it surely has. */
static tc_value *runs(tc_builder *b, const tc_op *loop)
{
    tc_scalar lo, hi, step;
    bool constant_step = tc_match_const(loop->in[2], &step);
    if (tc_match_const(loop->in[0], &lo) && tc_match_const(loop->in[1], &hi) &&
        constant_step && tc_trip_count(lo.i, hi.i, step.i) > 0)
        return NULL;
    tc_value *any = tc_build_cmp(b, "lt", loop->in[0], loop->in[1]);
    if (constant_step)
        return any;
    tc_value *none = tc_build_int(b, loop->in[2]->type, 0);
    return tc_build_binary(b, TC_AND, any,
                           tc_build_cmp(b, "gt", loop->in[2], none));
}

/* The counter of the second step; `hi` if there is none, though lo + step may
 * not fit its type. (lo < hi here: the unsigned difference is exact.) */
static tc_value *second_step(tc_builder *b, const tc_op *loop)
{
    tc_scalar lo, step;
    const tc_type *type = loop->in[0]->type;
    int64_t most = type->kind == TC_I64 ? INT64_MAX : INT32_MAX;
    if (tc_match_const(loop->in[0], &lo) &&
        tc_match_const(loop->in[2], &step) && lo.i <= most - step.i)
        return tc_build_int(b, type, lo.i + step.i);
    tc_value *left = tc_build_binary(b, TC_SUB, loop->in[1], loop->in[0]);
    tc_value *more = tc_build_cmp(b, "ugt", left, loop->in[2]);
    tc_value *next = tc_build_binary(b, TC_ADD, loop->in[0], loop->in[2]);
    return tc_build_select(b, more, next, loop->in[1]);
}

/* ---- The loop ---- */

static void clear_maps(struct expander *x)
{
    x->now = (tc_map){.arena = x->step->arena};
    x->before = (tc_map){.arena = x->step->arena};
}

/* Arguments of the new loop stand for what they carry. */
static void bind_args(struct expander *x, tc_op *now)
{
    tc_region *r = now->regions[0];
    const tc_region *old = x->step->region;
    tc_value *i = tc_region_add_arg(r, old->args[0]->type, old->args[0]->name,
                                    old->args[0]->loc);
    tc_map_set(&x->now, old->args[0], i);
    for (unsigned k = 0; k < x->loop->nout; k++) {
        if (is_from_stage_1(x, x->yield->in[k]))
            continue;
        tc_value *arg = old->args[1 + k];
        tc_map_set(&x->now, arg,
                   tc_region_add_arg(r, arg->type, arg->name, arg->loc));
    }
    for (unsigned k = 0; k < x->ncrossing; k++) {
        tc_value *v = x->crossing[k];
        tc_map_set(&x->before, v,
                   tc_region_add_arg(r, v->type, v->name, v->loc));
    }
}

static void build_loop_yield(struct expander *x, const struct carried *c)
{
    tc_value **in = tc_arena_array(x->step->arena, tc_value *, c->n);
    unsigned n = 0;
    for (unsigned k = 0; k < x->loop->nout; k++)
        if (!is_from_stage_1(x, x->yield->in[k]))
            in[n++] = value_in(x, x->yield->in[k], 0);
    for (unsigned k = 0; k < x->ncrossing; k++)
        in[n++] = value_in(x, x->crossing[k], 0);
    x->b.loc = x->yield->loc;
    tc_build_yield(&x->b, n, in);
}

static tc_op *build_turns(struct expander *x, const struct carried *c)
{
    tc_arena *a = x->step->arena;
    tc_builder around = x->b;
    tc_value **in = tc_arena_array(a, tc_value *, 3 + c->n);
    const tc_type **types = tc_arena_array(a, const tc_type *, c->n);
    in[0] = second_step(&x->b, x->loop);
    in[1] = x->loop->in[1];
    in[2] = x->loop->in[2];
    for (unsigned i = 0; i < c->n; i++) {
        in[3 + i] = c->init[i];
        types[i] = c->init[i]->type;
    }
    tc_op *now = tc_op_new(x->b.func, TC_FOR, x->loop->loc, 3 + c->n, in, 1);
    memcpy(now->attrs, x->loop->attrs,
           tc_op_nattrs(TC_FOR) * sizeof *now->attrs);
    tc_op_set_results(now, c->n, types);
    tc_op_insert(now, x->b.region, x->b.before);
    clear_maps(x);
    bind_args(x, now);
    x->b = tc_builder_at_end(now->regions[0], x->loop->loc);
    emit_section(x, TC_TURN);
    build_loop_yield(x, c);
    x->b = around;
    return now;
}

/* Hands `pingpong(once)` of the loop on to the last product of the prologue. */
static void hand_turn_on(struct expander *x)
{
    const tc_part *last = NULL;
    bool waits = false;
    if (!tc_op_is_word(x->loop, "pingpong", "once"))
        return;
    for (unsigned i = 0; i < x->step->norder; i++) {
        const tc_part *p = x->step->order[i];
        bool product = p->kind == TC_PART_PRODUCT && p->stage == 0;
        last = product ? p : last;
        waits = !product && (waits || (last && p->kind == TC_PART_WAIT &&
                                       p->stage == 0 && !p->spare));
    }
    if (waits) {
        const tc_value *sum = tc_map_get(&x->now, last->op->out[0]);
        tc_op_set_word(sum->def, "pingpong", "once");
    } else {
        tc_missed(x->b.func->module->cx, x->loop->loc, "overlap-mma",
                  "groups of warps begin together: no product before the loop "
                  "is waited for");
    }
}

static void build_prologue(struct expander *x)
{
    clear_maps(x);
    tc_map_set(&x->now, x->step->region->args[0], x->loop->in[0]);
    for (unsigned k = 0; k < x->loop->nout; k++)
        tc_map_set(&x->now, tc_slot_arg(x->loop, k), tc_slot_init(x->loop, k));
    emit_section(x, TC_PROLOGUE);
    hand_turn_on(x);
}

static void build_epilogue(struct expander *x, const tc_op *now,
                           const struct carried *c)
{
    clear_maps(x);
    x->results = now->out;
    for (unsigned k = 0; k < x->ncrossing; k++)
        tc_map_set(&x->before, x->crossing[k], now->out[c->first_crossing + k]);
    emit_section(x, TC_EPILOGUE);
    for (unsigned k = 0; k < x->loop->nout; k++) {
        if (x->given[k])
            continue;
        tc_value *v = x->yield->in[k];
        x->given[k] = is_from_stage_1(x, v) ? tc_map_get(&x->before, v)
                                            : now->out[x->slot_of[k]];
    }
}

/* The `if` around all sections, with the loop's initial values else; the
 * builder goes into its first region. NULL: none is needed. */
static tc_op *build_if(struct expander *x)
{
    tc_value *cond = runs(&x->b, x->loop);
    if (!cond)
        return NULL;
    unsigned n = x->loop->nout;
    const tc_type **types = tc_arena_array(x->step->arena, const tc_type *, n);
    for (unsigned k = 0; k < n; k++)
        types[k] = x->loop->out[k]->type;
    x->b.loc = x->loop->loc;
    tc_op *branch = tc_build_if(&x->b, cond, n, types);
    tc_op_set_word(branch, "epilogue", tc_op_word(x->loop, "epilogue"));
    tc_builder b = tc_builder_at_end(branch->regions[1], x->loop->loc);
    tc_build_yield(&b, n, x->loop->in + 3);
    x->b = tc_builder_at_end(branch->regions[0], x->loop->loc);
    return branch;
}

/* ---- After the loop ---- */

/* The `if` with epilogue(join) after the loop; NULL: there is none. */
static tc_op *find_tail(const tc_op *loop)
{
    tc_op *op = loop->next;
    while (op && !tc_op_is_loop(op) &&
           !(op->code == TC_IF && tc_op_is_word(op, "epilogue", "join")))
        op = op->next;
    return op && op->code == TC_IF ? op : NULL;
}

/* Does the region use no value that is defined between the loop and it? */
static bool needs_loop_only(const tc_region *r, const tc_op *loop)
{
    tc_each_nested (op, r) {
        for (unsigned i = 0; i < op->nin; i++) {
            const tc_op *def = op->in[i]->def;
            if (def && def != loop && def->parent == loop->parent &&
                !tc_value_is_visible(op->in[i], loop))
                return false;
        }
    }
    return true;
}

/* Does it run if the loop has had a step, on values of the loop? */
static bool fits_tail(const tc_op *tail, const tc_op *loop)
{
    const tc_op *c = tc_match_op(tail->in[0], TC_CMP);
    return c && tc_op_is_word(c, "pred", "lt") && c->in[0] == loop->in[0] &&
           c->in[1] == loop->in[1] && tail->nout == 0 &&
           needs_loop_only(tail->regions[0], loop);
}

/* Moves the ops of that `if` into the branch, after the last section: saves a
 * branch. */
static void take_tail(struct expander *x)
{
    tc_op *tail = find_tail(x->loop);
    if (!tail)
        return;
    if (!fits_tail(tail, x->loop)) {
        tc_missed(x->b.func->module->cx, tail->loc, "overlap-mma",
                  "epilogue(join) needs the condition that the loop before it "
                  "has a step, lo < hi, no results, and no values that are "
                  "computed after the loop: it stays a branch of its own");
        return;
    }
    for (unsigned k = 0; k < x->loop->nout; k++)
        for (tc_use *u = x->loop->out[k]->uses, *next; u; u = next) {
            next = u->next;
            if (tc_region_contains(tail->regions[0], u->op))
                tc_op_set_in(u->op, u->index, x->given[k]);
        }
    tc_each_op_safe (op, tail->regions[0]) {
        if (tc_op_has(op, TC_TERMINATOR))
            continue;
        tc_op_remove(op);
        tc_op_insert(op, x->b.region, x->b.before);
    }
}

static void name_like(tc_value *v, const tc_value *old)
{
    v->name = old->name;
    v->loc = old->loc;
}

void tc_expand_iterations(tc_step *s)
{
    struct expander x = {.step = s, .loop = s->loop};
    unsigned n = s->loop->nout;
    x.yield = tc_region_terminator(s->region);
    x.slot_of = tc_arena_array(s->arena, unsigned, n);
    x.given = tc_arena_array(s->arena, tc_value *, n);
    x.b = tc_builder_before(s->loop);
    find_crossing(&x);
    tc_op *branch = build_if(&x);
    build_prologue(&x);
    struct carried c = find_carried(&x);
    x.b.loc = s->loop->loc;
    tc_op *now = build_turns(&x, &c);
    build_epilogue(&x, now, &c);
    for (unsigned k = 0; k < n; k++)
        if (!is_from_stage_1(&x, x.yield->in[k]))
            name_like(now->out[x.slot_of[k]], s->loop->out[k]);
    if (branch) {
        take_tail(&x);
        x.b.loc = s->loop->loc;
        tc_build_yield(&x.b, n, x.given);
    }
    for (unsigned k = 0; k < n; k++) {
        if (branch)
            name_like(branch->out[k], s->loop->out[k]);
        tc_value_replace(s->loop->out[k], branch ? branch->out[k] : x.given[k]);
    }
    tc_op_erase(s->loop);
}

/* ---- A single step ---- */

static void set_wait(tc_part *p)
{
    tc_op_set_int(p->op, "pending", p->pending[TC_TURN]);
    /* The sum is no longer available: another product adds to its registers. */
    tc_value *sum = p->op->in[0];
    if (p->op->out[0]->uses || !sum->uses->next)
        return;
    tc_op *bare = tc_op_new(p->op->func, TC_MMA_WAIT, p->op->loc, 0, NULL, 0);
    tc_op_set_int(bare, "pending", p->pending[TC_TURN]);
    tc_op_insert(bare, p->op->parent, p->op);
    tc_op_erase(p->op);
    p->op = bare;
}

void tc_expand_step(tc_step *s)
{
    tc_op *end = tc_region_terminator(s->region);
    for (unsigned i = 0; i < s->norder; i++) {
        tc_part *p = s->order[i];
        if (p->kind == TC_PART_WAIT && p->spare)
            continue;
        if (p->kind == TC_PART_WAIT)
            set_wait(p);
        tc_op_remove(p->op);
        tc_op_insert(p->op, s->region, end);
        p->op->stage = p->op->place = 0;
        p->placed = false;
    }
    /* Waits that nothing needs. */
    for (unsigned i = 0; i < s->nparts; i++)
        if (s->parts[i]->placed)
            tc_op_erase(s->parts[i]->op);
}
