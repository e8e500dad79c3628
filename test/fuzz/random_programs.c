/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs, run as the target's pipeline makes them, as a random
 * pipeline makes them, and hardly changed at all: the results must agree bit
 * for bit (but for the payload of a NaN), and the rough ones nearly. So must
 * the code for older machines, and the plan whose programs share a loop, and
 * the text after each pass must read back as the same program.
 *
 *   random_programs [--seed N] [--seeds N] [--seconds N] [--statements N]
 *                   [--print 1] [--ops 1]
 *
 * Runs `seeds` programs, or as many as fit into `seconds`. One that fails is
 * printed. --ops: runs none, but says which ops of the language the programs
 * lack.
 */
#include "codegen/host/host.h"
#include "passes/passes.h"
#include "test/fuzz/memory.h"
#include "test/numerics/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char plain[] =
    "bind-params,expand-breaks,inline,lower-storage,split-batches,expand-sorts";

static bool launch(const tilec_kernel *k, const memory *m, tilec_error *error)
{
    run_view views[NARGS];
    tilec_argument args[NARGS];
    memory_launch(m, views, args);
    return run_launch(k, args, NARGS, NULL, error) == TILEC_OK;
}

static tilec_kernel *compile(tilec_context *cx, const program *p,
                             const char *pipeline)
{
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.pipeline = pipeline;
    o.verify_each = 1;
    tilec_kernel *k = run_compile(cx, p->text, &o);
    if (!k)
        printf("pipeline %s: does not compile\n", pipeline ? pipeline : "cpu");
    return k;
}

/* The plan of its split; NULL: has none, or does not compile. */
static tilec_kernel *compile_split(tilec_context *cx, const program *p)
{
    tilec_binding split = {"kernel.split", p->split};
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.bindings = &split;
    o.nbindings = 1;
    o.verify_each = 1;
    tilec_kernel *k = p->split ? run_compile(cx, p->text, &o) : NULL;
    if (p->split && !k)
        printf("split(%s): does not compile\n", p->split);
    return k;
}

/* A few passes in any order. */
static void any_pipeline(num_rng *r, char text[160])
{
    static const char *const passes[] = {
        "canonicalize", "cse",         "licm",        "dce",
        "bound-loops",  "elide-masks", "narrow-dots", "transpose-propagation",
        "swap-operands"};
    strcpy(text, plain);
    for (int n = num_between(r, 1, 4); n--;) {
        strcat(text, ",");
        strcat(text, passes[num_below(r, 9)]);
    }
}

static bool agree(const program *p, const tilec_kernel *a,
                  const tilec_kernel *b, const char *pipeline, uint64_t seed)
{
    memory x = memory_new(p, seed), y = memory_new(p, seed);
    tilec_error ex = {0}, ey = {0};
    char text[160];
    bool ran = launch(a, &x, &ex), also = launch(b, &y, &ey);
    bool ok = ran && also && !memory_difference(&x, &y, text);
    if (!ran)
        printf("unoptimised, launch: %s\n", ex.message);
    else if (!also)
        printf("pipeline %s, launch: %s\n", pipeline, ey.message);
    else if (!ok)
        printf("pipeline %s, n=%d, x=%g: %s\n", pipeline, x.n, x.x, text);
    memory_free(&x);
    memory_free(&y);
    return ok;
}

/* Print, parse and print again after each pass. */
static bool round_trips(const program *p, const char *pipeline)
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    tc_pass_options o = {.round_trip = true, .verify_each = true};
    bool ok =
        tc_parse(m, tc_source_add(cx, "random", p->text, strlen(p->text))) &&
        tc_module_verify(m) && tc_run_pipeline(m, pipeline, &o);
    for (tc_diag *d = cx->diags; d; d = d->next)
        printf("pipeline %s: %u:%u: %s\n", pipeline, d->loc.line, d->loc.col,
               d->message);
    tc_module_free(m);
    tc_context_free(cx);
    return ok;
}

/* ---- Code for other machines: below the library, which knows but one ---- */

static bool launch_host(const tc_host_kernel *k, const memory *m)
{
    tc_launch_arg args[NARGS];
    memory_arguments(m, args);
    const int32_t grid[3] = {PROGRAM_GRID, 1, 1};
    tc_host_report report = {0};
    if (tc_host_launch(k, args, grid, NULL, &report))
        return true;
    printf("launch: %s\n", report.message);
    return false;
}

static bool same_on(const tc_host_kernel *k, const tilec_kernel *base,
                    const program *p, const char *cpu, uint64_t seed)
{
    memory x = memory_new(p, seed), y = memory_new(p, seed);
    tilec_error error = {0};
    char text[160];
    bool ok = launch(base, &x, &error) && launch_host(k, &y);
    if (ok && memory_difference(&x, &y, text)) {
        printf("cpu %s: %s\n", cpu, text);
        ok = false;
    }
    memory_free(&x);
    memory_free(&y);
    return ok;
}

static bool runs_on(const program *p, const tilec_kernel *base, const char *cpu,
                    uint64_t seed)
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    tc_pass_options o = {0};
    tc_host_options host = {.cpu = cpu};
    tc_host_kernel *k = NULL;
    if (tc_parse(m, tc_source_add(cx, "random", p->text, strlen(p->text))) &&
        tc_run_pipeline(m, "cpu", &o))
        k = tc_host_compile(tc_func_find(m, "random"), &host);
    for (tc_diag *d = cx->diags; d; d = d->next)
        printf("cpu %s: %s\n", cpu, d->message);
    bool ok = k && same_on(k, base, p, cpu, seed);
    tc_host_free(k);
    tc_module_free(m);
    tc_context_free(cx);
    return ok;
}

static bool runs_elsewhere(const program *p, const tilec_kernel *base,
                           uint64_t seed)
{
#ifdef __x86_64__
    return runs_on(p, base, "x86-64", seed) &&
           runs_on(p, base, "x86-64-v2", seed) &&
           (!__builtin_cpu_supports("avx2") ||
            runs_on(p, base, "x86-64-v3", seed));
#else
    return true;
#endif
}

static bool run_seed(tilec_context *cx, uint64_t seed, int statements)
{
    num_rng r = {seed ^ 0x5eed};
    program p = program_new(seed, statements);
    char pipeline[160];
    any_pipeline(&r, pipeline);
    const char *pipelines[] = {NULL, pipeline};
    tilec_kernel *base = compile(cx, &p, plain);
    bool ok = base && round_trips(&p, "cpu") && round_trips(&p, pipeline);
    for (int i = 0; ok && i < 2; i++) {
        tilec_kernel *k = compile(cx, &p, pipelines[i]);
        const char *name = pipelines[i] ? pipelines[i] : "cpu";
        ok = k != NULL;
        for (int input = 0; ok && input < 3; input++)
            ok = agree(&p, base, k, name, num_next(&r));
        tilec_kernel_free(k);
    }
    tilec_kernel *split = ok ? compile_split(cx, &p) : NULL;
    ok = ok && !!split == !!p.split &&
         (!split || agree(&p, base, split, "split", num_next(&r)));
    tilec_kernel_free(split);
    ok = ok && runs_elsewhere(&p, base, num_next(&r));
    if (!ok)
        printf("%s", p.text);
    tilec_kernel_free(base);
    program_free(&p);
    return ok;
}

static void print_program(uint64_t seed, int statements)
{
    program p = program_new(seed, statements);
    fputs(p.text, stdout);
    program_free(&p);
}

/* ---- Which ops they have ---- */

/* Why no program has it; NULL: some have. */
static const char *const left_out[TC_OPCODE_COUNT] = {
    [TC_VJP] = "results of gradients are not exact (test/unit/gradients.c)",
    [TC_DIM] = "sizes are numbers (test/ir/passes/bind-params)",
    [TC_BISECT] = "wants an ascending tensor (test/numerics/lists.c)",
    [TC_FOLLOW] = "joins programs (test/machine/orders.c)",
    [TC_FOLLOW_END] = "joins programs (test/machine/orders.c)",
    [TC_NUM_SMS] = "of persistent kernels, which passes make",
    [TC_NEXT_TILE] = "of persistent kernels, which passes make",
    [TC_END_TILES] = "of persistent kernels, which passes make",
    [TC_WORKSPACE] = "of plans, which split-k makes",
    [TC_FILL] = "of plans (test/numerics/plans.c)",
    [TC_LAUNCH] = "of plans, which split-k makes"};

static void count_ops(const char *text, long counts[TC_OPCODE_COUNT])
{
    tc_context *cx = tc_context_new();
    tc_module *m = tc_module_new(cx);
    if (tc_parse(m, tc_source_add(cx, "random", text, strlen(text))))
        tc_each_func (f, m)
            tc_each_nested (op, f->body)
                counts[op->code]++;
    tc_module_free(m);
    tc_context_free(cx);
}

static int check_ops(uint64_t seed, long seeds, int statements)
{
    long counts[TC_OPCODE_COUNT] = {0};
    run_counts run = {0};
    for (long i = 0; i < seeds; i++) {
        program p = program_new(seed + (uint64_t)i, statements);
        count_ops(p.text, counts);
        program_free(&p);
    }
    for (int i = 0; i < TC_OPCODE_COUNT; i++)
        if (!(tc_op_infos[i].traits & TC_MACHINE))
            run_check(&run, (counts[i] > 0) == !left_out[i],
                      "%s: in %ld places, %s", tc_op_infos[i].name, counts[i],
                      left_out[i] ? "expected none" : "expected some");
    return run_finish(&run);
}

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)run_option(argc, argv, "seed", 1);
    long seconds = run_option(argc, argv, "seconds", 0);
    long seeds = run_option(argc, argv, "seeds", seconds ? 1 << 30 : 100);
    int statements = (int)run_option(argc, argv, "statements", 12);
    if (run_option(argc, argv, "print", 0)) {
        print_program(seed, statements);
        return 0;
    }
    if (run_option(argc, argv, "ops", 0))
        return check_ops(seed, seeds, statements);
    tilec_context *cx;
    tilec_context_options options = TILEC_INIT(tilec_context_options);
    run_counts counts = {0};
    double start = run_seconds();
    options.target = "cpu";
    if (tilec_context_new(&options, &cx) != TILEC_OK)
        return 1;
    for (long i = 0; i < seeds && counts.failed < 10; i++, seed++) {
        if (seconds && run_seconds() - start > (double)seconds)
            break;
        run_check(&counts, run_seed(cx, seed, statements),
                  "--seed %llu --statements %d", (unsigned long long)seed,
                  statements);
    }
    tilec_context_free(cx);
    return run_finish(&counts);
}
