/* SPDX-License-Identifier: Apache-2.0
 *
 * Numerics flags: LLVM's and MLIR's fast-math flags. Without flags an op means
 * what eval.c computes; each flag permits passes to change that.
 *
 * An op carries flags itself, add %a, %b fastmath(ninf, nnan), or by the head
 * of its function, kernel @k(..) fastmath(contract). A call hands its flags,
 * and the head of the callee its own, to the ops that are inlined.
 */
#ifndef TC_FASTMATH_H
#define TC_FASTMATH_H

#include "ir/ir.h"

typedef enum tc_fastmath {
    TC_NINF = 1,     /* operands and results are no infinities */
    TC_NNAN = 2,     /* operands and results are no NaNs */
    TC_REASSOC = 4,  /* sums and products may be regrouped and distributed */
    TC_CONTRACT = 8, /* a product and a sum may become one fma */
    TC_AFN = 16,     /* a function may be computed less exactly */
    TC_ARCP = 32,    /* a division may become a product with a reciprocal */
    TC_NNEG = 64     /* a factor that all elements share is not negative */
} tc_fastmath;
enum { TC_FASTMATH_ALL = 127 };

/* The flag of that name; 0: there is none. */
unsigned tc_fastmath_parse(const char *word, size_t n);
/* "ninf, contract" */
void tc_fastmath_print(tc_text *out, unsigned flags);

/* Flags that the op itself carries. */
unsigned tc_op_own_fastmath(const tc_op *op);
/* Those and the flags of the function's head, as far as ops.def has them for
 * such an op. */
unsigned tc_op_fastmath(const tc_op *op);
/* The op itself carries exactly these, of those that it may carry and that the
 * head does not give it. */
void tc_op_set_fastmath(tc_op *op, unsigned flags);
/* All ops of a region, nested ones included, carry these flags too. */
void tc_region_add_fastmath(tc_region *r, unsigned flags);

#endif
