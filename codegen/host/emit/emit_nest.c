/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over the elements of a tile, and the nests of the plan: elementwise
 * roots and reductions of one shape in one pass.
 *
 * A reduction along the vector axis sums in registers, several vectors of lanes
 * in parallel, and combines them at the end of the row. One along another axis
 * sums in its result's buffer, a vector of columns at a time.
 */
#include "codegen/host/emit/emit.h"

/* ---- Walks ---- */

/* The most lanes, a power of two, that divide the side. */
static unsigned lanes_for(unsigned side, unsigned most)
{
    unsigned width = most;
    while (width > 1 && side % width)
        width /= 2;
    return width;
}

tc_walk tc_walk_new(tc_emit *e, const tc_item *item, const tc_type *shape,
                    unsigned most_width, unsigned most_unroll)
{
    tc_walk w = {.nest = tc_nest_new(e, item), .shape = shape, .count = 1};
    int vector = tc_vector_axis(shape);
    unsigned side = vector < 0 ? 1 : tc_side(shape, (unsigned)vector);
    unsigned width = lanes_for(side, most_width);
    w.count = lanes_for(side / width, most_unroll);
    for (unsigned u = 0; u < w.count; u++) {
        tc_index *index = &w.index[u];
        index->rank = shape->rank;
        index->width = width;
        index->vector = width > 1 ? vector : -1;
        for (unsigned i = 0; i < shape->rank; i++)
            index->at[i] = tc_i64(e, 0);
    }
    return w;
}

static void set_axis(tc_walk *w, unsigned axis, LLVMValueRef at)
{
    for (unsigned u = 0; u < w->count; u++) {
        w->index[u].at[axis] = at;
        w->index[u].level[axis] = w->nest.level;
    }
}

void tc_walk_outer(tc_walk *w)
{
    for (int i = 0; i < tc_vector_axis(w->shape); i++) {
        unsigned side = tc_side(w->shape, (unsigned)i);
        if (side == 1)
            continue;
        tc_host_loop *l = &w->loops[w->nloops++];
        *l = tc_loop_begin(&w->nest, side, 1);
        set_axis(w, (unsigned)i, l->at);
    }
}

void tc_walk_inner(tc_walk *w)
{
    int axis = tc_vector_axis(w->shape);
    w->inner = NULL;
    if (axis < 0)
        return;
    unsigned width = w->index[0].width, step = width * w->count;
    unsigned side = tc_side(w->shape, (unsigned)axis);
    if (step < side) {
        w->inner = &w->loops[w->nloops++];
        *w->inner = tc_loop_begin(&w->nest, side, step);
        set_axis(w, (unsigned)axis, w->inner->at);
    }
}

void tc_walk_spread(tc_walk *w)
{
    tc_emit *e = w->nest.e;
    int axis = tc_vector_axis(w->shape);
    for (unsigned u = 1; axis >= 0 && u < w->count; u++) {
        LLVMValueRef *at = &w->index[u].at[axis];
        *at = LLVMBuildAdd(e->b, *at, tc_i64(e, u * w->index[u].width), "");
    }
}

void tc_walk_end_inner(tc_walk *w)
{
    if (w->inner) {
        tc_loop_end(&w->nest, w->inner);
        w->nloops--;
    }
}

void tc_walk_end_outer(tc_walk *w)
{
    while (w->nloops > 0)
        tc_loop_end(&w->nest, &w->loops[--w->nloops]);
}

/* ---- Reductions ---- */

static unsigned reduce_axis(const tc_op *op)
{
    return (unsigned)tc_op_int(op, "axis");
}

/* In registers: along the vector axis, or of a tile with one axis. */
static bool is_along(const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    return t->rank == 1 || (int)reduce_axis(op) == tc_vector_axis(t);
}

/* The index in the result. */
static tc_index result_index(const tc_op *op, const tc_index *index)
{
    tc_index to = *index;
    unsigned axis = reduce_axis(op);
    for (unsigned i = axis; i + 1 < index->rank; i++) {
        to.at[i] = index->at[i + 1];
        to.level[i] = index->level[i + 1];
    }
    to.rank--;
    if (to.vector > (int)axis)
        to.vector--;
    return to;
}

/* All lanes in one. */
static LLVMValueRef combine_lanes(tc_emit *e, const tc_op *op, LLVMValueRef x)
{
    const char *kind = tc_op_word(op, "kind");
    const tc_type *elem = op->in[0]->type->elem;
    while (tc_is_vector(x)) {
        unsigned n = LLVMGetVectorSize(LLVMTypeOf(x)) / 2;
        LLVMValueRef low[64], high[64];
        for (unsigned i = 0; i < n; i++) {
            low[i] = tc_i32(e, i);
            high[i] = tc_i32(e, n + i);
        }
        LLVMValueRef poison = LLVMGetPoison(LLVMTypeOf(x));
        LLVMValueRef a, b;
        if (n == 1) {
            a = LLVMBuildExtractElement(e->b, x, low[0], "");
            b = LLVMBuildExtractElement(e->b, x, high[0], "");
        } else {
            a = LLVMBuildShuffleVector(e->b, x, poison, LLVMConstVector(low, n),
                                       "");
            b = LLVMBuildShuffleVector(e->b, x, poison,
                                       LLVMConstVector(high, n), "");
        }
        x = tc_emit_combine(e, kind, elem, a, b);
    }
    return x;
}

/* A reduction along the vector axis while its nest is made: one sum for each
 * vector that the inner loop's body takes. */
typedef struct sums {
    tc_op *op;
    LLVMValueRef sum[TC_MAX_UNROLL]; /* phis; NULL without a loop */
} sums;

static void begin_sums(tc_walk *w, sums *s)
{
    tc_emit *e = w->nest.e;
    if (!w->inner)
        return;
    const tc_type *elem = s->op->in[0]->type->elem;
    LLVMValueRef neutral = tc_emit_neutral(e, tc_op_word(s->op, "kind"), elem);
    LLVMTypeRef type = tc_vector_of(LLVMTypeOf(neutral), w->index[0].width);
    for (unsigned u = 0; u < w->count; u++) {
        s->sum[u] = LLVMBuildPhi(e->b, type, "");
        LLVMValueRef start = tc_splat(e, neutral, w->index[0].width);
        LLVMAddIncoming(s->sum[u], &start, &w->inner->before, 1);
    }
}

static void add_to_sum(tc_walk *w, sums *s, unsigned u, LLVMValueRef *next)
{
    tc_emit *e = w->nest.e;
    LLVMValueRef x = tc_eval_full(&w->nest, s->op->in[0], &w->index[u]);
    const char *kind = tc_op_word(s->op, "kind");
    next[u] = s->sum[u] ? tc_emit_combine(e, kind, s->op->in[0]->type->elem,
                                          s->sum[u], x)
                        : x;
}

static void end_sums(tc_walk *w, sums *s, LLVMValueRef *next)
{
    tc_emit *e = w->nest.e;
    const tc_type *elem = s->op->in[0]->type->elem;
    const char *kind = tc_op_word(s->op, "kind");
    for (unsigned n = w->count; n > 1; n /= 2)
        for (unsigned u = 0; u < n / 2; u++)
            next[u] = tc_emit_combine(e, kind, elem, next[u], next[u + n / 2]);
    LLVMValueRef x = tc_rounded(e, elem, combine_lanes(e, s->op, next[0]));
    tc_value *v = s->op->out[0];
    if (!tc_is_tile(v)) {
        tc_set_scalar(e, v, x);
        return;
    }
    tc_index at = result_index(s->op, &w->index[0]);
    at.vector = -1;
    tc_buffer_store(e, tc_buffer_of(v), v->type, &at, x);
}

/* Runs over a whole buffer: fills it, or rounds what is in it. */
static void fill_neutral(tc_emit *e, const tc_op *op, bool round)
{
    const tc_value *v = op->out[0];
    tc_walk w = tc_walk_new(e, NULL, v->type, e->width, 1);
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    LLVMValueRef x;
    if (round) {
        x = tc_buffer_load(e, tc_buffer_of(v), v->type, &w.index[0]);
        x = tc_rounded(e, v->type->elem, x);
    } else {
        x = tc_emit_neutral(e, tc_op_word(op, "kind"), v->type->elem);
        x = tc_splat(e, x, w.index[0].width);
    }
    tc_buffer_store(e, tc_buffer_of(v), v->type, &w.index[0], x);
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
}

static void add_across(tc_walk *w, const tc_op *op, unsigned u, LLVMValueRef x)
{
    tc_emit *e = w->nest.e;
    const tc_value *v = op->out[0];
    tc_index at = result_index(op, &w->index[u]);
    LLVMValueRef sum = tc_buffer_load(e, tc_buffer_of(v), v->type, &at);
    sum = tc_emit_combine(e, tc_op_word(op, "kind"), v->type->elem, sum, x);
    tc_buffer_store(e, tc_buffer_of(v), v->type, &at, sum);
}

/* ---- Nests ---- */

static bool is_across(const tc_op *op)
{
    return op->code == TC_REDUCE && !is_along(op);
}

static bool is_narrow(const tc_op *op)
{
    return tc_kind_is_narrow(op->in[0]->type->elem->kind);
}

/* Long bodies are not repeated. */
static unsigned unroll_for(const tc_item *item)
{
    unsigned cost = 0;
    for (unsigned i = 0; i < item->nroots; i++) {
        const tc_op *op = item->roots[i];
        const tc_value *v = op->code == TC_REDUCE ? op->in[0] : op->out[0];
        cost += tc_place_of(v)->cost;
    }
    return cost < 60 ? 4 : cost < 150 ? 2 : 1;
}

typedef struct nest_state {
    tc_walk w;
    unsigned nsums;
    sums *sums;
    LLVMValueRef (*next)[TC_MAX_UNROLL];  /* of each sum */
    LLVMValueRef (*value)[TC_MAX_UNROLL]; /* of each root */
} nest_state;

static void compute_body(nest_state *s, const tc_item *item)
{
    tc_nest *n = &s->w.nest;
    for (unsigned i = 0; i < item->nroots; i++) {
        tc_op *op = item->roots[i];
        tc_value *v = op->code == TC_REDUCE ? op->in[0] : op->out[0];
        for (unsigned u = 0; u < s->w.count; u++)
            if (op->code != TC_REDUCE || is_across(op))
                s->value[i][u] = tc_eval_full(n, v, &s->w.index[u]);
    }
    for (unsigned i = 0; i < s->nsums; i++)
        for (unsigned u = 0; u < s->w.count; u++)
            add_to_sum(&s->w, &s->sums[i], u, s->next[i]);
}

static void store_body(nest_state *s, const tc_item *item)
{
    for (unsigned i = 0; i < item->nroots; i++) {
        tc_op *op = item->roots[i];
        for (unsigned u = 0; u < s->w.count; u++) {
            if (is_across(op))
                add_across(&s->w, op, u, s->value[i][u]);
            else if (op->code != TC_REDUCE && tc_buffer_of(op->out[0]))
                tc_buffer_store(s->w.nest.e, tc_buffer_of(op->out[0]),
                                op->out[0]->type, &s->w.index[u],
                                s->value[i][u]);
        }
    }
}

void tc_emit_nest(tc_emit *e, const tc_item *item)
{
    nest_state s = {
        .w = tc_walk_new(e, item, item->shape, e->width, unroll_for(item))};
    s.sums = tc_arena_array(e->arena, sums, item->nroots);
    s.next = tc_arena_alloc(e->arena, item->nroots * sizeof *s.next);
    s.value = tc_arena_alloc(e->arena, item->nroots * sizeof *s.value);
    for (unsigned i = 0; i < item->nroots; i++) {
        tc_op *op = item->roots[i];
        if (is_across(op))
            fill_neutral(e, op, false);
        else if (op->code == TC_REDUCE)
            s.sums[s.nsums++].op = op;
    }
    tc_walk_outer(&s.w);
    tc_walk_inner(&s.w);
    for (unsigned i = 0; i < s.nsums; i++)
        begin_sums(&s.w, &s.sums[i]);
    tc_walk_spread(&s.w);
    compute_body(&s, item);
    store_body(&s, item);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
    for (unsigned i = 0; s.w.inner && i < s.nsums; i++)
        for (unsigned u = 0; u < s.w.count; u++)
            LLVMAddIncoming(s.sums[i].sum[u], &s.next[i][u], &end, 1);
    tc_walk_end_inner(&s.w);
    for (unsigned i = 0; i < s.nsums; i++)
        end_sums(&s.w, &s.sums[i], s.next[i]);
    tc_walk_end_outer(&s.w);
    for (unsigned i = 0; i < item->nroots; i++)
        if (is_across(item->roots[i]) && is_narrow(item->roots[i]))
            fill_neutral(e, item->roots[i], true);
}

void tc_emit_into(tc_emit *e, tc_value *v, tc_host_buffer *to)
{
    if (tc_place_of(v)->root && tc_buffer_of(v) == to)
        return;
    tc_walk w = tc_walk_new(e, NULL, v->type, e->width, 4);
    LLVMValueRef x[TC_MAX_UNROLL];
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    tc_walk_spread(&w);
    for (unsigned u = 0; u < w.count; u++)
        x[u] = tc_eval_full(&w.nest, v, &w.index[u]);
    for (unsigned u = 0; u < w.count; u++)
        tc_buffer_store(e, to, v->type, &w.index[u], x[u]);
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
}

/* ---- Reductions by a region ---- */

typedef struct combiner {
    tc_nest *nest;
    tc_op *op;
    tc_index index; /* of the result */
    unsigned axis;
} combiner;

/* The operands at position k of the axis. */
static void operands_at(const combiner *c, LLVMValueRef k, unsigned level,
                        LLVMValueRef *x)
{
    tc_index at = c->index;
    for (unsigned i = c->index.rank; i > c->axis; i--) {
        at.at[i] = at.at[i - 1];
        at.level[i] = at.level[i - 1];
    }
    at.rank++;
    at.at[c->axis] = k;
    at.level[c->axis] = level;
    if (at.vector >= (int)c->axis)
        at.vector++;
    for (unsigned i = 0; i < c->op->nin; i++)
        x[i] = tc_eval_full(c->nest, c->op->in[i], &at);
}

bool tc_is_on_lanes(const tc_op *op)
{
    tc_each_op (inner, op->regions[0])
        if (inner->code != TC_YIELD &&
            (!tc_op_has(inner, TC_PURE) || inner->nregions > 0 ||
             inner->nin > 3 || !tc_type_is_scalar(inner->out[0]->type)))
            return false;
    return true;
}

static void run_on_lanes(tc_emit *e, const tc_op *op, unsigned width)
{
    tc_each_op (inner, op->regions[0]) {
        LLVMValueRef in[3] = {0};
        if (inner->code == TC_YIELD)
            return;
        for (unsigned i = 0; i < inner->nin; i++)
            if (tc_type_is_scalar(inner->in[i]->type))
                in[i] = tc_splat(e, tc_scalar_of(e, inner->in[i]), width);
        tc_set_scalar(e, inner->out[0], tc_emit_scalar(e, inner, in));
    }
}

void tc_emit_region(tc_emit *e, const tc_op *op, unsigned width,
                    LLVMValueRef *args, LLVMValueRef *out)
{
    const tc_region *r = op->regions[0];
    for (unsigned i = 0; i < r->nargs; i++)
        tc_set_scalar(e, r->args[i], args[i]);
    if (tc_is_on_lanes(op))
        run_on_lanes(e, op, width);
    else
        tc_emit_schedule(e, tc_op_plan_of(op)->regions[0]);
    for (unsigned i = 0; !e->failed && i < r->last->nin; i++)
        out[i] = tc_splat(e, tc_scalar_of(e, r->last->in[i]), width);
}

static void store_results(const combiner *c, LLVMValueRef *x)
{
    tc_emit *e = c->nest->e;
    for (unsigned i = 0; i < c->op->nout; i++) {
        tc_value *v = c->op->out[i];
        if (tc_is_tile(v))
            tc_buffer_store(e, tc_buffer_of(v), v->type, &c->index, x[i]);
        else
            tc_set_scalar(e, v, x[i]);
    }
}

static void reduce_lanes(combiner *c)
{
    tc_emit *e = c->nest->e;
    tc_op *op = c->op;
    unsigned n = op->nin, width = c->index.vector >= 0 ? c->index.width : 1;
    unsigned side = tc_side(op->in[0]->type, c->axis);
    LLVMValueRef *args = tc_arena_array(e->arena, LLVMValueRef, 2 * n);
    LLVMValueRef *sum = tc_arena_array(e->arena, LLVMValueRef, n);
    operands_at(c, tc_i64(e, 0), 0, sum);
    if (side > 1) {
        tc_host_loop l = tc_loop_begin(c->nest, side - 1, 1);
        for (unsigned i = 0; i < n; i++) {
            args[i] = LLVMBuildPhi(e->b, LLVMTypeOf(sum[i]), "");
            LLVMAddIncoming(args[i], &sum[i], &l.before, 1);
        }
        LLVMValueRef *phis = tc_arena_copy(e->arena, args, n * sizeof *args);
        LLVMValueRef k = LLVMBuildAdd(e->b, l.at, tc_i64(e, 1), "");
        operands_at(c, k, c->nest->level, args + n);
        tc_emit_region(e, op, width, args, sum);
        if (e->failed)
            return;
        LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
        for (unsigned i = 0; i < n; i++)
            LLVMAddIncoming(phis[i], &sum[i], &end, 1);
        tc_loop_end(c->nest, &l);
    }
    store_results(c, sum);
}

void tc_emit_region_reduce(tc_emit *e, tc_op *op)
{
    if (!tc_is_tile(op->out[0])) {
        tc_nest nest = tc_nest_new(e, NULL);
        combiner c = {&nest, op, {.width = 1, .vector = -1}, 0};
        reduce_lanes(&c);
        return;
    }
    unsigned width = tc_is_on_lanes(op) ? e->width : 1;
    tc_walk w = tc_walk_new(e, NULL, op->out[0]->type, width, 1);
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    combiner c = {&w.nest, op, w.index[0], reduce_axis(op)};
    reduce_lanes(&c);
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
}
