/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/args.h"

#include "ir/base/diag.h"
#include "passes/passes.h"
#include "tools/common/progress.h"
#include "tools/common/render.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tool_usage(const tool_command *c, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    render_usage(stderr, c->name, text);
    return EXIT_USAGE;
}

/* Options of every command; --help is one by itself. */
const tool_option tool_options_everywhere[] = {
    {"--diagnostics", "FORMAT",
     "errors, warnings and remarks as text (default) or json: an object a\n"
     "line"},
    {0}};

static bool unknown(const tool_command *c, const char *word)
{
    enum { MOST = 40 };
    const char *names[MOST + 2];
    size_t n = 0, len = strcspn(word, "=");
    for (const tool_option *o = c->options; o->name && n < MOST; o++)
        names[n++] = o->name;
    for (const tool_option *o = tool_options_everywhere; o->name; o++)
        names[n++] = o->name;
    names[n++] = "--help";
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)len, word);
    const char *near = tc_nearest_name(name, names, n);
    tool_usage(c, "unknown option %s%s%s%s", name,
               near ? "; did you mean " : "", near ? near : "",
               near ? "?" : "");
    return false;
}

/* The option that a word begins, and the value in the same word (or NULL). */
static const tool_option *find_option(const tool_command *c, const char *word,
                                      const char **value)
{
    *value = NULL;
    for (const tool_option *o = c->options; o->name; o++) {
        size_t n = strlen(o->name);
        if (strncmp(word, o->name, n) != 0)
            continue;
        if (word[n] == 0)
            return o;
        if (o->value && n > 2 && word[n] == '=') {
            *value = word + n + 1;
            return o;
        }
        if (o->value && n == 2) {
            *value = word + n;
            return o;
        }
    }
    return NULL;
}

static bool give(const tool_command *c, tool_args *out, const char *name,
                 const char *value)
{
    if (out->ngiven == TOOL_MOST_WORDS) {
        tool_usage(c, "too many options");
        return false;
    }
    out->given[out->ngiven].name = name;
    out->given[out->ngiven++].value = value;
    return true;
}

static bool takes_many(const tool_option *o)
{
    size_t n = strlen(o->value);
    return n > 3 && strcmp(o->value + n - 3, "...") == 0;
}

/* "[=WHICH]": a value in the same word only, or none. */
static bool is_optional(const tool_option *o)
{
    return o->value[0] == '[';
}

static bool take_option(const tool_command *c, int argc, char **argv, int *i,
                        tool_args *out)
{
    const char *value;
    const tool_option *o = find_option(c, argv[*i], &value);
    if (!o)
        return unknown(c, argv[*i]);
    if (value)
        return give(c, out, o->name, value);
    if (!o->value || is_optional(o))
        return give(c, out, o->name, NULL);
    if (*i + 1 == argc) {
        tool_usage(c, "%s needs a value: %s %s", o->name, o->name, o->value);
        return false;
    }
    if (!give(c, out, o->name, argv[++*i]))
        return false;
    while (takes_many(o) && *i + 1 < argc && argv[*i + 1][0] != '-')
        if (!give(c, out, o->name, argv[++*i]))
            return false;
    return true;
}

static bool take_everywhere(const tool_command *c, int argc, char **argv,
                            int *i, tool_args *out)
{
    const tool_command table = {.name = c->name,
                                .options = tool_options_everywhere};
    if (!take_option(&table, argc, argv, i, out))
        return false;
    const char *format = tool_value(out, "--diagnostics");
    if (strcmp(format, "json") == 0)
        render_as_json(), progress_off();
    else if (strcmp(format, "text") != 0)
        return tool_usage(c, "--diagnostics is `%s`, expected text or json",
                          format),
               false;
    return true;
}

bool tool_parse(const tool_command *c, int argc, char **argv, tool_args *out)
{
    const char *value;
    const tool_command common = {.options = tool_options_everywhere};
    *out = (tool_args){.command = c};
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && word[0] == '-' && word[1]) {
            if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
                if (!give(c, out, "--help", NULL))
                    return false;
            } else if (find_option(&common, word, &value)) {
                if (!take_everywhere(c, argc, argv, &i, out))
                    return false;
            } else if (!take_option(c, argc, argv, &i, out)) {
                return false;
            }
        } else if (out->nwords == TOOL_MOST_WORDS) {
            tool_usage(c, "too many words");
            return false;
        } else {
            out->words[out->nwords++] = word;
        }
    }
    return true;
}

bool tool_has(const tool_args *args, const char *option)
{
    for (int i = 0; i < args->ngiven; i++)
        if (strcmp(args->given[i].name, option) == 0)
            return true;
    return false;
}

const char *tool_value(const tool_args *args, const char *option)
{
    for (int i = args->ngiven; i-- > 0;)
        if (strcmp(args->given[i].name, option) == 0)
            return args->given[i].value;
    return NULL;
}

bool tool_precision(const tool_args *args, const char **out)
{
    *out = tool_value(args, "--precision");
    if (!*out || tc_is_precision(*out))
        return true;
    tool_usage(args->command,
               "--precision is `%s`, expected ieee, tf32 or tf32x3", *out);
    return false;
}

bool tool_enforce(const tool_args *args, int *out)
{
    const char *how = tool_value(args, "--enforce");
    *out = how ? (int)tc_enforce_parse(how) : TC_ENFORCE_WARN;
    if (*out != TC_ENFORCE_COUNT)
        return true;
    tool_usage(args->command, "--enforce is `%s`, expected off, warn or error",
               how);
    return false;
}

bool tool_remarks(const tool_args *args, bool *want)
{
    const char *which = tool_value(args, "--remarks");
    *want = tool_has(args, "--remarks");
    if (which && strcmp(which, "all") != 0 && strcmp(which, "missed") != 0) {
        tool_usage(args->command, "--remarks is `%s`, expected missed or all",
                   which);
        return false;
    }
    if (!which || strcmp(which, "missed") == 0)
        render_only_missed();
    return true;
}

int tool_lists(const tool_args *args, int *out)
{
    const char *when = tool_value(args, "--lists");
    *out = 0;
    if (!when)
        return EXIT_DONE;
    *out = strcmp(when, "always") == 0 ? 1 : -1;
    return *out == 1 || strcmp(when, "never") == 0
               ? EXIT_DONE
               : tool_usage(args->command,
                            "--lists is `%s`, expected always or never", when);
}

int tool_dropout(const tool_args *args, double *p, int64_t *seed)
{
    const char *share = tool_value(args, "--dropout"),
               *key = tool_value(args, "--seed");
    char *end;
    *p = 0;
    *seed = 0;
    if (key && !share)
        return tool_usage(args->command, "--seed is for --dropout");
    if (!share)
        return EXIT_DONE;
    *p = strtod(share, &end);
    if (end == share || *end || !(*p >= 0 && *p <= 1))
        return tool_usage(args->command,
                          "--dropout is `%s`, expected 0 to 1, such as 0.1",
                          share);
    if (!key)
        return EXIT_DONE;
    errno = 0;
    *seed = strtoll(key, &end, 0);
    return end == key || *end || errno
               ? tool_usage(args->command,
                            "--seed is `%s`, expected an integer of 64 bits",
                            key)
               : EXIT_DONE;
}

static void put_option(const char *name, const char *value, const char *help)
{
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", name,
             value && value[0] != '[' ? " " : "", value ? value : "");
    printf("  %-24s ", left);
    if (strlen(left) > 24)
        printf("\n  %-24s ", "");
    for (; *help; help++) {
        putchar(*help);
        if (*help == '\n')
            printf("  %-24s ", "");
    }
    putchar('\n');
}

void tool_help(const tool_command *c)
{
    printf("usage: tilec %s %s\n\n%s\n%s\n", c->name, c->words, c->summary,
           c->help);
    for (const tool_option *o = c->options; o->name; o++)
        put_option(o->name, o->value, o->help);
    for (const tool_option *o = tool_options_everywhere; o->name; o++)
        put_option(o->name, o->value, o->help);
    put_option("--help", NULL, "print this");
    printf("\nExit code: 0 done, 1 the input is wrong, 2 the command line is "
           "wrong,\n3 the machine failed.\n");
}
