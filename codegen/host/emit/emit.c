/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel as an LLVM function: its frame, scalar values, and items in
 * order. Families of ops have files of their own (emit_*.c, nest.c).
 *
 *   void kernel(args, scratch, pid x, y, z, grid x, y, z, thread)
 *
 * args: 64-bit words, for each argument of the kernel in turn: a tensor's
 * address, sizes and strides; a pointer; an int; a float as double.
 */
#include "codegen/host/emit/emit.h"

#include "codegen/llvm/convert.h"

#include <string.h>

/* ---- Types and constants ---- */

LLVMTypeRef tc_register_type(tc_emit *e, const tc_type *elem)
{
    switch (elem->kind) {
    case TC_I1: return e->i1;
    case TC_I8: return e->i8;
    case TC_I16: return e->i16;
    case TC_I32: return e->i32;
    case TC_I64: return e->i64;
    case TC_F64: return e->f64;
    case TC_PTR: return e->ptr;
    default: return e->f32;
    }
}

LLVMTypeRef tc_scratch_type(tc_emit *e, const tc_type *elem)
{
    return elem->kind == TC_I1 ? e->i8 : tc_register_type(e, elem);
}

LLVMTypeRef tc_memory_type(tc_emit *e, const tc_type *elem)
{
    if (tc_kind_is_narrow(elem->kind))
        return tc_llvm_storage(e->llvm, elem->kind);
    return tc_scratch_type(e, elem);
}

LLVMTypeRef tc_vector_of(LLVMTypeRef scalar, unsigned width)
{
    return width > 1 ? LLVMVectorType(scalar, width) : scalar;
}

LLVMValueRef tc_i32(tc_emit *e, int64_t value)
{
    return LLVMConstInt(e->i32, (uint64_t)value, true);
}

LLVMValueRef tc_i64(tc_emit *e, int64_t value)
{
    return LLVMConstInt(e->i64, (uint64_t)value, true);
}

bool tc_is_vector(LLVMValueRef v)
{
    return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}

static LLVMTypeRef scalar_type_of(LLVMValueRef v)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

static LLVMValueRef const_splat(LLVMValueRef constant, LLVMValueRef like)
{
    if (!tc_is_vector(like))
        return constant;
    LLVMValueRef all[256];
    unsigned n = LLVMGetVectorSize(LLVMTypeOf(like));
    for (unsigned i = 0; i < n; i++)
        all[i] = constant;
    return LLVMConstVector(all, n);
}

LLVMValueRef tc_int_like(LLVMValueRef like, int64_t value)
{
    LLVMTypeRef t = scalar_type_of(like);
    unsigned bits = LLVMGetIntTypeWidth(t);
    uint64_t low =
        bits < 64 ? (uint64_t)value & ((1ull << bits) - 1) : (uint64_t)value;
    return const_splat(LLVMConstInt(t, low, false), like);
}

LLVMValueRef tc_float_like(LLVMValueRef like, double value)
{
    return const_splat(LLVMConstReal(scalar_type_of(like), value), like);
}

LLVMValueRef tc_splat(tc_emit *e, LLVMValueRef v, unsigned width)
{
    if (width == 1 || tc_is_vector(v))
        return v;
    LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(v), width);
    if (LLVMIsConstant(v) && !LLVMIsUndef(v)) {
        LLVMValueRef like = LLVMConstNull(t);
        return const_splat(v, like);
    }
    LLVMValueRef undef = LLVMGetPoison(t);
    LLVMValueRef one = LLVMBuildInsertElement(e->b, undef, v, tc_i64(e, 0), "");
    LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(e->i32, width));
    return LLVMBuildShuffleVector(e->b, one, undef, zeros, "");
}

LLVMValueRef tc_literal(tc_emit *e, const tc_type *elem, tc_number n)
{
    tc_scalar s = tc_number_value(n, elem->kind);
    LLVMTypeRef t = tc_register_type(e, elem);
    if (tc_scalar_infos[elem->kind].is_float)
        return LLVMConstReal(t, s.f);
    return LLVMConstInt(t, (uint64_t)s.i, true);
}

LLVMValueRef tc_intrinsic(tc_emit *e, const char *name, unsigned ntypes,
                          LLVMTypeRef *types, unsigned nargs,
                          LLVMValueRef *args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, types, ntypes);
    return LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, nargs,
                          "");
}

LLVMBasicBlockRef tc_block_new(tc_emit *e, const char *name)
{
    return LLVMAppendBasicBlockInContext(e->llvm, e->fn, name);
}

void tc_enter(tc_emit *e, LLVMBasicBlockRef to)
{
    LLVMBuildBr(e->b, to);
    LLVMPositionBuilderAtEnd(e->b, to);
}

LLVMValueRef tc_element(tc_emit *e, LLVMTypeRef elem, LLVMValueRef p,
                        LLVMValueRef index)
{
    return LLVMBuildGEP2(e->b, elem, p, &index, 1, "");
}

LLVMValueRef tc_to_i64(tc_emit *e, LLVMValueRef x)
{
    LLVMTypeRef t = tc_is_vector(x)
                        ? tc_vector_of(e->i64, LLVMGetVectorSize(LLVMTypeOf(x)))
                        : e->i64;
    return LLVMTypeOf(x) == t ? x : LLVMBuildSExt(e->b, x, t, "");
}

LLVMValueRef tc_from_memory(tc_emit *e, const tc_type *elem, LLVMValueRef x)
{
    if (tc_kind_is_narrow(elem->kind))
        return tc_llvm_unpack(e->b, elem->kind, x);
    if (elem->kind == TC_I1)
        return LLVMBuildICmp(e->b, LLVMIntNE, x, tc_int_like(x, 0), "");
    return x;
}

LLVMValueRef tc_to_memory(tc_emit *e, const tc_type *elem, LLVMValueRef x)
{
    unsigned width = tc_is_vector(x) ? LLVMGetVectorSize(LLVMTypeOf(x)) : 1;
    if (elem->kind == TC_F8E5M2) {
        /* Its bits are the upper ones of f16. Packing from f32 would saturate
         * infinity, which an element can be (it was loaded, say). */
        x = tc_llvm_pack(e->b, TC_F16, x);
        x = LLVMBuildLShr(e->b, x, tc_int_like(x, 8), "");
        return LLVMBuildTrunc(e->b, x, tc_vector_of(e->i8, width), "");
    }
    if (tc_kind_is_narrow(elem->kind))
        return tc_llvm_pack(e->b, elem->kind, x);
    if (elem->kind != TC_I1)
        return x;
    return LLVMBuildZExt(e->b, x, tc_vector_of(e->i8, width), "");
}

LLVMValueRef tc_rounded(tc_emit *e, const tc_type *elem, LLVMValueRef x)
{
    return tc_kind_is_narrow(elem->kind) ? tc_llvm_round(e->b, elem->kind, x)
                                         : x;
}

/* ---- Scalars ---- */

LLVMValueRef tc_scalar_of(tc_emit *e, const tc_value *v)
{
    return tc_place_of(v)->parts[0];
}

void tc_set_scalar(tc_emit *e, const tc_value *v, LLVMValueRef x)
{
    tc_place *p = tc_place_of(v);
    p->nparts = 1;
    p->parts = tc_arena_array(e->arena, LLVMValueRef, 1);
    p->parts[0] = x;
}

static LLVMValueRef grid_axis(const tc_op *op, LLVMValueRef *axes)
{
    return axes[tc_op_int(op, "axis")];
}

/* The value of a scalar op that is no op on lanes; NULL: it is one. */
static LLVMValueRef leaf_scalar(tc_emit *e, const tc_op *op)
{
    switch (op->code) {
    case TC_CONST:
        return tc_literal(e, op->out[0]->type, tc_op_attr(op, "value")->number);
    case TC_DIM: return tc_i32(e, tc_op_attr(op, "value")->dims[0]->value);
    case TC_PROGRAM_ID: return grid_axis(op, e->pid);
    case TC_NUM_PROGRAMS: return grid_axis(op, e->grid);
    case TC_SIZE:
        return LLVMBuildTrunc(
            e->b, tc_tensor_size(op->in[0], (unsigned)tc_op_int(op, "dim")),
            e->i32, "");
    case TC_STRIDE:
        return tc_tensor_stride(op->in[0], (unsigned)tc_op_int(op, "dim"));
    case TC_BASE: return tc_tensor_base(op->in[0]);
    default: return NULL;
    }
}

LLVMValueRef tc_emit_scalar(tc_emit *e, const tc_op *op, LLVMValueRef *in)
{
    LLVMValueRef x = leaf_scalar(e, op);
    return x ? x : tc_emit_lanes(e, op, in);
}

static void no_code(tc_emit *e, const tc_op *op)
{
    tc_error(e->cx, op->loc, "%s: the CPU target has no code for this op",
             tc_op_name(op));
    e->failed = true;
}

static void emit_scalar(tc_emit *e, tc_op *op)
{
    if (!tc_type_is_scalar(op->out[0]->type)) {
        tc_emit_view(e, op);
        return;
    }
    LLVMValueRef in[4] = {0};
    for (unsigned i = 0; i < op->nin && i < 4; i++)
        if (tc_type_is_scalar(op->in[i]->type))
            in[i] = tc_scalar_of(e, op->in[i]);
    LLVMValueRef x = tc_emit_scalar(e, op, in);
    if (x)
        tc_set_scalar(e, op->out[0], x);
    else
        no_code(e, op);
}

/* ---- Items ---- */

typedef void emit_fn(tc_emit *e, tc_op *op);

/* Terminators of `if` and loops: the emitters of those ops handle them. */
static void emit_nothing(tc_emit *e, tc_op *op) {}

static emit_fn *const emitters[TC_OPCODE_COUNT] = {
    [TC_FOR] = tc_emit_for,
    [TC_IF] = tc_emit_if,
    [TC_WHILE] = tc_emit_while,
    [TC_YIELD] = emit_nothing,
    [TC_CONDITION] = emit_nothing,
    [TC_RETURN] = emit_nothing,
    [TC_DOT] = tc_emit_dot_op,
    [TC_TRANS] = tc_emit_trans_op,
    [TC_SLICE] = tc_emit_slice,
    [TC_JOIN] = tc_emit_join,
    [TC_INTERLEAVE] = tc_emit_join,
    [TC_TAKE] = tc_emit_take,
    [TC_HISTOGRAM] = tc_emit_histogram,
    [TC_REDUCE] = tc_emit_region_reduce,
    [TC_SCAN] = tc_emit_scan,
    [TC_LOAD] = tc_emit_load,
    [TC_STORE] = tc_emit_store,
    [TC_GATHER] = tc_emit_gather,
    [TC_ATOMIC] = tc_emit_atomic,
    [TC_ATOMIC_CAS] = tc_emit_atomic,
    [TC_FOLLOW] = tc_emit_follow,
    [TC_FOLLOW_END] = tc_emit_follow,
    [TC_ASSERT] = tc_emit_assert,
    [TC_PRINT] = tc_emit_print,
    [TC_ASSUME] = tc_emit_assume,
    [TC_EXIT_IF] = tc_emit_exit_if,
};

static void emit_op(tc_emit *e, tc_op *op)
{
    if (emitters[op->code])
        emitters[op->code](e, op);
    else
        no_code(e, op);
}

static void count_item(tc_emit *e, const tc_item *item)
{
    for (unsigned j = 0; j < item->nroots && !e->failed; j++)
        e->failed = !tc_code_size_take(&e->size, item->roots[j], e->arena);
    for (unsigned j = 0; j < item->nscalars && !e->failed; j++)
        e->failed = !tc_code_size_take(&e->size, item->scalars[j], e->arena);
}

void tc_emit_schedule(tc_emit *e, const tc_host_schedule *list)
{
    for (unsigned i = 0; i < list->nitems && !e->failed; i++) {
        const tc_item *item = list->items[i];
        if (item->kind == TC_ITEM_NEST)
            tc_emit_nest(e, item);
        else if (item->kind == TC_ITEM_OP)
            emit_op(e, item->roots[0]);
        for (unsigned j = 0; j < item->nscalars && !e->failed; j++)
            emit_scalar(e, item->scalars[j]);
        if (!e->failed)
            count_item(e, item);
    }
}

/* ---- The function ---- */

static void set_types(tc_emit *e)
{
    e->i1 = LLVMInt1TypeInContext(e->llvm);
    e->i8 = LLVMInt8TypeInContext(e->llvm);
    e->i16 = LLVMInt16TypeInContext(e->llvm);
    e->i32 = LLVMInt32TypeInContext(e->llvm);
    e->i64 = LLVMInt64TypeInContext(e->llvm);
    e->f32 = LLVMFloatTypeInContext(e->llvm);
    e->f64 = LLVMDoubleTypeInContext(e->llvm);
    e->ptr = LLVMPointerTypeInContext(e->llvm, 0);
    e->none = LLVMVoidTypeInContext(e->llvm);
}

static void create_function(tc_emit *e)
{
    LLVMTypeRef params[] = {e->ptr, e->ptr, e->i32, e->i32, e->i32,
                            e->i32, e->i32, e->i32, e->ptr};
    LLVMTypeRef type = LLVMFunctionType(e->none, params, 9, false);
    e->fn = LLVMAddFunction(e->module, "kernel", type);
    tc_function_prepare(e, e->fn);
    /* No other pointer reaches the thread's scratch memory. */
    unsigned noalias = LLVMGetEnumAttributeKindForName("noalias", 7);
    LLVMAddAttributeAtIndex(e->fn, 2,
                            LLVMCreateEnumAttribute(e->llvm, noalias, 0));
    e->args = LLVMGetParam(e->fn, 0);
    e->scratch = LLVMGetParam(e->fn, 1);
    for (unsigned i = 0; i < 3; i++) {
        e->pid[i] = LLVMGetParam(e->fn, 2 + i);
        e->grid[i] = LLVMGetParam(e->fn, 5 + i);
    }
    e->thread = LLVMGetParam(e->fn, 8);
    LLVMPositionBuilderAtEnd(e->b, tc_block_new(e, "entry"));
}

static LLVMValueRef load_word(tc_emit *e, unsigned *word, LLVMTypeRef type)
{
    LLVMValueRef p = tc_element(e, e->i64, e->args, tc_i64(e, (*word)++));
    return LLVMBuildLoad2(e->b, type, p, "");
}

static LLVMValueRef load_scalar(tc_emit *e, unsigned *word, const tc_type *t)
{
    if (t->kind == TC_PTR)
        return load_word(e, word, e->ptr);
    LLVMTypeRef type = tc_register_type(e, t);
    if (!tc_scalar_infos[t->kind].is_float)
        return LLVMBuildTruncOrBitCast(e->b, load_word(e, word, e->i64), type,
                                       "");
    LLVMValueRef x = load_word(e, word, e->f64);
    return t->kind == TC_F64 ? x : LLVMBuildFPTrunc(e->b, x, type, "");
}

static void load_args(tc_emit *e)
{
    unsigned word = 0;
    const tc_region *body = e->plan->kernel->body;
    for (unsigned i = 0; i < body->nargs; i++) {
        const tc_value *v = body->args[i];
        if (v->type->kind != TC_TENSOR) {
            tc_set_scalar(e, v, load_scalar(e, &word, v->type));
            continue;
        }
        tc_place *p = tc_place_of(v);
        p->nparts = 1 + 2 * v->type->rank;
        p->parts = tc_arena_array(e->arena, LLVMValueRef, p->nparts);
        for (unsigned j = 0; j < p->nparts; j++)
            p->parts[j] = load_word(e, &word, j ? e->i64 : e->ptr);
    }
}

bool tc_emit_kernel(tc_emit *e)
{
    set_types(e);
    e->size = (tc_code_size){
        .kernel = e->plan->kernel,
        .module = e->module,
        .remedy = "make it several kernels, or loops over parts of tiles"};
    create_function(e);
    load_args(e);
    tc_emit_schedule(e, e->plan->body);
    if (!e->failed)
        LLVMBuildRetVoid(e->b);
    return !e->failed;
}
