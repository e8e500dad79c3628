/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of the tile program, for profilers: `.loc` in the PTX.
 *
 * LLVM prints `.loc` without any other debugging information, which would keep
 * ptxas from optimising, if the compile unit says DebugDirectivesOnly. LLVM's C
 * interface cannot say that; its text can. So a module starts as this text: a
 * compile unit, the kernel as a subprogram, and for each source of the program
 * a scope with that file.
 */
#include "codegen/nvptx/emit.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

/* As LLVM's text has strings. */
static void add_string(tc_text *t, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < ' ' || c > '~' || c == '"' || c == '\\')
            tc_text_printf(t, "\\%02X", c);
        else
            tc_text_addn(t, s, 1);
    }
}

static void add_file(tc_text *t, unsigned id, const char *name)
{
    tc_text_printf(t, "!%u = !DIFile(filename: \"", id);
    add_string(t, *name ? name : "program.tile");
    tc_text_add(t, "\", directory: \"\")\n");
}

/* !0 unit, !1 flag, !2 subprogram, !3 its type, !4 its file; then a file and a
 * scope for each source. */
enum { FIRST_FREE = 5 };

const char *tc_gen_skeleton(tc_arena *a, const tc_func *f)
{
    const tc_context *cx = f->module->cx;
    tc_text t = {.arena = a};
    unsigned own = f->loc.file;
    tc_text_add(&t, "!llvm.dbg.cu = !{!0}\n!llvm.module.flags = !{!1}\n"
                    "!tilec.scopes = !{!2");
    for (unsigned i = 0; i < cx->nsources; i++)
        tc_text_printf(&t, ", !%u", FIRST_FREE + 2 * i + 1);
    tc_text_add(&t, "}\n!0 = distinct !DICompileUnit(language: DW_LANG_C, "
                    "file: !4, producer: \"tilec\", isOptimized: true, "
                    "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)\n"
                    "!1 = !{i32 2, !\"Debug Info Version\", i32 3}\n"
                    "!2 = distinct !DISubprogram(name: \"");
    add_string(&t, f->name);
    tc_text_printf(&t,
                   "\", scope: !4, file: !4, line: %u, type: !3, scopeLine: "
                   "%u, spFlags: DISPFlagDefinition | DISPFlagOptimized, "
                   "unit: !0)\n!3 = !DISubroutineType(types: !{})\n",
                   f->loc.line, f->loc.line);
    add_file(&t, 4, own ? cx->sources[own - 1].name : "");
    for (unsigned i = 0; i < cx->nsources; i++) {
        unsigned id = FIRST_FREE + 2 * i;
        add_file(&t, id, cx->sources[i].name);
        tc_text_printf(&t,
                       "!%u = !DILexicalBlockFile(scope: !2, file: !%u, "
                       "discriminator: 0)\n",
                       id + 1, id);
    }
    return t.data;
}

void tc_gen_scopes(tc_gen *g)
{
    static const char name[] = "tilec.scopes";
    unsigned n = LLVMGetNamedMetadataNumOperands(g->module, name);
    LLVMValueRef *nodes = tc_arena_array(g->arena, LLVMValueRef, n);
    LLVMGetNamedMetadataOperands(g->module, name, nodes);
    g->scopes = tc_arena_array(g->arena, LLVMMetadataRef, n);
    for (unsigned i = 0; i < n; i++)
        g->scopes[i] = LLVMValueAsMetadata(nodes[i]);
    LLVMSetSubprogram(g->fn, g->scopes[0]);
}

void tc_gen_locate(tc_gen *g, tc_loc loc)
{
    if (!loc.file)
        loc = g->f->loc;
    LLVMMetadataRef at = LLVMDIBuilderCreateDebugLocation(
        g->llvm, loc.line, loc.col,
        g->scopes[loc.file == g->f->loc.file ? 0 : loc.file], NULL);
    LLVMSetCurrentDebugLocation2(g->b, at);
}
