/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/inspect/writer.h"

#include <string.h>

/* A comma where there is an item before, and the name. */
static void begin_item(tc_json_writer *w, const char *name)
{
    if (w->has_item)
        tc_text_add(w->out, ",");
    if (name)
        tc_text_printf(w->out, "\"%s\":", name);
    w->has_item = true;
}

void tc_json_open(tc_json_writer *w, const char *name, char bracket)
{
    begin_item(w, name);
    tc_text_addn(w->out, &bracket, 1);
    w->has_item = false;
}

void tc_json_close(tc_json_writer *w, char bracket)
{
    tc_text_addn(w->out, &bracket, 1);
    w->has_item = true;
}

/* Bytes that stand for themselves in a JSON string. */
static size_t plain_bytes(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && (unsigned char)s[i] >= ' ' && s[i] != '"' && s[i] != '\\')
        i++;
    return i;
}

static void add_escaped(tc_text *out, char c)
{
    switch (c) {
    case '"': tc_text_add(out, "\\\""); break;
    case '\\': tc_text_add(out, "\\\\"); break;
    case '\n': tc_text_add(out, "\\n"); break;
    case '\t': tc_text_add(out, "\\t"); break;
    default: tc_text_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
    }
}

void tc_json_stringn(tc_json_writer *w, const char *name, const char *value,
                     size_t n)
{
    begin_item(w, name);
    tc_text_add(w->out, "\"");
    for (size_t at = 0; at < n;) {
        size_t plain = plain_bytes(value + at, n - at);
        tc_text_addn(w->out, value + at, plain);
        at += plain;
        if (at < n)
            add_escaped(w->out, value[at++]);
    }
    tc_text_add(w->out, "\"");
}

void tc_json_string(tc_json_writer *w, const char *name, const char *value)
{
    if (value)
        tc_json_stringn(w, name, value, strlen(value));
    else
        tc_json_raw(w, name, "null");
}

void tc_json_int(tc_json_writer *w, const char *name, int64_t value)
{
    begin_item(w, name);
    tc_text_printf(w->out, "%lld", (long long)value);
}

void tc_json_bool(tc_json_writer *w, const char *name, bool value)
{
    tc_json_raw(w, name, value ? "true" : "false");
}

void tc_json_raw(tc_json_writer *w, const char *name, const char *json)
{
    begin_item(w, name);
    tc_text_add(w->out, json);
}
