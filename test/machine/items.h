/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a cache: the sizes of problems, and their work items.
 */
#ifndef TEST_MACHINE_ITEMS_H
#define TEST_MACHINE_ITEMS_H

#include "test/machine/problem.h"

#define AT(letter) [(letter) - 'A']

/* Of a cache: b sequences of m queries and up to n keys; blocks of so many
 * rows, in all so many, each of so many pieces. I has no divisor with 5. */
#define KVCACHE(b, heads, kv, m, n, d, dv, rows, blocks, pieces)               \
    AT('B') = b, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('K') = n,      \
    AT('D') = d, AT('E') = dv, AT('J') = 13, AT('V') = rows, AT('F') = blocks, \
    AT('Q') = pieces, AT('W') = 8, AT('U') = (blocks) * (pieces),              \
    AT('C') = (blocks) * (kv), AT('I') = 5 * (blocks) * (pieces) + 1
#define DENSE_CACHE(b, heads, kv, m, n, d, rows, blocks, pieces)               \
    {                                                                          \
        KVCACHE(b, heads, kv, m, n, d, d, rows, blocks, pieces),               \
            AT('P') = b, AT('N') = (n) + 3                                     \
    }
/* Infinities and a NaN in v. */
#define SPOILED_CACHE(b, heads, kv, m, n, d, rows, blocks, pieces)             \
    {                                                                          \
        KVCACHE(b, heads, kv, m, n, d, d, rows, blocks, pieces),               \
            AT('P') = b, AT('N') = (n) + 3, AT('S') = 1                        \
    }
/* v in the first dv columns of k. */
#define LATENT_CACHE(b, heads, m, n, d, dv, rows, blocks, pieces)              \
    {                                                                          \
        KVCACHE(b, heads, 1, m, n, d, dv, rows, blocks, pieces),               \
            AT('P') = b, AT('N') = (n) + 3                                     \
    }
#define LATENT_PAGES(b, heads, m, t, page, d, dv, rows, blocks, pieces)        \
    {                                                                          \
        KVCACHE(b, heads, 1, m, (t) * (page)-1, d, dv, rows, blocks, pieces),  \
            AT('P') = 5, AT('N') = page, AT('T') = t                           \
    }
/* Tables of t pages of which there are 5, as PAGED. */
#define PAGED_CACHE(b, heads, kv, m, t, page, d, rows, blocks, pieces)         \
    {                                                                          \
        KVCACHE(b, heads, kv, m, (t) * (page)-1, d, d, rows, blocks, pieces),  \
            AT('P') = 5, AT('N') = page, AT('T') = t                           \
    }
/* For the schedule: the pieces that are wanted, room for items. */
#define SCHEDULE(b, m, n, parts, items)                                        \
    {                                                                          \
        AT('B') = b, AT('M') = m, AT('N') = n, AT('U') = parts, AT('J') = 13,  \
        AT('W') = 8, AT('I') = items, AT('C') = items, AT('T') = (b) + 1       \
    }

/* Items for the sequences of a problem. */
void deal_items(const problem *p, num_tensor *items);

#endif
