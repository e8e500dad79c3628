/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops, register by register, by the reference semantics.
 *
 * Poison goes from operands to the result, except where the other operands
 * decide it: of a select the condition and the side taken count, of `and` and
 * `or` of i1 a side that is false, or true. So data that is read and discarded
 * is no finding.
 */
#include "codegen/interp/state.h"

#include <math.h>

/* One element of each operand, and what becomes of it. */
typedef struct lane {
    const tc_op *op;
    tc_kind kinds[3], to;
    tc_inum in[3];
    tc_ipoison poison[3];
} lane;

typedef void lane_fn(const lane *l, tc_inum *out, tc_ipoison *poison);

static tc_ipoison any_poison(const lane *l)
{
    for (unsigned i = 0; i < l->op->nin; i++)
        if (l->poison[i])
            return l->poison[i];
    return 0;
}

static void lane_select(const lane *l, tc_inum *out, tc_ipoison *poison)
{
    unsigned side = l->in[0].i ? 1 : 2;
    *out = l->in[side];
    *poison = l->poison[0] ? l->poison[0] : l->poison[side];
}

/* and, or: one side may decide alone. */
static void lane_logic(const lane *l, tc_inum *out, tc_ipoison *poison)
{
    bool is_and = l->op->code == TC_AND;
    int64_t a = l->in[0].i, b = l->in[1].i;
    out->i = is_and ? a & b : a | b;
    *poison = any_poison(l);
    if (l->to != TC_I1)
        return;
    for (unsigned i = 0; i < 2; i++)
        if (!l->poison[i] && (l->in[i].i != 0) != is_and) {
            out->i = !is_and;
            *poison = 0;
        }
}

static void lane_ptr_add(const lane *l, tc_inum *out, tc_ipoison *poison)
{
    int64_t bytes = tc_type_bytes(tc_type_elem(l->op->out[0]->type)->elem);
    out->i = (int64_t)((uint64_t)l->in[0].i +
                       (uint64_t)l->in[1].i * (uint64_t)bytes);
    *poison = any_poison(l);
}

static tc_scalar widen(tc_inum x, tc_kind kind)
{
    if (tc_kind_is_float(kind))
        return (tc_scalar){.f = x.f};
    return (tc_scalar){.i = x.i};
}

/* Ops that tc_eval_op leaves open: those on a NaN's bits, and on pointers. */
static void lane_left_open(const lane *l, tc_inum *out)
{
    bool bits = l->op->code == TC_BITCAST && l->kinds[0] != TC_PTR;
    if (bits && tc_kind_is_float(l->kinds[0]))
        out->i = tc_int_wrap(
            l->to, (int64_t)tc_float_to_bits(l->kinds[0], l->in[0].f));
    else if (bits && l->to <= TC_F64)
        out->f = NAN;
    else if (l->op->code == TC_CMP)
        out->i =
            (l->in[0].i == l->in[1].i) == tc_op_is_word(l->op, "pred", "eq");
    else
        *out = l->in[0];
}

static void lane_eval(const lane *l, tc_inum *out, tc_ipoison *poison)
{
    tc_scalar in[3], r;
    for (unsigned i = 0; i < l->op->nin; i++)
        in[i] = widen(l->in[i], l->kinds[i]);
    *poison = any_poison(l);
    if (!tc_eval_op(l->op, in, &r))
        lane_left_open(l, out);
    else if (tc_kind_is_float(l->to))
        out->f = r.f;
    else
        out->i = r.i;
}

static lane_fn *const lanes[TC_OPCODE_COUNT] = {
    [TC_SELECT] = lane_select,
    [TC_AND] = lane_logic,
    [TC_OR] = lane_logic,
    [TC_PTR_ADD] = lane_ptr_add,
};

bool tc_interp_elementwise(tc_interp *it, const tc_op *op)
{
    const tc_ivalue *in[3] = {0};
    tc_ivalue *out = tc_ivalue_of(op->out[0]);
    lane l = {.op = op, .to = tc_type_elem(op->out[0]->type)->kind};
    for (unsigned i = 0; i < op->nin; i++) {
        in[i] = tc_ivalue_of(op->in[i]);
        l.kinds[i] = tc_type_elem(op->in[i]->type)->kind;
    }
    lane_fn *run = lanes[op->code] ? lanes[op->code] : lane_eval;
    for (unsigned r = 0; r < out->n; r++) {
        for (unsigned i = 0; i < op->nin; i++) {
            unsigned at = in[i]->n == 1 ? 0 : r; /* select's condition */
            l.in[i] = in[i]->x[at];
            l.poison[i] = in[i]->poison[at];
        }
        run(&l, &out->x[r], &out->poison[r]);
    }
    return true;
}
