/* SPDX-License-Identifier: Apache-2.0
 *
 * smem_copy: bytes transposed from buffer to buffer
 * (passes/instructions/smem_copy.h).
 *
 *   ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {u0, v0, u1, v1}, [..];
 *   prmt.b32 e0, u0, v0, 0x6420;   prmt.b32 o0, u0, v0, 0x7531;
 *   prmt.b32 e1, u1, v1, 0x6420;   prmt.b32 o1, u1, v1, 0x7531;
 *   stmatrix.sync.aligned.m8n8.x4.shared.b16 [..], {e0, o0, e1, o1};
 *
 * The warps of the role take bands in turn; some steps are in flight at once.
 */
#include "passes/instructions/smem_copy.h"
#include "codegen/nvptx/memory/shared.h"

/* Steps in flight at once: of a long band fewer, as its addresses take
 * registers, of which a transposer has 40. */
enum { WORDS = 4, IN_FLIGHT = 4, FEW = 3 };
enum { EVEN = 0x6420, ODD = 0x7531 }; /* bytes of two words */

typedef struct copying {
    tc_gen *g;
    tc_smem_copy plan;
    tc_shared_at from, to;      /* of the band */
    LLVMValueRef first, second; /* selectors of prmt */
} copying;

static void read_step(copying *m, unsigned step, LLVMValueRef words[WORDS])
{
    tc_gen *g = m->g;
    LLVMValueRef args[2];
    args[0] = tc_shared_at_get(&m->from, step, &args[1]);
    LLVMTypeRef types[WORDS] = {g->i32, g->i32, g->i32, g->i32};
    LLVMValueRef all = tc_gen_asm(
        g, LLVMStructTypeInContext(g->llvm, types, WORDS, false),
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0, $1, $2, $3}, "
        "[$4+$5];",
        "=r,=r,=r,=r,r,n,~{memory}", 2, args);
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = LLVMBuildExtractValue(g->b, all, i, "");
}

static LLVMValueRef permute(tc_gen *g, LLVMValueRef a, LLVMValueRef b,
                            LLVMValueRef selector)
{
    LLVMValueRef args[] = {a, b, selector};
    return tc_gen_intrinsic(g, "nvvm.prmt", 0, NULL, 3, args);
}

static void write_step(copying *m, unsigned step,
                       const LLVMValueRef words[WORDS])
{
    tc_gen *g = m->g;
    LLVMValueRef args[2 + WORDS];
    args[0] = tc_shared_at_get(&m->to, step, &args[1]);
    for (unsigned i = 0; i < WORDS; i++)
        args[2 + i] = permute(g, words[i & 2], words[i | 1],
                              i % 2 ? m->second : m->first);
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm),
               "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0+$1], {$2, $3, $4, "
               "$5};",
               "r,n,r,r,r,r,~{memory}", 2 + WORDS, args);
}

static void copy_band(copying *m)
{
    LLVMValueRef words[IN_FLIGHT][WORDS];
    unsigned n = m->plan.nsteps, at_once = n > IN_FLIGHT ? FEW : IN_FLIGHT;
    for (unsigned i = 0; i < n; i += at_once) {
        unsigned end = i + at_once < n ? i + at_once : n;
        for (unsigned k = i; k < end; k++)
            read_step(m, k, words[k - i]);
        for (unsigned k = i; k < end; k++)
            write_step(m, k, words[k - i]);
    }
}

/* Where the band is. */
static tc_shared_at at_band(tc_gen *g, const tc_value *buffer,
                            const tc_layout *offsets, unsigned first,
                            LLVMValueRef band)
{
    tc_shared_at at = tc_shared_at_new(g, tc_gen_get(g, buffer)[0], offsets, 1);
    tc_shared_at_index(&at, offsets->modes[TC_REGISTER] + first,
                       offsets->nmodes[TC_REGISTER] - first, band);
    return at;
}

/* Of a lane that hands over row g: 16 lanes have g >= 4. */
static LLVMValueRef selector(tc_gen *g, unsigned below, unsigned above)
{
    LLVMValueRef upper =
        LLVMBuildICmp(g->b, LLVMIntUGE, g->lane, tc_gen_i32(g, 16), "");
    return LLVMBuildSelect(g->b, upper, tc_gen_i32(g, above),
                           tc_gen_i32(g, below), "");
}

bool tc_nvptx_smem_copy(tc_gen *g, const tc_op *op)
{
    copying m = {.g = g};
    const char *why;
    if (!g->target->ldmatrix || !g->target->stmatrix)
        return tc_gen_error(g, op, "%s has no stmatrix", g->target->name);
    if (!tc_smem_copy_of(g->cx, op->in[0]->type, op->in[1]->type, &m.plan,
                         &why))
        return tc_gen_error(g, op, "%s", why);
    m.first = selector(g, EVEN, ODD);
    m.second = selector(g, ODD, EVEN);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef loop = tc_gen_block_new(g, "band");
    LLVMBasicBlockRef body = tc_gen_block_new(g, "band.copy");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "bands.end");
    tc_gen_enter(g, loop);
    LLVMValueRef band = LLVMBuildPhi(g->b, g->i32, "");
    LLVMValueRef more =
        LLVMBuildICmp(g->b, LLVMIntULT, band, tc_gen_i32(g, m.plan.nbands), "");
    LLVMBuildCondBr(g->b, more, body, after);
    LLVMPositionBuilderAtEnd(g->b, body);
    m.from = at_band(g, op->in[0], m.plan.read, m.plan.read_bands, band);
    m.to = at_band(g, op->in[1], m.plan.write, m.plan.write_bands, band);
    copy_band(&m);
    LLVMValueRef next =
        LLVMBuildAdd(g->b, band, tc_gen_i32(g, tc_gen_role_warps(g)), "");
    LLVMValueRef values[] = {g->warp, next};
    LLVMBasicBlockRef blocks[] = {before, LLVMGetInsertBlock(g->b)};
    tc_gen_forbid_unrolling(g, LLVMBuildBr(g->b, loop));
    LLVMAddIncoming(band, values, blocks, 2);
    LLVMPositionBuilderAtEnd(g->b, after);
    return true;
}
