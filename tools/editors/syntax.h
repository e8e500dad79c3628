/* SPDX-License-Identifier: Apache-2.0
 *
 * Syntax files of editors, made of the tables that the parser uses: ops.def,
 * words.def, the scalar types, the numerics flags.
 */
#ifndef TOOL_EDITORS_SYNTAX_H
#define TOOL_EDITORS_SYNTAX_H

#include <stddef.h>

/* What an editor shows alike. */
typedef enum syntax_group {
    SYNTAX_KEYWORD,
    SYNTAX_CLAUSE, /* of a header: aligned(0) */
    SYNTAX_TYPE,
    SYNTAX_CONSTANT,
    SYNTAX_OP, /* also what is called like one */
    SYNTAX_MACHINE_OP,
    SYNTAX_ATTRIBUTE, /* with `(` or `=` after it */
    SYNTAX_VALUE,     /* of an attribute */
    SYNTAX_GROUPS
} syntax_group;

typedef struct syntax_word {
    syntax_group group;
    const char *text; /* no terminator */
    size_t n;
} syntax_word;

enum { SYNTAX_MOST_WORDS = 1024 };
typedef struct syntax_words {
    syntax_word all[SYNTAX_MOST_WORDS];
    size_t n;
} syntax_words;

/* Each word once: in the first group that has it. */
void syntax_collect(syntax_words *words);

/* Syntax of vim, on stdout. */
void syntax_put_vim(void);
/* A TextMate grammar in JSON, on stdout. */
void syntax_put_textmate(void);

#endif
