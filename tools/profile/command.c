/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/progress.h"
#include "tools/measure/workload.h"
#include "tools/profile/profile.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS = 2048, RUNS = 10, MOST_RUNS = 1000 };

typedef struct profile_options {
    unsigned records, runs, programs;
} profile_options;

static int read_number(const tool_args *args, const char *option, long most,
                       unsigned *out)
{
    const char *text = tool_value(args, option);
    char *end;
    if (!text)
        return EXIT_DONE;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > most)
        return tool_usage(args->command, "%s is `%s`, expected 1 to %ld",
                          option, text, most);
    *out = (unsigned)n;
    return EXIT_DONE;
}

static int read_options(const tool_args *args, profile_options *o)
{
    *o = (profile_options){RECORDS, RUNS, TC_PROFILE_PROGRAMS};
    int code = read_number(args, "--records", TC_MAX_PROFILE, &o->records);
    code = code ? code : read_number(args, "--runs", MOST_RUNS, &o->runs);
    if (!code)
        code =
            read_number(args, "--programs", TC_PROFILE_PROGRAMS, &o->programs);
    if (code)
        return code;
    if (!tc_is_profile(o->records))
        return tool_usage(args->command,
                          "--records is %u, expected a power of two from %d to "
                          "%d",
                          o->records, TC_MIN_PROFILE, TC_MAX_PROFILE);
    if (tool_has(args, "--sweep"))
        return tool_usage(args->command,
                          "--sweep is for `bench` and `tune`: a profile is of "
                          "one variant");
    return progress_read(args);
}

static int get(const tool_args *args, const profile_options *o, recording *r)
{
    const char *from = tool_value(args, "--from");
    if (!from)
        return measure_profile(args, o->records, o->runs, r);
    if (args->nwords)
        return tool_usage(args->command,
                          "--from FILE is a kernel's profile already: expected "
                          "no program");
    return recording_read(r, from);
}

static int put(const tool_args *args, const profile_options *o,
               const recording *r)
{
    profile_statistics s = {0};
    const char *record = tool_value(args, "--record");
    const char *trace = tool_value(args, "--trace");
    int code = record ? recording_write(r, record, o->programs) : EXIT_DONE;
    code = code ? code : statistics_make(r, &s);
    if (!code && trace)
        code = write_trace(r, &s, trace, o->programs);
    if (!code && tool_has(args, "--json"))
        code = print_timeline(r, &s);
    else if (!code)
        show_profile(r, &s);
    statistics_free(&s);
    if (!code && r->us > 0 && !r->same) {
        report("the results with marks differ from those without: the kernel "
               "has a race, or adds in an order that is not fixed");
        code = EXIT_INPUT;
    }
    return code;
}

static int profile_run(const tool_args *args)
{
    profile_options o;
    recording r = {0};
    int code = read_options(args, &o);
    code = code ? code : get(args, &o, &r);
    code = code ? code : put(args, &o, &r);
    recording_free(&r);
    return code;
}

static const tool_option options[] = {
    WORKLOAD_OPTIONS,
    PROGRESS_OPTION,
    {"--records", "N",
     "of each warp group's ring, a power of two (default: 2048);\n"
     "the last ones stay"},
    {"--runs", "N",
     "how often ten launches are timed, with marks and without\n"
     "(default: 10)"},
    {"--programs", "N",
     "how many programs --record and --trace write\n(default: 512, all)"},
    {"--record", "FILE", "write the rings there, for --from"},
    {"--from", "FILE", "read them from there: needs no GPU"},
    {"--trace", "FILE",
     "write all sections there, for Perfetto or chrome://tracing"},
    {"--json", NULL, "print sections and a timeline as JSON"},
    {0}};

const tool_command tool_profile = {
    "profile",
    "attention --shape BxHxMxD | FILE.tile[@kernel] [NAME=VALUE...] | "
    "--from FILE [options]",
    "Measures what each warp role of a kernel does when, on the GPU.",
    "The kernel gets a clock read where a section of a role's step begins: a "
    "wait,\nthe issue of a product, math, a copy. One thread of each warp "
    "group writes it\nto a ring in memory. The time of a launch with and "
    "without is printed, and\nboth give the same results, bit by bit. "
    "Arguments:\n" INPUTS_HELP,
    options,
    profile_run};
