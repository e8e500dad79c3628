/* SPDX-License-Identifier: Apache-2.0
 *
 * A mask as a picture: a cell a block, dark where it is full, light where it
 * needs the mask.
 */
#include "tools/mask.h"

enum { MARGIN = 40, MOST = 800 };

static void put_escaped(tc_text *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            tc_text_add(out, "&lt;");
        else if (*text == '&')
            tc_text_add(out, "&amp;");
        else
            tc_text_addn(out, text, 1);
}

/* Neighbours of a row that are alike are one cell. */
static void put_row(tc_text *out, const mask_map *m, int row, double side)
{
    static const char *const classes[] = {"", "partial", "full"};
    const unsigned char *kinds = m->kinds + (size_t)row * (size_t)m->columns;
    for (int j = 0, end; j < m->columns; j = end) {
        for (end = j + 1; end < m->columns && kinds[end] == kinds[j];)
            end++;
        if (kinds[j] != MASK_EMPTY)
            tc_text_printf(out,
                           "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                           "height=\"%.2f\" class=\"%s\"/>\n",
                           MARGIN + j * side, MARGIN + row * side,
                           (end - j) * side, side, classes[kinds[j]]);
    }
}

void mask_svg(tc_text *out, const mask_map *m)
{
    int longer = m->rows > m->columns ? m->rows : m->columns;
    double side = longer * 16 < MOST ? 16 : (double)MOST / (longer + !longer);
    double width = m->columns * side, height = m->rows * side;
    tc_text_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
                   "height=\"%.0f\">\n<style>\n"
                   "text{font:12px sans-serif}\n"
                   ".frame{fill:none;stroke:#888}\n"
                   ".partial{fill:#9ecae1}\n.full{fill:#2171b5}\n</style>\n",
                   width + 2 * MARGIN, height + 2 * MARGIN);
    tc_text_printf(out, "<text x=\"%d\" y=\"16\">", MARGIN);
    put_escaped(out, m->expression);
    tc_text_printf(out,
                   "</text>\n<text x=\"%d\" y=\"34\">%d queries (down), %d "
                   "keys (across), blocks of %dx%d</text>\n",
                   MARGIN, m->q_len, m->kv_len, m->q_side, m->k_side);
    for (int row = 0; row < m->rows; row++)
        put_row(out, m, row, side);
    tc_text_printf(out,
                   "<rect x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"%.2f\" "
                   "class=\"frame\"/>\n</svg>\n",
                   MARGIN, MARGIN, width, height);
}
