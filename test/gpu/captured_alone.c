/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients for what a score function captures, by a kernel that is launched
 * alone, again and again, each time against float64: loads from shared memory
 * that float sums hold up must not meet the TMA copy of the next tile.
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Tiles for two programs a multiprocessor, so that there is a next one. */
enum { BATCH = 4, HEADS = 4, N = 1024, D = 64, LAUNCHES = 100 };
/* An element of the captured table is for so many rows and keys. */
enum { CELL_ROWS = 16, CELL_KEYS = 32, CELLS = N / CELL_ROWS * N / CELL_KEYS };

static const char mod_text[] =
    "func @cells(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32,\n"
    "            %table: tensor<[?, ?] x f32>) -> f32 {\n"
    "  return %s + %table[%h, (%q / 16) * 32 + %k / 32]\n"
    "}\n";

enum { Q, K, V, DO, LSE, ROWS, TABLE, NTENSORS };
static const char *const names[] = {"q",   "k",    "v",          "do",
                                    "lse", "rows", "score.table"};

typedef struct problem {
    num_tensor t[NTENSORS];
    float *values[DO + 1]; /* of the first four */
    double scale, want[HEADS * CELLS];
} problem;

/* ---- In float64 ---- */

static float dot(const float *a, const float *b)
{
    float sums[8] = {0}, sum = 0;
    for (int i = 0; i < D; i += 8)
        for (int j = 0; j < 8; j++)
            sums[j] += a[i + j] * b[i + j];
    for (int j = 0; j < 8; j++)
        sum += sums[j];
    return sum;
}

static void add_row(problem *p, int head, int q)
{
    static double s[N];
    int64_t first = (int64_t)head * N, row = first + q;
    double top = -INFINITY, sum = 0;
    for (int k = 0; k <= q; k++) {
        s[k] = p->scale *
               dot(p->values[Q] + row * D, p->values[K] + (first + k) * D);
        top = fmax(top, s[k]);
    }
    for (int k = 0; k <= q; k++)
        sum += exp(s[k] - top);
    double lse = top + log(sum);
    num_write(NUM_F32, num_at(&p->t[LSE], row), lse);
    double delta = num_read(NUM_F32, num_at(&p->t[ROWS], row));
    double *want =
        p->want + head % HEADS * CELLS + q / CELL_ROWS * N / CELL_KEYS;
    for (int k = 0; k <= q; k++) {
        double dp =
            dot(p->values[DO] + row * D, p->values[V] + (first + k) * D);
        want[k / CELL_KEYS] += exp(s[k] - lse) * (dp - delta);
    }
}

/* ---- The problem ---- */

static void make(problem *p, int i, num_rng *r, num_type type, int rank,
                 const int32_t *size)
{
    p->t[i] = num_tensor_new(type, rank, size, NULL);
    int64_t n = num_count(&p->t[i]);
    for (int64_t e = 0; e < n; e++)
        num_write(type, num_at(&p->t[i], e), i == TABLE ? 0 : num_normal(r));
    if (i > DO)
        return;
    p->values[i] = malloc(sizeof(float) * (size_t)n);
    for (int64_t e = 0; e < n; e++)
        p->values[i][e] = (float)num_read(type, num_at(&p->t[i], e));
}

static problem *new_problem(void)
{
    problem *p = calloc(1, sizeof *p);
    num_rng r = {5};
    for (int i = Q; i <= DO; i++)
        make(p, i, &r, NUM_BF16, 4, (int32_t[]){BATCH, HEADS, N, D});
    make(p, LSE, &r, NUM_F32, 3, (int32_t[]){BATCH, HEADS, N});
    make(p, ROWS, &r, NUM_F32, 4, (int32_t[]){2, BATCH, HEADS, N});
    make(p, TABLE, &r, NUM_F32, 2, (int32_t[]){HEADS, CELLS});
    p->scale = 0.125;
    for (int head = 0; head < BATCH * HEADS; head++)
        for (int q = 0; q < N; q++)
            add_row(p, head, q);
    return p;
}

static void free_problem(problem *p)
{
    for (int i = 0; i < NTENSORS; i++)
        num_tensor_free(&p->t[i]);
    for (int i = Q; i <= DO; i++)
        free(p->values[i]);
    free(p);
}

static tilec_kernel *compile(tilec_context *cx)
{
    tilec_source sources[] = {
        tilec_text("attention_bwd", tilec_embedded_text("attention_bwd"), 0),
        tilec_text("masks", tilec_embedded_text("mods/masks"), 0),
        tilec_text("mod", mod_text, 0)};
    const tilec_binding bindings[] = {{"D", "64"},
                                      {"T", "bf16"},
                                      {"score_mod", "@cells"},
                                      {"mask_mod", "@causal"}};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.kernel = "attention_bwd_captured";
    o.bindings = bindings;
    o.nbindings = 4;
    tilec_kernel *k = NULL;
    if (tilec_compile(cx, sources, 3, &o, &k) != TILEC_OK)
        run_print_diagnostics(cx);
    return k;
}

/* ---- Launches ---- */

typedef struct launcher {
    const tilec_kernel *k;
    const problem *p;
    run_view views[NTENSORS];
    DLTensor *there[NTENSORS];
    tilec_error error;
} launcher;

static bool copy_there(launcher *l)
{
    bool ok = true;
    for (int i = 0; ok && i < NTENSORS; i++)
        ok = !tilec_device_copy(run_device(),
                                run_view_of(&l->views[i], &l->p->t[i]),
                                &l->there[i], &l->error);
    return ok;
}

/* From 0 on, into *grad. */
static bool launch(launcher *l, num_tensor *grad)
{
    tilec_argument args[NTENSORS + 2];
    run_view view, zeros;
    DLTensor *sum;
    run_view_of(&view, grad);
    run_view_of(&zeros, grad);
    zeros.dl.data = NULL;
    if (tilec_device_copy(run_device(), &zeros.dl, &sum, &l->error))
        return false;
    for (int i = 0; i < NTENSORS; i++)
        args[i] = tilec_tensor(names[i], l->there[i]);
    args[NTENSORS] = tilec_float("scale", l->p->scale);
    args[NTENSORS + 1] = tilec_tensor("grad.score.table", sum);
    bool ok = !tilec_launch(l->k, args, NTENSORS + 2, NULL, &l->error) &&
              !tilec_kernel_synchronize(l->k, NULL, &l->error) &&
              !tilec_device_read(run_device(), sum, &view.dl, &l->error);
    tilec_device_drop(run_device(), sum);
    return ok;
}

/* Of all cells, by their norms. */
static double error_of(const problem *p, const num_tensor *grad)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < HEADS * CELLS; i++) {
        double d = num_read(NUM_F32, num_at(grad, i)) - p->want[i];
        off += d * d;
        all += p->want[i] * p->want[i];
    }
    return sqrt(off / all);
}

static void launch_again_and_again(const tilec_kernel *k, const problem *p,
                                   run_counts *counts)
{
    launcher l = {.k = k, .p = p};
    num_tensor grad =
        num_tensor_new(NUM_F32, 2, (int32_t[]){HEADS, CELLS}, NULL);
    bool ok = copy_there(&l);
    for (int i = 0; ok && i < LAUNCHES; i++) {
        ok = launch(&l, &grad);
        double e = ok ? error_of(p, &grad) : 0;
        run_check(counts, ok && e < 1e-3, "launch %d: error %g: %s", i, e,
                  ok ? "" : l.error.message);
    }
    run_check(counts, ok, "%s", l.error.message);
    for (int i = 0; i < NTENSORS; i++)
        tilec_device_drop(run_device(), l.there[i]);
    num_tensor_free(&grad);
}

int main(void)
{
    run_counts counts = {0};
    tilec_context *cx = run_context();
    if (!run_device()) {
        printf("skipped: TILEC_TEST_TARGET does not name a GPU's target\n");
        return 77;
    }
    tilec_kernel *k = compile(cx);
    tilec_error e = {0};
    if (run_check(&counts, k && !tilec_kernel_load(k, -1, &e),
                  "does not load: %s", e.message)) {
        problem *p = new_problem();
        launch_again_and_again(k, p, &counts);
        free_problem(p);
    }
    tilec_kernel_free(k);
    run_context_free(cx);
    return run_finish(&counts);
}
