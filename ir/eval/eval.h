/* SPDX-License-Identifier: Apache-2.0
 *
 * The semantics of the scalar ops: the reference that every target must agree
 * with (ir/LANGUAGE.md, "Scalar semantics"), used to fold constants, to
 * evaluate launch grids, and by the tests of the targets.
 */
#ifndef TC_EVAL_H
#define TC_EVAL_H

#include "ir/ir.h"

/* A scalar value. Ints are sign-extended in `i` (i1 is 0 or 1); floats are in
 * `f`, always a value that the kind can represent. */
typedef struct tc_scalar {
    int64_t i;
    double f;
} tc_scalar;

/* Rounds to what `kind` (a float) can represent: to nearest, ties to even.
 * Beyond the largest, f16, bf16 and f32 give infinity; fp8 saturates. */
double tc_round_to(tc_kind kind, double x);
/* The stored form of x rounded to `kind`; NaN becomes the quiet one. */
uint64_t tc_float_to_bits(tc_kind kind, double x);
double tc_float_from_bits(tc_kind kind, uint64_t bits);

/* The low bits of `i` as an int of that kind, sign-extended (i1: 0 or 1). */
int64_t tc_int_wrap(tc_kind kind, int64_t i);
/* Floored; x / 0 is 0, x rem 0 is x, the smallest by -1 wraps. */
int64_t tc_int_div(tc_kind kind, int64_t a, int64_t b);
int64_t tc_int_rem(tc_kind kind, int64_t a, int64_t b);
/* The literal as a value of a scalar kind (ints wrap, floats round). */
tc_scalar tc_number_value(tc_number n, tc_kind kind);
/* A conversion by `cast`; both kinds are i1 to f64. */
tc_scalar tc_eval_cast(tc_kind from, tc_kind to, tc_scalar x);
/* Steps of `for`: ceil((hi - lo) / step), 0 unless lo < hi and step > 0. */
uint64_t tc_trip_count(int64_t lo, int64_t hi, int64_t step);

/* The result of a pure op on scalars (of the elements, where operands are
 * tiles: the lanes do not matter). in: one value an operand. False where it
 * cannot be known at compile time. */
bool tc_eval_op(const tc_op *op, const tc_scalar *in,
                tc_scalar *out) TC_MUST_CHECK;

/* The launch arguments, one for each argument of the kernel: tensors use sizes,
 * strides (in elements) and data, pointers data, the others scalar. */
typedef struct tc_launch_arg {
    const int32_t *sizes;
    const int64_t *strides;
    tc_scalar scalar;
    void *data;
} tc_launch_arg;

/* A kernel's grid region, made ready for many launches. Refers to the kernel,
 * and is only read: several threads may use it at once. */
typedef struct tc_grid tc_grid;
tc_grid *tc_grid_prepare(tc_arena *a, const tc_func *kernel);
/* Does it ask for num_sms? */
bool tc_grid_asks_sms(const tc_grid *g);
/* How many values tc_grid_run needs room for. */
unsigned tc_grid_room(const tc_grid *g);
typedef struct tc_grid_failure {
    tc_loc loc;
    char message[256];
} tc_grid_failure;
/* As tc_eval_grid, without any memory of its own. False: *failure says why. */
bool tc_grid_run(const tc_grid *g, const tc_launch_arg *args, int32_t num_sms,
                 tc_scalar *values, int32_t grid[3],
                 tc_grid_failure *failure) TC_MUST_CHECK;

/* The value that `v` has in what `user` runs; false: it is not known. */
typedef bool tc_value_of_fn(const void *user, const tc_value *v,
                            tc_scalar *out);
/* Of an assert that fails: ": found 3, expected 4" for the comparison that does
 * not hold, or "" where it is none of ints. */
void tc_assert_found(const tc_op *op, tc_value_of_fn *value_of,
                     const void *user, char *out, size_t size);

/* Evaluates the grid region: the number of programs along each axis, 1 where
 * the kernel gives none. num_sms: what runs blocks side by side, the
 * multiprocessors of a device or the threads of a launch on the CPU. False: an
 * assert failed or an axis is negative or too long; reported. Leaves the IR
 * untouched, so that several threads may do it at once, with a context each. */
bool tc_eval_grid(tc_context *cx, const tc_func *kernel,
                  const tc_launch_arg *args, int32_t num_sms,
                  int32_t grid[3]) TC_MUST_CHECK;

#endif
