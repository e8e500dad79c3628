/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/sync/shared_memory.h"

#include "ir/parts.h"
#include "ir/types/layout.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/roles.h"
#include "passes/analysis/tile_loop.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/wgmma.h"
#include "passes/target/machine_model.h"

/* ---- Which buffer ---- */

/* A carried value may lead back to itself: the values on the way so far. */
struct step {
    const tc_value *v;
    const struct step *before;
};

struct trace {
    tc_buffer *out;
    unsigned n;
};

static void shared_memory_add(struct trace *t, tc_op *alloc, tc_value *index)
{
    for (unsigned i = 0; i < t->n && i < TC_MAX_BUFFERS; i++)
        if (t->out[i].alloc == alloc && t->out[i].index == index)
            return;
    if (t->n < TC_MAX_BUFFERS)
        t->out[t->n] = (tc_buffer){alloc, index};
    if (t->n <= TC_MAX_BUFFERS)
        t->n++;
}

static void trace(struct trace *t, tc_value *v, tc_value *index,
                  const struct step *before);

/* Traces the values that feed slot i of a loop or branch. */
static void trace_slot(struct trace *t, tc_op *op, unsigned i, tc_value *index,
                       const struct step *here)
{
    if (tc_slot_init(op, i))
        trace(t, tc_slot_init(op, i), index, here);
    for (unsigned r = 0; r < op->nregions; r++) {
        tc_op *last = tc_region_terminator(op->regions[r]);
        if (last && last->code == TC_YIELD)
            trace(t, last->in[i], index, here);
    }
}

static void trace(struct trace *t, tc_value *v, tc_value *index,
                  const struct step *before)
{
    for (const struct step *s = before; s; s = s->before)
        if (s->v == v)
            return;
    struct step here = {v, before};
    tc_op *def = v->def;
    if (!def) {
        tc_op *owner = v->region->op;
        if (owner)
            trace_slot(t, owner, v->index - (owner->code == TC_FOR), index,
                       &here);
    } else if (def->code == TC_SMEM_ALLOC) {
        shared_memory_add(t, def, index);
    } else if (def->code == TC_SMEM_INDEX) {
        trace(t, def->in[0], def->in[1], &here);
    } else if (def->code == TC_SMEM_TRANS || def->code == TC_SMEM_RESHAPE ||
               def->code == TC_SMEM_SLICE) {
        trace(t, def->in[0], index, &here);
    } else if (def->code == TC_SELECT) {
        trace(t, def->in[1], index, &here);
        trace(t, def->in[2], index, &here);
    } else if (def->nregions) {
        trace_slot(t, def, v->index, index, &here);
    }
}

unsigned tc_trace_buffers(tc_value *smem, tc_buffer out[TC_MAX_BUFFERS])
{
    struct trace t = {out, 0};
    trace(&t, smem, NULL, NULL);
    return t.n;
}

bool tc_is_buffer_view(const tc_op *op)
{
    return op->code == TC_SMEM_INDEX || op->code == TC_SMEM_TRANS ||
           op->code == TC_SMEM_RESHAPE || op->code == TC_SMEM_SLICE;
}

const tc_layout *tc_smem_view_layout(tc_context *cx, const tc_op *view,
                                     const tc_layout *l)
{
    if (view->code == TC_SMEM_SLICE) {
        tc_tile_part p = tc_op_part(view, 0);
        return tc_layout_run(cx, l, &p, &(uint32_t){0});
    }
    if (view->code == TC_SMEM_RESHAPE) {
        int32_t sides[TC_MAX_RANK];
        tc_type_sides(view->out[0]->type, sides);
        return tc_layout_reshape(cx, l, view->out[0]->type->rank, sides);
    }
    const tc_attr *perm = tc_op_attr(view, "perm");
    unsigned order[TC_MAX_RANK];
    for (unsigned i = 0; i < l->rank; i++) {
        order[i] = i + 2 < l->rank ? i : 2 * l->rank - 3 - i;
        if (perm->kind != TC_ATTR_NONE)
            order[i] = (unsigned)perm->ints[i];
    }
    return tc_layout_trans(cx, l, order);
}

void tc_smem_set_layout(tc_context *cx, tc_value *v, const tc_layout *l)
{
    v->type = tc_type_smem(cx, v->type, l, v->type->slots);
    tc_each_use (u, v) {
        tc_op *op = u->op;
        if (op->code == TC_SMEM_INDEX)
            tc_smem_set_layout(cx, op->out[0], l);
        else if (tc_is_buffer_view(op))
            tc_smem_set_layout(cx, op->out[0], tc_smem_view_layout(cx, op, l));
    }
}

tc_buffer_use tc_buffer_use_of(const tc_op *op, unsigned i)
{
    if (op->in[i]->type->kind != TC_SMEM)
        return TC_BUFFER_NOT_USED;
    switch (op->code) {
    case TC_SMEM_STORE:
        return tc_op_int(op, "by_mbarrier") ? TC_BUFFER_NOT_USED
                                            : TC_BUFFER_WRITTEN;
    case TC_SMEM_COPY: return i ? TC_BUFFER_WRITTEN : TC_BUFFER_READ;
    case TC_ASYNC_COPY: return TC_BUFFER_COPIED_TO;
    case TC_SMEM_LOAD:
        return tc_op_int(op, "by_mbarrier") ? TC_BUFFER_NOT_USED
                                            : TC_BUFFER_READ;
    case TC_SMEM_TAKE:
    case TC_PRINT: return TC_BUFFER_READ;
    case TC_SMEM_COUNT: return TC_BUFFER_WRITTEN;
    case TC_MMA:
        return tc_op_int(op, "async") ? TC_BUFFER_READ_FROM_NOW
                                      : TC_BUFFER_READ;
    case TC_TMA_STORE: return TC_BUFFER_READ_FROM_NOW;
    default: return TC_BUFFER_NOT_USED;
    }
}

tc_opcode tc_waited_for_by(const tc_op *op)
{
    switch (op->code) {
    case TC_ASYNC_COPY: return TC_ASYNC_WAIT;
    case TC_TMA_STORE: return TC_TMA_STORE_WAIT;
    case TC_MMA: return tc_op_int(op, "async") ? TC_MMA_WAIT : TC_OPCODE_COUNT;
    default: return TC_OPCODE_COUNT;
    }
}

bool tc_reads_as_bulk(const tc_op *op)
{
    return op->code == TC_TMA_STORE || tc_is_group_mma(op);
}

/* ---- When ---- */

/* First and last position of an op and what is nested in it. */
struct span {
    unsigned first, last;
};

struct finder {
    tc_arena *arena;
    bool loose;
    unsigned position;
    tc_lifetimes all;
    unsigned room;
};

static void number(struct finder *s, tc_region *r)
{
    tc_each_op (op, r) {
        struct span *span = tc_arena_new(s->arena, struct span);
        op->data = span;
        span->first = s->position++;
        for (unsigned i = 0; i < op->nregions; i++)
            number(s, op->regions[i]);
        span->last = op->nregions ? s->position++ : span->first;
        s->room += op->code == TC_SMEM_ALLOC || op->code == TC_MBARRIER_ALLOC;
    }
}

static struct span *span_of(const tc_op *op)
{
    return op->data;
}

static tc_lifetime *lifetime_of(const struct finder *s, const tc_op *alloc)
{
    for (unsigned i = 0; i < s->all.n; i++)
        if (s->all.of[i].alloc == alloc)
            return &s->all.of[i];
    return NULL;
}

static void include(tc_lifetime *l, const tc_op *where, tc_op *op)
{
    const struct span *span = span_of(where);
    if (!l->first_op || span->first < l->first) {
        l->first = span->first;
        l->first_op = op;
    }
    if (!l->last_op || span->last > l->last) {
        l->last = span->last;
        l->last_op = op;
    }
}

/* The warp_groups around an op that is in another role than the consumers; else
 * NULL. */
static tc_op *roles_of_others(const tc_op *op)
{
    tc_op *roles = tc_roles_around(op);
    return roles && !tc_region_contains(tc_consumers(roles), op) ? roles : NULL;
}

/* A buffer from outside of a loop is in use in all its steps. While the
 * producer or the transposer runs, the consumers may be anywhere, so their
 * buffers are in use, too; except for a `freed` buffer, whose last use the
 * consumers have waited for before the producer comes here. */
static void include_use(const struct finder *s, tc_lifetime *l, tc_op *op)
{
    tc_op *roles = roles_of_others(op);
    include(l, op, op);
    if (roles && !tc_op_int(l->alloc, "freed"))
        include(l, roles, op);
    bool innermost = true;
    for (tc_op *loop = tc_loop_around(op); loop; loop = tc_loop_around(loop)) {
        if (!tc_is_nested_in(l->alloc, loop) || (s->loose && innermost))
            include(l, loop, op);
        innermost = false;
    }
}

/* Always in use: no op shows when the last thread has passed it. */
static void add_mbarriers(struct finder *s, tc_func *f, tc_op *alloc)
{
    tc_lifetime *l = &s->all.of[s->all.n++];
    *l = (tc_lifetime){.alloc = alloc,
                       .bytes = TC_MBARRIER_BYTES * alloc->out[0]->type->slots,
                       .align = TC_MBARRIER_BYTES};
    include(l, f->body->first, alloc);
    include(l, f->body->last, alloc);
}

static void find_allocs(struct finder *s, tc_func *f, tc_region *r)
{
    tc_each_nested (op, r) {
        if (op->code == TC_MBARRIER_ALLOC)
            add_mbarriers(s, f, op);
        if (op->code == TC_SMEM_ALLOC) {
            const tc_type *t = op->out[0]->type;
            s->all.of[s->all.n++] = (tc_lifetime){
                .alloc = op,
                .bytes = tc_smem_bytes(t),
                /* TMA and wgmma count rows of a swizzle from 1024 bytes on;
                 * small buffers cannot have a period that long. */
                .align = tc_smem_slot_bytes(t) % 1024 ? TC_SMEM_ALIGN : 1024};
        }
    }
}

/* The swizzle is one of address bits. */
static void align_for(tc_lifetime *l, const tc_op *op)
{
    unsigned align = tc_shared_alignment(l->alloc->out[0]->type);
    if ((op->code == TC_TMA_LOAD || tc_reads_as_bulk(op)) && align > l->align)
        l->align = align;
}

/* A buffer that a yield or a loop takes is in use there, and in a loop that
 * carries it in all steps. */
static bool hands_on(const tc_op *op)
{
    return !tc_is_buffer_view(op);
}

static void find_uses(struct finder *s, tc_region *r)
{
    tc_each_nested (op, r) {
        for (unsigned i = 0; i < op->nin && hands_on(op); i++) {
            if (op->in[i]->type->kind != TC_SMEM)
                continue;
            tc_buffer buffers[TC_MAX_BUFFERS];
            unsigned n = tc_trace_buffers(op->in[i], buffers);
            for (unsigned k = 0; k < s->all.n && n > TC_MAX_BUFFERS; k++)
                include_use(s, &s->all.of[k], op);
            for (unsigned k = 0; k < n && n <= TC_MAX_BUFFERS; k++) {
                tc_lifetime *l = lifetime_of(s, buffers[k].alloc);
                include_use(s, l, op);
                align_for(l, op);
                if (op->code == TC_YIELD && op->parent->op)
                    include(l, op->parent->op, op);
            }
        }
    }
}

/* ---- What is in flight ---- */

/* The first op after `position` after which nothing is in flight that `wait`
 * waits for. */
static tc_op *next_drain(tc_region *r, tc_opcode wait, unsigned position)
{
    tc_each_nested (op, r) {
        tc_module_spend(r->func->module, 2);
        if (span_of(op)->last > position && op->code == wait &&
            tc_op_int(op, "pending") == 0)
            return op;
    }
    return NULL;
}

/* Includes loops in which the op is still in flight at the end of a step,
 * because its wait comes after them or in the next step. */
static void include_loops(tc_lifetime *l, tc_op *op, const tc_op *drain)
{
    for (tc_op *loop = tc_loop_around(op); loop; loop = tc_loop_around(loop))
        if (!tc_is_nested_in(drain, loop))
            include(l, loop, op);
}

/* Until the wait a copy may still write, a product or TMA store still read. */
static void include_in_flight(struct finder *s, tc_func *f, tc_op *op)
{
    tc_op *drain = next_drain(f->body, tc_waited_for_by(op), span_of(op)->last);
    if (!drain)
        drain = f->body->last;
    for (unsigned i = 0; i < op->nin; i++) {
        if (op->in[i]->type->kind != TC_SMEM)
            continue;
        tc_buffer buffers[TC_MAX_BUFFERS];
        unsigned n = tc_trace_buffers(op->in[i], buffers);
        for (unsigned k = 0; k < n && k < TC_MAX_BUFFERS; k++) {
            tc_lifetime *l = lifetime_of(s, buffers[k].alloc);
            include(l, drain, drain);
            if (op->code != TC_ASYNC_COPY)
                include_loops(l, op, drain);
        }
    }
}

static void find_in_flight(struct finder *s, tc_func *f, tc_region *r)
{
    tc_each_nested (op, r) {
        if (tc_waited_for_by(op) != TC_OPCODE_COUNT)
            include_in_flight(s, f, op);
    }
}

/* The outermost loop around an op, but for one that counts tiles; NULL: there
 * is none. */
static tc_op *outer_loop(const tc_op *op)
{
    tc_op *loop = NULL;
    for (tc_op *around = op->parent->op; around; around = around->parent->op)
        if (around->code == TC_WHILE ||
            (around->code == TC_FOR && !tc_is_tile_loop(around)))
            loop = around;
    return loop;
}

/* Small buffers of a loop share no memory, up to a few KiB in all: sharing
 * would cost a barrier in each step. */
static void keep_small_ones(struct finder *s)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < s->all.n; i++) {
        tc_lifetime *l = &s->all.of[i];
        tc_op *loop = l->first_op ? outer_loop(l->first_op) : NULL;
        if (!loop || l->bytes > TC_OWN_MAX_BYTES ||
            sum + l->bytes > TC_OWN_ALL_MAX_BYTES)
            continue;
        sum += l->bytes;
        include(l, loop, loop);
    }
}

/* ---- Memory that is lent ---- */

/* A buffer that a TMA copy fills, step by step, and what the copy waits for:
 * an mbarrier of one slot that the consumers arrive at once a step. From their
 * last use in the step to that, the buffer's memory is free. */
struct loan {
    struct finder *s;
    tc_func *f;
    tc_op *release; /* mbarrier_arrive */
    unsigned from;  /* where the last use, and what is in flight, ends */
    bool fits;
};

static tc_op *only_use(const tc_value *v, tc_opcode code)
{
    tc_op *found = NULL;
    tc_each_use (u, v) {
        if (u->op->code != code)
            continue;
        if (found)
            return NULL;
        found = u->op;
    }
    return found;
}

/* The mbarrier on which the copy waits before it begins. */
static tc_value *guard_of(const tc_op *copy)
{
    const tc_op *op = copy->prev;
    while (op && op->code != TC_MBARRIER_WAIT)
        op = op->prev;
    return op ? op->in[0] : NULL;
}

/* Do all copies to the buffer wait on it, and nothing else? */
static bool guards_copies(const tc_value *guard, const tc_value *buffer)
{
    int waits = 0;
    tc_each_use (u, guard)
        waits += u->op->code == TC_MBARRIER_WAIT;
    tc_each_use (u, buffer) {
        if (u->op->code != TC_TMA_LOAD)
            continue;
        if (guard_of(u->op) != guard)
            return false;
        waits--;
    }
    return waits == 0;
}

static void end_use(struct loan *x, tc_op *use)
{
    tc_op *at = tc_ancestor_in(x->release->parent, use);
    unsigned end = at ? span_of(at)->last : 0;
    tc_opcode wait = tc_waited_for_by(use);
    if (at && wait != TC_OPCODE_COUNT) {
        tc_op *drain = next_drain(x->f->body, wait, span_of(use)->last);
        at = drain;
        end = drain && span_of(drain)->last > end ? span_of(drain)->last : end;
    }
    x->fits &= at != NULL;
    x->from = end > x->from ? end : x->from;
}

static void end_uses(struct loan *x, const tc_value *buffer)
{
    tc_each_use (u, buffer) {
        if (tc_is_buffer_view(u->op))
            end_uses(x, u->op->out[0]);
        else if (u->op->code != TC_TMA_LOAD && u->op->code != TC_TMA_PREFETCH)
            end_use(x, u->op);
    }
}

static void find_loan(struct finder *s, tc_func *f, tc_op *copy)
{
    tc_op *alloc = copy->in[1]->def;
    tc_value *guard = guard_of(copy);
    if (!guard || guard->type->slots != 1 || alloc->code != TC_SMEM_ALLOC ||
        !guards_copies(guard, alloc->out[0]))
        return;
    struct loan x = {s, f, only_use(guard, TC_MBARRIER_ARRIVE), 0, true};
    if (!x.release || roles_of_others(x.release))
        return;
    end_uses(&x, alloc->out[0]);
    tc_lifetime *l = lifetime_of(s, alloc);
    if (x.fits && x.from < span_of(x.release)->first) {
        l->lent_first = x.from;
        l->lent_last = span_of(x.release)->first;
    }
}

static void find_loans(struct finder *s, tc_func *f, tc_region *r)
{
    tc_each_nested (op, r) {
        if (op->code == TC_TMA_LOAD && op->in[1]->def)
            find_loan(s, f, op);
    }
}

tc_lifetimes tc_find_lifetimes(tc_arena *a, tc_func *f, bool loose)
{
    struct finder s = {.arena = a, .loose = loose};
    number(&s, f->body);
    s.all.of = tc_arena_array(a, tc_lifetime, s.room);
    find_allocs(&s, f, f->body);
    find_uses(&s, f->body);
    find_in_flight(&s, f, f->body);
    find_loans(&s, f, f->body);
    if (loose)
        keep_small_ones(&s);
    return s.all;
}

/* All of the time from `first` to `last`. */
static bool is_lent(const tc_lifetime *l, unsigned first, unsigned last)
{
    return l->lent_first < first && last < l->lent_last;
}

static bool are_in_use_together(const tc_lifetime *a, const tc_lifetime *b)
{
    return a->first_op && b->first_op && a->first <= b->last &&
           b->first <= a->last && !is_lent(a, b->first, b->last) &&
           !is_lent(b, a->first, a->last);
}

bool tc_is_in_use_at(const tc_lifetime *l, const tc_op *op)
{
    const struct span *span = span_of(op);
    return l->first_op && l->first <= span->last && span->first <= l->last &&
           !is_lent(l, span->first, span->last);
}

/* ---- Offsets ---- */

static uint32_t align_up(uint32_t x, uint32_t to)
{
    return (x + to - 1) / to * to;
}

/* The lowest offset where `l` collides with none of the `n` placed ones. */
static uint32_t first_fit(const tc_lifetime *l, tc_lifetime *const *placed,
                          unsigned n)
{
    uint32_t offset = 0;
    for (unsigned i = 0; i < n;) {
        const tc_lifetime *p = placed[i];
        bool free = !are_in_use_together(l, p) ||
                    offset + l->bytes <= p->offset ||
                    p->offset + p->bytes <= offset;
        if (!free)
            offset = align_up(p->offset + p->bytes, l->align);
        i = free ? i + 1 : 0;
    }
    return offset;
}

uint32_t tc_plan_shared(tc_arena *a, tc_lifetimes *all)
{
    tc_lifetime **order = tc_arena_array(a, tc_lifetime *, all->n);
    for (unsigned i = 0; i < all->n; i++) {
        unsigned k = i;
        for (; k && order[k - 1]->bytes < all->of[i].bytes; k--)
            order[k] = order[k - 1];
        order[k] = &all->of[i];
    }
    uint32_t total = 0;
    for (unsigned i = 0; i < all->n; i++) {
        tc_lifetime *l = order[i];
        l->offset = first_fit(l, order, i);
        if (l->first_op && l->offset + l->bytes > total)
            total = l->offset + l->bytes;
    }
    return total;
}

/* ---- Parts ---- */

const tc_layout *tc_smem_load_layout(tc_context *cx, const tc_op *load,
                                     uint32_t *first)
{
    const tc_layout *part = load->out[0]->type->layout;
    *first = 0;
    if (!tc_op_has_attr(load, "at"))
        return part;
    const tc_layout *buffer = load->in[0]->type->layout;
    const tc_attr *at = tc_op_attr(load, "at");
    tc_layout_spec s;
    tc_layout_spec_of(part, &s);
    uint32_t weight = tc_layout_size(part, TC_REGISTER);
    for (unsigned i = 0; i < part->rank; i++) {
        int32_t side = part->shape[i];
        uint32_t count = (uint32_t)(buffer->shape[i] / side);
        s.shape[i] = buffer->shape[i];
        tc_layout_spec_add(&s, TC_REGISTER, count, i, side);
        *first += weight * (uint32_t)(at->ints[i] / side);
        weight *= count;
    }
    return tc_layout_get(cx, &s);
}

/* ---- Exchanges to come ---- */

static uint64_t parts_bytes(tc_context *cx, const tc_type *t, unsigned axis)
{
    const tc_layout *parts = tc_layout_partial(cx, t->layout, axis, TC_WARP);
    uint64_t bytes = tc_type_bytes(t->elem);
    for (unsigned k = 0; k < parts->rank; k++)
        bytes *= (uint64_t)parts->shape[k];
    return parts->shape[axis] > 1 ? bytes : 0;
}

uint64_t tc_exchange_bytes(tc_context *cx, const tc_op *op)
{
    const tc_type *t = op->nin ? op->in[0]->type : NULL;
    if (op->code == TC_CONVERT_LAYOUT &&
        tc_layout_conversion(cx, t->layout, op->out[0]->type->layout) ==
            TC_CONVERT_SHARED)
        return (uint64_t)tc_type_count(t) * tc_type_bytes(t->elem);
    if (op->code == TC_HISTOGRAM && t->layout)
        return (uint64_t)tc_type_count(op->out[0]->type) * sizeof(int32_t);
    if (op->code == TC_TAKE && t->layout)
        return (uint64_t)tc_type_count(t) * tc_type_bytes(t->elem);
    uint64_t sum = 0;
    for (unsigned i = 0; op->code == TC_PRINT && i < op->nin; i++)
        if (op->in[i]->type->kind == TC_TILE)
            sum += (uint64_t)tc_type_count(op->in[i]->type) *
                   tc_type_bytes(op->in[i]->type->elem);
    bool meets = op->code == TC_REDUCE || op->code == TC_SCAN;
    for (unsigned i = 0; meets && i < op->nin; i++)
        sum +=
            parts_bytes(cx, op->in[i]->type, (unsigned)tc_op_int(op, "axis"));
    return sum;
}

uint32_t tc_shared_limit(const tc_target *target)
{
    return target->shared_per_block ? target->shared_per_block : TC_MAX_SHARED;
}

/* ---- Own copies ---- */

bool tc_is_own_copy(const tc_op *copy, const tc_op *load)
{
    if (copy->code != TC_ASYNC_COPY || load->code != TC_SMEM_LOAD)
        return false;
    const tc_layout *l = tc_op_layout(copy, "layout");
    const tc_type *t = load->out[0]->type;
    unsigned n = TC_OWN_COPY_BYTES / tc_type_bytes(t->elem);
    bool wide = false;
    if (!l || l != t->layout || copy->in[1]->type != load->in[0]->type ||
        tc_layout_free_bits(l, TC_LANE) || tc_layout_free_bits(l, TC_WARP))
        return false;
    for (unsigned i = 0; i < l->rank; i++)
        wide |= tc_layout_contiguous(l, i, n) == n;
    return wide;
}
