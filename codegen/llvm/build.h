/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's LLVM module on its way to code: machine, verification, LLVM's
 * passes, code or text.
 *
 * LLVM must never stop the process: its messages become diagnostics, and a
 * module is verified before LLVM sees it.
 */
#ifndef TC_LLVM_BUILD_H
#define TC_LLVM_BUILD_H

#include "ir/ir.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

/* Members that are not NULL have to be disposed of: `text` by free, the rest by
 * tc_llvm_build_dispose. */
typedef struct tc_llvm_build {
    tc_context *cx;
    const tc_func *kernel; /* has the place of errors */
    LLVMTargetMachineRef machine;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMMemoryBufferRef code;
    bool failed; /* LLVM has reported an error */
    char *text;
    size_t len;
} tc_llvm_build;

/* A diagnostic; returns false. `doing` says what LLVM did: "verifying its
 * input". */
bool tc_llvm_error(const tc_llvm_build *b, const char *doing,
                   const char *message);

/* These fill in the member of their name; false: a diagnostic says why. */
bool tc_llvm_build_machine(tc_llvm_build *b, const char *triple,
                           const char *cpu, const char *features,
                           LLVMRelocMode reloc,
                           LLVMCodeModel model) TC_MUST_CHECK;
/* An LLVM context whose errors become diagnostics. */
void tc_llvm_build_context(tc_llvm_build *b);
/* Triple and data layout of the module are the machine's. */
void tc_llvm_build_set_target(tc_llvm_build *b, const char *triple);
bool tc_llvm_build_verify(const tc_llvm_build *b) TC_MUST_CHECK;
/* passes: in the syntax of `opt -passes`. */
bool tc_llvm_build_optimize(const tc_llvm_build *b,
                            const char *passes) TC_MUST_CHECK;
bool tc_llvm_build_code(tc_llvm_build *b,
                        LLVMCodeGenFileType type) TC_MUST_CHECK;
/* The module, or the code, as text. Out of memory unwinds. */
void tc_llvm_build_print(tc_llvm_build *b);
void tc_llvm_build_copy_code(tc_llvm_build *b);

void tc_llvm_build_dispose(tc_llvm_build *b);

#endif
