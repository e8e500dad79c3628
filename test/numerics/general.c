/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that are not attention: matmul, softmax, layernorm, on ragged
 * sizes and all their types; and every conversion between float types.
 */
#include "test/numerics/reference.h"
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static num_tensor normal(num_rng *r, num_type t, int rank, int m, int n,
                         const num_layout *layout)
{
    num_tensor x = num_tensor_new(t, rank, (int32_t[]){m, n}, layout);
    for (int64_t i = 0, count = num_count(&x); i < count; i++)
        num_write(t, num_at(&x, i), num_normal(r));
    return x;
}

static const int lengths[] = {1, 7, 8, 16, 33, 63, 64, 65, 100, 129, 257};
enum { NLENGTHS = sizeof lengths / sizeof *lengths };
/* Row by row, column by column, and within a larger matrix. */
static const num_layout layouts[] = {{"rows", {0, 1}, {0}, {0}},
                                     {"columns", {1, 0}, {0}, {0}},
                                     {"sliced", {0, 1}, {1, 3}, {2, 5}}};

static int any_length(num_rng *r)
{
    return lengths[num_below(r, NLENGTHS)];
}

static const num_layout *any_layout(num_rng *r)
{
    return &layouts[num_below(r, 3)];
}

/* ---- matmul ---- */

/* Each element within 1e-6 of the sum of |a||b|, and half a step of the
 * result type. */
static void check_product(const num_tensor *a, const num_tensor *b,
                          const num_tensor *c, run_counts *counts)
{
    size_t n = (size_t)num_count(c);
    double *want = malloc(n * sizeof *want), *scale = malloc(n * sizeof *want);
    double *got = num_tensor_read(c);
    ref_matmul(a, b, want, scale);
    char why[128] = "";
    for (size_t i = 0; i < n; i++) {
        double limit = 1e-6 * scale[i] + num_half_step(c->type) * fabs(want[i]);
        if (!(fabs(got[i] - want[i]) <= limit + 1e-30))
            snprintf(why, sizeof why, "element %zu is %.9g, should be %.9g", i,
                     got[i], want[i]);
    }
    if (!num_tensor_intact(c))
        strcpy(why, "wrote outside");
    run_check(counts, !*why, "matmul %dx%dx%d %s -> %s: %s", a->size[0],
              b->size[1], a->size[1], num_name(a->type), num_name(c->type),
              why);
    free(want);
    free(scale);
    free(got);
}

static void run_product(const tilec_kernel *k, num_rng *r, num_type type,
                        num_type result, run_counts *counts)
{
    int m = any_length(r), n = any_length(r), inner = any_length(r);
    num_tensor a = normal(r, type, 2, m, inner, any_layout(r));
    num_tensor b = normal(r, type, 2, inner, n, any_layout(r));
    num_tensor c = num_tensor_new(result, 2, (int32_t[]){m, n}, any_layout(r));
    run_view views[3];
    tilec_argument args[] = {tilec_tensor("a", run_view_of(&views[0], &a)),
                             tilec_tensor("b", run_view_of(&views[1], &b)),
                             tilec_tensor("c", run_view_of(&views[2], &c))};
    tilec_error error = {0};
    if (run_check(counts, run_launch(k, args, 3, NULL, &error) == TILEC_OK,
                  "matmul %s: %s", num_name(type), error.message))
        check_product(&a, &b, &c, counts);
    num_tensor_free(&a);
    num_tensor_free(&b);
    num_tensor_free(&c);
}

static void run_matmul(tilec_context *cx, num_rng *r, run_counts *counts)
{
    static const struct {
        num_type type, result;
        const char *rows;
    } cases[] = {{NUM_F32, NUM_F32, "64"},     {NUM_F16, NUM_F16, "64"},
                 {NUM_BF16, NUM_F32, "32"},    {NUM_BF16, NUM_BF16, "128"},
                 {NUM_F8E4M3, NUM_F32, "64"},  {NUM_F8E5M2, NUM_F16, "16"},
                 {NUM_F8E4M3, NUM_BF16, "24"}, {NUM_F32, NUM_F16, "8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tilec_binding bindings[] = {{"T", num_name(cases[i].type)},
                                    {"TC", num_name(cases[i].result)},
                                    {"BM", cases[i].rows}};
        tilec_kernel *k = run_compile_bound(cx, "matmul", NULL, bindings, 3);
        if (run_check(counts, k, "matmul %s: does not compile",
                      num_name(cases[i].type)))
            for (int times = 0; times < 12; times++)
                run_product(k, r, cases[i].type, cases[i].result, counts);
        tilec_kernel_free(k);
    }
}

/* ---- softmax and layernorm ---- */

static void softmax_once(const tilec_kernel *k, num_rng *r, num_type type,
                         int n, run_counts *counts)
{
    num_tensor x = normal(r, type, 2, any_length(r), n, any_layout(r));
    num_tensor y = num_tensor_new(type, 2, x.size, any_layout(r));
    if (num_below(r, 2)) /* peaks, exact in each type */
        for (int64_t i = 0; i < num_count(&x); i++)
            num_write(type, num_at(&x, i), num_between(r, -200, 200) * 32);
    double *want = malloc((size_t)num_count(&x) * sizeof *want);
    ref_softmax(&x, want);
    run_view a, b;
    tilec_argument args[] = {tilec_tensor("x", run_view_of(&a, &x)),
                             tilec_tensor("y", run_view_of(&b, &y))};
    tilec_error error = {0};
    if (run_check(counts, run_launch(k, args, 2, NULL, &error) == TILEC_OK,
                  "softmax: %s", error.message))
        run_check_rows(counts, "softmax", &y, want, 2e-6);
    free(want);
    num_tensor_free(&x);
    num_tensor_free(&y);
}

static void layernorm_once(const tilec_kernel *k, num_rng *r, num_type type,
                           int n, run_counts *counts)
{
    int m = any_length(r);
    num_tensor x = normal(r, type, 2, m, n, any_layout(r));
    num_tensor y = num_tensor_new(type, 2, x.size, any_layout(r));
    num_tensor weight = normal(r, type, 1, n, 0, NULL);
    num_tensor bias = normal(r, type, 1, n, 0, NULL);
    num_tensor mean = num_tensor_new(NUM_F32, 1, (int32_t[]){m}, NULL);
    num_tensor rstd = num_tensor_new(NUM_F32, 1, (int32_t[]){m}, NULL);
    double *want = malloc((size_t)num_count(&x) * sizeof *want);
    ref_layernorm(&x, &weight, &bias, 1e-3, want);
    run_view v[6];
    tilec_argument args[] = {
        tilec_tensor("x", run_view_of(&v[0], &x)),
        tilec_tensor("weight", run_view_of(&v[1], &weight)),
        tilec_tensor("bias", run_view_of(&v[2], &bias)),
        tilec_tensor("y", run_view_of(&v[3], &y)),
        tilec_tensor("mean", run_view_of(&v[4], &mean)),
        tilec_tensor("rstd", run_view_of(&v[5], &rstd)),
        tilec_float("eps", 1e-3)};
    tilec_error error = {0};
    if (run_check(counts, run_launch(k, args, 7, NULL, &error) == TILEC_OK,
                  "layernorm: %s", error.message))
        run_check_rows(counts, "layernorm", &y, want, 5e-6);
    free(want);
    num_tensor *all[] = {&x, &y, &weight, &bias, &mean, &rstd};
    for (int i = 0; i < 6; i++)
        num_tensor_free(all[i]);
}

static void run_rows(tilec_context *cx, num_rng *r, run_counts *counts)
{
    static const num_type types[] = {NUM_F32, NUM_F16, NUM_BF16};
    static const int widths[] = {1, 5, 255, 256, 257, 1000};
    for (int t = 0; t < 3; t++) {
        tilec_binding bindings[] = {{"T", num_name(types[t])}};
        tilec_kernel *softmax =
            run_compile_bound(cx, "softmax", NULL, bindings, 1);
        tilec_kernel *norm =
            run_compile_bound(cx, "layernorm", NULL, bindings, 1);
        run_check(counts, softmax && norm, "%s: does not compile",
                  num_name(types[t]));
        for (int i = 0; softmax && i < 6; i++)
            softmax_once(softmax, r, types[t], widths[i], counts);
        for (int i = 0; norm && i < 6; i++)
            layernorm_once(norm, r, types[t], widths[i], counts);
        tilec_kernel_free(softmax);
        tilec_kernel_free(norm);
    }
}

/* ---- Conversions ---- */

/* Bits of f32 where rounding to a narrower type is decided: each upper half
 * with the lower halves about a tie. */
static num_tensor decisive(void)
{
    static const uint16_t lower[] = {0,      1,      0x0fff, 0x1000, 0x1001,
                                     0x7fff, 0x8000, 0x8001, 0xffff};
    enum { EACH = sizeof lower / sizeof *lower };
    num_tensor x = num_tensor_new(NUM_F32, 1, (int32_t[]){65536 * EACH}, NULL);
    for (uint32_t upper = 0; upper < 65536; upper++)
        for (int i = 0; i < EACH; i++) {
            uint32_t bits = upper << 16 | lower[i];
            memcpy(num_at(&x, upper * EACH + i), &bits, 4);
        }
    return x;
}

/* All values of a type of one or two bytes. */
static num_tensor all_values(num_type t)
{
    int n = 1 << (8 * num_bytes(t));
    num_tensor x = num_tensor_new(t, 1, (int32_t[]){n}, NULL);
    for (int i = 0; i < n; i++)
        memcpy(num_at(&x, i), &i, num_bytes(t));
    return x;
}

static bool same(double got, double want)
{
    return (isnan(got) && isnan(want)) ||
           (got == want && signbit(got) == signbit(want));
}

static void run_cast(tilec_context *cx, const num_tensor *x, num_type to,
                     run_counts *counts)
{
    char text[512], why[128] = "";
    const char *a = num_name(x->type), *b = num_name(to);
    snprintf(text, sizeof text,
             "kernel @c(%%x: tensor<[?] x %s>, %%y: tensor<[?] x %s>)\n"
             "    grid(cdiv(size(%%x, 0), 256)) {\n"
             "  %%i = program_id(0) * 256\n"
             "  %%t = load %%x[%%i +: 256] boundary(0)\n"
             "  store %%y[%%i +: 256], cast(%%t, %s) boundary(0)\n"
             "}\n",
             a, b, b);
    tilec_kernel *k = run_compile(cx, text, NULL);
    num_tensor y = num_tensor_new(to, 1, x->size, NULL);
    run_view views[2];
    tilec_argument args[] = {tilec_tensor(NULL, run_view_of(&views[0], x)),
                             tilec_tensor(NULL, run_view_of(&views[1], &y))};
    tilec_error error = {0};
    if (run_check(counts, k, "%s -> %s: does not compile", a, b) &&
        run_check(counts, run_launch(k, args, 2, NULL, &error) == TILEC_OK,
                  "%s -> %s: %s", a, b, error.message)) {
        for (int64_t i = num_count(x) - 1; i >= 0; i--) {
            double from = num_read(x->type, num_at(x, i));
            double got = num_read(to, num_at(&y, i));
            if (!same(got, num_round(to, from)))
                snprintf(why, sizeof why, "%.9g gives %.9g, should be %.9g",
                         from, got, num_round(to, from));
        }
        run_check(counts, !*why, "%s -> %s: %s", a, b, why);
    }
    tilec_kernel_free(k);
    num_tensor_free(&y);
}

static void run_casts(tilec_context *cx, run_counts *counts)
{
    for (num_type from = NUM_F8E4M3; from <= NUM_F32; from++) {
        num_tensor x = from == NUM_F32 ? decisive() : all_values(from);
        for (num_type to = NUM_F8E4M3; to <= NUM_F64; to++)
            if (to != from)
                run_cast(cx, &x, to, counts);
        num_tensor_free(&x);
    }
}

int main(int argc, char **argv)
{
    num_rng r = {(uint64_t)run_option(argc, argv, "seed", 1)};
    run_counts counts = {0};
    tilec_context *cx = run_context();
    run_casts(cx, &counts);
    run_matmul(cx, &r, &counts);
    run_rows(cx, &r, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
