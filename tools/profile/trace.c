/* SPDX-License-Identifier: Apache-2.0
 *
 * All recorded sections as a trace for Perfetto and chrome://tracing: a program
 * is a process, a role of it a thread. Times are microseconds of the device's
 * timer since the first program's begin, finer than its ticks by the clock of
 * the multiprocessor.
 */
#include "tools/profile/profile.h"

#include "passes/profile/section.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdlib.h>

typedef struct trace {
    const recording *r;
    double mhz;
    uint64_t begin_ns;
    char *text;
    size_t n, room;
    bool failed;
} trace;

__attribute__((format(printf, 2, 3))) static void put(trace *t, const char *fmt,
                                                      ...)
{
    enum { LINE = 1024 };
    if (t->n + LINE > t->room) {
        size_t room = 2 * t->room + 4 * LINE;
        char *text = realloc(t->text, room);
        t->failed |= !text;
        if (!text)
            return;
        t->text = text;
        t->room = room;
    }
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->text + t->n, LINE, fmt, args);
    va_end(args);
    t->n += n > 0 && n < LINE ? (size_t)n : 0;
}

/* Names as JSON strings, by mark; malloc'd. */
static char **quote_names(const profile_table *t)
{
    char **all = calloc(t->nmarks + 1, sizeof *all);
    for (unsigned i = 0; all && i < t->nmarks; i++) {
        cJSON *s = cJSON_CreateString(section_name(&t->marks[i]).text);
        all[i] = cJSON_PrintUnformatted(s);
        cJSON_Delete(s);
    }
    return all;
}

static void put_names(trace *t, const profile_ring *ring)
{
    const profile_writer *w = &t->r->table.writers[ring->writer];
    put(t,
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":"
        "\"SM %u, program %u\"}},\n",
        ring->program, ring->head.sm & ~TC_PROFILE_BEGUN, ring->program);
    put(t,
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":"
        "{\"name\":\"%s %u\"}}",
        ring->program, ring->writer, w->role, w->group);
}

static void put_ring(trace *t, const profile_ring *ring, char *const *names)
{
    profile_event *e = NULL;
    long n = decode_ring(t->r, ring, &e);
    double begin = 1e-3 * (double)(ring->head.begin_ns - t->begin_ns);
    for (long i = 0; i + 1 < n; i++) {
        const profile_mark *m = &t->r->table.marks[e[i].mark - 1];
        put(t,
            ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.4f,\"dur\":%.4f,"
            "\"cat\":\"%s\",\"name\":%s,\"args\":{\"cycles\":%llu,\"line\":%u}"
            "}",
            ring->program, ring->writer, begin + (double)e[i].at / t->mhz,
            (double)(e[i + 1].at - e[i].at) / t->mhz, tc_section_span(m->kind),
            names[e[i].mark - 1], (unsigned long long)(e[i + 1].at - e[i].at),
            m->line);
    }
    free(e);
}

int write_trace(const recording *r, const profile_statistics *s,
                const char *path, unsigned programs)
{
    trace t = {.r = r, .mhz = s->mhz > 0 ? s->mhz : 1, .begin_ns = UINT64_MAX};
    char **names = quote_names(&r->table);
    bool any = false;
    for (size_t i = 0; i < r->nrings; i++)
        if (r->rings[i].head.begin_ns < t.begin_ns)
            t.begin_ns = r->rings[i].head.begin_ns;
    put(&t, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (size_t i = 0; names && i < r->nrings; i++) {
        if (r->rings[i].program >= programs)
            continue;
        put(&t, "%s", any ? ",\n" : "");
        any = true;
        put_names(&t, &r->rings[i]);
        put_ring(&t, &r->rings[i], names);
    }
    put(&t, "\n]}\n");
    int code = EXIT_MACHINE;
    if (!names || t.failed)
        report("no memory for the trace");
    else
        code = write_data(path, t.text, t.n);
    for (unsigned i = 0; names && i < r->table.nmarks; i++)
        free(names[i]);
    free(names);
    free(t.text);
    return code;
}
