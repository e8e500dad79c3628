/* SPDX-License-Identifier: Apache-2.0
 *
 * fold-alignment: moves a bit mask past an addend that is a multiple of a power
 * of two, if the addend's bits or the carries into them do not matter.
 *
 *   %n0 a multiple of 128, %r = range           %n0 a multiple of 128
 *   %k = add %n0, %r : tile<128 x i32>    becomes
 *   %a = and %k, 8                              %a = and %r, 8
 *   %b = and %k, -16                            %1 = and %r, -16
 *                                               %b = add %n0, %1
 *
 * The mask then applies to an index within the tile: licm hoists it out of
 * loops. Registers of a thread whose indices differ only in cleared bits hold
 * the same value, so cse computes what depends on them once. Tests:
 * test/ir/passes/fold-alignment.
 */
#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"

/* The low bits, which the addend has not, alone; or all of the higher ones. */
static bool is_low(int64_t mask, uint32_t divisor)
{
    return mask >= 0 && mask < divisor;
}

static bool has_all_high(int64_t mask, uint32_t divisor)
{
    return (mask | (int64_t)(divisor - 1)) == -1;
}

static tc_value *without_addend(tc_builder *b, const tc_op *op,
                                tc_value *addend, tc_value *rest,
                                uint32_t divisor)
{
    tc_scalar mask;
    if (divisor < 2 || !tc_match_const(op->in[1], &mask))
        return NULL;
    if (!is_low(mask.i, divisor) && !has_all_high(mask.i, divisor))
        return NULL;
    tc_value *low = tc_build_binary(b, TC_AND, rest, op->in[1]);
    return is_low(mask.i, divisor) ? low
                                   : tc_build_binary(b, TC_ADD, addend, low);
}

static bool fold(tc_axis_analysis *axes, tc_op *op)
{
    tc_op *sum = op->code == TC_AND ? tc_match_op(op->in[0], TC_ADD) : NULL;
    if (!sum)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t divisor = tc_axis_divisor(tc_axis_info_of(axes, sum->in[i]));
        tc_builder b = tc_builder_before(op);
        tc_value *v =
            without_addend(&b, op, sum->in[i], sum->in[1 - i], divisor);
        if (!v)
            continue;
        tc_value_replace(op->out[0], v);
        tc_op_erase(op);
        return true;
    }
    return false;
}

static bool fold_region(tc_axis_analysis *axes, tc_region *r)
{
    bool changed = false;
    tc_each_nested_first (op, r) {
        tc_module_spend(r->func->module, 1);
        changed |= fold(axes, op);
    }
    return changed;
}

tc_change tc_pass_fold_alignment(tc_func *f, tc_pass_env *env)
{
    tc_axis_analysis *axes = tc_axis_analyse(env->scratch, f, f->aligned);
    return fold_region(axes, f->body) ? TC_CHANGED : TC_UNCHANGED;
}
