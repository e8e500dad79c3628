/* SPDX-License-Identifier: Apache-2.0
 *
 * Small programs with known results. A program is the body of
 *
 *   kernel @t(%x: tensor<[?, ?] x f32>, %i: tensor<[?, ?] x i32>, %n: i32,
 *             %o: tensor<[?, ?] x f32>, %p: tensor<[?, ?] x i32>) grid(GRID)
 *
 * where x and i hold small whole numbers, and o and p zeros. What it is to
 * write there is said by a C function; all else must stay zero.
 */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include "test/numerics/run.h"

enum { WORLD_ROWS = 32, WORLD_COLUMNS = 64, WORLD_OUT = 128 };

typedef struct world {
    int n;
    float x[WORLD_ROWS][WORLD_COLUMNS];
    int32_t i[WORLD_ROWS][WORLD_COLUMNS];
    float o[WORLD_OUT][WORLD_OUT]; /* what is wanted */
    int32_t p[WORLD_OUT][WORLD_OUT];
} world;

typedef struct world_test {
    const char *name, *grid, *body;
    void (*expect)(world *w);
    const char *functions; /* before the kernel; or NULL */
    int n[6];              /* values of %n; a 0 after the first ends them */
    double tolerance;      /* relative, of o */
} world_test;

void world_run(tilec_context *cx, const world_test *t, run_counts *counts);
/* Compiles such a kernel and launches it, which must fail with a message that
 * holds `message`, at `line` of the body (0: not looked at). */
void world_run_failure(tilec_context *cx, const char *name, const char *grid,
                       const char *body, int n, const char *message, int line,
                       run_counts *counts);
/* Launches it and gives what it printed, one line each; to be freed. */
char *world_run_print(tilec_context *cx, const char *name, const char *grid,
                      const char *body, int n, run_counts *counts);

#endif
