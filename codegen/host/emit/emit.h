/* SPDX-License-Identifier: Apache-2.0
 *
 * LLVM IR of a planned kernel: the declarations that the emit_*.c files share.
 *
 * In registers an element is: i1 as i1, ints as they are, f8, f16, bf16 and
 * f32 as float (always a value that the narrow type has), f64 as double,
 * pointers as ptr. An op is emitted for one lane or for a vector of lanes by
 * the same function: LLVM's builders take both. In scratch i1 is a byte.
 */
#ifndef TC_HOST_EMIT_H
#define TC_HOST_EMIT_H

#include "codegen/code_size.h"
#include "codegen/host/plan/plan.h"
#include "codegen/host/runtime/runtime.h"

#include <llvm-c/Core.h>

enum { TC_MAX_LEVELS = TC_MAX_RANK + 2, TC_MAX_UNROLL = 4 };

typedef struct tc_emit {
    tc_context *cx;
    tc_arena *arena;
    tc_plan *plan;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef fn;
    LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, ptr, none;
    LLVMValueRef args, scratch, pid[3], grid[3], thread;
    unsigned width; /* f32 lanes of a vector register */
    unsigned nregs; /* vector registers */
    const char *cpu, *features;
    tc_code_size size; /* so far */
    bool failed;       /* a diagnostic says why */
    unsigned nsites;
    tc_site *sites; /* what asserts, checks and prints say */
} tc_emit;

/* ---- emit.c: types, constants, values ---- */

/* The LLVM types of an element in registers, and in scratch or tensors. */
LLVMTypeRef tc_register_type(tc_emit *e, const tc_type *elem);
LLVMTypeRef tc_scratch_type(tc_emit *e, const tc_type *elem);
LLVMTypeRef tc_memory_type(tc_emit *e, const tc_type *elem);
LLVMTypeRef tc_vector_of(LLVMTypeRef scalar, unsigned width);
LLVMValueRef tc_i32(tc_emit *e, int64_t value);
LLVMValueRef tc_i64(tc_emit *e, int64_t value);
bool tc_is_vector(LLVMValueRef v);
/* A scalar in all lanes; width 1 and vectors stay as they are. */
LLVMValueRef tc_splat(tc_emit *e, LLVMValueRef v, unsigned width);
/* A constant in the shape of `like`. */
LLVMValueRef tc_int_like(LLVMValueRef like, int64_t value);
LLVMValueRef tc_float_like(LLVMValueRef like, double value);
/* A literal as an element in registers. */
LLVMValueRef tc_literal(tc_emit *e, const tc_type *elem, tc_number n);
LLVMValueRef tc_intrinsic(tc_emit *e, const char *name, unsigned ntypes,
                          LLVMTypeRef *types, unsigned nargs,
                          LLVMValueRef *args);
/* The parts of a value that is no tile; [0] of a scalar. */
LLVMValueRef tc_scalar_of(tc_emit *e, const tc_value *v);
void tc_set_scalar(tc_emit *e, const tc_value *v, LLVMValueRef x);
LLVMBasicBlockRef tc_block_new(tc_emit *e, const char *name);
/* A pure scalar op that gives one LLVM value, for operands (which may be lanes
 * for ops that have a scalar meaning); NULL: there is no code for it. */
LLVMValueRef tc_emit_scalar(tc_emit *e, const tc_op *op, LLVMValueRef *in);
/* Ends the current block by a jump to `to` and goes on there. */
void tc_enter(tc_emit *e, LLVMBasicBlockRef to);
/* p + bytes-of-elem * index. */
LLVMValueRef tc_element(tc_emit *e, LLVMTypeRef elem, LLVMValueRef p,
                        LLVMValueRef index);
/* Sign-extended. */
LLVMValueRef tc_to_i64(tc_emit *e, LLVMValueRef x);
/* Between an element in registers and as it is in a tensor. */
LLVMValueRef tc_from_memory(tc_emit *e, const tc_type *elem, LLVMValueRef x);
LLVMValueRef tc_to_memory(tc_emit *e, const tc_type *elem, LLVMValueRef x);
/* f32 rounded to what the narrow kind has; others stay. */
LLVMValueRef tc_rounded(tc_emit *e, const tc_type *elem, LLVMValueRef x);

/* ---- function.c: functions besides the kernel's ---- */

/* A function of the module that several ops share. All its parameters are
 * pointers that do not overlap, or numbers. */
typedef struct tc_function {
    LLVMValueRef fn;
    LLVMValueRef outer; /* e->fn and its builder's place, to go back to */
    LLVMBasicBlockRef here;
} tc_function;

/* Attributes of every function that is made. */
void tc_function_prepare(tc_emit *e, LLVMValueRef fn);
/* True: the function is new; e emits into it until _end. */
bool tc_function_begin(tc_emit *e, tc_function *f, const char *name,
                       unsigned nparams, LLVMTypeRef *params);
void tc_function_end(tc_emit *e, tc_function *f);
void tc_function_call(tc_emit *e, LLVMValueRef fn, unsigned nargs,
                      LLVMValueRef *args);

/* ---- emit_arith.c: ops on lanes ---- */

/* The result of an elementwise op for operands that are all scalars or all
 * vectors of one width; NULL: not an op for this. */
LLVMValueRef tc_emit_lanes(tc_emit *e, const tc_op *op, LLVMValueRef *in);
/* The combination of a kind of reduce (or atomic) on lanes, unrounded. */
LLVMValueRef tc_emit_combine(tc_emit *e, const char *kind, const tc_type *elem,
                             LLVMValueRef x, LLVMValueRef y);
/* The neutral element of the kind. */
LLVMValueRef tc_emit_neutral(tc_emit *e, const char *kind, const tc_type *elem);

/* ---- nest.c: loop nests, and tile values at an index ---- */

/* The index at which a loop nest is: for each axis a scalar i64; along `vector`
 * the lanes are at, at + 1, ... `level`: the loop in which it changes. */
typedef struct tc_index {
    unsigned rank, width;
    int vector; /* -1: all lanes are the same */
    LLVMValueRef at[TC_MAX_RANK];
    unsigned level[TC_MAX_RANK];
} tc_index;

/* An element, or a vector of them; a scalar if all lanes are the same. */
typedef struct tc_lane {
    LLVMValueRef x;
    unsigned level; /* it was computed in */
} tc_lane;

typedef struct tc_memo {
    const tc_value *value;
    tc_index index;
    tc_lane lane;
} tc_memo;

/* A nest under construction. Level 0 is before the first loop; a value is
 * computed at the outermost level that its index allows. */
typedef struct tc_nest {
    tc_emit *e;
    const tc_item *item; /* the item whose roots are computed here; may be
                          * NULL */
    unsigned level;      /* that we are in */
    LLVMBasicBlockRef blocks[TC_MAX_LEVELS]; /* of the outer levels */
    unsigned nmemos, room;
    tc_memo *memos;
} tc_nest;

typedef struct tc_host_loop {
    LLVMBasicBlockRef before, head, after;
    LLVMValueRef at; /* i64 */
    int64_t count, step;
} tc_host_loop;

tc_nest tc_nest_new(tc_emit *e, const tc_item *item);
/* A loop from 0 to count (above 0) by step; values in it are one level
 * deeper. Phis may be added to `head` before anything else. */
tc_host_loop tc_loop_begin(tc_nest *n, int64_t count, int64_t step);
void tc_loop_end(tc_nest *n, tc_host_loop *l);
/* The value at the index: vectors of index.width, or a scalar. */
tc_lane tc_eval(tc_nest *n, tc_value *v, const tc_index *index);
/* The same, always of the full width. */
LLVMValueRef tc_eval_full(tc_nest *n, tc_value *v, const tc_index *index);

/* Runs `body` for all elements of `shape`: once for each index, several at a
 * time (`count` of them, along the vector axis) where the body is small. */
typedef struct tc_walk {
    tc_nest nest;
    const tc_type *shape;
    unsigned count;
    tc_index index[TC_MAX_UNROLL];
    tc_host_loop loops[TC_MAX_RANK];
    unsigned nloops;
    tc_host_loop *inner; /* the loop along the vector axis; NULL: none */
} tc_walk;

tc_walk tc_walk_new(tc_emit *e, const tc_item *item, const tc_type *shape,
                    unsigned most_width, unsigned most_unroll);
/* Goes into the loops around the vector axis, then into that along it. */
void tc_walk_outer(tc_walk *w);
void tc_walk_inner(tc_walk *w);
/* After the phis of the inner loop: the lanes of each of the vectors. */
void tc_walk_spread(tc_walk *w);
void tc_walk_end_inner(tc_walk *w);
void tc_walk_end_outer(tc_walk *w);

/* Row-major position in a tile of the type. */
LLVMValueRef tc_linear(tc_emit *e, const tc_type *t, const tc_index *index);
LLVMValueRef tc_buffer_address(tc_emit *e, const tc_host_buffer *b);
LLVMValueRef tc_buffer_load(tc_emit *e, const tc_host_buffer *b,
                            const tc_type *t, const tc_index *index);
void tc_buffer_store(tc_emit *e, const tc_host_buffer *b, const tc_type *t,
                     const tc_index *index, LLVMValueRef x);
/* The same for a tile at an address. */
void tc_tile_store(tc_emit *e, LLVMValueRef base, const tc_type *t,
                   const tc_index *index, LLVMValueRef x);
/* Computes v into the buffer, unless it is there already. */
void tc_emit_into(tc_emit *e, tc_value *v, tc_host_buffer *to);

/* ---- emitters of items ---- */

void tc_emit_nest(tc_emit *e, const tc_item *item);
void tc_emit_region_reduce(tc_emit *e, tc_op *op);
/* Does a combining region hold only ops that can be done on vectors of lanes?
 */
bool tc_is_on_lanes(const tc_op *op);
/* It for these arguments (of `width` lanes); out: what it yields. */
void tc_emit_region(tc_emit *e, const tc_op *op, unsigned width,
                    LLVMValueRef *args, LLVMValueRef *out);
void tc_emit_scan(tc_emit *e, tc_op *op); /* emit_scan.c */
void tc_emit_dot_op(tc_emit *e, tc_op *op);
void tc_emit_trans_op(tc_emit *e, tc_op *op);
/* emit_parts.c: a part with steps; tiles of parts. */
void tc_emit_slice(tc_emit *e, tc_op *op);
void tc_emit_join(tc_emit *e, tc_op *op);
/* emit_take.c: the elements at an index of the result, for these indices (i.e.
 * lanes, or one number); an element that is a scalar. */
LLVMValueRef tc_emit_take_lanes(tc_emit *e, const tc_op *op,
                                const tc_index *index, LLVMValueRef by);
void tc_emit_take(tc_emit *e, tc_op *op);
void tc_emit_histogram(tc_emit *e, tc_op *op);
void tc_emit_load(tc_emit *e, tc_op *op);
void tc_emit_store(tc_emit *e, tc_op *op);
void tc_emit_block_load(tc_emit *e, tc_op *op); /* emit_block.c */
void tc_emit_block_store(tc_emit *e, tc_op *op);
void tc_emit_gather(tc_emit *e, tc_op *op);
void tc_emit_atomic(tc_emit *e, tc_op *op);
void tc_emit_follow(tc_emit *e, tc_op *op);
void tc_emit_assert(tc_emit *e, tc_op *op);
void tc_emit_print(tc_emit *e, tc_op *op);
void tc_emit_assume(tc_emit *e, tc_op *op);
void tc_emit_exit_if(tc_emit *e, tc_op *op);
void tc_emit_for(tc_emit *e, tc_op *op);
void tc_emit_if(tc_emit *e, tc_op *op);
void tc_emit_while(tc_emit *e, tc_op *op);
void tc_emit_schedule(tc_emit *e, const tc_host_schedule *list);

/* A vector load or store of `width` elements in memory where the mask is true
 * (NULL: all of them); `other` in the lanes that are not loaded. */
LLVMValueRef tc_masked_load(tc_emit *e, const tc_type *elem, LLVMValueRef p,
                            LLVMValueRef mask, LLVMValueRef other);
void tc_masked_store(tc_emit *e, const tc_type *elem, LLVMValueRef p,
                     LLVMValueRef mask, LLVMValueRef x);
/* One element of a `store` op: written, or added in one step. */
void tc_store_one(tc_emit *e, const tc_op *op, const tc_type *elem,
                  LLVMValueRef p, LLVMValueRef x);
/* Can the machine do these without a branch a lane? */
bool tc_has_masked_moves(tc_emit *e, const tc_type *elem);

/* Lanes of gathers and of loads through tiles of pointers. */
LLVMValueRef tc_emit_gather_lanes(tc_emit *e, const tc_op *op, LLVMValueRef *in,
                                  unsigned width);
LLVMValueRef tc_emit_pointer_lanes(tc_emit *e, const tc_op *op,
                                   LLVMValueRef *in, unsigned width);

/* emit_view.c: values that are several LLVM values. */
/* The `block` that a block pointer came from, by advance, loops and so on;
 * it says which dims of the tensor are kept. */
const tc_op *tc_block_origin(const tc_value *v);
void tc_emit_view(tc_emit *e, tc_op *op); /* block, advance */
/* A block pointer that a loop carries must go on keeping the same dims. False:
 * reported. */
bool tc_check_carried_view(tc_emit *e, const tc_op *yield, unsigned i,
                           const tc_value *init);
LLVMValueRef tc_tensor_base(const tc_value *tensor);
LLVMValueRef tc_tensor_size(const tc_value *tensor, unsigned dim);
LLVMValueRef tc_tensor_stride(const tc_value *tensor, unsigned dim);

/* emit_check.c: stops the launch where `ok` is false; goes on where it is
 * true. values: up to 4 i64 for the message's %lld's. */
void tc_emit_check(tc_emit *e, LLVMValueRef ok, unsigned site, unsigned nvalues,
                   LLVMValueRef *values);
unsigned tc_site_new(tc_emit *e, const tc_op *op, const char *message);

/* emit.c: the whole kernel; false: reported. */
bool tc_emit_kernel(tc_emit *e);

#endif
