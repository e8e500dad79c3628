/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that the parts of the interpreter share.
 *
 *   interp.c    a run: values, programs of the grid, the table of ops, findings
 *   control.c   for, if, while; assert, assume, print
 *   places.c    where elements are: tables of layouts, moves between registers
 *   arith.c     elementwise ops; what poison does to them
 *   shape.c     splat to reshape, convert_layout, reduce
 *   scan.c      scan, scan_carry
 *   combine.c   what they and reduce combine
 *   memory.c    tensors and pointers: loads, stores, gathers, atomics
 *   global.c    races in global memory
 *   follow.c    ordered accumulation
 *   shared.c    the bytes of shared memory and the last accesses to each
 *   async.c     copies in flight
 *   mma.c       matrix products
 *
 * and in sync.h the roles of a kernel, mbarriers and TMA copies.
 *
 * A function that returns false has ended the run: either a finding leaves
 * nothing to go on with, or it was one finding too many.
 */
#ifndef TC_INTERP_STATE_H
#define TC_INTERP_STATE_H

#include "codegen/interp/interp.h"
#include "codegen/interp/sync.h"
#include "ir/base/map.h"
#include "ir/types/layout.h"

enum { TC_LANES = 32 };

/* An element in a register. Pointers are host addresses in `i`. */
typedef union tc_inum {
    int64_t i;
    double f;
} tc_inum;

/* 0: a number. Else 1 + index of the reason why it means nothing. */
typedef uint16_t tc_ipoison;

/* The contents of value->data. Of a tile, register r of thread t (its lane and
 * 32 times its warp) is element t * nregs + r. */
typedef struct tc_ivalue {
    unsigned n, nregs; /* 1 and 0 of a scalar */
    tc_inum *x;
    tc_ipoison *poison;
    /* A tensor or block pointer: number in tc_interp.args, an offset a dim
     * (poison[0] says whether they mean something), the tile's axis of each
     * dim or -1. */
    unsigned tensor;
    int64_t offset[TC_MAX_RANK];
    int axis[TC_MAX_RANK];
    /* A buffer in shared memory: byte of its first element, the alloc. Of
     * mbarriers: number of the first. */
    uint32_t at;
    uint16_t alloc;
    /* The result of an asynchronous mma that no mma_wait has handed on: its
     * number; else 0. */
    uint32_t product;
} tc_ivalue;

/* The contents of op->data. */
typedef struct tc_iop {
    uint16_t id;     /* into tc_interp.ops */
    void *plan;      /* of the op's own file: made at its first run */
    unsigned offset; /* smem_alloc, mbarrier_alloc: byte */
    unsigned first;  /* mbarrier_alloc: number of the first one */
} tc_iop;

/* Where the elements of a distributed tile are. */
typedef struct tc_iplaces {
    unsigned nregs, n; /* registers of a thread, of all */
    uint32_t count;    /* elements of the tile */
    uint32_t *elem;    /* of each register: the element, in row-major order */
    uint32_t *first;   /* of each element: the first register that holds it,
                        * which is the one that stores */
} tc_iplaces;

/* A byte of shared memory. */
typedef struct tc_ibyte {
    uint8_t value, state;
    tc_ipoison poison;
    uint16_t alloc; /* through which it was written */
    /* The last write: by whom, and when on that component's clock. */
    uint16_t write_op, write_thread, writer;
    uint32_t write_epoch;
    uint32_t write_fence; /* the fence of the writer's group that shows it */
} tc_ibyte;

/* Of a byte and a component: the last read; epoch 0: none. fence: of a group's
 * threads, the fence_async after it. */
typedef struct tc_iread {
    uint32_t epoch, fence;
    uint16_t op;
} tc_iread;

enum { TC_BYTE_EMPTY, TC_BYTE_IN_FLIGHT, TC_BYTE_FULL, TC_BYTE_MBARRIER };

/* The readers: threads of the groups that `groups` has for an element (NULL:
 * all groups), or an engine. */
typedef enum tc_ireader {
    TC_READ_THREADS,
    TC_READ_PRODUCTS, /* of those groups: asynchronously */
    TC_READ_STORE,    /* a TMA store of the first thread */
    TC_READ_STORES,   /* of the first threads of those groups, one each */
    TC_READ_PRODUCER
} tc_ireader;

/* The writer. */
typedef struct tc_iwriter {
    unsigned actor, component;
    unsigned thread;
    bool is_copy; /* a thread's own copies are in order */
    bool is_bulk;
} tc_iwriter;

/* A piece of a copy that one thread has in flight: 4, 8 or 16 bytes. */
typedef struct tc_ipiece {
    const tc_op *op;
    const uint8_t *from; /* NULL: zeros */
    uint32_t to, group;
    uint32_t epoch; /* of its issue */
    uint16_t thread;
    uint8_t bytes;
    bool landed; /* the bytes have arrived; nobody may know yet */
} tc_ipiece;

typedef struct tc_ireason {
    const char *text;
    const tc_op *op, *other;
} tc_ireason;

typedef struct tc_ifinding {
    const char *fmt;
    const tc_op *op, *other;
} tc_ifinding;

/* Addresses that pointers may go to. */
typedef struct tc_irange {
    uintptr_t from, to;
} tc_irange;

/* The vector clocks of the programs of the grid: programs.c. */
typedef struct tc_iprograms {
    uint32_t count, now; /* the one that runs */
    uint32_t *steps;     /* 1 + the releases of each so far */
    uint32_t *known;     /* by the one that runs: steps of each */
    tc_map words; /* address -> uint32_t *, steps that are released there */
    struct tc_ielement *elements;
    size_t nwords, nelements, room;
} tc_iprograms;

/* Programs that add in order: follow.c. */
typedef struct tc_ifollow {
    tc_map members; /* address of a program's word -> struct tc_imember * */
    uint32_t nmembers;
    struct tc_imember *now; /* the last that followed, */
    int32_t step;           /* and with which step */
} tc_ifollow;

/* The last ordered addition to an element. */
typedef struct tc_iadded {
    const struct tc_imember *member; /* NULL: none */
    int32_t step;
    uint16_t op;
} tc_iadded;

typedef struct tc_interp {
    tc_context *cx;
    tc_func *f;
    /* The launch's, then the tensors that ops of the kernel make; each one's
     * value, of tensors. */
    tc_launch_arg *args;
    const tc_value **tensors;
    const tc_interp_options *options;
    tc_arena arena, scratch; /* of the run; of one op */
    unsigned nwarps, nthreads;
    int32_t grid[3], program[3];
    uint64_t steps, max_steps, random;

    const tc_op **ops; /* by id, from 1 */
    unsigned nops;
    tc_map places;  /* tc_layout * -> tc_iplaces *, distributed */
    tc_map offsets; /* tc_layout * -> uint32_t *, shared: of each element */
    tc_map groups;  /* tc_layout * -> uint8_t *: of each element */
    tc_irange *ranges;
    unsigned nranges;
    bool pointers_checked;

    tc_irange *tracked; /* memory that is stored to */
    unsigned ntracked;
    struct tc_icell *cells;
    size_t ncells, room_cells;
    tc_iprograms programs;
    tc_ifollow follow;

    tc_iagent agents[TC_ROLE_COUNT]; /* by role */
    tc_iagent *agent;                /* the one that runs */
    tc_isync sync;

    tc_ibyte *bytes;
    tc_iread *reads; /* sync.nreaders of each byte */
    unsigned nbytes;
    uint32_t epoch;    /* barriers of all threads so far, from 1 */
    tc_ipiece *pieces; /* in flight, oldest first */
    size_t npieces, room_pieces;
    uint32_t group;    /* the one that is open; older ones are committed */
    const tc_op *wait; /* the last one, for messages */

    tc_ireason *reasons;
    unsigned nreasons, room_reasons;
    tc_ifinding *findings;
    unsigned nfindings, max_findings;
} tc_interp;

typedef bool tc_interp_fn(tc_interp *it, const tc_op *op);

static inline tc_ivalue *tc_ivalue_of(const tc_value *v)
{
    return v->data;
}

static inline tc_iop *tc_iop_of(const tc_op *op)
{
    return op->data;
}

/* Reports, once for each pair of ops and format: at `op`, with a note at
 * `other` (NULL: none). False: that was the last one wanted. */
bool tc_interp_find(tc_interp *it, const tc_op *op, const tc_op *other,
                    const char *note, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* A poison by its reason: `text` says what is wrong with what `op` read;
 * `other` (or NULL) is to blame. */
tc_ipoison tc_interp_reason(tc_interp *it, const tc_op *op, const char *text,
                            const tc_op *other);
/* A poisoned value reached something that matters. */
bool tc_interp_poisoned(tc_interp *it, const tc_op *op, tc_ipoison poison,
                        const char *use);
/* Runs the ops of a region up to its terminator. */
bool tc_interp_region(tc_interp *it, const tc_region *r) TC_MUST_CHECK;
/* Runs the next op of the agent. */
bool tc_interp_step(tc_interp *it) TC_MUST_CHECK;
/* The number of a scalar operand that decides something: a poison is found. */
bool tc_interp_decide(tc_interp *it, const tc_op *op, unsigned operand,
                      tc_inum *out) TC_MUST_CHECK;
void tc_interp_copy(tc_ivalue *to, const tc_ivalue *from);
uint64_t tc_interp_random(tc_interp *it);

/* control.c. */
void tc_interp_enter(tc_interp *it, const tc_region *r);
/* Continues after a terminator. */
bool tc_interp_leave(tc_interp *it, const tc_op *end) TC_MUST_CHECK;

/* places.c. */
const tc_iplaces *tc_interp_places(tc_interp *it, const tc_layout *l);
/* Bit set of the warp groups that hold each element of a distributed tile. */
const uint8_t *tc_interp_groups(tc_interp *it, const tc_layout *l);
/* Offset, in elements, of each element of a buffer. */
const uint32_t *tc_interp_offsets(tc_interp *it, const tc_layout *l);
/* How far away an op may find its elements. */
typedef enum tc_ireach { TC_REACH_THREAD, TC_REACH_WARP } tc_ireach;
/* Of each register of `to` the register of `from` that holds the element
 * source[e], for element e of `to` (NULL: the same). NULL: found. */
const uint32_t *tc_interp_moves(tc_interp *it, const tc_op *op,
                                const tc_layout *from, const tc_layout *to,
                                const uint32_t *source, tc_ireach reach);
/* The elements of a tile in row-major order, from those registers that store.
 * All that hold the same element must agree, else that is found. */
bool tc_interp_gather(tc_interp *it, const tc_op *op, unsigned operand,
                      tc_inum *x, tc_ipoison *poison) TC_MUST_CHECK;
void tc_interp_decode(const int32_t *sides, unsigned rank, uint32_t elem,
                      int32_t coord[TC_MAX_RANK]);
uint32_t tc_interp_encode(const int32_t *sides, unsigned rank,
                          const int32_t *coord);

/* memory.c. An element in memory. */
tc_inum tc_interp_read(tc_kind kind, const void *p);
void tc_interp_write(tc_kind kind, void *p, tc_inum x);
/* What an op gives for elements that are not there. */
tc_inum tc_interp_pad(const tc_op *op, tc_kind kind);
/* Where an element of a window is: its address, or NULL outside of the tensor,
 * where *allowed says whether the op's boundary has that. *virtual_address: as
 * if the tensor had no end. */
uint8_t *tc_interp_window(tc_interp *it, const tc_op *op, const int32_t *coord,
                          bool *allowed, uintptr_t *virtual_address);
bool tc_interp_outside(tc_interp *it, const tc_op *op, const char *verb);
bool tc_interp_pointer_ok(const tc_interp *it, int64_t address, unsigned bytes);

/* global.c. */
void tc_interp_global_new(tc_interp *it);
void tc_interp_global_reset(tc_interp *it);
/* A thread (TC_ALL_THREADS: all of them) reads an element, at any time from
 * epoch `since` until now. */
enum { TC_ALL_THREADS = UINT16_MAX };
bool tc_interp_global_read(tc_interp *it, const tc_op *op, const void *p,
                           unsigned thread, uint32_t since) TC_MUST_CHECK;
bool tc_interp_global_write(tc_interp *it, const tc_op *op, const void *p,
                            unsigned thread) TC_MUST_CHECK;
bool tc_interp_global_bulk_read(tc_interp *it, const tc_op *op,
                                const void *p) TC_MUST_CHECK;
bool tc_interp_global_bulk_write(tc_interp *it, const tc_op *op, const void *p,
                                 unsigned group) TC_MUST_CHECK;
/* An atomic, or a store that adds. */
bool tc_interp_is_atomic(const tc_op *op);
/* The bytes that a tensor's elements span; none of an empty one. */
tc_irange tc_interp_extent(const tc_type *t, const tc_launch_arg *arg);

/* programs.c: of a grid of so many; then each in turn. */
void tc_interp_programs_new(tc_interp *it, uint32_t count);
void tc_interp_programs_enter(tc_interp *it, uint32_t index);
bool tc_interp_programs_read(tc_interp *it, const tc_op *op,
                             const void *at) TC_MUST_CHECK;
bool tc_interp_programs_write(tc_interp *it, const tc_op *op,
                              const void *at) TC_MUST_CHECK;
/* By a word in memory. */
void tc_interp_programs_acquire(tc_interp *it, const void *word);
void tc_interp_programs_release(tc_interp *it, const void *word);
/* Before and after what an atomic does to that word: as its order says. */
void tc_interp_programs_before(tc_interp *it, const tc_op *op,
                               const void *word);
void tc_interp_programs_after(tc_interp *it, const tc_op *op, const void *word);

/* shared.c. */
bool tc_interp_shared_new(tc_interp *it) TC_MUST_CHECK;
void tc_interp_shared_reset(tc_interp *it);
/* Reads a whole buffer into row-major order. */
bool tc_interp_shared_read(tc_interp *it, const tc_op *op, unsigned operand,
                           tc_ireader reader, const uint8_t *groups, tc_inum *x,
                           tc_ipoison *poison) TC_MUST_CHECK;
/* Checks that bytes may be written now. */
bool tc_interp_shared_claim(tc_interp *it, const tc_op *op, uint32_t at,
                            unsigned bytes, const tc_iwriter *w) TC_MUST_CHECK;
/* Records the write: the bytes have been written, or will be. */
void tc_interp_shared_stamp(tc_interp *it, const tc_op *op, uint32_t at,
                            unsigned bytes, const tc_iwriter *w,
                            tc_ipoison poison);
tc_iwriter tc_interp_thread_writer(const tc_interp *it, unsigned thread);

/* agents.c, clock.c. */
void tc_interp_sync_new(tc_interp *it);
void tc_interp_sync_reset(tc_interp *it);
static inline bool tc_interp_knows(const tc_interp *it, unsigned actor,
                                   unsigned component, uint32_t epoch)
{
    return it->sync.known[actor][component] >= epoch;
}
void tc_interp_clock_join(const tc_isync *s, uint32_t *to,
                          const uint32_t *from);
/* All threads of groups first to last learn of a clock. */
void tc_interp_groups_learn(tc_interp *it, unsigned first, unsigned last,
                            const uint32_t *clock);
static inline unsigned tc_interp_group_of(const tc_interp *it, unsigned thread)
{
    return it->sync.nconsumers == 1 ? 0 : thread / (4 * TC_LANES);
}

/* mbarrier.c. */
bool tc_interp_mbarrier_passes(tc_interp *it, const tc_op *wait, tc_irole role);
/* A landing copy's bytes are counted. */
bool tc_interp_mbarrier_landed(tc_interp *it, unsigned i,
                               uint32_t bytes) TC_MUST_CHECK;
/* The mbarrier that operands i and i + 1 of an op stand for; NULL: found. */
tc_imbarrier *tc_interp_mbarrier_of(tc_interp *it, const tc_op *op, unsigned i);
/* The mbarrier's state, to say why a wait does not end. */
const char *tc_interp_mbarrier_state(tc_interp *it, const tc_op *wait);
bool tc_interp_mbarrier_end(tc_interp *it) TC_MUST_CHECK;

/* bulk.c. Lets one copy arrive; *none: there was none in flight. */
bool tc_interp_bulk_land(tc_interp *it, bool *none) TC_MUST_CHECK;
/* Some copies may arrive, as the order has it. */
bool tc_interp_bulk_land_some(tc_interp *it) TC_MUST_CHECK;
/* A phase has ended: a copy that it should have waited for is found. */
bool tc_interp_bulk_phase(tc_interp *it, unsigned mbarrier) TC_MUST_CHECK;
/* A store to global memory that a copy may still read is reported. */
bool tc_interp_bulk_stored(tc_interp *it, const tc_op *op, const void *p,
                           unsigned thread) TC_MUST_CHECK;
bool tc_interp_bulk_end(tc_interp *it) TC_MUST_CHECK;

/* products.c. Before an op that is no mma or mma_wait: does it touch what an
 * mma still computes? */
bool tc_interp_products_ok(tc_interp *it, const tc_op *op) TC_MUST_CHECK;
/* An mma of warp groups starts; an asynchronous one gets its number. */
bool tc_interp_product_start(tc_interp *it, const tc_op *op) TC_MUST_CHECK;
void tc_interp_product_end(tc_interp *it, const tc_op *op);
bool tc_interp_products_end(tc_interp *it) TC_MUST_CHECK;
bool tc_interp_tiles_end(tc_interp *it) TC_MUST_CHECK;

/* async.c. Copies that nobody waited for, at the end of a program. */
bool tc_interp_async_end(tc_interp *it) TC_MUST_CHECK;

/* clock.c. All groups of the role meet, or the whole program. */
void tc_interp_meet(tc_interp *it);

/* follow.c: of operand `first` and the next two. */
bool tc_interp_follow_at(tc_interp *it, const tc_op *op, unsigned first);
/* A store to an element, if it is ordered; `last` is updated. */
bool tc_interp_follow_add(tc_interp *it, const tc_op *op, tc_iadded *last);

tc_interp_fn tc_interp_for, tc_interp_if, tc_interp_while, tc_interp_assert,
    tc_interp_assume, tc_interp_exit_if, tc_interp_print, tc_interp_elementwise,
    tc_interp_splat, tc_interp_range, tc_interp_ramp, tc_interp_moved,
    tc_interp_parts, tc_interp_convert, tc_interp_reduce, tc_interp_scan,
    tc_interp_scan_carry, tc_interp_size, tc_interp_base, tc_interp_make_tensor,
    tc_interp_block, tc_interp_advance, tc_interp_load, tc_interp_store,
    tc_interp_gather_op, tc_interp_atomic, tc_interp_follow,
    tc_interp_smem_alloc, tc_interp_smem_index, tc_interp_smem_trans,
    tc_interp_smem_slice, tc_interp_smem_load, tc_interp_smem_store,
    tc_interp_smem_copy, tc_interp_smem_take, tc_interp_smem_count,
    tc_interp_barrier, tc_interp_async_copy, tc_interp_async_commit,
    tc_interp_async_wait, tc_interp_mma, tc_interp_mma_wait,
    tc_interp_warp_groups, tc_interp_mbarrier_alloc, tc_interp_mbarrier_wait,
    tc_interp_mbarrier_arrive, tc_interp_tma_load, tc_interp_tma_prefetch,
    tc_interp_tma_store, tc_interp_tma_store_wait, tc_interp_fence_async,
    tc_interp_turn, tc_interp_smem_store_scalar, tc_interp_smem_load_scalar,
    tc_interp_next_tile, tc_interp_end_tiles;

#endif
