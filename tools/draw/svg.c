/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/draw/svg.h"

#include <math.h>
#include <stdio.h>

static void put_escaped(tc_text *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            tc_text_add(out, "&lt;");
        else if (*text == '>')
            tc_text_add(out, "&gt;");
        else if (*text == '&')
            tc_text_add(out, "&amp;");
        else
            tc_text_addn(out, text, 1);
}

void svg_element(tc_text *out, const char *name, const char *attributes,
                 const char *text)
{
    tc_text_printf(out, "<%s%s>", name, attributes);
    put_escaped(out, text);
    tc_text_printf(out, "</%s>\n", name);
}

/* The widest letters of common fonts are 0.95 of their size, most 0.6. */
double svg_text_width(const char *text, int font)
{
    double width = 0;
    for (; *text; text++)
        if (((unsigned char)*text & 0xc0) != 0x80)
            width += *text == 'm' || *text == 'w' || *text == '%' ? 0.95 : 0.66;
    return width * font;
}

/* CSS Color Module Level 3, 4.2.4. */
static unsigned channel(double offset, double hue, double s, double l)
{
    double k = fmod(offset + hue / 30, 12), a = s * fmin(l, 1 - l);
    double v = l - a * fmax(-1, fmin(fmin(k - 3, 9 - k), 1));
    return (unsigned)lround(255 * v);
}

svg_color svg_hsl(unsigned hue, unsigned saturation, unsigned lightness)
{
    double h = hue % 360, s = saturation / 100.0, l = lightness / 100.0;
    svg_color c;
    snprintf(c.text, sizeof c.text, "#%02x%02x%02x", channel(0, h, s, l) & 255,
             channel(8, h, s, l) & 255, channel(4, h, s, l) & 255);
    return c;
}
