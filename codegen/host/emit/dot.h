/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products and transposes of tiles in memory, as LLVM IR for the host.
 */
#ifndef TC_HOST_DOT_H
#define TC_HOST_DOT_H

#include <llvm-c/Core.h>
#include <stdbool.h>

/* C[m, n] = init + A[m, k] * B[k, n]. A and B are row-major in memory; C is
 * whatever `init` and `done` make of it. Sizes are at least 1. */
typedef struct tc_host_dot {
    LLVMBuilderRef b; /* stands in fn; left after the loops */
    LLVMValueRef fn;
    unsigned m, n, k;
    LLVMTypeRef elem; /* of C, in which sums are made: float, double, i32 */
    LLVMTypeRef from; /* of A and B: the same, or i8 of i32 */
    bool a_unsigned, b_unsigned; /* i8 are u8 */
    LLVMValueRef a;              /* pointers */
    unsigned lda;                /* elements from row to row */
    LLVMValueRef bmat;
    unsigned ldb;
    /* Emit code for C[row, col .. col + width - 1], row and col as i64 values:
     * its first value, a vector of `width` elements (a scalar if 1); NULL
     * init: 0. Then its last value. May emit blocks of their own. */
    LLVMValueRef (*init)(void *user, LLVMValueRef row, LLVMValueRef col,
                         unsigned width);
    void (*done)(void *user, LLVMValueRef row, LLVMValueRef col,
                 LLVMValueRef vec);
    void *user;
    /* Elements in a vector register (a power of two), and the number of vector
     * registers: 16 and 32 for AVX-512 and float, 8 and 16 for AVX2. */
    unsigned vector_width, nregs;
} tc_host_dot;

void tc_host_emit_dot(const tc_host_dot *d);

/* dst[c, r] = src[r, c] for r < rows, c < cols; both row-major. `elem` is any
 * type that can be loaded; floats go through vectors of up to vw elements. */
void tc_host_emit_transpose(LLVMBuilderRef b, LLVMValueRef fn, LLVMValueRef src,
                            unsigned rows, unsigned cols, unsigned ldsrc,
                            LLVMValueRef dst, unsigned lddst, LLVMTypeRef elem,
                            unsigned vw);

#endif
