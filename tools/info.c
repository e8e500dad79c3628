/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec info: the features of this build.
 */
#include "ir/ir.h"
#include "lib/gpu/cuda.h"
#include "passes/passes.h"
#include "passes/target/target.h"
#include "tools/common/commands.h"
#include "tools/draw/layout.h"
#include "tools/draw/mask.h"
#include "tools/editors/syntax.h"
#include "tools/measure/inputs.h"
#include "tools/shell/shell.h"

#include <llvm-c/Core.h>

#include <stdio.h>
#include <string.h>

static void put_targets(void)
{
    const char *name;
    for (size_t i = 0; (name = tilec_target_name(i)); i++)
        puts(name);
}

static void put_traits(unsigned traits)
{
    static const char *const names[] = {"pure",   "commutes", "elementwise",
                                        "reads",  "writes",   "terminator",
                                        "machine"};
    const char *between = "";
    for (int i = 0; i < 7; i++)
        if (traits & (1u << i)) {
            printf("%s%s", between, names[i]);
            between = ", ";
        }
}

/* Cells of a table must not hold a bar. */
static void put_cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

/* The page ir/OPS.md. */
static void put_ops(void)
{
    puts("# Ops\n\n"
         "Printed by `tilec info ops` from `ir/ops.def`, whose head says what "
         "the\nletters of the operands mean. LANGUAGE.md has an example of "
         "each.\n\n"
         "| op | operands | attributes | traits | |\n|---|---|---|---|---|");
    for (int i = 0; i < TC_OPCODE_COUNT; i++) {
        const tc_op_info *op = &tc_op_infos[i];
        printf("| `%s` | %s%s%s | ", op->name, *op->in ? "`" : "", op->in,
               *op->in ? "`" : "");
        put_cell(op->attrs);
        printf(" | ");
        put_traits(op->traits);
        printf(" | ");
        put_cell(op->summary);
        puts(" |");
    }
}

/* " a, b" of "a b". */
static void put_list(const char *list)
{
    putchar(' ');
    for (; *list; list++)
        printf(*list == ' ' ? ", " : "%c", *list);
}

/* `needs layouts, roles; makes turns` of what there is. */
static void put_facts(const tc_pass_info *pass)
{
    const struct {
        const char *word, *list;
    } parts[] = {{"needs", pass->needs},
                 {"makes", pass->makes},
                 {"before", pass->before}};
    const char *between = "";
    for (int i = 0; i < 3; i++) {
        if (!*parts[i].list)
            continue;
        printf("%s%s", *between ? between : "                         ",
               parts[i].word);
        put_list(parts[i].list);
        between = "; ";
    }
    if (*between)
        puts("");
}

static void put_passes(void)
{
    for (unsigned i = 0; i < tc_npass_infos; i++) {
        const tc_pass_info *pass = &tc_pass_infos[i];
        if (pass->folder)
            printf("%s%s (passes/%s)\n", i ? "\n" : "", pass->summary,
                   pass->folder);
        else if (pass->passes)
            printf("\npipeline %s: %s\n  %s\n", pass->name, pass->summary,
                   pass->passes);
        else
            printf("  %-22s %s\n", pass->name, pass->summary);
        if (pass->needs)
            put_facts(pass);
    }
    puts("\nFacts: what passes make and need");
    for (unsigned i = 0; i < tc_npass_facts; i++)
        printf("  %-22s %s\n", tc_pass_facts[i].name, tc_pass_facts[i].meaning);
}

/* Each `func @name(...)` of an embedded text of mods, with the comment before
 * it. */
static void put_mods_of(const char *text)
{
    const char *comment = NULL;
    for (const char *line = text; line && *line;) {
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        if (strncmp(line, "//", 2) == 0) {
            comment = comment ? comment : line;
        } else {
            if (strncmp(line, "func @", 6) == 0) {
                if (comment)
                    printf("%.*s", (int)(line - comment), comment);
                int sig = (int)strcspn(line, "{\n");
                printf("%.*s\n\n", sig, line);
            }
            comment = NULL;
        }
        line = end ? end + 1 : line + n;
    }
}

static void put_mods(void)
{
    const char *name;
    for (size_t i = 0; (name = tilec_embedded_name(i)); i++)
        if (strncmp(name, "mods/", 5) == 0)
            put_mods_of(tilec_embedded_text(name));
}

static void put_kernels(void)
{
    const char *name;
    for (size_t i = 0; (name = tilec_embedded_name(i)); i++)
        if (strncmp(name, "mods/", 5) != 0)
            puts(name);
}

/* The targets that `auto` can choose from. */
static void put_driver(void)
{
    const tc_cuda *cuda = tc_cuda_get(NULL);
    if (*cuda->why_not) {
        printf("no GPU: %s\n", cuda->why_not);
        return;
    }
    printf("NVIDIA driver: CUDA %d.%d\n", cuda->version / 1000,
           cuda->version % 1000 / 10);
    for (int i = 0; i < cuda->ndevices; i++) {
        const tc_cuda_device *d = &cuda->devices[i];
        const tc_target *t = tc_target_for_device(d->major, d->minor);
        printf("device %d: %s, compute capability %u.%u, %u SMs, target %s\n",
               i, d->name, d->major, d->minor, d->sm_count,
               t ? t->name : "none");
    }
}

static void put_versions(void)
{
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    printf("tilec %s\nLLVM %u.%u.%u\n", tilec_version(), major, minor, patch);
    put_driver();
}

static void put_commands(void)
{
    for (int i = 0; tool_commands[i]; i++)
        puts(tool_commands[i]->name);
}

static const struct {
    const char *name, *summary;
    void (*put)(void);
} topics[] = {
    {"targets", "what kernels can be compiled for", put_targets},
    {"kernels", "embedded programs", put_kernels},
    {"mods", "mask and score functions", put_mods},
    {"ops", "the op table, as Markdown", put_ops},
    {"passes", "passes and pipelines", put_passes},
    {"commands", "names of all commands", put_commands},
    {"vim", "the syntax file for vim", syntax_put_vim},
    {"textmate", "the TextMate grammar, as VS Code reads it",
     syntax_put_textmate},
    {"versions", "of tilec, LLVM, the NVIDIA driver, devices", put_versions},
};
enum { NTOPICS = sizeof topics / sizeof *topics };

/* `man`: of tilec; `man COMMAND`. */
static int put_man(const tool_args *args)
{
    if (args->nwords == 1) {
        shell_put_man(NULL);
        return EXIT_DONE;
    }
    for (int i = 0; tool_commands[i]; i++)
        if (strcmp(tool_commands[i]->name, args->words[1]) == 0) {
            shell_put_man(tool_commands[i]);
            return EXIT_DONE;
        }
    return tool_usage(args->command, "man: there is no command `%s`",
                      args->words[1]);
}

static int info_run(const tool_args *args)
{
    if (args->nwords == 0) {
        for (int i = 0; i < NTOPICS; i++)
            printf("tilec info %-10s %s\n", topics[i].name, topics[i].summary);
        puts("tilec info layout     a layout as a table or picture");
        puts("tilec info mask       a mask by blocks, as a table or picture");
        puts("tilec info man        a manual page: of tilec, or `man COMMAND`");
        return EXIT_DONE;
    }
    if (strcmp(args->words[0], "man") == 0)
        return put_man(args);
    if (strcmp(args->words[0], "layout") == 0)
        return info_layout(args);
    if (strcmp(args->words[0], "mask") == 0)
        return info_mask(args);
    for (int w = 0; w < args->nwords; w++) {
        int t = 0;
        while (t < NTOPICS && strcmp(topics[t].name, args->words[w]) != 0)
            t++;
        if (t == NTOPICS) {
            const char *names[NTOPICS + 3] = {
                [NTOPICS] = "layout", "mask", "man"};
            for (int i = 0; i < NTOPICS; i++)
                names[i] = topics[i].name;
            const char *near =
                tc_nearest_name(args->words[w], names, NTOPICS + 3);
            return tool_usage(args->command, "unknown topic `%s`%s%s%s",
                              args->words[w], near ? "; did you mean " : "",
                              near ? near : "", near ? "?" : "");
        }
        topics[t].put();
    }
    return EXIT_DONE;
}

static const tool_option options[] = {
    {"--bits", "N",
     "of an element of the layout's tile: 8, 16 (as without "
     "it), 32, 64"},
    {"--q-len", "N", "of a mask: the number of queries"},
    {"--kv-len", "N", "of a mask: the number of keys (as many as queries)"},
    {"--block", "QxK", "of a mask: the sides of the blocks (128x128)"},
    {"--batch", "N", "of a mask: the batch that is shown (0)"},
    {"--head", "N", "of a mask: the head that is shown (0)"},
    {"-o", "FILE",
     "the layout or mask as a picture (SVG), in place of the table"},
    {"--json", NULL,
     "a mask as JSON (docs/inspector.md), for `tilec inspect --mask`"},
    {0}};

const tool_command tool_info = {
    "info",
    "[targets | kernels | mods | ops | passes | commands | vim | textmate |\n"
    "       versions]... |\n"
    "       layout LAYOUT SIDES | mask MASK [NAME=VALUE...] | man [COMMAND]",
    "Prints what this build of tilec has.",
    "`tilec info layout '#mma(4x1)' 64x64` says which thread and register "
    "holds each\nelement of a tile, of `#swizzle128` and the like the offset "
    "and bank, and what\naccesses cost.\n"
    "`tilec info mask 'document & causal' --q-len 4096 offsets=[0,1000,3000]` "
    "shows\nwhich blocks are full (#), need the mask (+) or are empty (.), and "
    "how attention\nfinds that out: by ranges, or by a list that a kernel "
    "makes. What the mask captures\nis given as\n" INPUTS_HELP,
    options,
    info_run};
