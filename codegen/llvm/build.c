/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/llvm/build.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdlib.h>
#include <string.h>

bool tc_llvm_error(const tc_llvm_build *b, const char *doing,
                   const char *message)
{
    return tc_error(b->cx, b->kernel->loc, "kernel @%s: LLVM, %s: %s",
                    b->kernel->name, doing, message);
}

/* The same; takes the message over. */
static bool error_of(const tc_llvm_build *b, const char *doing, char *message)
{
    tc_llvm_error(b, doing, message);
    LLVMDisposeMessage(message);
    return false;
}

bool tc_llvm_build_machine(tc_llvm_build *b, const char *triple,
                           const char *cpu, const char *features,
                           LLVMRelocMode reloc, LLVMCodeModel model)
{
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message))
        return error_of(b, "finding the target", message);
    b->machine = LLVMCreateTargetMachine(target, triple, cpu, features,
                                         LLVMCodeGenLevelDefault, reloc, model);
    return b->machine ||
           tc_llvm_error(b, "setting up the target", "no such machine");
}

/* Called by LLVM from within its passes and code generator. */
static void take_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    tc_llvm_build *b = user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
        return;
    error_of(b, "generating code", LLVMGetDiagInfoDescription(info));
    b->failed = true;
}

void tc_llvm_build_context(tc_llvm_build *b)
{
    b->llvm = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(b->llvm, take_diagnostic, b);
}

void tc_llvm_build_set_target(tc_llvm_build *b, const char *triple)
{
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(b->machine);
    LLVMSetTarget(b->module, triple);
    LLVMSetModuleDataLayout(b->module, layout);
    LLVMDisposeTargetData(layout);
}

bool tc_llvm_build_verify(const tc_llvm_build *b)
{
    char *message = NULL;
    if (LLVMVerifyModule(b->module, LLVMReturnStatusAction, &message))
        return error_of(b, "verifying its input", message);
    LLVMDisposeMessage(message);
    return true;
}

bool tc_llvm_build_optimize(const tc_llvm_build *b, const char *passes)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(b->module, passes, b->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error)
        return !b->failed;
    char *message = LLVMGetErrorMessage(error);
    tc_llvm_error(b, "optimising", message);
    LLVMDisposeErrorMessage(message);
    return false;
}

bool tc_llvm_build_code(tc_llvm_build *b, LLVMCodeGenFileType type)
{
    char *message = NULL;
    if (!LLVMTargetMachineEmitToMemoryBuffer(b->machine, b->module, type,
                                             &message, &b->code))
        return !b->failed;
    b->code = NULL;
    return error_of(b, "generating code", message);
}

/* ---- Text ---- */

/* s NULL: no memory for it. */
static bool copy_text(tc_llvm_build *b, const char *s, size_t n)
{
    b->text = s ? malloc(n + 1) : NULL;
    if (!b->text)
        return false;
    memcpy(b->text, s, n);
    b->text[n] = 0;
    b->len = n;
    return true;
}

void tc_llvm_build_print(tc_llvm_build *b)
{
    char *s = LLVMPrintModuleToString(b->module);
    bool ok = copy_text(b, s, s ? strlen(s) : 0);
    LLVMDisposeMessage(s);
    if (!ok)
        tc_memory_fail(&b->cx->memory);
}

void tc_llvm_build_copy_code(tc_llvm_build *b)
{
    if (!copy_text(b, LLVMGetBufferStart(b->code), LLVMGetBufferSize(b->code)))
        tc_memory_fail(&b->cx->memory);
}

void tc_llvm_build_dispose(tc_llvm_build *b)
{
    if (b->code)
        LLVMDisposeMemoryBuffer(b->code);
    if (b->module)
        LLVMDisposeModule(b->module);
    if (b->llvm)
        LLVMContextDispose(b->llvm);
    if (b->machine)
        LLVMDisposeTargetMachine(b->machine);
}
