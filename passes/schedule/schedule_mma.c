/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule-mma: decides when wgmma and all other ops of a step run, and writes
 * it down: `stage(n) place(m)` of each op. overlap-mma obeys.
 *
 *   for %i = %lo to %hi carry(%acc0 = %z, ..) {
 *     mbarrier_wait %k.full, ..
 *     %s = mma %q, %k, %zero instr(m64k16)
 *     .. %p, %alpha from %s ..
 *     %a = mul %acc0, %alpha
 *     mbarrier_wait %v.full, ..
 *     %acc = mma %p, %v, %a instr(m64k16)
 *     yield %acc, ..
 *   }
 *
 * becomes
 *
 *   for %i = %lo to %hi carry(%acc0 = %z, ..) schedule(modulo) {
 *     mbarrier_wait %k.full, ..                          stage(0) place(0)
 *     %s0 = mma %q, %k, %zero instr(m64k16) async(true)  stage(0) place(1)
 *     %s = mma_wait %s0 pending(0)                       stage(0) place(4)
 *     .. %p, %alpha from %s ..                           stage(0) place(5) ..
 *     %a = mul %acc0, %alpha                             stage(0) place(9)
 *     mbarrier_wait %v.full, ..                          stage(1) place(2)
 *     %f = mma %p, %v, %a instr(m64k16) async(true)      stage(1) place(3)
 *     %acc = mma_wait %f pending(0)                      stage(1) place(8)
 *     yield %acc, ..
 *   }
 *
 * stage(1): an iteration of the loop runs the op for the step before. place:
 * the order within an iteration. Until overlap-mma the ops keep their order,
 * and the program computes the same without these attributes.
 *
 * If steps cannot overlap, the first product of a step is issued at the end of
 * the previous step, or else products are asynchronous within their step. If
 * the loop fills their buffers with copies of tensors, they stay as they are:
 * pipeline-loops turns such loads into asynchronous copies, which no product
 * may read late.
 *
 * overlap_schedule.c has the reasons; nothing here knows what is computed.
 *
 * `schedule(..)` of a loop requests one of these schedules (or `none`), and
 * states afterwards which one it got. Products that are asynchronous already
 * are left alone. Tests: test/ir/passes/schedule-mma, overlap-mma.
 */
#include "passes/schedule/overlap_mma.h"

#include "passes/analysis/effects.h"
#include "passes/instructions/mma.h"

#include <string.h>

static const char pass[] = "schedule-mma";

struct scheduler {
    tc_func *f;
    tc_pass_env *env;
    bool changed;
};

/* ---- Waits ---- */

/* Is v used only as the sum to which another asynchronous product of the region
 * adds? */
static bool only_added_to(const tc_value *v, tc_region *r)
{
    const tc_use *u = v->uses;
    return u && !u->next && u->index == 2 && u->op->parent == r &&
           tc_is_group_mma(u->op) && tc_may_run_on(r, u->op);
}

/* Adds a wait right after each product, which leaves the schedule as it was.
 * False: no product may run on. */
static bool make_async(struct scheduler *o, tc_region *r)
{
    bool any = false;
    tc_each_op_safe (op, r)
        if (tc_is_group_mma(op) && tc_may_run_on(r, op)) {
            tc_mma_issue(op, !only_added_to(op->out[0], r));
            any = true;
        }
    if (any)
        tc_forget_speculatable(r);
    o->changed |= any;
    return any;
}

/* ---- Loops ---- */

struct products {
    unsigned here, async; /* in the region itself; that are so already */
    unsigned inside;      /* in its branches (nested loops count their own) */
};

static struct products count(const tc_region *r)
{
    struct products n = {0};
    tc_each_op (op, r) {
        bool product = tc_is_group_mma(op);
        n.here += product;
        n.async +=
            (product && tc_op_int(op, "async")) || op->code == TC_MMA_WAIT;
        for (unsigned i = 0; op->code == TC_IF && i < op->nregions; i++) {
            struct products inner = count(op->regions[i]);
            n.inside += inner.here + inner.inside;
        }
    }
    return n;
}

static bool is_asked(const tc_op *loop, const char *schedule)
{
    return tc_op_is_word(loop, "schedule", schedule);
}

static void say_apart(struct scheduler *o, const tc_op *loop, const char *why)
{
    bool asked = is_asked(loop, "modulo") || is_asked(loop, "prefetch_mma");
    if (why)
        tc_missed(o->env->cx, loop->loc, pass,
                  "steps do not overlap, products run within theirs only: %s",
                  why);
    else if (asked)
        tc_missed(o->env->cx, loop->loc, pass,
                  "steps do not overlap although that is asked for: each "
                  "product's result is needed within its step");
}

static void say_done(struct scheduler *o, const tc_step *s, tc_loc loc)
{
    unsigned later = 0, flying = 0;
    for (unsigned i = 0; i < s->nparts; i++) {
        const tc_part *p = s->parts[i];
        later += p->kind == TC_PART_PRODUCT && p->stage == 1;
        flying += p->kind == TC_PART_WAIT && p->in_flight;
    }
    if (later)
        tc_remark(o->env->cx, loc, pass,
                  "steps overlap: %u product%s one step late, while the next "
                  "step computes",
                  later, later == 1 ? " runs" : "s run");
    if (flying)
        tc_remark(o->env->cx, loc, pass,
                  "steps overlap: %u sum%s in flight from step to step", flying,
                  flying == 1 ? " stays" : "s stay");
}

/* Constants have no place: each section of the loop has its own. */
static void write_down(tc_step *s)
{
    unsigned place = 0;
    for (unsigned i = 0; i < s->norder; i++) {
        const tc_part *p = s->order[i];
        if (tc_is_placed_first(p))
            continue;
        p->op->stage = p->stage;
        p->op->place = ++place;
    }
    tc_keep_none_in_flight(s);
}

/* Row math runs during a loop's last product, where the text leaves that open.
 * Turns are of products that run into the next step. */
static void settle(tc_op *loop, const char *schedule)
{
    tc_op_set_word(loop, "schedule", schedule);
    if (tc_op_is_word(loop, "epilogue", "auto") &&
        strcmp(schedule, "in_iteration") != 0)
        tc_op_set_word(loop, "epilogue", "overlap");
    if (strcmp(schedule, "modulo") != 0 &&
        !tc_op_is_word(loop, "pingpong", "auto"))
        tc_op_set_word(loop, "pingpong", "none");
}

/* Handles a loop whose own region has products. */
static void visit_products(struct scheduler *o, tc_op *loop)
{
    tc_region *r = loop->regions[0];
    const char *why = NULL;
    if (!make_async(o, r)) {
        tc_missed(o->env->cx, loop->loc, pass,
                  "products are waited for at once: their buffers are filled "
                  "in the loop by the threads that compute");
        return;
    }
    tc_step *s = tc_step_new(o->env, r);
    if (!is_asked(loop, "in_iteration")) {
        if (!is_asked(loop, "prefetch_mma") && tc_schedule_modulo(s, &why)) {
            say_done(o, s, loop->loc);
            settle(loop, "modulo");
            write_down(s);
            return;
        }
        if (!is_asked(loop, "modulo") && tc_schedule_prefetch(s, &why)) {
            tc_remark(o->env->cx, loop->loc, pass,
                      "steps overlap: the first product of a step is issued at "
                      "the end of the step before%s%s",
                      why ? ", no more: " : "", why ? why : "");
            settle(loop, "prefetch_mma");
            write_down(s);
            return;
        }
        say_apart(o, loop, why);
    }
    tc_schedule_iteration(s, true);
    settle(loop, "in_iteration");
    write_down(s);
}

static void visit_region(struct scheduler *o, tc_region *r, bool in_loop);

static void visit_for(struct scheduler *o, tc_op *loop)
{
    struct products n = count(loop->regions[0]);
    if (is_asked(loop, "none"))
        return;
    visit_region(o, loop->regions[0], true);
    if (n.here && !n.async)
        visit_products(o, loop);
    else if (n.inside)
        say_apart(o, loop, "they stand in a branch of the loop");
}

static void visit_op(struct scheduler *o, tc_op *op, bool in_loop)
{
    if (op->code == TC_FOR)
        visit_for(o, op);
    else
        for (unsigned i = 0; i < op->nregions; i++)
            visit_region(o, op->regions[i], in_loop || op->code == TC_WHILE);
}

/* Handles the products of the region itself; visit_for handles those of a
 * `for`. */
static void visit_region(struct scheduler *o, tc_region *r, bool in_loop)
{
    tc_each_op_safe (op, r)
        visit_op(o, op, in_loop);
    struct products n = count(r);
    if (!n.here || n.async || (r->op && r->op->code == TC_FOR))
        return;
    if (!make_async(o, r))
        return;
    tc_step *s = tc_step_new(o->env, r);
    tc_schedule_iteration(s, in_loop);
    write_down(s);
}

tc_change tc_pass_schedule_mma(tc_func *f, tc_pass_env *env)
{
    struct scheduler o = {f, env, false};
    tc_region_clear_data(f->body); /* tc_op_clone goes by it */
    visit_region(&o, f->body, false);
    return o.changed ? TC_CHANGED : TC_UNCHANGED;
}
