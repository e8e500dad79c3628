/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel as an LLVM function: values, the table of emitters, the entry
 * block, which computes the values that depend on the thread.
 */
#include "codegen/nvptx/emit.h"

#include "ir/eval/eval.h"

#include <stdarg.h>
#include <string.h>

/* ---- Types, constants, calls ---- */

LLVMTypeRef tc_gen_type(tc_gen *g, const tc_type *elem)
{
    switch (elem->kind) {
    case TC_I1: return g->i1;
    case TC_I8:
    case TC_F8E4M3:
    case TC_F8E5M2: return g->i8;
    case TC_I16: return g->i16;
    case TC_I32: return g->i32;
    case TC_I64: return g->i64;
    case TC_F16: return g->f16;
    case TC_BF16: return g->bf16;
    case TC_F32: return g->f32;
    case TC_F64: return g->f64;
    default: return g->ptr1;
    }
}

LLVMValueRef tc_gen_i32(tc_gen *g, int64_t value)
{
    return LLVMConstInt(g->i32, (uint64_t)value & UINT32_MAX, false);
}

LLVMValueRef tc_gen_i64(tc_gen *g, int64_t value)
{
    return LLVMConstInt(g->i64, (uint64_t)value, false);
}

LLVMValueRef tc_gen_literal(tc_gen *g, const tc_type *elem, tc_number n)
{
    LLVMTypeRef type = tc_gen_type(g, elem);
    if (elem->kind == TC_PTR)
        return LLVMConstNull(type);
    tc_scalar x = tc_number_value(n, elem->kind);
    if (tc_kind_is_f8(elem->kind))
        return LLVMConstInt(type, tc_float_to_bits(elem->kind, x.f), false);
    if (tc_scalar_infos[elem->kind].is_float)
        return LLVMConstReal(type, x.f);
    unsigned unused = 64 - tc_scalar_infos[elem->kind].bits;
    return LLVMConstInt(type, (uint64_t)x.i << unused >> unused, false);
}

bool tc_gen_error(tc_gen *g, const tc_op *op, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *what = tc_arena_vprintf(g->arena, fmt, args);
    va_end(args);
    g->failed = true;
    return tc_error(g->cx, op ? op->loc : g->f->loc, "%s: %s",
                    op ? tc_op_name(op) : "kernel", what);
}

LLVMValueRef tc_gen_intrinsic(tc_gen *g, const char *name, unsigned ntypes,
                              LLVMTypeRef *types, unsigned nargs,
                              LLVMValueRef *args)
{
    name = tc_arena_printf(g->arena, "llvm.%s", name);
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) {
        tc_gen_error(g, NULL, "this LLVM has no %s", name);
        return LLVMGetUndef(ntypes ? types[0] : g->i32);
    }
    if (!LLVMIntrinsicIsOverloaded(id))
        ntypes = 0;
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->module, id, types, ntypes);
    LLVMTypeRef type = LLVMIntrinsicGetType(g->llvm, id, types, ntypes);
    return LLVMBuildCall2(g->b, type, fn, args, nargs, "");
}

static void call_attribute(tc_gen *g, LLVMValueRef call, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call,
                             (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(g->llvm, kind, 0));
}

LLVMValueRef tc_gen_convergent(tc_gen *g, const char *name, unsigned nargs,
                               LLVMValueRef *args)
{
    LLVMValueRef call = tc_gen_intrinsic(g, name, 0, NULL, nargs, args);
    if (!g->failed)
        call_attribute(g, call, "convergent");
    return call;
}

static LLVMValueRef call_asm(tc_gen *g, LLVMTypeRef result, const char *text,
                             const char *constraints, bool has_effects,
                             unsigned nargs, LLVMValueRef *args)
{
    LLVMTypeRef *types = tc_arena_array(g->arena, LLVMTypeRef, nargs + 1);
    for (unsigned i = 0; i < nargs; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(result, types, nargs, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints,
                                         strlen(constraints), has_effects,
                                         false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef call = LLVMBuildCall2(g->b, type, code, args, nargs, "");
    call_attribute(g, call, has_effects ? "convergent" : "memory");
    call_attribute(g, call, "nounwind");
    return call;
}

LLVMValueRef tc_gen_asm(tc_gen *g, LLVMTypeRef result, const char *text,
                        const char *constraints, unsigned nargs,
                        LLVMValueRef *args)
{
    return call_asm(g, result, text, constraints, true, nargs, args);
}

LLVMValueRef tc_gen_pure_asm(tc_gen *g, LLVMTypeRef result, const char *text,
                             const char *constraints, unsigned nargs,
                             LLVMValueRef *args)
{
    return call_asm(g, result, text, constraints, false, nargs, args);
}

LLVMBasicBlockRef tc_gen_block_new(tc_gen *g, const char *name)
{
    return LLVMAppendBasicBlockInContext(g->llvm, g->fn, name);
}

void tc_gen_enter(tc_gen *g, LLVMBasicBlockRef to)
{
    LLVMBuildBr(g->b, to);
    LLVMPositionBuilderAtEnd(g->b, to);
}

LLVMValueRef tc_gen_first_thread(tc_gen *g)
{
    if (g->role == TC_ROLE_PRODUCER)
        return LLVMConstInt(g->i1, 1, false);
    LLVMValueRef all = LLVMBuildOr(g->b, g->lane, g->warp, "");
    return LLVMBuildICmp(g->b, LLVMIntEQ, all, tc_gen_i32(g, 0), "");
}

LLVMValueRef tc_gen_address(tc_gen *g, const tc_type *elem, LLVMValueRef p,
                            LLVMValueRef index)
{
    LLVMTypeRef unit = LLVMArrayType2(g->i8, tc_type_bytes(elem));
    return LLVMBuildGEP2(g->b, unit, p, &index, 1, "");
}

/* ---- Values ---- */

unsigned tc_gen_registers(const tc_type *t)
{
    if (t->kind == TC_TENSOR)
        return 1 + 2 * t->rank;
    return t->kind == TC_TILE ? tc_layout_size(t->layout, TC_REGISTER) : 1;
}

unsigned tc_gen_parts(const tc_value *v)
{
    if (v->type->kind == TC_BLOCK_PTR)
        return tc_block_of(v)->nin - 1;
    return tc_gen_registers(v->type);
}

LLVMValueRef *tc_gen_get(tc_gen *g, const tc_value *v)
{
    LLVMValueRef *regs = tc_map_get(&g->values, v);
    if (regs)
        return regs;
    tc_gen_error(g, v->def, "%s has no registers", tc_value_name(g->cx, v));
    regs = tc_gen_set(g, v);
    for (unsigned i = 0; i < tc_gen_parts(v); i++)
        regs[i] = LLVMGetUndef(v->type->kind == TC_SMEM
                                   ? g->i32
                                   : tc_gen_type(g, tc_type_elem(v->type)));
    return regs;
}

LLVMValueRef tc_gen_scalar(tc_gen *g, const tc_value *v)
{
    return tc_gen_get(g, v)[0];
}

LLVMValueRef *tc_gen_set(tc_gen *g, const tc_value *v)
{
    LLVMValueRef *regs =
        tc_arena_array(g->arena, LLVMValueRef, tc_gen_parts(v));
    tc_map_set(&g->values, v, regs);
    return regs;
}

/* ---- Scalars of the launch ---- */

bool tc_nvptx_const(tc_gen *g, const tc_op *op)
{
    *tc_gen_set(g, op->out[0]) =
        tc_gen_literal(g, op->out[0]->type, tc_op_attr(op, "value")->number);
    return true;
}

bool tc_nvptx_dim(tc_gen *g, const tc_op *op)
{
    int64_t value = tc_dim_value(tc_op_attr(op, "value")->dims[0]);
    *tc_gen_set(g, op->out[0]) = tc_gen_i32(g, value);
    return true;
}

static bool special_register(tc_gen *g, const tc_op *op, const char *name)
{
    name = tc_arena_printf(g->arena, "nvvm.read.ptx.sreg.%s.%c", name,
                           "xyz"[tc_op_int(op, "axis")]);
    *tc_gen_set(g, op->out[0]) = tc_gen_intrinsic(g, name, 0, NULL, 0, NULL);
    return true;
}

bool tc_nvptx_program_id(tc_gen *g, const tc_op *op)
{
    return special_register(g, op, "ctaid");
}

bool tc_nvptx_num_programs(tc_gen *g, const tc_op *op)
{
    return special_register(g, op, "nctaid");
}

bool tc_nvptx_size(tc_gen *g, const tc_op *op)
{
    *tc_gen_set(g, op->out[0]) =
        tc_gen_get(g, op->in[0])[1 + tc_op_int(op, "dim")];
    return true;
}

bool tc_nvptx_stride(tc_gen *g, const tc_op *op)
{
    unsigned rank = op->in[0]->type->rank;
    *tc_gen_set(g, op->out[0]) =
        tc_gen_get(g, op->in[0])[1 + rank + tc_op_int(op, "dim")];
    return true;
}

bool tc_nvptx_base(tc_gen *g, const tc_op *op)
{
    *tc_gen_set(g, op->out[0]) = tc_gen_get(g, op->in[0])[0];
    return true;
}

/* ---- The table ---- */

static tc_nvptx_fn *const emitters[TC_OPCODE_COUNT] = {
    [TC_FOR] = tc_nvptx_for,
    [TC_IF] = tc_nvptx_if,
    [TC_WHILE] = tc_nvptx_while,
    [TC_CONST] = tc_nvptx_const,
    [TC_DIM] = tc_nvptx_dim,
    [TC_PROGRAM_ID] = tc_nvptx_program_id,
    [TC_NUM_PROGRAMS] = tc_nvptx_num_programs,
    [TC_SIZE] = tc_nvptx_size,
    [TC_STRIDE] = tc_nvptx_stride,
    [TC_BASE] = tc_nvptx_base,
    [TC_MAKE_TENSOR] = tc_nvptx_make_tensor,
    [TC_BLOCK] = tc_nvptx_block,
    [TC_ADVANCE] = tc_nvptx_advance,
    [TC_LOAD] = tc_nvptx_load,
    [TC_STORE] = tc_nvptx_store,
    [TC_GATHER] = tc_nvptx_gather,
    [TC_ATOMIC] = tc_nvptx_atomic,
    [TC_ATOMIC_CAS] = tc_nvptx_atomic,
    [TC_FOLLOW] = tc_nvptx_follow,
    [TC_FOLLOW_END] = tc_nvptx_follow,
    [TC_SPLAT] = tc_nvptx_splat,
    [TC_RANGE] = tc_nvptx_range,
    [TC_RAMP] = tc_nvptx_ramp,
    [TC_EXPAND_DIMS] = tc_nvptx_expand_dims,
    [TC_BROADCAST] = tc_nvptx_broadcast,
    [TC_TRANS] = tc_nvptx_trans,
    [TC_RESHAPE] = tc_nvptx_reshape,
    [TC_SLICE] = tc_nvptx_parts,
    [TC_JOIN] = tc_nvptx_parts,
    [TC_INTERLEAVE] = tc_nvptx_parts,
    [TC_REDUCE] = tc_nvptx_reduce,
    [TC_SCAN] = tc_nvptx_scan,
    [TC_SCAN_CARRY] = tc_nvptx_scan_carry,
    [TC_CAST] = tc_nvptx_cast,
    [TC_ASSERT] = tc_nvptx_assert,
    [TC_EXIT_IF] = tc_nvptx_exit_if,
    [TC_PRINT] = tc_nvptx_print,
    [TC_ASSUME] = tc_nvptx_assume,
    [TC_CONVERT_LAYOUT] = tc_nvptx_convert_layout,
    [TC_MMA] = tc_nvptx_mma,
    [TC_MMA_WAIT] = tc_nvptx_mma_wait,
    [TC_SMEM_ALLOC] = tc_nvptx_smem_alloc,
    [TC_SMEM_INDEX] = tc_nvptx_smem_index,
    [TC_SMEM_TRANS] = tc_nvptx_smem_trans,
    [TC_SMEM_RESHAPE] = tc_nvptx_smem_trans,
    [TC_SMEM_SLICE] = tc_nvptx_smem_slice,
    [TC_SMEM_LOAD] = tc_nvptx_smem_load,
    [TC_SMEM_TAKE] = tc_nvptx_smem_take,
    [TC_SMEM_COUNT] = tc_nvptx_smem_count,
    [TC_SMEM_STORE] = tc_nvptx_smem_store,
    [TC_SMEM_COPY] = tc_nvptx_smem_copy,
    [TC_ASYNC_COPY] = tc_nvptx_async_copy,
    [TC_ASYNC_COMMIT] = tc_nvptx_async_commit,
    [TC_ASYNC_WAIT] = tc_nvptx_async_wait,
    [TC_BARRIER] = tc_nvptx_barrier,
    [TC_WARP_GROUPS] = tc_nvptx_warp_groups,
    [TC_MBARRIER_ALLOC] = tc_nvptx_mbarrier_alloc,
    [TC_MBARRIER_WAIT] = tc_nvptx_mbarrier_wait,
    [TC_MBARRIER_ARRIVE] = tc_nvptx_mbarrier_arrive,
    [TC_TMA_LOAD] = tc_nvptx_tma_load,
    [TC_TMA_PREFETCH] = tc_nvptx_tma_prefetch,
    [TC_TMA_STORE] = tc_nvptx_tma_store,
    [TC_TMA_STORE_WAIT] = tc_nvptx_tma_store_wait,
    [TC_MARK] = tc_nvptx_mark,
    [TC_WARPGROUP_ROW] = tc_nvptx_warpgroup_row,
    [TC_ORDER_WAIT] = tc_nvptx_order_wait,
    [TC_ORDER_ARRIVE] = tc_nvptx_order_arrive,
    [TC_FENCE_ASYNC] = tc_nvptx_fence_async,
    [TC_SMEM_STORE_SCALAR] = tc_nvptx_smem_store_scalar,
    [TC_SMEM_LOAD_SCALAR] = tc_nvptx_smem_load_scalar,
    [TC_NEXT_TILE] = tc_nvptx_next_tile,
    [TC_END_TILES] = tc_nvptx_end_tiles,
};

static tc_nvptx_fn *emitter_of(tc_opcode code)
{
    if (emitters[code])
        return emitters[code];
    return tc_op_infos[code].traits & TC_ELEMENTWISE ? tc_nvptx_elementwise
                                                     : NULL;
}

bool tc_gen_has_emitter(tc_opcode code)
{
    return emitter_of(code) != NULL;
}

/* The kernels of a stream before this one end; the one after it may start. With
 * roles it may not: a program has a multiprocessor, and small ones of the next
 * kernel would fill those that are free first, and leave the others idle. A
 * block of its own: LLVM moves no load of the body before it. */
void tc_gen_wait_for_stream(tc_gen *g)
{
    static const char *const steps[] = {"griddepcontrol.wait;",
                                        "griddepcontrol.launch_dependents;"};
    for (int i = 0; i < (g->groups ? 1 : 2); i++)
        tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), steps[i], "~{memory}", 0,
                   NULL);
    LLVMBasicBlockRef body = tc_gen_block_new(g, "body");
    LLVMBuildBr(g->b, body);
    LLVMPositionBuilderAtEnd(g->b, body);
}

/* The body's mbarriers from op on, and the tensor maps: they are of no kernel
 * before this one. */
static bool prepare(tc_gen *g, const tc_op *op)
{
    tc_gen_prefetch_maps(g, tc_gen_first_thread(g));
    for (; op; op = op->next)
        if (op->code == TC_MBARRIER_ALLOC && !tc_nvptx_mbarrier_alloc(g, op))
            return false;
    g->is_prepared = true;
    return true;
}

static bool is_prepared(const tc_gen *g, const tc_op *op)
{
    return g->is_prepared && op->code == TC_MBARRIER_ALLOC &&
           op->parent == g->f->body;
}

bool tc_nvptx_region(tc_gen *g, const tc_region *r)
{
    tc_each_op (op, r) {
        if (tc_op_has(op, TC_TERMINATOR))
            break;
        tc_nvptx_fn *emit = emitter_of(op->code);
        if (!emit)
            return tc_gen_error(g, op, "it should be gone before code is made");
        tc_gen_locate(g, op->loc);
        if (is_prepared(g, op))
            continue;
        if (op == g->waits_before && op->code != TC_WARP_GROUPS) {
            if (!prepare(g, op))
                return false;
            tc_gen_wait_for_stream(g);
        }
        if (!emit(g, op) || g->failed ||
            !tc_code_size_take(&g->size, op, g->arena))
            return false;
    }
    return true;
}

/* ---- The function ---- */

static void init_types(tc_gen *g)
{
    LLVMContextRef cx = g->llvm;
    g->i1 = LLVMInt1TypeInContext(cx);
    g->i8 = LLVMInt8TypeInContext(cx);
    g->i16 = LLVMInt16TypeInContext(cx);
    g->i32 = LLVMInt32TypeInContext(cx);
    g->i64 = LLVMInt64TypeInContext(cx);
    g->f16 = LLVMHalfTypeInContext(cx);
    g->bf16 = LLVMBFloatTypeInContext(cx);
    g->f32 = LLVMFloatTypeInContext(cx);
    g->f64 = LLVMDoubleTypeInContext(cx);
    g->ptr1 = LLVMPointerTypeInContext(cx, 1);
}

/* Code that depends on the thread alone goes into this block, the code that
 * follows into another one. */
static void begin_entry(tc_gen *g, LLVMValueRef thread)
{
    LLVMBasicBlockRef body = tc_gen_block_new(g, "body");
    g->coords = tc_arena_new(g->arena, tc_map);
    *g->coords = (tc_map){.arena = g->arena};
    g->group = NULL;
    g->lane = LLVMBuildAnd(g->b, thread, tc_gen_i32(g, 31), "lane");
    g->warp = g->f->warps == 1
                  ? tc_gen_i32(g, 0)
                  : LLVMBuildLShr(g->b, thread, tc_gen_i32(g, 5), "warp");
    LLVMValueRef end = LLVMBuildBr(g->b, body);
    LLVMPositionBuilderBefore(g->entry, end);
    LLVMSetCurrentDebugLocation2(g->entry, LLVMGetCurrentDebugLocation2(g->b));
    LLVMPositionBuilderAtEnd(g->b, body);
}

/* After a reduction it is in a register of the whole warp, as descriptors have
 * to be; after a shuffle each use would move it there. */
static LLVMValueRef build_group(tc_gen *g)
{
    LLVMValueRef group = LLVMBuildLShr(g->b, g->warp, tc_gen_i32(g, 2), "");
    LLVMValueRef reduced[] = {group, tc_gen_i32(g, -1)};
    return tc_gen_intrinsic(g, "nvvm.redux.sync.or", 0, NULL, 2, reduced);
}

LLVMValueRef tc_gen_warp_group(tc_gen *g)
{
    LLVMBuilderRef b = g->b;
    if (g->group || g->f->warps <= TC_WARPGROUP_WARPS)
        return g->group ? g->group : tc_gen_i32(g, 0);
    g->b = g->entry;
    g->group = build_group(g);
    g->b = b;
    return g->group;
}

static void enter_function(tc_gen *g)
{
    LLVMPositionBuilderAtEnd(g->b, tc_gen_block_new(g, "entry"));
    tc_gen_locate(g, g->f->loc);
    tc_gen_declare_marks(g);
    begin_entry(
        g, tc_gen_intrinsic(g, "nvvm.read.ptx.sreg.tid.x", 0, NULL, 0, NULL));
}

tc_phase tc_gen_phase(tc_gen *g)
{
    unsigned n = g->f->body->nargs;
    tc_phase p = {.block = LLVMGetInsertBlock(g->entry),
                  .coords = g->coords,
                  .lane = g->lane,
                  .warp = g->warp,
                  .group = g->group,
                  .args = tc_arena_array(g->arena, LLVMValueRef *, n + 1)};
    for (unsigned i = 0; i < n; i++)
        p.args[i] = tc_gen_get(g, g->f->body->args[i]);
    return p;
}

void tc_gen_resume(tc_gen *g, const tc_phase *p)
{
    if (g->coords == p->coords)
        return;
    g->coords = p->coords;
    g->lane = p->lane;
    g->warp = p->warp;
    g->group = p->group;
    for (unsigned i = 0; i < g->f->body->nargs; i++)
        tc_map_set(&g->values, g->f->body->args[i], p->args[i]);
    LLVMPositionBuilderBefore(g->entry, LLVMGetBasicBlockTerminator(p->block));
}

LLVMValueRef tc_gen_alloca(tc_gen *g, LLVMTypeRef type)
{
    LLVMBasicBlockRef now = LLVMGetInsertBlock(g->entry);
    LLVMBasicBlockRef first = LLVMGetEntryBasicBlock(g->fn);
    LLVMPositionBuilderBefore(g->entry, LLVMGetBasicBlockTerminator(first));
    LLVMValueRef at = LLVMBuildAlloca(g->entry, type, "");
    LLVMPositionBuilderBefore(g->entry, LLVMGetBasicBlockTerminator(now));
    return at;
}

/* A pointer or a stride of which LLVM no longer knows where it is from. */
static LLVMValueRef opaque(tc_gen *g, LLVMValueRef x)
{
    static const char text[] = "mov.b64 $0, $1;", constraints[] = "=l,l";
    if (LLVMIsConstant(x))
        return x;
    LLVMTypeRef t = LLVMTypeOf(x), type = LLVMFunctionType(t, &t, 1, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints,
                                         strlen(constraints), false, false,
                                         LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(g->b, type, code, &x, 1, "");
}

/* If only the base were hidden, products of strides would stay in registers. */
static void forget_tensor(tc_gen *g, const tc_value *v)
{
    LLVMValueRef *known = tc_gen_get(g, v), *x = tc_gen_set(g, v);
    unsigned rank = v->type->rank;
    x[0] = opaque(g, known[0]);
    for (unsigned i = 0; i < rank; i++) {
        x[1 + i] = known[1 + i];
        x[1 + rank + i] = opaque(g, known[1 + rank + i]);
    }
}

void tc_gen_enter_again(tc_gen *g)
{
    const tc_region *body = g->f->body;
    for (unsigned i = 0; i < body->nargs; i++)
        if (body->args[i]->type->kind == TC_TENSOR)
            forget_tensor(g, body->args[i]);
    begin_entry(g, tc_gen_asm(g, g->i32, "mov.u32 $0, %tid.x;", "=r", 0, NULL));
}

/* The block's dynamic segment. 1024: the period of the widest swizzle. */
static void add_shared(tc_gen *g)
{
    LLVMTypeRef type = LLVMArrayType2(g->i8, 0);
    g->shared = LLVMAddGlobalInAddressSpace(g->module, type, "shared", 3);
    LLVMSetLinkage(g->shared, LLVMExternalLinkage);
    LLVMSetAlignment(g->shared, 1024);
    g->shared_bytes = g->f->shared_bytes;
}

bool tc_gen_starts_early(const tc_gen *g)
{
    return g->f->early && g->target->tma;
}

/* What a kernel may do before kernels before it have ended: no memory but the
 * block's own. */
static bool is_own(const tc_op *op)
{
    return op->code == TC_SMEM_ALLOC || op->code == TC_MBARRIER_ALLOC ||
           op->code == TC_BARRIER ||
           (!op->nregions && !tc_op_has(op, TC_READS | TC_WRITES));
}

static void find_wait(tc_gen *g)
{
    const tc_op *op = g->f->body->first;
    while (is_own(op) && !tc_op_has(op, TC_TERMINATOR))
        op = op->next;
    g->waits_before = op;
}

bool tc_gen_kernel(tc_gen *g)
{
    const tc_region *body = g->f->body;
    g->values.arena = g->arena;
    g->size = (tc_code_size){
        .kernel = g->f,
        .module = g->module,
        .weigh = tc_gen_weight,
        .remedy = "a tile is an instruction for each of a thread's registers, "
                  "of which there are 255: choose smaller tiles, more warps, "
                  "or loops over parts of them"};
    if (!tc_code_size_expect(&g->size, g->arena))
        return false;
    g->axes = tc_axis_analyse(g->arena, g->f, g->f->aligned);
    init_types(g);
    add_shared(g);
    if (!tc_gen_function(g))
        return false;
    tc_gen_scopes(g);
    enter_function(g);
    tc_gen_take_params(g);
    if (tc_gen_starts_early(g))
        find_wait(g);
    if (!tc_nvptx_region(g, body))
        return false;
    LLVMBuildRetVoid(g->b);
    return !g->failed;
}
