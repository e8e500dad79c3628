/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests: test/ir/passes/inline/given*.tile.
 */
#include "passes/bind/bind_given.h"

#include "ir/fastmath.h"
#include "ir/given.h"
#include "passes/bind/direct_call.h"

#include <string.h>

struct binder {
    tc_pass_env *env;
    const tc_op *call;
    const tc_func *callee;
    tc_region *body;
};

/* What the call of the callee offers under that name, in the copy; or NULL. */
static tc_value *offer(const struct binder *s, const char *name)
{
    const tc_attr *names = tc_op_attr(s->call, "names");
    for (unsigned i = 0; i < names->n; i++)
        if (strcmp(names->strings[i], name) == 0)
            return s->body->args[s->callee->body->nargs + i];
    return NULL;
}

/* ---- A function ---- */

static bool not_offered(const struct binder *s, const tc_op *op,
                        const tc_func *g, const tc_value *captured)
{
    const char *name = captured->name ? captured->name : "?";
    const char *param = tc_op_word(op, "callee");
    tc_error(s->env->cx, s->call->loc,
             "call: @%s captures `%s`, which neither this call nor that of "
             "`%s` offers, expected %s=%%value among the arguments here",
             g->name, name, param, name);
    tc_note(s->env->cx, captured->loc, "captured parameter");
    tc_note(s->env->cx, op->loc, "`%s` is called here", param);
    return false;
}

static bool check_accumulate(const struct binder *s, const tc_op *op)
{
    if (op->code != TC_VJP || !tc_op_has_attr(op, "accumulate"))
        return true;
    tc_error(s->env->cx, op->loc,
             "vjp: accumulate(..) adds to arguments of the kernel, expected "
             "`%s` to be bound when the kernel is launched",
             tc_op_word(op, "callee"));
    tc_note(s->env->cx, s->call->loc, "it is bound here");
    return false;
}

/* Shapes of what is offered are not known before. */
static bool check_result(const struct binder *s, const tc_op *op)
{
    if (tc_op_check_results(op))
        return true;
    tc_note(s->env->cx, s->call->loc, "%s is given here",
            tc_op_word(op, "callee"));
    return false;
}

static bool call_function(const struct binder *s, tc_op *op, const tc_func *g)
{
    unsigned nfixed = tc_call_npositional(op), n = g->body->nargs;
    tc_value **in = tc_arena_array(s->env->scratch, tc_value *, n);
    if (!check_accumulate(s, op))
        return false;
    for (unsigned i = 0; i < n; i++) {
        const char *name = g->body->args[i]->name;
        if (i < nfixed)
            in[i] = op->in[i];
        else if (name && !(in[i] = tc_call_offer(op, name)))
            in[i] = offer(s, name);
        if (!in[i])
            return not_offered(s, op, g, g->body->args[i]);
    }
    return check_result(s, tc_call_direct(s->env->scratch, op, g, in));
}

/* ---- A function parameter of the caller ---- */

/* The operands of `op`, and what the outer call offers and op does not. */
static tc_op *add_offers(const struct binder *s, tc_op *op, const char *param)
{
    const tc_attr *own = tc_op_attr(op, "names");
    const tc_attr *more = tc_op_attr(s->call, "names");
    unsigned nargs = tc_call_npositional(op) + own->n, n = nargs;
    unsigned rest = op->nin - nargs, nnames = own->n;
    tc_value **in =
        tc_arena_array(s->env->scratch, tc_value *, op->nin + more->n);
    const char **names = tc_arena_array(&op->func->module->arena, const char *,
                                        own->n + more->n);
    memcpy(in, op->in, n * sizeof *in);
    if (own->n)
        memcpy(names, own->strings, own->n * sizeof *names);
    for (unsigned i = 0; i < more->n; i++) {
        if (tc_call_offer(op, more->strings[i]))
            continue;
        names[nnames++] = more->strings[i];
        in[n++] = offer(s, more->strings[i]);
    }
    memcpy(in + n, op->in + nargs, rest * sizeof *in);
    tc_op *with = tc_op_new(op->func, op->code, op->loc, n + rest, in, 0);
    memcpy(with->attrs, op->attrs,
           tc_op_nattrs(op->code) * sizeof *with->attrs);
    tc_op_set_word(with, "callee", param);
    tc_op_set_attr(with, "names",
                   (tc_attr){TC_ATTR_STRINGS, nnames, {.strings = names}});
    tc_call_replace(op, with);
    return with;
}

static bool call_param(const struct binder *s, tc_op *op, const char *param)
{
    if (tc_op_has_attr(s->call, "names"))
        return check_result(s, add_offers(s, op, param));
    tc_op_set_word(op, "callee", param);
    return true;
}

/* ---- All calls of the copy ---- */

static bool bind_op(const struct binder *s, tc_op *op)
{
    const tc_param *p = tc_op_is_call(op) && !tc_op_callee(op)
                            ? tc_func_param(s->callee, tc_op_word(op, "callee"))
                            : NULL;
    const char *word = p ? tc_given_func(s->call, p->name) : NULL;
    if (!word)
        return true;
    const tc_func *g = tc_given_callee(s->call, p);
    return g ? call_function(s, op, g) : call_param(s, op, word);
}

static bool bind_region(const struct binder *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (!bind_op(s, op))
            return false;
    }
    return true;
}

bool tc_bind_given(tc_pass_env *env, const tc_op *call, const tc_func *callee,
                   tc_region *body)
{
    struct binder s = {env, call, callee, body};
    return bind_region(&s, body);
}
