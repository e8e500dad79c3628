/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec info layout: tables and pictures of layouts.
 */
#ifndef TOOL_LAYOUT_H
#define TOOL_LAYOUT_H

#include "ir/types/layout.h"
#include "tools/common/args.h"

/* The words are `layout`, the layout's text and the tile's sides. */
int info_layout(const tool_args *args);
/* Where the first copy of an element is: lane, warp and register with all
 * others' before it, or the offset. */
typedef struct layout_place {
    bool known;
    uint32_t index[TC_INPUT_COUNT];
} layout_place;
/* One for each element, row-major, in the context's arena. */
layout_place *layout_places(const tc_layout *l);
/* The bank of 4 bytes that an offset of elements is in. */
unsigned layout_bank(uint32_t offset, unsigned bits);
/* A picture: threads, or banks, as colors. */
void layout_svg(tc_text *out, const tc_layout *l, unsigned bits,
                const char *title);

#endif
