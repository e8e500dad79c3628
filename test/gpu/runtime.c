/* SPDX-License-Identifier: Apache-2.0
 *
 * What only a device can show of the runtime: streams, graphs, captures,
 * reports of asserts, the caller's context, tensors that are not aligned.
 */
#include "test/numerics/run.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the driver what the library has no use for. */
static int (*stream_new)(void **stream, unsigned flags);
static int (*stream_free)(void *stream);
static int (*capture_begin)(void *stream, int mode);
static int (*capture_end)(void *stream, void **graph);
static int (*graph_make)(void **made, void *graph, unsigned long long flags);
static int (*graph_launch)(void *made, void *stream);
static int (*context_get)(void **context);
static int (*context_set)(void *context);
static int (*context_retain)(void **context, int device);

static bool find_functions(void)
{
    static const struct {
        const char *name;
        void *to;
    } functions[] = {{"cuStreamCreate", &stream_new},
                     {"cuStreamDestroy_v2", &stream_free},
                     {"cuStreamBeginCapture_v2", &capture_begin},
                     {"cuStreamEndCapture", &capture_end},
                     {"cuGraphInstantiateWithFlags", &graph_make},
                     {"cuGraphLaunch", &graph_launch},
                     {"cuCtxGetCurrent", &context_get},
                     {"cuCtxSetCurrent", &context_set},
                     {"cuDevicePrimaryCtxRetain", &context_retain}};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = driver ? dlsym(driver, functions[i].name) : NULL;
        if (!f)
            return false;
        memcpy(functions[i].to, &f, sizeof f);
    }
    return true;
}

static const char text[] =
    "kernel @add(%x: tensor<[?] x f32>, %by: f32, %most: i32)\n"
    "    grid(cdiv(size(%x, 0), 256)) {\n"
    "  %i = program_id(0) * 256\n"
    "  assert %i < %most, \"beyond the most\"\n"
    "  %v = load %x[%i +: 256] boundary(0)\n"
    "  store %x[%i +: 256], %v + %by boundary(0)\n"
    "}\n";

enum { N = 10000 };

typedef struct vector {
    DLTensor host, *there;
    int64_t shape[1];
    float data[N];
} vector;

static bool vector_new(vector *v, tilec_error *e)
{
    memset(v->data, 0, sizeof v->data);
    v->shape[0] = N;
    v->host = (DLTensor){.data = v->data,
                         .device = {kDLCPU, 0},
                         .ndim = 1,
                         .dtype = run_dtype(NUM_F32),
                         .shape = v->shape};
    return tilec_device_copy(run_device(), &v->host, &v->there, e) == TILEC_OK;
}

static tilec_status add(const tilec_kernel *k, const DLTensor *x, float by,
                        int most, void *stream, tilec_error *e)
{
    tilec_argument args[] = {tilec_tensor("x", x), tilec_float("by", by),
                             tilec_int("most", most)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.stream = stream;
    return tilec_launch(k, args, 3, &o, e);
}

/* Reads it back: are elements first to N all `value`, those before 0? */
static bool holds(vector *v, int first, float value)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_device_read(run_device(), v->there, &v->host, &e)) {
        printf("%s\n", e.message);
        return false;
    }
    for (int i = 0; i < N; i++)
        if (v->data[i] != (i < first ? 0 : value))
            return false;
    return true;
}

static void finish(vector *v)
{
    tilec_device_drop(run_device(), v->there);
}

static void test_streams(const tilec_kernel *k, void *stream,
                         run_counts *counts)
{
    static vector v;
    tilec_error e = {0};
    bool ok = vector_new(&v, &e) && !add(k, v.there, 1, N, stream, &e) &&
              !add(k, v.there, 2, N, stream, &e) &&
              !tilec_kernel_synchronize(k, stream, &e);
    run_check(counts, ok, "stream: %s", e.message);
    run_check(counts, holds(&v, 0, 3), "stream: another result");
    finish(&v);
}

static void test_graphs(const tilec_kernel *k, void *stream, run_counts *counts)
{
    static vector v;
    tilec_error e = {0};
    void *graph, *made;
    bool ok = vector_new(&v, &e) && !capture_begin(stream, 0) &&
              !add(k, v.there, 1, N, stream, &e) &&
              !add(k, v.there, 2, N, stream, &e) &&
              !capture_end(stream, &graph) && !graph_make(&made, graph, 0);
    run_check(counts, ok, "graph: capture: %s", e.message);
    run_check(counts, holds(&v, 0, 0), "graph: ran while it was captured");
    for (int i = 0; ok && i < 3; i++)
        ok = !graph_launch(made, stream);
    ok = ok && !tilec_kernel_synchronize(k, stream, &e);
    run_check(counts, ok, "graph: launch: %s", e.message);
    run_check(counts, holds(&v, 0, 9), "graph: another result");
    finish(&v);
}

static bool add_often(const tilec_kernel *k, vector *v, vector *w, int n,
                      void *stream, tilec_error *e)
{
    for (int i = 0; i < n; i++)
        if (add(k, i % 4 ? v->there : w->there, 1, N, stream, e))
            return false;
    return true;
}

/* Launches that the library makes graphs of, here and during a capture, and in
 * a capture, where it does not. */
static void test_rows(tilec_context *cx, void *stream, run_counts *counts)
{
    static vector v, w;
    tilec_error e = {0};
    void *other, *graph, *made;
    tilec_kernel *k = run_compile(cx, text, NULL);
    bool ok = k && vector_new(&v, &e) && vector_new(&w, &e) &&
              !stream_new(&other, 1) && !capture_begin(other, 0) &&
              add_often(k, &v, &w, 400, stream, &e) &&
              !capture_end(other, &graph);
    run_check(counts, ok, "rows: %s", e.message);
    ok = ok && !tilec_kernel_synchronize(k, stream, &e);
    run_check(counts, ok && holds(&v, 0, 300) && holds(&w, 0, 100),
              "rows: another result");
    ok = ok && !capture_begin(stream, 0) &&
         add_often(k, &v, &w, 40, stream, &e) && !capture_end(stream, &graph) &&
         !graph_make(&made, graph, 0) && !graph_launch(made, stream) &&
         add_often(k, &v, &w, 4, stream, &e) &&
         !tilec_kernel_synchronize(k, stream, &e) &&
         add_often(k, &v, &w, 40, NULL, &e) &&
         !tilec_kernel_synchronize(k, NULL, &e);
    run_check(counts, ok, "rows: captured: %s", e.message);
    run_check(counts, ok && holds(&v, 0, 363) && holds(&w, 0, 121),
              "rows: captured: another result");
    tilec_kernel_free(k);
    stream_free(other);
    finish(&v);
    finish(&w);
}

/* A capture of what is not loaded is refused, and goes on. */
static void test_unloaded_capture(tilec_context *cx, void *stream,
                                  run_counts *counts)
{
    static vector v;
    tilec_error e = {0};
    void *graph;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.no_load = o.no_cache = 1;
    tilec_kernel *k = run_compile(cx, text, &o);
    bool ok = k && vector_new(&v, &e) && !capture_begin(stream, 0);
    tilec_status s = ok ? add(k, v.there, 1, N, stream, &e) : TILEC_OK;
    run_check(counts, s == TILEC_USAGE && strstr(e.message, "captured"),
              "unloaded: %s", e.message);
    run_check(counts, ok && !capture_end(stream, &graph),
              "unloaded: the capture broke");
    run_check(counts, k && !tilec_kernel_load(k, -1, &e), "unloaded: %s",
              e.message);
    tilec_kernel_free(k);
    finish(&v);
}

static void test_asserts(const tilec_kernel *k, run_counts *counts)
{
    static vector v;
    tilec_error e = {0};
    bool ok = vector_new(&v, &e) && !add(k, v.there, 1, N - 500, NULL, &e);
    tilec_status s = tilec_kernel_synchronize(k, NULL, &e);
    run_check(counts, ok && s == TILEC_INPUT, "assert: status %d: %s", (int)s,
              e.message);
    run_check(counts, strstr(e.message, "beyond the most") && e.line == 4,
              "assert: line %u: %s", e.line, e.message);
    run_check(counts, e.program[0] * 256 >= N - 500, "assert: in program %d",
              e.program[0]);
    run_check(counts, !tilec_kernel_synchronize(k, NULL, &e),
              "assert: reported twice");
    finish(&v);
}

/* From the element at `first` on, one element of 4 bytes after another. */
static void test_alignment(const tilec_kernel *k, run_counts *counts)
{
    for (int first = 0; first < 6; first++) {
        static vector v;
        tilec_error e = {0};
        int64_t shape[] = {N - first};
        bool ok = vector_new(&v, &e);
        DLTensor part = *v.there;
        part.shape = shape;
        part.data = (float *)part.data + first;
        ok = ok && !add(k, &part, 5, N, NULL, &e) &&
             !tilec_kernel_synchronize(k, NULL, &e);
        run_check(counts, ok, "from element %d: %s", first, e.message);
        run_check(counts, holds(&v, first, 5), "from element %d: result",
                  first);
        finish(&v);
    }
}

static void test_memory(const tilec_kernel *k, run_counts *counts)
{
    static vector v;
    tilec_error e = {0};
    int64_t shape[] = {1 << 30};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.check_memory = 1;
    bool ok = vector_new(&v, &e);
    DLTensor beyond = *v.there;
    beyond.shape = shape;
    tilec_argument args[] = {tilec_tensor("x", &beyond), tilec_float("by", 1),
                             tilec_int("most", N)};
    tilec_status s = tilec_launch(k, args, 3, &o, &e);
    run_check(counts, ok && s == TILEC_INPUT && strstr(e.message, "argument x"),
              "memory: %s", e.message);
    beyond.data = v.data;
    s = tilec_launch(k, args, 3, &o, &e);
    run_check(counts, s == TILEC_INPUT && strstr(e.message, "argument x"),
              "memory of the host: %s", e.message);
    finish(&v);
}

static void test_contexts(const tilec_kernel *k, run_counts *counts)
{
    static vector v;
    tilec_error e = {0};
    void *before, *primary, *after;
    context_get(&before);
    bool ok = vector_new(&v, &e) && !add(k, v.there, 1, N, NULL, &e);
    context_get(&after);
    run_check(counts, ok && before == after, "context: another one: %s",
              e.message);
    ok = !context_retain(&primary, 0) && !context_set(primary) &&
         !add(k, v.there, 1, N, NULL, &e);
    context_get(&after);
    run_check(counts, ok && after == primary, "context: not the primary one");
    context_set(before);
    ok = !tilec_kernel_synchronize(k, NULL, &e);
    run_check(counts, ok && holds(&v, 0, 2), "context: result: %s", e.message);
    finish(&v);
}

struct thread {
    const tilec_kernel *k;
    vector v;
    bool ok;
};

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    tilec_error e = TILEC_INIT(tilec_error);
    t->ok = vector_new(&t->v, &e);
    for (int i = 0; t->ok && i < 100; i++)
        t->ok = !add(t->k, t->v.there, 1, N, NULL, &e);
    t->ok = t->ok && !tilec_kernel_synchronize(t->k, NULL, &e) &&
            holds(&t->v, 0, 100);
    return NULL;
}

static void test_threads(const tilec_kernel *k, run_counts *counts)
{
    enum { THREADS = 4 };
    static struct thread threads[THREADS];
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i].k = k;
        pthread_create(&ids[i], NULL, run_thread, &threads[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        run_check(counts, threads[i].ok, "thread %d", i);
        finish(&threads[i].v);
    }
}

int main(void)
{
    run_counts counts = {0};
    tilec_context *cx = run_context();
    if (!run_device()) {
        printf("skipped: TILEC_TEST_TARGET does not name a GPU's target\n");
        return 77;
    }
    tilec_kernel *k = run_compile(cx, text, NULL);
    void *stream = NULL, *primary = NULL;
    tilec_error e = {0};
    bool ok = run_check(&counts, find_functions(), "the driver is too old") &&
              run_check(&counts, k && !tilec_kernel_load(k, -1, &e),
                        "does not load: %s", e.message);
    if (ok) {
        test_contexts(k, &counts);
        context_retain(&primary, 0);
        context_set(primary);
        ok = run_check(&counts, !stream_new(&stream, 1), "no stream");
    }
    if (ok) {
        test_streams(k, stream, &counts);
        test_graphs(k, stream, &counts);
        test_rows(cx, stream, &counts);
        test_unloaded_capture(cx, stream, &counts);
        test_asserts(k, &counts);
        test_alignment(k, &counts);
        test_memory(k, &counts);
        test_threads(k, &counts);
        stream_free(stream);
    }
    tilec_kernel_free(k);
    run_context_free(cx);
    return run_finish(&counts);
}
