/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream K, split(stream): the waves of tiles before the last full one are
 * computed as ever, and the steps of all tiles after them are dealt to
 * programs in equal shares, so that no multiprocessor idles in a last wave
 * that is not full. A share begins and ends within a tile: its segments, one
 * for each tile that it has steps of, are items of the kernel like the tiles
 * before. Sums of segments that are not whole tiles go to the workspace, and
 * the next kernel adds them, always in the order of steps.
 *
 *      tiles 0..3  |  4 tiles after them, in equal shares
 *   program 0  [ 0 ]|[   4  ][5  >      4 programs, 9 tiles of which 5 are
 *   program 1  [ 1 ]|< 5][  6  ][>      dealt: a share is 5/4 of a tile
 *   program 2  [ 2 ]|< 6 ][ 7 >         < of a tile that an earlier program
 *   program 3  [ 3 ]|< 7][   8  ]         begins, > of one that a later ends
 *
 *   kernel @k(..) split(stream) grid { .. yield %m, %n } {
 *     before
 *     %acc = for %k0 = %lo to %hi step %st carry(%acc0 = %init) { .. }
 *     after
 *   }
 * becomes
 *   plan @k(..) {
 *     %whole = (%tiles / sms - 1) * sms      0 at least
 *     %units = (%tiles - %whole) * %steps
 *     %programs = min(sms, %units)
 *     %share = cdiv(%units, %programs)
 *     %items = %whole + %programs * (cdiv(%share, %steps) + 1)
 *     %parts = workspace %programs * 2 * BM, BN : tensor<[?, ?] x f32>
 *     launch @k_stream(.., %items, %whole, %share, %programs, %parts)
 *     launch @k_finish(.., %whole, %share, %parts)
 *   }
 *   kernel @k_stream(..) tiles(static) early grid { yield %items } {
 *     %tile, %first, %last of item program_id(0)
 *     before, of %tile
 *     %acc = for its steps %first to %last carry(%acc0 = %init or 0) { .. }
 *     if %last - %first == %steps { after }
 *     else if %last > %first { store %parts[..], %acc }
 *   }
 *   kernel @k_finish(..) early grid { yield %m * %n - %whole } {
 *     exit_if a single program had all its steps
 *     before
 *     %acc = for the programs of the tile carry(%acc0 = %init) { .. }
 *     after
 *   }
 *
 * Tiles are numbered as in a persistent kernel (rasterize.c). Tests:
 * test/ir/passes/split-k/stream.tile, test/machine/split_k.py.
 */
#include "passes/persistent/split_k.h"

#include "passes/analysis/match.h"
#include "passes/persistent/rasterize.h"
#include "passes/target/machine_model.h"

/* ---- What both kernels know ---- */

/* One of them in the making; its values are i32. */
typedef struct stream_kernel {
    tc_func *f;
    unsigned own;          /* parameters before those that it gets */
    tc_value *const *args; /* these, in its body */
    tc_builder b;
    tc_tile_order order;
    tc_value *steps; /* of a tile, 1 at least */
    tc_value *at;    /* program_id(0) */
} stream_kernel;

static tc_value *stream_sub(tc_builder *b, tc_value *x, tc_value *y)
{
    return tc_build_binary(b, TC_SUB, x, y);
}

static tc_value *stream_add(tc_builder *b, tc_value *x, tc_value *y)
{
    return tc_build_binary(b, TC_ADD, x, y);
}

static tc_value *stream_mul(tc_builder *b, tc_value *x, tc_value *y)
{
    return tc_build_binary(b, TC_MUL, x, y);
}

static tc_value *stream_min(tc_builder *b, tc_value *x, tc_value *y)
{
    return tc_build_binary(b, TC_MIN, x, y);
}

/* A copy of the kernel, before its grid and its loop change. */
static stream_kernel begin(tc_split *s, const char *suffix, unsigned n,
                           const char *const *arguments)
{
    stream_kernel k;
    tc_func *f = k.f = tc_split_copy(s, suffix, n, arguments, &k.own);
    const tc_op *loop = tc_split_loop(f);
    tc_tile_work work = tc_tile_work_of(f, s->env);
    tc_value *in[3];
    k.args = &f->body->args[k.own];
    k.b = tc_builder_before(f->body->first);
    k.b.loc = f->loc;
    k.order = tc_tile_order_of(f, &work);
    tc_tile_order_sizes(&k.b, &k.order);
    tc_tile_order_prepare(&k.b, &k.order, &work);
    tc_region_clear_data(f->body);
    for (unsigned i = 0; i < 3; i++)
        in[i] = tc_split_build_given(&k.b, loop->in[i]);
    tc_region_clear_data(f->body);
    k.steps = tc_build_cast(&k.b, tc_split_build_steps(&k.b, in), TC_I32);
    k.steps = tc_build_with(&k.b, TC_MAX, k.steps, 1);
    k.steps->name = "steps";
    k.at = tc_build_at(&k.b, TC_PROGRAM_ID, NULL, "axis", 0);
    return k;
}

static void become_tile(stream_kernel *k, tc_value *tile)
{
    tc_value *ids[TC_GRID_AXES];
    tile->name = "tile";
    tc_tile_order_decode(&k->b, &k->order, tile, ids);
    tc_tile_name_ids(k->f->body, &k->order, ids, k->at->def);
}

static void change_grid_to(tc_func *f, tc_builder *b, tc_value *n)
{
    tc_op *yield = b->before;
    tc_build_yield(b, 1, &n);
    tc_op_erase(yield);
    f->tiles = TC_TILES_ANY;
    f->raster = TC_RASTER_ANY;
    f->early = true;
}

/* ---- The first kernel ---- */

static const char *const stream_arguments[] = {"items", "whole", "share",
                                               "programs"};
enum { ITEMS, WHOLE, SHARE, PROGRAMS, STREAM_ARGUMENTS };

/* What an item is. */
typedef struct item {
    tc_value *tile, *first, *last; /* and the steps of it */
    tc_value *program;             /* whose share it is of */
} item;

static item decode_item(stream_kernel *k)
{
    tc_builder *b = &k->b;
    tc_value *at = k->at, *n = k->steps, *total = k->order.total;
    tc_value *const *args = k->args, *zero = tc_build_int(b, at->type, 0);
    tc_value *is_whole = tc_build_cmp(b, "lt", at, args[WHOLE]);
    tc_value *later =
        tc_build_with(b, TC_MAX, stream_sub(b, at, args[WHOLE]), 0);
    tc_value *segment = tc_build_binary(b, TC_DIV, later, args[PROGRAMS]);
    tc_value *program =
        stream_sub(b, later, stream_mul(b, segment, args[PROGRAMS]));
    tc_value *dealt = stream_sub(b, total, args[WHOLE]);
    tc_value *units = stream_mul(b, dealt, n);
    tc_value *from = stream_min(b, stream_mul(b, program, args[SHARE]), units);
    tc_value *to = stream_min(b, stream_add(b, from, args[SHARE]), units);
    tc_value *tile =
        stream_add(b, tc_build_binary(b, TC_DIV, from, n), segment);
    tc_value *begin = stream_mul(b, tile, n);
    tc_value *first = tc_build_with(b, TC_MAX, stream_sub(b, from, begin), 0);
    tc_value *last = stream_min(b, stream_sub(b, to, begin), n);
    /* Of a share with fewer segments: no steps of the last tile. */
    tc_value *end = tc_build_with(b, TC_SUB, total, 1);
    tile = stream_min(b, stream_add(b, tile, args[WHOLE]), end);
    return (item){.tile = tc_build_select(b, is_whole, at, tile),
                  .first = tc_build_select(b, is_whole, zero, first),
                  .last = tc_build_select(b, is_whole, n, last),
                  .program = program};
}

/* Parts begin with 0; their initial values are added with them. */
static void begin_with_zero(tc_op *loop, tc_value *is_whole)
{
    tc_builder b = tc_builder_before(loop);
    for (unsigned i = 0; i < loop->nout; i++) {
        tc_value *init = loop->in[3 + i];
        if (tc_match_float(init, 0.0))
            continue;
        tc_value *zero = tc_build_const(&b, init->type, (tc_scalar){0});
        tc_value *is = tc_build_spread(&b, is_whole, init->type);
        tc_op_set_in(loop, 3 + i, tc_build_select(&b, is, init, zero));
    }
}

/* All ops after the loop but the terminator, into a region that is empty. */
static void move_after(tc_op *loop, const tc_op *stop, tc_region *to)
{
    for (tc_op *op = loop->next, *next;
         op && op != stop && !tc_op_has(op, TC_TERMINATOR); op = next) {
        next = op->next;
        tc_op_remove(op);
        tc_op_insert(op, to, NULL);
    }
}

static void store_parts(tc_builder *b, const tc_op *loop, const item *it,
                        tc_value *const *parts)
{
    tc_value *later =
        tc_build_cmp(b, "gt", it->first, tc_build_int(b, it->first->type, 0));
    tc_value *own =
        tc_build_select(b, later, tc_build_int(b, it->first->type, 0),
                        tc_build_int(b, it->first->type, 1));
    tc_value *at = stream_add(
        b, tc_build_with(b, TC_MUL, it->program, TC_STREAM_PARTS), own);
    for (unsigned i = 0; i < loop->nout; i++) {
        tc_value *in[] = {tc_split_window(b, parts[i], loop->out[i]->type, at),
                          loop->out[i]};
        tc_build_effect(b, TC_STORE, 2, in);
    }
}

/* if it is the whole tile { after } else { if there is a step { store } } */
static void end_item(tc_op *loop, const item *it, tc_value *is_whole,
                     tc_value *const *parts)
{
    tc_builder b = tc_builder_before(loop);
    tc_op *choice = tc_build_if(&b, is_whole, 0, NULL);
    tc_op_remove(choice);
    tc_op_insert(choice, loop->parent, loop->next);
    move_after(choice, NULL, choice->regions[0]);
    tc_builder yes = tc_builder_at_end(choice->regions[0], b.loc);
    tc_build_yield(&yes, 0, NULL);
    tc_builder no = tc_builder_at_end(choice->regions[1], b.loc), then;
    tc_value *any = tc_build_cmp(&no, "gt", it->last, it->first);
    tc_build_when(&no, any, &then);
    store_parts(&then, loop, it, parts);
    no = tc_builder_at_end(choice->regions[1], b.loc);
    tc_build_yield(&no, 0, NULL);
}

static tc_func *make_stream(tc_split *s)
{
    stream_kernel k = begin(s, "stream", STREAM_ARGUMENTS, stream_arguments);
    item it = decode_item(&k);
    k.at->name = "item";
    it.first->name = "first";
    it.last->name = "last";
    become_tile(&k, it.tile);
    tc_op *loop = tc_split_loop(k.f);
    tc_builder b = tc_builder_before(loop); /* the first op may have gone */
    tc_value *is_whole =
        tc_build_cmp(&b, "eq", stream_sub(&b, it.last, it.first), k.steps);
    begin_with_zero(loop, is_whole);
    tc_split_narrow_loop(loop, it.first, it.last);
    end_item(loop, &it, is_whole, k.args + STREAM_ARGUMENTS);
    b = tc_builder_before(tc_region_terminator(k.f->grid));
    change_grid_to(k.f, &b, k.f->grid->args[k.own + ITEMS]);
    k.f->tiles = TC_TILES_STATIC;
    return k.f;
}

/* ---- The second kernel ---- */

static const char *const finish_arguments[] = {"whole", "share"};
enum { FINISH_WHOLE, FINISH_SHARE, FINISH_ARGUMENTS };

/* The tile's first program begins it, the others go on. */
static tc_value *place_of_program(tc_builder *b, tc_value *program, void *first)
{
    tc_value *begins = tc_build_cmp(b, "eq", program, first);
    tc_value *own =
        tc_build_select(b, begins, tc_build_int(b, program->type, 1),
                        tc_build_int(b, program->type, 0));
    return stream_add(b, tc_build_with(b, TC_MUL, program, TC_STREAM_PARTS),
                      own);
}

static tc_func *make_finish(tc_split *s)
{
    stream_kernel k = begin(s, "finish", FINISH_ARGUMENTS, finish_arguments);
    tc_value *whole = k.args[FINISH_WHOLE], *share = k.args[FINISH_SHARE];
    tc_value *unit = stream_mul(&k.b, k.at, k.steps);
    tc_value *first = tc_build_binary(&k.b, TC_DIV, unit, share);
    tc_value *end =
        stream_add(&k.b, unit, tc_build_with(&k.b, TC_SUB, k.steps, 1));
    tc_value *last = tc_build_binary(&k.b, TC_DIV, end, share);
    tc_value *is_one = tc_build_cmp(&k.b, "eq", first, last);
    tc_build_effect(&k.b, TC_EXIT_IF, 1, &is_one);
    become_tile(&k, stream_add(&k.b, k.at, whole));
    first->name = "first";
    tc_op *loop = tc_split_loop(k.f);
    tc_builder b = tc_builder_before(loop); /* the first op may have gone */
    tc_split_add_parts(loop, k.args + FINISH_ARGUMENTS, first,
                       tc_build_with(&b, TC_ADD, last, 1), place_of_program,
                       first);
    tc_op *yield = tc_region_terminator(k.f->grid);
    b = tc_builder_before(yield);
    tc_value *n = yield->in[0];
    for (unsigned i = 1; i < yield->nin; i++)
        n = stream_mul(&b, n, yield->in[i]);
    n = stream_sub(&b, n, k.f->grid->args[k.own + FINISH_WHOLE]);
    change_grid_to(k.f, &b, n);
    return k.f;
}

/* ---- The plan ---- */

const char *tc_why_not_stream(const tc_func *f)
{
    return tc_region_has_op(f->body, TC_EXIT_IF)
               ? "exit_if ends a program, not a tile"
               : NULL;
}

/* So many whole waves that those after them have at least a full one. */
static tc_value *build_whole(tc_builder *b, tc_value *n, int64_t sms)
{
    tc_value *waves = tc_build_with(b, TC_DIV, n, sms);
    waves = tc_build_with(b, TC_MAX, tc_build_with(b, TC_SUB, waves, 1), 0);
    return tc_build_with(b, TC_MUL, waves, sms);
}

void tc_build_stream(tc_builder *b, tc_split *s, const tc_split_launch *l)
{
    const tc_op *loop = tc_split_loop(s->kernel);
    tc_value *args[STREAM_ARGUMENTS];
    unsigned sms = tc_machine(s->env->target)->multiprocessors;
    tc_value *steps = tc_build_with(b, TC_MAX, l->steps, 1);
    args[WHOLE] = build_whole(b, l->tiles, sms);
    tc_value *units =
        stream_mul(b, stream_sub(b, l->tiles, args[WHOLE]), steps);
    args[PROGRAMS] = tc_build_with(b, TC_MIN, units, sms);
    args[SHARE] =
        tc_split_cdiv(b, units, tc_build_with(b, TC_MAX, args[PROGRAMS], 1));
    tc_value *segments =
        tc_build_with(b, TC_ADD, tc_split_cdiv(b, args[SHARE], steps), 1);
    args[ITEMS] =
        stream_add(b, args[WHOLE], stream_mul(b, args[PROGRAMS], segments));
    for (unsigned i = 0; i < STREAM_ARGUMENTS; i++)
        args[i]->name = stream_arguments[i];
    unsigned n = loop->nout;
    tc_value **in = tc_arena_array(&b->func->module->arena, tc_value *,
                                   STREAM_ARGUMENTS + n);
    tc_split_build_parts(
        b, loop, tc_build_with(b, TC_MUL, args[PROGRAMS], TC_STREAM_PARTS),
        in + STREAM_ARGUMENTS);
    for (unsigned i = 0; i < STREAM_ARGUMENTS; i++)
        in[i] = args[i];
    tc_split_build_launch(b, make_stream(s), STREAM_ARGUMENTS + n, in);
    in += STREAM_ARGUMENTS - FINISH_ARGUMENTS;
    in[FINISH_WHOLE] = args[WHOLE];
    in[FINISH_SHARE] = args[SHARE];
    tc_split_build_launch(b, make_finish(s), FINISH_ARGUMENTS + n, in);
}
