/* SPDX-License-Identifier: Apache-2.0
 *
 * Accesses to memory that need a barrier between them.
 *
 * Threads of a block run at their own pace from one barrier to the next. If one
 * thread writes bytes that another reads or writes, before or after, a barrier
 * has to stand between the accesses. A copy (async_copy) is a write of the
 * thread that issued it, at the time of that thread's async_wait: only from
 * there on can a barrier make it visible to other threads. Likewise an
 * asynchronous mma or a TMA store keeps reading until it has been awaited.
 *
 * Warp groups that access only their own parts of a buffer need no more than a
 * `barrier scope(group)`.
 *
 * In a warp-specialized kernel (warp_groups) only the consumers are analyzed:
 * mbarriers order the producer's accesses to shared memory.
 */
#ifndef TC_HAZARDS_H
#define TC_HAZARDS_H

#include "passes/sync/shared_memory.h"

typedef struct tc_hazard {
    tc_op *from, *to; /* accesses; of a copy that was waited for, the wait */
    tc_op *in_flight; /* `to` touches what this op may still be writing (or
                       * reading): no barrier helps, a wait is missing; else
                       * NULL */
    /* The latest place for the barrier: before this op. Never in a loop that
     * does not need it in every step. */
    tc_op *before;
    tc_op *loop;    /* the innermost around `before`, or NULL */
    unsigned depth; /* loops around it */
    /* Places in the text, counted through all ops. */
    unsigned from_position, position;
    bool carried; /* `from` belongs to an earlier step of a loop around both */
} tc_hazard;

typedef struct tc_hazards {
    unsigned n;
    tc_hazard
        *of; /* each pair of `from` and `before`, or `in_flight` and `to`, once
              */
} tc_hazards;

/* Keeps what it knows of the function in op->data, so that asking again is
 * cheap. */
typedef struct tc_hazard_finder tc_hazard_finder;
tc_hazard_finder *tc_hazard_finder_new(tc_arena *a, tc_func *f);
tc_hazards tc_find_hazards(tc_hazard_finder *h);
/* Is there one at all that a barrier helps against? */
bool tc_needs_barrier(tc_hazard_finder *h);
/* From now on assumes that a barrier stands (or does not stand) before an op
 * that a hazard has named. */
void tc_assume_barrier(tc_op *before, bool there);

/* Fences before barriers that need them (insert_fences.c); true: there are new
 * ones. */
bool tc_insert_fences(tc_func *f, tc_pass_env *env);

/* Global memory (hazards_global.c). Must all threads have done `a` before one
 * does `b`, in the same step of loops, or in a later one of `carrier`? */
bool tc_global_conflict(const tc_op *a, const tc_op *b, const tc_op *carrier);
/* May `op`, where it comes before `load`, change what that loads? (In-place
 * outputs do not count: what is stored to one is not loaded again.) */
bool tc_may_change_loaded(const tc_op *op, const tc_op *load);
/* The same of all ops of a region, nested ones too. */
bool tc_may_change_loaded_in(const tc_region *r, const tc_op *load);
/* The follow before such a store; NULL: it adds in any order. */
tc_op *tc_follow_of(const tc_op *store);
/* Two accesses through windows of one tensor that constants keep apart, in
 * whichever steps of loops. */
bool tc_surely_apart(const tc_op *a, const tc_op *b);
bool tc_reads_global(const tc_op *op);
bool tc_writes_global(const tc_op *op);

#endif
