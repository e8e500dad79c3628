/* SPDX-License-Identifier: Apache-2.0
 *
 * choose-precision: sets the precision of f32 products that leave it open.
 *
 *   %c = dot %a, %b : tile<64x64 x f32>
 *   %d = dot %a, %b precision(ieee) : tile<64x64 x f32>
 * becomes, where the options ask for tf32,
 *   %c = dot %a, %b precision(tf32) : tile<64x64 x f32>
 *   %d = dot %a, %b precision(ieee) : tile<64x64 x f32>
 *
 * If they ask for nothing it is ieee. Tests: test/ir/passes/choose-precision.
 */
#include "passes/passes.h"

#include <string.h>

bool tc_is_precision(const char *word)
{
    return strcmp(word, "ieee") == 0 || strcmp(word, "tf32") == 0 ||
           strcmp(word, "tf32x3") == 0;
}

static bool is_open(const tc_op *op)
{
    return op->code == TC_DOT && tc_op_is_word(op, "precision", "any") &&
           op->in[0]->type->elem->kind == TC_F32 &&
           op->in[1]->type->elem->kind == TC_F32;
}

static bool set_precision(tc_pass_env *env, tc_op *op)
{
    if (!is_open(op))
        return false;
    tc_op_set_word(op, "precision", env->options->precision);
    return true;
}

tc_change tc_pass_choose_precision(tc_func *f, tc_pass_env *env)
{
    return env->options->precision ? tc_visit_ops(f, env, set_precision)
                                   : TC_UNCHANGED;
}
