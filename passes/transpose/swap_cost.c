/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model of swap-operands. A dot of M x N x K by one multiprocessor:
 *
 *   wgmma     max(products, bytes of A / shared memory's rate), where M is a
 *             multiple of 64. Computing an operand comes before: A in
 *             registers, where a second warp group's products may run
 *             meanwhile; B is stored, and read back, after a barrier
 *   mma.sync  products at a part of that rate, and what its warps read and
 *             compute of both operands, each its rows and columns; M a
 *             multiple of 16
 *   fma       one lane a product
 *
 * With operands exchanged M is what N was. (dots.c chooses the instruction, by
 * the same conditions.)
 */
#include "passes/transpose/swap_operands.h"

#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/wgmma.h"
#include "passes/target/machine_model.h"
#include "passes/transpose/transposes.h"

typedef struct operand {
    int64_t
        computed; /* cycles, of what is done to what is loaded; 0: nothing */
    bool k_major; /* K is its fast axis in memory */
} operand;

typedef struct product {
    int64_t m, n, k;
    tc_kind kind;
    int64_t bytes; /* of an element */
    operand a, b;
} product;

/* ---- The product ---- */

static bool is_view(const tc_op *op)
{
    return op->code == TC_TRANS || op->code == TC_RESHAPE ||
           op->code == TC_SLICE;
}

/* Instructions for an element of an elementwise op. */
static int64_t instructions(const tc_op *op)
{
    bool from_byte =
        op->code == TC_CAST && tc_type_bytes(op->in[0]->type->elem) == 1;
    return from_byte ? TC_INT_CAST_INSTRUCTIONS : 1;
}

/* Elements times instructions, from what is loaded to v. */
static int64_t computed_lanes(const tc_value *v)
{
    const tc_op *op = v->def;
    if (!op || !tc_is_flat(v) ||
        (!is_view(op) && !tc_op_has(op, TC_ELEMENTWISE)))
        return 0;
    int64_t n = is_view(op) ? 0 : tc_type_count(v->type) * instructions(op);
    for (unsigned i = 0; i < op->nin; i++)
        n += computed_lanes(op->in[i]);
    return n;
}

/* Of the operand i of the dot; exchanged operands are transposed as well, so
 * that K stays K. */
static operand operand_of(const tc_op *dot, unsigned i)
{
    const tc_value *v = dot->in[i];
    int64_t lanes = computed_lanes(v);
    bool transposed = false;
    while (v->def && is_view(v->def)) {
        transposed ^= v->def->code == TC_TRANS;
        v = v->def->in[0];
    }
    tc_axis_order order = tc_is_flat(v) ? tc_source_order(v) : TC_ORDER_ANY;
    bool by_rows = (order == TC_ORDER_COLUMNS) == transposed;
    return (operand){.computed =
                         (lanes + TC_LANES_PER_CYCLE - 1) / TC_LANES_PER_CYCLE,
                     .k_major = order == TC_ORDER_ANY || by_rows == (i == 0)};
}

static int64_t side(const tc_value *v, unsigned axis)
{
    return tc_dim_value(v->type->dims[axis]);
}

static product product_of(const tc_op *dot, bool swapped)
{
    const tc_value *d = dot->out[0];
    tc_kind a = tc_lane_kind(dot->in[0]), b = tc_lane_kind(dot->in[1]);
    product p = {.k = side(dot->in[0], 1),
                 .kind = tc_kind_is_f8(a) && !tc_kind_is_f8(b) ? b : a};
    p.bytes = tc_type_bytes(dot->in[p.kind == a ? 0 : 1]->type->elem);
    p.m = side(d, swapped);
    p.n = side(d, !swapped);
    p.a = operand_of(dot, swapped);
    p.b = operand_of(dot, !swapped);
    return p;
}

/* ---- Instructions ---- */

/* Steps of K of mma.sync, of a product's elements; 0: there is no such
 * instruction. */
static int64_t depth_of(const tc_target *t, const tc_op *dot, const product *p)
{
    switch (p->kind) {
    case TC_F16:
    case TC_BF16: return 16;
    case TC_I8: return 32;
    case TC_F32: return tc_op_is_word(dot, "precision", "ieee") ? 0 : 8;
    default: return tc_kind_is_f8(p->kind) ? t->mma_fp8 ? 32 : 16 : 0;
    }
}

/* Warp groups with the same rows share what one of them computes. */
static bool keeps_rows(const product *p, unsigned warps)
{
    int64_t groups = warps / TC_WARPGROUP_WARPS;
    return groups < 2 || p->m / TC_WARPGROUP_ROWS % groups == 0;
}

/* Have all groups of so many warps 64 rows or, of these, columns of their own?
 * 0 warps: as many as suit. */
static bool groups_divide(const product *p, unsigned warps)
{
    int64_t groups = warps / TC_WARPGROUP_WARPS;
    if (warps % TC_WARPGROUP_WARPS || p->m % TC_WARPGROUP_ROWS)
        return false;
    return keeps_rows(p, warps) || (groups % (p->m / TC_WARPGROUP_ROWS) == 0 &&
                                    p->n % (16 * groups) == 0);
}

/* Whatever alignment is assumed: launches with tensors of any alignment have
 * the grid of the first compile, and tiles that a program takes follow from the
 * orientation. */
static bool has_wgmma(const tc_pass_env *env, unsigned warps, const product *p,
                      int64_t depth)
{
    const tc_pass_options *o = env->options;
    bool narrow = p->bytes == 1;
    return env->target->wgmma && !o->no_swizzle && p->bytes <= 2 &&
           p->n % 8 == 0 && p->k % depth == 0 && groups_divide(p, warps) &&
           tc_wgmma_has_columns(p->kind, (int32_t)p->n) &&
           (!narrow || (p->a.k_major && p->b.k_major));
}

static int64_t larger(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static int64_t shared_cycles(int64_t bytes)
{
    return bytes / TC_SHARED_BYTES_PER_CYCLE;
}

static int64_t product_cycles(const tc_target *t, const product *p)
{
    return p->m * p->n * p->k * p->bytes / 2 / t->products_per_cycle;
}

static int64_t wgmma_cycles(const tc_target *t, const product *p,
                            unsigned warps)
{
    int64_t a = p->m * p->k * p->bytes, b = p->n * p->k * p->bytes;
    bool one_group = p->m == TC_WARPGROUP_ROWS || warps == TC_WARPGROUP_WARPS;
    bool in_registers = p->a.computed && keeps_rows(p, warps);
    int64_t stored = (p->a.computed && !in_registers ? 2 * a : 0) +
                     (p->b.computed ? 2 * b : 0);
    bool waits = stored || (in_registers && one_group);
    return larger(product_cycles(t, p), in_registers ? 0 : shared_cycles(a)) +
           p->a.computed + p->b.computed + shared_cycles(stored) +
           (waits ? TC_COMPUTED_WAIT_CYCLES : 0);
}

/* Warps along rows and columns, and what they read; rows 0: no grid divides
 * the product. */
typedef struct grid {
    int64_t rows, columns, bytes;
} grid;

/* The one with the fewest bytes. (As many warps as no power of two lie along
 * the rows.) */
static grid grid_of(const product *p, unsigned warps)
{
    grid best = {0};
    if ((warps & (warps - 1)) && p->m % (TC_WARP_ROWS * (int64_t)warps))
        return best;
    for (int64_t wm = 1; wm <= warps; wm++) {
        int64_t wn = warps / wm;
        if (warps % wm || p->m % (TC_WARP_ROWS * wm) || p->n % (8 * wn))
            continue;
        int64_t bytes = p->k * p->bytes * (p->m * wn + p->n * wm);
        if (!best.rows || bytes <= best.bytes)
            best = (grid){wm, wn, bytes};
    }
    return best;
}

/* Each warp computes what it multiplies. */
static int64_t mma_cycles(const tc_target *t, const product *p, const grid *g)
{
    int64_t products = product_cycles(t, p);
    if (t->wgmma)
        products = products * 100 / TC_MMA_PERCENT;
    return products + shared_cycles(g->bytes) + p->a.computed * g->columns +
           p->b.computed * g->rows;
}

tc_product_time tc_product_time_of(const tc_pass_env *env, unsigned warps,
                                   const tc_op *dot, bool swapped)
{
    product p = product_of(dot, swapped);
    const tc_target *t = tc_machine(env->target);
    int64_t depth = depth_of(t, dot, &p);
    if (depth && has_wgmma(env, warps, &p, depth))
        return (tc_product_time){depth == 16 ? "m64k16" : "m64k32",
                                 wgmma_cycles(t, &p, warps)};
    grid g = grid_of(&p, warps ? warps : TC_DEFAULT_WARPS);
    if (depth && p.k % depth == 0 && g.rows)
        return (tc_product_time){depth == 16   ? "m16n8k16"
                                 : depth == 32 ? "m16n8k32"
                                               : "m16n8k8",
                                 mma_cycles(t, &p, &g)};
    return (tc_product_time){"fma", p.m * p.n * p.k / TC_LANES_PER_CYCLE};
}
