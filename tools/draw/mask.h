/* SPDX-License-Identifier: Apache-2.0
 *
 * A mask by blocks, for its table and its picture.
 */
#ifndef TOOL_MASK_H
#define TOOL_MASK_H

#include "ir/base/arena.h"
#include "tools/common/commands.h"

/* As kernels/block_mask.tile has them. */
enum { MASK_EMPTY, MASK_PARTIAL, MASK_FULL, MASK_KINDS };

typedef struct mask_map {
    const char *expression;
    int q_len, kv_len, q_side, k_side;
    int rows, columns;
    unsigned char *kinds; /* rows x columns */
    const char *ways[2];  /* of attention over keys, over queries; or NULL */
    const int32_t *pairs; /* q_len x kv_len, 1: seen; NULL: too many */
} mask_map;

/* The whole file. */
void mask_svg(tc_text *out, const mask_map *m);
/* docs/inspector.md, `tilec.mask`. */
void mask_json(tc_text *out, const mask_map *m);
/* `tilec info mask ...`; words[0] is `mask`. */
int info_mask(const tool_args *args);

#endif
