/* SPDX-License-Identifier: Apache-2.0
 *
 * `tilec attention` over a cache: k and v are pages, or rows of which each
 * sequence has some, and tensors of the file say which (lib/tilec/kvcache.h).
 */
#ifndef TOOL_ATTENTION_CACHE_H
#define TOOL_ATTENTION_CACHE_H

#include "tools/measure/device.h"

enum { CACHE_PLACES = 8 };

typedef struct attention_cache {
    bool is_given; /* by the options */
    tilec_kv_layout layout;
    DLTensor places[CACHE_PLACES];         /* of ndim 0: not given */
    const DLTensor *descale_k, *descale_v; /* NULL: none */
    tilec_kvcache *plan;
    tilec_kvcache_tensors tensors; /* those of the calls */
} attention_cache;

/* All return exit codes, and have said what is wrong. */

/* Which options are given, and whether they go together. */
int cache_read_options(attention_cache *c, const tool_args *args);
/* The tensors that they name. */
int cache_get(attention_cache *c, const tool_args *args,
              const tilec_safetensors *in);
/* Mods, scale, target, sinks and factors of k and v are those of *like. */
int cache_plan(attention_cache *c, tilec_context *cx, const tool_args *args,
               const DLTensor *q, const DLTensor *k, const DLTensor *v,
               const tilec_attention_options *like);
/* Is a captured parameter of the plan's kernel given by cache_put? */
bool cache_owns(const attention_cache *c, const char *parameter);
/* The tensors of the calls where the kernel runs: those of *like are there. */
int cache_put(attention_cache *c, device_tensors *device,
              const tilec_attention_tensors *like);
/* The schedule, and attention. */
int cache_launch(const attention_cache *c, const tilec_launch_options *options);

#endif
