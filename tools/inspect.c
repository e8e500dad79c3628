/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec inspect: what became of a kernel's loads and products, as a table; what
 * the compiler did, as JSON or as a page for a browser.
 */
#include "tools/measure/program.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A compile, by its command line ---- */

typedef tilec_status inspect_fn(tilec_context *cx, const tilec_source *sources,
                                size_t nsources,
                                const tilec_compile_options *options,
                                char **text);

typedef struct asking {
    inspect_fn *inspect;
    char *text; /* for tilec_free */
} asking;

static tilec_status ask(void *user, tilec_context *cx,
                        const tilec_source *source,
                        const tilec_compile_options *options)
{
    asking *a = user;
    return a->inspect(cx, source, 1, options, &a->text);
}

static int inspect(const tool_args *args, tilec_context *cx, inspect_fn *fn,
                   char **text)
{
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    asking a = {fn, NULL};
    int code = program_with(args, cx, args->words[0], &o, ask, &a);
    *text = a.text;
    return code;
}

/* ---- The other compile ---- */

/* Is it given by both with the same meaning: --target, or -D of one name? */
static bool is_same_option(const char *name, const char *a, const char *other,
                           const char *b)
{
    if (strcmp(name, other) != 0)
        return false;
    if (strcmp(name, "-D") != 0)
        return true;
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

static bool is_replaced(const tool_args *by, const char *name,
                        const char *value)
{
    for (int i = 0; i < by->ngiven; i++)
        if (is_same_option(name, value ? value : "", by->given[i].name,
                           by->given[i].value ? by->given[i].value : ""))
            return true;
    return false;
}

/* The options of this command, with those of OTHER in their place. */
static void merge(const tool_args *args, tool_args *other)
{
    if (!other->nwords)
        other->words[other->nwords++] = args->words[0];
    for (int i = 0; i < args->ngiven; i++) {
        const char *name = args->given[i].name, *value = args->given[i].value;
        if (other->ngiven == TOOL_MOST_WORDS || strcmp(name, "-o") == 0 ||
            strcmp(name, "--against") == 0 || strcmp(name, "--profile") == 0 ||
            strcmp(name, "--mask") == 0 || is_replaced(other, name, value))
            continue;
        other->given[other->ngiven].name = name;
        other->given[other->ngiven++].value = value;
    }
}

/* Words with blanks between, into `words`; cuts `text`. */
static int split(char *text, char **words, int most)
{
    int n = 0;
    for (char *at = strtok(text, " "); at && n < most; at = strtok(NULL, " "))
        words[n++] = at;
    return n;
}

static int compile_other(const tool_args *args, char *words, char **json)
{
    enum { MOST = 64 };
    char *argv[MOST] = {"inspect"};
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    tilec_context *cx;
    tool_args *other = calloc(1, sizeof *other);
    int code = EXIT_USAGE;
    if (!other || tilec_context_new(&o, &cx)) {
        free(other);
        report("out of memory");
        return EXIT_MACHINE;
    }
    int argc = 1 + split(words, argv + 1, MOST - 1);
    if (tool_parse(args->command, argc, argv, other)) {
        merge(args, other);
        code = inspect(other, cx, tilec_inspect_json, json);
    }
    tilec_context_free(cx);
    free(other);
    return code;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* --against: a document in a file, or words of a command line. */
static int read_other(const tool_args *args, char **json)
{
    const char *other = tool_value(args, "--against");
    size_t n;
    if (!other)
        return EXIT_DONE;
    if (ends_in(other, ".json")) {
        char *text = read_text(other, &n);
        *json = text;
        return text ? EXIT_DONE : EXIT_INPUT;
    }
    char *words = strdup(other);
    if (!words)
        return EXIT_MACHINE;
    int code = compile_other(args, words, json);
    free(words);
    return *json ? EXIT_DONE : code;
}

/* ---- Documents of other commands ---- */

/* What `tilec profile --json` and `tilec info mask --json` print. */
static const struct part {
    const char *option, *member, *schema, *source;
} parts[] = {
    {"--profile", "measured", "tilec.timeline", "tilec profile .. --json"},
    {"--mask", "mask", "tilec.mask", "tilec info mask .. --json"},
};

/* One object and nothing after it, of that schema's version 1. */
static bool has_schema(const char *text, size_t n, const char *schema)
{
    cJSON *j = cJSON_ParseWithLengthOpts(text, n + 1, NULL, true);
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(j, "version");
    const char *name =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "schema"));
    bool fits = name && strcmp(name, schema) == 0 && cJSON_IsNumber(version) &&
                version->valueint == 1;
    cJSON_Delete(j);
    return fits;
}

/* Puts a file's object into *json, an object, as a member; takes *json. */
static int add_part(const struct part *p, const char *path, char **json)
{
    size_t n, length = strlen(*json);
    char *text = read_text(path, &n), *all = NULL;
    if (!text)
        return EXIT_INPUT;
    if (!has_schema(text, n, p->schema)) {
        report("%s: expected the output of `%s` for %s, an object with the "
               "schema %s, version 1",
               path, p->source, p->option, p->schema);
        free(text);
        return EXIT_INPUT;
    }
    while (length && (*json)[length - 1] != '}')
        length--;
    size_t room = length + n + strlen(p->member) + 8;
    all = length ? malloc(room) : NULL;
    if (all)
        snprintf(all, room, "%.*s,\"%s\":%s}", (int)length - 1, *json,
                 p->member, text);
    else
        report("out of memory");
    free(text);
    if (!all)
        return EXIT_MACHINE;
    tilec_free(*json);
    *json = all;
    return EXIT_DONE;
}

static int add_parts(const tool_args *args, char **json)
{
    int code = EXIT_DONE;
    for (size_t i = 0; !code && i < sizeof parts / sizeof *parts; i++) {
        const char *path = tool_value(args, parts[i].option);
        if (path)
            code = add_part(&parts[i], path, json);
    }
    return code;
}

/* ---- Output ---- */

static int write_page(const tool_args *args, const char *json)
{
    char *against = NULL, *page = NULL;
    int code = read_other(args, &against);
    if (!code && tilec_inspect_page(json, against, &page)) {
        report("out of memory");
        code = EXIT_MACHINE;
    }
    code = code ? code : write_text(tool_value(args, "-o"), page);
    tilec_free(page);
    free(against);
    return code;
}

/* A text that is wrong gives a document too: the exit code is that of the
 * compile. */
static int write_document(const tool_args *args, tilec_context *cx)
{
    char *json;
    int code = inspect(args, cx, tilec_inspect_json, &json);
    int written = json ? add_parts(args, &json) : EXIT_DONE;
    if (json && !written)
        written = tool_has(args, "--json")
                      ? write_text(tool_value(args, "-o"), json)
                      : write_page(args, json);
    tilec_free(json);
    return code ? code : written;
}

static int write_table(const tool_args *args, tilec_context *cx)
{
    char *text;
    int code = inspect(args, cx, tilec_inspect, &text);
    if (!code)
        code = write_text(tool_value(args, "-o"), text);
    tilec_free(text);
    return code;
}

static int show(const tool_args *args, tilec_context *cx)
{
    const char *path = tool_value(args, "-o");
    bool page = path && ends_in(path, ".html");
    if (tool_has(args, "--against") && !page)
        return tool_usage(args->command,
                          "--against puts two compiles on a page: expected "
                          "-o PAGE.html");
    return page || tool_has(args, "--json") ? write_document(args, cx)
                                            : write_table(args, cx);
}

static int inspect_run(const tool_args *args)
{
    return program_command(args, show);
}

static const tool_option options[] = {
    {"-o", "FILE",
     "write it there (default: standard output); FILE.html: a page for\n"
     "a browser, which shows all that --json has"},
    {"--json", NULL, "all that the compiler knows (docs/inspector.md)"},
    {"--against", "OTHER",
     "a page of two compiles: OTHER is a file of --json, or options and\n"
     "maybe a program, as in --against '--target sm_80 -D BN=64'"},
    {"--profile", "FILE",
     "what `tilec profile .. --json` printed: the page shows it beside\n"
     "the model"},
    {"--mask", "FILE",
     "what `tilec info mask .. --json` printed: the page draws it"},
    PROGRAM_OPTIONS,
    {0}};

const tool_command tool_inspect = {
    "inspect",
    "FILE.tile[@kernel] --target TARGET [options]",
    "Shows what the compiler made of a kernel, and why.",
    "For every load: its source line, bytes next to each other in memory, "
    "bytes that an\naccess moves, whether it is asynchronous (and why not), "
    "how its buffer lies in\nshared memory, and bank conflicts of what reads "
    "and writes the buffer. For every\nproduct: its instruction, where its "
    "operands come from, and the orders in which it\ntakes them. Then pictures "
    "of the hot loop's buffers (`tilec info layout` draws\nwhole ones). "
    "With -o FILE.html: a page with the program after each pass, its code,\n"
    "layouts and schedule.\n",
    options,
    inspect_run};
