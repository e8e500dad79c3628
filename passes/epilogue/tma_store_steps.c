/* SPDX-License-Identifier: Apache-2.0
 *
 * TMA stores in each step of a loop within a tile: which of them write elements
 * of their own in each step, and how many copies of later stores may be
 * outstanding when a buffer is written again.
 *
 *   for %i = 0 to %n {
 *     tma_store_wait pending(1)       that of %b in the step before
 *     smem_store %a, ..
 *     tma_store %u[%i * 64 +: 64, ..], %a
 *     tma_store_wait pending(1)       that of %a in this step
 *     smem_store %b, ..
 *     tma_store %v[%i * 64 +: 64, ..], %b
 *   }
 *
 * Test: test/ir/passes/tma-stores/in-loop.tile.
 */
#include "passes/epilogue/tma_stores.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"

#include <stdlib.h>

/* ---- Own elements in each step ---- */

/* By how much v grows when the induction variable of the loop grows by 1.
 * False: it is not known. */
static bool find_growth(const tc_value *v, const tc_op *loop, int64_t *growth)
{
    const tc_op *op = v->def;
    int64_t a, b;
    tc_scalar c;
    *growth = v == loop->regions[0]->args[0];
    if (*growth || !tc_is_defined_in(v, loop) || tc_match_const(v, &c))
        return true;
    if (!op || op->nin < 1 || op->nin > 2 ||
        !find_growth(op->in[0], loop, &a) ||
        (op->nin == 2 && !find_growth(op->in[1], loop, &b)))
        return false;
    switch (op->code) {
    case TC_NEG: return !__builtin_sub_overflow(0, a, growth);
    case TC_ADD: return !__builtin_add_overflow(a, b, growth);
    case TC_SUB: return !__builtin_sub_overflow(a, b, growth);
    case TC_MUL:
        if (tc_match_const(op->in[1], &c))
            return !__builtin_mul_overflow(a, c.i, growth);
        if (tc_match_const(op->in[0], &c))
            return !__builtin_mul_overflow(b, c.i, growth);
        *growth = 0;
        return !a && !b;
    default: return false;
    }
}

/* Of the window along a dim of the tensor. */
static int64_t side_of(const tc_op *block, unsigned dim)
{
    const tc_type *window = block->out[0]->type;
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(window, sides);
    for (unsigned i = 0; i < window->rank; i++)
        if (tc_block_dim(block, i) == dim)
            return sides[i];
    return 1;
}

bool tc_tma_store_moves(const tc_tma_stores *s, const tc_op *store)
{
    const tc_op *loop = tc_tma_store_whole_loop(s, store);
    const tc_op *block = tc_match_op(store->in[0], TC_BLOCK);
    tc_scalar step;
    if (!block || !loop || loop != tc_tma_store_loop(s, store) ||
        loop->code != TC_FOR || !tc_match_const(loop->in[2], &step))
        return false;
    for (unsigned dim = 0; dim + 1 < block->nin; dim++) {
        int64_t growth;
        if (find_growth(block->in[1 + dim], loop, &growth) && growth &&
            growth >= -INT32_MAX && growth <= INT32_MAX &&
            step.i <= INT32_MAX &&
            llabs(growth) * step.i >= side_of(block, dim))
            return true;
    }
    return false;
}

/* ---- Waits ---- */

/* In each step, once. */
static bool is_in_each(const tc_op *copy, const tc_op *loop)
{
    return copy->parent->op == loop;
}

void tc_tma_store_count_waits(const tc_tma_stores *s)
{
    for (const tc_step_copy *x = s->steps; x; x = x->next) {
        const tc_op *loop = tc_loop_around(x->copy);
        int64_t others = 0;
        for (const tc_step_copy *y = s->steps; y; y = y->next)
            others += y != x && tc_loop_around(y->copy) == loop &&
                      is_in_each(y->copy, loop) &&
                      tc_op_is_word(x->copy, "scope", "group") ==
                          tc_op_is_word(y->copy, "scope", "group");
        if (is_in_each(x->copy, loop))
            tc_op_set_int(x->wait, "pending", others);
    }
}
