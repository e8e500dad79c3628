/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions other than the kernel, which ops of the same shape share.
 */
#include "codegen/host/emit/emit.h"

#include "codegen/llvm/lanes.h"

#include <string.h>

static void add_text(tc_emit *e, LLVMValueRef fn, const char *key,
                     const char *value)
{
    LLVMAttributeRef a = LLVMCreateStringAttribute(
        e->llvm, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            a);
}

static void add_flag(tc_emit *e, LLVMValueRef fn, unsigned index,
                     const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, index,
                            LLVMCreateEnumAttribute(e->llvm, kind, 0));
}

void tc_function_prepare(tc_emit *e, LLVMValueRef fn)
{
    tc_lanes_set_target(fn, e->cpu, e->features);
    /* Some machines would rather have narrower vectors; these are asked for. */
    const char *bits = tc_arena_printf(e->arena, "%u", 32 * e->width);
    add_text(e, fn, "prefer-vector-width", bits);
    add_text(e, fn, "min-legal-vector-width", bits);
    add_flag(e, fn, (unsigned)LLVMAttributeFunctionIndex, "nounwind");
}

bool tc_function_begin(tc_emit *e, tc_function *f, const char *name,
                       unsigned nparams, LLVMTypeRef *params)
{
    f->fn = LLVMGetNamedFunction(e->module, name);
    if (f->fn)
        return false;
    LLVMTypeRef type = LLVMFunctionType(e->none, params, nparams, false);
    f->fn = LLVMAddFunction(e->module, name, type);
    LLVMSetLinkage(f->fn, LLVMInternalLinkage);
    tc_function_prepare(e, f->fn);
    add_flag(e, f->fn, (unsigned)LLVMAttributeFunctionIndex, "noinline");
    for (unsigned i = 0; i < nparams; i++)
        if (params[i] == e->ptr)
            add_flag(e, f->fn, i + 1, "noalias");
    f->outer = e->fn;
    f->here = LLVMGetInsertBlock(e->b);
    e->fn = f->fn;
    LLVMPositionBuilderAtEnd(e->b, tc_block_new(e, "entry"));
    return true;
}

void tc_function_end(tc_emit *e, tc_function *f)
{
    LLVMBuildRetVoid(e->b);
    e->fn = f->outer;
    LLVMPositionBuilderAtEnd(e->b, f->here);
}

void tc_function_call(tc_emit *e, LLVMValueRef fn, unsigned nargs,
                      LLVMValueRef *args)
{
    LLVMBuildCall2(e->b, LLVMGlobalGetValueType(fn), fn, args, nargs, "");
}
