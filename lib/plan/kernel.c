/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's handle: made of a function, freed with all that it holds.
 */
#include "lib/gpu/gpu.h"
#include "lib/host/host_code.h"
#include "lib/program/plan.h"

tilec_kernel *tc_kernel_new(tc_module *module, const tc_target *target,
                            tc_func *f, unsigned nbindings,
                            const tilec_binding *bindings, unsigned nown)
{
    tc_arena *a = &module->cx->arena;
    tilec_kernel *k = tc_arena_new(a, tilec_kernel);
    k->cx = module->cx;
    k->module = module;
    k->func = f;
    k->target = target;
    k->nbindings = nbindings;
    k->bindings = bindings;
    k->grid = f->is_kernel ? tc_grid_prepare(a, f) : NULL;
    tc_kernel_describe(k, nown);
    return k;
}

void tilec_kernel_free(tilec_kernel *k)
{
    if (!k)
        return;
    pthread_mutex_destroy(&k->lock);
    tc_gpu_free(k->gpu);
    tc_code_unref(k->host_code ? &k->host_code->code : NULL);
    tc_host_pool_unref(k->workers.pool);
    tc_launch_plan_free(k->plan);
    tc_module_free(k->module);
    tc_context_free(k->cx);
}
