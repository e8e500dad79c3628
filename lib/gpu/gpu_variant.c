/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of a kernel by variant, and whether code is for a device or kernel.
 * The compiler makes a missing variant; a kernel from a bundle has none.
 */
#include "lib/gpu/gpu.h"

bool tc_gpu_fits(const tc_target *t, const tc_cuda_device *d)
{
    bool same = d->major == t->major && d->minor == t->minor;
    bool later =
        d->major > t->major || (d->major == t->major && d->minor > t->minor);
    return same || (later && !t->exact);
}

bool tc_gpu_maps_fit(const tilec_kernel *k, const tc_gpu_meta *m)
{
    for (unsigned i = 0; i < m->nmaps; i++) {
        const tc_tensor_map *map = &m->maps[i];
        if (map->arg >= k->nparams)
            return false;
        const tc_type *t = k->params[map->arg].type;
        if (t->kind != TC_TENSOR || t->rank != map->rank ||
            t->elem->kind != map->elem)
            return false;
    }
    return true;
}

void tc_gpu_free(tc_gpu *gpu)
{
    if (gpu)
        tc_launch_graph_free(atomic_exchange(&gpu->again, NULL));
    for (int i = 0; gpu && i < TC_GPU_VARIANTS; i++)
        tc_gpu_code_unref(atomic_exchange(&gpu->variants[i], NULL));
}

const char *tc_gpu_variant_purpose(int which)
{
    static const char *const of[TC_GPU_VARIANTS] = {
        [TC_GPU_UNEVEN] = "tensors that are not aligned in size",
        [TC_GPU_ANY] = "tensors that are not aligned",
        [TC_GPU_FAR] = "grids with a long axis 1 or 2",
    };
    return of[which];
}

static tilec_status not_bundled(const tilec_kernel *k, int which,
                                tilec_error *error)
{
    return tc_fail(error, TILEC_INPUT,
                   "@%s is from a bundle without code for %s: make the bundle "
                   "with that, or give it other tensors",
                   k->func->name, tc_gpu_variant_purpose(which));
}

tilec_status tc_gpu_variant(const tilec_kernel *k, int which, tc_gpu_code **out,
                            tilec_error *error)
{
    *out = atomic_load_explicit(&k->gpu->variants[which], memory_order_acquire);
    if (*out)
        return TILEC_OK;
    /* A kernel as callers know it is read-only; this makes it whole. */
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&k->lock;
    pthread_mutex_lock(lock);
    tilec_status s = TILEC_OK;
    *out = atomic_load(&k->gpu->variants[which]);
    if (!*out)
        s = k->gpu->compile ? k->gpu->compile(k, which, out, error)
                            : not_bundled(k, which, error);
    if (s == TILEC_OK)
        atomic_store_explicit(&k->gpu->variants[which], *out,
                              memory_order_release);
    pthread_mutex_unlock(lock);
    return s;
}
