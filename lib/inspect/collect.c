/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec_inspect_json: compiles a kernel, keeps what each stage leaves, and
 * writes it as one JSON document.
 */
#include "lib/inspect/collect.h"

#include "lib/program/schedule.h"
#include "lib/program/timeline.h"
#include "passes/target/machine_model.h"

#include <stdlib.h>
#include <string.h>

/* ---- Passes ---- */

/* A pass of the pipeline. */
typedef struct pass_run {
    const char *name;
    bool changed;
    uint64_t ns;
    unsigned program; /* after it */
    unsigned nsaid;   /* diagnostics when it ended */
} pass_run;

enum { MOST_PASSES = 256 };
typedef struct watch {
    tc_collection *c;
    unsigned n;
    pass_run of[MOST_PASSES];
} watch;

static unsigned count_diags(const tc_context *cx)
{
    unsigned n = 0;
    for (const tc_diag *d = cx->diags; d; d = d->next)
        n++;
    return n;
}

static void on_pass(void *user, const tilec_pass_event *e)
{
    watch *w = user;
    tc_collection *c = w->c;
    if (!e->after || w->n == MOST_PASSES)
        return;
    pass_run *p = &w->of[w->n++];
    *p = (pass_run){.name = tc_string_get(c->job->cx, e->pass),
                    .changed = e->changed,
                    .ns = e->nanoseconds,
                    .nsaid = count_diags(c->job->cx)};
    p->program = e->changed ? tc_programs_add(&c->programs, c->job->module)
                            : c->programs.n - 1;
}

static const tc_pass_info *find_stage(const char *name,
                                      const tc_pass_info **pass)
{
    const tc_pass_info *stage = NULL;
    for (unsigned i = 0; i < tc_npass_infos; i++) {
        if (!*tc_pass_infos[i].name)
            stage = &tc_pass_infos[i];
        *pass = &tc_pass_infos[i];
        if (strcmp(tc_pass_infos[i].name, name) == 0)
            return stage;
    }
    return NULL;
}

static void write_passes(tc_collection *c, const watch *seen)
{
    tc_json_writer *w = &c->w;
    tc_json_open(w, "passes", '[');
    for (unsigned i = 0; i < seen->n; i++) {
        const pass_run *p = &seen->of[i];
        const tc_pass_info *info;
        const tc_pass_info *stage = find_stage(p->name, &info);
        tc_json_open(w, NULL, '{');
        tc_json_string(w, "name", p->name);
        tc_json_string(w, "stage", stage ? stage->summary : NULL);
        tc_json_string(w, "summary", stage ? info->summary : NULL);
        tc_json_bool(w, "changed", p->changed);
        tc_json_int(w, "us", (int64_t)(p->ns / 1000));
        tc_json_int(w, "program", p->program);
        tc_json_int(w, "said", p->nsaid);
        tc_json_close(w, '}');
    }
    tc_json_close(w, ']');
}

/* ---- What the document is about ---- */

static void write_target(tc_collection *c)
{
    const tc_target *t = c->target;
    tc_json_writer *w = &c->w;
    tc_json_open(w, "target", '{');
    tc_json_string(w, "name", t->name);
    tc_json_int(w, "shared_per_block", t->shared_per_block);
    tc_json_int(w, "registers_per_sm", t->registers_per_sm);
    tc_json_int(w, "max_registers", t->max_registers);
    tc_json_int(w, "multiprocessors", t->multiprocessors);
    tc_json_int(w, "products_per_cycle", t->products_per_cycle);
    tc_json_int(w, "special_per_cycle", t->special_per_cycle);
    tc_json_int(w, "memory_bytes_per_cycle", TC_MEMORY_BYTES_PER_CYCLE);
    tc_json_int(w, "l2_bytes_per_cycle", TC_L2_BYTES_PER_CYCLE);
    tc_json_close(w, '}');
}

static void write_bindings(tc_collection *c, const tc_bound *bound)
{
    tc_json_open(&c->w, "bindings", '[');
    for (unsigned i = 0; i < bound->nall; i++) {
        tc_json_open(&c->w, NULL, '{');
        tc_json_string(&c->w, "name", bound->all[i].name);
        tc_json_string(&c->w, "value", bound->all[i].value);
        tc_json_close(&c->w, '}');
    }
    tc_json_close(&c->w, ']');
}

static void write_resources(tc_collection *c)
{
    tc_json_writer *w = &c->w;
    const tc_assembled *a = &c->assembled;
    tc_json_open(w, "resources", '{');
    tc_json_int(w, "warps", c->f->warps);
    tc_json_int(w, "shared_bytes", c->f->shared_bytes);
    if (a->known) {
        tc_json_int(w, "registers", a->registers);
        tc_json_int(w, "spill_stores", a->spill_stores);
        tc_json_int(w, "spill_loads", a->spill_loads);
        tc_json_int(w, "stack", a->stack);
    }
    tc_json_close(w, '}');
}

static void write_sources(tc_collection *c, unsigned n)
{
    const tc_context *cx = c->job->cx;
    tc_json_open(&c->w, "sources", '[');
    for (unsigned i = 0; i < n; i++) {
        tc_json_open(&c->w, NULL, '{');
        tc_json_string(&c->w, "name", cx->sources[i].name);
        tc_json_stringn(&c->w, "text", cx->sources[i].text, cx->sources[i].len);
        tc_json_close(&c->w, '}');
    }
    tc_json_close(&c->w, ']');
}

/* ---- Diagnostics ---- */

static void write_diags(tc_json_writer *w, const char *name,
                        const tc_diag *list)
{
    static const char *const words[] = {"error", "warning", "remark", "note"};
    tc_json_open(w, name, '[');
    for (const tc_diag *d = list; d; d = d->next) {
        tc_json_open(w, NULL, '{');
        tc_json_string(w, "severity", words[d->severity]);
        tc_json_string(w, "message", d->message);
        tc_json_string(w, "pass", d->pass);
        tc_json_bool(w, "missed", d->missed);
        tc_json_int(w, "file", d->loc.file);
        tc_json_int(w, "line", d->loc.line);
        tc_json_int(w, "column", d->loc.col);
        tc_json_int(w, "end", d->loc.end);
        write_diags(w, "notes", d->notes);
        tc_json_close(w, '}');
    }
    tc_json_close(w, ']');
}

/* Those that the caller of the library has not asked for go again. */
static void drop_remarks(tc_context *cx)
{
    tc_diag **at = &cx->diags;
    cx->last_diag = NULL;
    while (*at) {
        if ((*at)->severity == TC_REMARK) {
            *at = (*at)->next;
        } else {
            cx->last_diag = *at;
            at = &(*at)->next;
        }
    }
}

/* ---- The document ---- */

static void begin_document(tc_json_writer *w, const char *status)
{
    tc_json_open(w, NULL, '{');
    tc_json_string(w, "schema", "tilec.inspect");
    tc_json_int(w, "version", TC_INSPECT_VERSION);
    tc_json_string(w, "tilec", tilec_version());
    tc_json_string(w, "status", status);
}

static bool write_document(tc_collection *c, const watch *seen,
                           const tc_bound *bound, unsigned nsources)
{
    tc_json_writer *w = &c->w;
    tc_text schedule = {.arena = c->arena}, timeline = schedule;
    begin_document(w, "ok");
    tc_json_string(w, "kernel", c->f->name);
    write_target(c);
    write_bindings(c, bound);
    write_sources(c, nsources);
    write_passes(c, seen);
    tc_inspect_tables(c);
    tc_inspect_values(c);
    tc_schedule_print(&schedule, c->f, c->target);
    tc_json_string(w, "schedule", schedule.data);
    tc_timeline_json(&timeline, c->f, c->target);
    tc_json_raw(w, "timeline", timeline.data);
    if (!tc_inspect_code(c))
        return false;
    write_resources(c);
    tc_inspect_findings(c);
    tc_inspect_layouts(c);
    tc_programs_write(&c->programs, w);
    write_diags(w, "diagnostics", c->job->cx->diags);
    tc_json_close(w, '}');
    return true;
}

static bool run_passes(tc_collection *c, watch *seen,
                       const tilec_compile_options *options,
                       const tc_bound *bound)
{
    tilec_compile_options o = *options;
    o.on_pass = on_pass;
    o.user = seen;
    o.print_before = o.print_after = NULL;
    tc_programs_add(&c->programs, c->job->module);
    return tc_job_passes(c->job, &o, c->target, c->f->name, bound, NULL);
}

bool tc_inspect_choose(tc_job *job, const tc_target **target, tc_func **f,
                       tc_bound *bound)
{
    tc_request *r = job->request;
    if (!tc_request_read(job) || !tc_request_configure(job) ||
        !tc_job_choose(job, &r->options, target, f, bound))
        return false;
    if (!tc_target_is_gpu(*target))
        return tc_job_error(job, TILEC_USAGE,
                            "%s has no shared memory to show: expected a GPU "
                            "target, such as sm_90a",
                            (*target)->name);
    if ((*f)->is_plan)
        return tc_job_error(job, TILEC_USAGE,
                            "@%s is a plan: name one of its kernels",
                            (*f)->name);
    return true;
}

static bool build(tc_job *job)
{
    tc_request *r = job->request;
    tc_arena *a = &job->cx->arena;
    tc_bound bound;
    tc_refusals refusals = {.arena = a};
    tc_text out = {.arena = a};
    tc_collection *c = tc_arena_new(a, tc_collection);
    watch *seen = tc_arena_new(a, watch);
    job->cx->want_remarks = true;
    if (!tc_inspect_choose(job, &c->target, &c->f, &bound))
        return false;
    const char *name = c->f->name;
    unsigned nsources = job->cx->nsources;
    c->job = job;
    c->arena = a;
    c->w.out = &out;
    seen->c = c;
    tc_programs_init(&c->programs, job->cx, a);
    job->refusals = &refusals;
    if (!run_passes(c, seen, &r->options, &bound))
        return false;
    c->f = tc_func_find(job->module, name);
    tc_programs_add(&c->programs, job->module);
    tc_pass_options none = {.target = c->target};
    c->env = (tc_pass_env){job->cx, a, &none, c->target};
    c->seen = tc_inspect(c->f, &c->env, &refusals);
    if (!write_document(c, seen, &bound, nsources))
        return false;
    if (!job->owner->remarks)
        drop_remarks(job->cx);
    r->report = strdup(out.data);
    return r->report || tc_job_error(job, TILEC_MACHINE, "out of memory");
}

/* ---- A program that is wrong ---- */

typedef struct failure {
    const tilec_context *owner;
    const tilec_source *sources;
    size_t nsources;
    tc_context *cx;
    char *text;
} failure;

static int64_t file_number(const failure *f, const char *name)
{
    for (size_t i = 0; name && i < f->nsources; i++)
        if (strcmp(f->sources[i].name, name) == 0)
            return (int64_t)i + 1;
    return 0;
}

static void write_said(const failure *f, tc_json_writer *w, const char *name,
                       const tilec_diagnostic *list)
{
    static const char *const words[] = {"error", "warning", "remark", "note"};
    tc_json_open(w, name, '[');
    for (const tilec_diagnostic *d = list; d; d = d->next) {
        tc_json_open(w, NULL, '{');
        tc_json_string(w, "severity", words[d->severity]);
        tc_json_string(w, "message", d->message);
        tc_json_string(w, "pass", d->pass);
        tc_json_bool(w, "missed", d->missed);
        tc_json_int(w, "file", file_number(f, d->file));
        tc_json_int(w, "line", d->line);
        tc_json_int(w, "column", d->column);
        tc_json_int(w, "end", d->end_column);
        write_said(f, w, "notes", d->notes);
        tc_json_close(w, '}');
    }
    tc_json_close(w, ']');
}

static void write_failure(void *arg)
{
    failure *f = arg;
    tc_text out = {.arena = &f->cx->arena};
    tc_json_writer w = {.out = &out};
    begin_document(&w, "wrong");
    tc_json_open(&w, "sources", '[');
    for (size_t i = 0; i < f->nsources; i++) {
        const tilec_source *s = &f->sources[i];
        const tc_embedded *e = s->text ? NULL : tc_embedded_find(s->name);
        const char *text = s->text ? s->text : e ? e->text : "";
        size_t n = s->text && s->length ? s->length : strlen(text);
        tc_json_open(&w, NULL, '{');
        tc_json_string(&w, "name", s->name);
        tc_json_stringn(&w, "text", text, n);
        tc_json_close(&w, '}');
    }
    tc_json_close(&w, ']');
    write_said(f, &w, "diagnostics", tilec_diagnostics(f->owner));
    tc_json_close(&w, '}');
    f->text = strdup(out.data);
}

static char *describe_failure(const tilec_context *owner,
                              const tilec_source *sources, size_t nsources)
{
    failure f = {owner, sources, nsources, tc_context_new(), NULL};
    bool ok = f.cx && tc_guard(&f.cx->memory, write_failure, &f);
    tc_context_free(f.cx);
    return ok ? f.text : NULL;
}

tilec_status tilec_inspect_json(tilec_context *cx, const tilec_source *sources,
                                size_t nsources,
                                const tilec_compile_options *options,
                                char **json)
{
    if (!cx || !json)
        return TILEC_USAGE;
    tilec_status s =
        tc_request_report(cx, sources, nsources, options, build, json);
    if (s == TILEC_INPUT)
        *json = describe_failure(cx, sources, nsources);
    return s;
}
