/* SPDX-License-Identifier: Apache-2.0
 *
 * From a kernel at machine level to PTX: LLVM module, LLVM's passes, LLVM's
 * code generator.
 *
 * LLVM must never stop the process. If it can report a problem, its messages
 * become diagnostics; it aborts on instructions that it cannot select, so the
 * program is verified before code is made of it, LLVM's module before LLVM sees
 * it, and emitters use only instructions that the target is known to have.
 */
#include "codegen/nvptx/emit.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char triple[] = "nvptx64-nvidia-cuda";

/* What comes out of emission has little to improve: shared subexpressions,
 * addresses, what is the same in every turn of a loop. The standard pipelines
 * take longer and keep more values alive across loops: registers spill. What is
 * inlined is angle.c's, once equal calls are one. */
static const char passes[] =
    "function(early-cse<memssa>),always-inline,"
    "function(instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),loop(loop-rotate),simplifycfg),globaldce";

/* One compile. What is not NULL has to be disposed of. */
typedef struct compiler {
    tc_context *cx;
    tc_module *m;
    const tc_func *kernel;
    const tc_target *target;
    tc_arena arena;
    LLVMTargetMachineRef machine;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMMemoryBufferRef code;
    tc_gen gen;       /* its builders too */
    const char *what; /* "ptx", or that of tc_nvptx_llvm */
    char *text;
    size_t len;
} compiler;

static void init_llvm(void)
{
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

static bool llvm_error(compiler *c, const char *doing, const char *message)
{
    return tc_error(c->cx, c->kernel->loc, "kernel @%s: LLVM, %s: %s",
                    c->kernel->name, doing, message);
}

/* Called by LLVM from within its passes and code generator. */
static void take_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    compiler *c = user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
        return;
    char *message = LLVMGetDiagInfoDescription(info);
    llvm_error(c, "generating code", message);
    LLVMDisposeMessage(message);
    c->gen.failed = true;
}

/* ---- The machine ---- */

static bool find_machine(compiler *c)
{
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        llvm_error(c, "finding the target", message);
        LLVMDisposeMessage(message);
        return false;
    }
    /* Without optimisation every value would be a move, and ptxas spills; the
     * highest level takes a tenth longer for the same code. */
    c->machine = LLVMCreateTargetMachine(
        target, triple, c->target->cpu, c->target->feature,
        LLVMCodeGenLevelDefault, LLVMRelocDefault, LLVMCodeModelDefault);
    return c->machine ||
           llvm_error(c, "setting up the target", "no such machine");
}

/* ---- The module ---- */

/* The module begins as text: LLVM's C interface cannot ask for line tables
 * without the rest of the debugging information. */
static bool read_skeleton(compiler *c)
{
    const char *text = tc_gen_skeleton(&c->arena, c->kernel);
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
        text, strlen(text), c->kernel->name);
    char *message = NULL;
    /* Takes the buffer over. */
    if (LLVMParseIRInContext(c->llvm, buffer, &c->module, &message)) {
        c->module = NULL;
        llvm_error(c, "making a module", message);
        LLVMDisposeMessage(message);
        return false;
    }
    return true;
}

/* Names of kernels may have dots in them; those in PTX not, but dollars. */
static const char *name_in_ptx(compiler *c)
{
    char *name = tc_arena_printf(&c->arena, "%s", c->kernel->name);
    for (char *dot = strchr(name, '.'); dot; dot = strchr(dot, '.'))
        *dot = '$';
    return tc_string_get(c->cx, name);
}

static bool make_module(compiler *c)
{
    c->llvm = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(c->llvm, take_diagnostic, c);
    if (!read_skeleton(c))
        return false;
    LLVMSetTarget(c->module, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(c->machine);
    LLVMSetModuleDataLayout(c->module, layout);
    LLVMDisposeTargetData(layout);
    c->gen = (tc_gen){.cx = c->cx,
                      .arena = &c->arena,
                      .target = c->target,
                      .f = c->kernel,
                      .name = name_in_ptx(c),
                      .llvm = c->llvm,
                      .module = c->module,
                      .b = LLVMCreateBuilderInContext(c->llvm),
                      .entry = LLVMCreateBuilderInContext(c->llvm)};
    return tc_gen_kernel(&c->gen);
}

static bool verify_module(compiler *c)
{
    char *message = NULL;
    bool bad =
        LLVMVerifyModule(c->module, LLVMReturnStatusAction, &message) != 0;
    if (bad)
        llvm_error(c, "verifying its input", message);
    LLVMDisposeMessage(message);
    return !bad;
}

static bool run_passes(compiler *c)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(c->module, passes, c->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) {
        tc_gen_freeze_extended(&c->gen);
        return !c->gen.failed;
    }
    char *message = LLVMGetErrorMessage(error);
    llvm_error(c, "optimising", message);
    LLVMDisposeErrorMessage(message);
    return false;
}

/* ---- Text ---- */

static bool give_text(compiler *c, const char *s, size_t n)
{
    c->text = malloc(n + 1);
    if (!c->text)
        tc_memory_fail(&c->cx->memory);
    memcpy(c->text, s, n);
    c->text[n] = 0;
    c->len = n;
    return true;
}

static bool give_module_text(compiler *c)
{
    char *s = LLVMPrintModuleToString(c->module);
    if (!s)
        tc_memory_fail(&c->cx->memory);
    size_t n = strlen(s);
    c->text = malloc(n + 1);
    if (c->text)
        memcpy(c->text, s, n + 1);
    LLVMDisposeMessage(s);
    if (!c->text)
        tc_memory_fail(&c->cx->memory);
    return true;
}

static bool give_ptx(compiler *c)
{
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(
            c->machine, c->module, LLVMAssemblyFile, &message, &c->code)) {
        c->code = NULL;
        llvm_error(c, "generating code", message);
        LLVMDisposeMessage(message);
        return false;
    }
    return !c->gen.failed && give_text(c, LLVMGetBufferStart(c->code),
                                       LLVMGetBufferSize(c->code));
}

/* ---- The kernel ---- */

static bool find_kernel(compiler *c)
{
    for (const tc_func *f = c->m->first; f; f = f->next) {
        if (!f->is_kernel)
            continue;
        if (c->kernel)
            return tc_error(c->cx, f->loc,
                            "kernel @%s: the module has another, @%s; code is "
                            "made of one",
                            f->name, c->kernel->name);
        c->kernel = f;
    }
    if (!c->kernel)
        return tc_error(c->cx, (tc_loc){0}, "the module has no kernel");
    if (!c->kernel->warps)
        return tc_error(c->cx, c->kernel->loc,
                        "kernel @%s is not at machine level: it has no warps",
                        c->kernel->name);
    /* Emitters may take it that every tile has a layout. */
    const tc_value *bare = tc_func_bare_tile(c->kernel);
    if (bare)
        return tc_error(c->cx, bare->def ? bare->def->loc : c->kernel->loc,
                        "kernel @%s is not at machine level: %s is a tile "
                        "without a layout, expected those of assign-layouts",
                        c->kernel->name,
                        bare->def ? tc_op_name(bare->def) : "an argument");
    return tc_module_verify(c->m);
}

static bool compile(compiler *c)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_llvm);
    if (!find_machine(c) || !make_module(c) || !verify_module(c))
        return false;
    if (strcmp(c->what, "llvm") == 0)
        return give_module_text(c);
    if (!run_passes(c))
        return false;
    if (strcmp(c->what, "llvm-opt") == 0)
        return give_module_text(c);
    return give_ptx(c);
}

static void dispose(compiler *c)
{
    if (c->code)
        LLVMDisposeMemoryBuffer(c->code);
    if (c->gen.b)
        LLVMDisposeBuilder(c->gen.b);
    if (c->gen.entry)
        LLVMDisposeBuilder(c->gen.entry);
    if (c->module)
        LLVMDisposeModule(c->module);
    if (c->llvm)
        LLVMContextDispose(c->llvm);
    if (c->machine)
        LLVMDisposeTargetMachine(c->machine);
    tc_arena_reset(&c->arena);
}

/* Out of memory: disposes of what there is and unwinds further. */
static bool compile_guarded(compiler *c)
{
    if (!find_kernel(c))
        return false;
    tc_arena_init(&c->arena, &c->cx->memory);
    jmp_buf here, *outer = c->cx->memory.unwind;
    if (setjmp(here)) {
        c->cx->memory.unwind = outer;
        dispose(c);
        free(c->text);
        longjmp(*outer, 1);
    }
    c->cx->memory.unwind = &here;
    bool ok = compile(c);
    c->cx->memory.unwind = outer;
    dispose(c);
    return ok;
}

bool tc_nvptx_compile(tc_module *m, const tc_target *target, tc_nvptx_code *out)
{
    compiler c = {.cx = m->cx, .m = m, .target = target, .what = "ptx"};
    if (!compile_guarded(&c))
        return false;
    *out = (tc_nvptx_code){.ptx = c.text,
                           .ptx_len = c.len,
                           .entry = c.gen.name,
                           .warps = c.kernel->warps,
                           .threads = tc_gen_threads(&c.gen),
                           .shared_bytes = c.gen.shared_bytes,
                           .nmaps = c.gen.nmaps,
                           .counts_tiles = c.gen.counter != NULL,
                           .ptxas_level = c.kernel->ptxas_level,
                           .has_reports = c.gen.nasserts > 0};
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
    compiler c = {.cx = m->cx, .m = m, .target = target, .what = what};
    if (strcmp(what, "llvm") != 0 && strcmp(what, "llvm-opt") != 0) {
        tc_error(m->cx, (tc_loc){0},
                 "target %s has no \"%s\", expected llvm or llvm-opt",
                 target->name, what);
        return NULL;
    }
    return compile_guarded(&c) ? c.text : NULL;
}
