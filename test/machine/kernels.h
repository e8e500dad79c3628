/* SPDX-License-Identifier: Apache-2.0
 *
 * The problems of kernels.c, and what they are written with; one without a name
 * ends each table.
 */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

#include "test/machine/problem.h"

/* BM or BN may be "?": 64 rows for each warp group. */
extern const problem kernels_by_warps[], kernels_by_groups[];

#define AT(letter) [(letter) - 'A']
#define ATTENTION(heads, kv, m, n, d, e)                                       \
    {                                                                          \
        AT('B') = 1, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('N') = n,  \
        AT('D') = d, AT('E') = e, AT('C') = 2, AT('T') = 9                     \
    }
/* Infinities and a NaN in v: the careful way through the kernel. */
#define SPOILED(m, n, d)                                                       \
    {                                                                          \
        AT('B') = 1, AT('H') = 1, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = d, AT('E') = d, AT('S') = 1                                  \
    }
/* Gradients; rows (R) for blocks of up to so many queries. */
#define BACKWARD(heads, kv, m, n, d, e)                                        \
    {                                                                          \
        AT('B') = 1, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('N') = n,  \
        AT('D') = d, AT('E') = e, AT('C') = 2, AT('R') = (m) + 192,            \
        AT('T') = 9, AT('P') = 1, AT('U') = 64, AT('V') = 8                    \
    }
/* Heads in parts, of a batch of 2. */
#define SPLIT_BACKWARD(parts, heads, kv, m, n, d, spoiled)                     \
    {                                                                          \
        AT('B') = 2, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('N') = n,  \
        AT('D') = d, AT('E') = d, AT('C') = 2, AT('R') = (m) + 192,            \
        AT('S') = spoiled, AT('P') = 2 * (parts), AT('U') = 64, AT('V') = 8    \
    }
#define SPOILED_BACKWARD(m, n, d)                                              \
    {                                                                          \
        AT('B') = 1, AT('H') = 1, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = d, AT('E') = d, AT('C') = 2, AT('R') = (m) + 192,            \
        AT('S') = 1, AT('P') = 1, AT('U') = 64, AT('V') = 8                    \
    }
#define ROWS(m, d, blocks)                                                     \
    {                                                                          \
        AT('B') = 2, AT('H') = 2, AT('M') = m, AT('D') = d, AT('T') = blocks,  \
        AT('W') = 8                                                            \
    }
#define MATRIX(m, n, k)                                                        \
    {                                                                          \
        AT('M') = m, AT('N') = n, AT('K') = k                                  \
    }
/* Numbers of 8 bits with factors: of q a head's, of k and v those of blocks. */
#define FACTORS(k_rows, v_rows)                                                \
    {"SCALE_BLOCK_K", k_rows}, {"SCALE_BLOCK_V", v_rows},                      \
        {"descale_q", "@per_batch_head"}, {"descale_k", "@per_block"},         \
    {                                                                          \
        "descale_v", "@per_block"                                              \
    }
#define TILES(bm, bn, d, t)                                                    \
    {"BM", bm}, {"BN", bn}, {"D", d},                                          \
    {                                                                          \
        "T", t                                                                 \
    }

#endif
