/* SPDX-License-Identifier: Apache-2.0
 *
 * Durations of sections and steps. A section lasts from its mark to the role's
 * next one; a step from the loop's first mark that is in no branch to the next
 * time it comes, if the loop was not left in between.
 */
#include "tools/profile/profile.h"

#include "tools/common/doubles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Durations as they come. */
typedef struct list {
    size_t n, room;
    double *of;
} list;

typedef struct gathering {
    const recording *r;
    list *sections, *steps;
    bool failed;
} gathering;

static void add(gathering *g, list *l, double value)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        double *of = realloc(l->of, room * sizeof *of);
        if (!of) {
            g->failed = true;
            return;
        }
        l->of = of;
        l->room = room;
    }
    l->of[l->n++] = value;
}

static spread spread_of(list *l)
{
    spread s = {.n = l->n};
    if (!l->n)
        return s;
    sort_doubles(l->of, l->n);
    for (size_t i = 0; i < l->n; i++)
        s.sum += l->of[i];
    s.median = l->of[l->n / 2];
    s.p10 = l->of[l->n / 10];
    s.p90 = l->of[l->n * 9 / 10];
    return s;
}

unsigned step_mark(const profile_table *t, int loop)
{
    for (unsigned i = 0; i < t->nmarks; i++)
        if (t->marks[i].loop == loop && t->marks[i].branches == 0)
            return i + 1;
    return 0;
}

/* Steps of a loop in a ring's events. */
static void gather_steps(gathering *g, int loop, const profile_event *e, long n)
{
    const profile_table *t = &g->r->table;
    unsigned first = step_mark(t, loop);
    long from = -1;
    for (long i = 0; first && i < n; i++) {
        if (!loop_contains(t, loop, t->marks[e[i].mark - 1].loop))
            from = -1;
        if (e[i].mark != first)
            continue;
        if (from >= 0)
            add(g, &g->steps[loop], (double)(e[i].at - e[from].at));
        from = i;
    }
}

static bool gather(gathering *g)
{
    const recording *r = g->r;
    for (size_t k = 0; k < r->nrings; k++) {
        profile_event *e = NULL;
        long n = decode_ring(r, &r->rings[k], &e);
        for (long i = 0; i + 1 < n; i++)
            add(g, &g->sections[e[i].mark - 1],
                (double)(e[i + 1].at - e[i].at));
        for (unsigned l = 0; l < r->table.nloops; l++)
            gather_steps(g, (int)l, e, n);
        free(e);
        if (n < 0)
            return false;
    }
    return true;
}

static bool has_inner(const profile_table *t, int loop)
{
    for (unsigned i = 0; i < t->nloops; i++)
        if (t->loops[i].parent == loop)
            return true;
    return false;
}

static int find_hot(const recording *r, const profile_statistics *s)
{
    int hot = -1;
    for (unsigned i = 0; i < r->table.nloops; i++)
        if (s->steps[i].n && !has_inner(&r->table, (int)i) &&
            strcmp(r->table.loops[i].role, "producer") != 0 &&
            (hot < 0 || s->steps[i].sum > s->steps[hot].sum))
            hot = (int)i;
    return hot;
}

static int find_most(const recording *r, const profile_statistics *s)
{
    int most = 0;
    double largest = 0;
    for (unsigned i = 0; i < r->table.nmarks; i++) {
        const profile_mark *m = &r->table.marks[i];
        double d = fabs(s->sections[i].median - m->model);
        if (m->loop == s->hot && m->model >= 0 && s->sections[i].n &&
            d > largest) {
            largest = d;
            most = (int)i + 1;
        }
    }
    return most;
}

double statistics_model(const recording *r, int loop)
{
    double sum = -1;
    for (unsigned i = 0; i < r->table.nmarks; i++) {
        const profile_mark *m = &r->table.marks[i];
        if (m->loop == loop && m->model >= 0)
            sum = (sum < 0 ? 0 : sum) + m->model;
    }
    return sum;
}

double statistics_share(const recording *r, const profile_statistics *s,
                        unsigned mark)
{
    double own = s->own[r->table.marks[mark - 1].loop];
    return own > 0 ? s->sections[mark - 1].sum / own : 0;
}

static size_t count_programs(const recording *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->nrings; i++)
        n += i == 0 || r->rings[i].program != r->rings[i - 1].program;
    return n;
}

static void conclude(gathering *g, profile_statistics *s)
{
    const profile_table *t = &g->r->table;
    for (unsigned i = 0; i < t->nmarks; i++) {
        s->sections[i] = spread_of(&g->sections[i]);
        if (t->marks[i].loop >= 0)
            s->own[t->marks[i].loop] += s->sections[i].sum;
    }
    for (unsigned i = 0; i < t->nloops; i++)
        s->steps[i] = spread_of(&g->steps[i]);
    s->programs = count_programs(g->r);
    s->mhz = decode_mhz(g->r);
    s->hot = find_hot(g->r, s);
    s->most = find_most(g->r, s);
}

int statistics_make(const recording *r, profile_statistics *s)
{
    unsigned nmarks = r->table.nmarks, nloops = r->table.nloops;
    gathering g = {.r = r};
    *s = (profile_statistics){0};
    if (!r->nrings) {
        report("no program wrote a record: the launch had an empty grid");
        return EXIT_INPUT;
    }
    g.sections = calloc(nmarks + 1, sizeof *g.sections);
    g.steps = calloc(nloops + 1, sizeof *g.steps);
    s->sections = calloc(nmarks + 1, sizeof *s->sections);
    s->steps = calloc(nloops + 1, sizeof *s->steps);
    s->own = calloc(nloops + 1, sizeof *s->own);
    int code = EXIT_MACHINE;
    if (g.sections && g.steps && s->sections && s->steps && s->own) {
        code = gather(&g) ? EXIT_DONE : EXIT_INPUT;
        if (!code && g.failed)
            code = EXIT_MACHINE;
        if (!code)
            conclude(&g, s);
    }
    for (unsigned i = 0; g.sections && i < nmarks; i++)
        free(g.sections[i].of);
    for (unsigned i = 0; g.steps && i < nloops; i++)
        free(g.steps[i].of);
    free(g.sections);
    free(g.steps);
    if (code == EXIT_MACHINE)
        report("no memory for the profile");
    return code;
}

void statistics_free(profile_statistics *s)
{
    free(s->sections);
    free(s->steps);
    free(s->own);
    *s = (profile_statistics){0};
}
