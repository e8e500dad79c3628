/* SPDX-License-Identifier: Apache-2.0
 *
 * The launch grid: interprets a kernel's grid region for the arguments of one
 * launch.
 *
 *     grid {
 *       %n = size %q dim(2) : i32          // 1000
 *       %g = cdiv-like arithmetic on it    // 8
 *       yield %g, %h
 *     }                                    // grid = {8, 4, 1}
 */
#include "ir/eval.h"

#include <string.h>

/* A value of the region and what it is in this launch. Grids are a few ops
 * long: a list searched from its end does, and leaves the IR alone. */
struct slot {
    const tc_value *value;
    tc_scalar scalar;
};

struct launch {
    tc_context *cx;
    const tc_func *kernel;
    const tc_launch_arg *args;
    struct slot *slots;
    unsigned nslots;
};

static const tc_launch_arg *argument(const struct launch *l, const tc_value *v)
{
    return &l->args[v->index];
}

static bool lookup(const struct launch *l, const tc_value *v, tc_scalar *out)
{
    for (unsigned i = l->nslots; i-- > 0;)
        if (l->slots[i].value == v) {
            *out = l->slots[i].scalar;
            return true;
        }
    if (v->def)
        return false;
    *out = argument(l, v)->scalar;
    return true;
}

static void define(struct launch *l, const tc_value *v, tc_scalar x)
{
    l->slots[l->nslots++] = (struct slot){v, x};
}

static bool run_assert(struct launch *l, const tc_op *op, tc_scalar condition)
{
    return condition.i || tc_error(l->cx, op->loc, "launch of @%s: %s",
                                   l->kernel->name, tc_op_word(op, "message"));
}

static bool run_op(struct launch *l, const tc_op *op)
{
    tc_scalar in[3] = {{0}}, out = {0};
    if (op->code == TC_SIZE || op->code == TC_STRIDE) {
        const tc_launch_arg *a = argument(l, op->in[0]);
        int64_t dim = tc_op_int(op, "dim");
        out.i = op->code == TC_SIZE ? a->sizes[dim] : a->strides[dim];
        define(l, op->out[0], out);
        return true;
    }
    bool known = op->nin <= 3;
    for (unsigned i = 0; known && i < op->nin; i++)
        known = lookup(l, op->in[i], &in[i]);
    if (known && op->code == TC_ASSERT)
        return run_assert(l, op, in[0]);
    if (!known || !tc_eval_op(op, in, &out))
        return tc_error(l->cx, op->loc, "%s: cannot be evaluated in a grid",
                        tc_op_infos[op->code].name);
    define(l, op->out[0], out);
    return true;
}

/* What CUDA allows: 2^31 - 1 along the first axis, 65535 along the others. A
 * grid means the same everywhere, so the limit of the first holds here. */
static bool read_axes(struct launch *l, const tc_op *yield, int32_t grid[3])
{
    for (unsigned i = 0; i < yield->nin; i++) {
        tc_scalar x;
        if (!lookup(l, yield->in[i], &x))
            return tc_error(l->cx, yield->loc, "grid axis %u is not known", i);
        if (x.i < 0 || x.i > INT32_MAX)
            return tc_error(l->cx, yield->loc,
                            "launch of @%s: grid axis %u is %lld",
                            l->kernel->name, i, (long long)x.i);
        grid[i] = (int32_t)x.i;
    }
    return true;
}

static bool run_region(struct launch *l, const tc_region *r, int32_t grid[3])
{
    tc_each_op (op, r) {
        if (op->code == TC_YIELD)
            return read_axes(l, op, grid);
        if (!run_op(l, op))
            return false;
    }
    return true;
}

bool tc_eval_grid(tc_context *cx, const tc_func *kernel,
                  const tc_launch_arg *args, int32_t grid[3])
{
    grid[0] = grid[1] = grid[2] = 1;
    unsigned nops = 0;
    tc_each_op (op, kernel->grid)
        nops++;
    /* Of the diagnostics' arena: a report that runs out of memory unwinds past
     * here, and must not lose an arena of this call. */
    struct launch l = {cx, kernel, args, NULL, 0};
    l.slots = tc_arena_array(&cx->diag_arena, struct slot, nops);
    return run_region(&l, kernel->grid, grid);
}
