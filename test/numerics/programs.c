/* SPDX-License-Identifier: Apache-2.0
 *
 * Small programs for what single ops do not show: control flow, memory,
 * reductions with a region, calls, atomics, errors at run time, print.
 */
#include "test/numerics/programs.h"

#include <stdlib.h>
#include <string.h>

/* ---- Errors while running ---- */

static void run_failures(tilec_context *cx, run_counts *counts)
{
    world_run_failure(cx, "assert", "4",
                      "%k = program_id(0)\n"
                      "assert %k < %n, \"too many programs\"\n",
                      2, "too many programs", 2, counts);
    world_run_failure(cx, "assert of a tile", "1",
                      "%t = load %i[0, 0 +: 64]\n"
                      "assert %t != %t + 0 * %n, \"all lanes\"\n",
                      1, "all lanes", 2, counts);
    world_run_failure(cx, "load beyond the end", "1",
                      "%t = load %x[%n +: 16, 0 +: 8]\n"
                      "store %o[0 +: 16, 0 +: 8], %t\n",
                      20, "boundary(0)", 1, counts);
    world_run_failure(cx, "load before the start", "1",
                      "%t = load %x[0 +: 16, %n +: 8] boundary(0)\n"
                      "store %o[0 +: 16, 0 +: 8], %t\n",
                      -1, "boundary(1)", 1, counts);
    world_run_failure(cx, "store beyond the end", "1",
                      "%t = load %x[0 +: 16, 0 +: 8]\n"
                      "store %o[0 +: 16, %n +: 8], %t boundary(0)\n",
                      121, "boundary(1)", 2, counts);
    world_run_failure(cx, "dropped offset", "1",
                      "%t = load %x[%n, 0 +: 8]\n"
                      "store %o[0, 0 +: 8], %t\n",
                      32, "%x", 1, counts);
    world_run_failure(cx, "negative dropped offset", "1",
                      "%t = load %x[0 +: 8, %n]\n"
                      "store %o[0, 0 +: 8], %t\n",
                      -1, "%x", 1, counts);
}

static void run_prints(tilec_context *cx, run_counts *counts)
{
    /* There it is the driver that prints. */
    if (run_device())
        return;
    char *text = world_run_print(cx, "print", "1",
                                 "print \"the value\", %n\n"
                                 "%t = load %i[0, 0 +: 8]\n"
                                 "print \"a tile\", %t, 2.5\n",
                                 -42, counts);
    run_check(counts, strstr(text, "the value") && strstr(text, "-42"),
              "print: no value in: %s", text);
    run_check(counts, strstr(text, "a tile") && strstr(text, "2.5"),
              "print: no tile in: %s", text);
    free(text);
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    run_counts counts = {0};
    tilec_context *cx = run_context();
    const world_test *const tables[] = {programs_control, programs_memory,
                                        programs_values};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const world_test *t = tables[i]; t->name; t++)
            world_run(cx, t, &counts);
    run_failures(cx, &counts);
    run_prints(cx, &counts);
    run_context_free(cx);
    return run_finish(&counts);
}
