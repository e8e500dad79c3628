/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/words.h"

#include "ir/ir.h"

#include <string.h>

#define WORD(class, text) {TC_WORD_##class, text},
const tc_word tc_words[TC_NWORDS] = {
#include "ir/words.def"
};
#undef WORD

static bool is_text(const tc_word *word, const char *text, size_t n)
{
    return strncmp(word->text, text, n) == 0 && word->text[n] == 0;
}

bool tc_word_is(tc_word_class class, const char *text, size_t n)
{
    for (int i = 0; i < TC_NWORDS; i++)
        if (tc_words[i].class == class && is_text(&tc_words[i], text, n))
            return true;
    return false;
}

bool tc_word_is_any(const char *text)
{
    size_t n = strlen(text);
    for (int i = 0; i < TC_NWORDS; i++)
        if (is_text(&tc_words[i], text, n))
            return true;
    return tc_opcode_parse(text, n) != TC_OPCODE_COUNT;
}

unsigned tc_words_of(tc_word_class class, const char **words)
{
    unsigned n = 0;
    for (int i = 0; i < TC_NWORDS; i++)
        if (tc_words[i].class == class)
            words[n++] = tc_words[i].text;
    return n;
}
