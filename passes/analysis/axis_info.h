/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about ints and pointers along the axes of tiles: runs that count up by
 * one, equal lanes, divisors. They say how wide an access to global memory may
 * be.
 *
 *   %m0 = program_id(0) * 64         divisor 64
 *   %r = %m0 + range(64)             runs of 64, each starting at a multiple of
 *                                    64
 *   %p = splat(base %t) + %r         the same; addresses multiples of 16 bytes,
 *                                    where %t is aligned
 *
 * All numbers are powers of two.
 */
#ifndef TC_AXIS_INFO_H
#define TC_AXIS_INFO_H

#include "ir/base/map.h"
#include "ir/ir.h"
#include "passes/target/target.h"

/* Lanes along one axis, cut into pieces of `run` from lane 0 on: within a
 * piece values count up by 1 (addresses by one element), and its first value
 * is a multiple of `divisor` (addresses: of so many bytes). In pieces of
 * `same` all values are equal. */
typedef struct tc_axis {
    uint32_t run, divisor, same;
} tc_axis;

/* Of a scalar, with one axis; of a tile; of a block pointer, whose axes are
 * the dims of its tensor and the values the offsets. */
typedef struct tc_axis_info {
    unsigned rank;
    uint32_t step; /* 1; of pointers the bytes of an element */
    tc_axis axis[TC_MAX_RANK];
    bool is_known; /* all lanes are `value` */
    int64_t value;
} tc_axis_info;

typedef struct tc_axis_analysis {
    tc_arena *arena;
    const tc_func *f;
    uint64_t aligned; /* as tc_func.aligned: what it may rely on */
    tc_map infos;     /* value -> tc_axis_info */
} tc_axis_analysis;

/* Of all values that f has now; lives as long as the arena. */
tc_axis_analysis *tc_axis_analyse(tc_arena *arena, const tc_func *f,
                                  uint64_t aligned);
/* Never NULL: nothing is known of values that came later. */
const tc_axis_info *tc_axis_info_of(const tc_axis_analysis *a,
                                    const tc_value *v);
/* May the analysis rely on the alignment of this tensor? */
bool tc_is_aligned(const tc_axis_analysis *a, const tc_value *tensor);
/* Is it aligned, and each of its rows a multiple of 16 bytes? */
bool tc_has_whole_rows(const tc_axis_analysis *a, const tc_value *tensor);
/* A number that divides a scalar, or every lane. */
uint32_t tc_axis_divisor(const tc_axis_info *info);

/* axis_vector.c. How many elements, neighbours along `axis` of the tile, one
 * access of a load, store, gather, atomic or async_copy may move: up to 16
 * bytes. A layout may hold fewer of them together. Those elements lie at a
 * multiple of their bytes, and all or none are inside the tensor or after the
 * mask. */
typedef struct tc_vector {
    unsigned axis; /* the one to walk fastest, also where elements is 1 */
    unsigned elements;
    const char *why; /* not 16 bytes; NULL: they are */
} tc_vector;
tc_vector tc_axis_vector(const tc_axis_analysis *a, const tc_op *op);

/* How many of them threads in this layout move at once: what code generation
 * does with a load, store, gather or async_copy, and what remarks say of it. */
unsigned tc_access_vector(const tc_axis_analysis *a, const tc_op *op,
                          const tc_layout *l);
/* How many of n neighbouring elements one atomic add to memory takes. */
unsigned tc_added_at_once(const tc_target *target, const tc_type *elem,
                          unsigned n);

/* The `block` that a block pointer comes from, through loops and `advance`. */
tc_op *tc_block_of(const tc_value *v);
/* The dim of its tensor that an axis of a `block`'s tile walks; no axis of
 * indices walks one. */
unsigned tc_block_dim(const tc_op *block, unsigned axis);
/* The axis of a `block`'s tile that walks the dim that its tensor is contiguous
 * in; TC_MAX_RANK: none does. */
unsigned tc_contiguous_axis(const tc_op *block);
/* The tensor, an argument or one made by `tensor`, whose elements the op
 * accesses; NULL: not known. */
const tc_value *tc_accessed_tensor(const tc_op *op);
/* The argument in whose memory a tensor lies: itself, or that which one made by
 * `tensor` points into; NULL: not known. */
const tc_value *tc_tensor_argument(const tc_value *tensor);
/* Can a launch satisfy tc_func.aligned for it? (The size of the dim
 * that it is contiguous in, where the type has it, is a multiple of 16 bytes.)
 */
bool tc_can_be_aligned(const tc_type *tensor);

#endif
