/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel for the CPU: found by its recipe among the context's codes or in the
 * cache, else compiled; then put together.
 */
#include "lib/host/host_code.h"

#include "codegen/host/jit/compile.h"

#include "codegen/host/jit/cpus.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Finding or making code ---- */

/* The section `object`, by LLVM. */
static bool link_object(tc_host_kernel *k, const tc_entry *entry, char *why,
                        size_t room)
{
    const tc_cache_section *s = tc_entry_find(entry, "object");
    k->object = s && s->size ? malloc(s->size) : NULL;
    if (!k->object || !tc_entry_find(entry, "tile"))
        return false;
    memcpy(k->object, s->data, s->size);
    k->object_size = s->size;
    return tc_host_link(k, why, room);
}

/* The kernel as the code's header has it, in `module`; NULL: the code is of
 * another one. */
static tilec_kernel *describe(const tc_making *m, const tc_host_code *c,
                              tc_module *module)
{
    tilec_kernel *k = tc_code_kernel(m, &c->code, module);
    return k && tc_host_fits(c, k) ? k : NULL;
}

static bool is_sound(tc_job *job, void *data)
{
    return describe(data, job->host, job->trial) != NULL;
}

/* The job has it. Code that does not link, or is of another kernel, counts as
 * missing. */
static tc_host_code *host_compile_find(tc_making *m)
{
    char why[TC_HOST_WHY];
    tc_job *job = m->job;
    tc_entry entry;
    tc_host_code *c = (tc_host_code *)tc_making_find(m);
    if (c || !tc_making_read(m, &entry))
        return c;
    job->host = c = tc_host_decode(&entry, link_object, why, sizeof why);
    if (!c)
        return NULL;
    if (tc_job_probe(job, is_sound, m)) {
        tc_making_keep(m, &c->code);
        return c;
    }
    job->host = NULL;
    tc_code_unref(&c->code);
    return NULL;
}

/* The program after the passes, as text; job->object is its code. */
static const char *generate(const tc_making *m)
{
    tc_job *job = m->job;
    if (!tc_job_passes(job, m->options, m->target, m->kernel, m->bound, NULL))
        return NULL;
    tc_text tile = {.arena = &job->cx->arena};
    tc_module_print(&tile, job->module, TC_PRINT_PLAIN);
    const char *name = job->owner->cpu;
    const tc_host_cpu *cpu = name ? tc_host_cpu_get(name) : NULL;
    tc_host_options o = {.cpu = cpu ? cpu->name : NULL,
                         .features = cpu ? cpu->features : NULL};
    job->object = tc_host_generate(tc_func_find(job->module, m->kernel), &o);
    return job->object ? tile.data : NULL;
}

static tc_host_code *link_code(const tc_making *m, tc_entry *entry)
{
    char why[TC_HOST_WHY];
    tc_host_code *c = tc_host_decode(entry, link_object, why, sizeof why);
    if (!c)
        tc_job_error(m->job, TILEC_MACHINE, "kernel @%s: LLVM, linking: %s",
                     m->kernel, why);
    return c;
}

static tc_host_code *make(const tc_making *m)
{
    tc_job *job = m->job;
    tc_entry entry;
    const char *tile = generate(m);
    if (!tile)
        return NULL;
    bool ok = tc_host_encode(tc_func_find(job->module, m->kernel), job->object,
                             &m->recipe, tile, &entry);
    tc_host_free(job->object);
    job->object = NULL;
    if (!ok) {
        tc_job_error(job, TILEC_MACHINE, "out of memory");
        return NULL;
    }
    bool may_keep = tc_making_may_write(m);
    if (may_keep)
        tc_making_publish(m, &entry);
    tc_host_code *c = link_code(m, &entry);
    if (c && may_keep)
        tc_making_keep(m, &c->code);
    return c;
}

/* ---- Putting the kernel together ---- */

static bool assemble(const tc_making *m, tc_host_code *c)
{
    tc_job *job = m->job;
    tc_module_free(job->module);
    job->module = NULL;
    job->module = tc_module_new(job->cx);
    tilec_kernel *k = describe(m, c, job->module);
    assert(k); /* just made, or looked at by find */
    k->host = c->kernel;
    k->host_code = c;
    job->kernel = k;
    return true;
}

bool tc_host_finish(tc_job *job, const tilec_compile_options *o,
                    const tc_target *target, tc_func *f, const tc_bound *bound)
{
    tc_making m = tc_making_begin(job, o, target, f->name, bound);
    m.nown = f->body->nargs;
    tc_recipe_make(job, o, target, f->name, bound, &m.recipe);
    tc_host_code *c = tc_making_may_read(&m) ? host_compile_find(&m) : NULL;
    job->host = c = c ? c : make(&m);
    if (!c)
        return false;
    tc_making_end(&m);
    return assemble(&m, c);
}
