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

/* Does every path through the region run a loop? */
static bool always_loops(const tc_region *r)
{
    tc_each_op (op, r) {
        bool all = op->code == TC_IF;
        for (unsigned i = 0; all && i < op->nregions; i++)
            all = always_loops(op->regions[i]);
        if (all || tc_op_is_loop(op))
            return true;
    }
    return false;
}

/* The registers that a thread carries round the loops of the region, in the one
 * that carries most. */
static unsigned most_carried(const tc_region *r)
{
    unsigned most = 0;
    tc_each_op (op, r) {
        unsigned n = 0;
        for (unsigned i = 0; tc_op_is_loop(op) && i < op->nout; i++)
            n += tc_gen_registers(op->out[i]->type);
        for (unsigned i = 0; i < op->nregions; i++) {
            unsigned inside = most_carried(op->regions[i]);
            n = n > inside ? n : inside;
        }
        most = most > n ? most : n;
    }
    return most;
}

static bool is_product(const tc_op *op)
{
    return op->code == TC_MMA;
}

/* Registers of the largest tile. */
static unsigned most_held(const tc_region *r)
{
    unsigned most = 0;
    tc_each_nested_first (op, r) {
        for (unsigned i = 0; i < op->nout; i++) {
            unsigned n = op->out[i]->type->kind == TC_TILE
                             ? tc_gen_registers(op->out[i]->type)
                             : 0;
            most = most > n ? most : n;
        }
    }
    return most;
}

/* Loops that read memory and add up: two blocks of a multiprocessor wait for it
 * in turns, if what they carry and three tiles of a step leave room. */
static bool loops_add_up(const tc_gen *g)
{
    enum { TILES = 3, BLOCKS = 2 };
    const tc_region *body = g->f->body;
    unsigned carried = most_carried(body);
    unsigned held = carried + TILES * most_held(body);
    return always_loops(body) && !tc_region_any(body, is_product) && carried &&
           held + TC_SPARE_SUMS_REGISTERS <=
               tc_max_registers(g->target, BLOCKS * g->f->warps);
}

/* Loops that a program may leave out: what it does always is to move memory,
 * and what the loops carry leaves room for several blocks. */
static bool loops_are_rare(const tc_region *body)
{
    enum { FEW_CARRIED = 64 };
    return tc_region_any(body, tc_op_is_loop) && !always_loops(body) &&
           most_carried(body) <= FEW_CARRIED;
}

/* Registers move between warp groups only where ptxas knows how many there are:
 * it asks for the threads and the blocks of a multiprocessor. Where memory is
 * all that matters several blocks shall have room on one, whatever a branch
 * that is rarely taken could use. */
static void set_launch(tc_gen *g)
{
    set_string(g, "nvvm.reqntid",
               tc_arena_printf(g->arena, "%u", tc_gen_threads(g)));
    if (g->groups && tc_op_has_attr(g->groups, "registers"))
        set_string(g, "nvvm.minctasm", "1");
    else if (!g->groups && g->f->warps <= TC_DEFAULT_WARPS &&
             loops_are_rare(g->f->body))
        set_string(g, "nvvm.minctasm", "4");
    else if (!g->groups && g->f->warps == TC_DEFAULT_MAX_WARPS &&
             loops_add_up(g))
        set_string(g, "nvvm.minctasm", "2");
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
