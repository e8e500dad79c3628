/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks the kernel's optimised text for programs of the grid, with the scalars
 * that follow from its arguments and the program's place:
 *
 *   %n = size %a dim(1)                  // 4096
 *   for %k0 = %0 to %n step %1 { dot }   // 64 dots
 *
 * Values read from tensors are unknown, and do not matter unless a loop around
 * a dot depends on them.
 */
#include "tools/measure/flops.h"

#include "ir/eval/eval.h"
#include "lib/handles.h"

#include <math.h>
#include <string.h>

/* Of a grid that is larger, programs at even distances. */
enum { MOST_PROGRAMS = 2048, MOST_VISITS = 4 << 20 };

typedef struct known {
    bool is;
    tc_scalar value;
} known;

typedef struct counter {
    tc_context *cx;
    tc_module *module;
    const char *text;
    const tilec_argument *args;
    size_t nargs;
    int32_t grid[3], program[3];
    int64_t visits;
    bool ok;
    double flops;
} counter;

static known *of(counter *c, tc_value *v)
{
    if (!v->data)
        v->data = tc_arena_new(&c->module->arena, known);
    return v->data;
}

static void set(counter *c, tc_value *v, int64_t i)
{
    *of(c, v) = (known){true, {.i = i}};
}

static const tilec_argument *argument(const counter *c, const tc_value *v)
{
    for (size_t i = 0; i < c->nargs; i++)
        if (v->name && strcmp(c->args[i].name, v->name) == 0)
            return &c->args[i];
    return NULL;
}

static double dot_flops(const tc_op *dot)
{
    const tc_type *a = dot->in[0]->type, *out = dot->out[0]->type;
    double n = 2.0 * (double)tc_dim_value(a->dims[a->rank - 1]);
    for (unsigned i = 0; i < out->rank; i++)
        n *= (double)tc_dim_value(out->dims[i]);
    return n;
}

static bool is_dot(const tc_op *op)
{
    return op->code == TC_DOT;
}

/* Does each turn of the loop compute the same? */
static bool is_even(const tc_op *loop)
{
    tc_each_op (op, loop->regions[0])
        if (op->nregions && tc_op_any(op, is_dot))
            return false;
    return true;
}

static double region(counter *c, const tc_region *r);

static double loop(counter *c, const tc_op *op)
{
    const known *lo = of(c, op->in[0]), *hi = of(c, op->in[1]);
    const known *step = of(c, op->in[2]);
    tc_region *body = op->regions[0];
    c->ok &= lo->is && hi->is && step->is;
    if (!c->ok)
        return 0;
    for (unsigned i = 0; i < body->nargs; i++)
        of(c, body->args[i])->is = false;
    uint64_t trips = tc_trip_count(lo->value.i, hi->value.i, step->value.i);
    int64_t first = lo->value.i, by = step->value.i;
    if (is_even(op))
        return trips ? (double)trips * region(c, body) : 0;
    double sum = 0;
    for (uint64_t t = 0; c->ok && t < trips; t++) {
        set(c, body->args[0], first + (int64_t)t * by);
        sum += region(c, body);
    }
    return sum;
}

static double branch(counter *c, const tc_op *op)
{
    const known *when = of(c, op->in[0]);
    unsigned taken = when->is && !when->value.i;
    return taken < op->nregions ? region(c, op->regions[taken]) : 0;
}

/* The result of an op without regions, where it can be known. */
static void evaluate(counter *c, tc_op *op)
{
    tc_scalar in[3], out;
    const tilec_argument *a = op->nin ? argument(c, op->in[0]) : NULL;
    if (op->code == TC_PROGRAM_ID)
        set(c, op->out[0], c->program[tc_op_int(op, "axis")]);
    else if (op->code == TC_NUM_PROGRAMS)
        set(c, op->out[0], c->grid[tc_op_int(op, "axis")]);
    else if (op->code == TC_SIZE && a && a->kind == TILEC_ARG_TENSOR)
        set(c, op->out[0], a->tensor->shape[tc_op_int(op, "dim")]);
    if (op->nout != 1 || op->nin > 3 || of(c, op->out[0])->is ||
        !tc_type_is_scalar(op->out[0]->type))
        return;
    for (unsigned i = 0; i < op->nin; i++) {
        if (!of(c, op->in[i])->is)
            return;
        in[i] = of(c, op->in[i])->value;
    }
    if (tc_eval_op(op, in, &out))
        *of(c, op->out[0]) = (known){true, out};
}

static double flops_visit(counter *c, tc_op *op)
{
    for (unsigned i = 0; i < op->nout; i++)
        of(c, op->out[i])->is = false;
    c->ok &= ++c->visits < MOST_VISITS;
    if (!c->ok)
        return 0;
    if (op->code == TC_DOT)
        return dot_flops(op);
    if (op->nregions == 0)
        evaluate(c, op);
    if (op->nregions == 0 || !tc_op_any(op, is_dot))
        return 0;
    if (op->code == TC_FOR)
        return loop(c, op);
    if (op->code == TC_IF)
        return branch(c, op);
    c->ok = false;
    return 0;
}

static double region(counter *c, const tc_region *r)
{
    double sum = 0;
    for (tc_op *op = r->first; op && c->ok; op = op->next)
        sum += flops_visit(c, op);
    return sum;
}

static void set_scalars(counter *c, const tc_region *body)
{
    for (unsigned i = 0; i < body->nargs; i++) {
        const tilec_argument *a = argument(c, body->args[i]);
        if (!a || a->kind == TILEC_ARG_TENSOR)
            continue;
        double f = a->kind == TILEC_ARG_INT ? (double)a->i : a->f;
        *of(c, body->args[i]) = (known){true, {.i = a->i, .f = f}};
    }
}

/* Of the text: a launch may do with fewer programs, which compute many tiles.
 */
static bool read_grid(counter *c, tc_region *grid)
{
    tc_op *yield = tc_region_terminator(grid);
    c->ok = true;
    set_scalars(c, grid);
    region(c, grid);
    for (unsigned i = 0; i < 3; i++) {
        const known *n = i < yield->nin ? of(c, yield->in[i]) : NULL;
        c->grid[i] = n ? (int32_t)n->value.i : 1;
        c->ok &= !n || n->is;
    }
    return c->ok;
}

/* Runs under tc_guard. */
static void count(void *user)
{
    counter *c = user;
    c->module = tc_module_new(c->cx);
    uint32_t source = tc_source_add(c->cx, "", c->text, strlen(c->text));
    if (!tc_parse(c->module, source))
        return;
    tc_region *body = c->module->first->body;
    if (!read_grid(c, c->module->first->grid))
        return;
    int64_t x = c->grid[0], y = c->grid[1], total = x * y * c->grid[2];
    int64_t every = 1 + total / MOST_PROGRAMS, n = 0;
    c->ok = true;
    set_scalars(c, body);
    for (int64_t i = 0; i < total && c->ok; i += every, n++) {
        c->program[0] = (int32_t)(i % x);
        c->program[1] = (int32_t)(i / x % y);
        c->program[2] = (int32_t)(i / x / y);
        c->flops += region(c, body);
    }
    if (n)
        c->flops *= (double)total / (double)n;
}

bool count_flops(const tilec_kernel *kernel, const tilec_argument *args,
                 size_t nargs, double *flops)
{
    counter c = {.args = args, .nargs = nargs, .cx = tc_context_new()};
    char *text = NULL;
    bool ok = c.cx && !tilec_kernel_emit(kernel, "tile", &text, NULL);
    c.text = text;
    ok = ok && tc_guard(&c.cx->memory, count, &c) && c.ok;
    *flops = c.flops;
    tc_module_free(c.module);
    tc_context_free(c.cx);
    tilec_free(text);
    return ok;
}
