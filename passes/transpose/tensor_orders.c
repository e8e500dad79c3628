/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/transpose/tensor_orders.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/target/machine_model.h"
#include "passes/transpose/transposes.h"

/* ---- What dots want ---- */

struct search {
    const tc_value *arg;
    const tc_op *dot;
    unsigned k_axis; /* of the operand */
    bool computed;   /* it is no source as it is */
    tc_order_wish wish;
};

/* Axes of the grid that a value depends on, leaving out what a loop walks. */
static unsigned grid_axes_of(const tc_value *v, unsigned depth)
{
    enum { DEEPEST = 32, ALL = 7 };
    unsigned axes = 0;
    if (!v->def)
        return 0;
    if (v->def->code == TC_PROGRAM_ID)
        return 1u << tc_op_int(v->def, "axis");
    if (depth == DEEPEST)
        return ALL;
    for (unsigned i = 0; i < v->def->nin; i++)
        axes |= grid_axes_of(v->def->in[i], depth + 1);
    return axes;
}

static bool is_walked(const tc_value *v, unsigned depth)
{
    enum { DEEPEST = 32 };
    if (!v->def)
        return v->region->op != NULL;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (depth == DEEPEST || is_walked(v->def->in[i], depth + 1))
            return true;
    return false;
}

static unsigned axes_of_block(const tc_op *block)
{
    unsigned axes = 0;
    for (unsigned i = 1; i < block->nin; i++)
        if (!is_walked(block->in[i], 0))
            axes |= grid_axes_of(block->in[i], 0);
    return axes;
}

static void look_at_source(void *user, tc_value *source, bool swapped)
{
    struct search *s = user;
    if (!tc_match_op(source, TC_LOAD) ||
        tc_accessed_tensor(source->def) != s->arg)
        return;
    tc_op *block = tc_block_of(source->def->in[0]);
    unsigned axis = swapped ? 1 - s->k_axis : s->k_axis;
    if (!block || axis < tc_block_index_rank(block))
        return;
    unsigned dim = tc_block_dim(block, axis);
    tc_order_wish *w = &s->wish;
    if (!w->dot) {
        w->dot = s->dot;
        w->dim = dim;
    } else if (w->dim != dim) {
        w->other = s->dot;
    }
    w->axes |= axes_of_block(block);
    w->computed |= s->computed;
}

static void look_at_dots(struct search *s, const tc_region *r,
                         const tc_target *target)
{
    tc_each_nested_first (op, r) {
        if (op->code != TC_DOT || op->out[0]->type->rank != 2 ||
            !tc_dot_is_k_major_only(op, target))
            continue;
        s->dot = op;
        for (unsigned i = 0; i < 2; i++) {
            s->k_axis = 1 - i;
            s->computed = !tc_is_source(op->in[i]);
            tc_each_source(op->in[i], false, look_at_source, s);
        }
    }
}

tc_order_wish tc_order_wish_of(const tc_func *kernel, unsigned arg,
                               const tc_target *target)
{
    struct search s = {.arg = kernel->body->args[arg]};
    look_at_dots(&s, kernel->body, target);
    return s.wish;
}

/* ---- What accesses can do ---- */

static const char *why_not(tc_arena *a, const tc_func *kernel, const tc_op *op,
                           unsigned dim)
{
    if (op->code == TC_SIZE || op->code == TC_STRIDE || op->code == TC_GATHER)
        return NULL;
    if (op->code != TC_BLOCK)
        return tc_arena_printf(a, "@%s reaches its elements by `%s`",
                               kernel->name, tc_op_name(op));
    const tc_dim *side = tc_op_attr(op, "sides")->dims[dim];
    unsigned bytes = tc_type_bytes(op->in[0]->type->elem);
    int64_t n = side ? tc_dim_value(side) : 1;
    return n * bytes >= TC_VECTOR_BYTES
               ? NULL
               : tc_arena_printf(a,
                                 "@%s reads or writes %lld of its elements "
                                 "along it at a time, expected at least %u",
                                 kernel->name, (long long)n,
                                 TC_VECTOR_BYTES / bytes);
}

const char *tc_why_not_contiguous(tc_arena *a, const tc_func *kernel,
                                  unsigned arg, unsigned dim)
{
    tc_each_use (u, kernel->body->args[arg]) {
        const char *why = why_not(a, kernel, u->op, dim);
        if (why)
            return why;
    }
    return NULL;
}
