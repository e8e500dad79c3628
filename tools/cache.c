/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec cache: lists the compiled code that is kept, and says why a compile
 * does not find its code.
 */
#include "tools/measure/program.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct listing {
    bool json;
    size_t n;
    uint64_t bytes;
};

static void put_entry(void *user, const tilec_cache_entry *e)
{
    struct listing *l = user;
    char when[32] = "";
    time_t used = (time_t)e->used;
    struct tm tm;
    l->n++;
    l->bytes += e->bytes;
    if (localtime_r(&used, &tm))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    if (l->json)
        printf("{\"key\": \"%s\", \"kernel\": \"%s\", \"target\": \"%s\", "
               "\"bytes\": %llu, \"used\": %lld}\n",
               e->key, e->kernel ? e->kernel : "", e->target ? e->target : "",
               (unsigned long long)e->bytes, (long long)e->used);
    else if (e->kernel)
        printf("%s  %s  %8llu  %-6s @%s\n", e->key, when,
               (unsigned long long)e->bytes, printable(e->target).text,
               printable(e->kernel).text);
    else
        printf("%s  %s  %8llu  damaged\n", e->key, when,
               (unsigned long long)e->bytes);
}

static int list(const tool_args *args, tilec_context *cx)
{
    struct listing l = {.json = tool_has(args, "--json")};
    tilec_error e = TILEC_INIT(tilec_error);
    if (tilec_cache_list(cx, put_entry, &l, &e))
        return report_error(&e);
    const char *folder = tilec_cache_folder(cx);
    if (!l.json)
        printf("%zu entr%s, %.1f MiB in %s\n", l.n, l.n == 1 ? "y" : "ies",
               (double)l.bytes / (1 << 20),
               folder ? printable(folder).text : "no folder");
    return EXIT_DONE;
}

static int clear(const tool_args *args, tilec_context *cx)
{
    size_t n;
    tilec_error e = TILEC_INIT(tilec_error);
    (void)args;
    if (tilec_cache_clear(cx, &n, &e))
        return report_error(&e);
    printf("%zu entr%s deleted\n", n, n == 1 ? "y" : "ies");
    return EXIT_DONE;
}

static tilec_status ask_why(void *user, tilec_context *cx,
                            const tilec_source *source,
                            const tilec_compile_options *options)
{
    return tilec_cache_why(cx, source, 1, options, user);
}

static int why(const tool_args *args, tilec_context *cx)
{
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    char *text = NULL;
    int code = program_with(args, cx, args->words[1], &o, ask_why, &text);
    if (!code)
        code = write_text(NULL, text);
    tilec_free(text);
    return code;
}

static const struct {
    const char *name;
    int nwords;
    int (*run)(const tool_args *args, tilec_context *cx);
} actions[] = {{"list", 1, list}, {"clear", 1, clear}, {"why", 2, why}};
enum { NACTIONS = sizeof actions / sizeof *actions };

static int cache_run(const tool_args *args)
{
    int a = 0;
    while (a < NACTIONS && (args->nwords != actions[a].nwords ||
                            strcmp(args->words[0], actions[a].name) != 0))
        a++;
    if (a == NACTIONS)
        return tool_usage(args->command,
                          "expected list, clear, or why and a program");
    tilec_context *cx;
    if (tilec_context_new(NULL, &cx)) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    int code = actions[a].run(args, cx);
    tilec_context_free(cx);
    return code;
}

static const tool_option options[] = {
    {"--json", NULL, "list: one object a line"}, PROGRAM_OPTIONS, {0}};

const tool_command tool_cache = {
    "cache",
    "list | clear | why FILE.tile[@kernel] [options]",
    "Shows or empties the folder of compiled code, or explains it.",
    "The folder is $TILEC_CACHE_DIR, else $XDG_CACHE_HOME/tilec, else\n"
    "~/.cache/tilec. `why` takes the options of `compile`, and says in what\n"
    "the nearest entry differs from what they ask for.\n",
    options,
    cache_run};
