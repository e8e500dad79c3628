/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/softmax/shift.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"

#include <math.h>

/* v + log * d, or v * 2^(scale * d): [0] is of the step before, [1] of this
 * one. */
typedef struct shift {
    double log[2], scale[2];
    bool any;      /* 0 and infinities: of any shift */
    bool is_empty; /* i1: the row has seen nothing, its sums are 0 */
} shift;

typedef struct walk {
    const tc_running_max *x;
    tc_arena *scratch;
    const tc_op *wrong; /* the first op that shows d */
} walk;

static const shift plain;

/* ---- Shifts ---- */

/* log2(e) may have been rounded. */
static bool is_near(const double *a, const double *b)
{
    return fabs(a[0] - b[0]) < 1e-6 && fabs(a[1] - b[1]) < 1e-6;
}

static bool is_same(const shift *a, const shift *b)
{
    return is_near(a->log, b->log) && is_near(a->scale, b->scale);
}

static bool is_plain(const shift *a)
{
    return is_same(a, &plain);
}

static bool has_log(const shift *a)
{
    return !is_near(a->log, plain.log);
}

static bool has_scale(const shift *a)
{
    return !is_near(a->scale, plain.scale);
}

static shift shift_of(const tc_value *v)
{
    tc_scalar c;
    if (tc_has_float_lanes(v) && tc_match_const(v, &c) &&
        (c.f == 0 || isinf(c.f)))
        return (shift){.any = true};
    return v->data ? *(const shift *)v->data : plain;
}

static void set(walk *w, tc_value *v, shift s)
{
    shift *data = NULL;
    if (!is_plain(&s) || s.is_empty || s.any) {
        data = tc_arena_new(w->scratch, shift);
        *data = s;
    }
    v->data = data;
}

/* a + sign * b */
static bool add(const shift *a, const shift *b, double sign, shift *out)
{
    *out = a->any ? *b : *a;
    if (a->any || b->any) {
        for (unsigned i = 0; a->any && i < 2; i++)
            out->log[i] *= sign;
        return true;
    }
    for (unsigned i = 0; i < 2; i++)
        out->log[i] = a->log[i] + sign * b->log[i];
    return is_near(a->scale, b->scale) &&
           (!has_scale(a) || (!has_log(a) && !has_log(b)));
}

/* a * b^sign */
static bool multiply(const shift *a, const shift *b, double sign, shift *out)
{
    *out = (shift){.any = a->any || (b->any && sign > 0)};
    for (unsigned i = 0; i < 2; i++)
        out->scale[i] = a->scale[i] + sign * b->scale[i];
    return !has_log(a) && !has_log(b);
}

/* a * c */
static shift times(shift a, double c)
{
    for (unsigned i = 0; i < 2; i++)
        a.log[i] *= c;
    return a;
}

/* Logarithms become exponents, and the other way round. */
static bool power(const shift *a, double base_log2, shift *out)
{
    *out = plain;
    for (unsigned i = 0; i < 2; i++)
        out->scale[i] = a->log[i] * base_log2;
    return !has_scale(a);
}

static bool logarithm(const shift *a, double base_log2, shift *out)
{
    *out = plain;
    for (unsigned i = 0; i < 2; i++)
        out->log[i] = a->scale[i] / base_log2;
    return !has_log(a);
}

/* ---- Ops ---- */

static const double LOG2E = 1.4426950408889634;

static bool all_plain(const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++) {
        shift s = shift_of(op->in[i]);
        if (!is_plain(&s) || s.is_empty)
            return false;
    }
    return true;
}

static bool of_mul(const tc_op *op, shift *out)
{
    shift a = shift_of(op->in[0]), b = shift_of(op->in[1]);
    tc_scalar c;
    for (unsigned i = 0; i < 2; i++)
        if (has_log(i ? &b : &a) && tc_match_const(op->in[1 - i], &c)) {
            *out = times(i ? b : a, c.f);
            return true;
        }
    return multiply(&a, &b, 1, out);
}

static bool of_fma(const tc_op *op, shift *out)
{
    shift c = shift_of(op->in[2]), product;
    return of_mul(op, &product) && add(&product, &c, 1, out);
}

/* One of two, or one and a constant where the row is empty. */
static bool of_select(const tc_op *op, shift *out)
{
    shift c = shift_of(op->in[0]), a = shift_of(op->in[1]),
          b = shift_of(op->in[2]);
    tc_scalar k;
    bool a_free = a.any || (c.is_empty && tc_match_const(op->in[1], &k));
    bool b_free = b.any || (c.is_empty && tc_match_const(op->in[2], &k));
    *out = a_free ? b : a;
    out->any = a.any && b.any;
    return is_plain(&c) && (a_free || b_free || is_same(&a, &b));
}

/* Is the sum 0, is the maximum -inf? */
static bool of_cmp(const tc_op *op, shift *out)
{
    shift a = shift_of(op->in[0]), b = shift_of(op->in[1]);
    tc_scalar c;
    bool against = tc_match_const(op->in[1], &c) && b.any;
    *out = plain;
    out->is_empty = tc_op_is_word(op, "pred", "eq");
    return against && ((has_scale(&a) && !has_log(&a) && c.f == 0) ||
                       (has_log(&a) && !has_scale(&a) && isinf(c.f)));
}

/* Rows of a product are those of its first operand. */
static bool of_dot(const tc_op *op, shift *out)
{
    shift a = shift_of(op->in[0]), b = shift_of(op->in[1]), c = {.any = true};
    if (op->nin > 2)
        c = shift_of(op->in[2]);
    *out = a;
    return is_plain(&b) && !has_log(&a) && add(&a, &c, 1, out);
}

static bool of_reduce(const tc_op *op, shift *out)
{
    shift a = shift_of(op->in[0]);
    *out = a;
    bool is_sum = tc_op_is_word(op, "kind", "sum");
    bool is_order =
        tc_op_is_word(op, "kind", "max") || tc_op_is_word(op, "kind", "min");
    return op->nin == 1 && tc_op_int(op, "axis") != 0 &&
           (is_order || (is_sum && !has_log(&a)));
}

static bool of_binary(const tc_op *op, shift *out)
{
    shift a = shift_of(op->in[0]), b = shift_of(op->in[1]);
    switch (op->code) {
    case TC_ADD: return add(&a, &b, 1, out);
    case TC_SUB: return add(&a, &b, -1, out);
    case TC_DIV: return multiply(&a, &b, -1, out);
    default: *out = a; return is_same(&a, &b);
    }
}

/* False: the result depends on d in another way. */
static bool shift_after(const tc_op *op, shift *out)
{
    shift a = shift_of(op->in[0]);
    *out = a;
    switch (op->code) {
    case TC_ADD:
    case TC_SUB:
    case TC_DIV:
    case TC_MAX:
    case TC_MIN: return of_binary(op, out);
    case TC_MUL: return of_mul(op, out);
    case TC_FMA: return of_fma(op, out);
    case TC_SELECT: return of_select(op, out);
    case TC_CMP: return of_cmp(op, out);
    case TC_DOT: return of_dot(op, out);
    case TC_REDUCE: return of_reduce(op, out);
    case TC_EXP: return power(&a, LOG2E, out);
    case TC_EXP2: return power(&a, 1, out);
    case TC_LOG: return logarithm(&a, LOG2E, out);
    case TC_LOG2: return logarithm(&a, 1, out);
    case TC_RCP: return multiply(&plain, &a, -1, out);
    case TC_NEG: *out = times(a, -1); return true;
    case TC_EXPAND_DIMS: return tc_op_int(op, "axis") != 0;
    case TC_BROADCAST:
    case TC_CAST: return true;
    default: return false;
    }
}

/* ---- The walk ---- */

static void visit_region(walk *w, const tc_region *r);

static bool yields_plain(const tc_region *r)
{
    const tc_op *yield = tc_region_terminator(r);
    return !yield || all_plain(yield);
}

/* Inside there may be results that do not depend on d, no others. */
static void visit_regions(walk *w, const tc_op *op)
{
    for (unsigned i = 0; i < op->nregions && !w->wrong; i++) {
        visit_region(w, op->regions[i]);
        if (!w->wrong && !yields_plain(op->regions[i]))
            w->wrong = op;
    }
}

static void visit_op(walk *w, const tc_op *op)
{
    shift s;
    for (unsigned i = 0; i < op->nout; i++)
        op->out[i]->data = NULL;
    if (op->nregions && !tc_op_combines(op))
        visit_regions(w, op);
    shift now = shift_of(w->x->now);
    if (op == w->x->max && is_plain(&now))
        set(w, op->out[0], (shift){.log = {0, 1}});
    else if (w->wrong || op->code == TC_YIELD || all_plain(op))
        return;
    else if (op->nout != 1 || !shift_after(op, &s))
        w->wrong = op;
    else
        set(w, op->out[0], s);
}

static void visit_region(walk *w, const tc_region *r)
{
    tc_each_op (op, r)
        if (!w->wrong)
            visit_op(w, op);
}

static shift carried(const walk *w, unsigned slot, const bool *scaled, int step)
{
    shift s = plain;
    if (slot == w->x->slot)
        s.log[step] = 1;
    else if (scaled[slot])
        s.scale[step] = -w->x->octaves;
    return s;
}

/* The loop's body. Does it yield the same again? */
static bool visit_body(walk *w, const bool *scaled)
{
    const tc_op *loop = w->x->loop;
    for (unsigned i = 0; i < loop->nout; i++)
        set(w, tc_slot_arg(loop, i), carried(w, i, scaled, 0));
    w->wrong = NULL;
    visit_region(w, loop->regions[0]);
    const tc_op *yield = tc_slot_yield(loop);
    if (w->wrong)
        return false;
    bool same = true;
    for (unsigned i = 0; i < loop->nout; i++) {
        shift s = shift_of(yield->in[i]), next = carried(w, i, scaled, 1);
        same &= s.any || is_same(&s, &next);
    }
    return same;
}

static void visit_after(walk *w, const bool *scaled)
{
    tc_op *loop = w->x->loop;
    for (unsigned i = 0; i < loop->nout; i++)
        set(w, loop->out[i], carried(w, i, scaled, 1));
    for (const tc_op *op = loop->next; op && !w->wrong; op = op->next)
        visit_op(w, op);
    if (!w->wrong && !yields_plain(loop->parent))
        w->wrong = loop->parent->op ? loop->parent->op : loop;
}

static void clear(const tc_region *r)
{
    for (unsigned i = 0; i < r->nargs; i++)
        r->args[i]->data = NULL;
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nout; i++)
            op->out[i]->data = NULL;
        for (unsigned i = 0; i < op->nregions; i++)
            clear(op->regions[i]);
    }
}

/* ---- Which sums are relative to the maximum ---- */

static bool uses_marked(const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->data)
            return true;
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i])
            if (uses_marked(inner))
                return true;
    return false;
}

/* Those whose next value is computed from it. */
static void find_scaled(const tc_running_max *x, bool *scaled)
{
    static char mark;
    const tc_op *yield = tc_slot_yield(x->loop);
    tc_each_op (op, x->loop->regions[0]) {
        bool is_marked = op == x->max || uses_marked(op);
        for (unsigned i = 0; is_marked && i < op->nout; i++)
            op->out[i]->data = &mark;
    }
    for (unsigned i = 0; i < x->loop->nout; i++)
        scaled[i] = yield->in[i]->data != NULL;
    clear(x->loop->regions[0]);
}

const tc_op *tc_find_use_of_shift(const tc_running_max *x, tc_arena *scratch)
{
    walk w = {.x = x, .scratch = scratch};
    bool *scaled = tc_arena_array(scratch, bool, x->loop->nout);
    clear(x->loop->func->body);
    find_scaled(x, scaled);
    if (!visit_body(&w, scaled) && !w.wrong)
        w.wrong = tc_slot_yield(x->loop);
    if (!w.wrong)
        visit_after(&w, scaled);
    clear(x->loop->func->body);
    return w.wrong;
}

/* exp2(v), exp2(v * c), exp(v): as powers of two; 0: no power. */
static double octaves_of(const tc_op *v)
{
    tc_scalar c;
    tc_each_use (u, v->out[0]) {
        if (u->op->code == TC_EXP2)
            return 1;
        if (u->op->code == TC_EXP)
            return LOG2E;
        if (u->op->code == TC_MUL &&
            tc_match_const(u->op->in[1 - u->index], &c))
            return octaves_of(u->op) * c.f;
    }
    return 0;
}

static bool find_change(tc_running_max *x)
{
    tc_each_use (u, x->max->out[0]) {
        tc_op *op = u->op;
        if (op->code != TC_SUB || op->in[0] != tc_slot_arg(x->loop, x->slot) ||
            op->in[1] != x->max->out[0])
            continue;
        x->change = op;
        x->octaves = octaves_of(op);
    }
    return x->octaves > 0;
}

bool tc_match_running_max(tc_op *loop, unsigned slot, tc_running_max *x)
{
    const tc_value *carried_max = tc_slot_arg(loop, slot);
    tc_op *max = tc_match_op(tc_slot_yield(loop)->in[slot], TC_MAX);
    if (!max || max->parent != loop->regions[0] ||
        tc_lane_kind(carried_max) != TC_F32 || carried_max->type->rank != 1)
        return false;
    unsigned at = max->in[1] == carried_max;
    *x = (tc_running_max){
        .loop = loop, .slot = slot, .max = max, .now = max->in[1 - at]};
    return max->in[at] == carried_max && x->now != carried_max &&
           find_change(x);
}
