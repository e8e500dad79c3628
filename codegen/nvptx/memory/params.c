/* SPDX-License-Identifier: Apache-2.0
 *
 * The function's parameters and attributes (nvptx.h has the ABI).
 */
#include "codegen/nvptx/emit.h"

#include <string.h>

/* LLVM's number of the calling convention ptx_kernel. */
enum { PTX_KERNEL = 71 };

/* Bytes of a tensor map, and what its address is a multiple of. */
enum { MAP_BYTES = 128, MAP_ALIGN = 64 };

/* ---- What the kernel needs ---- */

static void find_groups(tc_gen *g)
{
    g->groups = tc_roles_of(g->f);
}

/* ---- The function ---- */

/* The LLVM types of the parameters that an argument becomes. */
static unsigned add_types(tc_gen *g, const tc_type *t, LLVMTypeRef *to)
{
    if (t->kind != TC_TENSOR) {
        *to = t->kind == TC_I1 ? g->i8 : tc_gen_type(g, t);
        return 1;
    }
    *to++ = g->ptr1;
    for (unsigned i = 0; i < t->rank; i++)
        *to++ = g->i32;
    for (unsigned i = 0; i < t->rank; i++)
        *to++ = g->i64;
    return 1 + 2 * t->rank;
}

static LLVMAttributeRef string_attribute(tc_gen *g, const char *key,
                                         const char *value)
{
    return LLVMCreateStringAttribute(g->llvm, key, (unsigned)strlen(key), value,
                                     (unsigned)strlen(value));
}

static void set_string(tc_gen *g, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(g->fn,
                            (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            string_attribute(g, key, value));
}

static unsigned attribute_kind(const char *name)
{
    return LLVMGetEnumAttributeKindForName(name, strlen(name));
}

/* By value, and left where the launch put it: without the last attribute LLVM
 * copies it to the stack, which TMA copies cannot read. */
static LLVMValueRef map_param(tc_gen *g, unsigned index)
{
    LLVMTypeRef bytes = LLVMArrayType2(g->i8, MAP_BYTES);
    LLVMAttributeRef attributes[] = {
        LLVMCreateTypeAttribute(g->llvm, attribute_kind("byval"), bytes),
        LLVMCreateEnumAttribute(g->llvm, attribute_kind("align"), MAP_ALIGN),
        string_attribute(g, "nvvm.grid_constant", "")};
    for (unsigned i = 0; i < sizeof attributes / sizeof *attributes; i++)
        LLVMAddAttributeAtIndex(g->fn, index + 1, attributes[i]);
    return LLVMGetParam(g->fn, index);
}

/* Registers move between warp groups only where ptxas knows how many there are:
 * it asks for the threads and the CTAs of a multiprocessor. */
static void set_launch(tc_gen *g)
{
    bool moves = g->groups && tc_op_has_attr(g->groups, "registers");
    unsigned ctas = moves ? 1 : g->f->ctas;
    set_string(g, "nvvm.reqntid",
               tc_arena_printf(g->arena, "%u", tc_gen_threads(g)));
    if (ctas)
        set_string(g, "nvvm.minctasm", tc_arena_printf(g->arena, "%u", ctas));
}

bool tc_gen_function(tc_gen *g)
{
    const tc_region *body = g->f->body;
    bool reports = tc_region_has_op(body, TC_ASSERT);
    bool counts = tc_region_has_op(body, TC_NEXT_TILE) ||
                  tc_region_has_op(body, TC_END_TILES);
    bool marks = tc_region_has_op(body, TC_MARK);
    find_groups(g);
    if (!tc_gen_find_maps(g))
        return false;
    LLVMTypeRef *types = tc_arena_array(g->arena, LLVMTypeRef,
                                        body->nargs * (1 + 2 * TC_MAX_RANK) +
                                            TC_MAX_TENSOR_MAPS + 3);
    unsigned n = 0;
    for (unsigned i = 0; i < body->nargs; i++)
        n += add_types(g, body->args[i]->type, types + n);
    unsigned extra = n;
    for (unsigned i = 0; i < g->nmaps; i++)
        types[n++] = LLVMPointerTypeInContext(g->llvm, 0);
    for (unsigned i = 0; i < (unsigned)counts + reports + marks; i++)
        types[n++] = g->ptr1;
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(g->llvm), types, n, false);
    g->fn = LLVMAddFunction(g->module, g->name, type);
    LLVMSetFunctionCallConv(g->fn, PTX_KERNEL);
    set_launch(g);
    for (unsigned i = 0; i < g->nmaps; i++)
        g->map_params[i] = map_param(g, extra++);
    if (counts)
        g->counter = LLVMGetParam(g->fn, extra++);
    if (reports)
        g->report = LLVMGetParam(g->fn, extra++);
    if (marks)
        g->ring = LLVMGetParam(g->fn, extra++);
    return true;
}

/* ---- The arguments ---- */

static unsigned take_params(tc_gen *g, unsigned index, unsigned next)
{
    const tc_value *arg = g->f->body->args[index];
    const tc_type *t = arg->type;
    LLVMValueRef *regs = tc_gen_set(g, arg);
    unsigned n = tc_gen_registers(t);
    for (unsigned i = 0; i < n; i++)
        regs[i] = LLVMGetParam(g->fn, next + i);
    if (t->kind == TC_I1)
        regs[0] = LLVMBuildTrunc(g->b, regs[0], g->i1, "");
    if (t->kind == TC_TENSOR && t->rank && index < 64 &&
        g->f->aligned >> index & 1) {
        LLVMSetParamAlignment(regs[0], 16);
        regs[1 + t->rank + tc_type_contiguous(t)] = tc_gen_i64(g, 1);
    }
    /* Sizes that the type says. */
    for (unsigned i = 0; t->kind == TC_TENSOR && i < t->rank; i++)
        if (t->dims[i] && tc_dim_value(t->dims[i]) >= 0)
            regs[1 + i] = tc_gen_i32(g, tc_dim_value(t->dims[i]));
    return n;
}

void tc_gen_take_params(tc_gen *g)
{
    unsigned next = 0;
    for (unsigned i = 0; i < g->f->body->nargs; i++)
        next += take_params(g, i, next);
}
