/* SPDX-License-Identifier: Apache-2.0
 *
 * tanh of a tile of f32 where 2^-21 absolutely is enough (absolute):
 *
 *   |x| <= 0.75 in all elements of a warp    an odd polynomial of degree 9
 *   else                                     1 - 2 / (e^2x + 1)
 *
 * A warp asks once for all of its elements. Small ones take products and sums
 * alone: the unit for special functions, which takes as long for one as 8 other
 * instructions take, is left to others (what is capped becomes an exponential).
 * So it is, beside wgmma, for three of four reciprocals of large ones: such
 * tiles wait for that unit. H200, soft cap, none to three of four by sums and
 * products: 236, 255, 269, 281 TFLOP/s at D=64, 377 to 415 at D=128.
 *
 * Where x = a * f, f being the same for all, f goes into the coefficients.
 */
#include "codegen/nvptx/emit.h"
#include "codegen/nvptx/math.h"
#include "passes/match.h"

enum { OF = 4, BY_STEPS = 3 };

/* Of f, so that its powers are no subnormal numbers, no infinities. */
static const double LEAST_FACTOR = 0x1p-12, MOST_FACTOR = 0x1p12;

typedef struct job {
    tc_gen *g;
    unsigned n;           /* elements of the thread */
    LLVMValueRef *a, f;   /* x = a f; f NULL: 1 */
    LLVMValueRef *out[2]; /* far, near */
} job;

static LLVMValueRef f32(const job *j, double x)
{
    return LLVMConstReal(j->g->f32, x);
}

static LLVMValueRef mul(const job *j, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFMul(j->g->b, a, b, "");
}

static LLVMValueRef call(const job *j, const char *name, unsigned n,
                         LLVMValueRef *args)
{
    return tc_gen_intrinsic(j->g, name, 1, &j->g->f32, n, args);
}

/* a * b + c */
static LLVMValueRef add_product(const job *j, LLVMValueRef a, LLVMValueRef b,
                                LLVMValueRef c)
{
    return call(j, "fma", 3, (LLVMValueRef[]){a, b, c});
}

static LLVMValueRef size_of(const job *j, LLVMValueRef x)
{
    return call(j, "fabs", 1, &x);
}

/* ---- Which way ---- */

static LLVMValueRef largest(const job *j)
{
    LLVMValueRef most[2] = {size_of(j, j->a[0])};
    for (unsigned i = 1; i < j->n; i++) {
        most[1] = size_of(j, j->a[i]);
        most[0] = call(j, "maxnum", 2, most);
    }
    return most[0];
}

static LLVMValueRef is_at_most(const job *j, LLVMValueRef x, double y)
{
    return LLVMBuildFCmp(j->g->b, LLVMRealOLE, x, f32(j, y), "");
}

/* i1, the same in all lanes of the warp. NaNs go either way. */
static LLVMValueRef are_near(const job *j)
{
    LLVMBuilderRef b = j->g->b;
    LLVMValueRef x = largest(j), yes = NULL;
    if (j->f) {
        LLVMValueRef f = size_of(j, j->f);
        x = mul(j, x, f);
        LLVMValueRef least =
            LLVMBuildFCmp(b, LLVMRealOGE, f, f32(j, LEAST_FACTOR), "");
        yes = LLVMBuildAnd(b, least, is_at_most(j, f, MOST_FACTOR), "");
    }
    LLVMValueRef near = is_at_most(j, x, TC_TANH_NEAR);
    LLVMValueRef args[] = {tc_gen_i32(j->g, -1),
                           yes ? LLVMBuildAnd(b, near, yes, "") : near};
    return tc_gen_intrinsic(j->g, "nvvm.vote.all.sync", 0, NULL, 2, args);
}

/* ---- The two ways ---- */

static void emit_near(const job *j)
{
    LLVMBuilderRef b = j->g->b;
    LLVMValueRef f = j->f ? j->f : f32(j, 1), k[TC_TANH_COEFFICIENTS];
    tc_nvptx_tanh_coefficients(b, f, k);
    for (unsigned r = 0; r < j->n; r++)
        j->out[1][r] = tc_nvptx_tanh_near(b, j->a[r], k);
}

static void emit_far(const job *j)
{
    LLVMValueRef twice = f32(j, 2 * 1.4426950408889634);
    if (j->f)
        twice = mul(j, twice, j->f);
    for (unsigned r = 0; r < j->n; r++) {
        LLVMValueRef e = mul(j, j->a[r], twice);
        e = call(j, "nvvm.ex2.approx.ftz", 1, &e);
        e = LLVMBuildFAdd(j->g->b, e, f32(j, 1), "");
        e = j->g->target->wgmma && r % OF < BY_STEPS
                ? tc_nvptx_rcp_by_steps(j->g->b, e)
                : tc_gen_intrinsic(j->g, "nvvm.rcp.approx.ftz.f", 0, NULL, 1,
                                   &e);
        j->out[0][r] = add_product(j, e, f32(j, -2), f32(j, 1));
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

bool tc_nvptx_absolute_tanh(tc_gen *g, const tc_op *op)
{
    job j = {.g = g, .n = tc_gen_registers(op->out[0]->type)};
    find_factor(&j, op->in[0]);
    LLVMBasicBlockRef way[] = {tc_gen_block_new(g, "far"),
                               tc_gen_block_new(g, "near")};
    LLVMBasicBlockRef after = tc_gen_block_new(g, "tanh");
    LLVMBuildCondBr(g->b, are_near(&j), way[1], way[0]);
    for (unsigned i = 0; i < 2; i++) {
        j.out[i] = tc_arena_array(g->arena, LLVMValueRef, j.n);
        LLVMPositionBuilderAtEnd(g->b, way[i]);
        (i ? emit_near : emit_far)(&j);
        LLVMBuildBr(g->b, after);
    }
    LLVMPositionBuilderAtEnd(g->b, after);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < j.n; r++) {
        LLVMValueRef from[] = {j.out[0][r], j.out[1][r]};
        to[r] = LLVMBuildPhi(g->b, g->f32, "");
        LLVMAddIncoming(to[r], from, way, 2);
    }
    return !g->failed;
}
