/* SPDX-License-Identifier: Apache-2.0
 *
 * From texts to a kernel: link, parse, verify, bind, passes, code.
 */
#include "lib/program/compile.h"

#include "lib/gpu/gpu.h"
#include "lib/host/host_code.h"
#include "lib/program/imports.h"
#include "lib/program/plan.h"
#include "passes/bind/fold_grid.h"
#include "passes/persistent/split_k.h"
#include "passes/target/machine_model.h"

#include <stdlib.h>
#include <string.h>

/* ---- Texts ---- */

static bool embedded_source(tc_job *job, const char *name, tc_source *to)
{
    const tc_embedded *e = tc_embedded_find(name);
    if (e) {
        *to = (tc_source){.name = e->file, .text = e->text, .len = e->len};
        return true;
    }
    const char *names[64];
    size_t n = 0;
    while (n < 64 && tilec_embedded_name(n)) {
        names[n] = tilec_embedded_name(n);
        n++;
    }
    const char *near = tc_nearest_name(name, names, n);
    return tc_job_error(
        job, TILEC_USAGE, "there is no embedded text `%s`%s%s%s", name,
        near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
}

bool tc_job_source(tc_job *job, const tilec_source *from, tc_source *to)
{
    if (!from->name)
        return tc_job_error(job, TILEC_USAGE, "a source has no name");
    if (!from->text)
        return embedded_source(job, from->name, to);
    size_t n = from->length ? from->length : strlen(from->text);
    *to = (tc_source){.name = from->name, .text = from->text, .len = n};
    return true;
}

bool tc_job_parse(tc_job *job, const tc_source *sources, unsigned n)
{
    if (!job->module)
        job->module = tc_module_new(job->cx);
    uint32_t *parsed =
        tc_arena_array(&job->cx->arena, uint32_t, job->nparsed + n);
    if (job->nparsed)
        memcpy(parsed, job->parsed, job->nparsed * sizeof *parsed);
    job->parsed = parsed;
    bool ok = true;
    for (unsigned i = 0; i < n; i++) {
        uint32_t source = tc_source_add(job->cx, sources[i].name,
                                        sources[i].text, sources[i].len);
        tc_source_alias(job->cx, source, &sources[i]);
        parsed[job->nparsed++] = source;
        ok &= tc_parse(job->module, source);
    }
    return ok;
}

static bool parse_again(tc_job *job)
{
    for (unsigned i = 0; i < job->nparsed; i++)
        if (!tc_parse(job->trial, job->parsed[i]))
            return false;
    return tc_module_verify(job->trial);
}

bool tc_job_probe(tc_job *job, bool (*f)(tc_job *job, void *data), void *data)
{
    tc_context *cx = job->cx;
    tc_diag *last = cx->last_diag;
    unsigned nerrors = cx->nerrors;
    job->trial = tc_module_new(cx);
    bool ok = f(job, data);
    tc_module_free(job->trial);
    job->trial = NULL;
    cx->nerrors = nerrors;
    cx->last_diag = last;
    if (last)
        last->next = NULL;
    else
        cx->diags = NULL;
    return ok;
}

typedef struct attempt {
    bool (*f)(tc_job *job, void *data);
    void *data;
} attempt;

static bool try_parsed(tc_job *job, void *data)
{
    const attempt *a = data;
    return parse_again(job) && a->f(job, a->data);
}

bool tc_job_try(tc_job *job, bool (*f)(tc_job *job, void *data), void *data)
{
    bool remarks = job->cx->want_remarks;
    job->cx->want_remarks = true;
    bool ok = tc_job_probe(job, try_parsed, &(attempt){f, data});
    job->cx->want_remarks = remarks;
    return ok;
}

/* ---- The kernel among the functions ---- */

static bool unknown_kernel(tc_job *job, const char *name)
{
    tc_arena *a = &job->cx->diag_arena;
    tc_text list = {.arena = a};
    tc_text_add(&list, "");
    const char **names = NULL;
    unsigned n = 0;
    tc_each_func (f, job->module)
        n += f->is_kernel || f->is_plan;
    names = tc_arena_array(a, const char *, n);
    n = 0;
    tc_each_func (f, job->module)
        if (f->is_kernel || f->is_plan) {
            tc_text_printf(&list, "%s@%s", n ? ", " : "", f->name);
            names[n++] = f->name;
        }
    if (n == 0)
        return tc_job_error(job, TILEC_INPUT, "there is no kernel in the text");
    if (!name)
        return tc_job_error(job, TILEC_USAGE,
                            "there are several kernels, name one: %s",
                            list.data);
    const char *near = tc_nearest_name(name, names, n);
    return near ? tc_job_error(job, TILEC_USAGE,
                               "there is no kernel @%s; did you mean @%s?",
                               name, near)
                : tc_job_error(job, TILEC_USAGE,
                               "there is no kernel @%s, only %s", name,
                               list.data);
}

tc_func *tc_job_find(tc_job *job, const char *name)
{
    tc_func *found = NULL;
    unsigned n = 0;
    bool has_plan = false;
    tc_each_func (f, job->module)
        has_plan |= f->is_plan;
    tc_each_func (f, job->module)
        if ((f->is_plan || (f->is_kernel && (name || !has_plan))) &&
            (!name || strcmp(f->name, name) == 0)) {
            found = f;
            n++;
        }
    if (n == 1)
        return found;
    unknown_kernel(job, name);
    return NULL;
}

/* ---- Passes and code ---- */

/* From these on a program is that of one target. */
static const char machine[] = "persist-tiles,assign-layouts";

struct watch {
    const tilec_compile_options *options;
    tc_arena *arena;
    const char *program; /* the text before the first of `machine` */
};

/* The caller's list has it, or it is only wanted here. */
static bool is_asked_for(const char *list, const char *pass)
{
    size_t n = strlen(pass);
    for (const char *s = list; s && *s; s += strspn(s, ", ")) {
        size_t len = strcspn(s, ", ");
        if ((len == n && memcmp(s, pass, n) == 0) || strcmp(s, "all") == 0)
            return true;
        s += len;
    }
    return false;
}

static void on_event(void *user, const tc_pass_event *e)
{
    struct watch *w = user;
    const tilec_compile_options *o = w->options;
    tilec_pass_event event = {.size = sizeof event,
                              .pass = e->pass,
                              .index = e->index,
                              .after = e->after,
                              .changed = e->change == TC_CHANGED,
                              .text = e->text,
                              .nanoseconds = e->ns,
                              .verify_nanoseconds = e->verify_ns};
    if (!e->after && e->text && is_asked_for(machine, e->pass)) {
        w->program =
            w->program ? w->program : tc_arena_string(w->arena, e->text);
        if (!is_asked_for(o->print_before, e->pass))
            event.text = NULL;
    }
    if (o->on_pass)
        o->on_pass(o->user, &event);
}

/* Names of passes are of the call. */
static bool check_names(tc_job *job, const char *list)
{
    if (!list || is_asked_for(list, "all") || tc_check_pipeline(job->cx, list))
        return true;
    job->status = TILEC_USAGE;
    return false;
}

/* A pipeline of the caller's may have left that out. */
static bool is_bound(tc_job *job, const char *kernel)
{
    const tc_func *f = tc_func_find(job->module, kernel);
    if (f && f->is_kernel && !tc_grid_is_folded(f))
        return tc_job_error(job, TILEC_USAGE,
                            "pipeline: @%s has more than three grid axes: "
                            "expected `inline` in it",
                            kernel);
    return (f && f->nparams == 0) ||
           tc_job_error(job, TILEC_USAGE,
                        "pipeline: @%s is still to be bound: expected "
                        "`bind-params` in it",
                        kernel);
}

bool tc_job_passes(tc_job *job, const tilec_compile_options *o,
                   const tc_target *target, const char *kernel,
                   const tc_bound *bound, const char **tile)
{
    tc_arena *a = &job->cx->arena;
    struct watch watch = {.options = o, .arena = a};
    const char *before = o->print_before;
    if (!check_names(job, o->print_before) || !check_names(job, o->print_after))
        return false;
    if (tile)
        before =
            before ? tc_arena_printf(a, "%s,%s", before, machine) : machine;
    tc_pass_options p = {.kernel = kernel,
                         .bindings = bound->given,
                         .nbindings = bound->ngiven,
                         .target = target,
                         .warps = o->warps,
                         .stages = o->stages,
                         .ptxas_level = o->ptxas_level,
                         .precision = o->float32_precision,
                         .tiles = (tc_tiles)o->tiles,
                         .enforce = (tc_enforce)o->enforce,
                         .any_alignment = job->any_alignment,
                         .any_sizes = job->any_sizes,
                         .refusals = job->refusals,
                         .verify_each = o->verify_each,
                         .print_before = before,
                         .print_after = o->print_after,
                         .on_event = o->on_pass || tile ? on_event : NULL,
                         .user = &watch,
                         .reproducer_dir = o->reproducer_dir};
    bool ok =
        tc_run_pipeline(job->module,
                        o->pipeline ? o->pipeline : target->pipeline, &p) &&
        is_bound(job, kernel);
    if (tile)
        *tile = watch.program ? watch.program : "";
    return ok;
}

tilec_kernel *tc_job_kernel(tc_job *job, const tc_target *target, tc_func *f,
                            const tc_bound *bound, unsigned nown)
{
    return tc_kernel_new(job->module, target, f, bound->nall, bound->all, nown);
}

bool tc_job_choose(tc_job *job, const tilec_compile_options *o,
                   const tc_target **target, tc_func **f, tc_bound *bound)
{
    const char *name = o->target ? o->target : job->owner->target;
    *target = tc_target_find(job->owner, name);
    if (!*target)
        return tc_job_error(job, TILEC_USAGE,
                            "there is no target `%s`, expected auto or one of "
                            "%s",
                            name, tc_target_names(&job->cx->diag_arena));
    job->cx->machine_sms = tc_machine(*target)->multiprocessors;
    *f = tc_job_find(job, o->kernel);
    return *f && tc_bind(job, *f, o, bound);
}

bool tc_job_finish(tc_job *job, const tilec_compile_options *o)
{
    const tc_target *target;
    tc_func *f;
    tc_bound bound;
    if (!tc_job_choose(job, o, &target, &f, &bound))
        return false;
    bool is_plan = f->is_plan || tc_splits(f, bound.given, bound.ngiven);
    bool ok = is_plan ? tc_launch_plan_finish(job, o, target, f, &bound)
              : tc_target_is_gpu(target)
                  ? tc_gpu_finish(job, o, target, f, &bound)
                  : tc_host_finish(job, o, target, f, &bound);
    if (ok)
        pthread_mutex_init(&job->kernel->lock, NULL);
    return ok;
}

/* ---- tilec_compile ---- */

/* Bindings that name a file are of the job from here on, without it. */
static bool read_imports(tc_job *job, tc_texts *texts, tc_wanted *functions)
{
    tilec_compile_options *o = &((tc_request *)job->request)->options;
    tc_reader reader = {o->read_source, o->user};
    tilec_binding *own =
        tc_arena_array(&job->cx->arena, tilec_binding, o->nbindings);
    if (o->nbindings)
        memcpy(own, o->bindings, o->nbindings * sizeof *own);
    o->bindings = own;
    bool ok = true;
    for (size_t i = 0; i < o->nbindings; i++)
        ok &= tc_texts_bind(job, &reader, texts, &own[i], &functions[i]);
    return ok && tc_texts_import(job, &reader, texts);
}

/* Bindings are by the names of the module. */
static void name_functions(tc_job *job, const tc_wanted *functions)
{
    tilec_compile_options *o = &((tc_request *)job->request)->options;
    tilec_binding *own = (tilec_binding *)o->bindings;
    for (size_t i = 0; i < o->nbindings; i++)
        if (strcmp(own[i].value + (own[i].value[0] == '@'),
                   functions[i].name) != 0)
            own[i].value =
                tc_arena_printf(&job->cx->arena, "@%s", functions[i].name);
}

bool tc_request_read(tc_job *job)
{
    const tc_request *r = job->request;
    tc_arena *a = &job->cx->arena;
    unsigned n = (unsigned)r->nsources, nmods;
    if (r->linked)
        return tc_job_parse(job, r->linked, n);
    tc_source *sources = tc_arena_array(a, tc_source, n);
    for (unsigned i = 0; i < n; i++)
        if (!tc_job_source(job, &r->sources[i], &sources[i]))
            return false;
    tc_texts texts = tc_texts_new(a, sources, n);
    tc_wanted *functions = tc_arena_array(a, tc_wanted, r->options.nbindings);
    if (!read_imports(job, &texts, functions))
        return false;
    tc_source *mods = tc_link(job->cx, &texts, functions,
                              (unsigned)r->options.nbindings, &nmods);
    name_functions(job, functions);
    return mods && tc_job_parse(job, mods, nmods) &&
           tc_job_parse(job, sources, n);
}

static bool build_request(tc_job *job)
{
    const tc_request *r = job->request;
    job->part = r->part;
    return tc_request_read(job) && tc_request_configure(job) &&
           (!r->part || tc_part_isolate(job, r->part, &r->options)) &&
           tc_job_finish(job, &r->options);
}

static const char *wrong_options(const tilec_compile_options *o)
{
    if (o->nbindings && !o->bindings)
        return "tilec_compile: bindings is NULL";
    if (o->nexamples && !o->examples)
        return "tilec_compile: examples is NULL";
    if (!tc_arguments_fit(o->examples, o->nexamples))
        return "tilec_compile: an example has a wrong size: use tilec_tensor, "
               "tilec_int or tilec_float";
    for (size_t i = 0; i < o->nbindings; i++)
        if (!o->bindings[i].name || !o->bindings[i].value)
            return "tilec_compile: a binding has no name or no value";
    if (o->float32_precision && !tc_is_precision(o->float32_precision))
        return "tilec_compile: float32_precision is none of ieee, tf32, tf32x3";
    if ((unsigned)o->enforce >= TC_ENFORCE_COUNT)
        return "tilec_compile: enforce is none of tilec_enforce";
    if ((unsigned)o->tiles >= TC_TILES_COUNT)
        return "tilec_compile: tiles is none of tilec_tiles";
    if (o->stages > 16 || o->ptxas_level > 3)
        return "tilec_compile: expected at most 16 stages, a ptxas_level of at "
               "most 3";
    return NULL;
}

/* Checks the call and reads the options, then tc_job_run. */
static tilec_status request_run(tc_job *job,
                                const tilec_compile_options *options,
                                tilec_kernel **out)
{
    tc_request *r = job->request;
    const char *wrong = NULL;
    if ((!r->sources && !r->linked) || r->nsources == 0 ||
        r->nsources > UINT16_MAX)
        wrong = "tilec_compile: no sources";
    else if (!r->linked && !tc_sources_fit(r->sources, r->nsources))
        wrong = "tilec_compile: a source has a wrong size: use tilec_text";
    else if (!tc_options_read(&r->options, sizeof r->options, options))
        wrong = "tilec_compile: options have a wrong size: use TILEC_INIT";
    else
        wrong = wrong_options(&r->options);
    return wrong ? tc_job_refuse(job->owner, wrong, out) : tc_job_run(job, out);
}

tilec_status tc_request_report(tilec_context *cx, const tilec_source *sources,
                               size_t nsources,
                               const tilec_compile_options *options,
                               bool (*report)(tc_job *job), char **text)
{
    tc_request request = {.sources = sources, .nsources = nsources};
    tc_job job = {.owner = cx, .build = report, .request = &request};
    tilec_kernel *none;
    tilec_status s = request_run(&job, options, &none);
    if (s != TILEC_OK) {
        free(request.report);
        request.report = NULL;
    }
    *text = request.report;
    return s;
}

tilec_status tc_variant_compile(tilec_context *cx, const tc_source *linked,
                                size_t nsources,
                                const tilec_compile_options *options,
                                const tc_plan_part *part, int variant,
                                tilec_kernel **out)
{
    tc_request request = {.linked = linked, .nsources = nsources, .part = part};
    tc_job job = {.owner = cx,
                  .build = build_request,
                  .request = &request,
                  .any_alignment =
                      variant == TC_GPU_ANY || variant == TC_GPU_FAR,
                  .any_sizes = variant == TC_GPU_UNEVEN};
    return request_run(&job, options, out);
}

tilec_status tc_part_compile(tilec_context *cx, const tc_source *linked,
                             size_t nsources,
                             const tilec_compile_options *options,
                             const tc_plan_part *part, tilec_kernel **out)
{
    tc_request request = {.linked = linked, .nsources = nsources, .part = part};
    tc_job job = {.owner = cx,
                  .build = build_request,
                  .request = &request,
                  .is_nested = true};
    return request_run(&job, options, out);
}

tilec_status tilec_compile(tilec_context *cx, const tilec_source *sources,
                           size_t nsources,
                           const tilec_compile_options *options,
                           tilec_kernel **out)
{
    if (!out)
        return TILEC_USAGE;
    *out = NULL;
    tc_request request = {.sources = sources, .nsources = nsources};
    tc_job job = {.owner = cx, .build = build_request, .request = &request};
    return cx ? request_run(&job, options, out) : TILEC_USAGE;
}
