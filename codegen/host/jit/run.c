/* SPDX-License-Identifier: Apache-2.0
 *
 * Launching a kernel: the programs of the grid on all cores. A launch is cut
 * into as many parts as there are threads, and options.parallel_for runs the
 * parts. Each part takes programs from a common counter, a few at a time, until
 * there are none left, in scratch memory of its own: so it does not matter how
 * many parts run at the same time, in which order, or whether all do.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "codegen/host/jit/compile.h"
#include "codegen/host/runtime/pool.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct launch {
    const tc_host_kernel *kernel;
    const int64_t *words;
    tc_run run;
    uint64_t batch;
    /* The i-th program to run is last - i * every. From the end backwards, so
     * that the programs at the edge of the grid always run. */
    uint64_t last, every;
    bool forwards; /* those that follow others after these; all of them */
} launch;

/* ---- Arguments ---- */

static int64_t *pack_tensor(int64_t *to, const tc_launch_arg *arg,
                            unsigned rank)
{
    *to++ = (int64_t)(intptr_t)arg->data;
    for (unsigned i = 0; i < rank; i++)
        *to++ = arg->sizes[i];
    for (unsigned i = 0; i < rank; i++)
        *to++ = arg->strides[i];
    return to;
}

static void pack_args(const tc_host_kernel *k, const tc_launch_arg *args,
                      int64_t *to)
{
    for (unsigned i = 0; i < k->nargs; i++) {
        tc_kind kind = k->args[i].kind;
        if (kind == TC_TENSOR)
            to = pack_tensor(to, &args[i], k->args[i].rank);
        else if (kind == TC_PTR)
            *to++ = (int64_t)(intptr_t)args[i].data;
        else if (tc_scalar_infos[kind].is_float)
            memcpy(to++, &args[i].scalar.f, sizeof *to);
        else
            *to++ = args[i].scalar.i;
    }
}

/* ---- Threads ---- */

static void fail(tc_run *run, const char *message)
{
    pthread_mutex_lock(&run->lock);
    if (!run->report->failed) {
        *run->report = (tc_host_report){.failed = true, .out_of_memory = true};
        snprintf(run->report->message, sizeof run->report->message, "%s",
                 message);
    }
    pthread_mutex_unlock(&run->lock);
    atomic_store(&run->stop, true);
}

static void run_program(launch *l, tc_run_thread *t, void *scratch, uint64_t i)
{
    const int32_t *grid = l->run.grid;
    t->program[0] = (int32_t)(i % (uint64_t)grid[0]);
    i /= (uint64_t)grid[0];
    t->program[1] = (int32_t)(i % (uint64_t)grid[1]);
    t->program[2] = (int32_t)(i / (uint64_t)grid[1]);
    l->kernel->fn(l->words, scratch, t->program[0], t->program[1],
                  t->program[2], grid[0], grid[1], grid[2], t);
}

static bool has_programs(launch *l)
{
    return atomic_load(&l->run.next) < l->run.total &&
           !atomic_load(&l->run.stop);
}

static void take_programs(launch *l, void *scratch, bool reports_progress)
{
    tc_run *run = &l->run;
    tc_run_thread t = {.run = run};
    const tc_host_launch_options *o = run->options;
    while (!atomic_load_explicit(&run->stop, memory_order_relaxed)) {
        uint64_t first = atomic_fetch_add(&run->next, l->batch);
        if (first >= run->total)
            break;
        uint64_t end =
            run->total - first < l->batch ? run->total : first + l->batch;
        for (uint64_t i = first; i < end && !atomic_load(&run->stop); i++)
            run_program(l, &t, scratch,
                        l->forwards ? i : l->last - i * l->every);
        if (reports_progress && o->progress)
            o->progress(o->user, (int64_t)end, (int64_t)run->total);
    }
}

/* Takes programs until there are none left. */
static void run_part(void *task, size_t part)
{
    launch *l = task;
    if (!has_programs(l))
        return;
    /* (At least a vector: code may read there in the place of lanes that are
     * off.) */
    size_t bytes = l->kernel->scratch_bytes + 64;
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!scratch) {
        fail(&l->run, "out of memory: no scratch memory for a thread");
        return;
    }
    take_programs(l, scratch, part == 0);
    free(scratch);
}

static unsigned count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    return 1;
}

unsigned tc_host_threads(const tc_host_launch_options *o)
{
    unsigned n = o && o->threads ? o->threads : count_cores();
    return n < TC_HOST_MOST_THREADS ? n : TC_HOST_MOST_THREADS;
}

static void run_parts(launch *l)
{
    const tc_host_launch_options *o = l->run.options;
    uint64_t n = o->parallel_for && l->run.total > 1 ? tc_host_threads(o) : 1;
    if (n > l->run.total)
        n = l->run.total;
    /* Some 32 batches a thread: an even load, and few accesses of the
     * counter. */
    l->batch = 1 + l->run.total / (n * 32);
    if (l->batch > 64)
        l->batch = 64;
    if (l->run.total < n * 32)
        l->batch = 1;
    if (n > 1)
        o->parallel_for(o->parallel_user, n, run_part, l);
    /* The scratch memory that is left for a part; all of it if there is only
     * one part. */
    run_part(l, 0);
}

/* ---- The launch ---- */

/* Number of programs; false: beyond 63 bits. */
static bool count_programs(const int32_t grid[3], uint64_t *total)
{
    *total = 1;
    for (int i = 0; i < 3; i++)
        if (__builtin_mul_overflow(*total, (uint64_t)grid[i], total) ||
            *total > INT64_MAX)
            return false;
    return true;
}

bool tc_host_launch(const tc_host_kernel *k, const tc_launch_arg *args,
                    const int32_t grid[3],
                    const tc_host_launch_options *options,
                    tc_host_report *report)
{
    static const tc_host_launch_options defaults;
    *report = (tc_host_report){0};
    launch l = {.kernel = k};
    l.run.sites = k->sites;
    l.run.options = options ? options : &defaults;
    l.run.report = report;
    memcpy(l.run.grid, grid, sizeof l.run.grid);
    if (!count_programs(grid, &l.run.total)) {
        report->failed = true;
        snprintf(report->message, sizeof report->message,
                 "the grid %d x %d x %d has too many programs", grid[0],
                 grid[1], grid[2]);
        return false;
    }
    if (l.run.total == 0)
        return true;
    int64_t *words = malloc((k->nwords + 1) * sizeof *words);
    if (!words || pthread_mutex_init(&l.run.lock, NULL)) {
        *report = (tc_host_report){
            .failed = true, .out_of_memory = true, .message = "out of memory"};
        free(words);
        return false;
    }
    pack_args(k, args, words);
    l.words = words;
    l.last = l.run.total - 1;
    l.forwards = k->ordered;
    l.every = options && options->every && !k->ordered ? options->every : 1;
    l.run.total = l.last / l.every + 1;
    run_parts(&l);
    pthread_mutex_destroy(&l.run.lock);
    free(words);
    return !report->failed;
}

uint64_t tc_host_scratch_bytes(const tc_host_kernel *k)
{
    return k->scratch_bytes;
}
