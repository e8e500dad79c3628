/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool of threads that launches on the CPU share.
 */
#include "codegen/host/runtime/pool.h"

#include "test/unit/run.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static tc_host_pool *pool;

static void make_pool(void)
{
    pool = tc_host_pool_new();
    ck_assert_ptr_nonnull(pool);
}

static void free_pool(void)
{
    tc_host_pool_unref(pool);
}

/* ---- Each index once ---- */

enum { MOST = 100 };

struct counts {
    atomic_uint of[MOST];
    pthread_t first; /* who ran index 0 */
};

static void count(void *task, size_t i)
{
    struct counts *c = task;
    atomic_fetch_add(&c->of[i], 1);
    if (i == 0)
        c->first = pthread_self();
}

/* NULL, or what is wrong. */
static const char *run_counted(size_t n)
{
    struct counts c = {0};
    tc_host_pool_run(pool, n, count, &c);
    for (size_t i = 0; i < MOST; i++)
        if (atomic_load(&c.of[i]) != (i < n))
            return "an index did not run once";
    if (n && !pthread_equal(c.first, pthread_self()))
        return "index 0 ran elsewhere";
    return NULL;
}

START_TEST(each_index_runs_once)
{
    static const size_t counts[] = {0, 1, 2, 3, 8, 100};
    for (int turn = 0; turn < 50; turn++)
        for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
            const char *wrong = run_counted(counts[i]);
            ck_assert_msg(!wrong, "%s of %zu", wrong, counts[i]);
        }
}
END_TEST

static void *run_often(void *arg)
{
    const char *wrong = NULL;
    (void)arg;
    for (size_t i = 0; !wrong && i < 200; i++)
        wrong = run_counted(2 + i % 5);
    return (void *)(uintptr_t)wrong;
}

static void start_several(pthread_t *threads, int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_often, NULL), 0);
}

static void join_several(const pthread_t *threads, int n)
{
    for (int i = 0; i < n; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
}

START_TEST(several_threads_run_at_once)
{
    pthread_t threads[6];
    start_several(threads, 6);
    join_several(threads, 6);
    ck_assert_uint_eq(tc_host_pool_threads(pool), 5);
}
END_TEST

struct nest {
    unsigned depth;
    atomic_uint *leaves;
};

static void run_nested(void *task, size_t i)
{
    struct nest *n = task, inner = {n->depth - 1, n->leaves};
    (void)i;
    if (n->depth == 0)
        atomic_fetch_add(n->leaves, 1);
    else
        tc_host_pool_run(pool, 3, run_nested, &inner);
}

START_TEST(runs_nest)
{
    atomic_uint leaves = 0;
    struct nest n = {4, &leaves};
    run_nested(&n, 0);
    ck_assert_uint_eq(leaves, 81);
}
END_TEST

/* ---- Threads ---- */

/* Tasks that wait for each other, so that as many threads run them. */
struct meeting {
    unsigned expected;
    atomic_uint present;
    sigset_t blocked; /* in a thread of the pool */
};

/* Marks threads of the pool, so that those that end are counted. */
static pthread_key_t mark;
static bool marks;
static atomic_uint nended;

static void count_end(void *value)
{
    (void)value;
    atomic_fetch_add(&nended, 1);
}

static void meet(void *task, size_t i)
{
    struct meeting *m = task;
    if (i == 1)
        pthread_sigmask(SIG_SETMASK, NULL, &m->blocked);
    if (i && marks)
        pthread_setspecific(mark, m);
    atomic_fetch_add(&m->present, 1);
    while (atomic_load(&m->present) < m->expected)
        sched_yield();
}

static void hold_meeting(unsigned n)
{
    struct meeting m = {.expected = n};
    tc_host_pool_run(pool, n, meet, &m);
    ck_assert_uint_eq(m.present, n);
}

START_TEST(threads_start_when_wanted_and_stay)
{
    ck_assert_int_eq(pthread_key_create(&mark, count_end), 0);
    marks = true;
    ck_assert_uint_eq(tc_host_pool_threads(pool), 0);
    ck_assert_ptr_null(run_counted(1));
    ck_assert_uint_eq(tc_host_pool_threads(pool), 0);
    hold_meeting(3);
    ck_assert_uint_eq(tc_host_pool_threads(pool), 2);
    hold_meeting(5);
    for (int i = 0; i < 100; i++)
        ck_assert_ptr_null(run_counted(4));
    ck_assert_uint_eq(tc_host_pool_threads(pool), 4);
    tc_host_pool_ref(pool);
    tc_host_pool_unref(pool);
    ck_assert_uint_eq(nended, 0);
    tc_host_pool_unref(pool);
    ck_assert_uint_eq(nended, 4);
    make_pool();
}
END_TEST

START_TEST(tasks_run_at_the_same_time)
{
    for (unsigned i = 0; i < 1000; i++)
        hold_meeting(2 + i % 3);
}
END_TEST

START_TEST(signals_are_for_other_threads)
{
    struct meeting m = {.expected = 2};
    sigset_t own;
    tc_host_pool_run(pool, 2, meet, &m);
    ck_assert(sigismember(&m.blocked, SIGINT));
    ck_assert(sigismember(&m.blocked, SIGUSR1));
    ck_assert(!sigismember(&m.blocked, SIGSEGV));
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    ck_assert(!sigismember(&own, SIGINT));
}
END_TEST

/* ---- fork ---- */

/* In the child: the pool serves, with threads of the child's. */
static int check_child(void)
{
    struct meeting m = {.expected = 2};
    if (tc_host_pool_threads(pool))
        return 1;
    tc_host_pool_run(pool, 2, meet, &m);
    if (tc_host_pool_threads(pool) != 1 || run_counted(4))
        return 2;
    tc_host_pool_unref(pool);
    return 0;
}

static void fork_once(void)
{
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(check_child());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x",
                  (unsigned)status);
}

START_TEST(child_of_fork_has_threads_of_its_own)
{
    hold_meeting(3); /* both threads have begun */
    fork_once();
    ck_assert_uint_eq(tc_host_pool_threads(pool), 2);
    ck_assert_ptr_null(run_counted(3));
}
END_TEST

START_TEST(fork_among_threads_that_run)
{
    for (int turn = 0; turn < 20; turn++) {
        pthread_t threads[3];
        start_several(threads, 3);
        fork_once();
        join_several(threads, 3);
    }
}
END_TEST

/* A child that never runs anything, and one of a child. */
START_TEST(grandchildren)
{
    int status;
    hold_meeting(3);
    pid_t child = fork();
    if (child == 0) {
        pid_t next = fork();
        if (next == 0)
            _exit(check_child());
        bool ok = waitpid(next, &status, 0) == next && status == 0;
        tc_host_pool_unref(pool);
        _exit(!ok);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_add_checked_fixture(t, make_pool, free_pool);
    tcase_add_test(t, each_index_runs_once);
    tcase_add_test(t, several_threads_run_at_once);
    tcase_add_test(t, runs_nest);
    tcase_add_test(t, threads_start_when_wanted_and_stay);
    tcase_add_test(t, tasks_run_at_the_same_time);
    tcase_add_test(t, signals_are_for_other_threads);
    if (MAY_FORK) {
        tcase_add_test(t, child_of_fork_has_threads_of_its_own);
        tcase_add_test(t, grandchildren);
        tcase_add_test(t, fork_among_threads_that_run);
    }
    suite_add_tcase(s, t);
    return run_suite(s);
}
