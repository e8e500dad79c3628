/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "codegen/host/runtime/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* On the stack of its caller. */
typedef struct job {
    struct job *next;
    void (*run)(void *task, size_t i);
    void *task;
    size_t count;
    atomic_size_t taken;
    atomic_uint inside; /* threads of the crew in this job; changes under the
                         * lock */
    bool is_awaited;    /* is its caller waiting; under the lock */
} job;

/* The threads of one process, and what they wait for. */
typedef struct crew {
    struct crew *before; /* of the parent process: memory, nothing else */
    unsigned forks;      /* see below */
    bool may_spin;
    pthread_mutex_t lock;      /* of all that follows */
    pthread_cond_t wake, done; /* signals: there is a job; no thread is in a job
                                * any more */
    atomic_uint posted;        /* jobs so far */
    bool is_ending;
    job *first, **end; /* those in flight, oldest first */
    unsigned nthreads, nparked;
    pthread_t threads[TC_HOST_MOST_THREADS];
} crew;

struct tc_host_pool {
    atomic_uint references;
    _Atomic(crew *) crew; /* NULL: none yet */
};

/* ---- fork ---- */

/* How often this process's ancestors and it were made by fork(): a crew with
 * another number is the parent's. Its threads are not here, and its lock may be
 * held by one of them. */
static atomic_uint forks;
static bool counts_forks;

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    counts_forks = pthread_atfork(NULL, NULL, count_fork) == 0;
}

/* ---- Waiting ---- */

/* Some 10 us, which is less than parking and waking a thread takes: kernels of
 * a model follow each other closely. */
enum { MOST_SPINS = 256 };

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins until *x is no longer `old`, but only for a short time. */
static void spin(const crew *c, atomic_uint *x, unsigned old)
{
    for (int i = 0; c->may_spin && i < MOST_SPINS && atomic_load(x) == old; i++)
        relax();
}

/* ---- Crews ---- */

static bool has_several_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
}

static crew *crew_new(unsigned now, crew *before)
{
    crew *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->before = before;
    c->forks = now;
    c->may_spin = has_several_cores();
    c->end = &c->first;
    /* With default attributes neither fails on Linux. */
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    pthread_cond_init(&c->done, NULL);
    return c;
}

static void destroy(crew *c)
{
    pthread_cond_destroy(&c->done);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void end_threads(crew *c)
{
    pthread_mutex_lock(&c->lock);
    c->is_ending = true;
    atomic_fetch_add(&c->posted, 1);
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->nthreads; i++)
        pthread_join(c->threads[i], NULL);
}

/* This process's; NULL: there can be none. */
static crew *crew_of(tc_host_pool *p)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    unsigned now = atomic_load(&forks);
    crew *c = atomic_load(&p->crew);
    if (!counts_forks || (c && c->forks == now))
        return counts_forks ? c : NULL;
    /* The old one stays in memory: another thread may look at it. */
    crew *fresh = crew_new(now, c);
    if (!fresh || atomic_compare_exchange_strong(&p->crew, &c, fresh))
        return fresh;
    destroy(fresh);
    return c;
}

/* ---- Threads ---- */

static void work(job *j)
{
    for (size_t i; (i = atomic_fetch_add(&j->taken, 1)) < j->count;)
        j->run(j->task, i);
}

static job *find_job(const crew *c)
{
    job *j = c->first;
    while (j && atomic_load(&j->taken) >= j->count)
        j = j->next;
    return j;
}

/* Enters with the lock and leaves with it. */
static void help(crew *c, job *j)
{
    atomic_fetch_add(&j->inside, 1);
    pthread_mutex_unlock(&c->lock);
    work(j);
    pthread_mutex_lock(&c->lock);
    if (atomic_fetch_sub(&j->inside, 1) == 1 && j->is_awaited)
        pthread_cond_broadcast(&c->done);
}

/* Likewise; until there may be a job. */
static void rest(crew *c)
{
    unsigned seen = atomic_load(&c->posted);
    pthread_mutex_unlock(&c->lock);
    spin(c, &c->posted, seen);
    pthread_mutex_lock(&c->lock);
    if (atomic_load(&c->posted) != seen)
        return;
    c->nparked++;
    pthread_cond_wait(&c->wake, &c->lock);
    c->nparked--;
}

static void *thread_main(void *arg)
{
    crew *c = arg;
    pthread_setname_np(pthread_self(), "tilec");
    pthread_mutex_lock(&c->lock);
    while (!c->is_ending) {
        job *j = find_job(c);
        if (j)
            help(c, j);
        else
            rest(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Signals are for the program's own threads, but for those that say that this
 * one cannot go on. Returns what was blocked before. */
static sigset_t block_signals(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    return before;
}

static void start_threads(crew *c, size_t wanted)
{
    if (wanted > TC_HOST_MOST_THREADS)
        wanted = TC_HOST_MOST_THREADS;
    if (c->nthreads >= wanted)
        return;
    sigset_t before = block_signals();
    while (c->nthreads < wanted &&
           pthread_create(&c->threads[c->nthreads], NULL, thread_main, c) == 0)
        c->nthreads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- A run ---- */

static void post(crew *c, job *j)
{
    size_t helpers = j->count - 1;
    pthread_mutex_lock(&c->lock);
    start_threads(c, helpers);
    *c->end = j;
    c->end = &j->next;
    atomic_fetch_add(&c->posted, 1);
    unsigned nparked = c->nparked;
    pthread_mutex_unlock(&c->lock);
    if (helpers >= nparked && nparked)
        pthread_cond_broadcast(&c->wake);
    for (size_t i = 0; helpers < nparked && i < helpers; i++)
        pthread_cond_signal(&c->wake);
}

static void take_back(crew *c, job *j)
{
    job **at = &c->first;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    if (c->end == &j->next)
        c->end = at;
}

/* Nobody enters any more: all that it has is taken. */
static void await(crew *c, job *j)
{
    for (unsigned n; (n = atomic_load(&j->inside)) != 0;) {
        spin(c, &j->inside, n);
        if (atomic_load(&j->inside) == n)
            break;
    }
    pthread_mutex_lock(&c->lock);
    take_back(c, j);
    j->is_awaited = true;
    while (atomic_load(&j->inside))
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void tc_host_pool_run(void *pool, size_t count,
                      void (*run)(void *task, size_t i), void *task)
{
    job j = {.run = run, .task = task, .count = count};
    crew *c = count > 1 ? crew_of(pool) : NULL;
    atomic_init(&j.taken, 1);
    if (c)
        post(c, &j);
    if (count)
        run(task, 0);
    work(&j);
    if (c)
        await(c, &j);
}

/* ---- The pool ---- */

tc_host_pool *tc_host_pool_new(void)
{
    tc_host_pool *p = calloc(1, sizeof *p);
    if (p)
        atomic_init(&p->references, 1);
    return p;
}

tc_host_pool *tc_host_pool_ref(tc_host_pool *p)
{
    if (p)
        atomic_fetch_add(&p->references, 1);
    return p;
}

void tc_host_pool_unref(tc_host_pool *p)
{
    if (!p || atomic_fetch_sub(&p->references, 1) != 1)
        return;
    crew *c = atomic_load(&p->crew);
    crew *before = c ? c->before : NULL;
    if (c && c->forks == atomic_load(&forks)) {
        end_threads(c);
        destroy(c);
    } else {
        free(c);
    }
    for (crew *next; before; before = next) {
        next = before->before;
        free(before);
    }
    free(p);
}

unsigned tc_host_pool_threads(tc_host_pool *p)
{
    crew *c = atomic_load(&p->crew);
    if (!c || c->forks != atomic_load(&forks))
        return 0;
    pthread_mutex_lock(&c->lock);
    unsigned n = c->nthreads;
    pthread_mutex_unlock(&c->lock);
    return n;
}
