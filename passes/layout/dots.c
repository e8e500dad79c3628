/* SPDX-License-Identifier: Apache-2.0
 *
 * Dots: the instruction by target and elements, and the warp grid of the
 * accumulator. operands.c decides where the operands come from.
 *
 *   %d = dot %q, trans(%k), %c             instr(m16n8k16), warps 4x1
 *
 * Dots that feed each other are a group and share the warp grid. If rows are
 * reduced, or a result is operand A of the next dot, all warps lie along the
 * rows: rows never cross warps and that operand stays in registers.
 *
 * If the target has wgmma, dots with 64 rows for each four warps (a warp group)
 * take it: instr(m64k16). The warp groups then lie along the rows; the
 * accumulator is that of m16n8 by as many warps, so that both kinds of
 * instruction can be mixed in a group of dots. If there are too few rows,
 * groups share rows and take columns each.
 */
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/wgmma.h"
#include "passes/layout/assign_layouts.h"
#include "passes/target/machine_model.h"

#include <string.h>

static const char pass[] = "assign-layouts";

bool tc_dot_is_mma(const tc_dot *d)
{
    return strcmp(d->instr, "fma") != 0;
}

bool tc_dot_is_group(const tc_dot *d)
{
    return tc_mma_is_group(d->instr);
}

tc_dot *tc_dot_group(tc_dot *d)
{
    while (d->group)
        d = d->group;
    return d;
}

tc_dot *tc_dot_of(const tc_placing *s, const tc_op *op)
{
    tc_dot *d = s->dots;
    while (d && d->op != op)
        d = d->next;
    return d;
}

static int32_t side(const tc_value *v, unsigned axis)
{
    return (int32_t)tc_dim_value(v->type->dims[axis]);
}

static int32_t rows(const tc_dot *d)
{
    return side(d->op->out[0], 0);
}

static int32_t columns(const tc_dot *d)
{
    return side(d->op->out[0], 1);
}

static int32_t depth_k(const tc_dot *d)
{
    return side(d->op->in[0], 1);
}

/* ---- Instructions ---- */

/* Casts operand i right after its definition, below a `trans`, so that loops
 * in which it does not change do not repeat the cast. */
static tc_value *cast_after_operand(tc_placing *s, const tc_op *dot, unsigned i,
                                    tc_kind kind)
{
    tc_value *v = dot->in[i];
    const tc_type *elem = tc_type_scalar(s->cx, kind);
    if (v->type->elem == elem)
        return v;
    tc_op *op = tc_match_op(v, TC_TRANS);
    tc_value *from = op ? op->in[0] : v;
    tc_builder b = tc_builder_after(s->f, from, v->loc);
    if (op)
        b.loc = op->loc;
    else if (v->def)
        b.loc = v->def->loc;
    const tc_type *t = tc_type_with_elem(s->cx, from->type, elem);
    tc_op *made = b.before; /* for another dot */
    bool again = made && made->code == TC_CAST && made->in[0] == from &&
                 made->out[0]->type == t;
    tc_value *cast = again ? made->out[0] : tc_build(&b, TC_CAST, 1, &from, t);
    if (tc_dot_is_unsigned(dot, i))
        cast = tc_build_binary(&b, TC_AND, cast,
                               tc_build_int_const(&b, cast->type, 255));
    if (!op)
        return cast;
    b = tc_builder_before(op);
    return tc_build_like(&b, op, &cast,
                         tc_type_with_elem(s->cx, v->type, elem));
}

static void cast_operands(tc_placing *s, tc_op *op, tc_kind kind)
{
    for (unsigned i = 0; i < 2; i++) {
        tc_op *trans = tc_match_op(op->in[i], TC_TRANS);
        tc_op_set_in(op, i, cast_after_operand(s, op, i, kind));
        if (trans && !tc_op_is_used(trans))
            tc_op_erase(trans);
    }
    tc_op_set_word(op, "unsigned", "none");
}

/* The elements in which the products are made: those of both operands, or the
 * smallest that holds both exactly. */
static tc_kind common_kind(tc_kind a, tc_kind b)
{
    if (a == b || (tc_kind_is_f8(a) && tc_kind_is_f8(b)))
        return a;
    if (tc_kind_is_f8(a))
        return b;
    if (tc_kind_is_f8(b))
        return a;
    return TC_F32;
}

/* Why an instruction of M, N multiples of 16, 8 and K of `step` does not fit;
 * NULL: it does. */
static const char *why_not(const tc_placing *s, const tc_dot *d, int32_t step)
{
    if (rows(d) % 16 != 0)
        return tc_arena_printf(s->scratch, "%d rows, expected multiples of 16",
                               rows(d));
    if (columns(d) % 8 != 0)
        return tc_arena_printf(
            s->scratch, "%d columns, expected multiples of 8", columns(d));
    if (depth_k(d) % step != 0)
        return tc_arena_printf(s->scratch,
                               "%d products a sum, expected multiples of %d",
                               depth_k(d), step);
    return NULL;
}

/* Sums of f16 are f32 until the op ends: no thread adds in f16. */
static void widen_sum(tc_op *op)
{
    tc_value *sum = op->out[0];
    if (sum->type->elem->kind != TC_F16)
        return;
    tc_builder b = tc_builder_before(op);
    tc_op_set_in(op, 2, tc_build_cast(&b, op->in[2], TC_F32));
    sum->type = op->in[2]->type;
    b.before = op->next;
    tc_value *narrow = tc_build_cast(&b, sum, TC_F16);
    tc_value_replace(sum, narrow);
    tc_op_set_in(narrow->def, 0, sum);
}

static void use_fma(tc_placing *s, tc_dot *d, const char *why)
{
    d->instr = "fma";
    tc_kind kind = d->op->in[0]->type->elem->kind;
    widen_sum(d->op);
    if (kind != TC_F64)
        cast_operands(s, d->op, kind == TC_I8 ? TC_I32 : TC_F32);
    tc_missed(s->cx, d->op->loc, pass, "dot: no matrix instruction: %s", why);
}

static void use_mma(tc_placing *s, tc_dot *d, const char *instr, int32_t step)
{
    const char *why = why_not(s, d, step);
    d->instr = instr;
    if (why)
        use_fma(s, d, why);
}

static void choose_fp8(tc_placing *s, tc_dot *d)
{
    const char *why = why_not(s, d, 32);
    if (s->target->mma_fp8 && !why) {
        d->instr = "m16n8k32";
        return;
    }
    if (!s->target->mma_fp8)
        why = tc_arena_printf(s->scratch, "%s has none", s->target->name);
    tc_missed(s->cx, d->op->loc, pass,
              "dot: no instruction for 8-bit floats: %s; multiplied as f16, "
              "which holds them exactly",
              why);
    cast_operands(s, d->op, TC_F16);
    use_mma(s, d, "m16n8k16", 16);
}

static void choose_instr(tc_placing *s, tc_dot *d)
{
    tc_kind a = d->op->in[0]->type->elem->kind,
            b = d->op->in[1]->type->elem->kind;
    tc_kind kind = common_kind(a, b);
    if (tc_kind_is_f8(kind)) {
        choose_fp8(s, d);
        return;
    }
    if (kind == TC_F64) {
        use_fma(s, d, "elements are f64");
        return;
    }
    if (kind == TC_I8) {
        use_mma(s, d, "m16n8k32", 32);
        return;
    }
    cast_operands(s, d->op, kind);
    if (kind != TC_F32)
        use_mma(s, d, "m16n8k16", 16);
    else if (tc_op_is_word(d->op, "precision", "ieee") ||
             tc_op_is_word(d->op, "precision", "any"))
        use_fma(s, d,
                "f32 with precision(ieee); precision=tf32x3 has one and is "
                "almost as exact");
    else
        use_mma(s, d, "m16n8k8", 8);
}

static void find_dots(tc_placing *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (op->code != TC_DOT)
            continue;
        tc_dot *d = tc_arena_new(s->scratch, tc_dot);
        d->op = op;
        d->loop = tc_layout_loop(op);
        d->depth = tc_layout_depth(op);
        *(s->last_dot ? &s->last_dot->next : &s->dots) = d;
        s->last_dot = d;
        choose_instr(s, d);
    }
}

void tc_dots_prepare(tc_placing *s)
{
    find_dots(s, s->f->body);
}

/* ---- Groups and warps ---- */

static void dots_join(tc_dot *a, tc_dot *b)
{
    a = tc_dot_group(a);
    b = tc_dot_group(b);
    if (a == b)
        return;
    a->along_rows |= b->along_rows;
    a->along_columns |= b->along_columns;
    b->group = a;
}

/* Operands A that come from another dot's result. */
static void find_packed(tc_placing *s)
{
    for (tc_dot *d = s->dots; d; d = d->next) {
        const tc_value *v = d->op->in[0];
        tc_class *c = tc_class_of(s, v);
        if (tc_dot_is_mma(d) && c && c->dot && tc_dot_is_mma(c->dot))
            d->packed = tc_type_count(v->type) * tc_type_bytes(v->type->elem);
    }
}

void tc_dots_group(tc_placing *s)
{
    for (tc_dot *d = s->dots; d; d = d->next) {
        dots_join(tc_class_root(d->c)->dot, d);
        tc_class *a = tc_class_of(s, d->op->in[0]);
        if (tc_dot_is_mma(d) && a && a->dot && tc_dot_is_mma(a->dot)) {
            dots_join(a->dot, d);
            tc_dot_group(d)->along_rows = true;
        }
    }
    for (tc_relation *r = s->relations; r; r = r->next) {
        tc_dot *d = tc_class_root(r->from)->dot;
        if (!d || r->op->code != TC_REDUCE)
            continue;
        bool columns_go = tc_op_int(r->op, "axis") == 1;
        *(columns_go ? &tc_dot_group(d)->along_rows
                     : &tc_dot_group(d)->along_columns) = true;
    }
    find_packed(s);
}

static bool grid_fits(const tc_placing *s, const tc_dot *group, int wm, int wn)
{
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_dot_group(d) == group && tc_dot_is_mma(d) &&
            !tc_layout_mma_fits(rows(d), columns(d), wm, wn))
            return false;
    return true;
}

static int64_t work(const tc_dot *d)
{
    unsigned depth = d->depth < 6 ? d->depth : 6;
    return (int64_t)rows(d) * columns(d) * depth_k(d) << (4 * depth);
}

/* Elements of operands that a warp of the grid reads, in all dots of a
 * group. */
static int64_t reads(const tc_placing *s, const tc_dot *group, int wm, int wn)
{
    int64_t sum = 0;
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_dot_group(d) == group)
            sum += (int64_t)depth_k(d) * (rows(d) / wm + columns(d) / wn);
    return sum;
}

/* Chooses the warp grid. False: some warps would be idle; the grid then is one
 * with few idle warps. */
static bool arrange(const tc_placing *s, const tc_dot *group, unsigned warps,
                    int *wm, int *wn)
{
    int64_t best = -1;
    bool prefer = group->along_rows || group->along_columns;
    for (int m = 1, most = (int)warps; m <= most; m++) {
        int n = most / m;
        if (most % m || !grid_fits(s, group, m, n))
            continue;
        int64_t cost = reads(s, group, m, n);
        if (prefer)
            cost = group->along_rows ? n : m;
        if (best < 0 || cost <= best) {
            best = cost;
            *wm = m;
            *wn = n;
        }
    }
    if (best >= 0)
        return true;
    *wm = (int)warps;
    while (*wm > 1 && ((int)warps % *wm || !grid_fits(s, group, *wm, 1)))
        --*wm;
    *wn = (int)warps / *wm;
    return false;
}

/* Of all threads, for the accumulator. */
static int64_t registers_of(const tc_dot *d)
{
    const tc_type *t = d->op->out[0]->type;
    return tc_type_count(t) * (t->elem->kind == TC_F16 ? 2 : 4) / 4;
}

/* Of the accumulators of dots in one loop, the most. */
static int64_t accumulators(const tc_placing *s, unsigned warps)
{
    int64_t most = 0;
    for (tc_dot *d = s->dots; d; d = d->next) {
        int64_t sum = 0;
        for (tc_dot *e = s->dots; e; e = e->next)
            if (e->loop == d->loop)
                sum += registers_of(e) / tc_threads(warps);
        most = sum > most ? sum : most;
    }
    return most;
}

/* ---- Warp groups ---- */

/* The instruction of warp groups for the elements of another one's. */
static const char *group_instr(const tc_dot *d)
{
    return strcmp(d->instr, "m16n8k16") == 0   ? "m64k16"
           : strcmp(d->instr, "m16n8k32") == 0 ? "m64k32"
                                               : NULL;
}

static bool is_chained(const tc_dot *d)
{
    return d->packed > 0;
}

/* Why operand i cannot be read from shared memory by wgmma; NULL: it can. */
static const char *why_no_descriptor(const tc_placing *s, const tc_dot *d,
                                     unsigned i)
{
    bool move;
    return tc_dot_why_not_read(s, d, i, group_instr(d), &move);
}

/* Can warp groups side by side have columns each? B is read in whole panels, of
 * 32 bytes at least, or where its columns are rows in memory in eights of them.
 * (Panels as wide as the columns let them be: assign-shared.) */
static bool columns_divide(const tc_placing *s, const tc_dot *d, int groups)
{
    const tc_type *b = d->op->in[1]->type;
    bool rows = tc_dot_is_k_major(s, d, 1) || tc_mma_is_k_major_only(d->instr);
    int32_t panel = rows ? 8 : 32 / (int32_t)tc_type_bytes(b->elem);
    return groups == 1 || columns(d) % (panel * groups) == 0;
}

/* Why wgmma by a grid of warps does not fit; NULL: it does. */
static const char *why_no_group(const tc_placing *s, tc_dot *d, unsigned wm,
                                unsigned groups)
{
    if (s->env->options->any_alignment)
        return "tensors may lie anywhere, so that no TMA copy can feed it";
    if (s->env->options->no_swizzle)
        return "shared memory is to be kept in plain rows";
    if (wm % TC_WARPGROUP_WARPS)
        return tc_arena_printf(s->scratch,
                               "%u warps, expected a multiple of %d",
                               wm * groups, TC_WARPGROUP_WARPS);
    if (rows(d) % (TC_WARP_ROWS * (int32_t)wm))
        return tc_arena_printf(s->scratch,
                               "%d rows, expected a multiple of %u: 64 for "
                               "each 4 of the %u warps",
                               rows(d), TC_WARP_ROWS * wm, wm);
    if (!tc_wgmma_has_columns(d->op->in[0]->type->elem->kind,
                              columns(d) / (int32_t)groups))
        return "its columns are no multiple of 16, as those of i8 must be";
    if (!columns_divide(s, d, (int)groups))
        return "its columns cannot be shared by warp groups";
    if (!grid_fits(s, tc_dot_group(d), (int)wm, (int)groups))
        return "a dot that goes with it has other rows";
    bool registers = is_chained(d) && groups == 1;
    const char *why = registers ? NULL : why_no_descriptor(s, d, 0);
    return why ? why : why_no_descriptor(s, d, 1);
}

/* 4 warps for 64 rows of each block, 3 or 2 blocks at a time. 0: wgmma does not
 * suit the dot. */
static unsigned warps_of_group(const tc_placing *s, tc_dot *d)
{
    if (!s->target->wgmma || !group_instr(d) || rows(d) % TC_WARPGROUP_ROWS)
        return 0;
    int32_t blocks = rows(d) / TC_WARPGROUP_ROWS;
    unsigned groups = blocks % 3 == 0 ? 3 : blocks % 2 == 0 ? 2 : 1;
    unsigned warps = TC_WARPGROUP_WARPS * groups;
    return why_no_group(s, d, warps, 1) ? 0 : warps;
}

/* Warp groups that share rows, so that each has 64: all of a group of dots, or
 * none. 1: rows need not be shared, or it would not help. (Reduced rows are
 * shared by as many warps of m16n8, too.) */
static unsigned groups_along_columns(const tc_placing *s, tc_dot *group)
{
    unsigned n = 2;
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_dot_group(d) == group && tc_dot_is_mma(d)) {
            if (!group_instr(d) || !why_no_group(s, d, s->warps, 1))
                return 1;
            while (n <= tc_warpgroups(s->warps) &&
                   (s->warps % (TC_WARPGROUP_WARPS * n) ||
                    why_no_group(s, d, s->warps / n, n)))
                n++;
        }
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_dot_group(d) == group && tc_dot_is_mma(d) &&
            (n > tc_warpgroups(s->warps) ||
             why_no_group(s, d, s->warps / n, n)))
            return 1;
    return n;
}

/* True: at least one dot of the group takes wgmma. */
static bool use_groups(tc_placing *s, tc_dot *group)
{
    bool used = false;
    unsigned n = s->target->wgmma ? groups_along_columns(s, group) : 1;
    for (tc_dot *d = s->dots; d && s->target->wgmma; d = d->next) {
        if (tc_dot_group(d) != group || !group_instr(d))
            continue;
        const char *why = why_no_group(s, d, s->warps / n, n);
        if (why) {
            tc_missed(s->cx, d->op->loc, pass, "dot: not %s: %s",
                      group_instr(d), why);
            continue;
        }
        d->instr = group_instr(d);
        for (unsigned i = 0; i < 2; i++)
            tc_dot_why_not_read(s, d, i, d->instr, &d->moved[i]);
        if (n > 1) /* other groups want what one has computed */
            d->packed = 0;
        used = true;
    }
    if (used) {
        group->wm = (int)(s->warps / n);
        group->wn = (int)n;
    }
    return used;
}

/* ---- How many, and where ---- */

unsigned tc_dots_warps(const tc_placing *s)
{
    tc_dot *hot = NULL, *group = NULL;
    int wm, wn;
    for (tc_dot *d = s->dots; d; d = d->next) {
        if (!hot || work(d) > work(hot))
            hot = d;
        if (warps_of_group(s, d) && (!group || work(d) > work(group)))
            group = d;
    }
    if (!hot)
        return 0;
    if (group)
        return warps_of_group(s, group);
    unsigned warps = TC_DEFAULT_WARPS;
    if (!tc_dot_is_mma(hot))
        return accumulators(s, warps) > 64 ? TC_DEFAULT_MAX_WARPS : warps;
    hot = tc_dot_group(hot);
    while (warps > 1 && !arrange(s, hot, warps, &wm, &wn))
        warps /= 2;
    while (warps >= TC_DEFAULT_WARPS && warps < TC_DEFAULT_MAX_WARPS &&
           accumulators(s, warps) + TC_SPARE_MMA_REGISTERS >
               TC_STEP_MAX_REGISTERS &&
           arrange(s, hot, 2 * warps, &wm, &wn))
        warps *= 2;
    return warps;
}

static void say_grid(const tc_placing *s, const tc_dot *d)
{
    const tc_dot *g = tc_dot_group((tc_dot *)d);
    const char *why = g->along_rows && g->wm < g->wm * g->wn
                          ? ": too few rows to keep each in one warp"
                      : g->along_rows    ? ": each row stays in one warp"
                      : g->along_columns ? ": columns are reduced"
                                         : "";
    tc_remark(s->cx, d->op->loc, pass, "dot: %s, warps %dx%d%s", d->instr,
              g->wm, g->wn, why);
    if (strcmp(d->instr, "m64k32") == 0 && d->op->nin == 3 && d->loop &&
        tc_type_is_float(d->op->out[0]->type))
        tc_remark(s->cx, d->op->loc, pass,
                  "dot: 13 bits or so are kept of the sum that is added to in "
                  "every step; a dot without a third operand, added in f32, "
                  "keeps all");
    if (!grid_fits(s, g, g->wm, g->wn))
        tc_missed(s->cx, d->op->loc, pass,
                  "dot: %dx%d is too small for %u warps, some do the same work",
                  rows(d), columns(d), s->warps);
}

static int64_t bytes_of(const tc_value *v)
{
    return tc_type_count(v->type) * tc_type_bytes(v->type->elem);
}

int64_t tc_dots_double_buffers(const tc_placing *s)
{
    int64_t most = 0;
    for (tc_dot *d = s->dots; d; d = d->next) {
        int64_t sum = 0;
        for (tc_dot *e = s->dots; d->loop && e; e = e->next)
            for (unsigned i = e->packed ? 1 : 0; e->loop == d->loop && i < 2;
                 i++)
                sum += bytes_of(e->op->in[i]) * (e->moved[i] ? 2 : 1) *
                       (tc_is_defined_in(e->op->in[i], e->loop) ? 2 : 1);
        most = sum > most ? sum : most;
    }
    return most;
}

bool tc_dots_divide(const tc_placing *s, unsigned warps)
{
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_layout_mma_fits(rows(d), columns(d), (int)warps, 1))
            return true;
    return false;
}

bool tc_dots_share(const tc_placing *s, unsigned warps)
{
    int wm, wn;
    for (tc_dot *d = s->dots; d; d = d->next)
        if (!d->group && tc_dot_is_mma(d) && !arrange(s, d, warps, &wm, &wn))
            return false;
    return true;
}

void tc_dots_arrange(tc_placing *s)
{
    for (tc_dot *d = s->dots; d; d = d->next)
        if (!d->group && tc_dot_is_mma(d) && !use_groups(s, d))
            arrange(s, d, s->warps, &d->wm, &d->wn);
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_dot_is_mma(d))
            say_grid(s, d);
}
