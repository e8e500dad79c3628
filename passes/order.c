/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/order.h"

#include <string.h>

#define FACT(fact, text) {.name = fact, .meaning = text},
#define STAGE(folder, title)
#define PASS(id, name, scope, needs, makes, before, summary)
#define PIPELINE(name, list, summary)
const tc_pass_fact tc_pass_facts[] = {
#include "passes/passes.def"
};
#undef FACT
#undef STAGE
#undef PASS
#undef PIPELINE
const unsigned tc_npass_facts = sizeof tc_pass_facts / sizeof *tc_pass_facts;

bool tc_has_fact(const char *list, const char *fact)
{
    size_t n = strlen(fact);
    for (const char *s = list; *s; s += strspn(s, ", ")) {
        size_t len = strcspn(s, ", ");
        if (len == n && memcmp(s, fact, n) == 0)
            return true;
        s += len;
    }
    return false;
}

/* One of passes[from] to passes[end - 1] that makes the fact, or NULL. */
static const tc_pass_info *maker(const tc_pass_info *const *passes,
                                 unsigned from, unsigned end, const char *fact)
{
    for (unsigned i = from; i < end; i++)
        if (tc_has_fact(passes[i]->makes, fact))
            return passes[i];
    return NULL;
}

static bool check_need(tc_context *cx, const tc_pass_info *const *passes,
                       unsigned n, unsigned i, const char *fact)
{
    const tc_pass_info *later = maker(passes, i + 1, n, fact);
    if (!later || maker(passes, 0, i, fact))
        return true;
    return tc_error(cx, (tc_loc){0},
                    "pipeline: `%s` stands before `%s`, but needs the %s that "
                    "it makes: put `%s` first",
                    passes[i]->name, later->name, fact, later->name);
}

static bool check_before(tc_context *cx, const tc_pass_info *const *passes,
                         unsigned i, const char *fact)
{
    const tc_pass_info *earlier = maker(passes, 0, i, fact);
    if (!earlier)
        return true;
    return tc_error(cx, (tc_loc){0},
                    "pipeline: `%s` stands after `%s`, but matches the program "
                    "before its %s: put `%s` first",
                    passes[i]->name, earlier->name, fact, passes[i]->name);
}

bool tc_check_order(tc_context *cx, const tc_pass_info *const *passes,
                    unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < tc_npass_facts; k++) {
            const char *fact = tc_pass_facts[k].name;
            if (tc_has_fact(passes[i]->needs, fact) &&
                !check_need(cx, passes, n, i, fact))
                return false;
            if (tc_has_fact(passes[i]->before, fact) &&
                !check_before(cx, passes, i, fact))
                return false;
        }
    return true;
}
