/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons with `range`, as masks make them:
 *
 *   range(64)[none, :] <= %limit[:, none]
 *
 * The index of an element is a part of the thread, computed once, and a
 * constant of the register, both 0 or more. So the thread's part goes to the
 * other side, once a row, and each element compares that with a constant:
 *
 *   thread + c <= limit   is   c <= limit - thread
 *
 * The difference saturates, which changes nothing: the limit is then below 0,
 * and so below the constant, on both sides.
 */
#include "codegen/nvptx/emit.h"

#include <string.h>

/* The axis of v's type along which it is range(n), the same along the others;
 * -1: it is something else. */
static int axis_of_range(const tc_value *v)
{
    unsigned axes[TC_MAX_RANK], rank = v->type->rank;
    const tc_type *type = v->type;
    for (unsigned i = 0; i < rank; i++)
        axes[i] = i;
    for (; v->def && v->def->code != TC_RANGE; v = v->def->in[0]) {
        if (v->def->code == TC_EXPAND_DIMS) {
            unsigned gone = (unsigned)tc_op_int(v->def, "axis");
            memmove(axes + gone, axes + gone + 1,
                    (--rank - gone) * sizeof *axes);
        } else if (v->def->code != TC_BROADCAST) {
            return -1;
        }
    }
    bool whole = v->def && v->type->dims[0] == type->dims[axes[0]];
    return whole ? (int)axes[0] : -1;
}

/* The predicate of `c pred limit`, where c may be the right operand (swapped);
 * false: it is none of these. */
static bool predicate_of(const tc_op *op, bool swapped, LLVMIntPredicate *pred)
{
    static const struct {
        const char *name;
        LLVMIntPredicate is, swapped;
    } all[] = {{"lt", LLVMIntSLT, LLVMIntSGT},
               {"le", LLVMIntSLE, LLVMIntSGE},
               {"gt", LLVMIntSGT, LLVMIntSLT},
               {"ge", LLVMIntSGE, LLVMIntSLE}};
    for (unsigned i = 0; i < 4; i++)
        if (tc_op_is_word(op, "pred", all[i].name)) {
            *pred = swapped ? all[i].swapped : all[i].is;
            return true;
        }
    return false;
}

/* Are all registers' parts added to the thread's? */
static bool is_sum(const tc_coords *lanes, uint32_t nregisters)
{
    bool add = true;
    for (uint32_t r = 0; add && r < nregisters; r++)
        tc_coords_constant(lanes, r, &add);
    return add;
}

bool tc_nvptx_compare_range(tc_gen *g, const tc_op *op)
{
    const tc_type *type = op->out[0]->type;
    LLVMIntPredicate pred;
    int axis = -1;
    unsigned at = 0;
    if (type->kind != TC_TILE || op->in[0]->type->elem->kind != TC_I32)
        return false;
    for (; at < 2 && (axis = axis_of_range(op->in[at])) < 0; at++)
        ;
    if (axis < 0 || !predicate_of(op, at == 1, &pred))
        return false;
    uint32_t n = tc_gen_registers(type);
    tc_coords lanes = tc_coords_get(g, type->layout, (unsigned)axis);
    if (!is_sum(&lanes, n))
        return false;
    LLVMValueRef *limit = tc_gen_get(g, op->in[1 - at]);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]), last = NULL, rest = NULL;
    LLVMTypeRef i32 = LLVMTypeOf(lanes.thread);
    for (uint32_t r = 0; r < n; r++) {
        bool add;
        uint32_t c = tc_coords_constant(&lanes, r, &add);
        if (limit[r] != last)
            rest = tc_gen_intrinsic(g, "ssub.sat", 1, &i32, 2,
                                    (LLVMValueRef[]){limit[r], lanes.thread});
        last = limit[r];
        to[r] = LLVMBuildICmp(g->b, pred, tc_gen_i32(g, c), rest, "");
    }
    return true;
}
