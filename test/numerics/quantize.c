/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/quantize.tile: factors, numbers of 8 bits and rotations against their
 * definitions; and what rotation is for: attention where q and k have outliers.
 *
 *   numerics_quantize [--seed N] [--cases N] [--verbose 1]
 */
#include "test/numerics/reference.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    num_type from, to;
    int d, rows;     /* of a block */
    int hadamard;    /* 0: no rotation */
    bool by_columns; /* the numbers that it gives */
} problem;

static const problem problems[] = {
    {NUM_BF16, NUM_F8E4M3, 128, 64, 0, false},
    {NUM_BF16, NUM_F8E4M3, 64, 32, 64, false},
    {NUM_F16, NUM_F8E5M2, 80, 64, 16, false},
    {NUM_F32, NUM_F8E4M3, 24, 16, 8, true},
    {NUM_F16, NUM_F8E4M3, 40, 128, 0, true},
    {NUM_BF16, NUM_F8E5M2, 256, 64, 256, false},
    {NUM_BF16, NUM_F8E4M3, 128, 64, 128, true},
};
enum { NPROBLEMS = sizeof problems / sizeof *problems };
enum { BATCH = 2, HEADS = 3 };

static int blocks(int length, int rows)
{
    return (length + rows - 1) / rows;
}

static tilec_kernel *kernel_of(tilec_context *cx, const problem *p,
                               const char *kernel)
{
    char d[16], rows[16], hadamard[16];
    snprintf(d, sizeof d, "%d", p->d);
    snprintf(rows, sizeof rows, "%d", p->rows);
    snprintf(hadamard, sizeof hadamard, "%d", p->hadamard);
    tilec_binding b[] = {{"D", d},
                         {"T", num_name(p->from)},
                         {"BM", rows},
                         {"HADAMARD", hadamard},
                         {"TQ", num_name(p->to)},
                         {"YC", p->by_columns ? "2" : "3"}};
    bool has_result = strcmp(kernel, "largest_of_blocks") != 0;
    return run_compile_bound(cx, "quantize", kernel, b, has_result ? 6 : 4);
}

/* ---- What is right ---- */

/* By halves; over sqrt(n). */
static void rotate(double *x, int n)
{
    for (int side = 1; side < n; side *= 2)
        for (int i = 0; i < n; i++)
            if (!(i & side)) {
                double a = x[i], b = x[i + side];
                x[i] = a + b;
                x[i + side] = a - b;
            }
    for (int i = 0; i < n; i++)
        x[i] /= sqrt(n);
}

static double *rotated(const num_tensor *x, int hadamard)
{
    double *all = num_tensor_read(x);
    for (int64_t i = 0; hadamard && i < num_count(x); i += hadamard)
        rotate(all + i, hadamard);
    return all;
}

/* Half a step of the type at x, and of the smallest there is. */
static double half_step(num_type t, double x)
{
    return t == NUM_F8E4M3 ? fmax(fabs(x) * 0x1p-4, 0x1p-10)
                           : fmax(fabs(x) * 0x1p-3, 0x1p-17);
}

/* `rows`: so many of a head share a factor. "" or what is wrong. */
static void compare(const problem *p, const num_tensor *x, const num_tensor *y,
                    const num_tensor *scales, int rows, char why[128])
{
    double *want = rotated(x, p->hadamard), *got = num_tensor_read(y);
    double *scale = num_tensor_read(scales);
    double end = num_round(p->to, 1e9);
    int64_t length = x->size[2], d = p->d, heads = BATCH * HEADS;
    int per_head = blocks((int)length, rows);
    *why = 0;
    for (int64_t f = 0; f < heads * per_head; f++) {
        int64_t first = f / per_head * length + f % per_head * rows;
        int64_t last = first + rows, behind = (f / per_head + 1) * length;
        int64_t from = first * d, to = (last < behind ? last : behind) * d;
        double most = 0;
        for (int64_t i = from; i < to; i++)
            most = fmax(most, fabs(want[i]));
        double right = most == 0 ? 1 : most / end;
        if (!(fabs(scale[f] - right) <= 2e-6 * right))
            snprintf(why, 128, "factor %d is %g, should be %g", (int)f,
                     scale[f], right);
        for (int64_t i = from; i < to; i++) {
            double off = fabs(got[i] - want[i] / scale[f]);
            if (!(off <= half_step(p->to, want[i] / scale[f]) + 2e-6 * end))
                snprintf(why, 128, "number %d is %g, should be %g", (int)i,
                         got[i] * scale[f], want[i]);
        }
    }
    if (!num_tensor_intact(y) || !num_tensor_intact(scales))
        strcpy(why, "wrote outside");
    free(want);
    free(got);
    free(scale);
}

/* ---- Running ---- */

/* Outliers in one column; a head of zeros. */
static num_tensor numbers(num_rng *r, const problem *p, int length)
{
    int32_t size[] = {BATCH, HEADS, length, p->d};
    num_tensor x = num_tensor_new(p->from, 4, size, NULL);
    int64_t of_head = (int64_t)length * p->d;
    for (int64_t i = 0; i < num_count(&x); i++) {
        double outlier = i % p->d == 5 ? 20 : 1;
        bool zero = i / of_head == 2;
        num_write(p->from, num_at(&x, i), zero ? 0 : num_normal(r) * outlier);
    }
    return x;
}

static bool launch(const tilec_kernel *k, const num_tensor *x,
                   const num_tensor *y, const num_tensor *scales,
                   const num_tensor *largest, tilec_error *error)
{
    const num_tensor *all[] = {x, y, scales, largest};
    static const char *const names[] = {"x", "y", "scales", "largest"};
    run_view views[4];
    tilec_argument args[4];
    size_t n = 0;
    for (int i = 0; i < 4; i++)
        if (all[i]) {
            args[n] = tilec_tensor(names[i], run_view_of(&views[n], all[i]));
            n++;
        }
    return run_launch(k, args, n, NULL, error) == TILEC_OK;
}

typedef struct kernels {
    tilec_kernel *block, *largest, *head;
} kernels;

static kernels all_kernels(tilec_context *cx, const problem *p)
{
    return (kernels){kernel_of(cx, p, "quantize_block"),
                     kernel_of(cx, p, "largest_of_blocks"),
                     kernel_of(cx, p, "quantize_head")};
}

static void free_kernels(kernels *k)
{
    tilec_kernel_free(k->block);
    tilec_kernel_free(k->largest);
    tilec_kernel_free(k->head);
}

static bool quantize_head(const kernels *k, const problem *p,
                          const num_tensor *x, const num_tensor *y,
                          const num_tensor *scales, tilec_error *error)
{
    int32_t size[] = {x->size[0], x->size[1], blocks(x->size[2], p->rows)};
    num_tensor largest = num_tensor_new(NUM_F32, 3, size, NULL);
    bool ok = launch(k->largest, x, NULL, NULL, &largest, error) &&
              launch(k->head, x, y, scales, &largest, error);
    num_tensor_free(&largest);
    return ok;
}

static const num_layout columns = {"columns", {0, 1, 3, 2}, {0}, {0}};

static void run_case(const kernels *k, const problem *p, num_rng *r,
                     run_counts *counts)
{
    int length = num_between(r, 1, 200);
    int32_t of_blocks[] = {BATCH, HEADS, blocks(length, p->rows)};
    num_tensor x = numbers(r, p, length);
    num_tensor y =
        num_tensor_new(p->to, 4, x.size, p->by_columns ? &columns : NULL);
    num_tensor fine = num_tensor_new(NUM_F32, 3, of_blocks, NULL);
    num_tensor coarse = num_tensor_new(NUM_F32, 2, of_blocks, NULL);
    char why[128] = "";
    tilec_error error = {0};
    bool ok = launch(k->block, &x, &y, &fine, NULL, &error);
    if (ok)
        compare(p, &x, &y, &fine, p->rows, why);
    run_check(counts, ok && !*why, "blocks of %d x %d, %s to %s: %s%s", p->rows,
              p->d, num_name(p->from), num_name(p->to), error.message, why);
    ok = quantize_head(k, p, &x, &y, &coarse, &error);
    if (ok)
        compare(p, &x, &y, &coarse, length, why);
    run_check(counts, ok && !*why, "heads of %d x %d, %s to %s: %s%s", length,
              p->d, num_name(p->from), num_name(p->to), error.message, why);
    num_tensor_free(&x);
    num_tensor_free(&y);
    num_tensor_free(&fine);
    num_tensor_free(&coarse);
}

static void run_problem(tilec_context *cx, const problem *p, num_rng *r,
                        int cases, run_counts *counts)
{
    kernels k = all_kernels(cx, p);
    if (run_check(counts, k.block && k.largest && k.head,
                  "D = %d: does not compile", p->d))
        for (int i = 0; i < cases; i++)
            run_case(&k, p, r, counts);
    free_kernels(&k);
}

/* ---- Rotation and attention ---- */

enum { DIM = 64, LENGTH = 128 };

typedef struct rotation {
    num_tensor q, k, v, o, lse;
    num_tensor narrow[2], scales[2]; /* of q and k */
    tilec_error error;
} rotation;

/* Scores have one large summand that all keys have nearly in common. */
static num_tensor with_outliers(num_rng *r, num_type t, double outlier)
{
    int32_t size[] = {1, 1, LENGTH, DIM};
    num_tensor x = num_tensor_new(t, 4, size, NULL);
    for (int64_t i = 0; i < num_count(&x); i++)
        num_write(t, num_at(&x, i),
                  num_normal(r) + (i % DIM == 5 ? outlier : 0));
    return x;
}

static rotation new_rotation(uint64_t seed)
{
    num_rng r = {seed};
    int32_t size[] = {1, 1, LENGTH, DIM};
    rotation x = {.q = with_outliers(&r, NUM_F32, 12),
                  .k = with_outliers(&r, NUM_F32, 12),
                  .v = with_outliers(&r, NUM_BF16, 0),
                  .o = num_tensor_new(NUM_F32, 4, size, NULL),
                  .lse = num_tensor_new(NUM_F32, 3, size, NULL)};
    for (int i = 0; i < 2; i++) {
        x.narrow[i] = num_tensor_new(NUM_F8E4M3, 4, size, NULL);
        x.scales[i] = num_tensor_new(NUM_F32, 2, size, NULL);
    }
    return x;
}

static void free_rotation(rotation *x)
{
    num_tensor_free(&x->q);
    num_tensor_free(&x->k);
    num_tensor_free(&x->v);
    num_tensor_free(&x->o);
    num_tensor_free(&x->lse);
    for (int i = 0; i < 2; i++) {
        num_tensor_free(&x->narrow[i]);
        num_tensor_free(&x->scales[i]);
    }
}

static bool narrow_both(tilec_context *cx, rotation *x, int hadamard)
{
    problem p = {NUM_F32, NUM_F8E4M3, DIM, 64, hadamard, false};
    kernels k = all_kernels(cx, &p);
    bool ok = k.largest && k.head;
    for (int i = 0; ok && i < 2; i++)
        ok = quantize_head(&k, &p, i ? &x->k : &x->q, &x->narrow[i],
                           &x->scales[i], &x->error);
    free_kernels(&k);
    return ok;
}

static bool attend(tilec_context *cx, rotation *x)
{
    tilec_binding b[] = {{"D", "64"},
                         {"T", "f8e4m3"},
                         {"TV", "bf16"},
                         {"TP", "bf16"},
                         {"TO", "f32"},
                         {"descale_q", "@per_batch_head"},
                         {"descale_k", "@per_batch_head"}};
    tilec_kernel *k = run_compile_bound(cx, "attention_fwd", "attention_fwd", b,
                                        sizeof b / sizeof *b);
    run_view v[7];
    tilec_argument args[] = {
        tilec_tensor("q", run_view_of(&v[0], &x->narrow[0])),
        tilec_tensor("k", run_view_of(&v[1], &x->narrow[1])),
        tilec_tensor("v", run_view_of(&v[2], &x->v)),
        tilec_tensor("o", run_view_of(&v[3], &x->o)),
        tilec_tensor("lse", run_view_of(&v[4], &x->lse)),
        tilec_float("scale", 0.125),
        tilec_tensor("max", &v[4].dl),
        tilec_tensor("descale_q.scales", run_view_of(&v[5], &x->scales[0])),
        tilec_tensor("descale_k.scales", run_view_of(&v[6], &x->scales[1]))};
    bool ok = k && run_launch(k, args, sizeof args / sizeof *args, NULL,
                              &x->error) == TILEC_OK;
    tilec_kernel_free(k);
    return ok;
}

/* Against attention on the numbers as they were; infinite if it fails. */
static double error_of(tilec_context *cx, uint64_t seed, int hadamard)
{
    double want[LENGTH * DIM], lse[LENGTH], error = INFINITY;
    rotation x = new_rotation(seed);
    if (narrow_both(cx, &x, hadamard) && attend(cx, &x)) {
        ref_attention a = {.q = &x.q, .k = &x.k, .v = &x.v, .scale = 0.125};
        ref_attention_forward(&a, want, lse);
        double *got = num_tensor_read(&x.o);
        error = num_compare(got, want, LENGTH * DIM, DIM).overall;
        free(got);
    } else {
        printf("%s\n", x.error.message);
    }
    free_rotation(&x);
    return error;
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)run_option(argc, argv, "seed", 1);
    int cases = (int)run_option(argc, argv, "cases", 4);
    tilec_context *cx = run_context();
    run_counts counts = {0};
    num_rng r = {seed};
    for (int i = 0; i < NPROBLEMS; i++)
        run_problem(cx, &problems[i], &r, cases, &counts);
    double plain = error_of(cx, seed, 0), turned = error_of(cx, seed, DIM);
    run_check(&counts, isfinite(plain) && turned < 0.6 * plain,
              "rotation: error %.3f, without %.3f", turned, plain);
    if (run_option(argc, argv, "verbose", 0))
        printf("rotation: error %.3f, without %.3f\n", turned, plain);
    run_context_free(cx);
    return run_finish(&counts);
}
