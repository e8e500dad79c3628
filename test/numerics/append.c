/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/append.tile: new rows in a cache of any layout, rotated and rounded,
 * against their definition; all other rows of the cache keep their bits.
 *
 *   numerics_append [--seed N] [--cases N]
 */
#include "test/numerics/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    num_type from, to;
    int d, dv; /* dv 0: no values */
    int r, r0; /* columns that are rotated, the first of them */
    bool interleaved, ragged, positions;
    int paged, page; /* as PAGED, 0: contiguous; slots of a page */
    int hq, hk;      /* hq 0: no queries */
    int scales;      /* as SCALES */
} problem;

static const problem problems[] = {
    {NUM_BF16, NUM_BF16, 128, 128, 128, 0, 0, 1, 0, 1, 16, 4, 2, 0},
    {NUM_BF16, NUM_BF16, 128, 128, 128, 0, 1, 0, 0, 0, 0, 4, 2, 0},
    {NUM_F16, NUM_F16, 64, 64, 16, 0, 0, 0, 1, 1, 8, 2, 1, 0},
    {NUM_F16, NUM_F16, 96, 96, 24, 0, 0, 1, 0, 1, 1, 2, 1, 0},
    {NUM_F32, NUM_F32, 80, 72, 20, 0, 1, 0, 0, 1, 5, 3, 3, 0},
    {NUM_BF16, NUM_BF16, 576, 0, 64, 512, 1, 1, 0, 1, 64, 2, 1, 0},
    {NUM_BF16, NUM_F8E4M3, 128, 64, 64, 0, 0, 1, 1, 2, 16, 4, 2, 2},
    {NUM_F16, NUM_F8E5M2, 64, 64, 64, 0, 1, 0, 0, 0, 0, 0, 2, 1},
    {NUM_F32, NUM_F8E4M3, 64, 128, 0, 0, 0, 1, 0, 2, 3, 0, 2, 2},
    {NUM_BF16, NUM_F8E4M3, 40, 40, 40, 0, 0, 0, 0, 1, 1024, 0, 1, 1},
    {NUM_F16, NUM_F16, 64, 64, 8, 20, 1, 0, 0, 0, 0, 2, 1, 0},
};
enum { NPROBLEMS = sizeof problems / sizeof *problems };
enum { SEQS = 3, MOST_NEW = 20, MOST_HAD = 40, TABLE = 128 };

/* The plan's arguments, in their order. */
enum {
    Q,
    QR,
    K,
    V,
    K_CACHE,
    V_CACHE,
    KV_LENS,
    CU_SEQLENS,
    PAGE_TABLE,
    KV_INDPTR,
    POSITIONS,
    COS,
    SIN,
    K_SCALES,
    V_SCALES,
    NARGS
};
static const char *const names[NARGS] = {
    "q",         "qr",      "k",          "v",          "k_cache",
    "v_cache",   "kv_lens", "cu_seqlens", "page_table", "kv_indptr",
    "positions", "cos",     "sin",        "k_scales",   "v_scales"};

typedef struct batch {
    const problem *p;
    int had[SEQS], have[SEQS]; /* rows before; new ones */
    int rows, pages;
    num_tensor t[NARGS];
    double *before[NARGS]; /* of the caches and their factors */
} batch;

/* ---- Tensors ---- */

/* Rows of a batch next to heads, as serving engines have them, with elements of
 * others around. */
static const num_layout by_rows = {"rows", {0, 2, 1, 3}, {0}, {0, 0, 1, 8}};

static num_tensor floats(num_rng *r, num_type t, int rank, const int32_t *size,
                         bool plain)
{
    num_tensor x =
        num_tensor_new(t, rank, size, rank == 4 && !plain ? &by_rows : NULL);
    for (int64_t i = 0; i < num_count(&x); i++)
        num_write(t, num_at(&x, i), num_normal(r));
    return x;
}

static num_tensor ints(int rank, const int32_t *size, int value)
{
    num_tensor x = num_tensor_new(NUM_I32, rank, size, NULL);
    for (int64_t i = 0; i < num_count(&x); i++)
        num_write(NUM_I32, num_at(&x, i), value);
    return x;
}

static void set(const num_tensor *t, int64_t i, double x)
{
    num_write(t->type, num_at(t, i), x);
}

static int get(const num_tensor *t, int64_t i)
{
    return (int)num_read(t->type, num_at(t, i));
}

static int pages_of(const batch *b, int i)
{
    return (b->had[i] + b->have[i] + b->p->page - 1) / b->p->page;
}

/* The pages of the sequences in a pool, in any order; unused entries of the
 * table hold what no pool has. */
static void make_pages(batch *b, num_rng *r)
{
    int total = 0, most = 1, order[256];
    for (int i = 0; i < SEQS; i++) {
        total += pages_of(b, i);
        most = pages_of(b, i) > most ? pages_of(b, i) : most;
    }
    b->pages = total + 2;
    for (int i = 0; i < b->pages; i++) {
        int j = num_below(r, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    bool lists = b->p->paged == 2;
    int32_t size[] = {lists ? 1 : SEQS, lists ? total + 3 : most + 1};
    b->t[PAGE_TABLE] = ints(2, size, 2147480000);
    b->t[KV_INDPTR] = ints(1, (int32_t[]){SEQS + 1}, 0);
    for (int i = 0, at = 0; i < SEQS; i++) {
        for (int j = 0; j < pages_of(b, i); j++)
            set(&b->t[PAGE_TABLE], lists ? at + j : i * size[1] + j,
                order[at + j]);
        at += pages_of(b, i);
        set(&b->t[KV_INDPTR], i + 1, at);
    }
}

static void make_cache(batch *b, num_rng *r)
{
    const problem *p = b->p;
    int32_t size[] = {SEQS + 1, p->hk, MOST_HAD + MOST_NEW + 3, p->d};
    b->t[PAGE_TABLE] = ints(2, (int32_t[]){1, 1}, 0);
    b->t[KV_INDPTR] = ints(1, (int32_t[]){1}, 0);
    if (p->paged) {
        num_tensor_free(&b->t[PAGE_TABLE]);
        num_tensor_free(&b->t[KV_INDPTR]);
        make_pages(b, r);
        size[0] = b->pages;
        size[2] = p->page;
    }
    int32_t one[] = {1, num_below(r, 2) ? p->hk : 1, 1};
    for (int i = 0; i < 2; i++) {
        size[3] = i && p->dv ? p->dv : p->d;
        b->t[K_CACHE + i] = floats(r, p->to, 4, size, false);
        b->t[K_SCALES + i] =
            floats(r, NUM_F32, 3, p->scales == 2 ? size : one, true);
        for (int64_t j = 0; p->scales == 1 && j < one[1]; j++)
            set(&b->t[K_SCALES + i], j, 0.25 + num_uniform(r));
    }
}

static void make_tables(batch *b, num_rng *r)
{
    int pairs = b->p->r / 2;
    int32_t size[] = {TABLE, pairs ? pairs : 1};
    b->t[COS] = num_tensor_new(NUM_F32, 2, size, NULL);
    b->t[SIN] = num_tensor_new(NUM_F32, 2, size, NULL);
    for (int64_t i = 0; i < num_count(&b->t[COS]); i++) {
        double angle = 6.3 * num_uniform(r);
        set(&b->t[COS], i, cos(angle));
        set(&b->t[SIN], i, sin(angle));
    }
}

static batch make_batch(const problem *p, num_rng *r)
{
    batch b = {.p = p};
    int even = num_between(r, 1, MOST_NEW);
    b.t[KV_LENS] = ints(1, (int32_t[]){SEQS}, 0);
    b.t[CU_SEQLENS] = ints(1, (int32_t[]){SEQS + 1}, 0);
    for (int i = 0; i < SEQS; i++) {
        b.had[i] = num_below(r, 3) ? num_below(r, MOST_HAD) : 0;
        b.have[i] = p->ragged ? num_below(r, MOST_NEW + 1) : even;
        set(&b.t[KV_LENS], i, b.had[i]);
        b.rows += b.have[i];
        set(&b.t[CU_SEQLENS], i + 1, b.rows);
    }
    /* Rows of no sequence come last. */
    int32_t size[] = {p->ragged ? 1 : SEQS, p->hk,
                      p->ragged ? b.rows + num_below(r, 3) : even, p->d};
    size[2] = size[2] ? size[2] : 1;
    b.t[K] = floats(r, p->from, 4, size, false);
    int32_t positions[] = {size[0], size[2]};
    b.t[POSITIONS] = ints(2, positions, 0);
    for (int64_t i = 0; i < num_count(&b.t[POSITIONS]); i++)
        set(&b.t[POSITIONS], i, num_below(r, TABLE));
    size[1] = p->hq ? p->hq : 1;
    b.t[Q] = floats(r, p->from, 4, size, false);
    b.t[QR] = floats(r, p->from, 4, size, false);
    size[1] = p->hk;
    size[3] = p->dv ? p->dv : p->d;
    b.t[V] = floats(r, p->from, 4, size, false);
    make_cache(&b, r);
    make_tables(&b, r);
    for (int i = 0; i < NARGS; i++)
        b.before[i] = num_tensor_read(&b.t[i]);
    return b;
}

static void free_batch(batch *b)
{
    for (int i = 0; i < NARGS; i++) {
        num_tensor_free(&b->t[i]);
        free(b->before[i]);
    }
}

/* ---- What is right ---- */

/* Row-major index of row n of head h of entry z. */
static int64_t row_index(const num_tensor *t, int z, int h, int n)
{
    return ((int64_t)z * t->size[1] + h) * t->size[2] + n;
}

/* The entry and row of new row i of sequence s in q, k and v. */
static void place_of(const batch *b, int s, int i, int *z, int *n)
{
    *z = b->p->ragged ? 0 : s;
    *n = b->p->ragged ? get(&b->t[CU_SEQLENS], s) + i : i;
}

static void rotate(const batch *b, int at, const double *x, double *out)
{
    const problem *p = b->p;
    int pairs = p->r / 2;
    memcpy(out, x, (size_t)p->d * sizeof *x);
    for (int j = 0; j < pairs; j++) {
        int i = p->r0 + (p->interleaved ? 2 * j : j);
        int k = p->interleaved ? i + 1 : i + pairs;
        double c = b->before[COS][at * pairs + j];
        double s = b->before[SIN][at * pairs + j];
        out[i] = x[i] * c - x[k] * s;
        out[k] = x[k] * c + x[i] * s;
    }
}

static double half_step(num_type t, double x)
{
    x = fabs(x);
    return t == NUM_F8E4M3   ? fmax(x * 0x1p-4, 0x1p-10)
           : t == NUM_F8E5M2 ? fmax(x * 0x1p-3, 0x1p-17)
           : t == NUM_F32    ? x * 1e-6
                             : fmax(x * num_half_step(t) * 1.001, 1e-7);
}

/* Row `row` of y is that, divided by `factor`. */
static void is_row(const num_tensor *y, int64_t row, const double *want,
                   double factor, const char *name, char why[128])
{
    int d = y->size[3];
    for (int i = 0; i < d; i++) {
        double got = num_read(y->type, num_at(y, row * d + i));
        double right = want[i] / factor;
        if (!(fabs(got - right) <= half_step(y->type, right) + 2e-6))
            snprintf(why, 128, "row %d of %s, column %d is %g, should be %g",
                     (int)row, name, i, got, right);
    }
}

/* Puts back what the row was, so that all rows can be compared. */
static void undo_row(const num_tensor *y, const double *before, int64_t row,
                     int d)
{
    for (int i = 0; i < d; i++)
        set(y, row * d + i, before[row * d + i]);
}

static void check_cached(batch *b, int which, int64_t row, int h,
                         const double *want, char why[128])
{
    const problem *p = b->p;
    const num_tensor *y = &b->t[K_CACHE + which];
    const num_tensor *scales = &b->t[K_SCALES + which];
    double factor = 1, most = 0;
    if (p->scales == 1)
        factor = num_read(NUM_F32, num_at(scales, scales->size[1] > 1 ? h : 0));
    if (p->scales == 2) {
        for (int i = 0; i < y->size[3]; i++)
            most = fmax(most, fabs(want[i]));
        factor = num_read(NUM_F32, num_at(scales, row));
        double right = most / num_round(p->to, 1e9);
        if (!(fabs(factor - right) <= 2e-6 * right))
            snprintf(why, 128, "factor of row %d is %g, should be %g", (int)row,
                     factor, right);
        undo_row(scales, b->before[K_SCALES + which], row, 1);
    }
    is_row(y, row, want, factor, which ? "v_cache" : "k_cache", why);
    undo_row(y, b->before[K_CACHE + which], row, y->size[3]);
}

static void check_row(batch *b, int s, int i, char why[128])
{
    const problem *p = b->p;
    double turned[1024];
    int z, n, position = b->had[s] + i, page = s, slot = position;
    place_of(b, s, i, &z, &n);
    if (p->paged) {
        int entry = position / p->page;
        entry += p->paged == 2 ? get(&b->t[KV_INDPTR], s)
                               : s * b->t[PAGE_TABLE].size[1];
        page = get(&b->t[PAGE_TABLE], entry);
        slot = position % p->page;
    }
    int at = p->positions
                 ? get(&b->t[POSITIONS], z * b->t[POSITIONS].size[1] + n)
                 : position;
    for (int h = 0; h < p->hq; h++) {
        int64_t row = row_index(&b->t[Q], z, h, n);
        rotate(b, at, b->before[Q] + row * p->d, turned);
        is_row(&b->t[QR], row, turned, 1, "qr", why);
    }
    for (int h = 0; h < p->hk; h++) {
        int64_t from = row_index(&b->t[K], z, h, n);
        int64_t to = row_index(&b->t[K_CACHE], page, h, slot);
        rotate(b, at, b->before[K] + from * p->d, turned);
        check_cached(b, 0, to, h, turned, why);
        if (p->dv)
            check_cached(b, 1, to, h, b->before[V] + from * p->dv, why);
    }
}

static void compare(batch *b, char why[128])
{
    for (int s = 0; s < SEQS; s++)
        for (int i = 0; i < b->have[s]; i++)
            check_row(b, s, i, why);
    for (int i = 0; i < NARGS; i++) {
        if (i == QR && b->p->hq)
            continue;
        double *now = num_tensor_read(&b->t[i]);
        if (memcmp(now, b->before[i], (size_t)num_count(&b->t[i]) * 8) != 0)
            snprintf(why, 128, "%s has other rows changed", names[i]);
        free(now);
    }
    for (int i = 0; i < NARGS; i++)
        if (!num_tensor_intact(&b->t[i]))
            snprintf(why, 128, "wrote outside of %s", names[i]);
}

/* ---- Running ---- */

static tilec_kernel *compile(tilec_context *cx, const problem *p)
{
    const struct {
        const char *name;
        int value;
    } numbers[] = {{"D", p->d},
                   {"DV", p->dv ? p->dv : p->d},
                   {"R", p->r},
                   {"R0", p->r0},
                   {"INTERLEAVED", p->interleaved},
                   {"RAGGED", p->ragged},
                   {"PAGED", p->paged},
                   {"QUERIES", p->hq > 0},
                   {"VALUES", p->dv > 0},
                   {"POSITIONS", p->positions},
                   {"SCALES", p->scales}};
    enum { N = sizeof numbers / sizeof *numbers };
    tilec_binding b[N + 2] = {{"T", num_name(p->from)},
                              {"TC", num_name(p->to)}};
    char text[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "%d", numbers[i].value);
        b[2 + i] = (tilec_binding){numbers[i].name, text[i]};
    }
    return run_compile_bound(cx, "append", "append", b, N + 2);
}

static bool launch(const tilec_kernel *k, const batch *b, tilec_error *error)
{
    run_view views[NARGS];
    tilec_argument args[NARGS];
    for (int i = 0; i < NARGS; i++)
        args[i] = tilec_tensor(names[i], run_view_of(&views[i], &b->t[i]));
    return run_launch(k, args, NARGS, NULL, error) == TILEC_OK;
}

static void run_problem(tilec_context *cx, int which, num_rng *r, int cases,
                        run_counts *counts)
{
    const problem *p = &problems[which];
    tilec_kernel *k = compile(cx, p);
    if (!run_check(counts, k, "problem %d: does not compile", which))
        return;
    for (int i = 0; i < cases; i++) {
        batch b = make_batch(p, r);
        tilec_error error = {0};
        char why[128] = "";
        bool ok = launch(k, &b, &error);
        if (ok)
            compare(&b, why);
        run_check(counts, ok && !*why, "problem %d, case %d: %s%s", which, i,
                  error.message, why);
        free_batch(&b);
    }
    tilec_kernel_free(k);
}

/* Rows without a place: pages that the pool does not have, positions beyond the
 * table, lengths below 0. */
static void run_nowhere(tilec_context *cx, num_rng *r, run_counts *counts)
{
    const problem *p = &problems[0];
    tilec_kernel *k = compile(cx, p);
    batch b = make_batch(p, r);
    tilec_error error = {0};
    char why[128] = "";
    for (int64_t i = 0; i < num_count(&b.t[PAGE_TABLE]); i++)
        if (get(&b.t[PAGE_TABLE], i) < b.pages)
            set(&b.t[PAGE_TABLE], i, i % 2 ? -1 - (int)i : b.pages + (int)i);
    for (int i = 0; i < SEQS; i++) {
        if (i > 0)
            set(&b.t[KV_LENS], i, i == 1 ? 2147483000 : -50);
        b.have[i] = 0;
    }
    for (int i = 0; i < NARGS; i++) {
        free(b.before[i]);
        b.before[i] = num_tensor_read(&b.t[i]);
    }
    bool ok = k && launch(k, &b, &error);
    if (ok)
        compare(&b, why);
    run_check(counts, ok && !*why, "rows without a place: %s%s", error.message,
              why);
    free_batch(&b);
    tilec_kernel_free(k);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    num_rng r = {(uint64_t)run_option(argc, argv, "seed", 21)};
    int cases = (int)run_option(argc, argv, "cases", 6);
    tilec_context *cx = run_context();
    for (int i = 0; i < NPROBLEMS; i++)
        run_problem(cx, i, &r, cases, &counts);
    run_nowhere(cx, &r, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
