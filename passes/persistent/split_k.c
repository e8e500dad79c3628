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
 * With split(auto) the plan computes the number of pieces from the sizes of the
 * launch (split_k_pieces.c), and launches the kernel as it was if that is 1.
 * Tests: test/ir/passes/split-k, test/machine/split_k.py.
 */
#include "passes/persistent/split_k.h"

#include "ir/plan.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/bind/bind_params.h"

#include <string.h>

static const char split_clause[] = "kernel.split";

struct split {
    tc_pass_env *env;
    tc_func *kernel;
    unsigned pieces; /* or TC_SPLIT_AUTO */
};

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

static tc_op *loop_of(const tc_func *f)
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

/* carry(%x0 = ..) { .. yield %x0 + .. } of an f32 tile of two axes. */
static bool is_sum(const tc_op *loop, unsigned i)
{
    const tc_region *step = loop->regions[0];
    const tc_op *yield = tc_region_terminator(step);
    const tc_type *t = loop->out[i]->type;
    if (t->kind != TC_TILE || t->rank != 2 || t->elem->kind != TC_F32)
        return false;
    const tc_value *v = sum_with(step->args[1 + i]);
    while (v && v->def->parent == step && v->uses && v->uses->op != yield)
        v = sum_with(v);
    return v && v->def->parent == step && tc_value_has_one_use(v) &&
           v->uses->op == yield && v->uses->index == i;
}

/* A callee's own ops; of a function parameter nothing is known, and a mod
 * computes. */
static bool has_effect(const tc_op *op)
{
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

/* Why programs cannot share its loop; NULL: they can. With `computed` the
 * number of pieces must follow from the launch's sizes. */
static const char *why_not_split(const tc_func *f, bool computed)
{
    const tc_op *loop = loop_of(f);
    const tc_op *yield = f->grid ? tc_region_terminator(f->grid) : NULL;
    if (!loop)
        return "no loop of its body holds a product";
    if (!yield || yield->nin >= TC_GRID_AXES)
        return "its grid has 3 axes, expected a free one for the pieces";
    if (next_loop(loop->next))
        return "several loops hold products";
    for (unsigned i = 0; i < loop->nout; i++)
        if (!is_sum(loop, i))
            return "its loop carries more than f32 sums of two axes";
    if (tc_op_any(loop, has_effect))
        return "its loop does more than sum";
    for (const tc_op *op = f->body->first; op != loop; op = op->next)
        if (tc_op_any(op, has_effect))
            return "something has an effect before its loop";
    for (unsigned i = 0; computed && i < 3; i++)
        if (!is_given(loop->in[i], 0))
            return "the launch's sizes do not say how many steps its loop has";
    return NULL;
}

/* ---- What is asked for ---- */

/* What the kernel's text or the bindings ask for: a number of pieces,
 * TC_SPLIT_AUTO, or 0, none. */
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
    return f->is_kernel && asked &&
           (asked != TC_SPLIT_AUTO || !why_not_split(f, true));
}

/* ---- Values ---- */

static const tc_type *i32_of(const tc_builder *b)
{
    return tc_type_scalar(b->func->module->cx, TC_I32);
}

static tc_value *build_dim(tc_builder *b, const tc_dim *d)
{
    tc_op *op = tc_op_new(b->func, TC_DIM, b->loc, 0, NULL, 0);
    tc_op_set_dims(op, "value", 1, &d);
    return tc_build_op(b, op, NULL);
}

/* x / y, rounded up; neither is negative. */
static tc_value *build_parts_of(tc_builder *b, tc_value *x, tc_value *y)
{
    tc_value *less = tc_build_with(b, TC_SUB, y, 1);
    return tc_build_binary(b, TC_DIV, tc_build_binary(b, TC_ADD, x, less), y);
}

/* Steps of a loop from lo to hi. */
static tc_value *build_steps(tc_builder *b, tc_value *const in[3])
{
    tc_value *n = tc_build_binary(b, TC_SUB, in[1], in[0]);
    n = tc_build_with(b, TC_MAX, n, 0);
    return build_parts_of(b, n, in[2]);
}

/* Of this program among those of the grid's first n axes, and how many they
 * are. */
static tc_value *build_tile(tc_builder *b, unsigned n, tc_value **tiles)
{
    tc_value *at = tc_build_at(b, TC_PROGRAM_ID, NULL, "axis", 0);
    *tiles = tc_build_at(b, TC_NUM_PROGRAMS, NULL, "axis", 0);
    for (unsigned i = 1; i < n; i++) {
        tc_value *more = tc_build_binary(
            b, TC_MUL, tc_build_at(b, TC_PROGRAM_ID, NULL, "axis", i), *tiles);
        at = tc_build_binary(b, TC_ADD, at, more);
        *tiles =
            tc_build_binary(b, TC_MUL, *tiles,
                            tc_build_at(b, TC_NUM_PROGRAMS, NULL, "axis", i));
    }
    return at;
}

/* The rows of `parts` that hold a piece of the sum `type`. */
static tc_value *build_window(tc_builder *b, tc_value *parts,
                              const tc_type *type, tc_value *piece,
                              tc_value *tiles, tc_value *tile)
{
    tc_value *at = tc_build_binary(b, TC_MUL, piece, tiles);
    at = tc_build_binary(b, TC_ADD, at, tile);
    at = tc_build_binary(b, TC_MUL, at, build_dim(b, type->dims[0]));
    tc_value *in[] = {parts, at, tc_build_int(b, i32_of(b), 0)};
    tc_op *block = tc_op_new(b->func, TC_BLOCK, b->loc, 3, in, 0);
    tc_op_set_dims(block, "sides", 2, type->dims);
    return tc_build_op(b, block, NULL);
}

/* ---- The kernels ---- */

static const char *free_name(struct split *s, const char *suffix)
{
    tc_module *m = s->kernel->module;
    const char *name =
        tc_arena_printf(&m->arena, "%s_%s", s->kernel->name, suffix);
    while (tc_func_find(m, name))
        name = tc_arena_printf(&m->arena, "%s_", name);
    return name;
}

static unsigned naxes_of(const tc_func *f)
{
    return tc_region_terminator(f->grid)->nin;
}

static tc_value *add_arg(tc_func *f, const tc_type *type, const char *name)
{
    if (f->grid)
        tc_region_add_arg(f->grid, type, name, f->loc);
    return tc_region_add_arg(f->body, type, name, f->loc);
}

static const tc_type *parts_type(tc_context *cx)
{
    const tc_dim *any[2] = {NULL, NULL};
    return tc_type_shaped(cx, TC_TENSOR, 2, any, tc_type_scalar(cx, TC_F32));
}

/* A copy with %pieces and %parts. The first of these arguments is *own. */
static tc_func *copy_of(struct split *s, const char *suffix, unsigned *own)
{
    tc_context *cx = s->env->cx;
    tc_func *f = tc_func_clone(s->kernel, free_name(s, suffix));
    unsigned n = loop_of(f)->nout;
    tc_func_append(f->module, f);
    f->split = 0;
    *own = f->body->nargs;
    add_arg(f, tc_type_scalar(cx, TC_I32), "pieces");
    for (unsigned i = 0; i < n; i++)
        add_arg(f, parts_type(cx),
                n == 1 ? "parts"
                       : tc_arena_printf(&f->module->arena, "parts%u", i));
    return f;
}

/* The steps that the piece has, and 0 as the beginning of its sums. */
static void narrow_loop(tc_op *loop, tc_value *piece, tc_value *pieces)
{
    tc_builder b = tc_builder_before(loop);
    const tc_type *t = loop->in[0]->type;
    tc_value *steps = build_steps(&b, loop->in);
    piece = tc_build_cast(&b, piece, t->kind);
    pieces = tc_build_cast(&b, pieces, t->kind);
    tc_value *share = build_parts_of(&b, steps, pieces);
    tc_value *first = tc_build_binary(
        &b, TC_MIN, tc_build_binary(&b, TC_MUL, piece, share), steps);
    tc_value *last = tc_build_binary(
        &b, TC_MIN, tc_build_binary(&b, TC_ADD, first, share), steps);
    tc_value *lo = loop->in[0], *ends[] = {first, last};
    for (unsigned i = 0; i < 2; i++)
        ends[i] = tc_build_binary(
            &b, TC_ADD, lo, tc_build_binary(&b, TC_MUL, ends[i], loop->in[2]));
    tc_op_set_in(loop, 0, ends[0]);
    tc_op_set_in(loop, 1, tc_build_binary(&b, TC_MIN, ends[1], loop->in[1]));
    for (unsigned i = 0; i < loop->nout; i++)
        tc_op_set_in(loop, 3 + i,
                     tc_build_const(&b, loop->out[i]->type, (tc_scalar){0}));
}

static void erase_after(tc_op *loop)
{
    tc_region *r = loop->parent;
    tc_op *end = tc_region_terminator(r);
    for (tc_op *op = end ? end->prev : r->last, *prev; op != loop; op = prev) {
        prev = op->prev;
        tc_op_erase(op);
    }
}

static void add_axis(tc_func *f, tc_value *n)
{
    tc_op *yield = tc_region_terminator(f->grid);
    tc_value *in[TC_GRID_AXES];
    tc_builder b = tc_builder_before(yield);
    for (unsigned i = 0; i < yield->nin; i++)
        in[i] = yield->in[i];
    in[yield->nin] = n;
    tc_build_yield(&b, yield->nin + 1, in);
    tc_op_erase(yield);
}

static tc_func *make_parts(struct split *s)
{
    unsigned own, axis = naxes_of(s->kernel);
    tc_func *f = copy_of(s, "parts", &own);
    tc_op *loop = loop_of(f);
    tc_builder b = tc_builder_before(loop);
    tc_value *tiles,
        *piece = tc_build_at(&b, TC_PROGRAM_ID, NULL, "axis", axis);
    tc_value *const *args = &f->body->args[own];
    piece->name = "piece";
    erase_after(loop);
    narrow_loop(loop, piece, args[0]);
    b = (tc_builder){
        .func = f, .region = f->body, .before = loop->next, .loc = loop->loc};
    tc_value *tile = build_tile(&b, axis, &tiles);
    for (unsigned i = 0; i < loop->nout; i++) {
        tc_value *in[] = {build_window(&b, args[1 + i], loop->out[i]->type,
                                       piece, tiles, tile),
                          loop->out[i]};
        tc_build_effect(&b, TC_STORE, 2, in);
    }
    add_axis(f, f->grid->args[own]);
    /* Several on an SM if they fit, and the next kernel starts meanwhile. */
    f->tiles = f->tiles ? f->tiles : TC_TILES_NONE;
    f->early = true;
    return f;
}

/* The sums of the pieces, in their order, in place of the loop. */
static void add_parts(tc_op *loop, tc_value *const *args, unsigned naxes)
{
    tc_builder b = tc_builder_before(loop);
    const tc_type *i32 = i32_of(&b);
    tc_arena *a = &b.func->module->arena;
    unsigned n = loop->nout;
    tc_value *tiles, *tile = build_tile(&b, naxes, &tiles);
    tc_value **in = tc_arena_array(a, tc_value *, 3 + n);
    const tc_type **types = tc_arena_array(a, const tc_type *, n);
    in[0] = tc_build_int(&b, i32, 0);
    in[1] = args[0];
    in[2] = tc_build_int(&b, i32, 1);
    for (unsigned i = 0; i < n; i++) {
        in[3 + i] = loop->in[3 + i];
        types[i] = loop->out[i]->type;
    }
    tc_op *merge = tc_op_new(b.func, TC_FOR, b.loc, 3 + n, in, 1);
    tc_region *step = merge->regions[0];
    tc_value *piece = tc_region_add_arg(step, i32, "piece", b.loc);
    for (unsigned i = 0; i < n; i++)
        tc_region_add_arg(step, types[i], loop->regions[0]->args[1 + i]->name,
                          b.loc);
    tc_op_set_results(merge, n, types);
    tc_op_insert(merge, b.region, b.before);
    tc_builder at = tc_builder_at_end(step, b.loc);
    tc_value **sums = tc_arena_array(a, tc_value *, n);
    for (unsigned i = 0; i < n; i++) {
        tc_value *window =
            build_window(&at, args[1 + i], types[i], piece, tiles, tile);
        tc_value *part = tc_build(&at, TC_LOAD, 1, &window, NULL);
        sums[i] = tc_build_binary(&at, TC_ADD, step->args[1 + i], part);
    }
    tc_build_yield(&at, n, sums);
    for (unsigned i = 0; i < n; i++) {
        merge->out[i]->name = loop->out[i]->name;
        tc_value_replace(loop->out[i], merge->out[i]);
    }
    tc_op_erase(loop);
}

static tc_func *make_merge(struct split *s)
{
    unsigned own;
    tc_func *f = copy_of(s, "merge", &own);
    add_parts(loop_of(f), &f->body->args[own], naxes_of(f));
    f->tiles = TC_TILES_ANY;
    f->raster = TC_RASTER_ANY;
    f->early = true;
    return f;
}

/* ---- The plan ---- */

static void build_launch(tc_builder *b, const tc_func *kernel, unsigned n,
                         tc_value *const *in)
{
    tc_op *op = tc_op_new(b->func, TC_LAUNCH, b->loc, n, in, 0);
    tc_op_set_results(op, 0, NULL);
    tc_op_set_word(
        op, "callee",
        tc_arena_printf(&b->func->module->arena, "@%s", kernel->name));
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

/* A scalar of the kernel's body that is_given, in the plan. */
static tc_value *build_given(tc_builder *b, tc_value *v)
{
    if (v->data)
        return v->data;
    if (!v->def)
        return v->data = b->func->body->args[v->index];
    for (unsigned i = 0; i < v->def->nin; i++)
        build_given(b, v->def->in[i]);
    tc_op_insert(tc_op_clone(b->func, v->def), b->region, b->before);
    return v->data;
}

static tc_value *build_pieces(struct split *s, tc_builder *b, tc_value *tiles)
{
    const tc_op *loop = loop_of(s->kernel);
    tc_value *in[3];
    if (s->pieces != TC_SPLIT_AUTO)
        return tc_build_int(b, tiles->type, s->pieces);
    tc_region_clear_data(s->kernel->body);
    for (unsigned i = 0; i < 3; i++)
        in[i] = build_given(b, loop->in[i]);
    tc_region_clear_data(s->kernel->body);
    tc_value *steps = tc_build_cast(b, build_steps(b, in), tiles->type->kind);
    return tc_build_pieces(b, s->kernel, s->env, loop, tiles, steps);
}

/* Workspace for the sums, then both kernels. */
static void build_both(tc_builder *b, struct split *s, tc_value *tiles,
                       tc_value *pieces)
{
    const tc_op *loop = loop_of(s->kernel);
    tc_region *body = b->func->body;
    unsigned n = body->nargs;
    tc_value **in =
        tc_arena_array(&b->func->module->arena, tc_value *, n + 1 + loop->nout);
    memcpy(in, body->args, n * sizeof *in);
    in[n] = pieces;
    tc_value *parts = tc_build_binary(b, TC_MUL, tiles, pieces);
    for (unsigned i = 0; i < loop->nout; i++) {
        const tc_type *t = loop->out[i]->type;
        tc_value *sizes[] = {
            tc_build_binary(b, TC_MUL, parts, build_dim(b, t->dims[0])),
            build_dim(b, t->dims[1])};
        in[n + 1 + i] =
            tc_build(b, TC_WORKSPACE, 2, sizes, parts_type(s->env->cx));
        in[n + 1 + i]->name = "parts";
    }
    n += 1 + loop->nout;
    build_launch(b, make_parts(s), n, in);
    build_launch(b, make_merge(s), n, in);
}

/* if more than one piece { .. } else { the kernel as it was } */
static void build_choice(tc_builder *b, struct split *s, tc_func *whole,
                         tc_value *tiles, tc_value *pieces)
{
    tc_value *more =
        tc_build_cmp(b, "gt", pieces, tc_build_int(b, pieces->type, 1));
    tc_op *choice = tc_op_new(b->func, TC_IF, b->loc, 1, &more, 2);
    tc_op_set_results(choice, 0, NULL);
    tc_op_insert(choice, b->region, b->before);
    tc_builder yes = tc_builder_at_end(choice->regions[0], b->loc);
    tc_builder no = tc_builder_at_end(choice->regions[1], b->loc);
    build_both(&yes, s, tiles, pieces);
    tc_build_yield(&yes, 0, NULL);
    build_launch(&no, whole, b->func->body->nargs, b->func->body->args);
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

static void make_plan(struct split *s)
{
    tc_func *kernel = s->kernel, *plan = new_plan(kernel);
    tc_builder b = tc_builder_at_end(plan->body, kernel->loc);
    tc_value *tiles = build_tiles(&b, kernel);
    tc_value *pieces = build_pieces(s, &b, tiles);
    pieces->name = pieces->name ? pieces->name : "pieces";
    kernel->split = 0;
    if (s->pieces == TC_SPLIT_AUTO) {
        tc_func *whole = tc_func_clone(kernel, free_name(s, "whole"));
        tc_func_append(kernel->module, whole);
        build_choice(&b, s, whole, tiles, pieces);
    } else {
        build_both(&b, s, tiles, pieces);
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
    struct split s = {.env = env, .kernel = find_kernel(m, o->kernel)};
    if (!s.kernel || !split_asked(s.kernel, o->bindings, o->nbindings))
        return TC_UNCHANGED;
    tc_parameters given = {o->bindings, o->nbindings, s.kernel->loc};
    if (!tc_bind_params_kernel(s.kernel, &given, env))
        return TC_FAILED;
    s.pieces = s.kernel->split;
    bool computed = s.pieces == TC_SPLIT_AUTO;
    const char *why = why_not_split(s.kernel, computed);
    if (why) {
        tc_error(env->cx, s.kernel->loc, "@%s: split(%s): %s", s.kernel->name,
                 computed ? "auto"
                          : tc_arena_printf(env->scratch, "%u", s.pieces),
                 why);
        return TC_FAILED;
    }
    erase_plans(m);
    make_plan(&s);
    return TC_CHANGED;
}
