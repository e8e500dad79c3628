/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of kernels/tutorial against float64 references, for sizes that
 * their tiles do not divide.
 */
#include "test/numerics/pipeline.h"
#include "test/numerics/reference.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const num_type types[] = {NUM_F32, NUM_F16, NUM_BF16};

typedef struct test {
    tilec_context *cx;
    num_rng *rng;
    run_counts *counts;
} test;

static num_tensor normal(const test *t, num_type type, int rank, int m, int n)
{
    num_tensor x = num_tensor_new(type, rank, (int32_t[]){m, n}, NULL);
    for (int64_t i = 0, count = num_count(&x); i < count; i++)
        num_write(type, num_at(&x, i), num_normal(t->rng));
    return x;
}

/* Compiles a page's kernel and launches it. */
static bool run(const test *t, const char *page, const tilec_binding *bindings,
                size_t nbindings, const tilec_argument *args, size_t nargs)
{
    char path[128];
    snprintf(path, sizeof path, "kernels/tutorial/%s.tile", page);
    char *text = pipeline_file(path);
    tilec_compile_options options = TILEC_INIT(tilec_compile_options);
    options.bindings = bindings;
    options.nbindings = nbindings;
    tilec_kernel *k = run_compile(t->cx, text, &options);
    free(text);
    tilec_error error = {0};
    bool ok = run_check(t->counts, k, "%s: does not compile", page) &&
              run_check(t->counts,
                        run_launch(k, args, nargs, NULL, &error) == TILEC_OK,
                        "%s: %s", page, error.message);
    tilec_kernel_free(k);
    return ok;
}

static void vector_add(const test *t, num_type type, int n)
{
    num_tensor x = normal(t, type, 1, n, 0), y = normal(t, type, 1, n, 0);
    num_tensor z = num_tensor_new(type, 1, x.size, NULL);
    run_view v[3];
    tilec_argument args[] = {tilec_tensor("x", run_view_of(&v[0], &x)),
                             tilec_tensor("y", run_view_of(&v[1], &y)),
                             tilec_tensor("z", run_view_of(&v[2], &z))};
    tilec_binding bindings[] = {{"T", num_name(type)}, {"BLOCK", "64"}};
    if (run(t, "01_vector_add", bindings, 2, args, 3)) {
        double *want = num_tensor_read(&x), *more = num_tensor_read(&y);
        for (int i = 0; i < n; i++)
            want[i] += more[i];
        run_check_rows(t->counts, "vector_add", &z, want, 1e-7);
        free(want);
        free(more);
    }
    num_tensor_free(&x);
    num_tensor_free(&y);
    num_tensor_free(&z);
}

static void softmax(const test *t, num_type type, int m, int n)
{
    num_tensor x = normal(t, type, 2, m, n);
    num_tensor y = num_tensor_new(type, 2, x.size, NULL);
    char width[16];
    snprintf(width, sizeof width, "%d", n);
    run_view v[2];
    tilec_argument args[] = {tilec_tensor("x", run_view_of(&v[0], &x)),
                             tilec_tensor("y", run_view_of(&v[1], &y))};
    tilec_binding bindings[] = {{"T", num_name(type)}, {"N", width}};
    if (run(t, "02_softmax", bindings, 2, args, 2)) {
        double *want = malloc((size_t)num_count(&x) * sizeof *want);
        ref_softmax(&x, want);
        run_check_rows(t->counts, "softmax_rows", &y, want, 2e-6);
        free(want);
    }
    num_tensor_free(&x);
    num_tensor_free(&y);
}

/* With @bias_relu where a bias is given. */
static void matmul_once(const test *t, num_type type, int m, int n, int k,
                        const num_tensor *bias)
{
    num_tensor a = normal(t, type, 2, m, k), b = normal(t, type, 2, k, n);
    num_tensor c = num_tensor_new(type, 2, (int32_t[]){m, n}, NULL);
    run_view v[4];
    tilec_argument args[] = {
        tilec_tensor("a", run_view_of(&v[0], &a)),
        tilec_tensor("b", run_view_of(&v[1], &b)),
        tilec_tensor("c", run_view_of(&v[2], &c)),
        bias ? tilec_tensor("epilogue.bias", run_view_of(&v[3], bias))
             : (tilec_argument){0}};
    tilec_binding bindings[] = {
        {"T", num_name(type)}, {"epilogue", bias ? "@bias_relu" : "@identity"}};
    if (run(t, "03_matmul", bindings, 2, args, bias ? 4 : 3)) {
        double *want = malloc((size_t)num_count(&c) * sizeof *want);
        ref_matmul(&a, &b, want, NULL);
        for (int i = 0; bias && i < m * n; i++)
            want[i] = fmax(want[i] + num_read(NUM_F32, num_at(bias, i % n)), 0);
        run_check_rows(t->counts, "matmul_epilogue", &c, want, 2e-6);
        free(want);
    }
    num_tensor_free(&a);
    num_tensor_free(&b);
    num_tensor_free(&c);
}

static void matmul(const test *t, num_type type, int m, int n)
{
    num_tensor bias = normal(t, NUM_F32, 1, n, 0);
    matmul_once(t, type, m, n, 100, NULL);
    matmul_once(t, type, m, n, 100, &bias);
    num_tensor_free(&bias);
}

static void layer_norm(const test *t, num_type type, int m, int n)
{
    enum { X, WEIGHT, BIAS, Y, MEAN, RSTD, COUNT };
    num_tensor x[COUNT] = {
        normal(t, type, 2, m, n),    normal(t, type, 1, n, 0),
        normal(t, type, 1, n, 0),    normal(t, type, 2, m, n),
        normal(t, NUM_F32, 1, m, 0), normal(t, NUM_F32, 1, m, 0)};
    static const char *const names[] = {"x", "weight", "bias",
                                        "y", "mean",   "rstd"};
    run_view v[COUNT];
    tilec_argument args[COUNT + 1];
    for (int i = 0; i < COUNT; i++)
        args[i] = tilec_tensor(names[i], run_view_of(&v[i], &x[i]));
    args[COUNT] = tilec_float("eps", 1e-3);
    char width[16];
    snprintf(width, sizeof width, "%d", n);
    tilec_binding bindings[] = {{"T", num_name(type)}, {"N", width}};
    if (run(t, "04_layer_norm", bindings, 2, args, COUNT + 1)) {
        double *want = malloc((size_t)(m * n) * sizeof *want);
        double *mean = calloc((size_t)m, sizeof *mean);
        ref_layernorm(&x[X], &x[WEIGHT], &x[BIAS], 1e-3, want);
        for (int i = 0; i < m * n; i++)
            mean[i / n] += num_read(type, num_at(&x[X], i)) / n;
        run_check_rows(t->counts, "layer_norm_rows", &x[Y], want, 5e-6);
        run_check_rows(t->counts, "mean", &x[MEAN], mean, 1e-5);
        free(want);
        free(mean);
    }
    for (int i = 0; i < COUNT; i++)
        num_tensor_free(&x[i]);
}

static bool up_to_itself(const ref_position *at)
{
    return at->k <= at->q;
}

static void flash_attention(const test *t, num_type type, int m, bool causal,
                            double scale)
{
    enum { Q, K, V, O, COUNT, D = 32 };
    static const char *const names[] = {"q", "k", "v", "o"};
    int n = causal ? m : m + 37;
    num_tensor x[COUNT], lse;
    run_view v[COUNT + 1];
    tilec_argument args[COUNT + 2];
    for (int i = 0; i < COUNT; i++) {
        int32_t size[] = {2, 3, i == Q || i == O ? m : n, D};
        x[i] = num_tensor_new(type, 4, size, NULL);
        for (int64_t j = 0; j < num_count(&x[i]); j++)
            num_write(type, num_at(&x[i], j), num_normal(t->rng));
        args[i] = tilec_tensor(names[i], run_view_of(&v[i], &x[i]));
    }
    lse = num_tensor_new(NUM_F32, 3, x[Q].size, NULL);
    args[COUNT] = tilec_tensor("lse", run_view_of(&v[COUNT], &lse));
    args[COUNT + 1] = tilec_float("scale", scale);
    tilec_binding bindings[] = {
        {"T", num_name(type)}, {"D", "32"}, {"CAUSAL", causal ? "1" : "0"}};
    if (run(t, "05_flash_attention", bindings, 3, args, COUNT + 2)) {
        double *o = malloc((size_t)num_count(&x[O]) * sizeof *o);
        double *logs = malloc((size_t)num_count(&lse) * sizeof *logs);
        ref_attention a = {.q = &x[Q],
                           .k = &x[K],
                           .v = &x[V],
                           .scale = scale,
                           .mask = causal ? up_to_itself : NULL};
        ref_attention_forward(&a, o, logs);
        /* The weights are rounded to the type, too. */
        double weights = num_half_step(type);
        run_check_rows(t->counts, "flash_attention", &x[O], o, 2e-6 + weights);
        run_check_rows(t->counts, "lse", &lse, logs, 2e-6);
        free(o);
        free(logs);
    }
    for (int i = 0; i < COUNT; i++)
        num_tensor_free(&x[i]);
    num_tensor_free(&lse);
}

int main(int argc, char **argv)
{
    num_rng r = {(uint64_t)run_option(argc, argv, "seed", 1)};
    run_counts counts = {0};
    test t = {run_context(), &r, &counts};
    static const int lengths[] = {7, 63, 200, 257};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            int n = lengths[j];
            vector_add(&t, types[i], n);
            softmax(&t, types[i], 13, n);
            matmul(&t, types[i], n, lengths[3 - j]);
            layer_norm(&t, types[i], 13, n);
            flash_attention(&t, types[i], n, false, 0.2);
            flash_attention(&t, types[i], n, true, j % 2 ? 0.1 : 0);
        }
    run_context_free(t.cx);
    return run_finish(&counts);
}
