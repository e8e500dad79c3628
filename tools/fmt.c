/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec fmt: writes programs in one way.
 */
#include "tools/common/commands.h"
#include "tools/common/render.h"
#include "tools/editors/format.h"

#include <stdlib.h>
#include <string.h>

/* The formatted text, malloc'd; NULL: said why. */
static char *format_file(const char *name, const char *text, size_t len,
                         int *status)
{
    tc_context *cx = tc_context_new();
    char *volatile copy = NULL;
    jmp_buf unwind;
    tc_arena arena;
    *status = EXIT_MACHINE;
    if (cx && !setjmp(unwind)) {
        cx->memory.unwind = &unwind;
        tc_arena_init(&arena, &cx->memory);
        tc_text out = {.arena = &arena};
        uint32_t source = tc_source_add(cx, name, text, len);
        bool ok = format_text(cx, &arena, source, &out);
        *status = ok ? EXIT_DONE : EXIT_INPUT;
        if (ok)
            copy = strdup(out.data);
        else
            render_diags(stderr, cx);
        if (ok && !copy)
            *status = EXIT_MACHINE;
        tc_arena_reset(&arena);
    }
    if (*status == EXIT_MACHINE)
        report("out of memory");
    tc_context_free(cx);
    return copy;
}

/* The exit code for one file. */
static int format_one(const tool_args *args, const char *path)
{
    size_t len;
    int status;
    char *text = read_text(path, &len);
    if (!text)
        return EXIT_INPUT;
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    char *out = format_file(name, text, len, &status);
    bool differs = out && (strlen(out) != len || memcmp(out, text, len) != 0);
    if (out && tool_has(args, "--check")) {
        if (differs)
            printf("%s\n", name);
        status = differs ? EXIT_INPUT : EXIT_DONE;
    } else if (out && !tool_has(args, "-i")) {
        status = write_text(NULL, out);
    } else if (differs) {
        status = write_text(path, out);
    }
    free(out);
    free(text);
    return status;
}

static int fmt_run(const tool_args *args)
{
    bool in_place = tool_has(args, "-i");
    int worst = EXIT_DONE;
    if (in_place && tool_has(args, "--check"))
        return tool_usage(args->command, "-i and --check: expected one of "
                                         "them");
    for (int i = 0; in_place && i < (args->nwords ? args->nwords : 1); i++)
        if (!args->nwords || strcmp(args->words[i], "-") == 0)
            return tool_usage(args->command,
                              "-i writes into files, and there is none");
    if (!args->nwords)
        return format_one(args, "-");
    for (int i = 0; i < args->nwords; i++) {
        int status = format_one(args, args->words[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}

static const tool_option options[] = {
    {"-i", NULL, "write the result into the files"},
    {"--check", NULL,
     "write nothing, list the files that are not formatted; exit code 1 if\n"
     "there are any"},
    {0}};

const tool_command tool_fmt = {
    "fmt",
    "[FILE.tile...]",
    "Formats programs: indentation, blanks, blank lines.",
    "Without a file (or with `-`): from standard input to standard output. "
    "Line breaks\nand comments stay. A file with an error of form is left as "
    "it is.\n",
    options,
    fmt_run};
