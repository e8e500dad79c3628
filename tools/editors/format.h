/* SPDX-License-Identifier: Apache-2.0
 *
 * `tilec fmt`: one way to write a program. Line breaks and comments are the
 * author's; indentation, blanks between tokens and blank lines are not:
 *
 *   func @f(%x:f32,%y : f32)->f32{          func @f(%x: f32, %y: f32) -> f32 {
 *       %z=%x*%y  // product          ->      %z = %x * %y  // product
 *     return max( %z,
 *       %x )                                  return max(%z,
 *   }                                                    %x)
 *                                           }
 *
 * A line that continues a statement is indented by 4 more than the statement,
 * or begins below what follows the bracket that is open, as its author chose.
 */
#ifndef TOOL_FORMAT_H
#define TOOL_FORMAT_H

#include "ir/ir.h"
#include "tools/editors/pieces.h"

/* Appends the formatted text of a source. False: cx says where the text has no
 * valid form (names and types may be wrong: only the form counts). */
bool format_text(tc_context *cx, tc_arena *a, uint32_t source,
                 tc_text *out) TC_MUST_CHECK;

/* ---- spacing.c ---- */

/* What decides about blanks between two tokens. */
typedef struct format_spacing {
    bool a_is_prefix, a_is_key;                     /* of -x; of name=value */
    bool a_opens_type, b_opens_type, b_closes_type; /* < and > of types */
    bool in_list;          /* `(` or `[` is the innermost one */
    const piece *before_a; /* NULL: none */
} format_spacing;

/* How many blanks are between tokens i - 1 and i of one line. */
uint32_t format_blanks(const pieces *t, uint32_t i, const format_spacing *s);
/* Is token i, after `prev`, an operator with nothing on its left? */
bool format_is_prefix(const piece *p, const piece *prev);
/* Is token i the `=` of `name=value`? */
bool format_is_key(const pieces *t, uint32_t i, bool in_list);
/* Is `<` the beginning of a type's parts? */
bool format_opens_type(const piece *p, const piece *prev);

#endif
