/* SPDX-License-Identifier: Apache-2.0
 *
 * From a kernel at machine level to PTX: LLVM module, LLVM's passes, LLVM's
 * code generator.
 *
 * LLVM aborts on instructions that it cannot select, so the program is verified
 * before code is made of it, and emitters use only instructions that the target
 * is known to have. For other errors see codegen/llvm/build.h.
 */
#include "codegen/llvm/build.h"
#include "codegen/nvptx/emit.h"

#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char triple[] = "nvptx64-nvidia-cuda";

/* Emitted code needs few improvements: shared subexpressions, addresses, loop
 * invariants. The standard pipelines take longer and keep more values alive
 * across loops: registers spill. The only inlined functions are those of
 * angle.c, after equal calls have been merged. */
static const char passes[] =
    "function(early-cse<memssa>),always-inline,"
    "function(instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),loop(loop-rotate),simplifycfg),globaldce";

/* One compile. What is not NULL has to be disposed of. */
typedef struct compiler {
    tc_llvm_build build;
    tc_module *m;
    const tc_target *target;
    tc_arena arena;
    tc_gen gen;       /* its builders too */
    const char *what; /* "ptx", or that of tc_nvptx_llvm */
} compiler;

static void init_llvm(void)
{
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

/* PTX ISA: .L2::cache_hint and .L1::no_allocate, since 7.4 (CUDA 11.4). */
static const char with_policies[] = "+ptx74";

/* "+ptx74" is before "+ptx100". */
static bool is_older(const char *isa, const char *other)
{
    size_t n = strlen(isa), m = strlen(other);
    return n != m ? n < m : strcmp(isa, other) < 0;
}

/* Without optimisation every value would be a move, and ptxas spills; the
 * highest level takes a tenth longer for the same code. policies: cache hints
 * are among the instructions. */
static bool make_machine(tc_llvm_build *b, const tc_target *target,
                         bool policies)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *isa = target->feature;
    if (policies && is_older(isa, with_policies))
        isa = with_policies;
    pthread_once(&once, init_llvm);
    return tc_llvm_build_machine(b, triple, target->cpu, isa, LLVMRelocDefault,
                                 LLVMCodeModelDefault);
}

/* ---- The module ---- */

static LLVMModuleRef read_module(const tc_llvm_build *b, const char *text)
{
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
        text, strlen(text), b->kernel->name);
    LLVMModuleRef module;
    char *message = NULL;
    /* Takes the buffer over. */
    if (!LLVMParseIRInContext(b->llvm, buffer, &module, &message))
        return module;
    tc_llvm_error(b, "making a module", message);
    LLVMDisposeMessage(message);
    return NULL;
}

/* The module begins as text: LLVM's C interface cannot ask for line tables
 * without the rest of the debugging information. */
static bool read_skeleton(compiler *c)
{
    tc_llvm_build *b = &c->build;
    b->module = read_module(b, tc_gen_skeleton(&c->arena, b->kernel));
    return b->module;
}

/* Kernel names may contain dots, names in PTX not: dollars replace them. */
static const char *name_in_ptx(compiler *c)
{
    char *name = tc_arena_printf(&c->arena, "%s", c->build.kernel->name);
    for (char *dot = strchr(name, '.'); dot; dot = strchr(dot, '.'))
        *dot = '$';
    return tc_string_get(c->build.cx, name);
}

static bool make_module(compiler *c)
{
    tc_llvm_build *b = &c->build;
    tc_llvm_build_context(b);
    if (!read_skeleton(c))
        return false;
    tc_llvm_build_set_target(b, triple);
    c->gen = (tc_gen){.cx = b->cx,
                      .arena = &c->arena,
                      .target = c->target,
                      .f = b->kernel,
                      .name = name_in_ptx(c),
                      .llvm = b->llvm,
                      .module = b->module,
                      .b = LLVMCreateBuilderInContext(b->llvm),
                      .entry = LLVMCreateBuilderInContext(b->llvm)};
    return tc_gen_kernel(&c->gen);
}

/* ---- The kernel ---- */

static bool find_kernel(compiler *c)
{
    tc_llvm_build *b = &c->build;
    for (const tc_func *f = c->m->first; f; f = f->next) {
        if (!f->is_kernel)
            continue;
        if (b->kernel)
            return tc_error(b->cx, f->loc,
                            "kernel @%s: the module has another, @%s; code is "
                            "made of one",
                            f->name, b->kernel->name);
        b->kernel = f;
    }
    if (!b->kernel)
        return tc_error(b->cx, (tc_loc){0}, "the module has no kernel");
    if (!b->kernel->warps)
        return tc_error(b->cx, b->kernel->loc,
                        "kernel @%s is not at machine level: it has no warps",
                        b->kernel->name);
    /* Emitters may take it that every tile has a layout. */
    const tc_value *bare = tc_func_bare_tile(b->kernel);
    if (bare)
        return tc_error(b->cx, bare->def ? bare->def->loc : b->kernel->loc,
                        "kernel @%s is not at machine level: %s is a tile "
                        "without a layout, expected those of assign-layouts",
                        b->kernel->name,
                        bare->def ? tc_op_name(bare->def) : "an argument");
    return tc_module_verify(c->m);
}

static bool optimize(compiler *c)
{
    if (!tc_llvm_build_optimize(&c->build, passes))
        return false;
    tc_gen_freeze_extended(&c->gen);
    return !c->gen.failed;
}

static bool has_policy(const tc_op *op)
{
    const char *cache = tc_op_hint(op, "cache");
    return tc_op_hint(op, "evict") || (cache && strcmp(cache, "none") == 0);
}

static bool compile(compiler *c)
{
    tc_llvm_build *b = &c->build;
    bool policies = tc_region_any(b->kernel->body, has_policy);
    if (!make_machine(b, c->target, policies) || !make_module(c) ||
        !tc_llvm_build_verify(b))
        return false;
    if (strcmp(c->what, "llvm") != 0 && !optimize(c))
        return false;
    if (strncmp(c->what, "llvm", 4) == 0)
        tc_llvm_build_print(b);
    else if (tc_llvm_build_code(b, LLVMAssemblyFile))
        tc_llvm_build_copy_code(b);
    return b->text != NULL;
}

static void dispose(compiler *c)
{
    if (c->gen.b)
        LLVMDisposeBuilder(c->gen.b);
    if (c->gen.entry)
        LLVMDisposeBuilder(c->gen.entry);
    tc_llvm_build_dispose(&c->build);
    tc_arena_reset(&c->arena);
}

/* Out of memory: disposes of what there is and unwinds further. */
static bool compile_guarded(compiler *c)
{
    if (!find_kernel(c))
        return false;
    tc_arena_init(&c->arena, &c->build.cx->memory);
    jmp_buf here, *outer = c->build.cx->memory.unwind;
    if (setjmp(here)) {
        c->build.cx->memory.unwind = outer;
        dispose(c);
        free(c->build.text);
        longjmp(*outer, 1);
    }
    c->build.cx->memory.unwind = &here;
    bool ok = compile(c);
    c->build.cx->memory.unwind = outer;
    dispose(c);
    return ok;
}

bool tc_nvptx_compile(tc_module *m, const tc_target *target, tc_nvptx_code *out)
{
    compiler c = {.build.cx = m->cx, .m = m, .target = target, .what = "ptx"};
    if (!compile_guarded(&c))
        return false;
    *out = (tc_nvptx_code){
        .ptx = c.build.text,
        .ptx_len = c.build.len,
        .entry = c.gen.name,
        .warps = c.build.kernel->warps,
        .threads = tc_gen_threads(&c.gen),
        .shared_bytes = c.gen.shared_bytes,
        .nmaps = c.gen.nmaps,
        .counts_tiles = c.gen.counter != NULL,
        .ptxas_level = c.build.kernel->ptxas_level,
        .has_reports = c.gen.nasserts > 0,
        .profile = {.records = c.gen.ring ? c.build.kernel->profile : 0,
                    .writers = tc_gen_mark_writers(&c.gen)},
        .starts_early = tc_gen_starts_early(&c.gen)};
    memcpy(out->maps, c.gen.maps, sizeof out->maps);
    return true;
}

void tc_nvptx_code_free(tc_nvptx_code *code)
{
    if (!code)
        return;
    free(code->ptx);
    *code = (tc_nvptx_code){0};
}

char *tc_nvptx_llvm(tc_module *m, const tc_target *target, const char *what)
{
    compiler c = {.build.cx = m->cx, .m = m, .target = target, .what = what};
    if (strcmp(what, "llvm") != 0 && strcmp(what, "llvm-opt") != 0) {
        tc_error(m->cx, (tc_loc){0},
                 "target %s has no \"%s\", expected llvm or llvm-opt",
                 target->name, what);
        return NULL;
    }
    return compile_guarded(&c) ? c.build.text : NULL;
}

/* ---- Several kernels ---- */

static bool link_modules(tc_llvm_build *b, const char *const *texts, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        LLVMModuleRef next = read_module(b, texts[i]);
        if (!next)
            return false;
        if (!b->module)
            b->module = next;
        /* Disposes of the second module. */
        else if (LLVMLinkModules2(b->module, next))
            return !b->failed && tc_llvm_error(b, "linking kernels",
                                               "two of them do not fit");
    }
    return !b->failed;
}

static bool link_kernels(tc_llvm_build *b, const tc_target *target,
                         const char *const *texts, unsigned n)
{
    bool policies = false;
    for (unsigned i = 0; i < n; i++)
        policies |= strstr(texts[i], ".L2::cache_hint") ||
                    strstr(texts[i], ".L1::no_allocate");
    if (!make_machine(b, target, policies))
        return false;
    tc_llvm_build_context(b);
    if (!link_modules(b, texts, n) || !tc_llvm_build_verify(b) ||
        !tc_llvm_build_code(b, LLVMAssemblyFile))
        return false;
    tc_llvm_build_copy_code(b);
    return true;
}

/* Out of memory: disposes of what there is and unwinds further. */
static void link_guarded(tc_llvm_build *b, const tc_target *target,
                         const char *const *texts, unsigned n)
{
    jmp_buf here, *outer = b->cx->memory.unwind;
    if (setjmp(here)) {
        b->cx->memory.unwind = outer;
        tc_llvm_build_dispose(b);
        longjmp(*outer, 1);
    }
    b->cx->memory.unwind = &here;
    (void)!link_kernels(b, target, texts, n);
    b->cx->memory.unwind = outer;
    tc_llvm_build_dispose(b);
}

char *tc_nvptx_link(tc_context *cx, const tc_func *plan,
                    const tc_target *target, const char *const *texts,
                    unsigned n)
{
    tc_llvm_build b = {.cx = cx, .kernel = plan};
    link_guarded(&b, target, texts, n);
    return b.text;
}
