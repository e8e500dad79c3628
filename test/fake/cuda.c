/* SPDX-License-Identifier: Apache-2.0
 *
 * FAKE_WITHOUT_LAUNCH: an old one, without cuLaunchKernel. FAKE_WITHOUT_MAPS:
 * not so old, without what came with 12.0: cuTensorMapEncodeTiled, graphs,
 * numbers of contexts.
 * FAKE_WITHOUT_PLACES: newer still, without cuFuncGetParamInfo.
 */
#include "test/fake/cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct context {
    int device;
};

static const fake_cuda_state good = {.devices = 1,
                                     .driver = 12080,
                                     .major = 9,
                                     .minor = 0,
                                     .shared_optin = 232448,
                                     .registers = 40,
                                     .max_threads = 1024};
EXPORT fake_cuda_state fake_cuda;
static struct context contexts[FAKE_DEVICES][2] = {
    {{0}, {0}}, {{1}, {1}}, {{2}, {2}}, {{3}, {3}}};
static _Thread_local struct context *stack[16];
static _Thread_local int depth;
static struct {
    char *start;
    size_t size;
} blocks[FAKE_BLOCKS];

EXPORT void fake_cuda_reset(void);
EXPORT void *fake_cuda_use(int device, int is_primary);

static struct context *context_of(int device, int is_primary)
{
    return &contexts[device][is_primary];
}

__attribute__((constructor)) void fake_cuda_reset(void)
{
    fake_cuda = good;
}

void *fake_cuda_use(int device, int is_primary)
{
    depth = device >= 0;
    stack[0] = device < 0 ? NULL : context_of(device, is_primary);
    return stack[0];
}

/* Relaxed: it must not put in order what the library forgot to. */
#define COUNT(what) __atomic_fetch_add(&fake_cuda.what, 1, __ATOMIC_RELAXED)

/* The call of that number fails, and no other. */
static int fails(void)
{
    return fake_cuda.fail_at &&
           __atomic_add_fetch(&fake_cuda.calls, 1, __ATOMIC_RELAXED) ==
               fake_cuda.fail_at;
}

#define MAY_FAIL                                                               \
    if (fails())                                                               \
    return 999

static _Thread_local int capture_mode;

/* This ends a capture. */
static int ends_capture(void)
{
    if (fake_cuda.capturing != 1 || capture_mode == 2)
        return 0;
    fake_cuda.capturing = 2;
    return 900;
}

/* Declared here: cuda.h is not needed to build this. */
#define FAKE(name, ...)                                                        \
    EXPORT int name(__VA_ARGS__);                                              \
    int name(__VA_ARGS__)

FAKE(cuInit, unsigned flags)
{
    (void)flags;
    COUNT(inits);
    return fake_cuda.init;
}

FAKE(cuDriverGetVersion, int *version)
{
    MAY_FAIL;
    *version = fake_cuda.driver;
    return 0;
}

FAKE(cuGetErrorName, int code, const char **text)
{
    *text = code == 218   ? "CUDA_ERROR_INVALID_PTX"
            : code == 100 ? "CUDA_ERROR_NO_DEVICE"
            : code == 2   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                          : NULL;
    return *text ? 0 : 1;
}

FAKE(cuGetErrorString, int code, const char **text)
{
    *text = code ? "as it was told to" : "no error";
    return 0;
}

FAKE(cuDeviceGetCount, int *n)
{
    MAY_FAIL;
    *n = fake_cuda.devices;
    return 0;
}

FAKE(cuDeviceGet, int *device, int ordinal)
{
    MAY_FAIL;
    *device = 10 + ordinal;
    return 0;
}

FAKE(cuDeviceGetName, char *name, int room, int device)
{
    MAY_FAIL;
    snprintf(name, (size_t)room, "Fake %d", device - 10);
    return 0;
}

FAKE(cuDeviceGetAttribute, int *value, int what, int device)
{
    MAY_FAIL;
    (void)device;
    *value = what == 75   ? fake_cuda.major
             : what == 76 ? fake_cuda.minor
             : what == 97 ? fake_cuda.shared_optin
                          : 132;
    return 0;
}

FAKE(cuDevicePrimaryCtxRetain, struct context **cx, int device)
{
    MAY_FAIL;
    COUNT(retains);
    *cx = context_of(device - 10, 1);
    return 0;
}

FAKE(cuCtxGetCurrent, struct context **cx)
{
    MAY_FAIL;
    *cx = depth ? stack[depth - 1] : NULL;
    return 0;
}

#ifndef FAKE_WITHOUT_MAPS
FAKE(cuCtxGetId, struct context *cx, unsigned long long *id)
{
    if (fails()) {
        COUNT(lost);
        return 999;
    }
    cx = cx || !depth ? cx : stack[depth - 1];
    if (!cx)
        return 201;
    *id = (unsigned long long)(cx - &contexts[0][0]) + fake_cuda.age;
    return 0;
}
#endif

FAKE(cuCtxPushCurrent_v2, struct context *cx)
{
    if (fails()) {
        COUNT(lost);
        return 999;
    }
    COUNT(pushes);
    stack[depth++] = cx;
    return 0;
}

FAKE(cuCtxPopCurrent_v2, struct context **cx)
{
    COUNT(pops);
    *cx = stack[--depth];
    return 0;
}

FAKE(cuCtxGetDevice, int *device)
{
    MAY_FAIL;
    if (!depth)
        return 201;
    *device = 10 + stack[depth - 1]->device;
    return 0;
}

FAKE(cuCtxSynchronize, void)
{
    MAY_FAIL;
    return fake_cuda.synchronize;
}

/* A link's options are where to write the log. */
struct link {
    char *errors, *info;
    size_t room, info_room;
};
static struct link the_link;

static struct link read_options(unsigned n, const int *options, void **values)
{
    struct link l = {0};
    fake_cuda.target = 0;
    for (unsigned i = 0; i < n; i++)
        switch (options[i]) {
        case 3: l.info = values[i]; break;
        case 4: l.info_room = (size_t)(uintptr_t)values[i]; break;
        case 5: l.errors = values[i]; break;
        case 6: l.room = (size_t)(uintptr_t)values[i]; break;
        case 9: fake_cuda.target = (unsigned)(uintptr_t)values[i]; break;
        default: break;
        }
    return l;
}

FAKE(cuLinkCreate_v2, unsigned n, int *options, void **values,
     struct link **link)
{
    MAY_FAIL;
    COUNT(made);
    the_link = read_options(n, options, values);
    *link = &the_link;
    return 0;
}

FAKE(cuLinkAddData_v2, struct link *link, int type, void *data, size_t size,
     const char *name, unsigned n, int *options, void **values)
{
    MAY_FAIL;
    (void)name, (void)n, (void)options, (void)values;
    COUNT(links);
    if (type != 1 || ((char *)data)[size - 1])
        return 1;
    snprintf(fake_cuda.ptx, sizeof fake_cuda.ptx, "%s", (char *)data);
    if (fake_cuda.link && fake_cuda.log)
        snprintf(link->errors, link->room, "%s", fake_cuda.log);
    if (fake_cuda.info)
        snprintf(link->info, link->info_room, "%s", fake_cuda.info);
    return fake_cuda.link;
}

FAKE(cuLinkComplete, struct link *link, void **cubin, size_t *size)
{
    MAY_FAIL;
    (void)link;
    *cubin = "a cubin";
    *size = 7;
    return 0;
}

FAKE(cuLinkDestroy, struct link *link)
{
    (void)link;
    COUNT(dropped);
    return 0;
}

FAKE(cuModuleLoadDataEx, void **module, const void *image, unsigned n,
     int *options, void **values)
{
    MAY_FAIL;
    COUNT(loads);
    *module = &fake_cuda.loads;
    bool is_ptx = n > 0 && strstr(image, ".version");
    struct link l = is_ptx ? read_options(n, options, values) : the_link;
    if (is_ptx && fake_cuda.whole_info)
        snprintf(l.info, l.info_room, "%s", fake_cuda.whole_info);
    return fake_cuda.load                           ? fake_cuda.load
           : !is_ptx && memcmp(image, "a cubin", 7) ? 200
                                                    : 0;
}

FAKE(cuModuleUnload, void *module)
{
    (void)module;
    COUNT(unloads);
    return 0;
}

FAKE(cuModuleGetFunction, void **function, void *module, const char *name)
{
    MAY_FAIL;
    (void)module;
    snprintf(fake_cuda.entry, sizeof fake_cuda.entry, "%s", name);
    *function = &fake_cuda.launches;
    return 0;
}

FAKE(cuFuncSetAttribute, void *function, int what, int value)
{
    MAY_FAIL;
    (void)function;
    if (what != 8)
        return 1;
    fake_cuda.dynamic_shared = value;
    return 0;
}

FAKE(cuFuncGetAttribute, int *value, int what, void *function)
{
    MAY_FAIL;
    (void)function;
    *value = what == 0   ? fake_cuda.max_threads
             : what == 1 ? fake_cuda.static_shared
             : what == 3 ? fake_cuda.local_bytes
             : what == 4 ? fake_cuda.registers
                         : 0;
    return 0;
}

/* Where a device keeps its parameters: large ones are aligned there. */
enum { BANK = 0x210 };

static size_t place(size_t n, size_t size)
{
    size_t to = size < 64 ? size : 64, bank = to == 64 ? BANK : 0;
    return ((n + bank + to - 1) & ~(to - 1)) - bank;
}

#ifndef FAKE_WITHOUT_PLACES
FAKE(cuFuncGetParamInfo, void *function, size_t index, size_t *offset,
     size_t *size)
{
    MAY_FAIL;
    (void)function;
    size_t n = 0;
    for (size_t i = 0; i < (size_t)fake_cuda.nsizes; i++) {
        *offset = place(n, fake_cuda.sizes[i]);
        *size = fake_cuda.sizes[i];
        n = *offset + *size;
        if (i == index)
            return 0;
    }
    return 1;
}
#endif

/* A launch, but for the stream. */
struct node {
    void *function;
    unsigned grid[3], block[3], shared;
    void **params, **extra, *kernel, *context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int launch(const struct node *node, const unsigned char *at,
                  void *stream)
{
    COUNT(launches);
    pthread_mutex_lock(&lock);
    memcpy(fake_cuda.grid, node->grid, sizeof node->grid);
    memcpy(fake_cuda.block, node->block, sizeof node->block);
    fake_cuda.shared = node->shared;
    fake_cuda.stream = stream;
    fake_cuda.current = stack[depth - 1]->device;
    fake_cuda.nbytes = 0;
    size_t n = 0;
    for (int i = 0; i < fake_cuda.nsizes; i++) {
        size_t size = fake_cuda.sizes[i];
        n = place(n, size);
        memcpy(fake_cuda.bytes + fake_cuda.nbytes, at + n, size);
        fake_cuda.nbytes += fake_cuda.sizes[i];
        n += size;
    }
    pthread_mutex_unlock(&lock);
    return fake_cuda.launch;
}

#ifndef FAKE_WITHOUT_LAUNCH
FAKE(cuLaunchKernel, void *function, unsigned gx, unsigned gy, unsigned gz,
     unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
     void **params, void **extra)
{
    MAY_FAIL;
    struct node node = {function, {gx, gy, gz}, {bx, by, bz}, shared,
                        params,   extra,        NULL,         NULL};
    return launch(&node, extra[1], stream);
}
#endif

#ifndef FAKE_WITHOUT_MAPS
struct attribute {
    int what, unused;
    union {
        int early;
        long long others[8];
    } value;
};

struct config {
    unsigned grid[3], block[3], shared;
    void *stream;
    const struct attribute *attributes;
    unsigned n;
};

FAKE(cuLaunchKernelEx, const struct config *c, void *function, void **params,
     void **extra)
{
    MAY_FAIL;
    struct node node = {function,
                        {c->grid[0], c->grid[1], c->grid[2]},
                        {c->block[0], c->block[1], c->block[2]},
                        c->shared,
                        params,
                        extra,
                        NULL,
                        NULL};
    for (unsigned i = 0; i < c->n; i++)
        if (c->attributes[i].what == 6 && c->attributes[i].value.early == 1)
            COUNT(early);
    return launch(&node, extra[1], c->stream);
}

/* A graph, its node, and what can be launched are one. */
struct graph {
    struct node node;
    unsigned char *bytes;
    bool is_made;
};

/* Nobody drops those of contexts that are gone. */
static struct graph *volatile newest;

FAKE(cuGraphCreate, struct graph **graph, unsigned flags)
{
    MAY_FAIL;
    newest = *graph = calloc(1, sizeof **graph);
    COUNT(made);
    return flags || !*graph;
}

FAKE(cuGraphDestroy, struct graph *graph)
{
    COUNT(dropped);
    if (!graph->is_made) {
        free(graph->bytes);
        free(graph);
    }
    return 0;
}

static void keep(struct graph *graph, const struct node *node)
{
    size_t size = *(const size_t *)node->extra[3];
    free(graph->bytes);
    graph->bytes = malloc(size);
    memcpy(graph->bytes, node->extra[1], size);
    graph->node = *node;
}

FAKE(cuGraphAddKernelNode_v2, struct graph **node, struct graph *graph,
     const struct graph *behind, size_t n, const struct node *kernel)
{
    MAY_FAIL;
    keep(graph, kernel);
    *node = graph;
    return behind || n;
}

FAKE(cuGraphInstantiateWithFlags, struct graph **exec, struct graph *graph,
     unsigned long long flags)
{
    MAY_FAIL;
    int code = ends_capture();
    if (code || fake_cuda.graph)
        return code ? code : fake_cuda.graph;
    COUNT(made);
    graph->is_made = true;
    *exec = graph;
    return flags != 0;
}

FAKE(cuGraphExecKernelNodeSetParams_v2, struct graph *exec,
     const struct graph *node, const struct node *kernel)
{
    MAY_FAIL;
    COUNT(graph_sets);
    if (exec != node || fake_cuda.graph_set)
        return fake_cuda.graph_set ? fake_cuda.graph_set : 1;
    keep(exec, kernel);
    return 0;
}

FAKE(cuGraphExecDestroy, struct graph *exec)
{
    COUNT(dropped);
    exec->is_made = false;
    return 0;
}

FAKE(cuGraphLaunch, struct graph *exec, void *stream)
{
    MAY_FAIL;
    COUNT(graph_launches);
    int code = ends_capture();
    return code ? code : launch(&exec->node, exec->bytes, stream);
}
#endif

FAKE(cuThreadExchangeStreamCaptureMode, int *mode)
{
    int old = capture_mode;
    if (*mode && fails())
        return 999;
    capture_mode = *mode;
    *mode = old;
    return 0;
}

FAKE(cuMemAlloc_v2, unsigned long long *address, size_t size)
{
    MAY_FAIL;
    COUNT(allocs);
    if (fake_cuda.alloc)
        return fake_cuda.alloc;
    int code = ends_capture();
    if (code)
        return code;
    char *p = calloc(1, size);
    *address = fake_cuda.last = (uintptr_t)p;
    for (int i = 0; i < FAKE_BLOCKS; i++)
        if (!blocks[i].start) {
            blocks[i].start = p;
            blocks[i].size = size;
            return 0;
        }
    return 2;
}

FAKE(cuMemFree_v2, unsigned long long address)
{
    COUNT(frees);
    ends_capture();
    for (int i = 0; i < FAKE_BLOCKS; i++)
        if ((uintptr_t)blocks[i].start == address)
            blocks[i].start = NULL;
    free((void *)(uintptr_t)address);
    return 0;
}

FAKE(cuMemcpyHtoD_v2, unsigned long long to, const void *from, size_t size)
{
    MAY_FAIL;
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}

FAKE(cuMemcpyDtoH_v2, void *to, unsigned long long from, size_t size)
{
    MAY_FAIL;
    memcpy(to, (void *)(uintptr_t)from, size);
    return 0;
}

/* The default stream may not wait for one that is captured. */
static int begin_set(void *stream, unsigned width, size_t count)
{
    fake_cuda.sets++;
    fake_cuda.set_width = width;
    fake_cuda.set_count = count;
    fake_cuda.set_stream = stream;
    if (fake_cuda.capturing == 1 && stream != &fake_cuda.frees) {
        fake_cuda.capturing = 2;
        return 906;
    }
    return 0;
}

FAKE(cuMemsetD8Async, unsigned long long to, unsigned char byte, size_t size,
     void *stream)
{
    MAY_FAIL;
    int code = begin_set(stream, 1, size);
    if (!code)
        memset((void *)(uintptr_t)to, byte, size);
    return code;
}

FAKE(cuMemsetD16Async, unsigned long long to, unsigned short word, size_t count,
     void *stream)
{
    MAY_FAIL;
    int code = begin_set(stream, 2, count);
    for (size_t i = 0; !code && i < count; i++)
        memcpy((char *)(uintptr_t)to + 2 * i, &word, 2);
    return code;
}

FAKE(cuMemsetD32Async, unsigned long long to, unsigned word, size_t count,
     void *stream)
{
    MAY_FAIL;
    int code = begin_set(stream, 4, count);
    for (size_t i = 0; !code && i < count; i++)
        memcpy((char *)(uintptr_t)to + 4 * i, &word, 4);
    return code;
}

FAKE(cuPointerGetAttribute, void *value, int what, unsigned long long address)
{
    MAY_FAIL;
    for (int i = 0; i < FAKE_BLOCKS; i++) {
        uintptr_t start = (uintptr_t)blocks[i].start;
        if (!start || address < start || address >= start + blocks[i].size)
            continue;
        if (what == 2 || what == 9)
            *(int *)value = what == 2 ? 2 : 0;
        else if (what == 11)
            *(unsigned long long *)value = start;
        else
            *(size_t *)value = blocks[i].size;
        return 0;
    }
    return 1;
}

FAKE(cuStreamCreate, void **stream, unsigned flags)
{
    MAY_FAIL;
    COUNT(made);
    *stream = &fake_cuda.frees;
    return flags == 1 ? 0 : 1;
}

FAKE(cuStreamDestroy_v2, void *stream)
{
    COUNT(dropped);
    return stream == &fake_cuda.frees ? 0 : 1;
}

/* Only by cuGetProcAddress. */
static int stream_id(void *stream, unsigned long long *id)
{
    *id = (uintptr_t)stream + fake_cuda.epoch;
    return 0;
}

FAKE(cuGetProcAddress_v2, const char *symbol, void **found, int version,
     uint64_t flags, int *status)
{
    int (*f)(void *, unsigned long long *) = stream_id;
    *found = NULL;
    *status = strcmp(symbol, "cuStreamGetId") != 0;
    if (*status || version != 12000 || flags)
        return 1;
    memcpy(found, &f, sizeof f);
    return 0;
}

#ifndef FAKE_WITHOUT_MAPS
FAKE(cuTensorMapEncodeTiled, void *map, int type, unsigned rank, void *address,
     const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
     const uint32_t *steps, int interleave, int swizzle, int promotion,
     int fill)
{
    MAY_FAIL;
    fake_map *m = map;
    COUNT(encodes);
    if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || fake_cuda.encode)
        return fake_cuda.encode ? fake_cuda.encode : 1;
    *m = (fake_map){.address = (uintptr_t)address,
                    .type = (unsigned char)type,
                    .rank = (unsigned char)rank,
                    .interleave = (unsigned char)interleave,
                    .swizzle = (unsigned char)swizzle,
                    .promotion = (unsigned char)promotion,
                    .fill = (unsigned char)fill};
    for (unsigned i = 0; i < rank; i++) {
        m->sizes[i] = sizes[i];
        m->box[i] = box[i];
        if (sizes[i] == 0 || steps[i] != 1)
            return 1;
        if (i + 1 < rank) {
            m->strides[i] = strides[i];
            if (strides[i] % 16 || strides[i] >> 40)
                return 1;
        }
    }
    return 0;
}
#endif

FAKE(cuStreamSynchronize, void *stream)
{
    MAY_FAIL;
    (void)stream;
    COUNT(synchronizes);
    return fake_cuda.synchronize;
}

FAKE(cuStreamGetCtx, void *stream, struct context **cx)
{
    MAY_FAIL;
    (void)stream;
    return cuCtxGetCurrent(cx);
}

FAKE(cuStreamIsCapturing, void *stream, int *status)
{
    MAY_FAIL;
    (void)stream;
    *status = fake_cuda.capturing;
    return 0;
}

FAKE(cuEventCreate, void **event, unsigned flags)
{
    MAY_FAIL;
    (void)flags;
    COUNT(made);
    *event = &fake_cuda;
    return 0;
}

FAKE(cuEventDestroy_v2, void *event)
{
    (void)event;
    COUNT(dropped);
    return 0;
}

FAKE(cuEventRecord, void *event, void *stream)
{
    MAY_FAIL;
    (void)event, (void)stream;
    return 0;
}

FAKE(cuEventSynchronize, void *event)
{
    MAY_FAIL;
    (void)event;
    return fake_cuda.synchronize;
}

FAKE(cuEventElapsedTime, float *milliseconds, void *from, void *to)
{
    MAY_FAIL;
    (void)from, (void)to;
    *milliseconds = 1.5f;
    return 0;
}
