/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of code generation: make a function in LLVM IR, compile it for a
 * chosen machine, call it.
 *
 *   struct jit j = jit_begin(&jit_baseline);
 *   LLVMValueRef fn = jit_function(&j, "f", 2);      // void f(ptr, ptr)
 *   ... emit through j.b, end in LLVMBuildRetVoid ...
 *   jit_finish(&j);
 *   void (*f)(void *, void *) = jit_address(&j, "f");
 *   jit_end(&j);
 */
#ifndef TC_TEST_JIT_H
#define TC_TEST_JIT_H

#include "codegen/llvm/lanes.h"
#include "codegen/llvm/math.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL cpu: the machine that runs the test. */
struct jit_machine {
    const char *name, *cpu, *features;
    unsigned width, nregs; /* floats in a vector register, and how many */
};

static const struct jit_machine jit_baseline = {"x86-64", "x86-64", "", 4, 16};
static const struct jit_machine jit_avx2 = {
    "avx2", "haswell",
    "+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2", 8, 16};
static const struct jit_machine jit_native = {"native", NULL, NULL, 16, 32};

struct jit {
    const struct jit_machine *machine;
    LLVMContextRef cx;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMTargetMachineRef tm;
    LLVMOrcLLJITRef lljit;
    char *cpu, *features;
};

static inline void jit_check(LLVMErrorRef error)
{
    if (!error)
        return;
    char *message = LLVMGetErrorMessage(error);
    fprintf(stderr, "jit: %s\n", message);
    abort();
}

/* Can this machine run code made for that one? */
static inline bool jit_can_run(const struct jit_machine *m)
{
    char *have = LLVMGetHostCPUFeatures();
    bool ok = true;
    char *want = m->features ? strdup(m->features) : strdup("");
    for (char *f = strtok(want, ","); f; f = strtok(NULL, ","))
        ok = ok && strstr(have, f);
    free(want);
    LLVMDisposeMessage(have);
    return ok;
}

/* The vector width that suits: what the table says, less on lesser machines. */
static inline unsigned jit_width(const struct jit *j)
{
    if (j->machine->cpu)
        return j->machine->width;
    return strstr(j->features, "+avx512f") ? 16
           : strstr(j->features, "+avx2")  ? 8
                                           : 4;
}

static inline unsigned jit_nregs(const struct jit *j)
{
    return jit_width(j) == 16 ? 32 : 16;
}

static inline struct jit jit_begin(const struct jit_machine *machine)
{
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    struct jit j = {.machine = machine};
    j.cpu =
        machine->cpu ? LLVMCreateMessage(machine->cpu) : LLVMGetHostCPUName();
    j.features = machine->features ? LLVMCreateMessage(machine->features)
                                   : LLVMGetHostCPUFeatures();
    char *triple = LLVMGetDefaultTargetTriple(), *message;
    LLVMTargetRef target;
    if (LLVMGetTargetFromTriple(triple, &target, &message))
        abort();
    j.tm = LLVMCreateTargetMachine(target, triple, j.cpu, j.features,
                                   LLVMCodeGenLevelAggressive, LLVMRelocPIC,
                                   LLVMCodeModelJITDefault);
    j.cx = LLVMContextCreate();
    j.module = LLVMModuleCreateWithNameInContext("test", j.cx);
    LLVMSetTarget(j.module, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(j.tm);
    LLVMSetModuleDataLayout(j.module, layout);
    LLVMDisposeTargetData(layout);
    j.b = LLVMCreateBuilderInContext(j.cx);
    LLVMDisposeMessage(triple);
    return j;
}

/* void name(ptr, ..., ptr), the builder at its entry. */
static inline LLVMValueRef jit_function(struct jit *j, const char *name,
                                        unsigned nparams)
{
    LLVMTypeRef params[8];
    for (unsigned i = 0; i < nparams; i++)
        params[i] = LLVMPointerTypeInContext(j->cx, 0);
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(j->cx), params, nparams, false);
    LLVMValueRef fn = LLVMAddFunction(j->module, name, type);
    tc_lanes_set_target(fn, j->cpu, j->features);
    LLVMPositionBuilderAtEnd(j->b,
                             LLVMAppendBasicBlockInContext(j->cx, fn, ""));
    return fn;
}

static inline void jit_add_symbols(struct jit *j)
{
    LLVMOrcJITDylibRef dylib = LLVMOrcLLJITGetMainJITDylib(j->lljit);
    for (const tc_host_symbol *s = tc_host_libm; s->name; s++) {
        LLVMOrcCSymbolMapPair pair = {
            LLVMOrcLLJITMangleAndIntern(j->lljit, s->name),
            {(LLVMOrcExecutorAddress)(uintptr_t)s->address,
             {LLVMJITSymbolGenericFlagsExported, 0}}};
        jit_check(
            LLVMOrcJITDylibDefine(dylib, LLVMOrcAbsoluteSymbols(&pair, 1)));
    }
}

/* Verifies, optimises and compiles; only tc_host_libm can be called. JIT_DUMP
 * in the environment: the assembly goes to that file. */
static inline void jit_finish(struct jit *j)
{
    char *message = NULL;
    if (LLVMVerifyModule(j->module, LLVMReturnStatusAction, &message)) {
        fprintf(stderr, "%s\n", message);
        abort();
    }
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    jit_check(LLVMRunPasses(j->module, "default<O2>", j->tm, options));
    LLVMDisposePassBuilderOptions(options);
    const char *dump = getenv("JIT_DUMP");
    if (dump)
        LLVMTargetMachineEmitToFile(j->tm, j->module, dump, LLVMAssemblyFile,
                                    &message);
    /* As an object: this much of ORC's interface is the same in LLVM 20. */
    LLVMMemoryBufferRef object;
    if (LLVMTargetMachineEmitToMemoryBuffer(j->tm, j->module, LLVMObjectFile,
                                            &message, &object)) {
        fprintf(stderr, "%s\n", message);
        abort();
    }
    LLVMDisposeBuilder(j->b);
    LLVMDisposeModule(j->module);
    LLVMContextDispose(j->cx);
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
        builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(j->tm));
    jit_check(LLVMOrcCreateLLJIT(&j->lljit, builder));
    jit_add_symbols(j);
    jit_check(LLVMOrcLLJITAddObjectFile(
        j->lljit, LLVMOrcLLJITGetMainJITDylib(j->lljit), object));
}

static inline void *jit_address(struct jit *j, const char *name)
{
    LLVMOrcExecutorAddress address;
    jit_check(LLVMOrcLLJITLookup(j->lljit, &address, name));
    return (void *)(uintptr_t)address;
}

static inline void jit_end(struct jit *j)
{
    jit_check(LLVMOrcDisposeLLJIT(j->lljit));
    LLVMDisposeMessage(j->cpu);
    LLVMDisposeMessage(j->features);
}

#endif
