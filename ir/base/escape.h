/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from outside (names of tensors and files, lines of a program) in
 * messages: a terminal obeys control characters, and some others reverse the
 * direction of writing. Those, and bytes that are no UTF-8, are shown as `\n`,
 * `\x1b`, `\u202e`.
 */
#ifndef TC_ESCAPE_H
#define TC_ESCAPE_H

#include "ir/base/arena.h"

#include <stddef.h>

/* The bytes of the UTF-8 sequence at s, 0 if it is none. */
size_t tc_utf8_length(const char *s, size_t n);

enum { TC_ESCAPE_MOST = 8 };

/* The escaped form of the first character of s (n > 0 bytes): *taken bytes of
 * it, as `out`, NUL-terminated. Characters of `kept` stay. Returns its
 * length. */
size_t tc_escape_one(const char *s, size_t n, const char *kept,
                     char out[TC_ESCAPE_MOST], size_t *taken);
/* The whole of a text, cut where the room ends. */
void tc_escape(char *to, size_t room, const char *from, size_t n,
               const char *kept);
/* The text itself, or a copy that is escaped. */
const char *tc_escape_in(tc_arena *a, const char *text, const char *kept);

#endif
