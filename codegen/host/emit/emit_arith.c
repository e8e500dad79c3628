/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops on lanes: one element or a vector of them, the same code.
 * ir/eval/eval.c defines their results; these functions follow it case by case.
 */
#include "codegen/host/emit/emit.h"

#include "codegen/host/emit/convert.h"
#include "codegen/host/emit/math.h"

#include <math.h>
#include <string.h>

/* One op: e->b is where the code goes; elem is the element of operand 0. */
typedef struct lanes {
    tc_emit *e;
    LLVMBuilderRef b;
    const tc_op *op;
    const tc_type *elem;
    bool is_float;
    LLVMValueRef x, y, z;
} lanes;

typedef LLVMValueRef lanes_fn(const lanes *l);

static unsigned width_of(LLVMValueRef x)
{
    return tc_is_vector(x) ? LLVMGetVectorSize(LLVMTypeOf(x)) : 1;
}

static unsigned emit_arith_bits_of(LLVMValueRef x)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    return LLVMGetIntTypeWidth(tc_is_vector(x) ? LLVMGetElementType(t) : t);
}

static LLVMValueRef emit_arith_call(tc_emit *e, const char *name, unsigned n,
                                    LLVMValueRef *args)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    return tc_intrinsic(e, name, 1, &type, n, args);
}

static LLVMValueRef call2(tc_emit *e, const char *name, LLVMValueRef x,
                          LLVMValueRef y)
{
    return emit_arith_call(e, name, 2, (LLVMValueRef[]){x, y});
}

/* The result of arithmetic as a number of the op's type. */
static LLVMValueRef rounded(const lanes *l, LLVMValueRef x)
{
    return tc_rounded(l->e, l->elem, x);
}

static LLVMValueRef emit_add(const lanes *l)
{
    return l->is_float ? rounded(l, LLVMBuildFAdd(l->b, l->x, l->y, ""))
                       : LLVMBuildAdd(l->b, l->x, l->y, "");
}

static LLVMValueRef emit_sub(const lanes *l)
{
    return l->is_float ? rounded(l, LLVMBuildFSub(l->b, l->x, l->y, ""))
                       : LLVMBuildSub(l->b, l->x, l->y, "");
}

static LLVMValueRef emit_mul(const lanes *l)
{
    return l->is_float ? rounded(l, LLVMBuildFMul(l->b, l->x, l->y, ""))
                       : LLVMBuildMul(l->b, l->x, l->y, "");
}

/* ---- Integer division ---- */

/* Up to 32 bits in vectors: the quotient as a double is near enough to have
 * the right floor (it is at least 1/|y| from a whole number it is not, and
 * wrong by less), and vector units divide doubles, not ints. */
static LLVMValueRef floor_div_by_double(const lanes *l)
{
    unsigned width = width_of(l->x);
    LLVMTypeRef wide = tc_vector_of(l->e->f64, width);
    LLVMValueRef a = LLVMBuildSIToFP(l->b, l->x, wide, "");
    LLVMValueRef b = LLVMBuildSIToFP(l->b, l->y, wide, "");
    LLVMValueRef q = LLVMBuildFDiv(l->b, a, b, "");
    q = emit_arith_call(l->e, "llvm.floor", 1, &q);
    LLVMTypeRef type = tc_vector_of(l->e->i64, width);
    q = LLVMBuildFPToSI(l->b, q, type, "");
    return LLVMBuildTrunc(l->b, q, LLVMTypeOf(l->x), "");
}

static LLVMValueRef floor_div_by_int(const lanes *l)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef zero = tc_int_like(l->x, 0);
    LLVMValueRef q = LLVMBuildSDiv(b, l->x, l->y, "");
    LLVMValueRef rest = LLVMBuildSub(b, l->x, LLVMBuildMul(b, q, l->y, ""), "");
    LLVMValueRef signs = LLVMBuildXor(b, rest, l->y, "");
    LLVMValueRef down =
        LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntNE, rest, zero, ""),
                     LLVMBuildICmp(b, LLVMIntSLT, signs, zero, ""), "");
    LLVMValueRef one = LLVMBuildZExt(b, down, LLVMTypeOf(l->x), "");
    return LLVMBuildSub(b, q, one, "");
}

/* x / 0 is 0, x / -1 is -x (wraps); the division itself sees 1 instead. */
static LLVMValueRef emit_int_div(const lanes *l)
{
    LLVMBuilderRef b = l->b;
    LLVMValueRef zero = tc_int_like(l->x, 0), one = tc_int_like(l->x, 1);
    LLVMValueRef is_zero = LLVMBuildICmp(b, LLVMIntEQ, l->y, zero, "");
    LLVMValueRef is_minus =
        LLVMBuildICmp(b, LLVMIntEQ, l->y, tc_int_like(l->x, -1), "");
    LLVMValueRef special = LLVMBuildOr(b, is_zero, is_minus, "");
    lanes safe = *l;
    safe.y = LLVMBuildSelect(b, special, one, l->y, "");
    bool vector = tc_is_vector(l->x) && !LLVMIsConstant(safe.y);
    LLVMValueRef q = vector && emit_arith_bits_of(l->x) <= 32
                         ? floor_div_by_double(&safe)
                         : floor_div_by_int(&safe);
    q = LLVMBuildSelect(b, is_minus, LLVMBuildNeg(b, l->x, ""), q, "");
    return LLVMBuildSelect(b, is_zero, zero, q, "");
}

static LLVMValueRef emit_div(const lanes *l)
{
    return l->is_float ? rounded(l, LLVMBuildFDiv(l->b, l->x, l->y, ""))
                       : emit_int_div(l);
}

static LLVMValueRef emit_rem(const lanes *l)
{
    LLVMBuilderRef b = l->b;
    if (!l->is_float)
        return LLVMBuildSub(b, l->x, LLVMBuildMul(b, emit_int_div(l), l->y, ""),
                            "");
    LLVMValueRef q = LLVMBuildFDiv(b, l->x, l->y, "");
    q = emit_arith_call(l->e, "llvm.floor", 1, &q);
    LLVMValueRef p = LLVMBuildFMul(b, q, l->y, "");
    return rounded(l, LLVMBuildFSub(b, l->x, p, ""));
}

static LLVMValueRef emit_mulhi(const lanes *l)
{
    LLVMBuilderRef b = l->b;
    unsigned bits = emit_arith_bits_of(l->x);
    LLVMTypeRef wide = tc_vector_of(LLVMIntTypeInContext(l->e->llvm, 2 * bits),
                                    width_of(l->x));
    LLVMValueRef x = LLVMBuildZExt(b, l->x, wide, "");
    LLVMValueRef y = LLVMBuildZExt(b, l->y, wide, "");
    LLVMValueRef p = LLVMBuildMul(b, x, y, "");
    p = LLVMBuildLShr(b, p, tc_int_like(p, bits), "");
    return LLVMBuildTrunc(b, p, LLVMTypeOf(l->x), "");
}

/* What gives one of its operands needs no rounding; but fp8 arithmetic
 * saturates, and so has no infinity as a result. */
static LLVMValueRef saturated(const lanes *l, LLVMValueRef x)
{
    return l->elem->kind == TC_F8E5M2 ? rounded(l, x) : x;
}

static LLVMValueRef emit_min(const lanes *l)
{
    return saturated(l, tc_emit_combine(l->e, "min", l->elem, l->x, l->y));
}

static LLVMValueRef emit_max(const lanes *l)
{
    return saturated(l, tc_emit_combine(l->e, "max", l->elem, l->x, l->y));
}

static LLVMValueRef emit_and(const lanes *l)
{
    return LLVMBuildAnd(l->b, l->x, l->y, "");
}

static LLVMValueRef emit_or(const lanes *l)
{
    return LLVMBuildOr(l->b, l->x, l->y, "");
}

static LLVMValueRef emit_xor(const lanes *l)
{
    return LLVMBuildXor(l->b, l->x, l->y, "");
}

/* ---- Shifts: LLVM's are undefined by the width and more ---- */

static LLVMValueRef in_range(const lanes *l)
{
    return LLVMBuildICmp(l->b, LLVMIntULT, l->y,
                         tc_int_like(l->y, emit_arith_bits_of(l->x)), "");
}

static LLVMValueRef emit_shl(const lanes *l)
{
    LLVMValueRef zero = tc_int_like(l->x, 0), ok = in_range(l);
    LLVMValueRef by = LLVMBuildSelect(l->b, ok, l->y, zero, "");
    return LLVMBuildSelect(l->b, ok, LLVMBuildShl(l->b, l->x, by, ""), zero,
                           "");
}

static LLVMValueRef emit_shr(const lanes *l)
{
    LLVMValueRef most = tc_int_like(l->x, emit_arith_bits_of(l->x) - 1);
    LLVMValueRef by = LLVMBuildSelect(l->b, in_range(l), l->y, most, "");
    return LLVMBuildAShr(l->b, l->x, by, "");
}

static LLVMValueRef emit_shru(const lanes *l)
{
    LLVMValueRef zero = tc_int_like(l->x, 0), ok = in_range(l);
    LLVMValueRef by = LLVMBuildSelect(l->b, ok, l->y, zero, "");
    return LLVMBuildSelect(l->b, ok, LLVMBuildLShr(l->b, l->x, by, ""), zero,
                           "");
}

/* ---- One operand, and fma ---- */

static LLVMValueRef emit_fma(const lanes *l)
{
    LLVMValueRef args[] = {l->x, l->y, l->z};
    return rounded(l, emit_arith_call(l->e, "llvm.fma", 3, args));
}

static LLVMValueRef emit_neg(const lanes *l)
{
    return l->is_float ? saturated(l, LLVMBuildFNeg(l->b, l->x, ""))
                       : LLVMBuildNeg(l->b, l->x, "");
}

static LLVMValueRef emit_not(const lanes *l)
{
    return LLVMBuildNot(l->b, l->x, "");
}

static LLVMValueRef emit_abs(const lanes *l)
{
    if (l->is_float)
        return saturated(
            l, emit_arith_call(l->e, "llvm.fabs", 1, (LLVMValueRef[]){l->x}));
    LLVMValueRef negative =
        LLVMBuildICmp(l->b, LLVMIntSLT, l->x, tc_int_like(l->x, 0), "");
    return LLVMBuildSelect(l->b, negative, LLVMBuildNeg(l->b, l->x, ""), l->x,
                           "");
}

static LLVMValueRef emit_math(const lanes *l)
{
    return rounded(l, tc_host_math(l->b, l->op->code, l->x));
}

/* ---- Comparison and choice ---- */

static LLVMValueRef emit_cmp(const lanes *l)
{
    /* true is 1, above false; an i1 of LLVM would be -1. */
    bool is_unsigned = l->elem->kind == TC_I1 || l->elem->kind == TC_PTR;
    return tc_host_compare(l->b, tc_op_word(l->op, "pred"), l->is_float,
                           is_unsigned, l->x, l->y);
}

static LLVMValueRef emit_select(const lanes *l)
{
    return LLVMBuildSelect(l->b, l->x, l->y, l->z, "");
}

/* ---- Conversions ---- */

static LLVMValueRef float_to_float(const lanes *l, const tc_type *to)
{
    LLVMTypeRef wide = tc_vector_of(l->e->f64, width_of(l->x));
    LLVMTypeRef single = tc_vector_of(l->e->f32, width_of(l->x));
    bool from_wide = l->elem->kind == TC_F64;
    if (to->kind == TC_F64)
        return from_wide ? l->x : LLVMBuildFPExt(l->b, l->x, wide, "");
    if (to->kind == TC_F32)
        return from_wide ? LLVMBuildFPTrunc(l->b, l->x, single, "") : l->x;
    if (to->kind > TC_F8E5M2 && tc_is_exact_in(l->elem->kind, to->kind))
        return l->x;
    return tc_host_round(l->b, to->kind, l->x);
}

static LLVMValueRef int_to_float(const lanes *l, const tc_type *to)
{
    LLVMTypeRef type = tc_vector_of(tc_register_type(l->e, to), width_of(l->x));
    if (l->elem->kind == TC_I1)
        return LLVMBuildUIToFP(l->b, l->x, type, "");
    if (to->kind >= TC_F32)
        return LLVMBuildSIToFP(l->b, l->x, type, "");
    return tc_host_round_int(l->b, to->kind, l->x);
}

static LLVMValueRef float_to_int(const lanes *l, const tc_type *to)
{
    LLVMTypeRef type = tc_vector_of(tc_register_type(l->e, to), width_of(l->x));
    if (to->kind == TC_I1)
        return LLVMBuildFCmp(l->b, LLVMRealUNE, l->x, tc_float_like(l->x, 0),
                             "");
    LLVMTypeRef types[] = {type, LLVMTypeOf(l->x)};
    LLVMValueRef x = l->x;
    return tc_intrinsic(l->e, "llvm.fptosi.sat", 2, types, 1, &x);
}

static LLVMValueRef int_to_int(const lanes *l, const tc_type *to)
{
    LLVMTypeRef type = tc_vector_of(tc_register_type(l->e, to), width_of(l->x));
    unsigned from_bits = emit_arith_bits_of(l->x),
             to_bits = tc_scalar_infos[to->kind].bits;
    if (to_bits == from_bits)
        return l->x;
    if (to->kind == TC_I1)
        return LLVMBuildICmp(l->b, LLVMIntNE, l->x, tc_int_like(l->x, 0), "");
    if (to_bits < from_bits)
        return LLVMBuildTrunc(l->b, l->x, type, "");
    return l->elem->kind == TC_I1 ? LLVMBuildZExt(l->b, l->x, type, "")
                                  : LLVMBuildSExt(l->b, l->x, type, "");
}

static LLVMValueRef emit_cast(const lanes *l)
{
    const tc_type *to = tc_type_elem(l->op->out[0]->type);
    if (tc_kind_is_float(to->kind))
        return l->is_float ? float_to_float(l, to) : int_to_float(l, to);
    return l->is_float ? float_to_int(l, to) : int_to_int(l, to);
}

/* By way of the bits that memory would hold. */
static LLVMValueRef emit_bitcast(const lanes *l)
{
    const tc_type *to = tc_type_elem(l->op->out[0]->type);
    if (to->kind == TC_PTR || to->kind == TC_I1 || to == l->elem)
        return l->x;
    LLVMValueRef bits = tc_to_memory(l->e, l->elem, l->x);
    LLVMTypeRef type = tc_vector_of(tc_memory_type(l->e, to), width_of(l->x));
    return tc_from_memory(l->e, to, LLVMBuildBitCast(l->b, bits, type, ""));
}

static LLVMValueRef emit_ptr_add(const lanes *l)
{
    LLVMTypeRef elem = LLVMArrayType(l->e->i8, tc_type_bytes(l->elem->elem));
    LLVMValueRef by = tc_to_i64(l->e, l->y);
    return LLVMBuildGEP2(l->b, elem, l->x, &by, 1, "");
}

static lanes_fn *const emitters[TC_OPCODE_COUNT] = {
    [TC_ADD] = emit_add,         [TC_SUB] = emit_sub,
    [TC_MUL] = emit_mul,         [TC_DIV] = emit_div,
    [TC_REM] = emit_rem,         [TC_MULHI] = emit_mulhi,
    [TC_MIN] = emit_min,         [TC_MAX] = emit_max,
    [TC_AND] = emit_and,         [TC_OR] = emit_or,
    [TC_XOR] = emit_xor,         [TC_SHL] = emit_shl,
    [TC_SHR] = emit_shr,         [TC_SHRU] = emit_shru,
    [TC_FMA] = emit_fma,         [TC_NEG] = emit_neg,
    [TC_NOT] = emit_not,         [TC_ABS] = emit_abs,
    [TC_FLOOR] = emit_math,      [TC_CEIL] = emit_math,
    [TC_ROUND] = emit_math,      [TC_EXP] = emit_math,
    [TC_EXP2] = emit_math,       [TC_LOG] = emit_math,
    [TC_LOG2] = emit_math,       [TC_SQRT] = emit_math,
    [TC_RSQRT] = emit_math,      [TC_RCP] = emit_math,
    [TC_SIN] = emit_math,        [TC_COS] = emit_math,
    [TC_TANH] = emit_math,       [TC_ERF] = emit_math,
    [TC_CMP] = emit_cmp,         [TC_SELECT] = emit_select,
    [TC_CAST] = emit_cast,       [TC_BITCAST] = emit_bitcast,
    [TC_PTR_ADD] = emit_ptr_add,
};

LLVMValueRef tc_emit_lanes(tc_emit *e, const tc_op *op, LLVMValueRef *in)
{
    if (!emitters[op->code])
        return NULL;
    const tc_type *elem = tc_type_elem(op->in[0]->type);
    lanes l = {e,
               e->b,
               op,
               elem,
               tc_kind_is_float(elem->kind),
               in[0],
               op->nin > 1 ? in[1] : NULL,
               op->nin > 2 ? in[2] : NULL};
    return emitters[op->code](&l);
}

/* ---- Reductions ---- */

LLVMValueRef tc_emit_combine(tc_emit *e, const char *kind, const tc_type *elem,
                             LLVMValueRef x, LLVMValueRef y)
{
    bool real = tc_kind_is_float(elem->kind);
    if (strcmp(kind, "sum") == 0 || strcmp(kind, "add") == 0)
        return real ? LLVMBuildFAdd(e->b, x, y, "")
                    : LLVMBuildAdd(e->b, x, y, "");
    if (strcmp(kind, "prod") == 0)
        return real ? LLVMBuildFMul(e->b, x, y, "")
                    : LLVMBuildMul(e->b, x, y, "");
    if (strcmp(kind, "max") == 0)
        return call2(e, real ? "llvm.maxnum" : "llvm.smax", x, y);
    if (strcmp(kind, "min") == 0)
        return call2(e, real ? "llvm.minnum" : "llvm.smin", x, y);
    if (strcmp(kind, "and") == 0)
        return LLVMBuildAnd(e->b, x, y, "");
    if (strcmp(kind, "or") == 0)
        return LLVMBuildOr(e->b, x, y, "");
    return LLVMBuildXor(e->b, x, y, "");
}

LLVMValueRef tc_emit_neutral(tc_emit *e, const char *kind, const tc_type *elem)
{
    LLVMTypeRef type = tc_register_type(e, elem);
    bool max = strcmp(kind, "max") == 0, min = strcmp(kind, "min") == 0;
    if (tc_kind_is_float(elem->kind)) {
        /* max(NaN, x) is x, and of NaNs only NaN. */
        if (max || min)
            return LLVMConstReal(type, NAN);
        return LLVMConstReal(type, strcmp(kind, "prod") == 0 ? 1.0 : 0.0);
    }
    unsigned bits = tc_scalar_infos[elem->kind].bits;
    uint64_t top = 1ull << (bits - 1);
    if (max)
        return LLVMConstInt(type, top, false);
    if (min)
        return LLVMConstInt(type, top - 1, false);
    if (strcmp(kind, "and") == 0)
        return LLVMConstAllOnes(type);
    return LLVMConstInt(type, strcmp(kind, "prod") == 0, false);
}
