/* SPDX-License-Identifier: Apache-2.0
 *
 * An interpreter of finished machine-level IR: the schedule of a GPU kernel,
 * checked on the host.
 *
 * It runs all threads of a block on real data and reports, with the lines of
 * the program, where a GPU might behave differently: races on shared memory,
 * copies read before they were awaited, buffers read before they were written
 * or after another one took their place, accesses outside of tensors. README.md
 * has the model.
 */
#ifndef TC_INTERP_H
#define TC_INTERP_H

#include "ir/eval/eval.h"
#include "ir/ir.h"

/* When an asynchronous copy reads its source and writes its bytes, between
 * issue and the wait that asks for it. A program that is right gives the same
 * in all orders. */
typedef enum tc_interp_order {
    TC_INTERP_LATE,   /* at the wait */
    TC_INTERP_EARLY,  /* at once */
    TC_INTERP_NEWEST, /* a group at its commit, unless it is the oldest one
                       * in flight: that one at the wait */
    TC_INTERP_RANDOM, /* each piece of each thread by itself, by `seed` */
    TC_INTERP_ORDER_COUNT
} tc_interp_order;

/* The order in which the programs of the grid run. Those that follow each other
 * (`follow`) run from the first to the last one. */
typedef enum tc_interp_programs {
    TC_INTERP_FIRST_TO_LAST,
    TC_INTERP_LAST_TO_FIRST,
    TC_INTERP_SHUFFLED /* by `seed` */
} tc_interp_programs;

/* All zero is a sensible default. */
typedef struct tc_interp_options {
    tc_interp_order order;
    tc_interp_programs programs;
    uint64_t seed;
    /* Programs of the grid, counted along the first axis first; count 0: all
     * from `first` on. */
    int64_t first, count;
    uint64_t max_steps;    /* ops that a program may run; 0: 4 million */
    unsigned max_findings; /* then the run stops; 0: 8 */
    /* All groups of the consumer do the steps of this one, from 1 on
     * (`warpgroup_row`): its rows alone are right then. 0: the steps of all
     * rows.
     */
    unsigned group;
    uint64_t *turns; /* how many were taken, if not NULL */
    int32_t num_sms; /* of the device, for the grid; 0: 1. If they follow
                      * each other: 1 */
    /* Bytes after each argument that is a pointer, as many as the kernel has
     * arguments; NULL: not known, pointers are not checked. */
    const uint64_t *pointer_bytes;
    /* A line of the kernel's `print`, without its end. NULL: dropped. */
    void (*print)(void *user, const char *line);
    void *user;
} tc_interp_options;

/* Whether the tensors are aligned as the kernel wants them (tc_func.aligned).
 */
bool tc_interp_takes(const tc_func *kernel, const tc_launch_arg *args);

/* Runs a kernel of machine level that was verified; args: one for each of its
 * arguments, data in host memory. NULL options: the defaults. True: nothing was
 * found, and the results are in the tensors. What is found is in the context's
 * diagnostics: an error at the op, a note at the one that it collides with.
 * Uses the `data` fields of the kernel's ops and values. */
bool tc_interp_run(tc_func *kernel, const tc_launch_arg *args,
                   const tc_interp_options *options) TC_MUST_CHECK;

#endif
