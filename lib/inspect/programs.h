/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of a program after each pass, line by line with the places of their
 * ops in the sources. Most lines are the same in many texts: lines and places
 * are kept once, and a text is a list of numbers.
 */
#ifndef TC_INSPECT_PROGRAMS_H
#define TC_INSPECT_PROGRAMS_H

#include "ir/base/map.h"
#include "ir/ir.h"
#include "lib/inspect/writer.h"

typedef struct tc_programs {
    tc_context *cx;
    tc_arena *arena;
    tc_map known; /* interned line or place -> its number and 1 */
    unsigned nlines;
    unsigned nplaces;      /* and the empty one, 0 */
    tc_text lines, places; /* JSON: items of two lists */
    tc_text list;          /* JSON: items of the list of programs */
    tc_json_writer w_lines, w_places, w_list;
    unsigned n;
    tc_map line_of;     /* op -> its line in the newest text, from 1 */
    const char *newest; /* that text */
} tc_programs;

void tc_programs_init(tc_programs *p, tc_context *cx, tc_arena *arena);
/* The module as it is now; returns its number. */
unsigned tc_programs_add(tc_programs *p, const tc_module *m);
/* The number of a place in the list of places. */
unsigned tc_programs_place(tc_programs *p, tc_loc loc);
/* The first line of an op in the newest text, from 1; 0: it is not there. */
unsigned tc_programs_line(const tc_programs *p, const tc_op *op);
/* The lists `lines`, `places` and `programs`. */
void tc_programs_write(const tc_programs *p, tc_json_writer *w);

#endif
