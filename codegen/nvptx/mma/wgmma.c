/* SPDX-License-Identifier: Apache-2.0
 *
 * The op `mma` by wgmma, and `mma_wait`. Each warp group multiplies its rows
 * (and columns) of the accumulator: blocks of 64 rows and at most 256 columns.
 *
 * An op is one piece of inline assembly, of which LLVM knows only inputs and
 * outputs: it puts no move between instructions in flight, and the fence at its
 * begin covers the accumulators (tied, "=f,..,0,..") and the registers of A.
 *
 *   wgmma.fence
 *   for each block of rows, each block of columns, each step along K
 *     descriptors: low word + constant      ptxas: uniform registers
 *     wgmma.mma_async
 *   wgmma.commit_group; of an op that is not async: wgmma.wait_group 0
 *
 * Zero as the accumulator costs nothing: the first step does not add.
 *
 * Accumulators of f16 are words of two columns each. What packs and unpacks
 * them around an instruction cancels, so that nothing touches the words of a
 * product in flight.
 */
#include "passes/instructions/wgmma.h"
#include "codegen/nvptx/mma/fragment.h"
#include "passes/instructions/mma.h"

#include <string.h>

enum { BLOCK = 64, PENDING_MOST = 7, MOST_NESTED = 16 };

typedef struct product {
    tc_gen *g;
    const tc_op *op;
    const tc_layout *c; /* the accumulator's, columns as in the instruction */
    tc_bit_order order; /* the order in which they really are */
    const char *instr;
    int groups_m, groups_n;
    bool ints;       /* i8, added in i32 */
    bool packed;     /* sums of f16, two to a word */
    bool zero;       /* nothing is added to */
    unsigned n;      /* columns of an instruction */
    tc_origins rows; /* blocks of this group; and the columns it holds */
    unsigned columns;
    unsigned nsteps;
    bool a_registers;
    bool a_whole; /* all its descriptors are operands of the assembly */
    tc_wgmma_operand a, b;
    unsigned at_a, at_b; /* first operand of the assembly */
    tc_held held;        /* of the accumulator */
    tc_text text, constraints;
    LLVMValueRef *args;
    unsigned nargs;
} product;

/* Of operand i; NULL: there is none. */
static const char *element_name(const tc_op *op, unsigned i)
{
    switch (op->in[i]->type->elem->kind) {
    case TC_F16: return "f16";
    case TC_BF16: return "bf16";
    case TC_F8E4M3: return "e4m3";
    case TC_F8E5M2: return "e5m2";
    case TC_I8: return tc_dot_is_unsigned(op, i) ? "u8" : "s8";
    default: return NULL;
    }
}

/* ---- Checks ---- */

static bool find_buffer(product *p, unsigned i, tc_wgmma_operand *o)
{
    const tc_type *t = p->op->in[i]->type;
    const tc_type *plain = tc_mma_plain_operand(p->g->cx, t, i, &p->order);
    const char *why;
    return tc_wgmma_operand_of(p->g->cx, plain, i, p->instr, o, &why) ||
           tc_gen_error(p->g, p->op, "operand %u of %s is %s: %s", i, p->instr,
                        tc_type_name(p->g->cx, t), why);
}

static bool find_a(product *p)
{
    const tc_type *t = p->op->in[0]->type;
    int32_t sides[TC_MAX_RANK];
    p->a_registers = t->kind != TC_SMEM;
    if (!p->a_registers)
        return find_buffer(p, 0, &p->a);
    tc_type_sides(t, sides);
    return t->layout == tc_layout_wgmma_a(p->g->cx, sides, p->groups_m,
                                          p->groups_n,
                                          8 * tc_type_bytes(t->elem)) ||
           tc_gen_error(p->g, p->op,
                        "operand 0 of %s is %s, expected layout "
                        "#wgmma_a(%dx%d) or shared memory",
                        p->instr, tc_type_name(p->g->cx, t), p->groups_m,
                        p->groups_n);
}

/* A group's columns begin where an instruction can. */
static bool check_columns(product *p)
{
    unsigned begins = p->columns == p->n && p->groups_n == 1 ? 0 : p->n;
    return begins % p->b.row_unit == 0 ||
           tc_gen_error(p->g, p->op,
                        "columns from %u on are not at the begin of a panel of "
                        "%u",
                        begins, p->b.row_unit);
}

/* Left operands in shared memory mostly stay there while a loop runs: q. Few
 * descriptors of them fit into registers next to all others, and as words of 64
 * bits they are computed before it. ptxas would compute them again in each
 * step if it knew the high word: the top bit of an address, which is 0, is
 * added to that. Claim wgmma-descriptors. */
static bool is_whole(const product *p)
{
    enum { MOST = 4 };
    return !p->a_registers && tc_mma_bits(p->instr) == 8 &&
           p->rows.n * p->b.nsteps <= MOST;
}

static bool set_up(product *p)
{
    tc_gen *g = p->g;
    const tc_op *op = p->op;
    const tc_type *a = op->in[0]->type->elem, *b = op->in[1]->type->elem;
    p->ints = a->kind == TC_I8;
    p->packed = op->out[0]->type->elem->kind == TC_F16;
    if (!g->target->wgmma || !element_name(op, 0) || !element_name(op, 1) ||
        p->ints != (b->kind == TC_I8))
        return tc_gen_error(g, op, "%s cannot multiply %s and %s on %s",
                            p->instr, tc_type_name(g->cx, a),
                            tc_type_name(g->cx, b), g->target->name);
    if (!tc_wgmma_grid(p->c, &p->groups_m, &p->groups_n))
        return tc_gen_error(g, op, "%s is no accumulator of %s",
                            tc_type_name(g->cx, op->out[0]->type), p->instr);
    p->columns = (unsigned)(p->c->shape[1] / p->groups_n);
    p->n = tc_wgmma_n((int32_t)p->columns);
    if (!tc_wgmma_has_columns(a->kind, (int32_t)p->columns))
        return tc_gen_error(
            g, op, "%u columns of i8, expected a multiple of 16", p->n);
    p->rows = tc_origins_of(g, p->c, 0, BLOCK);
    p->held = tc_held_new(g, p->c);
    if (!find_a(p) || !find_buffer(p, 1, &p->b))
        return false;
    p->nsteps = p->b.nsteps;
    p->a_whole = is_whole(p);
    return check_columns(p);
}

/* ---- What goes in ---- */

static void add_input(product *p, LLVMValueRef x, const char *constraint)
{
    p->args[p->nargs++] = x;
    tc_text_add(&p->constraints, constraint);
}

static bool all_zero(const LLVMValueRef *x, unsigned n)
{
    unsigned i = 0;
    while (i < n && LLVMIsConstant(x[i]) && LLVMIsNull(x[i]))
        i++;
    return i == n;
}

static void add_accumulators(product *p)
{
    unsigned n = tc_gen_registers(p->op->out[0]->type);
    const LLVMValueRef *c = tc_gen_get(p->g, p->op->in[2]);
    p->zero = all_zero(c, n);
    if (p->packed) {
        LLVMValueRef *words = tc_arena_array(p->g->arena, LLVMValueRef, n / 2);
        tc_gen_pack(p->g, p->op->out[0]->type->elem, n, c, words);
        c = words;
        n /= 2;
    }
    for (unsigned i = 0; i < n; i++)
        tc_text_printf(&p->constraints, p->zero ? "=&%c," : "=%c,",
                       p->ints || p->packed ? 'r' : 'f');
    for (unsigned i = 0; i < n && !p->zero; i++)
        add_input(p, c[i], tc_arena_printf(p->g->arena, "%u,", i));
    p->at_a = p->zero ? n : 2 * n;
}

/* Word r of a step's fragment: rows g + 8 (r & 1), k in the lower or upper half
 * (r >> 1). PTX ISA, register fragments of wgmma. */
static void add_a_registers(product *p)
{
    tc_gen *g = p->g;
    const tc_type *t = p->op->in[0]->type;
    const LLVMValueRef *a = tc_gen_get(g, p->op->in[0]);
    tc_held held = tc_held_new(g, t->layout);
    int32_t unit = (int32_t)(4 / tc_type_bytes(t->elem));
    for (unsigned m = 0; m < p->rows.n; m++)
        for (unsigned i = 0; i < 4 * p->nsteps; i++) {
            LLVMValueRef x[4], word;
            for (int32_t j = 0; j < unit; j++) {
                int32_t k = (int32_t)(i / 4) * 8 * unit +
                            (int32_t)(i >> 1 & 1) * 4 * unit + j;
                int32_t at[TC_MAX_RANK] = {p->rows.at[m] + 8 * (int32_t)(i & 1),
                                           k};
                x[j] = a[tc_held_find(&held, at)];
            }
            tc_gen_pack(g, t->elem, (unsigned)unit, x, &word);
            add_input(p, word, "r,");
        }
}

/* The part of the start address that the warp group adds: its number has a
 * digit for each of the accumulator's warp modes after those of its four
 * warps. */
static LLVMValueRef group_byte(product *p, const tc_wgmma_operand *o,
                               unsigned axis)
{
    tc_gen *g = p->g;
    unsigned n = p->c->nmodes[TC_WARP];
    LLVMValueRef group = tc_gen_warp_group(g), sum = tc_gen_i32(g, 0);
    for (unsigned i = 2; i < n; i++) {
        const tc_mode *m = &p->c->modes[TC_WARP][i];
        LLVMValueRef count = tc_gen_i32(g, m->count), digit = group;
        uint32_t byte = tc_wgmma_row_byte(o, (unsigned)m->image[axis]);
        if (i + 1 < n)
            digit = LLVMBuildURem(g->b, group, count, "");
        digit = LLVMBuildMul(g->b, digit, tc_gen_i32(g, byte), "");
        sum = LLVMBuildAdd(g->b, sum, digit, "");
        group = LLVMBuildUDiv(g->b, group, count, "");
    }
    return sum;
}

/* Of a multiple of 16 below 2^18, as all addresses in shared memory are that
 * descriptors name: parts of a sum may be taken by themselves. */
static LLVMValueRef chunk_of(tc_gen *g, LLVMValueRef byte)
{
    LLVMValueRef chunk = LLVMBuildLShr(g->b, byte, tc_gen_i32(g, 4), "");
    if (LLVMIsAInstruction(chunk))
        LLVMSetExact(chunk, true);
    return chunk;
}

/* The low word of the first descriptor: those of other blocks and steps add
 * constants to it. */
static LLVMValueRef low_word(product *p, unsigned i, const tc_wgmma_operand *o)
{
    tc_gen *g = p->g;
    LLVMValueRef base = LLVMBuildPtrToInt(g->b, g->shared, g->i32, "");
    LLVMValueRef at = tc_gen_get(g, p->op->in[i])[0];
    uint32_t low = (uint32_t)tc_wgmma_descriptor(o);
    at = LLVMBuildAdd(g->b, at, group_byte(p, o, i), "");
    at = LLVMBuildAdd(g->b, chunk_of(g, base), chunk_of(g, at), "");
    return LLVMBuildAdd(g->b, at, tc_gen_i32(g, low), "");
}

static void add_buffer(product *p, unsigned i, const tc_wgmma_operand *o)
{
    add_input(p, low_word(p, i, o), "r,");
}

/* In units of 16 bytes: where a block and step of an operand begin. */
static unsigned chunk_at(const tc_wgmma_operand *o, unsigned row, unsigned step)
{
    return (tc_wgmma_row_byte(o, row) + tc_wgmma_step_byte(o, step)) >> 4;
}

static void add_descriptors(product *p)
{
    tc_gen *g = p->g;
    LLVMValueRef base = LLVMBuildPtrToInt(g->b, g->shared, g->i32, "");
    LLVMValueRef none = LLVMBuildLShr(g->b, base, tc_gen_i32(g, 31), "");
    uint32_t word = (uint32_t)(tc_wgmma_descriptor(&p->a) >> 32);
    LLVMValueRef high = LLVMBuildAdd(g->b, none, tc_gen_i32(g, word), "");
    high = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, high, g->i64, ""),
                        tc_gen_i64(g, 32), "");
    LLVMValueRef low = LLVMBuildZExt(g->b, low_word(p, 0, &p->a), g->i64, "");
    LLVMValueRef first = LLVMBuildOr(g->b, high, low, "");
    for (unsigned m = 0; m < p->rows.n; m++)
        for (unsigned step = 0; step < p->nsteps; step++) {
            unsigned at = chunk_at(&p->a, (unsigned)p->rows.at[m], step);
            add_input(p, LLVMBuildAdd(g->b, first, tc_gen_i64(g, at), ""),
                      "l,");
        }
}

/* ---- The instructions ---- */

static void put_descriptor(product *p, char name, const tc_wgmma_operand *o,
                           unsigned row, unsigned step)
{
    tc_text_printf(&p->text, "add.s64 wgmma_%c, wgmma_first_%c, %u;\n\t", name,
                   name, chunk_at(o, row, step));
}

static void put_accumulators(product *p, int32_t row, unsigned column)
{
    unsigned each = p->packed ? 2 : 1;
    for (unsigned i = 0; i < p->n / 2; i += each) {
        int32_t at[TC_MAX_RANK] = {row + 8 * (int32_t)(i >> 1 & 1),
                                   (int32_t)(column + 8 * (i >> 2) + (i & 1))};
        tc_text_printf(&p->text, "%s$%u", i ? ", " : "{",
                       (unsigned)tc_held_find(&p->held, at) / each);
    }
    tc_text_add(&p->text, "}, ");
}

static void put_a(product *p, unsigned m, unsigned step)
{
    unsigned at = m * p->nsteps + step, first = p->at_a + 4 * at;
    if (p->a_registers)
        tc_text_printf(&p->text, "{$%u, $%u, $%u, $%u}", first, first + 1,
                       first + 2, first + 3);
    else if (p->a_whole)
        tc_text_printf(&p->text, "$%u", p->at_a + at);
    else
        tc_text_add(&p->text, "wgmma_a");
}

static void put_instruction(product *p, unsigned m, unsigned column,
                            unsigned step)
{
    const tc_op *op = p->op;
    if (!p->a_registers && !p->a_whole)
        put_descriptor(p, 'a', &p->a, (unsigned)p->rows.at[m], step);
    put_descriptor(p, 'b', &p->b, column, step);
    tc_text_printf(&p->text, "wgmma.mma_async.sync.aligned.m64n%uk%u.%s.%s.%s ",
                   p->n, tc_wgmma_k(p->instr),
                   p->ints     ? "s32"
                   : p->packed ? "f16"
                               : "f32",
                   element_name(op, 0), element_name(op, 1));
    put_accumulators(p, p->rows.at[m], column);
    put_a(p, m, step);
    tc_text_printf(&p->text, ", wgmma_b, %d", !p->zero || step);
    if (!p->ints) /* signs of A and B */
        tc_text_add(&p->text, ", 1, 1");
    if (tc_wgmma_k(p->instr) == 16) { /* 1: transposed, MN-major */
        if (!p->a_registers)
            tc_text_printf(&p->text, ", %d", !p->a.k_major);
        tc_text_printf(&p->text, ", %d", !p->b.k_major);
    }
    tc_text_add(&p->text, ";\n\t");
}

/* The descriptor of the first block and step. (Sums of 64 bits are one
 * instruction of ptxas's, with the high word in place.) */
static void put_first(product *p, char name, const tc_wgmma_operand *o,
                      unsigned operand)
{
    tc_text_printf(&p->text,
                   ".reg .b64 wgmma_first_%c, wgmma_%c;\n\t"
                   "mov.b64 wgmma_first_%c, {$%u, 0x%x};\n\t",
                   name, name, name, operand,
                   (unsigned)(tc_wgmma_descriptor(o) >> 32));
}

static void put_all(product *p)
{
    tc_text_add(&p->text, "{\n\t");
    if (!p->a_registers && !p->a_whole)
        put_first(p, 'a', &p->a, p->at_a);
    put_first(p, 'b', &p->b, p->at_b);
    tc_text_add(&p->text, "wgmma.fence.sync.aligned;\n\t");
    for (unsigned m = 0; m < p->rows.n; m++)
        for (unsigned column = 0; column < p->columns; column += p->n)
            for (unsigned step = 0; step < p->nsteps; step++)
                put_instruction(p, m, column, step);
    tc_text_add(&p->text, "wgmma.commit_group.sync.aligned;\n\t");
    if (!tc_op_int(p->op, "async"))
        tc_text_add(&p->text, "wgmma.wait_group.sync.aligned 0;\n\t");
    tc_text_add(&p->text, "}");
}

/* Assembly whose n results are accumulators: of a type, or of those of `like`.
 */
static void wgmma_call(tc_gen *g, LLVMTypeRef type, unsigned n,
                       const LLVMValueRef *like, const char *text,
                       const char *constraints, unsigned nargs,
                       LLVMValueRef *args, LLVMValueRef *out)
{
    LLVMTypeRef *types = tc_arena_array(g->arena, LLVMTypeRef, n);
    for (unsigned i = 0; i < n; i++)
        types[i] = like ? LLVMTypeOf(like[i]) : type;
    LLVMTypeRef all = LLVMStructTypeInContext(g->llvm, types, n, false);
    LLVMValueRef x = tc_gen_asm(g, all, text, constraints, nargs, args);
    for (unsigned i = 0; i < n; i++)
        out[i] = LLVMBuildExtractValue(g->b, x, i, "");
}

/* From the words at the begin of x. */
static void unpack_sums(tc_gen *g, const tc_value *v, LLVMValueRef *x)
{
    unsigned n = tc_gen_registers(v->type);
    LLVMValueRef *words = tc_arena_array(g->arena, LLVMValueRef, n / 2);
    memcpy(words, x, n / 2 * sizeof *words);
    tc_gen_unpack(g, v->type->elem, n, x, words);
}

bool tc_gen_wgmma(tc_gen *g, const tc_op *op)
{
    product p = {.g = g,
                 .op = op,
                 .instr = tc_op_word(op, "instr"),
                 .text.arena = g->arena,
                 .constraints.arena = g->arena};
    p.c = tc_mma_plain(op->out[0]->type->layout, &p.order);
    if (!set_up(&p))
        return false;
    if (tc_op_int(op, "async"))
        tc_gen_settle(g, op);
    unsigned n = tc_gen_registers(op->out[0]->type);
    unsigned words = p.a_registers ? 4 * p.rows.n * p.nsteps
                     : p.a_whole   ? p.rows.n * p.nsteps
                                   : 1;
    p.args = tc_arena_array(g->arena, LLVMValueRef, n + words + 1);
    add_accumulators(&p);
    if (p.a_registers)
        add_a_registers(&p);
    else if (p.a_whole)
        add_descriptors(&p);
    else
        add_buffer(&p, 0, &p.a);
    p.at_b = p.at_a + words;
    add_buffer(&p, 1, &p.b);
    tc_text_add(&p.constraints, "~{memory}");
    put_all(&p);
    LLVMValueRef *out = tc_gen_set(g, op->out[0]);
    wgmma_call(g, p.ints || p.packed ? g->i32 : g->f32, p.packed ? n / 2 : n,
               NULL, p.text.data, p.constraints.data, p.nargs, p.args, out);
    if (p.packed)
        unpack_sums(g, op->out[0], out);
    return true;
}

/* ---- Waiting ---- */

/* Operands A in registers are f16 as well as some sums: it is a sum if a
 * product gives it, maybe by way of a loop that carries it. */
static bool is_sum_of_f16(const tc_value *v)
{
    for (unsigned depth = 0; depth < MOST_NESTED; depth++) {
        const tc_op *op = v->def ? v->def : v->region->op;
        if (v->def && op->code == TC_MMA)
            return true;
        if (v->def && op->code == TC_MMA_WAIT)
            v = op->in[v->index];
        else if (op && tc_op_is_loop(op))
            v = tc_region_terminator(op->regions[op->code == TC_WHILE])
                    ->in[v->index - (!v->def && op->code == TC_FOR)];
        else
            return false;
    }
    return false;
}

/* Values that no instruction computes asynchronously are handed on. */
static bool is_accumulator(const tc_value *v)
{
    tc_kind kind =
        v->type->kind == TC_TILE ? v->type->elem->kind : TC_KIND_COUNT;
    return kind == TC_F32 || kind == TC_I32 ||
           (kind == TC_F16 && is_sum_of_f16(v));
}

/* Registers of a sum: words of those of f16. */
static unsigned count_sums(const tc_value *v)
{
    unsigned n = tc_gen_registers(v->type);
    return v->type->elem->kind == TC_F16 ? n / 2 : n;
}

/* The accumulators go through the assembly: what uses them comes after it. */
bool tc_nvptx_mma_wait(tc_gen *g, const tc_op *op)
{
    unsigned n = 0, k = 0;
    for (unsigned i = 0; i < op->nin; i++)
        n += is_accumulator(op->in[i]) ? count_sums(op->in[i]) : 0;
    LLVMValueRef *x = tc_arena_array(g->arena, LLVMValueRef, n + 1);
    tc_text constraints = {.arena = g->arena};
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        LLVMValueRef *in = tc_gen_get(g, op->in[i]);
        unsigned size = tc_gen_registers(t);
        if (!is_accumulator(op->in[i])) {
            memcpy(tc_gen_set(g, op->out[i]), in, size * sizeof *in);
            continue;
        }
        if (t->elem->kind == TC_F16)
            tc_gen_pack(g, t->elem, size, in, x + k);
        else
            memcpy(x + k, in, size * sizeof *in);
        k += count_sums(op->in[i]);
    }
    for (unsigned i = 0; i < n; i++)
        tc_text_add(&constraints, LLVMTypeOf(x[i]) == g->i32 ? "=r," : "=f,");
    for (unsigned i = 0; i < n; i++)
        tc_text_printf(&constraints, "%u,", i);
    tc_text_add(&constraints, "~{memory}");
    int64_t pending = tc_op_int(op, "pending");
    const char *text =
        tc_arena_printf(g->arena, "wgmma.wait_group.sync.aligned %d;",
                        pending < PENDING_MOST ? (int)pending : PENDING_MOST);
    if (!n) {
        tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, constraints.data, 0,
                   NULL);
        return true;
    }
    wgmma_call(g, NULL, n, x, text, constraints.data, n, x, x);
    for (unsigned i = 0, from = 0; i < op->nin; i++)
        if (is_accumulator(op->in[i])) {
            unsigned size = count_sums(op->in[i]);
            LLVMValueRef *out = tc_gen_set(g, op->out[i]);
            memcpy(out, x + from, size * sizeof *x);
            if (op->in[i]->type->elem->kind == TC_F16)
                unpack_sums(g, op->out[i], out);
            from += size;
        }
    return true;
}
