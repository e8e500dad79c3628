/* SPDX-License-Identifier: Apache-2.0
 *
 * Shipped kernels on small data: compiled for the CPU, which says what is
 * right, and to machine-level text, which the interpreter runs. The text is all
 * that goes from one to the other.
 */
#ifndef TEST_MACHINE_PROBLEM_H
#define TEST_MACHINE_PROBLEM_H

#include "codegen/interp/interp.h"
#include "passes/passes.h"
#include "test/numerics/number.h"

enum { PROBLEM_ARGS = 18, PROBLEM_BINDINGS = 12 };

/* What is to be computed. Sides have a letter each: size['M' - 'A']. 'S' is no
 * side: 1 puts infinities and a NaN into v, 2 takes a scale of 0, 3 has y in
 * the place of x. Nor are 'W' and 'L', the length of a window if it is not 0.
 * 'P' is the batch of dk and dv, of all parts, or the rows of a page. 'K' and
 * 'Q' are of items.h.
 */
typedef struct problem {
    const char *name;
    const char *kernel; /* in kernels/, or in paged.tile here */
    tc_binding bindings[PROBLEM_BINDINGS];
    int size[26];
    double tolerance; /* norm of the difference by norm of what is right */
} problem;

/* How it is scheduled. A binding to "?" becomes the rows that the warps have,
 * 16 each. */
typedef struct schedule {
    unsigned warps, stages;
    bool plain;           /* shared memory without swizzles */
    const char *pipeline; /* NULL: "gpu" */
    const char *target;   /* NULL: "sm_80" */
    tc_tiles tiles;
} schedule;

/* Its arguments. */
typedef struct data {
    unsigned nargs;
    num_tensor tensors[PROBLEM_ARGS]; /* memory NULL: a scalar */
    tc_launch_arg args[PROBLEM_ARGS];
    double *want[PROBLEM_ARGS];   /* of what is written, else NULL */
    double *before[PROBLEM_ARGS]; /* of what is written */
    /* Words by which programs order themselves, as many as blocks. */
    bool is_free[PROBLEM_ARGS];
} data;

/* Runs the kernel on the CPU. False: said why on standard output. */
bool problem_data(const problem *p, data *d);
void data_free(data *d);

/* The finished machine-level program, for data like this (aligned tensors, or
 * not); malloc'd. NULL: said why. */
char *problem_text(const problem *p, const schedule *s, const data *d);

/* What came of running a text. */
typedef enum outcome {
    OUTCOME_RIGHT,
    OUTCOME_REFUSED, /* does not parse or verify */
    OUTCOME_FOUND,   /* the interpreter says that it is wrong */
    OUTCOME_WRONG    /* the results are */
} outcome;
typedef struct verdict {
    outcome outcome;
    unsigned line;     /* of the finding in the text */
    char message[512]; /* what was found, or how wrong the result is */
} verdict;
/* One run of a text. Programs run in the order that goes with that of copies:
 * with EARLY from the last one on, with RANDOM in any order. */
typedef struct trial {
    const problem *problem;
    data *data;
    tc_interp_order order;
    uint64_t seed;
    unsigned group;  /* all do the steps of this one; 0: those of all rows */
    uint64_t *turns; /* taken; or NULL */
} trial;
/* Parses the text and makes the trials, up to the first that is not right. */
verdict run_text(const char *text, const trial *trials, int n);

#endif
