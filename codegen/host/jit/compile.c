/* SPDX-License-Identifier: Apache-2.0
 *
 * From a kernel to machine code: plan, LLVM module, LLVM's passes, object,
 * linked into this process by LLJIT.
 */
#include "codegen/host/jit/compile.h"

#include "codegen/host/emit/emit.h"
#include "codegen/llvm/build.h"
#include "codegen/llvm/lanes.h"
#include "codegen/llvm/math.h"
#include "passes/storage/codes.h"

#include <llvm-c/Target.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* The nests come out of emission with little to improve: what is left is
 * shared subexpressions and addresses, and what is the same in every turn of a
 * loop. More passes (gvn, loop-unroll, slp-vectorizer) cost compile time and
 * gain nothing measurable. */
static const char passes[] =
    "early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm)";

/* One compile. What is not NULL has to be disposed of. */
typedef struct compiler {
    tc_llvm_build build;
    tc_func *kernel;
    const tc_host_options *options;
    tc_arena arena;
    tc_plan *plan;
    char *triple, *cpu, *features; /* LLVM's messages */
    LLVMBuilderRef builder;
    tc_emit emit;
    const char *what; /* to give as text; NULL: to make a kernel */
    tc_host_kernel *result;
} compiler;

static void init_llvm(void)
{
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
}

void tc_host_start_llvm(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_llvm);
}

/* ---- The machine ---- */

static unsigned vector_width(const char *features)
{
    if (strstr(features, "+avx512f"))
        return 16;
    return strstr(features, "+avx") ? 8 : 4;
}

/* Texts of LLVM are copies, NULL where there was no memory for one. */
static char *copied(compiler *c, char *text)
{
    if (!text)
        tc_memory_fail(&c->build.cx->memory);
    return text;
}

static bool find_machine(compiler *c)
{
    const tc_host_options *o = c->options;
    bool native = !o || !o->cpu;
    const char *features = !native && o->features ? o->features : "";
    c->triple = copied(c, LLVMGetDefaultTargetTriple());
    c->cpu =
        copied(c, native ? LLVMGetHostCPUName() : LLVMCreateMessage(o->cpu));
    c->features = copied(c, native ? LLVMGetHostCPUFeatures()
                                   : LLVMCreateMessage(features));
    return tc_llvm_build_machine(&c->build, c->triple, c->cpu, c->features,
                                 LLVMRelocPIC, LLVMCodeModelJITDefault);
}

/* ---- The module ---- */

static bool make_module(compiler *c)
{
    tc_llvm_build *b = &c->build;
    tc_llvm_build_context(b);
    b->module = LLVMModuleCreateWithNameInContext(c->kernel->name, b->llvm);
    tc_llvm_build_set_target(b, c->triple);
    c->builder = LLVMCreateBuilderInContext(b->llvm);
    tc_emit *e = &c->emit;
    *e = (tc_emit){.cx = b->cx,
                   .arena = &c->arena,
                   .plan = c->plan,
                   .llvm = b->llvm,
                   .module = b->module,
                   .b = c->builder,
                   .cpu = c->cpu,
                   .features = c->features};
    e->width = vector_width(c->features);
    e->nregs = e->width == 8 ? 16 : 32;
    if (e->width == 4 && strstr(c->features, "+sse"))
        e->nregs = 16;
    return tc_emit_kernel(e);
}

/* ---- The kernel ---- */

static tc_site *copy_sites(tc_arena *a, const tc_emit *e)
{
    tc_site *sites = tc_arena_array(a, tc_site, e->nsites);
    for (unsigned i = 0; i < e->nsites; i++) {
        const tc_site *s = &e->sites[i];
        sites[i] = *s;
        sites[i].message = tc_arena_printf(a, "%s", s->message);
        if (s->nvalues)
            sites[i].values =
                tc_arena_copy(a, s->values, s->nvalues * sizeof *s->values);
    }
    return sites;
}

static bool make_kernel(compiler *c)
{
    const tc_func *f = c->kernel;
    tc_host_kernel *k = calloc(1, sizeof *k);
    if (!k)
        tc_memory_fail(&c->build.cx->memory);
    c->result = k;
    tc_arena_init(&k->arena, &c->build.cx->memory);
    k->nsites = c->emit.nsites;
    k->sites = copy_sites(&k->arena, &c->emit);
    k->nargs = f->body->nargs;
    k->args = tc_arena_array(&k->arena, tc_host_arg, k->nargs);
    for (unsigned i = 0; i < k->nargs; i++)
        k->args[i] = tc_host_arg_of(f->body->args[i]->type);
    k->scratch_bytes = c->plan->scratch_bytes;
    k->ordered = tc_region_has_op(f->body, TC_FOLLOW);
    k->object_size = LLVMGetBufferSize(c->build.code);
    k->object = malloc(k->object_size);
    if (!k->object)
        tc_memory_fail(&c->build.cx->memory);
    memcpy(k->object, LLVMGetBufferStart(c->build.code), k->object_size);
    /* It may outlive the context; nothing is allocated in it any more. */
    k->arena.memory = NULL;
    return true;
}

/* There is no code for the machine level on the host: plans and emitters assume
 * that they never meet it. */
static bool check_level(const compiler *c)
{
    const tc_op *op = tc_func_machine_op(c->kernel);
    return !op || tc_error(c->build.cx, op->loc,
                           "%s: of the machine level, for which the CPU target "
                           "has no code: compile for a GPU, or give the "
                           "program at tile level",
                           tc_op_name(op));
}

static bool check_expanded(const compiler *c, tc_opcode code, const char *pass)
{
    return !tc_region_has_op(c->kernel->body, code) ||
           tc_error(c->build.cx, c->kernel->loc,
                    "@%s: has a %s, for which the CPU target has no code: "
                    "run %s before",
                    c->kernel->name, tc_op_infos[code].name, pass);
}

static bool is_product_of_batch(const tc_op *op)
{
    return op->code == TC_DOT && op->out[0]->type->rank != 2;
}

static bool check_batches(const compiler *c)
{
    return !tc_region_any(c->kernel->body, is_product_of_batch) ||
           tc_error(c->build.cx, c->kernel->loc,
                    "@%s: has a dot of a batch, for which the CPU target has "
                    "no code: run split-batches before",
                    c->kernel->name);
}

/* Searches, sorts, early ends and batches are other ops by now, where the
 * pipeline was whole. */
static bool check_lowered(const compiler *c)
{
    return check_expanded(c, TC_BISECT, "expand-bisections") &&
           check_expanded(c, TC_SORT, "expand-sorts") &&
           check_expanded(c, TC_BREAK_IF, "expand-breaks") &&
           check_batches(c) &&
           tc_storage_is_lowered(c->kernel, "code for the CPU");
}

static bool compile(compiler *c)
{
    uint64_t most = c->options && c->options->scratch_most
                        ? c->options->scratch_most
                        : 1ull << 30;
    tc_host_start_llvm();
    if (!check_level(c) || !check_lowered(c))
        return false;
    c->plan = tc_plan_new(c->kernel, &c->arena, most);
    if (!c->plan || !find_machine(c) || !make_module(c))
        return false;
    tc_llvm_build *b = &c->build;
    const char *what = c->what ? c->what : "";
    if (!tc_llvm_build_verify(b))
        return false;
    if (strcmp(what, "llvm") != 0 && !tc_llvm_build_optimize(b, passes))
        return false;
    if (strncmp(what, "llvm", 4) == 0)
        tc_llvm_build_print(b);
    else if (!tc_llvm_build_code(b,
                                 c->what ? LLVMAssemblyFile : LLVMObjectFile))
        return false;
    else if (c->what)
        tc_llvm_build_copy_code(b);
    return c->what || make_kernel(c);
}

static void dispose(compiler *c)
{
    if (c->plan)
        tc_plan_free(c->plan);
    if (c->builder)
        LLVMDisposeBuilder(c->builder);
    tc_llvm_build_dispose(&c->build);
    LLVMDisposeMessage(c->triple);
    LLVMDisposeMessage(c->cpu);
    LLVMDisposeMessage(c->features);
    tc_arena_reset(&c->arena);
}

/* Out of memory: disposes of what there is and unwinds further. */
static bool compile_guarded(compiler *c)
{
    jmp_buf here, *outer = c->build.cx->memory.unwind;
    if (setjmp(here)) {
        c->build.cx->memory.unwind = outer;
        dispose(c);
        tc_host_free(c->result);
        free(c->build.text);
        longjmp(*outer, 1);
    }
    c->build.cx->memory.unwind = &here;
    bool ok = compile(c);
    c->build.cx->memory.unwind = outer;
    dispose(c);
    return ok;
}

static compiler compiler_of(tc_func *kernel, const tc_host_options *options,
                            const char *what)
{
    compiler c = {.build = {.cx = kernel->module->cx, .kernel = kernel},
                  .kernel = kernel,
                  .options = options,
                  .what = what};
    tc_arena_init(&c.arena, &c.build.cx->memory);
    return c;
}

tc_host_kernel *tc_host_generate(tc_func *kernel,
                                 const tc_host_options *options)
{
    compiler c = compiler_of(kernel, options, NULL);
    if (compile_guarded(&c))
        return c.result;
    tc_host_free(c.result);
    return NULL;
}

tc_host_kernel *tc_host_compile(tc_func *kernel, const tc_host_options *options)
{
    char why[TC_HOST_WHY];
    tc_host_kernel *k = tc_host_generate(kernel, options);
    if (!k || tc_host_link(k, why, sizeof why))
        return k;
    tc_host_free(k);
    tc_error(kernel->module->cx, kernel->loc, "kernel @%s: LLVM, linking: %s",
             kernel->name, why);
    return NULL;
}

char *tc_host_emit(tc_func *kernel, const char *what,
                   const tc_host_options *options)
{
    static const char *const kinds[] = {"llvm", "llvm-opt", "asm"};
    compiler c = compiler_of(kernel, options, what);
    bool known = false;
    for (unsigned i = 0; i < 3; i++)
        known |= strcmp(what, kinds[i]) == 0;
    if (!known) {
        tc_error(c.build.cx, kernel->loc,
                 "the CPU target has no \"%s\", expected llvm, llvm-opt or "
                 "asm",
                 what);
        return NULL;
    }
    return compile_guarded(&c) ? c.build.text : NULL;
}

/* ---- This machine ---- */

/* Asks twice: nothing of LLVM's may be held while the arena may unwind. */
static const char *keep_message(tc_arena *a, char *(*get)(void))
{
    char *message = get();
    size_t n = message ? strlen(message) : 0;
    LLVMDisposeMessage(message);
    char *text = tc_arena_alloc(a, n + 1);
    message = get();
    bool same = message && strlen(message) == n;
    if (same)
        memcpy(text, message, n);
    LLVMDisposeMessage(message);
    if (!same)
        tc_memory_fail(a->memory);
    return text;
}

tc_host_machine tc_host_this_machine(tc_arena *a)
{
    tc_host_start_llvm();
    return (tc_host_machine){
        .triple = keep_message(a, LLVMGetDefaultTargetTriple),
        .cpu = keep_message(a, LLVMGetHostCPUName),
        .features = keep_message(a, LLVMGetHostCPUFeatures)};
}
