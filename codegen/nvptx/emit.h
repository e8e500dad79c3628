/* SPDX-License-Identifier: Apache-2.0
 *
 * From one kernel at machine level to an LLVM function: the declarations that
 * the emitters share. An emitter is a function in the table by opcode (emit.c);
 * each family has a file.
 *
 *   ./       emit.c function, values, the table; control.c for, if, while;
 *            block.c block pointers; locations.c lines for profilers; report.c
 *            assert, print; weight.c a lower bound of an op's instructions
 *   math/    elementwise ops, conversions, elementary functions, reductions
 *            within a warp, splat, range, broadcast, trans, reshape
 *   memory/  parameters; loads, stores, gathers and atomics in global memory;
 *            ldmatrix, stmatrix and layout conversions in shared memory
 *   mma/     mma.sync, wgmma, their fragments; the persistent tile scheduler
 *   async/   cp.async, mbarriers, TMA, warp roles, the store warp
 *
 * A scalar is one LLVM value, the same in all threads. A tile is an array of
 * LLVM values, one for each register index of its layout, in that order: i1 as
 * i1, floats as half, bfloat, float, double; fp8 as i8; pointers in address
 * space 1. A buffer in shared memory is an i32, the byte offset of its first
 * byte in the block's shared memory (the kernel's dynamic segment).
 */
#ifndef TC_NVPTX_EMIT_H
#define TC_NVPTX_EMIT_H

#include "codegen/code_size.h"
#include "codegen/nvptx/nvptx.h"
#include "ir/base/map.h"
#include "ir/types/layout.h"
#include "passes/analysis/axis_info.h"
#include "passes/analysis/roles.h"
#include "passes/target/machine_model.h"

#include <llvm-c/Core.h>

/* The threads that run the code being emitted. */
typedef enum tc_role {
    TC_ROLE_ALL,       /* the block's threads */
    TC_ROLE_PRODUCER,  /* one thread */
    TC_ROLE_CONSUMER,  /* the kernel's warps: the first of the block */
    TC_ROLE_TRANSPOSER /* three warps after the producer's */
} tc_role;

typedef struct tc_interleave tc_interleave;
typedef struct tc_counters tc_counters;

typedef struct tc_gen {
    tc_context *cx;
    tc_arena *arena; /* of this compile */
    const tc_target *target;
    const tc_func *f;
    const char *name; /* of the kernel in the PTX; interned */
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMBuilderRef entry; /* the block for code that depends on the thread
                           * alone */
    LLVMValueRef fn;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, bf16, f32, f64, ptr1;
    LLVMValueRef lane, warp; /* i32, set at the entry */
    LLVMValueRef group;      /* i32: tc_gen_warp_group; NULL: not asked for */
    LLVMValueRef shared;     /* the dynamic segment, ptr<3> */
    tc_role role;
    const tc_op *groups;       /* the kernel's warp_groups; NULL: none */
    LLVMValueRef counter;      /* ptr1: of tiles; NULL: none */
    LLVMValueRef report;       /* ptr1 of tc_device_report; NULL: none */
    LLVMValueRef ring;         /* ptr1: tc_profile_ring; NULL: none */
    const tc_op *waits_before; /* for the kernels before this one; NULL: not */
    bool roles_wait;           /* each for itself */
    bool is_prepared;          /* mbarriers and maps, before that wait */
    unsigned nmaps;
    tc_tensor_map maps[TC_MAX_TENSOR_MAPS];
    LLVMValueRef map_params[TC_MAX_TENSOR_MAPS]; /* generic pointers */
    tc_map values;           /* tc_value * -> LLVMValueRef * */
    tc_axis_analysis *axes;  /* how wide accesses may be */
    tc_map *coords;          /* tc_layout * -> tc_coords of its axes */
    LLVMMetadataRef *scopes; /* of locations, one a source; NULL: none */
    unsigned nasserts;       /* so far */
    unsigned shared_bytes;   /* f->shared_bytes and what emitters added */
    const tc_op *sent;       /* an addition after other programs'; NULL: none */
    bool senders;            /* they do it (store_warp.c) */
    unsigned messages;       /* offset of those to them */
    unsigned exchange;       /* 1 + offset of a word a thread; 0: none yet */
    tc_counters *counters;   /* of the `for` around; NULL: none */
    tc_interleave *interleave; /* interleave.c; NULL: there is nothing */
    tc_code_size size;         /* so far */
    bool failed;               /* reported */
} tc_gen;

/* weight.c: at least so many instructions (tc_code_size). */
uint64_t tc_gen_weight(const tc_op *op);

typedef bool tc_nvptx_fn(tc_gen *g, const tc_op *op);

/* The registers of a value: 1 of a scalar or buffer, else one each of the
 * layout. The array belongs to the value. */
LLVMValueRef *tc_gen_get(tc_gen *g, const tc_value *v);
LLVMValueRef tc_gen_scalar(tc_gen *g, const tc_value *v);
/* Room for the registers of a result, to be filled in. */
LLVMValueRef *tc_gen_set(tc_gen *g, const tc_value *v);
unsigned tc_gen_registers(const tc_type *t);
/* Of a value; a block pointer's are its offsets, one a dim of its tensor. */
unsigned tc_gen_parts(const tc_value *v);
/* The LLVM type of one register of an element type. */
LLVMTypeRef tc_gen_type(tc_gen *g, const tc_type *elem);
/* An internal error: the program is valid, but no code can be made of `op`. */
bool tc_gen_error(tc_gen *g, const tc_op *op, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
LLVMValueRef tc_gen_i32(tc_gen *g, int64_t value);
LLVMValueRef tc_gen_i64(tc_gen *g, int64_t value);
/* A call of `llvm.NAME` with these overload types. Reports, and gives undef,
 * where LLVM has no such intrinsic. */
LLVMValueRef tc_gen_intrinsic(tc_gen *g, const char *name, unsigned ntypes,
                              LLVMTypeRef *types, unsigned nargs,
                              LLVMValueRef *args);
/* The same, not overloaded, of threads that come together. */
LLVMValueRef tc_gen_convergent(tc_gen *g, const char *name, unsigned nargs,
                               LLVMValueRef *args);
/* Inline assembly whose result is all that it does. */
LLVMValueRef tc_gen_pure_asm(tc_gen *g, LLVMTypeRef result, const char *text,
                             const char *constraints, unsigned nargs,
                             LLVMValueRef *args);
/* Inline assembly, convergent and with side effects. */
LLVMValueRef tc_gen_asm(tc_gen *g, LLVMTypeRef result, const char *text,
                        const char *constraints, unsigned nargs,
                        LLVMValueRef *args);

/* In the function's first block, where it takes its place for good. */
LLVMValueRef tc_gen_alloca(tc_gen *g, LLVMTypeRef type);
/* Values that depend on the thread's number and on the places of tensors are
 * computed again from here on: after a loop, so that they take no registers in
 * it. */
void tc_gen_enter_again(tc_gen *g);
/* To before the `for` around, where what tc_gen_count takes is computed.
 * False: there is none, or it counts enough. */
bool tc_gen_go_before(tc_gen *g, LLVMBasicBlockRef *here);
/* Back here: a pointer that is `start` in the first step, and `by` bytes
 * further in each one after. */
LLVMValueRef tc_gen_count(tc_gen *g, LLVMBasicBlockRef here, LLVMValueRef start,
                          LLVMValueRef by);
/* The number of the thread's group of four warps: i32, the same in a warp. It
 * is the first lane's, so that ptxas knows that, and what is computed from it
 * takes uniform registers. */
LLVMValueRef tc_gen_warp_group(tc_gen *g);
/* Where that is computed now; after a region in which it was computed again,
 * the code goes back to what was there before. */
typedef struct tc_phase {
    LLVMBasicBlockRef block;
    tc_map *coords;
    LLVMValueRef lane, warp, group, **args;
} tc_phase;
tc_phase tc_gen_phase(tc_gen *g);
void tc_gen_resume(tc_gen *g, const tc_phase *p);

/* coords.c. A linear map from (register, lane, warp) to one output coordinate,
 * split into what depends on the thread (emitted once) and what is constant. */
typedef struct tc_coords {
    const tc_layout *layout;
    unsigned axis;
    LLVMValueRef thread; /* i32: xor/sum of the lane's and warp's images */
    /* Bits below the period that the thread's part may have set: where a
     * register's bits are disjoint from them, xor is add. */
    uint32_t thread_bits;
} tc_coords;
tc_coords tc_coords_get(tc_gen *g, const tc_layout *l, unsigned axis);
/* The coordinate of register r: i32. */
LLVMValueRef tc_coords_at(tc_gen *g, const tc_coords *c, uint32_t r);
/* The part of register r alone; *add says whether it may be added to the
 * thread's part (else: tc_coords_at). */
uint32_t tc_coords_constant(const tc_coords *c, uint32_t r, bool *add);
/* The coordinates of register r in lane 0 of warp 0. */
void tc_coords_first(const tc_layout *l, uint32_t r,
                     int32_t coord[TC_MAX_RANK]);
/* Which register of a layout holds an element, in lane 0 of warp 0 (the first,
 * of several). */
typedef struct tc_held {
    const tc_layout *layout;
    tc_map registers;
} tc_held;
tc_held tc_held_new(tc_gen *g, const tc_layout *l);
int64_t tc_held_find(const tc_held *h,
                     const int32_t coord[TC_MAX_RANK]); /* -1 */
/* i1: this thread holds the first copy of its elements (all lane and warp bits
 * that are broadcasts are 0); NULL: always. */
LLVMValueRef tc_coords_owner(tc_gen *g, const tc_layout *l);
/* The thread (of the block) that holds that first copy: i32. */
LLVMValueRef tc_coords_owning_thread(tc_gen *g, const tc_layout *l);

/* convert.c: an element in registers as float (double of f64), exactly; and
 * back, rounded once. Ints and pointers stay. */
LLVMValueRef tc_gen_widen(tc_gen *g, const tc_type *elem, LLVMValueRef x);
LLVMValueRef tc_gen_narrow(tc_gen *g, const tc_type *elem, LLVMValueRef x);
/* Elements to words of 32 bits and back, the first in the low bits; n elements
 * of 8, 16 or 32 bits that fill them. A register's element as memory has it
 * (i1: a byte, a pointer: i64) and back. */
void tc_gen_pack(tc_gen *g, const tc_type *elem, unsigned n,
                 const LLVMValueRef *x, LLVMValueRef *words);
void tc_gen_unpack(tc_gen *g, const tc_type *elem, unsigned n, LLVMValueRef *x,
                   const LLVMValueRef *words);
LLVMValueRef tc_gen_to_memory(tc_gen *g, const tc_type *elem, LLVMValueRef x);
LLVMValueRef tc_gen_from_memory(tc_gen *g, const tc_type *elem, LLVMValueRef x);
LLVMTypeRef tc_gen_memory_type(tc_gen *g, const tc_type *elem);
/* arith.c: one register of an elementwise op; NULL: no such op. */
LLVMValueRef tc_nvptx_element(tc_gen *g, const tc_op *op, LLVMValueRef *in);
/* positions.c: a comparison with `range`; false: it is none. */
bool tc_nvptx_compare_range(tc_gen *g, const tc_op *op);
/* hold.c: after a loop, keeps operands of its products in their registers. */
void tc_gen_hold_operands(tc_gen *g, const tc_op *loop);
/* settle.c: before an asynchronous product, computes what later ones add to. */
void tc_gen_settle(tc_gen *g, const tc_op *mma);
/* skip_rescale.c: a product that warps branch around; false: it is none. */
bool tc_gen_mul_skipping_ones(tc_gen *g, const tc_op *op);
/* tanh.c: of tiles of f32, off by at most 2^-21. */
bool tc_nvptx_is_absolute_tanh(const tc_op *op);
bool tc_nvptx_absolute_tanh(tc_gen *g, const tc_op *op);
/* Is the op computed along with such a tanh: a multiple of it, a sum with that,
 * or 2 to the power of the sum? */
bool tc_nvptx_is_done_by_tanh(const tc_op *op);
/* sum prod max min and or xor (and add) of two registers of f32, f64, ints
 * (min and max: any). */
LLVMValueRef tc_gen_combine(tc_gen *g, const char *kind, const tc_type *elem,
                            LLVMValueRef x, LLVMValueRef y);
/* A literal as a register. */
LLVMValueRef tc_gen_literal(tc_gen *g, const tc_type *elem, tc_number n);
LLVMBasicBlockRef tc_gen_block_new(tc_gen *g, const char *name);
/* Ends the current block by a jump to `to` and goes on there. */
void tc_gen_enter(tc_gen *g, LLVMBasicBlockRef to);
/* Of the loop whose branch back this is: its depth is chosen, neither LLVM nor
 * ptxas unrolls it (control.c). */
void tc_gen_forbid_unrolling(tc_gen *g, LLVMValueRef branch);
/* i1: only one thread of the role, the first. */
LLVMValueRef tc_gen_first_thread(tc_gen *g);
/* Of the program that an assert or print names: i32, its id along an axis. */
LLVMValueRef tc_gen_reported_id(tc_gen *g, const tc_op *op, unsigned axis);
/* roles.c. What is emitted up to tc_gen_join is run by one thread of the role,
 * the same one each time (each: by one of each group of four warps). It is
 * elected: the hardware's TMA copies are issued
 * by a warp, and ptxas knows then that there is one. */
typedef struct tc_one {
    LLVMBasicBlockRef after; /* NULL: there is but one thread */
} tc_one;
tc_one tc_gen_elect(tc_gen *g, bool each);
/* i1, for instructions that only that thread is to run. NULL: there is but one
 * thread. */
LLVMValueRef tc_gen_elected(tc_gen *g, bool each);
void tc_gen_join(tc_gen *g, tc_one one);
/* All threads of the role wait for each other; one alone does not. */
void tc_gen_barrier(tc_gen *g);
unsigned tc_gen_threads(const tc_gen *g); /* of a block */
unsigned tc_gen_role_warps(const tc_gen *g);
/* atomic.c: the x that thread `from` (i32) of the role has, in all of them. */
LLVMValueRef tc_gen_share(tc_gen *g, LLVMValueRef from, LLVMValueRef x);
/* roles.c: the same of the current warp. */
tc_one tc_gen_elect_in_warp(tc_gen *g);
/* ordered_sum.c, by one thread: what a program is done with, in its word; and
 * until that of the program ahead is done with more, if it is another one;
 * seen: where an i32 is kept that was read there before, or NULL. */
void tc_gen_announce(tc_gen *g, LLVMValueRef own, LLVMValueRef step);
void tc_gen_await(tc_gen *g, LLVMValueRef own, LLVMValueRef ahead,
                  LLVMValueRef step, LLVMValueRef seen);
/* The two for a step, in the order of `follow`; for one below 0 neither. */
void tc_gen_follow_step(tc_gen *g, LLVMValueRef own, LLVMValueRef ahead,
                        LLVMValueRef step);
/* store_warp.c: do senders add what follows other programs? */
bool tc_gen_has_senders(tc_gen *g, const tc_op *groups);
/* By all threads: wait until the buffer has been read; the next addition; the
 * program's end, the kernel's. False: reported. */
void tc_gen_wait_until_sent(tc_gen *g);
bool tc_gen_send(tc_gen *g, const tc_op *store) TC_MUST_CHECK;
void tc_gen_send_end(tc_gen *g, LLVMValueRef own, LLVMValueRef ahead);
void tc_gen_dismiss_senders(tc_gen *g);
/* The sender of group tc_gen_warp_group; goes to `end`. False: reported. */
bool tc_gen_sender(tc_gen *g, LLVMBasicBlockRef end) TC_MUST_CHECK;
/* tma.c: the copies of a tma_store whose window begins there, by one thread. */
bool tc_gen_start_copies(tc_gen *g, const tc_op *store,
                         const LLVMValueRef *window) TC_MUST_CHECK;
/* The tensor maps that a kernel needs, into g->maps. False: reported. */
bool tc_gen_find_maps(tc_gen *g) TC_MUST_CHECK;
/* Where the condition holds; NULL: everywhere. */
void tc_gen_prefetch_maps(tc_gen *g, LLVMValueRef condition);
/* params.c: the function with its parameters and attributes; then, in its first
 * block, the values of the kernel's arguments. False: reported. */
bool tc_gen_function(tc_gen *g) TC_MUST_CHECK;
void tc_gen_take_params(tc_gen *g);
/* p + bytes of elem * index (i64). */
LLVMValueRef tc_gen_address(tc_gen *g, const tc_type *elem, LLVMValueRef p,
                            LLVMValueRef index);

/* marks.c: registers of the PTX that marks share, in the first block. */
void tc_gen_declare_marks(tc_gen *g);
/* Warp groups, and roles of one thread or three warps, that have a ring. */
unsigned tc_gen_mark_writers(const tc_gen *g);

/* locations.c: the text of an LLVM module that has nothing but the scopes that
 * locations need, and what a module made of it gives. */
const char *tc_gen_skeleton(tc_arena *a, const tc_func *f);
void tc_gen_scopes(tc_gen *g);
void tc_gen_locate(tc_gen *g, tc_loc loc);

/* extended.c: in the optimised module, before code is made of it. */
void tc_gen_freeze_extended(tc_gen *g);

void tc_gen_wait_for_stream(tc_gen *g);
/* Does the kernel start before the one before it ends (tc_func.early)? */
bool tc_gen_starts_early(const tc_gen *g);
/* emit.c: the kernel, in g->module. False: reported. */
bool tc_gen_kernel(tc_gen *g) TC_MUST_CHECK;
bool tc_gen_has_emitter(tc_opcode code);
/* Emits the ops of a region, but for its terminator. */
bool tc_nvptx_region(tc_gen *g, const tc_region *r) TC_MUST_CHECK;

tc_nvptx_fn tc_nvptx_elementwise, tc_nvptx_const, tc_nvptx_dim, tc_nvptx_size,
    tc_nvptx_program_id, tc_nvptx_cast, tc_nvptx_load, tc_nvptx_store,
    tc_nvptx_gather, tc_nvptx_atomic, tc_nvptx_follow, tc_nvptx_make_tensor,
    tc_nvptx_block, tc_nvptx_advance, tc_nvptx_splat, tc_nvptx_range,
    tc_nvptx_ramp, tc_nvptx_expand_dims, tc_nvptx_broadcast, tc_nvptx_trans,
    tc_nvptx_reshape, tc_nvptx_parts, tc_nvptx_reduce, tc_nvptx_scan,
    tc_nvptx_scan_carry, tc_nvptx_for, tc_nvptx_if, tc_nvptx_while,
    tc_nvptx_assert, tc_nvptx_exit_if, tc_nvptx_print, tc_nvptx_assume,
    tc_nvptx_stride, tc_nvptx_base, tc_nvptx_num_programs;
tc_nvptx_fn tc_nvptx_mma, tc_nvptx_mma_wait, tc_nvptx_smem_alloc,
    tc_nvptx_smem_index, tc_nvptx_smem_trans, tc_nvptx_smem_slice,
    tc_nvptx_smem_load, tc_nvptx_smem_store, tc_nvptx_smem_copy,
    tc_nvptx_smem_take, tc_nvptx_smem_count, tc_nvptx_async_copy,
    tc_nvptx_async_commit, tc_nvptx_async_wait, tc_nvptx_barrier,
    tc_nvptx_convert_layout, tc_nvptx_warp_groups, tc_nvptx_mbarrier_alloc,
    tc_nvptx_mbarrier_wait, tc_nvptx_mbarrier_arrive, tc_nvptx_tma_load,
    tc_nvptx_tma_prefetch, tc_nvptx_tma_store, tc_nvptx_tma_store_wait,
    tc_nvptx_fence_async, tc_nvptx_order_wait, tc_nvptx_order_arrive,
    tc_nvptx_warpgroup_row, tc_nvptx_smem_store_scalar,
    tc_nvptx_smem_load_scalar, tc_nvptx_next_tile, tc_nvptx_end_tiles,
    tc_nvptx_mark;

/* A block pointer in use: base address and, for each of the tile's axes, its
 * tensor dim's size, stride and offset (block.c). The dropped dims' offsets are
 * in the tensor: the program promised it. */
typedef struct tc_gen_block {
    LLVMValueRef base; /* ptr1: data plus all dropped dims' offsets */
    unsigned rank;
    LLVMValueRef offset[TC_MAX_RANK]; /* i32 */
    LLVMValueRef size[TC_MAX_RANK];   /* i32 */
    LLVMValueRef stride[TC_MAX_RANK]; /* i64, elements */
    /* The axis of the tensor's last dim, where the kernel wants the tensor
     * aligned: its stride is 1. -1: none. */
    int unit;
} tc_gen_block;
tc_gen_block tc_gen_block_of(tc_gen *g, const tc_value *v);
/* Consecutive registers of the layout that one access of the op may move. */
unsigned tc_gen_vector(tc_gen *g, const tc_op *op, const tc_layout *l);

#endif
