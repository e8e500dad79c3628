/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/int_range.h"

#include "passes/analysis/match.h"

/* Expressions are not followed further. */
enum { DEPTH = 16 };

typedef struct seeker {
    unsigned depth;
    const tc_map *given; /* NULL: none */
} seeker;

tc_int_range tc_int_range_of_kind(tc_kind kind)
{
    if (kind == TC_I1)
        return (tc_int_range){0, 1};
    unsigned bits = tc_scalar_infos[kind].bits;
    int64_t high = (int64_t)(~0ull >> (65 - bits));
    return (tc_int_range){-high - 1, high};
}

static tc_int_range int_range_find(const tc_value *v, seeker s);

static tc_int_range deeper(const tc_value *v, seeker s)
{
    s.depth++;
    return int_range_find(v, s);
}

static tc_int_range operand(const tc_op *op, unsigned i, seeker s)
{
    return deeper(op->in[i], s);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Each gives false where an i64 does not hold the result. */
typedef bool span_fn(const tc_op *op, seeker s, tc_int_range *out);

static bool of_size(const tc_op *op, seeker s, tc_int_range *out)
{
    (void)op;
    (void)s;
    *out = (tc_int_range){0, TC_MAX_SIZE};
    return true;
}

/* Below the number that the kernel's grid gives. */
static bool of_program_id(const tc_op *op, seeker s, tc_int_range *out)
{
    const tc_region *grid = op->func->grid;
    const tc_op *yield = grid ? tc_region_terminator(grid) : NULL;
    uint64_t axis = (uint64_t)tc_op_int(op, "axis");
    int64_t n = INT32_MAX;
    if (yield)
        n = axis < yield->nin ? deeper(yield->in[axis], s).high : 1;
    *out = (tc_int_range){0, larger(n - 1, 0)};
    return true;
}

static bool of_add(const tc_op *op, seeker s, tc_int_range *out)
{
    tc_int_range x = operand(op, 0, s), y = operand(op, 1, s);
    return !__builtin_add_overflow(x.low, y.low, &out->low) &&
           !__builtin_add_overflow(x.high, y.high, &out->high);
}

static bool of_sub(const tc_op *op, seeker s, tc_int_range *out)
{
    tc_int_range x = operand(op, 0, s), y = operand(op, 1, s);
    return !__builtin_sub_overflow(x.low, y.high, &out->low) &&
           !__builtin_sub_overflow(x.high, y.low, &out->high);
}

static bool of_neg(const tc_op *op, seeker s, tc_int_range *out)
{
    tc_int_range x = operand(op, 0, s);
    return !__builtin_sub_overflow(0, x.high, &out->low) &&
           !__builtin_sub_overflow(0, x.low, &out->high);
}

static bool of_mul(const tc_op *op, seeker s, tc_int_range *out)
{
    tc_int_range x = operand(op, 0, s), y = operand(op, 1, s);
    int64_t c[4];
    if (__builtin_mul_overflow(x.low, y.low, &c[0]) ||
        __builtin_mul_overflow(x.low, y.high, &c[1]) ||
        __builtin_mul_overflow(x.high, y.low, &c[2]) ||
        __builtin_mul_overflow(x.high, y.high, &c[3]))
        return false;
    *out = (tc_int_range){smaller(smaller(c[0], c[1]), smaller(c[2], c[3])),
                          larger(larger(c[0], c[1]), larger(c[2], c[3]))};
    return true;
}

/* Quotients of a positive divisor. x / 0 is 0, which lies between as well. */
static bool of_div(const tc_op *op, seeker s, tc_int_range *out)
{
    tc_int_range x = operand(op, 0, s), y = operand(op, 1, s);
    if (y.low < 0)
        return false;
    int64_t least = larger(y.low, 1), most = larger(y.high, 1);
    *out =
        (tc_int_range){tc_int_div(TC_I64, x.low, x.low < 0 ? least : most),
                       tc_int_div(TC_I64, x.high, x.high < 0 ? most : least)};
    if (y.low == 0)
        *out = (tc_int_range){smaller(out->low, 0), larger(out->high, 0)};
    return true;
}

/* Of what is positive: below it; x rem 0 would be x. */
static bool of_rem(const tc_op *op, seeker s, tc_int_range *out)
{
    tc_int_range y = operand(op, 1, s);
    *out = (tc_int_range){0, y.high - 1};
    return y.low > 0;
}

static bool of_min(const tc_op *op, seeker s, tc_int_range *out)
{
    tc_int_range x = operand(op, 0, s), y = operand(op, 1, s);
    *out = (tc_int_range){smaller(x.low, y.low), smaller(x.high, y.high)};
    return true;
}

static bool of_max(const tc_op *op, seeker s, tc_int_range *out)
{
    tc_int_range x = operand(op, 0, s), y = operand(op, 1, s);
    *out = (tc_int_range){larger(x.low, y.low), larger(x.high, y.high)};
    return true;
}

static bool of_cast(const tc_op *op, seeker s, tc_int_range *out)
{
    if (!tc_has_int_lanes(op->in[0]))
        return false;
    *out = operand(op, 0, s);
    return true;
}

static bool of_range(const tc_op *op, seeker s, tc_int_range *out)
{
    (void)s;
    int64_t n = tc_type_count(op->out[0]->type);
    *out = (tc_int_range){0, n - 1};
    return n > 0;
}

static bool of_same(const tc_op *op, seeker s, tc_int_range *out)
{
    *out = operand(op, 0, s);
    return true;
}

static span_fn *const by_op[TC_OPCODE_COUNT] = {
    [TC_SIZE] = of_size,
    [TC_BISECT] = of_size,
    [TC_PROGRAM_ID] = of_program_id,
    [TC_ADD] = of_add,
    [TC_SUB] = of_sub,
    [TC_NEG] = of_neg,
    [TC_MUL] = of_mul,
    [TC_DIV] = of_div,
    [TC_REM] = of_rem,
    [TC_MIN] = of_min,
    [TC_MAX] = of_max,
    [TC_CAST] = of_cast,
    [TC_RANGE] = of_range,
    [TC_SPLAT] = of_same,
    [TC_BROADCAST] = of_same,
    [TC_EXPAND_DIMS] = of_same,
};

/* The range of the result of a call. */
static bool of_result(const tc_value *v, seeker s, tc_int_range *out)
{
    const tc_func *f = tc_op_callee(v->def);
    const tc_op *ret = f ? tc_region_terminator(f->body) : NULL;
    if (ret)
        *out = deeper(ret->in[v->index], s);
    return ret != NULL;
}

/* The index of a `for` lies between its ends. */
static bool of_argument(const tc_value *v, seeker s, tc_int_range *out)
{
    const tc_int_range *given = s.given ? tc_map_get(s.given, v) : NULL;
    const tc_op *loop = v->region ? v->region->op : NULL;
    if (given)
        *out = *given;
    if (given || !loop || loop->code != TC_FOR || v->index != 0)
        return given != NULL;
    *out = (tc_int_range){deeper(loop->in[0], s).low,
                          deeper(loop->in[1], s).high - 1};
    return out->low <= out->high;
}

static tc_int_range int_range_find(const tc_value *v, seeker s)
{
    tc_int_range all = tc_int_range_of_kind(tc_type_elem(v->type)->kind), x;
    tc_scalar c;
    if (tc_match_const(v, &c))
        return (tc_int_range){c.i, c.i};
    if (s.depth == DEPTH)
        return all;
    bool known = !v->def                   ? of_argument(v, s, &x)
                 : v->def->code == TC_CALL ? of_result(v, s, &x)
                 : by_op[v->def->code]     ? by_op[v->def->code](v->def, s, &x)
                                           : false;
    if (!known)
        return all;
    return x.low < all.low || x.high > all.high ? all : x; /* it may wrap */
}

tc_int_range tc_int_range_of(const tc_value *v)
{
    return int_range_find(v, (seeker){0, NULL});
}

tc_int_range tc_int_range_given(const tc_value *v, const tc_map *given)
{
    return int_range_find(v, (seeker){0, given});
}
