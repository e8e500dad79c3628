/* SPDX-License-Identifier: Apache-2.0
 *
 * bind-params: binds the compile-time parameters of one kernel.
 *
 *   kernel @scale[N: int = 64, T: type, mod: func(f32, i32) -> f32](...) {
 *     %x = load %p : tile<N x T>
 *     %c = dim N : i32
 *     %y = call mod(%s, %i, n=%n) : f32
 *
 * with T=bf16 and mod=@bias, where `func @bias(%x: f32, %i: i32, %n: i32,
 * %table: tensor<[?] x f32>) -> f32`, becomes
 *
 *   kernel @scale(..., %mod.table: tensor<[?] x f32>) {
 *     %x = load %p : tile<64 x bf16>
 *     %c = dim 64 : i32
 *     %y = call @bias(%s, %i, %n, %mod.table) : f32
 *
 * Captured parameters are the parameters of a bound function after those of the
 * signature. If the call offers an argument of that name, it is passed; all
 * other offers are dropped. For the remaining captured parameters the kernel
 * gets a parameter PARAM.NAME (PARAM without a trailing `_mod`), in the order
 * of the compile-time parameters. Before all that, calls of functions that
 * inherit parameters of the kernel, or to which calls give values, are inlined.
 * All other kernels are removed.
 *
 * Tests: test/ir/passes/bind-params.
 *
 * A vjp is bound like a call, and shares the captured parameters of calls. If
 * it has a clause accumulate that is not 0, the kernel gets, after all captured
 * parameters, a parameter grad.PARAM.NAME for each of them that is a float or a
 * tensor of floats,
 *
 *     %d = vjp mod(%s, %i, n=%n) seed(%g) accumulate(1) : f32
 *     %d = vjp @bias(%s, %i, %n, %mod.table) seed(%g)
 *              into(table=%grad.mod.table) : f32
 *
 * a tensor of f32 of the same rank, of one element for a number.
 */
#include "passes/bind/bind_params.h"
#include "ir/eval/eval.h"
#include "ir/fastmath.h"
#include "ir/infer/bound.h"
#include "ir/infer/inherit.h"
#include "passes/analysis/match.h"
#include "passes/analysis/substitute.h"
#include "passes/bind/direct_call.h"
#include "passes/bind/inline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct binder {
    tc_context *cx;
    tc_pass_env *env;
    tc_arena *scratch;
    tc_module *m;
    tc_func *kernel;
    const tc_binding *bindings;
    unsigned nbindings;
    tc_loc loc;            /* the place of the binding: nowhere, or a launch */
    tc_bindings types;     /* of int and type parameters */
    const tc_func **funcs; /* of func parameters, by index */
    bool changed;
};

static const tc_loc nowhere;

/* ---- Which kernel ---- */

static const char *kernel_list(struct binder *s)
{
    tc_text list = {.arena = s->scratch};
    tc_each_func (f, s->m)
        if (f->is_kernel)
            tc_text_printf(&list, "%s@%s", list.len ? ", " : "", f->name);
    return list.len ? list.data : "none";
}

static const char *nearest_kernel(struct binder *s, const char *name)
{
    unsigned n = 0;
    tc_each_func (f, s->m)
        n++;
    const char **names = tc_arena_array(s->scratch, const char *, n);
    n = 0;
    tc_each_func (f, s->m)
        if (f->is_kernel)
            names[n++] = f->name;
    return tc_nearest_name(name, names, n);
}

static bool find_named_kernel(struct binder *s, const char *name)
{
    name += *name == '@';
    s->kernel = tc_func_find(s->m, name);
    if (s->kernel && s->kernel->is_kernel)
        return true;
    const char *near = nearest_kernel(s, name);
    if (s->kernel)
        tc_error(s->cx, s->kernel->loc,
                 "bind-params: @%s is a %s, expected a kernel", name,
                 tc_func_word(s->kernel));
    else
        tc_error(s->cx, nowhere, "bind-params: there is no kernel @%s%s%s%s",
                 name, near ? ", did you mean @" : "", near ? near : "",
                 near ? "?" : "");
    tc_note(s->cx, nowhere, "kernels: %s", kernel_list(s));
    return false;
}

static bool find_kernel(struct binder *s, const char *name)
{
    if (name)
        return find_named_kernel(s, name);
    tc_each_func (f, s->m) {
        if (f->is_kernel && s->kernel)
            return tc_error(s->cx, f->loc,
                            "bind-params: there are several kernels (%s), say "
                            "which",
                            kernel_list(s));
        if (f->is_kernel)
            s->kernel = f;
    }
    return s->kernel ||
           tc_error(s->cx, nowhere, "bind-params: there is no kernel");
}

/* ---- Values of parameters ---- */

static bool wrong_value(struct binder *s, const tc_param *p, const char *value,
                        const char *expected)
{
    tc_error(s->cx, s->loc, "bind-params: %s=%s: expected %s", p->name, value,
             expected);
    tc_note(s->cx, p->loc, "parameter `%s` of @%s", p->name, s->kernel->name);
    return false;
}

static bool bind_int(struct binder *s, unsigned i, const char *value)
{
    const tc_param *p = &s->kernel->params[i];
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 0);
    if (end == value || *end)
        return wrong_value(s, p, value, "a whole number");
    /* `dim` ops are i32, and so are all sizes. */
    if (errno || n < INT32_MIN || n > INT32_MAX)
        return wrong_value(s, p, value, "a number of at most 32 bits");
    s->types.dims[i] = tc_dim_const(s->cx, n);
    return true;
}

static bool bind_type(struct binder *s, unsigned i, const char *value)
{
    const char *expected = "an element type, one of i1 i8 i16 i32 i64 f8e4m3 "
                           "f8e5m2 f16 bf16 f32 f64, or of the storage types "
                           "u8 u16 u32 f8e8m0 i4 u4 f4e2m1";
    tc_kind kind = tc_kind_parse(value, strlen(value));
    if (kind == TC_KIND_COUNT)
        return wrong_value(s, &s->kernel->params[i], value, expected);
    s->types.types[i] = tc_type_scalar(s->cx, kind);
    return true;
}

static bool unknown_func(struct binder *s, const tc_param *p, const char *name)
{
    unsigned n = 0;
    tc_each_func (f, s->m)
        n++;
    const char **names = tc_arena_array(s->scratch, const char *, n);
    tc_text list = {.arena = s->scratch};
    n = 0;
    tc_each_func (f, s->m) {
        if (f->is_kernel || f->is_plan)
            continue;
        tc_text_printf(&list, "%s@%s", n ? ", " : "", f->name);
        names[n++] = f->name;
    }
    const char *near = tc_nearest_name(name, names, n);
    tc_error(s->cx, s->loc, "bind-params: %s=@%s: there is no func @%s%s%s%s",
             p->name, name, name, near ? ", did you mean @" : "",
             near ? near : "", near ? "?" : "");
    tc_note(s->cx, p->loc, "parameter `%s` of @%s; funcs: %s", p->name,
            s->kernel->name, n ? list.data : "none");
    return false;
}

static bool bind_func(struct binder *s, unsigned i, const char *value)
{
    const tc_func *f = tc_func_find(s->m, value + (*value == '@'));
    if (!f || f->is_kernel || f->is_plan)
        return unknown_func(s, &s->kernel->params[i], value + (*value == '@'));
    s->funcs[i] = f;
    return true;
}

static bool bind_text(struct binder *s, unsigned i, const char *value)
{
    switch (s->kernel->params[i].kind) {
    case TC_PARAM_INT: return bind_int(s, i, value);
    case TC_PARAM_TYPE: return bind_type(s, i, value);
    default: return bind_func(s, i, value);
    }
}

static bool is_bound(const struct binder *s, unsigned i)
{
    return s->types.dims[i] || s->types.types[i] || s->funcs[i];
}

/* A default may name earlier parameters, which are bound by now (or missing,
 * which is reported for them). */
static bool bind_default(struct binder *s, unsigned i)
{
    const tc_param *p = &s->kernel->params[i];
    if (p->kind == TC_PARAM_FUNC)
        return p->symbol && bind_func(s, i, p->symbol);
    if (p->dim)
        s->types.dims[i] = tc_dim_substitute(s->cx, p->dim, &s->types);
    if (p->type)
        s->types.types[i] = tc_type_substitute(s->cx, p->type, &s->types);
    return is_bound(s, i);
}

static const char *param_list(struct binder *s)
{
    static const char *const kinds[] = {"int", "type", "func"};
    tc_text list = {.arena = s->scratch};
    for (unsigned i = 0; i < s->kernel->nparams; i++) {
        const tc_param *p = &s->kernel->params[i];
        bool has_default = p->dim || p->type || p->symbol;
        tc_text_printf(&list, "%s%s: %s%s", i ? ", " : "", p->name,
                       kinds[p->kind], has_default ? "" : " (required)");
    }
    return list.len ? list.data : "none";
}

static bool unknown_param(struct binder *s, const char *name)
{
    const tc_func *k = s->kernel;
    const char **names = tc_arena_array(s->scratch, const char *, k->nparams);
    for (unsigned i = 0; i < k->nparams; i++)
        names[i] = k->params[i].name;
    const char *near = tc_nearest_name(name, names, k->nparams);
    tc_error(s->cx, s->loc,
             "bind-params: @%s has no compile-time parameter `%s`%s%s%s",
             k->name, name, near ? ", did you mean `" : "", near ? near : "",
             near ? "`?" : "");
    tc_note(s->cx, k->loc, "parameters of @%s: %s", k->name, param_list(s));
    return false;
}

static bool bind_given(struct binder *s)
{
    bool ok = true;
    for (unsigned b = 0; b < s->nbindings; b++) {
        const tc_binding *given = &s->bindings[b];
        unsigned i = 0;
        if (tc_is_clause(given->name)) {
            ok &= tc_bind_clause(s->kernel, s->loc, given);
            continue;
        }
        while (i < s->kernel->nparams &&
               strcmp(s->kernel->params[i].name, given->name) != 0)
            i++;
        if (i == s->kernel->nparams)
            ok = unknown_param(s, given->name);
        else if (is_bound(s, i))
            ok = tc_error(s->cx, s->loc, "bind-params: `%s` is given twice",
                          given->name);
        else
            ok &= bind_text(s, i, given->value);
    }
    return ok;
}

static bool bind_all(struct binder *s)
{
    const tc_func *k = s->kernel;
    s->types = tc_bindings_of(s->scratch, k);
    s->funcs = tc_arena_array(s->scratch, const tc_func *, k->nparams);
    if (!bind_given(s))
        return false;
    tc_text missing = {.arena = s->scratch};
    unsigned errors = s->cx->nerrors;
    tc_loc loc = s->loc; /* of the launch, else of the first parameter */
    for (unsigned i = 0; i < k->nparams; i++) {
        const tc_param *p = &k->params[i];
        if (is_bound(s, i) || bind_default(s, i) || p->symbol)
            continue;
        loc = loc.line ? loc : p->loc;
        tc_text_printf(&missing, "%s`%s`", missing.len ? ", " : "", p->name);
    }
    if (missing.len) {
        tc_error(s->cx, loc, "bind-params: @%s needs a value for %s", k->name,
                 missing.data);
        tc_note(s->cx, k->loc, "parameters of @%s: %s", k->name, param_list(s));
    }
    return s->cx->nerrors == errors;
}

/* ---- Function parameters ---- */

/* It is called after the parameters of the kernel are gone. */
static bool check_inherits_nothing(struct binder *s, const tc_func *f)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (tc_param_is_inherited(f, &f->params[i]))
            return tc_error(s->cx, f->params[i].loc,
                            "bind-params: @%s inherits `%s`, expected a "
                            "function whose compile-time parameters follow "
                            "from the types of its arguments",
                            f->name, f->params[i].name);
    return true;
}

/* Does the bound function begin with the parameters of the signature? What a
 * generic one infers from them goes to `b`. */
static bool check_func(struct binder *s, unsigned index, tc_bindings *b)
{
    const tc_param *p = &s->kernel->params[index];
    const tc_func *f = s->funcs[index];
    *b = tc_bindings_of(s->scratch, f);
    tc_signature wanted = tc_signature_wanted(s->cx, s->scratch, p, &s->types);
    if (tc_func_fits(f, &wanted, b))
        return check_inherits_nothing(s, f);
    tc_signature got = tc_signature_of(s->scratch, f);
    tc_error(s->cx, f->loc,
             "bind-params: @%s is %s, expected %s, with captured parameters "
             "after these, for `%s`",
             f->name, tc_signature_text(s->scratch, &got),
             tc_signature_text(s->scratch, &wanted), p->name);
    tc_note(s->cx, p->loc, "parameter `%s` of @%s", p->name, s->kernel->name);
    return false;
}

/* `score_mod` and `bias`: "score.bias". */
static const char *captured_name(struct binder *s, const tc_param *p,
                                 const char *name)
{
    size_t n = strlen(p->name);
    if (n > 4 && strcmp(p->name + n - 4, "_mod") == 0)
        n -= 4;
    return tc_arena_printf(s->scratch, "%.*s.%s", (int)n, p->name, name);
}

/* The kernel's argument of that name, added where there is none. */
static tc_value *kernel_arg(struct binder *s, const char *name,
                            const tc_type *type, tc_loc loc)
{
    tc_region *body = s->kernel->body;
    name = tc_string_get(s->cx, name);
    for (unsigned i = 0; i < body->nargs; i++)
        if (body->args[i]->name == name)
            return body->args[i];
    tc_region_add_arg(s->kernel->grid, type, name, loc);
    return tc_region_add_arg(body, type, name, loc);
}

/* The value for a captured parameter at this call; NULL: reported. */
static tc_value *captured_value(struct binder *s, const tc_op *call,
                                unsigned index, const tc_value *captured,
                                const tc_bindings *b)
{
    const tc_param *p = &s->kernel->params[index];
    const tc_type *type = tc_type_substitute(s->cx, captured->type, b);
    tc_value *v = captured->name ? tc_call_offer(call, captured->name) : NULL;
    if (v && tc_type_elem(v->type) != type) {
        tc_error(s->cx, call->loc,
                 "bind-params: the call offers %s as %s, but @%s takes %s",
                 captured->name, tc_type_name(s->cx, v->type),
                 s->funcs[index]->name, tc_type_name(s->cx, type));
        tc_note(s->cx, captured->loc, "captured parameter");
        return NULL;
    }
    if (v)
        return v;
    if (!captured->name || tc_type_is_generic(type) || type->kind == TC_TILE ||
        type->kind == TC_BLOCK_PTR) {
        tc_error(s->cx, captured->loc,
                 "bind-params: captured parameter %s of @%s is %s, expected a "
                 "tensor, pointer or scalar of known type, as it becomes a "
                 "parameter of @%s",
                 captured->name ? captured->name : "?", s->funcs[index]->name,
                 tc_type_name(s->cx, type), s->kernel->name);
        return NULL;
    }
    return kernel_arg(s, captured_name(s, p, captured->name), type,
                      captured->loc);
}

/* call score_mod(...) to call @alibi(...), likewise vjp. */
static bool rewrite_call(struct binder *s, tc_op *call, unsigned index,
                         const tc_bindings *b)
{
    const tc_func *f = s->funcs[index];
    unsigned nfixed = tc_call_npositional(call), n = f->body->nargs;
    tc_value **in = tc_arena_array(s->scratch, tc_value *, n);
    for (unsigned i = 0; i < n; i++) {
        in[i] = i < nfixed
                    ? call->in[i]
                    : captured_value(s, call, index, f->body->args[i], b);
        if (!in[i])
            return false;
    }
    tc_call_direct(s->scratch, call, f, in);
    return true;
}

static bool rewrite_calls(struct binder *s, tc_region *r, unsigned index,
                          const tc_bindings *b)
{
    tc_each_nested_first (op, r) {
        if (tc_op_is_call(op) &&
            tc_op_is_word(op, "callee", s->kernel->params[index].name) &&
            !rewrite_call(s, op, index, b))
            return false;
    }
    return true;
}

static bool bind_calls(struct binder *s)
{
    for (unsigned i = 0; i < s->kernel->nparams; i++) {
        tc_bindings b;
        if (s->funcs[i] && (!check_func(s, i, &b) ||
                            !rewrite_calls(s, s->kernel->body, i, &b)))
            return false;
    }
    return true;
}

/* ---- Gradients of what is captured ---- */

/* An argument of the kernel because some function captures it. */
static bool is_captured(const tc_value *v, unsigned nown)
{
    return !v->def && !v->region->op && v->index >= nown;
}

/* The argument that takes the gradient for `captured`; NULL: it has none. */
static tc_value *gradient_arg(struct binder *s, const tc_value *captured)
{
    const tc_type *t = captured->type;
    bool tensor = t->kind == TC_TENSOR;
    if ((!tensor && !tc_type_is_scalar(t)) ||
        !tc_type_is_float(tensor ? t->elem : t))
        return NULL;
    const tc_dim *one = tc_dim_const(s->cx, 1);
    const tc_type *f32 = tc_type_scalar(s->cx, TC_F32);
    const tc_type *type =
        tensor ? tc_type_shaped(s->cx, TC_TENSOR, t->rank, t->dims, f32)
               : tc_type_shaped(s->cx, TC_TENSOR, 1, &one, f32);
    return kernel_arg(s, tc_arena_printf(s->scratch, "grad.%s", captured->name),
                      type, captured->loc);
}

static void add_into(struct binder *s, tc_op *op, unsigned nown)
{
    const tc_func *f = tc_op_callee(op);
    const char **names =
        tc_arena_array(&s->m->arena, const char *, f->body->nargs);
    tc_value **in =
        tc_arena_array(s->scratch, tc_value *, op->nin + f->body->nargs);
    unsigned n = 0;
    memcpy(in, op->in, op->nin * sizeof *in);
    for (unsigned i = 1; i < f->body->nargs; i++) {
        if (!is_captured(op->in[i], nown))
            continue;
        tc_value *arg = gradient_arg(s, op->in[i]);
        if (!arg)
            continue;
        names[n] = f->body->args[i]->name;
        in[op->nin + n++] = arg;
    }
    tc_op *with = tc_op_new(op->func, TC_VJP, op->loc, op->nin + n, in, 0);
    tc_op_set_fastmath(with, tc_op_own_fastmath(op));
    tc_op_set_word(with, "callee", tc_op_word(op, "callee"));
    if (n)
        tc_op_set_attr(
            with, "into",
            (tc_attr){.kind = TC_ATTR_STRINGS, .n = n, .strings = names});
    if (n && !tc_dim_is(tc_op_attr(op, "accumulate")->dims[0], 1))
        tc_op_set_attr(with, "accumulate", *tc_op_attr(op, "accumulate"));
    tc_call_replace(op, with);
}

/* The clause accumulate, which is a number by now, becomes into. */
static bool resolve_accumulate(struct binder *s, tc_region *r, unsigned nown)
{
    tc_each_nested_first (op, r) {
        if (op->code != TC_VJP || !tc_op_has_attr(op, "accumulate"))
            continue;
        const tc_dim *d = tc_op_attr(op, "accumulate")->dims[0];
        if (d->kind != TC_DIM_CONST || d->value < 0 || d->value > 3)
            return tc_error(s->cx, op->loc,
                            "bind-params: accumulate is %lld, expected 0 to 3",
                            (long long)d->value);
        if (d->value == 0)
            tc_op_set_attr(op, "accumulate", (tc_attr){0});
        else
            add_into(s, op, nown);
    }
    return true;
}

/* And the plans, which launch them. */
static bool erase_other_kernels(struct binder *s)
{
    bool any = false;
    for (tc_func *f = s->m->first, *next; f; f = next) {
        next = f->next;
        if (f->is_plan || (f->is_kernel && f != s->kernel)) {
            tc_func_erase(f);
            any = true;
        }
    }
    return any;
}

/* Is it a side on which results do not depend? */
static bool is_block(const tc_func *kernel, const tc_value *v)
{
    const tc_op *dim = tc_match_op(v, TC_DIM);
    const tc_dim *d = dim ? tc_op_attr(dim, "value")->dims[0] : NULL;
    for (unsigned i = 0; d && d->kind == TC_DIM_PARAM && i < kernel->nparams;
         i++)
        if (kernel->params[i].name == d->name)
            return kernel->params[i].is_block;
    return false;
}

/* Programs that count blocks of such a side: %id * BM, %id / n * BM. */
static void mark_movable(const tc_func *kernel)
{
    tc_each_op (op, kernel->body) {
        if (op->code != TC_MUL || !is_block(kernel, op->in[1]))
            continue;
        const tc_op *div = tc_match_op(op->in[0], TC_DIV);
        tc_op *id = tc_match_op(div ? div->in[0] : op->in[0], TC_PROGRAM_ID);
        if (id)
            tc_op_set_attr(id, "movable",
                           (tc_attr){.kind = TC_ATTR_BOOL, .i = 1});
    }
}

/* ---- The parts ---- */

static bool bind_kernel(struct binder *s)
{
    if (!tc_inline_inheriting(s->m, s->kernel, s->env, &s->changed))
        return false;
    s->changed |= s->kernel->ntune > 0;
    s->kernel->ntune = 0;
    if (s->kernel->nparams == 0)
        return true;
    mark_movable(s->kernel);
    tc_substitute_region(s->kernel->grid, &s->types);
    tc_substitute_region(s->kernel->body, &s->types);
    unsigned nown = s->kernel->body->nargs;
    if (!bind_calls(s))
        return false;
    if (!resolve_accumulate(s, s->kernel->body, nown))
        return false;
    s->kernel->nparams = 0;
    s->kernel->params = NULL;
    return true;
}

static struct binder new_binder(tc_func *f, const tc_parameters *p,
                                tc_pass_env *env)
{
    return (struct binder){.cx = env->cx,
                           .env = env,
                           .scratch = env->scratch,
                           .m = f->module,
                           .kernel = f,
                           .bindings = p->all,
                           .nbindings = p->n,
                           .loc = p->loc};
}

bool tc_bind_params_value(tc_func *f, const tc_parameters *p, tc_pass_env *env,
                          tc_bindings *types, const tc_func *const **funcs)
{
    struct binder s = new_binder(f, p, env);
    bool ok = bind_all(&s);
    *types = s.types;
    *funcs = s.funcs;
    return ok;
}

bool tc_bind_params_kernel(tc_func *f, const tc_parameters *p, tc_pass_env *env)
{
    struct binder s = new_binder(f, p, env);
    return bind_all(&s) && bind_kernel(&s);
}

tc_change tc_pass_bind_params(tc_module *m, tc_pass_env *env)
{
    const tc_pass_options *o = env->options;
    struct binder s = {.cx = env->cx,
                       .env = env,
                       .scratch = env->scratch,
                       .m = m,
                       .bindings = o->bindings,
                       .nbindings = o->nbindings};
    if (!find_kernel(&s, o->kernel) || !bind_all(&s))
        return TC_FAILED;
    bool erased = erase_other_kernels(&s);
    bool bound = s.kernel->nparams > 0;
    if (!bind_kernel(&s))
        return TC_FAILED;
    erased |= tc_erase_inheriting(m);
    return erased || bound || s.changed ? TC_CHANGED : TC_UNCHANGED;
}
