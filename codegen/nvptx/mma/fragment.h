/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of mma.sync as 32-bit words, fetched when they are first needed.
 */
#ifndef TC_NVPTX_FRAGMENT_H
#define TC_NVPTX_FRAGMENT_H

#include "codegen/nvptx/memory/shared.h"

/* One operand, [M, K] or [K, N]. A fragment is what an instruction takes of
 * it: 4 words of A, 2 of B, for tile i along M or N and step k. */
typedef struct tc_fragments {
    tc_gen *g;
    const tc_type *elem;
    bool is_b;
    unsigned unit; /* elements of a word */
    const tc_layout *layout;
    unsigned ntiles, nsteps;
    uint32_t *index; /* word of [tile][step][j]; UINT32_MAX: there is none */
    LLVMValueRef *words;
    const LLVMValueRef *registers; /* a tile in registers, else NULL */
    tc_shared_tile shared;         /* else: where the words come from, */
    unsigned *source;              /* the step that brings a register, */
    LLVMValueRef *elements;        /* and those that make no word alone */
} tc_fragments;

/* Tiles of one axis: the coordinates where they begin. */
typedef struct tc_origins {
    unsigned n;
    int32_t *at;
} tc_origins;
/* Of those `size` wide that lane 0 of warp 0 holds a part of, in order. */
tc_origins tc_origins_of(tc_gen *g, const tc_layout *l, unsigned axis,
                         int32_t size);
/* UINT32_MAX: none begins there. */
uint32_t tc_origins_find(const tc_origins *o, int32_t at);

/* `tiles`: those of the accumulator along M (of B: N). False: reported. */
bool tc_fragments_new(tc_gen *g, const tc_op *op, unsigned operand,
                      const tc_origins *tiles, tc_fragments *out) TC_MUST_CHECK;
/* Word j of a fragment. Elements outside of the tile are 0. */
LLVMValueRef tc_fragments_get(tc_fragments *f, unsigned tile, unsigned step,
                              unsigned j);

/* The op `mma` with instr(fma) (dot.c), and with m64.. (wgmma.c). */
bool tc_gen_dot(tc_gen *g, const tc_op *op) TC_MUST_CHECK;
bool tc_gen_wgmma(tc_gen *g, const tc_op *op) TC_MUST_CHECK;

#endif
