/* SPDX-License-Identifier: Apache-2.0
 *
 *   func @frame[N: int, step: func(tile<N x f32>) -> f32](%x: tile<N x f32>)
 *   func @sum_by[N: int](%x: tile<N x f32>, %by: f32) -> f32
 *   kernel @k(..) .. { @frame[step=@sum_by](%y, by=%s) }
 *
 * With %y: tile<64 x f32>, N is 64, and @sum_by must begin with tile<64 x f32>
 * and give f32. It captures what follows, %by, which the call offers by name.
 */
#include "ir/infer/bound.h"

#include "ir/given.h"
#include "ir/infer/inherit.h"

#include <string.h>

/* ---- Signatures ---- */

tc_signature tc_signature_of(tc_arena *a, const tc_func *f)
{
    const tc_type **ins = tc_arena_array(a, const tc_type *, f->body->nargs);
    for (unsigned i = 0; i < f->body->nargs; i++)
        ins[i] = f->body->args[i]->type;
    return (tc_signature){f->body->nargs, f->nresults, ins, f->results};
}

static const tc_type **substituted(tc_arena *a, tc_context *cx, unsigned n,
                                   const tc_type *const *types,
                                   const tc_bindings *b)
{
    const tc_type **out = tc_arena_array(a, const tc_type *, n);
    for (unsigned i = 0; i < n; i++)
        out[i] = tc_type_substitute(cx, types[i], b);
    return out;
}

tc_signature tc_signature_wanted(tc_context *cx, tc_arena *a, const tc_param *p,
                                 const tc_bindings *b)
{
    return (tc_signature){p->nins, p->nouts,
                          substituted(a, cx, p->nins, p->ins, b),
                          substituted(a, cx, p->nouts, p->outs, b)};
}

static bool are_same(unsigned n, const tc_type *const *a, unsigned m,
                     const tc_type *const *b)
{
    bool same = n == m;
    for (unsigned i = 0; same && i < n; i++)
        same = a[i] == b[i];
    return same;
}

bool tc_signature_is_same(const tc_signature *a, const tc_signature *b)
{
    return are_same(a->nins, a->ins, b->nins, b->ins) &&
           are_same(a->nouts, a->outs, b->nouts, b->outs);
}

static void print_types(tc_text *out, unsigned n, const tc_type *const *types,
                        bool alone)
{
    tc_text_add(out, alone ? "" : "(");
    for (unsigned i = 0; i < n; i++) {
        tc_text_add(out, i ? ", " : "");
        tc_type_print(out, types[i]);
    }
    tc_text_add(out, alone ? "" : ")");
}

const char *tc_signature_text(tc_arena *a, const tc_signature *s)
{
    tc_text out = {.arena = a};
    print_types(&out, s->nins, s->ins, false);
    tc_text_add(&out, " -> ");
    print_types(&out, s->nouts, s->outs, s->nouts == 1);
    return out.data;
}

bool tc_func_fits(const tc_func *f, const tc_signature *wanted, tc_bindings *b)
{
    tc_context *cx = f->module->cx;
    bool fits = f->body->nargs >= wanted->nins && f->nresults == wanted->nouts;
    for (unsigned i = 0; fits && i < wanted->nins; i++)
        fits = tc_type_unify(cx, f->body->args[i]->type, wanted->ins[i], b);
    for (unsigned i = 0; fits && i < wanted->nouts; i++)
        fits = tc_type_substitute(cx, f->results[i], b) == wanted->outs[i];
    return fits;
}

/* ---- The functions of a call ---- */

static void note_param(const tc_func *f, const tc_param *p)
{
    if (p->loc.file)
        tc_note(f->module->cx, p->loc, "parameter `%s` of @%s", p->name,
                f->name);
}

/* The function parameter of the caller that has that name stands for p of f. */
static bool check_passed(const tc_op *call, const tc_func *f, const tc_param *p,
                         const tc_signature *wanted, const char *name)
{
    tc_context *cx = tc_op_context(call);
    tc_arena *a = &cx->diag_arena;
    const tc_param *passed = tc_func_param(call->func, name);
    tc_signature got = {passed->nins, passed->nouts, passed->ins, passed->outs};
    if (tc_signature_is_same(wanted, &got))
        return true;
    tc_error(cx, call->loc, "call: `%s` of @%s is %s, but `%s` of @%s is %s",
             p->name, f->name, tc_signature_text(a, wanted), passed->name,
             call->func->name, tc_signature_text(a, &got));
    note_param(f, p);
    return false;
}

static bool check_inherited(const tc_op *call, const tc_func *f,
                            const tc_bindings *b)
{
    tc_context *cx = tc_op_context(call);
    bool ok = true;
    for (unsigned i = 0; i < f->nparams; i++) {
        const tc_param *p = &f->params[i];
        if (p->kind != TC_PARAM_FUNC)
            continue;
        tc_signature wanted = tc_signature_wanted(cx, &cx->diag_arena, p, b);
        ok &= check_passed(call, f, p, &wanted, p->name);
    }
    return ok;
}

static bool takes_tiles(const tc_func *f)
{
    for (unsigned i = 0; i < f->body->nargs; i++)
        if (f->body->args[i]->type->kind == TC_TILE)
            return true;
    return false;
}

/* What g captures by name `i` of the call fits the value that is offered. */
static bool check_offer(const tc_op *call, const tc_func *g,
                        const tc_value *captured, unsigned i, tc_bindings *b)
{
    tc_context *cx = tc_op_context(call);
    unsigned at = tc_call_npositional(call) + i;
    const tc_type *got = call->in[at]->type;
    /* A function of scalars is applied lane by lane. */
    if (!takes_tiles(g))
        got = tc_type_elem(got);
    if (tc_type_unify(cx, captured->type, got, b))
        return true;
    tc_error(cx, tc_op_in_loc(call, at),
             "call: %s=%%%s is %s, but @%s captures %s", captured->name,
             call->in[at]->name ? call->in[at]->name : "..",
             tc_op_in_type(call, at), g->name,
             tc_type_name(cx, tc_type_substitute(cx, captured->type, b)));
    if (captured->loc.file)
        tc_note(cx, captured->loc, "captured parameter");
    return false;
}

static bool check_offers(const tc_op *call, const tc_func *g, const tc_param *p,
                         tc_bindings *b)
{
    const tc_attr *names = tc_op_attr(call, "names");
    bool ok = true;
    for (unsigned i = p->nins; i < g->body->nargs; i++) {
        const tc_value *captured = g->body->args[i];
        for (unsigned k = 0; captured->name && k < names->n; k++)
            if (strcmp(names->strings[k], captured->name) == 0)
                ok &= check_offer(call, g, captured, k, b);
    }
    return ok;
}

/* The function g is bound to p of f. */
static bool check_bound(const tc_op *call, const tc_func *f, const tc_param *p,
                        const tc_signature *wanted, const tc_func *g)
{
    tc_context *cx = tc_op_context(call);
    tc_arena *a = &cx->diag_arena;
    tc_bindings b = tc_bindings_of(a, g);
    if (!tc_inherit(call, g, &b))
        return false;
    if (tc_func_fits(g, wanted, &b))
        return check_offers(call, g, p, &b) && check_inherited(call, g, &b);
    tc_signature got = tc_signature_of(a, g);
    tc_error(cx, call->loc,
             "call: @%s is %s, expected %s, with captured parameters after "
             "these, for `%s` of @%s",
             g->name, tc_signature_text(a, &got), tc_signature_text(a, wanted),
             p->name, f->name);
    note_param(f, p);
    return false;
}

static bool captures(const tc_func *g, const tc_param *p, const char *name)
{
    for (unsigned i = p->nins; i < g->body->nargs; i++)
        if (g->body->args[i]->name && strcmp(g->body->args[i]->name, name) == 0)
            return true;
    return false;
}

/* Does a function that the call gives capture that name, or may it? */
static bool is_taken(const tc_op *call, const tc_func *f, const char *name)
{
    for (unsigned i = 0; i < f->nparams; i++) {
        const tc_param *p = &f->params[i];
        const char *word =
            p->kind == TC_PARAM_FUNC ? tc_given_func(call, p->name) : NULL;
        if (!word)
            continue;
        const tc_func *g =
            *word == '@' ? tc_func_find(f->module, word + 1) : NULL;
        if (!g || captures(g, p, name))
            return true;
    }
    return false;
}

static bool check_names(const tc_op *call, const tc_func *f)
{
    const tc_attr *names = tc_op_attr(call, "names");
    bool ok = true;
    for (unsigned i = 0; i < names->n; i++)
        if (!is_taken(call, f, names->strings[i]))
            ok = tc_error(tc_op_context(call),
                          tc_op_in_loc(call, tc_call_npositional(call) + i),
                          "call: no function that is given in the brackets "
                          "captures `%s`; @%s takes its own arguments by "
                          "position",
                          names->strings[i], f->name);
    return ok;
}

bool tc_bound_check(const tc_op *call, const tc_func *f, const tc_bindings *b)
{
    tc_context *cx = tc_op_context(call);
    bool ok = check_names(call, f);
    for (unsigned i = 0; i < f->nparams; i++) {
        const tc_param *p = &f->params[i];
        if (p->kind != TC_PARAM_FUNC)
            continue;
        const char *word = tc_given_func(call, p->name);
        tc_signature wanted = tc_signature_wanted(cx, &cx->diag_arena, p, b);
        if (word && *word == '@')
            ok &= check_bound(call, f, p, &wanted,
                              tc_func_find(f->module, word + 1));
        else
            ok &= check_passed(call, f, p, &wanted, word ? word : p->name);
    }
    return ok;
}
