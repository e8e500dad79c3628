/* SPDX-License-Identifier: Apache-2.0
 *
 * differentiate: replaces vjp by a call of a function that computes the
 * gradient.
 *
 *   %d = vjp @soft_cap(%s, %cap) seed(%g) : tile<64x64 x f32>
 *
 * becomes
 *
 *   %d = call @soft_cap.vjp(%s, %cap, %g) : tile<64x64 x f32>
 *
 * with a new function, made by reverse.c. Its gradients of the tensors and
 * numbers of `into` are added up by sums.c. A function that uses vjp itself is
 * differentiated after its own are gone. Tests: test/ir/passes/differentiate.
 */
#include "ir/fastmath.h"
#include "passes/analysis/substitute.h"
#include "passes/grad/reverse.h"

#include <assert.h>
#include <string.h>

/* A derivative that has been built already. */
struct derived {
    const tc_func *of;
    const tc_bindings types;
    const bool *wanted; /* by parameter */
    tc_scatter scatter;
    tc_gradient made;
    const struct derived *next;
};

struct differ {
    tc_pass_env *env;
    tc_module *m;
    const struct derived *derived;
    bool changed;
};

/* ---- The function differentiated ---- */

/* The callee's compile-time parameters, inferred from the operands; the
 * verifier has checked that all can be. */
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
    copy->fastmath = f->fastmath;
    tc_func_append(s->m, copy);
    return copy;
}

/* ---- One vjp ---- */

static bool replace_in(struct differ *s, tc_func *f);

/* The tensor that takes the gradient for parameter i; NULL: not wanted. */
static tc_value *into_of(const tc_op *op, const tc_func *f, unsigned i)
{
    const tc_attr *into = tc_op_attr(op, "into");
    const char *name = f->body->args[i]->name;
    for (unsigned k = 0; name && k < into->n; k++)
        if (strcmp(into->strings[k], name) == 0)
            return op->in[tc_vjp_seed(op) + 1 + k];
    return NULL;
}

static tc_accumulate how_of(const tc_op *op)
{
    const tc_attr *a = tc_op_attr(op, "accumulate");
    if (a->kind == TC_ATTR_NONE)
        return TC_ACCUMULATE_ANY;
    for (unsigned i = tc_vjp_seed(op) + 1; i < op->nin; i++)
        if (!tc_gradient_has_bins(op->func, op->in[i]))
            return TC_ACCUMULATE_ANY;
    return (tc_accumulate)tc_dim_value(a->dims[0]);
}

/* How the derivative itself adds to memory what loops contribute: as floats, as
 * bins, or (the caller adds) not at all. */
static tc_scatter scatter_of(const tc_op *op)
{
    static const tc_scatter by_how[] = {[TC_ACCUMULATE_ANY] = TC_SCATTER_FLOATS,
                                        [TC_ACCUMULATE_SUMS] = TC_SCATTER_BINS,
                                        [TC_ACCUMULATE_ELEMENTS] =
                                            TC_SCATTER_NONE};
    unsigned first = tc_vjp_seed(op) + 1;
    bool bins = first < op->nin && op->in[first]->type->elem->kind == TC_I64;
    return bins ? TC_SCATTER_BINS : by_how[how_of(op)];
}

static const tc_gradient *derivative(struct differ *s, const tc_op *op,
                                     tc_func *f)
{
    tc_scatter scatter = scatter_of(op);
    tc_bindings b = bindings_of(s, op, f);
    unsigned n = f->body->nargs;
    bool *wanted = tc_arena_array(s->env->scratch, bool, n);
    for (unsigned i = 0; i < n; i++)
        wanted[i] = into_of(op, f, i) != NULL;
    for (const struct derived *at = s->derived; at; at = at->next)
        if (at->of == f && at->scatter == scatter &&
            same_bindings(&at->types, &b) &&
            memcmp(at->wanted, wanted, n * sizeof *wanted) == 0)
            return &at->made;
    struct derived now = {f, b, wanted, scatter, {0}, s->derived};
    if (!replace_in(s, f) ||
        !tc_gradient_build(s->env, copy_func(s, f, &b), f->name, op->loc,
                           wanted, scatter, &now.made))
        return NULL;
    struct derived *kept = tc_arena_copy(s->env->scratch, &now, sizeof now);
    s->derived = kept;
    return &kept->made;
}

/* The call of the derivative instead of `op`; its first result is op's. */
static tc_op *build_call(struct differ *s, const tc_op *op, const tc_func *f,
                         const tc_gradient *g)
{
    tc_context *cx = s->env->cx;
    unsigned nargs = f->body->nargs, n = nargs + 1 + g->nscattered;
    tc_value **in = tc_arena_array(s->env->scratch, tc_value *, n);
    memcpy(in, op->in, nargs * sizeof *in);
    in[nargs] = op->in[tc_vjp_seed(op)];
    for (unsigned i = 0; i < g->nscattered; i++) {
        tc_value *to = into_of(op, f, g->scattered[i]);
        in[nargs + 1 + i] = scatter_of(op) == TC_SCATTER_BINS
                                ? tc_gradient_bins(s->env, op->func, to)
                                : to;
    }
    tc_op *call = tc_op_new(op->func, TC_CALL, op->loc, n, in, 0);
    tc_op_set_fastmath(call, tc_op_own_fastmath(op));
    tc_op_set_word(call, "callee",
                   tc_arena_printf(s->env->scratch, "@%s", g->func->name));
    const tc_type **types =
        tc_arena_array(s->env->scratch, const tc_type *, 1 + g->nsites);
    const tc_type *f32 = tc_type_scalar(cx, TC_F32);
    types[0] = op->out[0]->type;
    for (unsigned i = 0; i < g->nsites; i++)
        types[1 + i] = tc_type_with_elem(cx, op->out[0]->type, f32);
    tc_op_set_results(call, 1 + g->nsites, types);
    return call;
}

static bool is_alone(const tc_gradient *g, unsigned site)
{
    for (unsigned i = 0; i < g->nsites; i++)
        if (i != site && g->sites[i].param == g->sites[site].param)
            return false;
    return true;
}

static bool replace_vjp(struct differ *s, tc_op *op)
{
    tc_func *f = tc_op_callee(op);
    const tc_gradient *g = derivative(s, op, f);
    if (!g)
        return false;
    tc_op *call = build_call(s, op, f, g);
    tc_op_insert(call, op->parent, op);
    call->out[0]->name = op->out[0]->name;
    tc_value_replace(op->out[0], call->out[0]);
    for (unsigned i = 0; i < g->nsites; i++)
        tc_gradient_add_up(s->env, call, 1 + i, &g->sites[i],
                           into_of(op, f, g->sites[i].param), op->in,
                           how_of(op), is_alone(g, i));
    tc_op_erase(op);
    s->changed = true;
    return true;
}

/* ---- All of them ---- */

struct vjps {
    tc_arena *scratch;
    tc_op **all;
    unsigned n, room;
};

static void add_vjp(struct vjps *v, tc_op *op)
{
    if (v->n == v->room) {
        v->room = v->room ? 2 * v->room : 8;
        tc_op **more = tc_arena_array(v->scratch, tc_op *, v->room);
        if (v->n)
            memcpy(more, v->all, v->n * sizeof *more);
        v->all = more;
    }
    v->all[v->n++] = op;
}

static void find_vjps(struct vjps *v, tc_region *r)
{
    tc_each_nested_first (op, r) {
        /* A function parameter is not bound yet. */
        if (op->code == TC_VJP && tc_op_callee(op))
            add_vjp(v, op);
    }
}

/* Adding up replaces loops and branches around a vjp, so all vjps are found
 * before the first is expanded. */
static bool replace_in(struct differ *s, tc_func *f)
{
    struct vjps v = {.scratch = s->env->scratch};
    find_vjps(&v, f->body);
    for (unsigned i = 0; i < v.n; i++)
        if (!replace_vjp(s, v.all[i]))
            return false;
    return true;
}

tc_change tc_pass_differentiate(tc_module *m, tc_pass_env *env)
{
    struct differ s = {.env = env, .m = m};
    /* New functions come last, and have none. */
    tc_each_func (f, m)
        if (!replace_in(&s, f))
            return TC_FAILED;
    return s.changed ? TC_CHANGED : TC_UNCHANGED;
}
