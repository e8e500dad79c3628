/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a step, and their dependences.
 *
 * The original order of the program is correct. Besides SSA values, these rules
 * restrict another order:
 *
 *   - A product comes after the mbarrier_wait of its buffers' slot, and an
 *     arrival at a slot after the waits for products that read that slot
 *     earlier in the step. Other slots are independent: that is the purpose of
 *     a ring. An arrival at a slot that the step does not read, and buffers
 *     that are in no ring, are assumed to concern all.
 *   - A store of a tile to a buffer that is in no ring concerns only the
 *     products that read the same buffer: it comes after their waits.
 *   - A barrier of a warp group comes after the group's earlier reads and
 *     waits, a fence after earlier stores; products are independent of both.
 *   - Other writes of shared memory, barriers and the like keep their place
 *     among effects, and no product is in flight when they run.
 *   - Stores to global memory, asserts and prints keep their order; loads stay
 *     where they are among them.
 */
#include "passes/schedule/overlap_mma.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/sync/ring_guards.h"
#include "passes/sync/shared_memory.h"
#include "passes/target/machine_model.h"

bool tc_is_step_value(const tc_step *s, const tc_value *v)
{
    return (v->def ? v->def->parent : v->region) == s->region;
}

tc_part *tc_part_of(const tc_step *s, const tc_value *v)
{
    return v->def && v->def->parent == s->region ? v->def->data : NULL;
}

/* ---- Kinds ---- */

static bool reads_buffer(const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind == TC_SMEM)
            return true;
    return false;
}

static const tc_op *buffer_of(const tc_value *v)
{
    while (v->def && tc_is_buffer_view(v->def))
        v = v->def->in[0];
    return v->def && v->def->code == TC_SMEM_ALLOC ? v->def : NULL;
}

/* Does the step store computed values there? */
static bool is_filling(const tc_region *step, const tc_op *op)
{
    return op->code == TC_SMEM_STORE && op->parent == step &&
           (op->in[0]->def == buffer_of(op->in[0]) ||
            (tc_match_op(op->in[0], TC_SMEM_INDEX) &&
             !tc_match_op(op->in[1], TC_LOAD))) &&
           buffer_of(op->in[0]);
}

/* One that each step fills anew, and nothing else uses: it is outside of the
 * loop as a TMA store reads it until the next step fills it (tma-stores). */
static bool is_filled_anew(const tc_region *step, const tc_op *alloc)
{
    bool filled = false;
    if (alloc->out[0]->type->slots)
        return false;
    tc_each_use (u, alloc->out[0]) {
        if (!tc_ancestor_in(step, u->op))
            return false;
        filled |= is_filling(step, u->op);
    }
    return filled;
}

/* Is the buffer used in this step only, by no other step and no other role, or
 * is it a ring that the step fills? */
static bool is_own(const tc_region *step, const tc_value *v)
{
    const tc_op *alloc = buffer_of(v);
    if (!alloc || alloc->parent == step || is_filled_anew(step, alloc))
        return alloc;
    tc_each_op (op, step)
        if (alloc->out[0]->type->slots && is_filling(step, op) &&
            buffer_of(op->in[0]) == alloc)
            return true;
    return false;
}

static unsigned effects_of(const tc_region *step, const tc_op *op)
{
    unsigned effects = 0;
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            effects |= effects_of(step, inner);
    switch (op->code) {
    case TC_FOR:
    case TC_IF: return effects;
    case TC_WHILE: return effects | TC_PART_WORLD; /* it may not end */
    case TC_LOAD:
    case TC_GATHER: return TC_PART_LOADS;
    case TC_STORE:
    case TC_ATOMIC:
    case TC_ATOMIC_CAS:
    case TC_ASSERT:
    case TC_PRINT:
    case TC_ASSUME: return TC_PART_WORLD;
    case TC_SMEM_LOAD: return TC_PART_SHARED;
    case TC_SMEM_ALLOC: return 0;
    case TC_SMEM_STORE:
        return is_filling(step, op) ? TC_PART_FILLS : TC_PART_OTHER;
    case TC_TMA_STORE:
    case TC_TMA_STORE_WAIT: return TC_PART_BULK;
    case TC_FENCE_ASYNC: return TC_PART_MEETS;
    case TC_BARRIER:
        return tc_op_is_word(op, "scope", "group") ? TC_PART_MEETS
                                                   : TC_PART_OTHER;
    case TC_MMA:
        return tc_is_group_mma(op) ? TC_PART_OTHER
               : reads_buffer(op)  ? TC_PART_SHARED
                                   : 0;
    default:
        return tc_op_has(op, TC_PURE) || tc_op_has(op, TC_TERMINATOR)
                   ? 0
                   : TC_PART_OTHER;
    }
}

static bool is_wait(const tc_step *s, const tc_op *op)
{
    return op->code == TC_MMA_WAIT && op->nin == 1 && op->in[0]->def &&
           op->in[0]->def->parent == s->region &&
           tc_is_group_mma(op->in[0]->def);
}

static tc_part_kind kind_of(const tc_step *s, const tc_op *op)
{
    if (tc_is_group_mma(op) && tc_op_int(op, "async"))
        return TC_PART_PRODUCT;
    if (is_wait(s, op))
        return TC_PART_WAIT;
    if (op->code == TC_MBARRIER_WAIT)
        return TC_PART_FULL;
    if (op->code == TC_MBARRIER_ARRIVE && !tc_op_has_attr(op, "bytes"))
        return TC_PART_RELEASE;
    return TC_PART_PLAIN;
}

/* ---- Uses ---- */

static unsigned count_uses(const tc_step *s, const tc_op *op)
{
    unsigned n = 0;
    for (unsigned i = 0; i < op->nin; i++)
        n += tc_is_step_value(s, op->in[i]);
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            n += count_uses(s, inner);
    return n;
}

static void list_uses(const tc_step *s, tc_part *p, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (tc_is_step_value(s, op->in[i]))
            p->uses[p->nuses++] = op->in[i];
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            list_uses(s, p, inner);
}

static void find_uses(const tc_step *s, tc_part *p)
{
    p->uses = tc_arena_array(s->arena, tc_value *, count_uses(s, p->op));
    list_uses(s, p, p->op);
}

/* ---- Slots ---- */

/* A slot that is the same in all steps. */
static bool is_fixed(const tc_step *s, tc_value *slot)
{
    return !tc_is_step_value(s, slot) || tc_match_op(slot, TC_CONST);
}

/* A buffer that an op reads. */
struct place {
    bool known, moves; /* moves: to another slot in another step */
    tc_value *slot;    /* NULL: in no ring */
    tc_value *ring;
};

static struct place place_of(const tc_step *s, tc_value *v)
{
    while (v->def &&
           (v->def->code == TC_SMEM_TRANS || v->def->code == TC_SMEM_RESHAPE ||
            v->def->code == TC_SMEM_SLICE))
        v = v->def->in[0];
    struct place p = {.ring = v};
    if (v->def && v->def->code == TC_SMEM_INDEX) {
        p.slot = v->def->in[1];
        p.moves = !is_fixed(s, p.slot);
        p.ring = v->def->in[0];
    }
    p.known = !tc_is_step_value(s, p.ring) || !s->loop;
    return p;
}

static bool reads_slot(const tc_step *s, const tc_op *op, const tc_value *slot)
{
    for (unsigned i = 0; i < op->nin; i++) {
        if (op->in[i]->type->kind != TC_SMEM)
            continue;
        struct place p = place_of(s, op->in[i]);
        if (p.slot && tc_match_same_int(p.slot, slot))
            return true;
    }
    return false;
}

/* ---- Buffers that may be read late ---- */

static bool fills(const tc_op *op, const tc_op *alloc)
{
    for (unsigned i = 0; i < op->nin; i++) {
        tc_buffer_use use = tc_buffer_use_of(op, i);
        tc_buffer of[TC_MAX_BUFFERS];
        if (use != TC_BUFFER_WRITTEN && use != TC_BUFFER_COPIED_TO)
            continue;
        unsigned n = tc_trace_buffers(op->in[i], of);
        for (unsigned k = 0; k < n; k++)
            if (k == TC_MAX_BUFFERS || of[k].alloc == alloc)
                return true;
    }
    return false;
}

static bool fills_within(const tc_op *op, const tc_op *alloc)
{
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            if (fills(inner, alloc) || fills_within(inner, alloc))
                return true;
    return false;
}

/* Is the buffer filled by the computing threads: in the loop around, or,
 * without a loop, before the product (what comes later waits)? */
static bool is_filled_here(const tc_op *product, const tc_op *alloc)
{
    const tc_op *loop = tc_loop_around(product);
    if (loop)
        return fills_within(loop, alloc);
    for (const tc_op *at = product; at; at = at->parent->op)
        for (const tc_op *op = at->prev; op; op = op->prev)
            if (fills(op, alloc) || fills_within(op, alloc))
                return true;
    return false;
}

/* A buffer of the step's own that holds what the step has computed when the
 * product comes. (Copies of tensors are for pipeline-loops.) */
static bool is_filled_before(const tc_step *s, const tc_op *product,
                             const tc_value *buffer)
{
    const tc_op *alloc = buffer_of(buffer);
    bool filled = false;
    if (!alloc || !is_own(s->region, buffer))
        return false;
    for (const tc_op *op = s->region->first; op && op != product;
         op = op->next) {
        if (fills_within(op, alloc))
            return false;
        if (!fills(op, alloc))
            continue;
        if (op->code != TC_SMEM_STORE || !op->in[1]->def ||
            op->in[1]->def->code == TC_LOAD)
            return false;
        filled = true;
    }
    return filled;
}

static bool is_guarded(const tc_step *s, const tc_op *product, tc_value *buffer)
{
    struct place at = place_of(s, buffer);
    if (is_filled_before(s, product, buffer))
        return true;
    for (const tc_op *op = product->prev; op && at.slot; op = op->prev)
        if (op->code == TC_MBARRIER_WAIT &&
            tc_match_same_int(at.slot, op->in[1]))
            return at.known;
    return at.known && !at.moves && at.ring->def &&
           at.ring->def->code == TC_SMEM_ALLOC &&
           !is_filled_here(product, at.ring->def);
}

bool tc_may_run_on(tc_region *r, const tc_op *product)
{
    tc_step s = {.region = r};
    s.loop = r->op && r->op->code == TC_FOR ? r->op : NULL;
    for (unsigned i = 0; i < product->nin; i++)
        if (product->in[i]->type->kind == TC_SMEM &&
            !is_guarded(&s, product, product->in[i]))
            return false;
    return true;
}

bool tc_reads_own_buffer(const tc_step *s, const tc_op *product)
{
    for (unsigned i = 0; i < product->nin; i++)
        if (product->in[i]->type->kind == TC_SMEM &&
            is_own(s->region, product->in[i]))
            return true;
    return false;
}

bool tc_is_root(const tc_part *p)
{
    return p->kind == TC_PART_PRODUCT && !p->after_wait;
}

/* ---- Sums that stay in flight ---- */

tc_part *tc_last_of_chain(const tc_step *s, unsigned slot)
{
    tc_value *v = tc_region_terminator(s->region)->in[slot];
    tc_part *wait = tc_part_of(s, v), *last = NULL;
    if (!wait || wait->kind != TC_PART_WAIT || !tc_value_has_one_use(v))
        return NULL;
    last = wait->product;
    for (tc_part *p = last; p;) {
        if (!tc_is_root(p) || !p->product ||
            (p != last && p->product->op->out[0]->uses))
            return NULL;
        v = p->op->in[2];
        p = tc_part_of(s, v);
        if (p && p->kind != TC_PART_PRODUCT)
            return NULL;
    }
    return v == tc_slot_arg(s->loop, slot) && tc_value_has_one_use(v) ? last
                                                                      : NULL;
}

void tc_keep_in_flight(tc_step *s, tc_part *last, unsigned slot)
{
    last->product->in_flight = true;
    last->product->slot = slot;
    tc_op_set_in(tc_region_terminator(s->region), slot, last->op->out[0]);
}

void tc_keep_none_in_flight(tc_step *s)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->in_flight)
            tc_op_set_in(tc_region_terminator(s->region), p->slot,
                         p->op->out[0]);
        p->in_flight = false;
    }
}

/* ---- What comes first ---- */

static void add_before(tc_step *s, tc_part *p, tc_part *first)
{
    for (unsigned i = 0; i < p->nbefore; i++)
        if (p->before[i] == first)
            return;
    if (p->nbefore == p->room) {
        unsigned room = p->room ? 2 * p->room : 8;
        tc_part **more = tc_arena_array(s->arena, tc_part *, room);
        for (unsigned i = 0; i < p->nbefore; i++)
            more[i] = p->before[i];
        p->before = more;
        p->room = room;
    }
    p->before[p->nbefore++] = first;
}

static void add_values(tc_step *s, tc_part *p)
{
    for (unsigned i = 0; i < p->nuses; i++) {
        tc_part *first = tc_part_of(s, p->uses[i]);
        if (first)
            add_before(s, p, first);
    }
}

/* Of rings of one slot all slots are the same constant. */
static bool means(const tc_op *mbarrier_op, const tc_value *buffer)
{
    const tc_op *alloc = buffer_of(buffer);
    return !alloc || tc_may_guard(mbarrier_op->in[0], alloc);
}

/* The waits for the data of one operand. */
static void add_guards(tc_step *s, tc_part *p, tc_value *buffer)
{
    struct place at = place_of(s, buffer);
    for (unsigned i = 0; i < p->index; i++) {
        tc_part *full = s->parts[i];
        if (full->kind != TC_PART_FULL)
            continue;
        bool same = at.slot && tc_match_same_int(at.slot, full->op->in[1]);
        bool fixed = !at.moves && is_fixed(s, full->op->in[1]) &&
                     means(full->op, buffer);
        if (same || fixed)
            add_before(s, p, full);
    }
}

static void add_all_guards(tc_step *s, tc_part *p)
{
    for (unsigned i = 0; i < p->op->nin; i++)
        if (p->op->in[i]->type->kind == TC_SMEM)
            add_guards(s, p, p->op->in[i]);
}

/* Does the part release a buffer that the product reads? */
static bool releases(const tc_step *s, const tc_part *p, const tc_op *product)
{
    tc_value *slot = p->op->in[1];
    bool fixed = is_fixed(s, slot), read = false;
    for (unsigned i = 0; i < p->index && !fixed; i++) {
        const tc_op *op = s->parts[i]->op;
        read |= s->parts[i]->kind != TC_PART_FULL && reads_slot(s, op, slot);
    }
    if (!read && !fixed)
        return true;
    for (unsigned i = 0; i < product->nin; i++) {
        if (product->in[i]->type->kind != TC_SMEM)
            continue;
        struct place at = place_of(s, product->in[i]);
        bool only = fixed && !at.moves && means(p->op, product->in[i]);
        if (!at.known || only || (at.slot && tc_match_same_int(at.slot, slot)))
            return true;
    }
    return false;
}

static bool touches(const tc_op *op, const tc_op *alloc)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind == TC_SMEM && buffer_of(op->in[i]) == alloc)
            return true;
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            if (touches(inner, alloc))
                return true;
    return false;
}

bool tc_share_buffer(const tc_part *a, const tc_part *b)
{
    if (a->effects & TC_PART_FILLS)
        return touches(b->op, buffer_of(a->op->in[0]));
    if (b->effects & TC_PART_FILLS)
        return touches(a->kind == TC_PART_WAIT ? a->product->op : a->op,
                       buffer_of(b->op->in[0]));
    return false;
}

/* A barrier before an arrival, for reads by its threads: the release may come
 * late, as the ring has another slot, which is being filled meanwhile. */
static bool may_release_late(const tc_op *op)
{
    return op->code == TC_BARRIER && op->next->code == TC_MBARRIER_ARRIVE &&
           op->next->in[0]->type->slots > 1;
}

/* A barrier comes after all accesses of its threads to shared memory and their
 * waits, and before the arrivals that it is for. */
static bool meets(const tc_part *a, const tc_part *b)
{
    const unsigned shared =
        TC_PART_SHARED | TC_PART_FILLS | TC_PART_BULK | TC_PART_MEETS;
    if (may_release_late(a->op))
        return b->op == a->op->next;
    return (a->effects & TC_PART_MEETS &&
            (b->effects & shared || b->kind == TC_PART_RELEASE)) ||
           (b->effects & TC_PART_MEETS &&
            (a->effects & shared || a->kind == TC_PART_FULL));
}

static bool keeps_order(const tc_part *a, const tc_part *b)
{
    const unsigned bulk = TC_PART_BULK | TC_PART_FILLS | TC_PART_SHARED |
                          TC_PART_WORLD | TC_PART_LOADS;
    if ((a->effects & TC_PART_BULK && b->effects & bulk) ||
        (b->effects & TC_PART_BULK && a->effects & bulk) || meets(a, b))
        return true;
    bool a_any = a->effects || a->kind != TC_PART_PLAIN;
    bool b_any = b->effects || b->kind != TC_PART_PLAIN;
    if ((a->effects & TC_PART_OTHER && b_any) ||
        (b->effects & TC_PART_OTHER && a_any))
        return true;
    unsigned global = TC_PART_LOADS | TC_PART_WORLD;
    return (a->effects & TC_PART_WORLD && b->effects & global) ||
           (b->effects & TC_PART_WORLD && a->effects & global);
}

/* `a` stands before `b` in the program. */
static bool comes_first(const tc_step *s, const tc_part *a, const tc_part *b)
{
    if (keeps_order(a, b) || tc_share_buffer(a, b))
        return true;
    if (a->kind == TC_PART_WAIT)
        return b->kind == TC_PART_RELEASE && releases(s, b, a->product->op);
    if (a->kind == TC_PART_FULL)
        return b->effects & TC_PART_SHARED;
    return a->effects & TC_PART_SHARED && b->kind == TC_PART_RELEASE;
}

static void add_effects(tc_step *s, tc_part *p)
{
    if (p->kind == TC_PART_PRODUCT)
        add_all_guards(s, p);
    for (unsigned i = 0; i < p->index; i++)
        if (comes_first(s, s->parts[i], p))
            add_before(s, p, s->parts[i]);
}

/* Properties of a part that follow from the parts before it. */
static void find_nature(tc_step *s, tc_part *p)
{
    p->constant = tc_op_has(p->op, TC_PURE) && !p->op->nregions;
    for (unsigned i = 0; i < p->nuses; i++) {
        const tc_part *first = tc_part_of(s, p->uses[i]);
        p->constant &= first && first->constant;
    }
    for (unsigned i = 0; i < p->nbefore; i++)
        p->after_wait |=
            p->before[i]->kind == TC_PART_WAIT || p->before[i]->after_wait;
}

tc_step *tc_step_new(const tc_pass_env *env, tc_region *r)
{
    tc_arena *a = env->scratch;
    tc_step *s = tc_arena_new(a, tc_step);
    *s = (tc_step){.arena = a, .target = tc_machine(env->target), .region = r};
    s->loop = r->op && r->op->code == TC_FOR ? r->op : NULL;
    unsigned n = 0;
    tc_each_op (op, r)
        n++;
    s->parts = tc_arena_array(a, tc_part *, n);
    s->order = tc_arena_array(a, tc_part *, n);
    tc_each_op (op, r) {
        if (tc_op_has(op, TC_TERMINATOR))
            continue;
        tc_part *p = tc_arena_new(a, tc_part);
        *p = (tc_part){.op = op, .kind = kind_of(s, op), .index = s->nparts};
        if (p->kind == TC_PART_PLAIN)
            p->effects = effects_of(r, op);
        op->data = p;
        s->parts[s->nparts++] = p;
    }
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        if (p->kind == TC_PART_WAIT) {
            p->product = tc_part_of(s, p->op->in[0]);
            p->product->product = p;
        }
        find_uses(s, p);
        add_values(s, p);
    }
    for (unsigned i = 0; i < s->nparts; i++) {
        add_effects(s, s->parts[i]);
        find_nature(s, s->parts[i]);
    }
    return s;
}
