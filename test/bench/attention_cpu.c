/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward attention in f32 on the CPU against OpenBLAS's sgemm on matrices of
 * the same work (q k^T and p v of each head), in turns, on the same cores;
 * the output is checked against float64 in the same run.
 *
 *   attention_cpu [--heads 4] [--length 1000] [--dim 128] [--causal 1]
 *                 [--rounds 15] [--threads 0] [--goal PERCENT]
 *
 * Prints medians. With --goal the ratio must reach that many percent.
 */
#include "test/numerics/reference.h"
#include "test/numerics/run.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct sizes {
    int heads, length, dim, threads, rounds;
    bool causal;
} sizes;

typedef struct problem {
    sizes s;
    num_tensor q, k, v, o, lse;
    float *scores; /* what sgemm writes */
    tilec_attention *plan;
} problem;

static num_tensor normal(num_rng *r, const sizes *s)
{
    int32_t size[] = {1, s->heads, s->length, s->dim};
    num_tensor t = num_tensor_new(NUM_F32, 4, size, NULL);
    for (int64_t i = 0, n = num_count(&t); i < n; i++)
        num_write(NUM_F32, num_at(&t, i), num_normal(r));
    return t;
}

static bool attend(const problem *p)
{
    run_view views[5];
    tilec_attention_tensors t = TILEC_INIT(tilec_attention_tensors);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error error = {0};
    t.q = run_view_of(&views[0], &p->q);
    t.k = run_view_of(&views[1], &p->k);
    t.v = run_view_of(&views[2], &p->v);
    t.o = run_view_of(&views[3], &p->o);
    t.lse = run_view_of(&views[4], &p->lse);
    o.threads = p->s.threads;
    if (tilec_attention_forward(p->plan, &t, &o, &error) == TILEC_OK)
        return true;
    printf("%s\n", error.message);
    return false;
}

static void multiply(const problem *p)
{
    int n = p->s.length, d = p->s.dim;
    size_t head = (size_t)n * (size_t)d;
    for (int h = 0; h < p->s.heads; h++) {
        const float *q = (const float *)p->q.data + (size_t)h * head;
        const float *k = (const float *)p->k.data + (size_t)h * head;
        const float *v = (const float *)p->v.data + (size_t)h * head;
        float *s = p->scores, *o = s + (size_t)n * (size_t)n;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, d, 1, q, d,
                    k, d, 0, s, n);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, d, n, 1, s, n,
                    v, d, 0, o, d);
    }
}

static bool causal_mask(const ref_position *at)
{
    return at->k <= at->q;
}

static double error_of(const problem *p)
{
    ref_attention a = {.q = &p->q, .k = &p->k, .v = &p->v};
    a.scale = 1 / sqrt(p->s.dim);
    a.mask = p->s.causal ? causal_mask : NULL;
    int64_t n = num_count(&p->o);
    double *o = malloc((size_t)n * sizeof *o);
    double *lse = malloc((size_t)n * sizeof *o);
    double *got = num_tensor_read(&p->o);
    ref_attention_forward(&a, o, lse);
    num_error e = num_compare(got, o, n, p->s.dim);
    free(o);
    free(lse);
    free(got);
    return e.overall;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

/* Flops of the products; a causal mask is not counted as saving any. */
static double work_of(const sizes *s)
{
    return 4.0 * s->heads * s->length * s->length * s->dim;
}

/* OpenBLAS's threads go on spinning for some time when their work is done, and
 * would take the cores from whoever is measured next. */
static void settle(void)
{
    struct timespec t = {0, 200 * 1000 * 1000};
    nanosleep(&t, NULL);
}

static int measure(problem *p, double goal)
{
    double ours[99], theirs[99];
    multiply(p);
    if (!attend(p))
        return 1;
    for (int i = 0; i < p->s.rounds; i++) {
        settle();
        multiply(p); /* wakes the cores up */
        double t0 = run_seconds();
        multiply(p);
        theirs[i] = run_seconds() - t0;
        settle();
        attend(p);
        double t1 = run_seconds();
        attend(p);
        ours[i] = run_seconds() - t1;
    }
    double error = error_of(p), work = work_of(&p->s) * 1e-9;
    double a = work / median(ours, p->s.rounds);
    double b = work / median(theirs, p->s.rounds);
    printf("attention f32 %dx%dx%d%s, %d threads, median of %d\n", p->s.heads,
           p->s.length, p->s.dim, p->s.causal ? " causal" : "", p->s.threads,
           p->s.rounds);
    printf("  tilec          %8.1f GFLOP/s  error %.2e\n", a, error);
    printf("  OpenBLAS sgemm %8.1f GFLOP/s\n", b);
    printf("  ratio          %8.2f\n", a / b);
    return error > 2e-6 || a / b < goal / 100;
}

static tilec_attention *plan(tilec_context *cx, problem *p)
{
    run_view q, k, v;
    tilec_attention_options o = TILEC_INIT(tilec_attention_options);
    tilec_attention *a = NULL;
    o.mask = p->s.causal ? "causal" : NULL;
    if (tilec_attention_plan(cx, run_view_of(&q, &p->q), run_view_of(&k, &p->k),
                             run_view_of(&v, &p->v), &o, &a) != TILEC_OK)
        run_print_diagnostics(cx);
    return a;
}

int main(int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    problem p = {0};
    p.s.heads = (int)run_option(argc, argv, "heads", 4);
    p.s.length = (int)run_option(argc, argv, "length", 1000);
    p.s.dim = (int)run_option(argc, argv, "dim", 128);
    p.s.causal = run_option(argc, argv, "causal", 0);
    p.s.rounds = (int)run_option(argc, argv, "rounds", 15);
    p.s.rounds = p.s.rounds > 99 ? 99 : p.s.rounds;
    p.s.threads = (int)run_option(argc, argv, "threads", cores);
    openblas_set_num_threads(p.s.threads);
    num_rng r = {1};
    int32_t rows[] = {1, p.s.heads, p.s.length};
    p.q = normal(&r, &p.s);
    p.k = normal(&r, &p.s);
    p.v = normal(&r, &p.s);
    p.o = normal(&r, &p.s);
    p.lse = num_tensor_new(NUM_F32, 3, rows, NULL);
    size_t n = (size_t)p.s.length;
    p.scores = malloc(n * (n + (size_t)p.s.dim) * sizeof *p.scores);
    tilec_context *cx;
    tilec_context_options options = TILEC_INIT(tilec_context_options);
    options.target = "cpu";
    if (tilec_context_new(&options, &cx) != TILEC_OK)
        return 1;
    p.plan = plan(cx, &p);
    double goal = (double)run_option(argc, argv, "goal", 0);
    int status = p.plan ? measure(&p, goal) : 1;
    tilec_attention_free(p.plan);
    tilec_context_free(cx);
    free(p.scores);
    num_tensor *all[] = {&p.q, &p.k, &p.v, &p.o, &p.lse};
    for (int i = 0; i < 5; i++)
        num_tensor_free(all[i]);
    return status;
}
