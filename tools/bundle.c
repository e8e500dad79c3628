/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec bundle: what is in bundles, whether it is sound, several as one, and
 * in what two differ.
 */
#include "tools/common/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int load(tilec_context *cx, const char *path)
{
    tilec_error e = TILEC_INIT(tilec_error);
    return tilec_bundle_load(cx, path, &e) ? report_error(&e) : EXIT_DONE;
}

/* ---- list ---- */

static void put_entry(void *user, const tilec_bundle_entry *e)
{
    printf("%-9s %-7s %-10s %8llu  %s", e->kind, e->target, e->cpu,
           (unsigned long long)e->bytes, printable(e->request).text);
    for (size_t i = 0; i < e->nsides; i++)
        printf("%s%lld", i ? "x" : "  for ", (long long)e->sides[i]);
    printf("\n");
    ++*(size_t *)user;
}

static int list(const tool_args *args, tilec_context *cx)
{
    size_t n = 0;
    tilec_error e = TILEC_INIT(tilec_error);
    int code = load(cx, args->words[1]);
    if (code)
        return code;
    if (tilec_bundle_list(cx, put_entry, &n, &e))
        return report_error(&e);
    printf("%zu entr%s\n", n, n == 1 ? "y" : "ies");
    return EXIT_DONE;
}

/* ---- verify ---- */

static int verify(const tool_args *args, tilec_context *cx)
{
    tilec_error e = TILEC_INIT(tilec_error);
    int code = load(cx, args->words[1]);
    if (code)
        return code;
    if (tilec_bundle_verify(cx, &e))
        return report_error(&e);
    printf("%s: sound\n", printable(args->words[1]).text);
    return EXIT_DONE;
}

/* ---- merge ---- */

static int merge(const tool_args *args, tilec_context *cx)
{
    const char *path = tool_value(args, "-o");
    tilec_error e = TILEC_INIT(tilec_error);
    int code = EXIT_DONE;
    if (is_stdout(path))
        return tool_usage(args->command, "merge expects -o FILE");
    for (int i = 1; !code && i < args->nwords; i++)
        code = load(cx, args->words[i]);
    if (code)
        return code;
    if (tilec_bundle_record(cx, &e) || tilec_bundle_keep(cx, &e) ||
        tilec_bundle_save(cx, path, &e))
        return report_error(&e);
    return EXIT_DONE;
}

/* ---- diff ---- */

/* An entry as a line, and the hash of its contents. */
typedef struct line {
    char text[600], hash[33];
} line;

typedef struct lines {
    line *all;
    size_t n;
    bool no_memory;
} lines;

static void keep(void *user, const tilec_bundle_entry *e)
{
    lines *l = user;
    line *more = realloc(l->all, (l->n + 1) * sizeof *more);
    if (!more) {
        l->no_memory = true;
        return;
    }
    l->all = more;
    line *to = &l->all[l->n++];
    int at = snprintf(to->text, sizeof to->text, "%s %s %s %s", e->kind,
                      e->target, e->cpu, printable(e->request).text);
    for (size_t i = 0; i < e->nsides && at < (int)sizeof to->text; i++)
        at += snprintf(to->text + at, sizeof to->text - (size_t)at, " %lld",
                       (long long)e->sides[i]);
    snprintf(to->hash, sizeof to->hash, "%s", e->hash);
}

static int read_lines(const char *path, lines *l)
{
    tilec_context *cx;
    tilec_error e = TILEC_INIT(tilec_error);
    *l = (lines){0};
    if (tilec_context_new(NULL, &cx))
        return EXIT_MACHINE;
    int code = load(cx, path);
    if (!code && tilec_bundle_list(cx, keep, l, &e))
        code = report_error(&e);
    tilec_context_free(cx);
    return l->no_memory ? EXIT_MACHINE : code;
}

static const line *find(const lines *l, const char *text)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->all[i].text, text) == 0)
            return &l->all[i];
    return NULL;
}

/* Entries of a that b lacks, or (both) has otherwise; how many. */
static size_t put_differences(const lines *a, const lines *b, char mark,
                              bool both)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++) {
        const line *other = find(b, a->all[i].text);
        bool differs = other && strcmp(other->hash, a->all[i].hash) != 0;
        if (both ? !differs : other != NULL)
            continue;
        printf("%c %s\n", mark, a->all[i].text);
        n++;
    }
    return n;
}

static int diff(const tool_args *args, tilec_context *cx)
{
    lines a, b = {0};
    size_t n = 0;
    (void)cx;
    int code = read_lines(args->words[1], &a);
    if (!code)
        code = read_lines(args->words[2], &b);
    if (!code)
        n = put_differences(&a, &b, '-', false) +
            put_differences(&b, &a, '+', false) +
            put_differences(&a, &b, '!', true);
    free(a.all);
    free(b.all);
    return code ? code : n ? EXIT_INPUT : EXIT_DONE;
}

/* ---- The command ---- */

static const struct {
    const char *name;
    int least, most; /* files */
    int (*run)(const tool_args *args, tilec_context *cx);
} commands[] = {{"list", 1, 1, list},
                {"verify", 1, 1, verify},
                {"merge", 1, TOOL_MOST_WORDS, merge},
                {"diff", 2, 2, diff}};

static int bundle_run(const tool_args *args)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (args->nwords == 0 || strcmp(args->words[0], commands[i].name) != 0)
            continue;
        int n = args->nwords - 1;
        if (n < commands[i].least || n > commands[i].most)
            return tool_usage(args->command, "%s expects %d file%s, found %d",
                              args->words[0], commands[i].least,
                              commands[i].least == 1 ? "" : "s", n);
        tilec_context *cx;
        if (tilec_context_new(NULL, &cx)) {
            report("out of memory");
            return EXIT_MACHINE;
        }
        int code = commands[i].run(args, cx);
        tilec_context_free(cx);
        return code;
    }
    return tool_usage(args->command, "expected list, verify, merge or diff");
}

static const tool_option options[] = {
    {"-o", "FILE", "merge: write the bundle there"}, {0}};

const tool_command tool_bundle = {
    "bundle",
    "list|verify|merge|diff FILE [FILE...] [options]",
    "Looks at bundles of compiled kernels, and merges them.",
    "`tilec compile --emit=bundle` makes bundles (docs/engines.md).\n"
    "  list    what is in it: kind, target, CPU, bytes, request\n"
    "  verify  makes all its kernels, and says what is not sound\n"
    "  merge   all entries of several; of equal requests, the last file's\n"
    "  diff    entries of one only (-, +), and with other contents (!);\n"
    "          exit code 1 if there are any\n",
    options,
    bundle_run};
