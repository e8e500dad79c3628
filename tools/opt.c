/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec opt: reads a program, runs passes on it, prints it.
 */
#include "lib/program/imports.h"
#include "passes/passes.h"
#include "passes/reproducer.h"
#include "tools/common/commands.h"
#include "tools/common/render.h"
#include "tools/measure/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BINDINGS = 64, MOST_PASSES = 256 };

struct timing {
    const char *pass;
    uint64_t ns, verify_ns;
};

struct opt {
    const char *input, *passes;
    tc_pass_options options;
    tc_binding bindings[MOST_BINDINGS];
    const tool_args *args;
    tc_context *cx;
    FILE *out;  /* stdout, or memory: */
    char *text; /* for the file of -o */
    size_t size;
    tc_arena arena; /* the input, words of a reproducer */
    struct timing times[MOST_PASSES];
    unsigned ntimes;
};

/* ---- The command line ---- */

static bool add_binding(struct opt *t, const char *word)
{
    const char *equals = strchr(word, '=');
    unsigned n = t->options.nbindings;
    if (!equals || equals == word || n == MOST_BINDINGS) {
        tool_usage(&tool_opt,
                   equals && equals != word
                       ? "too many -D, at %s"
                       : "expected -D NAME=VALUE, found -D %s",
                   word);
        return false;
    }
    char *name = tc_arena_printf(&t->arena, "%.*s", (int)(equals - word), word);
    t->bindings[n] = (tc_binding){name, equals + 1};
    t->options.nbindings = n + 1;
    return true;
}

static bool read_target(struct opt *t, const tool_args *args)
{
    const char *name = tool_value(args, "--target");
    t->options.target = name ? tc_target_get(name) : NULL;
    if (!name || t->options.target)
        return true;
    tool_usage(&tool_opt, "there is no target `%s`, expected one of %s", name,
               tc_target_names(&t->arena));
    return false;
}

static bool read_count(const tool_args *args, const char *option, unsigned most,
                       unsigned *count)
{
    const char *word = tool_value(args, option);
    char *end;
    unsigned long n = word ? strtoul(word, &end, 10) : 0;
    *count = (unsigned)n;
    if (!word || (*end == 0 && n >= 1 && n <= most))
        return true;
    tool_usage(&tool_opt, "%s: expected 1 to %u, found %s", option, most, word);
    return false;
}

static bool read_tiles(struct opt *t, const tool_args *args)
{
    const char *word = tool_value(args, "--tiles");
    t->options.tiles = word ? tc_tiles_parse(word) : TC_TILES_ANY;
    if (!word || t->options.tiles)
        return true;
    tool_usage(&tool_opt, "--tiles: expected none, static or dynamic, found %s",
               word);
    return false;
}

/* The runner's options, from the words of the command line (or of a
 * reproducer). */
static bool read_options(struct opt *t, const tool_args *args)
{
    int enforce;
    t->passes = tool_value(args, "-p");
    t->options.kernel = tool_value(args, "--kernel");
    t->options.print_before = tool_value(args, "--print-before");
    t->options.print_after = tool_value(args, "--print-after");
    t->options.reproducer_dir = tool_value(args, "--reproducer-dir");
    t->options.verify_each = !tool_has(args, "--no-verify-each");
    t->options.round_trip = tool_has(args, "--round-trip");
    t->options.any_alignment = tool_has(args, "--any-alignment");
    t->options.any_sizes = tool_has(args, "--any-sizes");
    t->options.no_swizzle = tool_has(args, "--no-swizzle");
    if (!read_target(t, args) ||
        !read_count(args, "--warps", TC_MAX_WARPS, &t->options.warps) ||
        !read_count(args, "--stages", TC_MAX_SLOTS, &t->options.stages) ||
        !read_tiles(t, args) || !tool_precision(args, &t->options.precision) ||
        !tool_enforce(args, &enforce))
        return false;
    t->options.enforce = (tc_enforce)enforce;
    for (int i = 0; i < args->ngiven; i++)
        if (strcmp(args->given[i].name, "-D") == 0 &&
            !add_binding(t, args->given[i].value))
            return false;
    return true;
}

/* ---- Files ---- */

static bool read_all(struct opt *t, FILE *f, const char **text, size_t *n)
{
    tc_text all = {.arena = &t->arena};
    char block[65536];
    size_t got;
    tc_text_add(&all, "");
    while ((got = fread(block, 1, sizeof block, f)) > 0)
        tc_text_addn(&all, block, got);
    *text = all.data;
    *n = all.len;
    return !ferror(f);
}

static bool read_input(struct opt *t, const char *path, const char **text,
                       size_t *n)
{
    bool is_stdin = !path || strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    bool ok = f && read_all(t, f, text, n);
    if (!ok)
        report_file(is_stdin ? "standard input" : path);
    if (f && !is_stdin)
        fclose(f);
    return ok;
}

/* The first line of a reproducer as words. `"` quotes, `\` escapes in it. */
static char **split_command(struct opt *t, const char *s, int *argc)
{
    size_t n = strcspn(s, "\n");
    char **argv = tc_arena_array(&t->arena, char *, n / 2 + 3);
    char *to = tc_arena_alloc(&t->arena, n + 1);
    argv[(*argc)++] = "opt";
    for (const char *end = s + n; s < end;) {
        bool quoted = false;
        if (*s == ' ') {
            s++;
            continue;
        }
        argv[(*argc)++] = to;
        for (; s < end && (quoted || *s != ' '); s++) {
            if (*s == '"') {
                quoted = !quoted;
                continue;
            }
            if (*s == '\\' && quoted && s + 1 < end)
                s++;
            *to++ = *s;
        }
        *to++ = 0;
    }
    return argv;
}

/* Takes the options of the reproducer; its text is the input. */
static int load_reproducer(struct opt *t, const char **text, size_t *n)
{
    const char *path = t->input = tool_value(t->args, "--run-reproducer");
    if (!read_input(t, path, text, n))
        return EXIT_INPUT;
    size_t start = strlen(TC_REPRODUCER_START);
    if (strncmp(*text, TC_REPRODUCER_START, start) != 0) {
        fprintf(
            stderr,
            "%s:1: error: not a reproducer: expected a first line `%s...`\n",
            path, TC_REPRODUCER_START);
        return EXIT_INPUT;
    }
    int argc = 0;
    char **argv = split_command(t, *text + start, &argc);
    tool_args *args = tc_arena_new(&t->arena, tool_args);
    bool ok = tool_parse(&tool_opt, argc, argv, args) && read_options(t, args);
    /* Where to write the next one is up to this command line. */
    t->options.reproducer_dir = tool_value(t->args, "--reproducer-dir");
    return ok ? EXIT_DONE : EXIT_INPUT;
}

/* ---- Passes ---- */

static void note_time(struct opt *t, const tc_pass_event *e)
{
    if (e->index >= MOST_PASSES)
        return;
    struct timing *time = &t->times[e->index];
    time->pass = e->pass;
    time->ns += e->ns;
    time->verify_ns += e->verify_ns;
    if (e->index >= t->ntimes)
        t->ntimes = e->index + 1;
}

static void on_event(void *user, const tc_pass_event *e)
{
    if (e->text)
        fprintf(stderr, "// ----- %s %s -----\n%s",
                e->after ? "after" : "before", e->pass, e->text);
    if (e->after)
        note_time(user, e);
}

static void print_times(const struct opt *t)
{
    uint64_t total = 0, total_verify = 0;
    fprintf(stderr, "%12s %12s  pass\n", "pass us", "checks us");
    for (unsigned i = 0; i < t->ntimes; i++) {
        const struct timing *time = &t->times[i];
        fprintf(stderr, "%12.1f %12.1f  %s\n", (double)time->ns / 1e3,
                (double)time->verify_ns / 1e3, time->pass);
        total += time->ns;
        total_verify += time->verify_ns;
    }
    fprintf(stderr, "%12.1f %12.1f  total\n", (double)total / 1e3,
            (double)total_verify / 1e3);
}

static bool print_module(struct opt *t, const tc_module *m)
{
    tc_text text = {.arena = &t->arena};
    tc_text_add(&text, "");
    tc_module_print(&text, m, TC_PRINT_PLAIN);
    fputs(text.data, t->out);
    return true;
}

/* Parses what a program to compile mentions and does not define: functions of
 * imported files and of the library. */
static bool parse_mentioned(struct opt *t, tc_module *m, uint32_t number,
                            tc_source *source)
{
    tc_arena *a = &t->arena;
    tc_job job = {.cx = t->cx};
    tc_reader reader = {read_source, NULL};
    tc_texts texts = tc_texts_new(a, source, 1);
    unsigned n, nbound = t->options.nbindings;
    tc_wanted *bound = tc_arena_array(a, tc_wanted, nbound);
    for (unsigned i = 0; i < nbound; i++)
        bound[i].name = t->bindings[i].value + (t->bindings[i].value[0] == '@');
    bool ok = tc_texts_import(&job, &reader, &texts);
    tc_source *linked = tc_link(t->cx, &texts, bound, nbound, &n);
    for (unsigned i = 0; linked && i < n; i++) {
        uint32_t file =
            tc_source_add(t->cx, linked[i].name, linked[i].text, linked[i].len);
        tc_source_alias(t->cx, file, &linked[i]);
        ok &= tc_parse(m, file);
    }
    tc_source_alias(t->cx, number, source);
    return ok && linked;
}

/* Parse, verify, passes, print: false where an error was reported. */
static bool process(struct opt *t, uint32_t number, tc_source *source)
{
    tc_module *m = tc_module_new(t->cx);
    bool ok = (!t->passes || parse_mentioned(t, m, number, source)) &&
              tc_parse(m, number) && tc_module_verify(m) &&
              (!t->passes || tc_run_pipeline(m, t->passes, &t->options)) &&
              print_module(t, m);
    tc_module_free(m);
    return ok;
}

/* One program of the input. */
static bool run_part(struct opt *t, const char *text, size_t n)
{
    const char *path = t->input;
    const char *name = !path || strcmp(path, "-") == 0 ? "<stdin>" : path;
    uint32_t source = tc_source_add(t->cx, name, text, n);
    bool ok =
        process(t, source, &(tc_source){.name = name, .text = text, .len = n});
    if (tool_has(t->args, "--verify-diagnostics"))
        ok = expect_check(stderr, t->cx, source);
    else
        render_diags(stderr, t->cx);
    tc_diags_clear(t->cx);
    return ok;
}

/* The next line `// -----` at or after s, or the end. */
static const char *find_split(const char *s, const char *end)
{
    static const char mark[] = "// -----";
    size_t n = sizeof mark - 1;
    while (s < end) {
        const char *newline = memchr(s, '\n', (size_t)(end - s));
        const char *line_end = newline ? newline : end;
        if ((size_t)(line_end - s) == n && memcmp(s, mark, n) == 0)
            return s;
        s = newline ? newline + 1 : end;
    }
    return end;
}

/* Empty lines stand for what comes before a part, so that its lines keep
 * their numbers. */
static bool run_parts(struct opt *t, const char *text, size_t n)
{
    const char *end = text + n, *at = text;
    bool ok = true;
    tc_text before = {.arena = &t->arena};
    tc_text_add(&before, "");
    for (;;) {
        const char *split = find_split(at, end);
        tc_text part = {.arena = &t->arena};
        tc_text_addn(&part, before.data, before.len);
        tc_text_addn(&part, at, (size_t)(split - at));
        if (at != text)
            fputs("\n// -----\n\n", t->out);
        ok &= run_part(t, part.data, part.len);
        if (split == end)
            return ok;
        const char *next = split + strcspn(split, "\n");
        next += next < end;
        for (const char *s = at; s < next; s++)
            tc_text_add(&before, *s == '\n' ? "\n" : "");
        at = next;
    }
}

static int out_of_memory(void)
{
    report("out of memory");
    return EXIT_MACHINE;
}

/* A file may be the input, so it is written last, and only what is right. */
static int close_output(struct opt *t, const char *path, int status)
{
    bool failed = !flush_stream(t->out);
    if (t->out == stdout)
        return failed ? report_file("standard output") : status;
    failed |= fclose(t->out) != 0;
    t->out = stdout;
    if (failed)
        return out_of_memory();
    return status ? status : write_data(path, t->text, t->size);
}

/* Names of passes are words of the command line, wrong ones its fault. */
static bool check_passes(struct opt *t)
{
    const char *lists[] = {t->passes, t->options.print_before,
                           t->options.print_after};
    bool ok = true;
    for (int i = 0; i < 3; i++)
        if (lists[i] && (i == 0 || strcmp(lists[i], "all") != 0))
            ok &= tc_check_pipeline(t->cx, lists[i]);
    render_diags(stderr, t->cx);
    return ok;
}

static int run_opt(struct opt *t)
{
    const char *text, *path = tool_value(t->args, "-o");
    size_t n;
    if (t->args->nwords > 1)
        return tool_usage(&tool_opt, "more than one input file: %s",
                          t->args->words[1]);
    t->input = t->args->nwords ? t->args->words[0] : NULL;
    if (!read_options(t, t->args) || !check_passes(t))
        return EXIT_USAGE;
    int status = EXIT_DONE;
    if (tool_has(t->args, "--run-reproducer"))
        status = load_reproducer(t, &text, &n);
    else if (!read_input(t, t->input, &text, &n))
        status = EXIT_INPUT;
    if (status != EXIT_DONE)
        return status;
    if (path && strcmp(path, "-") != 0)
        t->out = open_memstream(&t->text, &t->size);
    if (!t->out)
        return out_of_memory();
    if (!tool_remarks(t->args, &t->cx->want_remarks))
        return EXIT_USAGE;
    bool ok = tool_has(t->args, "--split-input-file") ? run_parts(t, text, n)
                                                      : run_part(t, text, n);
    if (tool_has(t->args, "--time-passes"))
        print_times(t);
    return close_output(t, path, ok ? EXIT_DONE : EXIT_INPUT);
}

static int opt_run(const tool_args *args)
{
    struct opt t = {.args = args, .out = stdout, .cx = tc_context_new()};
    volatile int status = EXIT_MACHINE;
    jmp_buf unwind;
    if (t.cx && !setjmp(unwind)) {
        t.cx->memory.unwind = &unwind;
        tc_arena_init(&t.arena, &t.cx->memory);
        t.options = (tc_pass_options){
            .bindings = t.bindings, .on_event = on_event, .user = &t};
        status = run_opt(&t);
    } else {
        out_of_memory();
    }
    if (t.out && t.out != stdout)
        fclose(t.out);
    free(t.text);
    tc_arena_reset(&t.arena);
    tc_context_free(t.cx);
    return status;
}

static const tool_option options[] = {
    {"-p", "PASSES", "passes and pipelines, `,` separated (tilec info passes)"},
    {"-o", "FILE", "write the program there"},
    {"-D", "NAME=VALUE",
     "bind a compile-time parameter, for `bind-params`: an int, a type,\n"
     "or @func"},
    {"--kernel", "NAME", "the kernel whose parameters are bound"},
    {"--target", "NAME", "the machine: cpu (default), sm_80, ..."},
    {"--warps", "N", "warps of a block, of a GPU kernel"},
    {"--stages", "N", "stages of its pipelined loops"},
    {"--precision", "P",
     "of its products of f32: ieee (default), tf32, tf32x3"},
    {"--tiles", "HOW",
     "programs and tiles of a GPU kernel: none (a program each), static,\n"
     "dynamic"},
    {"--enforce", "HOW",
     "warn, off or error: operands in an order that products cannot take"},
    {"--any-alignment", NULL, "assume no alignment of its tensors"},
    {"--any-sizes", NULL, "assume nothing of the sizes of its tensors"},
    {"--no-swizzle", NULL, "keep shared memory in plain rows"},
    {"--print-after", "PASSES", "print the program after these, or `all`"},
    {"--print-before", "PASSES", "print it before them"},
    {"--time-passes", NULL, "print the time of each pass"},
    REMARKS_OPTION,
    {"--verify-each", NULL, "verify after every pass: the default"},
    {"--no-verify-each", NULL, "verify only after bind-params and inline"},
    {"--round-trip", NULL,
     "print, parse and print after every pass, and compare"},
    {"--split-input-file", NULL,
     "what stands between lines `// -----` is a program of its own"},
    {"--verify-diagnostics", NULL,
     "compare the diagnostics with comments such as\n"
     "// expected-error@+1 {{text}}"},
    {"--reproducer-dir", "DIR", "write a reproducer there when a pass fails"},
    {"--run-reproducer", "FILE", "run a reproducer"},
    {NULL, NULL, NULL},
};

const tool_command tool_opt = {
    "opt",
    "[FILE.tile]",
    "Runs passes on a program and prints it.",
    "Reads a program (`-` or no file: standard input), verifies it, runs the\n"
    "passes on it, and prints it in canonical form. With -p the functions of\n"
    "imported files and of the library that it mentions come along.\n",
    options,
    opt_run,
};
