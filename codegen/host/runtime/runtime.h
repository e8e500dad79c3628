/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the code of a kernel calls: reporting a failure, printing.
 */
#ifndef TC_HOST_RUNTIME_H
#define TC_HOST_RUNTIME_H

#include "codegen/host/host.h"

#include <pthread.h>
#include <stdatomic.h>

/* A place in a kernel that may report or print. */
typedef struct tc_site {
    tc_loc loc;
    const char *message; /* failure: may hold %lld for each value */
    unsigned nvalues;
    struct tc_site_value { /* of print */
        tc_kind kind;
        unsigned rank; /* of a tile; 0: a scalar */
        int64_t sides[TC_MAX_RANK];
    } * values;
} tc_site;

/* A launch in flight. */
typedef struct tc_run {
    const tc_site *sites;
    const tc_host_launch_options *options;
    tc_host_report *report;
    int32_t grid[3];
    uint64_t total;
    atomic_uint_fast64_t next;
    atomic_bool stop;
    pthread_mutex_t lock; /* of the report, and of printing */
} tc_run;

/* The last argument of the code. */
typedef struct tc_run_thread {
    tc_run *run;
    int32_t program[3];
} tc_run_thread;

/* Fills in the report, if it is the first, and stops the launch. */
void tc_host_rt_fail(tc_run_thread *t, int32_t site, int64_t a, int64_t b,
                     int64_t c, int64_t d);
/* values: a scalar as its register bits (floats as double), a tile as the
 * address of its buffer. */
void tc_host_rt_print(tc_run_thread *t, int32_t site, const int64_t *values);
/* *own: what the program and those ahead are done with, all before `step`
 * (INT32_MAX: all); then waits until the program of *ahead is done with `step`,
 * too. A step below 0 is none. False: the launch stops. */
bool tc_host_rt_follow(tc_run_thread *t, int32_t *own, const int32_t *ahead,
                       int32_t step);

#endif
