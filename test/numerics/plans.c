/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention on values that a plan makes (kernels/attention.tile): projected, or
 * from a cache of 8-bit numbers. The values against float64; o against what the
 * same kernels give one by one, with values that lie by rows. On the CPU that
 * is the same bit for bit; a GPU may multiply values by columns with other
 * instructions.
 *
 *   numerics_plans [--seed N]
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    const char *name;
    bool cached;
    num_type type; /* of q, k and v */
    int32_t b, h, hk, m, n, d, e;
    bool causal;
} problem;

static const problem problems[] = {
    {"8 bits, projected", false, NUM_F8E4M3, 2, 2, 2, 96, 128, 64, 96, false},
    {"8 bits, odd length", false, NUM_F8E4M3, 1, 2, 1, 75, 77, 64, 40, true},
    {"8 bits, odd dim", false, NUM_F8E4M3, 1, 1, 1, 64, 80, 72, 64, false},
    {"16 bits, projected", false, NUM_BF16, 1, 4, 2, 70, 90, 64, 64, true},
    {"8 bits, cached", true, NUM_F8E4M3, 1, 4, 2, 128, 192, 128, 0, false},
    {"8 bits, cached, odd length", true, NUM_F8E4M3, 2, 1, 1, 33, 50, 64, 0,
     true},
    {"16 bits, cached", true, NUM_BF16, 1, 2, 2, 64, 100, 80, 0, false},
};

enum { BLOCK = 64 }; /* rows of the cache that share a factor */

/* ---- Data ---- */

typedef struct data {
    num_tensor q, k, v, o, o2, lse, descale;
    num_tensor x, w, bias;      /* projected */
    num_tensor values, factors; /* cached */
} data;

static num_tensor random_tensor(num_rng *r, num_type type, int rank,
                                const int32_t *size, double scale)
{
    num_tensor t = num_tensor_new(type, rank, size, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(type, num_at(&t, i), scale * num_normal(r));
    return t;
}

static void set_positive(num_rng *r, num_tensor *t, double least)
{
    for (int64_t i = 0; i < num_count(t); i++)
        num_write(t->type, num_at(t, i), least * (1 + num_uniform(r)));
}

static data data_new(const problem *p, num_rng *r)
{
    const int32_t q[] = {p->b, p->h, p->m, p->d},
                  k[] = {p->b, p->hk, p->n, p->d};
    const int32_t lse[] = {p->b, p->h, p->m}, descale[] = {p->b, p->hk};
    const int32_t x[] = {p->b, p->n, p->e}, w[] = {p->hk, p->d, p->e};
    const int32_t bias[] = {p->hk, p->d};
    const int32_t factors[] = {p->b, p->hk, (p->n + BLOCK - 1) / BLOCK};
    bool narrow = p->type == NUM_F8E4M3;
    data d = {.q = random_tensor(r, p->type, 4, q, 1),
              .k = random_tensor(r, p->type, 4, k, 1),
              .v = num_tensor_new(p->type, 4, k, NULL),
              .o = num_tensor_new(NUM_BF16, 4, q, NULL),
              .o2 = num_tensor_new(NUM_BF16, 4, q, NULL),
              .lse = num_tensor_new(NUM_F32, 3, lse, NULL),
              .descale = num_tensor_new(NUM_F32, 2, descale, NULL)};
    set_positive(r, &d.descale, narrow ? 0.02 : 1);
    if (p->cached) {
        d.values = random_tensor(r, NUM_F8E4M3, 4, k, 30);
        d.factors = num_tensor_new(NUM_F32, 3, factors, NULL);
        set_positive(r, &d.factors, 0.01);
    } else {
        d.x = random_tensor(r, NUM_BF16, 3, x, 1);
        d.w = random_tensor(r, NUM_BF16, 3, w, 1 / sqrt(p->e));
        d.bias = random_tensor(r, NUM_BF16, 2, bias, 0.3);
    }
    return d;
}

static void data_free(data *d)
{
    num_tensor *all[] = {&d->q,  &d->k,    &d->v,       &d->o,
                         &d->o2, &d->lse,  &d->descale, &d->x,
                         &d->w,  &d->bias, &d->values,  &d->factors};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        num_tensor_free(all[i]);
}

/* ---- What the values are ---- */

static double at(const num_tensor *t, int64_t i)
{
    return num_read(t->type, num_at(t, i));
}

static double value(const problem *p, const data *d, int64_t i)
{
    int64_t c = i % p->d, n = i / p->d % p->n, h = i / p->d / p->n % p->hk,
            b = i / p->d / p->n / p->hk;
    int64_t blocks = (p->n + BLOCK - 1) / BLOCK;
    double part = at(&d->descale, b * p->hk + h), sum = 0;
    if (p->cached)
        return at(&d->values, i) *
               at(&d->factors, (b * p->hk + h) * blocks + n / BLOCK) / part;
    for (int64_t e = 0; e < p->e; e++)
        sum += at(&d->x, (b * p->n + n) * p->e + e) *
               at(&d->w, (h * p->d + c) * p->e + e);
    return (sum + at(&d->bias, h * p->d + c)) / part;
}

/* Rounded once: but where f32 sums come to the other side of a tie. */
static bool values_are_right(const problem *p, const data *d)
{
    int64_t n = num_count(&d->v), wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        double want = value(p, d, i), have = at(&d->v, i);
        double step = p->type == NUM_F8E4M3 ? 0.0625 : 1.0 / 256;
        wrong += !(fabs(have - want) <= 1.01 * step * fabs(want) + 0.002) &&
                 fabs(want) < 448;
    }
    if (wrong)
        printf("%lld of %lld values are not what they should be\n",
               (long long)wrong, (long long)n);
    return wrong == 0;
}

/* ---- Runs ---- */

typedef struct bindings {
    tilec_binding all[12];
    size_t n;
} bindings;

static void bind(bindings *b, const char *name, const char *value)
{
    b->all[b->n++] = (tilec_binding){name, value};
}

static bindings bindings_of(const problem *p)
{
    bindings b = {.n = 0};
    bool narrow = p->type == NUM_F8E4M3;
    bind(&b, "T", num_name(p->type));
    bind(&b, "TO", "bf16");
    bind(&b, "TP", num_name(p->type));
    bind(&b, "P_SHIFT", narrow ? "8" : "0");
    bind(&b, "BM", "64"); /* the same in both: P is rounded by blocks */
    bind(&b, "BN", "64");
    bind(&b, "descale_v", "@per_batch_head");
    bind(&b, "mask_mod", p->causal ? "@causal" : "@no_mask");
    return b;
}

static tilec_kernel *compile(tilec_context *cx, const char *program,
                             const char *kernel, const bindings *b,
                             const tilec_argument *args, size_t n)
{
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.kernel = kernel;
    o.bindings = b->all;
    o.nbindings = b->n;
    o.examples = args;
    o.nexamples = n;
    o.enforce = TILEC_ENFORCE_WARN;
    return run_compile_embedded(cx, program, &o);
}

static bool run(tilec_context *cx, const char *program, const char *kernel,
                const bindings *b, const tilec_argument *args, size_t n)
{
    tilec_error error = {0};
    tilec_kernel *k = compile(cx, program, kernel, b, args, n);
    bool ok = k && run_launch(k, args, n, NULL, &error) == TILEC_OK;
    if (k && !ok)
        printf("%s: %s\n", kernel, error.message);
    tilec_kernel_free(k);
    return ok;
}

/* The plan: o. */
static bool run_plan(tilec_context *cx, const problem *p, const data *d)
{
    run_view v[9];
    const num_tensor *made[] = {p->cached ? &d->values : &d->x,
                                p->cached ? &d->factors : &d->w};
    tilec_argument args[11] = {
        tilec_tensor("q", run_view_of(&v[0], &d->q)),
        tilec_tensor("k", run_view_of(&v[1], &d->k)),
        tilec_tensor("o", run_view_of(&v[2], &d->o)),
        tilec_tensor("lse", run_view_of(&v[3], &d->lse)),
        tilec_tensor("max", run_view_of(&v[4], &d->lse)),
        tilec_float("scale", 1 / sqrt(p->d)),
        tilec_tensor("descale_v.scales", run_view_of(&v[5], &d->descale)),
        tilec_tensor(p->cached ? "values" : "x", run_view_of(&v[6], made[0])),
        tilec_tensor(p->cached ? "factors" : "w", run_view_of(&v[7], made[1]))};
    size_t n = 9;
    if (!p->cached)
        args[n++] = tilec_tensor("bias", run_view_of(&v[8], &d->bias));
    bindings b = bindings_of(p);
    return run(cx, "attention",
               p->cached ? "cached_attention" : "projected_attention", &b, args,
               n);
}

/* One kernel, then the other: v, and o2 from it. */
static bool run_kernels(tilec_context *cx, const problem *p, const data *d)
{
    run_view v[9];
    bindings b = {.n = 0};
    bind(&b, "TY", num_name(p->type));
    bind(&b, "descale_v", "@per_batch_head");
    tilec_argument made[6] = {
        tilec_tensor("y", run_view_of(&v[0], &d->v)),
        tilec_tensor("x", run_view_of(&v[1], p->cached ? &d->values : &d->x)),
        tilec_tensor("descale_v.scales", run_view_of(&v[2], &d->descale))};
    if (p->cached) {
        made[3] = tilec_tensor("scales", run_view_of(&v[3], &d->factors));
    } else {
        made[3] = tilec_tensor("w", run_view_of(&v[3], &d->w));
        made[4] = tilec_tensor("bias", run_view_of(&v[4], &d->bias));
    }
    if (!run(cx, "project", p->cached ? "dequantize_values" : "project_values",
             &b, made, p->cached ? 4 : 5))
        return false;
    const tilec_argument args[] = {
        tilec_tensor("q", run_view_of(&v[0], &d->q)),
        tilec_tensor("k", run_view_of(&v[1], &d->k)),
        tilec_tensor("v", run_view_of(&v[2], &d->v)),
        tilec_tensor("o", run_view_of(&v[3], &d->o2)),
        tilec_tensor("lse", run_view_of(&v[4], &d->lse)),
        tilec_tensor("max", run_view_of(&v[5], &d->lse)),
        tilec_float("scale", 1 / sqrt(p->d)),
        tilec_tensor("descale_v.scales", run_view_of(&v[6], &d->descale))};
    b = bindings_of(p);
    return run(cx, "attention_fwd", "attention_fwd", &b, args, 8);
}

static bool results_agree(const problem *p, const data *d)
{
    double *o = num_tensor_read(&d->o), *o2 = num_tensor_read(&d->o2);
    int64_t n = num_count(&d->o);
    num_error e = num_compare(o, o2, n, p->d);
    double most = run_device() ? 1e-2 : 0;
    if (!(e.overall <= most))
        printf("o differs by %.2e, expected at most %.2e\n", e.overall, most);
    free(o);
    free(o2);
    return e.overall <= most;
}

int main(int argc, char **argv)
{
    num_rng rng = {(uint64_t)run_option(argc, argv, "seed", 1)};
    run_counts counts = {0};
    tilec_context *cx = run_context();
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        const problem *p = &problems[i];
        data d = data_new(p, &rng);
        bool ok = run_kernels(cx, p, &d) && run_plan(cx, p, &d);
        run_check(&counts,
                  ok && values_are_right(p, &d) && results_agree(p, &d), "%s",
                  p->name);
        data_free(&d);
    }
    run_context_free(cx);
    return run_finish(&counts);
}
