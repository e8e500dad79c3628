/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel for a GPU target: found by its recipe among the context's codes or
 * in the cache, else compiled; then put together and loaded.
 */
#include "lib/gpu/gpu.h"
#include "lib/program/marks.h"
#include "lib/program/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Finding or making code ---- */

/* The kernel as the code's header has it, in `module`; NULL: the code is of
 * another one. */
static tilec_kernel *describe(const tc_making *m, const tc_gpu_code *code,
                              tc_module *module)
{
    tilec_kernel *k = tc_code_kernel(m, (const tc_code *)code, module);
    return k && tc_gpu_maps_fit(k, tc_gpu_code_meta(code)) ? k : NULL;
}

static bool is_sound(tc_job *job, void *data)
{
    const tc_gpu_code *c = atomic_load(&job->gpu->variants[TC_GPU_ALIGNED]);
    return describe(data, c, job->trial) != NULL;
}

/* The job has it. What is of another kernel counts as missing. */
static tc_gpu_code *gpu_compile_find(tc_making *m)
{
    tc_job *job = m->job;
    tc_entry entry;
    tc_gpu_code *c = (tc_gpu_code *)tc_making_find(m);
    if (c || !tc_making_read(m, &entry))
        return c;
    c = tc_gpu_code_new(&entry, true);
    if (!c)
        return NULL;
    atomic_store(&job->gpu->variants[TC_GPU_ALIGNED], c);
    if (tc_job_probe(job, is_sound, m)) {
        tc_making_keep(m, (tc_code *)c);
        return c;
    }
    atomic_store(&job->gpu->variants[TC_GPU_ALIGNED], NULL);
    tc_gpu_code_unref(c);
    return NULL;
}

static tc_gpu_code *make(const tc_making *m)
{
    tc_job *job = m->job;
    const char *tile;
    tc_nvptx_code code = {0};
    tc_entry entry;
    if (!tc_job_passes(job, m->options, m->target, m->kernel, m->bound, &tile))
        return NULL;
    tc_text machine = {.arena = &job->cx->arena};
    tc_module_print(&machine, job->module, TC_PRINT_PLAIN);
    tc_text marks = {.arena = &job->cx->arena};
    tc_func *f = tc_func_find(job->module, m->kernel);
    if (f && f->profile)
        tc_marks_json(&marks, f, m->target);
    if (!tc_nvptx_compile(job->module, m->target, &code))
        return NULL;
    job->foreign = code.ptx;
    tc_gpu_texts texts = {tile, machine.data, marks.data};
    bool ok = tc_gpu_encode(job->module, &code, &m->recipe, &texts, &entry);
    job->foreign = NULL;
    tc_nvptx_code_free(&code);
    if (!ok) {
        tc_job_error(job, TILEC_MACHINE, "out of memory");
        return NULL;
    }
    bool may_keep = tc_making_may_write(m);
    bool is_kept = may_keep && tc_making_publish(m, &entry);
    tc_gpu_code *c = tc_gpu_code_new(&entry, is_kept);
    if (!c)
        tc_job_error(job, TILEC_MACHINE, "out of memory");
    else if (may_keep)
        tc_making_keep(m, (tc_code *)c);
    return c;
}

/* ---- Putting the kernel together ---- */

static const tc_gpu_settings *copy_settings(const tc_making *m)
{
    const tilec_context *owner = m->job->owner;
    tc_arena *a = &m->job->cx->arena;
    tc_gpu_settings *s = tc_arena_new(a, tc_gpu_settings);
    s->cuda_library = tc_arena_string(a, owner->cuda_library);
    s->ptxas = tc_arena_string(a, owner->ptxas);
    s->no_graphs = owner->no_graphs;
    s->cache = m->cache;
    s->write = tc_cache_write;
    return s;
}

static const tc_plan_part *copy_part(tc_arena *a, const tc_plan_part *from)
{
    if (!from)
        return NULL;
    tc_plan_part *to = tc_arena_new(a, tc_plan_part);
    tc_binding *b = tc_arena_array(a, tc_binding, from->nbindings);
    for (unsigned i = 0; i < from->nbindings; i++)
        b[i] = (tc_binding){tc_arena_string(a, from->bindings[i].name),
                            tc_arena_string(a, from->bindings[i].value)};
    *to = (tc_plan_part){tc_arena_string(a, from->plan), from->nbindings, b,
                         from->enforce};
    return to;
}

/* For the other variants: what was bound and inferred, by name and value. */
static void copy_options(const tc_making *m, tilec_compile_options *to)
{
    tc_arena *a = &m->job->cx->arena;
    const tilec_compile_options *o = m->options;
    tilec_binding *b = tc_arena_array(a, tilec_binding, m->bound->ngiven);
    for (unsigned i = 0; i < m->bound->ngiven; i++)
        b[i] =
            (tilec_binding){m->bound->given[i].name, m->bound->given[i].value};
    /* The first variant has reported what `enforce` asks for; the other ones
     * treat such operands alike. */
    tilec_enforce enforce =
        o->enforce == TILEC_ENFORCE_ERROR ? TILEC_ENFORCE_WARN : o->enforce;
    *to = (tilec_compile_options){.size = sizeof *to,
                                  .kernel = m->kernel,
                                  .target = m->target->name,
                                  .bindings = b,
                                  .nbindings = m->bound->ngiven,
                                  .pipeline = tc_arena_string(a, o->pipeline),
                                  .warps = o->warps,
                                  .stages = o->stages,
                                  .ptxas_level = o->ptxas_level,
                                  .float32_precision =
                                      tc_arena_string(a, o->float32_precision),
                                  .tiles = o->tiles,
                                  .enforce = enforce,
                                  .no_load = 1,
                                  .no_cache = o->no_cache};
}

static bool assemble(const tc_making *m, tc_gpu_code *code)
{
    tc_job *job = m->job;
    tc_module_free(job->module);
    job->module = NULL;
    job->module = tc_module_new(job->cx);
    tilec_kernel *k = describe(m, code, job->module);
    assert(k); /* just made, or looked at by find */
    k->gpu = job->gpu;
    job->kernel = k;
    return true;
}

/* ---- Loading ---- */

static bool load_failed(tc_job *job, tilec_status status, tilec_error *error,
                        char *log)
{
    tc_job_error(job, status, "%s", error->message);
    /* A line of the assembler a note. */
    char *rest;
    for (char *line = strtok_r(log, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        tc_note(job->cx, (tc_loc){0}, "%s", line);
    return false;
}

static void say_resources(tc_job *job, const tc_gpu_loaded *l,
                          const tc_gpu_meta *m)
{
    char spills[64] = "no spills";
    if (l->local_bytes)
        snprintf(spills, sizeof spills,
                 "%u bytes a thread spilled to local memory", l->local_bytes);
    if (m->nmaps && (!l->cuda->map_encode || !l->cuda->function_parameter))
        tc_missed(job->cx, job->kernel->func->loc, "load",
                  "@%s: the driver has no tensor maps (CUDA 12.4): "
                  "launches take the variant for any tensors",
                  m->entry);
    tc_remark(job->cx, job->kernel->func->loc, "load",
              "@%s on %s: %u warps of %u registers a thread, %u bytes of "
              "shared memory a block, %s",
              m->entry, l->device->name, m->threads / 32, l->registers,
              m->shared_bytes + l->static_shared, spills);
}

/* On the device that this thread would use, if there is one that runs it. */
static bool load(const tc_making *m, tc_gpu_code *code)
{
    tc_job *job = m->job;
    if (m->options->no_load)
        return true; /* to start a driver can take longer than to compile */
    tc_cuda *cuda = tc_cuda_get(job->gpu->settings->cuda_library);
    if (*cuda->why_not)
        return true;
    int ordinal = tc_cuda_current_device(cuda);
    if (!tc_gpu_fits(m->target, &cuda->devices[ordinal]))
        return true;
    const tc_gpu_loaded *loaded;
    tc_cuda_scope scope;
    tilec_error error = TILEC_INIT(tilec_error);
    tc_cuda_log *log = tc_arena_new(&job->cx->arena, tc_cuda_log);
    tilec_status s = tc_cuda_enter(cuda, ordinal, &scope, &error);
    if (s == TILEC_OK) {
        s = tc_gpu_load(code, job->gpu->settings, &scope, &loaded, log, &error);
        tc_cuda_leave(&scope);
    }
    if (s != TILEC_OK)
        return load_failed(job, s, &error, log->errors);
    say_resources(job, loaded, tc_gpu_code_meta(code));
    return true;
}

/* ---- The other variants ---- */

/* TMA copies and roles are for tiles of some size: not here. */
static tilec_compile_options options_of(const tilec_kernel *k, int which)
{
    tilec_compile_options o = k->gpu->options;
    if (which == TC_GPU_FAR) {
        o.tiles = TILEC_TILES_STATIC;
        o.target = k->target->tma ? "sm_90" : o.target;
    }
    return o;
}

/* All variants are launched with the grid of the first. */
static bool has_same_grid(const tilec_kernel *k, const tilec_kernel *any,
                          int which)
{
    return which == TC_GPU_FAR || !k->grid || !any->grid ||
           tc_grid_asks_sms(k->grid) == tc_grid_asks_sms(any->grid);
}

/* In a context of its own, from the texts of the first compile. */
static tilec_status compile_variant(const tilec_kernel *k, int which,
                                    tc_gpu_code **out, tilec_error *error)
{
    const tc_gpu_settings *s = k->gpu->settings;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.cuda_library = s->cuda_library;
    o.ptxas = s->ptxas;
    o.cache_folder = s->cache.folder ? s->cache.folder : "";
    o.cache_bytes = s->cache.most;
    tilec_context *cx;
    tilec_kernel *any = NULL;
    unsigned n = k->gpu->nsources;
    tc_source *linked = calloc(n ? n : 1, sizeof *linked);
    tilec_status status = tilec_context_new(&o, &cx);
    if (status != TILEC_OK || !linked) {
        free(linked);
        tilec_context_free(status == TILEC_OK ? cx : NULL);
        return tc_fail_memory(error);
    }
    for (unsigned i = 0; i < n; i++)
        linked[i] = k->cx->sources[k->gpu->sources[i] - 1];
    tilec_compile_options options = options_of(k, which);
    status =
        tc_variant_compile(cx, linked, n, &options, k->gpu->part, which, &any);
    if (status == TILEC_OK && !has_same_grid(k, any, which))
        status = tc_fail(error, TILEC_INPUT,
                         "@%s for %s has a program for each tile where the "
                         "first compile has one for each multiprocessor, or "
                         "the reverse: ask for tiles(none)",
                         k->func->name, tc_gpu_variant_purpose(which));
    else if (status == TILEC_OK)
        *out =
            tc_gpu_code_ref(atomic_load(&any->gpu->variants[TC_GPU_ALIGNED]));
    else
        tc_fail(error, status, "@%s for %s does not compile: %s", k->func->name,
                tc_gpu_variant_purpose(which),
                cx->diags ? cx->diags->message : "out of memory");
    tilec_kernel_free(any);
    tilec_context_free(cx);
    free(linked);
    return status;
}

/* ---- All of it ---- */

bool tc_gpu_finish(tc_job *job, const tilec_compile_options *o,
                   const tc_target *target, tc_func *f, const tc_bound *bound)
{
    tc_making m = tc_making_begin(job, o, target, f->name, bound);
    m.nown = f->body->nargs;
    job->gpu = tc_arena_new(&job->cx->arena, tc_gpu);
    job->gpu->settings = copy_settings(&m);
    job->gpu->compile = compile_variant;
    copy_options(&m, &job->gpu->options);
    job->gpu->part = copy_part(&job->cx->arena, job->part);
    job->gpu->nsources = job->nparsed;
    job->gpu->sources = job->parsed;
    tc_recipe_make(job, o, target, f->name, bound, &m.recipe);
    tc_gpu_code *code = tc_making_may_read(&m) ? gpu_compile_find(&m) : NULL;
    code = code ? code : make(&m);
    if (!code)
        return false;
    tc_making_end(&m);
    atomic_store(&job->gpu->variants[TC_GPU_ALIGNED], code);
    return assemble(&m, code) && load(&m, code);
}
