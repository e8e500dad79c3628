/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests: a kernel at machine level to PTX (or LLVM IR), without passes.
 *
 *   nvptx_ptx FILE [--target sm_90] [--emit ptx|llvm|llvm-opt]
 */
#include "codegen/nvptx/nvptx.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *name, size_t *n)
{
    FILE *f = fopen(name, "rb");
    if (!f)
        return NULL;
    char *text = NULL;
    size_t room = 0, used = 0, got = 1;
    while (got) {
        if (used == room)
            text = realloc(text, room = 2 * room + 4096);
        got = fread(text + used, 1, room - used, f);
        used += got;
    }
    fclose(f);
    *n = used;
    return text;
}

static void print_errors(const tc_context *cx)
{
    for (const tc_diag *d = cx->diags; d; d = d->next)
        fprintf(stderr, "%s:%u:%u: error: %s\n",
                d->loc.file ? cx->sources[d->loc.file - 1].name : "",
                d->loc.line, d->loc.col, d->message);
}

/* What a launch has to bring besides the arguments. */
static void print_launch(const tc_nvptx_code *code)
{
    printf("// entry %s, %u warps, %u bytes%s%s\n", code->entry, code->warps,
           code->shared_bytes, code->counts_tiles ? ", counts tiles" : "",
           code->has_reports ? ", reports" : "");
    if (code->threads != 32 * code->warps)
        printf("// %u threads\n", code->threads);
    for (unsigned i = 0; i < code->nmaps; i++) {
        const tc_tensor_map *m = &code->maps[i];
        printf("// map %u: argument %u, %s, box", i, m->arg,
               tc_scalar_infos[m->elem].name);
        for (unsigned k = 0; k < m->rank; k++)
            printf("%c%u", k ? 'x' : ' ', m->box[k]);
        printf(", swizzle %u\n", m->swizzle);
    }
}

static bool compile(tc_context *cx, tc_module *m, const char *target,
                    const char *what)
{
    const tc_target *t = tc_target_get(target);
    if (!t || !t->cpu)
        return tc_error(cx, (tc_loc){0}, "no target %s", target);
    if (strcmp(what, "ptx") != 0) {
        char *text = tc_nvptx_llvm(m, t, what);
        if (text)
            fputs(text, stdout);
        free(text);
        return text != NULL;
    }
    tc_nvptx_code code;
    if (!tc_nvptx_compile(m, t, &code))
        return false;
    print_launch(&code);
    fputs(code.ptx, stdout);
    tc_nvptx_code_free(&code);
    return true;
}

static int run(const char *file, const char *text, size_t n, const char *target,
               const char *what)
{
    tc_context *cx = tc_context_new();
    jmp_buf out_of_memory;
    if (!cx || setjmp(out_of_memory))
        return 3;
    cx->memory.unwind = &out_of_memory;
    tc_module *m = tc_module_new(cx);
    bool ok = tc_parse(m, tc_source_add(cx, file, text, n)) &&
              compile(cx, m, target, what);
    print_errors(cx);
    tc_module_free(m);
    tc_context_free(cx);
    return !ok;
}

int main(int argc, char **argv)
{
    const char *file = NULL, *target = "sm_90", *what = "ptx";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--target") == 0 && i + 1 < argc)
            target = argv[++i];
        else if (strcmp(argv[i], "--emit") == 0 && i + 1 < argc)
            what = argv[++i];
        else
            file = argv[i];
    }
    size_t n = 0;
    char *text = file ? read_file(file, &n) : NULL;
    if (!text) {
        fprintf(stderr, "usage: %s FILE [--target T] [--emit WHAT]\n", argv[0]);
        return 2;
    }
    int code = run(file, text, n, target, what);
    free(text);
    return code;
}
