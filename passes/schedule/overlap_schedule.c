/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages: the iteration of the steady state in which each part runs.
 * (overlap_order.c places it within the iteration.)
 *
 * Two kinds of products may run on into the next step:
 *
 *   - One that needs another product of its step, and whose only result is a
 *     carried sum: nothing in its own step has to wait for it. It runs one
 *     iteration later, concurrently with the next step's other ops (`p v` of
 *     attention, during the exponentials). Ops on the carried sum go after its
 *     wait.
 *   - One that needs nothing but its buffers, and whose sum goes from step to
 *     step unread (a matrix product). It is awaited one iteration later, when
 *     the next one has been issued.
 *
 * Ops that depend on them (waits, the release of their buffers) are in stage 1,
 * too, and so are ops that only they need: the wait for their data. The order
 * of an iteration:
 *
 *     what reads the sum that the step before left, if it needs no product
 *     products that need no other of their step
 *     products of the step before
 *     all else, with waits where results are needed and products as soon as
 *       what they need is there
 *     waits for products of the step before
 *     what needs their sums
 *
 * If no product may run on, the first product of the next step can be issued at
 * the end of the iteration, during this step's last products (the scores of the
 * next keys in attention's backward pass): it is stage 0 with the ops that it
 * needs, all else is stage 1. Its sum is carried around the loop in flight, and
 * is awaited at the start of the next iteration before anything else is issued.
 */
#include "passes/schedule/overlap_mma.h"

#include "passes/analysis/loop_slots.h"

/* ---- Questions ---- */

/* Adds all parts that need a marked one. */
static void mark_forward(const tc_step *s, bool *marks)
{
    for (unsigned i = 0; i < s->nparts; i++)
        for (unsigned k = 0; k < s->parts[i]->nbefore; k++)
            marks[i] |= marks[s->parts[i]->before[k]->index];
}

/* ---- Products of the step before ---- */

struct later {
    tc_step *step;
    bool *marks; /* stage 1 */
    bool *late;
    const char *why;
};

static const char own_buffer[] = "the step fills its buffers itself";

static bool refuse(struct later *l, const char *why)
{
    l->why = why;
    return false;
}

static bool is_marked(const struct later *l, const tc_value *v)
{
    const tc_part *p = tc_part_of(l->step, v);
    return p && l->marks[p->index];
}

/* Is one of several products that add to each other's sum. */
static bool is_in_chain(const tc_step *s, const tc_part *p)
{
    tc_each_use (u, p->op->out[0])
        if (u->index == 2 && u->op->code == TC_MMA)
            return true;
    return tc_adds_to_product(s, p);
}

/* Are the buffers of the step's own products filled again while the rest of it
 * runs? They are released one after the other (overlap_order.c). Then a
 * product of the step before need not leave its only slot to the next one
 * sooner than at the end. */
static bool refills_early(const struct later *l)
{
    for (unsigned i = 0; i < l->step->nparts; i++) {
        const tc_part *p = l->step->parts[i];
        if (p->kind == TC_PART_PRODUCT && !l->marks[i] &&
            !is_in_chain(l->step, p))
            return false;
    }
    return true;
}

/* Do the marked parts have no results but the carried sums? */
static bool check_marked(struct later *l)
{
    for (unsigned i = 0; i < l->step->nparts; i++) {
        const tc_part *p = l->step->parts[i];
        if (!l->marks[i])
            continue;
        if (p->kind == TC_PART_PLAIN && p->effects)
            return refuse(l, "its result is needed within the step");
        if (p->kind == TC_PART_PRODUCT && is_marked(l, p->op->in[0]))
            return refuse(l, "another product of the step needs its result");
        if (p->kind == TC_PART_PRODUCT && tc_reads_own_buffer(l->step, p->op))
            return refuse(l, own_buffer);
        if (p->kind == TC_PART_RELEASE && p->op->in[0]->type->slots < 2 &&
            !refills_early(l))
            return refuse(l, "the ring of its buffers has one slot, and the "
                             "next step would need a second one");
    }
    return true;
}

/* The carried value i is given by a marked part. */
static bool is_sum(const struct later *l, unsigned i)
{
    return is_marked(l, tc_region_terminator(l->step->region)->in[i]);
}

static bool uses_sum(const struct later *l, const tc_part *p)
{
    for (unsigned i = 0; i < p->nuses; i++)
        if (!p->uses[i]->def && p->uses[i]->index &&
            is_sum(l, p->uses[i]->index - 1))
            return true;
    return false;
}

/* Finds the parts that use the sums of the previous step, other than in stage
 * 1. */
static void find_late(struct later *l)
{
    const tc_step *s = l->step;
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        l->late[i] = !l->marks[i] && uses_sum(l, p);
        for (unsigned k = 0; k < p->nbefore; k++)
            l->late[i] |= !l->marks[i] && l->late[p->before[k]->index];
    }
}

static bool is_late(const struct later *l, const tc_value *v)
{
    const tc_part *p = tc_part_of(l->step, v);
    return p && l->late[p->index];
}

/* These parts may only prepare the sums that marked products add to. */
static bool check_late(struct later *l)
{
    const tc_step *s = l->step;
    const tc_op *yield = tc_region_terminator(s->region);
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        if (l->late[i] && !tc_is_pure_part(p))
            return refuse(l, "the step has other uses for the sum so far");
        if (l->marks[i] && p->kind == TC_PART_PRODUCT &&
            (is_late(l, p->op->in[0]) || is_late(l, p->op->in[1])))
            return refuse(l, "its operands depend on the sum so far");
    }
    for (unsigned i = 0; i < yield->nin; i++) {
        bool passed = !yield->in[i]->def && yield->in[i]->region == s->region &&
                      yield->in[i]->index && is_sum(l, yield->in[i]->index - 1);
        if (passed || is_late(l, yield->in[i]))
            return refuse(l, "the step has other uses for the sum so far");
    }
    return true;
}

/* Moves product `p`, and all parts that need it, to stage 1, in addition to
 * those moved before. */
static bool move_product(struct later *l, const tc_part *p)
{
    tc_step *s = l->step;
    struct later now = {s, tc_arena_array(s->arena, bool, s->nparts),
                        tc_arena_array(s->arena, bool, s->nparts), NULL};
    for (unsigned i = 0; i < s->nparts; i++)
        now.marks[i] = l->marks[i];
    now.marks[p->index] = true;
    mark_forward(s, now.marks);
    bool ok = check_marked(&now);
    if (ok) {
        find_late(&now);
        ok = check_late(&now);
    }
    if (ok) {
        l->marks = now.marks;
        l->late = now.late;
    } else {
        l->why = now.why;
    }
    return ok;
}

/* Of products whose operand A is in registers ptxas lets one run with the
 * next step; with two it waits for each at once (C7513). */
static bool move_products(struct later *l)
{
    bool any = false, registers = false;
    for (unsigned i = 0; i < l->step->nparts; i++) {
        const tc_part *p = l->step->parts[i];
        if (p->kind != TC_PART_PRODUCT || l->marks[i] || tc_is_root(p) ||
            (registers && tc_takes_registers(p)) || !move_product(l, p))
            continue;
        any = true;
        registers |= tc_takes_registers(p);
    }
    return any;
}

/* ---- Sums that stay in flight ---- */

/* Only the waits and what they release move; none of it may be needed. */
static bool move_chain(struct later *l, unsigned slot)
{
    tc_step *s = l->step;
    tc_part *last = tc_last_of_chain(s, slot);
    bool *marks = tc_arena_array(s->arena, bool, s->nparts);
    if (!last)
        return false;
    for (tc_part *p = last; p; p = tc_part_of(s, p->op->in[2])) {
        if (l->marks[p->index])
            return false;
        if (tc_reads_own_buffer(s, p->op))
            return refuse(l, own_buffer);
        /* ptxas would give the next step's the same registers. */
        if (tc_takes_registers(p))
            return refuse(l, "its operand A is in registers, and the next "
                             "step's would be computed in the same ones");
        marks[p->product->index] = true;
    }
    mark_forward(s, marks);
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        if (marks[i] && p->kind == TC_PART_RELEASE &&
            p->op->in[0]->type->slots < 2)
            return refuse(l, "the ring of its buffers has one slot, and the "
                             "next step would need a second one");
        if (marks[i] && p->kind != TC_PART_WAIT && p->kind != TC_PART_RELEASE)
            return false;
    }
    for (unsigned i = 0; i < s->nparts; i++)
        l->marks[i] |= marks[i];
    tc_keep_in_flight(s, last, slot);
    return true;
}

/* ---- Stages ---- */

/* Only stage 1 needs the part, and it costs no registers to run it there. */
static bool follows(const tc_step *s, const tc_part *p)
{
    bool scalar =
        tc_is_pure_part(p) && !p->op->nregions && !tc_has_tiles(p->op);
    bool any = false;
    if (!scalar && p->kind != TC_PART_FULL)
        return false;
    for (unsigned i = 0; i < p->op->nout; i++)
        if (tc_region_yields(s->region, p->op->out[i]))
            return false;
    for (unsigned i = p->index + 1; i < s->nparts; i++)
        if (tc_comes_before(p, s->parts[i])) {
            any = true;
            if (s->parts[i]->stage == 0)
                return false;
        }
    return any;
}

static void set_stages(struct later *l)
{
    tc_step *s = l->step;
    for (unsigned i = 0; i < s->nparts; i++) {
        s->parts[i]->stage = l->marks[i];
        s->parts[i]->late = l->late[i];
    }
    for (unsigned i = s->nparts; i-- > 0;)
        if (s->parts[i]->stage == 0 && follows(s, s->parts[i]))
            s->parts[i]->stage = 1;
}

/* Is it operand A, in registers, of products of the next iteration only? */
static bool is_operand_of_next(const tc_step *s, const tc_part *p)
{
    if (p->stage != 0 || !tc_is_pure_part(p) || p->op->nout != 1)
        return false;
    tc_each_use (u, p->op->out[0]) {
        const tc_part *user = u->op->parent == s->region ? u->op->data : NULL;
        if (!user || user->stage != 1 || user->kind != TC_PART_PRODUCT ||
            u->index != 0)
            return false;
    }
    return p->op->out[0]->uses != NULL;
}

/* Counts products with sums of their own. */
static unsigned count_all_products(const tc_step *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        n += p->kind == TC_PART_PRODUCT && !tc_adds_to_product(s, p);
    }
    return n;
}

/* A product in flight reads operand A in registers. The next operand A is
 * computed after it has ended, in the same registers; otherwise ptxas, which
 * would use the same registers where such a loop is split, makes all products
 * wait for each other. With more products there are no registers for the
 * inputs. */
static void hold_back_operands(tc_step *s)
{
    for (unsigned i = 0; count_all_products(s) == 2 && i < s->nparts; i++)
        s->parts[i]->late |= is_operand_of_next(s, s->parts[i]);
}

/* ---- The whole ---- */

void tc_schedule_iteration(tc_step *s, bool hoist)
{
    tc_order_parts(s, hoist, NULL);
}

/* Why steps cannot overlap at all. */
const char *tc_why_apart(const tc_step *s)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        if (!(p->effects & TC_PART_OTHER))
            continue;
        if (p->op->nregions)
            return "a branch or loop in the step has products or waits of its "
                   "own";
        if (p->op->code == TC_BARRIER)
            return "threads meet in the step, as not all of its buffers are "
                   "read by products of warp groups";
        return "the step fills buffers itself";
    }
    return NULL;
}

/* Undoes the stages: the sums are yielded by their waits again. */
static void unset_stages(tc_step *s)
{
    for (unsigned i = 0; i < s->nparts; i++)
        s->parts[i]->stage = s->parts[i]->late = 0;
    tc_keep_none_in_flight(s);
}

bool tc_schedule_modulo(tc_step *s, const char **why)
{
    struct later l = {s, tc_arena_array(s->arena, bool, s->nparts),
                      tc_arena_array(s->arena, bool, s->nparts), NULL};
    *why = tc_why_apart(s);
    if (*why)
        return false;
    bool any = move_products(&l);
    for (unsigned k = 0; k < s->loop->nout; k++)
        any |= move_chain(&l, k);
    *why = l.why;
    if (!any)
        return false;
    set_stages(&l);
    *why = tc_why_no_room(s);
    if (*why) {
        unset_stages(s);
        return false;
    }
    hold_back_operands(s);
    tc_order_parts(s, true, NULL);
    return true;
}

/* ---- The next step's first product ---- */

/* Marks the parts that p needs in its step and those that give its carried
 * values. False: one of them neither waits for data nor is cheap. */
static bool mark_needed(const tc_step *s, tc_part *p, bool *marks)
{
    const tc_op *yield = tc_region_terminator(s->region);
    if (marks[p->index])
        return true;
    marks[p->index] = true;
    for (unsigned i = 0; i < p->nbefore; i++) {
        const tc_part *b = p->before[i];
        bool cheap =
            b->kind == TC_PART_FULL || b->constant ||
            (tc_is_pure_part(b) && !tc_has_tiles(b->op) && !b->op->nregions);
        if (!cheap || !mark_needed(s, p->before[i], marks))
            return false;
    }
    for (unsigned i = 0; i < p->nuses; i++) {
        const tc_value *v = p->uses[i];
        tc_part *next =
            v->def || !v->index ? NULL : tc_part_of(s, yield->in[v->index - 1]);
        if (next && (!tc_is_pure_part(next) || tc_has_tiles(next->op) ||
                     !mark_needed(s, next, marks)))
            return false;
    }
    return true;
}

static tc_part *first_product(const tc_step *s)
{
    for (unsigned i = 0; i < s->nparts; i++)
        if (s->parts[i]->kind == TC_PART_PRODUCT)
            return s->parts[i];
    return NULL;
}

/* Is there a product that depends on another one, and so can overlap the next
 * step's? */
static bool has_dependent(const tc_step *s)
{
    for (unsigned i = 0; i < s->nparts; i++)
        if (s->parts[i]->kind == TC_PART_PRODUCT && !tc_is_root(s->parts[i]))
            return true;
    return false;
}

static bool is_shallow(const tc_step *s, const tc_part *product)
{
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        for (unsigned k = 0; p->kind == TC_PART_RELEASE && k < p->nbefore; k++)
            if (p->before[k] == product->product &&
                p->op->in[0]->type->slots < 2)
                return true;
    }
    return false;
}

bool tc_schedule_prefetch(tc_step *s, const char **why)
{
    tc_part *first = first_product(s);
    bool *marks = tc_arena_array(s->arena, bool, s->nparts);
    const char *apart = tc_why_apart(s);
    *why = apart ? apart : *why;
    if (apart || !first || !tc_is_root(first) || !has_dependent(s) ||
        !first->product->op->out[0]->uses ||
        tc_reads_own_buffer(s, first->op) || is_shallow(s, first) ||
        !mark_needed(s, first, marks))
        return false;
    for (unsigned i = 0; i < s->nparts; i++)
        s->parts[i]->stage = !marks[i];
    tc_order_parts(s, true, first);
    tc_take_registers(s);
    return true;
}
