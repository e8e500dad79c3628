/* SPDX-License-Identifier: Apache-2.0
 *
 * FAKE_WITHOUT_LAUNCH: an old one, without cuLaunchKernel.
 */
#include "test/fake/cuda.h"

#include <pthread.h>
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
    *n = fake_cuda.devices;
    return 0;
}

FAKE(cuDeviceGet, int *device, int ordinal)
{
    *device = 10 + ordinal;
    return 0;
}

FAKE(cuDeviceGetName, char *name, int room, int device)
{
    snprintf(name, (size_t)room, "Fake %d", device - 10);
    return 0;
}

FAKE(cuDeviceGetAttribute, int *value, int what, int device)
{
    (void)device;
    *value = what == 75   ? fake_cuda.major
             : what == 76 ? fake_cuda.minor
             : what == 97 ? fake_cuda.shared_optin
                          : 132;
    return 0;
}

FAKE(cuDevicePrimaryCtxRetain, struct context **cx, int device)
{
    COUNT(retains);
    *cx = context_of(device - 10, 1);
    return 0;
}

FAKE(cuCtxGetCurrent, struct context **cx)
{
    *cx = depth ? stack[depth - 1] : NULL;
    return 0;
}

FAKE(cuCtxPushCurrent_v2, struct context *cx)
{
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
    if (!depth)
        return 201;
    *device = 10 + stack[depth - 1]->device;
    return 0;
}

FAKE(cuCtxSynchronize, void)
{
    return fake_cuda.synchronize;
}

/* A link's options are where to write the log. */
struct link {
    char *errors;
    size_t room;
};
static struct link the_link;

FAKE(cuLinkCreate_v2, unsigned n, int *options, void **values,
     struct link **link)
{
    the_link = (struct link){0};
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == 5)
            the_link.errors = values[i];
        if (options[i] == 6)
            the_link.room = (size_t)(uintptr_t)values[i];
    }
    *link = &the_link;
    return 0;
}

FAKE(cuLinkAddData_v2, struct link *link, int type, void *data, size_t size,
     const char *name, unsigned n, int *options, void **values)
{
    (void)name, (void)n, (void)options, (void)values;
    COUNT(links);
    if (type != 1 || ((char *)data)[size - 1])
        return 1;
    snprintf(fake_cuda.ptx, sizeof fake_cuda.ptx, "%s", (char *)data);
    if (fake_cuda.link && fake_cuda.log)
        snprintf(link->errors, link->room, "%s", fake_cuda.log);
    return fake_cuda.link;
}

FAKE(cuLinkComplete, struct link *link, void **cubin, size_t *size)
{
    (void)link;
    *cubin = "a cubin";
    *size = 7;
    return 0;
}

FAKE(cuLinkDestroy, struct link *link)
{
    (void)link;
    return 0;
}

FAKE(cuModuleLoadDataEx, void **module, const void *image, unsigned n,
     int *options, void **values)
{
    (void)n, (void)options, (void)values;
    COUNT(loads);
    *module = &fake_cuda.loads;
    return fake_cuda.load                ? fake_cuda.load
           : memcmp(image, "a cubin", 7) ? 200
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
    (void)module;
    snprintf(fake_cuda.entry, sizeof fake_cuda.entry, "%s", name);
    *function = &fake_cuda.launches;
    return 0;
}

FAKE(cuFuncSetAttribute, void *function, int what, int value)
{
    (void)function;
    if (what != 8)
        return 1;
    fake_cuda.dynamic_shared = value;
    return 0;
}

FAKE(cuFuncGetAttribute, int *value, int what, void *function)
{
    (void)function;
    *value = what == 0   ? fake_cuda.max_threads
             : what == 1 ? fake_cuda.static_shared
             : what == 3 ? fake_cuda.local_bytes
             : what == 4 ? fake_cuda.registers
                         : 0;
    return 0;
}

#ifndef FAKE_WITHOUT_LAUNCH
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

FAKE(cuLaunchKernel, void *function, unsigned gx, unsigned gy, unsigned gz,
     unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
     void **params, void **extra)
{
    (void)function, (void)params;
    COUNT(launches);
    const unsigned char *at = extra[1];
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    pthread_mutex_lock(&lock);
    memcpy(fake_cuda.grid, grid, sizeof grid);
    memcpy(fake_cuda.block, block, sizeof block);
    fake_cuda.shared = shared;
    fake_cuda.stream = stream;
    fake_cuda.current = stack[depth - 1]->device;
    fake_cuda.nbytes = 0;
    size_t n = 0;
    for (int i = 0; i < fake_cuda.nsizes; i++) {
        size_t size = fake_cuda.sizes[i];
        n = (n + size - 1) & ~(size - 1);
        memcpy(fake_cuda.bytes + fake_cuda.nbytes, at + n, size);
        fake_cuda.nbytes += fake_cuda.sizes[i];
        n += size;
    }
    pthread_mutex_unlock(&lock);
    return fake_cuda.launch;
}
#endif

FAKE(cuMemAlloc_v2, unsigned long long *address, size_t size)
{
    COUNT(allocs);
    if (fake_cuda.alloc)
        return fake_cuda.alloc;
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
    for (int i = 0; i < FAKE_BLOCKS; i++)
        if ((uintptr_t)blocks[i].start == address)
            blocks[i].start = NULL;
    free((void *)(uintptr_t)address);
    return 0;
}

FAKE(cuMemcpyHtoD_v2, unsigned long long to, const void *from, size_t size)
{
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}

FAKE(cuMemcpyDtoH_v2, void *to, unsigned long long from, size_t size)
{
    memcpy(to, (void *)(uintptr_t)from, size);
    return 0;
}

FAKE(cuMemsetD8Async, unsigned long long to, unsigned char byte, size_t size,
     void *stream)
{
    (void)stream;
    memset((void *)(uintptr_t)to, byte, size);
    return 0;
}

FAKE(cuPointerGetAttribute, void *value, int what, unsigned long long address)
{
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

FAKE(cuStreamSynchronize, void *stream)
{
    (void)stream;
    COUNT(synchronizes);
    return fake_cuda.synchronize;
}

FAKE(cuStreamGetCtx, void *stream, struct context **cx)
{
    (void)stream;
    return cuCtxGetCurrent(cx);
}

FAKE(cuStreamIsCapturing, void *stream, int *status)
{
    (void)stream;
    *status = fake_cuda.capturing;
    return 0;
}

FAKE(cuEventCreate, void **event, unsigned flags)
{
    (void)flags;
    *event = &fake_cuda;
    return 0;
}

FAKE(cuEventDestroy_v2, void *event)
{
    (void)event;
    return 0;
}

FAKE(cuEventRecord, void *event, void *stream)
{
    (void)event, (void)stream;
    return 0;
}

FAKE(cuEventSynchronize, void *event)
{
    (void)event;
    return fake_cuda.synchronize;
}

FAKE(cuEventElapsedTime, float *milliseconds, void *from, void *to)
{
    (void)from, (void)to;
    *milliseconds = 1.5f;
    return 0;
}
