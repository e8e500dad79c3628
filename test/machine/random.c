/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs at machine level, run by the interpreter: nothing is found,
 * and the results are those of the CPU, bit for bit (but for the payload of a
 * NaN; rough ones nearly); so are the lines that each program prints. Targets,
 * warps, stages and the order of copies change from program to program. If its
 * programs may share a loop, so do they: the plan's kernels, one after the
 * other.
 *
 *   machine_random [--seed N] [--seeds N] [--statements N]
 */
#include "codegen/interp/interp.h"
#include "passes/passes.h"
#include "test/fuzz/memory.h"
#include "test/machine/plan.h"
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each program of the grid has printed. */
typedef struct prints {
    FILE *to[PROGRAM_GRID];
    char *text[PROGRAM_GRID];
    size_t length[PROGRAM_GRID];
    int now; /* whose rows come */
} prints;

static void prints_begin(prints *p)
{
    p->now = 0;
    for (int i = 0; i < PROGRAM_GRID; i++)
        p->to[i] = open_memstream(&p->text[i], &p->length[i]);
}

static void take_line(void *user, const char *line)
{
    prints *p = user;
    int id;
    if (sscanf(line, "program (%d,", &id) == 1 && id >= 0 && id < PROGRAM_GRID)
        p->now = id;
    fprintf(p->to[p->now], "%s\n", line);
}

static void prints_end(prints *p)
{
    for (int i = 0; i < PROGRAM_GRID; i++)
        fclose(p->to[i]);
}

static bool prints_agree(const prints *want, const prints *have)
{
    for (int i = 0; i < PROGRAM_GRID; i++)
        if (strcmp(want->text[i], have->text[i]) != 0) {
            printf("program %d prints:\n%sthe CPU's:\n%s", i, have->text[i],
                   want->text[i]);
            return false;
        }
    return true;
}

static void prints_free(prints *p)
{
    for (int i = 0; i < PROGRAM_GRID; i++)
        free(p->text[i]);
}

static bool run_on_cpu(tilec_context *cx, const program *p, const memory *m,
                       prints *lines)
{
    tilec_launch_options launch = TILEC_INIT(tilec_launch_options);
    launch.print = take_line;
    launch.user = lines;
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    tilec_kernel *k = run_compile(cx, p->text, &o);
    run_view views[NARGS];
    tilec_argument args[NARGS];
    memory_launch(m, views, args);
    tilec_error error = {0};
    bool ok = k && tilec_launch(k, args, NARGS, &launch, &error) == TILEC_OK;
    if (!ok)
        printf("cpu: %s\n", error.message);
    tilec_kernel_free(k);
    return ok;
}

static bool interpret(tc_context *cx, tc_module *m, const program *p,
                      const memory *to, uint64_t seed, prints *lines)
{
    /* Rows of the outputs are as long as the program has results: mostly no
     * multiples of 16 bytes. */
    const char *target = seed / 4 % 2 ? "sm_90a" : "sm_80";
    tc_pass_options o = {.target = tc_target_get(target),
                         .warps = 1u << seed % 4,
                         .stages = 1 + (unsigned)seed % 3,
                         .verify_each = true,
                         .any_alignment = true};
    tc_interp_options how = {
        .order = (tc_interp_order)(seed % TC_INTERP_ORDER_COUNT),
        .seed = seed,
        .print = take_line,
        .user = lines};
    tc_launch_arg args[NARGS];
    memory_arguments(to, args);
    return tc_parse(m, tc_source_add(cx, "random", p->text, strlen(p->text))) &&
           tc_run_pipeline(m, "gpu", &o) &&
           tc_interp_run(tc_func_find(m, "random"), args, &how);
}

static bool run_on_machine(const program *p, const memory *to, uint64_t seed,
                           prints *lines)
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    bool ok = interpret(cx, m, p, to, seed, lines);
    for (const tc_diag *d = cx->diags; d; d = d->next)
        if (d->severity == TC_ERROR)
            printf("%u:%u: %s\n", d->loc.line, d->loc.col, d->message);
    tc_module_free(m);
    tc_context_free(cx);
    return ok;
}

static bool interpret_split(const tilec_kernel *k, const memory *to)
{
    run_view views[NARGS];
    tilec_argument args[NARGS];
    memory_launch(to, views, args);
    return plan_interpret(k, args, NARGS);
}

/* True too if it has no split. */
static bool split_agrees(tilec_context *cx, const program *p,
                         const memory *want, uint64_t seed)
{
    if (!p->split)
        return true;
    tilec_binding split = {"kernel.split", p->split};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.target = seed / 4 % 2 ? "sm_90a" : "sm_80";
    o.bindings = &split;
    o.nbindings = 1;
    memory have = memory_new(p, seed);
    tilec_kernel *k = run_compile(cx, p->text, &o);
    char text[160];
    bool ran = k && interpret_split(k, &have);
    bool ok = ran && !memory_difference(want, &have, text);
    if (!ok)
        printf("split(%s) for %s: %s\n", p->split, o.target,
               ran ? text : "not run");
    tilec_kernel_free(k);
    memory_free(&have);
    return ok;
}

static bool run_seed(tilec_context *cx, uint64_t seed, int statements)
{
    program p = program_new(seed, statements);
    memory want = memory_new(&p, seed), have = memory_new(&p, seed);
    char text[160];
    prints lines, machine_lines;
    prints_begin(&lines);
    prints_begin(&machine_lines);
    bool ok = run_on_cpu(cx, &p, &want, &lines) &&
              run_on_machine(&p, &have, seed, &machine_lines);
    prints_end(&lines);
    prints_end(&machine_lines);
    ok = ok && prints_agree(&lines, &machine_lines);
    if (ok && memory_difference(&want, &have, text)) {
        printf("%s\n", text);
        ok = false;
    }
    ok = ok && split_agrees(cx, &p, &want, seed);
    if (!ok)
        printf("seed %llu, %d warps:\n%s", (unsigned long long)seed,
               1 << seed % 4, p.text);
    prints_free(&lines);
    prints_free(&machine_lines);
    memory_free(&want);
    memory_free(&have);
    program_free(&p);
    return ok;
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)run_option(argc, argv, "seed", 1);
    long seeds = run_option(argc, argv, "seeds", 100);
    int statements = (int)run_option(argc, argv, "statements", 12);
    run_counts counts = {0};
    tilec_context *cx = run_context();
    for (long i = 0; i < seeds; i++)
        if (run_seed(cx, seed + (uint64_t)i, statements))
            counts.passed++;
        else
            counts.failed++;
    run_context_free(cx);
    return run_finish(&counts);
}
