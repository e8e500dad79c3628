/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON from outside: distinguishes out of memory from malformed text, and reads
 * large objects a member at a time.
 *
 * cJSON's tree takes some 40 times the text (64 bytes for the `1,` of a list),
 * so that a tree of a whole text is made only if its size is bounded elsewhere.
 */
#ifndef TC_JSON_H
#define TC_JSON_H

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stddef.h>

/* The tree of a text, for cJSON_Delete; what stands after it is not looked at.
 * *end (may be NULL): where it ends, or is wrong. NULL: it is no JSON, or
 * *no_memory. */
cJSON *tc_json_parse(const char *text, size_t size, const char **end,
                     bool *no_memory);

/* The members of an object, as text. */
typedef struct tc_json_walk {
    const char *at, *end;
    bool is_begun;
    const char *name, *value; /* the name with its quotes */
    size_t name_size, value_size;
} tc_json_walk;

/* Of a text that begins with `{`. */
tc_json_walk tc_json_walk_begin(const char *text, size_t size);
/* The next member: its name and its value are each one thing with its brackets
 * and quotes closed, which may be no JSON all the same. */
typedef enum tc_json_step {
    TC_JSON_MEMBER,
    TC_JSON_END,  /* at: after the object */
    TC_JSON_WRONG /* at: where it is no object's text */
} tc_json_step;
tc_json_step tc_json_next(tc_json_walk *w);

/* Commas outside of strings: a tree has no more items than these and one for
 * each bracket. */
size_t tc_json_commas(const char *text, size_t size);

#endif
