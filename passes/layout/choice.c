/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of each class. Accumulators come first, then classes from the
 * largest tiles to the smallest: in tiles that access global memory
 * neighbouring lanes move neighbouring vectors, others take any layout. After
 * each class come the classes whose layout follows from it: row statistics are
 * slices of their source.
 */
#include "passes/layout/assign_layouts.h"

#include "passes/analysis/tile_loop.h"
#include "passes/target/machine_model.h"

static const char pass[] = "assign-layouts";

static int32_t power_of(int32_t side)
{
    return side & -side;
}

static int32_t odd_of(int32_t n)
{
    return n / power_of(n);
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* `vector` elements a thread along `axis`, `deep` ones along `across`, lanes
 * along `axis` first, warps along the other axes first: what is reduced along
 * the fast axis stays in a warp. */
static const tc_layout *blocked_deep(const tc_placing *s, const tc_type *tile,
                                     unsigned axis, unsigned vector,
                                     unsigned across, unsigned deep)
{
    unsigned order[TC_MAX_RANK], n = 0, rank = tile->rank;
    int32_t sides[TC_MAX_RANK], left[TC_MAX_RANK], per_thread[TC_MAX_RANK],
        lanes[TC_MAX_RANK], warps[TC_MAX_RANK];
    tc_type_sides(tile, sides);
    order[n++] = axis;
    for (unsigned i = rank; i-- > 0;)
        if (i != axis)
            order[n++] = i;
    for (unsigned i = 0; i < rank; i++) {
        per_thread[i] = i == axis     ? (int32_t)vector
                        : i == across ? (int32_t)deep
                                      : 1;
        left[i] = power_of(sides[i]) / per_thread[i];
        lanes[i] = warps[i] = 1;
    }
    int32_t threads = TC_WARP_THREADS;
    for (unsigned i = 0; i < rank; i++) {
        lanes[order[i]] = smaller(left[order[i]], threads);
        left[order[i]] /= lanes[order[i]];
        threads /= lanes[order[i]];
    }
    lanes[axis] *= threads; /* too many: broadcast */
    threads = power_of((int32_t)s->warps);
    for (unsigned i = 1; i <= rank; i++) {
        unsigned a = order[i % rank];
        warps[a] = smaller(left[a], threads);
        threads /= warps[a];
    }
    warps[axis] *= threads;
    warps[order[1 % rank]] *= odd_of((int32_t)s->warps);
    return tc_layout_blocked(s->cx, rank, sides, per_thread, lanes, warps,
                             order);
}

static const tc_layout *blocked(const tc_placing *s, const tc_type *tile,
                                unsigned axis, unsigned vector)
{
    return blocked_deep(s, tile, axis, vector, axis, 1);
}

/* Threads that vectors along the axis of a tile give a part of its own. */
static int64_t parts_of(const tc_type *tile, unsigned vector)
{
    int64_t n = 1;
    for (unsigned i = 0; i < tile->rank; i++)
        n *= power_of((int32_t)tc_dim_value(tile->dims[i]));
    return n / vector;
}

/* Shorter vectors where more than two threads would hold the same; of a word
 * or more, on sides that are no powers of two, where two would. (Operands of
 * products are copied in whole vectors.) */
static unsigned shared_vector(const tc_placing *s, const tc_type *tile,
                              unsigned vector)
{
    enum { WORD = 4 };
    int64_t threads = tc_threads(s->warps), count = tc_type_count(tile);
    bool odd = parts_of(tile, 1) != count;
    while (!s->dots && count >= threads && vector > 1) {
        int64_t parts = parts_of(tile, vector);
        bool wide = vector * tc_type_bytes(tile->elem) > WORD;
        if (2 * parts >= threads && !(odd && wide && parts < threads))
            break;
        vector /= 2;
    }
    return vector;
}

const tc_layout *tc_layout_default(const tc_placing *s, const tc_type *tile)
{
    int64_t count = tc_type_count(tile);
    int32_t side = (int32_t)tc_dim_value(tile->dims[tile->rank - 1]);
    unsigned vector = (unsigned)smaller(4, power_of(side));
    while (vector > 1 && count / vector < tc_threads(s->warps))
        vector /= 2;
    vector = shared_vector(s, tile, vector);
    return blocked(s, tile, tile->rank - 1, vector);
}

/* An accumulator computed by fma: 4 columns a thread, so that operand B is read
 * in vectors; warps along the rows, as after mma. */
static const tc_layout *for_fma(const tc_placing *s, const tc_type *tile)
{
    static const unsigned order[] = {1, 0};
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(tile, sides);
    int32_t m = power_of(sides[0]), n = power_of(sides[1]);
    int32_t across = smaller(n, 4);
    int32_t lanes_n = smaller(n / across, 8);
    int32_t lanes_m = smaller(TC_WARP_THREADS / lanes_n, m);
    int32_t all = power_of((int32_t)s->warps);
    int32_t down = smaller(4, m / lanes_m / all);
    down = down < 1 ? 1 : down;
    int32_t wm = smaller(all, m / lanes_m / down);
    const int32_t per_thread[] = {down, across};
    const int32_t lanes[] = {lanes_m, 32 / lanes_m};
    const int32_t warps[] = {wm * odd_of((int32_t)s->warps), all / wm};
    return tc_layout_blocked(s->cx, 2, sides, per_thread, lanes, warps, order);
}

/* Bytes next to each other in memory that one access of a warp moves, when the
 * tile's axis `axis` is the fast one in memory. */
static unsigned run_bytes(const tc_layout *l, unsigned axis, unsigned bytes)
{
    unsigned run = tc_layout_contiguous(l, axis, 1024);
    for (unsigned i = 0; i < l->nmodes[TC_LANE]; i++) {
        const tc_mode *m = &l->modes[TC_LANE][i];
        bool only = true;
        for (unsigned a = 0; a < l->rank; a++)
            only &= m->image[a] == (a == axis ? (int32_t)run : 0);
        if (only)
            run *= m->count;
    }
    return run * bytes;
}

/* Vectors along rows; each warp group has rows of its own, in one piece. */
static const tc_layout *rows_by_groups(const tc_placing *s, const tc_type *tile,
                                       tc_vector v)
{
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(tile, sides);
    int32_t pieces = power_of(sides[1]) / (int32_t)v.elements;
    int32_t lanes = TC_WARP_THREADS / smaller(pieces, TC_WARP_THREADS);
    int32_t rows = power_of(sides[0]) / (lanes * (int32_t)s->warps);
    return blocked_deep(s, tile, 1, v.elements, 0,
                        rows > 1 ? (unsigned)power_of(rows) : 1);
}

/* Rows that threads copy through pointers for operand A of products of warp
 * groups: each group copies those that it multiplies, and waits for no other.
 */
static bool is_copied_for_groups(const tc_placing *s, const tc_op *load)
{
    const tc_value *v = load->code == TC_LOAD ? load->out[0] : NULL;
    const tc_use *u = v ? v->uses : NULL;
    tc_dot *d = u && !u->next && u->op->code == TC_DOT && u->index == 0
                    ? tc_dot_of(s, u->op)
                    : NULL;
    return d && tc_dot_is_group(d) && v->type->rank == 2 &&
           tc_dot_group(d)->wn == 1 && load->in[0]->type->kind != TC_BLOCK_PTR;
}

/* For a tile that is stored along another axis: a thread holds a whole word
 * along that axis too, so that the exchange through shared memory writes
 * words. */
static const tc_layout *for_access(const tc_placing *s, const tc_type *tile,
                                   const tc_op *access, const tc_op *across,
                                   const tc_cut *cuts)
{
    tc_vector v = tc_axis_vector(s->axes, access);
    /* Of a tile that is cut: elements of a step are side by side as well. */
    if (cuts[v.axis].step > 1)
        v.elements = v.elements > (unsigned)cuts[v.axis].step
                         ? v.elements / (unsigned)cuts[v.axis].step
                         : 1;
    v.elements =
        (unsigned)smaller((int32_t)v.elements,
                          power_of((int32_t)tc_dim_value(tile->dims[v.axis])));
    v.elements = shared_vector(s, tile, v.elements);
    if (!across && v.axis == 1 && is_copied_for_groups(s, access))
        return rows_by_groups(s, tile, v);
    if (!across)
        return blocked(s, tile, v.axis, v.elements);
    enum { WORD = 4 };
    unsigned axis = tc_axis_vector(s->axes, across).axis;
    unsigned bytes = tc_type_bytes(across->in[1]->type->elem);
    unsigned deep = bytes < WORD ? WORD / bytes : 1;
    int64_t each = tc_type_count(tile) / tc_threads(s->warps);
    while (deep > 1 &&
           (each < v.elements * deep ||
            power_of((int32_t)tc_dim_value(tile->dims[axis])) < (int32_t)deep))
        deep /= 2;
    return blocked_deep(s, tile, v.axis, v.elements, axis, deep);
}

const tc_layout *tc_layout_of_load(const tc_placing *s, const tc_op *load)
{
    static const tc_cut none[TC_MAX_RANK];
    return for_access(s, load->out[0]->type, load, NULL, none);
}

static const tc_layout *of_mma(const tc_placing *s, const tc_class *c)
{
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(c->tile, sides);
    const tc_dot *g = tc_dot_group(c->dot);
    const tc_layout *l =
        tc_dot_is_group(c->dot)
            ? tc_layout_wgmma_c(s->cx, sides, g->wm / TC_WARPGROUP_WARPS, g->wn)
            : tc_layout_mma_c(s->cx, sides, g->wm, g->wn);
    return c->order.n ? tc_layout_reorder(s->cx, l, 1, &c->order) : l;
}

/* Warps get one piece of the axis each; l where it cannot be so. */
static const tc_layout *for_scan(const tc_placing *s, const tc_layout *l,
                                 unsigned axis)
{
    const tc_layout *by_pieces = tc_layout_for_scan(s->cx, l, axis);
    return by_pieces ? by_pieces : l;
}

const tc_layout *tc_layout_of_class(const tc_placing *s, const tc_class *c)
{
    if (c->dot && tc_dot_is_mma(c->dot))
        return of_mma(s, c);
    if (c->dot)
        return for_fma(s, c->tile);
    const tc_type *tile = tc_cuts_tile(s->cx, c->tile, c->cuts);
    const tc_layout *l =
        c->access ? for_access(s, tile, c->access, c->across, c->cuts)
                  : tc_layout_default(s, tile);
    l = tc_cuts_grow(s->cx, c->tile, c->cuts, l);
    for (unsigned axis = 0; axis < c->tile->rank; axis++)
        if (c->scanned >> axis & 1)
            l = for_scan(s, l, axis);
    return l;
}

const tc_layout *tc_layout_of_scan(const tc_placing *s, const tc_op *scan)
{
    tc_placing *placing = (tc_placing *)s;
    const tc_class *c = tc_class_of(placing, scan->out[0]);
    unsigned axis = (unsigned)tc_op_int(scan, "axis");
    const tc_layout *l = for_scan(s, c->layout, axis);
    return tc_layout_can_scan(l, axis)
               ? l
               : for_scan(s, tc_layout_default(s, c->tile), axis);
}

/* ---- What follows from others ---- */

/* May the class take what follows from another by trans or reshape, although
 * it accesses memory itself? */
static bool suits(const tc_placing *s, const tc_class *c, const tc_layout *l)
{
    if (!c->access)
        return true;
    tc_vector v = tc_axis_vector(s->axes, c->access);
    return tc_layout_contiguous(l, v.axis, v.elements) == v.elements &&
           run_bytes(l, v.axis, 1) >= 8 * v.elements;
}

static void choice_choose(tc_placing *s, tc_class *c, const tc_layout *l);

static void offer(tc_placing *s, tc_class *c, const tc_op *op,
                  const tc_layout *l)
{
    bool as_large = op->code == TC_TRANS || op->code == TC_RESHAPE;
    if (l && !c->layout && !c->dot && (!as_large || suits(s, c, l)))
        choice_choose(s, c, l);
}

static void choice_choose(tc_placing *s, tc_class *c, const tc_layout *l)
{
    c->layout = l;
    for (tc_relation *r = s->relations; r; r = r->next) {
        tc_class *from = tc_class_root(r->from), *to = tc_class_root(r->to);
        if (from == c && !to->layout)
            offer(s, to, r->op, tc_layout_of_result(s->cx, r->op, l));
        if (to == c && !from->layout)
            offer(s, from, r->op, tc_layout_of_operand(s->cx, r->op, l));
    }
    for (tc_part_relation *r = s->parts; r; r = r->next) {
        tc_class *whole = tc_class_root(r->whole);
        tc_class *part = tc_class_root(r->part);
        if (whole == c && !part->layout)
            offer(s, part, r->op, tc_part_layout(s, r, l));
        if (part == c && !whole->layout)
            offer(s, whole, r->op, tc_whole_layout(s, r, l));
    }
}

/* Is the layout of a chosen before that of b? */
static bool is_before(const tc_placing *s, const tc_class *a, const tc_class *b)
{
    if (!a->dot != !b->dot)
        return a->dot;
    int64_t x = tc_type_count(a->tile), y = tc_type_count(b->tile);
    if (x != y)
        return x > y;
    /* A reshape of what memory gives follows it. */
    if (!s->dots && !a->access != !b->access)
        return a->access;
    if (a->tile->rank != b->tile->rank)
        return a->tile->rank > b->tile->rank;
    return a->weight > b->weight;
}

/* ---- Stores ---- */

/* Warp groups keep the rows that their products gave them: then no group waits
 * for the others in the exchange. */
static const tc_layout *store_layout(const tc_placing *s, const tc_class *c,
                                     tc_vector v)
{
    return c->dot && tc_dot_is_group(c->dot) && v.axis == 1
               ? rows_by_groups(s, c->tile, v)
               : blocked(s, c->tile, v.axis, v.elements);
}

/* Does a loop go over tiles? Then operands of the next one are loaded while
 * this one is stored; else the buffers of operands are free by then. */
static bool is_within_tiles(const tc_op *op)
{
    while (op && !tc_is_tile_loop(op))
        op = op->parent ? op->parent->op : NULL;
    return op;
}

/* A store whose class moves short pieces of rows, where another layout would
 * move whole sectors of 32 bytes: that one is worth an exchange through shared
 * memory, out of loops. */
static void choose_store(tc_placing *s, const tc_op *op)
{
    const tc_class *c = tc_class_of(s, op);
    if (!c || op->in[0]->type->kind != TC_BLOCK_PTR || tc_layout_depth(op) > 0)
        return;
    unsigned bytes = tc_type_bytes(op->in[1]->type->elem);
    int64_t all = tc_type_count(c->tile) * bytes;
    if (all < TC_STAGED_MIN_BYTES || all > s->target->shared_per_block / 2)
        return;
    tc_vector v = tc_axis_vector(s->axes, op);
    const tc_layout *own = store_layout(s, c, v);
    unsigned run = run_bytes(c->layout, v.axis, bytes);
    unsigned best = run_bytes(own, v.axis, bytes);
    if (run >= TC_SECTOR_BYTES || best < 2 * run)
        return;
    if (c->dot && tc_dot_is_group(c->dot) && is_within_tiles(op) &&
        all + tc_dots_double_buffers(s) > s->target->shared_per_block) {
        tc_missed(s->cx, op->loc, pass,
                  "store: in pieces of %u bytes from the layout of its value: "
                  "an exchange through %lld bytes of shared memory would leave "
                  "no room to load operands of products ahead",
                  run, (long long)all);
        return;
    }
    tc_map_set(&s->stores, op, (void *)own);
    tc_remark(s->cx, op->loc, pass,
              "store: in pieces of %u bytes from the layout of its value, %u "
              "after an exchange through shared memory: exchanged",
              run, best);
}

static void choose_stores(tc_placing *s, const tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (op->code == TC_STORE)
            choose_store(s, op);
    }
}

void tc_layouts_choose(tc_placing *s)
{
    for (;;) {
        tc_class *best = NULL;
        for (tc_class *c = s->all; c; c = c->next)
            if (!c->parent && !c->layout && (!best || is_before(s, c, best)))
                best = c;
        if (!best)
            break;
        choice_choose(s, best, tc_layout_of_class(s, best));
    }
    s->stores.arena = s->scratch;
    choose_stores(s, s->f->body);
}
