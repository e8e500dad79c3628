/* SPDX-License-Identifier: Apache-2.0
 *
 * What a GPU target can do. A target is a row of numbers; passes and code
 * generation ask the row, never the name.
 */
#ifndef TC_TARGET_H
#define TC_TARGET_H

#include "ir/base/arena.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct tc_target {
    const char *name;          /* "sm_80"; "cpu" */
    const char *cpu;           /* LLVM's and ptxas's name */
    const char *feature;       /* PTX version as LLVM says it: "+ptx70" */
    unsigned major, minor;     /* least compute capability */
    const char *pipeline;      /* passes.def */
    unsigned shared_per_block; /* bytes, opt-in limit */
    unsigned shared_per_sm;    /* bytes, all blocks and 1 KiB each */
    unsigned registers_per_sm; /* 32 bits each */
    unsigned max_registers;    /* a thread */
    unsigned multiprocessors;  /* of the usual device, for estimates */
    /* Of an SM in a cycle (CUDA programming guide, throughput of arithmetic
     * instructions; NVIDIA's papers on each architecture): special functions of
     * f32, and multiplications of dense matrix products of 16-bit floats. */
    unsigned special_per_cycle, products_per_cycle;
    bool cp_async, ldmatrix, stmatrix, mma_fp8;
    /* Bulk tensor copies on mbarriers; asynchronous products of warp groups;
     * registers that move between warp groups. */
    bool tma, wgmma, setmaxnreg;
    bool exact; /* devices of just this compute capability, no later one */
} tc_target;

/* NULL: unknown. */
const tc_target *tc_target_get(const char *name);
/* In order of capability, "cpu" first; NULL past the end. */
const tc_target *tc_target_at(size_t index);
/* All of them, with `, ` between. */
const char *tc_target_names(tc_arena *a);
/* The best GPU target that a device of this compute capability runs; NULL if
 * none does. */
const tc_target *tc_target_for_device(unsigned major, unsigned minor);

#endif
