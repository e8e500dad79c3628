/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of accesses to a buffer in shared memory, for callers that show it.
 */
#ifndef TC_ASSIGN_SHARED_H
#define TC_ASSIGN_SHARED_H

#include "passes/passes.h"

typedef struct tc_buffer_access {
    const tc_op *op;
    bool by_descriptor;    /* wgmma */
    bool by_matrices;      /* ldmatrix, stmatrix */
    unsigned bytes;        /* of a vector, where it is none of these */
    unsigned ways;         /* of bank conflicts; 1: none */
    const tc_layout *tile; /* by threads: who has which element; else NULL */
    const tc_layout *view; /* the buffer's as the op sees it: transposed, .. */
} tc_buffer_access;

/* By threads and by wgmma: not those by TMA copies, which have no conflicts.
 * The number of those in `out`, at most `most`. */
unsigned tc_buffer_accesses(tc_pass_env *env, tc_op *alloc, unsigned most,
                            tc_buffer_access *out);

#endif
