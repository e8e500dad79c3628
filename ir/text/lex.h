/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to tokens. The whole text at once: the parser looks ahead and skips
 * bodies freely.
 *
 * The sides of a tile are read specially: after `tile<` and `block_ptr<`, up to
 * the `>`, digits and names end at a lower-case `x`, which is a token of its
 * own, so that `128x64xf32` and `BMxD x T` are what they look like. In
 * parentheses (a size expression) names are ordinary again.
 */
#ifndef TC_LEX_H
#define TC_LEX_H

#include "ir/base/diag.h"

struct tc_func;
struct tc_module;

typedef enum tc_token_kind {
    TC_TOKEN_END,
    TC_TOKEN_BAD,   /* already reported */
    TC_TOKEN_NAME,  /* for, exp2, BM */
    TC_TOKEN_VALUE, /* %name */
    TC_TOKEN_FUNC,  /* @name */
    TC_TOKEN_INT,
    TC_TOKEN_FLOAT,
    TC_TOKEN_STRING,
    TC_TOKEN_LAYOUT, /* #name, #name(...) */
    TC_TOKEN_X,      /* between the sides of a tile */
    TC_TOKEN_LPAREN,
    TC_TOKEN_RPAREN,
    TC_TOKEN_LBRACKET,
    TC_TOKEN_RBRACKET,
    TC_TOKEN_LBRACE,
    TC_TOKEN_RBRACE,
    TC_TOKEN_LT,
    TC_TOKEN_GT,
    TC_TOKEN_LE,
    TC_TOKEN_GE,
    TC_TOKEN_EQ,
    TC_TOKEN_NE,
    TC_TOKEN_SHL,
    TC_TOKEN_SHR,
    TC_TOKEN_SHRU,
    TC_TOKEN_ARROW,
    TC_TOKEN_ASSIGN,
    TC_TOKEN_COMMA,
    TC_TOKEN_SEMICOLON, /* in parentheses */
    TC_TOKEN_COLON,
    TC_TOKEN_SIDE, /* +: */
    TC_TOKEN_PLUS,
    TC_TOKEN_MINUS,
    TC_TOKEN_STAR,
    TC_TOKEN_SLASH,
    TC_TOKEN_OR,
    TC_TOKEN_XOR,
    TC_TOKEN_AND,
    TC_TOKEN_TILDE,
    TC_TOKEN_BANG,
    TC_TOKEN_QUESTION
} tc_token_kind;

typedef struct tc_token {
    uint8_t kind;
    bool glued; /* no blank before it */
    uint32_t at,
        len; /* in the text; of VALUE, FUNC and STRING what is inside */
    uint32_t line, col;
} tc_token;

typedef struct tc_tokens {
    const char *text;
    uint32_t file; /* of the locations; 0: none */
    uint32_t n;    /* the last one is END */
    tc_token *all;
} tc_tokens;

/* Errors are reported at their place (at `where` if file is 0) and leave BAD
 * tokens; the rest is read on. `;` and comments after `#` are reported once
 * and skipped. */
tc_tokens tc_lex(tc_context *cx, tc_arena *a, uint32_t file, const char *text,
                 size_t len, tc_loc where);
/* The column after the token. */
uint32_t tc_token_end(const tc_token *t);
/* The text of a token of a fixed kind: "`+:`"; "a name". */
const char *tc_token_kind_name(tc_token_kind kind);

/* tc_parse_tokens for editors: parses the headers of all functions, and the
 * body that holds the bytes from .. to between its braces; the other bodies
 * stay empty. NULL: there is none, or a header has errors. *nfuncs: how many
 * functions the text has. */
struct tc_func *tc_parse_body_at(struct tc_module *m, tc_tokens tokens,
                                 size_t from, size_t to, unsigned *nfuncs);

/* The bytes that the inside of a string literal stands for, interned. */
const char *tc_string_unescape(tc_context *cx, tc_arena *a, const char *s,
                               size_t n);
/* Appends the literal, quotes included. */
void tc_string_print(tc_text *out, const char *s);

/* The value of an INT token; false if it needs more than 64 bits. */
bool tc_int_parse(const char *s, size_t n, uint64_t *value);
/* The value of a FLOAT or INT token in any locale. */
double tc_float_parse(tc_arena *a, const char *s, size_t n);

#endif
