/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/interp/combine.h"

#include <math.h>
#include <string.h>

typedef enum kind_code { SUM, PROD, MAX, MIN, AND, OR, XOR, NKINDS } kind_code;

static kind_code code_of(const tc_op *op)
{
    static const char *const words[] = {"sum", "prod", "max", "min",
                                        "and", "or",   "xor"};
    kind_code code = SUM;
    while (code < NKINDS - 1 && !tc_op_is_word(op, "kind", words[code]))
        code++;
    return code;
}

static double combine_float(kind_code code, tc_kind kind, double a, double b)
{
    double x = code == SUM    ? a + b
               : code == PROD ? a * b
               : code == MAX  ? (isnan(a) || b > a ? b : a)
                              : (isnan(a) || b < a ? b : a);
    return kind == TC_F64 ? x : (float)x;
}

static int64_t combine_int(kind_code code, tc_kind kind, int64_t a, int64_t b)
{
    switch (code) {
    case SUM: return tc_int_wrap(kind, (int64_t)((uint64_t)a + (uint64_t)b));
    case PROD: return tc_int_wrap(kind, (int64_t)((uint64_t)a * (uint64_t)b));
    case MAX: return a > b ? a : b;
    case MIN: return a < b ? a : b;
    case AND: return a & b;
    case OR: return a | b;
    default: return a ^ b;
    }
}

static void set(const tc_value *v, tc_inum x, tc_ipoison poison)
{
    tc_ivalue *i = tc_ivalue_of(v);
    i->x[0] = x;
    i->poison[0] = poison;
}

static bool combine_by_region(tc_interp *it, const tc_op *op, tc_inum *x,
                              tc_ipoison *poison, const tc_inum *y,
                              const tc_ipoison *other)
{
    const tc_region *r = op->regions[0];
    unsigned n = tc_op_ncombined(op);
    for (unsigned k = 0; k < n; k++) {
        set(r->args[k], x[k], poison[k]);
        set(r->args[n + k], y[k], other[k]);
    }
    uint64_t steps = it->steps;
    if (!tc_interp_region(it, r))
        return false;
    it->steps = steps; /* all of the op is one step */
    for (unsigned k = 0; k < n; k++) {
        x[k] = tc_ivalue_of(r->last->in[k])->x[0];
        poison[k] = tc_ivalue_of(r->last->in[k])->poison[0];
    }
    return true;
}

bool tc_interp_combine(tc_interp *it, const tc_op *op, tc_inum *x,
                       tc_ipoison *poison, const tc_inum *y,
                       const tc_ipoison *other)
{
    if (op->nregions)
        return combine_by_region(it, op, x, poison, y, other);
    tc_kind kind = tc_type_elem(op->in[0]->type)->kind;
    if (tc_kind_is_float(kind))
        x->f = combine_float(code_of(op), kind, x->f, y->f);
    else
        x->i = combine_int(code_of(op), kind, x->i, y->i);
    if (!*poison)
        *poison = *other;
    return true;
}

tc_inum tc_interp_neutral(const tc_op *op)
{
    tc_kind kind = tc_type_elem(op->in[0]->type)->kind;
    unsigned bits = tc_scalar_infos[kind].bits;
    int64_t least = -(int64_t)((uint64_t)1 << (bits - 1));
    switch (code_of(op)) {
    case PROD:
        return tc_kind_is_float(kind) ? (tc_inum){.f = 1} : (tc_inum){.i = 1};
    case MAX:
        return tc_kind_is_float(kind) ? (tc_inum){.f = -INFINITY}
                                      : (tc_inum){.i = least};
    case MIN:
        return tc_kind_is_float(kind) ? (tc_inum){.f = INFINITY}
                                      : (tc_inum){.i = -(least + 1)};
    case AND: return (tc_inum){.i = kind == TC_I1 ? 1 : -1};
    default: return (tc_inum){.i = 0};
    }
}
