/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics for people:
 *
 *   matmul.tile:12:8: error: dot: operands are ..., expected ...
 *     %acc = dot %a, %b
 *            ^
 *   matmul.tile:3:1: note: ...
 */
#ifndef TOOL_RENDER_H
#define TOOL_RENDER_H

#include "ir/diag.h"
#include "lib/tilec.h"

#include <stdio.h>

/* Colour where it is wanted: a terminal, and NO_COLOR is not set. */
bool render_wants_color(FILE *out);

void render_diag(FILE *out, const tc_context *cx, const tc_diag *d, bool color);
/* All of them, and how many errors were only counted. */
void render_diags(FILE *out, const tc_context *cx);
/* The same of what the library gives. */
void render_list(FILE *out, const tilec_diagnostic *list, size_t nerrors);

#endif
