/* SPDX-License-Identifier: Apache-2.0
 *
 * tanh of a tile of f32 where 2^-21 absolutely is enough (absolute):
 *
 *   |x| <= 0.31 in all elements of a warp    an odd polynomial of degree 5
 *   |x| <= 0.75                              one of degree 9
 *   else                                     1 - 2 / (e^2x + 1)
 *
 * A warp takes the largest |x| of all of its elements. Small ones take products
 * and sums alone: the unit for special functions, which takes as long for one
 * as 8 other instructions take, is left to others (the soft-capped score
 * becomes an exponential). For large ones three of four reciprocals avoid that
 * unit, too, concurrently with wgmma: such tiles wait for it (claim
 * tanh-steps).
 *
 * If x = a * f, with one f for all elements, f goes into the coefficients, and
 * so does a number that all results are multiplied by. A number that is added
 * to that is added by the last product; 2 to the power of the sum is computed
 * along with it, as the unit for special functions works concurrently with sums
 * and products only if a warp has both ready.
 */
#include "codegen/nvptx/emit.h"
#include "codegen/nvptx/math/math.h"
#include "passes/analysis/match.h"

#include <math.h>

enum { OF = 4, BY_STEPS = 3 };

/* Of f, so that its powers are no subnormal numbers, no infinities. */
static const double LEAST_FACTOR = 0x1p-12, MOST_FACTOR = 0x1p12;

typedef struct job {
    tc_gen *g;
    unsigned n;           /* elements of the thread */
    LLVMValueRef *a, f;   /* x = a f; f NULL: 1 */
    LLVMValueRef scale;   /* of the result; NULL: 1 */
    LLVMValueRef *addend; /* to that; NULL: 0 */
    const tc_op *power;   /* the exponential of it; NULL: none is wanted */
    LLVMValueRef largest; /* |x|; NaN: too large, whatever it is */
} job;

static LLVMValueRef f32(const job *j, double x)
{
    return LLVMConstReal(j->g->f32, x);
}

static LLVMValueRef tanh_mul(const job *j, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFMul(j->g->b, a, b, "");
}

static LLVMValueRef tanh_call(const job *j, const char *name, unsigned n,
                              LLVMValueRef *args)
{
    return tc_gen_intrinsic(j->g, name, 1, &j->g->f32, n, args);
}

/* a * b + c */
static LLVMValueRef add_product(const job *j, LLVMValueRef a, LLVMValueRef b,
                                LLVMValueRef c)
{
    return tanh_call(j, "fma", 3, (LLVMValueRef[]){a, b, c});
}

static LLVMValueRef tanh_size_of(const job *j, LLVMValueRef x)
{
    return tanh_call(j, "fabs", 1, &x);
}

/* ---- Which way ---- */

static LLVMValueRef larger(const job *j, LLVMValueRef x, LLVMValueRef y)
{
    return tanh_call(j, "maxnum", 2, (LLVMValueRef[]){x, y});
}

/* The largest |x| of a thread; NaNs do not matter. Several chains, so that no
 * op waits for the one before it. */
static LLVMValueRef largest(const job *j)
{
    enum { CHAINS = 4 };
    LLVMBuilderRef b = j->g->b;
    LLVMValueRef most[CHAINS] = {NULL};
    for (unsigned i = 0; i < j->n; i++) {
        LLVMValueRef x = tanh_size_of(j, j->a[i]), *chain = &most[i % CHAINS];
        *chain = *chain ? larger(j, *chain, x) : x;
    }
    for (unsigned i = 1; i < CHAINS && most[i]; i++)
        most[0] = larger(j, most[0], most[i]);
    if (!j->f)
        return most[0];
    LLVMValueRef f = tanh_size_of(j, j->f);
    LLVMValueRef fits = LLVMBuildAnd(
        b, LLVMBuildFCmp(b, LLVMRealOGE, f, f32(j, LEAST_FACTOR), ""),
        LLVMBuildFCmp(b, LLVMRealOLE, f, f32(j, MOST_FACTOR), ""), "");
    return LLVMBuildSelect(b, fits, tanh_mul(j, most[0], f), f32(j, INFINITY),
                           "");
}

/* i1, the same in all lanes of the warp. */
static LLVMValueRef are_within(const job *j, double most)
{
    LLVMValueRef args[] = {
        tc_gen_i32(j->g, -1),
        LLVMBuildFCmp(j->g->b, LLVMRealOLE, j->largest, f32(j, most), "")};
    return tc_gen_intrinsic(j->g, "nvvm.vote.all.sync", 0, NULL, 2, args);
}

/* ---- The ways ---- */

static void emit_near(const job *j, const tc_tanh_fit *fit, LLVMValueRef *out)
{
    LLVMBuilderRef b = j->g->b;
    LLVMValueRef f = j->f ? j->f : f32(j, 1), k[TC_TANH_COEFFICIENTS];
    tc_nvptx_tanh_coefficients(b, fit, f, k);
    for (unsigned i = 0; j->scale && i < fit->n; i++)
        k[i] = tanh_mul(j, k[i], j->scale);
    for (unsigned r = 0; r < j->n; r++)
        out[r] = tc_nvptx_tanh_near(b, fit, j->a[r], k,
                                    j->addend ? j->addend[r] : NULL);
}

static void emit_far(const job *j, LLVMValueRef *out)
{
    LLVMValueRef twice = f32(j, 2 * 1.4426950408889634);
    LLVMValueRef most = j->scale ? j->scale : f32(j, 1);
    LLVMValueRef step = tanh_mul(j, most, f32(j, -2));
    if (j->f)
        twice = tanh_mul(j, twice, j->f);
    for (unsigned r = 0; r < j->n; r++) {
        LLVMValueRef e = tanh_mul(j, j->a[r], twice);
        e = tanh_call(j, "nvvm.ex2.approx.ftz", 1, &e);
        e = LLVMBuildFAdd(j->g->b, e, f32(j, 1), "");
        e = j->g->target->wgmma && r % OF < BY_STEPS
                ? tc_nvptx_rcp_by_steps(j->g->b, e)
                : tc_gen_intrinsic(j->g, "nvvm.rcp.approx.ftz.f", 0, NULL, 1,
                                   &e);
        LLVMValueRef top =
            j->addend ? LLVMBuildFAdd(j->g->b, most, j->addend[r], "") : most;
        out[r] = add_product(j, e, step, top);
    }
}

/* The operand as a product by one number, if it is one. */
static void find_factor(job *j, const tc_value *x)
{
    const tc_op *product = tc_match_op(x, TC_MUL);
    j->a = tc_gen_get(j->g, x);
    for (unsigned i = 0; product && i < 2; i++) {
        const tc_op *splat = tc_match_op(product->in[i], TC_SPLAT);
        if (!splat)
            continue;
        j->f = tc_gen_scalar(j->g, splat->in[0]);
        j->a = tc_gen_get(j->g, product->in[1 - i]);
        return;
    }
}

/* The only user of op, in its region, if it has this code. */
static const tc_op *next_of(const tc_op *op, tc_opcode code)
{
    const tc_value *v = op->out[0];
    const tc_op *next = tc_value_has_one_use(v) ? v->uses->op : NULL;
    return next && next->code == code && next->in[0] == v &&
                   next->parent == op->parent
               ? next
               : NULL;
}

/* Matches the product by one number, whose factor is known at tanh. */
static const tc_op *product_of(const tc_op *tanh)
{
    const tc_op *op = next_of(tanh, TC_MUL);
    const tc_op *splat = op ? tc_match_op(op->in[1], TC_SPLAT) : NULL;
    return splat && tc_value_is_visible(splat->in[0], tanh) ? op : NULL;
}

static const tc_op *sum_of(const tc_op *tanh)
{
    const tc_op *product = product_of(tanh);
    const tc_op *op = product ? next_of(product, TC_ADD) : NULL;
    return op && tc_value_is_visible(op->in[1], tanh) ? op : NULL;
}

static const tc_op *power_of(const tc_op *tanh)
{
    const tc_op *sum = sum_of(tanh);
    return sum ? next_of(sum, TC_EXP2) : NULL;
}

bool tc_nvptx_is_done_by_tanh(const tc_op *op)
{
    static const tc_opcode before[] = {TC_EXP2, TC_ADD, TC_MUL, TC_TANH};
    const tc_op *first = op;
    for (unsigned i = 0; i < 3; i++)
        if (first && first->code == before[i])
            first = tc_match_op(first->in[0], before[i + 1]);
    return first && first != op && first->code == TC_TANH &&
           tc_nvptx_is_absolute_tanh(first) &&
           (op == product_of(first) || op == sum_of(first) ||
            op == power_of(first));
}

bool tc_nvptx_is_absolute_tanh(const tc_op *op)
{
    const tc_type *t = op->out[0]->type;
    return op->code == TC_TANH && tc_op_int(op, "absolute") &&
           t->kind == TC_TILE && t->elem->kind == TC_F32;
}

bool tc_nvptx_absolute_tanh(tc_gen *g, const tc_op *op)
{
    enum { WAYS = TC_TANH_FITS + 1 };
    job j = {.g = g, .n = tc_gen_registers(op->out[0]->type)};
    LLVMBasicBlockRef ends[WAYS], after = tc_gen_block_new(g, "tanh");
    LLVMValueRef *out[WAYS];
    find_factor(&j, op->in[0]);
    const tc_op *product = product_of(op), *sum = sum_of(op);
    if (product)
        j.scale = tc_gen_scalar(g, product->in[1]->def->in[0]);
    if (sum)
        j.addend = tc_gen_get(g, sum->in[1]);
    j.power = power_of(op);
    j.largest = largest(&j);
    for (unsigned i = 0; i < WAYS; i++) {
        bool near = i < TC_TANH_FITS;
        LLVMBasicBlockRef next = near ? tc_gen_block_new(g, "further") : NULL;
        out[i] = tc_arena_array(g->arena, LLVMValueRef, j.n);
        if (near) {
            LLVMBasicBlockRef here = tc_gen_block_new(g, "max_slack");
            LLVMBuildCondBr(g->b, are_within(&j, tc_tanh_fits[i].most), here,
                            next);
            LLVMPositionBuilderAtEnd(g->b, here);
            emit_near(&j, &tc_tanh_fits[i], out[i]);
        } else {
            emit_far(&j, out[i]);
        }
        for (unsigned r = 0; j.power && r < j.n; r++)
            out[i][r] = tc_nvptx_element(g, j.power, &out[i][r]);
        ends[i] = LLVMGetInsertBlock(g->b);
        LLVMBuildBr(g->b, after);
        if (near)
            LLVMPositionBuilderAtEnd(g->b, next);
    }
    LLVMPositionBuilderAtEnd(g->b, after);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < j.n; r++) {
        to[r] = LLVMBuildPhi(g->b, g->f32, "");
        for (unsigned i = 0; i < WAYS; i++)
            LLVMAddIncoming(to[r], &out[i][r], &ends[i], 1);
    }
    return !g->failed;
}
