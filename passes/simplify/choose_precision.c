/* SPDX-License-Identifier: Apache-2.0
 *
 * choose-precision: sets the precision of f32 products that leave it open, and
 * takes the fast instruction for log2 and rcp of f32 tiles where afn permits.
 *
 *   %c = dot %a, %b : tile<64x64 x f32>
 *   %d = dot %a, %b precision(ieee) : tile<64x64 x f32>
 * becomes, where the options ask for tf32,
 *   %c = dot %a, %b precision(tf32) : tile<64x64 x f32>
 *   %d = dot %a, %b precision(ieee) : tile<64x64 x f32>
 *
 * If they ask for nothing it is ieee.
 *
 *   %e = log2 %x fastmath(afn) : tile<64 x f32>
 * becomes, on GPUs,
 *   %e = log2 %x approx(true) fastmath(afn) : tile<64 x f32>
 *
 * Tests: test/ir/passes/choose-precision.
 */
#include "ir/fastmath.h"
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

/* Is it a function of f32 with a fast instruction, which it may take? */
static bool may_be_fast(const tc_op *op)
{
    return (op->code == TC_LOG2 || op->code == TC_RCP) &&
           op->out[0]->type->kind == TC_TILE &&
           op->out[0]->type->elem->kind == TC_F32 &&
           (tc_op_fastmath(op) & TC_AFN) && !tc_op_has_attr(op, "approx");
}

static bool visit(tc_pass_env *env, tc_op *op)
{
    bool fast = may_be_fast(op);
    if (fast)
        tc_op_set_attr(op, "approx",
                       (tc_attr){.kind = TC_ATTR_BOOL, .i = true});
    else if (env->options->precision && is_open(op))
        tc_op_set_word(op, "precision", env->options->precision);
    else
        return false;
    return true;
}

tc_change tc_pass_choose_precision(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, visit);
}
