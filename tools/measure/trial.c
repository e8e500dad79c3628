/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/trial.h"

#include "tools/common/doubles.h"
#include "tools/common/progress.h"
#include "tools/measure/device.h"

#include "passes/target/target.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct running {
    const workload *w;
    const trial_options *o;
    tilec_context *cx;
    trial *out;
    built b;
    tilec_device *device;              /* NULL: the CPU */
    tilec_event *start, *stop;         /* on it */
    DLTensor *copies[INPUTS_MOST];     /* on it */
    owned_tensor results[INPUTS_MOST]; /* on the host, of what is written */
    tilec_argument args[INPUTS_MOST];
    device_tensors room; /* only its workspace */
    uint64_t room_bytes;
    void *room_address;
} running;

__attribute__((format(printf, 3, 4))) static bool
stop(running *r, trial_state state, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->out->why, sizeof r->out->why, fmt, args);
    va_end(args);
    r->out->state = state;
    r->out->code = EXIT_INPUT;
    return false;
}

static bool failed(running *r, const tilec_error *e)
{
    stop(r, TRIAL_FAILED, "%.230s", e->message);
    r->out->code = (int)e->status;
    return false;
}

/* ---- Compiling ---- */

static bool say_refused(running *r)
{
    const tilec_diagnostic *d = tilec_diagnostics(r->cx);
    while (d && d->severity != TILEC_ERROR)
        d = d->next;
    if (!d)
        return stop(r, TRIAL_REFUSED, "it does not compile");
    int n = (int)strcspn(d->message, "\n");
    return d->file
               ? stop(r, TRIAL_REFUSED, "%s:%u:%u: %.*s", d->file, d->line,
                      d->column, n < 180 ? n : 180, d->message)
               : stop(r, TRIAL_REFUSED, "%.*s", n < 230 ? n : 230, d->message);
}

static bool refused(running *r, tilec_status status)
{
    say_refused(r);
    r->out->code = (int)status;
    return false;
}

/* Of a plan the last one. */
static const tilec_kernel *main_kernel(const tilec_kernel *k)
{
    const tilec_kernel *part;
    for (size_t i = 0; (part = tilec_kernel_part(k, i)); i++)
        if (!tilec_kernel_part(k, i + 1))
            return part;
    return k;
}

static bool trial_build(running *r, const variant *v, bool load)
{
    built_free(&r->b);
    double start = seconds_now();
    tilec_status status = workload_build(r->w, r->cx, NULL, v, load, &r->b);
    if (status)
        return refused(r, status);
    r->out->compile_ms += 1e3 * (seconds_now() - start);
    snprintf(r->out->target, sizeof r->out->target, "%s",
             tilec_kernel_target(r->b.kernel));
    tilec_resources taken = TILEC_INIT(tilec_resources);
    if (tilec_kernel_resources(main_kernel(r->b.kernel), &taken, NULL))
        return true;
    r->out->is_gpu = true;
    r->out->warps = taken.warps;
    r->out->threads = taken.threads;
    r->out->registers = taken.registers;
    r->out->shared_bytes = taken.shared_bytes;
    r->out->spilled_bytes = taken.spilled_bytes;
    if (taken.device)
        snprintf(r->out->device, sizeof r->out->device, "%s", taken.device);
    return true;
}

static bool fits(running *r)
{
    const trial *t = r->out;
    const tc_target *target = tc_target_get(t->target);
    if (!r->o->prunes || !t->is_gpu)
        return true;
    if (t->shared_bytes > target->shared_per_block)
        return stop(r, TRIAL_PRUNED,
                    "%u bytes of shared memory a block, %s has %u",
                    t->shared_bytes, t->target, target->shared_per_block);
    if (t->threads * t->registers > target->registers_per_sm)
        return stop(r, TRIAL_PRUNED, "%u threads of %u registers, %s has %u",
                    t->threads, t->registers, t->target,
                    target->registers_per_sm);
    if (t->spilled_bytes)
        return stop(r, TRIAL_PRUNED, "%u bytes a thread are spilled",
                    t->spilled_bytes);
    return true;
}

/* Checks that need no device come first; code that is too large is never
 * loaded. */
static bool compile(running *r, const variant *v)
{
    if (!trial_build(r, v, false) || !fits(r))
        return false;
    return r->o->is_dry || !r->out->is_gpu ||
           (trial_build(r, v, true) && fits(r));
}

/* ---- Tensors ---- */

static bool trial_place(running *r)
{
    const workload *w = r->w;
    tilec_error e = TILEC_INIT(tilec_error);
    memcpy(r->args, w->in.arguments, sizeof r->args);
    for (size_t i = 0; i < w->in.n; i++) {
        const DLTensor *t = w->in.arguments[i].tensor;
        if (!t)
            continue;
        bool written = kernel_writes(r->b.kernel, w->in.list[i].name);
        if (written && !tensor_new(&r->results[i], t->dtype, t->ndim, t->shape))
            return stop(r, TRIAL_FAILED, "no memory for its results");
        if (r->device && tilec_device_copy(r->device, t, &r->copies[i], &e))
            return failed(r, &e);
        if (written && !r->device)
            memcpy(r->results[i].dl.data, t->data, tensor_bytes(t));
        if (r->device)
            r->args[i].tensor = r->copies[i];
        else if (written)
            r->args[i].tensor = &r->results[i].dl;
    }
    return true;
}

static bool open_device(running *r)
{
    tilec_error e = TILEC_INIT(tilec_error);
    if (!r->out->is_gpu)
        return true;
    if (tilec_device_open(r->cx, -1, &r->device, &e) ||
        tilec_event_new(r->device, &r->start, &e) ||
        tilec_event_new(r->device, &r->stop, &e))
        return failed(r, &e);
    snprintf(r->out->device, sizeof r->out->device, "%s",
             tilec_device_name(r->device));
    return true;
}

static void close_device(running *r)
{
    for (size_t i = 0; i < INPUTS_MOST; i++) {
        tilec_device_drop(r->device, r->copies[i]);
        free(r->results[i].dl.data);
    }
    tilec_device_drop(r->device, r->room.workspace);
    free(r->room.memory);
    tilec_event_free(r->start);
    tilec_event_free(r->stop);
    tilec_device_free(r->device);
}

/* ---- Running ---- */

static bool make_room(running *r)
{
    tilec_error e = TILEC_INIT(tilec_error);
    r->room.device = r->device;
    if (workload_workspace(r->w, &r->b, &r->room_bytes, &e))
        return failed(r, &e);
    return !device_workspace(&r->room, r->room_bytes, &r->room_address) ||
           stop(r, TRIAL_FAILED, "no memory for its workspace");
}

static bool launch(running *r)
{
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error e = TILEC_INIT(tilec_error);
    o.workspace = r->room_address;
    o.workspace_bytes = r->room_bytes;
    return !workload_launch(r->w, &r->b, r->args, &o, &e) || failed(r, &e);
}

static bool wait_for(running *r)
{
    tilec_error e = TILEC_INIT(tilec_error);
    return !tilec_kernel_synchronize(r->b.kernel, NULL, &e) || failed(r, &e);
}

static bool check(running *r)
{
    const DLTensor *got[INPUTS_MOST] = {0};
    tilec_error e = TILEC_INIT(tilec_error);
    for (size_t i = 0; i < r->w->in.n; i++) {
        if (!r->results[i].dl.data)
            continue;
        got[i] = &r->results[i].dl;
        if (r->device && tilec_device_read(r->device, r->copies[i], got[i], &e))
            return failed(r, &e);
    }
    verdict v = workload_check(r->w, got);
    r->out->error = v.error;
    return !*v.why || stop(r, TRIAL_WRONG, "%s", v.why);
}

/* ---- Timing ---- */

/* Microseconds of one launch, of n in a row. */
static bool time_launches(running *r, unsigned n, double *us)
{
    tilec_error e = TILEC_INIT(tilec_error);
    double ms = 0, begin = seconds_now();
    if (r->device && tilec_event_record(r->start, NULL, &e))
        return failed(r, &e);
    for (unsigned i = 0; i < n; i++)
        if (!launch(r))
            return false;
    if (r->device && (tilec_event_record(r->stop, NULL, &e) ||
                      tilec_event_elapsed(r->start, r->stop, &ms, &e)))
        return failed(r, &e);
    *us = (r->device ? 1e3 * ms : 1e6 * (seconds_now() - begin)) / n;
    return true;
}

/* The cost of an event must not show: so many launches that they take 300 us
 * are timed together, on a GPU. */
enum { TOGETHER_US = 300, MOST_TOGETHER = 200, MOST_RUNS = 1000 };

static bool measure_time(running *r)
{
    double us, times[MOST_RUNS], begin;
    unsigned n = 0, most = r->o->runs < MOST_RUNS ? r->o->runs : MOST_RUNS;
    /* The first ones are slow: clocks, caches. */
    if (!time_launches(r, r->device ? 3 : 1, &us))
        return false;
    unsigned together = 1;
    if (r->device && us < TOGETHER_US)
        together = (unsigned)fmin(MOST_TOGETHER, ceil(TOGETHER_US / us));
    if (together > 1 && !time_launches(r, together, &us))
        return false;
    begin = seconds_now();
    /* Long launches are timed only a few times. */
    while (n < most && (n < 3 || seconds_now() - begin < 5))
        if (!time_launches(r, together, &times[n++]))
            return false;
    sort_doubles(times, n);
    r->out->runs = n;
    r->out->us = n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
    r->out->fastest_us = times[0];
    return true;
}

void trial_run(const workload *w, const variant *v, const trial_options *o,
               tilec_context *cx, trial *out)
{
    *out = (trial){.state = TRIAL_DONE};
    running *r = calloc(1, sizeof *r);
    if (!r) {
        out->state = TRIAL_FAILED;
        out->code = EXIT_MACHINE;
        snprintf(out->why, sizeof out->why, "out of memory");
        return;
    }
    *r = (running){.w = w, .o = o, .cx = cx, .out = out};
    if (compile(r, v) && !o->is_dry && open_device(r) && trial_place(r) &&
        make_room(r) && launch(r) && wait_for(r) && check(r) && measure_time(r))
        (void)wait_for(r);
    close_device(r);
    built_free(&r->b);
    free(r);
}

/* ---- In a process of its own ---- */

static void child(const workload *w, const variant *v, const trial_options *o,
                  int to)
{
    trial t = {
        .state = TRIAL_FAILED, .code = EXIT_MACHINE, .why = "out of memory"};
    tilec_context *cx;
    if (!tilec_context_new(NULL, &cx))
        trial_run(w, v, o, cx, &t);
    /* Not exit: what the parent has opened is the parent's. */
    _exit(write(to, &t, sizeof t) == (ssize_t)sizeof t ? EXIT_DONE
                                                       : EXIT_MACHINE);
}

static size_t read_result(int from, double limit, trial *t, bool *is_late)
{
    double end = seconds_now() + limit;
    size_t n = 0;
    *is_late = false;
    while (n < sizeof *t) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        double left = end - seconds_now();
        if (left <= 0) {
            *is_late = true;
            break;
        }
        left = fmin(left, progress_interval());
        if (poll(&p, 1, (int)(1e3 * fmin(left, 1e6)) + 1) == 0) {
            progress_tick();
            continue;
        }
        ssize_t got = read(from, (char *)t + n, sizeof *t - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    return n;
}

__attribute__((format(printf, 2, 0))) static void
fail(trial *out, const char *why, double number)
{
    *out = (trial){.state = TRIAL_FAILED, .code = EXIT_INPUT};
    snprintf(out->why, sizeof out->why, why, number);
}

void trial_run_apart(const workload *w, const variant *v,
                     const trial_options *o, trial *out)
{
    int ends[2], status = 0;
    fflush(NULL);
    pid_t pid = pipe(ends) ? -1 : fork();
    if (pid < 0) {
        fail(out, "there can be no further process", 0);
        out->code = EXIT_MACHINE;
        return;
    }
    if (pid == 0) {
        close(ends[0]);
        child(w, v, o, ends[1]);
    }
    close(ends[1]);
    bool is_late;
    size_t n = read_result(ends[0], o->limit, out, &is_late);
    close(ends[0]);
    if (is_late)
        kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (is_late)
        fail(out, "not done after %.0f s", o->limit);
    else if (n < sizeof *out && WIFSIGNALED(status))
        fail(out, "its process ended by signal %.0f", WTERMSIG(status));
    else if (n < sizeof *out)
        fail(out, "its process ended with code %.0f", WEXITSTATUS(status));
}
