/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of a tc_gpu_code; for gpu_code.c and gpu_load.c.
 */
#ifndef TC_GPU_STATE_H
#define TC_GPU_STATE_H

#include "lib/gpu/gpu.h"

/* One that was assembled since; the data is malloc'd. */
struct tc_gpu_cubin {
    struct tc_gpu_cubin *next;
    tc_cache_section section;
};

struct tc_gpu_code {
    tc_code code; /* the first */
    bool is_kept; /* see tc_gpu_code_new */
    tc_gpu_meta meta;
    pthread_mutex_t lock; /* for loading */
    struct tc_gpu_cubin *cubins;
    _Atomic(tc_gpu_loaded *) loaded;
};

/* Unloads it everywhere; nothing may be in flight. */
void tc_gpu_unload(tc_gpu_code *code);

#endif
