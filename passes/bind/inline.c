/* SPDX-License-Identifier: Apache-2.0
 *
 * inline: replaces calls by the bodies of the called functions.
 *
 *   func @twice[T: type](%x: T) -> T { %y = add %x, %x : T  return %y }
 *   %b = call @twice(%a) : tile<64 x f32>
 *
 * becomes
 *
 *   %y = add %a, %a : tile<64 x f32>
 *
 * Callees are inlined first, so that each body is without calls when it is
 * copied. The compile-time parameters of a function follow from the types of
 * the operands and are substituted in the copy; a function of scalars called
 * with tiles is lifted (lift.c). If the module has a kernel, functions without
 * remaining uses are removed. Tests: test/ir/passes/inline.
 */
#include "passes/bind/inline.h"

#include "ir/fastmath.h"
#include "ir/given.h"
#include "ir/infer/inherit.h"
#include "passes/analysis/substitute.h"
#include "passes/bind/bind_given.h"
#include "passes/bind/fold_grid.h"
#include "passes/bind/lift.h"

#include <assert.h>

/* A function and whether its calls have been inlined. */
struct node {
    tc_func *f;
    bool done;
};

struct inliner {
    tc_pass_env *env;
    tc_module *m;
    struct node *nodes;
    unsigned nnodes;
    bool inherited_only; /* calls of functions that inherit parameters */
    bool lifts;          /* the ops at hand are lifted: no call can be */
    bool changed;
};

static struct node *node_of(struct inliner *s, const tc_func *f)
{
    struct node *n = s->nodes;
    while (n->f != f)
        n++;
    return n;
}

/* ---- One call ---- */

static bool takes_tiles(const tc_func *f)
{
    for (unsigned i = 0; i < f->body->nargs; i++)
        if (f->body->args[i]->type->kind == TC_TILE)
            return true;
    return false;
}

/* What it offers to functions that it gives does not count. */
static bool has_tile_argument(const tc_op *op)
{
    unsigned n = tc_call_npositional(op);
    for (unsigned i = 0; i < n; i++)
        if (op->in[i]->type->kind == TC_TILE)
            return true;
    return false;
}

/* The callee's compile-time parameters, given, inherited, or inferred from the
 * arguments; the verifier has checked that all can be. */
static tc_bindings infer_bindings(struct inliner *s, const tc_op *call,
                                  const tc_func *callee, bool lifted)
{
    tc_bindings b = tc_bindings_of(s->env->scratch, callee);
    bool binds = tc_bind_call(call, callee, &b);
    assert(binds && "inline: a call that does not verify");
    (void)binds;
    for (unsigned i = 0; i < callee->body->nargs; i++) {
        const tc_type *want = callee->body->args[i]->type;
        const tc_type *got = call->in[i]->type;
        if (lifted && want->kind != TC_TENSOR)
            got = tc_type_elem(got);
        bool fits = tc_type_unify(s->env->cx, want, got, &b);
        assert(fits && "inline: a call that does not verify");
        (void)fits;
    }
    return b;
}

/* A detached copy of the body that belongs to the caller; its ops get the
 * flags. Its arguments are those of the callee, then what the call offers to
 * functions that it gives. */
static tc_region *copy_body(const tc_func *callee, const tc_op *call,
                            const tc_bindings *b, bool lifted)
{
    tc_func *caller = call->func;
    tc_region *copy = tc_region_new(caller, NULL);
    for (unsigned i = 0; i < callee->body->nargs; i++) {
        tc_value *arg = callee->body->args[i];
        arg->data = tc_region_add_arg(copy, arg->type, arg->name, arg->loc);
    }
    tc_each_op (op, callee->body)
        tc_op_insert(tc_op_clone(caller, op), copy, NULL);
    if (b->n)
        tc_substitute_region(copy, b);
    tc_region_add_fastmath(copy, callee->fastmath | tc_op_own_fastmath(call));
    for (unsigned i = callee->body->nargs; i < call->nin; i++) {
        const tc_type *type = call->in[i]->type;
        tc_region_add_arg(copy, lifted ? tc_type_elem(type) : type, NULL,
                          call->loc);
    }
    return copy;
}

static void splice(tc_region *body, tc_op *call, tc_value **results)
{
    for (unsigned i = 0; i < body->nargs; i++)
        tc_value_replace(body->args[i], call->in[i]);
    const tc_op *ret = tc_region_terminator(body);
    for (unsigned i = 0; i < ret->nin; i++)
        results[i] = ret->in[i];
    tc_each_op_safe (op, body) {
        tc_op_remove(op);
        if (op == ret)
            tc_op_erase(op);
        else
            tc_op_insert(op, call->parent, call);
    }
}

static bool is_operand(const tc_op *op, const tc_value *v)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i] == v)
            return true;
    return false;
}

static bool inline_region(struct inliner *s, tc_region *r);

/* The functions that the call gives are called in the copy of the body instead
 * of the callee's parameters. They are inlined there, and all others too if the
 * copy is lifted. */
static bool inline_copy(struct inliner *s, const tc_op *call,
                        const tc_func *callee, tc_region *copy, bool lifted)
{
    bool gives = tc_op_has_attr(call, "params"), outer = s->lifts;
    if (gives && !tc_bind_given(s->env, call, callee, copy))
        return false;
    s->lifts |= lifted;
    bool ok = !(gives || s->lifts) || inline_region(s, copy);
    s->lifts = outer;
    return ok;
}

static bool inline_call(struct inliner *s, tc_op *call, const tc_func *callee)
{
    bool lifted = has_tile_argument(call) && !takes_tiles(callee);
    tc_bindings b = infer_bindings(s, call, callee, lifted);
    tc_region *body = copy_body(callee, call, &b, lifted);
    if (!inline_copy(s, call, callee, body, lifted))
        return false;
    tc_value **results =
        tc_arena_array(s->env->scratch, tc_value *, call->nout);
    const char *name = tc_op_word(call, "callee");
    if (!lifted)
        splice(body, call, results);
    else if (!tc_lift(s->env, body, call, name, results))
        return false;
    for (unsigned i = 0; i < call->nout; i++) {
        if (call->out[i]->name && !is_operand(call, results[i]))
            results[i]->name = call->out[i]->name;
        tc_value_replace(call->out[i], results[i]);
    }
    tc_op_erase(call);
    s->changed = true;
    return true;
}

/* ---- All calls ---- */

static bool inline_func(struct inliner *s, struct node *n);

/* In the functions that the call gives. */
static bool inline_given(struct inliner *s, const tc_op *call,
                         const tc_func *callee)
{
    for (unsigned i = 0; i < callee->nparams; i++) {
        tc_func *f = tc_given_callee(call, &callee->params[i]);
        if (f && !inline_func(s, node_of(s, f)))
            return false;
    }
    return true;
}

static bool inline_region(struct inliner *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        tc_func *f = op->code == TC_CALL ? tc_op_callee(op) : NULL;
        if (!f) /* a parameter is called: not bound yet */
            continue;
        bool must =
            s->lifts || tc_func_inherits(f) || tc_op_has_attr(op, "params");
        if (s->inherited_only && !must)
            continue;
        if (!inline_func(s, node_of(s, f)) || !inline_given(s, op, f) ||
            !inline_call(s, op, f))
            return false;
    }
    return true;
}

/* The verifier has seen that no function calls itself: this ends. */
static bool inline_func(struct inliner *s, struct node *n)
{
    if (n->done)
        return true;
    n->done = true;
    return (!n->f->grid || inline_region(s, n->f->grid)) &&
           inline_region(s, n->f->body);
}

static struct inliner new_inliner(tc_module *m, tc_pass_env *env)
{
    struct inliner s = {.env = env, .m = m};
    tc_each_func (f, m)
        s.nnodes++;
    s.nodes = tc_arena_array(env->scratch, struct node, s.nnodes);
    unsigned n = 0;
    tc_each_func (f, m)
        s.nodes[n++].f = f;
    return s;
}

bool tc_inline_calls(tc_func *f, tc_pass_env *env)
{
    struct inliner s = new_inliner(f->module, env);
    return inline_func(&s, node_of(&s, f));
}

bool tc_inline_inheriting(tc_module *m, tc_func *f, tc_pass_env *env,
                          bool *changed)
{
    struct inliner s = new_inliner(m, env);
    s.inherited_only = true;
    for (unsigned i = 0; i < s.nnodes; i++) {
        struct node *n = &s.nodes[i];
        bool other = n->f != f && (n->f->is_kernel || n->f->is_plan);
        if (!other && !inline_func(&s, n))
            return false;
    }
    *changed |= s.changed;
    return true;
}

bool tc_erase_inheriting(tc_module *m)
{
    bool any = false;
    for (tc_func *f = m->first, *next; f; f = next) {
        next = f->next;
        if (!tc_func_inherits(f))
            continue;
        tc_func_erase(f);
        any = true;
    }
    return any;
}

/* ---- Functions that nobody needs ---- */

/* An unbound func parameter may yet be bound to any function. */
static bool takes_func(const tc_func *f)
{
    if (!f->is_kernel && !f->is_plan)
        return false; /* inherited by what has been inlined */
    for (unsigned i = 0; i < f->nparams; i++)
        if (f->params[i].kind == TC_PARAM_FUNC)
            return true;
    return false;
}

static void erase_unneeded(struct inliner *s)
{
    bool kernel = false;
    tc_each_func (f, s->m) {
        kernel |= f->is_kernel;
        if (takes_func(f))
            return;
    }
    for (tc_func *f = s->m->first, *next; kernel && f; f = next) {
        next = f->next;
        if (f->is_kernel)
            continue;
        tc_func_erase(f);
        s->changed = true;
    }
}

tc_change tc_pass_inline(tc_module *m, tc_pass_env *env)
{
    struct inliner s = new_inliner(m, env);
    for (unsigned i = 0; i < s.nnodes; i++)
        if (!inline_func(&s, &s.nodes[i]))
            return TC_FAILED;
    erase_unneeded(&s);
    tc_each_func (f, m)
        if (f->is_kernel && !tc_region_has_op(f->body, TC_CALL) &&
            !tc_fold_grid(f, &s.changed))
            return TC_FAILED;
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
