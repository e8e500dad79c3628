/* SPDX-License-Identifier: Apache-2.0
 *
 * How good is the interpreter at finding mistakes? Schedules of shipped kernels
 * get one mistake each, made mechanically; each must be refused, found, or give
 * a wrong result on some of the shapes. What is left over must be harmless by a
 * rule that mutate.c states. Prints the share that was caught.
 *
 *   machine_mutants [--only NAME] [--verbose 1] [--print 1]
 *                   [--pipeline PASSES] [--of N]
 *
 * --of: one mutant of N is tried.
 */
#include "test/machine/items.h"
#include "test/machine/mutate.h"
#include "test/machine/problem.h"
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TRIED: those on which a mutant runs that a rule calls harmless. */
enum { SHAPES = 9, TRIED = 2, MOST_GROUPS = 2 };

/* One program, and shapes to run it on. */
typedef struct subject {
    problem problem;
    schedule schedule;
    int shapes[SHAPES][26];
} subject;

#define MATRIX(m, n, k)                                                        \
    {                                                                          \
        AT('M') = m, AT('N') = n, AT('K') = k                                  \
    }
#define IN_PLACE(m, n)                                                         \
    {                                                                          \
        AT('M') = m, AT('N') = n, AT('S') = 3                                  \
    }
#define ATTENTION(m, n, spoiled)                                               \
    {                                                                          \
        AT('B') = 1, AT('H') = 1, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = 24, AT('E') = 24, AT('S') = spoiled                          \
    }
/* For warp groups, of two heads. */
#define WIDE(m, n, spoiled)                                                    \
    {                                                                          \
        AT('B') = 1, AT('H') = 2, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = 24, AT('E') = 24, AT('S') = spoiled                          \
    }

/* Tables of t pages of 16 rows. */
#define PAGED(m, t)                                                            \
    {                                                                          \
        AT('B') = 2, AT('M') = m, AT('T') = t, AT('G') = 7, AT('P') = 16,      \
        AT('D') = 64                                                           \
    }
/* Of two batches; what is spoiled by at most 5 keys is in the second one. */
#define TWICE(m, n, spoiled)                                                   \
    {                                                                          \
        AT('B') = 2, AT('H') = 1, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = 24, AT('E') = 24, AT('S') = spoiled                          \
    }
/* A window in which there are blocks without masks. */
#define LONG(m, window)                                                        \
    {                                                                          \
        AT('B') = 1, AT('H') = 1, AT('G') = 1, AT('M') = m, AT('N') = m,       \
        AT('D') = 24, AT('E') = 24, AT('L') = window                           \
    }

static const subject subjects[] = {
    {{"matmul",
      "matmul",
      {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "f16"}, {"TC", "f32"}},
      {0},
      1e-6},
     {.warps = 4, .stages = 3},
     {MATRIX(40, 48, 88), MATRIX(40, 24, 16), MATRIX(40, 40, 8),
      MATRIX(32, 32, 24), MATRIX(40, 40, 48), MATRIX(32, 32, 0)}},
    {{"matmul_4",
      "matmul",
      {{"BM", "32"}, {"BN", "32"}, {"BK", "16"}, {"T", "bf16"}, {"TC", "f32"}},
      {0},
      1e-6},
     {.warps = 2, .stages = 4},
     {MATRIX(40, 48, 120), MATRIX(40, 24, 8), MATRIX(40, 40, 24),
      MATRIX(40, 40, 40), MATRIX(32, 32, 64), MATRIX(32, 32, 0)}},
    {{"attention",
      "attention_fwd",
      {{"BM", "32"}, {"BN", "16"}, {"D", "24"}, {"T", "bf16"}},
      {0},
      6e-3},
     {.warps = 2, .stages = 3},
     {ATTENTION(40, 60, 0), ATTENTION(20, 8, 0), ATTENTION(32, 24, 0),
      ATTENTION(40, 72, 1), ATTENTION(24, 8, 2), ATTENTION(24, 24, 2),
      ATTENTION(20, 0, 2)}},
    {{"attention_2",
      "attention_fwd",
      {{"BM", "64"},
       {"BN", "16"},
       {"D", "24"},
       {"T", "f16"},
       {"mask_mod", "@causal"}},
      {0},
      2e-3},
     {.warps = 4, .stages = 2},
     {ATTENTION(70, 70, 0), ATTENTION(20, 8, 0), ATTENTION(70, 70, 1),
      ATTENTION(24, 8, 2), ATTENTION(20, 0, 2)}},
    {{"matmul_roles",
      "matmul",
      {{"BM", "?"}, {"BN", "32"}, {"BK", "32"}, {"T", "f16"}, {"TC", "f32"}},
      {0},
      1e-6},
     {.warps = 8, .stages = 2, .target = "sm_90a", .tiles = TC_TILES_NONE},
     {MATRIX(136, 40, 160), MATRIX(136, 40, 16), MATRIX(128, 32, 64),
      MATRIX(64, 64, 104), MATRIX(64, 64, 160), MATRIX(64, 64, 0)}},
    {{"matmul_marks",
      "matmul",
      {{"BM", "64"},
       {"BN", "32"},
       {"BK", "32"},
       {"T", "f16"},
       {"TC", "f32"},
       {"kernel.profile", "64"}},
      {0},
      1e-6},
     {.warps = 4, .stages = 2, .target = "sm_90a", .tiles = TC_TILES_NONE},
     {MATRIX(136, 40, 160), MATRIX(136, 40, 16), MATRIX(128, 32, 64),
      MATRIX(64, 64, 104), MATRIX(64, 64, 160), MATRIX(64, 64, 0)}},
    {{"matmul_static",
      "matmul",
      {{"BM", "?"}, {"BN", "32"}, {"BK", "32"}, {"T", "bf16"}},
      {0},
      4e-3},
     {.warps = 4, .stages = 3, .target = "sm_90a", .tiles = TC_TILES_STATIC},
     {MATRIX(200, 104, 96), MATRIX(200, 40, 16), MATRIX(200, 32, 64),
      MATRIX(200, 64, 104), MATRIX(200, 64, 160), MATRIX(200, 64, 0)}},
    {{"attention_roles",
      "attention_fwd",
      {{"BM", "?"},
       {"BN", "32"},
       {"D", "24"},
       {"T", "bf16"},
       {"mask_mod", "@causal"}},
      {0},
      6e-3},
     {.warps = 8, .stages = 2, .target = "sm_90a", .tiles = TC_TILES_DYNAMIC},
     {TWICE(200, 5, 1), WIDE(72, 40, 2), WIDE(300, 40, 0), WIDE(200, 96, 0),
      WIDE(72, 40, 1), WIDE(72, 72, 0), WIDE(64, 0, 2), WIDE(40, 8, 2)}},
    {{"window_roles",
      "attention_fwd",
      {{"BM", "?"},
       {"BN", "32"},
       {"D", "24"},
       {"T", "f16"},
       {"mask_mod", "@sliding_window"}},
      {0},
      2e-3},
     {.warps = 4, .stages = 2, .target = "sm_90a", .tiles = TC_TILES_DYNAMIC},
     {WIDE(72, 72, 0), WIDE(136, 136, 0), WIDE(72, 72, 1), WIDE(64, 8, 2),
      WIDE(64, 0, 2), TWICE(136, 32, 0), TWICE(60, 5, 1), LONG(260, 150),
      LONG(200, 80)}},
    {{"matmul_moved",
      "matmul",
      {{"BM", "?"}, {"BN", "32"}, {"BK", "32"}, {"T", "f8e4m3"}, {"TC", "f32"}},
      {0},
      1e-6},
     {.warps = 4, .stages = 2, .target = "sm_90a", .tiles = TC_TILES_DYNAMIC},
     {MATRIX(200, 112, 96), MATRIX(200, 48, 16), MATRIX(200, 32, 64),
      MATRIX(200, 64, 112), MATRIX(200, 80, 160), MATRIX(200, 64, 0)}},
    {{"paged",
      "paged",
      {{"BM", "?"}, {"BN", "32"}, {"D", "64"}, {"T", "bf16"}, {"P", "16"}},
      {0},
      6e-3},
     {.warps = 4, .stages = 2, .target = "sm_90a", .tiles = TC_TILES_NONE},
     {PAGED(64, 8), PAGED(64, 1), PAGED(70, 9), PAGED(64, 2), PAGED(64, 5)}},
    {{"kvcache",
      "attention_kvcache",
      {{"BM", "16"},
       {"BN", "16"},
       {"D", "32"},
       {"T", "bf16"},
       {"GROUP", "2"},
       {"PAGE", "16"},
       {"PARTS", "4"},
       {"key_place", "@paged_place"}},
      {0},
      6e-3},
     {.warps = 2, .stages = 3, .target = "sm_90a", .tiles = TC_TILES_NONE},
     {PAGED_CACHE(3, 4, 2, 1, 6, 16, 32, 16, 3, 3),
      PAGED_CACHE(2, 2, 1, 9, 1, 16, 32, 16, 4, 2),
      PAGED_CACHE(1, 2, 1, 1, 9, 16, 32, 16, 1, 2),
      PAGED_CACHE(1, 4, 2, 2, 12, 16, 32, 16, 1, 2),
      PAGED_CACHE(1, 2, 1, 1, 5, 16, 32, 16, 1, 1),
      PAGED_CACHE(1, 4, 2, 8, 2, 16, 32, 16, 1, 5)}},
    {{"kvcache_24",
      "attention_kvcache",
      {{"BM", "16"},
       {"BN", "32"},
       {"D", "24"},
       {"T", "f16"},
       {"GROUP", "3"},
       {"PARTS", "4"},
       {"mask_mod", "@causal"}},
      {0},
      2e-3},
     {.warps = 4, .stages = 2},
     {DENSE_CACHE(3, 6, 2, 1, 90, 24, 16, 3, 3),
      DENSE_CACHE(2, 3, 1, 9, 60, 24, 16, 4, 2),
      DENSE_CACHE(1, 3, 1, 2, 300, 24, 16, 1, 2),
      DENSE_CACHE(1, 3, 1, 1, 40, 24, 16, 1, 1),
      DENSE_CACHE(1, 6, 2, 5, 64, 24, 16, 1, 5)}},
    {{"kvcache_bytes",
      "attention_kvcache",
      {{"BM", "16"},
       {"BN", "16"},
       {"D", "64"},
       {"T", "bf16"},
       {"TK", "f8e4m3"},
       {"TM", "f16"},
       {"TP", "f16"},
       {"SCALE_ROWS", "1"},
       {"P_SHIFT", "15"},
       {"GROUP", "2"},
       {"PARTS", "4"}},
      {0},
      6e-3},
     {.warps = 4, .stages = 3, .target = "sm_90a", .tiles = TC_TILES_NONE},
     {DENSE_CACHE(3, 4, 2, 1, 90, 64, 16, 3, 3),
      DENSE_CACHE(1, 2, 1, 9, 60, 64, 16, 4, 2),
      DENSE_CACHE(1, 2, 1, 2, 200, 64, 16, 1, 2),
      DENSE_CACHE(1, 2, 1, 1, 40, 64, 16, 1, 1)}},
    {{"kvcache_latent",
      "attention_kvcache_latent",
      {{"BM", "64"},
       {"BN", "64"},
       {"TAIL", "32"},
       {"D", "80"},
       {"DV", "64"},
       {"T", "bf16"},
       {"GROUP", "4"},
       {"PAGE", "16"},
       {"key_place", "@paged_place"},
       {"mask_mod", "@causal"}},
      {0},
      6e-3},
     {.warps = 8, .stages = 1, .target = "sm_90a", .tiles = TC_TILES_NONE},
     {LATENT_PAGES(2, 4, 5, 9, 16, 80, 64, 64, 2, 2),
      LATENT_PAGES(1, 4, 2, 7, 16, 80, 64, 64, 1, 1),
      LATENT_PAGES(1, 4, 20, 20, 16, 80, 64, 64, 2, 3)}},
    {{"kvcache_schedule",
      "kvcache_schedule",
      {{"BN", "32"},
       {"GROUP", "4"},
       {"SEQS", "2"},
       {"ITEMS", "16"},
       {"key_count", "@counted_keys"}},
      {0},
      0},
     {.warps = 2, .stages = 2},
     {SCHEDULE(11, 2, 300, 6, 40), SCHEDULE(40, 9, 300, 9, 152),
      SCHEDULE(1, 1, 300, 3, 8), SCHEDULE(3, 2, 300, 2, 40),
      SCHEDULE(16, 4, 300, 1, 36)}},
    {{"kvcache_schedule_reach",
      "kvcache_schedule",
      {{"BN", "32"},
       {"GROUP", "4"},
       {"SEQS", "2"},
       {"ITEMS", "16"},
       {"key_count", "@counted_keys"},
       {"reach", "@window_and_sinks"}},
      {0},
      0},
     {.warps = 2, .stages = 2},
     {SCHEDULE(11, 2, 300, 6, 40), SCHEDULE(40, 9, 300, 9, 152),
      SCHEDULE(1, 1, 300, 3, 8), SCHEDULE(3, 2, 300, 2, 40),
      SCHEDULE(16, 4, 300, 1, 36)}},
    {{"layernorm", "layernorm", {{"BM", "8"}, {"BN", "256"}}, {0}, 2e-6},
     {.warps = 4, .stages = 2},
     {MATRIX(12, 300, 0), MATRIX(8, 256, 0), IN_PLACE(12, 300)}},
};
enum { NSUBJECTS = sizeof subjects / sizeof *subjects };

/* A subject with the data of its shapes. */
typedef struct bench {
    problem problems[SHAPES];
    data data[SHAPES];
    int n;
    unsigned groups; /* that leave out steps of their own; 0: none does */
} bench;

static bool make_bench(const subject *s, bench *b)
{
    *b = (bench){0};
    for (int i = 0; i < SHAPES && s->shapes[i]['M' - 'A']; i++) {
        b->problems[i] = s->problem;
        memcpy(b->problems[i].size, s->shapes[i], sizeof s->shapes[i]);
        if (!problem_data(&b->problems[i], &b->data[i]))
            return false;
        b->n++;
    }
    return true;
}

/* The first shape that shows the mistake; OUTCOME_RIGHT: none. What is found is
 * the same in all orders of the copies, so that they take turns. */
static verdict run_shapes(const char *text, bench *b, int most)
{
    trial trials[SHAPES * (MOST_GROUPS + 1)];
    int n = 0;
    for (unsigned g = 0; g <= b->groups; g++)
        for (int i = 0; i < b->n && i < most; i++)
            trials[n++] = (trial){.problem = &b->problems[i],
                                  .data = &b->data[i],
                                  .order = i % TC_INTERP_ORDER_COUNT,
                                  .seed = 5,
                                  .group = g};
    return run_text(text, trials, n);
}

typedef struct tally {
    size_t total, refused, found, wrong, harmless;
} tally;

typedef struct run_options {
    const char *only, *pipeline;
    bool verbose, print;
    long of; /* one mutant of so many is tried */
} run_options;

static void run_subject(const subject *s, bench *b, const char *text,
                        const run_options *o, tally *all, run_counts *counts)
{
    mutants m = mutants_of(text);
    tally t = {0};
    for (size_t i = 0; i < m.n; i += (size_t)o->of) {
        const mutant *x = &m.of[i];
        t.total++;
        verdict v = run_shapes(x->text, b, x->harmless ? TRIED : SHAPES);
        t.refused += v.outcome == OUTCOME_REFUSED;
        t.found += v.outcome == OUTCOME_FOUND;
        t.wrong += v.outcome == OUTCOME_WRONG;
        t.harmless += v.outcome == OUTCOME_RIGHT && x->harmless;
        run_check(counts, v.outcome != OUTCOME_RIGHT || x->harmless,
                  "%s: nothing shows \"%s\"", s->problem.name, x->what);
        if (o->verbose)
            printf("  %s\n    %s\n", x->what,
                   v.outcome != OUTCOME_RIGHT ? v.message : "harmless");
    }
    printf("%s: %zu mutants: %zu found, %zu wrong results, %zu refused, %zu "
           "harmless\n",
           s->problem.name, t.total, t.found, t.wrong, t.refused, t.harmless);
    all->total += t.total;
    all->refused += t.refused;
    all->found += t.found;
    all->wrong += t.wrong;
    all->harmless += t.harmless;
    mutants_free(&m);
}

static void try_subject(const subject *s, const run_options *o, tally *all,
                        run_counts *counts)
{
    bench b;
    schedule sch = s->schedule;
    sch.pipeline = o->pipeline;
    if (run_check(counts, make_bench(s, &b), "%s on the CPU",
                  s->problem.name)) {
        char *text = problem_text(&b.problems[0], &sch, &b.data[0]);
        verdict v = {.outcome = OUTCOME_REFUSED, .message = "no text"};
        if (text && o->print)
            printf("%s", text);
        if (text && strstr(text, "warpgroup_row"))
            b.groups = s->schedule.warps / 4;
        if (text)
            v = run_shapes(text, &b, SHAPES);
        if (run_check(counts, v.outcome == OUTCOME_RIGHT, "%s as it is: %s",
                      s->problem.name, v.message))
            run_subject(s, &b, text, o, all, counts);
        free(text);
    }
    for (int i = 0; i < b.n; i++)
        data_free(&b.data[i]);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    tally all = {0};
    run_options o = {.verbose = run_option(argc, argv, "verbose", 0),
                     .print = run_option(argc, argv, "print", 0),
                     .of = run_option(argc, argv, "of", 1)};
    o.of = o.of < 1 ? 1 : o.of;
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--only") == 0)
            o.only = argv[i + 1];
        if (strcmp(argv[i], "--pipeline") == 0)
            o.pipeline = argv[i + 1];
    }
    for (int i = 0; i < NSUBJECTS; i++)
        if (!o.only || strcmp(o.only, subjects[i].problem.name) == 0)
            try_subject(&subjects[i], &o, &all, &counts);
    size_t caught = all.refused + all.found + all.wrong;
    size_t mistakes = all.total - all.harmless;
    printf("%zu mutants, %zu of them harmless by a rule; of the %zu mistakes "
           "%zu are caught (%.1f %%), %zu with a line\n",
           all.total, all.harmless, mistakes, caught,
           mistakes ? 100.0 * (double)caught / (double)mistakes : 0.0,
           all.found);
    run_check(&counts, o.only || all.total >= 50, "50 mutants or more");
    return run_finish(&counts);
}
