/* SPDX-License-Identifier: Apache-2.0
 *
 * The `meta` section of code, JSON, as far as all targets have the same:
 *
 *   {"target": "sm_90a", "written": [3, 4], "unused": [2],
 *    "grid": [["attention_fwd.tile", 20, 7], ...],
 *    "asserts": [["attention_fwd.tile", 31, 3, "no keys"], ...], ...}
 *
 * `grid` has the places of the grid's ops in their order, so that a launch that
 * the grid refuses points into the user's text.
 */
#ifndef TC_CODE_META_H
#define TC_CODE_META_H

#include "lib/handles.h"

#include <cjson/cJSON.h>

/* ---- Writing; false or NULL: out of memory ---- */

cJSON *tc_meta_add_array(cJSON *to);
/* Takes the item. */
bool tc_meta_add_item(cJSON *to, cJSON *item);
/* [file, line, column] and, where there is one, the message. */
bool tc_meta_add_place(cJSON *to, const tc_context *cx, tc_loc loc,
                       const char *message);

/* Facts about a body that are needed after it has gone; in the module's
 * arena. */
typedef struct tc_meta_facts {
    bool *written, *unused;
    unsigned nasserts;
    const tc_op **asserts;
} tc_meta_facts;
tc_meta_facts tc_meta_facts_of(const tc_func *f);
bool tc_meta_add_facts(cJSON *meta, const tc_func *f,
                       const tc_meta_facts *facts);
/* Empties the body, and prints the kernel to the module's arena. */
const char *tc_meta_header(tc_func *f);
/* The module's only kernel. */
tc_func *tc_meta_kernel(const tc_module *m);

/* ---- Reading: meta may be anything, or NULL ---- */

/* "": there is no such string. */
const char *tc_meta_string_at(const cJSON *array, int index);
/* 0: there is no such number. */
uint32_t tc_meta_number_at(const cJSON *array, int index);
/* NULL: there is no such text. */
const char *tc_meta_text(const cJSON *meta, const char *name);
bool tc_meta_is_set(const cJSON *meta, const char *name);
/* The number of that name, or at that index, if it is one from `least` to
 * `most`. */
bool tc_meta_read(const cJSON *meta, const char *name, unsigned least,
                  unsigned most, unsigned *out);
bool tc_meta_read_at(const cJSON *array, int index, unsigned least,
                     unsigned most, unsigned *out);
/* Is the parameter in the list of that name ("written", "unused")? */
bool tc_meta_lists(const cJSON *meta, const char *name, unsigned param);
/* Parses a header into m; its function has the places that the text had. NULL:
 * it does not parse. */
tc_func *tc_meta_read_header(const cJSON *meta, const char *text, size_t size,
                             tc_context *cx, tc_module *m);

#endif
