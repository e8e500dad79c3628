/* SPDX-License-Identifier: Apache-2.0
 *
 * The reads of captured tensors whose gradient is wanted. Each gather from such
 * a tensor is a site, with a function that computes its position:
 *
 *   %column = sub %k, %q : i32
 *   %v = gather %table, %h, %column : f32
 *
 *   func @bias.index(%h: i32, %q: i32, %k: i32) -> (i32, i32) {
 *     %column = sub %k, %q : i32
 *     return %h, %column
 *   }
 *
 * Sites in branches read before the branch: outside of the tensor a gather
 * reads the pad, so it may run unconditionally. A gather in a loop stays there,
 * and is no site.
 */
#include "passes/analysis/match.h"
#include "passes/grad/reverse.h"

struct finder {
    tc_pass_env *env;
    tc_func *f;
    const char *name;
    const bool *wanted;
    tc_gradient_site *sites;
    unsigned nsites;
};

static bool is_wanted(const struct finder *s, const tc_value *v)
{
    return !v->def && v->region == s->f->body && s->wanted[v->index];
}

/* ---- How it is used ---- */

static bool check_uses(const struct finder *s, const tc_value *tensor)
{
    tc_each_use (u, tensor) {
        tc_opcode code = u->op->code;
        if (code != TC_GATHER && code != TC_SIZE && code != TC_STRIDE)
            return tc_error(s->env->cx, u->op->loc,
                            "differentiate: %s in @%s has no gradient for %s, "
                            "expected elements of it: %s[..]",
                            tc_op_infos[code].name, s->name,
                            tc_value_name(s->env->cx, tensor),
                            tc_value_name(s->env->cx, tensor));
    }
    return true;
}

/* ---- Out of branches ---- */

static tc_op *top_of(const struct finder *s, tc_op *op)
{
    while (op->parent != s->f->body)
        op = op->parent->op;
    return op;
}

static bool is_in_loop(const struct finder *s, const tc_op *op)
{
    for (const tc_region *r = op->parent; r != s->f->body; r = r->op->parent)
        if (r->op->code != TC_IF)
            return true;
    return false;
}

static bool can_hoist(const struct finder *s, const tc_op *op)
{
    if (op->parent == s->f->body)
        return true;
    if (op->nregions || !(tc_op_has(op, TC_PURE) || op->code == TC_GATHER))
        return false;
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->def && !can_hoist(s, op->in[i]->def))
            return false;
    return true;
}

static void hoist(const struct finder *s, tc_op *op, tc_op *before)
{
    if (op->parent == s->f->body)
        return;
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->def)
            hoist(s, op->in[i]->def, before);
    tc_op_remove(op);
    tc_op_insert(op, s->f->body, before);
}

/* ---- Where it reads ---- */

static const char *free_name(const struct finder *s)
{
    tc_arena *a = s->env->scratch;
    const char *name = tc_arena_printf(a, "%s.index", s->name);
    for (unsigned i = 2; tc_func_find(s->f->module, name); i++)
        name = tc_arena_printf(a, "%s.index_%u", s->name, i);
    return tc_string_get(s->env->cx, name);
}

/* A new function of the ops up to the gather, which returns its indices. */
static tc_func *new_index(const struct finder *s, const tc_op *gather)
{
    tc_module *m = s->f->module;
    tc_func *at = tc_func_new(m, free_name(s), false, gather->loc);
    tc_region *from = s->f->body;
    unsigned n = gather->nin - 1;
    for (unsigned i = 0; i < from->nargs; i++) {
        tc_value *arg = from->args[i];
        arg->data = tc_region_add_arg(at->body, arg->type, arg->name, arg->loc);
    }
    for (tc_op *op = from->first; op != gather; op = op->next)
        tc_op_insert(tc_op_clone(at, op), at->body, NULL);
    tc_value **out = tc_arena_array(s->env->scratch, tc_value *, n);
    const tc_type **types = tc_arena_array(&m->arena, const tc_type *, n);
    for (unsigned i = 0; i < n; i++) {
        out[i] = gather->in[1 + i]->data;
        types[i] = out[i]->type;
    }
    tc_op_insert(tc_op_new(at, TC_RETURN, gather->loc, n, out, 0), at->body,
                 NULL);
    at->nresults = n;
    at->results = types;
    tc_func_append(m, at);
    return at;
}

/* Takes only the parameters that matter. False: dce failed. */
static bool narrow_index(const struct finder *s, tc_gradient_site *site)
{
    tc_region *body = site->at->body;
    unsigned *from = tc_arena_array(s->env->scratch, unsigned, body->nargs);
    if (tc_pass_dce(site->at, s->env) == TC_FAILED)
        return false;
    for (unsigned i = 0; i < body->nargs; i++)
        if (body->args[i]->uses)
            from[site->nfrom++] = i;
    for (unsigned i = body->nargs; i-- > 0;)
        if (!body->args[i]->uses)
            tc_region_remove_arg(body, i);
    site->from = from;
    return true;
}

/* ---- All of them ---- */

static void hoist_gathers(struct finder *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (op->code == TC_GATHER && is_wanted(s, op->in[0]) &&
            !is_in_loop(s, op) && can_hoist(s, op))
            hoist(s, op, top_of(s, op));
    }
}

static bool add_sites(struct finder *s)
{
    tc_region *body = s->f->body;
    for (unsigned i = 1; i < body->nargs; i++)
        if (s->wanted[i] && body->args[i]->type->kind != TC_TENSOR)
            s->sites[s->nsites++] = (tc_gradient_site){.param = i};
    tc_each_op (op, body) {
        if (op->code != TC_GATHER || !is_wanted(s, op->in[0]))
            continue;
        tc_gradient_site *site = &s->sites[s->nsites++];
        *site = (tc_gradient_site){
            .param = op->in[0]->index, .gather = op, .at = new_index(s, op)};
        if (!narrow_index(s, site))
            return false;
    }
    return true;
}

bool tc_gradient_find_sites(tc_pass_env *env, tc_func *f, const char *name,
                            const bool *wanted, unsigned *nsites,
                            tc_gradient_site **sites)
{
    struct finder s = {.env = env, .f = f, .name = name, .wanted = wanted};
    for (unsigned i = 0; i < f->body->nargs; i++)
        if (wanted[i] && f->body->args[i]->type->kind == TC_TENSOR &&
            !check_uses(&s, f->body->args[i]))
            return false;
    s.sites = tc_arena_array(env->scratch, tc_gradient_site,
                             f->body->nargs + tc_region_count(f->body));
    hoist_gathers(&s, f->body);
    if (!add_sites(&s))
        return false;
    *nsites = s.nsites;
    *sites = s.sites;
    return true;
}

/* ---- Zero where the seed is ---- */

/* Sums and products of the seed and of ints are 0 then by themselves. */
static bool is_tame(const tc_value *v, const tc_value *seed)
{
    const tc_op *op = v->def;
    if (v == seed || !tc_type_is_float(v->type))
        return true;
    if (!op)
        return false;
    switch (op->code) {
    case TC_CONST: return true;
    case TC_CAST:
    case TC_NEG: return is_tame(op->in[0], seed);
    case TC_ADD:
    case TC_SUB:
    case TC_MUL: return is_tame(op->in[0], seed) && is_tame(op->in[1], seed);
    case TC_SELECT: return is_tame(op->in[1], seed) && is_tame(op->in[2], seed);
    default: return false;
    }
}

tc_value *tc_gradient_guard(tc_adjoints *a, tc_value *seed, tc_value *g)
{
    if (is_tame(g, seed))
        return g;
    tc_value *zero = tc_build_float(&a->b, seed->type, 0.0);
    tc_value *none = tc_build_float(&a->b, g->type, 0.0);
    tc_value *is_zero = tc_build_cmp(&a->b, "eq", seed, zero);
    return tc_build_select(&a->b, is_zero, none, g);
}
