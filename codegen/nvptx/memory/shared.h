/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory piece by piece: the functions of shared.c that async.c and
 * mma.c use.
 *
 * All accesses are inline assembly with an i32 address and an immediate, in
 * the order in which they are emitted: LLVM neither moves them across waits
 * and barriers nor widens their addresses to 64 bits.
 */
#ifndef TC_NVPTX_SHARED_H
#define TC_NVPTX_SHARED_H

#include "codegen/nvptx/emit.h"

/* Addresses of what a thread holds of a buffer. The thread's part is computed
 * once. Of a register's constant the bits that the thread's part may have set
 * (those of a swizzle) are xored, once for each pattern; the rest is an
 * immediate. */
typedef struct tc_pattern tc_pattern;
struct tc_pattern {
    uint32_t bits;
    LLVMValueRef address;
    tc_pattern *next;
};
typedef struct tc_shared_at {
    tc_gen *g;
    const tc_layout *offsets; /* from tc_layout_offsets */
    unsigned bytes;           /* of an element */
    LLVMValueRef buffer;      /* i32: its offset but for a constant */
    uint32_t constant;        /* that */
    LLVMValueRef thread;      /* i32: elements */
    LLVMValueRef start; /* i32: address of these in a buffer at 0; or NULL */
    uint32_t thread_bits;
    tc_pattern *patterns; /* used in one straight line of code only */
} tc_shared_at;
tc_shared_at tc_shared_at_new(tc_gen *g, LLVMValueRef buffer,
                              const tc_layout *offsets, unsigned bytes);
/* Moves the thread's part by one more input, whose value is known at run time
 * only: i32, with these modes. */
void tc_shared_at_index(tc_shared_at *a, const tc_mode *modes, unsigned nmodes,
                        LLVMValueRef index);
/* The address of register r is the result plus *immediate (a constant). */
LLVMValueRef tc_shared_at_get(tc_shared_at *a, uint32_t r,
                              LLVMValueRef *immediate);

/* Gives the result of an op that has `bytes` of shared memory its offset (i32).
 */
bool tc_shared_place(tc_gen *g, const tc_op *op, unsigned bytes,
                     unsigned align);

/* The address of a byte of the block's shared memory, `offset` (i32) from its
 * begin, is the result plus *immediate (a constant). */
LLVMValueRef tc_shared_address(tc_gen *g, LLVMValueRef offset,
                               LLVMValueRef *immediate);

/* smem_take.c: an element at such an address, which the thread computed. */
LLVMValueRef tc_shared_element(tc_gen *g, const tc_type *elem,
                               LLVMValueRef address, LLVMValueRef immediate);

/* mbarrier.c: that of mbarrier `slot` of a ring. */
LLVMValueRef tc_mbarrier_address(tc_gen *g, const tc_value *ring,
                                 const tc_value *slot, LLVMValueRef *immediate);

/* A distributed tile in shared memory, moved in steps: by ldmatrix or stmatrix
 * where the layouts fit, else by vectors. */
typedef struct tc_shared_tile {
    tc_gen *g;
    const tc_layout *tile;
    unsigned bits; /* of an element */
    bool matrix;
    tc_matrix_access m; /* matrix */
    tc_access access;   /* else */
    tc_shared_at at;
    unsigned nsteps;
    unsigned size;   /* elements a step moves */
    unsigned nwords; /* 32-bit words a step moves, at least 1 */
    LLVMValueRef on; /* i1: this thread stores; NULL: all do */
} tc_shared_tile;
enum { TC_STEP_ELEMENTS = 16, TC_STEP_WORDS = 4 };
/* `matrix`: ldmatrix or stmatrix may be used. False: reported. */
bool tc_shared_tile_new(tc_gen *g, const tc_op *op, LLVMValueRef buffer,
                        const tc_type *smem, const tc_layout *tile, bool matrix,
                        tc_shared_tile *out) TC_MUST_CHECK;
/* The registers that a step moves, in the order of their bits in the words. */
void tc_shared_tile_step(const tc_shared_tile *t, unsigned step,
                         uint32_t registers[TC_STEP_ELEMENTS]);
/* i32 words; a single element of fewer bits is in the low ones. */
void tc_shared_tile_load(tc_shared_tile *t, unsigned step,
                         LLVMValueRef words[TC_STEP_WORDS]);

/* n elements, as emitters have them in registers, to words of 32 bits and back.
 * Unlike tc_gen_pack: fewer bits than a word are its low ones, an element may
 * have 64, an i1 is a byte. */
void tc_words_pack(tc_gen *g, const tc_type *elem, unsigned n,
                   const LLVMValueRef *x, LLVMValueRef *words);
void tc_words_unpack(tc_gen *g, const tc_type *elem, unsigned n,
                     LLVMValueRef *x, const LLVMValueRef *words);

#endif
