/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels must compute, in float64, straight from the definitions.
 * Written independently of the compiler: no block, no online softmax, no
 * shared code.
 */
#ifndef TEST_REFERENCE_H
#define TEST_REFERENCE_H

#include "test/numerics/number.h"

/* What a mod sees; `data` is what it captured. */
typedef struct ref_position {
    int b, h, q, k;
    int q_len, k_len;
    const void *data;
} ref_position;
typedef double ref_score_mod(double score, const ref_position *at);
typedef bool ref_mask_mod(const ref_position *at);

/* What is multiplied with v in place of a weight, which is exp(score - row's
 * largest). */
typedef double ref_weight(double p);

typedef struct ref_attention {
    const num_tensor *q; /* [B, Hq, Mq, Dqk] */
    const num_tensor *k; /* [B, Hkv, Nk, Dqk]; Hkv divides Hq */
    const num_tensor *v; /* [B, Hkv, Nk, Dv] */
    double scale;
    ref_score_mod *score; /* NULL: the score itself */
    const void *score_data;
    ref_mask_mod *mask; /* NULL: every key */
    const void *mask_data;
    double *max;         /* forward's third result, [B, Hq, Mq]: a row's largest
                           modified score; NULL: not wanted */
    const double *sinks; /* [Hq], each a score of all rows of its head, with a
                            value of 0; NULL: none */
    ref_weight *weight;  /* forward's, of which sum and lse know nothing; NULL:
                           the weight itself */
} ref_attention;

/* o: [B, Hq, Mq, Dv]; lse: [B, Hq, Mq], natural logarithm. A row without a key
 * has o = 0 and lse = -inf, or its sink; a sink of inf makes o = 0. Masked keys
 * are not looked at. */
void ref_attention_forward(const ref_attention *a, double *o, double *lse);

/* What the backward kernels are given as well: o and lse as they were stored,
 * so that their rounding is none of the gradients' errors. */
typedef struct ref_gradients {
    const num_tensor *o, *lse, *dout; /* like o [B, Hq, Mq, Dv], [B, Hq, Mq] */
    const num_tensor *dlse;           /* NULL: zero */
    /* Results, dense, like q, k and v; and the sums of the magnitudes of what
     * was added up, the scale of rounding errors (a slope is one of numbers
     * near 1, however small it is). */
    double *dq, *dk, *dv;
    double *dq_size, *dk_size, *dv_size;
    double *dsinks, *dsinks_size; /* of a->sinks */
} ref_gradients;

/* A pair that the mask hides, or whose score is -inf, adds nothing. The slope
 * of a score mod is a difference quotient. */
void ref_attention_backward(const ref_attention *a, const ref_gradients *g);

/* c = a b; a [M, K], b [K, N]. `magnitude` (may be NULL) gets the sum of
 * |a||b|, the scale of the rounding error. */
void ref_matmul(const num_tensor *a, const num_tensor *b, double *c,
                double *magnitude);
/* Along the last dim of [M, N]. */
void ref_softmax(const num_tensor *x, double *y);
/* Along the last dim of [M, N]; weight and bias [N]. */
void ref_layernorm(const num_tensor *x, const num_tensor *weight,
                   const num_tensor *bias, double eps, double *y);

#endif
