/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec_tuning_space: what tune(..) of a kernel says is worth trying.
 */
#include "lib/program/compile.h"

#include <string.h>

/* The options leave it open. */
static bool is_open(const tilec_compile_options *o, const char *name)
{
    for (size_t i = 0; i < o->nbindings; i++)
        if (strcmp(o->bindings[i].name, name) == 0)
            return false;
    if (!tc_is_tune_option(name))
        return true;
    bool given = (strcmp(name, "warps") == 0 && o->warps) ||
                 (strcmp(name, "stages") == 0 && o->stages) ||
                 (strcmp(name, "ptxas") == 0 && o->ptxas_level) ||
                 (strcmp(name, "tiles") == 0 && o->tiles);
    bool is_cpu = o->target && strcmp(o->target, "cpu") == 0;
    return !given && !is_cpu;
}

static void put_axis(tc_text *text, const tc_tune_axis *axis)
{
    for (unsigned i = 0; i < axis->n; i++)
        tc_text_printf(text, "%s%s%s", i ? "," : axis->name, i ? "" : "=",
                       axis->values[i]);
    tc_text_add(text, "\n");
}

static bool build_space(tc_job *job)
{
    tc_request *r = job->request;
    if (!tc_request_read(job) || !tc_module_verify(job->module))
        return false;
    const tc_func *f = tc_job_find(job, r->options.kernel);
    if (!f)
        return false;
    tc_text text = {.arena = &job->cx->arena};
    tc_text_add(&text, "");
    for (unsigned i = 0; i < f->ntune; i++)
        if (is_open(&r->options, f->tune[i].name))
            put_axis(&text, &f->tune[i]);
    r->report = strdup(text.data);
    return r->report || tc_job_error(job, TILEC_MACHINE, "out of memory");
}

tilec_status tilec_tuning_space(tilec_context *cx, const tilec_source *sources,
                                size_t nsources,
                                const tilec_compile_options *options,
                                char **text)
{
    return cx && text ? tc_request_report(cx, sources, nsources, options,
                                          build_space, text)
                      : TILEC_USAGE;
}
