/* SPDX-License-Identifier: Apache-2.0
 *
 * All shipped kernels at machine level, run by the interpreter and compared
 * with the CPU: 1 to 4 stages, 1 to 8 warps, shared memory swizzled or not,
 * loops of 0, 1, 2, n and n + 1 steps, sizes that divide and that do not;
 * copies late, early, newest first, at random. For sm_90a 4 to 12 warps, 64
 * rows for each 4, and all ways to share out tiles.
 *
 * Each problem runs half of the schedules, for sm_90a where no stages are
 * given: every number of stages and of warps, and both with and without
 * swizzles; the next problem runs the other half. With --all 1 all of them run,
 * in all orders of copies. NAME: how the names of problems begin. --every N:
 * the first of each N problems.
 *
 *   machine_kernels [--target NAME] [--only NAME] [--stages N] [--warps N]
 *                   [--every N] [--print 1] [--all 1] [--pipeline PASSES]
 */
#include "test/machine/kernels.h"
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run_options {
    const char *only, *pipeline, *target;
    long stages, warps; /* 0: all */
    long every;
    bool print, all;
    unsigned nroles; /* programs with warp_groups */
} run_options;

static void run_orders(const problem *p, const schedule *s, data *d,
                       const char *text, run_counts *counts,
                       const run_options *o)
{
    /* The findings are the same in all orders; what differs is what is read
     * where nothing is found. */
    static const tc_interp_order few[][2] = {{TC_INTERP_LATE, TC_INTERP_RANDOM},
                                             {TC_INTERP_LATE, TC_INTERP_EARLY}};
    int n = o->all ? TC_INTERP_ORDER_COUNT : 2, which = s->stages % 2;
    trial trials[TC_INTERP_ORDER_COUNT];
    for (int i = 0; i < n; i++)
        trials[i] =
            (trial){.problem = p,
                    .data = d,
                    .order = o->all ? (tc_interp_order)i : few[which][i],
                    .seed = 3};
    verdict v = run_text(text, trials, n);
    run_check(counts, v.outcome == OUTCOME_RIGHT,
              "%s, %u stages, %u warps%s%s%s: %s", p->name, s->stages, s->warps,
              s->plain ? ", no swizzle" : "", s->tiles ? ", tiles " : "",
              s->tiles ? tc_tiles_word(s->tiles) : "", v.message);
}

static void run_schedule(const problem *p, const schedule *s, data *d,
                         run_counts *counts, run_options *o)
{
    char *text = problem_text(p, s, d);
    if (!text) {
        run_check(counts, false, "%s, %u stages, %u warps: does not compile",
                  p->name, s->stages, s->warps);
        return;
    }
    if (o->print)
        printf("%s", text);
    o->nroles += strstr(text, "warp_groups") != NULL;
    run_orders(p, s, d, text, counts, o);
    free(text);
}

static bool is_wanted(const run_options *o, unsigned warps, unsigned stages)
{
    return (!o->warps || o->warps == (long)warps) &&
           (!o->stages || o->stages == (long)stages);
}

static void run_ampere(const problem *p, data *d, unsigned turn,
                       run_counts *counts, run_options *o)
{
    for (unsigned log = 0; log < 4; log++)
        for (unsigned stages = 1; stages <= 4; stages++)
            for (unsigned plain = 0; plain < 2; plain++) {
                schedule s = {.warps = 1u << log,
                              .stages = stages,
                              .plain = plain,
                              .pipeline = o->pipeline,
                              .target = o->target};
                bool is_its = (log + stages + plain + turn) % 2 == 0;
                if ((o->all || is_its) && is_wanted(o, s.warps, stages))
                    run_schedule(p, &s, d, counts, o);
            }
}

static void run_hopper(const problem *p, data *d, unsigned turn,
                       run_counts *counts, run_options *o)
{
    for (unsigned warps = 4; warps <= 12; warps += 4)
        for (unsigned stages = 1; stages <= 4; stages++) {
            unsigned tiles = (warps / 4 + stages) % (TC_TILES_COUNT - 1);
            schedule s = {.warps = warps,
                          .stages = stages,
                          .pipeline = o->pipeline,
                          .target = o->target,
                          .tiles = (tc_tiles)(TC_TILES_NONE + tiles)};
            int most = p->size['W' - 'A'];
            bool is_its = o->stages || (warps / 4 + stages + turn) % 2 == 0;
            if ((o->all || is_its) && is_wanted(o, warps, stages) &&
                (!most || (int)warps <= most))
                run_schedule(p, &s, d, counts, o);
        }
}

static bool is_hopper(const run_options *o)
{
    return o->target && strcmp(o->target, "sm_90a") == 0;
}

static void run_row(const kernel_row *row, unsigned turn, run_counts *counts,
                    run_options *o)
{
    data d;
    kernel_words words;
    if (o->only && strncmp(o->only, row->name, strlen(o->only)) != 0)
        return;
    problem p = kernel_problem(row, &words);
    if (!run_check(counts, problem_data(&p, &d), "%s on the CPU", p.name))
        return;
    if (is_hopper(o))
        run_hopper(&p, &d, turn, counts, o);
    else
        run_ampere(&p, &d, turn, counts, o);
    data_free(&d);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    run_options o = {.stages = run_option(argc, argv, "stages", 0),
                     .warps = run_option(argc, argv, "warps", 0),
                     .every = run_option(argc, argv, "every", 1),
                     .print = run_option(argc, argv, "print", 0),
                     .all = run_option(argc, argv, "all", 0)};
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--only") == 0)
            o.only = argv[i + 1];
        if (strcmp(argv[i], "--pipeline") == 0)
            o.pipeline = argv[i + 1];
        if (strcmp(argv[i], "--target") == 0)
            o.target = argv[i + 1];
    }
    const kernel_row *rows =
        is_hopper(&o) ? kernels_by_groups : kernels_by_warps;
    for (unsigned i = 0; rows[i].name; i++)
        if (o.every < 2 || i % (unsigned long)o.every == 0)
            run_row(&rows[i], i, &counts, &o);
    if (is_hopper(&o))
        run_check(&counts, o.only || o.pipeline || o.nroles > 0,
                  "programs with roles");
    return run_finish(&counts);
}
