/* SPDX-License-Identifier: Apache-2.0
 *
 * The contributions of an op to the adjoints of its operands: for y = op(a, b)
 * and the adjoint g of y, g * dy/da and g * dy/db. Where the derivative does
 * not exist, the rule takes PyTorch's value: for abs 0 at 0, for min and max
 * half for each of two equal operands, for floor, ceil and round 0.
 */
#include "passes/analysis/match.h"
#include "passes/grad/reverse.h"

typedef void rule_fn(tc_adjoints *a, const tc_op *op, tc_value *g);

/* ---- Building ---- */

static tc_value *in(const tc_op *op, unsigned i)
{
    return op->in[i]->data;
}

static tc_value *result(const tc_op *op)
{
    return op->out[0]->data;
}

static tc_value *rules_mul(tc_adjoints *a, tc_value *x, tc_value *y)
{
    return tc_build_binary(&a->b, TC_MUL, x, y);
}

static tc_value *neg(tc_adjoints *a, tc_value *x)
{
    return tc_build_unary(&a->b, TC_NEG, x);
}

static tc_value *number_like(tc_adjoints *a, const tc_value *x, double value)
{
    return tc_build_float(&a->b, x->type, value);
}

static tc_value *scaled(tc_adjoints *a, tc_value *x, double by)
{
    return rules_mul(a, x, number_like(a, x, by));
}

static bool wants(const tc_adjoints *a, const tc_op *op, unsigned i)
{
    return tc_is_active(a, op->in[i]);
}

/* Of an op with one operand. */
static void rules_add(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_adjoint_add(a, op->in[0], g);
}

/* ---- Arithmetic ---- */

static void add_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    for (unsigned i = 0; i < 2; i++)
        if (wants(a, op, i))
            tc_adjoint_add(a, op->in[i], g);
}

static void sub_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    if (wants(a, op, 0))
        tc_adjoint_add(a, op->in[0], g);
    if (wants(a, op, 1))
        tc_adjoint_add(a, op->in[1], neg(a, g));
}

/* Of fma too. */
static void mul_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    for (unsigned i = 0; i < 2; i++)
        if (wants(a, op, i))
            tc_adjoint_add(a, op->in[i], rules_mul(a, g, in(op, 1 - i)));
    if (op->code == TC_FMA && wants(a, op, 2))
        tc_adjoint_add(a, op->in[2], g);
}

static void div_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *share = tc_build_binary(&a->b, TC_DIV, g, in(op, 1));
    if (wants(a, op, 0))
        tc_adjoint_add(a, op->in[0], share);
    if (wants(a, op, 1))
        tc_adjoint_add(a, op->in[1], neg(a, rules_mul(a, share, result(op))));
}

/* a - floor(a / b) * b */
static void rem_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    if (wants(a, op, 0))
        tc_adjoint_add(a, op->in[0], g);
    if (!wants(a, op, 1))
        return;
    tc_value *times = tc_build_unary(
        &a->b, TC_FLOOR, tc_build_binary(&a->b, TC_DIV, in(op, 0), in(op, 1)));
    tc_adjoint_add(a, op->in[1], neg(a, rules_mul(a, g, times)));
}

/* The operand that is the result gets all (of a number and NaN the number),
 * each of two equal ones half. */
static void extremum_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *tie = tc_build_cmp(&a->b, "eq", in(op, 0), in(op, 1));
    tc_value *half = scaled(a, g, 0.5), *none = number_like(a, g, 0.0);
    for (unsigned i = 0; i < 2; i++)
        if (wants(a, op, i)) {
            tc_value *chosen = tc_build_cmp(&a->b, "eq", in(op, i), result(op));
            tc_adjoint_add(
                a, op->in[i],
                tc_build_select(&a->b, tie, half,
                                tc_build_select(&a->b, chosen, g, none)));
        }
}

static void neg_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    rules_add(a, op, neg(a, g));
}

static void abs_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *x = in(op, 0), *zero = number_like(a, g, 0.0);
    tc_value *below = tc_build_select(&a->b, tc_build_cmp(&a->b, "lt", x, zero),
                                      neg(a, g), zero);
    rules_add(
        a, op,
        tc_build_select(&a->b, tc_build_cmp(&a->b, "gt", x, zero), g, below));
}

static void no_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    (void)a, (void)op, (void)g;
}

static void select_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *c = in(op, 0), *zero = number_like(a, g, 0.0);
    if (wants(a, op, 1))
        tc_adjoint_add(a, op->in[1], tc_build_select(&a->b, c, g, zero));
    if (wants(a, op, 2))
        tc_adjoint_add(a, op->in[2], tc_build_select(&a->b, c, zero, g));
}

static void cast_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    rules_add(a, op, tc_build(&a->b, TC_CAST, 1, &g, op->in[0]->type));
}

/* ---- Functions ---- */

#define LN2            0.693147180559945309417
#define TWO_BY_SQRT_PI 1.12837916709551257390

static void exp_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *d = rules_mul(a, g, result(op));
    rules_add(a, op, op->code == TC_EXP2 ? scaled(a, d, LN2) : d);
}

static void log_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *d = tc_build_binary(&a->b, TC_DIV, g, in(op, 0));
    rules_add(a, op, op->code == TC_LOG2 ? scaled(a, d, 1 / LN2) : d);
}

static void sqrt_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    rules_add(a, op,
              scaled(a, tc_build_binary(&a->b, TC_DIV, g, result(op)), 0.5));
}

/* y' = -y^3 / 2 */
static void rsqrt_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *y = result(op);
    rules_add(
        a, op,
        scaled(a, rules_mul(a, rules_mul(a, rules_mul(a, g, y), y), y), -0.5));
}

/* y' = -y^2 */
static void rcp_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *y = result(op);
    rules_add(a, op, neg(a, rules_mul(a, rules_mul(a, g, y), y)));
}

static void sin_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    rules_add(a, op, rules_mul(a, g, tc_build_unary(&a->b, TC_COS, in(op, 0))));
}

static void cos_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    rules_add(
        a, op,
        neg(a, rules_mul(a, g, tc_build_unary(&a->b, TC_SIN, in(op, 0)))));
}

/* y' = 1 - y^2 */
static void tanh_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *y = result(op), *one = number_like(a, g, 1.0);
    tc_value *factors[] = {neg(a, y), y, one};
    rules_add(a, op,
              rules_mul(a, g, tc_build(&a->b, TC_FMA, 3, factors, NULL)));
}

/* y' = 2 / sqrt(pi) * exp(-x^2) */
static void erf_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    tc_value *x = in(op, 0);
    tc_value *bell = tc_build_unary(&a->b, TC_EXP, rules_mul(a, neg(a, x), x));
    rules_add(a, op, rules_mul(a, g, scaled(a, bell, TWO_BY_SQRT_PI)));
}

static rule_fn *const rules[TC_OPCODE_COUNT] = {
    [TC_ADD] = add_rule,       [TC_SUB] = sub_rule,   [TC_MUL] = mul_rule,
    [TC_DIV] = div_rule,       [TC_REM] = rem_rule,   [TC_MIN] = extremum_rule,
    [TC_MAX] = extremum_rule,  [TC_FMA] = mul_rule,   [TC_NEG] = neg_rule,
    [TC_ABS] = abs_rule,       [TC_FLOOR] = no_rule,  [TC_CEIL] = no_rule,
    [TC_ROUND] = no_rule,      [TC_EXP] = exp_rule,   [TC_EXP2] = exp_rule,
    [TC_LOG] = log_rule,       [TC_LOG2] = log_rule,  [TC_SQRT] = sqrt_rule,
    [TC_RSQRT] = rsqrt_rule,   [TC_RCP] = rcp_rule,   [TC_SIN] = sin_rule,
    [TC_COS] = cos_rule,       [TC_TANH] = tanh_rule, [TC_ERF] = erf_rule,
    [TC_SELECT] = select_rule, [TC_CAST] = cast_rule,
};

bool tc_gradient_rule(tc_adjoints *a, const tc_op *op, tc_value *g)
{
    if (!rules[op->code])
        return false;
    rules[op->code](a, op, g);
    return true;
}
