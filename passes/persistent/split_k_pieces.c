/* SPDX-License-Identifier: Apache-2.0
 *
 * The number of CTAs for each tile, of split-k: the plan computes the cycles
 * (launch_cost.c) of each number at each launch, and takes the fewest.
 */
#include "passes/persistent/launch_cost.h"
#include "passes/persistent/split_k.h"
#include "passes/target/machine_model.h"

static tc_value *bytes_of(tc_builder *b, tc_value *tensor)
{
    const tc_type *t = tensor->type;
    tc_value *n = tc_build_i64(b, tc_type_bytes(t->elem));
    for (unsigned i = 0; i < t->rank; i++) {
        tc_op *op = tc_op_new(b->func, TC_SIZE, b->loc, 1, &tensor, 0);
        tc_op_set_int(op, "dim", i);
        n = tc_build_binary(b, TC_MUL, n,
                            tc_build_cast(b, tc_build_op(b, op, NULL), TC_I64));
    }
    return n;
}

static tc_value *bytes_of_tensors(tc_builder *b, const tc_op *loop)
{
    const tc_region *body = b->func->body;
    bool *is_loaded =
        tc_arena_array(&b->func->module->arena, bool, body->nargs);
    tc_value *sum = tc_build_i64(b, 0);
    tc_mark_loaded(loop, is_loaded);
    for (unsigned i = 0; i < body->nargs; i++)
        if (is_loaded[i])
            sum = tc_build_binary(b, TC_ADD, sum, bytes_of(b, body->args[i]));
    return sum;
}

tc_value *tc_build_pieces(tc_builder *b, const tc_func *kernel,
                          const tc_pass_env *env, const tc_op *loop,
                          const tc_split_launch *given)
{
    unsigned asked = env->options->warps;
    tc_launch_cost c = tc_launch_cost_of(tc_machine(env->target), kernel, loop,
                                         NULL, asked ? asked : kernel->warps);
    tc_launch_counts l = {{tc_build_cast(b, given->tiles, TC_I64), 0},
                          {tc_build_cast(b, given->steps, TC_I64), 0},
                          {bytes_of_tensors(b, loop), 0}};
    tc_value *n = tc_build_int(b, given->tiles->type, 1);
    tc_value *best = tc_launch_cycles(b, &c, 1, &l).op;
    for (const int64_t *p = tc_launch_pieces + 1; *p; p++) {
        tc_value *with = tc_launch_cycles(b, &c, *p, &l).op;
        tc_value *less = tc_build_cmp(b, "lt", with, best);
        n = tc_build_select(b, less, tc_build_int(b, n->type, *p), n);
        best = tc_build_binary(b, TC_MIN, best, with);
    }
    return n;
}
