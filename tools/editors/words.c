/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of the language in groups.
 */
#include "tools/editors/syntax.h"

#include "ir/ir.h"
#include "ir/types/type.h"
#include "ir/words.h"

#include <string.h>

static void add(syntax_words *words, syntax_group group, const char *text,
                size_t n)
{
    for (size_t i = 0; i < words->n; i++)
        if (words->all[i].n == n && memcmp(words->all[i].text, text, n) == 0)
            return;
    if (words->n < SYNTAX_MOST_WORDS)
        words->all[words->n++] = (syntax_word){group, text, n};
}

/* Those of a tile's sides, `x`, stand in no other place. */
static void add_words(syntax_words *words)
{
    static const syntax_group groups[] = {
        [TC_WORD_TOP] = SYNTAX_KEYWORD,      [TC_WORD_CLAUSE] = SYNTAX_CLAUSE,
        [TC_WORD_PARAM] = SYNTAX_KEYWORD,    [TC_WORD_TYPE] = SYNTAX_TYPE,
        [TC_WORD_LITERAL] = SYNTAX_CONSTANT, [TC_WORD_FUNCTION] = SYNTAX_OP,
        [TC_WORD_SIZE] = SYNTAX_OP,          [TC_WORD_PART] = SYNTAX_KEYWORD};
    for (int i = 0; i < TC_NWORDS; i++)
        if (strcmp(tc_words[i].text, "x") != 0)
            add(words, groups[tc_words[i].class], tc_words[i].text,
                strlen(tc_words[i].text));
}

static syntax_group group_of(const tc_op_info *op)
{
    bool is_control =
        op->traits & TC_TERMINATOR ||
        (op->syntax != TC_SYNTAX_PLAIN && op->syntax != TC_SYNTAX_CONST &&
         op->syntax != TC_SYNTAX_BLOCK && op->syntax != TC_SYNTAX_REDUCE);
    return is_control                ? SYNTAX_KEYWORD
           : op->traits & TC_MACHINE ? SYNTAX_MACHINE_OP
                                     : SYNTAX_OP;
}

static void add_ops(syntax_words *words)
{
    for (tc_opcode c = 0; c < TC_OPCODE_COUNT; c++)
        add(words, group_of(&tc_op_infos[c]), tc_op_infos[c].name,
            strlen(tc_op_infos[c].name));
}

static void add_types(syntax_words *words)
{
    for (tc_kind k = TC_I1; k <= TC_LAST_SCALAR; k++)
        add(words, SYNTAX_TYPE, tc_scalar_infos[k].name,
            strlen(tc_scalar_infos[k].name));
}

/* "name?:a|b|c" or "name:a+b": what the words are, or the name. */
static void add_attribute(syntax_words *words, const char *s, bool values)
{
    const char *end = s + strcspn(s, " ");
    size_t n = strcspn(s, "?:");
    if (!values)
        add(words, SYNTAX_ATTRIBUTE, s, n);
    s += strcspn(s, ":") + 1;
    if (!values || !(memchr(s, '|', end - s) || memchr(s, '+', end - s)))
        return;
    for (; s < end; s += n + 1) {
        n = strcspn(s, "|+ ");
        add(words, SYNTAX_VALUE, s, n);
    }
}

static void add_attributes(syntax_words *words, bool values)
{
    for (tc_opcode c = 0; c < TC_OPCODE_COUNT; c++)
        for (const char *s = tc_op_infos[c].attrs; *s;) {
            add_attribute(words, s, values);
            s += strcspn(s, " ");
            s += *s == ' ';
        }
}

void syntax_collect(syntax_words *words)
{
    words->n = 0;
    add_words(words);
    add_types(words);
    add_ops(words);
    add_attributes(words, false);
    add_attributes(words, true);
}
