/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/program/json_text.h"

#include <string.h>

void tc_json_put_string(tc_text *out, const char *s)
{
    tc_text_add(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            tc_text_printf(out, "\\%c", c);
        else if (c < 0x20)
            tc_text_printf(out, "\\u%04x", c);
        else
            tc_text_printf(out, "%c", c);
    }
    tc_text_add(out, "\"");
}

void tc_json_put_member(tc_text *out, const char *name, const char *value)
{
    if (out->len && out->data[out->len - 1] != '{')
        tc_text_add(out, ",");
    tc_json_put_string(out, name);
    tc_text_add(out, ":");
    tc_json_put_string(out, value);
}

void tc_json_put_place(tc_text *out, tc_loc loc)
{
    if (loc.line)
        tc_text_printf(out, ",\"line\":%u,\"column\":%u", loc.line, loc.col);
}
