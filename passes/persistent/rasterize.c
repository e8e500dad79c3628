/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of tiles, `raster(..)` of the kernel: tiles that run concurrently
 * should share their loads in the L2 cache, and the longest tiles come first,
 * so that the short ones fill up the end.
 *
 *   plain      axis 0 fastest: blocks of queries of one head, which share its
 *              keys.
 *   grouped    of operands that move with axis 0 alone and with axis 1 alone
 *              (a product of matrices): a group of rows along axis 0, through
 *              all of axis 1, so that concurrent tiles form about a square.
 *                0 2 4   6  7
 *                1 3 5              2 rows a group, 3 x 3 tiles:  0 2 4
 *                                                                 1 3 5
 *                                                                 6 7 8
 *   ascending, descending
 *              of loops with more steps the larger (or smaller) the index along
 *              axis 0: all tiles of the longest index, then of the next. The
 *              other axes are cut into sections of equal length whose tensors
 *              (loads that do not move with axis 0) fit the cache; each has
 *              enough tiles for all programs, as it ends with short tiles and
 *              the next section begins with long ones. A short last section
 *              leaves multiprocessors idle, so the number of sections is a
 *              power of two: batch * heads usually is divisible by it.
 *              Ordered accumulation along axis 0 uses sections, too: fewer
 *              tiles wait for each other in a row. Ascending, so that no tile
 *              waits for one that no program has started.
 *
 * test/unit/tiles.c decodes all tiles of many grids.
 */
#include "passes/persistent/rasterize.h"

#include "passes/analysis/match.h"
#include "passes/target/machine_model.h"

#include "ir/base/map.h"

/* The loops of a section read TC_SECTION_BYTES at least and at most twice that,
 * of the 50 MB of an H100's L2 cache, each half of which keeps copies of its
 * own. Short loops are faster than with 32 MiB, long ones than with 8 MiB.
 * Claim l2-sections. */
enum { MOST_SECTIONS = 256 };

/* ---- Choosing ---- */

/* Bytes of a step that move with `axis` and not with `other`. False: something
 * moves with both. */
static bool moved_bytes(const tc_tile_work *w, unsigned axis, unsigned other,
                        int64_t *bytes)
{
    *bytes = 0;
    for (unsigned i = 0; i < w->nloads; i++) {
        if (w->loads[i].moves[axis] && w->loads[i].moves[other])
            return false;
        if (w->loads[i].moves[axis])
            *bytes += w->loads[i].bytes;
    }
    return true;
}

/* `rows` along axis 0 and TC_SIDE_BY_SIDE_TILES / rows along axis 1 load the
 * least where both load the same. */
static unsigned group_rows(const tc_tile_work *w)
{
    int64_t down, across;
    unsigned rows = 4;
    if (!moved_bytes(w, 0, 1, &down) || !moved_bytes(w, 1, 0, &across) ||
        !down || !across)
        return 0;
    while (rows < 32 && 2 * rows * rows * down < TC_SIDE_BY_SIDE_TILES * across)
        rows *= 2;
    return rows;
}

/* Does the length of tiles grow or shrink along axis 0? (The longest come
 * first.) */
static bool has_trend(const tc_tile_work *w)
{
    return w->steps[0] == TC_TREND_GROWS || w->steps[0] == TC_TREND_SHRINKS;
}

static void choose(tc_func *f, const tc_tile_work *work, unsigned naxes)
{
    bool down = work->steps[0] == TC_TREND_GROWS && !work->follows;
    f->raster_rows = naxes > 1 ? group_rows(work) : 0;
    f->raster = down                               ? TC_RASTER_DESCENDING
                : has_trend(work) || work->follows ? TC_RASTER_ASCENDING
                : f->raster_rows                   ? TC_RASTER_GROUPED
                                                   : TC_RASTER_PLAIN;
}

static unsigned axes_of(const tc_func *f)
{
    return tc_region_terminator(f->grid)->nin;
}

tc_tile_order tc_tile_order_of(tc_func *f, const tc_tile_work *work)
{
    unsigned naxes = axes_of(f);
    if (!f->raster)
        choose(f, work, naxes);
    return (tc_tile_order){
        .kind = f->raster, .group = f->raster_rows, .naxes = naxes};
}

const char *tc_why_not_order(const tc_func *f, const tc_tile_work *work)
{
    if (f->raster == TC_RASTER_GROUPED && axes_of(f) < 2)
        return "the grid has one axis: expected raster(plain)";
    if (f->raster && f->raster != TC_RASTER_ASCENDING && work->follows)
        return "tiles follow those before along axis 0: expected "
               "raster(ascending)";
    return NULL;
}

const char *tc_tile_order_name(const tc_tile_order *o)
{
    static const char *const names[TC_RASTER_COUNT] = {
        [TC_RASTER_PLAIN] = "axis 0 fastest",
        [TC_RASTER_GROUPED] = "in groups of rows along axis 0",
        [TC_RASTER_ASCENDING] = "the first along axis 0 first",
        [TC_RASTER_DESCENDING] = "the last along axis 0 first"};
    return names[o->kind];
}

/* ---- Building ---- */

static bool has_sections(const tc_tile_order *o)
{
    return o->kind == TC_RASTER_ASCENDING || o->kind == TC_RASTER_DESCENDING;
}

/* x = q * y + rest; nothing is negative. */
static tc_value *split(tc_builder *b, tc_value *x, tc_value *y, tc_value **rest)
{
    tc_value *q = tc_build_binary(b, TC_DIV, x, y);
    *rest = tc_build_binary(b, TC_SUB, x, tc_build_binary(b, TC_MUL, q, y));
    return q;
}

/* Bytes of a tensor, as i64. */
static tc_value *tensor_bytes(tc_builder *b, tc_value *tensor)
{
    const tc_type *t = tensor->type;
    int64_t known = tc_type_bytes(t->elem);
    tc_value *product = NULL;
    for (unsigned i = 0; i < t->rank; i++) {
        if (t->dims[i]) {
            known *= tc_dim_value(t->dims[i]);
            continue;
        }
        tc_op *op = tc_op_new(b->func, TC_SIZE, b->loc, 1, &tensor, 0);
        tc_op_set_int(op, "dim", i);
        tc_value *size = tc_build_cast(b, tc_build_op(b, op, NULL), TC_I64);
        product = product ? tc_build_binary(b, TC_MUL, product, size) : size;
    }
    tc_value *k = tc_build_i64(b, known);
    return product ? tc_build_binary(b, TC_MUL, product, k) : k;
}

/* Of the tensors whose windows do not move with axis 0, each once. NULL: there
 * are none. */
static tc_value *section_bytes(tc_builder *b, const tc_tile_work *w)
{
    tc_value *sum = NULL;
    for (unsigned i = 0; i < w->nloads; i++) {
        bool counts = !w->loads[i].moves[0];
        for (unsigned k = 0; k < i && counts; k++)
            counts = w->loads[k].moves[0] ||
                     w->loads[k].tensor != w->loads[i].tensor;
        if (!counts)
            continue;
        tc_value *bytes = tensor_bytes(b, (tc_value *)w->loads[i].tensor);
        sum = sum ? tc_build_binary(b, TC_ADD, sum, bytes) : bytes;
    }
    return sum;
}

/* Tiles that differ in the axes after axis 0. */
static tc_value *others(tc_builder *b, const tc_tile_order *o)
{
    tc_value *n = o->naxes > 1 ? o->sizes[1] : tc_build_i32(b, 1);
    return o->naxes > 2 ? tc_build_binary(b, TC_MUL, n, o->sizes[2]) : n;
}

/* The logarithm of the largest power of two that is not above `most`, nor above
 * MOST_SECTIONS: the last section is as long as the others then, where that
 * divides them. */
static tc_value *log_of_sections(tc_builder *b, tc_value *most)
{
    tc_value *log = tc_build_i32(b, 0);
    for (int n = 1; 1 << n <= MOST_SECTIONS; n++) {
        tc_value *power = tc_build_i64(b, 1 << n);
        log = tc_build_select(b, tc_build_cmp(b, "ge", most, power),
                              tc_build_i32(b, n), log);
    }
    return log;
}

void tc_tile_order_prepare(tc_builder *b, tc_tile_order *o,
                           const tc_tile_work *work)
{
    if (!has_sections(o) || o->naxes < 2)
        return;
    tc_value *n = tc_build_cast(b, others(b, o), TC_I64), *length = n;
    tc_value *bytes = section_bytes(b, work);
    if (bytes) {
        /* If tiles follow others (ordered accumulation), the long tiles that
         * end a section run together with the first ones of the next, and the
         * sums are in the cache as well: a section gets half of the bytes. */
        int64_t room = TC_SECTION_BYTES;
        if (work->follows && has_trend(work))
            room /= 2;
        tc_value *tiles = tc_build_binary(
            b, TC_MUL, n, tc_build_cast(b, o->sizes[0], TC_I64));
        tc_value *most = tc_build_binary(
            b, TC_MIN, tc_build_binary(b, TC_DIV, bytes, tc_build_i64(b, room)),
            tc_build_binary(b, TC_DIV, tiles,
                            tc_build_i64(b, TC_SIDE_BY_SIDE_TILES)));
        most = tc_build_binary(b, TC_MIN, most, n);
        tc_value *log = tc_build_cast(b, log_of_sections(b, most), TC_I64);
        tc_value *one = tc_build_i64(b, 1);
        tc_value *sections = tc_build_binary(b, TC_SHL, one, log);
        tc_value *up = tc_build_binary(
            b, TC_ADD, n, tc_build_binary(b, TC_SUB, sections, one));
        length = tc_build_binary(b, TC_SHR, up, log);
    }
    o->section = tc_build_cast(b, length, TC_I32);
    o->section->name = "section";
}

/* Axes 1 and 2 of `rest`, a tile's number without axis 0. */
static void decode_others(tc_builder *b, const tc_tile_order *o, tc_value *rest,
                          tc_value *ids[TC_GRID_AXES])
{
    if (o->naxes > 2)
        ids[2] = split(b, rest, o->sizes[1], &ids[1]);
    else if (o->naxes > 1)
        ids[1] = rest;
}

static void decode_plain(tc_builder *b, const tc_tile_order *o, tc_value *t,
                         tc_value *ids[TC_GRID_AXES])
{
    if (o->naxes == 1)
        ids[0] = t;
    else
        decode_others(b, o, split(b, t, o->sizes[0], &ids[0]), ids);
}

/* `length` rows at a time of axis `rows`, each as far as `across` goes: the
 * number of the row, and how far. */
static tc_value *decode_band(tc_builder *b, tc_value *t, tc_value *rows,
                             tc_value *across, tc_value *length, tc_value **far)
{
    tc_value *within;
    tc_value *first = tc_build_binary(
        b, TC_MUL,
        split(b, t, tc_build_binary(b, TC_MUL, length, across), &within),
        length);
    tc_value *here = tc_build_binary(b, TC_MIN, length,
                                     tc_build_binary(b, TC_SUB, rows, first));
    tc_value *row;
    *far = split(b, within, here, &row);
    return tc_build_binary(b, TC_ADD, first, row);
}

static void decode_grouped(tc_builder *b, const tc_tile_order *o, tc_value *t,
                           tc_value *ids[TC_GRID_AXES])
{
    if (o->naxes > 2)
        ids[2] = split(
            b, t, tc_build_binary(b, TC_MUL, o->sizes[0], o->sizes[1]), &t);
    /* No more rows than there are, so that nothing overflows. */
    tc_value *rows =
        tc_build_binary(b, TC_MIN, tc_build_i32(b, o->group), o->sizes[0]);
    ids[0] = decode_band(b, t, o->sizes[0], o->sizes[1], rows, &ids[1]);
}

static void decode_sections(tc_builder *b, const tc_tile_order *o, tc_value *t,
                            tc_value *ids[TC_GRID_AXES])
{
    ids[0] = t;
    if (o->naxes > 1)
        decode_others(
            b, o,
            decode_band(b, t, others(b, o), o->sizes[0], o->section, &ids[0]),
            ids);
    if (o->kind == TC_RASTER_DESCENDING)
        ids[0] = tc_build_binary(
            b, TC_SUB,
            tc_build_binary(b, TC_SUB, o->sizes[0], tc_build_i32(b, 1)),
            ids[0]);
}

void tc_tile_order_decode(tc_builder *b, const tc_tile_order *o, tc_value *t,
                          tc_value *ids[TC_GRID_AXES])
{
    for (unsigned i = o->naxes; i < TC_GRID_AXES; i++)
        ids[i] = NULL;
    if (o->kind == TC_RASTER_GROUPED)
        decode_grouped(b, o, t, ids);
    else if (has_sections(o))
        decode_sections(b, o, t, ids);
    else
        decode_plain(b, o, t, ids);
    for (unsigned i = o->naxes; i < TC_GRID_AXES; i++)
        ids[i] = tc_build_i32(b, 0);
}
