/* SPDX-License-Identifier: Apache-2.0
 *
 * Dots: the instruction by target and elements, how warps share the
 * accumulator, where the operands come from.
 *
 *   %d = dot %q, trans(%k), %c
 *
 *   %b = smem_alloc : smem<64x128 x bf16, #rows>    right behind %k
 *   smem_store %b, %k
 *   %t = smem_trans %b
 *   %d = mma %q1, %t, %c instr(m16n8k16)            %q1: tile<.., #mma_a(4x1)>
 *
 * Dots that feed each other are a group and share the warp grid. Where rows are
 * reduced, or a result is operand A of the next dot, all warps lie along the
 * rows: rows never cross warps and that operand stays in registers.
 */
#include "passes/assign_layouts.h"
#include "passes/effects.h"
#include "passes/match.h"
#include "passes/mma.h"

#include <string.h>

/* Registers of a thread: what other values are thought to need, and what all
 * may need so that nothing spills. */
enum { OTHER_REGISTERS = 40, MOST_REGISTERS = 200 };

static const char pass[] = "assign-layouts";

bool tc_dot_is_mma(const tc_dot *d)
{
    return strcmp(d->instr, "fma") != 0;
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

static bool is_fp8(tc_kind k)
{
    return k == TC_F8E4M3 || k == TC_F8E5M2;
}

/* Behind the operand, below a trans: loops that do not change it do not do it
 * again. */
static tc_value *cast_behind(tc_placing *s, tc_value *v, tc_kind kind)
{
    const tc_type *elem = tc_type_scalar(s->cx, kind);
    if (v->type->elem == elem)
        return v;
    tc_op *op = tc_match_op(v, TC_TRANS);
    tc_value *from = op ? op->in[0] : v;
    tc_builder b = tc_builder_behind(s->f, from, v->loc);
    if (op)
        b.loc = op->loc;
    else if (v->def)
        b.loc = v->def->loc;
    const tc_type *t = tc_type_with_elem(s->cx, from->type, elem);
    tc_op *made = b.before; /* for another dot */
    bool again = made && made->code == TC_CAST && made->in[0] == from &&
                 made->out[0]->type == t;
    tc_value *cast = again ? made->out[0] : tc_build(&b, TC_CAST, 1, &from, t);
    if (!op)
        return cast;
    b = tc_builder_before(op);
    return tc_build_like(&b, op, &cast,
                         tc_type_with_elem(s->cx, v->type, elem));
}

static void cast_operands(tc_placing *s, tc_op *op, tc_kind kind)
{
    for (unsigned i = 0; i < 2; i++)
        tc_op_set_in(op, i, cast_behind(s, op->in[i], kind));
}

/* The elements in which the products are made: those of both operands, or the
 * smallest that holds both exactly. */
static tc_kind common_kind(tc_kind a, tc_kind b)
{
    if (a == b || (is_fp8(a) && is_fp8(b)))
        return a;
    if (is_fp8(a))
        return b;
    if (is_fp8(b))
        return a;
    return TC_F32;
}

/* What stands against an instruction of M, N multiples of 16, 8 and K of
 * `step`; NULL: nothing. */
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

static void use_fma(tc_placing *s, tc_dot *d, const char *why)
{
    d->instr = "fma";
    tc_kind kind = d->op->in[0]->type->elem->kind;
    if (kind != TC_F64)
        cast_operands(s, d->op, TC_F32);
    tc_remark(s->cx, d->op->loc, pass, "dot: no matrix instruction: %s", why);
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
    tc_remark(s->cx, d->op->loc, pass,
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
    if (is_fp8(kind)) {
        choose_fp8(s, d);
        return;
    }
    if (kind == TC_F64) {
        use_fma(s, d, "elements are f64");
        return;
    }
    cast_operands(s, d->op, kind);
    if (kind != TC_F32)
        use_mma(s, d, "m16n8k16", 16);
    else if (tc_op_is_word(d->op, "precision", "ieee"))
        use_fma(s, d,
                "f32 with precision(ieee); precision=tf32x3 has one and is "
                "almost as exact");
    else
        use_mma(s, d, "m16n8k8", 8);
}

static void find_dots(tc_placing *s, tc_region *r)
{
    tc_each_op_safe (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            find_dots(s, op->regions[i]);
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

static void join(tc_dot *a, tc_dot *b)
{
    a = tc_dot_group(a);
    b = tc_dot_group(b);
    if (a == b)
        return;
    a->along_rows |= b->along_rows;
    a->along_columns |= b->along_columns;
    b->group = a;
}

void tc_dots_group(tc_placing *s)
{
    for (tc_dot *d = s->dots; d; d = d->next) {
        join(tc_class_root(d->c)->dot, d);
        tc_class *a = tc_class_of(s, d->op->in[0]);
        if (tc_dot_is_mma(d) && a && a->dot && tc_dot_is_mma(a->dot)) {
            join(a->dot, d);
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

/* What warps read of the operands, by rows and columns of one. */
static int64_t reads(const tc_placing *s, const tc_dot *group, int wm, int wn)
{
    int64_t sum = 0;
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_dot_group(d) == group)
            sum += (int64_t)depth_k(d) * (rows(d) / wm + columns(d) / wn);
    return sum;
}

/* False: some warps would be idle; the grid is then one that idles few. */
static bool arrange(const tc_placing *s, const tc_dot *group, unsigned warps,
                    int *wm, int *wn)
{
    int64_t best = -1;
    bool prefer = group->along_rows || group->along_columns;
    for (int m = 1, most = (int)warps; m <= most; m *= 2) {
        int n = most / m;
        if (!grid_fits(s, group, m, n))
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
    for (*wm = (int)warps; *wm > 1 && !grid_fits(s, group, *wm, 1);)
        *wm /= 2;
    *wn = (int)warps / *wm;
    return false;
}

/* Of the accumulators of dots in one loop, the most. */
static int64_t accumulators(const tc_placing *s, unsigned warps)
{
    int64_t most = 0;
    for (tc_dot *d = s->dots; d; d = d->next) {
        int64_t sum = 0;
        for (tc_dot *e = s->dots; e; e = e->next)
            if (e->loop == d->loop)
                sum += (int64_t)rows(e) * columns(e) / (32 * warps);
        most = sum > most ? sum : most;
    }
    return most;
}

unsigned tc_dots_warps(const tc_placing *s)
{
    tc_dot *hot = NULL;
    int wm, wn;
    for (tc_dot *d = s->dots; d; d = d->next)
        if (!hot || work(d) > work(hot))
            hot = d;
    if (!hot)
        return 0;
    unsigned warps = 4;
    if (!tc_dot_is_mma(hot))
        return accumulators(s, 4) > 64 ? 8 : 4;
    hot = tc_dot_group(hot);
    while (warps > 1 && !arrange(s, hot, warps, &wm, &wn))
        warps /= 2;
    while (warps >= 4 && warps < 8 &&
           accumulators(s, warps) + OTHER_REGISTERS > MOST_REGISTERS &&
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
    if (!grid_fits(s, g, g->wm, g->wn))
        tc_remark(s->cx, d->op->loc, pass,
                  "dot: %dx%d is too small for %u warps, some do the same work",
                  rows(d), columns(d), s->warps);
}

void tc_dots_arrange(tc_placing *s)
{
    for (tc_dot *d = s->dots; d; d = d->next)
        if (!d->group && tc_dot_is_mma(d))
            arrange(s, d, s->warps, &d->wm, &d->wn);
    for (tc_dot *d = s->dots; d; d = d->next)
        if (tc_dot_is_mma(d))
            say_grid(s, d);
}

/* ---- Operands ---- */

/* The buffer that holds v, written right behind its definition. */
static tc_value *buffer_of(tc_placing *s, tc_value *v)
{
    tc_value *made = tc_map_get(&s->buffers, v);
    if (made)
        return made;
    tc_value *tile = v;
    if (!v->type->layout)
        tile = tc_relayout_get(&s->relayout, v, tc_layout_default(s, v->type));
    unsigned order[TC_MAX_RANK], rank = v->type->rank;
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(v->type, sides);
    for (unsigned i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    const tc_layout *layout = tc_layout_swizzled(
        s->cx, rank, sides, order, 8 * tc_type_bytes(v->type->elem), 0);
    tc_builder b = tc_builder_behind(s->f, tile, v->loc);
    if (v->def)
        b.loc = v->def->loc;
    made = tc_build(&b, TC_SMEM_ALLOC, 0, NULL,
                    tc_type_smem(s->cx, tile->type, layout, 0));
    tc_value *in[] = {made, tile};
    tc_op_insert(tc_op_new(s->f, TC_SMEM_STORE, b.loc, 2, in, 0), b.region,
                 b.before);
    tc_forget_speculatable(b.region);
    tc_map_set(&s->buffers, v, made);
    return made;
}

static bool is_before(const tc_value *v, const tc_op *loop)
{
    const tc_region *r = v->def ? v->def->parent : v->region;
    for (; loop && r; r = r->op ? r->op->parent : NULL)
        if (r->op == loop)
            return false;
    return loop != NULL;
}

/* 32-bit registers that an operand in this layout takes. */
static int64_t registers_of(const tc_type *t, const tc_layout *l)
{
    return (int64_t)tc_layout_size(l, TC_REGISTER) * tc_type_bytes(t->elem) / 4;
}

/* An operand A that a loop does not change, in shared memory: its fragments are
 * read once, before the loop, if there are registers for them. */
static tc_value *keep_fragments(tc_placing *s, tc_dot *d, tc_value *v,
                                tc_value *buffer, const tc_layout *l)
{
    if (!l || !is_before(v, d->loop))
        return NULL;
    int64_t held = 0;
    for (tc_dot *e = s->dots; e; e = e->next)
        if (e->loop == d->loop)
            held += e->kept + rows(e) * columns(e) / (int64_t)(32 * s->warps);
    int64_t more = registers_of(v->type, l);
    bool fits = held + more + OTHER_REGISTERS <= MOST_REGISTERS;
    tc_remark(s->cx, d->op->loc, pass,
              "dot: operand A is the same in every step: %s (%lld registers "
              "for it, %lld for accumulators, %d others, expected at most %d)",
              fits ? "kept in registers" : "read from shared memory each time",
              (long long)more, (long long)held, OTHER_REGISTERS,
              MOST_REGISTERS);
    if (!fits)
        return NULL;
    d->kept = more;
    tc_op *store = buffer->uses->op;
    tc_each_use (u, buffer)
        if (u->op->code == TC_SMEM_STORE)
            store = u->op;
    /* One tile for all dots that read it. */
    for (tc_op *op = store->next; op && op->code == TC_SMEM_LOAD; op = op->next)
        if (op->in[0] == buffer && op->out[0]->type->layout == l)
            return op->out[0];
    tc_builder b = {s->f, store->parent, store->next, store->loc};
    return tc_build(&b, TC_SMEM_LOAD, 1, &buffer,
                    tc_type_with_layout(s->cx, v->type, l));
}

/* From registers of the same warp, in the layout of the fragments; NULL: other
 * warps hold what is needed. */
static tc_value *from_registers(tc_placing *s, const tc_dot *d, tc_value *v,
                                unsigned i, const tc_layout *l)
{
    const tc_layout *from = v->type->layout;
    if (!l || !from || tc_relayout_is_cheap(&s->relayout, v))
        return NULL;
    tc_conversion c = tc_layout_conversion(s->cx, from, l);
    if (c == TC_CONVERT_SHARED)
        return NULL;
    tc_remark(s->cx, d->op->loc, pass, "dot: operand %s stays in registers%s",
              i ? "B" : "A",
              c == TC_CONVERT_SHUFFLES ? ", exchanged by shuffles" : "");
    return tc_relayout_get(&s->relayout, v, l);
}

/* ldmatrix transposes elements of 16 bits only: bytes have to lie side by side
 * along the axis that is summed, or are read one by one. */
static void say_bytes(const tc_placing *s, const tc_dot *d, unsigned i,
                      bool is_trans)
{
    if (strcmp(d->instr, "m16n8k32") == 0 && is_trans == (i == 0))
        tc_remark(s->cx, d->op->loc, pass,
                  "dot: operand %s is read from shared memory byte by byte: %s "
                  "wants %s, such as %s",
                  i ? "B" : "A", d->instr,
                  i ? "each column in one piece" : "each row in one piece",
                  i ? "trans of a tile with a row for each column of B"
                    : "a tile that is not transposed");
}

static tc_value *operand(tc_placing *s, tc_dot *d, unsigned i)
{
    tc_value *v = d->op->in[i];
    const tc_layout *c = d->op->out[0]->type->layout;
    const tc_layout *l = tc_mma_operand_of(s->cx, c, d->instr, v->type, i);
    tc_value *kept = from_registers(s, d, v, i, l);
    if (kept)
        return kept;
    tc_op *trans = tc_match_op(v, TC_TRANS);
    say_bytes(s, d, i, trans != NULL);
    tc_value *from = trans ? trans->in[0] : v;
    tc_value *buffer = buffer_of(s, from);
    kept = i == 0 && !trans ? keep_fragments(s, d, from, buffer, l) : NULL;
    if (kept || !trans)
        return kept ? kept : buffer;
    tc_builder b = tc_builder_before(d->op);
    b.loc = trans->loc;
    tc_op *view = tc_op_new(s->f, TC_SMEM_TRANS, b.loc, 1, &buffer, 0);
    tc_op_set_attr(view, "perm", *tc_op_attr(trans, "perm"));
    return tc_build_op(&b, view, NULL);
}

static tc_value *accumulator(tc_placing *s, const tc_dot *d)
{
    const tc_op *op = d->op;
    const tc_type *t = op->out[0]->type;
    if (op->nin == 3)
        return tc_relayout_get(&s->relayout, op->in[2], t->layout);
    tc_builder b = tc_builder_before(d->op);
    tc_value *zero = tc_build_float(&b, t->elem, 0.0);
    return tc_build(&b, TC_SPLAT, 1, &zero, t);
}

static void lower(tc_placing *s, tc_dot *d)
{
    tc_op *op = d->op;
    tc_value *in[3];
    for (unsigned i = 0; i < 2; i++)
        in[i] = operand(s, d, i);
    in[2] = accumulator(s, d);
    tc_builder b = tc_builder_before(op);
    tc_op *mma = tc_op_new(s->f, TC_MMA, op->loc, 3, in, 0);
    tc_op_set_word(mma, "instr", d->instr);
    if (strcmp(d->instr, "m16n8k8") == 0)
        tc_op_set_word(mma, "precision", tc_op_word(op, "precision"));
    tc_value *result = tc_build_op(&b, mma, NULL);
    result->name = op->out[0]->name;
    result->loc = op->out[0]->loc;
    tc_value_replace(op->out[0], result);
    tc_op_erase(op);
}

void tc_dots_lower(tc_placing *s)
{
    s->buffers.arena = s->scratch;
    for (tc_dot *d = s->dots; d; d = d->next)
        lower(s, d);
}
