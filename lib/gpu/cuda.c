/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gpu/cuda.h"

#include "lib/handles.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Opening it ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tc_cuda *opened;

static bool say_why(tc_cuda *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static bool say_why(tc_cuda *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->why_not, sizeof c->why_not, fmt, args);
    va_end(args);
    return false;
}

/* The driver's own table has what a wrapper of it may not export. NULL: it
 * lacks it. */
static void *find_new(void *handle, const char *symbol, int since)
{
    int (*get)(const char *, void **, int, uint64_t, int *);
    void *found = dlsym(handle, symbol);
    void *table = dlsym(handle, "cuGetProcAddress_v2");
    int status;
    if (found || !table)
        return found;
    memcpy(&get, &table, sizeof table);
    return get(symbol, &found, since, 0, &status) ? NULL : found;
}

static bool open_library(tc_cuda *c)
{
    void *handle = dlopen(c->library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return say_why(c, "there is no NVIDIA driver (%s)", dlerror());
        /* A function pointer from dlsym, in the one way that C allows. */
#define CU(field, symbol, parameters)                                          \
    {                                                                          \
        void *found = dlsym(handle, #symbol);                                  \
        if (!found)                                                            \
            return say_why(c, "the NVIDIA driver %s is too old: it has no %s", \
                           c->library, #symbol);                               \
        memcpy(&c->field, &found, sizeof found);                               \
    }
#define CU_NEW(field, symbol, since, parameters)                               \
    {                                                                          \
        void *found = find_new(handle, #symbol, since);                        \
        memcpy(&c->field, &found, sizeof found);                               \
    }
#include "lib/gpu/cuda.def"
#undef CU
#undef CU_NEW
    return true;
}

static unsigned attribute(const tc_cuda *c, int what, int device)
{
    int value = 0;
    return c->device_attribute(&value, what, device) || value < 0
               ? 0
               : (unsigned)value;
}

static bool query_device(tc_cuda *c, int ordinal)
{
    tc_cuda_device *d = &c->devices[ordinal];
    d->ordinal = ordinal;
    int code = c->device_get(&d->handle, ordinal);
    if (code)
        return say_why(c, "device %d cannot be used: %s", ordinal,
                       tc_cuda_error(c, code).text);
    c->device_name(d->name, sizeof d->name - 1, d->handle);
    d->major = attribute(c, TC_CU_MAJOR, d->handle);
    d->minor = attribute(c, TC_CU_MINOR, d->handle);
    d->sm_count = attribute(c, TC_CU_SM_COUNT, d->handle);
    d->shared_optin = attribute(c, TC_CU_SHARED_OPTIN, d->handle);
    return true;
}

static bool start(tc_cuda *c)
{
    int code = c->init(0);
    if (code)
        return say_why(c, "the NVIDIA driver does not start: %s",
                       tc_cuda_error(c, code).text);
    c->driver_version(&c->version);
    code = c->device_count(&c->ndevices);
    if (code || c->ndevices < 1)
        return say_why(c, "the NVIDIA driver has no device%s%s",
                       code ? ": " : "",
                       code ? tc_cuda_error(c, code).text : "");
    if (c->ndevices > TC_CUDA_MOST_DEVICES)
        c->ndevices = TC_CUDA_MOST_DEVICES;
    for (int i = 0; i < c->ndevices; i++)
        if (!query_device(c, i))
            return false;
    return true;
}

static tc_cuda *open_new(const char *library)
{
    size_t n = strlen(library) + 1;
    tc_cuda *c = calloc(1, sizeof *c + n);
    if (!c)
        return NULL;
    c->library = memcpy(c + 1, library, n);
    if (open_library(c))
        start(c);
    return c;
}

tc_cuda *tc_cuda_get(const char *library)
{
    static tc_cuda no_memory = {.why_not = "out of memory"};
    library = library ? library : "libcuda.so.1";
    pthread_mutex_lock(&lock);
    tc_cuda *c = opened;
    while (c && strcmp(c->library, library) != 0)
        c = c->next;
    if (!c) {
        c = open_new(library);
        if (c) {
            c->next = opened;
            opened = c;
        }
    }
    pthread_mutex_unlock(&lock);
    return c ? c : &no_memory;
}

tc_cuda_text tc_cuda_error(const tc_cuda *c, int code)
{
    const char *name = NULL, *text = NULL;
    if (c->error_name(code, &name) || !name)
        name = "unknown error";
    if (c->error_string(code, &text) || !text)
        text = "the driver has no words for it";
    tc_cuda_text t;
    snprintf(t.text, sizeof t.text, "%s (%d: %s)", name, code, text);
    return t;
}

/* ---- Contexts ---- */

/* Of the current context; -1: there is none. */
static int current_handle(const tc_cuda *c, tc_cu_context *context)
{
    int handle;
    if (c->context_get(context) || !*context || c->context_device(&handle))
        return -1;
    return handle;
}

static uint64_t number_of(const tc_cuda *c, tc_cu_context context)
{
    unsigned long long id;
    if (!c->context_id)
        return (uintptr_t)context;
    return c->context_id(context, &id) ? 0 : 1 + (uint64_t)id;
}

uint64_t tc_cuda_current(const tc_cuda *c)
{
    tc_cu_context context;
    return c->context_get(&context) || !context ? 0 : number_of(c, context);
}

bool tc_cuda_resume(const tc_cuda *c, const tc_cuda_context *context)
{
    tc_cu_context popped;
    if (c->context_push(context->handle))
        return false;
    if (number_of(c, context->handle) == context->number)
        return true;
    c->context_pop(&popped);
    return false;
}

int tc_cuda_current_device(const tc_cuda *c)
{
    tc_cu_context context = NULL;
    int handle = current_handle(c, &context);
    for (int i = 0; i < c->ndevices; i++)
        if (handle >= 0 && c->devices[i].handle == handle)
            return i;
    return 0;
}

static int retain_primary(const tc_cuda *c, tc_cuda_device *d,
                          tc_cu_context *context)
{
    int code = 0;
    pthread_mutex_lock(&lock);
    if (!d->primary)
        code = c->primary_retain(&d->primary, d->handle);
    if (code)
        d->primary = NULL;
    *context = d->primary;
    pthread_mutex_unlock(&lock);
    return code;
}

/* A code of the driver. */
static int enter(const tc_cuda *c, tc_cuda_scope *scope)
{
    tc_cuda_context *context = &scope->context;
    int code = 0;
    if (current_handle(c, &context->handle) != scope->device->handle) {
        code = retain_primary(c, scope->device, &context->handle);
        if (!code)
            code = c->context_push(context->handle);
        scope->pushed = !code;
    }
    if (code)
        return code;
    context->number = number_of(c, context->handle);
    if (context->number)
        return 0;
    tc_cuda_leave(scope);
    return TC_CU_INVALID_CONTEXT;
}

tilec_status tc_cuda_enter(tc_cuda *c, int ordinal, tc_cuda_scope *scope,
                           tilec_error *error)
{
    *scope = (tc_cuda_scope){.cuda = c};
    if (*c->why_not)
        return tc_fail(error, TILEC_MACHINE, "%s", c->why_not);
    if (ordinal < 0 || ordinal >= c->ndevices)
        return tc_fail(error, TILEC_INPUT,
                       "there is no CUDA device %d, only 0 to %d", ordinal,
                       c->ndevices - 1);
    scope->device = &c->devices[ordinal];
    int code = enter(c, scope);
    if (code)
        return tc_fail(error, TILEC_MACHINE,
                       "CUDA device %d (%s) has no context: %s", ordinal,
                       scope->device->name, tc_cuda_error(c, code).text);
    return TILEC_OK;
}

void tc_cuda_leave(const tc_cuda_scope *scope)
{
    tc_cu_context popped;
    if (scope->pushed)
        scope->cuda->context_pop(&popped);
}

/* ---- Captures ---- */

int tc_cuda_relax(const tc_cuda *c)
{
    int mode = TC_CU_CAPTURE_RELAXED;
    return c->thread_capture_mode(&mode) ? -1 : mode;
}

void tc_cuda_restore(const tc_cuda *c, int mode)
{
    if (mode >= 0)
        c->thread_capture_mode(&mode);
}

/* ---- Memory ---- */

/* By a stream of its own: the default one waits for others. */
static int clear(const tc_cuda *c, tc_cu_address at, size_t size)
{
    tc_cu_stream stream;
    int code = c->stream_new(&stream, TC_CU_STREAM_NON_BLOCKING);
    if (code)
        return code;
    code = c->mem_set(at, 0, size, stream);
    if (!code)
        code = c->stream_synchronize(stream);
    c->stream_free(stream);
    return code;
}

static int allocate(const tc_cuda *c, size_t size, tc_cu_address *out)
{
    int code = c->mem_alloc(out, size);
    if (code)
        return code;
    code = clear(c, *out, size);
    if (code)
        c->mem_free(*out);
    return code;
}

int tc_cuda_zeros(const tc_cuda *c, size_t size, tc_cu_address *out)
{
    int mode = tc_cuda_relax(c);
    int code = allocate(c, size, out);
    tc_cuda_restore(c, mode);
    return code;
}

/* ---- The driver's assembler ---- */

enum {
    JIT_INFO_LOG = 3,
    JIT_INFO_LOG_SIZE = 4,
    JIT_ERROR_LOG = 5,
    JIT_ERROR_LOG_SIZE = 6,
    JIT_OPTIMIZATION_LEVEL = 7,
    JIT_TARGET = 9,
    JIT_LOG_VERBOSE = 12,
    JIT_LINE_INFO = 13,
    JIT_INPUT_PTX = 1
};

/* Numbers travel in pointers. */
struct jit_options {
    unsigned n;
    int names[8];
    void *values[8];
};

static void add_option(struct jit_options *o, int name, uintptr_t value)
{
    o->names[o->n] = name;
    o->values[o->n++] = (void *)value;
}

/* Verbose, so that the log also has what is no error but makes code slow. */
static struct jit_options make_options(const tc_cuda_jit *jit, tc_cuda_log *log)
{
    struct jit_options o = {0};
    memset(log, 0, sizeof *log);
    add_option(&o, JIT_INFO_LOG, (uintptr_t)log->info);
    add_option(&o, JIT_INFO_LOG_SIZE, sizeof log->info - 1);
    add_option(&o, JIT_ERROR_LOG, (uintptr_t)log->errors);
    add_option(&o, JIT_ERROR_LOG_SIZE, sizeof log->errors - 1);
    add_option(&o, JIT_LOG_VERBOSE, 1);
    add_option(&o, JIT_LINE_INFO, 1);
    if (jit->level)
        add_option(&o, JIT_OPTIMIZATION_LEVEL, jit->level);
    if (jit->target)
        add_option(&o, JIT_TARGET, jit->target);
    return o;
}

static int link_with(const tc_cuda *c, tc_cu_link link, const char *ptx,
                     size_t size, void **cubin, size_t *cubin_size)
{
    void *image = NULL;
    /* The driver does not write to what it is given. */
    int code = c->link_add(link, JIT_INPUT_PTX, (void *)(uintptr_t)ptx, size,
                           "tilec", 0, NULL, NULL);
    if (!code)
        code = c->link_complete(link, &image, cubin_size);
    if (code)
        return code;
    *cubin = malloc(*cubin_size);
    if (!*cubin)
        return TC_CU_OUT_OF_MEMORY;
    memcpy(*cubin, image, *cubin_size);
    return 0;
}

/* The remedy for a person. */
static const char *link_remedy(int code)
{
    switch (code) {
    case TC_CU_UNSUPPORTED_PTX_VERSION:
        return ": the driver is older than the code's PTX version; update the "
               "driver, or compile for an older target";
    case TC_CU_NO_BINARY_FOR_GPU:
        return ": the code is for a newer device; compile for this one";
    case TC_CU_INVALID_PTX: return ": the driver's assembler refuses the code";
    default: return "";
    }
}

tilec_status tc_cuda_link(const tc_cuda *c, const char *ptx, size_t size,
                          const tc_cuda_jit *jit, void **cubin,
                          size_t *cubin_size, tc_cuda_log *log,
                          tilec_error *error)
{
    struct jit_options o = make_options(jit, log);
    *cubin = NULL;
    tc_cu_link link;
    int code = c->link_create(o.n, o.names, o.values, &link);
    if (!code) {
        code = link_with(c, link, ptx, size, cubin, cubin_size);
        c->link_destroy(link);
    }
    if (!code)
        return TILEC_OK;
    return tc_fail(error, TILEC_MACHINE, "the code does not assemble: %s%s",
                   tc_cuda_error(c, code).text, link_remedy(code));
}

int tc_cuda_load(const tc_cuda *c, const void *image, const tc_cuda_jit *jit,
                 tc_cu_module *out, tc_cuda_log *log)
{
    struct jit_options o = make_options(jit, log);
    return c->module_load(out, image, o.n, o.names, o.values);
}
