/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands that `mma` expects, by its instruction and the layout of its
 * accumulator: for passes and for code generation. Its asynchronous form.
 */
#ifndef TC_MMA_H
#define TC_MMA_H

#include "ir/ir.h"
#include "ir/types/layout.h"

/* The warp grid of an accumulator #mma(wm x wn); false: c is no such layout. */
bool tc_mma_grid(const tc_layout *c, int *wm, int *wn);
/* An accumulator may have its columns in another order (tc_layout_reorder, axis
 * 1) if operand B has them in that order too, where it is not in registers: the
 * accumulator's layout, its columns as in the instruction, which is the same
 * registers; c itself where it is no such. */
const tc_layout *tc_mma_plain(const tc_layout *c, tc_bit_order *columns);
/* The type of operand i with its columns as in the instruction. */
const tc_type *tc_mma_plain_operand(tc_context *cx, const tc_type *t,
                                    unsigned i, const tc_bit_order *columns);
/* Bits of the elements that an instruction multiplies; 0 of fma. */
unsigned tc_mma_bits(const char *instr);
/* Does it take operands from shared memory K-major only (each row of A, each
 * column of B in one piece)? ldmatrix and the descriptors of wgmma transpose
 * elements of 16 bits; bytes are not transposed by anything. */
bool tc_mma_is_k_major_only(const char *instr);
/* An instruction of a warp group, m64..: wgmma (passes/instructions/wgmma.h).
 */
bool tc_mma_is_group(const char *instr);
/* An `mma` by such. */
bool tc_is_group_mma(const tc_op *op);
/* Which axis of operand i the sums run along. */
static inline unsigned tc_mma_depth(unsigned i)
{
    return 1 - i;
}
/* Sums may run along K in any order, which is the same for both operands: that
 * of an operand in registers (tc_layout_reorder along its axis of K). One in
 * shared memory is read in this order. n = 0: as in the instruction. */
tc_bit_order tc_mma_depth_order(tc_context *cx, const tc_op *mma);
/* The layout in which operand 0 (A) or 1 (B) of an `mma` is held in registers,
 * or read from shared memory; NULL of fma or if the accumulator's layout does
 * not fit the instruction, and of B of wgmma, which no thread holds. */
const tc_layout *tc_mma_operand(tc_context *cx, const tc_op *mma, unsigned i);
/* The same before there is an op: `tile` is the operand's type. */
const tc_layout *tc_mma_operand_of(tc_context *cx, const tc_layout *c,
                                   const char *instr, const tc_type *tile,
                                   unsigned i);

/* Makes a product of warp groups asynchronous, with a wait right after it that
 * gives the sum to all users; if it is not `used`, they keep the product's. */
tc_op *tc_mma_issue(tc_op *product, bool used);

#endif
