/* SPDX-License-Identifier: Apache-2.0
 *
 * One variant of a workload: compiled, looked at, run, checked, timed.
 *
 * A kernel that is wrong may take the process or the whole CUDA context with
 * it, or never end. So if there are several, each has a process of its own with
 * a time-out; the process that starts them never calls the driver.
 */
#ifndef TOOL_TRIAL_H
#define TOOL_TRIAL_H

#include "tools/measure/workload.h"

typedef enum trial_state {
    TRIAL_DONE,
    TRIAL_REFUSED, /* does not compile */
    TRIAL_PRUNED,  /* compiles, but takes too much of the device */
    TRIAL_WRONG,   /* gives wrong results */
    TRIAL_FAILED   /* cannot be launched, does not end */
} trial_state;

typedef struct trial {
    trial_state state;
    int code;      /* the exit code for it */
    char why[240]; /* of any state but the first */
    char target[16], device[96];
    double compile_ms;
    double us, fastest_us; /* the median */
    unsigned runs;         /* of which */
    bool is_gpu;           /* of a GPU target, what it takes: */
    unsigned warps, threads, registers, shared_bytes, spilled_bytes;
    double error; /* relative */
} trial;

typedef struct trial_options {
    unsigned runs; /* timed ones */
    bool is_dry;   /* only compile */
    bool prunes;   /* what spills or asks for too much is not run */
    double limit;  /* seconds; of trial_run_apart */
} trial_options;

/* In this process; compile errors are in cx. */
void trial_run(const workload *w, const variant *v, const trial_options *o,
               tilec_context *cx, trial *out);
/* In another one. */
void trial_run_apart(const workload *w, const variant *v,
                     const trial_options *o, trial *out);

#endif
