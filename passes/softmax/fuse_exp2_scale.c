/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse-exp2-scale: fuses the scale and the bias of exp2's argument into one fma
 * per element. For targets where the other ops take as long as the products.
 *
 *   %s = select %m, %d * %f, -inf
 *   %t = max(%s, axis=1)
 *   %p = exp2((%s - %b[:, none]) * %c)
 *   %q = cast(%p, bf16)
 * becomes
 *   %s = select %m, %d, -inf
 *   %t = max(%s, axis=1) * %f
 *   %p = exp2(fma(%s, %f * %c, (-(%b * %c))[:, none]))
 *   %q = cast(%p, bf16)
 *
 * Six rules.
 *   difference  exp2((a - b) c) is exp2(fma(a, c, -(b c))), where b is a
 *               smaller tile, repeated, and c is one number. Infinities and
 *               NaNs come out alike. exp(a - b) is such a power, with log2(e)
 *               as c, if exp has the flag afn.
 *   product     exp2(a f - b) is exp2(fma(a, f, -b)), f one number.
 *   factor      fma(a f, c, b) is fma(a, f c, b) in an argument of exp2.
 *   outwards    A factor f > 0 moves after select(m, a f, k), k an infinity
 *               or 0, and after max and min over an axis: exactly, as rounding
 *               keeps the order. f must be known to be above 0 and finite.
 *   sign        Of a factor whose sign is unknown the sign goes into a, a
 *               product of matrices, if only maxima and exponentials use a f.
 *               With the flag nneg there is no sign.
 *   sum         An addition to such a maximum times f becomes one fma, which
 *               rounds once; exponents relative to it use the same number.
 * All but "outwards" change the rounding, or results that are not finite, so
 * the ops that they change must carry numerics flags: those of a difference
 * reassoc and contract, those of a factor and of a sign reassoc, those of a
 * product and of a sum contract.
 *
 * The first three change the rounding of an argument x by as much as
 * 2^-24 |b c| and 2^-24 |x|, so the exponential by that times ln 2 of itself;
 * all elements of a row that share b share the first error. They are applied
 * only where the exponential becomes a float of 16 bits or less, whose own
 * rounding is 2^-12 or more: that is larger as long as |b c| is below 2^12. A
 * program that meets larger ones must look after that itself, or carry no
 * flags.
 * Tests: test/ir/passes/fuse-exp2-scale.
 */
#include "ir/fastmath.h"
#include "passes/analysis/match.h"
#include "passes/softmax/permits.h"
#include "passes/target/exponents.h"

#include <math.h>

/* Uses are followed no further. */
enum { DEPTH = 4 };

static bool feeds_narrow(const tc_value *v, unsigned depth)
{
    tc_each_use (u, v) {
        const tc_op *op = u->op;
        if (op->nout != 1 || !tc_has_float_lanes(op->out[0]))
            continue;
        if (op->code == TC_CAST &&
            tc_scalar_infos[tc_lane_kind(op->out[0])].bits <= 16)
            return true;
        if (depth < DEPTH && tc_op_has(op, TC_ELEMENTWISE) &&
            op->code != TC_CAST && feeds_narrow(op->out[0], depth + 1))
            return true;
    }
    return false;
}

bool tc_feeds_narrow(const tc_value *v)
{
    return feeds_narrow(v, 0);
}

/* The scalar that is in all lanes; NULL. */
static tc_value *uniform(const tc_value *v)
{
    const tc_op *splat = tc_match_op(v, TC_SPLAT);
    return splat ? splat->in[0] : NULL;
}

/* a * f with f in all lanes: writes both. */
static bool match_scaled(const tc_value *v, tc_value **a, tc_value **f)
{
    const tc_op *mul = tc_match_op(v, TC_MUL);
    for (unsigned i = 0; mul && i < 2; i++)
        if ((*f = uniform(mul->in[i]))) {
            *a = mul->in[1 - i];
            return true;
        }
    return false;
}

enum { DISTRIBUTE = TC_REASSOC | TC_CONTRACT };

static bool permits(const tc_pass_env *env, const tc_op *op, unsigned flags)
{
    return tc_permits(env, "fuse-exp2-scale", op, flags,
                      "factor and sum stay apart");
}

/* ---- difference ---- */

/* -(b c), b repeated: computed as small as b is. */
static tc_value *minus_product(tc_builder *b, const tc_value *v, tc_value *c)
{
    tc_value *small = v->def->in[0];
    tc_value *x =
        tc_build_binary(b, TC_MUL, small, tc_build_spread(b, c, small->type));
    x = tc_build_unary(b, TC_NEG, x);
    return tc_build(b, TC_BROADCAST, 1, &x, v->type);
}

/* The op of a - b, b repeated, if it may be distributed. */
static const tc_op *match_difference(tc_pass_env *env, const tc_value *v)
{
    const tc_op *sub = tc_match_op(v, TC_SUB);
    return sub && tc_match_op(sub->in[1], TC_BROADCAST) &&
                   permits(env, sub, DISTRIBUTE)
               ? sub
               : NULL;
}

/* exp2(fma(a, c, -(b c))) */
static tc_value *build_difference(tc_builder *b, const tc_op *sub, tc_value *c)
{
    b->fastmath = DISTRIBUTE;
    tc_value *shift = minus_product(b, sub->in[1], c);
    tc_value *in[] = {sub->in[0], tc_build_spread(b, c, sub->in[0]->type),
                      shift};
    return tc_build_unary(b, TC_EXP2, tc_build(b, TC_FMA, 3, in, NULL));
}

/* exp2((a - b) * c) */
static tc_value *difference(tc_pass_env *env, tc_builder *b, tc_op *exp2)
{
    tc_value *x, *c;
    if (!match_scaled(exp2->in[0], &x, &c) || !tc_feeds_narrow(exp2->out[0]) ||
        !tc_match_op(x, TC_SUB) || !permits(env, exp2->in[0]->def, DISTRIBUTE))
        return NULL;
    const tc_op *sub = match_difference(env, x);
    return sub ? build_difference(b, sub, c) : NULL;
}

/* exp(a - b) */
static tc_value *natural(tc_pass_env *env, tc_builder *b, tc_op *exp)
{
    static const double LOG2E = 1.4426950408889634;
    const tc_value *v = exp->in[0];
    if (tc_lane_kind(v) != TC_F32 || v->type->kind != TC_TILE ||
        !tc_match_op(v, TC_SUB) || !tc_feeds_narrow(exp->out[0]) ||
        !permits(env, exp, TC_AFN))
        return NULL;
    const tc_op *sub = match_difference(env, v);
    return sub ? build_difference(
                     b, sub, tc_build_float(b, tc_type_elem(v->type), LOG2E))
               : NULL;
}

/* ---- product ---- */

/* exp2(a * f - b). (A multiple of tanh costs nothing: skip_row_max.c.) */
static tc_value *product(tc_pass_env *env, tc_builder *b, tc_op *exp2)
{
    tc_value *a, *f;
    const tc_op *sub = tc_match_op(exp2->in[0], TC_SUB);
    const tc_op *rows = sub ? tc_match_op(sub->in[1], TC_BROADCAST) : NULL;
    if (!rows || !match_scaled(sub->in[0], &a, &f) || tc_match_op(a, TC_TANH) ||
        !tc_feeds_narrow(exp2->out[0]) || !permits(env, sub, TC_CONTRACT) ||
        !permits(env, sub->in[0]->def, TC_CONTRACT))
        return NULL;
    b->fastmath = tc_op_own_fastmath(sub);
    tc_value *minus = tc_build_unary(b, TC_NEG, rows->in[0]);
    minus = tc_build(b, TC_BROADCAST, 1, &minus, sub->in[1]->type);
    tc_value *in[] = {a, tc_build_spread(b, f, a->type), minus};
    return tc_build_unary(b, TC_EXP2, tc_build(b, TC_FMA, 3, in, NULL));
}

/* ---- factor ---- */

/* exp2(fma(a * f, c, b)) */
static tc_value *factor(tc_pass_env *env, tc_builder *b, tc_op *exp2)
{
    tc_value *a, *f, *c;
    const tc_op *fma = tc_match_op(exp2->in[0], TC_FMA);
    if (!fma || !(c = uniform(fma->in[1])) ||
        !match_scaled(fma->in[0], &a, &f) || !tc_feeds_narrow(exp2->out[0]) ||
        !permits(env, fma, TC_REASSOC) ||
        !permits(env, fma->in[0]->def, TC_REASSOC))
        return NULL;
    b->fastmath = tc_op_own_fastmath(fma);
    tc_value *both = tc_build_binary(b, TC_MUL, f, c);
    tc_value *in[] = {a, tc_build_spread(b, both, a->type), fma->in[2]};
    return tc_build_unary(b, TC_EXP2, tc_build(b, TC_FMA, 3, in, NULL));
}

/* ---- outwards ---- */

/* Is a scalar above 0, and no NaN? (max and min prefer numbers to NaN.) */
static bool is_positive(const tc_value *v)
{
    tc_scalar x;
    if (tc_match_const(v, &x))
        return x.f > 0;
    const tc_op *max = tc_match_op(v, TC_MAX), *min = tc_match_op(v, TC_MIN);
    if (max)
        return is_positive(max->in[0]) || is_positive(max->in[1]);
    return min && is_positive(min->in[0]) && is_positive(min->in[1]);
}

static bool is_below_infinity(const tc_value *v)
{
    tc_scalar x;
    if (tc_match_const(v, &x))
        return x.f < INFINITY;
    const tc_op *max = tc_match_op(v, TC_MAX), *min = tc_match_op(v, TC_MIN);
    if (min)
        return is_below_infinity(min->in[0]) || is_below_infinity(min->in[1]);
    return max && is_below_infinity(max->in[0]) &&
           is_below_infinity(max->in[1]);
}

bool tc_keeps_order(const tc_value *f)
{
    return (is_positive(f) && is_below_infinity(f)) || tc_is_magnitude(f);
}

/* select(m, a f, k), select(m, k, a f) */
static tc_value *out_of_select(tc_pass_env *env, tc_builder *b, tc_op *select)
{
    tc_value *a, *f;
    tc_scalar k;
    for (unsigned i = 1; i <= 2; i++) {
        tc_value *other = select->in[3 - i];
        if (!tc_has_float_lanes(other) || !tc_match_const(other, &k) ||
            (k.f != 0 && !isinf(k.f)) || !tc_value_has_one_use(select->in[i]) ||
            !match_scaled(select->in[i], &a, &f) || !tc_keeps_order(f))
            continue;
        tc_value *in[] = {select->in[0], other, other};
        b->fastmath = tc_op_own_fastmath(select->in[i]->def);
        in[i] = a;
        tc_value *x = tc_build(b, TC_SELECT, 3, in, NULL);
        return tc_build_binary(b, TC_MUL, x, tc_build_spread(b, f, x->type));
    }
    return NULL;
}

/* max(a f), min(a f) over an axis */
static tc_value *out_of_reduce(tc_pass_env *env, tc_builder *b, tc_op *reduce)
{
    tc_value *a, *f;
    bool ordered = tc_op_is_word(reduce, "kind", "max") ||
                   tc_op_is_word(reduce, "kind", "min");
    if (!ordered || reduce->nin != 1 || !tc_has_float_lanes(reduce->in[0]) ||
        !match_scaled(reduce->in[0], &a, &f) || !tc_keeps_order(f))
        return NULL;
    b->fastmath = tc_op_own_fastmath(reduce->in[0]->def);
    tc_value *x = tc_build_like(b, reduce, &a, reduce->out[0]->type);
    tc_value *scale =
        x->type->kind == TC_TILE ? tc_build_spread(b, f, x->type) : f;
    return tc_build_binary(b, TC_MUL, x, scale);
}

/* ---- sign ---- */

typedef struct score {
    bool has_max, has_power;
} score;

/* The argument of an exponential that becomes narrow? */
static bool is_exponent(const tc_op *op)
{
    bool found = false;
    tc_each_use (u, op->out[0]) {
        if (u->op->code == TC_MUL)
            found |= is_exponent(u->op);
        else
            found |= (u->op->code == TC_EXP2 || u->op->code == TC_EXP) &&
                     tc_feeds_narrow(u->op->out[0]);
    }
    return found;
}

/* Follows v past masks; false: it is used otherwise. */
static bool follow(score *s, const tc_value *v)
{
    tc_scalar k;
    tc_each_use (u, v) {
        const tc_op *op = u->op;
        if (op->code == TC_SELECT && op->in[0] != v &&
            tc_match_const(op->in[op->in[1] == v ? 2 : 1], &k)) {
            if (!follow(s, op->out[0]))
                return false;
        } else if (op->code == TC_REDUCE) {
            s->has_max |= tc_op_is_word(op, "kind", "max");
        } else if (op->code == TC_SUB || op->code == TC_FMA) {
            s->has_power |= is_exponent(op);
        } else {
            return false;
        }
    }
    return true;
}

/* a * f, a a product of matrices, f of any sign. (For a tanh times f
 * skip_row_max.c knows better.) */
static tc_value *sign(tc_pass_env *env, tc_builder *b, tc_op *mul)
{
    tc_value *a, *f;
    tc_scalar c;
    score s = {0};
    if (tc_lane_kind(mul->out[0]) != TC_F32 ||
        !match_scaled(mul->out[0], &a, &f) || !tc_match_op(a, TC_DOT) ||
        tc_match_const(f, &c) || tc_keeps_order(f) ||
        !follow(&s, mul->out[0]) || !s.has_max || !s.has_power ||
        !permits(env, mul, TC_REASSOC))
        return NULL;
    b->fastmath = tc_op_own_fastmath(mul);
    bool is_signed =
        !tc_permits(env, "fuse-exp2-scale", mul, TC_NNEG,
                    "a branch in each step tests the factor's sign");
    return tc_build_by_magnitude(b, a, f, is_signed);
}

/* ---- sum ---- */

/* max(a) * f + b */
static tc_value *sum(tc_pass_env *env, tc_builder *b, tc_op *add)
{
    tc_value *a, *f;
    for (unsigned i = 0; i < 2 && tc_has_float_lanes(add->in[0]); i++) {
        const tc_op *reduce;
        if (!match_scaled(add->in[i], &a, &f) ||
            !tc_value_has_one_use(add->in[i]) ||
            !(reduce = tc_match_op(a, TC_REDUCE)) ||
            !tc_op_is_word(reduce, "kind", "max") || !tc_keeps_order(f) ||
            !permits(env, add, TC_CONTRACT) ||
            !permits(env, add->in[i]->def, TC_CONTRACT))
            continue;
        b->fastmath = tc_op_own_fastmath(add);
        tc_value *in[] = {a, tc_build_spread(b, f, a->type), add->in[1 - i]};
        return tc_build(b, TC_FMA, 3, in, NULL);
    }
    return NULL;
}

/* ---- The walk: from what is used to its users ---- */

typedef tc_value *fold_fn(tc_pass_env *env, tc_builder *b, tc_op *op);

static bool apply(tc_pass_env *env, tc_op *op)
{
    static const struct {
        tc_opcode code;
        fold_fn *rule;
    } rules[] = {{TC_EXP2, difference},
                 {TC_EXP, natural},
                 {TC_EXP2, product},
                 {TC_EXP2, factor},
                 {TC_MUL, sign},
                 {TC_SELECT, out_of_select},
                 {TC_REDUCE, out_of_reduce},
                 {TC_ADD, sum}};
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
        tc_builder b = tc_builder_before(op);
        tc_value *v =
            op->code == rules[i].code ? rules[i].rule(env, &b, op) : NULL;
        if (!v)
            continue;
        v->name = op->out[0]->name;
        tc_value_replace(op->out[0], v);
        tc_op_erase(op);
        apply(env, v->def);
        return true;
    }
    return false;
}

tc_change tc_pass_fuse_exp2_scale(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, apply);
}
