/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans in the library: a tilec_kernel that is several kernels, the tensors
 * between them, and a list of steps that the host takes at each launch.
 *
 *   plan.c          from a text: passes, each kernel compiled by itself
 *   plan_steps.c    the steps
 *   plan_run.c      a launch: sizes, workspace, then fills and launches
 *   plan_memory.c   tensors that are not in use at the same time share memory
 */
#ifndef TC_LIB_PLAN_H
#define TC_LIB_PLAN_H

#include "ir/plan.h"
#include "lib/program/compile.h"

#include <stdatomic.h>

typedef enum tc_step_kind {
    TC_STEP_SCALAR,    /* value `out` from the op */
    TC_STEP_ASSERT,    /* of in[0] */
    TC_STEP_WORKSPACE, /* tensor `out`, piece `index` */
    TC_STEP_FILL,      /* tensor in[0] */
    TC_STEP_LAUNCH,    /* kernel `index` */
    TC_STEP_UNLESS,    /* go on at step `index` where in[0] is false */
    TC_STEP_GOTO       /* go on at step `index` */
} tc_step_kind;

/* Values by number: the plan's arguments, then the results of its ops. */
typedef struct tc_plan_step {
    tc_step_kind kind;
    const tc_op *op;
    const unsigned *in; /* values */
    unsigned out, index;
} tc_plan_step;

/* In the arena of the tilec_kernel that it belongs to. */
typedef struct tc_launch_plan {
    unsigned nkernels;
    tilec_kernel **kernels; /* in the order of their first launch */
    unsigned nsteps, nvalues, npieces, most_args;
    const tc_plan_step *steps;
    _Atomic(struct tc_plan_room *) kept; /* of the last launch (plan_run.c) */
} tc_launch_plan;

/* One of a plan's kernels, so that it can be compiled again by itself. */
typedef struct tc_plan_part {
    const char *plan; /* without `@` */
    unsigned nbindings;
    const tc_binding *bindings; /* of the plan's parameters */
    tc_enforce enforce;         /* of all its kernels' variants */
} tc_plan_part;

/* Tuned settings of kernels by their names, for the plans that launch them. */
typedef struct tc_plan_tuning {
    const char *kernel;
    unsigned warps, stages, ptxas_level; /* 0: not said */
    tilec_tiles tiles;
} tc_plan_tuning;

/* The plan's way through tc_job_finish, after binding. */
bool tc_launch_plan_finish(tc_job *job, const tilec_compile_options *options,
                           const tc_target *target, const tc_func *f,
                           const tc_bound *bound) TC_MUST_CHECK;
/* Leaves of job->module the kernel that the options name, which a launch of the
 * plan has got. */
bool tc_part_isolate(tc_job *job, const tc_plan_part *part,
                     const tilec_compile_options *options) TC_MUST_CHECK;
/* plan_steps.c: of a plan after its passes; room for its kernels, whose names
 * (with `@`) are in *names. The fields `data` of its values are used. */
tc_launch_plan *tc_plan_steps(tc_func *plan, tc_arena *a,
                              const char *const **names);
/* A plan's kernel writes what its kernels write, and what it fills. */
void tc_plan_find_written(const tilec_kernel *k);
/* Drops its kernels; accepts NULL. */
void tc_launch_plan_free(tc_launch_plan *plan);

/* Drops what the last launch left. */
void tc_plan_forget(tc_launch_plan *plan);
tilec_status tc_plan_launch(const tilec_kernel *k, const tilec_argument *args,
                            size_t nargs, const tilec_launch_options *options,
                            tilec_error *error);
/* A plan of GPU kernels on the host: tensors and workspace are in host memory,
 * and kernels are given to a function, one after the other. */
typedef struct tc_plan_host {
    tilec_status (*launch)(void *user, const tilec_kernel *k,
                           const tilec_argument *args, size_t nargs,
                           tilec_error *error);
    void *user;
} tc_plan_host;
tilec_status tc_plan_run_on_host(const tilec_kernel *k,
                                 const tilec_argument *args, size_t nargs,
                                 const tilec_launch_options *options,
                                 const tc_plan_host *host, tilec_error *error);
/* Of a launch with arguments like these; those that no size depends on may be
 * missing. */
tilec_status tc_plan_workspace(const tilec_kernel *k,
                               const tilec_argument *args, size_t nargs,
                               uint64_t *bytes, tilec_error *error);

/* ---- Memory (plan_memory.c) ---- */

/* A tensor of the workspace: in use from one step to another, both included. */
typedef struct tc_piece {
    bool is_used;
    unsigned first, last;
    uint64_t bytes, align;
    uint64_t offset; /* the result */
} tc_piece;

/* Bytes of all, from a base that is aligned as the one that asks for most. */
uint64_t tc_pieces_place(tc_piece *pieces, unsigned n);

#endif
