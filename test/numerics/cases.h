/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated cases of attention, forward and backward.
 *
 * A group is a compiled plan (dims, type, mask, score); its cases differ in
 * everything that may differ without compiling again: batch, heads, lengths,
 * strides, scale, captured values, inputs.
 */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "test/numerics/mods.h"

typedef struct group {
    num_type type;
    int dim, value_dim;
    const mask_case *mask;
    const score_case *score;
} group;

typedef enum input_kind {
    NORMAL,
    SHORT,   /* short binary fractions: scores are exact in f32 */
    PEAKED,  /* scores to +-1e4, exact */
    HUGE_,   /* scores near the end of what f32 (f16: its input) holds, exact */
    ZEROS,   /* q and k are 0 */
    ALIKE,   /* all keys are the same, with large scores */
    RISING,  /* keys are multiples of the first, ever larger; 16 bits only */
    SPECIAL, /* infinities and NaNs in v, seen by some rows or by none */
    INPUT_KINDS
} input_kind;
typedef struct attention_case {
    const group *group;
    int batch, heads, ratio, m, n; /* heads of k and v; m queries, n keys */
    double scale;
    input_kind input;
    int power;      /* of two, that values are multiplied by */
    int layouts[4]; /* of q, k, v, o: index into layouts[] */
    bool shared;    /* k and v: one batch for all, by a stride of 0 */
    bool reversed;  /* k and v: keys backwards, by a negative stride */
} attention_case;

typedef struct tensors {
    num_tensor q, k, v, o, lse;
} tensors;

/* The command line; without --cases so many of each group, or with --nightly so
 * many. Prints the seed. */
typedef struct case_options {
    uint64_t seed;
    int cases, only_group, only_case;
    bool nightly, verbose;
} case_options;
case_options read_case_options(int argc, char **argv, int cases,
                               int nightly_cases);

attention_case make_case(num_rng *r, const group *g);
void describe_case(const attention_case *c, char text[512]);
/* One of q, k, v, o, by number, as the case has it laid out. */
num_tensor make_tensor(const attention_case *c, int which, int heads,
                       int length, int dim);
tensors make_tensors(const attention_case *c, num_rng *r, const mod_data *mods);
void free_tensors(tensors *t);
/* A logit for each head, f32 [HQ], near the scores or far from them. */
num_tensor make_sinks(const attention_case *c, num_rng *r);

#endif
