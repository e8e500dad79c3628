/* SPDX-License-Identifier: Apache-2.0
 *
 * Which products are those of warp groups (wgmma), and that they are right
 * where shapes are out of the ordinary: several blocks of rows a group, sides
 * that are no powers of two, bytes, products that some of 12 warps do twice.
 * Run by the interpreter and compared with the CPU; machine_kernels has all
 * usual ones.
 *
 *   machine_groups [--only NAME] [--print 1] [--pipeline PASSES]
 */
#include "test/machine/problem.h"
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(letter) [(letter) - 'A']

#define ATTENTION(m, n, d, e)                                                  \
    {                                                                          \
        AT('B') = 1, AT('H') = 2, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = d, AT('E') = e, AT('T') = 9                                  \
    }
/* Infinities and a NaN in v. */
#define SPOILED(m, n, d)                                                       \
    {                                                                          \
        AT('B') = 1, AT('H') = 1, AT('G') = 1, AT('M') = m, AT('N') = n,       \
        AT('D') = d, AT('E') = d, AT('S') = 1                                  \
    }
#define MATRIX(m, n, k)                                                        \
    {                                                                          \
        AT('M') = m, AT('N') = n, AT('K') = k                                  \
    }
#define TILES(bm, bn, d, t)                                                    \
    {"BM", bm}, {"BN", bn}, {"D", d},                                          \
    {                                                                          \
        "T", t                                                                 \
    }

typedef struct group_problem {
    problem problem;
    unsigned warps;    /* 0: as the compiler chooses */
    unsigned products; /* of warp groups, in the text */
} group_problem;

static const group_problem problems[] = {
    {{"two_blocks",
      "attention_fwd",
      {TILES("128", "32", "32", "f16")},
      ATTENTION(130, 40, 32, 32),
      2e-3},
     4,
     2},
    {{"three_causal",
      "attention_fwd",
      {TILES("192", "80", "16", "bf16"), {"mask_mod", "@causal"}},
      ATTENTION(250, 250, 16, 16),
      6e-3},
     12,
     2},
    {{"d96_of_192",
      "attention_fwd",
      {TILES("64", "80", "192", "bf16"), {"DV", "96"}},
      ATTENTION(64, 100, 192, 96),
      6e-3},
     4,
     2},
    {{"d24",
      "attention_fwd",
      {TILES("192", "16", "24", "f16")},
      ATTENTION(150, 40, 24, 24),
      2e-3},
     12,
     2},
    /* V comes by rows, and is transposed on the way. */
    {{"bytes",
      "attention_fwd",
      {TILES("128", "64", "64", "f8e4m3")},
      ATTENTION(130, 100, 64, 64),
      8e-2},
     8,
     2},
    /* Two groups share 64 rows: each has half of the columns. */
    {{"shared_rows",
      "attention_fwd",
      {TILES("64", "32", "32", "bf16")},
      ATTENTION(64, 70, 32, 32),
      6e-3},
     8,
     2},
    {{"too_many_warps",
      "attention_fwd",
      {TILES("64", "32", "32", "bf16")},
      ATTENTION(64, 70, 32, 32),
      6e-3},
     16,
     0},
    {{"spoiled_three",
      "attention_fwd",
      {TILES("192", "32", "80", "bf16")},
      SPOILED(200, 50, 80),
      6e-3},
     12,
     2},
    {{"spoiled_bytes",
      "attention_fwd",
      {TILES("192", "32", "32", "f8e5m2")},
      SPOILED(192, 33, 32),
      2e-1},
     12,
     2},
    {{"spoiled_f32",
      "attention_fwd",
      {TILES("192", "16", "16", "f32")},
      SPOILED(192, 33, 16),
      4e-6},
     12,
     0},
    /* The end of a tile takes the memory of q. */
    {{"d256",
      "attention_fwd",
      {TILES("128", "80", "256", "bf16")},
      ATTENTION(150, 170, 256, 256),
      6e-3},
     8,
     2},
    {{"spoiled_d256",
      "attention_fwd",
      {TILES("128", "80", "256", "bf16")},
      SPOILED(150, 90, 256),
      6e-3},
     8,
     2},
    {{"matmul",
      "matmul",
      {{"BM", "64"}, {"BN", "72"}, {"BK", "32"}, {"T", "bf16"}},
      MATRIX(70, 152, 104),
      4e-3},
     4,
     0}, /* rows of b: 144 bytes */
    {{"matmul_two",
      "matmul",
      {{"BM", "128"}, {"BN", "80"}, {"BK", "48"}, {"T", "f16"}, {"TC", "f32"}},
      MATRIX(130, 104, 152),
      1e-6},
     0,
     1},
    {{"matmul_four_blocks",
      "matmul",
      {{"BM", "256"}, {"BN", "16"}, {"BK", "16"}, {"T", "bf16"}},
      MATRIX(256, 16, 40),
      4e-3},
     0,
     1},
};
enum { NPROBLEMS = sizeof problems / sizeof *problems };

static const char chosen[] =
    "gpu-tile,assign-layouts,assign-shared,remove-conversions,cse,dce,"
    "pipeline-loops,lower-conversions,cse,licm,dce,allocate-shared,"
    "insert-barriers";

typedef struct group_options {
    const char *only;
    bool print;
} group_options;

static unsigned count(const char *text, const char *word)
{
    unsigned n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

static void run_schedule(const group_problem *g, const char *pipeline,
                         unsigned stages, data *d, run_counts *counts,
                         const group_options *o)
{
    const problem *p = &g->problem;
    schedule s = {.warps = g->warps,
                  .stages = stages,
                  .pipeline = pipeline,
                  .target = "sm_90a"};
    char *text = problem_text(p, &s, d);
    if (!run_check(counts, text != NULL, "%s compiles", p->name))
        return;
    if (o->print)
        printf("%s", text);
    unsigned products = count(text, "instr(m64");
    run_check(counts, pipeline != chosen || products == g->products,
              "%s: %u products of warp groups, expected %u", p->name, products,
              g->products);
    const trial trials[] = {
        {.problem = p, .data = d, .order = TC_INTERP_LATE, .seed = 3},
        {.problem = p, .data = d, .order = TC_INTERP_RANDOM, .seed = 5}};
    verdict v = run_text(text, trials, 2);
    run_check(counts, v.outcome == OUTCOME_RIGHT, "%s, %u stages: %s", p->name,
              stages, v.message);
    free(text);
}

static void run_problem(const group_problem *g, run_counts *counts,
                        const group_options *o)
{
    data d;
    if (!run_check(counts, problem_data(&g->problem, &d), "%s on the CPU",
                   g->problem.name))
        return;
    for (unsigned stages = 1; stages <= 2; stages++)
        run_schedule(g, chosen, stages, &d, counts, o);
    run_schedule(g, NULL, 0, &d, counts, o);
    data_free(&d);
}

int main(int argc, char **argv)
{
    run_counts counts = {0};
    group_options o = {.print = run_option(argc, argv, "print", 0)};
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--only") == 0)
            o.only = argv[i + 1];
    for (int i = 0; i < NPROBLEMS; i++)
        if (!o.only || strcmp(o.only, problems[i].problem.name) == 0)
            run_problem(&problems[i], &counts, &o);
    return run_finish(&counts);
}
