/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over all ops, for passes that handle one op at a time.
 */
#include "passes/passes.h"

static bool visit_region(tc_region *r, tc_pass_env *env, tc_visit_op *visit)
{
    bool changed = false;
    tc_each_nested_first (op, r) {
        tc_module_spend(r->func->module, 1);
        changed |= visit(env, op);
    }
    return changed;
}

tc_change tc_visit_ops(tc_func *f, tc_pass_env *env, tc_visit_op *visit)
{
    unsigned errors = env->cx->nerrors;
    bool changed = visit_region(f->body, env, visit);
    return env->cx->nerrors > errors ? TC_FAILED
           : changed                 ? TC_CHANGED
                                     : TC_UNCHANGED;
}
