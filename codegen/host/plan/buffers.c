/* SPDX-License-Identifier: Apache-2.0
 *
 * Scratch memory: buffers, their lifetimes and their offsets.
 *
 * Positions number the items of the whole kernel in the order they run. A
 * buffer lives from the position that writes it to the last that reads it,
 * stretched to the end of every loop that it is read in but was not written
 * in. Buffers that are never alive at once share memory, so that the working
 * set of a kernel stays in the near caches.
 *
 * A value that a loop carries has one buffer for initial value, argument and
 * result. The yielded value is computed in that buffer if that is safe:
 *
 *   for ... carry(%acc0 = ...) {         // buffer A
 *     %acc1 = dot %p, %v, %acc0 * %a     // reads A only at the element it
 *     yield %acc1                        // computes: also buffer A, no copy
 *   }
 */
#include "codegen/host/plan/plan.h"

#include <string.h>

enum { ALIGNMENT = 64 };

static tc_host_buffer *owner_of(tc_host_buffer *b)
{
    while (b && b->same_as)
        b = b->same_as;
    return b;
}

tc_host_buffer *tc_buffer_of(const tc_value *v)
{
    return owner_of(tc_place_of(v)->buffer);
}

static tc_host_buffer *new_buffer(tc_plan *plan, const tc_value *v,
                                  const tc_item *item)
{
    tc_host_buffer *b = tc_arena_new(plan->arena, tc_host_buffer);
    uint64_t bytes =
        (uint64_t)tc_type_count(v->type) * tc_scratch_bytes(v->type->elem);
    b->owner = v;
    b->type = v->type;
    b->bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    b->first = b->last = item->position;
    b->next = plan->buffers;
    plan->buffers = b;
    return b;
}

/* The argument of a loop's first region for its carried value i. */
static tc_value *carried_arg(const tc_op *loop, unsigned i)
{
    return loop->regions[0]->args[i + (loop->code == TC_FOR)];
}

static tc_value *initial_value(const tc_op *loop, unsigned i)
{
    return loop->in[i + (loop->code == TC_FOR ? 3 : 0)];
}

static void give_buffers(tc_plan *plan, tc_op *op)
{
    const tc_item *item = tc_op_plan_of(op)->item;
    for (unsigned i = 0; i < op->nout; i++) {
        tc_value *v = op->out[i];
        tc_place *p = tc_place_of(v);
        if (!tc_is_tile(v) || !p->root)
            continue;
        if (tc_is_alias(op)) {
            p->buffer = tc_place_of(op->in[0])->buffer;
        } else if (!p->item) {
            continue; /* of no use */
        } else if (!tc_is_nest_root(op) || op->code == TC_REDUCE ||
                   p->escapes) {
            p->buffer = new_buffer(plan, v, item);
            p->buffer->last = item->end;
        }
        if (tc_op_is_loop(op))
            tc_place_of(carried_arg(op, i))->buffer = p->buffer;
    }
}

/* ---- Uses ---- */

typedef struct toucher {
    tc_plan *plan;
    const tc_item *item;
    const tc_region *region;
} toucher;

static void add_use(tc_plan *plan, tc_host_buffer *b, tc_host_buffer_use use)
{
    if (b->nuses == b->room) {
        b->room = b->room ? 2 * b->room : 4;
        tc_host_buffer_use *more =
            tc_arena_array(plan->arena, tc_host_buffer_use, b->room);
        if (b->nuses)
            memcpy(more, b->uses, b->nuses * sizeof *more);
        b->uses = more;
    }
    b->uses[b->nuses++] = use;
}

static void touch(void *user, tc_value *v, bool same)
{
    const toucher *t = user;
    tc_host_buffer *b = tc_place_of(v)->buffer;
    if (!b)
        return;
    add_use(t->plan, b, (tc_host_buffer_use){t->item->position, same});
    unsigned last = t->item->position;
    const tc_region *home =
        b->owner->def ? b->owner->def->parent : b->owner->region;
    for (const tc_region *r = t->region;
         r && r != home && r->op && r->op != home->op; r = r->op->parent)
        if (tc_op_is_loop(r->op))
            last = tc_op_plan_of(r->op)->item->end;
    if (last > b->last)
        b->last = last;
}

/* ---- Sharing ---- */

static void merge(tc_plan *plan, tc_host_buffer *b, tc_host_buffer *into)
{
    b->same_as = into;
    if (b->first < into->first)
        into->first = b->first;
    if (b->last > into->last)
        into->last = b->last;
    for (unsigned i = 0; i < b->nuses; i++)
        add_use(plan, into, b->uses[i]);
}

static unsigned uses_at(const tc_host_buffer *b, unsigned position)
{
    unsigned n = 0;
    for (unsigned i = 0; i < b->nuses; i++)
        n += b->uses[i].position == position;
    return n;
}

/* May `v`, written from b->first on, overwrite `old`, whose value is of no
 * use after position `end`? */
static bool may_overwrite(const tc_value *v, const tc_host_buffer *b,
                          const tc_host_buffer *old, unsigned end)
{
    for (unsigned i = 0; i < old->nuses; i++) {
        tc_host_buffer_use use = old->uses[i];
        if (use.position < b->first || use.position > end)
            continue;
        /* A loop inside that starts from the old value: its own copy. */
        bool starts = false;
        for (unsigned j = 0; tc_op_is_loop(v->def) && j < v->def->nout; j++)
            starts |= j == v->index &&
                      tc_buffer_of(initial_value(v->def, j)) == old &&
                      uses_at(old, use.position) == 1;
        if (use.position > b->first || !(use.same || starts))
            return false;
    }
    return true;
}

/* Lets v, which `region` yields, be computed in `target`. */
static void share_yield(tc_plan *plan, const tc_region *region, tc_value *v,
                        tc_host_buffer *target)
{
    if (!tc_is_tile(v) || !v->def || v->def->parent != region)
        return;
    tc_host_buffer *b = tc_buffer_of(v);
    unsigned end = tc_op_plan_of(region->last)->item->position;
    /* (A buffer that is older belongs to something else as well; an alias may
     * have that of a value outside.) */
    if (!b || !target || b == target || !b->owner->def ||
        b->owner->def->parent != region ||
        b->first < tc_place_of(v)->item->position ||
        !may_overwrite(v, b, target, end))
        return;
    merge(plan, b, target);
}

static void share_yields(tc_plan *plan, tc_op *op)
{
    for (unsigned r = 0; r < op->nregions; r++) {
        const tc_op *yield = op->regions[r]->last;
        if (yield->code != TC_YIELD)
            continue;
        for (unsigned i = 0; i < yield->nin; i++)
            if (tc_is_tile(op->out[i]))
                share_yield(plan, op->regions[r], yield->in[i],
                            tc_buffer_of(op->out[i]));
    }
}

/* Lets an initial value that serves for nothing else be computed in what the
 * loop carries. */
static void share_initial(tc_plan *plan, tc_op *loop, unsigned i)
{
    tc_value *v = initial_value(loop, i);
    tc_host_buffer *target = tc_place_of(loop->out[i])->buffer;
    unsigned at = tc_op_plan_of(loop)->item->position;
    if (!tc_is_tile(v) || !v->def || v->def->parent != loop->parent ||
        !tc_place_of(v)->root || !tc_place_of(v)->item || target->same_as)
        return;
    tc_host_buffer *b = tc_buffer_of(v);
    if (!b || b == target || b->last > at || uses_at(b, at) != 1 ||
        b->first < tc_place_of(v)->item->position)
        return;
    merge(plan, b, target);
}

/* ---- Offsets ---- */

/* `dead` is last read where `born` is first written, element by element: they
 * may be the same memory. */
static bool hands_over(const tc_host_buffer *dead, const tc_host_buffer *born)
{
    if (dead->last != born->first ||
        !tc_type_same_sides(dead->type, born->type) ||
        tc_scratch_bytes(dead->type->elem) !=
            tc_scratch_bytes(born->type->elem))
        return false;
    for (unsigned i = 0; i < dead->nuses; i++)
        if (dead->uses[i].position == born->first && !dead->uses[i].same)
            return false;
    return true;
}

static bool fits_with(const tc_host_buffer *a, const tc_host_buffer *b,
                      uint64_t offset)
{
    bool apart_in_time = a->last < b->first || b->last < a->first;
    bool apart_in_space =
        offset + b->bytes <= a->offset || a->offset + a->bytes <= offset;
    return apart_in_time || apart_in_space ||
           (offset == a->offset && (hands_over(a, b) || hands_over(b, a)));
}

static bool fits(tc_host_buffer *const *placed, unsigned n,
                 const tc_host_buffer *b, uint64_t offset)
{
    for (unsigned i = 0; i < n; i++)
        if (!fits_with(placed[i], b, offset))
            return false;
    return true;
}

static uint64_t find_offset(tc_host_buffer *const *placed, unsigned n,
                            const tc_host_buffer *b)
{
    uint64_t best = UINT64_MAX;
    if (fits(placed, n, b, 0))
        best = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t at[] = {placed[i]->offset,
                         placed[i]->offset + placed[i]->bytes};
        for (unsigned j = 0; j < 2; j++)
            if (at[j] < best && fits(placed, n, b, at[j]))
                best = at[j];
    }
    return best;
}

/* Largest first, which packs well. */
static void sort_by_size(tc_host_buffer **list, unsigned n)
{
    for (unsigned i = 1; i < n; i++) {
        tc_host_buffer *b = list[i];
        unsigned j = i;
        for (; j > 0 && list[j - 1]->bytes < b->bytes; j--)
            list[j] = list[j - 1];
        list[j] = b;
    }
}

static bool report_size(tc_plan *plan, tc_host_buffer **list, unsigned n,
                        uint64_t most)
{
    tc_func *f = plan->kernel;
    tc_error(plan->cx, f->loc,
             "kernel @%s needs %.1f MiB of scratch memory a thread, the limit "
             "is %.1f MiB: make its tiles smaller",
             f->name, (double)plan->scratch_bytes / 0x1p20,
             (double)most / 0x1p20);
    for (unsigned i = 0; i < n && i < 3; i++)
        tc_note(plan->cx, list[i]->owner->loc, "%s takes %.1f MiB",
                tc_type_name(plan->cx, list[i]->type),
                (double)list[i]->bytes / 0x1p20);
    return false;
}

static bool place_buffers(tc_plan *plan, uint64_t most)
{
    unsigned n = 0;
    for (tc_host_buffer *b = plan->buffers; b; b = b->next)
        n += !b->same_as;
    tc_host_buffer **list = tc_arena_array(plan->arena, tc_host_buffer *, n);
    n = 0;
    for (tc_host_buffer *b = plan->buffers; b; b = b->next)
        if (!b->same_as)
            list[n++] = b;
    sort_by_size(list, n);
    for (unsigned i = 0; i < n; i++) {
        list[i]->offset = find_offset(list, i, list[i]);
        uint64_t end = list[i]->offset + list[i]->bytes;
        if (end > plan->scratch_bytes)
            plan->scratch_bytes = end;
    }
    return plan->scratch_bytes <= most || report_size(plan, list, n, most);
}

bool tc_plan_buffers(tc_plan *plan, uint64_t most)
{
    for (unsigned i = 0; i < plan->nops; i++)
        give_buffers(plan, plan->ops[i]);
    for (unsigned i = 0; i < plan->nops; i++) {
        tc_op *op = plan->ops[i];
        toucher t = {plan, tc_op_plan_of(op)->item, op->parent};
        if (t.item)
            tc_plan_visit_op(plan, op, touch, &t);
    }
    for (unsigned i = 0; i < plan->nops; i++)
        if (tc_op_is_loop(plan->ops[i]) || plan->ops[i]->code == TC_IF)
            share_yields(plan, plan->ops[i]);
    for (unsigned i = 0; i < plan->nops; i++)
        for (unsigned j = 0;
             tc_op_is_loop(plan->ops[i]) && j < plan->ops[i]->nout; j++)
            if (tc_is_tile(plan->ops[i]->out[j]))
                share_initial(plan, plan->ops[i], j);
    return place_buffers(plan, most);
}
