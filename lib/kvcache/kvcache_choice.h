/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan of attention over a cache chooses by its batch.
 */
#ifndef TC_KVCACHE_CHOICE_H
#define TC_KVCACHE_CHOICE_H

#include "lib/handles.h"

typedef struct tc_kv_choice {
    bool has_many_rows; /* more than wait for memory only */
    bool by_heads;      /* a block has the queries of a head, then the next */
    bool merges_apart;  /* pieces, by a kernel of its own */
    bool runs_ahead;    /* programs take items; loads are ahead of them */
    bool is_pieced;     /* columns of v in k: a buffer of pieces */
    int64_t rows;       /* of a block */
    int64_t keys, tail; /* of a step, of the steps after those */
    unsigned warps;
    unsigned stages; /* 0: the compiler's default */
    unsigned per_sm; /* programs of a multiprocessor */
    /* Of a program that merges: pieces added at once, those of what is left,
     * columns of v. And how many such programs, about. */
    unsigned many, parts, columns, programs;
} tc_kv_choice;

/* q, k and v have four dims. sms: multiprocessors of the GPU, 0 if there is
 * none; target NULL: there is none of that name. */
tc_kv_choice tc_kv_choose(const DLTensor *q, const DLTensor *k,
                          const DLTensor *v, const tilec_kvcache_options *o,
                          const tc_target *target, unsigned sms);

/* For what does not fit into shared memory: fewer stages, then half the rows,
 * then half the keys. */
void tc_kv_make_smaller(tc_kv_choice *c, int64_t group);

#endif
