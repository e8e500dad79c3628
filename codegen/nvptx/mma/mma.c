/* SPDX-License-Identifier: Apache-2.0
 *
 * The op `mma` by mma.sync: m16n8k16 of f16 and bf16, m16n8k8 of tf32,
 * m16n8k32 of fp8, all with accumulators in f32; m16n8k16 of f16 in f16 as well
 * (two to a register), m16n8k32 of i8 in i32.
 *
 *   for each step along K                      the operands of group i + 1 are
 *     for each group of two tiles along N      fetched before the products of
 *       for each tile of the group             group i: ldmatrix overlaps
 *         for each tile along M, to and fro    the tensor cores, and few
 *           mma                                fragments are alive
 *
 * To and fro (if tiles are many): each product shares an operand with the
 * previous one, which is not read from registers again; that saves power, which
 * limits the clock of a matmul.
 */
#include "passes/instructions/mma.h"
#include "codegen/nvptx/mma/fragment.h"
#include "codegen/nvptx/mma/interleave.h"
#include "passes/instructions/wgmma.h"

#include <string.h>

enum {
    GROUP = 2, /* tiles along N: one ldmatrix.x4 */
    MANY = 4,  /* tiles along M, for to and fro */
    APART = 2, /* instructions between two interleaved loads or copies */
};

/* Parts of the mnemonic. */
typedef struct instruction {
    const char *name; /* of instr(...) */
    unsigned bits;    /* of an element of A and B */
    bool fp8;
} instruction;
static const instruction instructions[] = {
    {"m16n8k16", 16, false}, {"m16n8k8", 32, false}, {"m16n8k32", 8, true}};

typedef struct product {
    tc_gen *g;
    const tc_op *op;
    const instruction *instr;
    bool split;                /* tf32x3 */
    const tc_layout *c_layout; /* columns as in the instruction */
    tc_origins m, n;
    uint32_t *index; /* register of [m][n][j] of the accumulator */
    unsigned ntiles; /* multiplied so far */
    tc_fragments a, b;
    LLVMValueRef *c;
    LLVMTypeRef sum;       /* f32, f16 or i32 */
    bool packed;           /* two sums to a word: f16 */
    const char *intrinsic; /* NULL: there is none */
    tc_text mnemonic;
} product;

/* LLVM's own where it has one that takes words: it costs a fifth of inline
 * assembly's time. */
static const char *intrinsic_name(const tc_type *elem)
{
    switch (elem->kind) {
    case TC_BF16: return "nvvm.mma.m16n8k16.row.col.bf16";
    case TC_F32: return "nvvm.mma.m16n8k8.row.col.tf32";
    default: return NULL;
    }
}

/* Of operand i; NULL: there is none. */
static const char *element_name(const tc_op *op, unsigned i)
{
    switch (op->in[i]->type->elem->kind) {
    case TC_F16: return "f16";
    case TC_BF16: return "bf16";
    case TC_F32: return "tf32";
    case TC_F8E4M3: return "e4m3";
    case TC_F8E5M2: return "e5m2";
    case TC_I8: return tc_dot_is_unsigned(op, i) ? "u8" : "s8";
    default: return NULL;
    }
}

/* ---- Set-up ---- */

static uint32_t *accumulator(const product *p, unsigned m, unsigned n,
                             unsigned j)
{
    return &p->index[(m * p->n.n + n) * 4 + j];
}

/* Word j of an instruction's accumulator: row g + 8 (j >> 1), column
 * 2 t + (j & 1). */
static void find_accumulators(product *p)
{
    const tc_layout *c = p->c_layout;
    p->m = tc_origins_of(p->g, c, 0, 16);
    p->n = tc_origins_of(p->g, c, 1, 8);
    unsigned total = p->m.n * p->n.n * 4;
    p->index = tc_arena_array(p->g->arena, uint32_t, total);
    for (unsigned i = 0; i < total; i++)
        p->index[i] = UINT32_MAX;
    for (uint32_t r = 0; r < tc_layout_size(c, TC_REGISTER); r++) {
        int32_t coord[TC_MAX_RANK];
        tc_coords_first(c, r, coord);
        unsigned m = tc_origins_find(&p->m, coord[0] & ~15);
        unsigned n = tc_origins_find(&p->n, coord[1] & ~7);
        unsigned j = (unsigned)(coord[0] >> 3 & 1) * 2 + (coord[1] & 1);
        *accumulator(p, m, n, j) = r;
    }
}

static bool sum_fits(tc_kind sum, const tc_type *a, bool ints)
{
    return sum == (ints ? TC_I32 : TC_F32) ||
           (sum == TC_F16 && a->kind == TC_F16);
}

static bool check_types(product *p)
{
    const tc_op *op = p->op;
    const tc_type *a = op->in[0]->type->elem, *b = op->in[1]->type->elem;
    const char *precision = tc_op_word(op, "precision");
    bool ints = a->kind == TC_I8 || b->kind == TC_I8;
    bool fits = element_name(op, 0) && element_name(op, 1) &&
                tc_type_bytes(a) * 8 == p->instr->bits &&
                (a == b || (p->instr->fp8 && !ints)) &&
                sum_fits(op->out[0]->type->elem->kind, a, ints) &&
                (!p->instr->fp8 || ints || p->g->target->mma_fp8) &&
                (p->instr->bits != 32 || strcmp(precision, "ieee") != 0);
    return fits || tc_gen_error(p->g, op,
                                "%s cannot multiply %s and %s to %s in %s on "
                                "%s",
                                p->instr->name, tc_type_name(p->g->cx, a),
                                tc_type_name(p->g->cx, b),
                                tc_type_name(p->g->cx, op->out[0]->type->elem),
                                precision, p->g->target->name);
}

static bool set_up(product *p)
{
    tc_gen *g = p->g;
    int wm, wn;
    tc_bit_order columns;
    if (!check_types(p))
        return false;
    p->c_layout = tc_mma_plain(p->op->out[0]->type->layout, &columns);
    if (!tc_mma_grid(p->c_layout, &wm, &wn))
        return tc_gen_error(g, p->op, "%s is no accumulator of %s",
                            tc_type_name(g->cx, p->op->out[0]->type),
                            p->instr->name);
    find_accumulators(p);
    p->split = tc_op_is_word(p->op, "precision", "tf32x3");
    p->intrinsic = intrinsic_name(p->op->in[0]->type->elem);
    p->sum = tc_gen_type(g, p->op->out[0]->type->elem);
    p->packed = p->op->out[0]->type->elem->kind == TC_F16;
    const char *sum = p->packed ? "f16" : p->sum == g->i32 ? "s32" : "f32";
    tc_text_printf(&p->mnemonic, "mma.sync.aligned.%s.row.col.%s.%s.%s.%s ",
                   p->instr->name, sum, element_name(p->op, 0),
                   element_name(p->op, 1), sum);
    tc_text_add(&p->mnemonic,
                p->packed ? "{$0, $1}, {$2, $3, $4, $5}, {$6, $7}, {$8, $9};"
                          : "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, "
                            "{$10, $11, $12, $13};");
    return tc_fragments_new(g, p->op, 0, &p->m, &p->a) &&
           tc_fragments_new(g, p->op, 1, &p->n, &p->b);
}

/* ---- tf32 ---- */

static LLVMValueRef round_to_tf32(tc_gen *g, LLVMValueRef x)
{
    return tc_gen_intrinsic(g, "nvvm.f2tf32.rna", 0, NULL, 1, &x);
}

/* x as tf32, and the rest of x as tf32. */
static LLVMValueRef tf32(tc_gen *g, LLVMValueRef word, bool rest)
{
    LLVMValueRef x = LLVMBuildBitCast(g->b, word, g->f32, "");
    LLVMValueRef high = round_to_tf32(g, x);
    if (!rest)
        return high;
    high = LLVMBuildBitCast(g->b, high, g->f32, "");
    return round_to_tf32(g, LLVMBuildFSub(g->b, x, high, ""));
}

/* ---- The products ---- */

typedef struct fragment {
    LLVMValueRef word[4], rest[4]; /* rest: of tf32x3 */
} fragment;

static fragment fetch(product *p, tc_fragments *f, unsigned tile, unsigned step)
{
    fragment out = {0};
    for (unsigned j = 0; j < (f->is_b ? 2 : 4); j++) {
        LLVMValueRef word = tc_fragments_get(f, tile, step, j);
        out.word[j] = p->instr->bits == 32 ? tf32(p->g, word, false) : word;
        if (p->split)
            out.rest[j] = tf32(p->g, word, true);
    }
    return out;
}

/* c += a b, of sums in f16: words of two columns each. */
static void multiply_packed(product *p, LLVMValueRef c[4], LLVMValueRef *a,
                            LLVMValueRef *b)
{
    tc_gen *g = p->g;
    const tc_type *elem = p->op->out[0]->type->elem;
    LLVMTypeRef types[] = {g->i32, g->i32};
    LLVMValueRef words[2];
    tc_gen_pack(g, elem, 4, c, words);
    LLVMValueRef args[] = {a[0], a[1], a[2],     a[3],
                           b[0], b[1], words[0], words[1]};
    LLVMValueRef all =
        tc_gen_asm(g, LLVMStructTypeInContext(g->llvm, types, 2, false),
                   p->mnemonic.data, "=r,=r,r,r,r,r,r,r,r,r", 8, args);
    for (unsigned j = 0; j < 2; j++)
        words[j] = LLVMBuildExtractValue(g->b, all, j, "");
    tc_gen_unpack(g, elem, 4, c, words);
}

/* c += a b */
static void multiply(product *p, LLVMValueRef c[4], LLVMValueRef *a,
                     LLVMValueRef *b)
{
    tc_gen *g = p->g;
    if (p->packed) {
        multiply_packed(p, c, a, b);
        return;
    }
    LLVMTypeRef types[] = {p->sum, p->sum, p->sum, p->sum};
    const char *constraints = p->sum == g->i32
                                  ? "=r,=r,=r,=r,r,r,r,r,r,r,r,r,r,r"
                                  : "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f";
    LLVMValueRef args[] = {a[0], a[1], a[2], a[3], b[0],
                           b[1], c[0], c[1], c[2], c[3]};
    LLVMValueRef all =
        p->intrinsic
            ? tc_gen_convergent(g, p->intrinsic, 10, args)
            : tc_gen_asm(g, LLVMStructTypeInContext(g->llvm, types, 4, false),
                         p->mnemonic.data, constraints, 10, args);
    for (unsigned j = 0; j < 4; j++)
        c[j] = LLVMBuildExtractValue(g->b, all, j, "");
}

static void multiply_tile(product *p, unsigned m, unsigned n, fragment *a,
                          fragment *b)
{
    LLVMValueRef c[4];
    if (p->ntiles && p->ntiles % APART == 0)
        tc_interleave_next(p->g);
    p->ntiles++;
    for (unsigned j = 0; j < 4; j++) {
        uint32_t r = *accumulator(p, m, n, j);
        c[j] = r == UINT32_MAX ? LLVMConstNull(p->sum) : p->c[r];
    }
    if (p->split) { /* the small ones first */
        multiply(p, c, a->rest, b->word);
        multiply(p, c, a->word, b->rest);
    }
    multiply(p, c, a->word, b->word);
    for (unsigned j = 0; j < 4; j++) {
        uint32_t r = *accumulator(p, m, n, j);
        if (r != UINT32_MAX)
            p->c[r] = c[j];
    }
}

/* A group of tiles along N at a step, with its fragments. */
typedef struct group {
    unsigned step, n, size;
    fragment b[GROUP];
    fragment *a; /* one each tile along M */
} group;

static group group_at(product *p, unsigned i, const group *before)
{
    unsigned per_step = (p->n.n + GROUP - 1) / GROUP;
    group u = {.step = i / per_step, .n = i % per_step * GROUP};
    u.size = p->n.n - u.n < GROUP ? p->n.n - u.n : GROUP;
    if (before && before->step == u.step)
        u.a = before->a;
    else
        u.a = tc_arena_array(p->g->arena, fragment, p->m.n);
    for (unsigned m = 0; m < p->m.n && (!before || u.a != before->a); m++)
        u.a[m] = fetch(p, &p->a, m, u.step);
    for (unsigned k = 0; k < u.size; k++)
        u.b[k] = fetch(p, &p->b, u.n + k, u.step);
    return u;
}

static void multiply_group(product *p, group *u)
{
    for (unsigned k = 0; k < u->size; k++)
        for (unsigned i = 0; i < p->m.n; i++) {
            bool fro = (u->n + k) % 2 && p->m.n >= MANY;
            unsigned m = fro ? p->m.n - 1 - i : i;
            multiply_tile(p, m, u->n + k, &u->a[m], &u->b[k]);
        }
}

static void multiply_all(product *p)
{
    unsigned n = p->a.nsteps * ((p->n.n + GROUP - 1) / GROUP);
    group now = group_at(p, 0, NULL);
    for (unsigned i = 0; i < n; i++) {
        group next = {0};
        if (i + 1 < n)
            next = group_at(p, i + 1, &now);
        multiply_group(p, &now);
        now = next;
    }
}

bool tc_nvptx_mma(tc_gen *g, const tc_op *op)
{
    const char *name = tc_op_word(op, "instr");
    if (strcmp(name, "fma") == 0)
        return tc_gen_dot(g, op);
    if (tc_wgmma_k(name))
        return tc_gen_wgmma(g, op);
    product p = {.g = g, .op = op, .mnemonic.arena = g->arena};
    for (unsigned i = 0; i < sizeof instructions / sizeof *instructions; i++)
        if (strcmp(instructions[i].name, name) == 0)
            p.instr = &instructions[i];
    if (!set_up(&p))
        return false;
    unsigned n = tc_gen_registers(op->out[0]->type);
    p.c = tc_gen_set(g, op->out[0]);
    memcpy(p.c, tc_gen_get(g, op->in[2]), n * sizeof *p.c);
    tc_interleave_begin(g, op);
    multiply_all(&p);
    tc_interleave_end(g);
    return true;
}
