/* SPDX-License-Identifier: Apache-2.0
 *
 * split-k: several programs share the loop of one tile, if the grid has too few
 * tiles for the GPU. Each sums a piece of the steps; the next kernel adds their
 * sums, always in the same order, and does the rest of the tile.
 *
 *   kernel @k(..) split(4) grid { .. yield %m, %n } {
 *     before
 *     %acc = for %k0 = %lo to %hi step %st carry(%acc0 = %init) {
 *       yield dot(.., %acc0)                   each carried value is such a sum
 *     }
 *     after
 *   }
 * becomes
 *   plan @k(..) {
 *     %tiles = %m * %n
 *     %parts = workspace %tiles * 4 * BM, BN : tensor<[?, ?] x f32>
 *     launch @k_parts(.., 4, %parts)
 *     launch @k_merge(.., 4, %parts)
 *   }
 *   kernel @k_parts(.., %pieces: i32, %parts) tiles(none) early
 *       grid { .. yield %m, %n, %pieces } {
 *     before
 *     %acc = for the steps of piece program_id(2) .. carry(%acc0 = 0) { .. }
 *     store %parts[(piece * %tiles + tile) * BM +: BM, 0 +: BN], %acc
 *   }
 *   kernel @k_merge(.., %pieces: i32, %parts) early grid { .. yield %m, %n } {
 *     before
 *     %acc = for %i = 0 to %pieces carry(%acc0 = %init) {
 *       %part = load %parts[(%i * %tiles + tile) * BM +: BM, 0 +: BN]
 *       yield %acc0 + %part
 *     }
 *     after
 *   }
 *
 * split(stream) deals equal shares of all steps instead (stream_k.c). With
 * split(auto) the plan computes the number of pieces from the sizes of the
 * launch (split_k_pieces.c), and launches the kernel as it was if that is 1.
 * Tests: test/ir/passes/split-k, test/machine/split_k.py.
 */
#include "passes/persistent/split_k.h"

#include "ir/plan.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/bind/bind_params.h"
#include "passes/bind/fold_grid.h"

#include <string.h>

static const char split_clause[] = "kernel.split";

/* ---- The loop ---- */

static bool is_dot(const tc_op *op)
{
    return op->code == TC_DOT;
}

static tc_op *next_loop(tc_op *op)
{
    while (op && !(op->code == TC_FOR && tc_op_any(op, is_dot)))
        op = op->next;
    return op;
}

tc_op *tc_split_loop(const tc_func *f)
{
    return next_loop(f->body->first);
}

/* The sum that v is the addend or accumulator of, if nothing else uses v. */
static const tc_value *sum_with(const tc_value *v)
{
    const tc_use *u = v->uses;
    if (!u || u->next)
        return NULL;
    bool adds = u->op->code == TC_ADD || (is_dot(u->op) && u->index == 2);
    return adds ? u->op->out[0] : NULL;
}

/* The kernel, and its bindings if its parameters are not bound yet. */
typedef struct candidate {
    const tc_func *f;
    const tc_binding *bindings;
    unsigned n;
} candidate;

/* Of an element type; a parameter's is the one that is given, or its default.
 */
static tc_kind kind_of(const candidate *c, const tc_type *t)
{
    for (unsigned i = c->f->nparams; i-- && t->kind == TC_TYPE_PARAM;) {
        const tc_param *p = &c->f->params[i];
        if (strcmp(p->name, t->name) != 0)
            continue;
        for (unsigned j = 0; j < c->n; j++)
            if (strcmp(c->bindings[j].name, p->name) == 0)
                return tc_kind_parse(c->bindings[j].value,
                                     strlen(c->bindings[j].value));
        t = p->type ? p->type : t;
    }
    return t->kind;
}

/* carry(%x0 = ..) { .. yield %x0 + .. } of an f32 tile of two axes. */
static bool is_sum(const candidate *c, const tc_op *loop, unsigned i)
{
    const tc_region *step = loop->regions[0];
    const tc_op *yield = tc_region_terminator(step);
    const tc_type *t = loop->out[i]->type;
    if (t->kind != TC_TILE || t->rank != 2 || kind_of(c, t->elem) != TC_F32)
        return false;
    const tc_value *v = sum_with(step->args[1 + i]);
    while (v && v->def->parent == step && v->uses && v->uses->op != yield)
        v = sum_with(v);
    return v && v->def->parent == step && tc_value_has_one_use(v) &&
           v->uses->op == yield && v->uses->index == i;
}

/* A callee's own ops; of a function parameter nothing is known, and a mod
 * computes. The end of a loop stays within it. */
static bool has_effect(const tc_op *op)
{
    if (op->code == TC_BREAK_IF)
        return false;
    const tc_func *callee = tc_op_callee(op);
    if (tc_op_is_call(op))
        return callee && tc_region_any(callee->body, has_effect);
    tc_effects e = tc_op_effects(op);
    return op->nregions == 0 && (e.stores || e.other);
}

static bool is_given(const tc_value *v, unsigned depth)
{
    enum { DEEPEST = 64 };
    if (!v->def)
        return !v->region->op && v->type->kind != TC_PTR;
    if (depth == DEEPEST || v->def->nregions || !tc_op_has(v->def, TC_PURE) ||
        v->def->code == TC_PROGRAM_ID || v->def->code == TC_NUM_PROGRAMS ||
        v->def->code == TC_BASE || !tc_type_is_scalar(v->type))
        return false;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (!is_given(v->def->in[i], depth + 1))
            return false;
    return true;
}

static bool may_break(const tc_op *loop)
{
    tc_each_op (op, loop->regions[0])
        if (op->code == TC_BREAK_IF)
            return true;
    return false;
}

/* Do functions that it calls ask for the program along grid axis `least` or
 * above? Its own ops are changed. */
static bool callees_ask(const tc_region *r, unsigned least)
{
    tc_each_nested (op, r) {
        const tc_func *callee = tc_op_callee(op);
        if (!callee)
            continue;
        tc_each_nested (inner, callee->body)
            if ((inner->code == TC_PROGRAM_ID ||
                 inner->code == TC_NUM_PROGRAMS) &&
                tc_op_int(inner, "axis") >= least)
                return true;
        if (callees_ask(callee->body, least))
            return true;
    }
    return false;
}

/* Must the launch's sizes say how many steps the loop has? */
static bool is_computed(unsigned pieces)
{
    return pieces == TC_SPLIT_AUTO || pieces == TC_SPLIT_STREAM;
}

/* Why programs cannot share its loop so; NULL: they can. */
static const char *why_not_split(const candidate *c, unsigned pieces)
{
    const tc_func *f = c->f;
    const tc_op *loop = tc_split_loop(f);
    const tc_op *yield = f->grid ? tc_region_terminator(f->grid) : NULL;
    if (!loop)
        return "no loop of its body holds a product";
    if (!yield || yield->nin >= TC_GRID_AXES)
        return "its grid has 3 axes, expected a free one for the pieces";
    if (next_loop(loop->next))
        return "several loops hold products";
    for (unsigned i = 0; i < loop->nout; i++)
        if (!is_sum(c, loop, i))
            return "its loop carries more than f32 sums of two axes";
    if (may_break(loop))
        return "break_if may end its loop before all steps";
    if (tc_op_any(loop, has_effect))
        return "its loop does more than sum";
    for (const tc_op *op = f->body->first; op != loop; op = op->next)
        if (tc_op_any(op, has_effect))
            return "something has an effect before its loop";
    if (callees_ask(f->body, pieces == TC_SPLIT_STREAM ? 0 : yield->nin))
        return "a function that it calls asks for the program's index: ask "
               "in the kernel, and hand it over";
    for (unsigned i = 0; is_computed(pieces) && i < 3; i++)
        if (!is_given(loop->in[i], 0))
            return "the launch's sizes do not say how many steps its loop has";
    return pieces == TC_SPLIT_STREAM ? tc_why_not_stream(f) : NULL;
}

/* ---- What is asked for ---- */

/* What the kernel's text or the bindings ask for: a number of pieces,
 * TC_SPLIT_STREAM, TC_SPLIT_AUTO, or 0, none. */
static unsigned split_asked(const tc_func *f, const tc_binding *bindings,
                            unsigned nbindings)
{
    for (unsigned i = 0; i < nbindings && !f->split; i++)
        if (strcmp(bindings[i].name, split_clause) == 0)
            return tc_split_parse(bindings[i].value);
    return f->split;
}

bool tc_splits(const tc_func *f, const tc_binding *bindings, unsigned nbindings)
{
    unsigned asked = split_asked(f, bindings, nbindings);
    candidate c = {f, bindings, nbindings};
    return f->is_kernel && asked &&
           (asked != TC_SPLIT_AUTO || !why_not_split(&c, TC_SPLIT_AUTO));
}

/* ---- The plan ---- */

void tc_split_build_launch(tc_builder *b, const tc_func *kernel, unsigned n,
                           tc_value *const *more)
{
    tc_arena *a = &b->func->module->arena;
    const tc_region *body = b->func->body;
    tc_value **in = tc_arena_array(a, tc_value *, body->nargs + n);
    memcpy(in, body->args, body->nargs * sizeof *in);
    if (n)
        memcpy(in + body->nargs, more, n * sizeof *in);
    tc_op *op = tc_op_new(b->func, TC_LAUNCH, b->loc, body->nargs + n, in, 0);
    tc_op_set_results(op, 0, NULL);
    tc_op_set_word(op, "callee", tc_arena_printf(a, "@%s", kernel->name));
    tc_op_insert(op, b->region, b->before);
}

/* Programs of the kernel's grid; its asserts come along. */
static tc_value *build_tiles(tc_builder *b, tc_func *kernel)
{
    tc_region *grid = kernel->grid;
    const tc_op *yield = tc_region_terminator(grid);
    tc_region_clear_data(grid);
    for (unsigned i = 0; i < grid->nargs; i++)
        grid->args[i]->data = b->func->body->args[i];
    for (tc_op *op = grid->first; op != yield; op = op->next)
        tc_op_insert(tc_op_clone(b->func, op), b->region, b->before);
    tc_value *n = yield->in[0]->data;
    for (unsigned i = 1; i < yield->nin; i++)
        n = tc_build_binary(b, TC_MUL, n, yield->in[i]->data);
    tc_region_clear_data(grid);
    return n;
}

/* Of the kernel's loop, in the plan. */
static tc_value *build_loop_steps(tc_split *s, tc_builder *b)
{
    const tc_op *loop = tc_split_loop(s->kernel);
    tc_value *in[3];
    tc_region_clear_data(s->kernel->body);
    for (unsigned i = 0; i < 3; i++)
        in[i] = tc_split_build_given(b, loop->in[i]);
    tc_region_clear_data(s->kernel->body);
    return tc_build_cast(b, tc_split_build_steps(b, in), TC_I32);
}

void tc_split_build_parts(tc_builder *b, const tc_op *loop, tc_value *n,
                          tc_value **parts)
{
    for (unsigned i = 0; i < loop->nout; i++) {
        const tc_type *t = loop->out[i]->type;
        tc_value *rows = tc_split_build_dim(b, t->dims[0]);
        tc_value *sizes[] = {tc_build_binary(b, TC_MUL, n, rows),
                             tc_split_build_dim(b, t->dims[1])};
        parts[i] = tc_build(b, TC_WORKSPACE, 2, sizes,
                            tc_split_parts_type(b->func->module->cx));
        parts[i]->name = "parts";
    }
}

/* Workspace for the sums, then both kernels. */
static void build_pieces(tc_builder *b, tc_split *s, tc_value *tiles,
                         tc_value *pieces)
{
    const tc_op *loop = tc_split_loop(s->kernel);
    tc_value **in =
        tc_arena_array(&b->func->module->arena, tc_value *, 1 + loop->nout);
    in[0] = pieces;
    tc_split_build_parts(b, loop, tc_build_binary(b, TC_MUL, tiles, pieces),
                         in + 1);
    tc_split_build_launch(b, tc_split_make_parts(s), 1 + loop->nout, in);
    tc_split_build_launch(b, tc_split_make_merge(s), 1 + loop->nout, in);
}

/* if pieces > 1 { pieces } else { the kernel as it was } */
static void build_choice(tc_builder *b, tc_split *s, const tc_split_launch *l,
                         tc_value *pieces)
{
    tc_func *whole = tc_func_clone(s->kernel, tc_split_free_name(s, "whole"));
    tc_func_append(s->kernel->module, whole);
    tc_value *one = tc_build_int(b, pieces->type, 1);
    tc_op *choice = tc_build_if(b, tc_build_cmp(b, "gt", pieces, one), 0, NULL);
    tc_builder yes = tc_builder_at_end(choice->regions[0], b->loc);
    tc_builder no = tc_builder_at_end(choice->regions[1], b->loc);
    build_pieces(&yes, s, l->tiles, pieces);
    tc_build_yield(&yes, 0, NULL);
    tc_split_build_launch(&no, whole, 0, NULL);
    tc_build_yield(&no, 0, NULL);
}

static tc_func *new_plan(tc_func *kernel)
{
    tc_func *plan =
        tc_func_new(kernel->module, kernel->name, false, kernel->loc);
    plan->is_plan = true;
    plan->from_split = true;
    for (unsigned i = 0; i < kernel->body->nargs; i++) {
        const tc_value *arg = kernel->body->args[i];
        tc_region_add_arg(plan->body, arg->type, arg->name, arg->loc);
    }
    return plan;
}

static void make_plan(tc_split *s)
{
    tc_func *kernel = s->kernel, *plan = new_plan(kernel);
    tc_fold_missing_axes(kernel);
    tc_builder b = tc_builder_at_end(plan->body, kernel->loc);
    tc_split_launch l = {.tiles = build_tiles(&b, kernel)};
    if (is_computed(s->pieces))
        l.steps = build_loop_steps(s, &b);
    kernel->split = 0;
    if (s->pieces == TC_SPLIT_STREAM) {
        tc_build_stream(&b, s, &l);
    } else {
        bool is_auto = s->pieces == TC_SPLIT_AUTO;
        tc_value *pieces = is_auto ? tc_build_pieces(&b, kernel, s->env,
                                                     tc_split_loop(kernel), &l)
                                   : tc_build_int(&b, l.tiles->type, s->pieces);
        pieces->name = pieces->name ? pieces->name : "pieces";
        if (is_auto)
            build_choice(&b, s, &l, pieces);
        else
            build_pieces(&b, s, l.tiles, pieces);
    }
    b = tc_builder_at_end(plan->body, kernel->loc);
    tc_build_effect(&b, TC_RETURN, 0, NULL);
    tc_func_erase(kernel);
    tc_func_append(kernel->module, plan);
}

/* They may launch the kernel by its name. */
static void erase_plans(tc_module *m)
{
    for (tc_func *f = m->first, *next; f; f = next) {
        next = f->next;
        if (f->is_plan)
            tc_func_erase(f);
    }
}

/* ---- All of it ---- */

/* The named kernel; without a name the only one that asks for it. */
static tc_func *find_kernel(const tc_module *m, const char *name)
{
    tc_func *found = NULL;
    name += name && *name == '@';
    tc_each_func (f, m) {
        if (!f->is_kernel || (name ? strcmp(f->name, name) != 0 : !f->split))
            continue;
        if (found)
            return NULL;
        found = f;
    }
    return found;
}

tc_change tc_pass_split_k(tc_module *m, tc_pass_env *env)
{
    const tc_pass_options *o = env->options;
    tc_split s = {.env = env, .kernel = find_kernel(m, o->kernel)};
    if (!s.kernel || !split_asked(s.kernel, o->bindings, o->nbindings))
        return TC_UNCHANGED;
    tc_parameters given = {o->bindings, o->nbindings, s.kernel->loc};
    if (!tc_bind_params_kernel(s.kernel, &given, env))
        return TC_FAILED;
    s.pieces = s.kernel->split;
    const char *why = why_not_split(&(candidate){.f = s.kernel}, s.pieces);
    if (why) {
        tc_error(env->cx, s.kernel->loc, "@%s: split(%s): %s", s.kernel->name,
                 tc_split_word(env->scratch, s.pieces), why);
        return TC_FAILED;
    }
    erase_plans(m);
    make_plan(&s);
    return TC_CHANGED;
}
