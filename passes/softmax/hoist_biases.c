/* SPDX-License-Identifier: Apache-2.0
 *
 * hoist-biases: hoists row and column biases out of the per-element argument of
 * exponentials: they are computed once a row, once a column.
 *
 *   %x = %d * %f + %slope * cast(%k - %q, f32)
 *                                 k, q: positions (uniform_axis.h)
 *   %s = select(%m, %x, -inf)
 *   %t = max(%s, axis=1)
 *   %p = exp2(fma(%s, %l, -%b[:, none]))
 *   %r = cast(%p, bf16)
 * becomes, where %k is %n0 + range(64) and %q0 the first of %q:
 *   %c = ramp(cast(%n0 - %q0, f32) * %slope, %slope)         a column
 *   %o = %slope * cast(%q0 - %q, f32)                        a row
 *   %s = select(%m, fma(%d, %f, %c[none, :]), -inf)
 *   %t = max(%s, axis=1) + %o
 *   %p = exp2(fma(%s, %l, (fma(%o, %l, -%b))[:, none]))
 *   %r = cast(%p, bf16)
 *
 * The maximum may be missing (p from a known logsumexp).
 *
 * An element costs an fma instead of a subtraction, a conversion, two products
 * and a sum; if there is only a row's part, it costs nothing, nor if a product
 * adds the column's part (linear_bias.c). A tanh that the rest is added to
 * becomes a cheaper one (bounded_tanh.c).
 *
 * Rounding differs, as in fuse_exp2_scale.c and only where that may change it:
 * each part by 2^-24 of itself. For positions these are as large as the offset,
 * give or take the slope times the side of a tile, because they are taken
 * relative to the first of the row's positions, from which the others are less
 * than SPREAD away (known from how they are made). An infinite offset, or one
 * that is NaN, may give NaN where a mask would have hidden the element.
 *
 * So the ops must carry numerics flags: sums ninf, nnan, reassoc and contract,
 * factors and arguments reassoc and contract, a tanh that becomes a cheaper one
 * afn.
 *
 * Tests: test/ir/passes/hoist-biases, test/numerics/attention.c.
 */
#include "ir/fastmath.h"
#include "passes/analysis/match.h"
#include "passes/masks/mask_limits.h"
#include "passes/softmax/permits.h"
#include "passes/target/exponents.h"
#include "passes/target/machine_model.h"

#include <math.h>

enum { MOST_TERMS = 8, MOST_FACTORS = 4, DEPTH = 8, SPREAD = 4096 };

/* Terms of a sum: sign * factors * value. */
typedef enum kind {
    BODY,    /* any tile */
    ROW,     /* the same along the axis */
    COLUMN,  /* the same along the other */
    POSITION /* cast(position sum) */
} kind;

struct term {
    kind kind;
    bool minus;
    unsigned nfactors;
    tc_value *factors[MOST_FACTORS]; /* scalars */
    tc_value *value;
    tc_position_sum sum; /* POSITION */
};

struct split {
    tc_pass_env *env;
    unsigned axis;       /* of the maximum, of what is subtracted */
    bool has_maximum;    /* there is a maximum, not only a difference */
    const tc_type *type; /* of the tile, f32 */
    tc_mask_parts parts; /* of the mask, along that axis */
    unsigned nterms, nbodies;
    struct term terms[MOST_TERMS];
    bool by_product; /* the column's part is linear, added by a product */
    double factor;   /* the factor of the value in arguments of exponentials */
    const tc_op *lacking; /* the first op without the flags it needs; NULL */
    unsigned needed;
};

static const char pass[] = "hoist-biases";

/* Flags needed by an op of a sum whose terms are hoisted, and by a scale of a
 * single term. */
enum { SCALE = TC_REASSOC | TC_CONTRACT, SUM = SCALE | TC_NINF | TC_NNAN };

static void need(struct split *s, const tc_op *op, unsigned flags)
{
    if (s->lacking || !(flags & ~tc_op_fastmath(op)))
        return;
    s->lacking = op;
    s->needed = flags;
}

/* ---- What the sum consists of ---- */

/* Positions that are the same along the axis: how far the largest is from the
 * smallest; -1: not known. */
static int64_t spread(const tc_value *v, unsigned depth)
{
    const tc_op *op = v->def;
    if (v->type->kind != TC_TILE || tc_match_op(v, TC_SPLAT))
        return 0;
    if (!op || depth == DEPTH)
        return -1;
    if (op->code == TC_RANGE)
        return tc_type_count(v->type) - 1;
    if (op->code == TC_BROADCAST || op->code == TC_EXPAND_DIMS)
        return spread(op->in[0], depth + 1);
    bool larger = op->code == TC_MIN || op->code == TC_MAX;
    if (!larger && op->code != TC_ADD && op->code != TC_SUB)
        return -1;
    int64_t a = spread(op->in[0], depth + 1), b = spread(op->in[1], depth + 1);
    if (a < 0 || b < 0)
        return -1;
    return larger ? (a > b ? a : b) : a + b;
}

/* Can the cast of an int be told apart into a column's part and a row's? */
static bool match_position(struct split *s, const tc_value *v, struct term *t)
{
    const tc_op *cast = tc_match_op(v, TC_CAST);
    if (!cast || tc_lane_kind(cast->in[0]) != TC_I32 ||
        !tc_match_position_sum(cast->in[0], s->axis, &t->sum) || !t->sum.rest)
        return false;
    int64_t far = spread(t->sum.rest, 0);
    return t->sum.at.base && far >= 0 && far <= SPREAD &&
           (!t->sum.at.most || tc_mask_bounds(&s->parts, &t->sum.at));
}

static bool has_room(const struct split *s)
{
    return s->nterms < MOST_TERMS;
}

static bool add_term(struct split *s, struct term t, tc_value *v)
{
    if (!has_room(s))
        return false;
    t.value = v;
    if (tc_is_same_along(v, s->axis))
        t.kind = ROW;
    else if (tc_is_same_along(v, 1 - s->axis))
        t.kind = COLUMN;
    else if (match_position(s, v, &t))
        t.kind = POSITION;
    else
        t.kind = BODY;
    s->nbodies += t.kind == BODY;
    s->terms[s->nterms++] = t;
    return true;
}

static bool collect(struct split *s, struct term t, tc_value *v,
                    unsigned depth);

static bool is_sum(const tc_value *v)
{
    return tc_match_op(v, TC_ADD) || tc_match_op(v, TC_SUB) ||
           tc_match_op(v, TC_FMA);
}

/* Operands 0 and 1 of op, one of them a scalar in all lanes. */
static bool collect_scaled(struct split *s, struct term t, const tc_op *op,
                           unsigned depth)
{
    bool swapped = !tc_match_op(op->in[1], TC_SPLAT);
    tc_value *a = op->in[swapped], *b = op->in[!swapped];
    need(s, op, is_sum(a) ? SUM : SCALE);
    t.factors[t.nfactors++] = b->def->in[0];
    return collect(s, t, a, depth + 1);
}

static bool is_scaled(const struct term *t, const tc_op *op)
{
    return t->nfactors < MOST_FACTORS && (tc_match_op(op->in[0], TC_SPLAT) ||
                                          tc_match_op(op->in[1], TC_SPLAT));
}

/* False: too many terms. */
static bool collect(struct split *s, struct term t, tc_value *v, unsigned depth)
{
    const tc_op *op = v->def;
    struct term minus = t;
    minus.minus = !t.minus;
    if (op && depth < DEPTH && v->type->kind == TC_TILE)
        switch (op->code) {
        case TC_ADD:
            need(s, op, SUM);
            return collect(s, t, op->in[0], depth + 1) &&
                   collect(s, t, op->in[1], depth + 1);
        case TC_SUB:
            need(s, op, SUM);
            return collect(s, t, op->in[0], depth + 1) &&
                   collect(s, minus, op->in[1], depth + 1);
        case TC_NEG: return collect(s, minus, op->in[0], depth + 1);
        case TC_MUL:
            if (!is_scaled(&t, op))
                break;
            return collect_scaled(s, t, op, depth);
        case TC_FMA:
            if (!is_scaled(&t, op))
                break;
            need(s, op, SUM);
            return collect_scaled(s, t, op, depth) &&
                   collect(s, t, op->in[2], depth + 1);
        default: break;
        }
    return add_term(s, t, v);
}

/* ---- Building the parts ---- */

static tc_value *hoist_biases_add(tc_builder *b, tc_value *v, tc_value *more)
{
    return v ? tc_build_binary(b, TC_ADD, v, more) : more;
}

/* sign * factors; NULL: 1 */
static tc_value *scale_of(tc_builder *b, const struct term *t)
{
    tc_value *v = NULL;
    for (unsigned i = 0; i < t->nfactors; i++)
        v = v ? tc_build_binary(b, TC_MUL, v, t->factors[i]) : t->factors[i];
    return v && t->minus ? tc_build_unary(b, TC_NEG, v) : v;
}

/* The tile (or scalar) times sign and factors. */
static tc_value *scaled(tc_builder *b, const struct term *t, tc_value *v)
{
    tc_value *scale = scale_of(b, t);
    if (scale && v->type->kind == TC_TILE)
        scale = tc_build(b, TC_SPLAT, 1, &scale, v->type);
    if (scale)
        return tc_build_binary(b, TC_MUL, v, scale);
    return t->minus ? tc_build_unary(b, TC_NEG, v) : v;
}

/* The first of the positions along their only axis, built as spread() has found
 * them. */
static tc_value *first_of(tc_builder *b, tc_value *v)
{
    const tc_op *op = v->def;
    if (op->code == TC_SPLAT)
        return op->in[0];
    if (op->code == TC_RANGE)
        return tc_build_int(b, tc_type_elem(v->type), 0);
    return tc_build_binary(b, op->code, first_of(b, op->in[0]),
                           first_of(b, op->in[1]));
}

static tc_value *build_ramp(struct split *s, tc_builder *b, unsigned axis,
                            tc_value *start, tc_value *step)
{
    tc_value *in[] = {start, step};
    const tc_type *type = tc_type_shaped(b->func->module->cx, TC_TILE, 1,
                                         &s->type->dims[axis], start->type);
    return tc_build(b, TC_RAMP, 2, in, type);
}

/* Distance of positions from the first one, as f32: exactly, as they are
 * less than SPREAD. Conversions of ints are slow. */
static tc_value *distances(struct split *s, tc_builder *b, tc_value *rest,
                           tc_value *first)
{
    tc_positions at;
    if (!tc_match_positions(rest, 1 - s->axis, &at) || !at.base) {
        tc_value *firsts = tc_build(b, TC_SPLAT, 1, &first, rest->type);
        return tc_build_cast(b, tc_build_binary(b, TC_SUB, rest, firsts),
                             TC_F32);
    }
    tc_value *from =
        tc_build_cast(b, tc_build_binary(b, TC_SUB, at.base, first), TC_F32);
    tc_value *one = tc_build_float(b, from->type, 1);
    tc_value *v = build_ramp(s, b, 1 - s->axis, from, one);
    if (!at.most)
        return v;
    tc_value *most =
        tc_build_cast(b, tc_build_binary(b, TC_SUB, at.most, first), TC_F32);
    return tc_build_binary(b, TC_MIN, v,
                           tc_build(b, TC_SPLAT, 1, &most, v->type));
}

static unsigned warps_of(const struct split *s, const tc_region *r)
{
    unsigned warps = s->env->options->warps;
    return warps ? warps : r->func->warps;
}

/* Are there registers for the column's part? Estimated before layouts exist:
 * groups of 64 rows, 4 threads to a row; sums, and the tile once more in half
 * the width. */
static bool can_keep_columns(const struct split *s, const tc_region *r)
{
    unsigned warps = warps_of(s, r);
    if (!s->env->target->setmaxnreg || warps == 0 || tc_warpgroups(warps) > 2)
        return false;
    int64_t sum = tc_type_count(s->type) / 2;
    tc_each_op (op, r)
        if (op->code == TC_DOT)
            sum += tc_type_count(op->out[0]->type);
    int64_t columns = tc_dim_value(s->type->dims[s->axis]) / 4;
    return sum / tc_threads(warps) + columns <= TC_STEP_MAX_REGISTERS;
}

/* Does the column's part stay in registers, so that a loop need not compute it
 * again in each step? A step then adds only the row's part. `column_bias(..)`
 * of the loop says so. */
static bool keeps_columns(const struct split *s, const tc_region *r)
{
    tc_op *loop = r->op;
    if (!loop || loop->code != TC_FOR)
        return can_keep_columns(s, r);
    if (tc_op_is_word(loop, "column_bias", "auto"))
        tc_op_set_word(loop, "column_bias",
                       can_keep_columns(s, r) ? "kept" : "each_step");
    return tc_op_is_word(loop, "column_bias", "kept");
}

/* The row, with the term's multiple of a scalar added. */
static tc_value *shifted(tc_builder *b, const struct term *t, tc_value *row,
                         tc_value *by)
{
    tc_value *scale = scale_of(b, t);
    by = tc_build(b, TC_SPLAT, 1, &by, row->type);
    if (!scale)
        return tc_build_binary(b, t->minus ? TC_SUB : TC_ADD, row, by);
    tc_value *in[] = {by, tc_build(b, TC_SPLAT, 1, &scale, row->type), row};
    return tc_build(b, TC_FMA, 3, in, NULL);
}

/* The position is sign * (base + range) + rest, with rest = first + (rest -
 * first): the terms that differ along the row go to the row's part, the others
 * to the column's. */
static void add_position(struct split *s, tc_builder *b, const struct term *t,
                         tc_value **row, tc_value **column)
{
    const tc_position_sum *p = &t->sum;
    tc_value *rest = tc_without_axis(b, p->rest, s->axis, s->type);
    tc_value *first = first_of(b, rest);
    struct term off = *t;
    off.minus ^= p->subtracts;
    *row = hoist_biases_add(b, *row,
                            scaled(b, &off, distances(s, b, rest, first)));

    tc_value *start = p->at.base;
    if (p->sign < 0)
        start = tc_build_binary(b, TC_SUB, first, start);
    else
        start =
            tc_build_binary(b, p->subtracts ? TC_SUB : TC_ADD, start, first);
    start = tc_build_cast(b, start, TC_F32);
    if (s->by_product || keeps_columns(s, b->region)) {
        *row = shifted(b, t, *row, start);
        start = tc_build_float(b, start->type, 0);
    } else {
        start = scaled(b, t, start);
    }
    tc_value *step = scaled(b, t, tc_build_float(b, start->type, p->sign));
    *column = s->by_product
                  ? step
                  : hoist_biases_add(b, *column,
                                     build_ramp(s, b, s->axis, start, step));
}

/* A tanh that nothing else needs. */
static tc_op *match_own_tanh(const tc_value *v)
{
    return v->uses && !v->uses->next ? tc_match_op(v, TC_TANH) : NULL;
}

static bool has_afn(const tc_op *tanh)
{
    return tc_op_fastmath(tanh) & TC_AFN;
}

/* The body, with the column's part (NULL: none) added. */
static tc_value *build_body(struct split *s, tc_builder *b,
                            const struct term *t, tc_value *column)
{
    const tc_op *tanh = match_own_tanh(t->value);
    if (tanh && has_afn(tanh)) {
        tc_value *scale = scale_of(b, t);
        const struct term whole = {.value =
                                       tc_build_tanh(b, tanh, scale, s->factor),
                                   .minus = t->minus && !scale};
        return build_body(s, b, &whole, column);
    }
    if (!column)
        return scaled(b, t, t->value);
    column = tc_with_axis(b, column, 1 - s->axis, s->type);
    tc_value *scale = scale_of(b, t);
    if (!scale)
        return tc_build_binary(b, t->minus ? TC_SUB : TC_ADD, column, t->value);
    tc_value *in[] = {t->value, tc_build(b, TC_SPLAT, 1, &scale, s->type),
                      column};
    return tc_build(b, TC_FMA, 3, in, NULL);
}

/* The body with a ramp added: f * (product + step / f * column). */
static tc_value *build_product(struct split *s, tc_builder *b,
                               const struct term *t, tc_value *step)
{
    if (t->nfactors)
        step = tc_build_binary(b, TC_DIV, step, t->factors[0]);
    return scaled(b, t, tc_add_ramp(b, t->value->def, step));
}

/* Body and column's part; writes the row's part, NULL: there is none. */
static tc_value *build_parts(struct split *s, tc_builder *b, tc_value **row)
{
    tc_value *column = NULL;
    const struct term *body = NULL;
    *row = NULL;
    for (unsigned i = 0; i < s->nterms; i++) {
        const struct term *t = &s->terms[i];
        unsigned along = t->kind == ROW ? s->axis : 1 - s->axis;
        tc_value **to = t->kind == ROW ? row : &column;
        if (t->kind == BODY)
            body = t;
        else if (t->kind == POSITION)
            add_position(s, b, t, row, &column);
        else
            *to = hoist_biases_add(
                b, *to,
                scaled(b, t, tc_without_axis(b, t->value, along, s->type)));
    }
    return s->by_product ? build_product(s, b, body, column)
                         : build_body(s, b, body, column);
}

/* ---- Ramps by products ---- */

/* Is v used, through ops with one use each, by `to` only? */
static bool only_becomes(const tc_value *v, const tc_value *to)
{
    while (v != to && tc_value_has_one_use(v) && v->uses->op->nout == 1)
        v = v->uses->op->out[0];
    return v == to;
}

/* Is it a product, scaled by at most one factor, plus one position along the
 * columns? */
static bool is_ramp_on_product(const struct split *s, const tc_region *r,
                               const tc_value *whole)
{
    unsigned nramps = 0;
    for (unsigned i = 0; i < s->nterms; i++) {
        const struct term *t = &s->terms[i];
        nramps += t->kind == POSITION;
        if (t->kind == COLUMN)
            return false;
        if (t->kind == BODY &&
            (t->minus || t->nfactors > 1 || !tc_match_op(t->value, TC_DOT) ||
             (t->nfactors && !tc_keeps_order(t->factors[0])) ||
             !tc_can_add_linear_bias(s->env->target, warps_of(s, r),
                                     t->value->def) ||
             !only_becomes(t->value, whole)))
            return false;
    }
    return nramps == 1 && s->axis == 1;
}

/* ---- Uses ---- */

static bool is_maximum(const tc_op *op, unsigned axis)
{
    return op->code == TC_REDUCE && op->nin == 1 &&
           tc_op_is_word(op, "kind", "max") &&
           tc_op_int(op, "axis") == (int64_t)axis;
}

/* Is v used only by narrow exponentials, scaled at most? */
static bool becomes_exponential(const tc_value *v, unsigned depth)
{
    tc_each_use (u, v) {
        const tc_op *op = u->op;
        bool ok = op->code == TC_EXP || op->code == TC_EXP2
                      ? tc_feeds_narrow(op->out[0])
                      : op->code == TC_MUL && depth < 2 &&
                            (tc_match_op(op->in[0], TC_SPLAT) ||
                             tc_match_op(op->in[1], TC_SPLAT)) &&
                            becomes_exponential(op->out[0], depth + 1);
        if (!ok)
            return false;
    }
    return v->uses != NULL;
}

/* fma(v, l, b) or v - b, l in all lanes and b the same along the axis. */
static bool is_argument(const tc_op *op, const tc_value *v, unsigned axis)
{
    bool fits = false;
    if (op->code == TC_FMA)
        fits = op->in[0] == v && tc_match_op(op->in[1], TC_SPLAT) &&
               op->in[2] != v && tc_is_same_along(op->in[2], axis);
    else if (op->code == TC_SUB)
        fits = op->in[0] == v && tc_is_same_along(op->in[1], axis);
    return fits && becomes_exponential(op->out[0], 0);
}

/* The factor of v in such an argument; 1 if it is unknown, or if its inverse
 * would be too large for an f32. */
static double factor_of(const tc_op *argument)
{
    tc_scalar x;
    bool known = argument->code == TC_FMA &&
                 tc_match_const(argument->in[1], &x) && x.f > 1e-30 &&
                 x.f < 1e30;
    return known ? x.f : 1;
}

/* Writes the factor of one of the arguments. */
static bool uses_allow(struct split *s, const tc_value *v)
{
    bool has_argument = false;
    tc_each_use (u, v) {
        bool argument = is_argument(u->op, v, s->axis);
        has_argument |= argument;
        s->has_maximum |= !argument;
        if (!argument && !is_maximum(u->op, s->axis))
            return false;
        if (!argument)
            continue;
        s->factor = factor_of(u->op);
        need(s, u->op, SCALE);
    }
    return has_argument;
}

/* Adds the row's part to the maximum. */
static void shift_maximum(tc_op *max, tc_value *row)
{
    tc_builder b = tc_builder_before(max->next);
    b.loc = max->loc;
    b.fastmath = SCALE;
    tc_value *in[] = {max->out[0], row};
    tc_op *sum = tc_op_new(b.func, TC_ADD, max->loc, 2, in, 0);
    tc_value *v = tc_build_op(&b, sum, NULL);
    for (tc_use *u = max->out[0]->uses, *next; u; u = next) {
        next = u->next;
        if (u->op != sum)
            tc_op_set_in(u->op, u->index, v);
    }
}

/* Adds the row's part to the exponential's argument as well. */
static void shift_argument(struct split *s, tc_op *op, tc_value *row)
{
    tc_builder b = tc_builder_before(op);
    b.fastmath = SCALE;
    unsigned at = op->nin - 1;
    tc_value *v = tc_without_axis(&b, op->in[at], s->axis, s->type);
    if (op->code == TC_FMA) {
        tc_value *in[] = {
            row, tc_build(&b, TC_SPLAT, 1, op->in[1]->def->in, row->type), v};
        v = tc_build(&b, TC_FMA, 3, in, NULL);
    } else {
        v = tc_build_binary(&b, TC_SUB, v, row);
    }
    tc_op_set_in(op, at, tc_with_axis(&b, v, s->axis, s->type));
}

static void shift_uses(struct split *s, tc_value *v, tc_value *row)
{
    for (tc_use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (is_maximum(u->op, s->axis))
            shift_maximum(u->op, row);
        else
            shift_argument(s, u->op, row);
    }
}

/* ---- The walk ---- */

/* Is there a part to hoist, or a body that is cheaper in its place? After a
 * maximum columns are scaled in theirs. */
static bool is_worth_it(const struct split *s, bool has_maximum)
{
    for (unsigned i = 0; i < s->nterms; i++) {
        const struct term *t = &s->terms[i];
        const tc_op *tanh = match_own_tanh(t->value);
        if (t->kind == BODY ? tanh && has_afn(tanh)
                            : has_maximum || t->kind != COLUMN)
            return true;
    }
    return false;
}

/* Remarks on what is worth it and not permitted. */
static bool is_permitted(const struct split *s, bool worth)
{
    for (unsigned i = 0; i < s->nterms; i++) {
        const tc_op *tanh = match_own_tanh(s->terms[i].value);
        if (tanh && s->terms[i].kind == BODY && !tc_op_int(tanh, "approx"))
            tc_permits(s->env, pass, tanh, TC_AFN,
                       "tanh is computed to the last digit");
    }
    return worth &&
           (!s->lacking ||
            tc_permits(s->env, pass, s->lacking, s->needed,
                       "what is added to rows and columns stays in elements"));
}

static bool hides_by_infinity(const tc_op *select)
{
    tc_scalar c;
    return tc_match_const(select->in[2], &c) && isinf(c.f) && c.f < 0;
}

/* Tries v, of which a maximum along the axis is taken, or from which a value is
 * subtracted that is uniform along it. */
static bool try_value(tc_pass_env *env, tc_value *v, unsigned axis,
                      bool has_maximum)
{
    struct split s = {.env = env, .axis = axis, .type = v->type};
    if (v->type->rank != 2 || v->type->layout || tc_lane_kind(v) != TC_F32 ||
        !v->def || !uses_allow(&s, v))
        return false;
    tc_op *select = tc_match_op(v, TC_SELECT);
    if (select) {
        if (select->in[0]->type->kind != TC_TILE || !hides_by_infinity(select))
            return false;
        s.parts = tc_mask_parts_of(env->scratch, select->in[0], s.axis);
    }
    tc_value *x = select ? select->in[1] : v, *row;
    if ((s.has_maximum && !has_maximum) ||
        !collect(&s, (struct term){0}, x, 0) || s.nbodies != 1 ||
        !is_permitted(&s, is_worth_it(&s, has_maximum)))
        return false;
    tc_builder b = tc_builder_before(select ? select : v->def);
    b.fastmath = SCALE;
    s.by_product = has_maximum && is_ramp_on_product(&s, b.region, x);
    tc_value *y = build_parts(&s, &b, &row);
    if (row)
        shift_uses(&s, v, row);
    if (select)
        tc_op_set_in(select, 1, y);
    else
        tc_value_replace(v, y);
    return true;
}

static bool try_argument(tc_pass_env *env, tc_op *op)
{
    tc_value *v = op->in[0];
    if (v->type->kind != TC_TILE || v->type->rank != 2)
        return false;
    for (unsigned axis = 0; axis < 2; axis++)
        if (is_argument(op, v, axis))
            return try_value(env, v, axis, false);
    return false;
}

static bool hoist_biases_visit(tc_pass_env *env, tc_op *op)
{
    if (op->code == TC_REDUCE && op->nin == 1 &&
        tc_op_is_word(op, "kind", "max"))
        return try_value(env, op->in[0], (unsigned)tc_op_int(op, "axis"), true);
    return (op->code == TC_SUB || op->code == TC_FMA) && try_argument(env, op);
}

tc_change tc_pass_hoist_biases(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, hoist_biases_visit);
}
