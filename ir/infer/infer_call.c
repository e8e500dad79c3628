/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of a call or vjp: of a function by its name, or of a function
 * parameter.
 */
#include "ir/infer/infer.h"

#include "ir/given.h"
#include "ir/infer/bound.h"
#include "ir/infer/inherit.h"

#include <string.h>

/* The callee. */
struct signature {
    const char *callee;
    const tc_func *f; /* NULL: a function parameter */
    unsigned nins, nouts;
    const tc_type *const *ins, *const *outs;
    tc_bindings bound; /* what the operands say of its own parameters */
};

static void describe_func(const tc_op *op, const tc_func *f,
                          struct signature *s)
{
    tc_arena *a = &op->func->module->arena;
    s->bound = tc_bindings_of(a, f);
    tc_signature own = tc_signature_of(a, f);
    s->f = f;
    s->nins = own.nins;
    s->ins = own.ins;
    s->nouts = own.nouts;
    s->outs = own.outs;
}

static bool find_param(const tc_op *op, struct signature *s)
{
    const tc_param *p = tc_func_param(op->func, s->callee);
    if (!p || p->kind != TC_PARAM_FUNC)
        return tc_error(tc_op_context(op), op->loc,
                        "%s: %s is no function parameter of @%s (a "
                        "function is called as @%s)",
                        tc_op_name(op), s->callee, op->func->name, s->callee);
    s->nins = p->nins;
    s->ins = p->ins;
    s->nouts = p->nouts;
    s->outs = p->outs;
    return true;
}

/* Named arguments are for functions that the call gives. */
static bool check_names(const tc_op *op, const tc_func *f)
{
    const char *word = NULL;
    for (unsigned i = 0; !word && i < f->nparams; i++)
        if (f->params[i].kind == TC_PARAM_FUNC)
            word = tc_given_func(op, f->params[i].name);
    return word || !tc_op_has_attr(op, "names") ||
           tc_error(tc_op_context(op), op->loc,
                    "%s: named arguments are for function parameters, @%s "
                    "takes its arguments by position",
                    tc_op_name(op), f->name);
}

/* A vjp is no copy of the function in which it stands. */
static bool check_vjp_inherits(const tc_op *op, const tc_func *f)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (tc_param_is_inherited(f, &f->params[i]))
            return tc_error(tc_op_context(op), op->loc,
                            "vjp: @%s inherits `%s`, expected a function "
                            "whose compile-time parameters follow from the "
                            "types of its arguments",
                            f->name, f->params[i].name);
    return true;
}

static bool bind_callee(const tc_op *op, const tc_func *f, tc_bindings *b)
{
    return op->code == TC_VJP ? check_vjp_inherits(op, f)
                              : tc_given_check(op, f) && tc_bind_call(op, f, b);
}

static bool find_callee(const tc_op *op, struct signature *s)
{
    tc_context *cx = tc_op_context(op);
    *s = (struct signature){.callee = tc_op_word(op, "callee")};
    if (s->callee[0] != '@')
        return find_param(op, s);
    const tc_func *f = tc_func_find(op->func->module, s->callee + 1);
    if (!f)
        return tc_error(cx, op->loc, "%s: there is no function %s",
                        tc_op_name(op), s->callee);
    if (f->is_kernel || f->is_plan)
        return tc_error(cx, op->loc, "%s: %s is a %s, expected a func",
                        tc_op_name(op), s->callee, tc_func_word(f));
    if (!check_names(op, f))
        return false;
    describe_func(op, f, s);
    return bind_callee(op, f, &s->bound);
}

/* ---- Arguments ---- */

static bool is_scalar_func(const struct signature *s)
{
    for (unsigned i = 0; i < s->nins; i++)
        if (s->ins[i]->kind == TC_TILE)
            return false;
    return true;
}

/* The shape that a call of a scalar function is applied in: that of the tiles
 * among the first n operands, which must agree; NULL for scalars only.
 * Reports. */
static bool find_lanes(const tc_op *op, unsigned n, const struct signature *s,
                       const tc_type **lanes)
{
    *lanes = NULL;
    if (!is_scalar_func(s))
        return true;
    for (unsigned i = 0; i < n; i++) {
        const tc_type *t = op->in[i]->type;
        if (t->kind != TC_TILE)
            continue;
        if (*lanes && !tc_type_same_shape(t, *lanes))
            return tc_error(tc_op_context(op), tc_op_in_loc(op, i),
                            "%s: arguments are %s and %s, expected one "
                            "shape",
                            tc_op_name(op), tc_op_in_type(op, i),
                            tc_type_name(tc_op_context(op), *lanes));
        *lanes = t;
    }
    return true;
}

static bool check_arguments(const tc_op *op, struct signature *s, bool lifted)
{
    tc_context *cx = tc_op_context(op);
    unsigned n = tc_call_npositional(op);
    if (n != s->nins)
        return tc_error(cx, op->loc, "%s: %s takes %u argument%s, found %u",
                        tc_op_name(op), s->callee, s->nins,
                        s->nins == 1 ? "" : "s", n);
    bool ok = true;
    for (unsigned i = 0; i < s->nins; i++) {
        const tc_type *got = op->in[i]->type;
        if (lifted && s->ins[i]->kind != TC_TENSOR)
            got = tc_type_elem(got);
        if (!tc_type_unify(cx, s->ins[i], got, &s->bound))
            ok = tc_error(
                cx, tc_op_in_loc(op, i),
                "%s: argument %u of %s is %s, expected %s", tc_op_name(op), i,
                s->callee, tc_op_in_type(op, i),
                tc_type_name(cx, tc_type_substitute(cx, s->ins[i], &s->bound)));
    }
    return ok;
}

/* What a call offers to functions that it gives decides nothing. */
static bool find_lanes_of_call(const tc_op *op, const struct signature *s,
                               const tc_type **lanes)
{
    unsigned n = s->f ? tc_call_npositional(op) : op->nin;
    return find_lanes(op, n, s, lanes) &&
           (!*lanes || find_lanes(op, op->nin, s, lanes));
}

bool tc_infer_call(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    struct signature s;
    const tc_type *lanes;
    if (!find_callee(op, &s) || !find_lanes_of_call(op, &s, &lanes) ||
        !check_arguments(op, &s, lanes) ||
        (s.f && !tc_bound_check(op, s.f, &s.bound)))
        return false;
    for (unsigned i = 0; i < s.nouts; i++) {
        const tc_type *t = tc_type_substitute(cx, s.outs[i], &s.bound);
        tc_results_add(r, lanes ? tc_type_with_elem(cx, lanes, t) : t);
    }
    return true;
}

/* ---- Gradients ---- */

static bool has_gradient(const tc_op *op, const struct signature *s)
{
    tc_context *cx = tc_op_context(op);
    if (!is_scalar_func(s))
        return tc_error(cx, op->loc,
                        "vjp: %s takes tiles, expected a function of scalars",
                        s->callee);
    if (s->nouts != 1 || !tc_type_is_scalar(s->outs[0]) ||
        !tc_type_is_float(s->outs[0]))
        return tc_error(cx, op->loc,
                        "vjp: %s gives %u result%s%s, expected one float",
                        s->callee, s->nouts, s->nouts == 1 ? "" : "s",
                        s->nouts == 1 ? " that is no float" : "");
    if (s->nins == 0 || !tc_type_is_scalar(s->ins[0]) ||
        !tc_type_is_float(s->ins[0]))
        return tc_error(
            cx, op->loc,
            "vjp: the first parameter of %s is %s, expected a float, for "
            "which the gradient is",
            s->callee, s->nins ? tc_type_name(cx, s->ins[0]) : "not there");
    return true;
}

static bool check_seed(const tc_op *op, const struct signature *s)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *out = tc_type_substitute(cx, s->outs[0], &s->bound);
    unsigned seed = tc_vjp_seed(op);
    return tc_type_elem(op->in[seed]->type) == out ||
           tc_error(cx, tc_op_in_loc(op, seed),
                    "vjp: the seed is %s, expected %s, which %s gives",
                    tc_op_in_type(op, seed), tc_type_name(cx, out), s->callee);
}

static unsigned param_of_func(const tc_func *f, const char *name)
{
    unsigned i = 0;
    while (i < f->body->nargs && (!f->body->args[i]->name ||
                                  strcmp(f->body->args[i]->name, name) != 0))
        i++;
    return i;
}

/* Where the gradient for a captured tensor or number goes. */
static bool check_into(const tc_op *op, const struct signature *s, unsigned i)
{
    tc_context *cx = tc_op_context(op);
    const char *name = tc_op_attr(op, "into")->strings[i];
    unsigned param = param_of_func(s->f, name), at = tc_vjp_seed(op) + 1 + i;
    const tc_type *t = param < s->nins ? s->ins[param] : NULL;
    const tc_type *got = op->in[at]->type;
    bool tensor = t && t->kind == TC_TENSOR;
    if (!t || param == 0 || (!tensor && !tc_type_is_scalar(t)) ||
        !tc_type_is_float(tensor ? t->elem : t))
        return tc_error(cx, op->loc,
                        "vjp: into(%s=..): expected a parameter of %s, after "
                        "the first, that is a float or a tensor of floats",
                        name, s->callee);
    unsigned rank = tensor ? t->rank : 1;
    /* i64: bins, see passes/bind/exact_sums.h. */
    bool bins = got->kind == TC_TENSOR && got->elem->kind == TC_I64;
    return (got->kind == TC_TENSOR && got->rank == rank + bins &&
            (bins || got->elem->kind == TC_F32)) ||
           tc_error(cx, tc_op_in_loc(op, at),
                    "vjp: into(%s=..) is %s, expected a tensor of f32 with %u "
                    "dim%s",
                    name, tc_op_in_type(op, at), rank, rank == 1 ? "" : "s");
}

static bool check_accumulate(const tc_op *op, const struct signature *s)
{
    const tc_attr *into = tc_op_attr(op, "into");
    const tc_attr *accumulate = tc_op_attr(op, "accumulate");
    if (s->f && accumulate->kind != TC_ATTR_NONE && !into->n)
        return tc_error(tc_op_context(op), op->loc,
                        "vjp: accumulate is for function parameters, whose "
                        "captured arguments become the kernel's; expected "
                        "into(name=%%tensor) for %s",
                        s->callee);
    if (!s->f && into->n)
        return tc_error(tc_op_context(op), op->loc,
                        "vjp: what is bound to %s is not known yet, expected "
                        "accumulate(..) instead of into(..)",
                        s->callee);
    unsigned first = tc_vjp_seed(op) + 1;
    bool ok = true;
    for (unsigned i = 0; i < into->n; i++)
        ok &= check_into(op, s, i);
    for (unsigned i = 1; ok && i < into->n; i++)
        if (op->in[first + i]->type->elem != op->in[first]->type->elem)
            ok = tc_error(tc_op_context(op), op->loc,
                          "vjp: into(..) has %s and %s, expected elements of "
                          "one type",
                          tc_op_in_type(op, first),
                          tc_op_in_type(op, first + i));
    return ok;
}

bool tc_infer_vjp(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    struct signature s;
    const tc_type *lanes;
    if (op->nin < 1 + tc_op_attr(op, "into")->n + tc_op_attr(op, "names")->n)
        return tc_error(cx, op->loc, "vjp: %u operands, expected a seed too",
                        op->nin);
    if (!find_callee(op, &s) || !has_gradient(op, &s) ||
        !find_lanes(op, tc_vjp_seed(op) + 1, &s, &lanes) ||
        !check_arguments(op, &s, lanes) || !check_seed(op, &s) ||
        !check_accumulate(op, &s))
        return false;
    const tc_type *t = tc_type_substitute(cx, s.ins[0], &s.bound);
    return tc_results_add(r, lanes ? tc_type_with_elem(cx, lanes, t) : t);
}
