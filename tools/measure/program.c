/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/measure/program.h"

#include "ir/ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NAME=VALUE in two; the name is copied into `room`. */
static bool split_binding(const char *word, char *room, size_t size,
                          tilec_binding *out)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word || (size_t)(equals - word) >= size)
        return false;
    memcpy(room, word, (size_t)(equals - word));
    room[equals - word] = 0;
    *out = (tilec_binding){room, equals + 1};
    return true;
}

static void on_pass(void *user, const tilec_pass_event *e)
{
    const tool_args *args = user;
    if (!e->after)
        return;
    if (e->text)
        printf("// after %s\n%s", e->pass, e->text);
    if (tool_has(args, "--time-passes"))
        fprintf(stderr, "%10.3f ms  %s\n", 1e-6 * (double)e->nanoseconds,
                e->pass);
}

/* FILE.tile@kernel: the text's name, and the kernel (NULL: the only one). */
static char *split_kernel(const char *word, const char **kernel)
{
    const char *at = strrchr(word, '@');
    *kernel = at ? at + 1 : NULL;
    return strndup(word, at ? (size_t)(at - word) : strlen(word));
}

/* The value of an option that is a count; false: said what is wrong. */
static bool read_count(const tool_args *args, const char *option, long most,
                       unsigned *out)
{
    const char *text = tool_value(args, option);
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;
    if (text && (end == text || *end || n < 1 || n > most)) {
        tool_usage(args->command, "%s is `%s`, expected 1 to %ld", option, text,
                   most);
        return false;
    }
    *out = (unsigned)n;
    return true;
}

static bool read_tiles(const tool_args *args, tilec_tiles *out)
{
    const char *text = tool_value(args, "--tiles");
    *out = text ? (tilec_tiles)tc_tiles_parse(text) : TILEC_TILES_ANY;
    if (!text || *out)
        return true;
    tool_usage(args->command,
               "--tiles is `%s`, expected none, static or dynamic", text);
    return false;
}

static bool read_options(const tool_args *args, tilec_compile_options *o)
{
    o->target = tool_value(args, "--target");
    o->user = (void *)(uintptr_t)args;
    o->read_source = read_source;
    o->print_after = tool_value(args, "--print-after");
    o->no_cache = tool_has(args, "--no-cache");
    /* Events keep the library from taking code out of its cache. */
    if (o->print_after || tool_has(args, "--time-passes"))
        o->on_pass = on_pass;
    int enforce = 0;
    bool ok = tool_enforce(args, &enforce);
    o->enforce = (tilec_enforce)enforce;
    return ok && read_count(args, "--warps", 32, &o->warps) &&
           read_count(args, "--stages", 16, &o->stages) &&
           read_count(args, "--ptxas-level", 3, &o->ptxas_level) &&
           read_tiles(args, &o->tiles) &&
           tool_precision(args, &o->float32_precision);
}

static int read_bindings(program *p, const tool_args *args)
{
    tilec_compile_options *o = &p->options;
    for (int i = 0; i < args->ngiven; i++) {
        if (strcmp(args->given[i].name, "-D") != 0)
            continue;
        if (o->nbindings == PROGRAM_BINDINGS ||
            !split_binding(args->given[i].value, p->names[o->nbindings],
                           sizeof p->names[0], &p->bindings[o->nbindings]))
            return tool_usage(args->command, "-D %s: expected NAME=VALUE",
                              args->given[i].value);
        o->nbindings++;
    }
    return EXIT_DONE;
}

/* No file has that name: one of the programs of tilec may be meant. */
static void suggest_embedded(const char *file)
{
    const char *names[64];
    size_t n = 0;
    while (n < 64 && (names[n] = tilec_embedded_name(n)))
        n++;
    const char *near = tc_nearest_name(file, names, n);
    fprintf(stderr,
            "%s%s%s`tilec info kernels` lists the programs that come with "
            "tilec\n",
            near ? "did you mean `" : "", near ? near : "", near ? "`? " : "");
}

int program_read(program *p, const tool_args *args, const char *word)
{
    *p = (program){.options = TILEC_INIT(tilec_compile_options)};
    p->options.bindings = p->bindings;
    if (!read_options(args, &p->options))
        return EXIT_USAGE;
    int code = read_bindings(p, args);
    if (code)
        return code;
    p->file = split_kernel(word, &p->options.kernel);
    if (!p->file)
        return EXIT_MACHINE;
    p->source = tilec_text(p->file, NULL, 0);
    if (tilec_embedded_text(p->file))
        return EXIT_DONE;
    p->text = read_text(p->file, &p->source.length);
    p->source.text = p->text;
    if (!p->text && !strpbrk(p->file, "./"))
        suggest_embedded(p->file);
    return p->text ? EXIT_DONE : EXIT_INPUT;
}

void program_free(program *p)
{
    free(p->text);
    free(p->file);
    *p = (program){0};
}

int program_with(const tool_args *args, tilec_context *cx, const char *word,
                 const tilec_compile_options *options,
                 program_compile_fn *compile, void *user)
{
    program p;
    int code = program_read(&p, args, word);
    if (!code) {
        p.options.examples = options->examples;
        p.options.nexamples = options->nexamples;
        p.options.no_load = options->no_load;
        code = (int)compile(user, cx, &p.source, &p.options);
        if (code)
            report_compile(cx, (tilec_status)code);
        else
            report_remarks(cx);
    }
    program_free(&p);
    return code;
}

static tilec_status compile_kernel(void *user, tilec_context *cx,
                                   const tilec_source *source,
                                   const tilec_compile_options *options)
{
    return tilec_compile(cx, source, 1, options, user);
}

int program_compile(const tool_args *args, tilec_context *cx, const char *word,
                    const tilec_argument *examples, size_t nexamples, bool load,
                    tilec_kernel **kernel)
{
    tilec_compile_options o = TILEC_INIT(tilec_compile_options);
    o.examples = examples;
    o.nexamples = nexamples;
    o.no_load = !load;
    return program_with(args, cx, word, &o, compile_kernel, kernel);
}

int program_command(const tool_args *args,
                    int (*work)(const tool_args *args, tilec_context *cx))
{
    if (args->nwords != 1)
        return tool_usage(args->command, "expected one program, found %d words",
                          args->nwords);
    tilec_context *cx;
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    bool remarks;
    if (!tool_remarks(args, &remarks))
        return EXIT_USAGE;
    o.remarks = remarks;
    if (tilec_context_new(&o, &cx)) {
        report("out of memory");
        return EXIT_MACHINE;
    }
    int code = work(args, cx);
    tilec_context_free(cx);
    return code;
}
