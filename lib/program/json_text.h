/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as text, in an arena.
 */
#ifndef TC_JSON_TEXT_H
#define TC_JSON_TEXT_H

#include "ir/ir.h"

/* In quotes, escaped. */
void tc_json_put_string(tc_text *out, const char *s);
/* `"name":"value"` after a comma; without one at an object's begin. */
void tc_json_put_member(tc_text *out, const char *name, const char *value);
/* `,"line":7,"column":3` of a place in a text; nothing if it is not known. */
void tc_json_put_place(tc_text *out, tc_loc loc);

#endif
