/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of options, by what the tables call them.
 */
#define _GNU_SOURCE /* open_memstream */
#include "tools/shell/shell.h"

#include "passes/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name ("" for any) and what stands for its value in the help. */
static const struct {
    const char *option, *value, *words;
} facts[] = {
    {"--emit", "WHAT",
     "tile schedule llvm llvm-opt json asm machine ptx cubin sass"},
    {"--tiles", "HOW", "none static dynamic"},
    {"--enforce", "HOW", "warn error off"},
    {"--precision", "P", "ieee tf32 tf32x3"},
    {"--remarks", "[=WHICH]", "all"},
    {"--diagnostics", "FORMAT", "text json"},
    {"--lists", "WHEN", "always never"},
    {"--dtype", "TYPE", "f32 f16 bf16"},
    {"--quantize", "TYPE", "f8e4m3 f8e5m2"},
    {"--type", "TYPE", "f8e4m3 f8e5m2"},
    {"--bits", "N", "8 16 32 64"},
    {"--ptxas-level", "N", "1 2 3"},
};

static void put_targets(FILE *out)
{
    const char *name;
    fputs("auto", out);
    for (size_t i = 0; (name = tilec_target_name(i)); i++)
        fprintf(out, " %s", name);
}

static void put_passes(FILE *out, bool has_all)
{
    fputs(has_all ? "all" : "", out);
    for (unsigned i = 0; i < tc_npass_infos; i++)
        if (!tc_pass_infos[i].folder)
            fprintf(out, " %s", tc_pass_infos[i].name);
}

/* The functions of mods/masks.tile, say. */
static void put_mods(FILE *out, const char *kind)
{
    const char *name;
    for (size_t i = 0; (name = tilec_embedded_name(i)); i++) {
        if (strncmp(name, "mods/", 5) != 0 || !strstr(name, kind))
            continue;
        for (const char *s = tilec_embedded_text(name);
             (s = strstr(s, "\nfunc @"));) {
            s += sizeof "\nfunc @" - 1;
            fprintf(out, " %.*s", (int)strcspn(s, "[( "), s);
        }
    }
}

shell_values shell_values_of(const tool_option *o, char **words)
{
    size_t size;
    *words = NULL;
    if (!o->value)
        return SHELL_NONE;
    if (strcmp(o->value, "FILE") == 0)
        return SHELL_FILES;
    if (strcmp(o->value, "DIR") == 0)
        return SHELL_FOLDERS;
    FILE *out = open_memstream(words, &size);
    if (!out)
        return SHELL_NONE;
    if (strcmp(o->name, "--target") == 0)
        put_targets(out);
    else if (strcmp(o->value, "PASSES") == 0 || strcmp(o->value, "LIST") == 0)
        put_passes(out, strcmp(o->name, "-p") != 0);
    else if (strcmp(o->value, "MASK") == 0)
        put_mods(out, "masks");
    else if (strcmp(o->value, "SCORE") == 0)
        put_mods(out, "scores");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(o->name, facts[i].option) == 0 &&
            strcmp(o->value, facts[i].value) == 0)
            fputs(facts[i].words, out);
    fclose(out);
    return *words && **words ? SHELL_WORDS : SHELL_NONE;
}

static bool takes_kernels(const tool_command *c)
{
    return c == &tool_run || c == &tool_compile || c == &tool_inspect ||
           c == &tool_bench;
}

char *shell_words_of(const tool_command *c)
{
    char *words = NULL;
    const char *name;
    size_t size;
    FILE *out = open_memstream(&words, &size);
    if (!out)
        return NULL;
    for (size_t i = 0; takes_kernels(c) && (name = tilec_embedded_name(i)); i++)
        if (!strchr(name, '/'))
            fprintf(out, " %s", name);
    if (c == &tool_bench)
        fputs(" attention decode", out);
    if (c == &tool_tune)
        fputs("attention", out);
    if (c == &tool_cache)
        fputs("list clear why", out);
    if (c == &tool_completion)
        fputs("bash zsh fish", out);
    if (c == &tool_info)
        fputs("targets kernels mods ops passes commands vim textmate versions "
              "layout mask man",
              out);
    fclose(out);
    return words;
}

bool shell_takes_files(const tool_command *c)
{
    return c != &tool_completion && c != &tool_info && c != &tool_tune;
}

bool shell_is_optional(const tool_option *o)
{
    return o->value && o->value[0] == '[';
}

int shell_line(const char *help)
{
    return (int)strcspn(help, "\n");
}
