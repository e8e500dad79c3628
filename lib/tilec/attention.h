/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec.h's part on attention: plans, their options, forward and backward.
 * tilec.h includes it.
 */
#ifndef TILEC_ATTENTION_H
#define TILEC_ATTENTION_H

#include "../tilec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* softmax(score_mod(scale * q k^T) where mask_mod) v, and the logsumexp, for
 * q [B, HQ, M, D], k [B, HK, N, D], v [B, HK, N, DV], HQ a multiple of HK:
 * o [B, HQ, M, DV] of q's data type, lse [B, HQ, M] in float32 (natural log;
 * -inf and o = 0 for a query without any key), and the gradients of all that.
 * Forward takes k and v of 8 bits with any q (a quantised cache), and q of 8
 * bits, whose o is bf16 (binding TO: another type). What such numbers are times
 * of, tensors of factors say: descale_q, .. of the options; or bindings of that
 * name (docs/fp8.md). A v of 8 bits is best contiguous in its keys, a
 * view of [B, HK, DV, N]: plans are made for the strides of the v that they are
 * given. Any lengths and strides: [B, M, H, D] and packed tensors are views.
 * The library allocates nothing: o, dq, .. have whatever order the caller's
 * tensors have (an o with q's strides follows q). */
typedef struct tilec_attention tilec_attention;

typedef struct tilec_attention_options {
    size_t size;
    const char *target; /* NULL: the context's */
    double scale;       /* of q k^T; 0 or NaN: 1 / sqrt(D) */
    /* Mods by expression; NULL: none.
     *   mask:  `causal`, `sliding_window(w=1024)`, `causal & !document`,
     *          `a | b`, parentheses; `shifted(a)`, `mapped(a)`: at positions
     *          of a longer sequence (docs/masks.md)
     *   score: one mod, or several applied in turn: `alibi, soft_cap(cap=30)`
     * A mod is a function of `sources`, of the embedded mods, or `FILE@FUNC`
     * of a text that `read_source` gives. Values in parentheses are run-time
     * values, not compiled in; a name as value renames the captured buffer. */
    const char *mask;
    const char *score;
    const tilec_source *sources;
    size_t nsources;
    /* Gives the text of FILE: 1, and *text malloc'd (the library calls free),
     * or 0. NULL: `FILE@FUNC` can't be used. */
    int (*read_source)(void *user, const char *file, char **text);
    void *user;
    /* Of further compile-time parameters of the forward kernel. */
    const tilec_binding *bindings;
    size_t nbindings;
    /* GPU targets; 0: as the tuned configuration says. Forward only, as the
     * next but one line is. */
    unsigned warps, stages;
    /* As in tilec_compile_options. */
    int no_load, no_cache;
    unsigned ptxas_level; /* as of tilec_compile_options */
    tilec_tiles tiles;    /* likewise */
    /* The gradients too: tilec_attention_backward can be called. */
    int backward;
    /* Backward gives the same bits at every run: it adds up dq in a fixed
     * order, or computes dq, and dk and dv, in two kernels, instead of adding
     * it up in the order of arrival. */
    int deterministic;
    /* Backward computes the gradients of the float tensors and scalars that
     * the score mods capture. */
    int captured_gradients;
    /* FlexAttention's kernel_options under its names; a name may begin with
     * `fwd_` or `bwd_`, to be meant for that direction only.
     *   BLOCK_M, BLOCK_N          forward: queries and keys of a block
     *   BLOCK_M1, BLOCK_N1        backward, where dk and dv are computed
     *   BLOCK_M2, BLOCK_N2        backward, where dq is computed by itself
     *                             (deterministic)
     *   SPARSE_Q_BLOCK_SIZE, SPARSE_KV_BLOCK_SIZE
     *                             of block_lists; multiples of the above
     *   num_warps, num_stages     GPU targets
     *   FLOAT32_PRECISION         of products of float32, on GPU targets: ieee
     *                             (the default), tf32, tf32x3; with quotes too
     *   ROWS_GUARANTEED_SAFE      no effect: rows without keys cost no time
     *   EXACT_SUMS                true: forward adds up the products of the
     *                             blocks of keys in float32. Tensor cores keep
     *                             13 bits or so of sums of 8-bit numbers, as
     *                             long as they add to them; it costs registers
     *                             (where DV is above 128: also half the speed)
     *   COPY_VALUES               whether forward copies v first, by columns,
     *                             as products of 8-bit numbers read it, which
     *                             takes a workspace: true, false. Not given:
     *                             where v lies otherwise and enough programs
     *                             read each part of it (a remark says so); not
     *                             next to lists of blocks
     *   SPLIT_KEYS                whether forward splits keys over programs (few
     *                             queries, many keys), which takes a workspace:
     *                             true, false. Not given: on GPUs where most
     *                             multiprocessors would have nothing to do (a
     *                             remark says so); decided again at each launch
     *   PRESCALE_QK               true or false: changes nothing; a remark says
     *                             why
     * What is unknown is TILEC_USAGE, and the diagnostic lists what there is.
     */
    const tilec_binding *kernel_options;
    size_t nkernel_options;
    /* Of further compile-time parameters of the plan @attention_backward, such
     * as SPLIT: how many programs share the query heads of a block of keys.
     * Not given, that follows from q, k and the GPU's multiprocessors. TG=f32:
     * dq, dk and dv are float32, for sums over parts of the keys; o, lse, dout
     * and dlse of a call are then those of whole rows. */
    const tilec_binding *backward_bindings;
    size_t nbackward_bindings;
    /* Forward can give the rows' largest scores (max of the tensors). */
    int max;
    /* Whether the blocks that the mask leaves are found first, by a kernel of
     * its own, and listed, so that no others are visited: 1, or -1: never. 0:
     * for long sequences, where the compiler cannot tell them from the mask (a
     * remark says why). With lists, as with COPY_VALUES, a call needs a
     * workspace, forward too, and what `bindings` may name are the parameters
     * of the plan @attention_forward (or @copied_attention). */
    int block_lists;
    /* Factors of numbers of 8 bits (and one that o is multiplied by), float32,
     * in shapes like these; NULL: none. [1] is of all, [H] of each head, [B, H]
     * of each batch and head (of q also [B, HK]), [B, H, blocks] of each block
     * of that head's rows, the last of which may be shorter: of a power of two
     * of rows, so that `blocks` of them make the length. Which binds descale_q,
     * .. and SCALE_BLOCK_Q, SCALE_BLOCK_K, SCALE_BLOCK_V; the tensors
     * themselves a call captures: "descale_q.scales", .., "scale_o.scales". */
    const DLTensor *descale_q, *descale_k, *descale_v, *scale_o;
    tilec_enforce enforce; /* as in tilec_compile_options */
    /* A logit for each query head, a sink, joins the sum of exponentials of
     * the head's rows, like the modified score of one more key whose value is
     * 0: `sinks` of the tensors. o and lse include it, max does not. A query
     * without any key has lse = its sink; -inf: no sink; inf: o = 0. */
    int sinks;
    /* Weights are dropped, at random, and the others made larger: o and the
     * gradients are those of dropout, lse and max are not. A call captures
     * "dropout_p", the probability that a weight is dropped, and
     * "dropout_seed", an int64 tensor [1]. Whether a weight is dropped depends
     * on the seed, batch, head, query and key alone (Philox4x32-7): the same
     * seed drops the same weights, in forward and backward, on all targets. */
    int dropout;
} tilec_attention_options;

/* Plans and compiles attention for tensors like these: data types, D and DV
 * count, lengths, batch and heads may be others at launch (what is fastest
 * depends on lengths, and on whether there are more queries than keys).
 * Diagnostics are in the context, as of tilec_compile. */
TILEC_API tilec_status tilec_attention_plan(
    tilec_context *cx, const DLTensor *q, const DLTensor *k, const DLTensor *v,
    const tilec_attention_options *options, tilec_attention **out);
/* What a plan chooses by batch, heads and lengths, as a number: whether keys are
 * split, and how; whether blocks are few. 0: neither. A plan is as fast as one for tensors of other
 * sides if this number is equal. -1: q, k or v is no tensor of 4 dims. */
TILEC_API int64_t tilec_attention_variant(
    const tilec_context *cx, const DLTensor *q, const DLTensor *k,
    const DLTensor *v, const tilec_attention_options *options);
TILEC_API void tilec_attention_free(tilec_attention *a);
/* The forward kernel, or a plan of several (lists, COPY_VALUES, SPLIT_KEYS);
 * belongs to the plan. Its captured parameters are what `captured` below must
 * give, unless the expression gave the value. */
TILEC_API const tilec_kernel *tilec_attention_kernel(const tilec_attention *a);
/* The plan that computes the gradients (see tilec_kernel_part); NULL: none. */
TILEC_API const tilec_kernel *
tilec_attention_backward_kernel(const tilec_attention *a);

/* What a call takes and gives; of those that it does not name it looks at
 * nothing. Tensors that are written should not overlap others: forward refuses
 * an o or lse that surely does (o may be the same view as q), or of which
 * elements are one (stride 0). */
typedef struct tilec_attention_tensors {
    size_t size;
    const DLTensor *q, *k, *v;
    const DLTensor *o;   /* forward: written; backward: read */
    const DLTensor *lse; /* the same; forward: NULL: not wanted */
    /* By name: "mask.offsets", or "offsets" where that is unambiguous. */
    const tilec_argument *captured;
    size_t ncaptured;
    /* Forward: the largest of a row's modified scores, float32 [B, HQ, M], -inf
     * for a query without any key; NULL: not wanted. Only of a plan with that
     * option. */
    const DLTensor *max;
    /* Device memory (CPU target: host memory), aligned to 256 bytes, and its
     * size: at least what tilec_attention_workspace says; NULL where that is 0,
     * or where keys are split by the library's choice or SPLIT_KEYS: then they
     * are not. What it holds before does not matter, nor afterwards. Calls that
     * may run at the same time need one each. */
    void *workspace;
    uint64_t workspace_bytes;
    /* Backward. The gradients that come in: of o, like o, and of lse, like lse
     * (NULL: zero). */
    const DLTensor *dout;
    const DLTensor *dlse;
    /* Those that go out, like q, k and v. All three are needed. */
    const DLTensor *dq, *dk, *dv;
    /* Of a plan with captured_gradients: float32 tensors with the shapes of
     * the captured ones ([1] for a scalar), by the names of those. Zeroed
     * first, for which they must be dense. Every one is needed but those of
     * scalars: tilec_attention_gradient lists them. */
    const tilec_argument *captured_grads;
    size_t ncaptured_grads;
    /* Of a plan with that option: float32 [HQ], needed by forward and backward;
     * and backward's gradient for it, the same bits in every run (NULL: not
     * wanted). */
    const DLTensor *sinks, *dsinks;
} tilec_attention_tensors;

/* The memory that a call with q, k and v of these shapes needs (`tensors` may
 * leave all others out, but captured_grads of a deterministic plan, and data
 * does not matter); *forward and *backward may
 * be NULL, where that is not asked. *backward of a plan without `backward` is
 * TILEC_USAGE. */
TILEC_API tilec_status tilec_attention_workspace(
    const tilec_attention *a, const tilec_attention_tensors *tensors,
    uint64_t *forward, uint64_t *backward, tilec_error *error);

/* The gradients that `captured_grads` must give, by name: "grad.score.bias"
 * (which may be given as "score.bias", or "bias" where that is unambiguous),
 * type, rank, fixed sizes. NULL past the end. */
TILEC_API const tilec_parameter *
tilec_attention_gradient(const tilec_attention *a, size_t index);

/* q, k, v, captured to o, and lse and max where given. As tilec_launch: on the
 * CPU done on return, on a GPU put into the stream; may be captured. */
TILEC_API tilec_status tilec_attention_forward(
    const tilec_attention *a, const tilec_attention_tensors *tensors,
    const tilec_launch_options *options, tilec_error *error);

/* q, k, v, captured, o and lse (of forward), dout, and dlse where given, to dq,
 * dk, dv and captured_grads. Several kernels in the stream. A query without any
 * key has gradients of zero; no gradient is NaN where the inputs and the mods'
 * derivatives are finite. */
TILEC_API tilec_status tilec_attention_backward(
    const tilec_attention *a, const tilec_attention_tensors *tensors,
    const tilec_launch_options *options, tilec_error *error);

#ifdef __cplusplus
}
#endif

#endif
