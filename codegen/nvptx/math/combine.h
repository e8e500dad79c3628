/* SPDX-License-Identifier: Apache-2.0
 *
 * Combining the elements of reductions and scans.
 */
#ifndef TC_NVPTX_COMBINE_H
#define TC_NVPTX_COMBINE_H

#include "codegen/nvptx/emit.h"

typedef struct tc_combiner {
    tc_gen *g;
    const tc_op *op;  /* reduce, scan, scan_carry */
    unsigned n;       /* elements combined at once */
    const char *kind; /* NULL: the region */
    bool wide; /* narrow floats are combined in f32 (min and max too: e5m2
                       * and e4m3 have no instruction), and rounded once */
} tc_combiner;

/* One element of each operand. */
typedef struct tc_tuple {
    LLVMValueRef *x;
} tc_tuple;

tc_combiner tc_combiner_of(tc_gen *g, const tc_op *op);
/* Of operand i, and as it is combined. */
const tc_type *tc_combiner_elem(const tc_combiner *c, unsigned i);
const tc_type *tc_combiner_wide(const tc_combiner *c, unsigned i);

tc_tuple tc_tuple_new(const tc_combiner *c); /* of NULLs */
tc_tuple tc_tuple_copy(const tc_combiner *c, tc_tuple t);
/* From registers of operands, widened; to those of results, rounded. */
tc_tuple tc_tuple_of(const tc_combiner *c, LLVMValueRef **in, uint32_t reg);
void tc_tuple_put(const tc_combiner *c, tc_tuple t, LLVMValueRef **out,
                  uint32_t reg);
tc_tuple tc_tuple_select(const tc_combiner *c, LLVMValueRef on, tc_tuple a,
                         tc_tuple b);
tc_tuple tc_tuple_combine(const tc_combiner *c, tc_tuple a, tc_tuple b);
/* That of the lane whose number differs in this bit. */
tc_tuple tc_tuple_shuffled(const tc_combiner *c, tc_tuple t, uint32_t bit);

#endif
