/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/passes.h"

#include <string.h>

void tc_refuse_load(const tc_pass_env *env, const char *pass, const tc_op *load,
                    const char *why)
{
    tc_refusals *list = env->options ? env->options->refusals : NULL;
    if (!list)
        return;
    tc_refusal *r = tc_arena_new(list->arena, tc_refusal);
    *r = (tc_refusal){pass, tc_arena_string(list->arena, why), load->loc,
                      list->last};
    list->last = r;
}

const char *tc_refusal_of(const tc_refusals *list, const char *pass, tc_loc loc)
{
    for (const tc_refusal *r = list->last; r; r = r->next)
        if (r->loc.file == loc.file && r->loc.line == loc.line &&
            r->loc.col == loc.col && strcmp(r->pass, pass) == 0)
            return r->why;
    return NULL;
}
