/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of kernels/block_mask.tile for a mask expression.
 */
#ifndef TC_MASK_BLOCKS_H
#define TC_MASK_BLOCKS_H

#include "lib/mods/mods_job.h"

typedef struct tc_mask_blocks {
    tc_mods_texts texts; /* of the mask */
    const char *target;  /* NULL: the context's */
    const char *kernel;  /* "block_kinds", "block_visits" or "keys_seen" */
    unsigned q_side, k_side;
    bool by_key;          /* of the first two */
    int64_t q_len, k_len; /* a remark says whether rows surely have a key; 0:
                             not asked */
} tc_mask_blocks;

/* A kernel, and the values of captured scalars that the expression gives, which
 * live as long as it. Diagnostics as of any compile. */
tilec_status tc_mask_blocks_new(tilec_context *cx, const tc_mask_blocks *from,
                                tilec_kernel **out, tilec_argument **values,
                                size_t *nvalues);

#endif
