/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference semantics of the scalar ops, one small function an op in a
 * sparse table by opcode.
 *
 * Floats are computed in double and rounded to f32, narrower kinds once more
 * to their own: exactly "computed in f32, rounded to the type after each op".
 * The first rounding is innocent for + - * / sqrt (a double has more than
 * twice the bits of an f32 and two more: Figueroa, "When is double rounding
 * innocuous?"); fma uses fmaf.
 */
#include "ir/eval/eval.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Rounding and bit patterns of the float kinds. */

static int exponent_bias(tc_kind kind)
{
    return (1 << (tc_scalar_infos[kind].exponent_bits - 1)) - 1;
}

/* e4m3 keeps its top exponent for numbers, the others for inf and NaN. */
static double largest(tc_kind kind)
{
    int m = (int)tc_scalar_infos[kind].mantissa_bits;
    if (kind == TC_F8E4M3)
        return 448;
    return ldexp(2 - ldexp(1, -m), exponent_bias(kind));
}

double tc_round_to(tc_kind kind, double x)
{
    assert(tc_scalar_infos[kind].is_float);
    if (kind == TC_F64 || isnan(x) || x == 0)
        return x;
    if (kind == TC_F32)
        return (double)(float)x;
    double max = largest(kind), beyond = tc_kind_is_f8(kind) ? max : INFINITY;
    if (isinf(x))
        return copysign(beyond, x);
    /* The distance of neighbours at x: a power of two, so scaling is exact. */
    int exponent = ilogb(x), least = 1 - exponent_bias(kind);
    int ulp = (exponent > least ? exponent : least) -
              (int)tc_scalar_infos[kind].mantissa_bits;
    double rounded = ldexp(nearbyint(ldexp(x, -ulp)), ulp);
    return fabs(rounded) > max ? copysign(beyond, x) : rounded;
}

static uint64_t nan_bits(tc_kind kind)
{
    unsigned m = tc_scalar_infos[kind].mantissa_bits;
    if (tc_kind_is_f8(kind))
        return 0x7f;
    uint64_t exponent = (1u << tc_scalar_infos[kind].exponent_bits) - 1;
    return exponent << m | 1ull << (m - 1);
}

uint64_t tc_float_to_bits(tc_kind kind, double x)
{
    const tc_scalar_info *info = &tc_scalar_infos[kind];
    unsigned m = info->mantissa_bits;
    if (isnan(x))
        return nan_bits(kind);
    x = tc_round_to(kind, x);
    uint64_t sign = (uint64_t)(signbit(x) != 0) << (info->bits - 1);
    double a = fabs(x);
    if (isinf(a))
        return sign | (((1ull << info->exponent_bits) - 1) << m);
    int bias = exponent_bias(kind);
    if (a < ldexp(1, 1 - bias)) /* zero or subnormal */
        return sign | (uint64_t)ldexp(a, bias - 1 + (int)m);
    int exponent = ilogb(a);
    uint64_t mantissa = (uint64_t)ldexp(a, (int)m - exponent);
    return sign | ((uint64_t)(exponent + bias) << m) |
           (mantissa & ((1ull << m) - 1));
}

double tc_float_from_bits(tc_kind kind, uint64_t bits)
{
    const tc_scalar_info *info = &tc_scalar_infos[kind];
    unsigned m = info->mantissa_bits;
    uint64_t top = (1ull << info->exponent_bits) - 1;
    uint64_t mantissa = bits & ((1ull << m) - 1);
    uint64_t exponent = bits >> m & top;
    double sign = bits >> (info->bits - 1) & 1 ? -1.0 : 1.0;
    int bias = exponent_bias(kind);
    if (kind == TC_F8E4M3 ? exponent == top && mantissa == 7
                          : exponent == top && mantissa)
        return NAN;
    if (kind != TC_F8E4M3 && exponent == top)
        return sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp((double)mantissa, 1 - bias - (int)m);
    return sign *
           ldexp((double)(mantissa | 1ull << m), (int)exponent - bias - (int)m);
}

/* Ints. */

static unsigned width(tc_kind kind)
{
    return tc_scalar_infos[kind].bits;
}

int64_t tc_int_wrap(tc_kind kind, int64_t i)
{
    if (kind == TC_I1)
        return i & 1;
    unsigned unused = 64 - width(kind);
    return (int64_t)((uint64_t)i << unused) >> unused;
}

/* The same bits as an unsigned number. */
static uint64_t as_unsigned(tc_kind kind, int64_t i)
{
    return (uint64_t)i << (64 - width(kind)) >> (64 - width(kind));
}

int64_t tc_int_div(tc_kind kind, int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return tc_int_wrap(kind, (int64_t)(0 - (uint64_t)a));
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t tc_int_rem(tc_kind kind, int64_t a, int64_t b)
{
    uint64_t floored = (uint64_t)tc_int_div(kind, a, b) * (uint64_t)b;
    return tc_int_wrap(kind, (int64_t)((uint64_t)a - floored));
}

uint64_t tc_trip_count(int64_t lo, int64_t hi, int64_t step)
{
    if (lo >= hi || step <= 0)
        return 0;
    uint64_t span = (uint64_t)hi - (uint64_t)lo;
    return (span - 1) / (uint64_t)step + 1;
}

/* Conversions. */

tc_scalar tc_number_value(tc_number n, tc_kind kind)
{
    if (!n.is_float)
        return tc_eval_cast(TC_I64, kind, (tc_scalar){.i = n.i});
    return tc_eval_cast(TC_F64, kind, (tc_scalar){.f = n.f});
}

static int64_t float_to_int(tc_kind to, double x)
{
    double limit = ldexp(1, (int)width(to) - 1);
    int64_t max = (int64_t)(~0ull >> (65 - width(to)));
    if (isnan(x))
        return 0;
    if (x >= limit)
        return max;
    return x < -limit ? -max - 1 : (int64_t)x;
}

/* An i64 has more bits than a double: rounding it to odd first keeps what a
 * second rounding to fewer bits needs to know. */
static double int_to_float(tc_kind to, int64_t i)
{
    if (to == TC_F64)
        return (double)i;
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    double x = (double)magnitude;
    if (magnitude >> 53)
        x = ldexp((double)(magnitude >> 11 | ((magnitude & 0x7ff) != 0)), 11);
    return tc_round_to(to, i < 0 ? -x : x);
}

tc_scalar tc_eval_cast(tc_kind from, tc_kind to, tc_scalar x)
{
    bool from_float = tc_scalar_infos[from].is_float;
    if (tc_scalar_infos[to].is_float)
        return (tc_scalar){.f = from_float ? tc_round_to(to, x.f)
                                           : int_to_float(to, x.i)};
    if (to == TC_I1)
        return (tc_scalar){.i = from_float ? x.f != 0 : x.i != 0};
    return (tc_scalar){.i = from_float ? float_to_int(to, x.f)
                                       : tc_int_wrap(to, x.i)};
}

/* The ops. `kind` is that of operand 0's elements (of the result where there
 * is no operand). */

struct eval {
    const tc_op *op;
    tc_kind kind;
    const tc_scalar *in;
};

typedef bool eval_fn(const struct eval *e, tc_scalar *out);

static bool is_float(tc_kind kind)
{
    return tc_scalar_infos[kind].is_float;
}

static bool give_int(tc_kind kind, uint64_t i, tc_scalar *out)
{
    *out = (tc_scalar){.i = tc_int_wrap(kind, (int64_t)i)};
    return true;
}

static bool give_float(tc_kind kind, double f, tc_scalar *out)
{
    if (kind != TC_F64)
        f = (float)f;
    *out = (tc_scalar){.f = tc_round_to(kind, f)};
    return true;
}

static bool eval_const(const struct eval *e, tc_scalar *out)
{
    *out = tc_number_value(tc_op_attr(e->op, "value")->number, e->kind);
    return true;
}

static bool eval_dim(const struct eval *e, tc_scalar *out)
{
    const tc_dim *d = tc_op_attr(e->op, "value")->dims[0];
    return d->kind == TC_DIM_CONST &&
           give_int(e->kind, (uint64_t)d->value, out);
}

static bool eval_add(const struct eval *e, tc_scalar *out)
{
    if (is_float(e->kind))
        return give_float(e->kind, e->in[0].f + e->in[1].f, out);
    return give_int(e->kind, (uint64_t)e->in[0].i + (uint64_t)e->in[1].i, out);
}

static bool eval_sub(const struct eval *e, tc_scalar *out)
{
    if (is_float(e->kind))
        return give_float(e->kind, e->in[0].f - e->in[1].f, out);
    return give_int(e->kind, (uint64_t)e->in[0].i - (uint64_t)e->in[1].i, out);
}

static bool eval_mul(const struct eval *e, tc_scalar *out)
{
    if (is_float(e->kind))
        return give_float(e->kind, e->in[0].f * e->in[1].f, out);
    return give_int(e->kind, (uint64_t)e->in[0].i * (uint64_t)e->in[1].i, out);
}

static bool eval_div(const struct eval *e, tc_scalar *out)
{
    if (is_float(e->kind))
        return give_float(e->kind, e->in[0].f / e->in[1].f, out);
    return give_int(e->kind,
                    (uint64_t)tc_int_div(e->kind, e->in[0].i, e->in[1].i), out);
}

static bool eval_rem(const struct eval *e, tc_scalar *out)
{
    if (!is_float(e->kind))
        return give_int(e->kind,
                        (uint64_t)tc_int_rem(e->kind, e->in[0].i, e->in[1].i),
                        out);
    /* Each step rounds; volatile keeps compilers from fusing them. */
    tc_kind step = e->kind == TC_F64 ? TC_F64 : TC_F32;
    volatile double quotient = tc_round_to(step, e->in[0].f / e->in[1].f);
    volatile double product = tc_round_to(step, floor(quotient) * e->in[1].f);
    return give_float(e->kind, e->in[0].f - product, out);
}

static bool eval_divu(const struct eval *e, tc_scalar *out)
{
    uint64_t a = as_unsigned(e->kind, e->in[0].i),
             b = as_unsigned(e->kind, e->in[1].i);
    return give_int(e->kind, b ? a / b : 0, out);
}

static bool eval_remu(const struct eval *e, tc_scalar *out)
{
    uint64_t a = as_unsigned(e->kind, e->in[0].i),
             b = as_unsigned(e->kind, e->in[1].i);
    return give_int(e->kind, b ? a % b : a, out);
}

static bool eval_minu(const struct eval *e, tc_scalar *out)
{
    bool less =
        as_unsigned(e->kind, e->in[0].i) < as_unsigned(e->kind, e->in[1].i);
    *out = e->in[!less];
    return true;
}

static bool eval_maxu(const struct eval *e, tc_scalar *out)
{
    bool less =
        as_unsigned(e->kind, e->in[0].i) < as_unsigned(e->kind, e->in[1].i);
    *out = e->in[less];
    return true;
}

static bool eval_mulhi(const struct eval *e, tc_scalar *out)
{
    uint64_t a = as_unsigned(e->kind, e->in[0].i),
             b = as_unsigned(e->kind, e->in[1].i);
    if (e->kind != TC_I64)
        return give_int(e->kind, a * b >> width(e->kind), out);
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t cross = (al * bl >> 32) + (uint32_t)(ah * bl) + al * bh;
    /* al * bh may carry out of 64 bits only with both halves at their top:
     * (2^32-1)^2 + 2 (2^32-1) is 2^64 - 1, so it does not. */
    return give_int(e->kind, ah * bh + (ah * bl >> 32) + (cross >> 32), out);
}

/* Not fmin and fmax: of a signalling NaN and a number those give NaN. */
static double lesser(double a, double b)
{
    return isnan(a) || b < a ? b : a;
}

static bool eval_min(const struct eval *e, tc_scalar *out)
{
    if (is_float(e->kind))
        return give_float(e->kind, lesser(e->in[0].f, e->in[1].f), out);
    *out = e->in[0].i < e->in[1].i ? e->in[0] : e->in[1];
    return true;
}

static double greater(double a, double b)
{
    return isnan(a) || b > a ? b : a;
}

static bool eval_max(const struct eval *e, tc_scalar *out)
{
    if (is_float(e->kind))
        return give_float(e->kind, greater(e->in[0].f, e->in[1].f), out);
    *out = e->in[0].i > e->in[1].i ? e->in[0] : e->in[1];
    return true;
}

static bool eval_and(const struct eval *e, tc_scalar *out)
{
    return !is_float(e->kind) &&
           give_int(e->kind, (uint64_t)(e->in[0].i & e->in[1].i), out);
}

static bool eval_or(const struct eval *e, tc_scalar *out)
{
    return !is_float(e->kind) &&
           give_int(e->kind, (uint64_t)(e->in[0].i | e->in[1].i), out);
}

static bool eval_xor(const struct eval *e, tc_scalar *out)
{
    return !is_float(e->kind) &&
           give_int(e->kind, (uint64_t)(e->in[0].i ^ e->in[1].i), out);
}

/* The amount, or the width where it is that or more (or negative). */
static unsigned shift_amount(tc_kind kind, int64_t by)
{
    return by < 0 || by >= width(kind) ? width(kind) : (unsigned)by;
}

static bool eval_shl(const struct eval *e, tc_scalar *out)
{
    unsigned by = shift_amount(e->kind, e->in[1].i);
    return give_int(e->kind,
                    by == width(e->kind) ? 0 : (uint64_t)e->in[0].i << by, out);
}

static bool eval_shr(const struct eval *e, tc_scalar *out)
{
    unsigned by = shift_amount(e->kind, e->in[1].i);
    return give_int(
        e->kind, (uint64_t)(e->in[0].i >> (by == width(e->kind) ? by - 1 : by)),
        out);
}

static bool eval_shru(const struct eval *e, tc_scalar *out)
{
    unsigned by = shift_amount(e->kind, e->in[1].i);
    uint64_t a = as_unsigned(e->kind, e->in[0].i);
    return give_int(e->kind, by == width(e->kind) ? 0 : a >> by, out);
}

static bool eval_fma(const struct eval *e, tc_scalar *out)
{
    double x = e->kind == TC_F64 ? fma(e->in[0].f, e->in[1].f, e->in[2].f)
                                 : fmaf((float)e->in[0].f, (float)e->in[1].f,
                                        (float)e->in[2].f);
    return give_float(e->kind, x, out);
}

static bool eval_neg(const struct eval *e, tc_scalar *out)
{
    if (is_float(e->kind))
        return give_float(e->kind, -e->in[0].f, out);
    return give_int(e->kind, 0 - (uint64_t)e->in[0].i, out);
}

static bool eval_not(const struct eval *e, tc_scalar *out)
{
    return !is_float(e->kind) && give_int(e->kind, ~(uint64_t)e->in[0].i, out);
}

static bool eval_abs(const struct eval *e, tc_scalar *out)
{
    if (is_float(e->kind))
        return give_float(e->kind, fabs(e->in[0].f), out);
    uint64_t a = (uint64_t)e->in[0].i;
    return give_int(e->kind, e->in[0].i < 0 ? 0 - a : a, out);
}

/* Functions of one float, computed in double. */
static double rsqrt_of(double x)
{
    return 1 / sqrt(x);
}

static double rcp_of(double x)
{
    return 1 / x;
}

static double (*const functions[TC_OPCODE_COUNT])(double) = {
    [TC_FLOOR] = floor, [TC_CEIL] = ceil, [TC_ROUND] = nearbyint,
    [TC_EXP] = exp,     [TC_EXP2] = exp2, [TC_LOG] = log,
    [TC_LOG2] = log2,   [TC_SQRT] = sqrt, [TC_RSQRT] = rsqrt_of,
    [TC_RCP] = rcp_of,  [TC_SIN] = sin,   [TC_COS] = cos,
    [TC_TANH] = tanh,   [TC_ERF] = erf,
};

static bool eval_function(const struct eval *e, tc_scalar *out)
{
    return give_float(e->kind, functions[e->op->code](e->in[0].f), out);
}

/* -1, 0 or 1; 2 where a NaN is compared. */
static int compare(tc_kind kind, bool is_unsigned, tc_scalar a, tc_scalar b)
{
    if (is_float(kind)) {
        if (isnan(a.f) || isnan(b.f))
            return 2;
        return (a.f > b.f) - (a.f < b.f);
    }
    if (is_unsigned) {
        uint64_t x = as_unsigned(kind, a.i), y = as_unsigned(kind, b.i);
        return (x > y) - (x < y);
    }
    return (a.i > b.i) - (a.i < b.i);
}

static bool eval_cmp(const struct eval *e, tc_scalar *out)
{
    const char *pred = tc_op_word(e->op, "pred");
    bool is_unsigned = pred[0] == 'u';
    int order = compare(e->kind, is_unsigned, e->in[0], e->in[1]);
    pred += is_unsigned;
    bool r = strcmp(pred, "eq") == 0   ? order == 0
             : strcmp(pred, "ne") == 0 ? order != 0
             : strcmp(pred, "lt") == 0 ? order == -1
             : strcmp(pred, "le") == 0 ? order == -1 || order == 0
             : strcmp(pred, "gt") == 0 ? order == 1
                                       : order == 0 || order == 1;
    *out = (tc_scalar){.i = r};
    return true;
}

static bool eval_select(const struct eval *e, tc_scalar *out)
{
    *out = e->in[0].i ? e->in[1] : e->in[2];
    return true;
}

static bool eval_cast(const struct eval *e, tc_scalar *out)
{
    *out = tc_eval_cast(e->kind, tc_type_elem(e->op->out[0]->type)->kind,
                        e->in[0]);
    return true;
}

/* A NaN has many bit patterns and a tc_scalar only one: left to run time. */
static bool eval_bitcast(const struct eval *e, tc_scalar *out)
{
    tc_kind to = tc_type_elem(e->op->out[0]->type)->kind;
    uint64_t bits = is_float(e->kind) ? tc_float_to_bits(e->kind, e->in[0].f)
                                      : as_unsigned(e->kind, e->in[0].i);
    if (is_float(e->kind) && isnan(e->in[0].f))
        return false;
    /* An infinity that was loaded keeps its bits; rounding would saturate. */
    if (e->kind == TC_F8E5M2 && isinf(e->in[0].f))
        bits = 0x7c | (uint64_t)(e->in[0].f < 0) << 7;
    if (!is_float(to))
        return give_int(to, bits, out);
    *out = (tc_scalar){.f = tc_float_from_bits(to, bits)};
    return !isnan(out->f);
}

static eval_fn *const evaluators[TC_OPCODE_COUNT] = {
    [TC_CONST] = eval_const,    [TC_DIM] = eval_dim,
    [TC_ADD] = eval_add,        [TC_SUB] = eval_sub,
    [TC_MUL] = eval_mul,        [TC_DIV] = eval_div,
    [TC_REM] = eval_rem,        [TC_MULHI] = eval_mulhi,
    [TC_MIN] = eval_min,        [TC_MAX] = eval_max,
    [TC_DIVU] = eval_divu,      [TC_REMU] = eval_remu,
    [TC_MINU] = eval_minu,      [TC_MAXU] = eval_maxu,
    [TC_AND] = eval_and,        [TC_OR] = eval_or,
    [TC_XOR] = eval_xor,        [TC_SHL] = eval_shl,
    [TC_SHR] = eval_shr,        [TC_SHRU] = eval_shru,
    [TC_FMA] = eval_fma,        [TC_NEG] = eval_neg,
    [TC_NOT] = eval_not,        [TC_ABS] = eval_abs,
    [TC_FLOOR] = eval_function, [TC_CEIL] = eval_function,
    [TC_ROUND] = eval_function, [TC_EXP] = eval_function,
    [TC_EXP2] = eval_function,  [TC_LOG] = eval_function,
    [TC_LOG2] = eval_function,  [TC_SQRT] = eval_function,
    [TC_RSQRT] = eval_function, [TC_RCP] = eval_function,
    [TC_SIN] = eval_function,   [TC_COS] = eval_function,
    [TC_TANH] = eval_function,  [TC_ERF] = eval_function,
    [TC_CMP] = eval_cmp,        [TC_SELECT] = eval_select,
    [TC_CAST] = eval_cast,      [TC_BITCAST] = eval_bitcast,
};

bool tc_eval_op(const tc_op *op, const tc_scalar *in, tc_scalar *out)
{
    if (!evaluators[op->code] || op->nout != 1)
        return false;
    for (unsigned i = 0; i < op->nin; i++)
        if (tc_type_elem(op->in[i]->type)->kind > TC_F64)
            return false;
    tc_kind to = tc_type_elem(op->out[0]->type)->kind;
    tc_kind kind = op->nin ? tc_type_elem(op->in[0]->type)->kind : to;
    struct eval e = {op, kind, in};
    return to <= TC_F64 && evaluators[op->code](&e, out);
}
