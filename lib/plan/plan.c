/* SPDX-License-Identifier: Apache-2.0
 *
 * From a plan's text to a tilec_kernel: the passes of the pipeline "plan" make
 * a kernel for each launch, the plan itself becomes a list of steps, and each
 * kernel is compiled as if it stood alone: found in the cache, with a variant
 * for tensors that are not aligned, and places in the text.
 */
#include "lib/program/plan.h"

#include "lib/gpu/gpu.h"

#include <string.h>

/* ---- Steps ---- */

struct maker {
    tc_job *job;
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

static void make_steps(struct maker *m, tc_func *f)
{
    unsigned n = count_ops(f->body);
    m->steps = tc_arena_array(m->arena, tc_plan_step, n);
    m->callees = tc_arena_array(m->arena, const char *, n + 1);
    m->plan->steps = m->steps;
    for (unsigned i = 0; i < f->body->nargs; i++)
        number(m, f->body->args[i]);
    add_region(m, f->body);
}

/* ---- Kernels ---- */

/* The name that a kernel has in the text: @k and its copies @k_1, @k_2, and
 * theirs, @k_1_1. */
static bool is_copy_of(const char *name, const char *from)
{
    size_t n = strlen(from);
    if (strncmp(name, from, n) != 0)
        return false;
    return name[n] == 0 ||
           (name[n] == '_' && name[n + 1] &&
            strspn(name + n, "_0123456789") == strlen(name + n));
}

static void tune(const tc_job *job, tilec_compile_options *o)
{
    for (unsigned i = 0; i < job->ntunings; i++) {
        const tc_plan_tuning *t = &job->tunings[i];
        if (!is_copy_of(o->kernel, t->kernel))
            continue;
        o->warps = o->warps ? o->warps : t->warps;
        o->stages = o->stages ? o->stages : t->stages;
        o->ptxas_level = o->ptxas_level ? o->ptxas_level : t->ptxas_level;
        o->tiles = o->tiles ? o->tiles : t->tiles;
    }
}

/* From the texts of the plan, as one of its kernels. */
static bool compile_kernel(struct maker *m, const tilec_compile_options *o,
                           const tc_target *target, const tc_plan_part *part,
                           unsigned i)
{
    tc_job *job = m->job;
    tilec_source *sources =
        tc_arena_array(m->arena, tilec_source, job->nparsed);
    for (unsigned s = 0; s < job->nparsed; s++) {
        const tc_source *from = &job->cx->sources[job->parsed[s] - 1];
        sources[s] = tilec_text(from->name, from->text, from->len);
    }
    tilec_compile_options own = *o;
    own.size = sizeof own;
    own.kernel = m->callees[i] + 1;
    own.target = target->name;
    own.bindings = NULL;
    own.nbindings = 0;
    own.examples = NULL;
    own.nexamples = 0;
    tune(job, &own);
    tilec_status s = tc_part_compile(job->owner, sources, job->nparsed, &own,
                                     part, &m->plan->kernels[i]);
    if (s != TILEC_OK && job->status == TILEC_OK)
        job->status = s;
    return s == TILEC_OK;
}

static bool compile_kernels(struct maker *m, const tilec_compile_options *o,
                            const tc_target *target, const tc_plan_part *part)
{
    m->plan->kernels =
        tc_arena_array(m->arena, tilec_kernel *, m->plan->nkernels);
    for (unsigned i = 0; i < m->plan->nkernels; i++)
        if (!compile_kernel(m, o, target, part, i))
            return false;
    return true;
}

/* The plan writes what its kernels write, and what it fills. */
static void find_written(const tilec_kernel *k, const tc_launch_plan *plan)
{
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

/* ---- All of it ---- */

static bool run_passes(tc_job *job, const tilec_compile_options *o,
                       const tc_target *target, const char *name,
                       const tc_bound *bound)
{
    tilec_compile_options own = *o;
    own.pipeline = "plan";
    return tc_job_passes(job, &own, target, name, bound, NULL);
}

bool tc_launch_plan_finish(tc_job *job, const tilec_compile_options *o,
                           const tc_target *target, const tc_func *f,
                           const tc_bound *bound)
{
    tc_arena *a = &job->cx->arena;
    struct maker m = {.job = job, .arena = a};
    tc_plan_part part = {tc_arena_string(a, f->name), bound->ngiven,
                         bound->given, (tc_enforce)o->enforce};
    unsigned nown = f->body->nargs;
    if (!run_passes(job, o, target, part.plan, bound))
        return false;
    tc_func *plan = tc_func_find(job->module, part.plan);
    m.plan = job->plan = tc_arena_new(a, tc_launch_plan);
    make_steps(&m, plan);
    if (m.plan->nkernels == 0)
        return tc_error(job->cx, f->loc, "@%s launches no kernel", part.plan);
    tilec_kernel *k = tc_job_kernel(job, target, plan, bound, nown);
    k->plan = m.plan;
    if (!compile_kernels(&m, o, target, &part))
        return false;
    find_written(k, m.plan);
    job->kernel = k;
    return true;
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

bool tc_part_isolate(tc_job *job, const tc_plan_part *part,
                     const tilec_compile_options *own)
{
    const char *name = own->target ? own->target : job->owner->target;
    tc_pass_options o = {.kernel = part->plan,
                         .bindings = part->bindings,
                         .nbindings = part->nbindings,
                         .target = tc_target_find(job->owner, name),
                         .enforce = part->enforce};
    /* It was said when the plan was made. */
    bool remarks = job->cx->want_remarks;
    job->cx->want_remarks = false;
    bool ok = tc_run_pipeline(job->module, "plan", &o);
    job->cx->want_remarks = remarks;
    if (!ok)
        return false;
    for (tc_func *f = job->module->first, *next; f; f = next) {
        next = f->next;
        if (f->is_plan || (f->is_kernel && strcmp(f->name, own->kernel) != 0))
            tc_func_erase(f);
    }
    return true;
}

const tilec_kernel *tilec_kernel_part(const tilec_kernel *k, size_t index)
{
    return k && k->plan && index < k->plan->nkernels ? k->plan->kernels[index]
                                                     : NULL;
}
