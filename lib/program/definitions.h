/* SPDX-License-Identifier: Apache-2.0
 *
 * What a text defines, mentions and imports: a first glance, without parsing.
 * Text with errors gives what can be seen.
 */
#ifndef TC_DEFINITIONS_H
#define TC_DEFINITIONS_H

#include "lib/handles.h"

/* A function, kernel, plan or pack in a text: the bytes from its keyword to the
 * keyword of the next one. */
typedef struct tc_definition {
    const char *name;
    bool is_kernel, is_plan, is_pack;
    size_t begin, end;
    size_t at; /* of `@` */
} tc_definition;

tc_definition *tc_definitions(tc_arena *a, const char *text, size_t len,
                              unsigned *n);

/* A word of the file itself, in front of a string. */
typedef struct tc_import {
    const char *file; /* as it stands there */
    size_t at, len;   /* of the string with its quotes */
} tc_import;
tc_import *tc_imports_of(tc_arena *a, const char *text, size_t len,
                         unsigned *n);

/* `@name` in a text, also where it is defined. */
typedef struct tc_mention {
    const char *name; /* in the text: len - 1 bytes */
    size_t at, len;   /* with `@` */
} tc_mention;
/* The next one after *m and before byte `end`; false: there is none. */
bool tc_next_mention(const tc_source *s, size_t end, tc_mention *m);

/* Where `len` bytes of a text are, as a source of cx. */
tc_loc tc_source_place(tc_context *cx, const tc_source *s, size_t at,
                       size_t len);

#endif
