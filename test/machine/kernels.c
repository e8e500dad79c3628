/* SPDX-License-Identifier: Apache-2.0
 *
 * All shipped kernels at machine level, in all schedules, run by the
 * interpreter and compared with the CPU: 1 to 4 stages, 1 to 8 warps, shared
 * memory swizzled or not, loops of 0, 1, 2, n and n + 1 steps, sizes that
 * divide and that do not; copies late, early, newest first, at random. For
 * sm_90a 4 to 12 warps, 64 rows for each 4, and all ways to share out tiles.
 * NAME: how the names of problems begin.
 *
 *   machine_kernels [--target NAME] [--only NAME] [--stages N] [--warps N]
 *                   [--print 1] [--all 1] [--pipeline PASSES]
 */
#include "test/machine/problem.h"
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        AT('T') = 9, AT('P') = 1                                               \
    }
/* Heads in parts, of a batch of 2. */
#define SPLIT_BACKWARD(parts, heads, kv, m, n, d, spoiled)                     \
    {                                                                          \
        AT('B') = 2, AT('H') = heads, AT('G') = kv, AT('M') = m, AT('N') = n,  \
        AT('D') = d, AT('E') = d, AT('C') = 2, AT('R') = (m) + 192,            \
        AT('S') = spoiled, AT('P') = 2 * (parts)                               \
    }
#define SPOILED_BACKWARD(m, n, d)                                              \
    {                                                                          \
        AT('B') = 1, AT('H') = 1, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = d, AT('E') = d, AT('C') = 2, AT('R') = (m) + 192,            \
        AT('S') = 1, AT('P') = 1                                               \
    }
#define ROWS(m, d, blocks)                                                     \
    {                                                                          \
        AT('B') = 2, AT('H') = 2, AT('M') = m, AT('D') = d, AT('T') = blocks,  \
        AT('W') = 8                                                            \
    }
#define IN_PLACE(m, n)                                                         \
    {                                                                          \
        AT('M') = m, AT('N') = n, AT('S') = 3                                  \
    }
#define MATRIX(m, n, k)                                                        \
    {                                                                          \
        AT('M') = m, AT('N') = n, AT('K') = k                                  \
    }
/* Numbers of 8 bits with factors: of q a head's, of k and v those of blocks. */
#define FACTORS(k_rows, v_rows)                                                \
    {"SK", k_rows}, {"SV", v_rows}, {"descale_q", "@per_batch_head"},          \
        {"descale_k", "@per_block"},                                           \
    {                                                                          \
        "descale_v", "@per_block"                                              \
    }
#define TILES(bm, bn, d, t)                                                    \
    {"BM", bm}, {"BN", bn}, {"D", d},                                          \
    {                                                                          \
        "T", t                                                                 \
    }

/* The last axis of the problems that follow: steps of the main loop. */
static const problem problems[] = {
    {"matmul",
     "matmul",
     {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "bf16"}},
     MATRIX(32, 32, 64),
     4e-3},
    {"matmul_0",
     "matmul",
     {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "f16"}, {"TC", "f32"}},
     MATRIX(32, 32, 0),
     1e-6},
    {"matmul_1",
     "matmul",
     {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "f16"}, {"TC", "f32"}},
     MATRIX(32, 32, 16),
     1e-6},
    {"matmul_2",
     "matmul",
     {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "f16"}, {"TC", "f32"}},
     MATRIX(40, 48, 32),
     1e-6},
    {"matmul_3",
     "matmul",
     {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "f16"}, {"TC", "f32"}},
     MATRIX(32, 32, 40),
     1e-6},
    {"matmul_5",
     "matmul",
     {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "f16"}, {"TC", "f32"}},
     MATRIX(40, 24, 80),
     1e-6},
    {"matmul_odd",
     "matmul",
     {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "f16"}, {"TC", "f32"}},
     MATRIX(33, 35, 37),
     1e-6},
    {"matmul_f32",
     "matmul",
     {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "f32"}},
     MATRIX(40, 36, 52),
     2e-6},
    {"attention",
     "attention_fwd",
     {TILES("32", "32", "32", "bf16")},
     ATTENTION(2, 1, 64, 64, 32, 32),
     6e-3},
    {"attention_1",
     "attention_fwd",
     {TILES("32", "16", "16", "f16")},
     ATTENTION(1, 1, 24, 9, 16, 16),
     2e-3},
    {"attention_3",
     "attention_fwd",
     {TILES("64", "16", "16", "f16")},
     ATTENTION(1, 1, 70, 41, 16, 16),
     2e-3},
    {"attention_5",
     "attention_fwd",
     {TILES("32", "16", "16", "bf16")},
     ATTENTION(1, 1, 20, 80, 16, 16),
     6e-3},
    {"attention_d24",
     "attention_fwd",
     {TILES("32", "32", "24", "bf16")},
     ATTENTION(1, 1, 40, 50, 24, 24),
     6e-3},
    {"attention_d80",
     "attention_fwd",
     {TILES("32", "16", "80", "bf16")},
     ATTENTION(1, 1, 32, 40, 80, 80),
     6e-3},
    {"attention_f32",
     "attention_fwd",
     {TILES("32", "16", "16", "f32")},
     ATTENTION(1, 1, 40, 40, 16, 16),
     4e-6},
    {"fp8",
     "attention_fwd",
     {TILES("32", "32", "32", "f8e4m3"),
      {"TO", "bf16"},
      {"PBITS", "8"},
      FACTORS("64", "32")},
     ATTENTION(2, 1, 40, 150, 32, 32),
     1e-2},
    {"fp8_columns",
     "attention_fwd",
     {TILES("32", "32", "64", "f8e4m3"),
      {"TO", "bf16"},
      {"PBITS", "8"},
      {"VC", "2"}},
     ATTENTION(2, 1, 40, 144, 64, 64),
     1e-2},
    {"fp8_cache",
     "attention_fwd",
     {TILES("32", "16", "32", "bf16"),
      {"TK", "f8e4m3"},
      {"TV", "f8e5m2"},
      FACTORS("16", "32")},
     ATTENTION(2, 1, 40, 50, 32, 32),
     6e-3},
    {"spoiled",
     "attention_fwd",
     {TILES("32", "16", "16", "bf16")},
     SPOILED(40, 50, 16),
     6e-3},
    {"spoiled_f32",
     "attention_fwd",
     {TILES("32", "16", "16", "f32")},
     SPOILED(24, 33, 16),
     4e-6},
    {"spoiled_causal",
     "attention_fwd",
     {TILES("32", "16", "16", "f16"), {"mask_mod", "@causal"}},
     SPOILED(70, 70, 16),
     2e-3},
    {"causal",
     "attention_fwd",
     {TILES("32", "16", "32", "bf16"), {"mask_mod", "@causal"}},
     ATTENTION(2, 2, 70, 70, 32, 32),
     6e-3},
    {"window",
     "attention_fwd",
     {TILES("32", "16", "16", "f16"), {"mask_mod", "@sliding_window"}},
     ATTENTION(1, 1, 90, 90, 16, 16),
     2e-3},
    {"prefix",
     "attention_fwd",
     {TILES("32", "16", "16", "bf16"), {"mask_mod", "@prefix_lm_batch"}},
     ATTENTION(1, 1, 64, 64, 16, 16),
     6e-3},
    {"documents",
     "attention_fwd",
     {TILES("32", "16", "16", "bf16"), {"mask_mod", "@document_ids"}},
     ATTENTION(1, 1, 50, 50, 16, 16),
     6e-3},
    {"lists",
     "attention_fwd",
     {TILES("32", "32", "16", "bf16"),
      {"mask_mod", "@document_ids"},
      {"blocks", "@listed_blocks"}},
     ATTENTION(2, 2, 50, 150, 16, 16),
     6e-3},
    {"alibi",
     "attention_fwd",
     {TILES("32", "16", "16", "bf16"),
      {"score_mod", "@alibi"},
      {"mask_mod", "@causal"}},
     ATTENTION(2, 1, 40, 50, 16, 16),
     6e-3},
    {"soft_cap",
     "attention_fwd",
     {TILES("32", "16", "16", "f16"), {"score_mod", "@soft_cap"}},
     ATTENTION(1, 1, 40, 50, 16, 16),
     2e-3},
    {"max",
     "attention_fwd",
     {TILES("32", "16", "16", "f16"), {"score_mod", "@soft_cap"}, {"MAX", "1"}},
     ATTENTION(1, 1, 40, 50, 16, 16),
     2e-3},
    {"tf32",
     "attention_fwd",
     {TILES("32", "16", "24", "f32"), {"precision", "tf32"}},
     ATTENTION(2, 1, 40, 50, 24, 24),
     1e-3},
    {"tf32x3",
     "attention_fwd",
     {TILES("32", "16", "16", "f32"), {"precision", "tf32x3"}},
     ATTENTION(1, 1, 40, 50, 16, 16),
     2e-6},
    {"bwd_tf32",
     "attention_bwd",
     {TILES("32", "32", "16", "f32"), {"precision", "tf32"}},
     BACKWARD(1, 1, 70, 50, 16, 16),
     2e-3},
    {"bwd_tf32x3",
     "attention_bwd",
     {TILES("32", "32", "16", "f32"), {"precision", "tf32x3"}},
     BACKWARD(1, 1, 50, 70, 16, 16),
     4e-6},
    {"bias_table",
     "attention_fwd",
     {TILES("32", "16", "16", "bf16"), {"score_mod", "@relative_bias_table"}},
     ATTENTION(1, 1, 40, 50, 16, 16),
     6e-3},
    {"bwd_delta",
     "attention_bwd_delta",
     {{"BM", "32"}, {"DV", "24"}, {"T", "bf16"}, {"LSE_GRAD", "1"}},
     BACKWARD(2, 1, 70, 0, 24, 24),
     2e-6},
    {"bwd_dq",
     "attention_bwd_dq",
     {TILES("32", "16", "16", "bf16")},
     BACKWARD(2, 1, 40, 41, 16, 16),
     6e-3},
    {"bwd_dkv",
     "attention_bwd_dkv",
     {TILES("32", "16", "16", "f16")},
     BACKWARD(2, 1, 70, 40, 16, 16),
     2e-3},
    {"bwd",
     "attention_bwd",
     {TILES("16", "32", "32", "bf16")},
     BACKWARD(2, 1, 40, 50, 32, 32),
     6e-3},
    /* More parts than heads: some have none. */
    {"bwd_split",
     "attention_bwd",
     {TILES("16", "32", "16", "bf16"), {"SPLIT", "3"}, {"TO", "f32"}},
     SPLIT_BACKWARD(3, 2, 1, 40, 50, 16, 0),
     6e-3},
    {"bwd_dkv_split_spoiled",
     "attention_bwd_dkv",
     {TILES("32", "16", "16", "f16"),
      {"mask_mod", "@causal"},
      {"SPLIT", "2"},
      {"TO", "f32"}},
     SPLIT_BACKWARD(2, 2, 1, 24, 24, 16, 1),
     2e-3},
    {"bwd_sum",
     "attention_bwd_sum",
     {{"BN", "32"}, {"D", "24"}, {"DV", "24"}, {"T", "bf16"}},
     SPLIT_BACKWARD(3, 1, 2, 0, 40, 24, 0),
     4e-3},
    {"bwd_f32",
     "attention_bwd",
     {TILES("16", "16", "16", "f32")},
     BACKWARD(1, 1, 24, 33, 16, 16),
     4e-6},
    {"bwd_post",
     "attention_bwd_post",
     {{"BM", "32"}, {"D", "24"}, {"T", "f16"}},
     BACKWARD(1, 1, 40, 41, 24, 24),
     2e-3},
    {"bwd_spoiled",
     "attention_bwd",
     {TILES("16", "32", "16", "bf16"), {"mask_mod", "@causal"}},
     SPOILED_BACKWARD(40, 50, 16),
     6e-3},
    {"bwd_dq_causal",
     "attention_bwd_dq",
     {TILES("32", "16", "16", "bf16"), {"mask_mod", "@causal"}},
     BACKWARD(1, 1, 70, 70, 16, 16),
     6e-3},
    {"bwd_window",
     "attention_bwd",
     {TILES("16", "32", "16", "f16"), {"mask_mod", "@sliding_window"}},
     BACKWARD(1, 1, 90, 90, 16, 16),
     2e-3},
    {"bwd_dq_lists",
     "attention_bwd_dq",
     {TILES("32", "16", "16", "bf16"),
      {"mask_mod", "@document_ids"},
      {"blocks", "@listed_blocks"}},
     BACKWARD(2, 1, 50, 150, 16, 16),
     6e-3},
    {"bwd_relative",
     "attention_bwd_dkv",
     {TILES("16", "32", "16", "f16"),
      {"score_mod", "@relative_bias"},
      {"mask_mod", "@causal"}},
     BACKWARD(2, 1, 70, 50, 16, 16),
     2e-3},
    {"bwd_soft_cap",
     "attention_bwd_dq",
     {TILES("32", "16", "16", "bf16"), {"score_mod", "@soft_cap"}},
     BACKWARD(2, 1, 40, 50, 16, 16),
     6e-3},
    {"bwd_captured",
     "attention_bwd_captured",
     {TILES("32", "16", "16", "bf16"), {"score_mod", "@alibi"}},
     BACKWARD(2, 1, 70, 50, 16, 16),
     2e-5},
    {"bwd_captured_table",
     "attention_bwd_captured_pairs",
     {TILES("16", "16", "16", "f16"),
      {"CG", "1"},
      {"mask_mod", "@causal"},
      {"score_mod", "@relative_bias_table"}},
     BACKWARD(2, 1, 40, 41, 16, 16),
     2e-5},
    {"quantize_block",
     "quantize_block",
     {{"D", "32"}, {"BM", "32"}, {"HADAMARD", "32"}},
     ROWS(40, 32, 2),
     1e-2},
    {"quantize_head",
     "quantize_head",
     {{"D", "24"}, {"BM", "32"}, {"T", "f16"}, {"TQ", "f8e5m2"}},
     ROWS(40, 24, 2),
     1e-2},
    {"copied_rows",
     "copy_values",
     {{"D", "72"}},
     {AT('B') = 1, AT('H') = 2, AT('M') = 208, AT('N') = 200, AT('D') = 72},
     0},
    {"copied_columns",
     "copy_values",
     {{"D", "32"}, {"XC", "2"}},
     {AT('B') = 2, AT('H') = 1, AT('M') = 144, AT('N') = 141, AT('D') = 32},
     0},
    {"softmax", "softmax", {{"BN", "64"}}, MATRIX(12, 150, 0), 2e-6},
    {"softmax_in_place", "softmax", {{"BN", "64"}}, IN_PLACE(12, 150), 2e-6},
    {"layernorm_in_place",
     "layernorm",
     {{"BN", "64"}, {"T", "bf16"}},
     IN_PLACE(12, 136),
     6e-3},
    {"softmax_bf16",
     "softmax",
     {{"BN", "64"}, {"T", "bf16"}},
     MATRIX(9, 128, 0),
     6e-3},
    {"layernorm", "layernorm", {{"BN", "64"}}, MATRIX(12, 150, 0), 2e-6},
    {"layernorm_f16",
     "layernorm",
     {{"BN", "64"}, {"T", "f16"}},
     MATRIX(9, 64, 0),
     2e-3},
};
enum { NPROBLEMS = sizeof problems / sizeof *problems };

/* For warp groups. W: at most so many warps, 0: all. */
#define AT_MOST(warps, m, n)                                                   \
    {                                                                          \
        AT('W') = warps, AT('M') = m, AT('N') = n                              \
    }
#define HOPPER_MATMUL(bn, bk, t)                                               \
    {                                                                          \
        {"BM", "?"}, {"BN", bn}, {"BK", bk}, {"T", t},                         \
        {                                                                      \
            "TC", "f32"                                                        \
        }                                                                      \
    }
#define HOPPER_TILES(bn, d, t)                                                 \
    {"BM", "?"}, {"BN", bn}, {"D", d},                                         \
    {                                                                          \
        "T", t                                                                 \
    }
/* Keys are the rows. */
#define HOPPER_KEYS(bm, d, t)                                                  \
    {"BN", "?"}, {"BM", bm}, {"D", d},                                         \
    {                                                                          \
        "T", t                                                                 \
    }
static const problem hopper[] = {
    {"matmul", "matmul", HOPPER_MATMUL("64", "64", "bf16"),
     MATRIX(200, 96, 192), 2e-6},
    {"matmul_0", "matmul", HOPPER_MATMUL("32", "32", "f16"), MATRIX(64, 32, 0),
     2e-6},
    {"matmul_1", "matmul", HOPPER_MATMUL("32", "32", "f16"),
     MATRIX(200, 40, 32), 2e-6},
    {"matmul_2", "matmul", HOPPER_MATMUL("32", "32", "f16"), MATRIX(72, 32, 56),
     2e-6},
    {"matmul_5", "matmul", HOPPER_MATMUL("32", "32", "f16"),
     MATRIX(200, 72, 160), 2e-6},
    {"matmul_odd", "matmul", HOPPER_MATMUL("32", "32", "f16"),
     MATRIX(65, 35, 37), 2e-6},
    {"matmul_bf16",
     "matmul",
     {{"BM", "?"}, {"BN", "64"}, {"BK", "64"}, {"T", "bf16"}},
     MATRIX(200, 96, 72),
     4e-3},
    {"matmul_f32",
     "matmul",
     {{"BM", "?"}, {"BN", "32"}, {"BK", "32"}, {"T", "f32"}},
     {AT('M') = 72, AT('N') = 36, AT('K') = 52, AT('W') = 8},
     2e-6},
    {"matmul_fp8", "matmul", HOPPER_MATMUL("32", "64", "f8e4m3"),
     MATRIX(72, 48, 144), 2e-6},
    {"attention",
     "attention_fwd",
     {HOPPER_TILES("32", "64", "bf16")},
     ATTENTION(2, 1, 200, 96, 64, 64),
     6e-3},
    {"attention_0",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16")},
     ATTENTION(1, 1, 64, 0, 32, 32),
     6e-3},
    {"attention_1",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "f16")},
     ATTENTION(3, 3, 64, 9, 32, 32),
     2e-3},
    {"attention_2",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "f16")},
     ATTENTION(3, 1, 100, 64, 32, 32),
     2e-3},
    {"attention_5",
     "attention_fwd",
     {HOPPER_TILES("16", "32", "bf16")},
     ATTENTION(2, 1, 70, 80, 32, 32),
     6e-3},
    {"attention_d80",
     "attention_fwd",
     {HOPPER_TILES("32", "80", "bf16")},
     ATTENTION(1, 1, 70, 80, 80, 80),
     6e-3},
    {"attention_fp8",
     "attention_fwd",
     {HOPPER_TILES("32", "64", "f8e4m3")},
     ATTENTION(1, 1, 70, 80, 64, 64),
     6e-2},
    {"fp8_blocks",
     "attention_fwd",
     {HOPPER_TILES("32", "64", "f8e4m3"),
      {"TO", "bf16"},
      {"PBITS", "8"},
      FACTORS("64", "32")},
     ATTENTION(2, 1, 70, 150, 64, 64),
     1e-2},
    {"fp8_columns",
     "attention_fwd",
     {HOPPER_TILES("32", "64", "f8e4m3"),
      {"TO", "bf16"},
      {"PBITS", "8"},
      {"VC", "2"}},
     ATTENTION(2, 1, 70, 144, 64, 64),
     1e-2},
    {"fp8_ragged",
     "attention_fwd",
     {HOPPER_TILES("32", "64", "f8e4m3"),
      {"TO", "bf16"},
      {"PBITS", "8"},
      {"VC", "2"}},
     ATTENTION(1, 1, 70, 150, 64, 64),
     1e-2},
    {"fp8_exact",
     "attention_fwd",
     {HOPPER_TILES("32", "64", "f8e4m3"),
      {"TO", "bf16"},
      {"PBITS", "8"},
      {"VC", "2"},
      {"EXACT", "1"},
      {"BD", "64"}},
     ATTENTION(2, 1, 70, 144, 64, 128),
     1e-2},
    {"fp8_cache",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"), {"TK", "f8e4m3"}, FACTORS("32", "64")},
     ATTENTION(2, 1, 70, 80, 32, 32),
     6e-3},
    {"spoiled",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16")},
     SPOILED(70, 70, 32),
     6e-3},
    {"spoiled_head",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "f16")},
     {AT('B') = 2, AT('H') = 2, AT('G') = 2, AT('M') = 200, AT('N') = 40,
      AT('D') = 32, AT('E') = 32, AT('S') = 1},
     2e-3},
    {"causal",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"), {"mask_mod", "@causal"}},
     ATTENTION(2, 2, 200, 200, 32, 32),
     6e-3},
    {"window",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "f16"), {"mask_mod", "@sliding_window"}},
     ATTENTION(1, 1, 150, 150, 32, 32),
     2e-3},
    {"documents",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"), {"mask_mod", "@document_ids"}},
     ATTENTION(1, 1, 70, 70, 32, 32),
     6e-3},
    {"lists",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"),
      {"mask_mod", "@document_ids"},
      {"blocks", "@listed_blocks"}},
     ATTENTION(2, 2, 70, 150, 32, 32),
     6e-3},
    {"offsets",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"), {"mask_mod", "@document"}},
     ATTENTION(1, 1, 150, 150, 32, 32),
     6e-3},
    {"sink",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"), {"mask_mod", "@sink_window"}},
     ATTENTION(1, 1, 200, 200, 32, 32),
     6e-3},
    {"max",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"),
      {"score_mod", "@alibi"},
      {"mask_mod", "@causal"},
      {"MAX", "1"}},
     ATTENTION(2, 1, 70, 80, 32, 32),
     6e-3},
    {"max_spoiled",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"), {"MAX", "1"}},
     SPOILED(70, 70, 32),
     6e-3},
    {"tf32",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "f32"), {"precision", "tf32"}},
     ATTENTION(2, 1, 70, 80, 32, 32),
     1e-3},
    {"tf32_spoiled",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "f32"), {"precision", "tf32"}},
     SPOILED(70, 70, 32),
     1e-3},
    {"bwd_dkv_tf32x3",
     "attention_bwd_dkv",
     {HOPPER_KEYS("32", "32", "f32"), {"precision", "tf32x3"}},
     BACKWARD(2, 1, 70, 100, 32, 32),
     4e-6},
    {"alibi",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "bf16"),
      {"score_mod", "@alibi"},
      {"mask_mod", "@causal"}},
     ATTENTION(2, 1, 70, 80, 32, 32),
     6e-3},
    {"soft_cap",
     "attention_fwd",
     {HOPPER_TILES("32", "32", "f16"), {"score_mod", "@soft_cap"}},
     ATTENTION(1, 1, 70, 80, 32, 32),
     2e-3},
    {"bwd_dq",
     "attention_bwd_dq",
     {HOPPER_TILES("32", "32", "bf16")},
     BACKWARD(2, 1, 100, 70, 32, 32),
     6e-3},
    {"bwd_dkv",
     "attention_bwd_dkv",
     {HOPPER_KEYS("64", "32", "f16")},
     BACKWARD(2, 1, 100, 70, 32, 32),
     2e-3},
    {"bwd",
     "attention_bwd",
     {HOPPER_KEYS("64", "64", "bf16")},
     BACKWARD(2, 1, 100, 200, 64, 64),
     6e-3},
    {"bwd_split",
     "attention_bwd",
     {HOPPER_KEYS("64", "32", "bf16"),
      {"mask_mod", "@causal"},
      {"SPLIT", "3"},
      {"TO", "f32"}},
     SPLIT_BACKWARD(3, 2, 1, 70, 70, 32, 0),
     6e-3},
    {"bwd_dkv_split_spoiled",
     "attention_bwd_dkv",
     {HOPPER_KEYS("64", "32", "f16"), {"SPLIT", "2"}, {"TO", "f32"}},
     SPLIT_BACKWARD(2, 2, 1, 40, 40, 32, 1),
     2e-3},
    {"bwd_causal",
     "attention_bwd",
     {HOPPER_KEYS("64", "32", "bf16"), {"mask_mod", "@causal"}},
     BACKWARD(1, 1, 200, 200, 32, 32),
     6e-3},
    {"bwd_lists",
     "attention_bwd",
     {HOPPER_KEYS("64", "32", "bf16"),
      {"mask_mod", "@document_ids"},
      {"blocks", "@listed_blocks"}},
     BACKWARD(2, 1, 150, 150, 32, 32),
     6e-3},
    /* 64 keys for all warp groups. */
    {"bwd_wide",
     "attention_bwd",
     {TILES("64", "64", "256", "bf16"), {"mask_mod", "@causal"}},
     {AT('B') = 1, AT('H') = 2, AT('G') = 1, AT('M') = 100, AT('N') = 70,
      AT('D') = 256, AT('E') = 256, AT('C') = 2, AT('R') = 300, AT('W') = 8,
      AT('P') = 1},
     6e-3},
    {"bwd_192",
     "attention_bwd",
     {TILES("64", "64", "192", "f16"), {"DV", "128"}},
     {AT('B') = 1, AT('H') = 1, AT('G') = 1, AT('M') = 70, AT('N') = 64,
      AT('D') = 192, AT('E') = 128, AT('C') = 2, AT('R') = 300, AT('W') = 8,
      AT('P') = 1},
     2e-3},
    {"bwd_spoiled",
     "attention_bwd",
     {HOPPER_KEYS("64", "32", "bf16"), {"mask_mod", "@causal"}},
     SPOILED_BACKWARD(70, 70, 32),
     6e-3},
    {"bwd_relative",
     "attention_bwd",
     {HOPPER_KEYS("64", "32", "bf16"), {"score_mod", "@relative_bias"}},
     BACKWARD(2, 1, 70, 70, 32, 32),
     6e-3},
    {"bwd_captured",
     "attention_bwd_captured",
     {HOPPER_TILES("32", "32", "bf16"), {"score_mod", "@alibi"}},
     BACKWARD(2, 1, 100, 70, 32, 32),
     2e-5},
    {"bwd_captured_table",
     "attention_bwd_captured_pairs",
     {HOPPER_TILES("32", "32", "f16"),
      {"CG", "1"},
      {"mask_mod", "@causal"},
      {"score_mod", "@relative_bias_table"}},
     BACKWARD(2, 1, 70, 40, 32, 32),
     2e-5},
    {"quantize_block",
     "quantize_block",
     {{"D", "64"}, {"BM", "64"}, {"HADAMARD", "64"}},
     ROWS(100, 64, 2),
     1e-2},
    {"quantize_head",
     "quantize_head",
     {{"D", "24"}, {"BM", "64"}, {"T", "f16"}, {"TQ", "f8e5m2"}},
     ROWS(100, 24, 2),
     1e-2},
    {"softmax", "softmax", {{"BN", "64"}}, AT_MOST(8, 12, 150), 2e-6},
    {"layernorm", "layernorm", {{"BN", "64"}}, AT_MOST(8, 12, 150), 2e-6},
};
enum { NHOPPER = sizeof hopper / sizeof *hopper };

typedef struct run_options {
    const char *only, *pipeline, *target;
    long stages, warps; /* 0: all */
    bool print, all;
    unsigned nroles; /* programs with warp_groups */
} run_options;

static void run_orders(const problem *p, const schedule *s, data *d,
                       const char *text, run_counts *counts,
                       const run_options *o)
{
    /* The findings are the same in all orders; what differs is what is read
     * where nothing is found. */
    static const tc_interp_order few[][2] = {{TC_INTERP_LATE, TC_INTERP_RANDOM},
                                             {TC_INTERP_LATE, TC_INTERP_EARLY}};
    int n = o->all ? TC_INTERP_ORDER_COUNT : 2, which = s->stages % 2;
    trial trials[TC_INTERP_ORDER_COUNT];
    for (int i = 0; i < n; i++)
        trials[i] =
            (trial){p, d, o->all ? (tc_interp_order)i : few[which][i], 3};
    verdict v = run_text(text, trials, n);
    run_check(counts, v.outcome == OUTCOME_RIGHT,
              "%s, %u stages, %u warps%s%s%s: %s", p->name, s->stages, s->warps,
              s->plain ? ", no swizzle" : "", s->tiles ? ", tiles " : "",
              s->tiles ? tc_tiles_word(s->tiles) : "", v.message);
}

static void run_schedule(const problem *p, const schedule *s, data *d,
                         run_counts *counts, run_options *o)
{
    char *text = problem_text(p, s, d);
    if (!text) {
        run_check(counts, false, "%s, %u stages, %u warps: does not compile",
                  p->name, s->stages, s->warps);
        return;
    }
    if (o->print)
        printf("%s", text);
    o->nroles += strstr(text, "warp_groups") != NULL;
    run_orders(p, s, d, text, counts, o);
    free(text);
}

static bool is_wanted(const run_options *o, unsigned warps, unsigned stages)
{
    return (!o->warps || o->warps == (long)warps) &&
           (!o->stages || o->stages == (long)stages);
}

static void run_ampere(const problem *p, data *d, run_counts *counts,
                       run_options *o)
{
    for (unsigned warps = 1; warps <= 8; warps *= 2)
        for (unsigned stages = 1; stages <= 4; stages++)
            for (int plain = 0; plain < 2; plain++) {
                schedule s = {.warps = warps,
                              .stages = stages,
                              .plain = plain,
                              .pipeline = o->pipeline,
                              .target = o->target};
                if (is_wanted(o, warps, stages))
                    run_schedule(p, &s, d, counts, o);
            }
}

static void run_hopper(const problem *p, data *d, run_counts *counts,
                       run_options *o)
{
    for (unsigned warps = 4; warps <= 12; warps += 4)
        for (unsigned stages = 1; stages <= 4; stages++) {
            unsigned tiles = (warps / 4 + stages) % (TC_TILES_COUNT - 1);
            schedule s = {.warps = warps,
                          .stages = stages,
                          .pipeline = o->pipeline,
                          .target = o->target,
                          .tiles = (tc_tiles)(TC_TILES_NONE + tiles)};
            int most = p->size['W' - 'A'];
            if (is_wanted(o, warps, stages) && (!most || (int)warps <= most))
                run_schedule(p, &s, d, counts, o);
        }
}

static bool is_hopper(const run_options *o)
{
    return o->target && strcmp(o->target, "sm_90a") == 0;
}

static void run_problem(const problem *p, run_counts *counts, run_options *o)
{
    data d;
    if (o->only && strncmp(o->only, p->name, strlen(o->only)) != 0)
        return;
    if (!run_check(counts, problem_data(p, &d), "%s on the CPU", p->name))
        return;
    (is_hopper(o) ? run_hopper : run_ampere)(p, &d, counts, o);
    data_free(&d);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    run_options o = {.stages = run_option(argc, argv, "stages", 0),
                     .warps = run_option(argc, argv, "warps", 0),
                     .print = run_option(argc, argv, "print", 0),
                     .all = run_option(argc, argv, "all", 0)};
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--only") == 0)
            o.only = argv[i + 1];
        if (strcmp(argv[i], "--pipeline") == 0)
            o.pipeline = argv[i + 1];
        if (strcmp(argv[i], "--target") == 0)
            o.target = argv[i + 1];
    }
    for (int i = 0; i < (is_hopper(&o) ? NHOPPER : NPROBLEMS); i++)
        run_problem(is_hopper(&o) ? &hopper[i] : &problems[i], &counts, &o);
    if (is_hopper(&o))
        run_check(&counts, o.only || o.pipeline || o.nroles > 0,
                  "programs with roles");
    return run_finish(&counts);
}
