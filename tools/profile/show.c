/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile as a table.
 */
#include "tools/profile/profile.h"

#include "passes/profile/section.h"

#include <stdio.h>
#include <string.h>

section_text section_name(const profile_mark *m)
{
    section_text s;
    snprintf(s.text, sizeof s.text, "%s%s%s", tc_section_words(m->kind),
             *m->name ? " " : "", m->name);
    return s;
}

static void show_section(const recording *r, const profile_statistics *s,
                         unsigned i)
{
    const profile_mark *m = &r->table.marks[i];
    const spread *d = &s->sections[i];
    printf("  %-38.38s %9.0f %8.0f %8.0f %6.1f %%", section_name(m).text,
           d->median, d->p10, d->p90, 100 * statistics_share(r, s, i + 1));
    if (m->model >= 0)
        printf(" %8.0f %+8.0f", m->model, d->median - m->model);
    printf("\n");
}

static void show_loop(const recording *r, const profile_statistics *s,
                      unsigned loop)
{
    const profile_loop *l = &r->table.loops[loop];
    const spread *steps = &s->steps[loop];
    double model = statistics_model(r, (int)loop);
    printf("\n%s, %s (line %u): %zu steps, median %.0f cycles (%.0f to %.0f)",
           l->role, l->name, l->line, steps->n, steps->median, steps->p10,
           steps->p90);
    if (model >= 0)
        printf(", the model says %.0f", model);
    printf("\n  %-38s %9s %8s %8s %8s", "section, cycles", "median", "p10",
           "p90", "share");
    printf(model >= 0 ? " %8s %8s\n" : "\n", "model", "apart");
    for (unsigned i = 0; i < r->table.nmarks; i++)
        if (r->table.marks[i].loop == (int)loop && s->sections[i].n)
            show_section(r, s, i);
}

static void show_most(const recording *r, const profile_statistics *s)
{
    const profile_mark *m = &r->table.marks[s->most - 1];
    double median = s->sections[s->most - 1].median;
    printf("\nlargest difference from the model in %s: %s, %.0f cycles, the "
           "model says %.0f\n",
           r->table.loops[s->hot].name, section_name(m).text, median, m->model);
}

void show_profile(const recording *r, const profile_statistics *s)
{
    printf("%s\n@%s on %s, %s; the first %zu programs, %.0f MHz\n", r->workload,
           r->table.kernel, r->table.target, r->device, s->programs, s->mhz);
    if (r->us > 0)
        printf("%.1f us a launch, %.1f us with marks (%+.1f %%); %s\n", r->us,
               r->us_marked, 100 * (r->us_marked / r->us - 1),
               r->same ? "the results are the same, bit by bit"
                       : "the results differ from those without marks");
    for (unsigned i = 0; i < r->table.nloops; i++)
        if (s->steps[i].n)
            show_loop(r, s, i);
    if (s->most)
        show_most(r, s);
}
