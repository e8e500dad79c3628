/* SPDX-License-Identifier: Apache-2.0
 *
 * What an access says to the caches.
 */
#ifndef TC_NVPTX_HINTS_H
#define TC_NVPTX_HINTS_H

#include "codegen/nvptx/emit.h"

typedef struct tc_gen_hints {
    const char *words;   /* of the instruction, such as ".cs"; "": none */
    LLVMValueRef policy; /* its last operand, an i64; NULL: none */
} tc_gen_hints;

/* Of an op with evict, and cache where it has that. */
tc_gen_hints tc_gen_hints_of(tc_gen *g, const tc_op *op);

#endif
