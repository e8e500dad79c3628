/* SPDX-License-Identifier: Apache-2.0
 *
 * bind-captured: parameters of a plan's kernels that its launches do not pass
 * (the captured buffers of a mod, their gradients) become arguments of the
 * plan, by name.
 *
 *   kernel @k(%q: tensor<[?] x f32>, %score.bias: tensor<[?] x f32>,
 *             %grad.score.bias: tensor<[?] x f32>) ...
 *   plan @p(%q: tensor<[?] x f32>) {
 *     launch @k(%q)
 *
 * becomes
 *
 *   plan @p(%q: tensor<[?] x f32>, %score.bias: tensor<[?] x f32>,
 *           %grad.score.bias: tensor<[?] x f32>) {
 *     fill %grad.score.bias
 *     launch @k(%q, %score.bias, %grad.score.bias)
 *
 * If the plan itself makes a value of that name, the last one before the launch
 * takes precedence over an argument:
 *
 *     %blocks.list = workspace %n : tensor<[?] x i32>
 *     launch @make(%blocks.list)
 *     launch @use()                 becomes    launch @use(%blocks.list)
 *
 * Kernels add to gradients, so gradients begin as zeros. A kernel's parameter
 * bins.NAME is a tensor of the workspace instead, which begins as zeros too;
 * after the last launch that takes it, the sum of its bins (exact_sums.h) is
 * added to grad.NAME. Tests: test/ir/passes/bind-captured.
 */
#include "ir/plan.h"
#include "passes/bind/exact_sums.h"

#include <string.h>

struct binder {
    tc_context *cx;
    tc_arena *scratch;
    tc_func *plan;
    tc_op *first; /* an op of the plan's body: zeros are filled in before it */
    bool changed;
};

static void begin_as_zeros(struct binder *b, tc_value *v)
{
    tc_op *fill = tc_op_new(b->plan, TC_FILL, b->plan->loc, 1, &v, 0);
    tc_op_set_results(fill, 0, NULL);
    tc_op_insert(fill, b->plan->body, b->first);
}

/* ---- Bins ---- */

static tc_value *plan_arg(const struct binder *b, const char *name)
{
    const tc_region *body = b->plan->body;
    for (unsigned i = 0; i < body->nargs; i++)
        if (strcmp(body->args[i]->name, name) == 0)
            return body->args[i];
    return NULL;
}

static tc_value *bins_of(const struct binder *b, const char *name)
{
    tc_each_op (op, b->plan->body)
        if (op->code == TC_WORKSPACE && op->out[0]->name == name)
            return op->out[0];
    return NULL;
}

/* A tensor of the workspace, with the sizes of the gradient. */
static tc_value *make_bins(struct binder *b, const tc_value *wanted,
                           tc_value *gradient)
{
    tc_builder at = tc_builder_before(b->first);
    at.loc = b->plan->loc;
    tc_value *sizes[TC_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i < wanted->type->rank; i++) {
        if (wanted->type->dims[i])
            continue;
        tc_op *size = tc_op_new(b->plan, TC_SIZE, at.loc, 1, &gradient, 0);
        tc_op_set_int(size, "dim", i);
        sizes[n++] = tc_build_op(&at, size, NULL);
    }
    tc_op *op = tc_op_new(b->plan, TC_WORKSPACE, at.loc, n, sizes, 0);
    tc_value *bins = tc_build_op(&at, op, wanted->type);
    bins->name = wanted->name;
    begin_as_zeros(b, bins);
    return bins;
}

/* Adds up the bins after `launch`, or after the op of the plan's body that
 * holds it; sums for an earlier launch are removed. */
static void add_up(struct binder *b, const tc_op *launch, tc_value *bins,
                   tc_value *gradient)
{
    tc_each_use (u, bins) {
        if (u->op->code == TC_LAUNCH && u->index == 0 && u->op->nin == 2 &&
            u->op->in[1] == gradient) {
            tc_op_erase(u->op);
            break;
        }
    }
    const tc_op *top = launch;
    while (top->parent != b->plan->body)
        top = top->parent->op;
    tc_func *k = tc_exact_kernel(b->plan->module, gradient->type->rank);
    tc_value *in[] = {bins, gradient};
    tc_op *op = tc_op_new(b->plan, TC_LAUNCH, launch->loc, 2, in, 0);
    tc_op_set_word(op, "callee", tc_arena_printf(b->scratch, "@%s", k->name));
    tc_op_set_results(op, 0, NULL);
    tc_op_insert(op, b->plan->body, top->next);
}

static tc_value *bins(struct binder *b, const tc_op *launch,
                      const tc_value *wanted)
{
    tc_value *gradient =
        plan_arg(b, tc_arena_printf(b->scratch, "grad.%s", wanted->name + 5));
    tc_value *v = bins_of(b, wanted->name);
    if (!v)
        v = make_bins(b, wanted, gradient);
    add_up(b, launch, v, gradient);
    return v;
}

/* ---- Launches ---- */

static tc_value *named_result(const tc_op *op, const char *name)
{
    for (unsigned i = 0; i < op->nout; i++)
        if (op->out[i]->name == name)
            return op->out[i];
    return NULL;
}

/* The last value of that name before the launch, in its region and those around
 * it. */
static tc_value *made_before(const tc_op *launch, const char *name)
{
    for (const tc_op *top = launch; top; top = top->parent->op)
        for (const tc_op *op = top->prev; op; op = op->prev) {
            tc_value *v = named_result(op, name);
            if (v)
                return v;
        }
    return NULL;
}

static tc_value *made(struct binder *b, const tc_op *launch,
                      const tc_value *wanted, bool *ok)
{
    tc_value *v = made_before(launch, wanted->name);
    *ok = !v || v->type == wanted->type ||
          tc_error(b->cx, launch->loc,
                   "bind-captured: %%%s is %s here, but @%s takes %s", v->name,
                   tc_type_name(b->cx, v->type), tc_launch_kernel(launch)->name,
                   tc_type_name(b->cx, wanted->type));
    return v;
}

/* The plan's argument for the kernel's. NULL: reported. */
static tc_value *argument(struct binder *b, const tc_op *launch,
                          const tc_value *wanted)
{
    tc_region *body = b->plan->body;
    for (unsigned i = 0; i < body->nargs; i++) {
        if (body->args[i]->name != wanted->name)
            continue;
        if (body->args[i]->type == wanted->type)
            return body->args[i];
        tc_error(b->cx, launch->loc,
                 "bind-captured: %%%s is %s here and %s in another kernel of "
                 "@%s",
                 wanted->name, tc_type_name(b->cx, wanted->type),
                 tc_type_name(b->cx, body->args[i]->type), b->plan->name);
        return NULL;
    }
    tc_value *v =
        tc_region_add_arg(body, wanted->type, wanted->name, wanted->loc);
    if (strncmp(wanted->name, "grad.", 5) == 0)
        begin_as_zeros(b, v);
    return v;
}

static tc_value *captured(struct binder *b, const tc_op *launch,
                          const tc_value *wanted)
{
    bool ok;
    if (strncmp(wanted->name, "bins.", 5) == 0)
        return bins(b, launch, wanted);
    tc_value *v = made(b, launch, wanted, &ok);
    if (!ok)
        return NULL;
    return v ? v : argument(b, launch, wanted);
}

static bool bind_launch(struct binder *b, tc_op *op)
{
    const tc_region *kernel = tc_launch_kernel(op)->body;
    if (op->nin == kernel->nargs)
        return true;
    tc_value **in = tc_arena_array(b->scratch, tc_value *, kernel->nargs);
    for (unsigned i = 0; i < kernel->nargs; i++) {
        in[i] = i < op->nin ? op->in[i] : captured(b, op, kernel->args[i]);
        if (!in[i])
            return false;
    }
    tc_op *full = tc_op_new(b->plan, TC_LAUNCH, op->loc, kernel->nargs, in, 0);
    memcpy(full->attrs, op->attrs,
           tc_op_nattrs(TC_LAUNCH) * sizeof *full->attrs);
    tc_op_set_results(full, 0, NULL);
    tc_op_insert(full, op->parent, op);
    if (b->first == op)
        b->first = full;
    tc_op_erase(op);
    b->changed = true;
    return true;
}

static bool bind_region(struct binder *b, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (op->code == TC_LAUNCH && !bind_launch(b, op))
            return false;
    }
    return true;
}

tc_change tc_pass_bind_captured(tc_module *m, tc_pass_env *env)
{
    bool changed = false;
    tc_each_func (f, m) {
        struct binder b = {env->cx, env->scratch, f, f->body->first, false};
        if (f->is_plan && !bind_region(&b, f->body))
            return TC_FAILED;
        changed |= b.changed;
    }
    return changed ? TC_CHANGED : TC_UNCHANGED;
}
