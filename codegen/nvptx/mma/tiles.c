/* SPDX-License-Identifier: Apache-2.0
 *
 * The tile scheduler of persistent kernels: the next tile, from a counter that
 * all programs of a launch share, and how one thread tells the others.
 */
#include "codegen/nvptx/memory/shared.h"

/* ---- The scalar channel ---- */

/* The instruction up to its operands; the address into the first two. */
static void access_word(tc_gen *g, const tc_op *op, tc_text *text,
                        const char *what, unsigned *bits, LLVMValueRef args[2])
{
    unsigned bytes = tc_type_bytes(op->in[0]->type->elem);
    *bits = 8 * bytes;
    args[0] = tc_shared_address(g, tc_gen_scalar(g, op->in[0]), &args[1]);
    tc_text_printf(text, "%s.shared.%sb%u ", what, bytes == 8 ? "v2." : "",
                   bytes < 4 ? 8 * bytes : 32);
}

bool tc_nvptx_smem_store_scalar(tc_gen *g, const tc_op *op)
{
    LLVMValueRef args[5], x = tc_gen_scalar(g, op->in[1]);
    unsigned bits, n = 2;
    tc_text text = {.arena = g->arena}, constraints = {.arena = g->arena};
    tc_text_add(&constraints, "r,n");
    if (g->role != TC_ROLE_PRODUCER) {
        tc_text_add(&text, "@$2 ");
        tc_text_add(&constraints, ",b");
        args[n++] = tc_gen_first_thread(g);
    }
    access_word(g, op, &text, "st", &bits, args);
    tc_words_pack(g, op->in[1]->type, 1, &x, args + n);
    bool two = bits > 32;
    tc_text_printf(&text, two ? "[$0+$1], {$%u, $%u};" : "[$0+$1], $%u;", n,
                   n + 1);
    tc_text_add(&constraints, two ? ",r,r,~{memory}" : ",r,~{memory}");
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text.data, constraints.data,
               n + 1 + two, args);
    return true;
}

/* Lane 0's, which is the same: ptxas knows then that the warp stays together on
 * what depends on it. */
static LLVMValueRef of_warp(tc_gen *g, LLVMValueRef x)
{
    LLVMValueRef args[] = {tc_gen_i32(g, -1), x, tc_gen_i32(g, 0),
                           tc_gen_i32(g, 31)};
    return tc_gen_intrinsic(g, "nvvm.shfl.sync.idx.i32", 0, NULL, 4, args);
}

bool tc_nvptx_smem_load_scalar(tc_gen *g, const tc_op *op)
{
    LLVMValueRef args[2], words[2];
    unsigned bits;
    tc_text text = {.arena = g->arena};
    access_word(g, op, &text, "ld", &bits, args);
    bool two = bits > 32;
    tc_text_add(&text, two ? "{$0, $1}, [$2+$3];" : "$0, [$1+$2];");
    LLVMTypeRef both[] = {g->i32, g->i32};
    LLVMValueRef all = tc_gen_asm(
        g, two ? LLVMStructTypeInContext(g->llvm, both, 2, false) : g->i32,
        text.data, two ? "=r,=r,r,n,~{memory}" : "=r,r,n,~{memory}", 2, args);
    words[0] = two ? LLVMBuildExtractValue(g->b, all, 0, "") : all;
    words[1] = two ? LLVMBuildExtractValue(g->b, all, 1, "") : NULL;
    for (int i = 0; g->role != TC_ROLE_PRODUCER && i <= two; i++)
        words[i] = of_warp(g, words[i]);
    tc_words_unpack(g, op->out[0]->type, 1, tc_gen_set(g, op->out[0]), words);
    return true;
}

/* ---- The counter ---- */

static LLVMValueRef num_programs(tc_gen *g, char axis)
{
    return tc_gen_intrinsic(
        g, tc_arena_printf(g->arena, "nvvm.read.ptx.sreg.nctaid.%c", axis), 0,
        NULL, 0, NULL);
}

/* The first programs begin with the numbers of their own. */
bool tc_nvptx_next_tile(tc_gen *g, const tc_op *op)
{
    bool alone = g->role == TC_ROLE_PRODUCER;
    LLVMValueRef args[] = {g->counter, tc_gen_first_thread(g)};
    LLVMValueRef n = tc_gen_asm(
        g, g->i32,
        alone ? "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;"
              : "mov.b32 $0, 0;\n@$2 atom.relaxed.gpu.global.add.u32 $0, [$1], "
                "1;",
        alone ? "=r,l,~{memory}" : "=&r,l,b,~{memory}", 2 - alone, args);
    if (!alone)
        n = tc_gen_share(g, tc_gen_i32(g, 0), n);
    n = LLVMBuildAdd(g->b, n, num_programs(g, 'x'), "");
    LLVMValueRef end = tc_gen_scalar(g, op->in[0]);
    LLVMValueRef is = LLVMBuildICmp(g->b, LLVMIntSLT, n, end, "");
    *tc_gen_set(g, op->out[0]) =
        LLVMBuildSelect(g->b, is, n, tc_gen_i32(g, INT32_MAX), "");
    return true;
}

/* atom.inc goes back to 0 by itself when all programs have been here; the last
 * one sets the other counter back, which nobody wants any more. */
static const char end_text[] =
    "{ .reg .pred last; .reg .b32 n;\n"
    "mov.b32 n, 0;\n"
    "@$2 atom.acq_rel.gpu.global.inc.u32 n, [$0+4], $1;\n"
    "setp.eq.and.u32 last, n, $1, $2;\n"
    "@last st.relaxed.gpu.global.u32 [$0], 0; }";

bool tc_nvptx_end_tiles(tc_gen *g, const tc_op *op)
{
    LLVMValueRef n = num_programs(g, 'x');
    n = LLVMBuildMul(g->b, n, num_programs(g, 'y'), "");
    n = LLVMBuildMul(g->b, n, num_programs(g, 'z'), "");
    LLVMValueRef args[] = {g->counter,
                           LLVMBuildSub(g->b, n, tc_gen_i32(g, 1), ""),
                           tc_gen_first_thread(g)};
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), end_text, "l,r,b,~{memory}",
               3, args);
    return true;
}
