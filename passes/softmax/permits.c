/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/softmax/permits.h"

#include "ir/fastmath.h"

bool tc_permits(const tc_pass_env *env, const char *pass, const tc_op *op,
                unsigned flags, const char *what)
{
    unsigned missing = flags & ~tc_op_fastmath(op);
    if (!missing)
        return true;
    tc_text text = {.arena = env->scratch};
    tc_fastmath_print(&text, missing);
    tc_missed(env->cx, op->loc, pass,
              "%s: this %s does not permit it; to permit it write "
              "fastmath(%s) after the op, after the call it comes from, or in "
              "the head of @%s",
              what, tc_op_name(op), text.data, op->func->name);
    return false;
}
