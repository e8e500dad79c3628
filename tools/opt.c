/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec opt: reads a program, runs passes on it, prints it.
 */
#include "tools/opt.h"

#include "passes/passes.h"
#include "passes/reproducer.h"
#include "tools/expect.h"
#include "tools/render.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, BAD_INPUT = 1, BAD_USAGE = 2, MACHINE_FAILED = 3 };

static const char usage[] =
    "usage: tilec opt [-p PASSES] [options] [FILE.tile]\n"
    "\n"
    "Reads a program (`-` or no file: standard input), verifies it, runs\n"
    "passes on it and prints it in canonical form.\n"
    "\n"
    "  -p, --passes LIST        passes and pipelines, `,` separated: see "
    "below\n"
    "  -o FILE                  write the program there\n"
    "  -D NAME=VALUE            bind a compile-time parameter (specialize):\n"
    "                           an int, a type, or @func\n"
    "  --kernel NAME            the kernel to specialize\n"
    "  --print-after LIST       print the program after these passes, or "
    "`all`\n"
    "  --print-before LIST      the same before them\n"
    "  --time-passes            print the time of each pass\n"
    "  --remarks                say what passes did not do, and why\n"
    "  --verify-each            verify after every pass (the default)\n"
    "  --no-verify-each         verify only after specialize and inline\n"
    "  --round-trip             print, parse and print after every pass, and\n"
    "                           compare\n"
    "  --split-input-file       parts of the file between lines `// -----` "
    "are\n"
    "                           programs of their own\n"
    "  --verify-diagnostics     compare the diagnostics with comments such as\n"
    "                           // expected-error@+1 {{text}}\n"
    "  --reproducer-dir DIR     write a reproducer there when a pass fails\n"
    "  --run-reproducer FILE    run a reproducer\n"
    "  --help                   print this\n"
    "\n"
    "Exit code: 0 done, 1 the input is wrong, 2 the command line is wrong,\n"
    "3 the machine failed.\n";

enum { MOST_BINDINGS = 64, MOST_PASSES = 256 };

struct options {
    const char *input, *output, *passes, *reproducer;
    tc_pass_options pass;
    tc_binding bindings[MOST_BINDINGS];
    bool remarks, time, split, verify_diagnostics, help;
};

struct timing {
    const char *pass;
    uint64_t ns, verify_ns;
};

struct opt {
    struct options o;
    tc_context *cx;
    FILE *out;
    tc_arena arena; /* the input, words of a reproducer */
    struct timing times[MOST_PASSES];
    unsigned ntimes;
};

/* ---- The command line ---- */

static bool bad_usage(const char *what, const char *word)
{
    fprintf(stderr, "tilec opt: %s%s\n", what, word);
    fprintf(stderr, "`tilec opt --help` lists the options\n");
    return false;
}

static bool add_binding(struct opt *t, const char *word)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word)
        return bad_usage("expected -D NAME=VALUE, found -D ", word);
    if (t->o.pass.nbindings == MOST_BINDINGS)
        return bad_usage("too many -D: ", word);
    char *name = tc_arena_printf(&t->arena, "%.*s", (int)(equals - word), word);
    t->o.bindings[t->o.pass.nbindings++] = (tc_binding){name, equals + 1};
    return true;
}

/* Options without a value. */
static bool set_flag(struct options *o, const char *word)
{
    const struct {
        const char *name;
        bool *flag, value;
    } flags[] = {
        {"--time-passes", &o->time, true},
        {"--remarks", &o->remarks, true},
        {"--verify-each", &o->pass.verify_each, true},
        {"--no-verify-each", &o->pass.verify_each, false},
        {"--round-trip", &o->pass.round_trip, true},
        {"--split-input-file", &o->split, true},
        {"--verify-diagnostics", &o->verify_diagnostics, true},
        {"--help", &o->help, true},
        {"-h", &o->help, true},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(flags[i].name, word) == 0) {
            *flags[i].flag = flags[i].value;
            return true;
        }
    return false;
}

/* `--name VALUE`, `--name=VALUE`, and -pVALUE of the short ones. *i is moved
 * past the value. NULL where the word is another option; *ok is false where
 * the value is missing. */
static const char *value_of(const char *name, int argc, char **argv, int *i,
                            bool *ok)
{
    size_t n = strlen(name);
    const char *word = argv[*i];
    if (strncmp(word, name, n) != 0)
        return NULL;
    if (word[n] == '=' && n > 2)
        return word + n + 1;
    if (word[n] && n == 2)
        return word + n;
    if (word[n])
        return NULL;
    if (*i + 1 < argc)
        return argv[++*i];
    *ok = bad_usage("a value is missing after ", word);
    return NULL;
}

/* 1: it is one; 0: it is not; -1: reported. */
static int set_value(struct opt *t, int argc, char **argv, int *i)
{
    struct options *o = &t->o;
    const struct {
        const char *name, **value;
    } values[] = {
        {"-p", &o->passes},
        {"--passes", &o->passes},
        {"-o", &o->output},
        {"--kernel", &o->pass.kernel},
        {"--print-after", &o->pass.print_after},
        {"--print-before", &o->pass.print_before},
        {"--reproducer-dir", &o->pass.reproducer_dir},
        {"--run-reproducer", &o->reproducer},
    };
    bool ok = true;
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        const char *value = value_of(values[k].name, argc, argv, i, &ok);
        if (value)
            *values[k].value = value;
        if (value || !ok)
            return ok ? 1 : -1;
    }
    const char *binding = value_of("-D", argc, argv, i, &ok);
    if (binding)
        ok = add_binding(t, binding);
    return !ok ? -1 : binding != NULL;
}

static bool read_options(struct opt *t, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (set_flag(&t->o, argv[i]))
            continue;
        int is_value = set_value(t, argc, argv, &i);
        if (is_value < 0)
            return false;
        if (is_value)
            continue;
        if (argv[i][0] == '-' && argv[i][1])
            return bad_usage("unknown option ", argv[i]);
        if (t->o.input)
            return bad_usage("more than one input file: ", argv[i]);
        t->o.input = argv[i];
    }
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
        fprintf(stderr, "tilec opt: cannot read %s: %s\n", path,
                strerror(errno));
    if (f && !is_stdin)
        fclose(f);
    return ok;
}

/* The first line of a reproducer as words. `"` quotes, `\` escapes in it. */
static char **split_command(struct opt *t, const char *s, int *argc)
{
    size_t n = strcspn(s, "\n");
    char **argv = tc_arena_array(&t->arena, char *, n / 2 + 2);
    char *to = tc_arena_alloc(&t->arena, n + 1);
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
    const char *path = t->o.reproducer;
    if (!read_input(t, path, text, n))
        return BAD_INPUT;
    size_t start = strlen(TC_REPRODUCER_START);
    if (strncmp(*text, TC_REPRODUCER_START, start) != 0) {
        fprintf(
            stderr,
            "%s:1: error: not a reproducer: expected a first line `%s...`\n",
            path, TC_REPRODUCER_START);
        return BAD_INPUT;
    }
    int argc = 0;
    char **argv = split_command(t, *text + start, &argc);
    t->o.input = NULL;
    if (!read_options(t, argc, argv))
        return BAD_INPUT;
    t->o.input = path;
    return DONE;
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

/* Parse, verify, passes, print: false where an error was reported. */
static bool process(struct opt *t, uint32_t source)
{
    tc_module *m = tc_module_new(t->cx);
    bool ok = tc_parse(m, source) && tc_module_verify(m) &&
              (!t->o.passes || tc_run_pipeline(m, t->o.passes, &t->o.pass)) &&
              print_module(t, m);
    tc_module_free(m);
    return ok;
}

/* One program of the input. */
static bool run_part(struct opt *t, const char *text, size_t n)
{
    const char *path = t->o.input;
    const char *name = !path || strcmp(path, "-") == 0 ? "<stdin>" : path;
    uint32_t source = tc_source_add(t->cx, name, text, n);
    bool ok = process(t, source);
    if (t->o.verify_diagnostics)
        ok = expect_check(stderr, t->cx, source);
    else
        render_diags(stderr, t->cx);
    tc_diags_clear(t->cx);
    return ok;
}

/* The next line `// -----` at or behind s, or the end. */
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

static int open_output(struct opt *t)
{
    if (!t->o.output || strcmp(t->o.output, "-") == 0)
        return DONE;
    t->out = fopen(t->o.output, "wb");
    if (t->out)
        return DONE;
    fprintf(stderr, "tilec opt: cannot write %s: %s\n", t->o.output,
            strerror(errno));
    return MACHINE_FAILED;
}

static int close_output(struct opt *t, int status)
{
    bool failed = ferror(t->out) || fflush(t->out) != 0;
    if (t->out != stdout)
        failed |= fclose(t->out) != 0;
    if (!failed)
        return status;
    fprintf(stderr, "tilec opt: cannot write %s: %s\n",
            t->o.output ? t->o.output : "standard output", strerror(errno));
    return MACHINE_FAILED;
}

static void print_help(void)
{
    fputs(usage, stdout);
    puts("\nPasses:");
    for (unsigned i = 0; i < tc_npass_infos; i++)
        printf("  %-14s %s\n", tc_pass_infos[i].name, tc_pass_infos[i].summary);
}

static int run(struct opt *t, int argc, char **argv)
{
    const char *text;
    size_t n;
    if (!read_options(t, argc, argv))
        return BAD_USAGE;
    if (t->o.help) {
        print_help();
        return DONE;
    }
    if (t->o.reproducer) {
        int status = load_reproducer(t, &text, &n);
        if (status != DONE)
            return status;
    } else if (!read_input(t, t->o.input, &text, &n)) {
        return BAD_INPUT;
    }
    t->cx->want_remarks = t->o.remarks;
    int status = open_output(t);
    if (status != DONE)
        return status;
    bool ok = t->o.split ? run_parts(t, text, n) : run_part(t, text, n);
    if (t->o.time)
        print_times(t);
    return close_output(t, ok ? DONE : BAD_INPUT);
}

int tool_opt(int argc, char **argv)
{
    struct opt t = {.out = stdout, .cx = tc_context_new()};
    volatile int status = MACHINE_FAILED;
    jmp_buf unwind;
    if (t.cx && !setjmp(unwind)) {
        t.cx->memory.unwind = &unwind;
        tc_arena_init(&t.arena, &t.cx->memory);
        t.o.pass = (tc_pass_options){.bindings = t.o.bindings,
                                     .verify_each = true,
                                     .on_event = on_event,
                                     .user = &t};
        status = run(&t, argc - 1, argv + 1);
    } else {
        fputs("tilec opt: out of memory\n", stderr);
    }
    if (t.cx)
        tc_arena_reset(&t.arena);
    tc_context_free(t.cx);
    return status;
}
