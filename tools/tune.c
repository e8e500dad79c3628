/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec tune: finds the tile sizes, warps and stages with which a kernel is
 * fastest, and writes them to its configurations.
 *
 *   compile all -> leave out what is too large or spills -> check and time the
 *   rest, shortly -> time the best for longer -> write the winner
 */
#include "lib/handles.h"
#include "tools/common/progress.h"
#include "tools/config_file.h"
#include "tools/measure/ranking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORT_RUNS = 5, LONG_RUNS = 50, BEST = 5, SECONDS = 60 };

/* The variants that are tried if neither the command line has a --sweep nor the
 * kernel a tune(..). */
static const struct built_in {
    const char *kernel;
    bool is_gpu;
    const char *axes[6];
} spaces[] = {
    {"attention_fwd",
     true,
     {"BM=64,128,256", "BN=32,64,128", "warps=4,8", "stages=1,2,3"}},
    {"attention_fwd", false, {"BM=16,32,64,128", "BN=32,64,128"}},
};

typedef struct tuning {
    const tool_args *args;
    workload w;
    space space;
    trial_options options;
    size_t n;
    ranked *list;
    bool is_of_kernel; /* the space is that of its tune(..) */
    trial now;         /* as the kernel is configured so far */
    char path[256];
    int64_t length;
    tc_memory memory;
    tc_arena arena; /* texts of: */
    tc_config present;
} tuning;

/* ---- The command line ---- */

static bool is_number(const char *text)
{
    char *end;
    (void)strtol(text, &end, 10);
    return end != text && !*end;
}

static int check_space(const tuning *t)
{
    for (unsigned i = 0; i < t->space.naxes; i++)
        for (unsigned k = 0; k < t->space.axes[i].n; k++)
            if (strcmp(t->space.axes[i].name, "tiles") != 0 &&
                !strchr(t->space.axes[i].name, '.') &&
                !is_number(t->space.axes[i].values[k]))
                return tool_usage(t->args->command,
                                  "--sweep %s: `%s` is no whole number, which "
                                  "is all that configurations hold",
                                  t->space.axes[i].name,
                                  t->space.axes[i].values[k]);
    return EXIT_DONE;
}

static int read_options(tuning *t)
{
    const char *limit = tool_value(t->args, "--timeout");
    const char *length = tool_value(t->args, "--min-length");
    char *end;
    t->options.limit = limit ? strtod(limit, &end) : SECONDS;
    if (limit && (end == limit || *end || !(t->options.limit > 0)))
        return tool_usage(t->args->command,
                          "--timeout is `%s`, expected seconds above 0", limit);
    t->length = length ? strtol(length, &end, 10) : 0;
    if (length && (end == length || *end || t->length < 1))
        return tool_usage(t->args->command,
                          "--min-length is `%s`, expected a number above 0",
                          length);
    if (tool_has(t->args, "--warps") || tool_has(t->args, "--stages"))
        return tool_usage(t->args->command,
                          "--warps and --stages are for one run: say --sweep "
                          "warps=8, which the entry then has");
    int code = space_read(&t->space, t->args);
    code = code ? code : check_space(t);
    return code ? code : progress_read(t->args);
}

/* ---- The space ---- */

/* The kernel's own, where the command line has none. */
static int read_space(tuning *t)
{
    tilec_context *cx;
    char *text = NULL, *rest = NULL;
    if (t->space.naxes || t->w.is_attention)
        return EXIT_DONE;
    if (tilec_context_new(NULL, &cx))
        return EXIT_MACHINE;
    tilec_status status = tilec_tuning_space(cx, &t->w.program.source, 1,
                                             &t->w.program.options, &text);
    int code = status ? report_compile(cx, status) : EXIT_DONE;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        (void)space_add(&t->space, line);
    t->is_of_kernel = t->space.naxes > 0;
    tilec_free(text);
    tilec_context_free(cx);
    return code;
}

static int choose_space(tuning *t)
{
    if (t->is_of_kernel && !t->now.is_gpu)
        space_drop_gpu(&t->space);
    if (t->space.naxes)
        return EXIT_DONE;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        const struct built_in *b = &spaces[i];
        if (strcmp(b->kernel, t->w.kernel) != 0 || b->is_gpu != t->now.is_gpu)
            continue;
        for (int k = 0; k < 6 && b->axes[k]; k++)
            (void)space_add(&t->space, b->axes[k]);
        return EXIT_DONE;
    }
    return tool_usage(t->args->command,
                      "@%s needs a --sweep, or a tune(BM=64, 128; warps=4, 8) "
                      "before its grid: what to try is not known",
                      t->w.kernel);
}

/* ---- Trying ---- */

static int make_list(tuning *t)
{
    t->n = space_count(&t->space);
    t->list = calloc(t->n, sizeof *t->list);
    for (size_t i = 0; t->list && i < t->n; i++)
        t->list[i].variant = space_at(&t->space, i);
    return t->list ? EXIT_DONE : EXIT_MACHINE;
}

static size_t count_done(const tuning *t)
{
    size_t n = 0;
    while (n < t->n && t->list[n].trial.state == TRIAL_DONE)
        n++;
    return n;
}

/* The best again, for longer: few runs do not tell neighbours apart. */
static void try_best(tuning *t)
{
    size_t n = count_done(t);
    static const variant none;
    static const space nothing;
    t->options.runs = LONG_RUNS;
    n = n < BEST ? n : BEST;
    ranking_try(&t->w, &t->space, &t->options, t->list, n);
    ranking_sort(t->list, n);
    ranked now = {.variant = none};
    ranking_try(&t->w, &nothing, &t->options, &now, 1);
    /* Without a variant it may not compile: the target is known. */
    if (!*now.trial.target)
        memcpy(now.trial.target, t->now.target, sizeof now.trial.target);
    t->now = now.trial;
}

/* ---- The configuration ---- */

static const char *mask_class(const workload *w)
{
    return w->mask ? "masked" : "none";
}

static const char *score_class(const workload *w)
{
    return w->score ? "scored" : "none";
}

static int64_t longest_side(const workload *w)
{
    int64_t n = 0;
    for (size_t i = 0; i < w->in.n; i++) {
        const DLTensor *x = w->in.arguments[i].tensor;
        for (int k = 0; x && k < x->ndim; k++)
            n = x->shape[k] > n ? x->shape[k] : n;
    }
    return n;
}

/* The dim that v is contiguous in, where -D or its strides say so; else 0. */
static int64_t contiguous_dim(const tuning *t)
{
    const tilec_compile_options *given = &t->w.program.options;
    for (size_t i = 0; i < given->nbindings; i++)
        if (strcmp(given->bindings[i].name, "V_CONTIG_DIM") == 0)
            return strtoll(given->bindings[i].value, NULL, 10);
    const DLTensor *v = inputs_find(&t->w.in, "v");
    return v && v->strides && v->strides[2] == 1 ? 2 : 0;
}

/* The settings that all variants share with the present configuration; -D comes
 * before them. */
static void find_present(void *user)
{
    tuning *t = user;
    const workload *w = &t->w;
    tc_config_query query = {.kernel = w->kernel,
                             .target = tc_target_get(t->now.target),
                             .dtype = w->dtype,
                             .d = w->dim,
                             .dv = w->dv,
                             .v_contig_dim = contiguous_dim(t),
                             .mask = mask_class(w),
                             .score = score_class(w),
                             .length = w->is_attention ? w->kv_length
                                                       : longest_side(w)};
    const tilec_compile_options *given = &w->program.options;
    if (w->program.source.text ||
        !tc_config_find(&t->arena, &query, &t->present))
        return;
    for (unsigned i = 0; i < t->present.nbindings; i++)
        for (size_t k = 0; k < given->nbindings; k++)
            if (strcmp(t->present.bindings[i].name, given->bindings[k].name) ==
                0)
                t->present.bindings[i] = given->bindings[k];
}

static config_key key_of(const tuning *t)
{
    const workload *w = &t->w;
    return (config_key){.kernel = w->kernel,
                        .target = t->now.target,
                        .dtype = *w->dtype ? w->dtype : NULL,
                        .d = w->dim,
                        .dv = w->dv,
                        .v_contig_dim = contiguous_dim(t),
                        .mask = w->is_attention ? mask_class(w) : NULL,
                        .score = w->score ? score_class(w) : NULL,
                        .length = t->length,
                        .present = t->present};
}

static int write_winner(const tuning *t, const ranked *winner)
{
    config_file f;
    config_key key = key_of(t);
    int code = config_file_read(&f, t->path, t->w.kernel);
    if (!code && !config_file_put(&f, &key, &t->space, &winner->variant))
        code = EXIT_MACHINE;
    if (!code)
        code = config_file_write(&f);
    config_file_free(&f);
    char *text = config_entry_text(&key, &t->space, &winner->variant);
    if (!code)
        printf("%s: %s\n", t->path, text ? text : "");
    free(text);
    return code;
}

static bool any_wrong(const tuning *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->list[i].trial.state == TRIAL_WRONG)
            return true;
    return false;
}

static int finish(const tuning *t)
{
    const ranked *winner = t->list;
    ranking_print(&t->w, &t->space, t->list, t->n);
    if (winner->trial.state != TRIAL_DONE) {
        report("no variant of @%s can be used", t->w.kernel);
        return winner->trial.code;
    }
    int code = EXIT_DONE;
    bool was_right = t->now.state == TRIAL_DONE;
    if (was_right)
        printf("as configured so far: %.2f us\n", t->now.us);
    if (was_right && t->now.us <= winner->trial.us)
        printf("%s: nothing is faster, left as it is\n", t->path);
    else
        code = write_winner(t, winner);
    return code ? code : any_wrong(t) ? EXIT_INPUT : EXIT_DONE;
}

static int plan_only(tuning *t)
{
    t->options.is_dry = true;
    ranking_try(&t->w, &t->space, &t->options, t->list, t->n);
    ranking_sort(t->list, t->n);
    ranking_print(&t->w, &t->space, t->list, t->n);
    config_key key = key_of(t);
    char *text = config_entry_text(&key, &t->space, &t->list[0].variant);
    printf("%zu of %zu variants would be timed; %s would get an entry such as\n"
           "  %s\n",
           count_done(t), t->n, t->path, text ? text : "");
    free(text);
    return EXIT_DONE;
}

/* ---- All of it ---- */

/* Finds the target (only a process of its own may ask for `auto`), and whether
 * the kernel compiles at all. */
static int look(tuning *t)
{
    static const variant none;
    trial_options o = t->options;
    o.is_dry = true;
    progress_show("compiling @%s as it is configured", t->w.kernel);
    trial_run_apart(&t->w, &none, &o, &t->now);
    if (*t->now.target)
        return EXIT_DONE;
    /* A parameter may have no value but those of the sweep. */
    if (t->space.naxes) {
        variant first = space_at(&t->space, 0);
        trial_run_apart(&t->w, &first, &o, &t->now);
    }
    if (*t->now.target)
        return EXIT_DONE;
    report("%s", t->now.why);
    return t->now.code;
}

/* Before all the timing: there must be a folder for the file. */
static int check_folder(const tuning *t)
{
    char folder[sizeof t->path] = ".";
    const char *slash = strrchr(t->path, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash + 1 - t->path),
                 t->path);
    if (access(folder, W_OK) == 0)
        return EXIT_DONE;
    int code = report_file(t->path);
    fprintf(stderr,
            "the folder %s has to be there, and writable: the winner "
            "is written into it\n",
            folder);
    return code;
}

static int check_file(tuning *t)
{
    const char *path = tool_value(t->args, "--config");
    config_file f;
    int n = path ? snprintf(t->path, sizeof t->path, "%s", path)
                 : snprintf(t->path, sizeof t->path, "kernels/configs/%s.json",
                            t->w.kernel);
    if (n >= (int)sizeof t->path)
        return tool_usage(t->args->command, "--config is longer than %zu bytes",
                          sizeof t->path - 1);
    int code = config_file_read(&f, t->path, t->w.kernel);
    config_file_free(&f);
    return code;
}

static int tune(tuning *t)
{
    int code;
    if ((code = read_options(t)) || (code = workload_read(&t->w, t->args)) ||
        (code = read_space(t)) || (code = workload_prepare(&t->w, &t->space)) ||
        (code = check_file(t)) || (code = look(t)) ||
        (code = choose_space(t)) || (code = make_list(t)))
        return code;
    if (!tc_guard(&t->memory, find_present, t))
        return EXIT_MACHINE;
    t->options.prunes = true;
    t->options.runs = SHORT_RUNS;
    if (tool_has(t->args, "--dry-run"))
        return plan_only(t);
    if (!t->w.is_checked)
        return tool_usage(t->args->command,
                          "--check-seconds 0: what is not checked is not "
                          "written either");
    if ((code = check_folder(t)))
        return code;
    ranking_try(&t->w, &t->space, &t->options, t->list, t->n);
    ranking_sort(t->list, t->n);
    try_best(t);
    return finish(t);
}

static int tune_run(const tool_args *args)
{
    tuning *t = calloc(1, sizeof *t);
    if (!t) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    t->args = args;
    tc_arena_init(&t->arena, &t->memory);
    int code = tune(t);
    tc_arena_reset(&t->arena);
    workload_free(&t->w);
    free(t->list);
    free(t);
    return code;
}

static const tool_option options[] = {
    WORKLOAD_OPTIONS,
    PROGRESS_OPTION,
    {"--config", "FILE",
     "where the winner is written (default:\n"
     "kernels/configs/KERNEL.json)"},
    {"--min-length", "N",
     "the entry is for keys (of other kernels: a largest side)\n"
     "of this length and above"},
    {"--timeout", "SECONDS", "of a variant (default: 60)"},
    {"--dry-run", NULL, "compile all, run nothing, write nothing"},
    {0}};

const tool_command tool_tune = {
    "tune",
    "attention --shape BxHxMxD | FILE.tile[@kernel] [NAME=VALUE...] [options]",
    "Finds the fastest tile sizes, warps and stages of a kernel.",
    "Without --sweep it tries what the kernel's tune(..) lists, and of "
    "attention\n"
    "what is usual. What asks for too much shared memory or spills registers "
    "is left\n"
    "out, what gives wrong results too. The winner goes into a file of\n"
    "configurations, which is built into the library. Arguments:\n" INPUTS_HELP,
    options,
    tune_run};
