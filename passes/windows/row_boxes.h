/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows by index as boxes of rows: where one index counts up and the others
 * stay, as many neighbouring rows are one box of a TMA copy.
 *
 *   %k[%at / 16, rem(%at, 16), %h, 0 +: 128], %at = %n0 + range(64)
 *     rows of the tile 0 to 15: one page, slots 0 to 15; boxes of 16 x 128
 *   ... / 64, rem(%at, 64): one box, the window %k[page, slot +: 64, ..]
 */
#ifndef TC_ROW_BOXES_H
#define TC_ROW_BOXES_H

#include "passes/analysis/axis_info.h"

typedef struct tc_row_boxes {
    unsigned rows; /* of a box; the tile's rows are a multiple */
    unsigned dim;  /* of the tensor: whose index counts the rows */
} tc_row_boxes;

/* Why a load of a `block` by indices has no such boxes, or cannot have their
 * indices one by one; NULL: it does. */
const char *tc_why_no_row_boxes(tc_axis_analysis *a, const tc_op *load,
                                tc_row_boxes *boxes);

/* Are all rows one box, a window that scalars say? */
bool tc_is_one_box(tc_axis_analysis *a, const tc_op *block,
                   tc_row_boxes *boxes);

/* The window of box i as a block of scalars. in: its offsets, one a dim of the
 * tensor, of the box's first row. */
tc_value *tc_build_row_box(tc_builder *b, const tc_op *block,
                           const tc_row_boxes *boxes, tc_value *const *in);

#endif
