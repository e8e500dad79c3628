/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan after its passes as a list of steps for the host, and its kernels'
 * names.
 */
#include "lib/program/plan.h"

#include <string.h>

struct maker {
    tc_arena *arena;
    tc_launch_plan *plan;
    tc_plan_step *steps;
    const char **callees; /* of plan->kernels */
};

static void number(struct maker *m, tc_value *v)
{
    v->data = (void *)(uintptr_t)m->plan->nvalues++;
}

static unsigned number_of(const tc_value *v)
{
    return (unsigned)(uintptr_t)v->data;
}

static unsigned count_ops(const tc_region *r)
{
    unsigned n = 0;
    tc_each_op (op, r) {
        n += 2; /* a goto after the first region of an `if` */
        for (unsigned i = 0; i < op->nregions; i++)
            n += count_ops(op->regions[i]);
    }
    return n;
}

/* Of plan->kernels, by name. */
static unsigned kernel_index(struct maker *m, const tc_op *launch)
{
    const char *callee = tc_op_word(launch, "callee");
    unsigned i = 0;
    while (i < m->plan->nkernels && m->callees[i] != callee)
        i++;
    m->callees[i] = callee;
    if (i == m->plan->nkernels)
        m->plan->nkernels++;
    return i;
}

static tc_step_kind kind_of(const tc_op *op)
{
    switch (op->code) {
    case TC_ASSERT: return TC_STEP_ASSERT;
    case TC_WORKSPACE: return TC_STEP_WORKSPACE;
    case TC_FILL: return TC_STEP_FILL;
    case TC_LAUNCH: return TC_STEP_LAUNCH;
    case TC_IF: return TC_STEP_UNLESS;
    default: return TC_STEP_SCALAR;
    }
}

static tc_plan_step *add_step(struct maker *m, tc_step_kind kind,
                              const tc_op *op)
{
    tc_plan_step *s = &m->steps[m->plan->nsteps++];
    unsigned *in = tc_arena_array(m->arena, unsigned, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = number_of(op->in[i]);
    *s = (tc_plan_step){.kind = kind, .op = op, .in = in};
    return s;
}

static void add_region(struct maker *m, tc_region *r);

static void add_if(struct maker *m, tc_op *op)
{
    tc_plan_step *unless = add_step(m, TC_STEP_UNLESS, op);
    add_region(m, op->regions[0]);
    tc_plan_step *over = add_step(m, TC_STEP_GOTO, op);
    unless->index = m->plan->nsteps;
    add_region(m, op->regions[1]);
    over->index = m->plan->nsteps;
}

static void add_op(struct maker *m, tc_op *op)
{
    if (op->code == TC_IF) {
        add_if(m, op);
        return;
    }
    tc_plan_step *s = add_step(m, kind_of(op), op);
    if (op->nout) {
        number(m, op->out[0]);
        s->out = number_of(op->out[0]);
    }
    if (s->kind == TC_STEP_WORKSPACE)
        s->index = m->plan->npieces++;
    if (s->kind == TC_STEP_LAUNCH)
        s->index = kernel_index(m, op);
    if (op->nin > m->plan->most_args)
        m->plan->most_args = op->nin;
}

static void add_region(struct maker *m, tc_region *r)
{
    tc_each_op (op, r)
        if (!tc_op_has(op, TC_TERMINATOR))
            add_op(m, op);
}

tc_launch_plan *tc_plan_steps(tc_func *f, tc_arena *a,
                              const char *const **names)
{
    unsigned n = count_ops(f->body);
    struct maker m = {.arena = a, .plan = tc_arena_new(a, tc_launch_plan)};
    m.steps = tc_arena_array(a, tc_plan_step, n);
    m.callees = tc_arena_array(a, const char *, n + 1);
    m.plan->steps = m.steps;
    for (unsigned i = 0; i < f->body->nargs; i++)
        number(&m, f->body->args[i]);
    add_region(&m, f->body);
    m.plan->kernels = tc_arena_array(a, tilec_kernel *, m.plan->nkernels);
    *names = m.callees;
    return m.plan;
}

void tc_plan_find_written(const tilec_kernel *k)
{
    const tc_launch_plan *plan = k->plan;
    for (unsigned i = 0; i < plan->nsteps; i++) {
        const tc_plan_step *s = &plan->steps[i];
        for (unsigned a = 0; a < s->op->nin; a++) {
            unsigned at = s->in[a];
            if (at >= k->nparams)
                continue;
            if (s->kind == TC_STEP_FILL ||
                (s->kind == TC_STEP_LAUNCH &&
                 plan->kernels[s->index]->params[a].info.written))
                k->params[at].info.written = 1;
        }
    }
}

void tc_launch_plan_free(tc_launch_plan *plan)
{
    if (plan)
        tc_plan_forget(plan);
    for (unsigned i = 0; plan && plan->kernels && i < plan->nkernels; i++) {
        tilec_kernel_free(plan->kernels[i]);
        plan->kernels[i] = NULL;
    }
}

const tilec_kernel *tilec_kernel_part(const tilec_kernel *k, size_t index)
{
    return k && k->plan && index < k->plan->nkernels ? k->plan->kernels[index]
                                                     : NULL;
}
