/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of words (words.def), for the parser and for syntax files of
 * editors.
 */
#ifndef TC_WORDS_H
#define TC_WORDS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum tc_word_class {
    TC_WORD_TOP,
    TC_WORD_CLAUSE,
    TC_WORD_PARAM,
    TC_WORD_TYPE,
    TC_WORD_LITERAL,
    TC_WORD_FUNCTION,
    TC_WORD_SIZE,
    TC_WORD_PART
} tc_word_class;

enum {
    TC_NWORDS = 0
#define WORD(class, text) +1
#include "ir/words.def"
#undef WORD
};

typedef struct tc_word {
    tc_word_class class;
    const char *text;
} tc_word;
extern const tc_word tc_words[TC_NWORDS];

/* A word of that class? The text needs no terminator. */
bool tc_word_is(tc_word_class class, const char *text, size_t n);
/* A word of any class, or the name of an op: what the parser may ask for. */
bool tc_word_is_any(const char *text);
/* The words of a class, into room for TC_NWORDS; how many there are. */
unsigned tc_words_of(tc_word_class class, const char **words);

#endif
