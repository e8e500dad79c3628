/* SPDX-License-Identifier: Apache-2.0
 *
 * Called by the code of kernels: failures and print.
 */
#include "codegen/host/runtime/runtime.h"

#include "ir/eval/eval.h"

#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tc_host_rt_fail(tc_run_thread *t, int32_t site, int64_t a, int64_t b,
                     int64_t c, int64_t d)
{
    tc_run *run = t->run;
    const tc_site *s = &run->sites[site];
    pthread_mutex_lock(&run->lock);
    if (!run->report->failed) {
        tc_host_report *r = run->report;
        r->failed = true;
        r->loc = s->loc;
        memcpy(r->program, t->program, sizeof r->program);
        /* The format is ours: emit_block.c, emit_check.c. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(r->message, sizeof r->message, s->message, (long long)a,
                 (long long)b, (long long)c, (long long)d);
#pragma GCC diagnostic pop
    }
    pthread_mutex_unlock(&run->lock);
    atomic_store(&run->stop, true);
}

/* ---- follow ---- */

/* Until the program ahead is done with `step`. A thread that runs a program
 * before this one always gets on. */
static bool runtime_await(const tc_run_thread *t, const int32_t *own,
                          const int32_t *ahead, int32_t step)
{
    while (own != ahead && __atomic_load_n(ahead, __ATOMIC_ACQUIRE) <= step) {
        if (atomic_load(&t->run->stop))
            return false;
        sched_yield();
    }
    return true;
}

/* Nothing is published for steps that those ahead are not done with. */
bool tc_host_rt_follow(tc_run_thread *t, int32_t *own, const int32_t *ahead,
                       int32_t step)
{
    if (step < 0)
        return true;
    if (!runtime_await(t, own, ahead, step - 1))
        return false;
    __atomic_store_n(own, step, __ATOMIC_RELEASE);
    return step == INT32_MAX || runtime_await(t, own, ahead, step);
}

/* ---- print ---- */

/* A growing line; without memory the rest is cut off. */
typedef struct line {
    char *data;
    size_t len, room;
} line;

static void runtime_add(line *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void runtime_add(line *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char text[512];
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t len = n < 0                     ? 0
                 : (size_t)n < sizeof text ? (size_t)n
                                           : sizeof text - 1;
    if (l->len + len + 1 > l->room) {
        size_t room = 2 * (l->room + len + 64);
        char *more = realloc(l->data, room);
        if (!more)
            return;
        l->data = more;
        l->room = room;
    }
    memcpy(l->data + l->len, text, len + 1);
    l->len += len;
}

static void send(tc_run *run, line *l)
{
    if (l->data)
        run->options->print(run->options->user, l->data);
    l->len = 0;
    if (l->data)
        l->data[0] = 0;
}

static void add_float(line *l, tc_kind kind, double x)
{
    if (isnan(x))
        runtime_add(l, "nan");
    else
        runtime_add(l, "%.*g", kind == TC_F64 ? 15 : kind == TC_F32 ? 7 : 5, x);
}

static void add_scalar(line *l, tc_kind kind, int64_t word)
{
    double x;
    memcpy(&x, &word, sizeof x);
    if (kind > TC_F64)
        runtime_add(l, "%#llx", (unsigned long long)word);
    else if (tc_scalar_infos[kind].is_float)
        add_float(l, kind, x);
    else
        runtime_add(l, "%lld", (long long)word);
}

/* Element i of a tile in scratch memory. */
static void add_element(line *l, tc_kind kind, const void *tile, int64_t i)
{
    switch (kind) {
    case TC_I1:
    case TC_I8: runtime_add(l, "%d", ((const int8_t *)tile)[i]); break;
    case TC_I16: runtime_add(l, "%d", ((const int16_t *)tile)[i]); break;
    case TC_I32: runtime_add(l, "%d", ((const int32_t *)tile)[i]); break;
    case TC_I64:
        runtime_add(l, "%lld", (long long)((const int64_t *)tile)[i]);
        break;
    case TC_F64: add_float(l, kind, ((const double *)tile)[i]); break;
    case TC_PTR: runtime_add(l, "%p", ((void *const *)tile)[i]); break;
    default: add_float(l, kind, ((const float *)tile)[i]);
    }
}

/* Rows, one a line, with their indices along the other axes. */
static void print_tile(tc_run *run, line *l, const struct tc_site_value *v,
                       const void *tile)
{
    int64_t rows = 1, cols = v->sides[v->rank - 1];
    for (unsigned i = 0; i + 1 < v->rank; i++)
        rows *= v->sides[i];
    for (int64_t r = 0; r < rows; r++) {
        int64_t rest = r, at[TC_MAX_RANK];
        for (unsigned i = v->rank - 1; i-- > 0; rest /= v->sides[i])
            at[i] = rest % v->sides[i];
        runtime_add(l, "  [");
        for (unsigned i = 0; i + 1 < v->rank; i++)
            runtime_add(l, "%lld, ", (long long)at[i]);
        runtime_add(l, ":]");
        for (int64_t c = 0; c < cols; c++) {
            runtime_add(l, " ");
            add_element(l, v->kind, tile, r * cols + c);
        }
        send(run, l);
    }
}

void tc_host_rt_print(tc_run_thread *t, int32_t site, const int64_t *values)
{
    tc_run *run = t->run;
    if (!run->options->print)
        return;
    const tc_site *s = &run->sites[site];
    line l = {0};
    pthread_mutex_lock(&run->lock);
    runtime_add(&l, "program (%d, %d, %d): ", t->program[0], t->program[1],
                t->program[2]);
    runtime_add(&l, "%s", s->message);
    for (unsigned i = 0; i < s->nvalues; i++)
        if (s->values[i].rank == 0) {
            runtime_add(&l, " ");
            add_scalar(&l, s->values[i].kind, values[i]);
        }
    send(run, &l);
    for (unsigned i = 0; i < s->nvalues; i++)
        if (s->values[i].rank > 0)
            print_tile(run, &l, &s->values[i],
                       (const void *)(intptr_t)values[i]);
    pthread_mutex_unlock(&run->lock);
    free(l.data);
}
