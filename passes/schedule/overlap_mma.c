/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap-mma: software pipelining of wgmma: builds what `stage(n) place(m)` of
 * the ops of a step say (schedule-mma writes them, or a person).
 *
 *   for %i = %lo to %hi carry(%acc0 = %z, ..) schedule(modulo) {
 *     mbarrier_wait %k.full, ..                          stage(0) place(0)
 *     %s0 = mma %q, %k, %zero instr(m64k16) async(true)  stage(0) place(1)
 *     ..
 *
 * becomes, with a step before the loop (prologue) and half a step after it
 * (epilogue),
 *
 *   for %i = %lo + .. to %hi carry(%p0, %a0, %vslot0, .. of the step before) {
 *     mbarrier_wait %k.full, %kslot, %kphase
 *     %s0 = mma %q, %k, %zero instr(m64k16) async(true)
 *     mbarrier_wait %v.full, %vslot0, %vphase0
 *     %f = mma %p0, %v, %a0 instr(m64k16) async(true)
 *     %s = mma_wait %s0 pending(1)
 *     mbarrier_arrive %k.empty, %kslot
 *     .. %p, %alpha from %s ..
 *     %acc0 = mma_wait %f pending(0)
 *     mbarrier_arrive %v.empty, %vslot0
 *     %a = mul %acc0, %alpha
 *     yield %p, %a, %vslot, ..
 *   }
 *
 * Ops of one place keep their order. A schedule that breaks a dependence is an
 * error, at the op that comes too early. `pending` is counted here. Tests:
 * test/ir/passes/overlap-mma, test/ir/schedule/places.test.
 */
#include "passes/schedule/overlap_mma.h"

#include <stdlib.h>
#include <string.h>

typedef struct obeyer {
    tc_context *cx;
    tc_step *s;
} obeyer;

bool tc_is_placed_first(const tc_part *p)
{
    return p->op->code == TC_CONST || p->op->code == TC_DIM;
}

/* ---- Contradictions ---- */

static bool refuse(const obeyer *o, const tc_part *p, const tc_part *other,
                   const char *expected, const char *why)
{
    tc_error(o->cx, p->op->loc, "%s: stage(%u) place(%u), expected %s: %s",
             tc_op_name(p->op), p->stage, p->op->place - 1, expected, why);
    if (other)
        tc_note(o->cx, other->op->loc, "%s: stage(%u) place(%u)",
                tc_op_name(other->op), other->stage,
                other->op->place ? other->op->place - 1 : 0);
    return false;
}

static bool is_before(const tc_part *a, const tc_part *b)
{
    return a->stage < b->stage || (a->stage == b->stage && a->place < b->place);
}

/* Of the step itself: what it needs has been before it. */
static bool check_needs(const obeyer *o, const tc_part *p)
{
    for (unsigned i = 0; i < p->nbefore; i++)
        if (!is_before(p->before[i], p))
            return refuse(o, p, p->before[i], "a later one",
                          "it needs an op that runs after it");
    return true;
}

/* What the step before hands on is there. */
static bool check_carried(const obeyer *o, const tc_part *p)
{
    const tc_op *yield = tc_region_terminator(o->s->region);
    for (unsigned i = 0; o->s->loop && p->stage == 0 && i < p->nuses; i++) {
        const tc_value *v = p->uses[i];
        const tc_part *from = v->def || !v->index
                                  ? NULL
                                  : tc_part_of(o->s, yield->in[v->index - 1]);
        if (from && from->stage == 1 && from->place > p->place)
            return refuse(o, p, from, "a later one",
                          "the step before computes its operand after it");
    }
    return true;
}

/* A later step may not pass the effects of an earlier one. */
static bool check_effects(const obeyer *o, const tc_part *p)
{
    for (unsigned i = 0; p->stage == 0 && i < o->s->norder; i++) {
        const tc_part *other = o->s->order[i];
        if (other->stage == 0)
            continue;
        if (tc_share_buffer(p, other) || tc_share_buffer(other, p))
            return refuse(o, p, other, "the stage of the other op",
                          "they use one buffer, which the next step fills");
        if (p->effects && other->effects && other->place > p->place)
            return refuse(o, p, other, "a later one",
                          "the step before has effects after it");
    }
    return true;
}

/* An arrival a step late needs a slot for the next step. */
static bool check_release(const obeyer *o, const tc_part *p)
{
    bool may_lack = p->kind == TC_PART_RELEASE && p->stage == 1 &&
                    p->op->in[0]->type->slots < 2;
    for (unsigned i = 0; may_lack && i < p->nbefore; i++) {
        const tc_part *wait = p->before[i];
        if (wait->kind == TC_PART_WAIT && wait->product->stage == 0)
            return refuse(o, p, wait->product, "stage(0)",
                          "the next step's product waits for the only slot");
    }
    return true;
}

/* Sums that the loop hands on without a wait between the steps: none else may
 * be handed on as it came. */
static bool check_yield(const obeyer *o)
{
    const tc_op *yield = tc_region_terminator(o->s->region);
    for (unsigned i = 0; o->s->loop && i < yield->nin; i++) {
        const tc_value *v = yield->in[i];
        if (v->def || v->region != o->s->region || !v->index)
            continue;
        const tc_part *from = tc_part_of(o->s, yield->in[v->index - 1]);
        if (from && from->stage == 1)
            return refuse(o, from, NULL, "stage(0)",
                          "the step hands the value before it on");
    }
    return true;
}

static bool check_loop(const obeyer *o)
{
    const tc_op *loop = o->s->loop;
    const tc_part *late = NULL;
    const char *word = loop ? tc_op_word(loop, "schedule") : "in_iteration";
    for (unsigned i = 0; i < o->s->norder; i++)
        if (o->s->order[i]->stage == 1)
            late = o->s->order[i];
    bool overlaps =
        strcmp(word, "modulo") == 0 || strcmp(word, "prefetch_mma") == 0;
    if (late && !overlaps)
        return refuse(o, late, NULL, "stage(0)",
                      "no `for` with schedule(modulo) is around it");
    if (!late && overlaps)
        return tc_error(o->cx, loop->loc,
                        "for: schedule(%s), but no op of the step has "
                        "stage(1): write schedule(in_iteration)",
                        word);
    const char *why = late ? tc_why_apart(o->s) : NULL;
    return !why || refuse(o, late, NULL, "stage(0)", why);
}

static bool check(const obeyer *o)
{
    bool ok = check_loop(o) && check_yield(o);
    for (unsigned i = 0; ok && i < o->s->norder; i++) {
        const tc_part *p = o->s->order[i];
        ok = check_needs(o, p) && check_carried(o, p) && check_effects(o, p) &&
             check_release(o, p);
    }
    return ok;
}

/* ---- The order that the text has ---- */

static int by_place(const void *a, const void *b)
{
    const tc_part *x = *(tc_part *const *)a, *y = *(tc_part *const *)b;
    unsigned i = x->op->place, k = y->op->place;
    if (i == k)
        return x->index < y->index ? -1 : x->index > y->index;
    return i < k ? -1 : 1;
}

static void find_in_flight(tc_step *s)
{
    for (unsigned k = 0; s->loop && k < s->loop->nout; k++) {
        tc_part *last = tc_last_of_chain(s, k);
        bool flies = last && last->product->stage == 1;
        for (tc_part *p = last; p && flies; p = tc_part_of(s, p->op->in[2]))
            flies = p->stage == 0;
        if (flies)
            tc_keep_in_flight(s, last, k);
    }
}

/* False: an op lacks a place. */
static bool read_places(const obeyer *o)
{
    tc_step *s = o->s;
    for (unsigned i = 0; i < s->nparts; i++)
        s->parts[i]->stage = s->parts[i]->op->stage;
    find_in_flight(s);
    for (unsigned i = 0; i < s->nparts; i++) {
        tc_part *p = s->parts[i];
        p->placed = true;
        if (p->op->place || tc_is_placed_first(p))
            s->order[s->norder++] = p;
        else if (!tc_is_idle(s, p))
            return tc_error(o->cx, p->op->loc,
                            "%s: no stage(..) place(..), expected one: other "
                            "ops of the step have theirs",
                            tc_op_name(p->op));
    }
    qsort(s->order, s->norder, sizeof(*s->order), by_place);
    for (unsigned i = 0; i < s->norder; i++)
        s->order[i]->place = i;
    return true;
}

/* ---- The pass ---- */

static bool is_scheduled(const tc_region *r)
{
    tc_each_op (op, r)
        if (op->place)
            return true;
    return false;
}

/* `inner`: the region is still there, with what its ops hold. */
static bool obey(tc_pass_env *env, tc_region *r, bool *inner)
{
    obeyer o = {env->cx, tc_step_new(env, r)};
    if (!read_places(&o) || !check(&o))
        return false;
    tc_count_waits(o.s);
    bool overlaps = false;
    for (unsigned i = 0; i < o.s->norder; i++)
        overlaps |= o.s->order[i]->stage == 1;
    *inner = !overlaps;
    if (overlaps)
        tc_expand_iterations(o.s);
    else
        tc_expand_step(o.s);
    return true;
}

/* A region before those of its ops: these move with the ops. */
static bool visit_region(tc_pass_env *env, tc_region *r, bool *changed)
{
    bool scheduled = is_scheduled(r), inner = true;
    *changed |= scheduled;
    if (scheduled && !obey(env, r, &inner))
        return false;
    if (!inner)
        return true;
    tc_each_op_safe (op, r)
        for (unsigned i = 0; i < op->nregions; i++)
            if (!visit_region(env, op->regions[i], changed))
                return false;
    return true;
}

tc_change tc_pass_overlap_mma(tc_func *f, tc_pass_env *env)
{
    bool changed = false;
    tc_region_clear_data(f->body); /* tc_op_clone goes by it */
    if (!visit_region(env, f->body, &changed))
        return TC_FAILED;
    return changed ? TC_CHANGED : TC_UNCHANGED;
}
