/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of a compile: a context of its own, the unwind point, and its
 * diagnostics copied to its owner.
 */
#include "lib/program/compile.h"

#include "lib/gpu/gpu.h"
#include "lib/host/host_code.h"
#include "lib/program/plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- Diagnostics ---- */

static const char *copy_line(tc_arena *a, const tc_source *source,
                             uint32_t line)
{
    const char *p = source->text, *end = p + source->len;
    for (; line > 1 && p; line--) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    if (!p || line == 0)
        return NULL;
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    size_t n = (size_t)((stop ? stop : end) - p);
    char *s = tc_arena_alloc(a, n + 1);
    memcpy(s, p, n);
    return s;
}

static tilec_diagnostic *copy_diags(tc_arena *a, const tc_context *cx,
                                    const tc_diag *from)
{
    tilec_diagnostic *first = NULL, *last = NULL;
    for (; from; from = from->next) {
        tilec_diagnostic *d = tc_arena_new(a, tilec_diagnostic);
        d->size = sizeof *d;
        d->severity = (tilec_severity)from->severity;
        d->message = tc_arena_string(a, from->message);
        d->pass = tc_arena_string(a, from->pass);
        d->missed = from->missed;
        if (from->loc.file) {
            const tc_source *source = &cx->sources[from->loc.file - 1];
            d->file = tc_arena_string(a, source->name);
            d->line = from->loc.line;
            d->column = from->loc.col;
            d->end_column = from->loc.end;
            d->source = copy_line(a, source, d->line);
        }
        d->notes = copy_diags(a, cx, from->notes);
        if (last)
            last->next = d;
        else
            first = d;
        last = d;
    }
    return first;
}

static bool is_said(const tilec_diagnostic *list, const tilec_diagnostic *d)
{
    for (; list; list = list->next)
        if (list->severity == d->severity && list->line == d->line &&
            list->column == d->column && strcmp(list->message, d->message) == 0)
            return true;
    return false;
}

/* Kernels of a plan have their mods' warnings in common. */
static tilec_diagnostic *without_repeats(const tilec_diagnostic *said,
                                         tilec_diagnostic *own)
{
    tilec_diagnostic *first = own, *before = NULL;
    for (tilec_diagnostic *d = own; d;
         d = (tilec_diagnostic *)(uintptr_t)d->next) {
        bool repeats = d->severity == TILEC_WARNING && is_said(said, d);
        if (repeats && before)
            before->next = d->next;
        else if (repeats)
            first = (tilec_diagnostic *)(uintptr_t)d->next;
        else
            before = d;
    }
    return first;
}

static void publish(void *arg)
{
    tc_job *job = arg;
    tilec_context *owner = job->owner;
    tilec_diagnostic *own = copy_diags(&owner->arena, job->cx, job->cx->diags);
    own = without_repeats(owner->diags, own);
    tilec_diagnostic *last = owner->diags;
    owner->nerrors += job->cx->nerrors;
    while (last && last->next)
        last = (tilec_diagnostic *)(uintptr_t)last->next;
    if (last)
        last->next = own;
    else
        owner->diags = own;
}

/* ---- The job ---- */

static void drop_host(tc_job *job)
{
    tc_host_free(job->object);
    tc_code_unref(job->host ? &job->host->code : NULL);
    job->object = NULL;
    job->host = NULL;
}

static void job_build(void *arg)
{
    tc_job *job = arg;
    if (!job->build(job)) {
        drop_host(job);
        tc_gpu_free(job->gpu);
        job->gpu = NULL;
        tc_launch_plan_free(job->plan);
        job->plan = NULL;
        job->kernel = NULL;
        if (job->status == TILEC_OK)
            job->status = TILEC_INPUT;
    }
}

static void drop(tc_job *job)
{
    free(job->foreign);
    drop_host(job);
    tc_gpu_free(job->gpu);
    tc_launch_plan_free(job->plan);
    tc_module_free(job->trial);
    tc_module_free(job->module);
    tc_context_free(job->cx);
}

tilec_status tc_job_run(tc_job *job, tilec_kernel **out)
{
    tilec_context *owner = job->owner;
    if (!job->is_nested)
        tc_diagnostics_clear(owner);
    *out = NULL;
    job->cx = tc_context_new();
    if (!job->cx)
        return tc_diagnostics_oom(owner);
    job->cx->want_remarks = owner->remarks;
    job->cx->memory.fail_after = owner->memory.fail_after;
    bool ok = tc_guard(&job->cx->memory, job_build, job);
    owner->memory.fail_after = job->cx->memory.fail_after;
    ok = ok && tc_guard(&owner->memory, publish, job);
    if (ok && job->kernel) {
        job->kernel->workers = owner->workers;
        tc_host_pool_ref(owner->workers.pool);
        *out = job->kernel;
        return TILEC_OK;
    }
    drop(job);
    return ok ? job->status : tc_diagnostics_oom(owner);
}

bool tc_job_error(tc_job *job, tilec_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = tc_arena_vprintf(&job->cx->diag_arena, fmt, args);
    va_end(args);
    if (job->status == TILEC_OK)
        job->status = status;
    return tc_error(job->cx, (tc_loc){0}, "%s", text);
}

static bool refuse(tc_job *job)
{
    return tc_job_error(job, TILEC_USAGE, "%s", (const char *)job->request);
}

tilec_status tc_job_refuse(tilec_context *owner, const char *why,
                           tilec_kernel **out)
{
    tc_job job = {
        .owner = owner, .build = refuse, .request = (void *)(uintptr_t)why};
    return tc_job_run(&job, out);
}
