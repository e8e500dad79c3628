/* SPDX-License-Identifier: Apache-2.0
 *
 * Why an assert of a grid or plan fails: the values of the comparison that is
 * false.
 *
 *   %1 = cmp %m, %n pred(eq)     // 3 == 4
 *   %2 = and %0, %1
 *   assert %2 message("..")      // ": found 3, expected 4"
 */
#include "ir/eval/eval.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *pred, *words;
} preds[] = {{"eq", ""},         {"ne", "another than "}, {"lt", "less than "},
             {"le", "at most "}, {"gt", "more than "},    {"ge", "at least "}};

static const char *words_of(const tc_op *cmp)
{
    for (size_t i = 0; i < sizeof preds / sizeof *preds; i++)
        if (tc_op_is_word(cmp, "pred", preds[i].pred))
            return preds[i].words;
    return NULL; /* unsigned */
}

/* The comparison among the operands of `and` that does not hold; NULL: none, or
 * the condition is made of something else. */
static const tc_op *find_false(const tc_value *v, tc_value_of_fn *value_of,
                               const void *user)
{
    tc_scalar x;
    while (v->def && v->def->code == TC_AND) {
        const tc_op *op = v->def;
        if (!value_of(user, op->in[0], &x))
            return NULL;
        v = op->in[x.i ? 1 : 0];
    }
    return v->def && v->def->code == TC_CMP ? v->def : NULL;
}

void tc_assert_found(const tc_op *op, tc_value_of_fn *value_of,
                     const void *user, char *out, size_t size)
{
    tc_scalar a, b;
    *out = 0;
    const tc_op *cmp = find_false(op->in[0], value_of, user);
    const char *words = cmp ? words_of(cmp) : NULL;
    if (!words || !tc_type_is_scalar(cmp->in[0]->type) ||
        tc_type_is_float(cmp->in[0]->type) || !value_of(user, cmp->in[0], &a) ||
        !value_of(user, cmp->in[1], &b))
        return;
    snprintf(out, size, ": found %lld, expected %s%lld", (long long)a.i, words,
             (long long)b.i);
}
