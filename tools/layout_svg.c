/* SPDX-License-Identifier: Apache-2.0
 *
 * A layout as a picture: a cell an element. The color is the thread (hue by
 * warp, lightness by lane) or the bank, the text what the table says.
 */
#include "tools/layout.h"

enum { WIDTH = 46, HEIGHT = 20, MARGIN = 34, TITLE = 26 };

static void put_text(tc_text *out, int x, int y, const char *class,
                     const char *text)
{
    tc_text_printf(out, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
    for (; *text; text++)
        if (*text == '<')
            tc_text_add(out, "&lt;");
        else if (*text == '&')
            tc_text_add(out, "&amp;");
        else
            tc_text_addn(out, text, 1);
    tc_text_add(out, "</text>\n");
}

static void put_number(tc_text *out, int x, int y, uint32_t n)
{
    tc_text_printf(out, "<text x=\"%d\" y=\"%d\" class=\"axis\">%u</text>\n", x,
                   y, n);
}

static void put_cell(tc_text *out, const tc_layout *l, unsigned bits, int x,
                     int y, const layout_place *p)
{
    const uint32_t *i = p->index;
    uint32_t hue, light, first, second;
    if (tc_layout_is_shared(l)) {
        second = layout_bank(i[TC_OFFSET], bits);
        first = i[TC_OFFSET];
        hue = second * 360 / 32;
        light = 80;
    } else {
        uint32_t warps = tc_layout_size(l, TC_WARP);
        first = i[TC_WARP] * 32 + i[TC_LANE];
        second = i[TC_REGISTER];
        hue = i[TC_WARP] * 360 / warps + 200;
        light = 92 - i[TC_LANE] % 32;
    }
    tc_text_printf(out,
                   "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                   "fill=\"hsl(%u,70%%,%u%%)\"/>",
                   x, y, WIDTH, HEIGHT, hue % 360, light);
    tc_text_printf(out,
                   "<text x=\"%d\" y=\"%d\" class=\"cell\">%s%u%s%u</text>\n",
                   x + WIDTH / 2, y + 14, tc_layout_is_shared(l) ? "" : "t",
                   first, tc_layout_is_shared(l) ? ":" : " r", second);
}

void layout_svg(tc_text *out, const tc_layout *l, unsigned bits,
                const char *title)
{
    const layout_place *places = layout_places(l);
    uint32_t columns = l->rank ? (uint32_t)l->shape[l->rank - 1] : 1, rows = 1;
    for (unsigned a = 0; a + 1 < l->rank; a++)
        rows *= (uint32_t)l->shape[a];
    tc_text_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
        "height=\"%d\">\n<style>rect{stroke:#555;stroke-width:0.5}"
        "text{font-family:monospace}.cell{font-size:9px;text-anchor:middle}"
        ".axis{font-size:10px;text-anchor:middle;fill:#555}"
        ".title{font-size:13px}.key{font-size:10px}</style>\n",
        2 * MARGIN + WIDTH * (int)columns,
        TITLE + 2 * MARGIN + HEIGHT * (int)rows);
    put_text(out, MARGIN, 18, "title", title);
    put_text(out, MARGIN, TITLE + MARGIN + HEIGHT * (int)rows + 18, "key",
             tc_layout_is_shared(l) ? "offset:bank; colors are banks"
                                    : "thread, register; colors are warps, "
                                      "shades lanes");
    for (uint32_t c = 0; c < columns; c++)
        put_number(out, MARGIN + WIDTH * (int)c + WIDTH / 2, TITLE + MARGIN - 6,
                   c);
    for (uint32_t r = 0; r < rows; r++) {
        int y = TITLE + MARGIN + HEIGHT * (int)r;
        put_number(out, MARGIN / 2, y + 14, r);
        for (uint32_t c = 0; c < columns; c++)
            put_cell(out, l, bits, MARGIN + WIDTH * (int)c, y,
                     &places[r * columns + c]);
    }
    tc_text_add(out, "</svg>\n");
}
