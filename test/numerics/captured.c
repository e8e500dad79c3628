/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of attention for what the score function captures, against
 * float64: by float sums, and by sums that are the same bits in every run,
 * which is asked too.
 */
#include "test/numerics/mods.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, GROUP = 2, M = 37, N = 45, D = 16, REST = 64 };

/* The backward plan, as far as it is asked about here. */
static const char plan_text[] =
    "plan @p[D: int, T: type, EXACT: int = 0,\n"
    "    score_mod: func(f32, i32, i32, i32, i32) -> f32,\n"
    "    mask_mod: func(i32, i32, i32, i32) -> i1](\n"
    "    %q: tensor<[?, ?, ?, D] x T>, %k: tensor<[?, ?, ?, D] x T>,\n"
    "    %v: tensor<[?, ?, ?, D] x T>, %do: tensor<[?, ?, ?, D] x T>,\n"
    "    %lse: tensor<[?, ?, ?] x f32>, %rows: tensor<[2, ?, ?, ?] x f32>,\n"
    "    %scale: f32) {\n"
    "  if EXACT == 0 {\n"
    "    launch @attention_bwd_captured[BM=16, BN=16, CG=1, "
    "score_mod=score_mod, mask_mod=mask_mod](%q, %k, %v, %do, %lse, %rows, "
    "%scale)\n"
    "  } else {\n"
    "    launch @attention_bwd_captured[BM=16, BN=16, CG=2, "
    "score_mod=score_mod, mask_mod=mask_mod](%q, %k, %v, %do, %lse, %rows, "
    "%scale)\n"
    "    launch @attention_bwd_captured_pairs[BM=16, BN=16, CG=3, "
    "score_mod=score_mod, mask_mod=mask_mod](%q, %k, %v, %do, %lse, %rows, "
    "%scale)\n"
    "  }\n"
    "}\n";

typedef struct problem {
    const score_case *score;
    const mask_case *mask;
    mod_data mods;
    double scale;
    num_tensor q, k, v, dout, lse, rows;
    double *raw; /* of all pairs, [BATCH, HEADS, M, N] */
} problem;

static num_tensor normal(num_rng *r, int rank, const int32_t *size)
{
    num_tensor t = num_tensor_new(NUM_F32, rank, size, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(NUM_F32, num_at(&t, i), num_normal(r));
    return t;
}

/* ---- In float64 ---- */

static double dot(const num_tensor *a, int64_t row, const num_tensor *b,
                  int64_t other)
{
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += num_read(NUM_F32, num_at(a, row * D + i)) *
               num_read(NUM_F32, num_at(b, other * D + i));
    return sum;
}

typedef struct pair {
    int64_t row, key; /* of q and do, of k and v */
    ref_position at;
} pair;

static pair pair_at(const problem *p, int z, int h, int q, int k)
{
    return (pair){((int64_t)z * HEADS + h) * M + q,
                  ((int64_t)z * (HEADS / GROUP) + h / GROUP) * N + k,
                  {.b = z,
                   .h = h,
                   .q = q,
                   .k = k,
                   .q_len = M,
                   .k_len = N,
                   .data = &p->mods}};
}

static void fill_raw(problem *p)
{
    p->raw = malloc(sizeof *p->raw * BATCH * HEADS * M * N);
    double *out = p->raw;
    for (int z = 0; z < BATCH; z++)
        for (int h = 0; h < HEADS; h++)
            for (int q = 0; q < M; q++)
                for (int k = 0; k < N; k++) {
                    pair x = pair_at(p, z, h, q, k);
                    *out++ = dot(&p->q, x.row, &p->k, x.key) * p->scale;
                }
}

/* -inf: not seen. */
static double score(const problem *p, const pair *x)
{
    if (p->mask->reference && !p->mask->reference(&x->at))
        return -INFINITY;
    return p->score->reference(p->raw[x->row * N + x->at.k], &x->at);
}

static double lse_of(const problem *p, int z, int h, int q)
{
    double top = -INFINITY, sum = 0;
    for (int k = 0; k < N; k++) {
        pair x = pair_at(p, z, h, q, k);
        top = fmax(top, score(p, &x));
    }
    for (int k = 0; k < N && top > -INFINITY; k++) {
        pair x = pair_at(p, z, h, q, k);
        sum += exp(score(p, &x) - top);
    }
    return top > -INFINITY ? top + log(sum) : -INFINITY;
}

/* What the forward pass and attention_bwd_delta give. */
static void fill_rows(problem *p)
{
    for (int z = 0; z < BATCH; z++)
        for (int h = 0; h < HEADS; h++)
            for (int q = 0; q < M; q++) {
                int64_t row = ((int64_t)z * HEADS + h) * M + q;
                double lse = lse_of(p, z, h, q), delta = 0;
                num_write(NUM_F32, num_at(&p->lse, row), lse);
                for (int k = 0; k < N; k++) {
                    pair x = pair_at(p, z, h, q, k);
                    double s = score(p, &x);
                    if (s > -INFINITY)
                        delta +=
                            exp(s - lse) * dot(&p->dout, x.row, &p->v, x.key);
                }
                num_write(NUM_F32,
                          num_at(&p->rows, ((int64_t)z * HEADS + h) * REST + q),
                          delta);
            }
}

/* The gradients of all modified scores, [BATCH, HEADS, M, N]; 0: not seen. */
static double *score_gradients(const problem *p)
{
    double *ds = malloc(sizeof *ds * BATCH * HEADS * M * N), *out = ds;
    for (int z = 0; z < BATCH; z++)
        for (int h = 0; h < HEADS; h++)
            for (int q = 0; q < M; q++)
                for (int k = 0; k < N; k++) {
                    pair x = pair_at(p, z, h, q, k);
                    double s = score(p, &x);
                    double lse = num_read(NUM_F32, num_at(&p->lse, x.row));
                    double delta = num_read(
                        NUM_F32,
                        num_at(&p->rows, ((int64_t)z * HEADS + h) * REST + q));
                    double dp = dot(&p->dout, x.row, &p->v, x.key);
                    *out++ = s > -INFINITY ? exp(s - lse) * (dp - delta) : 0;
                }
    return ds;
}

/* All scores, as the captured values are now. */
static double *all_scores(const problem *p)
{
    double *s = malloc(sizeof *s * BATCH * HEADS * M * N), *out = s;
    for (int z = 0; z < BATCH; z++)
        for (int h = 0; h < HEADS; h++)
            for (int q = 0; q < M; q++)
                for (int k = 0; k < N; k++) {
                    pair x = pair_at(p, z, h, q, k);
                    *out++ = score(p, &x);
                }
    return s;
}

static void set_captured(problem *p, const num_tensor *t, int64_t i, double x)
{
    if (t)
        num_write(NUM_F32, num_at(t, i), x);
    else
        p->mods.cap = x;
}

/* The derivative for element i of a captured tensor (NULL: cap), and the sum
 * of the magnitudes. */
static double derivative(problem *p, const double *ds, const num_tensor *t,
                         int64_t i, double *magnitude)
{
    const double step = 0x1p-9;
    double x = t ? num_read(NUM_F32, num_at(t, i)) : p->mods.cap;
    set_captured(p, t, i, x + step);
    double *above = all_scores(p);
    set_captured(p, t, i, x - step);
    double *below = all_scores(p);
    set_captured(p, t, i, x);
    double sum = 0;
    *magnitude = 0;
    for (int64_t k = 0; k < BATCH * HEADS * M * N; k++) {
        double part = ds[k] ? ds[k] * (above[k] - below[k]) / (2 * step) : 0;
        sum += part;
        *magnitude += fabs(part);
    }
    free(above);
    free(below);
    return sum;
}

/* ---- Kernels ---- */

static tilec_kernel *compile(tilec_context *cx, const problem *p, bool exact)
{
    tilec_source sources[] = {
        tilec_text("attention_bwd", tilec_embedded_text("attention_bwd"), 0),
        tilec_text("masks", tilec_embedded_text("mods/masks"), 0),
        tilec_text("scores", tilec_embedded_text("mods/scores"), 0),
        tilec_text("plan", plan_text, 0)};
    char mask[64], score_name[64];
    snprintf(mask, sizeof mask, "@%s",
             p->mask->expression ? p->mask->expression : "no_mask");
    snprintf(score_name, sizeof score_name, "@%s", p->score->expression);
    const tilec_binding bindings[] = {{"D", "16"},
                                      {"T", "f32"},
                                      {"EXACT", exact ? "1" : "0"},
                                      {"score_mod", score_name},
                                      {"mask_mod", mask}};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.kernel = "p";
    o.bindings = bindings;
    o.nbindings = 5;
    tilec_kernel *k = NULL;
    if (tilec_compile(cx, sources, 4, &o, &k) != TILEC_OK)
        run_print_diagnostics(cx);
    return k;
}

enum { ALL_ARGS = 2 * MAX_CAPTURED + 8, MOST_GRADIENTS = 4 };

typedef struct gradients {
    int n;
    char name[MOST_GRADIENTS][64];
    const num_tensor *of[MOST_GRADIENTS]; /* NULL: cap */
    num_tensor t[MOST_GRADIENTS];
} gradients;

static const num_tensor *tensor_at(const mod_data *d, const void *data)
{
    const num_tensor *const all[] = {
        &d->slopes,   &d->bias,        &d->table,    &d->scales,
        &d->row_bias, &d->column_bias, &d->pair_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->data == data)
            return all[i];
    return NULL;
}

static void add_gradient(gradients *g, const problem *p,
                         const tilec_argument *captured)
{
    bool tensor = captured->kind == TILEC_ARG_TENSOR;
    const num_tensor *of =
        tensor ? tensor_at(&p->mods, captured->tensor->data) : NULL;
    g->of[g->n] = of;
    g->t[g->n] = num_tensor_new(NUM_F32, of ? of->rank : 1,
                                of ? of->size : (int32_t[]){1}, NULL);
    snprintf(g->name[g->n], sizeof g->name[0], "grad.%s", captured->name);
    g->n++;
}

static bool run(const tilec_kernel *k, problem *p, gradients *g)
{
    tilec_argument args[ALL_ARGS], captured[MAX_CAPTURED];
    run_view views[ALL_ARGS], captured_views[MAX_CAPTURED];
    const num_tensor *own[] = {&p->q,    &p->k,   &p->v,
                               &p->dout, &p->lse, &p->rows};
    static const char *const names[] = {"q", "k", "v", "do", "lse", "rows"};
    size_t n = 0, m = mod_arguments(&p->mods, k, captured, captured_views);
    for (int i = 0; i < 6; i++, n++)
        args[n] = tilec_tensor(names[i], run_view_of(&views[n], own[i]));
    args[n++] = tilec_float("scale", p->scale);
    for (size_t i = 0; i < m; i++) {
        if (strncmp(captured[i].name, "grad.", 5) == 0)
            continue;
        args[n++] = captured[i];
        if (strncmp(captured[i].name, "score.", 6) == 0)
            add_gradient(g, p, &captured[i]);
    }
    for (int i = 0; i < g->n; i++, n++)
        args[n] = tilec_tensor(g->name[i], run_view_of(&views[n], &g->t[i]));
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_status s = run_launch(k, args, n, NULL, &error);
    if (s != TILEC_OK)
        printf("%s\n", error.message);
    return s == TILEC_OK;
}

/* ---- Cases ---- */

static problem make_problem(num_rng *r, const score_case *score_of,
                            const mask_case *mask)
{
    static const int32_t q[] = {BATCH, HEADS, M, D};
    static const int32_t k[] = {BATCH, HEADS / GROUP, N, D};
    static const int32_t lse[] = {BATCH, HEADS, M};
    static const int32_t rows[] = {2, BATCH, HEADS, REST};
    problem p = {.score = score_of,
                 .mask = mask,
                 .scale = 0.25,
                 .q = normal(r, 4, q),
                 .k = normal(r, 4, k),
                 .v = normal(r, 4, k),
                 .dout = normal(r, 4, q),
                 .lse = normal(r, 3, lse),
                 .rows = normal(r, 4, rows)};
    mod_data_init(&p.mods, r, BATCH, HEADS, M, N);
    fill_raw(&p);
    fill_rows(&p);
    return p;
}

static void free_problem(problem *p)
{
    num_tensor *all[] = {&p->q, &p->k, &p->v, &p->dout, &p->lse, &p->rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        num_tensor_free(all[i]);
    mod_data_free(&p->mods);
    free(p->raw);
}

static void free_gradients(gradients *g)
{
    for (int i = 0; i < g->n; i++)
        num_tensor_free(&g->t[i]);
}

/* At most so many elements of each tensor are looked at. */
enum { MOST_ELEMENTS = 40 };

static bool check(problem *p, const double *ds, const gradients *g)
{
    bool ok = true;
    for (int i = 0; i < g->n; i++) {
        int64_t n = num_count(&g->t[i]);
        int64_t step = n > MOST_ELEMENTS ? n / MOST_ELEMENTS : 1;
        for (int64_t e = 0; ok && e < n; e += step) {
            double magnitude;
            double want = derivative(p, ds, g->of[i], e, &magnitude);
            double got = num_read(NUM_F32, num_at(&g->t[i], e));
            ok = fabs(got - want) <= 2e-5 * (magnitude + 0.1);
            if (!ok)
                printf("%s element %d: %g, expected %g\n", g->name[i], (int)e,
                       got, want);
        }
    }
    return ok && g->n;
}

static bool is_same(const gradients *a, const gradients *b)
{
    bool ok = a->n == b->n;
    for (int i = 0; ok && i < a->n; i++)
        ok = a->t[i].bytes == b->t[i].bytes &&
             memcmp(a->t[i].memory, b->t[i].memory, a->t[i].bytes) == 0;
    return ok;
}

static void check_case(tilec_context *cx, const score_case *score_of,
                       const mask_case *mask, run_counts *counts)
{
    num_rng r = {7};
    problem p = make_problem(&r, score_of, mask);
    double *ds = score_gradients(&p);
    for (int exact = 0; exact < 2; exact++) {
        gradients first = {0}, again = {0};
        tilec_kernel *k = compile(cx, &p, exact);
        bool ok = k && run(k, &p, &first) && check(&p, ds, &first);
        run_check(counts, ok, "%s, mask %s, exact %d", score_of->expression,
                  mask->expression ? mask->expression : "none", exact);
        if (exact && ok)
            run_check(counts, run(k, &p, &again) && is_same(&first, &again),
                      "%s: other bits", score_of->expression);
        free_gradients(&first);
        free_gradients(&again);
        tilec_kernel_free(k);
    }
    free(ds);
    free_problem(&p);
}

static const mask_case *mask_named(const char *name)
{
    for (int i = 0; i < nmasks; i++)
        if (name ? masks[i].expression && strcmp(masks[i].expression, name) == 0
                 : !masks[i].expression)
            return &masks[i];
    return NULL;
}

int main(void)
{
    tilec_context *cx = run_context();
    run_counts counts = {0};
    static const char *const learned[] = {
        "alibi",    "soft_cap",    "relative_bias_table", "head_bias",
        "row_bias", "column_bias", "pair_bias",           "head_scale"};
    for (int i = 0; i < nscores; i++)
        for (size_t k = 0; k < sizeof learned / sizeof *learned; k++)
            if (scores[i].expression &&
                strcmp(scores[i].expression, learned[k]) == 0)
                check_case(cx, &scores[i], mask_named(k % 2 ? "causal" : NULL),
                           &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
