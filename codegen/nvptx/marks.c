/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks of a profile: a read of the clock, which one thread of the warp group
 * stores with the mark's number to its ring (nvptx.h has its form).
 *
 *   mov.u32 c, %clock;
 *   @tilec_mark_on st.global.v2.b32 [tilec_mark_hi:tilec_mark_lo], {c, 7};
 *   tilec_mark_lo = the next record's, from the ring's begin after its end
 *
 * The place in the ring is a variable of the PTX, not of the program: an SSA
 * value would go through all loops and be a value that LLVM keeps and moves.
 * ptxas renames it. No thread branches, so that warps stay together, and the
 * accumulators of products in flight are not touched.
 */
#include "codegen/nvptx/emit.h"

void tc_gen_declare_marks(tc_gen *g)
{
    if (g->ring)
        tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm),
                   ".reg .b32 tilec_mark_lo, tilec_mark_hi;\n"
                   ".reg .pred tilec_mark_on;",
                   "~{memory}", 0, NULL);
}

static unsigned group_writers(const tc_gen *g)
{
    return (g->f->warps + TC_WARPGROUP_WARPS - 1) / TC_WARPGROUP_WARPS;
}

unsigned tc_gen_mark_writers(const tc_gen *g)
{
    return group_writers(g) + (g->groups ? g->groups->nregions - 1 : 0);
}

/* ---- The begin and end of a role ---- */

/* Registers w, the writer of the current thread, and p, true in the thread that
 * writes. */
static const char *find_writer(const tc_gen *g)
{
    unsigned groups = group_writers(g);
    switch (g->role) {
    case TC_ROLE_PRODUCER: /* one thread */
        return tc_arena_printf(
            g->arena, "mov.u32 w, %u;\nsetp.eq.u32 p, w, w;\n", groups);
    case TC_ROLE_TRANSPOSER:
        return tc_arena_printf(g->arena,
                               "mov.u32 w, %%tid.x;\n"
                               "setp.eq.u32 p, w, %u;\nmov.u32 w, %u;\n",
                               TC_WARP_THREADS * (g->f->warps + 1), groups + 1);
    default:
        return tc_arena_printf(g->arena,
                               "mov.u32 w, %%tid.x;\nand.b32 t, w, %u;\n"
                               "setp.eq.u32 p, t, 0;\nshr.u32 w, w, %u;\n",
                               TC_WARPGROUP_THREADS - 1,
                               __builtin_ctz(TC_WARPGROUP_THREADS));
    }
}

/* n: the number of the writer's ring. p is false in programs without one. */
static const char find_program[] =
    "mov.u32 n, %ctaid.z;\nmov.u32 t, %nctaid.y;\nmov.u32 u, %ctaid.y;\n"
    "mad.lo.u32 n, n, t, u;\nmov.u32 t, %nctaid.x;\nmov.u32 u, %ctaid.x;\n"
    "mad.lo.u32 n, n, t, u;\n";

static const char *find_ring(const tc_gen *g)
{
    return tc_arena_printf(
        g->arena,
        "{ .reg .b32 w, n, t, u; .reg .b64 a, h, x; .reg .pred p;\n%s%s"
        "setp.lt.and.u32 p, n, %u, p;\nmad.lo.u32 n, n, %u, w;\n",
        find_writer(g), find_program, TC_PROFILE_PROGRAMS,
        tc_gen_mark_writers(g));
}

static unsigned ring_bytes(const tc_gen *g)
{
    return g->f->profile * (unsigned)sizeof(tc_profile_record);
}

/* h: the head of ring n. */
static const char *find_head(const tc_gen *g)
{
    uint64_t heads =
        (uint64_t)TC_PROFILE_PROGRAMS * tc_gen_mark_writers(g) * ring_bytes(g);
    return tc_arena_printf(
        g->arena, "mad.wide.u32 h, n, %u, $0;\nadd.u64 h, h, %llu;\n",
        (unsigned)sizeof(tc_profile_head), (unsigned long long)heads);
}

static void emit_text(tc_gen *g, const char *text)
{
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, "l,~{memory}", 1,
               &g->ring);
}

static bool emit_begin(tc_gen *g)
{
    emit_text(g, tc_arena_printf(g->arena,
                                 "%s%s"
                                 "mad.wide.u32 a, n, %u, $0;\n"
                                 "mov.b64 {tilec_mark_lo, tilec_mark_hi}, a;\n"
                                 "mov.pred tilec_mark_on, p;\n"
                                 "mov.u64 x, %%globaltimer;\n"
                                 "mov.u32 t, %%clock;\nmov.u32 u, %%smid;\n"
                                 "or.b32 u, u, 0x%x;\n"
                                 "@p st.global.b64 [h], x;\n"
                                 "@p st.global.v2.b32 [h+8], {t, u}; }",
                                 find_ring(g), find_head(g), ring_bytes(g),
                                 TC_PROFILE_BEGUN));
    return !g->failed;
}

static bool emit_end(tc_gen *g)
{
    emit_text(g, tc_arena_printf(g->arena,
                                 "%s%s"
                                 "mov.u64 x, %%globaltimer;\n"
                                 "mov.u32 t, %%clock;\n"
                                 "and.b32 u, tilec_mark_lo, %u;\n"
                                 "or.b32 u, u, %u;\n"
                                 "@p st.global.b64 [h+16], x;\n"
                                 "@p st.global.v2.b32 [h+24], {t, u}; }",
                                 find_ring(g), find_head(g), ring_bytes(g) - 1,
                                 TC_PROFILE_ENDED));
    return !g->failed;
}

/* ---- A mark ---- */

/* 0xd8: of the two operands the bits of the second where the mask has them. */
static void emit_record(tc_gen *g, const tc_op *op)
{
    const char *text =
        tc_arena_printf(g->arena,
                        "{ .reg .b32 c, n; .reg .b64 a;\n"
                        "mov.u32 c, %%clock;\nmov.u32 n, %u;\n"
                        "mov.b64 a, {tilec_mark_lo, tilec_mark_hi};\n"
                        "@tilec_mark_on st.global.v2.b32 [a], {c, n};\n"
                        "add.u32 n, tilec_mark_lo, %u;\n"
                        "lop3.b32 tilec_mark_lo, tilec_mark_lo, n, %u, 0xd8; }",
                        (unsigned)tc_op_int(op, "number"),
                        (unsigned)sizeof(tc_profile_record), ring_bytes(g) - 1);
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, "~{memory}", 0, NULL);
}

bool tc_nvptx_mark(tc_gen *g, const tc_op *op)
{
    if (tc_op_is_word(op, "kind", "begin") && !emit_begin(g))
        return false;
    emit_record(g, op);
    return !tc_op_is_word(op, "kind", "end") || emit_end(g);
}
