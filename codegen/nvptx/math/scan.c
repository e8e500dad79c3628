/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans within a warp, digit by digit of the axis (ir/types/layout.h), from the
 * lowest to the highest:
 *
 *   registers below all lanes   a thread scans its run of elements
 *   lane bits                   lanes exchange the totals of what they have
 *                               (shfl.bfly): those with the bit keep the other
 *                               one's as what comes before
 *   registers above lanes       totals of one run come before the next
 *   warps                       nothing: lower-conversions makes them exchange
 *                               totals, which scan_carry combines with
 *
 * What comes before a run is kept apart, and combined with its elements once,
 * at the end.
 *
 *   4 elements a thread, lane bits 0 to 4:  3 sums, 5 shuffles, 10 sums, 4 sums
 */
#include "codegen/nvptx/math/combine.h"
#include "ir/eval/eval.h"

#include <math.h>
#include <string.h>

typedef struct scanner {
    tc_gen *g;
    const tc_op *op;
    const tc_layout *l;
    unsigned axis;
    bool reverse, exclusive;
    tc_combiner c;
    tc_axis_digits digits;
} scanner;

/* The registers along one line, in the order of the scan. */
typedef struct line {
    unsigned n;
    uint32_t *regs;
    tc_tuple *local; /* of each: combined with those before it in its run */
    unsigned run;    /* registers of a run: 0 while they grow */
    unsigned group;  /* registers whose totals are in: whole runs */
    tc_tuple *total; /* of each group, at its first register */
    tc_tuple *pre;   /* of each run, at its first register: what comes before
                      * it; x NULL: nothing */
    /* Of a region: i1, whether anything does; NULL: yes. */
    LLVMValueRef *has;
} line;

static bool has_pre(const line *l, unsigned at)
{
    return l->pre[at].x != NULL;
}

static tc_scalar neutral_number(const scanner *s, tc_kind kind)
{
    const char *word = s->c.kind;
    unsigned bits = tc_scalar_infos[kind].bits;
    int64_t least = kind == TC_I1 ? 0 : -((int64_t)1 << (bits - 1));
    bool max = strcmp(word, "max") == 0, min = strcmp(word, "min") == 0;
    bool one = strcmp(word, "prod") == 0;
    if (tc_kind_is_float(kind)) {
        /* NaN is no number to max and min. */
        double none = !s->exclusive ? NAN : max ? -INFINITY : INFINITY;
        double zero = s->exclusive ? 0.0 : -0.0;
        return (tc_scalar){.f = max || min ? none : one ? 1.0 : zero};
    }
    return (tc_scalar){.i = max                        ? least
                            : min                      ? -(least + 1)
                            : strcmp(word, "and") == 0 ? -1
                            : one                      ? 1
                                                       : 0};
}

/* Of a kind. */
static tc_tuple neutral(const scanner *s)
{
    tc_tuple t = tc_tuple_new(&s->c);
    const tc_type *elem = tc_combiner_wide(&s->c, 0);
    LLVMTypeRef type = tc_gen_type(s->g, elem);
    tc_scalar x = neutral_number(s, elem->kind);
    unsigned unused = 64 - tc_scalar_infos[elem->kind].bits;
    t.x[0] = tc_kind_is_float(elem->kind)
                 ? LLVMConstReal(type, x.f)
                 : LLVMConstInt(type, (uint64_t)x.i << unused >> unused, false);
    return t;
}

/* ---- Lines ---- */

static int32_t position(const scanner *s, uint32_t reg)
{
    int32_t coord[TC_MAX_RANK];
    tc_coords_first(s->l, reg, coord);
    return s->reverse ? -coord[s->axis] : coord[s->axis];
}

static void insert_register(const scanner *s, line *l, uint32_t reg)
{
    unsigned i = l->n++;
    for (; i > 0 && position(s, l->regs[i - 1]) > position(s, reg); i--)
        l->regs[i] = l->regs[i - 1];
    l->regs[i] = reg;
}

static line line_new(const scanner *s, unsigned most)
{
    tc_arena *a = s->g->arena;
    return (line){.regs = tc_arena_array(a, uint32_t, most),
                  .local = tc_arena_array(a, tc_tuple, most),
                  .total = tc_arena_array(a, tc_tuple, most),
                  .pre = tc_arena_array(a, tc_tuple, most),
                  .has = tc_arena_array(a, LLVMValueRef, most),
                  .group = 1};
}

/* The coordinate, 0 along the axis, of a register of the tile. */
static void line_of(const scanner *s, uint32_t reg, int32_t *coord)
{
    tc_coords_first(s->l, reg, coord);
    coord[s->axis] = 0;
}

/* All lines; registers that repeat others are in none. */
static line *find_lines(const scanner *s, unsigned *n)
{
    uint32_t nregs = tc_layout_size(s->l, TC_REGISTER);
    line *lines = tc_arena_array(s->g->arena, line, nregs);
    uint32_t *of = tc_arena_array(s->g->arena, uint32_t, nregs);
    tc_held own = tc_held_new(s->g, s->l);
    *n = 0;
    for (uint32_t reg = 0; reg < nregs; reg++) {
        int32_t coord[TC_MAX_RANK];
        tc_coords_first(s->l, reg, coord);
        if (tc_held_find(&own, coord) != reg)
            continue;
        line_of(s, reg, coord);
        uint32_t first = (uint32_t)tc_held_find(&own, coord);
        if (first == reg) {
            of[reg] = (*n)++;
            lines[of[reg]] = line_new(s, nregs);
        }
        insert_register(s, &lines[of[first]], reg);
    }
    return lines;
}

/* ---- Digits ---- */

/* `count` groups become one: a run, while runs grow. */
static void merge_runs(const scanner *s, line *l, unsigned count)
{
    unsigned size = l->group;
    for (unsigned at = 0; at < l->n; at += count * size) {
        tc_tuple before = l->total[at];
        for (unsigned k = 1; k < count; k++) {
            unsigned from = at + k * size;
            for (unsigned i = from; i < from + size; i++)
                l->local[i] = tc_tuple_combine(&s->c, before, l->local[i]);
            before = l->local[from + size - 1];
        }
        l->total[at] = before;
    }
    l->group *= count;
}

/* `before` comes before the run, and before what came before it so far. */
static void put_before(const scanner *s, line *l, unsigned run, tc_tuple before)
{
    if (!has_pre(l, run)) {
        l->pre[run] = before;
        return;
    }
    tc_tuple both = tc_tuple_combine(&s->c, before, l->pre[run]);
    if (!s->c.kind && l->has[run])
        both = tc_tuple_select(&s->c, l->has[run], both, before);
    l->pre[run] = both;
    l->has[run] = NULL;
}

/* The same with groups of whole runs. */
static void merge_groups(const scanner *s, line *l, unsigned count)
{
    unsigned size = l->group;
    for (unsigned at = 0; at < l->n; at += count * size) {
        tc_tuple before = l->total[at];
        for (unsigned k = 1; k < count; k++) {
            unsigned from = at + k * size;
            for (unsigned i = from; i < from + size; i += l->run)
                put_before(s, l, i, before);
            before = tc_tuple_combine(&s->c, before, l->total[from]);
        }
        l->total[at] = before;
    }
    l->group *= count;
}

/* What comes before a run in lanes that have `upper` is also `other`. */
static void put_other_before(const scanner *s, line *l, unsigned run,
                             LLVMValueRef upper, tc_tuple other)
{
    LLVMBuilderRef b = s->g->b;
    if (s->c.kind) {
        other = tc_tuple_select(&s->c, upper, other, neutral(s));
        put_before(s, l, run, other);
        return;
    }
    LLVMValueRef had = l->has[run];
    tc_tuple old = l->pre[run];
    bool first = !has_pre(l, run);
    put_before(s, l, run, other);
    if (first) {
        l->has[run] = upper;
        return;
    }
    l->pre[run] = tc_tuple_select(&s->c, upper, l->pre[run], old);
    l->has[run] = had ? LLVMBuildOr(b, had, upper, "") : NULL;
}

/* i1: this lane comes after the one whose number differs in the bit. */
static LLVMValueRef comes_after(const scanner *s, uint32_t bit)
{
    LLVMBuilderRef b = s->g->b;
    LLVMValueRef own = LLVMBuildAnd(b, s->g->lane, tc_gen_i32(s->g, bit), "");
    return LLVMBuildICmp(b, s->reverse ? LLVMIntEQ : LLVMIntNE, own,
                         tc_gen_i32(s->g, 0), "");
}

static void exchange(const scanner *s, line *l, uint32_t bit)
{
    LLVMValueRef upper = comes_after(s, bit);
    for (unsigned at = 0; at < l->n; at += l->group) {
        tc_tuple own = l->total[at];
        tc_tuple other = tc_tuple_shuffled(&s->c, own, bit);
        for (unsigned i = at; i < at + l->group; i += l->run)
            put_other_before(s, l, i, upper, other);
        l->total[at] =
            s->c.kind
                ? tc_tuple_combine(&s->c, own, other)
                : tc_tuple_combine(&s->c,
                                   tc_tuple_select(&s->c, upper, other, own),
                                   tc_tuple_select(&s->c, upper, own, other));
    }
}

static void scan_line(const scanner *s, line *l, LLVMValueRef **in)
{
    for (unsigned i = 0; i < l->n; i++)
        l->local[i] = l->total[i] = tc_tuple_of(&s->c, in, l->regs[i]);
    for (unsigned i = 0; i < s->digits.n; i++) {
        const tc_axis_digit *d = &s->digits.all[i];
        unsigned count = d->count;
        if (d->in == TC_LANE) {
            l->run = l->run ? l->run : l->group;
            exchange(s, l, 1u << d->mode);
        }
        if (d->in != TC_REGISTER)
            continue;
        /* A thread goes through neighboring digits in one go. */
        for (; i + 1 < s->digits.n && d[1].in == TC_REGISTER; i++, d++)
            count *= d[1].count;
        if (l->run)
            merge_groups(s, l, count);
        else
            merge_runs(s, l, count);
    }
    l->run = l->run ? l->run : l->group;
}

/* ---- Results ---- */

/* Element i of a line. */
static tc_tuple result_of(const scanner *s, const line *l, unsigned i)
{
    unsigned run = i - i % l->run;
    unsigned at = s->exclusive ? i - 1 : i;
    if (s->exclusive && i == run)
        return has_pre(l, run) ? l->pre[run] : neutral(s);
    if (!has_pre(l, run))
        return s->exclusive ? tc_tuple_combine(&s->c, neutral(s), l->local[at])
                            : l->local[at];
    tc_tuple both = tc_tuple_combine(&s->c, l->pre[run], l->local[at]);
    return l->has[run] ? tc_tuple_select(&s->c, l->has[run], both, l->local[at])
                       : both;
}

/* Registers of a result that repeat others. */
static void repeat_registers(tc_gen *g, const tc_value *v)
{
    const tc_layout *l = v->type->layout;
    LLVMValueRef *x = tc_gen_get(g, v);
    tc_held held = tc_held_new(g, l);
    for (uint32_t r = 0; r < tc_layout_size(l, TC_REGISTER); r++) {
        int32_t coord[TC_MAX_RANK];
        tc_coords_first(l, r, coord);
        x[r] = x[tc_held_find(&held, coord)];
    }
}

static void put_totals(const scanner *s, const line *l, LLVMValueRef **out)
{
    int32_t coord[TC_MAX_RANK];
    const tc_value *v = s->op->out[s->c.n];
    tc_held held = tc_held_new(s->g, v->type->layout);
    line_of(s, l->regs[0], coord);
    tc_tuple_put(&s->c, l->total[0], out + s->c.n,
                 (uint32_t)tc_held_find(&held, coord));
}

static scanner scanner_of(tc_gen *g, const tc_op *op)
{
    scanner s = {.g = g,
                 .op = op,
                 .l = op->in[0]->type->layout,
                 .axis = (unsigned)tc_op_int(op, "axis"),
                 .reverse = tc_op_int(op, "reverse"),
                 .c = tc_combiner_of(g, op)};
    bool ok = tc_layout_axis_digits(s.l, s.axis, &s.digits);
    (void)ok; /* the verifier saw to that */
    return s;
}

static LLVMValueRef **operands_of(tc_gen *g, const tc_op *op)
{
    LLVMValueRef **in = tc_arena_array(g->arena, LLVMValueRef *, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = tc_gen_get(g, op->in[i]);
    return in;
}

static LLVMValueRef **results_of(tc_gen *g, const tc_op *op)
{
    LLVMValueRef **out = tc_arena_array(g->arena, LLVMValueRef *, op->nout);
    for (unsigned i = 0; i < op->nout; i++)
        out[i] = tc_gen_set(g, op->out[i]);
    return out;
}

bool tc_nvptx_scan(tc_gen *g, const tc_op *op)
{
    scanner s = scanner_of(g, op);
    s.exclusive = tc_op_int(op, "exclusive");
    bool within = tc_op_is_word(op, "within", "warp");
    for (unsigned i = 0; !within && i < s.digits.n; i++)
        if (s.digits.all[i].in == TC_WARP)
            return tc_gen_error(g, op,
                                "warps lie in the axis, and nothing was made "
                                "to exchange their totals");
    LLVMValueRef **in = operands_of(g, op), **out = results_of(g, op);
    unsigned nlines;
    line *lines = find_lines(&s, &nlines);
    for (unsigned k = 0; k < nlines && !g->failed; k++) {
        line *l = &lines[k];
        scan_line(&s, l, in);
        for (unsigned i = 0; i < l->n; i++)
            tc_tuple_put(&s.c, result_of(&s, l, i), out, l->regs[i]);
        if (within)
            put_totals(&s, l, out);
    }
    for (unsigned i = 0; i < op->nout && !g->failed; i++)
        repeat_registers(g, op->out[i]);
    return !g->failed;
}

/* ---- Totals of other warps ---- */

/* The rank of this warp's piece in the order of the scan: i32. */
static LLVMValueRef own_rank(const scanner *s, unsigned pieces)
{
    const tc_layout *parts =
        tc_layout_partial(s->g->cx, s->l, s->axis, TC_WARP);
    LLVMValueRef at = tc_coords_get(s->g, parts, s->axis).thread;
    return s->reverse
               ? LLVMBuildSub(s->g->b, tc_gen_i32(s->g, pieces - 1), at, "")
               : at;
}

/* The totals of piece k of a line, in the order of the scan. NULL x: another
 * thread has them. */
static tc_tuple total_at(const scanner *s, const tc_held *held,
                         LLVMValueRef **totals, const line *l, unsigned k,
                         unsigned pieces)
{
    int32_t coord[TC_MAX_RANK];
    line_of(s, l->regs[0], coord);
    coord[s->axis] = (int32_t)(s->reverse ? pieces - 1 - k : k);
    int64_t reg = tc_held_find(held, coord);
    return reg < 0 ? (tc_tuple){NULL}
                   : tc_tuple_of(&s->c, totals, (uint32_t)reg);
}

/* What comes before this warp's piece; of a region, if anything does. */
static tc_tuple find_carry(const scanner *s, const line *l,
                           LLVMValueRef **totals, LLVMValueRef rank,
                           unsigned pieces)
{
    const tc_layout *all = s->op->in[s->c.n]->type->layout;
    tc_held held = tc_held_new(s->g, all);
    tc_tuple sum = {NULL}, carry = {NULL};
    if (s->c.kind)
        carry = neutral(s);
    for (unsigned k = 0; k + 1 < pieces; k++) {
        tc_tuple t = total_at(s, &held, totals, l, k, pieces);
        if (!t.x)
            return t;
        sum = sum.x ? tc_tuple_combine(&s->c, sum, t) : t;
        LLVMValueRef after =
            LLVMBuildICmp(s->g->b, LLVMIntUGT, rank, tc_gen_i32(s->g, k), "");
        carry = carry.x ? tc_tuple_select(&s->c, after, sum, carry) : sum;
    }
    return carry;
}

bool tc_nvptx_scan_carry(tc_gen *g, const tc_op *op)
{
    scanner s = scanner_of(g, op);
    LLVMValueRef **in = operands_of(g, op), **out = results_of(g, op);
    unsigned pieces = (unsigned)op->in[s.c.n]->type->layout->shape[s.axis];
    LLVMValueRef rank = own_rank(&s, pieces);
    LLVMValueRef any =
        LLVMBuildICmp(g->b, LLVMIntNE, rank, tc_gen_i32(g, 0), "");
    unsigned nlines;
    line *lines = find_lines(&s, &nlines);
    for (unsigned k = 0; k < nlines && !g->failed; k++) {
        line *l = &lines[k];
        tc_tuple carry = find_carry(&s, l, in + s.c.n, rank, pieces);
        if (!carry.x)
            return tc_gen_error(g, op, "totals are held by other threads");
        for (unsigned i = 0; i < l->n; i++) {
            tc_tuple own = tc_tuple_of(&s.c, in, l->regs[i]);
            tc_tuple both = tc_tuple_combine(&s.c, carry, own);
            if (!s.c.kind)
                both = tc_tuple_select(&s.c, any, both, own);
            tc_tuple_put(&s.c, both, out, l->regs[i]);
        }
    }
    for (unsigned i = 0; i < op->nout && !g->failed; i++)
        repeat_registers(g, op->out[i]);
    return !g->failed;
}
