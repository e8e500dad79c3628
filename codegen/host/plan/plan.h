/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a kernel: which values are computed where, before any code is
 * made.
 *
 * A tile value is either *virtual* (its consumers compute the elements that
 * they need) or a *root* (computed once, as a whole). Each region becomes a
 * list of items that run one after the other:
 *
 *   a nest   one loop nest over a shape that computes all its roots at once:
 *            elementwise roots and reductions along an axis
 *   an op    everything else: dot, load, store, for, if, print, ...
 *
 * Scalar ops that only compute hang on the item after which their operands are
 * known. A root whose value is only needed inside its own nest stays in
 * registers; the others have a buffer in the thread's scratch memory.
 *
 *   %s = dot %q, %kt              item 1: op
 *   %t = mul %s, %c               virtual
 *   %u = select %see, %t, %inf    item 2: nest 64x64, root %u, buffer
 *   %m = reduce %u kind(max)      item 2: reduction, buffer of 64
 *   %p = exp2(%u - %m[:, none])   item 3: nest 64x64, registers only
 *   %l = reduce %p kind(sum)      item 3: reduction
 *   %c = cast %p : bf16           item 3: root, buffer for the next dot
 *
 * The plan hangs on value->data and op->data of the kernel while it is
 * compiled.
 */
#ifndef TC_HOST_PLAN_H
#define TC_HOST_PLAN_H

#include "ir/ir.h"

#include <llvm-c/Core.h>

typedef struct tc_host_buffer_use {
    unsigned position;
    /* Read only at the very element that is being computed, so that the
     * result may overwrite it. */
    bool same;
} tc_host_buffer_use;

/* A tile in scratch memory, row-major. */
typedef struct tc_host_buffer tc_host_buffer;
struct tc_host_buffer {
    const tc_value *owner; /* for messages */
    const tc_type *type;
    uint64_t bytes, offset;
    unsigned first, last; /* positions between which it is alive */
    unsigned nuses, room;
    tc_host_buffer_use *uses;
    tc_host_buffer *next;
    tc_host_buffer *same_as; /* shares the memory of this one instead */
};

typedef enum tc_item_kind {
    TC_ITEM_START,
    TC_ITEM_NEST,
    TC_ITEM_OP
} tc_item_kind;

typedef struct tc_item {
    tc_item_kind kind;
    unsigned index;         /* in its region */
    unsigned position, end; /* in the kernel; of a loop: with its body */
    const tc_type *shape;   /* nest: any tile type of that shape */
    unsigned ndear;         /* nest: roots that take many ops */
    unsigned nroots, nscalars, roots_room, scalars_room;
    tc_op **roots;   /* nest: what it computes; op: the one op */
    tc_op **scalars; /* pure scalar ops that run after it, in order */
} tc_item;

typedef struct tc_host_schedule {
    unsigned nitems, room;
    tc_item **items; /* [0] is the start */
} tc_host_schedule;

/* The facts about a value, for the plan and the emitter. */
typedef struct tc_place {
    bool root;        /* computed as a whole */
    bool dear;        /* ... as it takes many ops */
    bool escapes;     /* needed outside of its own nest: has a buffer */
    unsigned nest;    /* which nest consumes it: an op's number, NONE or MANY */
    bool nested;      /* used inside a region below its own */
    unsigned cost;    /* of computing one element */
    unsigned needed;  /* the latest epoch in which it is consumed */
    unsigned seen[2]; /* stamps of walks, by `same` */
    tc_item *item;    /* where it is computed; NULL: an argument */
    tc_host_buffer *buffer;
    unsigned nparts; /* scalars, tensors, block pointers: as LLVM values */
    LLVMValueRef *parts;
} tc_place;

typedef struct tc_plan {
    tc_context *cx;
    tc_arena *arena;
    tc_func *kernel;
    tc_host_schedule *body;
    tc_host_buffer *buffers;
    uint64_t scratch_bytes;
    unsigned positions, stamp; /* counters */
    unsigned nops;
    tc_op **ops; /* all of them, outer before inner */
} tc_plan;

/* Everything lives in the arena. NULL: reported. */
tc_plan *tc_plan_new(tc_func *kernel, tc_arena *arena, uint64_t scratch_most);
/* Clears the data fields that the plan set. */
void tc_plan_free(tc_plan *plan);

static inline tc_place *tc_place_of(const tc_value *v)
{
    return v->data;
}

/* The facts about an op. */
typedef struct tc_op_plan {
    unsigned number; /* from 1, outer before inner */
    unsigned epoch;  /* writes to memory before it, in the text */
    tc_item *item;   /* that it is, or is a root of */
    tc_host_schedule *regions[2];
} tc_op_plan;

static inline tc_op_plan *tc_op_plan_of(const tc_op *op)
{
    return op->data;
}

/* schedule.c: the items of all regions. */
void tc_plan_schedule(tc_plan *plan);
/* buffers.c: gives each root that needs one a buffer and each buffer its
 * offset. False: too much, reported. */
bool tc_plan_buffers(tc_plan *plan, uint64_t most) TC_MUST_CHECK;
/* The one whose memory it is. */
tc_host_buffer *tc_buffer_of(const tc_value *v);

/* The values that computing the operands of an op, a root of a nest or an item,
 * reads: calls visit for each scalar, and each root that is met, once for a
 * value of `same`. same: v is wanted at the very index at which the nest
 * stands. */
typedef void tc_visit_fn(void *user, tc_value *v, bool same);
void tc_plan_visit_op(tc_plan *plan, tc_op *op, tc_visit_fn *visit, void *user);

bool tc_is_tile(const tc_value *v);
unsigned tc_side(const tc_type *t, unsigned axis);
/* Bytes of an element in scratch: narrow floats are kept as f32. */
unsigned tc_scratch_bytes(const tc_type *elem);
/* The last axis whose side is not 1: the one that vectors run along; -1 where
 * there is none. */
int tc_vector_axis(const tc_type *t);
/* Results whose elements are those of the operand, in the same order and kept
 * in the same form (reshape; f16 to f32): they share its buffer. */
bool tc_is_alias(const tc_op *op);
/* Both kinds are kept as f32, and every value of `from` is one of `to`. */
bool tc_is_exact_in(tc_kind from, tc_kind to);
/* A root that stands in a nest, and may stay in registers there. */
bool tc_is_nest_root(const tc_op *op);

#endif
