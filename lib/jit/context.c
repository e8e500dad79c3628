/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts, targets, and the facts about the library itself.
 */
#include "codegen/host/jit/cpus.h"
#include "lib/bundle/bundle.h"
#include "lib/gpu/cuda.h"
#include "lib/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_OF(n)            #n
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

const char *tilec_version(void)
{
    return VERSION_TEXT(TILEC_VERSION_MAJOR, TILEC_VERSION_MINOR,
                        TILEC_VERSION_PATCH);
}

const char *tilec_target_name(size_t index)
{
    const tc_target *t = tc_target_at(index);
    return t ? t->name : NULL;
}

bool tc_target_is_gpu(const tc_target *t)
{
    return t->cpu != NULL;
}

bool tc_target_is_auto(const char *name)
{
    return !name || strcmp(name, "auto") == 0;
}

const tc_target *tc_target_find(const tilec_context *cx, const char *name)
{
    if (!tc_target_is_auto(name))
        return tc_target_get(name);
    const tc_cuda *cuda = tc_cuda_get(cx->cuda_library);
    const tc_target *t = NULL;
    if (!*cuda->why_not) {
        const tc_cuda_device *d = &cuda->devices[tc_cuda_current_device(cuda)];
        t = tc_target_for_device(d->major, d->minor);
    }
    return t ? t : tc_target_get("cpu");
}

static bool keep_text(const char *text, char **to)
{
    *to = text ? strdup(text) : NULL;
    return *to || !text;
}

static bool find_workers(const tilec_context_options *o, tc_workers *out)
{
    *out =
        (tc_workers){.parallel_for = o->parallel_for, .user = o->parallel_user};
    if (o->parallel_for)
        return true;
    out->parallel_for = tc_host_pool_run;
    out->user = out->pool = tc_host_pool_new();
    return out->pool != NULL;
}

static bool keep_options(tilec_context *cx, const tilec_context_options *o)
{
    bool ok = keep_text(o->target, &cx->target) &&
              keep_text(o->cpu, &cx->cpu) &&
              keep_text(o->cuda_library, &cx->cuda_library) &&
              keep_text(o->ptxas, &cx->ptxas) &&
              keep_text(o->cache_folder, &cx->cache_folder) &&
              find_workers(o, &cx->workers);
    if (!o->cache_folder)
        cx->cache_folder = tc_cache_default_folder();
    cx->cache_most = o->cache_bytes;
    cx->remarks = o->remarks;
    cx->multiprocessors = o->multiprocessors;
    cx->no_graphs = o->no_graphs;
    return ok;
}

tilec_status tilec_context_new(const tilec_context_options *options,
                               tilec_context **out)
{
    if (!out)
        return TILEC_USAGE;
    *out = NULL;
    tilec_context_options o = {0};
    if (!tc_options_read(&o, sizeof o, options) ||
        (!tc_target_is_auto(o.target) && !tc_target_get(o.target)) ||
        (o.cpu && !tc_host_cpu_get(o.cpu)))
        return TILEC_USAGE;
    tilec_context *cx = calloc(1, sizeof *cx);
    if (!cx)
        return TILEC_MACHINE;
    cx->oom.size = sizeof cx->oom;
    cx->oom.message = "out of memory";
    tc_arena_init(&cx->arena, &cx->memory);
    if (!keep_options(cx, &o)) {
        tilec_context_free(cx);
        return TILEC_MACHINE;
    }
    *out = cx;
    return TILEC_OK;
}

void tilec_context_free(tilec_context *cx)
{
    if (!cx)
        return;
    for (unsigned i = 0; i < cx->ncodes; i++)
        tc_code_unref(cx->codes[i]);
    tc_bundles_free(cx->bundles);
    if (cx->recorder)
        cx->drop_recorder(cx->recorder);
    tc_host_pool_unref(cx->workers.pool);
    free(cx->target);
    free(cx->cpu);
    free(cx->cuda_library);
    free(cx->ptxas);
    free(cx->cache_folder);
    tc_arena_reset(&cx->arena);
    free(cx);
}

const tilec_diagnostic *tilec_diagnostics(const tilec_context *cx)
{
    return cx ? cx->diags : NULL;
}

size_t tilec_error_count(const tilec_context *cx)
{
    return cx ? cx->nerrors : 0;
}
