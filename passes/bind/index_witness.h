/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluates a function's reads of captured tensors at some positions.
 */
#ifndef TC_INDEX_WITNESS_H
#define TC_INDEX_WITNESS_H

#include "ir/base/map.h"
#include "ir/ir.h"

/* The finding about one index of a gather. */
typedef struct tc_index_witness {
    bool wraps;     /* ints wrap on the way to it */
    bool outside;   /* of the tensor */
    int64_t index;  /* where `at` is so */
    const char *at; /* "%q = 1, %k = 0"; NULL: neither was found */
} tc_index_witness;

/* Tries the function with what `call` may pass: queries and keys near the
 * begin, in the middle and far out, 1 for ints that its caller passes on, all
 * as far as `given` (parameter -> tc_int_range) allows. Leaves one
 * tc_index_witness a dim in `data` of each gather of the body. */
void tc_indices_try(tc_context *cx, tc_arena *scratch, const tc_func *f,
                    const tc_op *call, const tc_map *given);

#endif
