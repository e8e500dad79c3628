/* SPDX-License-Identifier: Apache-2.0
 *
 * bind-plan: binds the compile-time parameters of one plan, and makes a kernel
 * without parameters for each of its launches.
 *
 *   plan @p[T: type, FAST: int = 1,
 *           mod: func(f32) -> f32](%x: tensor<[?] x T>) {
 *     %c = dim FAST : i32
 *     ...
 *     if %fast {                        // FAST != 0
 *       launch @k[BM=64, mod=mod](%x)
 *       launch @k[BM=128, mod=mod](%x)
 *     } else {
 *       launch @slow(%x)
 *     }
 *
 * with T=bf16 and mod=@f becomes
 *
 *   plan @p(%x: tensor<[?] x bf16>) {
 *     launch @k(%x)                     // its T follows from %x
 *     launch @k_1(%x)
 *
 * Launches with the same values share a kernel. Kernels, branches and plans
 * that no launch uses are removed.
 *
 * Tests: test/ir/passes/bind-plan.
 */
#include "ir/base/limits.h"
#include "ir/eval/eval.h"
#include "ir/given.h"
#include "ir/plan.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/substitute.h"
#include "passes/bind/bind_params.h"
#include "passes/bind/inline.h"

#include <string.h>

/* A kernel with values for its parameters. */
struct instance {
    const tc_func *from;
    tc_func *kernel; /* `from` itself, or a copy */
    tc_parameters params;
    struct instance *next;
};

struct planner {
    tc_context *cx;
    tc_pass_env *env;
    tc_module *m;
    tc_func *plan;
    const tc_func *const *funcs; /* of the plan's func parameters, by index */
    struct instance *first, **end;
    unsigned ninstances;
};

static const tc_loc nowhere;

/* ---- Which plan ---- */

static bool find_plan(struct planner *p, const char *name)
{
    name += name && *name == '@';
    tc_each_func (f, p->m) {
        if (!f->is_plan || (name && strcmp(f->name, name) != 0))
            continue;
        if (p->plan)
            return tc_error(p->cx, f->loc,
                            "bind-plan: there are several plans (@%s, "
                            "@%s), say which",
                            p->plan->name, f->name);
        p->plan = f;
    }
    return p->plan || tc_error(p->cx, nowhere,
                               name ? "bind-plan: there is no plan @%s"
                                    : "bind-plan: there is no plan",
                               name);
}

/* ---- Branches that are decided ---- */

/* The number, if it follows from constants and parameters, not from an argument
 * of the plan. */
static bool known(const tc_value *v, unsigned depth, tc_scalar *out)
{
    enum { DEEPEST = 64 };
    tc_scalar in[3];
    const tc_op *op = v->def;
    if (!op || !tc_op_has(op, TC_PURE) || op->nin > 3 || depth == DEEPEST)
        return false;
    for (unsigned i = 0; i < op->nin; i++)
        if (!known(op->in[i], depth + 1, &in[i]))
            return false;
    return tc_eval_op(op, in, out);
}

static void decide_branches(tc_region *r);

static void take_branch(tc_op *op, tc_region *taken)
{
    tc_region_move_before(taken, op);
    tc_op_erase(op);
}

static void decide_branches(tc_region *r)
{
    tc_each_nested_first (op, r) {
        tc_scalar condition;
        if (op->code == TC_IF && known(op->in[0], 0, &condition))
            take_branch(op, op->regions[condition.i ? 0 : 1]);
    }
}

/* ---- The values of a launch ---- */

/* The plan's type or function itself, where the launch names a parameter of the
 * plan. */
static const char *bound_word(struct planner *p, const tc_bindings *types,
                              const char *word)
{
    for (unsigned i = 0; i < types->n; i++) {
        if (strcmp(types->names[i], word) != 0)
            continue;
        if (types->types[i])
            return tc_type_name(p->cx, types->types[i]);
        if (p->funcs[i])
            return tc_string_get(p->cx, tc_arena_printf(p->env->scratch, "@%s",
                                                        p->funcs[i]->name));
    }
    return word;
}

static void substitute_words(struct planner *p, tc_region *r,
                             const tc_bindings *types)
{
    tc_arena *a = &p->m->arena;
    tc_each_nested_first (op, r) {
        if (op->code != TC_LAUNCH || !tc_op_has_attr(op, "words"))
            continue;
        tc_attr words = *tc_op_attr(op, "words");
        const char **bound = tc_arena_array(a, const char *, words.n);
        for (unsigned i = 0; i < words.n; i++)
            bound[i] = bound_word(p, types, words.strings[i]);
        words.strings = bound;
        tc_op_set_attr(op, "words", words);
    }
}

static const char *func_of(struct planner *p, const tc_op *launch,
                           const tc_param *param)
{
    const char *given = tc_given_func(launch, param->name);
    if (given)
        return given;
    return param->symbol
               ? tc_arena_printf(p->env->scratch, "@%s", param->symbol)
               : NULL;
}

/* The parameter's value as text; NULL: it is neither given nor inferred, so the
 * kernel's default holds. */
static const char *value_of(struct planner *p, const tc_op *launch,
                            const tc_param *param, tc_bindings *b, unsigned i)
{
    tc_text out = {.arena = &p->m->arena};
    if (!b->dims[i] && param->dim)
        b->dims[i] = tc_dim_substitute(p->cx, param->dim, b);
    if (!b->types[i] && param->type)
        b->types[i] = tc_type_substitute(p->cx, param->type, b);
    if (b->dims[i])
        tc_dim_print(&out, b->dims[i]);
    else if (b->types[i])
        tc_type_print(&out, b->types[i]);
    else
        return func_of(p, launch, param);
    return out.data;
}

static bool read_launch(struct planner *p, const tc_op *launch,
                        struct instance *to)
{
    const tc_func *f = tc_launch_kernel(launch);
    tc_bindings b = tc_bindings_of(p->env->scratch, f);
    if (!tc_launch_bind(launch, f, &b))
        return false;
    tc_binding *all = tc_arena_array(p->env->scratch, tc_binding, f->nparams);
    *to = (struct instance){.from = f, .params = {all, 0, launch->loc}};
    for (unsigned i = 0; i < f->nparams; i++) {
        const char *value = value_of(p, launch, &f->params[i], &b, i);
        if (value)
            all[to->params.n++] = (tc_binding){f->params[i].name, value};
    }
    return true;
}

/* ---- Kernels for launches ---- */

static bool is_same(const struct instance *a, const struct instance *b)
{
    if (a->from != b->from || a->params.n != b->params.n)
        return false;
    for (unsigned i = 0; i < a->params.n; i++)
        if (strcmp(a->params.all[i].value, b->params.all[i].value) != 0)
            return false;
    return true;
}

static const struct instance *find_instance(struct planner *p, tc_func *f,
                                            const struct instance *wanted)
{
    bool is_taken = false;
    for (const struct instance *i = p->first; i; i = i->next) {
        if (is_same(i, wanted))
            return i;
        is_taken |= i->from == f;
    }
    struct instance *new = tc_arena_new(p->env->scratch, struct instance);
    *new = *wanted;
    new->kernel = is_taken ? tc_kernel_copy(f) : f;
    *p->end = new;
    p->end = &new->next;
    p->ninstances++;
    return new;
}

static bool choose_kernels(struct planner *p, tc_region *r)
{
    tc_each_nested_first (op, r) {
        struct instance wanted;
        if (op->code != TC_LAUNCH)
            continue;
        if (!read_launch(p, op, &wanted))
            return false;
        const struct instance *i =
            find_instance(p, tc_launch_kernel(op), &wanted);
        if (p->ninstances > TC_MOST_KERNELS)
            return tc_error(p->cx, op->loc,
                            "launch: the plan needs more than %u kernels, one "
                            "for each set of values for their parameters: pass "
                            "sizes as arguments, or make it several plans",
                            TC_MOST_KERNELS);
        tc_op_set_word(
            op, "callee",
            tc_arena_printf(p->env->scratch, "@%s", i->kernel->name));
        tc_op_set_attr(op, "params", (tc_attr){0});
        tc_op_set_attr(op, "sizes", (tc_attr){0});
        tc_op_set_attr(op, "words", (tc_attr){0});
    }
    return true;
}

static bool is_used(const struct planner *p, const tc_func *f)
{
    for (const struct instance *i = p->first; i; i = i->next)
        if (i->kernel == f)
            return true;
    return false;
}

static void erase_unused(struct planner *p)
{
    for (tc_func *f = p->m->first, *next; f; f = next) {
        next = f->next;
        if ((f->is_plan && f != p->plan) || (f->is_kernel && !is_used(p, f)))
            tc_func_erase(f);
    }
}

tc_change tc_pass_bind_plan(tc_module *m, tc_pass_env *env)
{
    const tc_pass_options *o = env->options;
    struct planner p = {.cx = env->cx, .env = env, .m = m};
    tc_parameters given = {o->bindings, o->nbindings, nowhere};
    tc_bindings types;
    p.end = &p.first;
    if (!find_plan(&p, o->kernel))
        return TC_FAILED;
    if (p.plan->from_split)
        given.n = 0; /* split-k has bound its kernels */
    /* Errors in the plan as written are found here: after this the bindings of
     * launches are gone. */
    if (!tc_func_verify(p.plan) ||
        !tc_bind_params_value(p.plan, &given, env, &types, &p.funcs))
        return TC_FAILED;
    tc_substitute_region(p.plan->body, &types);
    substitute_words(&p, p.plan->body, &types);
    p.plan->nparams = 0;
    p.plan->params = NULL;
    decide_branches(p.plan->body);
    /* Copies are made of kernels that are not bound yet. */
    if (!choose_kernels(&p, p.plan->body))
        return TC_FAILED;
    for (struct instance *i = p.first; i; i = i->next)
        if (!tc_bind_params_kernel(i->kernel, &i->params, env))
            return TC_FAILED;
    erase_unused(&p);
    tc_erase_inheriting(m);
    return TC_CHANGED;
}
