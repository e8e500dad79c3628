/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch of sequences over a cache: what is drawn, the tensors of a call with
 * it, and the check of its results.
 */
#ifndef TEST_NUMERICS_KVCACHE_BATCH_H
#define TEST_NUMERICS_KVCACHE_BATCH_H

#include "test/numerics/mods.h"

enum {
    MOST_SEQS = 40,
    MOST_POOL = 1 << 14,
    MOST_GROUP = 8,
    NOWHERE = 2147480000
};

typedef struct kv_problem {
    num_type type, cache;
    tilec_kv_layout layout;
    bool is_ragged, heads_inside, sinks;
    bool offsets; /* queries do not stand at the last keys */
    bool v_in_k;  /* v is the first columns of k */
    int seqs, hk, group, d, dv, page;
    int room,
        queries;    /* at most, of a sequence; queries: of each, not ragged */
    int piece, gap; /* gap: elements after each row of a cache */
    int power;      /* q is 2^power as large, and the scale as much less */
    int factors;    /* of a cache of 8 bits: 0 none, one, of heads, of rows */
    bool is_short;  /* scores are short fractions, to which biases add */
    const mask_case *mask;
    const score_case *score;
} kv_problem;

/* Tensors of a call, in the order of `fields`. */
enum {
    Q,
    K,
    V,
    O,
    LSE,
    KV_LENS,
    CU_K,
    TABLE,
    INDPTR,
    INDICES,
    LAST,
    CU_Q,
    SINKS,
    K_FACTORS,
    V_FACTORS,
    OFFSETS,
    NTENSORS
};

typedef struct kv_batch {
    const kv_problem *p;
    int keys[MOST_SEQS], queries[MOST_SEQS];
    int first_key[MOST_SEQS], first_query[MOST_SEQS]; /* where ragged */
    int offset[MOST_SEQS]; /* of the first query, where the problem has them */
    int order[MOST_POOL];  /* of the pool's pages */
    int kept;              /* a sequence that is not drawn again; -1: none */
    num_tensor t[NTENSORS];
    num_tensor q[MOST_SEQS], k[MOST_SEQS], v[MOST_SEQS]; /* [1, heads, n, d] */
    num_tensor factors[2][MOST_SEQS];                    /* [1, heads, n, 1] */
    mod_data mods;
} kv_batch;

#define CHOOSE(r, all) (all)[num_below(r, (int)(sizeof(all) / sizeof *(all)))]

/* ---- batch.c ---- */

kv_problem kv_problem_draw(num_rng *r, int which);
void kv_problem_describe(const kv_problem *p, char text[256]);
double kv_scale(const kv_problem *p);
bool kv_has_pages(const kv_problem *p);
int kv_most_pages(const kv_problem *p); /* that a sequence has room for */
int kv_pages(const kv_problem *p, int keys);
/* A power of 2: the factor of a head's keys (which = 0) or values (1). */
int kv_factor_power(const kv_problem *p, int head, int which);
void kv_set(const num_tensor *t, int64_t i, double x);

/* b->p, b->kept and b->mods are set. */
void kv_batch_init(kv_batch *b, num_rng *r);
void kv_batch_free(kv_batch *b);
/* Other lengths, and other contents of all sequences but b->kept. */
void kv_draw_sequences(kv_batch *b, num_rng *r);
void kv_shuffle_pages(kv_batch *b, num_rng *r);

/* ---- places.c ---- */

/* Sequences into the tensors of the call, all else of them NaN or NOWHERE. */
void kv_place(kv_batch *b);

/* ---- check.c ---- */

/* The results of a call against float64 attention; why: the first fault. */
bool kv_check(const kv_batch *b, char why[256]);
/* The row-major index of a row of head h in o and lse. */
int64_t kv_row_index(const kv_batch *b, int i, int h, int query);

#endif
