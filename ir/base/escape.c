/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/base/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

size_t tc_utf8_length(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (n == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, beyond U+10FFFF. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

/* The character of 2 or 3 bytes of UTF-8. */
static uint32_t decode(const unsigned char *s, size_t len)
{
    return len == 2 ? (s[0] & 31u) << 6 | (s[1] & 63u)
                    : (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u);
}

/* C1 controls, ends of lines, marks and overrides of direction. */
static bool is_treacherous(uint32_t c)
{
    return (c >= 0x80 && c < 0xa0) || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t tc_escape_one(const char *s, size_t n, const char *kept,
                     char out[TC_ESCAPE_MOST], size_t *taken)
{
    unsigned char c = (unsigned char)*s;
    bool is_plain = (c >= 0x20 && c < 0x7f) || (c && strchr(kept, c));
    size_t len = is_plain ? 1 : c < 0x80 ? 0 : tc_utf8_length(s, n);
    *taken = len ? len : 1;
    if (len == 2 || len == 3) {
        uint32_t code = decode((const unsigned char *)s, len);
        if (is_treacherous(code))
            return (size_t)snprintf(out, TC_ESCAPE_MOST, "\\u%04x",
                                    (unsigned)code);
    }
    if (len == 0 && (c == '\n' || c == '\r' || c == '\t'))
        return (size_t)snprintf(out, TC_ESCAPE_MOST, "\\%c",
                                c == '\n'   ? 'n'
                                : c == '\r' ? 'r'
                                            : 't');
    if (len == 0)
        return (size_t)snprintf(out, TC_ESCAPE_MOST, "\\x%02x", c);
    memcpy(out, s, len);
    out[len] = 0;
    return len;
}

void tc_escape(char *to, size_t room, const char *from, size_t n,
               const char *kept)
{
    size_t used = 0;
    for (size_t at = 0, taken; at < n; at += taken) {
        char one[TC_ESCAPE_MOST];
        size_t len = tc_escape_one(from + at, n - at, kept, one, &taken);
        if (used + len >= room)
            break;
        memcpy(to + used, one, len);
        used += len;
    }
    if (room)
        to[used] = 0;
}

const char *tc_escape_in(tc_arena *a, const char *text, const char *kept)
{
    size_t n = strlen(text), all = 0;
    for (size_t at = 0, taken; at < n; at += taken) {
        char one[TC_ESCAPE_MOST];
        all += tc_escape_one(text + at, n - at, kept, one, &taken);
    }
    if (all == n)
        return text;
    char *copy = tc_arena_alloc(a, all + 1);
    tc_escape(copy, all + 1, text, n, kept);
    return copy;
}
