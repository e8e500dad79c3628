/* SPDX-License-Identifier: Apache-2.0
 *
 * A text as an editor sees it: tokens and comments, with the blanks between
 * them.
 */
#ifndef TOOL_PIECES_H
#define TOOL_PIECES_H

#include "ir/text/lex.h"

/* Beyond those of tc_token_kind. */
enum { PIECE_COMMENT = 255 };

typedef struct piece {
    uint8_t kind; /* tc_token_kind, or PIECE_COMMENT */
    bool glued;   /* nothing before it */
    const char *s;
    uint32_t len;      /* marks and quotes included; no blanks at its end */
    uint32_t newlines; /* since the piece before it; 1 and more of the first */
    uint32_t blanks;   /* before it on its line */
    uint32_t col;      /* from 0 */
} piece;

typedef struct pieces {
    piece *all; /* the last one is TC_TOKEN_END */
    uint32_t n;
} pieces;

/* Errors of the lexer are in cx; the pieces are whole all the same. */
pieces pieces_of(tc_context *cx, tc_arena *a, uint32_t source);

bool piece_is(const piece *p, const char *text);
/* `(`, `[`, `{`; `)`, `]`, `}` */
bool piece_opens(const piece *p);
bool piece_closes(const piece *p);
/* The first token at or after i, comments passed over. */
uint32_t pieces_token(const pieces *t, uint32_t i);
/* Something complete may end with it: an operand, a clause, a type. */
bool piece_ends_operand(const piece *p);
/* `%a, %b =` begins at token i. */
bool pieces_at_definition(const pieces *t, uint32_t i);
/* A statement, or a definition of a function, begins at token i, where `prev`
 * is the token before it and no bracket but `{` is open; top: nor is that. */
bool pieces_begin(const pieces *t, uint32_t i, const piece *prev, bool top);

#endif
