/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops on lanes: one element or a vector of them, the same code
 * (codegen/llvm/elementwise.h). Narrow floats are f32 that are rounded to their
 * type after each op.
 */
#include "codegen/host/emit/emit.h"

#include "codegen/llvm/convert.h"
#include "codegen/llvm/elementwise.h"
#include "codegen/llvm/math.h"

#include <math.h>
#include <string.h>

struct lanes {
    tc_emit *e;
    tc_elementwise of;
};

typedef LLVMValueRef lanes_fn(const struct lanes *l);

static unsigned width_of(LLVMValueRef x)
{
    return tc_is_vector(x) ? LLVMGetVectorSize(LLVMTypeOf(x)) : 1;
}

static unsigned emit_arith_bits_of(LLVMValueRef x)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    return LLVMGetIntTypeWidth(tc_is_vector(x) ? LLVMGetElementType(t) : t);
}

/* ---- What targets share ---- */

static LLVMValueRef as_it_is(const struct lanes *l)
{
    return tc_elementwise_emit(&l->of);
}

/* The result of arithmetic as a number of the op's type. */
static LLVMValueRef rounded(const struct lanes *l)
{
    LLVMValueRef x = tc_elementwise_emit(&l->of);
    return l->of.is_float ? tc_rounded(l->e, l->of.elem, x) : x;
}

/* An op that gives one of its operands needs no rounding; but fp8 arithmetic
 * saturates, so infinity is never a result. */
static LLVMValueRef saturated(const struct lanes *l)
{
    return l->of.elem->kind == TC_F8E5M2 ? rounded(l) : as_it_is(l);
}

static LLVMValueRef emit_math(const struct lanes *l)
{
    return tc_rounded(l->e, l->of.elem,
                      tc_llvm_math(l->e->b, l->of.op->code, l->of.x));
}

/* ---- Conversions ---- */

static LLVMValueRef float_to_float(const struct lanes *l, const tc_type *to)
{
    LLVMTypeRef wide = tc_vector_of(l->e->f64, width_of(l->of.x));
    LLVMTypeRef single = tc_vector_of(l->e->f32, width_of(l->of.x));
    bool from_wide = l->of.elem->kind == TC_F64;
    if (to->kind == TC_F64)
        return from_wide ? l->of.x : LLVMBuildFPExt(l->e->b, l->of.x, wide, "");
    if (to->kind == TC_F32)
        return from_wide ? LLVMBuildFPTrunc(l->e->b, l->of.x, single, "")
                         : l->of.x;
    if (to->kind > TC_F8E5M2 && tc_is_exact_in(l->of.elem->kind, to->kind))
        return l->of.x;
    return tc_llvm_round(l->e->b, to->kind, l->of.x);
}

static LLVMValueRef int_to_float(const struct lanes *l, const tc_type *to)
{
    LLVMTypeRef type =
        tc_vector_of(tc_register_type(l->e, to), width_of(l->of.x));
    if (l->of.elem->kind == TC_I1)
        return LLVMBuildUIToFP(l->e->b, l->of.x, type, "");
    if (to->kind >= TC_F32)
        return LLVMBuildSIToFP(l->e->b, l->of.x, type, "");
    return tc_llvm_round_int(l->e->b, to->kind, l->of.x);
}

static LLVMValueRef float_to_int(const struct lanes *l, const tc_type *to)
{
    LLVMTypeRef type =
        tc_vector_of(tc_register_type(l->e, to), width_of(l->of.x));
    if (to->kind == TC_I1)
        return LLVMBuildFCmp(l->e->b, LLVMRealUNE, l->of.x,
                             tc_float_like(l->of.x, 0), "");
    LLVMTypeRef types[] = {type, LLVMTypeOf(l->of.x)};
    LLVMValueRef x = l->of.x;
    return tc_intrinsic(l->e, "llvm.fptosi.sat", 2, types, 1, &x);
}

static LLVMValueRef int_to_int(const struct lanes *l, const tc_type *to)
{
    LLVMTypeRef type =
        tc_vector_of(tc_register_type(l->e, to), width_of(l->of.x));
    unsigned from_bits = emit_arith_bits_of(l->of.x),
             to_bits = tc_scalar_infos[to->kind].bits;
    if (to_bits == from_bits)
        return l->of.x;
    if (to->kind == TC_I1)
        return LLVMBuildICmp(l->e->b, LLVMIntNE, l->of.x,
                             tc_int_like(l->of.x, 0), "");
    if (to_bits < from_bits)
        return LLVMBuildTrunc(l->e->b, l->of.x, type, "");
    return l->of.elem->kind == TC_I1
               ? LLVMBuildZExt(l->e->b, l->of.x, type, "")
               : LLVMBuildSExt(l->e->b, l->of.x, type, "");
}

static LLVMValueRef emit_cast(const struct lanes *l)
{
    const tc_type *to = tc_type_elem(l->of.op->out[0]->type);
    if (tc_kind_is_float(to->kind))
        return l->of.is_float ? float_to_float(l, to) : int_to_float(l, to);
    return l->of.is_float ? float_to_int(l, to) : int_to_int(l, to);
}

/* A cast by the bits that memory would hold. */
static LLVMValueRef emit_bitcast(const struct lanes *l)
{
    const tc_type *to = tc_type_elem(l->of.op->out[0]->type);
    bool to_ptr = to->kind == TC_PTR, from_ptr = l->of.elem->kind == TC_PTR;
    if ((to_ptr && from_ptr) || to->kind == TC_I1 || to == l->of.elem)
        return l->of.x;
    if (to_ptr || from_ptr) {
        LLVMTypeRef word = to_ptr ? l->e->ptr : l->e->i64;
        word = tc_vector_of(word, width_of(l->of.x));
        return to_ptr ? LLVMBuildIntToPtr(l->e->b, l->of.x, word, "")
                      : LLVMBuildPtrToInt(l->e->b, l->of.x, word, "");
    }
    LLVMValueRef bits = tc_to_memory(l->e, l->of.elem, l->of.x);
    LLVMTypeRef type =
        tc_vector_of(tc_memory_type(l->e, to), width_of(l->of.x));
    return tc_from_memory(l->e, to, LLVMBuildBitCast(l->e->b, bits, type, ""));
}

static LLVMValueRef emit_ptr_add(const struct lanes *l)
{
    LLVMTypeRef elem = LLVMArrayType(l->e->i8, tc_type_bytes(l->of.elem->elem));
    LLVMValueRef by = tc_to_i64(l->e, l->of.y);
    return LLVMBuildGEP2(l->e->b, elem, l->of.x, &by, 1, "");
}

static lanes_fn *const emitters[TC_OPCODE_COUNT] = {
    [TC_ADD] = rounded,          [TC_SUB] = rounded,
    [TC_MUL] = rounded,          [TC_DIV] = rounded,
    [TC_REM] = rounded,          [TC_FMA] = rounded,
    [TC_MIN] = saturated,        [TC_MAX] = saturated,
    [TC_NEG] = saturated,        [TC_ABS] = saturated,
    [TC_MULHI] = as_it_is,       [TC_NOT] = as_it_is,
    [TC_DIVU] = as_it_is,        [TC_REMU] = as_it_is,
    [TC_MINU] = as_it_is,        [TC_MAXU] = as_it_is,
    [TC_AND] = as_it_is,         [TC_OR] = as_it_is,
    [TC_XOR] = as_it_is,         [TC_SHL] = as_it_is,
    [TC_SHR] = as_it_is,         [TC_SHRU] = as_it_is,
    [TC_CMP] = as_it_is,         [TC_SELECT] = as_it_is,
    [TC_FLOOR] = emit_math,      [TC_CEIL] = emit_math,
    [TC_ROUND] = emit_math,      [TC_EXP] = emit_math,
    [TC_EXP2] = emit_math,       [TC_LOG] = emit_math,
    [TC_LOG2] = emit_math,       [TC_SQRT] = emit_math,
    [TC_RSQRT] = emit_math,      [TC_RCP] = emit_math,
    [TC_SIN] = emit_math,        [TC_COS] = emit_math,
    [TC_TANH] = emit_math,       [TC_ERF] = emit_math,
    [TC_CAST] = emit_cast,       [TC_BITCAST] = emit_bitcast,
    [TC_PTR_ADD] = emit_ptr_add,
};

LLVMValueRef tc_emit_lanes(tc_emit *e, const tc_op *op, LLVMValueRef *in)
{
    if (!emitters[op->code])
        return NULL;
    struct lanes l = {e, tc_elementwise_of(e->b, op, in)};
    return emitters[op->code](&l);
}

/* ---- Reductions ---- */

LLVMValueRef tc_emit_combine(tc_emit *e, const char *kind, const tc_type *elem,
                             LLVMValueRef x, LLVMValueRef y)
{
    return tc_elementwise_combine(e->b, kind, tc_kind_is_float(elem->kind), x,
                                  y);
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
