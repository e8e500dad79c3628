/* SPDX-License-Identifier: Apache-2.0
 *
 * vjp against float64.
 *
 *   gradients [--seed N] [--seeds N] [--size N] [--verbose 1]
 *
 * Random functions, in f64, against dual numbers; the score functions of the
 * library, in f32, against difference quotients of the same in C. Each for the
 * score and for all that it captures, in a kernel that goes over the keys in
 * steps (so that sums are carried, or not, as the indices have it).
 */
#include "test/numerics/dual.h"
#include "test/numerics/mods.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, ROWS = 11, COLUMNS = 21 };

/* ---- A tensor of float64 numbers ---- */

static num_tensor normal(num_rng *r, num_type type, int rank,
                         const int32_t *size)
{
    num_tensor t = num_tensor_new(type, rank, size, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(type, num_at(&t, i), num_normal(r));
    return t;
}

static num_tensor zeros(num_type type, int rank, const int32_t *size)
{
    num_tensor t = num_tensor_new(type, rank, size, NULL);
    for (int64_t i = 0; i < num_count(&t); i++)
        num_write(type, num_at(&t, i), 0);
    return t;
}

/* Pairs that nobody sees: their seed is 0, their score may be anything. */
static void hide_some(num_rng *r, num_tensor *x, num_tensor *seed)
{
    for (int64_t i = 0; i < num_count(x); i++) {
        if (num_below(r, 8))
            continue;
        num_write(seed->type, num_at(seed, i), 0);
        if (num_below(r, 2))
            num_write(x->type, num_at(x, i), num_below(r, 2) ? NAN : INFINITY);
    }
}

/* A difference, or NaN, of what is added up: as parts of its magnitudes. */
static bool is_near(double got, double want, double magnitude, double tolerance)
{
    return fabs(got - want) <= tolerance * (magnitude + 1e-3);
}

/* ---- Random functions ---- */

static const char random_kernel[] =
    "kernel @k[mod: func(f64, i32, i32, i32) -> f64 = @mod](\n"
    "    %x: tensor<[?, ?, ?] x f64>, %seed: tensor<[?, ?, ?] x f64>,\n"
    "    %dx: tensor<[?, ?, ?] x f64>) grid(cdiv(size(%x, 1), 8), size(%x, "
    "0))\n"
    "{\n"
    "  %m = program_id(0) * 8\n"
    "  %h = program_id(1)\n"
    "  %q = min(%m + range(8), size(%x, 1) - 1)\n"
    "  for %n = 0 to size(%x, 2) step 8 {\n"
    "    %v = load %x[%h, %m +: 8, %n +: 8] boundary(0, 1)\n"
    "    %s = load %seed[%h, %m +: 8, %n +: 8] boundary(0, 1)\n"
    "    %k = min(%n + range(8), size(%x, 2) - 1)\n"
    "    if any(any(%s != 0.0, axis=1)) {\n"
    "      %d = vjp mod(%v, %h, %q[:, none], %k[none, :]) seed(%s) "
    "accumulate(1)\n"
    "      store %dx[%h, %m +: 8, %n +: 8], %d boundary(0, 1)\n"
    "    }\n"
    "  }\n"
    "}\n";

typedef struct problem {
    num_tensor x, seed, dx, t, u; /* f64 */
    num_tensor dnumber, dt, du;   /* f32 */
    double number;
} problem;

static problem make_problem(num_rng *r)
{
    static const int32_t size[] = {HEADS, ROWS, COLUMNS};
    static const int32_t table[] = {DUAL_ROWS, DUAL_COLUMNS};
    static const int32_t line[] = {DUAL_LINE}, one[] = {1};
    problem p = {normal(r, NUM_F64, 3, size),
                 normal(r, NUM_F64, 3, size),
                 zeros(NUM_F64, 3, size),
                 normal(r, NUM_F64, 1, line),
                 normal(r, NUM_F64, 2, table),
                 zeros(NUM_F32, 1, one),
                 zeros(NUM_F32, 1, line),
                 zeros(NUM_F32, 2, table),
                 num_normal(r)};
    hide_some(r, &p.x, &p.seed);
    return p;
}

static void free_problem(problem *p)
{
    num_tensor *all[] = {&p->x, &p->seed,    &p->dx, &p->t,
                         &p->u, &p->dnumber, &p->dt, &p->du};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        num_tensor_free(all[i]);
}

static bool launch_random(const tilec_kernel *k, problem *p)
{
    const struct {
        const char *name;
        num_tensor *t;
    } tensors[] = {{"x", &p->x},           {"seed", &p->seed},
                   {"dx", &p->dx},         {"mod.t", &p->t},
                   {"mod.u", &p->u},       {"grad.mod.number", &p->dnumber},
                   {"grad.mod.t", &p->dt}, {"grad.mod.u", &p->du}};
    enum { N = sizeof tensors / sizeof *tensors };
    run_view views[N];
    tilec_argument args[N + 1];
    for (int i = 0; i < N; i++)
        args[i] =
            tilec_tensor(tensors[i].name, run_view_of(&views[i], tensors[i].t));
    args[N] = tilec_float("mod.number", p->number);
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_status s = run_launch(k, args, N + 1, NULL, &error);
    if (s != TILEC_OK)
        printf("%s\n", error.message);
    return s == TILEC_OK;
}

/* The sum of seed * derivative over all pairs. */
static double sum_of(const dual_function *f, const problem *p, dual_inputs *in,
                     double *magnitude)
{
    double sum = 0;
    *magnitude = 0;
    for (int64_t i = 0; i < num_count(&p->x); i++) {
        double seed = num_read(NUM_F64, num_at(&p->seed, i));
        if (seed == 0)
            continue;
        in->score = num_read(NUM_F64, num_at(&p->x, i));
        in->h = (int)(i / COLUMNS / ROWS);
        in->q = (int)(i / COLUMNS % ROWS);
        in->k = (int)(i % COLUMNS);
        double part = seed * dual_eval(f, in).d;
        sum += part;
        *magnitude += fabs(part);
    }
    return sum;
}

static dual_inputs inputs_of(const problem *p)
{
    dual_inputs in = {.number = p->number};
    for (int i = 0; i < DUAL_LINE; i++)
        in.line[i] = num_read(NUM_F64, num_at(&p->t, i));
    for (int i = 0; i < DUAL_ROWS * DUAL_COLUMNS; i++)
        in.table[i] = num_read(NUM_F64, num_at(&p->u, i));
    return in;
}

static bool check_captured(const dual_function *f, const problem *p,
                           dual_inputs *in, const double *first,
                           const num_tensor *got)
{
    bool ok = true;
    for (int64_t i = 0; i < num_count(got); i++) {
        double magnitude;
        in->wrt = first + i;
        double want = sum_of(f, p, in, &magnitude);
        double g = num_read(NUM_F32, num_at(got, i));
        /* What a pair reads twice may cancel in it. */
        if (is_near(g, want, magnitude + 1, 1e-5))
            continue;
        printf("captured element %d: %g, expected %g\n", (int)i, g, want);
        ok = false;
    }
    return ok;
}

static bool check_scores(const dual_function *f, const problem *p,
                         dual_inputs *in)
{
    in->wrt = &in->score;
    for (int64_t i = 0; i < num_count(&p->x); i++) {
        double seed = num_read(NUM_F64, num_at(&p->seed, i));
        if (seed == 0)
            continue;
        in->score = num_read(NUM_F64, num_at(&p->x, i));
        in->h = (int)(i / COLUMNS / ROWS);
        in->q = (int)(i / COLUMNS % ROWS);
        in->k = (int)(i % COLUMNS);
        double want = seed * dual_eval(f, in).d;
        double got = num_read(NUM_F64, num_at(&p->dx, i));
        if (!is_near(got, want, fabs(want), 1e-8)) {
            printf("h %d q %d k %d: %g, expected %g\n", in->h, in->q, in->k,
                   got, want);
            return false;
        }
    }
    return true;
}

static void check_random(tilec_context *cx, long seed, int size, bool verbose,
                         run_counts *counts)
{
    num_rng r = {(uint64_t)seed};
    dual_function *f = dual_random(&r, size);
    char *func = dual_text(f, "mod");
    char *text = malloc(strlen(func) + sizeof random_kernel);
    sprintf(text, "%s%s", func, random_kernel);
    if (verbose)
        printf("-- %ld\n%s", seed, func);
    tilec_kernel *k = run_compile(cx, text, NULL);
    problem p = make_problem(&r);
    dual_inputs in = inputs_of(&p);
    bool ok = k && launch_random(k, &p);
    ok = ok && check_scores(f, &p, &in);
    ok = ok && check_captured(f, &p, &in, &in.number, &p.dnumber);
    ok = ok && check_captured(f, &p, &in, in.line, &p.dt);
    ok = ok && check_captured(f, &p, &in, in.table, &p.du);
    run_check(counts, ok, "random function, seed %ld\n%s", seed, func);
    free_problem(&p);
    tilec_kernel_free(k);
    free(text);
    free(func);
    dual_free(f);
}

/* ---- The library's score functions ---- */

static const char score_kernel[] =
    "kernel @k[CG: int, score_mod: func(f32, i32, i32, i32, i32) -> f32](\n"
    "    %x: tensor<[?, ?, ?] x f32>, %seed: tensor<[?, ?, ?] x f32>,\n"
    "    %dx: tensor<[?, ?, ?] x f32>) grid(cdiv(size(%x, 1), 8), size(%x, "
    "0))\n"
    "{\n"
    "  %m = program_id(0) * 8\n"
    "  %h = program_id(1)\n"
    "  %q = min(%m + range(8), size(%x, 1) - 1)\n"
    "  for %n = 0 to size(%x, 2) step 16 {\n"
    "    %v = load %x[%h, %m +: 8, %n +: 16] boundary(0, 1)\n"
    "    %s = load %seed[%h, %m +: 8, %n +: 16] boundary(0, 1)\n"
    "    %k = min(%n + range(16), size(%x, 2) - 1)\n"
    "    %d = vjp score_mod(%v, 0, %h, %q[:, none], %k[none, :],\n"
    "        q_len=size(%x, 1), kv_len=size(%x, 2)) seed(%s) accumulate(CG)\n"
    "    store %dx[%h, %m +: 8, %n +: 16], %d boundary(0, 1)\n"
    "  }\n"
    "}\n";

static tilec_kernel *compile_score(tilec_context *cx, const char *name,
                                   const char *accumulate)
{
    tilec_source sources[] = {
        tilec_text("kernel", score_kernel, 0),
        tilec_text("scores", tilec_embedded_text("mods/scores"), 0),
        tilec_text("test mods", mods_text, 0)};
    char symbol[64];
    snprintf(symbol, sizeof symbol, "@%s", name);
    const tilec_binding bindings[] = {{"CG", accumulate},
                                      {"score_mod", symbol}};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.bindings = bindings;
    o.nbindings = 2;
    tilec_kernel *k = NULL;
    if (tilec_compile(cx, sources, 3, &o, &k) != TILEC_OK)
        run_print_diagnostics(cx);
    return k;
}

/* A captured number or tensor and what the kernel adds for it. */
typedef struct captured {
    char name[64];
    num_tensor *values; /* NULL: mod_data's cap */
    num_tensor gradient;
} captured;

typedef struct score_problem {
    const score_case *c;
    mod_data mods;
    num_tensor x, seed, dx;
    int ncaptured;
    captured all[4];
} score_problem;

/* The tensor of the case that the argument shows. */
static num_tensor *tensor_at(mod_data *d, const void *data)
{
    num_tensor *const all[] = {&d->slopes,   &d->bias,     &d->table,
                               &d->scales,   &d->row_bias, &d->column_bias,
                               &d->pair_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->data == data)
            return all[i];
    return NULL;
}

static bool launch_score(const tilec_kernel *plain, const tilec_kernel *k,
                         score_problem *p)
{
    tilec_argument args[2 * MAX_CAPTURED + 3];
    run_view views[2 * MAX_CAPTURED + 3];
    /* Without accumulate the kernel takes what is captured, and no more. */
    size_t n = mod_arguments(&p->mods, plain, args, views), ncaptured = n;
    for (size_t i = 0; i < ncaptured; i++) {
        captured *c = &p->all[p->ncaptured++];
        bool tensor = args[i].kind == TILEC_ARG_TENSOR;
        c->values = tensor ? tensor_at(&p->mods, args[i].tensor->data) : NULL;
        c->gradient = tensor ? zeros(NUM_F32, c->values->rank, c->values->size)
                             : zeros(NUM_F32, 1, (int32_t[]){1});
        snprintf(c->name, sizeof c->name, "grad.%s", args[i].name);
        args[n] = tilec_tensor(c->name, run_view_of(&views[n], &c->gradient));
        n++;
    }
    args[n] = tilec_tensor("x", run_view_of(&views[n], &p->x)), n++;
    args[n] = tilec_tensor("seed", run_view_of(&views[n], &p->seed)), n++;
    args[n] = tilec_tensor("dx", run_view_of(&views[n], &p->dx)), n++;
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_status s = run_launch(k, args, n, NULL, &error);
    if (s != TILEC_OK)
        printf("%s\n", error.message);
    return s == TILEC_OK;
}

/* The score of pair i, as the captured values are now. */
static double score_of(const score_problem *p, int64_t i, double score)
{
    ref_position at = {.h = (int)(i / COLUMNS / ROWS),
                       .q = (int)(i / COLUMNS % ROWS),
                       .k = (int)(i % COLUMNS),
                       .q_len = ROWS,
                       .k_len = COLUMNS,
                       .data = &p->mods};
    return p->c->reference(score, &at);
}

static double x_of(const score_problem *p, int64_t i)
{
    return num_read(NUM_F32, num_at(&p->x, i));
}

static double seed_of(const score_problem *p, int64_t i)
{
    return num_read(NUM_F32, num_at(&p->seed, i));
}

/* -inf - -inf is no slope. */
static double slope(double above, double below, double step)
{
    return isinf(above) ? 0 : (above - below) / (2 * step);
}

static bool check_dx(const score_problem *p)
{
    const double step = 0x1p-14;
    for (int64_t i = 0; i < num_count(&p->x); i++) {
        if (seed_of(p, i) == 0)
            continue;
        double x = x_of(p, i);
        double want = seed_of(p, i) * slope(score_of(p, i, x + step),
                                            score_of(p, i, x - step), step);
        double got = num_read(NUM_F32, num_at(&p->dx, i));
        if (!is_near(got, want, fabs(want), 1e-5)) {
            printf("pair %d: %g, expected %g\n", (int)i, got, want);
            return false;
        }
    }
    return true;
}

/* What all pairs contribute; `set` writes the captured value. */
static void score_all(const score_problem *p, double *scores_of)
{
    for (int64_t i = 0; i < num_count(&p->x); i++)
        if (seed_of(p, i) != 0)
            scores_of[i] = score_of(p, i, x_of(p, i));
}

static void set_captured(score_problem *p, const captured *c, int64_t e,
                         double x)
{
    if (c->values)
        num_write(NUM_F32, num_at(c->values, e), x);
    else
        p->mods.cap = x;
}

static bool check_element(score_problem *p, const captured *c, int64_t e)
{
    const double step = 0x1p-9;
    double above[HEADS * ROWS * COLUMNS], below[HEADS * ROWS * COLUMNS];
    double x =
        c->values ? num_read(NUM_F32, num_at(c->values, e)) : p->mods.cap;
    set_captured(p, c, e, x + step);
    score_all(p, above);
    set_captured(p, c, e, x - step);
    score_all(p, below);
    set_captured(p, c, e, x);
    double want = 0, magnitude = 0;
    for (int64_t i = 0; i < num_count(&p->x); i++) {
        double seed = seed_of(p, i);
        double part = seed ? seed * slope(above[i], below[i], step) : 0;
        want += part;
        magnitude += fabs(part);
    }
    double got = num_read(NUM_F32, num_at(&c->gradient, e));
    if (is_near(got, want, magnitude, 1e-5))
        return true;
    printf("%s, element %d: %g, expected %g\n", c->name, (int)e, got, want);
    return false;
}

static void check_score(tilec_context *cx, const score_case *c,
                        run_counts *counts)
{
    static const int32_t size[] = {HEADS, ROWS, COLUMNS};
    num_rng r = {99};
    tilec_kernel *plain = compile_score(cx, c->expression, "0");
    tilec_kernel *k = compile_score(cx, c->expression, "1");
    score_problem p = {.c = c,
                       .x = normal(&r, NUM_F32, 3, size),
                       .seed = normal(&r, NUM_F32, 3, size),
                       .dx = zeros(NUM_F32, 3, size)};
    mod_data_init(&p.mods, &r, 1, HEADS, ROWS, COLUMNS);
    hide_some(&r, &p.x, &p.seed);
    bool ok = plain && k && launch_score(plain, k, &p) && check_dx(&p);
    for (int i = 0; i < p.ncaptured; i++)
        for (int64_t e = 0; ok && e < num_count(&p.all[i].gradient); e++)
            ok = check_element(&p, &p.all[i], e);
    run_check(counts, ok, "%s", c->expression);
    for (int i = 0; i < p.ncaptured; i++)
        num_tensor_free(&p.all[i].gradient);
    num_tensor_free(&p.x);
    num_tensor_free(&p.seed);
    num_tensor_free(&p.dx);
    mod_data_free(&p.mods);
    tilec_kernel_free(plain);
    tilec_kernel_free(k);
}

int main(int argc, char **argv)
{
    long first = run_option(argc, argv, "seed", 1);
    long n = run_option(argc, argv, "seeds", 60);
    int size = (int)run_option(argc, argv, "size", 9);
    bool verbose = run_option(argc, argv, "verbose", 0);
    tilec_context *cx = run_context();
    run_counts counts = {0};
    for (long seed = first; seed < first + n; seed++)
        check_random(cx, seed, size, verbose, &counts);
    for (int i = 0; i < nscores; i++)
        /* One function: what is written `a, b` only the library composes. */
        if (scores[i].expression && !strchr(scores[i].expression, ','))
            check_score(cx, &scores[i], &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
