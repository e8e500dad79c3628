/* SPDX-License-Identifier: Apache-2.0
 *
 * A mask as a picture: a cell a block, dark where it is full, light where it
 * needs the mask.
 */
#include "tools/draw/mask.h"
#include "tools/draw/svg.h"

#include <math.h>
#include <stdio.h>

enum { MARGIN = 40, MOST = 800, FONT = 12 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Blocks from column `begin` up to `end`. */
static void put_run(tc_text *out, const mask_map *m, int row, int begin,
                    int end, double side)
{
    static const char *const classes[] = {"", "partial", "full"};
    const char *kind =
        classes[m->kinds[(size_t)row * (size_t)m->columns + (size_t)begin]];
    tc_text_printf(
        out,
        "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
        "height=\"%.2f\" class=\"%s\"><title>queries %d to %d, "
        "keys %d to %d: %s</title></rect>\n",
        MARGIN + begin * side, MARGIN + row * side, (end - begin) * side, side,
        kind, row * m->q_side, least((row + 1) * m->q_side, m->q_len) - 1,
        begin * m->k_side, least(end * m->k_side, m->kv_len) - 1, kind);
}

/* Neighbours of a row that are alike are one cell. */
static void put_row(tc_text *out, const mask_map *m, int row, double side)
{
    const unsigned char *kinds = m->kinds + (size_t)row * (size_t)m->columns;
    for (int j = 0, end; j < m->columns; j = end) {
        for (end = j + 1; end < m->columns && kinds[end] == kinds[j];)
            end++;
        if (kinds[j] != MASK_EMPTY)
            put_run(out, m, row, j, end, side);
    }
}

void mask_svg(tc_text *out, const mask_map *m)
{
    int longer = m->rows > m->columns ? m->rows : m->columns;
    double side = longer * 16 < MOST ? 16 : (double)MOST / (longer + !longer);
    double width = m->columns * side, height = m->rows * side;
    char caption[160];
    snprintf(caption, sizeof caption,
             "%d queries (down), %d keys (across), blocks of %dx%d", m->q_len,
             m->kv_len, m->q_side, m->k_side);
    double widest = fmax(width, fmax(svg_text_width(m->expression, FONT),
                                     svg_text_width(caption, FONT)));
    tc_text_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
                   "height=\"%.0f\">\n<style>\n"
                   "text{font:%dpx sans-serif}\n"
                   ".frame{fill:none;stroke:#888888}\n"
                   ".partial{fill:#9ecae1}\n.full{fill:#2171b5}\n</style>\n",
                   ceil(widest) + 2 * MARGIN, height + 2 * MARGIN, FONT);
    svg_element(out, "title", "", m->expression);
    svg_element(out, "text", " x=\"40\" y=\"16\"", m->expression);
    svg_element(out, "text", " x=\"40\" y=\"34\"", caption);
    for (int row = 0; row < m->rows; row++)
        put_row(out, m, row, side);
    tc_text_printf(out,
                   "<rect x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"%.2f\" "
                   "class=\"frame\"/>\n</svg>\n",
                   MARGIN, MARGIN, width, height);
}
