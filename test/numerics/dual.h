/* SPDX-License-Identifier: Apache-2.0
 *
 * Random functions of a score, of positions, and of captured numbers: their
 * text in tile IR, and their values and derivatives in dual numbers (forward
 * mode, which the compiler has none of), in float64.
 */
#ifndef TEST_DUAL_H
#define TEST_DUAL_H

#include "test/numerics/number.h"

enum { DUAL_LINE = 6, DUAL_ROWS = 3, DUAL_COLUMNS = 4 };

/* A value and its derivative for the one input that is looked at. */
typedef struct dual {
    double v, d;
} dual;

typedef struct dual_inputs {
    double score, number;
    double line[DUAL_LINE];                 /* %t: tensor<[?] x f64> */
    double table[DUAL_ROWS * DUAL_COLUMNS]; /* %u: tensor<[?, ?] x f64> */
    int h, q, k;
    /* The input that the derivative is for: &score, &number, an element. */
    const double *wrt;
} dual_inputs;

typedef struct dual_function dual_function;
dual_function *dual_random(num_rng *r, int size);
void dual_free(dual_function *f);
dual dual_eval(const dual_function *f, const dual_inputs *in);
/* func @NAME(%score: f64, %h: i32, %q: i32, %k: i32, %number: f64,
 *            %t: tensor<[?] x f64>, %u: tensor<[?, ?] x f64>) -> f64
 * To be freed. */
char *dual_text(const dual_function *f, const char *name);

#endif
