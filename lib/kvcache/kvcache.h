/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a cache, planned (kvcache.c) and run (kvcache_run.c).
 */
#ifndef TC_KVCACHE_H
#define TC_KVCACHE_H

#include "lib/handles.h"

/* Lives in the arena of the forward plan's context. */
struct tilec_kvcache {
    tilec_kernel *forward, *schedule;
    tilec_kernel *merge; /* NULL: forward merges */
    tilec_kv_layout layout;
    bool ragged_queries, has_sinks;
    bool has_offsets;     /* query_offsets says where queries stand */
    bool v_in_k;          /* v is the first columns of k */
    bool has_reach;       /* schedules ask the mask which keys they deal */
    bool has_factors[2];  /* of k and of v */
    bool merges_apart;    /* by a kernel of its own */
    bool by_heads;        /* a block has the queries of a head, then the next */
    int64_t piece;        /* keys; 0: by the batch */
    int64_t group, block; /* heads of a group, rows of a tile */
    unsigned sms;         /* multiprocessors; 0: no GPU */
    unsigned per_sm;      /* programs of a multiprocessor */
    double scale;
    tilec_argument *values; /* captured scalars */
    unsigned nvalues;
};

/* The arguments of tilec_kvcache_plan, which are no nonsense. */
typedef struct tc_kvcache_request {
    const DLTensor *q, *k, *v;
    tilec_kvcache_options options;
} tc_kvcache_request;

/* kvcache.c: for tc_compiler. */
tilec_status tc_kvcache_compile(tilec_context *cx, void *request,
                                tilec_kvcache **out);
/* kvcache_request.c: what a plan keeps of options and shapes. */
void tc_kvcache_keep_options(tilec_kvcache *c, const tilec_kvcache_options *o,
                             const DLTensor *q, const DLTensor *k);
/* How a bundle finds such a plan; the key is malloc'd, *out has it too. NULL:
 * out of memory. */
struct tc_bundle_request;
char *tc_kvcache_key(tilec_context *cx, const tc_kvcache_request *r,
                     struct tc_bundle_request *out);
/* kvcache_record.c: for the context's bundle. */
tilec_status tc_kvcache_record(tilec_context *cx, const tc_kvcache_request *r,
                               const tilec_kvcache *c, tilec_error *error);

/* Is v a view of the first columns of k? */
bool tc_kv_is_in(const DLTensor *v, const DLTensor *k);

/* Lengths and tables as the kernels will read them: waits for the stream
 * (kvcache_check.c). */
tilec_status tc_kv_check(const tilec_kvcache *c, const tilec_kvcache_tensors *t,
                         const tilec_launch_options *options,
                         tilec_error *error);

#endif
