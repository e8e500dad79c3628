/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline-loops: loads that go to shared memory become asynchronous copies
 * that run ahead.
 *
 *   for %n0 = 0 to %n step 64 {
 *     %t = load block %k[%n0] : tile<64x128 x bf16, #blocked(..)>
 *     %s = smem_alloc : smem<64x128 x bf16, #swizzle128>
 *     smem_store %s, %t
 *     .. mma of %s ..
 *   }
 *
 * becomes, with three stages, a ring of three buffers, two of which are filled
 * while the third is used (expand.c shows the result). Loads outside of loops,
 * and in loops of one stage, become copies with a wait before their first use
 * (straight.c). classify.c decides which loads can be copied at all; the others
 * stay as they are, with a remark.
 *
 * Stages: the number that the options give, else the loop's `stages`, else 2 to
 * 4, as shared memory allows. The rings, all other buffers that are live at the
 * same time, and the scratch of conversions in the loop have to fit into a
 * block's shared memory; if they do not there are fewer stages. A loop that
 * holds copies already is left alone. Tests: test/ir/passes/pipeline-loops.
 */
#include "passes/pipeline/pipeline_loops.h"

#include "ir/types/layout.h"
#include "passes/analysis/effects.h"
#include "passes/target/machine_model.h"

static const char pass[] = "pipeline-loops";

/* ---- Remarks ---- */

static void say_refused(tc_pipeliner *p, const tc_staged *s, const char *why)
{
    tc_context *cx = p->env->cx;
    tc_refuse_load(p->env, pass, s->load, why);
    if (cx->want_remarks)
        tc_missed(cx, s->load->loc, pass, "load of %s not pipelined: %s",
                  tc_loaded_name(cx, s->load), why);
}

static void say_copied(tc_pipeliner *p, const tc_staged *s, unsigned stages)
{
    tc_context *cx = p->env->cx;
    if (!cx->want_remarks)
        return;
    if (stages > 1)
        tc_remark(cx, s->load->loc, pass,
                  "load of %s pipelined: %u steps ahead, %u bytes a copy, ring "
                  "of %u: %u bytes",
                  tc_loaded_name(cx, s->load), stages - 1, s->width, stages,
                  stages * s->bytes);
    else
        tc_remark(cx, s->load->loc, pass,
                  "load of %s copied asynchronously: %u bytes a copy, %u bytes",
                  tc_loaded_name(cx, s->load), s->width, s->bytes);
}

/* ---- The budget ---- */

/* Bytes that conversions and reductions in `r` may need when they go through
 * shared memory. */
static uint64_t scratch_bytes(tc_context *cx, const tc_region *r)
{
    uint64_t sum = 0;
    tc_each_op (op, r) {
        sum += tc_exchange_bytes(cx, op);
        for (unsigned i = 0; i < op->nregions; i++)
            if (!tc_op_combines(op))
                sum += scratch_bytes(cx, op->regions[i]);
    }
    return sum;
}

static bool is_copied(const tc_staged *list, const tc_op *alloc)
{
    for (const tc_staged *s = list; s; s = s->next)
        if (s->alloc == alloc)
            return true;
    return false;
}

/* Bytes of the buffers that are live while the loop runs, apart from its rings.
 * Copies that start before the loop count, as its prologue comes before their
 * first use. */
static uint64_t bytes_of_others(tc_pipeliner *p, const tc_schedule *s,
                                const tc_staged *around)
{
    tc_lifetimes all = tc_find_lifetimes(p->env->scratch, p->f, false);
    uint64_t sum = scratch_bytes(p->env->cx, s->loop->regions[0]);
    for (unsigned i = 0; i < all.n; i++) {
        const tc_lifetime *l = &all.of[i];
        if (!is_copied(s->copies, l->alloc) &&
            (tc_is_in_use_at(l, s->loop) || is_copied(around, l->alloc)))
            sum += l->bytes;
    }
    return sum;
}

static uint64_t slot_bytes(const tc_staged *list)
{
    uint64_t sum = 0;
    for (const tc_staged *s = list; s; s = s->next)
        sum += s->bytes;
    return sum;
}

/* Enough stages to hide the latency of loads. Two suffice if two blocks share a
 * multiprocessor: one computes while the other waits. */
static unsigned stages_by_budget(const tc_target *t, uint64_t others,
                                 uint64_t slots)
{
    uint64_t half = t->shared_per_sm / 2 > TC_BLOCK_RESERVE
                        ? t->shared_per_sm / 2 - TC_BLOCK_RESERVE
                        : tc_shared_limit(t);
    for (unsigned n = TC_MAX_STAGES; n >= TC_MIN_STAGES; n--)
        if (others + n * slots <= half)
            return n;
    return TC_STAGES_ALONE;
}

/* As many stages as were asked for, or fewer, if they do not fit. */
static unsigned choose_stages(tc_pipeliner *p, const tc_schedule *s,
                              const tc_staged *around)
{
    const tc_target *target = p->env->target;
    uint64_t limit = tc_shared_limit(target);
    uint64_t others = bytes_of_others(p, s, around);
    uint64_t slots = slot_bytes(s->copies);
    unsigned asked = p->env->options->stages
                         ? p->env->options->stages
                         : (unsigned)tc_op_int(s->loop, "stages");
    unsigned n = asked ? asked : stages_by_budget(target, others, slots);
    unsigned wanted = n;
    while (n > 1 && others + n * slots > limit)
        n--;
    if (n < wanted && (asked || n < 2))
        tc_missed(p->env->cx, s->loop->loc, pass,
                  "%u stages instead of %u: each takes %llu bytes of shared "
                  "memory, other buffers %llu, and a block of %s has %llu: "
                  "smaller tiles take less",
                  n, wanted, (unsigned long long)slots,
                  (unsigned long long)others, target->name,
                  (unsigned long long)limit);
    return n;
}

/* ---- Loops ---- */

static bool is_product(const tc_op *op)
{
    return op->code == TC_MMA;
}

static bool is_async(const tc_op *op)
{
    return op->code == TC_ASYNC_COPY || op->code == TC_ASYNC_COMMIT ||
           op->code == TC_ASYNC_WAIT;
}

/* Large tiles that matrix products of the loop may wait for, but that are no
 * buffers of theirs. */
static void say_in_registers(tc_pipeliner *p, const tc_region *body)
{
    static const char why[] =
        "its tile is computed with in registers, and only what goes to shared "
        "memory as it is can be copied ahead";
    tc_context *cx = p->env->cx;
    if ((!cx->want_remarks && !p->env->options->refusals) ||
        !tc_region_any(body, is_product))
        return;
    tc_each_op (op, body) {
        if (op->code != TC_LOAD || op->out[0]->type->kind != TC_TILE ||
            tc_type_count(op->out[0]->type) < TC_LOAD_MIN_ELEMENTS ||
            tc_is_staged(op))
            continue;
        tc_refuse_load(p->env, pass, op, why);
        tc_missed(cx, op->loc, pass, "load of %s not pipelined: %s",
                  tc_loaded_name(cx, op), why);
    }
}

/* The loads of the list that may run ahead in the loop. Says why others may
 * not. */
static tc_staged *choose_copies(tc_pipeliner *p, tc_op *loop, tc_staged *all)
{
    const char *nothing = tc_why_nothing_ahead(loop);
    tc_staged *first = NULL, **end = &first;
    for (tc_staged *s = all; s; s = s->next) {
        const char *why = s->refusal ? s->refusal : nothing;
        if (!why)
            why = tc_why_not_ahead(p, loop, s->load);
        if (why) {
            say_refused(p, s, why);
            continue;
        }
        *end = tc_arena_new(p->env->scratch, tc_staged);
        **end = *s;
        (*end)->next = NULL;
        end = &(*end)->next;
    }
    return first;
}

/* True: the loop now holds copies ahead. *expanded: where. */
static bool pipeline_loop(tc_pipeliner *p, tc_op *loop, const tc_staged *around,
                          tc_expanded *expanded)
{
    tc_region *body = loop->regions[loop->code == TC_WHILE];
    if (tc_region_any(body, tc_op_is_loop) || tc_region_any(body, is_async))
        return false;
    tc_staged *all = tc_find_staged(p, body);
    say_in_registers(p, body);
    tc_schedule s = {.loop = loop, .copies = choose_copies(p, loop, all)};
    if (!s.copies)
        return false;
    unsigned stages = choose_stages(p, &s, around);
    s.ahead = stages - 1;
    if (!tc_can_expand(p, &s)) {
        tc_missed(p->env->cx, loop->loc, pass,
                  "not pipelined: its step is too large, or its addresses "
                  "depend on too many loads");
        return false;
    }
    for (const tc_staged *c = s.copies; c; c = c->next)
        say_copied(p, c, stages);
    p->changed = true;
    tc_op_set_int(loop, "stages", stages);
    if (stages == 1) {
        tc_copy_in_step(p, &s);
        tc_place_waits(p, body);
        return false;
    }
    *expanded = tc_expand_loop(p, &s);
    return true;
}

/* ---- Regions ---- */

static void pipeline_loops_visit(tc_pipeliner *p, tc_region *r, bool ahead);

/* A loop of this region that was pipelined. */
struct done {
    tc_expanded loop;
    struct done *next;
};

static void visit_nested(tc_pipeliner *p, tc_region *r, bool ahead,
                         const tc_staged *around, struct done **done)
{
    tc_each_op_safe (op, r) {
        if (tc_op_combines(op))
            continue;
        tc_expanded e;
        bool here = tc_op_is_loop(op) && pipeline_loop(p, op, around, &e);
        tc_op *now = here ? e.loop : op;
        if (here) {
            *done = tc_arena_new(p->env->scratch, struct done);
            (*done)->loop = e;
            done = &(*done)->next;
        }
        for (unsigned i = 0; i < now->nregions; i++)
            pipeline_loops_visit(p, now->regions[i], ahead || here);
    }
}

/* Is the region the body of a loop that pipeline_loop has dealt with? */
static bool was_dealt_with(const tc_region *r)
{
    return r->op && tc_op_is_loop(r->op) && !tc_region_any(r, tc_op_is_loop);
}

/* Turns the loads of a region into copies at their own places. */
static void copy_straight(tc_pipeliner *p, const tc_region *r, tc_staged *all)
{
    for (tc_staged *s = all; s; s = s->next) {
        const char *why = s->refusal ? s->refusal : tc_why_not_in_place(s);
        if (!why) {
            say_copied(p, s, 1);
            tc_copy_in_place(p, s);
            p->changed = true;
        } else if (!was_dealt_with(r)) {
            say_refused(p, s, why);
        }
    }
}

/* ahead: copies of a loop around r are in flight, which a wait here would stop
 * for. */
static void pipeline_loops_visit(tc_pipeliner *p, tc_region *r, bool ahead)
{
    struct done *done = NULL;
    bool straight = !ahead && !tc_region_any(r, is_async);
    tc_staged *all = straight ? tc_find_staged(p, r) : NULL;
    if (ahead && !was_dealt_with(r))
        for (tc_staged *s = tc_find_staged(p, r); s; s = s->next)
            say_refused(p, s,
                        s->refusal ? s->refusal
                                   : "it happens under a condition in a loop "
                                     "whose copies run ahead");
    visit_nested(p, r, ahead, all, &done);
    copy_straight(p, r, all);
    for (; done; done = done->next)
        tc_raise_prologue(p, &done->loop);
    if (straight)
        tc_place_waits(p, r);
}

tc_change tc_pass_pipeline_loops(tc_func *f, tc_pass_env *env)
{
    tc_pipeliner p = {env, f, tc_axis_analyse(env->scratch, f, f->aligned),
                      false};
    pipeline_loops_visit(&p, f->body, false);
    return p.changed ? TC_CHANGED : TC_UNCHANGED;
}
