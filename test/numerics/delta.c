/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/delta_rule.tile: the gated delta rule and linear attention with
 * decay, and their gradients, against the recurrence of one token after the
 * other in float64, forward and in reverse.
 *
 *   numerics_delta [--seed N] [--case N]
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum keys {
    UNIT,
    ALIKE,
    LONG
} keys; /* of norm 1; all one; of norm 2 */

typedef struct problem {
    num_type type, beta;
    bool delta, initial, final, strided;
    keys keys;
    double decay; /* g is between 0 and minus that */
    int b, t, h, hv, k, v, c;
} problem;

static const problem problems[] = {
    {NUM_F32, NUM_F32, 1, 1, 1, 0, UNIT, 0.2, 2, 150, 2, 4, 64, 40, 64},
    {NUM_F32, NUM_F32, 0, 1, 1, 0, UNIT, 0.2, 2, 150, 2, 4, 64, 40, 64},
    {NUM_F16, NUM_F32, 1, 1, 1, 0, UNIT, 0.2, 1, 150, 2, 4, 64, 40, 64},
    {NUM_F16, NUM_F32, 0, 1, 1, 1, UNIT, 0.2, 1, 150, 2, 4, 64, 40, 64},
    {NUM_BF16, NUM_BF16, 1, 1, 1, 1, UNIT, 0.2, 1, 150, 1, 3, 64, 72, 64},
    {NUM_BF16, NUM_F32, 0, 1, 1, 0, UNIT, 0.2, 1, 150, 1, 3, 64, 72, 64},
    {NUM_BF16, NUM_F32, 1, 0, 0, 0, UNIT, 0.5, 1, 128, 2, 2, 128, 128, 64},
    {NUM_BF16, NUM_F32, 0, 0, 0, 0, UNIT, 0.5, 1, 128, 2, 2, 128, 128, 64},
    {NUM_F32, NUM_F32, 1, 0, 1, 1, ALIKE, 0, 1, 130, 1, 1, 32, 32, 64},
    {NUM_F32, NUM_F32, 1, 1, 0, 0, UNIT, 40, 1, 130, 1, 1, 40, 24, 32},
    {NUM_F32, NUM_F32, 0, 1, 0, 0, LONG, 40, 1, 130, 1, 2, 40, 24, 32},
    {NUM_F16, NUM_F16, 1, 1, 1, 0, ALIKE, 0.1, 1, 65, 1, 2, 72, 64, 16},
    {NUM_F16, NUM_F16, 1, 0, 1, 0, UNIT, 0.1, 2, 3, 1, 1, 64, 64, 64},
    {NUM_BF16, NUM_F32, 1, 0, 1, 0, UNIT, 0.1, 1, 63, 1, 2, 64, 8, 128},
    {NUM_F32, NUM_F32, 1, 1, 1, 0, UNIT, 0.1, 1, 64, 1, 1, 64, 200, 64},
};
enum { NPROBLEMS = sizeof problems / sizeof *problems };

enum {
    Q,
    K,
    V,
    G,
    BETA,
    INITIAL,
    O,
    FINAL,
    DO,
    DFINAL,
    DQ,
    DK,
    DV,
    DG,
    DBETA,
    DINITIAL,
    NARGS
};

/* Sides: b, t, h, H (heads of v), k, v. Types: T, B (beta's), F (f32). */
static const struct {
    const char *name, *sides;
    char type;
    bool is_output;
} tensors[NARGS] = {
    {"q", "bthk", 'T', false},   {"k", "bthk", 'T', false},
    {"v", "btHv", 'T', false},   {"g", "btH", 'F', false},
    {"beta", "btH", 'B', false}, {"initial", "bHkv", 'F', false},
    {"o", "btHv", 'T', true},    {"final", "bHkv", 'F', true},
    {"do", "btHv", 'T', false},  {"dfinal", "bHkv", 'F', false},
    {"dq", "bthk", 'T', true},   {"dk", "bthk", 'T', true},
    {"dv", "btHv", 'T', true},   {"dg", "btH", 'F', true},
    {"dbeta", "btH", 'B', true}, {"dinitial", "bHkv", 'F', true}};

typedef struct data {
    const problem *p;
    num_tensor t[NARGS];
    double *x[NARGS];   /* inputs as stored; outputs as they should be */
    double *cancels[2]; /* sums of what cancels in dg and dbeta, absolute */
} data;

/* ---- Inputs ---- */

static int side_of(const problem *p, char side)
{
    switch (side) {
    case 'b': return p->b;
    case 't': return p->t;
    case 'h': return p->h;
    case 'H': return p->hv;
    case 'k': return p->k;
    default: return p->v;
    }
}

static double input(const problem *p, int what, num_rng *r)
{
    switch (what) {
    case G: return -p->decay * num_uniform(r);
    case BETA: return p->keys == ALIKE ? 1 : num_uniform(r);
    default: return num_normal(r);
    }
}

/* Keys of one norm, so that no state grows. */
static void set_keys(const problem *p, num_tensor *t)
{
    double *x = num_tensor_read(t), norm = p->keys == LONG ? 2 : 1;
    for (int64_t row = 0; row < num_count(t) / p->k; row++) {
        double sum = 0;
        for (int i = 0; i < p->k; i++)
            sum += x[row * p->k + i] * x[row * p->k + i];
        for (int i = 0; i < p->k; i++)
            num_write(t->type, num_at(t, row * p->k + i),
                      p->keys == ALIKE ? i == 3
                                       : norm * x[row * p->k + i] / sqrt(sum));
    }
    free(x);
}

/* Heads outside of tokens, and elements of others around. */
static const num_layout by_heads = {"heads", {0, 2, 1, 3}, {0}, {0, 1, 0, 8}};

static data data_new(const problem *p, num_rng *r)
{
    data d = {.p = p};
    for (int i = 0; i < NARGS; i++) {
        int32_t size[NUM_MAX_RANK];
        int rank = (int)strlen(tensors[i].sides);
        for (int j = 0; j < rank; j++)
            size[j] = side_of(p, tensors[i].sides[j]);
        num_type type = tensors[i].type == 'T'   ? p->type
                        : tensors[i].type == 'B' ? p->beta
                                                 : NUM_F32;
        d.t[i] = num_tensor_new(type, rank, size,
                                rank == 4 && p->strided ? &by_heads : NULL);
        for (int64_t j = 0; j < num_count(&d.t[i]) && !tensors[i].is_output;
             j++)
            num_write(type, num_at(&d.t[i], j), input(p, i, r));
        if (i == K)
            set_keys(p, &d.t[i]);
        if (i == DG || i == DBETA)
            d.cancels[i == DBETA] =
                calloc((size_t)num_count(&d.t[i]), sizeof(double));
        d.x[i] = tensors[i].is_output
                     ? calloc((size_t)num_count(&d.t[i]), sizeof(double))
                     : num_tensor_read(&d.t[i]);
    }
    return d;
}

static void data_free(data *d)
{
    for (int i = 0; i < NARGS; i++) {
        num_tensor_free(&d->t[i]);
        free(d->x[i]);
    }
    free(d->cancels[0]);
    free(d->cancels[1]);
}

/* ---- The recurrence, and its reverse, of one head ---- */

typedef struct head {
    const problem *p;
    double *x[NARGS]; /* of the head: the first token */
    double *cancels[2];
    int64_t qk, value, gate; /* from token to token */
    double scale;
    double *states,
        *written; /* before each token, decayed; k's of each token */
} head;

static double at_key(const head *h, const double *state, const double *key,
                     int v)
{
    double sum = 0;
    for (int i = 0; i < h->p->k; i++)
        sum += state[i * h->p->v + v] * key[i];
    return sum;
}

static void step(const head *h, int t, double *s)
{
    const problem *p = h->p;
    const double *q = h->x[Q] + t * h->qk, *k = h->x[K] + t * h->qk;
    const double *value = h->x[V] + t * h->value;
    double decay = exp(h->x[G][t * h->gate]), beta = h->x[BETA][t * h->gate];
    double *n = h->written + t * p->v;
    for (int i = 0; i < p->k * p->v; i++)
        s[i] *= decay;
    memcpy(h->states + (size_t)t * p->k * p->v, s,
           (size_t)(p->k * p->v) * sizeof *s);
    for (int v = 0; v < p->v; v++)
        n[v] = p->delta ? beta * (value[v] - at_key(h, s, k, v)) : value[v];
    for (int i = 0; i < p->k; i++)
        for (int v = 0; v < p->v; v++)
            s[i * p->v + v] += k[i] * n[v];
    for (int v = 0; v < p->v; v++)
        h->x[O][t * h->value + v] = h->scale * at_key(h, s, q, v);
}

/* ds: the gradient of the state after the token, then of that before. */
static void step_back(const head *h, int t, double *ds)
{
    const problem *p = h->p;
    const double *q = h->x[Q] + t * h->qk, *k = h->x[K] + t * h->qk;
    const double *value = h->x[V] + t * h->value, *n = h->written + t * p->v;
    const double *s = h->states + (size_t)t * p->k * p->v;
    const double *dout = h->x[DO] + t * h->value;
    double beta = h->x[BETA][t * h->gate], dg = 0;
    double *dg_terms = h->cancels[0] + t * h->gate;
    double *dbeta_terms = h->cancels[1] + t * h->gate;
    for (int i = 0; i < p->k; i++)
        for (int v = 0; v < p->v; v++) {
            int j = i * p->v + v;
            h->x[DQ][t * h->qk + i] +=
                h->scale * (s[j] + k[i] * n[v]) * dout[v];
            ds[j] += h->scale * q[i] * dout[v];
            h->x[DK][t * h->qk + i] += ds[j] * n[v];
            *dg_terms += fabs(k[i] * ds[j] * n[v]);
        }
    for (int v = 0; v < p->v; v++) {
        double dn = at_key(h, ds, k, v);
        h->x[DV][t * h->value + v] = p->delta ? beta * dn : dn;
        if (!p->delta)
            continue;
        double read = at_key(h, s, k, v);
        h->x[DBETA][t * h->gate] += dn * (value[v] - read);
        *dbeta_terms += fabs(dn * value[v]) + fabs(dn * read);
        for (int i = 0; i < p->k; i++) {
            h->x[DK][t * h->qk + i] -= beta * dn * s[i * p->v + v];
            ds[i * p->v + v] -= beta * dn * k[i];
        }
    }
    for (int j = 0; j < p->k * p->v; j++) {
        dg += ds[j] * s[j];
        ds[j] *= exp(h->x[G][t * h->gate]);
    }
    h->x[DG][t * h->gate] = dg;
}

static void run_head(const data *d, int b, int hv)
{
    const problem *p = d->p;
    int64_t n = (int64_t)p->k * p->v, at = ((int64_t)b * p->hv + hv) * n;
    int64_t value = (int64_t)p->hv * p->v, qk = (int64_t)p->h * p->k;
    head h = {.p = p,
              .qk = qk,
              .value = value,
              .gate = p->hv,
              .scale = 1 / sqrt(p->k),
              .states = malloc((size_t)(p->t * n) * sizeof(double)),
              .written = malloc((size_t)(p->t * p->v) * sizeof(double))};
    for (int i = 0; i < NARGS; i++) {
        const char *sides = tensors[i].sides;
        int64_t of_head = sides[2] == 'h' ? hv / (p->hv / p->h) * p->k
                          : sides[3]      ? hv * p->v
                                          : hv;
        int64_t token = sides[2] == 'h' ? qk : sides[3] ? value : p->hv;
        h.x[i] = d->x[i] + b * p->t * token + of_head;
    }
    for (int i = 0; i < 2; i++)
        h.cancels[i] = d->cancels[i] + b * p->t * p->hv + hv;
    double *s = calloc((size_t)n, sizeof *s),
           *ds = calloc((size_t)n, sizeof *s);
    if (p->initial)
        memcpy(s, d->x[INITIAL] + at, (size_t)n * sizeof *s);
    for (int t = 0; t < p->t; t++)
        step(&h, t, s);
    memcpy(d->x[FINAL] + at, s, (size_t)n * sizeof *s);
    if (p->final)
        memcpy(ds, d->x[DFINAL] + at, (size_t)n * sizeof *s);
    for (int t = p->t - 1; t >= 0; t--)
        step_back(&h, t, ds);
    memcpy(d->x[DINITIAL] + at, ds, (size_t)n * sizeof *s);
    free(s);
    free(ds);
    free(h.states);
    free(h.written);
}

/* ---- The plans ---- */

static bool run(tilec_context *cx, const data *d, const char *plan,
                const int *which, run_counts *counts)
{
    const problem *p = d->p;
    char text[4][16];
    const int numbers[] = {p->k, p->v, p->c, 0};
    for (int i = 0; i < 3; i++)
        snprintf(text[i], sizeof text[i], "%d", numbers[i]);
    const tilec_binding all[] = {{"T", num_name(p->type)},
                                 {"K", text[0]},
                                 {"V", text[1]},
                                 {"C", text[2]},
                                 {"INITIAL", p->initial ? "1" : "0"},
                                 {"FINAL", p->final ? "1" : "0"},
                                 {"TB", num_name(p->beta)}};
    run_view views[NARGS];
    tilec_argument args[NARGS + 1];
    size_t n = 0;
    for (int i = 0; which[i] >= 0; i++)
        if (p->delta || (which[i] != BETA && which[i] != DBETA))
            args[n++] = tilec_tensor(tensors[which[i]].name,
                                     run_view_of(&views[i], &d->t[which[i]]));
    args[n++] = tilec_float("scale", 1 / sqrt(p->k));
    tilec_kernel *k =
        run_compile_bound(cx, "delta_rule", plan, all, p->delta ? 7 : 6);
    tilec_error error = {0};
    bool ok =
        run_check(counts, k && run_launch(k, args, n, NULL, &error) == TILEC_OK,
                  "%s: %s", plan, k ? error.message : "does not compile");
    tilec_kernel_free(k);
    return ok;
}

/* Of 16 bits W, U, N, the states and the inverse are rounded, each once. The
 * sums of g in a chunk are f32: their rounding is a relative error of what
 * decays. */
static double tolerance(const problem *p)
{
    double most = p->type == NUM_F32 ? 2e-6 : p->type == NUM_F16 ? 1e-3 : 5e-3;
    return most + 0x1p-24 * p->c * p->decay / 2;
}

static double norm(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; x && i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void check(const data *d, const int *which, run_counts *counts)
{
    const problem *p = d->p;
    for (int i = 0; which[i] >= 0; i++) {
        int what = which[i];
        const num_tensor *t = &d->t[what];
        bool is_used = (p->delta || what != DBETA) &&
                       (p->final || what != FINAL) &&
                       (p->initial || what != DINITIAL);
        if (!tensors[what].is_output || !is_used)
            continue;
        int64_t n = num_count(t);
        const double *cancels = what == DG      ? d->cancels[0]
                                : what == DBETA ? d->cancels[1]
                                                : NULL;
        double *got = num_tensor_read(t), most = tolerance(p);
        for (int64_t j = 0; j < n; j++)
            got[j] -= d->x[what][j];
        double error = norm(got, n) / (norm(d->x[what], n) + norm(cancels, n));
        run_check(counts, error <= most && num_tensor_intact(t),
                  "%s: relative error %.2e, expected at most %.0e%s",
                  tensors[what].name, error, most,
                  num_tensor_intact(t) ? "" : "; wrote outside");
        free(got);
    }
}

static void run_problem(tilec_context *cx, int i, num_rng *r,
                        run_counts *counts)
{
    static const int forward[] = {Q, K, V, G, BETA, INITIAL, FINAL, O, -1};
    static const int backward[] = {Q,  K,  V,  G,  BETA,  INITIAL,  DO, DFINAL,
                                   DQ, DK, DV, DG, DBETA, DINITIAL, -1};
    const problem *p = &problems[i];
    int failed = counts->failed;
    data d = data_new(p, r);
    for (int b = 0; b < p->b; b++)
        for (int h = 0; h < p->hv; h++)
            run_head(&d, b, h);
    if (run(cx, &d, p->delta ? "delta_rule" : "linear_attention", forward,
            counts))
        check(&d, forward, counts);
    if (run(cx, &d,
            p->delta ? "delta_rule_backward" : "linear_attention_backward",
            backward, counts))
        check(&d, backward, counts);
    if (counts->failed > failed)
        printf("these are of --case %d\n", i);
    data_free(&d);
}

int main(int argc, char **argv)
{
    num_rng rng = {(uint64_t)run_option(argc, argv, "seed", 1)};
    long only = run_option(argc, argv, "case", -1);
    run_counts counts = {0};
    tilec_context *cx = run_context();
    for (int i = 0; i < NPROBLEMS; i++)
        if (only < 0 || only == i)
            run_problem(cx, i, &rng, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
