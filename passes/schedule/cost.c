/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/schedule/cost.h"

#include "passes/instructions/mma.h"
#include "passes/schedule/overlap_mma.h"

static bool is_special(const tc_op *op)
{
    switch (op->code) {
    case TC_EXP:
    case TC_EXP2:
    case TC_LOG:
    case TC_LOG2:
    case TC_SQRT:
    case TC_RSQRT:
    case TC_RCP:
    case TC_SIN:
    case TC_COS:
    case TC_DIV: return true;
    case TC_TANH: return !tc_op_int(op, "absolute");
    default: return false;
    }
}

int64_t tc_special_cycles(const tc_target *t, const tc_op *op)
{
    int64_t sum = 0;
    if (is_special(op) && op->out[0]->type->kind == TC_TILE)
        sum += tc_type_count(op->out[0]->type) / t->special_per_cycle;
    if (op->nregions)
        tc_each_op (inner, op->regions[0])
            sum += tc_special_cycles(t, inner);
    return sum;
}

int64_t tc_product_cycles(const tc_target *t, const tc_op *mma)
{
    const tc_type *a = mma->in[0]->type;
    int64_t k = tc_dim_value(a->dims[a->rank - 1]);
    unsigned bits = tc_scalar_infos[a->elem->kind].bits;
    return tc_type_count(mma->out[0]->type) * k * bits / 16 /
           t->products_per_cycle;
}

static bool is_narrow(const tc_op *mma)
{
    return tc_scalar_infos[mma->in[0]->type->elem->kind].bits == 8;
}

bool tc_is_running_product(const tc_op *op)
{
    return tc_is_group_mma(op) &&
           (tc_op_int(op, "async") || tc_may_run_on(op->parent, op));
}

tc_step_cost tc_cost_of_step(const tc_target *t, const tc_region *r)
{
    tc_step_cost c = {0};
    tc_each_op (op, r) {
        c.special += tc_special_cycles(t, op);
        if (tc_is_running_product(op)) {
            c.products += tc_product_cycles(t, op);
            c.narrow |= is_narrow(op);
        }
    }
    return c;
}
