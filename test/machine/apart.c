/* SPDX-License-Identifier: Apache-2.0
 *
 * Warp groups that leave out steps in which masks hide all from their rows
 * (trim-warpgroups). The interpreter runs all groups together: once with the
 * steps of all rows, and once for each group with the steps of that one, when
 * its rows must be right. All must have taken as many turns, or they would wait
 * for each other for ever.
 *
 *   machine_apart [--only NAME] [--print 1]
 */
#include "test/machine/problem.h"
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(letter) [(letter) - 'A']
#define MASKED(mask, bn)                                                       \
    {                                                                          \
        {"BM", "?"}, {"BN", bn}, {"D", "32"}, {"T", "bf16"},                   \
        {                                                                      \
            "mask_mod", mask                                                   \
        }                                                                      \
    }
/* L: of a window. */
#define SIDES(m, n, window)                                                    \
    {                                                                          \
        AT('B') = 1, AT('H') = 1, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = 32, AT('E') = 32, AT('L') = window                           \
    }

/* Rows that all blocks divide where shift-tiles would move the first block. */
static const problem problems[] = {
    {"causal", "attention_fwd", MASKED("@causal", "64"), SIDES(384, 384, 0),
     6e-3},
    {"causal_fine", "attention_fwd", MASKED("@causal", "32"), SIDES(384, 90, 0),
     6e-3},
    {"causal_more_keys", "attention_fwd", MASKED("@causal_bottom_right", "64"),
     SIDES(130, 333, 0), 6e-3},
    {"window", "attention_fwd", MASKED("@sliding_window", "64"),
     SIDES(450, 450, 150), 6e-3},
    {"window_of_a_few", "attention_fwd", MASKED("@sliding_window", "64"),
     SIDES(300, 300, 3), 6e-3},
    {"window_of_all", "attention_fwd", MASKED("@sliding_window", "32"),
     SIDES(200, 200, 1000), 6e-3},
    {"window_without_keys", "attention_fwd", MASKED("@sliding_window", "64"),
     SIDES(300, 40, 20), 6e-3},
};
enum { NPROBLEMS = sizeof problems / sizeof *problems, MOST_GROUPS = 4 };

static void run_groups(const problem *p, unsigned warps, data *d,
                       const char *text, run_counts *counts)
{
    uint64_t turns[MOST_GROUPS] = {0};
    for (unsigned g = 0; g <= warps / 4; g++) {
        trial t = {p, d, TC_INTERP_LATE, 3, g, &turns[g]};
        verdict v = run_text(text, &t, 1);
        run_check(counts, v.outcome == OUTCOME_RIGHT,
                  "%s, %u warps, group %u: %s", p->name, warps, g, v.message);
        run_check(counts, turns[g] == turns[0],
                  "%s, %u warps: group %u takes %llu turns, all together %llu",
                  p->name, warps, g, (unsigned long long)turns[g],
                  (unsigned long long)turns[0]);
    }
}

static void run_schedule(const problem *p, unsigned warps, unsigned stages,
                         data *d, bool print, run_counts *counts)
{
    schedule s = {.warps = warps,
                  .stages = stages,
                  .target = "sm_90a",
                  .tiles = stages == 2 ? TC_TILES_DYNAMIC : TC_TILES_STATIC};
    char *text = problem_text(p, &s, d);
    if (!run_check(counts, text != NULL, "%s compiles", p->name))
        return;
    if (print)
        printf("%s", text);
    run_check(counts,
              strstr(text, "warpgroup_row") && strstr(text, "order_wait"),
              "%s, %u warps: groups that leave out steps, and have turns",
              p->name, warps);
    run_groups(p, warps, d, text, counts);
    free(text);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    const char *only = NULL;
    bool print = run_option(argc, argv, "print", 0);
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
    for (int i = 0; i < NPROBLEMS; i++) {
        data d;
        if (only && strcmp(only, problems[i].name) != 0)
            continue;
        if (!run_check(&counts, problem_data(&problems[i], &d), "%s on the CPU",
                       problems[i].name))
            continue;
        for (unsigned warps = 8; warps <= 12; warps += 4)
            for (unsigned stages = 2; stages <= 3; stages++)
                run_schedule(&problems[i], warps, stages, &d, print, &counts);
        data_free(&d);
    }
    return run_finish(&counts);
}
