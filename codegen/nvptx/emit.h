/* SPDX-License-Identifier: Apache-2.0
 *
 * From one kernel at machine level to an LLVM function: what the emitters
 * share. An emitter is a function in the table by opcode (emit.c); each family
 * has a file.
 *
 *   emit.c      function, parameters, the table, control flow, locations
 *   lanes.c     where a thread's elements are: coordinates, offsets, owners
 *   arith.c math.c convert.c    elementwise ops, register by register
 *   memory.c    loads, stores, gathers, atomics in global memory
 *   reduce.c    reductions within a thread and a warp
 *   shape.c     splat, range, broadcast, trans, reshape
 *   shared.c    shared memory, ldmatrix, stmatrix, layout conversions
 *   async.c     cp.async, barriers
 *   mma.c       matrix products
 *
 * A scalar is one LLVM value, the same in all threads. A tile is an array of
 * LLVM values, one for each register index of its layout, in that order: i1 as
 * i1, floats as half, bfloat, float, double; fp8 as i8; pointers in address
 * space 1. A buffer in shared memory is an i32, the byte offset of its first
 * byte in the block's shared memory (the kernel's dynamic segment).
 */
#ifndef TC_NVPTX_EMIT_H
#define TC_NVPTX_EMIT_H

#include "codegen/nvptx/nvptx.h"
#include "ir/layout.h"
#include "ir/map.h"

#include <llvm-c/Core.h>

typedef struct tc_gen {
    tc_context *cx;
    tc_arena *arena; /* of this compile */
    const tc_target *target;
    const tc_func *f;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef fn;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, bf16, f32, f64, ptr1, ptr3;
    LLVMValueRef lane, warp; /* i32, set at the entry */
    LLVMValueRef shared;     /* ptr3: the dynamic segment */
    LLVMValueRef report;     /* ptr1 of tc_device_report; NULL: none */
    tc_map values;           /* tc_value * -> LLVMValueRef * */
    bool failed;             /* reported */
} tc_gen;

typedef bool tc_emit_fn(tc_gen *g, const tc_op *op);

/* The registers of a value: 1 of a scalar or buffer, else one each of the
 * layout. The array belongs to the value. */
LLVMValueRef *tc_gen_get(tc_gen *g, const tc_value *v);
LLVMValueRef tc_gen_scalar(tc_gen *g, const tc_value *v);
/* Room for the registers of a result, to be filled in. */
LLVMValueRef *tc_gen_set(tc_gen *g, const tc_value *v);
unsigned tc_gen_registers(const tc_type *t);
/* The LLVM type of one register of an element type. */
LLVMTypeRef tc_gen_type(tc_gen *g, const tc_type *elem);
LLVMValueRef tc_gen_i32(tc_gen *g, int64_t value);
LLVMValueRef tc_gen_i64(tc_gen *g, int64_t value);
/* A call of `llvm.NAME` with these overload types. Reports, and gives undef,
 * where LLVM has no such intrinsic. */
LLVMValueRef tc_gen_intrinsic(tc_gen *g, const char *name, unsigned ntypes,
                              LLVMTypeRef *types, unsigned nargs,
                              LLVMValueRef *args);
/* Inline assembly, convergent and with side effects. */
LLVMValueRef tc_gen_asm(tc_gen *g, LLVMTypeRef result, const char *text,
                        const char *constraints, unsigned nargs,
                        LLVMValueRef *args);

/* lanes.c. A linear map from (register, lane, warp) to one output coordinate,
 * split into what depends on the thread (emitted once) and what is constant. */
typedef struct tc_lanes {
    const tc_layout *layout;
    unsigned axis;
    LLVMValueRef thread; /* i32: xor/sum of the lane's and warp's images */
    /* Bits below the period that the thread's part may have set: where a
     * register's bits are disjoint from them, xor is add. */
    uint32_t thread_bits;
} tc_lanes;
tc_lanes tc_lanes_get(tc_gen *g, const tc_layout *l, unsigned axis);
/* The coordinate of register r: i32. */
LLVMValueRef tc_lanes_at(tc_gen *g, const tc_lanes *lanes, uint32_t r);
/* The part of register r alone; *add says whether it may be added to the
 * thread's part (else: xor). */
uint32_t tc_lanes_constant(const tc_lanes *lanes, uint32_t r, bool *add);
/* i1: this thread holds the first copy of its elements (all lane and warp bits
 * that are broadcasts are 0); NULL: always. */
LLVMValueRef tc_lanes_owner(tc_gen *g, const tc_layout *l);

/* Emits the ops of a region, but for its terminator. */
bool tc_emit_region(tc_gen *g, const tc_region *r) TC_MUST_CHECK;

tc_emit_fn tc_emit_elementwise, tc_emit_const, tc_emit_dim, tc_emit_size,
    tc_emit_program_id, tc_emit_cast, tc_emit_load, tc_emit_store,
    tc_emit_gather, tc_emit_atomic, tc_emit_block, tc_emit_advance,
    tc_emit_splat, tc_emit_range, tc_emit_expand_dims, tc_emit_broadcast,
    tc_emit_trans, tc_emit_reshape, tc_emit_reduce, tc_emit_for, tc_emit_if,
    tc_emit_while, tc_emit_assert, tc_emit_print;
tc_emit_fn tc_emit_mma, tc_emit_smem_alloc, tc_emit_smem_index,
    tc_emit_smem_trans, tc_emit_smem_load, tc_emit_smem_store,
    tc_emit_async_copy, tc_emit_async_commit, tc_emit_async_wait,
    tc_emit_barrier, tc_emit_convert_layout;

/* A block pointer in use: base address and, for each of the tile's axes, its
 * tensor dim's size, stride and offset (memory.c). */
typedef struct tc_gen_block {
    LLVMValueRef base;   /* ptr1: data plus all dropped dims' offsets */
    LLVMValueRef inside; /* i1: the dropped dims' offsets are in the tensor */
    unsigned rank;
    LLVMValueRef offset[TC_MAX_RANK]; /* i32 */
    LLVMValueRef size[TC_MAX_RANK];   /* i32 */
    LLVMValueRef stride[TC_MAX_RANK]; /* i64, elements */
    bool unit[TC_MAX_RANK]; /* the stride is 1 whenever `vector` says so */
} tc_gen_block;
tc_gen_block tc_gen_block_of(tc_gen *g, const tc_value *v);

#endif
