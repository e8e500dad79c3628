/* SPDX-License-Identifier: Apache-2.0
 *
 * The launch grid: a kernel's grid region, compiled to a list of steps once and
 * run for the arguments of each launch.
 *
 *     grid {
 *       %n = size %q dim(2) : i32          // 1000
 *       %g = cdiv-like arithmetic on it    // 8
 *       yield %g, %h
 *     }                                    // grid = {8, 4, 1}
 */
#include "ir/eval/eval.h"

#include <stdio.h>

/* Where an operand is: a result of the step of that number, or, below zero,
 * the kernel's argument -1 - number. */
struct step {
    const tc_op *op;
    int in[3];
    bool is_constant, is_possible;
    tc_scalar constant;
    unsigned dim; /* of size and stride */
};

struct tc_grid {
    const tc_func *kernel;
    unsigned nsteps; /* without the yield */
    struct step *steps;
    const tc_op *yield;
    int axes[TC_MAX_GRID_AXES];
    bool asks_sms;
};

/* ---- Preparing ---- */

/* Grids are a few ops long: a search from the end does. */
static bool eval_grid_place(const tc_grid *g, unsigned nsteps,
                            const tc_value *v, int *out)
{
    *out = -1 - (int)v->index;
    for (unsigned i = nsteps; v->def && i-- > 0;)
        if (g->steps[i].op == v->def) {
            *out = (int)i;
            return true;
        }
    return !v->def;
}

static bool is_view(const tc_op *op)
{
    return op->code == TC_SIZE || op->code == TC_STRIDE;
}

static void prepare_step(tc_grid *g, const tc_op *op)
{
    struct step *s = &g->steps[g->nsteps];
    s->op = op;
    s->is_possible = op->nin <= 3 && op->nregions == 0;
    for (unsigned i = 0; s->is_possible && i < op->nin; i++)
        s->is_possible = eval_grid_place(g, g->nsteps, op->in[i], &s->in[i]);
    g->asks_sms |= op->code == TC_NUM_SMS;
    if (is_view(op))
        s->dim = (unsigned)tc_op_int(op, "dim");
    else if (s->is_possible && op->nin == 0)
        s->is_constant = tc_eval_op(op, NULL, &s->constant);
    g->nsteps++;
}

tc_grid *tc_grid_prepare(tc_arena *a, const tc_func *kernel)
{
    tc_grid *g = tc_arena_new(a, tc_grid);
    unsigned nops = 0;
    tc_each_op (op, kernel->grid)
        nops++;
    g->kernel = kernel;
    g->steps = tc_arena_array(a, struct step, nops);
    tc_each_op (op, kernel->grid) {
        if (op->code == TC_YIELD) {
            g->yield = op;
            break;
        }
        prepare_step(g, op);
    }
    for (unsigned i = 0; g->yield && i < g->yield->nin; i++)
        (void)eval_grid_place(g, g->nsteps, g->yield->in[i], &g->axes[i]);
    return g;
}

bool tc_grid_asks_sms(const tc_grid *g)
{
    return g->asks_sms;
}

unsigned tc_grid_room(const tc_grid *g)
{
    return g->nsteps;
}

/* ---- Running ---- */

#define FAIL(f, op, ...)                                                       \
    ((f)->loc = (op)->loc,                                                     \
     snprintf((f)->message, sizeof(f)->message, __VA_ARGS__), false)

struct run {
    const tc_grid *grid;
    const tc_launch_arg *args;
    int32_t num_sms;
    tc_scalar *values;
    tc_grid_failure *failure;
};

static tc_scalar fetch(const struct run *r, int from)
{
    return from < 0 ? r->args[-1 - from].scalar : r->values[from];
}

static bool value_of(const void *user, const tc_value *v, tc_scalar *out)
{
    const struct run *r = user;
    int from;
    if (!eval_grid_place(r->grid, r->grid->nsteps, v, &from))
        return false;
    *out = fetch(r, from);
    return true;
}

static bool check_assert(struct run *r, const tc_op *op, tc_scalar condition)
{
    char found[64];
    if (condition.i)
        return true;
    tc_assert_found(op, value_of, r, found, sizeof found);
    return FAIL(r->failure, op, "launch of @%s: %s%s", r->grid->kernel->name,
                tc_op_word(op, "message"), found);
}

static bool run_step(struct run *r, unsigned index)
{
    const struct step *s = &r->grid->steps[index];
    tc_scalar in[3], *out = &r->values[index];
    if (s->is_constant) {
        *out = s->constant;
        return true;
    }
    if (is_view(s->op)) {
        const tc_launch_arg *a = &r->args[-1 - s->in[0]];
        out->i = s->op->code == TC_SIZE ? a->sizes[s->dim] : a->strides[s->dim];
        return true;
    }
    if (s->op->code == TC_NUM_SMS) {
        out->i = r->num_sms;
        return true;
    }
    for (unsigned i = 0; s->is_possible && i < s->op->nin; i++)
        in[i] = fetch(r, s->in[i]);
    if (s->is_possible && s->op->code == TC_ASSERT)
        return check_assert(r, s->op, in[0]);
    if (!s->is_possible || !tc_eval_op(s->op, in, out))
        return FAIL(r->failure, s->op, "%s: cannot be evaluated in a grid",
                    tc_op_name(s->op));
    return true;
}

/* CUDA's limits are 2^31 - 1 along the first axis and 65535 along the others. A
 * grid means the same on all targets, so the limit of the first holds here. */
static bool read_axes(struct run *r, int32_t grid[3])
{
    const tc_op *yield = r->grid->yield;
    if (yield->nin > TC_GRID_AXES)
        return FAIL(r->failure, yield,
                    "launch of @%s: %u grid axes, expected `inline` to fold "
                    "them to three",
                    r->grid->kernel->name, yield->nin);
    for (unsigned i = 0; i < yield->nin; i++) {
        int64_t n = fetch(r, r->grid->axes[i]).i;
        if (n < 0 || n > INT32_MAX)
            return FAIL(r->failure, yield,
                        "launch of @%s: grid axis %u is %lld",
                        r->grid->kernel->name, i, (long long)n);
        grid[i] = (int32_t)n;
    }
    return true;
}

bool tc_grid_run(const tc_grid *g, const tc_launch_arg *args, int32_t num_sms,
                 tc_scalar *values, int32_t grid[3], tc_grid_failure *failure)
{
    struct run r = {g, args, num_sms, values, failure};
    grid[0] = grid[1] = grid[2] = 1;
    for (unsigned i = 0; i < g->nsteps; i++)
        if (!run_step(&r, i))
            return false;
    return !g->yield || read_axes(&r, grid);
}

bool tc_eval_grid(tc_context *cx, const tc_func *kernel,
                  const tc_launch_arg *args, int32_t num_sms, int32_t grid[3])
{
    /* Memory of the diagnostics' arena: if a report runs out of memory it
     * unwinds past here, and must not leak an arena of this call. */
    tc_grid *g = tc_grid_prepare(&cx->diag_arena, kernel);
    tc_scalar *values =
        tc_arena_array(&cx->diag_arena, tc_scalar, tc_grid_room(g));
    tc_grid_failure failure;
    return tc_grid_run(g, args, num_sms, values, grid, &failure) ||
           tc_error(cx, failure.loc, "%s", failure.message);
}
