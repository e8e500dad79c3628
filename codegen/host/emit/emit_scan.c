/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans: for each line along the axis a loop that carries what is combined so
 * far; lines next to each other in memory are done in one vector of lanes.
 */
#include "codegen/host/emit/emit.h"

#include <math.h>
#include <string.h>

typedef struct scan {
    tc_nest *nest;
    tc_op *op;
    unsigned axis, side, width;
    bool reverse, exclusive;
    tc_index line;
} scan;

/* Where exclusive scans begin. */
static LLVMValueRef neutral_of(const scan *s, const tc_type *elem)
{
    tc_emit *e = s->nest->e;
    const char *kind = tc_op_word(s->op, "kind");
    bool max = strcmp(kind, "max") == 0, min = strcmp(kind, "min") == 0;
    LLVMValueRef x = tc_emit_neutral(e, kind, elem);
    if (tc_kind_is_float(elem->kind) && (max || min))
        x = LLVMConstReal(LLVMTypeOf(x), max ? -INFINITY : INFINITY);
    return tc_splat(e, x, s->width);
}

/* Step k of the line. */
static tc_index index_at(const scan *s, LLVMValueRef k, unsigned level)
{
    tc_emit *e = s->nest->e;
    tc_index at = s->line;
    if (s->reverse)
        k = LLVMBuildSub(e->b, tc_i64(e, s->side - 1), k, "");
    at.at[s->axis] = k;
    at.level[s->axis] = level;
    return at;
}

static void read(const scan *s, const tc_index *at, LLVMValueRef *x)
{
    for (unsigned i = 0; i < s->op->nin; i++)
        x[i] = tc_splat(s->nest->e, tc_eval_full(s->nest, s->op->in[i], at),
                        s->width);
}

static void write(const scan *s, const tc_index *at, LLVMValueRef *x)
{
    tc_emit *e = s->nest->e;
    for (unsigned i = 0; i < s->op->nout; i++) {
        const tc_value *v = s->op->out[i];
        if (tc_buffer_of(v)) /* used */
            tc_buffer_store(e, tc_buffer_of(v), v->type, at,
                            tc_rounded(e, v->type->elem, x[i]));
    }
}

/* args: the left sides, then the right ones. */
static void combine(const scan *s, LLVMValueRef *args, LLVMValueRef *out)
{
    tc_emit *e = s->nest->e;
    if (s->op->nregions)
        tc_emit_region(e, s->op, s->width, args, out);
    else
        out[0] = tc_emit_combine(e, tc_op_word(s->op, "kind"),
                                 s->op->in[0]->type->elem, args[0], args[1]);
}

/* Steps `first` to the last, after `sum`. */
static void scan_rest(const scan *s, unsigned first, LLVMValueRef *sum)
{
    tc_emit *e = s->nest->e;
    unsigned n = s->op->nin;
    LLVMValueRef *args = tc_arena_array(e->arena, LLVMValueRef, 2 * n);
    tc_host_loop l = tc_loop_begin(s->nest, s->side - first, 1);
    for (unsigned i = 0; i < n; i++) {
        args[i] = LLVMBuildPhi(e->b, LLVMTypeOf(sum[i]), "");
        LLVMAddIncoming(args[i], &sum[i], &l.before, 1);
    }
    LLVMValueRef *carried = tc_arena_copy(e->arena, args, n * sizeof *args);
    LLVMValueRef k = LLVMBuildAdd(e->b, l.at, tc_i64(e, first), "");
    tc_index at = index_at(s, k, s->nest->level);
    read(s, &at, args + n);
    if (s->exclusive)
        write(s, &at, carried);
    combine(s, args, sum);
    if (e->failed)
        return;
    if (!s->exclusive)
        write(s, &at, sum);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
    for (unsigned i = 0; i < n; i++)
        LLVMAddIncoming(carried[i], &sum[i], &end, 1);
    tc_loop_end(s->nest, &l);
}

static void scan_line(const scan *s)
{
    tc_emit *e = s->nest->e;
    LLVMValueRef *sum = tc_arena_array(e->arena, LLVMValueRef, s->op->nin);
    if (s->exclusive) {
        sum[0] = neutral_of(s, s->op->in[0]->type->elem);
        scan_rest(s, 0, sum);
        return;
    }
    tc_index first = index_at(s, tc_i64(e, 0), 0);
    read(s, &first, sum);
    write(s, &first, sum);
    if (s->side > 1)
        scan_rest(s, 1, sum);
}

/* The tile with one element along the axis: what lines are walked over. */
static const tc_type *lines_of(tc_emit *e, const tc_type *t, unsigned axis)
{
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++)
        dims[i] = i == axis ? tc_dim_const(e->cx, 1) : t->dims[i];
    return tc_type_shaped(e->cx, TC_TILE, t->rank, dims, t->elem);
}

void tc_emit_scan(tc_emit *e, tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    scan s = {.op = op,
              .axis = (unsigned)tc_op_int(op, "axis"),
              .reverse = tc_op_int(op, "reverse"),
              .exclusive = tc_op_int(op, "exclusive")};
    const tc_type *lines = lines_of(e, t, s.axis);
    bool by_lanes = tc_vector_axis(lines) == tc_vector_axis(t) &&
                    (!op->nregions || tc_is_on_lanes(op));
    s.side = tc_side(t, s.axis);
    tc_walk w = tc_walk_new(e, NULL, lines, by_lanes ? e->width : 1, 1);
    tc_walk_outer(&w);
    tc_walk_inner(&w);
    s.nest = &w.nest;
    s.line = w.index[0];
    s.width = s.line.width;
    scan_line(&s);
    tc_walk_end_inner(&w);
    tc_walk_end_outer(&w);
}
