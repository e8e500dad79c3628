/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/files/json.h"

#include <errno.h>
#include <string.h>

cJSON *tc_json_parse(const char *text, size_t size, const char **end,
                     bool *no_memory)
{
    const char *unused;
    int before = errno;
    /* cJSON says the same of both; POSIX's malloc says which. */
    errno = 0;
    cJSON *j = cJSON_ParseWithLengthOpts(text, size, end ? end : &unused, 0);
    *no_memory = !j && errno == ENOMEM;
    errno = before;
    return j;
}

tc_json_walk tc_json_walk_begin(const char *text, size_t size)
{
    return (tc_json_walk){.at = text + 1, .end = text + size};
}

static void skip_blanks(tc_json_walk *w)
{
    while (w->at < w->end && *w->at && strchr(" \t\r\n", *w->at))
        w->at++;
}

static bool accept(tc_json_walk *w, char c)
{
    skip_blanks(w);
    bool is_there = w->at < w->end && *w->at == c;
    w->at += is_there;
    return is_there;
}

/* From its opening quote. */
static bool skip_string(tc_json_walk *w)
{
    for (w->at++; w->at < w->end && *w->at != '"'; w->at++)
        if (*w->at == '\\' && ++w->at == w->end)
            return false;
    bool is_closed = w->at < w->end;
    w->at += is_closed;
    return is_closed;
}

static bool is_opening(char c)
{
    return c == '{' || c == '[';
}

static bool is_closing(char c)
{
    return c == '}' || c == ']';
}

static bool skip_value(tc_json_walk *w)
{
    const char *from = w->at;
    for (size_t depth = 0; w->at < w->end;) {
        char c = *w->at;
        if (depth == 0 && (c == ',' || is_closing(c)))
            break;
        if (c == '"') {
            if (!skip_string(w))
                return false;
            continue;
        }
        depth += is_opening(c);
        depth -= is_closing(c);
        w->at++;
    }
    return w->at > from && w->at < w->end;
}

tc_json_step tc_json_next(tc_json_walk *w)
{
    if (accept(w, '}'))
        return TC_JSON_END;
    if (w->is_begun && !accept(w, ','))
        return TC_JSON_WRONG;
    w->is_begun = true;
    skip_blanks(w);
    w->name = w->at;
    if (w->at == w->end || *w->at != '"' || !skip_string(w))
        return TC_JSON_WRONG;
    w->name_size = (size_t)(w->at - w->name);
    if (!accept(w, ':'))
        return TC_JSON_WRONG;
    skip_blanks(w);
    w->value = w->at;
    if (!skip_value(w))
        return TC_JSON_WRONG;
    w->value_size = (size_t)(w->at - w->value);
    return TC_JSON_MEMBER;
}

size_t tc_json_commas(const char *text, size_t size)
{
    tc_json_walk w = {.at = text, .end = text + size};
    size_t n = 0;
    while (w.at < w.end) {
        n += *w.at == ',';
        if (*w.at != '"')
            w.at++;
        else if (!skip_string(&w))
            break;
    }
    return n;
}
