/* SPDX-License-Identifier: Apache-2.0
 *
 * A layout as a picture: a cell an element. The color is the thread (hue by
 * warp, lightness by lane) or the bank, the text what the table says.
 */
#include "tools/draw/layout.h"
#include "tools/draw/svg.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 52, HEIGHT = 20, MARGIN = 34, TITLE = 26, FONT = 13 };

static void put_text(tc_text *out, int x, int y, const char *class,
                     const char *text)
{
    char attributes[80];
    snprintf(attributes, sizeof attributes, " x=\"%d\" y=\"%d\" class=\"%s\"",
             x, y, class);
    svg_element(out, "text", attributes, text);
}

static void put_number(tc_text *out, int x, int y, uint32_t n)
{
    tc_text_printf(out, "<text x=\"%d\" y=\"%d\" class=\"axis\">%u</text>\n", x,
                   y, n);
}

/* The content of a cell, in short and in words, and its color. */
struct cell {
    char text[40], title[120];
    svg_color color;
};

static void shared_cell(struct cell *c, const uint32_t *i, unsigned bits)
{
    uint32_t bank = layout_bank(i[TC_OFFSET], bits);
    snprintf(c->text, sizeof c->text, "%u:%u", i[TC_OFFSET], bank);
    snprintf(c->title, sizeof c->title, "offset %u, bank %u", i[TC_OFFSET],
             bank);
    c->color = svg_hsl(bank * 360 / 32, 70, 80);
}

static void register_cell(struct cell *c, const uint32_t *i, uint32_t warps)
{
    snprintf(c->text, sizeof c->text, "t%u r%u", i[TC_WARP] * 32 + i[TC_LANE],
             i[TC_REGISTER]);
    snprintf(c->title, sizeof c->title, "warp %u, lane %u, register %u",
             i[TC_WARP], i[TC_LANE], i[TC_REGISTER]);
    c->color =
        svg_hsl(i[TC_WARP] * 360 / warps + 200, 70, 92 - i[TC_LANE] % 32);
}

static void put_cell(tc_text *out, const tc_layout *l, unsigned bits,
                     uint32_t row, uint32_t column, const layout_place *p)
{
    struct cell cell;
    char title[sizeof cell.title + 40];
    int x = MARGIN + WIDTH * (int)column;
    int y = TITLE + MARGIN + HEIGHT * (int)row;
    if (tc_layout_is_shared(l))
        shared_cell(&cell, p->index, bits);
    else
        register_cell(&cell, p->index, tc_layout_size(l, TC_WARP));
    snprintf(title, sizeof title, "[%u, %u]: %s", row, column, cell.title);
    tc_text_printf(out,
                   "<g><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                   "fill=\"%s\"/>",
                   x, y, WIDTH, HEIGHT, cell.color.text);
    put_text(out, x + WIDTH / 2, y + 14, "cell", cell.text);
    svg_element(out, "title", "", title);
    tc_text_add(out, "</g>\n");
}

void layout_svg(tc_text *out, const tc_layout *l, unsigned bits,
                const char *title)
{
    const layout_place *places = layout_places(l);
    uint32_t columns = l->rank ? (uint32_t)l->shape[l->rank - 1] : 1, rows = 1;
    for (unsigned a = 0; a + 1 < l->rank; a++)
        rows *= (uint32_t)l->shape[a];
    const char *key = tc_layout_is_shared(l)
                          ? "offset:bank; colors are banks"
                          : "thread, register; colors are warps, shades lanes";
    double width =
        fmax(WIDTH * (double)columns,
             fmax(svg_text_width(title, FONT), svg_text_width(key, FONT)));
    tc_text_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
        "height=\"%d\">\n<style>rect{stroke:#555555;stroke-width:0.5}"
        "text{font-family:monospace}.cell{font-size:9px;text-anchor:middle}"
        ".axis{font-size:10px;text-anchor:middle;fill:#555555}"
        ".title{font-size:%dpx}.key{font-size:10px}</style>\n",
        ceil(2 * MARGIN + width), TITLE + 2 * MARGIN + HEIGHT * (int)rows,
        FONT);
    svg_element(out, "title", "", title);
    put_text(out, MARGIN, 18, "title", title);
    put_text(out, MARGIN, TITLE + MARGIN + HEIGHT * (int)rows + 18, "key", key);
    for (uint32_t c = 0; c < columns; c++)
        put_number(out, MARGIN + WIDTH * (int)c + WIDTH / 2, TITLE + MARGIN - 6,
                   c);
    for (uint32_t r = 0; r < rows; r++) {
        put_number(out, MARGIN / 2, TITLE + MARGIN + HEIGHT * (int)r + 14, r);
        for (uint32_t c = 0; c < columns; c++)
            put_cell(out, l, bits, r, c, &places[r * columns + c]);
    }
    tc_text_add(out, "</svg>\n");
}
