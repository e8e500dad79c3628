/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of threads that launches share.
 *
 * Threads start when a launch first needs them, wait between launches, and end
 * with the pool. The caller of tc_host_pool_run works, too, and would do all of
 * the work alone: so launches from several threads at once, and from within a
 * task, always make progress, and threads that cannot be started are no
 * failure. A child of fork() starts threads of its own.
 */
#ifndef TC_HOST_POOL_H
#define TC_HOST_POOL_H

#include <stddef.h>

typedef struct tc_host_pool tc_host_pool;

/* The most threads of a launch, its caller included. */
enum { TC_HOST_MOST_THREADS = 1024 };

/* One reference; starts nothing. NULL: out of memory. */
tc_host_pool *tc_host_pool_new(void);
/* Accepts NULL, and returns its argument. */
tc_host_pool *tc_host_pool_ref(tc_host_pool *pool);
/* Accepts NULL. The last one ends the threads; no run may be in flight. */
void tc_host_pool_unref(tc_host_pool *pool);

/* Calls run(task, i) once for each i below count, 0 in the calling thread, the
 * others in any order and thread; returns when all have returned. Any thread
 * may call it at any time. A tc_host_parallel_for, whose user is the pool. */
void tc_host_pool_run(void *pool, size_t count,
                      void (*run)(void *task, size_t i), void *task);

/* For tests: threads that the pool has in this process. */
unsigned tc_host_pool_threads(tc_host_pool *pool);

#endif
