/* SPDX-License-Identifier: Apache-2.0
 *
 * Hints to the caches of a GPU, attributes of ops that access memory: how soon
 * to evict what is accessed, and by which caches it goes. They change no
 * result.
 */
#include "ir/ir.h"

#include <string.h>

const char *tc_op_hint(const tc_op *op, const char *name)
{
    int i = tc_op_attr_index(op->code, name);
    const char *word = i < 0 ? NULL : tc_op_word(op, name);
    bool none =
        !word || strcmp(word, "auto") == 0 || strcmp(word, "normal") == 0;
    return none ? NULL : word;
}

/* Whether the op has that word. */
static bool give(tc_op *op, const char *name, const char *word)
{
    int i = tc_op_attr_index(op->code, name);
    bool has =
        i >= 0 &&
        tc_words_have(tc_op_attr_decl(op->code, (unsigned)i).words, word);
    if (has)
        tc_op_set_word(op, name, word);
    return has;
}

const char *tc_op_copy_hints(tc_op *to, const tc_op *from)
{
    const char *evict = tc_op_hint(from, "evict"),
               *cache = tc_op_hint(from, "cache");
    if (evict)
        tc_op_set_word(to, "evict", evict);
    return cache && !give(to, "cache", cache) ? cache : NULL;
}
