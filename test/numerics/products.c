/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of batches, and sums of f16: of small whole numbers exactly, which
 * all types and orders of the sum give alike; of others against float64. The
 * kernel adds in a loop, and stores the sums and the largest of each row.
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct test {
    run_counts counts;
    tilec_context *cx;
    num_rng rng;
} test;

/* Sides of the kernel's tiles; the tensors have `matrices` matrices, and rows
 * and depths that end within a tile. */
typedef struct shape {
    int batch, m, n, k, matrices;
} shape;

typedef struct problem {
    shape s;
    num_type type, sum;
    bool transposed; /* y is [B, N, K] */
    int rows, depth;
    num_tensor x, y, z, w;
} problem;

static const char kernel[] =
    "kernel @k(%%x: tensor<[?, ?, ?] x %s>, %%y: tensor<[?, ?, ?] x %s>,\n"
    "          %%z: tensor<[?, ?, ?] x %s>, %%w: tensor<[?, ?] x %s>)\n"
    "    grid(cdiv(size(%%x, 1), %d), cdiv(size(%%x, 0), %d)) {\n"
    "  %%m = program_id(0) * %d\n"
    "  %%b = program_id(1) * %d\n"
    "  %%sum = for %%k = 0 to size(%%x, 2) step %d\n"
    "      carry(%%acc = splat(0.0, tile<%dx%dx%d x %s>)) {\n"
    "    %%xt = load %%x[%%b +: %d, %%m +: %d, %%k +: %d] boundary(0, 1, 2)\n"
    "    %%yt = load %%y[%s] boundary(0, 1, 2)\n"
    "    yield dot(%%xt, %s, %%acc)\n"
    "  }\n"
    "  store %%z[%%b +: %d, %%m +: %d, 0 +: %d], %%sum boundary(0, 1)\n"
    "  store %%w[%%b +: %d, %%m +: %d], max(%%sum, axis=2) boundary(0, 1)\n"
    "}\n";

static void write_kernel(const problem *p, size_t n, char *text)
{
    char window[64];
    shape s = p->s;
    const char *t = num_name(p->type), *sum = num_name(p->sum);
    snprintf(window, sizeof window,
             p->transposed ? "%%b +: %d, 0 +: %d, %%k +: %d"
                           : "%%b +: %d, %%k +: %d, 0 +: %d",
             s.batch, p->transposed ? s.n : s.k, p->transposed ? s.k : s.n);
    snprintf(text, n, kernel, t, t, sum, sum, s.m, s.batch, s.m, s.batch, s.k,
             s.batch, s.m, s.n, sum, s.batch, s.m, s.k, window,
             p->transposed ? "trans(%yt)" : "%yt", s.batch, s.m, s.n, s.batch,
             s.m);
}

static void fill(test *t, num_tensor *x, bool whole)
{
    for (int64_t i = 0; i < num_count(x); i++)
        num_write(x->type, num_at(x, i),
                  whole ? num_between(&t->rng, -2, 2)
                        : num_round(x->type, num_normal(&t->rng)));
}

static bool run(test *t, problem *p, const char *what)
{
    char text[2048];
    run_view views[4];
    tilec_error error = {0};
    write_kernel(p, sizeof text, text);
    tilec_argument args[] = {tilec_tensor("x", run_view_of(&views[0], &p->x)),
                             tilec_tensor("y", run_view_of(&views[1], &p->y)),
                             tilec_tensor("z", run_view_of(&views[2], &p->z)),
                             tilec_tensor("w", run_view_of(&views[3], &p->w))};
    tilec_kernel *k = run_compile(t->cx, text, NULL);
    bool ok = k && run_launch(k, args, 4, NULL, &error) == TILEC_OK;
    tilec_kernel_free(k);
    return run_check(&t->counts, ok, "%s: %s", what, error.message);
}

static double sum_of(const problem *p, const double *x, const double *y,
                     int64_t row, int column)
{
    double sum = 0;
    int64_t b = row / p->rows, n = p->s.n;
    for (int k = 0; k < p->depth; k++)
        sum +=
            x[row * p->depth + k] *
            y[b * n * p->depth + (p->transposed ? (int64_t)column * p->depth + k
                                                : k * n + column)];
    return sum;
}

static void compare(test *t, const problem *p, const char *what, bool whole)
{
    int64_t n = num_count(&p->z), rows = n / p->s.n;
    double *x = num_tensor_read(&p->x), *y = num_tensor_read(&p->y),
           *z = num_tensor_read(&p->z), *w = num_tensor_read(&p->w);
    double *want = malloc((size_t)n * sizeof *want);
    bool largest = true;
    for (int64_t i = 0; i < n; i++)
        want[i] = sum_of(p, x, y, i / p->s.n, (int)(i % p->s.n));
    for (int64_t r = 0; r < rows; r++) {
        double most = z[r * p->s.n];
        for (int i = 1; i < p->s.n; i++)
            most = fmax(most, z[r * p->s.n + i]);
        largest &= w[r] == most;
    }
    num_error off = num_compare(z, want, n, p->s.n);
    double limit = whole ? 0 : p->sum == NUM_F16 ? 2e-3 : 2e-6;
    run_check(&t->counts, off.overall <= limit && off.worst_row <= 4 * limit,
              "%s: error %g, of a row %g", what, off.overall, off.worst_row);
    run_check(&t->counts, largest, "%s: the largest of a row", what);
    run_check(&t->counts, num_tensor_intact(&p->z) && num_tensor_intact(&p->w),
              "%s: a write outside", what);
    free(x), free(y), free(z), free(w), free(want);
}

static void check(test *t, problem p, bool whole)
{
    static const num_layout apart = {
        "rows apart", {0, 1, 2}, {0, 0, 0}, {1, 1, 3}};
    char what[96];
    shape s = p.s;
    p.rows = 2 * s.m - 3;
    p.depth = 2 * s.k + 5;
    snprintf(what, sizeof what, "%s in %s, %dx%dx%dx%d%s%s", num_name(p.type),
             num_name(p.sum), s.batch, s.m, s.n, s.k,
             p.transposed ? ", transposed" : "", whole ? ", whole" : "");
    const int32_t x[] = {s.matrices, p.rows, p.depth},
                  z[] = {s.matrices, p.rows, s.n},
                  y[] = {s.matrices, p.transposed ? s.n : p.depth,
                         p.transposed ? p.depth : s.n};
    p.x = num_tensor_new(p.type, 3, x, &apart);
    p.y = num_tensor_new(p.type, 3, y, NULL);
    p.z = num_tensor_new(p.sum, 3, z, &apart);
    p.w = num_tensor_new(p.sum, 2, z, NULL);
    fill(t, &p.x, whole);
    fill(t, &p.y, whole);
    if (run(t, &p, what))
        compare(t, &p, what, whole);
    num_tensor_free(&p.x), num_tensor_free(&p.y);
    num_tensor_free(&p.z), num_tensor_free(&p.w);
}

int main(void)
{
    static const shape shapes[] = {{1, 64, 64, 32, 2},
                                   {2, 64, 32, 64, 3},
                                   {4, 16, 16, 16, 4},
                                   {8, 8, 8, 8, 9},
                                   {2, 128, 128, 64, 2}};
    static const num_type types[][2] = {{NUM_F16, NUM_F16},
                                        {NUM_F16, NUM_F32},
                                        {NUM_BF16, NUM_F32},
                                        {NUM_F32, NUM_F32}};
    test t = {.cx = run_context(), .rng = {7}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            for (int form = 0; form < 4; form++) {
                problem p = {.s = shapes[i],
                             .type = types[k][0],
                             .sum = types[k][1],
                             .transposed = form & 1};
                check(&t, p, form < 2);
            }
    run_context_free(t.cx);
    return run_finish(&t.counts);
}
