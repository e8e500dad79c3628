/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/fold/interp.h"

#include <string.h>

typedef struct interp {
    tc_arena *a;
    bool failed;
} interp;

static tile *value_of(const tc_value *v)
{
    return v->data;
}

static tile *new_tile(interp *s, const tc_type *type)
{
    tile *t = tc_arena_new(s->a, tile);
    t->type = type;
    t->n = type->kind == TC_TILE ? tc_type_count(type) : 1;
    t->lanes = tc_arena_array(s->a, tc_scalar, (size_t)t->n);
    return t;
}

static int64_t side(const tc_type *t, unsigned axis)
{
    return tc_dim_value(t->dims[axis]);
}

/* Coordinates of a lane, and back. */
static void to_coords(const tc_type *t, int64_t lane, int64_t *c)
{
    for (unsigned i = t->rank; i-- > 0;) {
        c[i] = lane % side(t, i);
        lane /= side(t, i);
    }
}

static int64_t to_lane(const tc_type *t, const int64_t *c)
{
    int64_t lane = 0;
    for (unsigned i = 0; i < t->rank; i++)
        lane = lane * side(t, i) + c[i];
    return lane;
}

static tc_scalar lane_of(const tile *t, int64_t lane)
{
    return t->lanes[t->type->kind == TC_TILE ? lane : 0];
}

/* ---- Ops on lanes and shapes ---- */

static void run_elementwise(interp *s, const tc_op *op, tile *out)
{
    tc_scalar in[3];
    for (int64_t lane = 0; lane < out->n; lane++) {
        for (unsigned i = 0; i < op->nin; i++)
            in[i] = lane_of(value_of(op->in[i]), lane);
        if (!tc_eval_op(op, in, &out->lanes[lane]))
            s->failed = true;
    }
}

/* Each lane of the result is one of the operand: which? */
static int64_t source_lane(const tc_op *op, int64_t lane)
{
    const tc_type *from = op->in[0]->type, *to = op->out[0]->type;
    int64_t c[TC_MAX_RANK], d[TC_MAX_RANK];
    to_coords(to, lane, c);
    if (op->code == TC_BROADCAST) {
        for (unsigned i = 0; i < to->rank; i++)
            d[i] = side(from, i) == 1 ? 0 : c[i];
        return to_lane(from, d);
    }
    if (op->code == TC_TRANS) {
        const tc_attr *perm = tc_op_attr(op, "perm");
        for (unsigned i = 0; i < to->rank; i++) {
            unsigned swapped = i + 2 < to->rank ? i : 2 * to->rank - 3 - i;
            d[perm->kind == TC_ATTR_NONE ? swapped : perm->ints[i]] = c[i];
        }
        return to_lane(from, d);
    }
    return lane; /* reshape, expand_dims; 0 for splat, of one lane */
}

static void run_rearranged(interp *s, const tc_op *op, tile *out)
{
    const tile *in = value_of(op->in[0]);
    for (int64_t lane = 0; lane < out->n; lane++)
        out->lanes[lane] = lane_of(in, source_lane(op, lane));
}

static int64_t part_at(const tc_op *op)
{
    const tc_attr *at = tc_op_attr(op, "at");
    return at->kind == TC_ATTR_NONE ? 0 : tc_dim_value(at->dims[0]);
}

static void run_slice(interp *s, const tc_op *op, tile *out)
{
    const tile *in = value_of(op->in[0]);
    int64_t axis = tc_op_int(op, "axis"), c[TC_MAX_RANK];
    int64_t step = tc_op_has_attr(op, "step") ? tc_op_int(op, "step") : 1;
    for (int64_t lane = 0; lane < out->n; lane++) {
        to_coords(out->type, lane, c);
        c[axis] = part_at(op) + step * c[axis];
        out->lanes[lane] = lane_of(in, to_lane(in->type, c));
    }
}

static void run_join(interp *s, const tc_op *op, tile *out)
{
    int64_t axis = tc_op_int(op, "axis"), c[TC_MAX_RANK];
    for (int64_t lane = 0; lane < out->n; lane++) {
        to_coords(out->type, lane, c);
        unsigned i = 0;
        if (op->code == TC_INTERLEAVE) {
            i = c[axis] % 2;
            c[axis] /= 2;
        } else {
            for (; c[axis] >= side(op->in[i]->type, (unsigned)axis); i++)
                c[axis] -= side(op->in[i]->type, (unsigned)axis);
        }
        const tile *in = value_of(op->in[i]);
        out->lanes[lane] = lane_of(in, to_lane(in->type, c));
    }
}

static void run_range(interp *s, const tc_op *op, tile *out)
{
    for (int64_t lane = 0; lane < out->n; lane++)
        out->lanes[lane].i = lane;
}

static tc_opcode combiner(const tc_op *op)
{
    const char *kind = tc_op_word(op, "kind");
    return strcmp(kind, "sum") == 0    ? TC_ADD
           : strcmp(kind, "prod") == 0 ? TC_MUL
                                       : tc_opcode_parse(kind, strlen(kind));
}

/* The lanes along the axis, combined one after the other. */
static void run_reduce(interp *s, const tc_op *op, tile *out)
{
    const tile *in = value_of(op->in[0]);
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (tc_op_is_word(op, "kind", "region")) {
        s->failed = true;
        return;
    }
    const tc_type *elem = in->type->elem;
    tc_value *operands[] = {
        tc_region_add_arg(tc_region_new(op->func, NULL), elem, NULL, op->loc),
        NULL};
    operands[1] = operands[0];
    tc_op *step = tc_op_new(op->func, combiner(op), op->loc, 2, operands, 0);
    tc_op_set_results(step, 1, &elem);
    for (int64_t lane = 0; lane < out->n; lane++) {
        int64_t c[TC_MAX_RANK], d[TC_MAX_RANK];
        if (out->type->kind == TC_TILE)
            to_coords(out->type, lane, d);
        for (unsigned i = 0; i < in->type->rank; i++)
            c[i] = i == axis ? 0 : d[i - (i > axis)];
        tc_scalar sum = in->lanes[to_lane(in->type, c)];
        for (c[axis] = 1; c[axis] < side(in->type, axis); c[axis]++) {
            tc_scalar pair[] = {sum, in->lanes[to_lane(in->type, c)]};
            if (!tc_eval_op(step, pair, &sum))
                s->failed = true;
        }
        out->lanes[lane] = sum;
    }
    tc_op_erase(step);
}

/* Along the axis, one after the other. */
static void run_scan(interp *s, const tc_op *op, tile *out)
{
    const tile *in = value_of(op->in[0]);
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (tc_op_is_word(op, "kind", "region") || tc_op_int(op, "exclusive")) {
        s->failed = true;
        return;
    }
    const tc_type *elem = in->type->elem;
    tc_value *operands[] = {
        tc_region_add_arg(tc_region_new(op->func, NULL), elem, NULL, op->loc),
        NULL};
    operands[1] = operands[0];
    tc_op *step = tc_op_new(op->func, combiner(op), op->loc, 2, operands, 0);
    tc_op_set_results(step, 1, &elem);
    bool reverse = tc_op_int(op, "reverse");
    int64_t side_of = side(in->type, axis);
    for (int64_t lane = 0; lane < out->n; lane++) {
        int64_t c[TC_MAX_RANK];
        to_coords(out->type, lane, c);
        int64_t end = c[axis], by = reverse ? -1 : 1;
        c[axis] = reverse ? side_of - 1 : 0;
        tc_scalar sum = in->lanes[to_lane(in->type, c)];
        while (c[axis] != end) {
            c[axis] += by;
            tc_scalar pair[] = {sum, in->lanes[to_lane(in->type, c)]};
            if (!tc_eval_op(step, pair, &sum))
                s->failed = true;
        }
        out->lanes[lane] = sum;
    }
    tc_op_erase(step);
}

/* ---- Tensors ---- */

static tc_scalar element(const tile *tensor, const int64_t *index,
                         tc_scalar pad)
{
    int64_t at = 0;
    for (unsigned i = 0; i < tensor->type->rank; i++) {
        if (index[i] < 0 || index[i] >= tensor->sizes[i])
            return pad;
        at = at * tensor->sizes[i] + index[i];
    }
    return tensor->lanes[at];
}

static tc_scalar pad_of(const tc_op *op)
{
    const tc_attr *pad = tc_op_attr(op, "pad");
    tc_kind kind = tc_type_elem(op->out[0]->type)->kind;
    return pad->kind == TC_ATTR_NONE ? (tc_scalar){0}
                                     : tc_number_value(pad->number, kind);
}

static void run_gather(interp *s, const tc_op *op, tile *out)
{
    const tile *tensor = value_of(op->in[0]);
    for (int64_t lane = 0; lane < out->n; lane++) {
        int64_t index[TC_MAX_RANK];
        for (unsigned i = 1; i < op->nin; i++)
            index[i - 1] = lane_of(value_of(op->in[i]), lane).i;
        out->lanes[lane] = element(tensor, index, pad_of(op));
    }
}

static void run_size(interp *s, const tc_op *op, tile *out)
{
    out->lanes[0].i = value_of(op->in[0])->sizes[tc_op_int(op, "dim")];
}

/* The offsets are the lanes of a block pointer. */
static void run_block(interp *s, const tc_op *op, tile *out)
{
    out->tensor = value_of(op->in[0]);
    out->block = op;
    out->n = op->nin - 1;
    out->lanes = tc_arena_array(s->a, tc_scalar, (size_t)out->n);
    for (unsigned i = 1; i < op->nin; i++)
        out->lanes[i - 1] = value_of(op->in[i])->lanes[0];
}

static void run_advance(interp *s, const tc_op *op, tile *out)
{
    const tile *in = value_of(op->in[0]);
    *out = *in;
    out->lanes =
        tc_arena_copy(s->a, in->lanes, (size_t)in->n * sizeof *in->lanes);
    for (unsigned i = 1; i < op->nin; i++) {
        tc_kind kind = op->in[i]->type->kind;
        out->lanes[i - 1].i = tc_int_wrap(
            kind, out->lanes[i - 1].i + value_of(op->in[i])->lanes[0].i);
    }
}

/* Of block pointers; all that is outside reads the pad. */
static void run_load(interp *s, const tc_op *op, tile *out)
{
    const tile *block = value_of(op->in[0]);
    if (!block->block) {
        s->failed = true;
        return;
    }
    const tc_attr *sides = tc_op_attr(block->block, "sides");
    for (int64_t lane = 0; lane < out->n; lane++) {
        int64_t c[TC_MAX_RANK], index[TC_MAX_RANK];
        unsigned kept = 0;
        to_coords(out->type, lane, c);
        for (unsigned i = 0; i < sides->n; i++)
            index[i] = block->lanes[i].i + (sides->dims[i] ? c[kept++] : 0);
        out->lanes[lane] = element(block->tensor, index, pad_of(op));
    }
}

/* ---- Control flow ---- */

static void run_region(interp *s, const tc_region *r);

static void give(const tc_op *op, unsigned i, tile *t)
{
    op->out[i]->data = t;
}

static tile *yielded(const tc_region *r, unsigned i)
{
    return value_of(tc_region_terminator(r)->in[i]);
}

static void run_if(interp *s, const tc_op *op)
{
    bool taken = value_of(op->in[0])->lanes[0].i;
    const tc_region *r = op->regions[!taken];
    run_region(s, r);
    for (unsigned i = 0; i < op->nout && !s->failed; i++)
        give(op, i, yielded(r, i));
}

/* The next values of the carried ones, all at once. */
static void step(interp *s, const tc_op *op, const tc_region *from,
                 unsigned first)
{
    tile **next = tc_arena_array(s->a, tile *, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        next[i] = yielded(from, i);
    for (unsigned i = 0; i < op->nout; i++)
        op->regions[0]->args[first + i]->data = next[i];
}

static void run_for(interp *s, const tc_op *op)
{
    const tc_region *body = op->regions[0];
    int64_t lo = value_of(op->in[0])->lanes[0].i;
    int64_t by = value_of(op->in[2])->lanes[0].i;
    uint64_t trips = tc_trip_count(lo, value_of(op->in[1])->lanes[0].i, by);
    for (unsigned i = 0; i < op->nout; i++)
        body->args[1 + i]->data = value_of(op->in[3 + i]);
    for (uint64_t k = 0; k < trips && !s->failed; k++) {
        tile *counter = new_tile(s, op->in[0]->type);
        counter->lanes[0].i = lo + (int64_t)k * by;
        body->args[0]->data = counter;
        run_region(s, body);
        if (!s->failed)
            step(s, op, body, 1);
    }
    for (unsigned i = 0; i < op->nout; i++)
        give(op, i, body->args[1 + i]->data);
}

static void run_while(interp *s, const tc_op *op)
{
    const tc_region *head = op->regions[0], *body = op->regions[1];
    for (unsigned i = 0; i < op->nout; i++)
        head->args[i]->data = value_of(op->in[i]);
    for (int k = 0; k < 10000 && !s->failed; k++) {
        run_region(s, head);
        if (s->failed || !yielded(head, 0)->lanes[0].i)
            break;
        run_region(s, body);
        if (!s->failed)
            step(s, op, body, 0);
    }
    for (unsigned i = 0; i < op->nout; i++)
        give(op, i, head->args[i]->data);
}

typedef void run_fn(interp *s, const tc_op *op, tile *out);
static run_fn *const runners[TC_OPCODE_COUNT] = {
    [TC_CONST] = run_elementwise,
    [TC_DIM] = run_elementwise,
    [TC_SPLAT] = run_rearranged,
    [TC_BROADCAST] = run_rearranged,
    [TC_EXPAND_DIMS] = run_rearranged,
    [TC_RESHAPE] = run_rearranged,
    [TC_SLICE] = run_slice,
    [TC_JOIN] = run_join,
    [TC_INTERLEAVE] = run_join,
    [TC_TRANS] = run_rearranged,
    [TC_RANGE] = run_range,
    [TC_REDUCE] = run_reduce,
    [TC_SCAN] = run_scan,
    [TC_GATHER] = run_gather,
    [TC_SIZE] = run_size,
    [TC_BLOCK] = run_block,
    [TC_ADVANCE] = run_advance,
    [TC_LOAD] = run_load,
};

static void run_op(interp *s, const tc_op *op)
{
    switch (op->code) {
    case TC_IF: run_if(s, op); return;
    case TC_FOR: run_for(s, op); return;
    case TC_WHILE: run_while(s, op); return;
    case TC_ASSERT:
    case TC_ASSUME: return;
    default: break;
    }
    if (tc_op_has(op, TC_TERMINATOR))
        return;
    run_fn *run =
        tc_op_has(op, TC_ELEMENTWISE) ? run_elementwise : runners[op->code];
    if (!run || op->nout != 1) {
        s->failed = true;
        return;
    }
    tile *out = new_tile(s, op->out[0]->type);
    run(s, op, out);
    give(op, 0, out);
}

static void run_region(interp *s, const tc_region *r)
{
    for (const tc_op *op = r->first; op && !s->failed; op = op->next)
        run_op(s, op);
}

tile **interp_run(tc_arena *a, const tc_func *f, tile *const *args)
{
    interp s = {a, false};
    for (unsigned i = 0; i < f->body->nargs; i++)
        f->body->args[i]->data = args[i];
    run_region(&s, f->body);
    tile **results = tc_arena_array(a, tile *, f->nresults);
    for (unsigned i = 0; i < f->nresults && !s.failed; i++)
        results[i] = yielded(f->body, i);
    return s.failed ? NULL : results;
}
