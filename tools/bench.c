/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec bench: the speed of a kernel, and whether its results are right.
 */
#include "tools/common/progress.h"
#include "tools/decode/decode.h"
#include "tools/measure/ranking.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 30, SECONDS = 60 };

static int read_trial_options(const tool_args *args, trial_options *o)
{
    const char *runs = tool_value(args, "--runs");
    const char *limit = tool_value(args, "--timeout");
    char *end = NULL;
    long n = runs ? strtol(runs, &end, 10) : RUNS;
    if (runs && (end == runs || *end || n < 1 || n > 1000))
        return tool_usage(args->command, "--runs is `%s`, expected 1 to 1000",
                          runs);
    double seconds = limit ? strtod(limit, &end) : SECONDS;
    if (limit && (end == limit || *end || !(seconds > 0)))
        return tool_usage(args->command,
                          "--timeout is `%s`, expected seconds above 0", limit);
    o->runs = (unsigned)n;
    o->limit = seconds;
    return EXIT_DONE;
}

/* One variant is run here, where debuggers and profilers find it. */
static int try_one(const workload *w, const trial_options *o, ranked *only)
{
    tilec_context *cx;
    if (tilec_context_new(NULL, &cx)) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    progress_show("timing @%s", w->kernel);
    trial_run(w, &only->variant, o, cx, &only->trial);
    progress_end();
    int code = EXIT_DONE;
    if (only->trial.state == TRIAL_REFUSED)
        code = report_compile(cx, (tilec_status)only->trial.code);
    tilec_context_free(cx);
    return code;
}

static int bench(workload *w, const space *s, ranked *list, size_t n)
{
    trial_options o = {0};
    int code = read_trial_options(w->args, &o);
    code = code ? code : progress_read(w->args);
    if (!code)
        code = workload_prepare(w, s);
    for (size_t i = 0; i < n; i++)
        list[i].variant = space_at(s, i);
    if (!code && n > 1)
        ranking_try(w, s, &o, list, n);
    else if (!code)
        code = try_one(w, &o, list);
    if (code)
        return code;
    ranking_sort(list, n);
    if (!tool_has(w->args, "--json"))
        ranking_print(w, s, list, n);
    else if ((code = ranking_print_json(w, s, list, n)))
        return code;
    return ranking_code(list, n);
}

static int refuse_decode(const tool_args *args)
{
    static const tool_option of_decode[] = {DECODE_OPTIONS, {0}};
    for (const tool_option *o = of_decode; o->name; o++)
        if (tool_has(args, o->name))
            return tool_usage(args->command, "%s is for `%s decode`", o->name,
                              args->command->name);
    return EXIT_DONE;
}

static int bench_run(const tool_args *args)
{
    if (args->nwords && strcmp(args->words[0], "decode") == 0)
        return decode_bench(args);
    space *s = calloc(1, sizeof *s);
    workload *w = calloc(1, sizeof *w);
    ranked *list = NULL;
    int code = refuse_decode(args);
    if (!code)
        code = s && w ? space_read(s, args) : EXIT_MACHINE;
    size_t n = s && !code ? space_count(s) : 0;
    if (!code)
        list = calloc(n, sizeof *list);
    if (!code && list)
        code = workload_read(w, args);
    if (!code)
        code = list ? bench(w, s, list, n) : EXIT_MACHINE;
    if (w)
        workload_free(w);
    free(list);
    free(w);
    free(s);
    return code;
}

static const tool_option options[] = {
    WORKLOAD_OPTIONS,
    DECODE_OPTIONS,
    PROGRESS_OPTION,
    {"--runs", "N", "how often it is timed (default: 30); the median counts"},
    {"--timeout", "SECONDS", "of a variant of a --sweep (default: 60)"},
    {"--json", NULL, "print an object a line, one for each variant"},
    {0}};

const tool_command tool_bench = {
    "bench",
    "attention --shape BxHxMxD | decode | FILE.tile[@kernel] [NAME=VALUE...] "
    "[options]",
    "Times a kernel, and checks what it gives against the CPU target.",
    "FILE may be the name of an embedded program, such as matmul. "
    "Arguments:\n" INPUTS_HELP
    "Those of attention are what a mask or score function captures.\n"
    "Times are by events around launches in a row, on the CPU by the clock.\n"
    "`decode` is attention over a cache of keys and values: each launch has\n"
    "another cache, so that it reads keys and values from memory once, which\n"
    "GB/s count.\n"
    "FLOP are those of products (attention: of the pairs that the mask lets\n"
    "see); GB/s are all tensors once.\n",
    options,
    bench_run};
