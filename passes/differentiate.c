/* SPDX-License-Identifier: Apache-2.0
 *
 * differentiate: vjp becomes a call of a function that computes the gradient.
 *
 *   %d = vjp @soft_cap(%s, %cap) seed(%g) : tile<64x64 x f32>
 *
 * becomes
 *
 *   %d = call @soft_cap.vjp(%s, %cap, %g) : tile<64x64 x f32>
 *
 * with a new function, made by gradient.c. A function that uses vjp itself is
 * differentiated after its own are gone. Tests: test/ir/passes/differentiate.
 */
#include "passes/gradient.h"
#include "passes/substitute.h"

#include <assert.h>
#include <string.h>

/* A derivative that is there already. */
struct derived {
    const tc_func *of;
    const tc_bindings types;
    tc_func *d;
    const struct derived *next;
};

struct differ {
    tc_pass_env *env;
    tc_module *m;
    const struct derived *derived;
    bool changed;
};

/* ---- The function differentiated ---- */

/* What the operands say of the callee's compile-time parameters; the verifier
 * has seen that they say all. */
static tc_bindings bindings_of(struct differ *s, const tc_op *op,
                               const tc_func *callee)
{
    tc_bindings b = tc_bindings_of(s->env->scratch, callee);
    for (unsigned i = 0; i < callee->body->nargs; i++) {
        const tc_type *want = callee->body->args[i]->type;
        const tc_type *got = op->in[i]->type;
        if (want->kind != TC_TENSOR)
            got = tc_type_elem(got);
        bool fits = tc_type_unify(s->env->cx, want, got, &b);
        assert(fits && "differentiate: a vjp that does not verify");
        (void)fits;
    }
    return b;
}

static bool same_bindings(const tc_bindings *a, const tc_bindings *b)
{
    for (unsigned i = 0; i < a->n; i++)
        if (a->dims[i] != b->dims[i] || a->types[i] != b->types[i])
            return false;
    return true;
}

/* A copy that belongs to the module, with the parameters bound. */
static tc_func *copy_func(struct differ *s, const tc_func *f,
                          const tc_bindings *b)
{
    tc_context *cx = s->env->cx;
    const char *name = tc_arena_printf(s->env->scratch, "%s.copy", f->name);
    while (tc_func_find(s->m, name))
        name = tc_arena_printf(s->env->scratch, "%s.copy", name);
    tc_func *copy = tc_func_new(s->m, tc_string_get(cx, name), false, f->loc);
    for (unsigned i = 0; i < f->body->nargs; i++) {
        tc_value *arg = f->body->args[i];
        arg->data =
            tc_region_add_arg(copy->body, arg->type, arg->name, arg->loc);
    }
    tc_each_op (op, f->body)
        tc_op_insert(tc_op_clone(copy, op), copy->body, NULL);
    tc_substitute_region(copy->body, b);
    const tc_type **results =
        tc_arena_array(&s->m->arena, const tc_type *, f->nresults);
    for (unsigned i = 0; i < f->nresults; i++)
        results[i] = tc_type_substitute(cx, f->results[i], b);
    copy->nresults = f->nresults;
    copy->results = results;
    tc_func_append(s->m, copy);
    return copy;
}

/* ---- One vjp ---- */

static bool replace_in(struct differ *s, tc_region *r);

static tc_func *derivative(struct differ *s, const tc_op *op, tc_func *f)
{
    tc_bindings b = bindings_of(s, op, f);
    for (const struct derived *at = s->derived; at; at = at->next)
        if (at->of == f && same_bindings(&at->types, &b))
            return at->d;
    if (!replace_in(s, f->body))
        return NULL;
    tc_func *d =
        tc_gradient_build(s->env, copy_func(s, f, &b), f->name, op->loc);
    struct derived now = {f, b, d, s->derived};
    s->derived = tc_arena_copy(s->env->scratch, &now, sizeof now);
    return d;
}

static bool replace_vjp(struct differ *s, tc_op *op)
{
    tc_func *f = tc_func_find(s->m, tc_op_word(op, "callee") + 1);
    tc_func *d = derivative(s, op, f);
    if (!d)
        return false;
    unsigned n = f->body->nargs;
    tc_value **in = tc_arena_array(s->env->scratch, tc_value *, n + 1);
    memcpy(in, op->in, n * sizeof *in);
    in[n] = op->in[tc_vjp_seed(op)];
    tc_op *call = tc_op_new(op->func, TC_CALL, op->loc, n + 1, in, 0);
    tc_op_set_word(call, "callee",
                   tc_arena_printf(s->env->scratch, "@%s", d->name));
    tc_op_set_results(call, 1, &op->out[0]->type);
    tc_op_insert(call, op->parent, op);
    call->out[0]->name = op->out[0]->name;
    tc_value_replace(op->out[0], call->out[0]);
    tc_op_erase(op);
    s->changed = true;
    return true;
}

static bool replace_in(struct differ *s, tc_region *r)
{
    tc_each_op_safe (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            if (!replace_in(s, op->regions[i]))
                return false;
        /* A function parameter is not bound yet. */
        if (op->code == TC_VJP && *tc_op_word(op, "callee") == '@' &&
            !replace_vjp(s, op))
            return false;
    }
    return true;
}

tc_change tc_pass_differentiate(tc_module *m, tc_pass_env *env)
{
    struct differ s = {.env = env, .m = m};
    /* New functions come behind, and have none. */
    tc_each_func (f, m)
        if (!replace_in(&s, f->body))
            return TC_FAILED;
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
