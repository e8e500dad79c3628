/* SPDX-License-Identifier: Apache-2.0
 *
 * From an object to a kernel that can be launched: LLJIT links it into this
 * process, with the few functions that its code may call and nothing else.
 */
#include "codegen/host/jit/compile.h"

#include "codegen/host/runtime/symbols.h"

#include <llvm-c/Core.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned count_symbols(const tc_host_symbol *list)
{
    unsigned n = 0;
    while (list[n].name)
        n++;
    return n;
}

static bool is_among(const tc_host_symbol *list, const char *name)
{
    for (; list->name; list++)
        if (strcmp(list->name, name) == 0)
            return true;
    return false;
}

static unsigned add_symbols(LLVMOrcLLJITRef jit, const tc_host_symbol *list,
                            const tc_host_symbol *known,
                            LLVMOrcCSymbolMapPair *out)
{
    unsigned n = 0;
    for (; list->name; list++) {
        if (known && is_among(known, list->name))
            continue;
        out[n].Name = LLVMOrcLLJITMangleAndIntern(jit, list->name);
        out[n].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)list->address;
        out[n].Sym.Flags =
            (LLVMJITSymbolFlags){LLVMJITSymbolGenericFlagsExported |
                                     LLVMJITSymbolGenericFlagsCallable,
                                 0};
        n++;
    }
    return n;
}

/* ---- Linking ---- */

/* Why a link failed goes here. */
typedef struct reason {
    char *text;
    size_t room;
} reason;

static bool link_say(const reason *r, const char *text)
{
    snprintf(r->text, r->room, "%s", text);
    return false;
}

/* Takes over the error; true: there is none. */
static bool no_error(const reason *r, LLVMErrorRef error)
{
    if (!error)
        return true;
    char *message = LLVMGetErrorMessage(error);
    link_say(r, message);
    LLVMDisposeErrorMessage(message);
    return false;
}

static bool define_symbols(LLVMOrcLLJITRef jit, const reason *r)
{
    unsigned room =
        count_symbols(tc_host_runtime_symbols) + count_symbols(tc_host_libm);
    LLVMOrcCSymbolMapPair *pairs = calloc(room, sizeof *pairs);
    if (!pairs)
        return link_say(r, "out of memory");
    unsigned n = add_symbols(jit, tc_host_runtime_symbols, NULL, pairs);
    n += add_symbols(jit, tc_host_libm, tc_host_runtime_symbols, pairs + n);
    LLVMOrcMaterializationUnitRef unit = LLVMOrcAbsoluteSymbols(pairs, n);
    free(pairs);
    LLVMErrorRef error =
        LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit), unit);
    if (error)
        LLVMOrcDisposeMaterializationUnit(unit);
    return no_error(r, error);
}

static bool add_object(tc_host_kernel *k, LLVMOrcLLJITRef jit, const reason *r)
{
    LLVMMemoryBufferRef copy = LLVMCreateMemoryBufferWithMemoryRangeCopy(
        k->object, k->object_size, "kernel");
    LLVMOrcExecutorAddress address = 0;
    /* Takes the copy over, failed or not. */
    if (!no_error(r, LLVMOrcLLJITAddObjectFile(
                         jit, LLVMOrcLLJITGetMainJITDylib(jit), copy)) ||
        !no_error(r, LLVMOrcLLJITLookup(jit, &address, "kernel")))
        return false;
    k->fn = (tc_host_fn *)(uintptr_t)address;
    return true;
}

static void dispose(tc_host_kernel *k)
{
    LLVMConsumeError(LLVMOrcDisposeLLJIT(k->linked));
}

bool tc_host_link(tc_host_kernel *k, char *why, size_t room)
{
    reason r = {why, room};
    tc_host_start_llvm();
    LLVMOrcLLJITRef jit = NULL;
    if (!no_error(&r, LLVMOrcCreateLLJIT(&jit, NULL)))
        return false;
    k->linked = jit;
    k->unlink = dispose;
    if (!define_symbols(jit, &r) || !add_object(k, jit, &r))
        return false;
    tc_host_count_words(k);
    free(k->object);
    k->object = NULL;
    k->object_size = 0;
    return true;
}
