/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics for people:
 *
 *   matmul.tile:12:8: error: dot: operands are ..., expected ...
 *     %acc = dot %a, %b
 *            ^~~
 *   matmul.tile:3:1: note: ...
 */
#ifndef TOOL_RENDER_H
#define TOOL_RENDER_H

#include "ir/base/diag.h"
#include "lib/tilec.h"

#include <stdarg.h>
#include <stdio.h>

/* Colour where it is wanted: a terminal, and NO_COLOR is not set. */
bool render_wants_color(FILE *out);

void render_diag(FILE *out, const tc_context *cx, const tc_diag *d, bool color);
/* All of them, what was missed before remarks on what was done, and how many
 * errors were only counted. */
void render_diags(FILE *out, const tc_context *cx);
/* The same of what the library gives. */
void render_list(FILE *out, const tilec_diagnostic *list, size_t nerrors);

/* A diagnostic at no place in a text, of a tc_severity. */
void render_message(FILE *out, int severity, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void render_message_v(FILE *out, int severity, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));
/* `tilec COMMAND: text`, and where to look. command NULL: of tilec itself. */
void render_usage(FILE *out, const char *command, const char *text);
/* A line that says what was done; in JSON a note. */
void render_line(FILE *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- What the command line asks for ---- */

/* --diagnostics=json: an object a line:
 *   {"severity": "error", "message": "dot: ...", "file": "matmul.tile",
 *    "line": 12, "column": 8, "end_column": 11, "notes": [...]}
 * file, line and column only where there is a place; remarks have `pass` and
 * `missed` besides. */
void render_as_json(void);
/* --remarks without =all: of the remarks those on faster ways not taken. */
void render_only_missed(void);

#endif
