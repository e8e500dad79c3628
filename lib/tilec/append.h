/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec.h's part on filling a cache of keys and values. tilec.h includes it.
 */
#ifndef TILEC_APPEND_H
#define TILEC_APPEND_H

#include "../tilec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* New keys and values into a cache: rotary embedding, rounding to the cache's
 * data type and the scatter in one kernel. Lengths and page tables lie on the
 * device and are read there: nothing is copied to the host, and a captured CUDA
 * graph is right for any later lengths.
 *
 *   tilec_append_plan    once, for data types, head dims and which tensors
 *                        there are
 *   tilec_append_run     for each layer
 */
typedef struct tilec_append tilec_append;

/* What calls take and give, all on k's device; ints are int32. Any strides. */
typedef struct tilec_append_tensors {
    size_t size;
    /* New rows [B, HK, M, D] and [B, HK, M, DV]; v NULL: there is one cache for
     * both. With cu_seqlens [B + 1] they are [1, HK, T, D], and rows
     * cu_seqlens[b] to cu_seqlens[b + 1] - 1 are those of sequence b; later
     * rows are written nowhere. */
    const DLTensor *k, *v, *cu_seqlens;
    /* Written: row i of sequence b to position kv_lens[b] + i of the cache.
     * kv_lens [B] are the lengths before. Contiguous: k_cache [B, HK, N, D].
     * With page_table [B, pages of a sequence] it is [pages, HK, page, D], and
     * position n lies in row n % page of page page_table[b, n / page]. With
     * kv_indptr [B + 1] and kv_indices that page is kv_indices[kv_indptr[b] +
     * n / page], before kv_indptr[b + 1]. On GPUs rows for which there is no
     * page, or no such page, are not written; on the CPU that is an error. */
    const DLTensor *k_cache, *v_cache, *kv_lens;
    const DLTensor *page_table, *kv_indptr, *kv_indices;
    /* Rotary embedding of k, and of q [B, HQ, M, D] (or [1, HQ, T, D]) into
     * q_out, which may be q. cos and sin [positions, R / 2], float32 or of 16
     * bits, for R columns; NULL: none. The row is the position in the sequence,
     * or positions [B, M] (or [1, T]). */
    const DLTensor *q, *q_out, *cos, *sin, *positions;
    /* float32: by what numbers are divided. [1] or [HK], read; or [B or pages,
     * HK, N or page], written: the factor that makes the largest magnitude of
     * a row the largest number of the cache's type. NULL: 1. */
    const DLTensor *k_scales, *v_scales;
} tilec_append_tensors;

typedef struct tilec_append_options {
    size_t size;
    const char *target; /* NULL: the context's */
    /* Rotary embedding: pairs are columns 2 j and 2 j + 1 (GPT-J), else j and
     * j + R / 2 (NeoX); the first column that is rotated. */
    int interleaved;
    int64_t rotary_offset;
    /* As in tilec_compile_options. */
    int no_load, no_cache;
    /* Of further compile-time parameters of the plan @append. */
    const tilec_binding *bindings;
    size_t nbindings;
} tilec_append_options;

/* Compiles for tensors like these: data types, D, DV, R and which are NULL
 * count. Diagnostics are in the context, as of tilec_compile. */
TILEC_API tilec_status tilec_append_plan(tilec_context *cx,
                                         const tilec_append_tensors *tensors,
                                         const tilec_append_options *options,
                                         tilec_append **out);
TILEC_API void tilec_append_free(tilec_append *a);
/* The plan @append of kernels/append.tile. It belongs to *a. */
TILEC_API const tilec_kernel *tilec_append_kernel(const tilec_append *a);
/* As tilec_launch: on the CPU done on return, on a GPU put into the stream; may
 * be captured. */
TILEC_API tilec_status tilec_append_run(const tilec_append *a,
                                        const tilec_append_tensors *tensors,
                                        const tilec_launch_options *options,
                                        tilec_error *error);

#ifdef __cplusplus
}
#endif

#endif
