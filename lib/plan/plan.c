/* SPDX-License-Identifier: Apache-2.0
 *
 * From a plan's text to a tilec_kernel: the passes of the pipeline "plan" make
 * a kernel for each launch, the plan itself becomes a list of steps, and each
 * kernel is compiled as if it stood alone: found in the cache, with a variant
 * for tensors that are not aligned, and places in the text.
 */
#include "lib/program/plan.h"

#include <string.h>

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
static bool compile_kernel(tc_job *job, const tilec_compile_options *o,
                           const tc_target *target, const tc_plan_part *part,
                           const char *name, tilec_kernel **out)
{
    tc_source *linked =
        tc_arena_array(&job->cx->arena, tc_source, job->nparsed);
    for (unsigned s = 0; s < job->nparsed; s++)
        linked[s] = job->cx->sources[job->parsed[s] - 1];
    tilec_compile_options own = *o;
    own.size = sizeof own;
    own.kernel = name + 1;
    own.target = target->name;
    own.bindings = NULL;
    own.nbindings = 0;
    own.examples = NULL;
    own.nexamples = 0;
    tune(job, &own);
    tilec_status s =
        tc_part_compile(job->owner, linked, job->nparsed, &own, part, out);
    if (s != TILEC_OK && job->status == TILEC_OK)
        job->status = s;
    return s == TILEC_OK;
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
    const char *const *names;
    tc_plan_part part = {tc_arena_string(a, f->name), bound->ngiven,
                         bound->given, (tc_enforce)o->enforce};
    unsigned nown = f->body->nargs;
    if (!run_passes(job, o, target, part.plan, bound))
        return false;
    tc_func *plan = tc_func_find(job->module, part.plan);
    job->plan = tc_plan_steps(plan, a, &names);
    if (job->plan->nkernels == 0)
        return tc_error(job->cx, f->loc, "@%s launches no kernel", part.plan);
    tilec_kernel *k = tc_job_kernel(job, target, plan, bound, nown);
    k->plan = job->plan;
    for (unsigned i = 0; i < k->plan->nkernels; i++)
        if (!compile_kernel(job, o, target, &part, names[i],
                            &k->plan->kernels[i]))
            return false;
    tc_plan_find_written(k);
    job->kernel = k;
    return true;
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
