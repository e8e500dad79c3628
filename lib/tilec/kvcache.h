/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec.h's part on serving: attention over a cache of keys and values. tilec.h
 * includes it.
 */
#ifndef TILEC_KVCACHE_H
#define TILEC_KVCACHE_H

#include "../tilec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Attention for a batch of sequences, each with keys of its own in a cache:
 * decode, speculative tokens and chunks of a prefill in one call. Lengths and
 * page tables lie on the device and are read there: nothing is copied to the
 * host, and a captured CUDA graph is right for any later lengths.
 *
 *   tilec_kvcache_plan       once, for data types and mods
 *   tilec_kvcache_schedule   once a step: deals the keys to programs
 *   tilec_kvcache_attention  for each layer
 *
 * q [B, HQ, M, D], M queries of each sequence; or ragged [1, HQ, T, D], where
 * the queries of sequence b are rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1.
 * o as q with DV columns; lse [B, HQ, M] or [1, HQ, T], float32, natural log.
 * Query i of M sees keys as one at position N - M + i of N: mods are given that,
 * so `causal` is aligned to the last key, and `b` is the sequence; with
 * query_offsets it is query_offsets[b] + i. Mods get the position after the last
 * query as `q_len`, N as `kv_len`. A query without any key gets o = 0 and
 * lse = -inf. */
typedef struct tilec_kvcache tilec_kvcache;

/* Where key n of sequence b lies; v likewise. Any strides: pages may be
 * [pages, HK, page, D] or, as a view, [pages, page, HK, D]. What lies after the
 * last key of a sequence is never used, whatever it is. A page that is none of
 * k, or a length beyond the table or k: on the CPU an error with the place, on
 * GPUs such keys read zeros, never other memory; with check_memory of
 * tilec_launch_options on all targets an error with the entry. */
typedef enum tilec_kv_layout {
    /* k [B, HK, N, D]: row n of entry b; kv_lens [B]. */
    TILEC_KV_DENSE,
    /* k [1, HK, T, D]: row cu_seqlens_k[b] + n; cu_seqlens_k [B + 1]. */
    TILEC_KV_RAGGED,
    /* k [pages, HK, page, D]: row n % page of page page_table[b, n / page];
     * page_table [B, pages of a sequence], kv_lens [B]. A page may have 1 to
     * 65536 keys. */
    TILEC_KV_PAGED,
    /* The same, with the pages of b at kv_indices[kv_indptr[b]] to
     * kv_indices[kv_indptr[b + 1] - 1], of which the last one has
     * kv_last_page_len[b] keys; kv_indptr [B + 1], kv_last_page_len [B]. */
    TILEC_KV_INDEXED
} tilec_kv_layout;

typedef struct tilec_kvcache_options {
    size_t size;
    const char *target; /* NULL: the context's */
    double scale;       /* of q k^T; 0 or NaN: 1 / sqrt(D) */
    /* Mods, as of tilec_attention_options. */
    const char *mask;
    const char *score;
    const tilec_source *sources;
    size_t nsources;
    int (*read_source)(void *user, const char *file, char **text);
    void *user;
    tilec_kv_layout layout;
    int ragged_queries; /* q is [1, HQ, T, D], by cu_seqlens_q */
    /* Keys of each piece, a multiple of 128: the bits of a sequence's results
     * then do not depend on what else is in the batch. 0: pieces are as long as
     * keeps the GPU busy. */
    int64_t piece;
    /* As in tilec_compile_options. */
    int no_load, no_cache;
    /* A learned logit of each head joins the sum of its rows: `sinks` of the
     * tensors. A query without any key gets lse = the sink. */
    int sinks;
    /* Factors of keys and values of 8 bits, float32, in shapes like these; NULL:
     * none. [1] is of all, [HK] of each head, [B or pages, HK, N or page] of
     * each row of the cache, as tilec_append writes them. */
    const DLTensor *descale_k, *descale_v;
    /* v is the first DV columns of k (MLA): a view with k's data and strides, in
     * the plan and in all calls. What is loaded for k serves v too. */
    int v_in_k;
    /* query_offsets of the tensors says where queries stand. */
    int query_offsets;
} tilec_kvcache_options;

/* Compiles for tensors like these: data types, D, DV, HQ / HK, the keys of a
 * page and M (or T) count; batch, lengths and pages may be others at launch,
 * though another plan may be faster then (tilec_kvcache_variant).
 * Diagnostics are in the context, as of tilec_compile. */
TILEC_API tilec_status tilec_kvcache_plan(tilec_context *cx, const DLTensor *q,
                                          const DLTensor *k, const DLTensor *v,
                                          const tilec_kvcache_options *options,
                                          tilec_kvcache **out);
/* What a plan chooses by batch and lengths, as a number: a plan is the one for
 * tensors of other sides too if this number and what tilec_kvcache_plan says
 * that it compiles for are equal. -1: tilec_kvcache_plan would refuse these. */
TILEC_API int64_t tilec_kvcache_variant(const tilec_context *cx,
                                        const DLTensor *q, const DLTensor *k,
                                        const DLTensor *v,
                                        const tilec_kvcache_options *options);
TILEC_API void tilec_kvcache_free(tilec_kvcache *c);
/* The kernel that computes attention; its captured parameters are what
 * `captured` below must give, but those of the layout. It belongs to *c. */
TILEC_API const tilec_kernel *tilec_kvcache_kernel(const tilec_kvcache *c);

/* What calls take and give; ints are int32, all on q's device. An o, lse or
 * workspace that overlaps other tensors is refused (o may be the same view as
 * q), and so is one of which elements are one (stride 0). */
typedef struct tilec_kvcache_tensors {
    size_t size;
    const DLTensor *q, *k, *v;
    const DLTensor *o, *lse; /* written; lse NULL: not wanted */
    const DLTensor *kv_lens, *cu_seqlens_k, *page_table;
    const DLTensor *kv_indptr, *kv_indices, *kv_last_page_len;
    const DLTensor *cu_seqlens_q;
    /* By name: "mask.w", or "w" where that is unambiguous. */
    const tilec_argument *captured;
    size_t ncaptured;
    /* Device memory (CPU target: host memory), aligned to 256 bytes, and its
     * size: at least what tilec_kvcache_workspace says. What a schedule says
     * stays there until the next one: calls that use it run one after the other.
     * The workspace is one call's. */
    void *schedule, *workspace;
    uint64_t schedule_bytes, workspace_bytes;
    const DLTensor *sinks; /* float32 [HQ], of a plan with that option */
    const DLTensor *descale_k, *descale_v; /* likewise, of its shapes */
    /* [B], of a plan with that option: the position of each sequence's first
     * query, 0 to 2^30 - 1. Schedules of plans with a mask depend on it. */
    const DLTensor *query_offsets;
} tilec_kvcache_tensors;

/* The memory for batches like this one: it follows from the shapes of q, k and
 * v, of cu_seqlens_q, and of the tensor that has the length of each sequence;
 * not from their contents. */
TILEC_API tilec_status tilec_kvcache_workspace(
    const tilec_kvcache *c, const tilec_kvcache_tensors *tensors,
    uint64_t *schedule, uint64_t *workspace, tilec_error *error);
/* Deals the keys of the sequences to programs: a small kernel that reads
 * lengths, and writes to `schedule`. Good for all calls with the same lengths
 * and shapes: of a plan without a mask for all masks, of one with a mask for
 * this mask and the same captured values, as only keys are dealt that it shows
 * some query. Takes what the mask captures, as attention does. */
TILEC_API tilec_status tilec_kvcache_schedule(
    const tilec_kvcache *c, const tilec_kvcache_tensors *tensors,
    const tilec_launch_options *options, tilec_error *error);
/* q, k, v to o, and lse where given, by that schedule. As tilec_launch: on the
 * CPU done on return, on a GPU put into the stream; may be captured. */
TILEC_API tilec_status tilec_kvcache_attention(
    const tilec_kvcache *c, const tilec_kvcache_tensors *tensors,
    const tilec_launch_options *options, tilec_error *error);

#ifdef __cplusplus
}
#endif

#endif
