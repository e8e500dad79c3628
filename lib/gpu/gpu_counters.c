/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile counters: two u32 in device memory by which the programs of a launch
 * find the next tile (codegen/nvptx/nvptx.h). They are zero when a launch
 * begins, and it leaves them so; launches that may run at the same time must
 * not have the same ones.
 *
 *   a stream       one: its launches come after each other
 *   a captured     one of its own, for ever: it is unknown when its graph is
 *   launch         launched, and concurrently with which kernels
 *
 * A code in a context has its own memory for them, so that kernels and contexts
 * never share one. The counter of a stream is found without a lock.
 *
 * Streams are identified by their handles. A new stream may get the handle of a
 * destroyed one while the last launch of that one still runs: if the driver
 * gives streams unique numbers, another number gets another counter.
 */
#include "lib/gpu/gpu.h"

#include <stdlib.h>

enum {
    BYTES = 8,    /* of a counter */
    CHUNK = 4096, /* counters that are allocated at once */
    FEW = CHUNK / 2,
    BUCKETS = 16
};

struct chunk {
    struct chunk *next;
    tc_cu_address start;
    unsigned used;
};

/* A stream that has launched the code. The handle of threads' own default
 * streams is the same for all of them: the thread belongs to the name. */
struct user {
    struct user *next;
    uintptr_t stream;
    uint64_t thread; /* 0: of no thread */
    _Atomic uint64_t number, counter;
};

struct tc_gpu_counters {
    const tc_cuda *cuda;
    pthread_mutex_t lock; /* for changes */
    struct chunk *chunks;
    atomic_uint nspare; /* never given out */
    _Atomic(struct user *) users[BUCKETS];
};

/* ---- Memory ---- */

/* Under the lock. */
static int grow(tc_gpu_counters *c)
{
    struct chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk)
        return TC_CU_OUT_OF_MEMORY;
    int code = tc_cuda_zeros(c->cuda, CHUNK * BYTES, &chunk->start);
    if (code) {
        free(chunk);
        return code;
    }
    chunk->next = c->chunks;
    c->chunks = chunk;
    atomic_fetch_add(&c->nspare, CHUNK);
    return 0;
}

tc_gpu_counters *tc_gpu_counters_new(const tc_cuda *cuda, int *code)
{
    tc_gpu_counters *c = calloc(1, sizeof *c);
    *code = TC_CU_OUT_OF_MEMORY;
    if (!c)
        return NULL;
    c->cuda = cuda;
    pthread_mutex_init(&c->lock, NULL);
    *code = grow(c);
    if (!*code)
        return c;
    tc_gpu_counters_free(c, false);
    return NULL;
}

void tc_gpu_counters_free(tc_gpu_counters *c, bool is_gone)
{
    if (!c)
        return;
    for (struct chunk *next, *k = c->chunks; k; k = next) {
        next = k->next;
        if (!is_gone)
            c->cuda->mem_free(k->start);
        free(k);
    }
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct user *next, *u = atomic_load(&c->users[i]); u; u = next) {
            next = u->next;
            free(u);
        }
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int tc_gpu_counters_fill(tc_gpu_counters *c)
{
    pthread_mutex_lock(&c->lock);
    int code = atomic_load(&c->nspare) < CHUNK ? grow(c) : 0;
    pthread_mutex_unlock(&c->lock);
    return code;
}

/* Under the lock. */
static int take(tc_gpu_counters *c, tc_cu_address *out)
{
    int code = atomic_load(&c->nspare) ? 0 : grow(c);
    if (code)
        return code;
    struct chunk *k = c->chunks;
    while (k->used == CHUNK)
        k = k->next;
    *out = k->start + (tc_cu_address)BYTES * k->used++;
    atomic_fetch_sub(&c->nspare, 1);
    return 0;
}

/* ---- Streams ---- */

/* How the driver and this file know a stream. */
struct name {
    uintptr_t stream;
    uint64_t thread, number;
};

static uint64_t this_thread(void)
{
    static _Atomic uint64_t nthreads;
    static _Thread_local uint64_t mine;
    if (!mine)
        mine = 1 + atomic_fetch_add(&nthreads, 1);
    return mine;
}

static struct name name_of(const tc_cuda *cuda, tc_cu_stream stream)
{
    unsigned long long number;
    struct name n = {.stream = (uintptr_t)stream};
    if (n.stream <= TC_CU_STREAM_LEGACY)
        n.stream = TC_CU_STREAM_LEGACY;
    else if (n.stream == TC_CU_STREAM_PER_THREAD)
        n.thread = this_thread();
    else if (cuda->stream_id && !cuda->stream_id(stream, &number))
        n.number = number;
    return n;
}

static _Atomic(struct user *) *bucket_of(tc_gpu_counters *c,
                                         const struct name *n)
{
    return &c->users[(n->stream >> 4 ^ n->stream >> 12 ^ n->thread) % BUCKETS];
}

static struct user *gpu_counters_find(tc_gpu_counters *c, const struct name *n)
{
    struct user *u =
        atomic_load_explicit(bucket_of(c, n), memory_order_acquire);
    while (u && (u->stream != n->stream || u->thread != n->thread))
        u = u->next;
    return u;
}

/* Under the lock. */
static struct user *gpu_counters_add(tc_gpu_counters *c, const struct name *n,
                                     tc_cu_address counter)
{
    _Atomic(struct user *) *bucket = bucket_of(c, n);
    struct user *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->stream = n->stream;
    u->thread = n->thread;
    u->next = atomic_load(bucket);
    atomic_init(&u->number, n->number);
    atomic_init(&u->counter, counter);
    atomic_store_explicit(bucket, u, memory_order_release);
    return u;
}

/* Of a stream that is new, or new by that handle. Under the lock. */
static int introduce(tc_gpu_counters *c, const struct name *n,
                     tc_cu_address *out)
{
    struct user *u = gpu_counters_find(c, n);
    if (u && atomic_load(&u->number) == n->number) {
        *out = atomic_load(&u->counter);
        return 0;
    }
    int code = take(c, out);
    if (code)
        return code;
    if (!u)
        return gpu_counters_add(c, n, *out) ? 0 : TC_CU_OUT_OF_MEMORY;
    atomic_store_explicit(&u->counter, *out, memory_order_relaxed);
    atomic_store_explicit(&u->number, n->number, memory_order_release);
    return 0;
}

/* ---- Launches ---- */

static bool is_captured(const tc_cuda *cuda, tc_cu_stream stream)
{
    int status = 0;
    return (uintptr_t)stream > TC_CU_STREAM_LEGACY &&
           !cuda->stream_capturing(stream, &status) &&
           status == TC_CU_CAPTURE_ACTIVE;
}

/* Between captures there is time to make room for the next one; a lack of
 * memory is reported by the launch that needs it. */
static int take_slowly(tc_gpu_counters *c, const struct name *n,
                       tc_cu_address *out)
{
    pthread_mutex_lock(&c->lock);
    if (n && atomic_load(&c->nspare) < FEW)
        (void)grow(c);
    int code = n ? introduce(c, n, out) : take(c, out);
    pthread_mutex_unlock(&c->lock);
    return code;
}

int tc_gpu_counter(tc_gpu_counters *c, tc_cu_stream stream, tc_cu_address *out)
{
    if (is_captured(c->cuda, stream))
        return take_slowly(c, NULL, out);
    struct name n = name_of(c->cuda, stream);
    struct user *u = gpu_counters_find(c, &n);
    if (!u ||
        atomic_load_explicit(&u->number, memory_order_acquire) != n.number ||
        atomic_load_explicit(&c->nspare, memory_order_relaxed) < FEW)
        return take_slowly(c, &n, out);
    *out = atomic_load_explicit(&u->counter, memory_order_relaxed);
    return 0;
}
