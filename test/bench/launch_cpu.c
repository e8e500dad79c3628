/* SPDX-License-Identifier: Apache-2.0
 *
 *   bench_launch_cpu [--launches N] [--threads N]
 *
 * Host time of small launches on the CPU, medians of batches: a kernel whose
 * programs do next to nothing, on grids of 1 to 64 programs, in the calling
 * thread and on --threads (0: one a core); one token of attention (decoding) on
 * 128 keys, 8 heads; and the time from a context to the first result of
 * attention, compiled and, where CPU code is kept, found in the cache.
 */
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] =
    "kernel @small(%x: tensor<[?, 64] x f32>, %y: tensor<[?, 64] x f32>,\n"
    "    %by: f32) grid(size(%x, 0))\n"
    "{\n"
    "  %r = program_id(0)\n"
    "  %a = load %x[%r +: 1, 0 +: 64]\n"
    "  store %y[%r +: 1, 0 +: 64], %a * %by\n"
    "}\n";

enum { MOST_PROGRAMS = 64, BATCH = 50 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef bool once_fn(void *user);

/* Microseconds of a call; below 0: one failed. */
static double median(once_fn *once, void *user, int launches)
{
    int n = launches / BATCH + 1;
    double *times = calloc((size_t)n, sizeof *times), us = -1;
    bool ok = times != NULL;
    for (int i = 0; ok && i < n; i++) {
        double start = run_seconds();
        for (int j = 0; ok && j < BATCH; j++)
            ok = once(user);
        times[i] = 1e6 * (run_seconds() - start) / BATCH;
    }
    if (ok) {
        qsort(times, (size_t)n, sizeof *times, by_value);
        us = times[n / 2];
    }
    free(times);
    return us;
}

/* ---- A small kernel ---- */

struct small {
    const tilec_kernel *k;
    const tilec_argument *args;
    tilec_launch_options options;
};

static bool launch_small(void *user)
{
    struct small *s = user;
    tilec_error e = TILEC_INIT(tilec_error);
    return tilec_launch(s->k, s->args, 3, &s->options, &e) == TILEC_OK;
}

static void time_small(tilec_context *cx, int launches, int threads)
{
    static float x[MOST_PROGRAMS * 64], y[MOST_PROGRAMS * 64];
    int64_t shape[2] = {1, 64};
    DLTensor tx = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
    DLTensor ty = tx;
    ty.data = y;
    tilec_argument args[] = {tilec_tensor(NULL, &tx), tilec_tensor(NULL, &ty),
                             tilec_float(NULL, 2)};
    tilec_compile_options c = TILEC_INIT(tilec_compile_options);
    c.target = "cpu";
    struct small s = {run_compile(cx, text, &c), args,
                      TILEC_INIT(tilec_launch_options)};
    for (int64_t n = 1; s.k && n <= MOST_PROGRAMS; n *= 4) {
        double us[2];
        shape[0] = n;
        for (int i = 0; i < 2; i++) {
            s.options.threads = i ? threads : 1;
            us[i] = median(launch_small, &s, launches);
        }
        printf("%2d programs: %8.2f us in the calling thread, %8.2f us on "
               "threads\n",
               (int)n, us[0], us[1]);
    }
    tilec_kernel_free((tilec_kernel *)(uintptr_t)s.k);
}

/* ---- Attention ---- */

enum { HEADS = 8, KEYS = 128, DIM = 64 };

struct decoding {
    tilec_context *cx;
    tilec_attention *plan;
    tilec_attention_tensors t;
    tilec_launch_options options;
};

static bool attend(void *user)
{
    struct decoding *d = user;
    tilec_error e = TILEC_INIT(tilec_error);
    return tilec_attention_forward(d->plan, &d->t, &d->options, &e) == TILEC_OK;
}

/* Milliseconds from nothing to a result, with that cache folder. */
static double first_call(struct decoding *d, const char *folder)
{
    double start = run_seconds();
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.target = "cpu";
    o.cache_folder = folder;
    if (tilec_context_new(&o, &d->cx) ||
        tilec_attention_plan(d->cx, d->t.q, d->t.k, d->t.v, NULL, &d->plan) ||
        !attend(d))
        return -1;
    return 1e3 * (run_seconds() - start);
}

static void end_call(struct decoding *d)
{
    tilec_attention_free(d->plan);
    tilec_context_free(d->cx);
}

/* The first one starts LLVM, and does not count. */
static void time_first(struct decoding *d, const char *folder)
{
    double ms[4];
    for (int i = 0; i < 4; i++) {
        ms[i] = first_call(d, i < 2 ? "" : folder);
        end_call(d);
    }
    printf("first call of attention: %.1f ms compiled, %.1f ms the second time "
           "with a cache\n",
           ms[1], ms[3]);
}

static void time_attention(int launches, int threads)
{
    static float q[HEADS * DIM], o[HEADS * DIM], lse[HEADS],
        k[HEADS * KEYS * DIM], v[HEADS * KEYS * DIM];
    int64_t one[4] = {1, HEADS, 1, DIM}, keys[4] = {1, HEADS, KEYS, DIM};
    DLTensor tq = {q, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, one, NULL, 0};
    DLTensor tk = tq, tv = tq, to = tq, tl = tq;
    tk.data = k;
    tv.data = v;
    to.data = o;
    tl.data = lse;
    tk.shape = tv.shape = keys;
    tl.ndim = 3;
    struct decoding d = {.t = TILEC_INIT(tilec_attention_tensors),
                         .options = TILEC_INIT(tilec_launch_options)};
    d.t.q = &tq, d.t.k = &tk, d.t.v = &tv, d.t.o = &to, d.t.lse = &tl;
    char folder[] = "/tmp/tilec-bench-XXXXXX";
    if (!mkdtemp(folder))
        return;
    time_first(&d, folder);
    if (first_call(&d, folder) < 0)
        return;
    double us[2];
    for (int i = 0; i < 2; i++) {
        d.options.threads = i ? threads : 1;
        us[i] = median(attend, &d, launches);
    }
    tilec_error e = TILEC_INIT(tilec_error);
    tilec_cache_clear(d.cx, NULL, &e);
    end_call(&d);
    remove(folder);
    printf("a token, %d heads, %d keys: %.2f us in the calling thread, %.2f us "
           "on threads\n",
           HEADS, KEYS, us[0], us[1]);
}

int main(int argc, char **argv)
{
    int launches = (int)run_option(argc, argv, "launches", 5000);
    int threads = (int)run_option(argc, argv, "threads", 0);
    tilec_context *cx;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.target = "cpu";
    o.cache_folder = "";
    if (tilec_context_new(&o, &cx))
        return 3;
    time_small(cx, launches, threads);
    tilec_context_free(cx);
    time_attention(launches, threads);
    return 0;
}
