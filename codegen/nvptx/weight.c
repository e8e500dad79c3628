/* SPDX-License-Identifier: Apache-2.0
 *
 * At least how many instructions an op becomes: one for each of a thread's
 * registers, more where an element takes a function.
 */
#include "codegen/nvptx/emit.h"

/* Lanes of their own: each may have a branch around it. */
enum { BRANCH = 20 };
/* Vectors of their own, each with a condition: LLVM's time grows with the
 * square of how many there are. */
enum { CONDITION = 24 };

/* LLVM looks far back from an address for what it is made of. */
enum { SCALAR_GATHER = 64 };

static bool is_masked(const tc_op *op)
{
    bool load = op->code == TC_LOAD, store = op->code == TC_STORE;
    return (load || store) && op->in[0]->type->kind == TC_TILE &&
           op->nin > (load ? 1 : 2);
}

static bool is_bounded(const tc_op *op)
{
    return (op->code == TC_LOAD || op->code == TC_STORE) &&
           tc_op_has_attr(op, "boundary");
}

/* Instructions an element. */
static unsigned of_element(const tc_op *op)
{
    if (is_masked(op))
        return BRANCH;
    if (is_bounded(op))
        return CONDITION;
    bool is_wide = op->nout && tc_type_elem(op->out[0]->type)->kind == TC_F64;
    switch (op->code) {
    case TC_SPLAT:
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_TRANS:
    case TC_RESHAPE:
    case TC_RANGE: return 0;
    case TC_EXP:
    case TC_EXP2:
    case TC_LOG:
    case TC_LOG2:
    case TC_TANH:
    case TC_ERF:
    case TC_SIN:
    case TC_COS: return is_wide ? 32 : 4;
    case TC_GATHER: return BRANCH + op->nin;
    case TC_ATOMIC:
    case TC_ATOMIC_CAS: return BRANCH;
    default: return 1;
    }
}

/* The widest tile that it reads or makes, in registers. */
static uint64_t count_registers(const tc_op *op)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < op->nin + op->nout; i++) {
        const tc_value *v = i < op->nin ? op->in[i] : op->out[i - op->nin];
        uint64_t n = v->type->kind == TC_TILE && v->type->layout
                         ? tc_gen_registers(v->type)
                         : 0;
        most = n > most ? n : most;
    }
    return most;
}

uint64_t tc_gen_weight(const tc_op *op)
{
    if (op->code == TC_REDUCE && op->nregions)
        return count_registers(op) * tc_region_count(op->regions[0]);
    if (tc_op_is_loop(op) || op->code == TC_IF)
        return 1;
    if (op->code == TC_GATHER && op->out[0]->type->kind != TC_TILE)
        return SCALAR_GATHER;
    return 1 + count_registers(op) * of_element(op);
}
