/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the printer, for each other (the entries are in ir.h).
 */
#ifndef TC_PRINT_H
#define TC_PRINT_H

#include "ir/base/map.h"
#include "ir/ir.h"

typedef struct tc_printer {
    tc_text *out;
    tc_context *cx;
    unsigned flags;
    const tc_func *f;
    tc_map names; /* value -> its name */
    tc_map taken; /* name -> the number that its next variant tries */
    unsigned next_number;
    unsigned indent;
    tc_printed *each; /* NULL: nobody asks where ops are */
    void *user;
} tc_printer;

/* ---- print.c ---- */

/* Also of a value that was not defined before, in a broken program. */
const char *tc_print_name_of(tc_printer *p, const tc_value *v);

/* ---- print_op.c ---- */

/* { ... }, with the ops in it */
void tc_print_region(tc_printer *p, const tc_region *r);
/* (%a: i32, %b: f32) */
void tc_print_args(tc_printer *p, const tc_region *r);
/* One, or several in parentheses. */
void tc_print_types(tc_printer *p, unsigned n, const tc_type *const *types);

#endif
