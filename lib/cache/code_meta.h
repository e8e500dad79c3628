/* SPDX-License-Identifier: Apache-2.0
 *
 * The `meta` section of code, a record (record.h), as far as all targets have
 * the same:
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

#include "lib/cache/record.h"
#include "lib/handles.h"

/* ---- Writing (code_meta_write.c) ---- */

/* Opens the list [file, line, column], which may get further values. */
void tc_meta_open_place(tc_record_writer *to, const tc_context *cx, tc_loc loc);

/* Facts about a body that are needed after it has gone; in the module's
 * arena. */
typedef struct tc_meta_facts {
    bool *written, *unused;
    unsigned nasserts;
    const tc_op **asserts;
} tc_meta_facts;
tc_meta_facts tc_meta_facts_of(const tc_func *f);
void tc_meta_add_facts(tc_record_writer *meta, const tc_func *f,
                       const tc_meta_facts *facts);
/* Empties the body, and prints the kernel to the module's arena. */
const char *tc_meta_header(tc_func *f);

/* ---- Reading: meta may be any record, or none ---- */

/* The module's only kernel. */
tc_func *tc_meta_kernel(const tc_module *m);
/* "": there is no such text. */
const char *tc_meta_string_at(tc_record list, unsigned index);
/* 0: there is no such number. */
uint32_t tc_meta_number_at(tc_record list, unsigned index);
/* Is the parameter in the list of that name ("written", "unused")? */
bool tc_meta_lists(tc_record meta, const char *name, unsigned param);
/* [file, line, column]; a file that the context lacks becomes a source of it,
 * without a text. */
tc_loc tc_meta_place(tc_context *cx, tc_record place);
/* Parses a header into m; its function has the places that the text had. NULL:
 * it does not parse. */
tc_func *tc_meta_read_header(tc_record meta, const char *text, size_t size,
                             tc_context *cx, tc_module *m);

#endif
