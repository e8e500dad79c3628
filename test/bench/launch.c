/* SPDX-License-Identifier: Apache-2.0
 *
 *   bench_launch [--library FILE] [--launches N] [--maps 1] [--graphs 0]
 *
 * Host time of a launch on a GPU: a kernel that does next to nothing, with the
 * seven arguments of attention (five tensors of rank 3 and 4, two numbers),
 * from a thread in which the device's context is current, as host frameworks
 * have it; and what the driver takes for a kernel with as many bytes of
 * arguments. Both in the default stream, for which the driver does more, and in
 * one of the caller's.
 * They are launches in a row, which become launches of a graph
 * (lib/gpu/gpu_graph.c); with --graphs 0 they do not.
 * --library: a driver other than libcuda.so.1, such as the one of the tests,
 * which leaves tilec's own share of the time. --maps: the kernel takes tensor
 * maps of four tensors, and a counter of tiles (compute capability 9.0).
 */
#include "test/numerics/run.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] =
    "kernel @seven(%q: tensor<[?, ?, ?, 64] x bf16>,\n"
    "    %k: tensor<[?, ?, ?, 64] x bf16>, %v: tensor<[?, ?, ?, 64] x bf16>,\n"
    "    %o: tensor<[?, ?, ?, 64] x bf16>, %lse: tensor<[?, ?, ?] x f32>,\n"
    "    %scale: f32, %n: i32)\n"
    "    grid {\n"
    "      assert size(%k, 2) == size(%v, 2), \"k and v differ\"\n"
    "      assert size(%q, 2) == size(%o, 2), \"q and o differ\"\n"
    "      yield cdiv(size(%q, 2), 64), size(%q, 1), size(%q, 0)\n"
    "    }\n"
    "{\n"
    "  store %lse[0, 0, 0 +: 16], splat(%scale, tile<16 x f32>) boundary(0)\n"
    "}\n";

/* At machine level. */
static const char mapped_text[] =
    "kernel @seven(%q: tensor<[?, ?, ?, 64] x bf16>,\n"
    "    %k: tensor<[?, ?, ?, 64] x bf16>, %v: tensor<[?, ?, ?, 64] x bf16>,\n"
    "    %o: tensor<[?, ?, ?, 64] x bf16>, %lse: tensor<[?, ?, ?] x f32>,\n"
    "    %scale: f32, %n: i32)\n"
    "    aligned(0, 1, 2, 3) warps(4) shared(8200)\n"
    "    grid {\n"
    "      assert size(%k, 2) == size(%v, 2), \"k and v differ\"\n"
    "      assert size(%q, 2) == size(%o, 2), \"q and o differ\"\n"
    "      %sms = num_sms\n"
    "      yield min(cdiv(size(%q, 2), 64), %sms)\n"
    "    }\n"
    "{\n"
    "  %s = smem_alloc offset(0) : smem<64x64 x bf16, #swizzle128>\n"
    "  %full = mbarrier_alloc arrivals(1) offset(8192) : mbarrier<1>\n"
    "  barrier\n"
    "  warp_groups registers(24, 240) producer {\n"
    "    mbarrier_arrive %full, 0 bytes(24576)\n"
    "    tma_load block %q[0, 0, 0 +: 64, 0 +: 64], %s, %full, 0\n"
    "    tma_load block %k[0, 0, 0 +: 64, 0 +: 64], %s, %full, 0\n"
    "    tma_load block %v[0, 0, 0 +: 64, 0 +: 64], %s, %full, 0\n"
    "    %t = next_tile num_programs(0)\n"
    "    end_tiles\n"
    "  } consumer {\n"
    "    mbarrier_wait %full, 0, 0\n"
    "    tma_store block %o[0, 0, 0 +: 64, 0 +: 64], %s\n"
    "    tma_store_wait pending(0)\n"
    "  }\n"
    "}\n";

enum { TENSORS = 5, BATCH = 200 };

/* ---- The driver ---- */

/* Four tensors of rank 4, one of rank 3, two numbers. */
enum { ARGUMENT_BYTES = 4 * (8 + 4 * 4 + 4 * 8) + 8 + 4 * 4 + 3 * 8 + 2 * 4 };

static const char empty_text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry empty(.param .align 8 .b8 arguments[280])\n{\nret;\n}\n";
_Static_assert(ARGUMENT_BYTES == 280, "as empty_text has them");

static int (*device_get)(int *device, int ordinal);
static int (*context_retain)(void **context, int device);
static int (*context_push)(void *context);
static int (*module_load)(void **module, const void *image, unsigned n,
                          int *options, void **values);
static int (*module_function)(void **function, void *module, const char *name);
static int (*stream_new)(void **stream, unsigned flags);
static int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz,
                     unsigned bx, unsigned by, unsigned bz, unsigned shared,
                     void *stream, void **arguments, void **extra);

static bool find_functions(const char *library)
{
    static const struct {
        const char *name;
        void *to;
    } functions[] = {{"cuDeviceGet", &device_get},
                     {"cuDevicePrimaryCtxRetain", &context_retain},
                     {"cuCtxPushCurrent_v2", &context_push},
                     {"cuModuleLoadDataEx", &module_load},
                     {"cuModuleGetFunction", &module_function},
                     {"cuStreamCreate", &stream_new},
                     {"cuLaunchKernel", &launch}};
    void *driver = dlopen(library ? library : "libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = driver ? dlsym(driver, functions[i].name) : NULL;
        if (!f)
            return false;
        memcpy(functions[i].to, &f, sizeof f);
    }
    return true;
}

static bool make_current(const char *library)
{
    int device;
    void *context;
    return find_functions(library) && !device_get(&device, 0) &&
           !context_retain(&context, device) && !context_push(context);
}

/* ---- Times ---- */

/* What is launched: a kernel of tilec's, or the driver's empty one. */
enum { CONTENDERS = 4 };

typedef struct launched {
    const tilec_kernel *k;
    const tilec_argument *args;
    void *function;
    void *stream;
} launched;

static bool launch_once(const launched *l, tilec_error *e)
{
    static unsigned char bytes[ARGUMENT_BYTES];
    size_t size = sizeof bytes;
    /* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END */
    void *extra[] = {(void *)1, bytes, (void *)2, &size, NULL};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.stream = l->stream;
    if (l->k)
        return tilec_launch(l->k, l->args, 7, &o, e) == TILEC_OK;
    return !launch(l->function, 1, 2, 1, 128, 1, 1, 0, l->stream, NULL, extra);
}

static int fail(const tilec_error *e)
{
    printf("skipped: %s\n", e->message);
    return 77;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of a launch, of one batch; below 0: *e says why. */
static double time_batch(const launched *l, const tilec_device *d,
                         tilec_error *e)
{
    double start = run_seconds();
    for (int j = 0; j < BATCH; j++)
        if (!launch_once(l, e))
            return -1;
    double us = 1e6 * (run_seconds() - start) / BATCH;
    /* A full queue would make the driver wait. */
    return tilec_device_synchronize(d, e) ? -1 : us;
}

/* Medians over batches of each, which take turns; the first quarter, while
 * processor and driver get going, does not count. */
static bool measure(const launched *l, int n, const tilec_device *d,
                    int launches, double *medians, tilec_error *e)
{
    int nbatches = launches / BATCH, first = nbatches / 4;
    double *times[CONTENDERS] = {0};
    bool ok = true;
    for (int k = 0; k < n; k++)
        ok &= (times[k] = calloc((size_t)nbatches + 1, sizeof **times)) != NULL;
    for (int i = 0; ok && i < nbatches; i++)
        for (int k = 0; ok && k < n; k++)
            ok = (times[k][i] = time_batch(&l[k], d, e)) >= 0;
    for (int k = 0; ok && k < n; k++) {
        size_t count = (size_t)(nbatches - first);
        qsort(times[k] + first, count, sizeof **times, by_value);
        medians[k] = times[k][first + (int)count / 2];
    }
    for (int k = 0; k < n; k++)
        free(times[k]);
    return ok;
}

/* NULL: the driver does not load it (that of the tests). */
static void *empty_function(void)
{
    void *module, *f;
    bool ok = !module_load(&module, empty_text, 0, NULL, NULL) &&
              !module_function(&f, module, "empty");
    return ok ? f : NULL;
}

int main(int argc, char **argv)
{
    tilec_context *cx;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    tilec_device *d;
    tilec_error e = TILEC_INIT(tilec_error);
    int launches = (int)run_option(argc, argv, "launches", 100000);
    bool maps = run_option(argc, argv, "maps", 0) != 0;
    o.no_graphs = !run_option(argc, argv, "graphs", 1);
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--library") == 0)
            o.cuda_library = argv[i + 1];
    if (tilec_context_new(&o, &cx))
        return 3;
    if (tilec_device_open(cx, -1, &d, &e))
        return fail(&e);
    if (!make_current(o.cuda_library)) {
        printf("skipped: the driver is too old\n");
        return 77;
    }
    tilec_compile_options c = TILEC_INIT(tilec_compile_options);
    c.target = "auto";
    if (maps)
        c.pipeline = "";
    tilec_kernel *k = run_compile(cx, maps ? mapped_text : text, &c);
    if (!k)
        return 1;
    int64_t shape[4] = {1, 2, 64, 64};
    DLTensor host = {.device = {kDLCPU, 0},
                     .ndim = 4,
                     .dtype = {kDLBfloat, 16, 1},
                     .shape = shape};
    DLTensor *t[TENSORS];
    tilec_argument args[7];
    for (int i = 0; i < TENSORS; i++) {
        if (i == TENSORS - 1) {
            host.ndim = 3;
            host.dtype = (DLDataType){kDLFloat, 32, 1};
        }
        if (tilec_device_copy(d, &host, &t[i], &e))
            return fail(&e);
        args[i] = tilec_tensor(NULL, t[i]);
    }
    args[5] = tilec_float(NULL, 0.125);
    args[6] = tilec_int(NULL, 1);
    void *own, *empty = empty_function();
    if (stream_new(&own, 1 /* CU_STREAM_NON_BLOCKING */)) {
        printf("skipped: no stream\n");
        return 77;
    }
    launched l[CONTENDERS] = {{k, args, NULL, NULL},
                              {k, args, NULL, own},
                              {NULL, NULL, empty, NULL},
                              {NULL, NULL, empty, own}};
    double us[CONTENDERS];
    int n = empty ? CONTENDERS : 2;
    if (!measure(l, n, d, launches, us, &e))
        return fail(&e);
    printf(
        "launch on %s: %.3f us of host time, %.3f us in a stream of its own, "
        "medians of %d batches of %d\n",
        tilec_device_name(d), us[0], us[1], launches / BATCH, BATCH);
    if (empty)
        printf("the driver alone: %.3f us, %.3f us\n", us[2], us[3]);
    for (int i = 0; i < TENSORS; i++)
        tilec_device_drop(d, t[i]);
    tilec_kernel_free(k);
    tilec_device_free(d);
    tilec_context_free(cx);
    return 0;
}
