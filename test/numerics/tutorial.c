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
#include <string.h>

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

/* Compiles a kernel of a page and launches it. */
static bool run_kernel(const test *t, const char *page, const char *kernel,
                       const tilec_binding *bindings, size_t nbindings,
                       const tilec_argument *args, size_t nargs)
{
    char path[128];
    snprintf(path, sizeof path, "kernels/tutorial/%s.tile", page);
    char *text = pipeline_file(path);
    tilec_compile_options options = TILEC_INIT(tilec_compile_options);
    options.kernel = kernel;
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

/* The only one of the page. */
static bool run(const test *t, const char *page, const tilec_binding *bindings,
                size_t nbindings, const tilec_argument *args, size_t nargs)
{
    return run_kernel(t, page, NULL, bindings, nbindings, args, nargs);
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

/* tl.rand: the first word of Philox4x32-10 of (i, 0, 0, 0), as a number. */
static float rand_of(uint64_t seed, uint32_t i)
{
    uint32_t c[4] = {i, 0, 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c[0] * 0xD2511F53,
                 b = (uint64_t)c[2] * 0xCD9E8D57;
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ key[0], (uint32_t)b,
                            (uint32_t)(a >> 32) ^ c[3] ^ key[1], (uint32_t)a};
        memcpy(c, next, sizeof c);
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    uint32_t w = c[0] >> 31 ? ~c[0] : c[0];
    return (float)w * 4.6566127342e-10F;
}

static void dropout(const test *t, num_type type, int n)
{
    enum { SEED = 1 << 20 };
    num_tensor x = normal(t, type, 1, n, 0);
    num_tensor y = num_tensor_new(type, 1, x.size, NULL);
    run_view v[2];
    tilec_argument args[] = {tilec_tensor("x", run_view_of(&v[0], &x)),
                             tilec_tensor("y", run_view_of(&v[1], &y)),
                             tilec_float("p", 0.25), tilec_int("seed", SEED)};
    tilec_binding bindings[] = {{"T", num_name(type)}, {"BLOCK", "64"}};
    if (run(t, "06_dropout", bindings, 2, args, 4)) {
        double *want = num_tensor_read(&x);
        for (int i = 0; i < n; i++)
            want[i] = rand_of(SEED, (uint32_t)i) > 0.25F ? want[i] / 0.75 : 0;
        run_check_rows(t->counts, "seeded_dropout", &y, want, 1e-7);
        free(want);
    }
    num_tensor_free(&x);
    num_tensor_free(&y);
}

/* f, and its derivative. */
typedef struct function {
    const char *name;
    double (*f)(double), (*slope)(double);
} function;

static double asin_slope(double x)
{
    return 1 / sqrt(1 - x * x);
}

static double degrees(double x)
{
    return atan(x) * 57.29577951308232;
}

static double degrees_slope(double x)
{
    return 57.29577951308232 / (1 + x * x);
}

static void library_function(const test *t, num_type type, int n,
                             const function *f)
{
    num_tensor x = normal(t, type, 1, n, 0), dy = normal(t, type, 1, n, 0);
    for (int i = 0; i < n; i++)
        num_write(type, num_at(&x, i), 1.9 * num_uniform(t->rng) - 0.95);
    num_tensor y = num_tensor_new(type, 1, x.size, NULL);
    num_tensor dx = num_tensor_new(type, 1, x.size, NULL);
    run_view v[4];
    tilec_argument in = tilec_tensor("x", run_view_of(&v[0], &x));
    tilec_argument forward[] = {in, tilec_tensor("y", run_view_of(&v[1], &y))};
    tilec_argument backward[] = {in,
                                 tilec_tensor("dy", run_view_of(&v[2], &dy)),
                                 tilec_tensor("dx", run_view_of(&v[3], &dx))};
    tilec_binding bindings[] = {{"T", num_name(type)}, {"f", f->name}};
    const char *page = "07_library_functions";
    if (run_kernel(t, page, "apply", bindings, 2, forward, 2) &&
        run_kernel(t, page, "apply_gradient", bindings, 2, backward, 3)) {
        double *at = num_tensor_read(&x), *slope = num_tensor_read(&dy);
        for (int i = 0; i < n; i++) {
            slope[i] *= f->slope(at[i]);
            at[i] = f->f(at[i]);
        }
        run_check_rows(t->counts, f->name, &y, at, 1e-6);
        run_check_rows(t->counts, "its gradient", &dx, slope, 1e-6);
        free(at);
        free(slope);
    }
    num_tensor_free(&x);
    num_tensor_free(&y);
    num_tensor_free(&dx);
    num_tensor_free(&dy);
}

static void library_functions(const test *t, num_type type, int n)
{
    library_function(t, type, n, &(function){"@asin", asin, asin_slope});
    library_function(t, type, n,
                     &(function){"@degrees", degrees, degrees_slope});
}

/* Four groups of m rows in all, one of them empty. */
static void grouped(const test *t, num_type type, int m, int n)
{
    enum { GROUPS = 4, K = 72 };
    num_tensor a = normal(t, type, 2, m, K);
    num_tensor b = num_tensor_new(type, 3, (int32_t[]){GROUPS, K, n}, NULL);
    for (int64_t i = 0; i < num_count(&b); i++)
        num_write(type, num_at(&b, i), num_normal(t->rng));
    num_tensor c = num_tensor_new(type, 2, (int32_t[]){m, n}, NULL);
    num_tensor starts =
        num_tensor_new(NUM_I32, 1, (int32_t[]){GROUPS + 1}, NULL);
    int first[GROUPS + 1] = {0, m / 3, m / 3, m / 2, m};
    for (int i = 0; i <= GROUPS; i++)
        num_write(NUM_I32, num_at(&starts, i), first[i]);
    run_view v[4];
    tilec_argument args[] = {
        tilec_tensor("a", run_view_of(&v[0], &a)),
        tilec_tensor("b", run_view_of(&v[1], &b)),
        tilec_tensor("c", run_view_of(&v[2], &c)),
        tilec_tensor("starts", run_view_of(&v[3], &starts))};
    tilec_binding bindings[] = {{"T", num_name(type)}, {"BM", "64"}};
    if (run_kernel(t, "08_grouped_product", "grouped_product", bindings, 2,
                   args, 4)) {
        double *x = num_tensor_read(&a), *w = num_tensor_read(&b);
        double *want = calloc((size_t)(m * n), sizeof *want);
        for (int i = 0, g = 0; i < m; i++) {
            while (i >= first[g + 1])
                g++;
            for (int k = 0; k < K; k++)
                for (int j = 0; j < n; j++)
                    want[i * n + j] += x[i * K + k] * w[(g * K + k) * n + j];
        }
        run_check_rows(t->counts, "grouped_product", &c, want, 2e-6);
        free(x);
        free(w);
        free(want);
    }
    num_tensor_free(&a);
    num_tensor_free(&b);
    num_tensor_free(&c);
    num_tensor_free(&starts);
}

static void persistent(const test *t, num_type type, int m, int n)
{
    num_tensor a = normal(t, type, 2, m, 100), b = normal(t, type, 2, 100, n);
    num_tensor c = num_tensor_new(type, 2, (int32_t[]){m, n}, NULL);
    run_view v[3];
    tilec_argument args[] = {tilec_tensor("a", run_view_of(&v[0], &a)),
                             tilec_tensor("b", run_view_of(&v[1], &b)),
                             tilec_tensor("c", run_view_of(&v[2], &c))};
    tilec_binding bindings[] = {
        {"T", num_name(type)}, {"BM", "32"}, {"BN", "32"}, {"GROUP", "3"}};
    if (run(t, "09_persistent_product", bindings, 4, args, 3)) {
        double *want = malloc((size_t)num_count(&c) * sizeof *want);
        ref_matmul(&a, &b, want, NULL);
        run_check_rows(t->counts, "persistent_product", &c, want, 2e-6);
        free(want);
    }
    num_tensor_free(&a);
    num_tensor_free(&b);
    num_tensor_free(&c);
}

/* Bytes of [m, n]: any, or next to 127. */
static num_tensor codes(const test *t, int m, int n, bool scales)
{
    num_tensor x = num_tensor_new(NUM_I8, 2, (int32_t[]){m, n}, NULL);
    for (int64_t i = 0, count = num_count(&x); i < count; i++)
        num_write(NUM_I8, num_at(&x, i),
                  (int8_t)(scales ? num_between(t->rng, 121, 130)
                                  : num_below(t->rng, 256)));
    return x;
}

static unsigned code_at(const num_tensor *x, int64_t i)
{
    return (unsigned)num_read(NUM_I8, num_at(x, i)) & 255;
}

static double f4_at(const num_tensor *x, int row, int k)
{
    static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    unsigned byte = code_at(x, (int64_t)row * x->size[1] + k / 2);
    unsigned code = byte >> k % 2 * 4 & 15;
    return code & 8 ? -magnitudes[code & 7] : magnitudes[code];
}

static double scale_at(const num_tensor *x, int row, int k)
{
    return ldexp(1, (int)code_at(x, (int64_t)row * x->size[1] + k / 32) - 127);
}

static void block_scaled(const test *t, num_type type, int m, int n)
{
    enum { A, AS, B, BS, C, COUNT, K = 160 };
    static const char *const names[] = {"a", "a_scales", "b", "b_scales", "c"};
    num_tensor x[COUNT] = {normal(t, NUM_F8E4M3, 2, m, K),
                           codes(t, m, K / 32, true), codes(t, n, K / 2, false),
                           codes(t, n, K / 32, true), normal(t, type, 2, m, n)};
    run_view v[COUNT];
    tilec_argument args[COUNT];
    for (int i = 0; i < COUNT; i++)
        args[i] = tilec_tensor(names[i], run_view_of(&v[i], &x[i]));
    tilec_binding bindings[] = {
        {"T", num_name(type)}, {"BM", "64"}, {"BN", "64"}};
    if (run(t, "10_block_scaled_product", bindings, 3, args, COUNT)) {
        double *a = num_tensor_read(&x[A]);
        double *want = calloc((size_t)(m * n), sizeof *want);
        for (int i = 0; i < m * n; i++)
            for (int k = 0; k < K; k++)
                want[i] += a[i / n * K + k] * scale_at(&x[AS], i / n, k) *
                           f4_at(&x[B], i % n, k) * scale_at(&x[BS], i % n, k);
        run_check_rows(t->counts, "block_scaled_product", &x[C], want, 2e-6);
        free(a);
        free(want);
    }
    for (int i = 0; i < COUNT; i++)
        num_tensor_free(&x[i]);
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
            dropout(&t, types[i], n);
            library_functions(&t, types[i], n);
            grouped(&t, types[i], n, lengths[3 - j]);
            persistent(&t, types[i], n, lengths[3 - j]);
            block_scaled(&t, types[i], n, lengths[3 - j]);
            flash_attention(&t, types[i], n, false, 0.2);
            flash_attention(&t, types[i], n, true, j % 2 ? 0.1 : 0);
        }
    run_context_free(t.cx);
    return run_finish(&counts);
}
