/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaves loads from shared memory, and copies to it, with the instructions
 * of a product.
 */
#ifndef TC_NVPTX_INTERLEAVE_H
#define TC_NVPTX_INTERLEAVE_H

#include "codegen/nvptx/emit.h"

/* Before the first instruction of `product` and after the last one;
 * between two the next load or copy, if there is any left. */
void tc_interleave_begin(tc_gen *g, const tc_op *product);
void tc_interleave_next(tc_gen *g);
void tc_interleave_end(tc_gen *g);

#endif
