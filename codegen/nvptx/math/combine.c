/* SPDX-License-Identifier: Apache-2.0
 *
 * Two elements combined, of each operand of a reduction or a scan: by a kind,
 * or by the ops of a region.
 */
#include "codegen/nvptx/math/combine.h"

#include <string.h>

tc_combiner tc_combiner_of(tc_gen *g, const tc_op *op)
{
    const char *kind = tc_op_word(op, "kind");
    tc_combiner c = {.g = g,
                     .op = op,
                     .n = tc_op_ncombined(op),
                     .kind = strcmp(kind, "region") == 0 ? NULL : kind};
    c.wide = c.kind && tc_kind_is_narrow(tc_combiner_elem(&c, 0)->kind);
    return c;
}

const tc_type *tc_combiner_elem(const tc_combiner *c, unsigned i)
{
    return tc_type_elem(c->op->in[i]->type);
}

const tc_type *tc_combiner_wide(const tc_combiner *c, unsigned i)
{
    return c->wide ? tc_type_scalar(c->g->cx, TC_F32) : tc_combiner_elem(c, i);
}

/* ---- Tuples ---- */

tc_tuple tc_tuple_new(const tc_combiner *c)
{
    return (tc_tuple){tc_arena_array(c->g->arena, LLVMValueRef, c->n)};
}

tc_tuple tc_tuple_copy(const tc_combiner *c, tc_tuple t)
{
    return (tc_tuple){tc_arena_copy(c->g->arena, t.x, c->n * sizeof *t.x)};
}

tc_tuple tc_tuple_of(const tc_combiner *c, LLVMValueRef **in, uint32_t reg)
{
    tc_tuple t = tc_tuple_new(c);
    for (unsigned i = 0; i < c->n; i++)
        t.x[i] = c->wide
                     ? tc_gen_widen(c->g, tc_combiner_elem(c, i), in[i][reg])
                     : in[i][reg];
    return t;
}

void tc_tuple_put(const tc_combiner *c, tc_tuple t, LLVMValueRef **out,
                  uint32_t reg)
{
    for (unsigned i = 0; i < c->n; i++)
        out[i][reg] = c->wide
                          ? tc_gen_narrow(c->g, tc_combiner_elem(c, i), t.x[i])
                          : t.x[i];
}

tc_tuple tc_tuple_select(const tc_combiner *c, LLVMValueRef on, tc_tuple a,
                         tc_tuple b)
{
    tc_tuple t = tc_tuple_new(c);
    for (unsigned i = 0; i < c->n; i++)
        t.x[i] = LLVMBuildSelect(c->g->b, on, a.x[i], b.x[i], "");
    return t;
}

/* ---- Combining two ---- */

/* The region's ops for these arguments. */
static tc_tuple combine_by_region(const tc_combiner *c, tc_tuple a, tc_tuple b)
{
    tc_gen *g = c->g;
    const tc_region *region = c->op->regions[0];
    for (unsigned i = 0; i < c->n; i++) {
        *tc_gen_set(g, region->args[i]) = a.x[i];
        *tc_gen_set(g, region->args[c->n + i]) = b.x[i];
    }
    tc_tuple out = {tc_arena_array(g->arena, LLVMValueRef, c->n)};
    bool ok = tc_nvptx_region(g, region);
    for (unsigned i = 0; i < c->n; i++)
        out.x[i] = ok ? tc_gen_scalar(g, region->last->in[i]) : a.x[i];
    return out;
}

tc_tuple tc_tuple_combine(const tc_combiner *c, tc_tuple a, tc_tuple b)
{
    if (!c->kind)
        return combine_by_region(c, a, b);
    tc_tuple out = {tc_arena_array(c->g->arena, LLVMValueRef, c->n)};
    for (unsigned i = 0; i < c->n; i++)
        out.x[i] = tc_gen_combine(c->g, c->kind, tc_combiner_wide(c, i), a.x[i],
                                  b.x[i]);
    return out;
}

/* ---- Between lanes ---- */

static LLVMValueRef shuffle_32(tc_gen *g, LLVMValueRef x, uint32_t bit)
{
    LLVMValueRef args[] = {tc_gen_i32(g, -1), x, tc_gen_i32(g, bit),
                           tc_gen_i32(g, 31)};
    return tc_gen_intrinsic(g, "nvvm.shfl.sync.bfly.i32", 0, NULL, 4, args);
}

static LLVMValueRef shuffle_64(tc_gen *g, LLVMValueRef x, uint32_t bit)
{
    LLVMValueRef shift = tc_gen_i64(g, 32);
    LLVMValueRef low = LLVMBuildTrunc(g->b, x, g->i32, "");
    LLVMValueRef high = LLVMBuildLShr(g->b, x, shift, "");
    high = LLVMBuildTrunc(g->b, high, g->i32, "");
    low = LLVMBuildZExt(g->b, shuffle_32(g, low, bit), g->i64, "");
    high = LLVMBuildZExt(g->b, shuffle_32(g, high, bit), g->i64, "");
    return LLVMBuildOr(g->b, low, LLVMBuildShl(g->b, high, shift, ""), "");
}

/* The value of the lane whose number differs in this bit. */
static LLVMValueRef shuffled(tc_gen *g, const tc_type *elem, LLVMValueRef x,
                             uint32_t bit)
{
    if (elem->kind == TC_I1) {
        x = shuffle_32(g, LLVMBuildZExt(g->b, x, g->i32, ""), bit);
        return LLVMBuildICmp(g->b, LLVMIntNE, x, tc_gen_i32(g, 0), "");
    }
    LLVMTypeRef type = tc_gen_memory_type(g, elem);
    unsigned bits = 8 * tc_type_bytes(elem);
    LLVMTypeRef ints = LLVMIntTypeInContext(g->llvm, bits);
    x = tc_gen_to_memory(g, elem, x);
    x = LLVMBuildBitCast(g->b, x, ints, "");
    if (bits == 64) {
        x = shuffle_64(g, x, bit);
    } else {
        x = shuffle_32(g, LLVMBuildZExt(g->b, x, g->i32, ""), bit);
        x = LLVMBuildTrunc(g->b, x, ints, "");
    }
    return tc_gen_from_memory(g, elem, LLVMBuildBitCast(g->b, x, type, ""));
}

tc_tuple tc_tuple_shuffled(const tc_combiner *c, tc_tuple t, uint32_t bit)
{
    tc_tuple other = tc_tuple_new(c);
    for (unsigned i = 0; i < c->n; i++)
        other.x[i] = shuffled(c->g, tc_combiner_wide(c, i), t.x[i], bit);
    return other;
}
