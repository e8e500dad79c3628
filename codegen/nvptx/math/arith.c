/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops, one register at a time. ir/eval/eval.c defines their
 * results; these functions follow it case by case.
 *
 * Nothing here allows LLVM to change a result: no fast-math flags. LLVM prints
 * add.rn and mul.rn, which ptxas does not fuse.
 */
#include "codegen/nvptx/emit.h"

#include "codegen/host/emit/math.h"
#include "codegen/nvptx/math/math.h"

#include <string.h>

/* One op: elem is the element of operand 0. x, y, z of narrow floats are
 * float already where the op computes (wide in the table). */
typedef struct lane {
    tc_gen *g;
    LLVMBuilderRef b;
    const tc_op *op;
    const tc_type *elem;
    bool is_float;
    LLVMValueRef x, y, z;
} lane;

typedef LLVMValueRef lane_fn(const lane *l);

static unsigned arith_bits_of(LLVMValueRef x)
{
    return LLVMGetIntTypeWidth(LLVMTypeOf(x));
}

static LLVMValueRef int_like(LLVMValueRef like, int64_t value)
{
    unsigned unused = 64 - arith_bits_of(like);
    return LLVMConstInt(LLVMTypeOf(like), (uint64_t)value << unused >> unused,
                        false);
}

static LLVMValueRef arith_call(tc_gen *g, const char *name, unsigned n,
                               LLVMValueRef *args)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    return tc_gen_intrinsic(g, name, 1, &type, n, args);
}

static LLVMValueRef call2(tc_gen *g, const char *name, LLVMValueRef x,
                          LLVMValueRef y)
{
    return arith_call(g, name, 2, (LLVMValueRef[]){x, y});
}

static LLVMValueRef emit_add(const lane *l)
{
    return l->is_float ? LLVMBuildFAdd(l->b, l->x, l->y, "")
                       : LLVMBuildAdd(l->b, l->x, l->y, "");
}

static LLVMValueRef emit_sub(const lane *l)
{
    return l->is_float ? LLVMBuildFSub(l->b, l->x, l->y, "")
                       : LLVMBuildSub(l->b, l->x, l->y, "");
}

static LLVMValueRef emit_mul(const lane *l)
{
    return l->is_float ? LLVMBuildFMul(l->b, l->x, l->y, "")
                       : LLVMBuildMul(l->b, l->x, l->y, "");
}

/* ---- Integer division ---- */

static LLVMValueRef floor_div(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef zero = int_like(x, 0);
    LLVMValueRef q = LLVMBuildSDiv(b, x, y, "");
    LLVMValueRef rest = LLVMBuildSub(b, x, LLVMBuildMul(b, q, y, ""), "");
    LLVMValueRef signs = LLVMBuildXor(b, rest, y, "");
    LLVMValueRef down =
        LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntNE, rest, zero, ""),
                     LLVMBuildICmp(b, LLVMIntSLT, signs, zero, ""), "");
    LLVMValueRef one = LLVMBuildZExt(b, down, LLVMTypeOf(x), "");
    return LLVMBuildSub(b, q, one, "");
}

/* x / 0 is 0, x / -1 is -x (wraps); the division itself sees 1 instead. */
static LLVMValueRef int_div(const lane *l)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef zero = int_like(l->x, 0), one = int_like(l->x, 1);
    LLVMValueRef is_zero = LLVMBuildICmp(b, LLVMIntEQ, l->y, zero, "");
    LLVMValueRef is_minus =
        LLVMBuildICmp(b, LLVMIntEQ, l->y, int_like(l->x, -1), "");
    LLVMValueRef special = LLVMBuildOr(b, is_zero, is_minus, "");
    LLVMValueRef safe = LLVMBuildSelect(b, special, one, l->y, "");
    LLVMValueRef q = floor_div(b, l->x, safe);
    q = LLVMBuildSelect(b, is_minus, LLVMBuildNeg(b, l->x, ""), q, "");
    return LLVMBuildSelect(b, is_zero, zero, q, "");
}

static LLVMValueRef emit_div(const lane *l)
{
    return l->is_float ? LLVMBuildFDiv(l->b, l->x, l->y, "") : int_div(l);
}

static LLVMValueRef emit_rem(const lane *l)
{
    LLVMBuilderRef b = l->b;
    if (!l->is_float)
        return LLVMBuildSub(b, l->x, LLVMBuildMul(b, int_div(l), l->y, ""), "");
    LLVMValueRef q = LLVMBuildFDiv(b, l->x, l->y, "");
    q = arith_call(l->g, "floor", 1, &q);
    LLVMValueRef p = LLVMBuildFMul(b, q, l->y, "");
    return LLVMBuildFSub(b, l->x, p, "");
}

static LLVMValueRef emit_mulhi(const lane *l)
{
    LLVMBuilderRef b = l->b;
    unsigned bits = arith_bits_of(l->x);
    LLVMTypeRef wide = LLVMIntTypeInContext(l->g->llvm, 2 * bits);
    LLVMValueRef x = LLVMBuildZExt(b, l->x, wide, "");
    LLVMValueRef y = LLVMBuildZExt(b, l->y, wide, "");
    LLVMValueRef p = LLVMBuildMul(b, x, y, "");
    p = LLVMBuildLShr(b, p, LLVMConstInt(wide, bits, false), "");
    return LLVMBuildTrunc(b, p, LLVMTypeOf(l->x), "");
}

static LLVMValueRef emit_min(const lane *l)
{
    return tc_gen_combine(l->g, "min", l->elem, l->x, l->y);
}

static LLVMValueRef emit_max(const lane *l)
{
    return tc_gen_combine(l->g, "max", l->elem, l->x, l->y);
}

static LLVMValueRef emit_and(const lane *l)
{
    return LLVMBuildAnd(l->b, l->x, l->y, "");
}

static LLVMValueRef emit_or(const lane *l)
{
    return LLVMBuildOr(l->b, l->x, l->y, "");
}

static LLVMValueRef emit_xor(const lane *l)
{
    return LLVMBuildXor(l->b, l->x, l->y, "");
}

/* ---- Shifts: LLVM's are undefined by the width and more ---- */

static LLVMValueRef in_range(const lane *l)
{
    return LLVMBuildICmp(l->b, LLVMIntULT, l->y,
                         int_like(l->y, arith_bits_of(l->x)), "");
}

/* Some amount in range; l->y where that is. LLVM 22 knows that PTX's shifts
 * clamp their amount, and drops the guard: wrongly so of an i64, whose upper
 * half PTX does not see (llvm-project #201165). It knows no masked amount. */
static LLVMValueRef some_amount(const lane *l, LLVMValueRef ok)
{
    if (arith_bits_of(l->y) == 64)
        return LLVMBuildAnd(l->b, l->y, int_like(l->y, 63), "");
    return LLVMBuildSelect(l->b, ok, l->y, int_like(l->y, 0), "");
}

static LLVMValueRef emit_shl(const lane *l)
{
    LLVMValueRef zero = int_like(l->x, 0), ok = in_range(l);
    LLVMValueRef by = some_amount(l, ok);
    return LLVMBuildSelect(l->b, ok, LLVMBuildShl(l->b, l->x, by, ""), zero,
                           "");
}

static LLVMValueRef emit_shr(const lane *l)
{
    LLVMValueRef most = int_like(l->x, arith_bits_of(l->x) - 1);
    LLVMValueRef by = LLVMBuildSelect(l->b, in_range(l), l->y, most, "");
    return LLVMBuildAShr(l->b, l->x, by, "");
}

static LLVMValueRef emit_shru(const lane *l)
{
    LLVMValueRef zero = int_like(l->x, 0), ok = in_range(l);
    LLVMValueRef by = some_amount(l, ok);
    return LLVMBuildSelect(l->b, ok, LLVMBuildLShr(l->b, l->x, by, ""), zero,
                           "");
}

/* ---- One operand, and fma ---- */

static LLVMValueRef emit_fma(const lane *l)
{
    return arith_call(l->g, "fma", 3, (LLVMValueRef[]){l->x, l->y, l->z});
}

static LLVMValueRef emit_neg(const lane *l)
{
    return l->is_float ? LLVMBuildFNeg(l->b, l->x, "")
                       : LLVMBuildNeg(l->b, l->x, "");
}

static LLVMValueRef emit_not(const lane *l)
{
    return LLVMBuildNot(l->b, l->x, "");
}

static LLVMValueRef emit_abs(const lane *l)
{
    if (l->is_float)
        return arith_call(l->g, "fabs", 1, (LLVMValueRef[]){l->x});
    LLVMValueRef negative =
        LLVMBuildICmp(l->b, LLVMIntSLT, l->x, int_like(l->x, 0), "");
    return LLVMBuildSelect(l->b, negative, LLVMBuildNeg(l->b, l->x, ""), l->x,
                           "");
}

/* tanh.approx.f32, of compute capability 7.5 on: 2^-11. */
static LLVMValueRef emit_tanh_approx(const lane *l)
{
    LLVMValueRef y = arith_call(l->g, "tanh", 1, (LLVMValueRef[]){l->x});
    LLVMSetFastMathFlags(y, LLVMFastMathApproxFunc);
    return y;
}

/* What an op becomes that may be approximate; NULL: what others do. */
static const char *one_instruction(const tc_op *op)
{
    switch (op->code) {
    case TC_RCP: return "nvvm.rcp.approx.ftz.f";
    case TC_LOG2: return "nvvm.lg2.approx.ftz.f";
    default: return NULL;
    }
}

static LLVMValueRef emit_math(const lane *l)
{
    if (l->op->code == TC_TANH && tc_op_int(l->op, "approx") &&
        LLVMTypeOf(l->x) == l->g->f32)
        return emit_tanh_approx(l);
    const char *name = one_instruction(l->op);
    if (name && tc_op_int(l->op, "approx") && LLVMTypeOf(l->x) == l->g->f32)
        return tc_gen_intrinsic(l->g, name, 0, NULL, 1, (LLVMValueRef[]){l->x});
    /* 2 ulp over the whole range; subnormal results become 0. */
    if (l->op->code == TC_EXP2 && LLVMTypeOf(l->x) == l->g->f32)
        return arith_call(l->g, "nvvm.ex2.approx.ftz", 1,
                          (LLVMValueRef[]){l->x});
    return tc_nvptx_math(l->b, l->op->code, l->x);
}

/* ---- Comparison and choice ---- */

static LLVMValueRef emit_cmp(const lane *l)
{
    /* true is 1, above false; an i1 of LLVM would be -1. */
    bool is_unsigned = l->elem->kind == TC_I1 || l->elem->kind == TC_PTR;
    return tc_host_compare(l->b, tc_op_word(l->op, "pred"), l->is_float,
                           is_unsigned, l->x, l->y);
}

static LLVMValueRef emit_select(const lane *l)
{
    return LLVMBuildSelect(l->b, l->x, l->y, l->z, "");
}

/* By way of the bits that memory would hold; an i1 is only its own. */
static LLVMValueRef emit_bitcast(const lane *l)
{
    const tc_type *to = tc_type_elem(l->op->out[0]->type);
    if (to == l->elem || to->kind == TC_I1)
        return l->x;
    LLVMValueRef bits = tc_gen_to_memory(l->g, l->elem, l->x);
    bits = LLVMBuildBitCast(l->b, bits, tc_gen_memory_type(l->g, to), "");
    return tc_gen_from_memory(l->g, to, bits);
}

static LLVMValueRef emit_ptr_add(const lane *l)
{
    LLVMValueRef by = LLVMBuildSExt(l->b, l->y, l->g->i64, "");
    return tc_gen_address(l->g, l->elem->elem, l->x, by);
}

/* wide: narrow floats are computed in f32 and rounded once, at the end. (Min
 * and max would not need it, but of e5m2's infinities: arithmetic gives none.)
 */
static const struct lane_row {
    lane_fn *emit;
    enum { AS_THEY_ARE, WIDE, WIDE_OPERANDS } floats;
} rows[TC_OPCODE_COUNT] = {
    [TC_ADD] = {emit_add, WIDE},
    [TC_SUB] = {emit_sub, WIDE},
    [TC_MUL] = {emit_mul, WIDE},
    [TC_DIV] = {emit_div, WIDE},
    [TC_REM] = {emit_rem, WIDE},
    [TC_MULHI] = {emit_mulhi, AS_THEY_ARE},
    [TC_MIN] = {emit_min, WIDE},
    [TC_MAX] = {emit_max, WIDE},
    [TC_AND] = {emit_and, AS_THEY_ARE},
    [TC_OR] = {emit_or, AS_THEY_ARE},
    [TC_XOR] = {emit_xor, AS_THEY_ARE},
    [TC_SHL] = {emit_shl, AS_THEY_ARE},
    [TC_SHR] = {emit_shr, AS_THEY_ARE},
    [TC_SHRU] = {emit_shru, AS_THEY_ARE},
    [TC_FMA] = {emit_fma, WIDE},
    [TC_NEG] = {emit_neg, WIDE},
    [TC_NOT] = {emit_not, AS_THEY_ARE},
    [TC_ABS] = {emit_abs, WIDE},
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
    [TC_CMP] = {emit_cmp, WIDE_OPERANDS},
    [TC_SELECT] = {emit_select, AS_THEY_ARE},
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
    const tc_type *elem = tc_type_elem(op->in[0]->type);
    lane l = {.g = g,
              .b = g->b,
              .op = op,
              .elem = elem,
              .is_float = tc_kind_is_float(elem->kind)};
    bool wide = row->floats != AS_THEY_ARE && l.is_float &&
                !exact_as_is(op->code, elem->kind);
    LLVMValueRef *to[] = {&l.x, &l.y, &l.z};
    for (unsigned i = 0; i < op->nin && i < 3; i++)
        *to[i] = wide ? tc_gen_widen(g, elem, in[i]) : in[i];
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
    bool real = tc_kind_is_float(elem->kind);
    if (strcmp(kind, "sum") == 0 || strcmp(kind, "add") == 0)
        return real ? LLVMBuildFAdd(g->b, x, y, "")
                    : LLVMBuildAdd(g->b, x, y, "");
    if (strcmp(kind, "prod") == 0)
        return real ? LLVMBuildFMul(g->b, x, y, "")
                    : LLVMBuildMul(g->b, x, y, "");
    if (strcmp(kind, "max") == 0)
        return call2(g, real ? "maxnum" : "smax", x, y);
    if (strcmp(kind, "min") == 0)
        return call2(g, real ? "minnum" : "smin", x, y);
    if (strcmp(kind, "and") == 0)
        return LLVMBuildAnd(g->b, x, y, "");
    if (strcmp(kind, "or") == 0)
        return LLVMBuildOr(g->b, x, y, "");
    return LLVMBuildXor(g->b, x, y, "");
}
