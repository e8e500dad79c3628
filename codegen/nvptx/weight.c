/* SPDX-License-Identifier: Apache-2.0
 *
 * A lower bound of the instructions that an op becomes: one for each of a
 * thread's registers, more if an element takes a function.
 */
#include "codegen/nvptx/emit.h"
#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"

/* An element that is accessed through a pointer of its own. LLVM looks far back
 * from an address for what it is made of, so that its time grows with the
 * square of how many there are in a kernel: 2,000 (64 of 131,072 instructions
 * each) take 14 to 20 s, 4,000 take 27 to 32 s, 6,000 more than 60 s. */
enum { ACCESS = 64 };
/* An element of a window at a boundary, moved in vectors that each have a
 * condition: 2,000 take 11 s. */
enum { CONDITION = 48 };

static bool is_by_pointers(const tc_op *op)
{
    return (op->code == TC_LOAD || op->code == TC_STORE) &&
           op->in[0]->type->kind == TC_TILE;
}

/* The axis along which pointers count up by the strides of one dim, as those of
 * windows by index do: what is added last; -1: none. */
static int counted_axis(const tc_value *pointers)
{
    const tc_op *add = tc_match_op(pointers, TC_PTR_ADD);
    const tc_op *spread = add ? tc_match_op(add->in[1], TC_BROADCAST) : NULL;
    const tc_value *v = spread ? spread->in[0] : NULL;
    int axis = -1;
    for (unsigned i = 0; v && i < v->type->rank; i++)
        if (!tc_dim_is(v->type->dims[i], 1))
            axis = axis < 0 ? (int)i : (int)v->type->rank;
    while (v && v->def && v->def->code != TC_RANGE)
        v = v->def->nin ? v->def->in[0] : NULL;
    return v && axis < (int)pointers->type->rank ? axis : -1;
}

/* Elements that an access moves at once, of rows of an aligned tensor. */
static unsigned moved_at_once(const tc_op *op)
{
    const tc_value *tensor = tc_accessed_tensor(op);
    const tc_type *t = op->in[0]->type;
    int axis = counted_axis(op->in[0]);
    if (axis < 0 || !tensor || tensor->def || tensor->index >= 64 ||
        !(op->func->aligned >> tensor->index & 1))
        return 1;
    unsigned most = 16 / tc_type_bytes(t->elem->elem);
    return tc_layout_contiguous(t->layout, (unsigned)axis, most ? most : 1);
}

static bool is_bounded(const tc_op *op)
{
    return (op->code == TC_LOAD || op->code == TC_STORE) &&
           tc_op_has_attr(op, "boundary");
}

/* Instructions an element. */
static unsigned of_element(const tc_op *op)
{
    if (is_by_pointers(op))
        return ACCESS / moved_at_once(op);
    if (is_bounded(op))
        return CONDITION;
    bool is_wide = op->nout && tc_type_elem(op->out[0]->type)->kind == TC_F64;
    switch (op->code) {
    case TC_SPLAT:
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_TRANS:
    case TC_RESHAPE:
    case TC_SLICE:
    case TC_JOIN:
    case TC_INTERLEAVE:
    case TC_RANGE: return 0;
    case TC_EXP:
    case TC_EXP2:
    case TC_LOG:
    case TC_LOG2:
    case TC_TANH:
    case TC_ERF:
    case TC_SIN:
    case TC_COS: return is_wide ? 32 : 4;
    case TC_SMEM_COUNT:
    case TC_SMEM_TAKE: return 6;
    case TC_GATHER:
    case TC_ATOMIC:
    case TC_ATOMIC_CAS: return ACCESS;
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
    if (tc_op_combines(op) && op->nregions)
        return count_registers(op) * tc_region_count(op->regions[0]) *
               (op->code == TC_REDUCE ? 1 : 2);
    if (tc_op_is_loop(op) || op->code == TC_IF)
        return 1;
    if (op->code == TC_GATHER && op->out[0]->type->kind != TC_TILE)
        return ACCESS;
    return 1 + count_registers(op) * of_element(op);
}
