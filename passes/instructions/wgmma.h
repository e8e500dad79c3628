/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of the instructions m64k8, m64k16, m64k32 (wgmma) in shared memory:
 * which buffers fit, and what their descriptors hold. For passes and code
 * generation.
 *
 * Rows are M of operand A or N of operand B; the sum goes over K. The
 * instruction reads K-major (K is the fast axis) or, of 16-bit elements,
 * MN-major; in swizzled panels of 32, 64 or 128 bytes or unswizzled core
 * matrices. PTX ISA, "asynchronous warpgroup level matrix".
 */
#ifndef TC_WGMMA_H
#define TC_WGMMA_H

#include "ir/ir.h"
#include "ir/types/layout.h"

typedef struct tc_wgmma_operand {
    bool k_major;
    unsigned swizzle;  /* bytes; 0: none */
    uint32_t lbo, sbo; /* leading and stride byte offsets of the descriptor */
    /* Bytes from the buffer's begin to where instruction (row block, K step)
     * reads: additive, multiples of 16. */
    uint32_t row_bytes; /* from one block of `rows` rows to the next */
    unsigned rows;      /* of a block: 64 of A; N of the instruction of B */
    unsigned row_unit;  /* blocks may begin at multiples of so many rows */
    unsigned nsteps;    /* along K */
    /* Steps of a panel, and from one panel to the next. */
    unsigned panel_steps;
    uint32_t step_bytes, panel_bytes;
} tc_wgmma_operand;

/* K of one instruction: 8, 16, 32; 0: `instr` is not one of these. */
unsigned tc_wgmma_k(const char *instr);
/* buffer: smem (maybe a view by smem_trans) of an operand: [M, K] of A (i = 0),
 * [K, N] of B (i = 1). False: it does not fit, *why says why. */
bool tc_wgmma_operand_of(tc_context *cx, const tc_type *buffer, unsigned i,
                         const char *instr, tc_wgmma_operand *out,
                         const char **why);
/* Byte of the operand's first row at K step `step`. */
uint32_t tc_wgmma_step_byte(const tc_wgmma_operand *o, unsigned step);
/* Byte of row `row`, a multiple of row_unit, at step 0. */
uint32_t tc_wgmma_row_byte(const tc_wgmma_operand *o, unsigned row);
/* The descriptor but for its start address, which is (address & 0x3FFFF) >> 4
 * in the low bits. */
uint64_t tc_wgmma_descriptor(const tc_wgmma_operand *o);
/* Is c an accumulator of whole instructions, tc_layout_wgmma_c(shape, groups_m,
 * groups_n) with none of the warp groups idle? */
bool tc_wgmma_grid(const tc_layout *c, int *groups_m, int *groups_n);
/* Does each of so many warp groups hold a part of the tile of its own, equal
 * ones along one axis, the first group the first? */
bool tc_held_by_groups(const tc_layout *l, unsigned groups, unsigned *axis);
/* N of the instructions that an accumulator of n columns is made of: the widest
 * multiple of 8, at most 256, that divides n. */
unsigned tc_wgmma_n(int32_t columns);
/* Is there an instruction of so many columns? Of i8 they are 8, 16, 24, 32, 48,
 * 64, .. */
bool tc_wgmma_has_columns(tc_kind kind, int32_t columns);
/* Would products of warp groups do a `dot`? They round no f32. */
bool tc_wgmma_suits(const tc_op *op);
/* Bytes that a buffer with this layout must be aligned to for swizzled reads
 * and TMA copies: 1024, 512, 256 of a swizzle of 128, 64, 32, else 128. */
unsigned tc_shared_alignment(const tc_type *buffer);

#endif
