/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and bindings for the problems in kernels_by_warps.def and
 * kernels_by_groups.def.
 */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

#include "test/machine/items.h"

/* A row of a table. */
typedef struct kernel_row {
    const char *name, *kernel;
    double tolerance;
    int size[26];
    const char *bindings; /* NAME=VALUE, with a space between two */
} kernel_row;

/* Without a name: the end. */
extern const kernel_row kernels_by_warps[], kernels_by_groups[];

/* The names and values of a problem's bindings. */
typedef struct kernel_words {
    char text[256];
} kernel_words;

/* The problem of a row; it points into the words. */
problem kernel_problem(const kernel_row *row, kernel_words *words);

#define SIZES(...)                                                             \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
#define ATTENTION(heads, kv, m, n, d, e)                                       \
    {                                                                          \
        AT('B') = 1, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('N') = n,  \
        AT('D') = d, AT('E') = e, AT('C') = 2, AT('T') = 9                     \
    }
/* Wide heads: 192 rows have no room. */
#define WIDE_ATTENTION(heads, kv, m, n, d, e)                                  \
    {                                                                          \
        AT('B') = 1, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('N') = n,  \
        AT('D') = d, AT('E') = e, AT('C') = 2, AT('T') = 9, AT('W') = 8        \
    }
#define ZERO_SCALE(m, n, d)                                                    \
    {                                                                          \
        AT('B') = 1, AT('H') = 2, AT('G') = 2, AT('M') = m, AT('N') = n,       \
        AT('D') = d, AT('S') = 2                                               \
    }
/* A table of t entries a program, each one of 7 pages of which there are 5. */
#define PAGED(m, t, p, d)                                                      \
    {                                                                          \
        AT('B') = 2, AT('M') = m, AT('T') = t, AT('G') = 5, AT('P') = p,       \
        AT('D') = d                                                            \
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
#define WIDE_BACKWARD(heads, kv, m, n, d, e)                                   \
    {                                                                          \
        AT('B') = 1, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('N') = n,  \
        AT('D') = d, AT('E') = e, AT('C') = 2, AT('R') = (m) + 192,            \
        AT('T') = 9, AT('P') = 1, AT('U') = 64, AT('V') = 8, AT('W') = 8       \
    }
/* Heads in parts, of a batch of 2. */
#define SPLIT_BACKWARD(parts, heads, kv, m, n, d, spoiled)                     \
    {                                                                          \
        AT('B') = 2, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('N') = n,  \
        AT('D') = d, AT('E') = d, AT('C') = 2, AT('R') = (m) + 192,            \
        AT('S') = spoiled, AT('P') = 2 * (parts), AT('U') = 64, AT('V') = 8    \
    }
/* The gradient of sinks in parts, of a batch of 2. */
#define SINKS(heads, m, parts)                                                 \
    {                                                                          \
        AT('B') = 2, AT('H') = heads, AT('M') = m, AT('C') = 2,                \
        AT('R') = (m) + 192, AT('W') = parts                                   \
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
/* n tokens in chunks of c, heads of v g, of k h. */
#define DELTA(n, c, h, g, k, v)                                                \
    {                                                                          \
        AT('B') = 1, AT('N') = n, AT('H') = h, AT('G') = g, AT('K') = k,       \
        AT('V') = v, AT('J') = c, AT('T') = ((n) + (c)-1) / (c),               \
        AT('C') = ((n) + (c)-1) / (c) * (c), AT('W') = 8                       \
    }
#define MATRIX(m, n, k)                                                        \
    {                                                                          \
        AT('M') = m, AT('N') = n, AT('K') = k                                  \
    }
/* W: at most so many warps, 0: all. */
#define AT_MOST(warps, m, n)                                                   \
    {                                                                          \
        AT('W') = warps, AT('M') = m, AT('N') = n                              \
    }
#define IN_PLACE(m, n)                                                         \
    {                                                                          \
        AT('M') = m, AT('N') = n, AT('S') = 3                                  \
    }
/* Bindings: 8-bit numbers with scale factors, of q for each head, of k and v
 * for each block of rows. */
#define FACTORS(k_rows, v_rows)                                                \
    " SCALE_BLOCK_K=" #k_rows " SCALE_BLOCK_V=" #v_rows                        \
    " descale_q=@per_batch_head descale_k=@per_block descale_v=@per_block"

#endif
