/* SPDX-License-Identifier: Apache-2.0
 *
 * An interpreter of tile IR, slow and plain: what a program means, said a
 * second time. Functions without stores and calls.
 */
#ifndef TEST_INTERP_H
#define TEST_INTERP_H

#include "ir/eval/eval.h"

/* A scalar, the lanes of a tile in row-major order, or a tensor (its elements,
 * packed, and its sizes). A block pointer is its tensor and the offsets. */
typedef struct tile {
    const tc_type *type;
    int64_t n;
    tc_scalar *lanes;
    int64_t sizes[TC_MAX_RANK];
    const struct tile *tensor;
    const tc_op *block;
} tile;

/* Values of the results (of the function's type, in arena `a`), for arguments
 * of the function's types. NULL: an op that it does not know. */
tile **interp_run(tc_arena *a, const tc_func *f, tile *const *args);

#endif
