/* SPDX-License-Identifier: Apache-2.0
 *
 * TMA copies: which windows and buffers they can move, and in what boxes. For
 * passes, code generation and the interpreter.
 *
 * One copy moves a box: box[i] elements along dim i of the tensor, densely in
 * shared memory, the tensor's contiguous dim fastest, then the others, the last
 * one first, xored by a swizzle of 32, 64 or 128 bytes. A tile of several
 * panels (64 columns of 16 bits each) takes one copy a panel.
 */
#ifndef TC_TMA_H
#define TC_TMA_H

#include "ir/ir.h"
#include "ir/types/layout.h"

enum { TC_TMA_MAX_RANK = 5, TC_TMA_MAX_BOX = 256, TC_TMA_MAX_COPIES = 64 };

/* `count` rows, `step` rows from one to the next. */
enum { TC_MAX_ROW_PARTS = 4 };
typedef struct tc_row_part {
    uint32_t count, step;
} tc_row_part;

typedef struct tc_tma {
    unsigned arg;        /* of the kernel: the tensor */
    unsigned rank;       /* of it */
    unsigned contiguous; /* dim: the box's fastest */
    uint32_t box[TC_TMA_MAX_RANK];
    unsigned swizzle; /* bytes; 0: none */
    /* Rows in another order: those along dim `apart` are `parts` of a map of
     * its own, so many of them so far apart each; its first dim is the
     * contiguous one, along which all others are counted too. The last part
     * counts groups of its step: windows begin at one. nparts 0: they are as
     * they come. */
    unsigned apart, nparts;
    tc_row_part parts[TC_MAX_ROW_PARTS];
    /* The copies of one op: elements from the window's begin, a dim each, and
     * the byte of the buffer where the box goes. */
    unsigned ncopies;
    struct tc_tma_copy {
        int32_t at[TC_TMA_MAX_RANK];
        uint32_t byte;
    } copies[TC_TMA_MAX_COPIES];
    uint32_t bytes; /* that the copies move: of the whole buffer, or its rows */
    /* Of a store by warp groups: the copies are those of group 0; how far from
     * it the next group's part is, in elements along a dim of the tensor and in
     * bytes of the buffer. */
    unsigned group_dim;
    int32_t group_at;
    uint32_t group_byte;
} tc_tma;

/* window: a block pointer that is the result of an op `block`; buffer: smem.
 * False: no TMA copy does it, *why (in the diagnostics' arena) says what
 * stands against it. */
bool tc_tma_of(const tc_value *window, const tc_type *buffer, tc_tma *out,
               const char **why);
/* The same where each of `groups` warp groups stores its part: so many equal
 * ones along an axis. */
bool tc_tma_of_groups(const tc_value *window, const tc_type *buffer,
                      unsigned axis, unsigned groups, tc_tma *out,
                      const char **why);
/* The same of windows by index, whose boxes have `rows` rows along `dim` of the
 * tensor: the copies of the first box. A tma_load with row(..) does each. */
bool tc_tma_of_rows(const tc_op *block, unsigned dim, unsigned rows,
                    const tc_type *buffer, tc_tma *out, const char **why);
/* The bytes of each copy. */
uint32_t tc_tma_box_bytes(const tc_tma *t, unsigned element_bytes);
/* Rows along a dim of the block's tensor in another order, in groups of `of`:
 * what stands against it, but for what a launch has to give and where the
 * window begins; NULL: nothing. */
const char *tc_tma_why_not_apart(const tc_op *block, unsigned dim);
/* Of a tma_load or tma_store. */
bool tc_tma_of_op(const tc_op *op, tc_tma *out, const char **why);

#endif
