/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes JSON to a text, member by member. Out of memory unwinds, as of all
 * texts, so that no call has a result to check.
 *
 *   tc_json_open(&w, NULL, '{');
 *   tc_json_string(&w, "name", "k");  tc_json_open(&w, "lines", '[');
 *   tc_json_int(&w, NULL, 3);         tc_json_close(&w, ']');
 *   tc_json_close(&w, '}');
 *
 * Names are NULL in lists.
 */
#ifndef TC_JSON_WRITER_H
#define TC_JSON_WRITER_H

#include "ir/base/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tc_json_writer {
    tc_text *out;
    bool has_item; /* in the innermost object or list */
} tc_json_writer;

void tc_json_open(tc_json_writer *w, const char *name, char bracket);
void tc_json_close(tc_json_writer *w, char bracket);
/* value NULL: null */
void tc_json_string(tc_json_writer *w, const char *name, const char *value);
void tc_json_stringn(tc_json_writer *w, const char *name, const char *value,
                     size_t n);
void tc_json_int(tc_json_writer *w, const char *name, int64_t value);
void tc_json_bool(tc_json_writer *w, const char *name, bool value);
/* Text that is JSON. */
void tc_json_raw(tc_json_writer *w, const char *name, const char *json);

#endif
