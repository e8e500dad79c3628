/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders the roots of each region into items (see plan.h).
 *
 * Roots are taken in program order. A root that can be computed in a nest joins
 * the last nest of its shape that comes after all of its operands; so the row
 * sum of a tile, the tile itself and its cast share one pass. Nothing that
 * reads memory moves across a write to memory.
 */
#include "codegen/host/plan/plan.h"

#include <string.h>

typedef struct scheduler {
    tc_plan *plan;
    tc_host_schedule *list;
    tc_region *region;
    unsigned last_write; /* index of the last item that writes memory */
} scheduler;

static void *grown(tc_arena *a, void *old, unsigned n, unsigned *room,
                   size_t size)
{
    if (n < *room)
        return old;
    *room = *room ? 2 * *room : 4;
    void *more = tc_arena_alloc(a, *room * size);
    if (n)
        memcpy(more, old, n * size);
    return more;
}

static tc_item *add_item(scheduler *s, tc_item_kind kind)
{
    tc_arena *a = s->plan->arena;
    tc_host_schedule *l = s->list;
    tc_item *item = tc_arena_new(a, tc_item);
    item->kind = kind;
    item->index = l->nitems;
    l->items = grown(a, l->items, l->nitems, &l->room, sizeof *l->items);
    l->items[l->nitems++] = item;
    return item;
}

static void add_root(scheduler *s, tc_item *item, tc_op *op)
{
    item->roots = grown(s->plan->arena, item->roots, item->nroots,
                        &item->roots_room, sizeof *item->roots);
    item->roots[item->nroots++] = op;
    tc_op_plan_of(op)->item = item;
    for (unsigned i = 0; i < op->nout; i++)
        tc_place_of(op->out[i])->item = item;
}

static void add_scalar(scheduler *s, tc_item *item, tc_op *op)
{
    item->scalars = grown(s->plan->arena, item->scalars, item->nscalars,
                          &item->scalars_room, sizeof *item->scalars);
    item->scalars[item->nscalars++] = op;
    for (unsigned i = 0; i < op->nout; i++)
        tc_place_of(op->out[i])->item = item;
}

/* ---- What a root needs ---- */

typedef struct needs {
    const scheduler *s;
    unsigned after; /* must stand after this item */
    unsigned with;  /* must not stand before this one */
    bool memory;    /* reads memory on the way */
} needs;

static bool is_here(const scheduler *s, const tc_value *v)
{
    return (v->def ? v->def->parent : v->region) == s->region;
}

static void need(void *user, tc_value *v, bool same)
{
    needs *n = user;
    const tc_item *item = tc_place_of(v)->item;
    if (!item || !is_here(n->s, v))
        return;
    bool shares = same && tc_is_tile(v) && v->def && tc_is_nest_root(v->def) &&
                  v->def->code != TC_REDUCE;
    unsigned *least = shares ? &n->with : &n->after;
    if (item->index > *least)
        *least = item->index;
}

/* Does computing v, down to the next roots, read memory? */
static bool reads_memory(const tc_value *v, bool top)
{
    if (!v->def || !tc_is_tile(v) || (!top && tc_place_of(v)->root))
        return false;
    if (tc_op_has(v->def, TC_READS))
        return true;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (reads_memory(v->def->in[i], false))
            return true;
    return false;
}

static bool op_reads_memory(const tc_op *op)
{
    if (tc_op_has(op, TC_READS))
        return true;
    for (unsigned i = 0; i < op->nin; i++)
        if (reads_memory(op->in[i], false))
            return true;
    return false;
}

static const tc_type *nest_shape(const tc_op *op)
{
    return op->code == TC_REDUCE ? op->in[0]->type : op->out[0]->type;
}

/* LLVM's time grows with the square of the code in one loop. */
enum { MOST_DEAR = 6 };

static tc_item *nest_for(scheduler *s, tc_op *op)
{
    bool dear = tc_place_of(op->out[0])->dear;
    needs n = {s, 0, 0, op_reads_memory(op)};
    tc_plan_visit_op(s->plan, op, need, &n);
    if (n.memory && s->last_write > n.after)
        n.after = s->last_write;
    for (unsigned i = s->list->nitems; i-- > 0;) {
        tc_item *item = s->list->items[i];
        if (i <= n.after || i < n.with)
            break;
        if (item->kind == TC_ITEM_NEST && item->ndear < MOST_DEAR &&
            tc_type_same_sides(item->shape, nest_shape(op))) {
            item->ndear += dear;
            return item;
        }
    }
    tc_item *item = add_item(s, TC_ITEM_NEST);
    item->shape = nest_shape(op);
    item->ndear = dear;
    return item;
}

/* ---- Regions ---- */

static bool is_pure_scalar(const tc_op *op)
{
    if (!tc_op_has(op, TC_PURE) || op->code == TC_REDUCE || op->code == TC_TAKE)
        return false;
    for (unsigned i = 0; i < op->nout; i++)
        if (tc_is_tile(op->out[i]))
            return false;
    return true;
}

static void place_scalar(scheduler *s, tc_op *op)
{
    unsigned index = 0;
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_item *item = tc_place_of(op->in[i])->item;
        if (item && is_here(s, op->in[i]) && item->index > index)
            index = item->index;
    }
    add_scalar(s, s->list->items[index], op);
}

/* A tile that is not computed as a whole. */
static bool is_virtual(const tc_op *op)
{
    return op->nout == 1 && op->nregions == 0 && tc_is_tile(op->out[0]) &&
           !tc_place_of(op->out[0])->root;
}

static bool writes(const tc_op *op)
{
    return tc_op_has(op, TC_WRITES);
}

static tc_host_schedule *schedule_region(tc_plan *plan, tc_region *r);

static void place_op(scheduler *s, tc_op *op)
{
    if (tc_op_has(op, TC_PURE) && op->nout == 1 && !op->out[0]->uses)
        return;
    if (is_pure_scalar(op)) {
        place_scalar(s, op);
        return;
    }
    if (is_virtual(op))
        return;
    if (tc_is_nest_root(op)) {
        add_root(s, nest_for(s, op), op);
        return;
    }
    if (tc_is_alias(op)) {
        tc_place_of(op->out[0])->item = tc_place_of(op->in[0])->item;
        return;
    }
    tc_item *item = add_item(s, TC_ITEM_OP);
    add_root(s, item, op);
    if (tc_op_any(op, writes))
        s->last_write = item->index;
    for (unsigned i = 0; i < op->nregions; i++)
        tc_op_plan_of(op)->regions[i] =
            schedule_region(s->plan, op->regions[i]);
}

static tc_host_schedule *schedule_region(tc_plan *plan, tc_region *r)
{
    tc_host_schedule *list = tc_arena_new(plan->arena, tc_host_schedule);
    scheduler s = {plan, list, r, 0};
    add_item(&s, TC_ITEM_START);
    tc_each_op (op, r)
        place_op(&s, op);
    return list;
}

/* ---- Positions, and what stays in registers ---- */

static void number_items(tc_plan *plan, tc_host_schedule *list)
{
    for (unsigned i = 0; i < list->nitems; i++) {
        tc_item *item = list->items[i];
        item->position = plan->positions++;
        if (item->kind == TC_ITEM_OP)
            for (unsigned j = 0; j < 2; j++)
                if (tc_op_plan_of(item->roots[0])->regions[j])
                    number_items(plan,
                                 tc_op_plan_of(item->roots[0])->regions[j]);
        item->end = plan->positions++;
    }
}

static void escape(void *user, tc_value *v, bool same)
{
    const tc_item *at = user;
    tc_place *p = tc_place_of(v);
    if (p->item == at && same && at->kind == TC_ITEM_NEST)
        return;
    p->escapes = true;
    /* A value that shares another value's buffer needs that value to have
     * one. */
    while (v->def && p->root && tc_is_alias(v->def)) {
        v = v->def->in[0];
        p = tc_place_of(v);
        p->escapes = true;
    }
}

static void find_escapes(tc_plan *plan)
{
    for (unsigned i = 0; i < plan->nops; i++) {
        tc_op *op = plan->ops[i];
        tc_item *item = tc_op_plan_of(op)->item;
        if (item)
            tc_plan_visit_op(plan, op, escape, item);
    }
}

void tc_plan_schedule(tc_plan *plan)
{
    plan->body = schedule_region(plan, plan->kernel->body);
    number_items(plan, plan->body);
    find_escapes(plan);
}
