/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk over the function in program order. Loops are walked again until the
 * facts assumed of their carried values hold; facts only get weaker from walk
 * to walk, and all numbers are powers of two. Tests: test/unit/axis_info.c.
 */
#include "passes/analysis/axis_info.h"

#include "passes/analysis/nesting.h"
#include "passes/analysis/roles.h"

#include <string.h>

enum { MOST = 1 << 30 };

static uint32_t low_bit(int64_t x)
{
    uint64_t bit = (uint64_t)x & -(uint64_t)x;
    return bit && bit < MOST ? (uint32_t)bit : MOST;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t times(uint32_t a, uint32_t b)
{
    uint64_t p = (uint64_t)a * b;
    return p > MOST ? MOST : (uint32_t)p;
}

static unsigned rank_of(const tc_type *t)
{
    return t->kind == TC_TILE || t->kind == TC_BLOCK_PTR ? t->rank : 1;
}

static uint32_t side_power(const tc_type *t, unsigned axis)
{
    return t->kind == TC_TILE || t->kind == TC_BLOCK_PTR
               ? low_bit(tc_dim_value(t->dims[axis]))
               : MOST;
}

/* Nothing is known but the element's width, to which pointers are aligned. */
static tc_axis_info unknown(const tc_type *t)
{
    const tc_type *elem = tc_type_elem(t);
    tc_axis_info r = {.rank = rank_of(t), .step = 1};
    if (elem->kind == TC_PTR)
        r.step = tc_type_bytes(elem->elem);
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i] = (tc_axis){1, r.step, t->kind == TC_TILE ? 1 : MOST};
    return r;
}

static tc_axis_info known(const tc_type *t, int64_t value)
{
    tc_axis_info r = unknown(t);
    r.is_known = true;
    r.value = value;
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i] = (tc_axis){1, low_bit(value), side_power(t, i)};
    return r;
}

static tc_axis_info divided(const tc_type *t, uint32_t divisor)
{
    tc_axis_info r = unknown(t);
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i].divisor = divisor;
    return r;
}

uint32_t tc_axis_divisor(const tc_axis_info *info)
{
    uint32_t d = 1;
    for (unsigned i = 0; i < info->rank; i++)
        if (info->axis[i].run == 1)
            d = larger(d, info->axis[i].divisor);
    return d;
}

/* The facts for shorter runs: each lies within one of the longer ones. */
static tc_axis in_runs_of(tc_axis a, uint32_t run, uint32_t step)
{
    if (run < a.run)
        a.divisor = smaller(a.divisor, times(run, low_bit(step)));
    a.run = smaller(a.run, run);
    return a;
}

static tc_axis_info axis_info_join(const tc_axis_info *a, const tc_axis_info *b)
{
    tc_axis_info r = *a;
    for (unsigned i = 0; i < r.rank; i++) {
        uint32_t run = smaller(a->axis[i].run, b->axis[i].run);
        tc_axis x = in_runs_of(a->axis[i], run, a->step),
                y = in_runs_of(b->axis[i], run, b->step);
        r.axis[i] = (tc_axis){run, smaller(x.divisor, y.divisor),
                              smaller(x.same, y.same)};
    }
    r.is_known = a->is_known && b->is_known && a->value == b->value;
    return r;
}

/* ---- Values ---- */

const tc_axis_info *tc_axis_info_of(const tc_axis_analysis *a,
                                    const tc_value *v)
{
    tc_axis_info *info = tc_map_get(&a->infos, v);
    if (!info) {
        info = tc_arena_new(a->arena, tc_axis_info);
        *info = unknown(v->type);
    }
    return info;
}

static void set(tc_axis_analysis *a, const tc_value *v, tc_axis_info info)
{
    tc_axis_info *old = tc_map_get(&a->infos, v);
    if (old)
        *old = info;
    else
        tc_map_set(&a->infos, v, tc_arena_copy(a->arena, &info, sizeof info));
}

static const tc_axis_info *in(const tc_axis_analysis *a, const tc_op *op,
                              unsigned i)
{
    return tc_axis_info_of(a, op->in[i]);
}

/* ---- Rules of ops with one result ---- */

typedef tc_axis_info rule_fn(const tc_axis_analysis *a, const tc_op *op);

static tc_axis_info rule_const(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_attr *value = tc_op_attr(op, "value");
    return value->number.is_float ? unknown(op->out[0]->type)
                                  : known(op->out[0]->type, value->number.i);
}

static tc_axis_info rule_dim(const tc_axis_analysis *a, const tc_op *op)
{
    return known(op->out[0]->type,
                 tc_dim_value(tc_op_attr(op, "value")->dims[0]));
}

static tc_axis_info rule_size(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    unsigned dim = (unsigned)tc_op_int(op, "dim");
    if (t->dims[dim])
        return known(op->out[0]->type, tc_dim_value(t->dims[dim]));
    bool unit = dim == tc_type_contiguous(t);
    return divided(op->out[0]->type, unit && tc_has_whole_rows(a, op->in[0])
                                         ? 16 / tc_type_bytes(t->elem)
                                         : 1);
}

static tc_axis_info rule_stride(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    if (!tc_is_aligned(a, op->in[0]))
        return unknown(op->out[0]->type);
    if ((unsigned)tc_op_int(op, "dim") == tc_type_contiguous(t))
        return known(op->out[0]->type, 1);
    return divided(op->out[0]->type, 16 / tc_type_bytes(t->elem));
}

static tc_axis_info rule_base(const tc_axis_analysis *a, const tc_op *op)
{
    tc_axis_info r = unknown(op->out[0]->type);
    if (tc_is_aligned(a, op->in[0]))
        r.axis[0].divisor = 16;
    return r;
}

static tc_axis_info offsets(const tc_axis_analysis *a, const tc_op *op)
{
    tc_axis_info r = {.rank = op->nin - 1, .step = 1};
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i] = (tc_axis){1, tc_axis_divisor(in(a, op, 1 + i)), MOST};
    return r;
}

static tc_axis_info rule_advance(const tc_axis_analysis *a, const tc_op *op)
{
    tc_axis_info r = offsets(a, op);
    return axis_info_join(in(a, op, 0), &r);
}

static tc_axis_info rule_splat(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0);
    if (x->is_known)
        return known(op->out[0]->type, x->value);
    tc_axis_info r = unknown(op->out[0]->type);
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i] =
            (tc_axis){1, tc_axis_divisor(x), side_power(op->out[0]->type, i)};
    return r;
}

static tc_axis_info rule_range(const tc_axis_analysis *a, const tc_op *op)
{
    tc_axis_info r = unknown(op->out[0]->type);
    uint32_t power = side_power(op->out[0]->type, 0);
    r.axis[0] = (tc_axis){power, power, 1};
    return r;
}

static tc_axis_info rule_expand_dims(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0);
    tc_axis_info r = *x;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    r.rank = x->rank + 1;
    for (unsigned i = 0; i < x->rank; i++)
        r.axis[i + (i >= axis)] = x->axis[i];
    r.axis[axis] = (tc_axis){1, tc_axis_divisor(x), 1};
    return r;
}

static tc_axis_info rule_broadcast(const tc_axis_analysis *a, const tc_op *op)
{
    tc_axis_info r = *in(a, op, 0);
    const tc_type *from = op->in[0]->type, *to = op->out[0]->type;
    for (unsigned i = 0; i < r.rank; i++)
        if (from->dims[i] != to->dims[i])
            r.axis[i].same = side_power(to, i);
    return r;
}

static tc_axis_info rule_trans(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0);
    const tc_attr *perm = tc_op_attr(op, "perm");
    tc_axis_info r = *x;
    for (unsigned i = 0; i < r.rank; i++) {
        unsigned from = i + 2 < r.rank ? i : 2 * r.rank - 3 - i;
        if (perm->kind != TC_ATTR_NONE)
            from = (unsigned)perm->ints[i];
        r.axis[i] = x->axis[from];
    }
    return r;
}

static tc_axis_info rule_reshape(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0);
    return x->is_known ? known(op->out[0]->type, x->value)
                       : divided(op->out[0]->type, tc_axis_divisor(x));
}

/* The sum counts up where one operand does and the other one is constant. */
static tc_axis add_axis(tc_axis a, uint32_t astep, tc_axis b, uint32_t bstep)
{
    uint32_t first = smaller(a.run, b.same), second = smaller(a.same, b.run);
    uint32_t run = larger(first, second);
    tc_axis x = in_runs_of(a, first >= second ? run : 1, astep);
    tc_axis y = in_runs_of(b, first >= second ? 1 : run, bstep);
    return (tc_axis){run, smaller(x.divisor, y.divisor),
                     smaller(a.same, b.same)};
}

static tc_axis_info rule_add(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    if (x->is_known && y->is_known && !tc_type_is_float(op->out[0]->type))
        return known(op->out[0]->type, x->value + y->value);
    tc_axis_info r = *x;
    r.is_known = false;
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i] = add_axis(x->axis[i], 1, y->axis[i], 1);
    return r;
}

static tc_axis_info rule_sub(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    tc_axis_info r = *x;
    r.is_known = false;
    for (unsigned i = 0; i < r.rank; i++) {
        tc_axis down = in_runs_of(y->axis[i], 1, 1);
        r.axis[i] = add_axis(x->axis[i], 1, down, 1);
    }
    return r;
}

/* Pointers: the number of elements becomes bytes. */
static tc_axis_info rule_ptr_add(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    tc_axis_info r = *x;
    for (unsigned i = 0; i < r.rank; i++) {
        tc_axis n = y->axis[i];
        n.divisor = times(n.divisor, low_bit(x->step));
        r.axis[i] = add_axis(x->axis[i], x->step, n, x->step);
    }
    return r;
}

static tc_axis_info rule_mul(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    if (x->is_known && y->is_known && !tc_type_is_float(op->out[0]->type))
        return known(op->out[0]->type, x->value * y->value);
    if (x->is_known && x->value == 1)
        return *y;
    if (y->is_known && y->value == 1)
        return *x;
    tc_axis_info r = *x;
    r.is_known = false;
    for (unsigned i = 0; i < r.rank; i++) {
        tc_axis p = in_runs_of(x->axis[i], 1, 1),
                q = in_runs_of(y->axis[i], 1, 1);
        r.axis[i] =
            (tc_axis){1, times(p.divisor, q.divisor), smaller(p.same, q.same)};
    }
    return r;
}

/* Other elementwise ops: equal operands give equal results, no more is
 * known. */
static tc_axis_info rule_lanes(const tc_axis_analysis *a, const tc_op *op)
{
    tc_axis_info r = unknown(op->out[0]->type);
    if (op->out[0]->type->kind != TC_TILE)
        return r;
    for (unsigned i = 0; i < r.rank; i++) {
        r.axis[i].same = MOST;
        for (unsigned k = 0; k < op->nin; k++)
            if (op->in[k]->type->kind == TC_TILE)
                r.axis[i].same =
                    smaller(r.axis[i].same, in(a, op, k)->axis[i].same);
    }
    return r;
}

/* What is known of `a`, divided by a power of two. */
static tc_axis divide(tc_axis r, tc_axis a, uint32_t by)
{
    tc_axis p = in_runs_of(a, by, 1);
    if (p.divisor >= p.run)
        r.same = larger(r.same, p.run);
    if (p.divisor >= by && p.run <= by)
        r.divisor = p.divisor / by;
    return r;
}

/* Runs divided by a number: as long as the power of two in it, lanes are equal.
 */
static tc_axis_info rule_div(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    tc_axis_info r = rule_lanes(a, op);
    if (!y->is_known || y->value <= 0 || tc_type_is_float(op->out[0]->type))
        return r;
    uint32_t by = low_bit(y->value);
    for (unsigned i = 0; i < r.rank; i++) {
        uint32_t divisor = r.axis[i].divisor;
        r.axis[i] = divide(r.axis[i], x->axis[i], by);
        if (by != y->value)
            r.axis[i].divisor = divisor;
    }
    return r;
}

static tc_axis_info rule_rem(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    tc_axis_info r = rule_lanes(a, op);
    if (tc_type_is_float(op->out[0]->type))
        return r;
    uint32_t by = tc_axis_divisor(y);
    for (unsigned i = 0; i < r.rank; i++) {
        /* Within aligned runs no longer than a divisor of y nothing wraps. */
        tc_axis p = in_runs_of(x->axis[i], smaller(by, y->axis[i].same), 1);
        p = in_runs_of(p, p.divisor, 1);
        r.axis[i].run = p.run;
        r.axis[i].divisor = smaller(p.divisor, by);
    }
    return r;
}

static tc_axis_info rule_shl(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    tc_axis_info r = rule_lanes(a, op);
    if (!y->is_known || y->value < 0 || y->value > 30)
        return r;
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i].divisor = times(in_runs_of(x->axis[i], 1, 1).divisor,
                                  (uint32_t)1 << y->value);
    return r;
}

/* Divided by a power of two, down: shru gives the same low bits. */
static tc_axis_info rule_shr(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    tc_axis_info r = rule_lanes(a, op);
    if (!y->is_known || y->value < 0 || y->value > 30)
        return r;
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i] = divide(r.axis[i], x->axis[i], (uint32_t)1 << y->value);
    return r;
}

/* min, max: one of the two in each lane. */
static tc_axis_info rule_choice(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    tc_axis_info r = rule_lanes(a, op);
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i].divisor = smaller(in_runs_of(x->axis[i], 1, 1).divisor,
                                    in_runs_of(y->axis[i], 1, 1).divisor);
    return r;
}

static tc_axis_info rule_select(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_axis_info *c = in(a, op, 0);
    tc_axis_info r = axis_info_join(in(a, op, 1), in(a, op, 2));
    if (op->in[0]->type->kind != TC_TILE)
        return r;
    for (unsigned i = 0; i < r.rank; i++) {
        r.axis[i] = in_runs_of(r.axis[i], c->axis[i].same, r.step);
        r.axis[i].same = smaller(r.axis[i].same, c->axis[i].same);
    }
    r.is_known = false;
    return r;
}

/* %n0 + range(64) < %n is the same in pieces that no boundary cuts: runs that
 * start at multiples of what divides the other side. */
static tc_axis_info rule_cmp(const tc_axis_analysis *a, const tc_op *op)
{
    tc_axis_info r = rule_lanes(a, op);
    const tc_axis_info *x = in(a, op, 0), *y = in(a, op, 1);
    const char *pred = tc_op_word(op, "pred");
    bool below = strcmp(pred, "lt") == 0 || strcmp(pred, "ge") == 0;
    bool above = strcmp(pred, "gt") == 0 || strcmp(pred, "le") == 0;
    if ((!below && !above) || op->out[0]->type->kind != TC_TILE)
        return r;
    for (unsigned i = 0; i < r.rank; i++) {
        tc_axis up = below ? x->axis[i] : y->axis[i];
        tc_axis bound = below ? y->axis[i] : x->axis[i];
        uint32_t piece = smaller(smaller(up.run, up.divisor), bound.same);
        if (bound.run == 1)
            r.axis[i].same =
                larger(r.axis[i].same, smaller(piece, bound.divisor));
    }
    return r;
}

/* A cast between ints keeps aligned runs and divisors. */
static tc_axis_info rule_cast(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_type *from = op->in[0]->type, *to = op->out[0]->type;
    if (!tc_type_is_int(from) || !tc_type_is_int(to))
        return rule_lanes(a, op);
    tc_axis_info r = *in(a, op, 0);
    for (unsigned i = 0; i < r.rank; i++)
        r.axis[i] = in_runs_of(r.axis[i], r.axis[i].divisor, 1);
    if (tc_type_bytes(tc_type_elem(to)) < tc_type_bytes(tc_type_elem(from)))
        r.is_known = false;
    return r;
}

/* A pointer is a multiple of what its number is one of. */
static tc_axis_info rule_bitcast(const tc_axis_analysis *a, const tc_op *op)
{
    bool from = tc_type_elem(op->in[0]->type)->kind == TC_PTR,
         to = tc_type_elem(op->out[0]->type)->kind == TC_PTR;
    tc_axis_info r = rule_lanes(a, op);
    for (unsigned i = 0; (from || to) && i < r.rank; i++) {
        const tc_axis_info *x = in(a, op, 0);
        uint32_t divisor = in_runs_of(x->axis[i], 1, x->step).divisor;
        r.axis[i].divisor = larger(r.axis[i].divisor, divisor);
    }
    return r;
}

static tc_axis_info rule_same(const tc_axis_analysis *a, const tc_op *op)
{
    return *in(a, op, 0);
}

/* The store of a buffer that nothing else writes to, before the load. */
static const tc_op *only_store(const tc_op *load)
{
    const tc_op *store = NULL;
    const tc_value *buffer = load->in[0];
    if (!buffer->def || buffer->def->code != TC_SMEM_ALLOC)
        return NULL;
    tc_each_use (u, buffer) {
        if (u->op->code == TC_SMEM_LOAD)
            continue;
        if (store || u->op->code != TC_SMEM_STORE)
            return NULL;
        store = u->op;
    }
    if (!store || store->parent != buffer->def->parent)
        return NULL;
    for (const tc_op *op = tc_ancestor_in(store->parent, (tc_op *)load); op;
         op = op->prev)
        if (op == store)
            return store;
    return NULL;
}

/* A tile that goes to other threads through shared memory: convert_layout,
 * lowered. */
static tc_axis_info rule_smem_load(const tc_axis_analysis *a, const tc_op *op)
{
    const tc_op *store = only_store(op);
    const tc_type *t = op->out[0]->type;
    bool whole = store && tc_op_attr(op, "at")->kind == TC_ATTR_NONE;
    for (unsigned i = 0; whole && i < t->rank; i++)
        whole = t->dims[i] == store->in[1]->type->dims[i];
    return whole ? *in(a, store, 1) : unknown(t);
}

/* Does the producer send what `load` reads? What is known of the producer's
 * values is final when others are looked at. */
static bool is_sent(const tc_op *store, const tc_op *load)
{
    const tc_op *roles = tc_roles_around(store);
    return roles && roles == tc_roles_around(load) &&
           tc_region_contains(tc_producer(roles), store) &&
           !tc_region_contains(tc_producer(roles), load);
}

/* A scalar that another role sends: what all that it sends have in common. */
static tc_axis_info rule_smem_load_scalar(const tc_axis_analysis *a,
                                          const tc_op *op)
{
    const tc_value *ring = op->in[0];
    tc_axis_info r = unknown(op->out[0]->type);
    bool any = false;
    while (ring->def && ring->def->code == TC_SMEM_INDEX)
        ring = ring->def->in[0];
    tc_each_use (u, ring) {
        const tc_value *slot =
            u->op->code == TC_SMEM_INDEX ? u->op->out[0] : ring;
        tc_each_use (w, slot) {
            if (w->op->code != TC_SMEM_STORE_SCALAR)
                continue;
            if (!is_sent(w->op, op))
                return unknown(op->out[0]->type);
            r = any ? axis_info_join(&r, in(a, w->op, 1)) : *in(a, w->op, 1);
            any = true;
        }
    }
    r.is_known = false;
    return r;
}

static rule_fn *const rules[TC_OPCODE_COUNT] = {
    [TC_CONST] = rule_const,
    [TC_DIM] = rule_dim,
    [TC_SIZE] = rule_size,
    [TC_STRIDE] = rule_stride,
    [TC_BASE] = rule_base,
    [TC_BLOCK] = offsets,
    [TC_ADVANCE] = rule_advance,
    [TC_SPLAT] = rule_splat,
    [TC_RANGE] = rule_range,
    [TC_EXPAND_DIMS] = rule_expand_dims,
    [TC_BROADCAST] = rule_broadcast,
    [TC_TRANS] = rule_trans,
    [TC_RESHAPE] = rule_reshape,
    [TC_GATHER] = rule_lanes, /* the same index, the same element */
    [TC_ADD] = rule_add,
    [TC_SUB] = rule_sub,
    [TC_MUL] = rule_mul,
    [TC_DIV] = rule_div,
    [TC_REM] = rule_rem,
    [TC_SHL] = rule_shl,
    [TC_SHR] = rule_shr,
    [TC_SHRU] = rule_shr,
    [TC_MIN] = rule_choice,
    [TC_MAX] = rule_choice,
    [TC_SELECT] = rule_select,
    [TC_CMP] = rule_cmp,
    [TC_CAST] = rule_cast,
    [TC_BITCAST] = rule_bitcast,
    [TC_PTR_ADD] = rule_ptr_add,
    [TC_CONVERT_LAYOUT] = rule_same,
    [TC_SMEM_LOAD] = rule_smem_load,
    [TC_SMEM_LOAD_SCALAR] = rule_smem_load_scalar,
};

/* ---- The walk ---- */

static void visit_region(tc_axis_analysis *a, const tc_region *r);

/* Weakens the facts assumed of a loop's argument to those of a value that the
 * loop is given for it; true: they were stronger before. */
static bool give(tc_axis_analysis *a, const tc_value *arg, const tc_value *v)
{
    tc_axis_info old = *tc_axis_info_of(a, arg);
    tc_axis_info now = axis_info_join(&old, tc_axis_info_of(a, v));
    bool same = old.is_known == now.is_known;
    for (unsigned i = 0; i < now.rank; i++)
        same &= memcmp(&old.axis[i], &now.axis[i], sizeof now.axis[i]) == 0;
    if (same)
        return false;
    set(a, arg, now);
    return true;
}

static void visit_for(tc_axis_analysis *a, const tc_op *op)
{
    const tc_region *body = op->regions[0];
    uint32_t lo = tc_axis_divisor(in(a, op, 0)),
             step = tc_axis_divisor(in(a, op, 2));
    set(a, body->args[0], divided(body->args[0]->type, smaller(lo, step)));
    for (unsigned i = 0; i < op->nout; i++)
        set(a, body->args[1 + i], *in(a, op, 3 + i));
    for (bool again = true; again;) {
        visit_region(a, body);
        const tc_op *yield = tc_region_terminator(body);
        again = false;
        for (unsigned i = 0; i < op->nout; i++)
            again |= give(a, body->args[1 + i], yield->in[i]);
    }
    for (unsigned i = 0; i < op->nout; i++)
        set(a, op->out[i], *tc_axis_info_of(a, body->args[1 + i]));
}

static void visit_while(tc_axis_analysis *a, const tc_op *op)
{
    const tc_region *head = op->regions[0];
    for (unsigned i = 0; i < op->nout; i++)
        set(a, head->args[i], *in(a, op, i));
    for (bool again = true; again;) {
        visit_region(a, head);
        visit_region(a, op->regions[1]);
        const tc_op *yield = tc_region_terminator(op->regions[1]);
        again = false;
        for (unsigned i = 0; i < op->nout; i++)
            again |= give(a, head->args[i], yield->in[i]);
    }
    for (unsigned i = 0; i < op->nout; i++)
        set(a, op->out[i], *tc_axis_info_of(a, head->args[i]));
}

static void visit_if(tc_axis_analysis *a, const tc_op *op)
{
    visit_region(a, op->regions[0]);
    visit_region(a, op->regions[1]);
    const tc_op *yes = tc_region_terminator(op->regions[0]),
                *no = tc_region_terminator(op->regions[1]);
    for (unsigned i = 0; i < op->nout; i++)
        set(a, op->out[i],
            axis_info_join(tc_axis_info_of(a, yes->in[i]),
                           tc_axis_info_of(a, no->in[i])));
}

static void visit_op(tc_axis_analysis *a, const tc_op *op)
{
    switch (op->code) {
    case TC_FOR: visit_for(a, op); return;
    case TC_WHILE: visit_while(a, op); return;
    case TC_IF: visit_if(a, op); return;
    case TC_WARP_GROUPS:
        for (unsigned i = 0; i < op->nregions; i++)
            visit_region(a, op->regions[i]);
        return;
    default: break;
    }
    rule_fn *rule = rules[op->code];
    if (!rule && tc_op_has(op, TC_ELEMENTWISE))
        rule = rule_lanes;
    for (unsigned i = 0; i < op->nout; i++)
        set(a, op->out[i], rule ? rule(a, op) : unknown(op->out[i]->type));
}

static void visit_region(tc_axis_analysis *a, const tc_region *r)
{
    tc_each_op (op, r)
        visit_op(a, op);
}

tc_axis_analysis *tc_axis_analyse(tc_arena *arena, const tc_func *f,
                                  uint64_t aligned)
{
    tc_axis_analysis *a = tc_arena_new(arena, tc_axis_analysis);
    a->arena = arena;
    a->f = f;
    a->aligned = aligned;
    a->infos.arena = arena;
    visit_region(a, f->body);
    return a;
}
