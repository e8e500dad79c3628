/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of split K: one whose programs sum pieces of tiles, and one that
 * adds them (the head of split_k.c shows both), and what those of stream K have
 * in common with them.
 */
#include "passes/persistent/split_k.h"

#include "passes/analysis/match.h"

/* ---- Values ---- */

static const tc_type *i32_of(const tc_builder *b)
{
    return tc_type_scalar(b->func->module->cx, TC_I32);
}

tc_value *tc_split_build_dim(tc_builder *b, const tc_dim *d)
{
    tc_op *op = tc_op_new(b->func, TC_DIM, b->loc, 0, NULL, 0);
    tc_op_set_dims(op, "value", 1, &d);
    return tc_build_op(b, op, NULL);
}

tc_value *tc_split_cdiv(tc_builder *b, tc_value *x, tc_value *y)
{
    tc_value *less = tc_build_with(b, TC_SUB, y, 1);
    return tc_build_binary(b, TC_DIV, tc_build_binary(b, TC_ADD, x, less), y);
}

tc_value *tc_split_build_steps(tc_builder *b, tc_value *const in[3])
{
    tc_value *n = tc_build_binary(b, TC_SUB, in[1], in[0]);
    n = tc_build_with(b, TC_MAX, n, 0);
    return tc_split_cdiv(b, n, in[2]);
}

tc_value *tc_split_build_given(tc_builder *b, tc_value *v)
{
    if (v->data)
        return v->data;
    if (!v->def)
        return v->data = b->func->body->args[v->index];
    for (unsigned i = 0; i < v->def->nin; i++)
        tc_split_build_given(b, v->def->in[i]);
    tc_op_insert(tc_op_clone(b->func, v->def), b->region, b->before);
    return v->data;
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

tc_value *tc_split_window(tc_builder *b, tc_value *parts, const tc_type *sum,
                          tc_value *at)
{
    at = tc_build_binary(b, TC_MUL, at, tc_split_build_dim(b, sum->dims[0]));
    tc_value *in[] = {parts, at, tc_build_int(b, i32_of(b), 0)};
    tc_op *block = tc_op_new(b->func, TC_BLOCK, b->loc, 3, in, 0);
    tc_op_set_dims(block, "sides", 2, sum->dims);
    return tc_build_op(b, block, NULL);
}

/* ---- Copies of the kernel ---- */

const char *tc_split_free_name(tc_split *s, const char *suffix)
{
    tc_module *m = s->kernel->module;
    const char *name =
        tc_arena_printf(&m->arena, "%s_%s", s->kernel->name, suffix);
    while (tc_func_find(m, name))
        name = tc_arena_printf(&m->arena, "%s_", name);
    return name;
}

static tc_value *add_arg(tc_func *f, const tc_type *type, const char *name)
{
    if (f->grid)
        tc_region_add_arg(f->grid, type, name, f->loc);
    return tc_region_add_arg(f->body, type, name, f->loc);
}

const tc_type *tc_split_parts_type(tc_context *cx)
{
    const tc_dim *any[2] = {NULL, NULL};
    return tc_type_shaped(cx, TC_TENSOR, 2, any, tc_type_scalar(cx, TC_F32));
}

tc_func *tc_split_copy(tc_split *s, const char *suffix, unsigned n,
                       const char *const *names, unsigned *own)
{
    tc_context *cx = s->env->cx;
    tc_func *f = tc_func_clone(s->kernel, tc_split_free_name(s, suffix));
    unsigned nsums = tc_split_loop(f)->nout;
    tc_func_append(f->module, f);
    f->split = 0;
    *own = f->body->nargs;
    for (unsigned i = 0; i < n; i++)
        add_arg(f, tc_type_scalar(cx, TC_I32), names[i]);
    for (unsigned i = 0; i < nsums; i++)
        add_arg(f, tc_split_parts_type(cx),
                nsums == 1 ? "parts"
                           : tc_arena_printf(&f->module->arena, "parts%u", i));
    return f;
}

void tc_split_narrow_loop(tc_op *loop, tc_value *first, tc_value *last)
{
    tc_builder b = tc_builder_before(loop);
    tc_kind kind = loop->in[0]->type->kind;
    tc_value *lo = loop->in[0], *ends[] = {tc_build_cast(&b, first, kind),
                                           tc_build_cast(&b, last, kind)};
    for (unsigned i = 0; i < 2; i++)
        ends[i] = tc_build_binary(
            &b, TC_ADD, lo, tc_build_binary(&b, TC_MUL, ends[i], loop->in[2]));
    tc_op_set_in(loop, 0, ends[0]);
    tc_op_set_in(loop, 1, tc_build_binary(&b, TC_MIN, ends[1], loop->in[1]));
}

void tc_split_add_parts(tc_op *loop, tc_value *const *parts, tc_value *from,
                        tc_value *to, tc_split_place *place, void *data)
{
    tc_builder b = tc_builder_before(loop);
    const tc_type *i32 = i32_of(&b);
    tc_arena *a = &b.func->module->arena;
    unsigned n = loop->nout;
    tc_value **in = tc_arena_array(a, tc_value *, 3 + n);
    const tc_type **types = tc_arena_array(a, const tc_type *, n);
    in[0] = from;
    in[1] = to;
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
    tc_value *number = place(&at, piece, data);
    tc_value **sums = tc_arena_array(a, tc_value *, n);
    for (unsigned i = 0; i < n; i++) {
        tc_value *window = tc_split_window(&at, parts[i], types[i], number);
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

/* ---- The kernels of pieces ---- */

static const char *const piece_arguments[] = {"pieces"};

static unsigned naxes_of(const tc_func *f)
{
    return tc_region_terminator(f->grid)->nin;
}

/* The steps that the piece has, and 0 as the beginning of its sums. */
static void take_piece(tc_op *loop, tc_value *piece, tc_value *pieces)
{
    tc_builder b = tc_builder_before(loop);
    tc_value *steps =
        tc_build_cast(&b, tc_split_build_steps(&b, loop->in), TC_I32);
    tc_value *share = tc_split_cdiv(&b, steps, pieces);
    tc_value *first = tc_build_binary(
        &b, TC_MIN, tc_build_binary(&b, TC_MUL, piece, share), steps);
    tc_value *last = tc_build_binary(
        &b, TC_MIN, tc_build_binary(&b, TC_ADD, first, share), steps);
    tc_split_narrow_loop(loop, first, last);
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

/* Of the piece of this tile. */
static tc_value *build_place(tc_builder *b, tc_value *piece, tc_value *tiles,
                             tc_value *tile)
{
    return tc_build_binary(b, TC_ADD, tc_build_binary(b, TC_MUL, piece, tiles),
                           tile);
}

tc_func *tc_split_make_parts(tc_split *s)
{
    unsigned own, axis = naxes_of(s->kernel);
    tc_func *f = tc_split_copy(s, "parts", 1, piece_arguments, &own);
    tc_op *loop = tc_split_loop(f);
    tc_builder b = tc_builder_before(loop);
    tc_value *tiles,
        *piece = tc_build_at(&b, TC_PROGRAM_ID, NULL, "axis", axis);
    tc_value *const *args = &f->body->args[own];
    piece->name = "piece";
    erase_after(loop);
    take_piece(loop, piece, args[0]);
    b = (tc_builder){
        .func = f, .region = f->body, .before = loop->next, .loc = loop->loc};
    tc_value *tile = build_tile(&b, axis, &tiles);
    tc_value *at = build_place(&b, piece, tiles, tile);
    for (unsigned i = 0; i < loop->nout; i++) {
        const tc_type *t = loop->out[i]->type;
        tc_value *in[] = {tc_split_window(&b, args[1 + i], t, at),
                          loop->out[i]};
        tc_build_effect(&b, TC_STORE, 2, in);
    }
    add_axis(f, f->grid->args[own]);
    /* Several on an SM if they fit, and the next kernel starts meanwhile. */
    f->tiles = f->tiles ? f->tiles : TC_TILES_NONE;
    f->early = true;
    return f;
}

static tc_value *place_of_piece(tc_builder *b, tc_value *piece, void *data)
{
    tc_value *const *tile = data;
    return build_place(b, piece, tile[1], tile[0]);
}

tc_func *tc_split_make_merge(tc_split *s)
{
    unsigned own;
    tc_func *f = tc_split_copy(s, "merge", 1, piece_arguments, &own);
    tc_op *loop = tc_split_loop(f);
    tc_builder b = tc_builder_before(loop);
    tc_value *const *args = &f->body->args[own];
    tc_value *tile[2];
    tile[0] = build_tile(&b, naxes_of(f), &tile[1]);
    tc_split_add_parts(loop, args + 1, tc_build_int(&b, i32_of(&b), 0), args[0],
                       place_of_piece, tile);
    f->tiles = TC_TILES_ANY;
    f->raster = TC_RASTER_ANY;
    f->early = true;
    return f;
}
