/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's driver, opened at its first use: no toolkit to build with, and a
 * machine without it has the CPU target.
 *
 * The driver is global to the process, the only such state in the library: each
 * shared object is opened once and stays. A device is used through the caller's
 * current context if that is one of the device, else through its primary
 * context, which frameworks use; it is retained at its first use and made
 * current for the length of a call.
 */
#ifndef TC_CUDA_H
#define TC_CUDA_H

#include "lib/tilec.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct CUctx_st *tc_cu_context;
typedef struct CUlinkState_st *tc_cu_link;
typedef struct CUmod_st *tc_cu_module;
typedef struct CUfunc_st *tc_cu_function;
typedef struct CUstream_st *tc_cu_stream;
typedef struct CUevent_st *tc_cu_event;
typedef struct CUgraph_st *tc_cu_graph;
typedef struct CUgraphNode_st *tc_cu_graph_node;
typedef struct CUgraphExec_st *tc_cu_graph_exec;
typedef unsigned long long tc_cu_address;

/* Of a launch: blocks, threads of each, bytes of shared memory. */
typedef struct tc_cu_shape {
    unsigned gx, gy, gz, bx, by, bz, shared;
} tc_cu_shape;

/* CUDA_KERNEL_NODE_PARAMS_v2. */
typedef struct tc_cu_kernel_node {
    tc_cu_function function;
    tc_cu_shape shape;
    void **params, **extra;
    void *kernel;
    tc_cu_context context;
} tc_cu_kernel_node;

/* CUlaunchAttribute: of its values only an int is used. */
typedef struct tc_cu_launch_attribute {
    int what, unused;
    int value, more[15];
} tc_cu_launch_attribute;

/* CUlaunchConfig. */
typedef struct tc_cu_launch {
    tc_cu_shape shape;
    tc_cu_stream stream;
    tc_cu_launch_attribute *attributes;
    unsigned nattributes;
} tc_cu_launch;

/* Numbers of cuda.h. */
enum {
    TC_CU_INVALID_VALUE = 1,
    TC_CU_OUT_OF_MEMORY = 2,
    TC_CU_NOT_INITIALIZED = 3,
    TC_CU_NO_DEVICE = 100,
    TC_CU_INVALID_IMAGE = 200,
    TC_CU_INVALID_CONTEXT = 201,
    TC_CU_NO_BINARY_FOR_GPU = 209,
    TC_CU_INVALID_PTX = 218,
    TC_CU_UNSUPPORTED_PTX_VERSION = 222,
    TC_CU_ILLEGAL_ADDRESS = 700,
    TC_CU_LAUNCH_OUT_OF_RESOURCES = 701,
    TC_CU_MISALIGNED_ADDRESS = 716,
    TC_CU_CAPTURE_UNSUPPORTED = 900,
    TC_CU_CAPTURE_INVALIDATED = 901
};
enum { /* of a device */
       TC_CU_SM_COUNT = 16,
       TC_CU_MAJOR = 75,
       TC_CU_MINOR = 76,
       TC_CU_SHARED_OPTIN = 97
};
enum { /* of a function */
       TC_CU_MAX_THREADS = 0,
       TC_CU_STATIC_SHARED = 1,
       TC_CU_LOCAL_BYTES = 3,
       TC_CU_REGISTERS = 4,
       TC_CU_MAX_DYNAMIC_SHARED = 8
};
enum { /* of a stream; the first ones are handles, for tc_cu_stream */
       TC_CU_STREAM_LEGACY = 1,
       TC_CU_STREAM_PER_THREAD = 2,
       TC_CU_STREAM_NON_BLOCKING = 1,
       TC_CU_CAPTURE_ACTIVE = 1,
       TC_CU_CAPTURE_RELAXED = 2
};
enum {                        /* of a launch */
       TC_CU_LAUNCH_EARLY = 6 /* programmatic stream serialization */
};
enum { /* of a pointer */
       TC_CU_POINTER_MEMORY_TYPE = 2,
       TC_CU_POINTER_ORDINAL = 9,
       TC_CU_POINTER_RANGE_START = 11,
       TC_CU_POINTER_RANGE_SIZE = 12
};

enum { TC_CUDA_MOST_DEVICES = 32 };

typedef struct tc_cuda_device {
    int ordinal, handle;
    char name[96];
    unsigned major, minor;
    unsigned sm_count;
    unsigned shared_optin; /* bytes, the most of a block */
    tc_cu_context primary; /* tc_cuda_enter retains it */
} tc_cuda_device;

/* Read-only once tc_cuda_get has given it. */
typedef struct tc_cuda tc_cuda;
struct tc_cuda {
    tc_cuda *next;
    const char *library;
    char why_not[256]; /* empty: there is a driver and a device */
    int version;       /* 12080 is 12.8 */
    int ndevices;
    tc_cuda_device devices[TC_CUDA_MOST_DEVICES];
#define CU(field, symbol, parameters)            int(*field) parameters;
#define CU_NEW(field, symbol, since, parameters) int(*field) parameters;
#include "lib/gpu/cuda.def"
#undef CU
#undef CU_NEW
};

/* Never NULL; where why_not says something, only that may be read. library
 * NULL: libcuda.so.1. */
tc_cuda *tc_cuda_get(const char *library);

/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)" */
typedef struct tc_cuda_text {
    char text[200];
} tc_cuda_text;
tc_cuda_text tc_cuda_error(const tc_cuda *c, int code);

/* The ordinal of the current context's device; 0 where there is none. */
int tc_cuda_current_device(const tc_cuda *c);

/* A handle may come again when its context is gone; the number does not, but
 * with a driver before CUDA 12.0, which gives none: it is the handle there. */
typedef struct tc_cuda_context {
    tc_cu_context handle;
    uint64_t number;
} tc_cuda_context;

/* The number of the current one; 0: there is none. */
uint64_t tc_cuda_current(const tc_cuda *c);
/* Makes it current until context_pop; false: it is gone. */
bool tc_cuda_resume(const tc_cuda *c, const tc_cuda_context *context);

/* Makes a context of the device current, until tc_cuda_leave. */
typedef struct tc_cuda_scope {
    tc_cuda *cuda;
    tc_cuda_device *device;
    tc_cuda_context context;
    bool pushed;
} tc_cuda_scope;
tilec_status tc_cuda_enter(tc_cuda *c, int ordinal, tc_cuda_scope *scope,
                           tilec_error *error);
void tc_cuda_leave(const tc_cuda_scope *scope);

/* Calls that allocate, free or load would end a capture in progress, of this
 * thread or another, except in the relaxed mode: they are no part of the graph.
 * They stand between these two functions, which hand over the mode before. */
int tc_cuda_relax(const tc_cuda *c);
void tc_cuda_restore(const tc_cuda *c, int mode);

/* Memory of zeros on the current context's device, for all streams. Waits for
 * none, and may be called while one is captured. A code of the driver. */
int tc_cuda_zeros(const tc_cuda *c, size_t size, tc_cu_address *out);

/* The driver's alternative to a list of parameters: words of `extra`. */
#define TC_CU_PARAMS_END  ((void *)0)
#define TC_CU_PARAMS_AT   ((void *)1)
#define TC_CU_PARAMS_SIZE ((void *)2)

/* How the driver is to assemble PTX. */
typedef struct tc_cuda_jit {
    unsigned level;  /* 1 to 3; 0: its own */
    unsigned target; /* TC_CU_ACCELERATED + 90 is sm_90a; 0: the device's */
} tc_cuda_jit;
enum { TC_CU_ACCELERATED = 0x10000 };
/* The output of the driver's assembler. */
typedef struct tc_cuda_log {
    char errors[8192], info[8192];
} tc_cuda_log;
/* PTX to a cubin for the current context's device; *cubin is malloc'd. */
tilec_status tc_cuda_link(const tc_cuda *c, const char *ptx, size_t size,
                          const tc_cuda_jit *jit, void **cubin,
                          size_t *cubin_size, tc_cuda_log *log,
                          tilec_error *error);
/* A cubin, or PTX (with a NUL after it), into the current context; a code of
 * the driver. */
int tc_cuda_load(const tc_cuda *c, const void *image, const tc_cuda_jit *jit,
                 tc_cu_module *out, tc_cuda_log *log);

#endif
