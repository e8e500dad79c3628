/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of a role's work, by which a schedule is shown and a profile is
 * taken: what an op waits for, issues, computes or releases.
 */
#ifndef TC_SECTION_H
#define TC_SECTION_H

#include "ir/ir.h"

/* kind: a word of `mark`, interned; NULL: the op belongs to the section that
 * precedes it. label: what is waited for, issued or stored; NULL: no name. Text
 * is in the context's diagnostics arena. */
typedef struct tc_section {
    const char *kind, *label;
} tc_section;

tc_section tc_section_of(tc_context *cx, const tc_op *op);
/* Of an op with regions: that of what it computes, if that is one section; NULL
 * kind: it has several, or none. */
tc_section tc_section_of_regions(tc_context *cx, const tc_op *op);
/* Does an op that has both continue the section? */
bool tc_section_continues(tc_section now, tc_section next);

/* The name of a value: a buffer's if it is a view of one; "registers" of a tile
 * without a name. */
const char *tc_section_name(tc_context *cx, const tc_value *v);
/* Of a product: the name of its result, if the text has one, else its operands:
 * "q x ring.k". */
const char *tc_section_product(tc_context *cx, const tc_value *product);
/* "for %n0", "while" */
const char *tc_section_loop(tc_context *cx, const tc_op *loop);

/* "await" of a kind, as tables write it; "wait": the kind of span in timelines
 * (docs/profile.md). The kind itself, and "other", of an unknown one. */
const char *tc_section_words(const char *kind);
const char *tc_section_span(const char *kind);

/* Does the op compute a tile, in a way that takes time? */
bool tc_is_tile_math(const tc_op *op);

#endif
