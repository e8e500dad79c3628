/* SPDX-License-Identifier: Apache-2.0
 *
 * bind-captured: what the kernels of a plan take besides what their launches
 * give (a mod's captured buffers, their gradients) becomes arguments of the
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
 * Kernels add to gradients, so these begin as zeros. Tests:
 * test/ir/passes/bind_captured.
 */
#include "ir/plan.h"
#include "passes/passes.h"

#include <string.h>

struct binder {
    tc_context *cx;
    tc_arena *scratch;
    tc_func *plan;
    tc_op *first; /* of the plan's body: zeros are filled in before it */
    bool changed;
};

static void begin_as_zeros(struct binder *b, tc_value *v)
{
    tc_op *fill = tc_op_new(b->plan, TC_FILL, b->plan->loc, 1, &v, 0);
    tc_op_set_results(fill, 0, NULL);
    tc_op_insert(fill, b->plan->body, b->first);
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

static bool bind_launch(struct binder *b, tc_op *op)
{
    const tc_region *kernel = tc_launch_kernel(op)->body;
    if (op->nin == kernel->nargs)
        return true;
    tc_value **in = tc_arena_array(b->scratch, tc_value *, kernel->nargs);
    for (unsigned i = 0; i < kernel->nargs; i++) {
        in[i] = i < op->nin ? op->in[i] : argument(b, op, kernel->args[i]);
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
    tc_each_op_safe (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            if (!bind_region(b, op->regions[i]))
                return false;
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
