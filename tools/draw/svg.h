/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the pictures: elements with text, the width of text, and colors in
 * the one form that every program reads.
 */
#ifndef TOOL_SVG_H
#define TOOL_SVG_H

#include "ir/base/arena.h"

/* <name attributes>text</name>, the text escaped; a line. */
void svg_element(tc_text *out, const char *name, const char *attributes,
                 const char *text);
/* At most so many pixels, in a font of that size: browsers and converters have
 * fonts of their own, so that it is not known better. */
double svg_text_width(const char *text, int font);

typedef struct svg_color {
    char text[8]; /* #rrggbb */
} svg_color;
/* Hue in degrees, saturation and lightness in percent, as in CSS. */
svg_color svg_hsl(unsigned hue, unsigned saturation, unsigned lightness);

#endif
