/* SPDX-License-Identifier: Apache-2.0
 *
 * Reverse mode over a function of scalars.
 *
 *   func @soft_cap(%s: f32, %cap: f32) -> f32 {
 *     %r = rcp %cap : f32
 *     %x = mul %s, %r : f32
 *     %t = tanh %x : f32
 *     %y = mul %cap, %t : f32
 *     return %y
 *   }
 *
 * becomes: the ops of the function, then from the last op to the first the
 * contribution of each op to the adjoints (the derivatives of the result) of
 * its operands
 *
 *   func @soft_cap.vjp(%s: f32, %cap: f32, %seed: f32) -> f32 {
 *     ..
 *     %0 = mul %seed, %cap : f32           adjoint of %t
 *     %1 = fma (neg %t), %t, 1.0 : f32
 *     %2 = mul %0, %1 : f32                adjoint of %x
 *     %3 = mul %2, %r : f32                adjoint of %s
 *     return %3
 *   }
 *
 * Only values that depend on a differentiated parameter (active values) have an
 * adjoint. An `if` is reversed by another `if`, which computes the values of
 * the branch again. A `for` is reversed step by step; the values carried into a
 * step are computed again from the beginning, so that nothing has to be kept
 * (values that no adjoint needs are removed).
 *
 * If the gradient of a captured value is wanted, its contributions are further
 * results; sums.c adds them up.
 */
#include "passes/grad/reverse.h"

#include "passes/analysis/match.h"
#include "passes/bind/exact_sums.h"
#include "passes/bind/inline.h"

#include <string.h>

struct gradient {
    tc_pass_env *env;
    tc_context *cx;
    tc_arena *scratch;
    tc_func *f; /* differentiated */
    const char *name;
    tc_loc wanted;    /* the vjp */
    const bool *also; /* by parameter: a gradient is wanted for it too */
    unsigned nsites;
    tc_gradient_site *sites;
    tc_scatter scatter;
    unsigned nscattered;
    unsigned *scattered;
    tc_value *path; /* under which condition; NULL: always */
    tc_adjoints a;
};

/* ---- Adjoints ---- */

bool tc_is_active(const tc_adjoints *a, const tc_value *v)
{
    return tc_map_get(&a->active, v) != NULL;
}

tc_value *tc_adjoint(const tc_adjoints *a, const tc_value *v)
{
    return tc_map_get(&a->sums, v);
}

void tc_adjoint_add(tc_adjoints *a, tc_value *v, tc_value *g)
{
    tc_value *sum = tc_adjoint(a, v);
    if (sum)
        g = tc_build_binary(&a->b, TC_ADD, sum, g);
    tc_map_set(&a->sums, v, g);
}

static bool cannot(const struct gradient *s, const tc_op *op, const char *why)
{
    tc_error(s->cx, op->loc, "differentiate: %s in @%s has no gradient: %s",
             tc_op_name(op), s->name, why);
    tc_note(s->cx, s->wanted, "vjp is here");
    return false;
}

/* ---- Preparation ---- */

/* Effects happen in the call, not in its gradient. */
static bool drop_effects(const struct gradient *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (!tc_op_has(op, TC_WRITES) || op->code == TC_ASSUME)
            continue;
        if (op->code != TC_ASSERT && op->code != TC_PRINT)
            return cannot(s, op, "it writes to memory");
        tc_op_erase(op);
    }
    return true;
}

/* ---- Forward ---- */

static tc_value *now(const tc_value *v)
{
    return v->data;
}

static tc_value *zero(struct gradient *s, const tc_value *like)
{
    return tc_build_float(&s->a.b, like->type, 0.0);
}

/* All but the terminator. */
static void clone_ops(struct gradient *s, tc_region *r)
{
    tc_each_op (op, r)
        if (!tc_op_has(op, TC_TERMINATOR))
            tc_op_insert(tc_op_clone(s->a.b.func, op), s->a.b.region,
                         s->a.b.before);
}

/* ---- Back through regions ---- */

static bool reverse_region(struct gradient *s, tc_region *r);

/* The adjoints of an op's results; NULL where they are zero. */
static bool result_adjoints(struct gradient *s, const tc_op *op, tc_value ***g)
{
    bool any = false;
    *g = tc_arena_array(s->scratch, tc_value *, op->nout);
    for (unsigned i = 0; i < op->nout; i++) {
        (*g)[i] = tc_adjoint(&s->a, op->out[i]);
        any |= (*g)[i] != NULL;
    }
    return any;
}

/* The branch again, and back. `inner`: adjoints of the outers. */
static bool reverse_branch(struct gradient *s, tc_region *r, tc_value **g,
                           tc_outers *o, tc_value ***inner)
{
    const tc_op *yield = tc_region_terminator(r);
    clone_ops(s, r);
    tc_outers_set_aside(&s->a, o);
    for (unsigned i = 0; i < yield->nin; i++)
        if (g[i] && tc_is_active(&s->a, yield->in[i]))
            tc_adjoint_add(&s->a, yield->in[i], g[i]);
    bool ok = reverse_region(s, r);
    *inner = tc_outers_take_back(&s->a, o);
    return ok;
}

static void end_branch(struct gradient *s, tc_region *r, const tc_outers *o,
                       const bool *used, tc_value *const *inner)
{
    tc_builder outside = s->a.b;
    tc_value **in = tc_arena_array(s->scratch, tc_value *, o->n);
    unsigned n = 0;
    s->a.b = tc_builder_at_end(r, outside.loc);
    for (unsigned i = 0; i < o->n; i++)
        if (used[i])
            in[n++] = inner[i] ? inner[i] : zero(s, o->all[i]);
    tc_build_yield(&s->a.b, n, in);
    s->a.b = outside;
}

/* Does the reverse of the region add to memory? */
static bool scatters(const struct gradient *s, const tc_region *r)
{
    tc_each_nested (op, r) {
        if (op->code == TC_GATHER && tc_is_active(&s->a, op->in[0]))
            return true;
    }
    return false;
}

/* Without a branch, as lanes may differ in the condition and nothing may be
 * added to memory under it: both ways, of which one counts. */
static bool reverse_both(struct gradient *s, tc_op *op, tc_value **g,
                         tc_outers *o)
{
    tc_builder *b = &s->a.b;
    tc_value *outside = s->path, *condition = now(op->in[0]), **inner;
    for (unsigned k = 0; k < 2; k++) {
        tc_value *taken = k ? tc_build_unary(b, TC_NOT, condition) : condition;
        s->path = outside ? tc_build_binary(b, TC_AND, outside, taken) : taken;
        if (!reverse_branch(s, op->regions[k], g, o, &inner))
            return false;
        for (unsigned i = 0; i < o->n; i++) {
            if (!inner[i])
                continue;
            tc_value *none = zero(s, inner[i]);
            tc_adjoint_add(&s->a, o->all[i],
                           tc_build_select(b, taken, inner[i], none));
        }
    }
    s->path = outside;
    return true;
}

static bool reverse_if(struct gradient *s, tc_op *op)
{
    tc_value **g, **inner[2], *condition = now(op->in[0]);
    if (!result_adjoints(s, op, &g))
        return true;
    tc_outers o = tc_outers_of(&s->a, op);
    if (scatters(s, op->regions[0]) || scatters(s, op->regions[1]))
        return reverse_both(s, op, g, &o);
    tc_builder outside = s->a.b;
    tc_op *back = tc_op_new(outside.func, TC_IF, op->loc, 1, &condition, 2);
    for (unsigned i = 0; i < 2; i++) {
        s->a.b = tc_builder_at_end(back->regions[i], op->loc);
        if (!reverse_branch(s, op->regions[i], g, &o, &inner[i]))
            return false;
    }
    s->a.b = outside;
    bool *used = tc_arena_array(s->scratch, bool, o.n);
    const tc_type **types = tc_arena_array(s->scratch, const tc_type *, o.n);
    unsigned n = 0;
    for (unsigned i = 0; i < o.n; i++) {
        used[i] = inner[0][i] || inner[1][i];
        if (used[i])
            types[n++] = o.all[i]->type;
    }
    for (unsigned i = 0; i < 2; i++)
        end_branch(s, back->regions[i], &o, used, inner[i]);
    tc_op_set_results(back, n, types);
    tc_op_insert(back, outside.region, outside.before);
    n = 0;
    for (unsigned i = 0; i < o.n; i++)
        if (used[i])
            tc_adjoint_add(&s->a, o.all[i], back->out[n++]);
    return true;
}

/* ---- Back through loops ---- */

static tc_value *int64(struct gradient *s, int64_t value)
{
    return tc_build_int(&s->a.b, tc_type_scalar(s->cx, TC_I64), value);
}

static tc_value *cast_to(struct gradient *s, tc_value *v, const tc_type *type)
{
    return v->type == type ? v : tc_build(&s->a.b, TC_CAST, 1, &v, type);
}

/* How many steps a loop takes, as i64: (hi - lo) / step, rounded up. */
static tc_value *steps_of(struct gradient *s, const tc_op *op)
{
    const tc_type *i64 = tc_type_scalar(s->cx, TC_I64);
    tc_value *lo = cast_to(s, now(op->in[0]), i64);
    tc_value *hi = cast_to(s, now(op->in[1]), i64);
    tc_value *step = cast_to(s, now(op->in[2]), i64);
    /* -floor(-n / step) */
    tc_value *n = tc_build_binary(
        &s->a.b, TC_DIV, tc_build_binary(&s->a.b, TC_SUB, lo, hi), step);
    n = tc_build_unary(&s->a.b, TC_NEG, n);
    tc_value *none = int64(s, 0);
    tc_value *runs =
        tc_build_binary(&s->a.b, TC_AND, tc_build_cmp(&s->a.b, "lt", lo, hi),
                        tc_build_cmp(&s->a.b, "lt", none, step));
    return tc_build_select(&s->a.b, runs, n, none);
}

/* The induction variable in step `index`. */
static tc_value *counter_at(struct gradient *s, const tc_op *op,
                            tc_value *index)
{
    tc_value *lo = now(op->in[0]), *step = now(op->in[2]);
    tc_value *i = cast_to(s, index, lo->type);
    return tc_build_binary(&s->a.b, TC_ADD, lo,
                           tc_build_binary(&s->a.b, TC_MUL, i, step));
}

/* `for %i = 0 to n` with the cursor in it. */
static tc_op *open_loop(struct gradient *s, tc_loc loc, tc_value *n,
                        unsigned ncarried, tc_value *const *init)
{
    tc_builder *b = &s->a.b;
    b->loc = loc;
    tc_value **in = tc_arena_array(s->scratch, tc_value *, 3 + ncarried);
    const tc_type **types =
        tc_arena_array(s->scratch, const tc_type *, ncarried);
    in[0] = int64(s, 0);
    in[1] = n;
    in[2] = int64(s, 1);
    for (unsigned i = 0; i < ncarried; i++) {
        in[3 + i] = init[i];
        types[i] = init[i]->type;
    }
    tc_op *loop = tc_op_new(b->func, TC_FOR, loc, 3 + ncarried, in, 1);
    tc_region_add_arg(loop->regions[0], n->type, NULL, loc);
    for (unsigned i = 0; i < ncarried; i++)
        tc_region_add_arg(loop->regions[0], types[i], NULL, loc);
    tc_op_set_results(loop, ncarried, types);
    tc_op_insert(loop, b->region, b->before);
    *b = tc_builder_at_end(loop->regions[0], loc);
    return loop;
}

/* The values that the loop carries into step `index`, computed from the
 * beginning; they stand for the region's arguments then. */
static void replay_steps(struct gradient *s, tc_op *op, tc_value *index)
{
    tc_region *body = op->regions[0];
    tc_value **init = tc_arena_array(s->scratch, tc_value *, op->nout);
    tc_builder outside = s->a.b;
    for (unsigned i = 0; i < op->nout; i++)
        init[i] = now(op->in[3 + i]);
    tc_op *loop = open_loop(s, op->loc, index, op->nout, init);
    body->args[0]->data = counter_at(s, op, loop->regions[0]->args[0]);
    for (unsigned i = 0; i < op->nout; i++)
        body->args[1 + i]->data = loop->regions[0]->args[1 + i];
    clone_ops(s, body);
    const tc_op *yield = tc_region_terminator(body);
    tc_value **next = tc_arena_array(s->scratch, tc_value *, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        next[i] = now(yield->in[i]);
    tc_build_yield(&s->a.b, op->nout, next);
    outside.loc = op->loc;
    s->a.b = outside;
    for (unsigned i = 0; i < op->nout; i++)
        body->args[1 + i]->data = loop->out[i];
}

/* One step again, and back: from the adjoints of what it yields (`args` of
 * the reverse loop) to those of what it was given. */
static bool reverse_step(struct gradient *s, tc_op *op, tc_op *back,
                         tc_value *steps, tc_outers *o)
{
    tc_region *body = op->regions[0], *r = back->regions[0];
    const tc_op *yield = tc_region_terminator(body);
    tc_value *index = tc_build_binary(
        &s->a.b, TC_SUB, tc_build_binary(&s->a.b, TC_SUB, steps, int64(s, 1)),
        r->args[0]);
    replay_steps(s, op, index);
    body->args[0]->data = counter_at(s, op, index);
    clone_ops(s, body);
    tc_outers_set_aside(&s->a, o);
    unsigned n = 0;
    for (unsigned i = 0; i < op->nout; i++) {
        tc_value *arg = body->args[1 + i];
        if (!tc_is_active(&s->a, arg))
            continue;
        tc_value *g = r->args[1 + n++];
        if (tc_is_active(&s->a, yield->in[i]))
            tc_adjoint_add(&s->a, yield->in[i], g);
    }
    if (!reverse_region(s, body))
        return false;
    tc_value **next = tc_arena_array(s->scratch, tc_value *, n + o->n);
    n = 0;
    for (unsigned i = 0; i < op->nout; i++) {
        tc_value *arg = body->args[1 + i], *g = tc_adjoint(&s->a, arg);
        if (tc_is_active(&s->a, arg))
            next[n++] = g ? g : zero(s, arg);
    }
    tc_value **inner = tc_outers_take_back(&s->a, o);
    for (unsigned i = 0; i < o->n; i++, n++) {
        tc_value *sum = r->args[1 + n];
        next[n] =
            inner[i] ? tc_build_binary(&s->a.b, TC_ADD, sum, inner[i]) : sum;
    }
    tc_build_yield(&s->a.b, n, next);
    return true;
}

static bool reverse_for(struct gradient *s, tc_op *op)
{
    tc_value **g;
    if (!result_adjoints(s, op, &g))
        return true;
    tc_outers o = tc_outers_of(&s->a, op);
    tc_value *steps = steps_of(s, op);
    tc_value **init = tc_arena_array(s->scratch, tc_value *, op->nout + o.n);
    unsigned n = 0;
    for (unsigned i = 0; i < op->nout; i++)
        if (tc_is_active(&s->a, op->regions[0]->args[1 + i]))
            init[n++] = g[i] ? g[i] : zero(s, op->out[i]);
    for (unsigned i = 0; i < o.n; i++)
        init[n++] = zero(s, o.all[i]);
    tc_builder outside = s->a.b;
    tc_op *back = open_loop(s, op->loc, steps, n, init);
    if (!reverse_step(s, op, back, steps, &o))
        return false;
    s->a.b = outside;
    n = 0;
    for (unsigned i = 0; i < op->nout; i++) {
        bool active = tc_is_active(&s->a, op->regions[0]->args[1 + i]);
        if (active && tc_is_active(&s->a, op->in[3 + i]))
            tc_adjoint_add(&s->a, op->in[3 + i], back->out[n]);
        n += active;
    }
    for (unsigned i = 0; i < o.n; i++)
        tc_adjoint_add(&s->a, o.all[i], back->out[n++]);
    return true;
}

/* ---- Back through all ops ---- */

/* The tensor among the arguments that takes what is added for `param`. */
static tc_value *scatter_arg(struct gradient *s, const tc_value *param)
{
    tc_region *body = s->a.b.func->body;
    unsigned first = s->f->body->nargs + 1;
    for (unsigned i = 0; i < s->nscattered; i++)
        if (s->scattered[i] == param->index)
            return body->args[first + i];
    const tc_type *t = param->type;
    t = s->scatter == TC_SCATTER_BINS
            ? tc_exact_bins(s->cx, t)
            : tc_type_shaped(s->cx, TC_TENSOR, t->rank, t->dims,
                             tc_type_scalar(s->cx, TC_F32));
    s->scattered[s->nscattered++] = param->index;
    return tc_region_add_arg(
        body, t,
        tc_string_get(s->cx,
                      tc_arena_printf(s->scratch, "grad.%s", param->name)),
        param->loc);
}

/* The adjoint of an element read from a tensor: at a site it is the site's
 * contribution, elsewhere it is added to memory at once. */
static void reverse_gather(struct gradient *s, tc_op *op)
{
    tc_value *g = tc_adjoint(&s->a, op->out[0]);
    for (unsigned i = 0; i < s->nsites; i++)
        if (s->sites[i].gather == op)
            return;
    if (!g || s->scatter == TC_SCATTER_NONE)
        return;
    tc_value **at = tc_arena_array(s->scratch, tc_value *, op->nin);
    for (unsigned i = 1; i < op->nin; i++)
        at[i - 1] = now(op->in[i]);
    g = cast_to(s, g, tc_type_scalar(s->cx, TC_F32));
    tc_value *seed = s->a.b.func->body->args[s->f->body->nargs];
    tc_gradient_scatter(&s->a.b, scatter_arg(s, op->in[0]), op->nin - 1, at,
                        tc_gradient_guard(&s->a, seed, g), s->path);
}

static const char *why_not(const tc_op *op)
{
    if (op->code == TC_WHILE)
        return "how many steps it takes is not known before; use a `for` with "
               "enough steps, without break_if, and select inside";
    if (op->code == TC_TAKE)
        return "elements are taken from a tile; gather them from a tensor";
    if (op->code == TC_BITCAST)
        return "bits are no number; use `cast`";
    return "it has no derivative in score functions";
}

static bool reverse_op(struct gradient *s, tc_op *op)
{
    tc_value **g;
    s->a.b.loc = op->loc;
    if (op->code == TC_IF)
        return reverse_if(s, op);
    if (op->code == TC_FOR)
        return reverse_for(s, op);
    /* To ints too, from which a float may come back. */
    if (op->code == TC_BITCAST && tc_is_active(&s->a, op->in[0]))
        return cannot(s, op, why_not(op));
    if (op->code == TC_GATHER && tc_is_active(&s->a, op->in[0])) {
        reverse_gather(s, op);
        return true;
    }
    if (!result_adjoints(s, op, &g))
        return true;
    bool active = false;
    for (unsigned i = 0; i < op->nin; i++)
        active |= tc_is_active(&s->a, op->in[i]);
    if (!active)
        return true;
    bool scalar = op->nout == 1 && tc_type_is_scalar(op->out[0]->type);
    return (scalar && tc_gradient_rule(&s->a, op, g[0])) ||
           cannot(s, op, why_not(op));
}

static bool reverse_region(struct gradient *s, tc_region *r)
{
    for (tc_op *op = r->last; op; op = op->prev)
        if (!tc_op_has(op, TC_TERMINATOR) && !reverse_op(s, op))
            return false;
    return true;
}

/* ---- The function ---- */

static const char *free_name(struct gradient *s)
{
    const char *name = tc_arena_printf(s->scratch, "%s.vjp", s->name);
    for (unsigned i = 2; tc_func_find(s->f->module, name); i++)
        name = tc_arena_printf(s->scratch, "%s.vjp_%u", s->name, i);
    return tc_string_get(s->cx, name);
}

static tc_func *new_func(struct gradient *s)
{
    tc_region *from = s->f->body;
    tc_func *d = tc_func_new(s->f->module, free_name(s), false, s->f->loc);
    d->fastmath = s->f->fastmath;
    for (unsigned i = 0; i < from->nargs; i++) {
        tc_value *arg = from->args[i];
        arg->data = tc_region_add_arg(d->body, arg->type, arg->name, arg->loc);
    }
    tc_region_add_arg(d->body, s->f->results[0], "seed", s->f->loc);
    tc_func_append(s->f->module, d);
    return d;
}

/* The contributions of the sites; sites without a contribution are dropped. */
static unsigned add_contributions(struct gradient *s, tc_value **out)
{
    tc_region *from = s->f->body;
    const tc_type *f32 = tc_type_scalar(s->cx, TC_F32);
    unsigned n = 0;
    for (unsigned i = 0; i < s->nsites; i++) {
        const tc_gradient_site *site = &s->sites[i];
        tc_value *g = tc_adjoint(&s->a, site->gather ? site->gather->out[0]
                                                     : from->args[site->param]);
        if (!g)
            continue;
        tc_value *seed = s->a.b.func->body->args[from->nargs];
        out[n] = cast_to(s, tc_gradient_guard(&s->a, seed, g), f32);
        s->sites[n++] = *site;
    }
    s->nsites = n;
    return n;
}

static void finish(struct gradient *s, tc_func *d)
{
    tc_arena *a = &d->module->arena;
    tc_value *first = s->f->body->args[0];
    tc_value **out = tc_arena_array(s->scratch, tc_value *, 1 + s->nsites);
    tc_value *g = tc_adjoint(&s->a, first);
    out[0] = g ? g : zero(s, first);
    unsigned n = 1 + add_contributions(s, out + 1);
    tc_op *ret = tc_op_new(d, TC_RETURN, s->f->loc, n, out, 0);
    tc_op_insert(ret, d->body, NULL);
    const tc_type **types = tc_arena_array(a, const tc_type *, n);
    for (unsigned i = 0; i < n; i++)
        types[i] = out[i]->type;
    d->nresults = n;
    d->results = types;
}

/* So that it reads as one would write it. */
static bool tidy(struct gradient *s, tc_func *d)
{
    static tc_func_pass *const passes[] = {tc_pass_canonicalize, tc_pass_cse,
                                           tc_pass_dce};
    for (unsigned i = 0; i < sizeof passes / sizeof *passes; i++)
        if (passes[i](d, s->env) == TC_FAILED)
            return false;
    return true;
}

static void activate_params(struct gradient *s)
{
    tc_region *body = s->f->body;
    for (unsigned i = 0; i < body->nargs; i++)
        if (i == 0 || s->also[i])
            tc_map_set(&s->a.active, body->args[i], body->args[i]);
}

bool tc_gradient_build(tc_pass_env *env, tc_func *f, const char *name,
                       tc_loc loc, const bool *wanted, tc_scatter scatter,
                       tc_gradient *out)
{
    struct gradient s = {.env = env,
                         .cx = env->cx,
                         .scratch = env->scratch,
                         .f = f,
                         .name = name,
                         .wanted = loc,
                         .also = wanted,
                         .scatter = scatter};
    s.a.active.arena = s.a.sums.arena = env->scratch;
    s.scattered = tc_arena_array(env->scratch, unsigned, f->body->nargs);
    if (!tc_inline_calls(f, env) || !drop_effects(&s, f->body) || !tidy(&s, f))
        return false;
    if (!tc_gradient_find_sites(env, f, name, wanted, &s.nsites, &s.sites)) {
        tc_note(s.cx, loc, "vjp is here");
        return false;
    }
    tc_func *d = new_func(&s);
    activate_params(&s);
    tc_gradient_activate(&s.a, f->body);
    s.a.b = tc_builder_at_end(d->body, f->loc);
    clone_ops(&s, f->body);
    const tc_op *ret = tc_region_terminator(f->body);
    if (tc_is_active(&s.a, ret->in[0]))
        tc_adjoint_add(&s.a, ret->in[0], d->body->args[d->body->nargs - 1]);
    if (!reverse_region(&s, f->body))
        return false;
    finish(&s, d);
    tc_func_erase(f);
    *out = (tc_gradient){d, s.nsites, s.nscattered, s.sites, s.scattered};
    return tidy(&s, d);
}
