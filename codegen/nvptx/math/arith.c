/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops, one register at a time: those of codegen/llvm/elementwise.h,
 * and functions by the GPU's own instructions. LLVM prints add.rn and mul.rn,
 * which ptxas does not fuse.
 */
#include "codegen/nvptx/emit.h"

#include "codegen/llvm/elementwise.h"
#include "codegen/nvptx/math/math.h"
#include "ir/fastmath.h"

/* One op. Operands that are narrow floats are f32 already if the op computes
 * (wide in the table). */
typedef struct lane {
    tc_gen *g;
    tc_elementwise of;
} lane;

typedef LLVMValueRef lane_fn(const lane *l);

static LLVMValueRef arith_call(tc_gen *g, const char *name, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    return tc_gen_intrinsic(g, name, 1, &type, 1, &x);
}

static LLVMValueRef emit_shared(const lane *l)
{
    return tc_elementwise_emit(&l->of);
}

/* tanh.approx.f32, of compute capability 7.5 on: 2^-11. */
static LLVMValueRef emit_tanh_approx(const lane *l)
{
    LLVMValueRef y = arith_call(l->g, "tanh", l->of.x);
    LLVMSetFastMathFlags(y, LLVMFastMathApproxFunc);
    return y;
}

/* The instruction of an op that may be approximate; NULL: the same as
 * others. */
static const char *one_instruction(const tc_op *op)
{
    switch (op->code) {
    case TC_RCP: return "nvvm.rcp.approx.ftz.f";
    case TC_LOG2: return "nvvm.lg2.approx.ftz.f";
    default: return NULL;
    }
}

/* exp and log that may be computed less exactly: by those of base 2. */
static LLVMValueRef emit_by_base_2(const lane *l)
{
    LLVMBuilderRef b = l->of.b;
    bool is_exp = l->of.op->code == TC_EXP;
    LLVMValueRef by = LLVMConstReal(l->g->f32, is_exp ? 1.4426950408889634
                                                      : 0.6931471805599453);
    if (is_exp)
        return arith_call(l->g, "nvvm.ex2.approx.ftz",
                          LLVMBuildFMul(b, l->of.x, by, ""));
    return LLVMBuildFMul(b,
                         tc_gen_intrinsic(l->g, "nvvm.lg2.approx.ftz.f", 0,
                                          NULL, 1, (LLVMValueRef[]){l->of.x}),
                         by, "");
}

static LLVMValueRef emit_math(const lane *l)
{
    bool by_base_2 = (l->of.op->code == TC_EXP || l->of.op->code == TC_LOG) &&
                     tc_op_fastmath(l->of.op) & TC_AFN;
    if (by_base_2 && LLVMTypeOf(l->of.x) == l->g->f32)
        return emit_by_base_2(l);
    if (l->of.op->code == TC_TANH && tc_op_int(l->of.op, "approx") &&
        LLVMTypeOf(l->of.x) == l->g->f32)
        return emit_tanh_approx(l);
    const char *name = one_instruction(l->of.op);
    if (name && tc_op_int(l->of.op, "approx") &&
        LLVMTypeOf(l->of.x) == l->g->f32)
        return tc_gen_intrinsic(l->g, name, 0, NULL, 1,
                                (LLVMValueRef[]){l->of.x});
    /* 2 ulp over the whole range; subnormal results become 0. */
    if (l->of.op->code == TC_EXP2 && LLVMTypeOf(l->of.x) == l->g->f32)
        return arith_call(l->g, "nvvm.ex2.approx.ftz", l->of.x);
    return tc_nvptx_math(l->of.b, l->of.op->code, l->of.x);
}

/* arcp: a product with the reciprocal, an instruction each. IEEE's division
 * takes some ten, and a branch for denormals. */
static LLVMValueRef emit_division(const lane *l)
{
    if (!(tc_op_fastmath(l->of.op) & TC_ARCP) ||
        LLVMTypeOf(l->of.x) != l->g->f32)
        return emit_shared(l);
    LLVMValueRef by = tc_gen_intrinsic(l->g, "nvvm.rcp.approx.ftz.f", 0, NULL,
                                       1, (LLVMValueRef[]){l->of.y});
    return LLVMBuildFMul(l->of.b, l->of.x, by, "");
}

static bool has_operands(const tc_op *op, const tc_op *of)
{
    return (op->in[0] == of->in[0] && op->in[1] == of->in[1]) ||
           (op->in[0] == of->in[1] && op->in[1] == of->in[0]);
}

/* Does another op want the other half of this product? */
static bool is_half(const tc_op *op)
{
    tc_opcode other = op->code == TC_MUL ? TC_MULHI : TC_MUL;
    tc_each_use (u, op->in[0])
        if (u->op->code == other && has_operands(u->op, op))
            return true;
    return false;
}

/* Both halves of a product of ints: one instruction (ptxas does not merge
 * mul.lo and mul.hi). LLVM merges the two equal ones. */
static LLVMValueRef emit_half(const lane *l)
{
    LLVMBuilderRef b = l->of.b;
    LLVMValueRef in[] = {l->of.x, l->of.y};
    if (LLVMTypeOf(l->of.x) != l->g->i32 || !is_half(l->of.op))
        return emit_shared(l);
    LLVMValueRef both = tc_gen_pure_asm(
        l->g, l->g->i64, "mul.wide.u32 $0, $1, $2;", "=l,r,r", 2, in);
    if (l->of.op->code == TC_MULHI)
        both = LLVMBuildLShr(b, both, LLVMConstInt(l->g->i64, 32, false), "");
    return LLVMBuildTrunc(b, both, l->g->i32, "");
}

/* By the bits that memory would hold; those of an i1 are the value itself. */
static LLVMValueRef emit_bitcast(const lane *l)
{
    const tc_type *to = tc_type_elem(l->of.op->out[0]->type);
    if (to == l->of.elem || to->kind == TC_I1)
        return l->of.x;
    if (to->kind == TC_PTR && l->of.elem->kind == TC_PTR)
        return l->of.x;
    if (to->kind == TC_PTR)
        return LLVMBuildIntToPtr(l->of.b, l->of.x, l->g->ptr1, "");
    if (l->of.elem->kind == TC_PTR)
        return LLVMBuildPtrToInt(l->of.b, l->of.x, l->g->i64, "");
    LLVMValueRef bits = tc_gen_to_memory(l->g, l->of.elem, l->of.x);
    bits = LLVMBuildBitCast(l->of.b, bits, tc_gen_memory_type(l->g, to), "");
    return tc_gen_from_memory(l->g, to, bits);
}

static LLVMValueRef emit_ptr_add(const lane *l)
{
    LLVMValueRef by = LLVMBuildSExt(l->of.b, l->of.y, l->g->i64, "");
    return tc_gen_address(l->g, l->of.elem->elem, l->of.x, by);
}

/* wide: narrow floats are computed in f32 and rounded once, at the end. (Min
 * and max would not need it, but of e5m2's infinities: arithmetic gives none.)
 */
static const struct lane_row {
    lane_fn *emit;
    enum { AS_THEY_ARE, WIDE, WIDE_OPERANDS } floats;
} rows[TC_OPCODE_COUNT] = {
    [TC_ADD] = {emit_shared, WIDE},
    [TC_SUB] = {emit_shared, WIDE},
    [TC_MUL] = {emit_half, WIDE},
    [TC_DIV] = {emit_division, WIDE},
    [TC_REM] = {emit_shared, WIDE},
    [TC_MULHI] = {emit_half, AS_THEY_ARE},
    [TC_DIVU] = {emit_shared, AS_THEY_ARE},
    [TC_REMU] = {emit_shared, AS_THEY_ARE},
    [TC_MINU] = {emit_shared, AS_THEY_ARE},
    [TC_MAXU] = {emit_shared, AS_THEY_ARE},
    [TC_MIN] = {emit_shared, WIDE},
    [TC_MAX] = {emit_shared, WIDE},
    [TC_AND] = {emit_shared, AS_THEY_ARE},
    [TC_OR] = {emit_shared, AS_THEY_ARE},
    [TC_XOR] = {emit_shared, AS_THEY_ARE},
    [TC_SHL] = {emit_shared, AS_THEY_ARE},
    [TC_SHR] = {emit_shared, AS_THEY_ARE},
    [TC_SHRU] = {emit_shared, AS_THEY_ARE},
    [TC_FMA] = {emit_shared, WIDE},
    [TC_NEG] = {emit_shared, WIDE},
    [TC_NOT] = {emit_shared, AS_THEY_ARE},
    [TC_ABS] = {emit_shared, WIDE},
    [TC_FLOOR] = {emit_math, WIDE},
    [TC_CEIL] = {emit_math, WIDE},
    [TC_ROUND] = {emit_math, WIDE},
    [TC_EXP] = {emit_math, WIDE},
    [TC_EXP2] = {emit_math, WIDE},
    [TC_LOG] = {emit_math, WIDE},
    [TC_LOG2] = {emit_math, WIDE},
    [TC_SQRT] = {emit_math, WIDE},
    [TC_RSQRT] = {emit_math, WIDE},
    [TC_RCP] = {emit_math, WIDE},
    [TC_SIN] = {emit_math, WIDE},
    [TC_COS] = {emit_math, WIDE},
    [TC_TANH] = {emit_math, WIDE},
    [TC_ERF] = {emit_math, WIDE},
    [TC_CMP] = {emit_shared, WIDE_OPERANDS},
    [TC_SELECT] = {emit_shared, AS_THEY_ARE},
    [TC_BITCAST] = {emit_bitcast, AS_THEY_ARE},
    [TC_PTR_ADD] = {emit_ptr_add, AS_THEY_ARE},
};

/* Operations that f16 and bf16 have in hardware with the same result: what
 * gives one of the operands back, or changes the sign alone. */
static bool exact_as_is(tc_opcode code, tc_kind kind)
{
    if (kind != TC_F16 && kind != TC_BF16)
        return kind == TC_F32 || kind == TC_F64;
    return code == TC_MIN || code == TC_MAX || code == TC_NEG ||
           code == TC_ABS || code == TC_CMP;
}

LLVMValueRef tc_nvptx_element(tc_gen *g, const tc_op *op, LLVMValueRef *in)
{
    const struct lane_row *row = &rows[op->code];
    if (!row->emit)
        return NULL;
    lane l = {g, tc_elementwise_of(g->b, op, in)};
    const tc_type *elem = l.of.elem;
    bool wide = row->floats != AS_THEY_ARE && l.of.is_float &&
                !exact_as_is(op->code, elem->kind);
    LLVMValueRef *to[] = {&l.of.x, &l.of.y, &l.of.z};
    for (unsigned i = 0; wide && i < op->nin && i < 3; i++)
        *to[i] = tc_gen_widen(g, elem, in[i]);
    LLVMValueRef x = row->emit(&l);
    return wide && row->floats == WIDE && x ? tc_gen_narrow(g, elem, x) : x;
}

bool tc_nvptx_elementwise(tc_gen *g, const tc_op *op)
{
    LLVMValueRef *in[3], x[3];
    if ((op->code == TC_CMP && tc_nvptx_compare_range(g, op)) ||
        (op->code == TC_MUL && tc_gen_mul_skipping_ones(g, op)))
        return !g->failed;
    if (tc_nvptx_is_absolute_tanh(op))
        return tc_nvptx_absolute_tanh(g, op);
    if (op->nin > 3)
        return tc_gen_error(g, op, "it has %u operands", op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = tc_gen_get(g, op->in[i]);
    bool is_done = tc_nvptx_is_done_by_tanh(op);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned r = 0; r < tc_gen_registers(op->out[0]->type); r++) {
        /* The condition of select may be a scalar. */
        for (unsigned i = 0; i < op->nin; i++)
            x[i] = in[i][op->in[i]->type->kind == TC_TILE ? r : 0];
        to[r] = is_done ? x[0] : tc_nvptx_element(g, op, x);
        if (!to[r])
            return tc_gen_error(g, op, "no code for %s on %s", g->target->name,
                                tc_type_name(g->cx, op->in[0]->type));
    }
    return !g->failed;
}

LLVMValueRef tc_gen_combine(tc_gen *g, const char *kind, const tc_type *elem,
                            LLVMValueRef x, LLVMValueRef y)
{
    return tc_elementwise_combine(g->b, kind, tc_kind_is_float(elem->kind), x,
                                  y);
}
