/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of the tests: every storage type decoded and encoded by code that
 * shares nothing with the compiler, a random generator, strided tensors.
 */
#ifndef TEST_NUMBER_H
#define TEST_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum num_type {
    NUM_I1,
    NUM_I8,
    NUM_I16,
    NUM_I32,
    NUM_I64,
    NUM_F8E4M3,
    NUM_F8E5M2,
    NUM_F16,
    NUM_BF16,
    NUM_F32,
    NUM_F64,
    NUM_TYPE_COUNT
} num_type;

const char *num_name(num_type t); /* as in tile IR: "f32" */
size_t num_bytes(num_type t);
bool num_is_float(num_type t);
/* Bits of a float type to its value, and back: to nearest even; to fp8
 * saturating, NaN stays NaN. */
double num_from_bits(num_type t, uint64_t bits);
uint64_t num_to_bits(num_type t, double x);
/* The nearest value that the type has. */
double num_round(num_type t, double x);
/* The relative error of that rounding, of a float type; 0 of f32 and f64, whose
 * rounding is none of the errors that count. */
double num_half_step(num_type t);
double num_read(num_type t, const void *p);
void num_write(num_type t, void *p, double x);

/* splitmix64: small, and any seed is a good one. */
typedef struct num_rng {
    uint64_t state;
} num_rng;
uint64_t num_next(num_rng *r);
int num_below(num_rng *r, int n);          /* 0 .. n-1 */
int num_between(num_rng *r, int a, int b); /* a .. b */
double num_uniform(num_rng *r);            /* [0, 1) */
double num_normal(num_rng *r);

/* A strided view in memory of its own. What lies outside the view holds a
 * poison (NaN in the float types), so that a read outside shows in the result
 * and a write outside is found by num_tensor_intact. */
enum { NUM_MAX_RANK = 5 };
typedef struct num_tensor {
    num_type type;
    int rank;
    int32_t size[NUM_MAX_RANK];
    int64_t stride[NUM_MAX_RANK]; /* in elements */
    unsigned char *data;          /* element [0, 0, ...] */
    unsigned char *memory;
    size_t bytes;
} num_tensor;

/* How a tensor lies in memory: dims from outermost to innermost, and how many
 * elements are skipped before and after the view in each dim. */
typedef struct num_layout {
    const char *name;
    int order[NUM_MAX_RANK];
    int before[NUM_MAX_RANK], behind[NUM_MAX_RANK];
} num_layout;

/* layout NULL: row-major, dense. */
num_tensor num_tensor_new(num_type t, int rank, const int32_t *size,
                          const num_layout *layout);
void num_tensor_free(num_tensor *t);
/* Whether all bytes outside the view still hold the poison. */
bool num_tensor_intact(const num_tensor *t);
/* Address of an element given by its row-major index. */
void *num_at(const num_tensor *t, int64_t index);
int64_t num_count(const num_tensor *t);
/* All elements in row-major order; to be freed. */
double *num_tensor_read(const num_tensor *t);

/* How far `got` is from `want`: rows of `width` elements. A NaN on one side
 * only, or infinities that differ, make it infinite. */
typedef struct num_error {
    double overall;   /* norm of the difference by norm of want */
    double worst_row; /* the same of the worst row */
    double absolute;  /* largest difference */
} num_error;
num_error num_compare(const double *got, const double *want, int64_t n,
                      int64_t width);

#endif
