/* SPDX-License-Identifier: Apache-2.0
 *
 * persist-tiles: makes a kernel persistent: as many programs as the device has
 * multiprocessors, each of which computes one tile after another, so that the
 * copies for one tile run while the previous one is finished.
 *
 *   kernel @k(..) grid {                    kernel @k(..) tiles(static) grid {
 *     yield %m, %n                            %total = mul %m, %n
 *   } {                                       yield min(%total, num_sms)
 *     %i = program_id axis(0)               } {
 *     %j = program_id axis(1)                 %m = .., %n = ..
 *     ...                                     %total = mul %m, %n
 *   }                                         for %tile = program_id axis(0)
 *                                   becomes       to %total
 *                                                 step num_programs axis(0) {
 *                                               %j = div %tile, %m
 *                                               %i = sub %tile, mul %j, %m
 *                                               ...
 *                                             }
 *                                           }
 *
 * If tiles take different numbers of steps (dynamic tile scheduler), a program
 * fetches its next tile after the current one (in a kernel with roles: when it
 * has issued all loads of the current one), so that the first free program
 * takes it:
 *
 *   while carry(%tile = program_id axis(0)) {
 *     condition %tile < %total
 *   } do {
 *     ...
 *     %next = next_tile %total
 *     yield %next
 *   }
 *   end_tiles
 *
 * (With ordered accumulation the condition is < 2147483647, the value if no
 * tile is left: the consumer threads have no register for the total.)
 *
 * Only for targets with TMA, and kernels whose loops hold products that are
 * large enough for warp groups; otherwise, for any kernel, if the options ask
 * for tiles(static), so that a grid may be larger than the hardware's. Programs
 * run in any order, so any order of tiles is right; rasterize.c chooses it.
 * Recurrences, whose loop stores in each step, are left alone where a
 * multiprocessor has room for several of their programs (machine_model.h): no
 * work follows the loop, and one program computes while another waits.
 * `tiles(none|static|dynamic)` in the kernel's header, or the options, override
 * the choice. Tests: test/ir/passes/persist-tiles, test/unit/tiles.c.
 *
 * If each program computes one tile, and the loops of tiles take more steps the
 * larger their index along axis 0, the last tiles start first:
 *
 *   %i = program_id axis(0)     becomes     %i = num_programs axis(0) - 1
 *                                                - program_id axis(0)
 *
 * so that short ones fill up the end; not with ordered accumulation.
 */
#include "passes/persistent/rasterize.h"

#include "passes/analysis/int_range.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/tile_loop.h"
#include "passes/target/machine_model.h"

static const char pass[] = "persist-tiles";

/* Room for numbers of tiles after the last, one a program. */
enum { MOST_TILES = INT32_MAX - (1 << 16) };

struct persist {
    tc_pass_env *env;
    tc_func *f;
    tc_tile_work work;
    tc_tile_order order;
};

static void insert(tc_builder *b, tc_op *op)
{
    tc_op_insert(op, b->region, b->before);
}

/* ---- The grid ---- */

/* x * y, where neither is negative and x is below 2^31. */
static tc_value *checked_product(tc_builder *b, tc_value *x, tc_value *y)
{
    tc_value *product =
        tc_build_binary(b, TC_MUL, x, tc_build_cast(b, y, TC_I64));
    tc_value *most = tc_build_i64(b, MOST_TILES);
    tc_build_assert(b, tc_build_cmp(b, "le", product, most),
                    "the programs of the grid are too many for one launch");
    return product;
}

/* Adds the checks that a launch makes by itself for a grid of several axes. */
static void require_sizes(tc_builder *b, const tc_op *yield)
{
    for (unsigned i = 0; i < yield->nin; i++)
        if (tc_int_range_of(yield->in[i]).low < 0) {
            tc_value *zero = tc_build_int(b, yield->in[i]->type, 0);
            tc_build_assert(b, tc_build_cmp(b, "ge", yield->in[i], zero),
                            "an axis of the grid is negative");
        }
}

static void change_grid(tc_func *f)
{
    tc_op *yield = tc_region_terminator(f->grid);
    tc_builder b = tc_builder_before(yield);
    require_sizes(&b, yield);
    tc_value *total = yield->in[0];
    if (yield->nin > 1) {
        total = tc_build_cast(&b, total, TC_I64);
        for (unsigned i = 1; i < yield->nin; i++)
            total = checked_product(&b, total, yield->in[i]);
        total = tc_build_cast(&b, total, TC_I32);
    } else {
        tc_build_assert(
            &b, tc_build_cmp(&b, "le", total, tc_build_i32(&b, MOST_TILES)),
            "the programs of the grid are too many for one launch");
    }
    total->name = "total";
    tc_value *sms = tc_build(&b, TC_NUM_SMS, 0, NULL, NULL);
    tc_value *n = tc_build_binary(&b, TC_MIN, total, sms);
    tc_build_yield(&b, 1, &n);
    tc_op_erase(yield);
}

/* ---- Its sizes in the body ---- */

/* Pure ops right in the region that nothing needs. */
static void erase_unused(tc_region *r)
{
    for (tc_op *op = r->last, *prev; op; op = prev) {
        prev = op->prev;
        if (op->nout && !tc_op_is_used(op) && tc_op_is_pure(op))
            tc_op_erase(op);
    }
}

/* ---- The loop ---- */

/* Moves `first` and all ops after it, without the terminator, to the end of the
 * region. */
static void move_body(tc_region *to, tc_op *first)
{
    for (tc_op *op = first, *next; !tc_op_has(op, TC_TERMINATOR); op = next) {
        next = op->next;
        tc_op_remove(op);
        tc_op_insert(op, to, NULL);
    }
}

/* Moves the kernel's body to the end of the region, as the work on one tile. */
static void fill(struct persist *s, tc_region *r, tc_value *tile, tc_op *first)
{
    tc_value *ids[TC_GRID_AXES];
    tc_builder b = tc_builder_at_end(r, first->loc);
    tc_tile_order_decode(&b, &s->order, tile, ids);
    move_body(r, first);
    tc_tile_name_ids(r, &s->order, ids, NULL);
    erase_unused(r);
}

static void count(struct persist *s, tc_builder *b, tc_op *first)
{
    tc_value *in[] = {tc_build_at(b, TC_PROGRAM_ID, NULL, "axis", 0),
                      s->order.total,
                      tc_build_at(b, TC_NUM_PROGRAMS, NULL, "axis", 0)};
    tc_op *loop = tc_op_new(s->f, TC_FOR, b->loc, 3, in, 1);
    tc_mark_tile_loop(loop);
    tc_region *body = loop->regions[0];
    tc_value *tile = tc_region_add_arg(body, in[0]->type, "tile", b->loc);
    tc_op_set_results(loop, 0, NULL);
    insert(b, loop);
    fill(s, body, tile, first);
    tc_builder end = tc_builder_at_end(body, b->loc);
    tc_build_yield(&end, 0, NULL);
}

static void fetch(struct persist *s, tc_builder *b, tc_op *first)
{
    tc_value *start = tc_build_at(b, TC_PROGRAM_ID, NULL, "axis", 0);
    tc_op *loop = tc_op_new(s->f, TC_WHILE, b->loc, 1, &start, 2);
    tc_mark_tile_loop(loop);
    tc_region *question = loop->regions[0], *body = loop->regions[1];
    tc_value *tile = tc_region_add_arg(question, start->type, "tile", b->loc);
    tc_op_set_results(loop, 1, &start->type);
    insert(b, loop);
    tc_builder at = tc_builder_at_end(question, b->loc);
    tc_value *end = s->work.follows ? tc_build_int(&at, start->type, INT32_MAX)
                                    : s->order.total;
    tc_value *more = tc_build_cmp(&at, "lt", tile, end);
    tc_build_effect(&at, TC_CONDITION, 1, &more);
    fill(s, body, tile, first);
    at = tc_builder_at_end(body, b->loc);
    tc_value *next = tc_build(&at, TC_NEXT_TILE, 1, &s->order.total, NULL);
    next->name = "next";
    tc_build_yield(&at, 1, &next);
    at = tc_builder_before(tc_region_terminator(s->f->body));
    tc_build_effect(&at, TC_END_TILES, 0, NULL);
}

static void change_body(struct persist *s)
{
    tc_op *first = s->f->body->first;
    tc_builder b = tc_builder_before(first);
    b.loc = s->f->loc;
    tc_tile_order_sizes(&b, &s->order);
    tc_tile_order_prepare(&b, &s->order, &s->work);
    if (s->f->tiles == TC_TILES_DYNAMIC)
        fetch(s, &b, first);
    else
        count(s, &b, first);
    erase_unused(s->f->body);
}

/* ---- A program a tile ---- */

/* Asserts and prints have an index along each axis, the others that of axis 0.
 */
static void rename_first(tc_region *r, const tc_op *own,
                         tc_value *const ids[TC_GRID_AXES])
{
    tc_each_nested_first (op, r) {
        if (tc_tile_name_op(op, ids))
            continue;
        if (op->code == TC_PROGRAM_ID && tc_op_int(op, "axis") == 0 &&
            op != own) {
            ids[0]->name = ids[0]->name ? ids[0]->name : op->out[0]->name;
            tc_value_replace(op->out[0], ids[0]);
            tc_op_erase(op);
        }
    }
}

static tc_change begin_with_last(struct persist *s)
{
    tc_func *f = s->f;
    if (s->work.steps[0] != TC_TREND_GROWS || s->work.follows)
        return TC_UNCHANGED;
    tc_builder b = tc_builder_before(f->body->first);
    b.loc = f->loc;
    tc_value *own = tc_build_at(&b, TC_PROGRAM_ID, NULL, "axis", 0);
    tc_value *n = tc_build_at(&b, TC_NUM_PROGRAMS, NULL, "axis", 0);
    tc_value *last =
        tc_build_binary(&b, TC_SUB, n, tc_build_int(&b, n->type, 1));
    tc_value *ids[] = {tc_build_binary(&b, TC_SUB, last, own),
                       tc_build_at(&b, TC_PROGRAM_ID, NULL, "axis", 1),
                       tc_build_at(&b, TC_PROGRAM_ID, NULL, "axis", 2)};
    rename_first(f->body, own->def, ids);
    erase_unused(f->body);
    tc_remark(s->env->cx, f->loc, pass,
              "@%s: programs begin with the last along axis 0, whose loops "
              "take the most steps",
              f->name);
    return TC_CHANGED;
}

/* ---- Choosing ---- */

static bool is_equal_work(const tc_tile_work *w)
{
    for (unsigned axis = 0; axis < TC_GRID_AXES; axis++)
        if (w->steps[axis] != TC_TREND_SAME)
            return false;
    return true;
}

/* Does any op write memory, but for those of one? */
static bool has_writes(const tc_region *r, const tc_op *but)
{
    tc_each_op (op, r) {
        if (op == but)
            continue;
        if (tc_op_has(op, TC_WRITES))
            return true;
        for (unsigned i = 0; i < op->nregions; i++)
            if (has_writes(op->regions[i], but))
                return true;
    }
    return false;
}

/* A recurrence: each step of its loop takes what the one before computed, and
 * stores its results; nothing is left for the end. */
static bool is_recurrence(const struct persist *s)
{
    const tc_op *loop = s->work.hot;
    return loop->nout && loop->parent == s->f->body &&
           has_writes(loop->regions[0], NULL) && !has_writes(s->f->body, loop);
}

static int64_t tile_bytes(const tc_type *t)
{
    return t->kind == TC_TILE ? tc_type_count(t) * tc_type_bytes(t->elem) : 0;
}

/* Has a multiprocessor room for several of its programs, with a slot for each
 * load? */
static bool is_shared(const struct persist *s)
{
    const tc_tile_work *w = &s->work;
    const tc_pass_options *o = s->env->options;
    int64_t loads = 0, carried = 0;
    for (unsigned i = 0; i < w->nloads; i++)
        loads += w->loads[i].bytes;
    for (unsigned i = 0; i < w->hot->nout; i++)
        carried += tile_bytes(w->hot->out[i]->type);
    unsigned warps =
        tc_expected_warps(o->warps ? o->warps : s->f->warps, carried);
    return tc_resident_ctas(tc_machine(s->env->target), warps, loads, carried) >
           1;
}

/* Why each program computes one tile only; NULL: it shall compute many. */
static const char *why_not(const struct persist *s)
{
    if (s->f->tiles == TC_TILES_NONE)
        return "tiles(none) asks for a program each";
    if (tc_region_has_op(s->f->body, TC_EXIT_IF))
        return "exit_if ends a program, not a tile";
    if (s->work.hot && s->f->tiles == TC_TILES_ANY && is_recurrence(s) &&
        is_shared(s))
        return "its loop stores in each step: there is no end of a tile that "
               "the next tile's copies could overlap with, and several "
               "programs share a multiprocessor";
    return s->env->target->tma ? s->work.why : NULL;
}

static bool is_done(const tc_func *f)
{
    return tc_region_has_op(f->grid, TC_NUM_SMS) ||
           tc_region_has_op(f->body, TC_NEXT_TILE) ||
           tc_region_has_op(f->body, TC_END_TILES) ||
           tc_region_has_op(f->body, TC_WARP_GROUPS);
}

tc_change tc_pass_persist_tiles(tc_func *f, tc_pass_env *env)
{
    struct persist s = {.env = env, .f = f};
    bool asked = env->options->tiles == TC_TILES_STATIC;
    if (is_done(f))
        return TC_UNCHANGED;
    s.work = tc_tile_work_of(f, env);
    if (!env->target->tma && !asked)
        return begin_with_last(&s);
    if (env->options->tiles)
        f->tiles = env->options->tiles;
    const char *why = why_not(&s);
    if (why) {
        tc_missed(env->cx, f->loc, pass, "@%s: a program for each tile: %s",
                  f->name, why);
        return begin_with_last(&s);
    }
    bool equal = is_equal_work(&s.work);
    why = tc_why_not_order(f, &s.work);
    if (why) {
        tc_error(env->cx, f->loc, "@%s: raster(%s): %s", f->name,
                 tc_raster_word(f->raster), why);
        return TC_FAILED;
    }
    s.order = tc_tile_order_of(f, &s.work);
    if (f->tiles == TC_TILES_ANY)
        f->tiles = equal ? TC_TILES_STATIC : TC_TILES_DYNAMIC;
    tc_remark(env->cx, f->loc, pass,
              "@%s: a program for each multiprocessor %s tiles, %s; the steps "
              "of the loop are %s for all tiles",
              f->name,
              f->tiles == TC_TILES_DYNAMIC ? "fetches its" : "counts its",
              tc_tile_order_name(&s.order), equal ? "as many" : "not as many");
    change_body(&s);
    change_grid(f);
    return TC_CHANGED;
}
