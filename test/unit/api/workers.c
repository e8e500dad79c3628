/* SPDX-License-Identifier: Apache-2.0
 *
 * Who runs the programs of a launch: a parallel_for of the caller's, or the
 * context's pool.
 */
#include "test/unit/api/fixture.h"
#include "test/unit/run.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 64 }; /* 4 programs of 16 rows */

static tilec_argument *arguments(matrix *x, matrix *y)
{
    static tilec_argument args[4];
    api_fill(x, ROWS, 1);
    api_fill(y, ROWS, 0);
    args[0] = tilec_tensor(NULL, &x->dl);
    args[1] = tilec_tensor(NULL, &y->dl);
    args[2] = tilec_float(NULL, 2);
    args[3] = tilec_int(NULL, 3);
    return args;
}

static void expect_all(const matrix *x, const matrix *y)
{
    for (int64_t i = 0; i < ROWS * 8; i++)
        ck_assert_float_eq(y->data[i], x->data[i] * 2 + 3);
}

/* ---- An engine's ---- */

struct engine {
    unsigned calls;
    size_t count, ran;
};

typedef void part_fn(void *task, size_t i);

static void take_call(struct engine *e, size_t count, size_t ran)
{
    e->calls++;
    e->count = count;
    e->ran = ran;
}

static void in_order(void *user, size_t count, part_fn *run, void *task)
{
    take_call(user, count, count);
    for (size_t i = 0; i < count; i++)
        run(task, i);
}

static void backwards(void *user, size_t count, part_fn *run, void *task)
{
    take_call(user, count, count);
    for (size_t i = count; i-- > 0;)
        run(task, i);
}

static void last_one(void *user, size_t count, part_fn *run, void *task)
{
    take_call(user, count, 1);
    run(task, count - 1);
}

static void none(void *user, size_t count, part_fn *run, void *task)
{
    (void)run;
    (void)task;
    take_call(user, count, 0);
}

struct part {
    part_fn *run;
    void *task;
    size_t i;
};

static void *run_one(void *arg)
{
    struct part *p = arg;
    p->run(p->task, p->i);
    return NULL;
}

static void own_threads(void *user, size_t count, part_fn *run, void *task)
{
    pthread_t threads[8];
    struct part parts[8];
    take_call(user, count, count);
    ck_assert_uint_le(count, 8);
    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct part){run, task, i};
        pthread_create(&threads[i], NULL, run_one, &parts[i]);
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static const struct way {
    void (*parallel_for)(void *user, size_t count, part_fn *run, void *task);
} ways[] = {{in_order}, {backwards}, {last_one}, {none}, {own_threads}};
enum { NWAYS = sizeof ways / sizeof *ways };

static tilec_context *context_with(const struct way *w, struct engine *e)
{
    tilec_context *c;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.target = "cpu";
    o.parallel_for = w->parallel_for;
    o.parallel_user = e;
    ck_assert_int_eq(tilec_context_new(&o, &c), TILEC_OK);
    return c;
}

/* The kernel outlives the context, and keeps its parallel_for. */
START_TEST(programs_run_on_an_engines_threads)
{
    const struct way *w = &ways[_i];
    struct engine e = {0};
    tilec_context *c = context_with(w, &e);
    tilec_kernel *k = api_scale_kernel(c);
    tilec_context_free(c);
    matrix x, y;
    tilec_error error = TILEC_INIT(tilec_error);
    static const int threads[] = {2, 3, 4, 7};
    for (unsigned i = 0; i < 4; i++) {
        tilec_launch_options o = TILEC_INIT(tilec_launch_options);
        o.threads = threads[i];
        tilec_argument *args = arguments(&x, &y);
        ck_assert_int_eq(tilec_launch(k, args, 4, &o, &error), TILEC_OK);
        expect_all(&x, &y);
        ck_assert_uint_eq(e.calls, i + 1);
        /* At most one a program. */
        ck_assert_uint_eq(e.count, (size_t)(threads[i] < 4 ? threads[i] : 4));
    }
    tilec_kernel_free(k);
}
END_TEST

START_TEST(one_thread_or_program_runs_in_the_caller)
{
    struct engine e = {0};
    tilec_context *c = context_with(&ways[0], &e);
    tilec_kernel *k = api_scale_kernel(c);
    matrix x, y;
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.threads = 1;
    tilec_argument *args = arguments(&x, &y);
    ck_assert_int_eq(tilec_launch(k, args, 4, &o, &error), TILEC_OK);
    expect_all(&x, &y);
    x.shape[0] = y.shape[0] = 16;
    o.threads = 4;
    ck_assert_int_eq(tilec_launch(k, args, 4, &o, &error), TILEC_OK);
    ck_assert_uint_eq(e.calls, 0);
    tilec_kernel_free(k);
    tilec_context_free(c);
}
END_TEST

static const char failing_text[] =
    "kernel @fails(%x: tensor<[?] x f32>, %bad: i32) grid(40) {\n"
    "  %p = program_id(0)\n"
    "  assert %p != %bad, \"the bad one\"\n"
    "  store %x[%p +: 1], splat(1.0, tile<1 x f32>)\n"
    "}\n";

static void expect_failure(const tilec_kernel *k, int64_t bad, int threads)
{
    float data[40] = {0};
    int64_t n = 40;
    DLTensor t = {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, NULL, 0};
    tilec_argument args[] = {tilec_tensor(NULL, &t), tilec_int(NULL, bad)};
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error e = {0};
    o.threads = threads;
    ck_assert_int_eq(tilec_launch(k, args, 2, &o, &e), TILEC_INPUT);
    ck_assert_msg(strstr(e.message, "the bad one") != NULL, "%s", e.message);
    ck_assert_int_eq(e.program[0], bad);
    ck_assert_uint_eq(e.line, 3);
    ck_assert_str_eq(e.file, "test.tile");
    ck_assert_float_eq(data[bad], 0);
}

/* Wherever it ran; _i == NWAYS: in the pool. */
START_TEST(failures_of_programs_are_reported)
{
    struct engine e = {0};
    tilec_context *c = _i < NWAYS ? context_with(&ways[_i], &e) : cx;
    tilec_kernel *k;
    ck_assert_int_eq(api_compile_text(c, failing_text, NULL, 0, &k), TILEC_OK);
    for (int64_t bad = 0; bad < 40; bad += 3)
        expect_failure(k, bad, 1 + (int)bad % 5);
    ck_assert_uint_eq(e.calls > 0, _i < NWAYS);
    tilec_kernel_free(k);
    if (_i < NWAYS)
        tilec_context_free(c);
}
END_TEST

/* ---- The context's pool ---- */

struct inner {
    const tilec_kernel *k;
    atomic_uint launches;
};

/* From within a program of another launch, on whatever thread that runs. */
static void launch_from_print(void *user, const char *line)
{
    struct inner *in = user;
    matrix x, y;
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    (void)line;
    o.threads = 3;
    api_fill(&x, ROWS, 1);
    api_fill(&y, ROWS, 0);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_float(NULL, 2),
                             tilec_int(NULL, 3)};
    if (tilec_launch(in->k, args, 4, &o, &error) == TILEC_OK &&
        y.data[100] == x.data[100] * 2 + 3)
        atomic_fetch_add(&in->launches, 1);
}

START_TEST(callbacks_may_launch)
{
    tilec_kernel *outer;
    struct inner in = {.k = api_scale_kernel(cx)};
    ck_assert_int_eq(api_compile_text(cx,
                                      "kernel @prints() grid(30) {\n"
                                      "  print \"here\", program_id(0)\n"
                                      "}\n",
                                      NULL, 0, &outer),
                     TILEC_OK);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error error = TILEC_INIT(tilec_error);
    o.threads = 4;
    o.print = launch_from_print;
    o.user = &in;
    ck_assert_int_eq(tilec_launch(outer, NULL, 0, &o, &error), TILEC_OK);
    ck_assert_uint_eq(in.launches, 30);
    tilec_kernel_free(outer);
    tilec_kernel_free((tilec_kernel *)(uintptr_t)in.k);
}
END_TEST

struct progress {
    atomic_int at_once;
    int64_t done;
    unsigned overlaps;
};

static void see_progress(void *user, int64_t done, int64_t total)
{
    struct progress *p = user;
    p->overlaps += atomic_fetch_add(&p->at_once, 1) != 0;
    ck_assert_int_le(done, total);
    p->done = done;
    atomic_fetch_sub(&p->at_once, 1);
}

/* _i == NWAYS: in the pool. */
START_TEST(progress_comes_from_one_thread_at_a_time)
{
    struct engine e = {0};
    tilec_context *c = _i < NWAYS ? context_with(&ways[_i], &e) : cx;
    tilec_kernel *k = api_scale_kernel(c);
    matrix x, y;
    struct progress p = {0};
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.threads = 4;
    o.progress = see_progress;
    o.user = &p;
    ck_assert_int_eq(tilec_launch(k, arguments(&x, &y), 4, &o, &error),
                     TILEC_OK);
    ck_assert_uint_eq(p.overlaps, 0);
    tilec_kernel_free(k);
    if (_i < NWAYS)
        tilec_context_free(c);
}
END_TEST

/* A context, and a kernel that was launched before. */
static int use_in_child(const tilec_kernel *k)
{
    matrix x, y;
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.threads = 4;
    for (int i = 0; i < 20; i++) {
        tilec_argument *args = arguments(&x, &y);
        if (tilec_launch(k, args, 4, &o, &error) != TILEC_OK)
            return 1;
        for (int64_t j = 0; j < ROWS * 8; j++)
            if (y.data[j] != x.data[j] * 2 + 3)
                return 2;
    }
    tilec_kernel_free((tilec_kernel *)(uintptr_t)k);
    tilec_context_free(cx);
    return 0;
}

static atomic_bool enough;

static void *launch_on(void *arg)
{
    matrix x, y;
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.threads = 3;
    api_fill(&x, ROWS, 1);
    api_fill(&y, ROWS, 0);
    tilec_argument args[] = {tilec_tensor(NULL, &x.dl),
                             tilec_tensor(NULL, &y.dl), tilec_float(NULL, 2),
                             tilec_int(NULL, 3)};
    while (!atomic_load(&enough))
        if (tilec_launch(arg, args, 4, &o, &error) != TILEC_OK)
            return "launch failed";
    return NULL;
}

static void fork_and_use(const tilec_kernel *k)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(k));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(status == 0, "status %#x", (unsigned)status);
}

START_TEST(child_of_fork_launches)
{
    matrix x, y;
    tilec_error error = TILEC_INIT(tilec_error);
    tilec_kernel *k = api_scale_kernel(cx);
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    o.threads = 3;
    ck_assert_int_eq(tilec_launch(k, arguments(&x, &y), 4, &o, &error),
                     TILEC_OK);
    fork_and_use(k);
    tilec_kernel_free(k);
}
END_TEST

START_TEST(children_of_forks_among_launches)
{
    tilec_kernel *k = api_scale_kernel(cx);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_on, k), 0);
    for (int i = 0; i < 20; i++)
        fork_and_use(k);
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
    tilec_kernel_free(k);
}
END_TEST

void api_workers_tests(TCase *t)
{
    tcase_add_loop_test(t, programs_run_on_an_engines_threads, 0, NWAYS);
    tcase_add_test(t, one_thread_or_program_runs_in_the_caller);
    tcase_add_loop_test(t, failures_of_programs_are_reported, 0, NWAYS + 1);
    tcase_add_test(t, callbacks_may_launch);
    tcase_add_loop_test(t, progress_comes_from_one_thread_at_a_time, 0,
                        NWAYS + 1);
    if (MAY_FORK) {
        tcase_add_test(t, child_of_fork_launches);
        tcase_add_test(t, children_of_forks_among_launches);
    }
}
