/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile as JSON: a few steps of one program as spans, and the sections of
 * all (docs/profile.md has the members).
 */
#include "tools/profile/profile.h"

#include "passes/profile/section.h"
#include "tools/common/row.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Of the hot loop's steps so many are shown. */
enum { SHOWN_STEPS = 4 };

typedef struct picture {
    const recording *r;
    const profile_statistics *s;
    cJSON *tracks, *spans;
    uint64_t from, to; /* of the program shown */
} picture;

static void track_name(const profile_writer *w, char *out, size_t room)
{
    if (strcmp(w->role, "consumers") == 0 || strcmp(w->role, "all warps") == 0)
        snprintf(out, room, "group %u", w->group);
    else
        snprintf(out, room, "%s", w->role);
}

/* Clocks of a multiprocessor are one; begins differ by little, in either
 * direction. */
static double offset_of(const profile_ring *first, const profile_ring *ring)
{
    return (int32_t)(ring->head.begin_clock - first->head.begin_clock);
}

/* The last steps of the hot loop that a ring holds. */
static bool find_window(picture *p, const profile_event *e, long n)
{
    unsigned first = p->s->hot < 0 ? 0 : step_mark(&p->r->table, p->s->hot);
    unsigned seen = 0;
    for (long i = n; first && i--;) {
        if (e[i].mark != first)
            continue;
        if (seen++ == 0)
            p->to = e[i].at;
        p->from = e[i].at;
        if (seen > SHOWN_STEPS)
            break;
    }
    return seen > 1;
}

static void add_place(cJSON *to, unsigned line, unsigned column)
{
    if (!line)
        return;
    cJSON_AddNumberToObject(to, "line", line);
    cJSON_AddNumberToObject(to, "column", column);
}

static void add_span(picture *p, int track, double start, double end,
                     const profile_mark *m, int step)
{
    cJSON *span = cJSON_CreateObject();
    cJSON_AddNumberToObject(span, "track", track);
    cJSON_AddNumberToObject(span, "start", start);
    cJSON_AddNumberToObject(span, "end", end);
    cJSON_AddStringToObject(span, "kind", tc_section_span(m->kind));
    cJSON_AddStringToObject(span, "name", section_name(m).text);
    if (step >= 0)
        cJSON_AddNumberToObject(span, "step", step);
    add_place(span, m->line, m->column);
    cJSON_AddItemToArray(p->spans, span);
}

static void add_ring(picture *p, const profile_ring *first,
                     const profile_ring *ring)
{
    const profile_table *t = &p->r->table;
    profile_event *e = NULL;
    long n = decode_ring(p->r, ring, &e);
    double origin = (double)p->from - offset_of(first, ring);
    int track = cJSON_GetArraySize(p->tracks), step = -1;
    char name[32];
    track_name(&t->writers[ring->writer], name, sizeof name);
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", name);
    cJSON_AddStringToObject(item, "kind", "role");
    cJSON_AddItemToArray(p->tracks, item);
    for (long i = 0; i + 1 < n; i++) {
        const profile_mark *m = &t->marks[e[i].mark - 1];
        double start = (double)e[i].at - origin;
        double end = (double)e[i + 1].at - origin;
        double length = (double)(p->to - p->from);
        if (end <= 0 || start >= length)
            continue;
        step += m->loop >= 0 && step_mark(t, m->loop) == e[i].mark;
        add_span(p, track, fmax(start, 0), fmin(end, length), m, step);
    }
    free(e);
}

/* One program: the first whose first group has steps of the hot loop. */
static void add_program(picture *p)
{
    const recording *r = p->r;
    for (size_t i = 0; i < r->nrings; i++) {
        profile_event *e = NULL;
        long n = decode_ring(r, &r->rings[i], &e);
        bool found = n > 0 && find_window(p, e, n);
        free(e);
        if (!found)
            continue;
        size_t first = i;
        while (first && r->rings[first - 1].program == r->rings[i].program)
            first--;
        for (size_t k = first;
             k < r->nrings && r->rings[k].program == r->rings[i].program; k++)
            add_ring(p, &r->rings[i], &r->rings[k]);
        return;
    }
}

/* ---- Sections ---- */

static void add_spread(cJSON *to, const spread *s)
{
    cJSON_AddNumberToObject(to, "median", s->median);
    cJSON_AddNumberToObject(to, "p10", s->p10);
    cJSON_AddNumberToObject(to, "p90", s->p90);
}

static void add_sections(const picture *p, cJSON *to)
{
    const profile_table *t = &p->r->table;
    cJSON *list = cJSON_AddArrayToObject(to, "sections");
    for (unsigned i = 0; i < t->nmarks; i++) {
        const profile_mark *m = &t->marks[i];
        const spread *s = &p->s->sections[i];
        if (!s->n || m->loop < 0)
            continue;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "mark", i + 1);
        cJSON_AddStringToObject(item, "role", m->role);
        cJSON_AddStringToObject(item, "loop", t->loops[m->loop].name);
        cJSON_AddNumberToObject(item, "loop_index", m->loop);
        cJSON_AddStringToObject(item, "kind", tc_section_span(m->kind));
        cJSON_AddStringToObject(item, "name", section_name(m).text);
        add_place(item, m->line, m->column);
        add_spread(item, s);
        cJSON_AddNumberToObject(item, "share",
                                statistics_share(p->r, p->s, i + 1));
        if (m->model >= 0)
            cJSON_AddNumberToObject(item, "model", m->model);
        cJSON_AddItemToArray(list, item);
    }
}

static void add_loops(const picture *p, cJSON *to)
{
    cJSON *list = cJSON_AddArrayToObject(to, "loops");
    for (unsigned i = 0; i < p->r->table.nloops; i++) {
        const profile_loop *l = &p->r->table.loops[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "role", l->role);
        cJSON_AddStringToObject(item, "name", l->name);
        cJSON_AddNumberToObject(item, "steps", (double)p->s->steps[i].n);
        add_place(item, l->line, l->column);
        add_spread(item, &p->s->steps[i]);
        double model = statistics_model(p->r, (int)i);
        if (model >= 0)
            cJSON_AddNumberToObject(item, "model", model);
        cJSON_AddItemToArray(list, item);
    }
}

static void add_note(cJSON *notes, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void add_note(cJSON *notes, const char *fmt, ...)
{
    char text[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cJSON_AddItemToArray(notes, cJSON_CreateString(text));
}

static void add_notes(const picture *p, cJSON *to)
{
    const recording *r = p->r;
    cJSON *notes = cJSON_AddArrayToObject(to, "notes");
    add_note(notes, "%s on %s, %.0f MHz, %zu programs", r->workload, r->device,
             p->s->mhz, p->s->programs);
    if (r->us > 0)
        add_note(notes,
                 "%.1f us a launch, %.1f us with marks (%+.1f %%); results %s",
                 r->us, r->us_marked, 100 * (r->us_marked / r->us - 1),
                 r->same ? "are the same" : "differ");
}

/* ---- The object ---- */

static void add_measured(const picture *p, cJSON *to)
{
    const recording *r = p->r;
    cJSON_AddStringToObject(to, "device", r->device);
    cJSON_AddStringToObject(to, "workload", r->workload);
    cJSON_AddNumberToObject(to, "mhz", p->s->mhz);
    cJSON_AddNumberToObject(to, "programs", (double)p->s->programs);
    if (r->us <= 0)
        return;
    cJSON_AddNumberToObject(to, "us", r->us);
    cJSON_AddNumberToObject(to, "us_marked", r->us_marked);
    cJSON_AddNumberToObject(to, "overhead", r->us_marked / r->us - 1);
    cJSON_AddBoolToObject(to, "same", r->same);
}

int print_timeline(const recording *r, const profile_statistics *s)
{
    cJSON *j = cJSON_CreateObject();
    picture p = {.r = r, .s = s};
    cJSON_AddStringToObject(j, "schema", "tilec.timeline");
    cJSON_AddNumberToObject(j, "version", 1);
    cJSON_AddStringToObject(j, "source", "measured");
    cJSON_AddStringToObject(j, "kernel", r->table.kernel);
    cJSON_AddStringToObject(j, "target", r->table.target);
    cJSON_AddStringToObject(j, "unit", "cycles");
    p.tracks = cJSON_CreateArray();
    p.spans = cJSON_CreateArray();
    add_program(&p);
    cJSON_AddNumberToObject(j, "length", (double)(p.to - p.from));
    cJSON_AddNumberToObject(j, "step",
                            s->hot < 0 ? 0 : s->steps[s->hot].median);
    cJSON_AddItemToObject(j, "tracks", p.tracks);
    cJSON_AddItemToObject(j, "spans", p.spans);
    add_measured(&p, j);
    add_loops(&p, j);
    add_sections(&p, j);
    add_notes(&p, j);
    return row_print(j);
}
