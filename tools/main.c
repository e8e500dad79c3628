/* SPDX-License-Identifier: Apache-2.0
 *
 * The tilec command: a table of subcommands.
 */
#include "ir/base/diag.h"
#include "tools/common/commands.h"
#include "tools/common/render.h"

#include <llvm-c/ErrorHandling.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const tool_command *const tool_commands[] = {
    &tool_attention, &tool_append,  &tool_quantize,
    &tool_run,       &tool_compile, &tool_inspect,
    &tool_opt,       &tool_bench,   &tool_tune,
    &tool_cache,     &tool_bundle,  &tool_profile,
    &tool_fmt,       &tool_lsp,     &tool_completion,
    &tool_info,      NULL};
enum { NCOMMANDS = sizeof tool_commands / sizeof *tool_commands - 1 };

static void help(void)
{
    printf("usage: tilec COMMAND ...\n\n"
           "tilec %s compiles kernels in tile IR and runs them.\n\n",
           tilec_version());
    for (int i = 0; i < NCOMMANDS; i++)
        printf("  %-10s %.*s\n", tool_commands[i]->name,
               (int)strcspn(tool_commands[i]->summary, "\n"),
               tool_commands[i]->summary);
    printf("\n`tilec COMMAND --help`, or `tilec help COMMAND`, says more; "
           "`tilec --version` the version.\n");
}

static int unknown(const char *word)
{
    const char *names[NCOMMANDS];
    for (int i = 0; i < NCOMMANDS; i++)
        names[i] = tool_commands[i]->name;
    const char *near = tc_nearest_name(word, names, NCOMMANDS);
    char text[160];
    snprintf(text, sizeof text, "unknown command `%.60s`%s%s%s", word,
             near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    render_usage(stderr, NULL, text);
    return EXIT_USAGE;
}

static const tool_command *main_find(const char *word)
{
    for (int i = 0; i < NCOMMANDS; i++)
        if (strcmp(word, tool_commands[i]->name) == 0)
            return tool_commands[i];
    return NULL;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        render_usage(stderr, NULL, "expected a command");
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    const tool_command *command = main_find(word);
    bool asks = strcmp(word, "help") == 0;
    if (asks && argc > 2) {
        command = main_find(argv[2]);
        return command ? (tool_help(command), EXIT_DONE) : unknown(argv[2]);
    }
    if (asks || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help();
        return EXIT_DONE;
    }
    if (strcmp(word, "--version") == 0) {
        printf("tilec %s\n", tilec_version());
        return EXIT_DONE;
    }
    tool_args args;
    if (!command)
        return unknown(word);
    if (!tool_parse(command, argc - 1, argv + 1, &args))
        return EXIT_USAGE;
    if (tool_has(&args, "--help")) {
        tool_help(command);
        return EXIT_DONE;
    }
    return command->run(&args);
}

/* LLVM ends the process when it finds itself broken: at least in our words.
 * No exit handlers: LLVM's own could wait for the thread that is here. */
static void llvm_failed(const char *why)
{
    report("LLVM failed: %s", why);
    _exit(EXIT_MACHINE);
}

int main(int argc, char **argv)
{
    LLVMInstallFatalErrorHandler(llvm_failed);
    int code = dispatch(argc, argv);
    /* A full disk shows when the rest is written out. */
    if (!flush_stream(stdout)) {
        report_file("standard output");
        return EXIT_MACHINE;
    }
    return code;
}
