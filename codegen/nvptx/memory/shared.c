/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers in shared memory: addresses, ldmatrix and stmatrix, vectors.
 *
 * Eight rows of a 128-byte swizzle and the k steps of an operand: a lane's row
 * address is T, and step k is at T ^ 32 k. So a warp needs four addresses, and
 * all other rows, panels and slots are immediates:
 *
 *   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {...}, [%a+2048];
 */
#include "codegen/nvptx/memory/shared.h"
#include "ir/parts.h"
#include "passes/sync/shared_memory.h"

#include <assert.h>
#include <string.h>

/* ---- Addresses ---- */

static uint32_t period_of(const tc_layout *offsets)
{
    return (uint32_t)offsets->period[0];
}

static uint32_t constant_of(const tc_layout *offsets, uint32_t r)
{
    int32_t coord[TC_MAX_RANK];
    tc_layout_apply(offsets, (uint32_t[TC_INPUT_COUNT]){[TC_REGISTER] = r},
                    coord);
    return (uint32_t)coord[0];
}

/* buffer = the result + *constant. Buffers at different offsets that threads
 * index alike then share their addresses. */
static LLVMValueRef split_offset(tc_gen *g, LLVMValueRef buffer,
                                 int64_t *constant)
{
    bool add = LLVMIsABinaryOperator(buffer) &&
               LLVMGetInstructionOpcode(buffer) == LLVMAdd;
    LLVMValueRef c = add ? LLVMGetOperand(buffer, 1) : buffer;
    *constant = LLVMIsAConstantInt(c) ? LLVMConstIntGetSExtValue(c) : 0;
    return !LLVMIsAConstantInt(c) ? buffer
           : add                  ? LLVMGetOperand(buffer, 0)
                                  : tc_gen_i32(g, 0);
}

/* Hides v from LLVM. It is computed where the thread's parts are, once, and
 * then stays whole: LLVM would rather add a slot's offset to the segment's
 * address, which two buffers have in common, than to the invariant part. */
static LLVMValueRef opaque(tc_gen *g, LLVMValueRef v)
{
    static const char text[] = "mov.b32 $0, $1;", constraints[] = "=r,r";
    LLVMTypeRef type = LLVMFunctionType(g->i32, &g->i32, 1, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints,
                                         strlen(constraints), false, false,
                                         LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(g->entry, type, code, &v, 1, "");
}

static LLVMValueRef segment_of(tc_gen *g)
{
    return LLVMBuildPtrToInt(g->entry, g->shared, g->i32, "");
}

LLVMValueRef tc_shared_address(tc_gen *g, LLVMValueRef offset,
                               LLVMValueRef *immediate)
{
    int64_t constant;
    offset = split_offset(g, offset, &constant);
    *immediate = tc_gen_i32(g, constant);
    return LLVMBuildAdd(g->b, segment_of(g), offset, "");
}

/* Of these elements from the segment's begin. */
static LLVMValueRef start_of(tc_gen *g, LLVMValueRef elements, unsigned bytes)
{
    LLVMValueRef offset =
        LLVMBuildMul(g->entry, elements, tc_gen_i32(g, bytes), "");
    return opaque(g, LLVMBuildAdd(g->entry, segment_of(g), offset, ""));
}

tc_shared_at tc_shared_at_new(tc_gen *g, LLVMValueRef buffer,
                              const tc_layout *offsets, unsigned bytes)
{
    int64_t constant;
    buffer = split_offset(g, buffer, &constant);
    tc_coords lanes = tc_coords_get(g, offsets, 0);
    return (tc_shared_at){.g = g,
                          .offsets = offsets,
                          .bytes = bytes,
                          .constant = (uint32_t)constant,
                          .buffer = buffer,
                          .thread = lanes.thread,
                          .start = start_of(g, lanes.thread, bytes),
                          .thread_bits = lanes.thread_bits};
}

/* a and b are parts of one coordinate: xor below the period, add above. */
static LLVMValueRef combine(tc_shared_at *a, LLVMValueRef x, LLVMValueRef y)
{
    tc_gen *g = a->g;
    uint32_t low = period_of(a->offsets) - 1;
    LLVMValueRef mask = tc_gen_i32(g, low), high = tc_gen_i32(g, (int32_t)~low);
    LLVMValueRef below =
        LLVMBuildAnd(g->b, LLVMBuildXor(g->b, x, y, ""), mask, "");
    LLVMValueRef above = LLVMBuildAdd(g->b, LLVMBuildAnd(g->b, x, high, ""),
                                      LLVMBuildAnd(g->b, y, high, ""), "");
    return LLVMBuildOr(g->b, below, above, "");
}

void tc_shared_at_index(tc_shared_at *a, const tc_mode *modes, unsigned nmodes,
                        LLVMValueRef index)
{
    tc_gen *g = a->g;
    for (unsigned i = 0; i < nmodes; i++) {
        LLVMValueRef count = tc_gen_i32(g, modes[i].count);
        LLVMValueRef digit = LLVMBuildURem(g->b, index, count, "");
        LLVMValueRef image =
            LLVMBuildMul(g->b, digit, tc_gen_i32(g, modes[i].image[0]), "");
        a->thread = combine(a, a->thread, image);
        a->thread_bits |=
            (uint32_t)modes[i].image[0] & (period_of(a->offsets) - 1);
        index = LLVMBuildUDiv(g->b, index, count, "");
    }
    a->start = NULL;
    a->patterns = NULL;
}

/* The address of the buffer's element thread ^ bits, computed anew. */
static LLVMValueRef element_address(tc_shared_at *a, uint32_t bits)
{
    tc_gen *g = a->g;
    LLVMValueRef offset =
        LLVMBuildXor(g->b, a->thread, tc_gen_i32(g, bits), "");
    offset = LLVMBuildMul(g->b, offset, tc_gen_i32(g, a->bytes), "");
    offset = LLVMBuildAdd(g->b, segment_of(g), offset, "");
    return LLVMBuildAdd(g->b, offset, a->buffer, "");
}

/* The same where it was not computed before. Below the alignment of buffers the
 * xor may as well follow the addition of the base: one instruction, here, and
 * nothing that would be kept in a register for a whole loop. */
static LLVMValueRef pattern_address(tc_shared_at *a, uint32_t bits);

static LLVMValueRef address_of(tc_shared_at *a, uint32_t bits)
{
    for (tc_pattern *p = a->patterns; p; p = p->next)
        if (p->bits == bits)
            return p->address;
    LLVMValueRef address = pattern_address(a, bits);
    tc_pattern *p = tc_arena_new(a->g->arena, tc_pattern);
    *p = (tc_pattern){bits, address, a->patterns};
    a->patterns = p;
    return address;
}

static LLVMValueRef pattern_address(tc_shared_at *a, uint32_t bits)
{
    tc_gen *g = a->g;
    if (bits == 0 && a->start)
        return LLVMBuildAdd(g->b, a->start, a->buffer, "");
    if (bits == 0 || bits * a->bytes >= TC_SMEM_ALIGN)
        return element_address(a, bits);
    LLVMValueRef args[] = {address_of(a, 0), tc_gen_i32(g, bits * a->bytes)};
    return tc_gen_asm(g, g->i32, "xor.b32 $0, $1, $2;", "=r,r,n", 2, args);
}

LLVMValueRef tc_shared_at_get(tc_shared_at *a, uint32_t r,
                              LLVMValueRef *immediate)
{
    uint32_t constant = constant_of(a->offsets, r);
    uint32_t bits = constant & a->thread_bits;
    *immediate = tc_gen_i32(a->g, a->constant + (constant - bits) * a->bytes);
    return address_of(a, bits);
}

/* ---- Words ---- */

/* The integer, or vector of words, that n elements fill. */
static LLVMTypeRef words_type(tc_gen *g, unsigned bits)
{
    return bits <= 32 ? LLVMIntTypeInContext(g->llvm, bits)
                      : LLVMVectorType(g->i32, bits / 32);
}

void tc_words_pack(tc_gen *g, const tc_type *elem, unsigned n,
                   const LLVMValueRef *x, LLVMValueRef *words)
{
    unsigned bits = n * tc_type_bytes(elem) * 8;
    LLVMValueRef all = tc_gen_to_memory(g, elem, x[0]);
    if (n > 1) {
        all = LLVMGetUndef(LLVMVectorType(tc_gen_memory_type(g, elem), n));
        for (unsigned i = 0; i < n; i++)
            all = LLVMBuildInsertElement(g->b, all,
                                         tc_gen_to_memory(g, elem, x[i]),
                                         tc_gen_i32(g, i), "");
    }
    all = LLVMBuildBitCast(g->b, all, words_type(g, bits), "");
    if (bits <= 32)
        words[0] = bits < 32 ? LLVMBuildZExt(g->b, all, g->i32, "") : all;
    for (unsigned i = 0; bits > 32 && i < bits / 32; i++)
        words[i] = LLVMBuildExtractElement(g->b, all, tc_gen_i32(g, i), "");
}

void tc_words_unpack(tc_gen *g, const tc_type *elem, unsigned n,
                     LLVMValueRef *x, const LLVMValueRef *words)
{
    unsigned bits = n * tc_type_bytes(elem) * 8;
    /* LLVM puts bytes together again that were taken out of words, not always
     * those that were taken out of vectors of words. */
    if (tc_type_bytes(elem) == 1 && n % 4 == 0) {
        tc_gen_unpack(g, elem, n, x, words);
        return;
    }
    LLVMTypeRef memory = tc_gen_memory_type(g, elem);
    LLVMTypeRef t = words_type(g, bits);
    LLVMValueRef all = words[0];
    if (bits < 32)
        all = LLVMBuildTrunc(g->b, all, t, "");
    if (bits > 32)
        all = LLVMGetUndef(t);
    for (unsigned i = 0; bits > 32 && i < bits / 32; i++)
        all = LLVMBuildInsertElement(g->b, all, words[i], tc_gen_i32(g, i), "");
    all = LLVMBuildBitCast(g->b, all,
                           n > 1 ? LLVMVectorType(memory, n) : memory, "");
    for (unsigned i = 0; i < n; i++)
        x[i] = tc_gen_from_memory(
            g, elem,
            n > 1 ? LLVMBuildExtractElement(g->b, all, tc_gen_i32(g, i), "")
                  : all);
}

/* ---- Steps ---- */

bool tc_shared_tile_new(tc_gen *g, const tc_op *op, LLVMValueRef buffer,
                        const tc_type *smem, const tc_layout *tile, bool matrix,
                        tc_shared_tile *out)
{
    unsigned bytes = tc_type_bytes(smem->elem);
    tc_shared_tile t = {.g = g, .tile = tile, .bits = bytes * 8};
    const tc_layout *offsets = tc_layout_offsets(g->cx, smem->layout, tile);
    if (!offsets)
        return tc_gen_error(g, op, "%s has no linear addresses for this tile",
                            tc_type_name(g->cx, smem));
    t.matrix = matrix &&
               tc_layout_matrix_access(g->cx, smem->layout, tile, t.bits, &t.m);
    if (!t.matrix)
        t.access = tc_layout_access(offsets, t.bits);
    t.at = tc_shared_at_new(g, buffer, t.matrix ? t.m.address : offsets, bytes);
    t.size = t.matrix ? t.m.count << t.m.nwithin : t.access.vector;
    t.nwords = t.size * t.bits < 32 ? 1 : t.size * t.bits / 32;
    assert(t.size <= TC_STEP_ELEMENTS && t.nwords <= TC_STEP_WORDS);
    t.nsteps = tc_layout_size(tile, TC_REGISTER) / t.size;
    *out = t;
    return true;
}

static int position(unsigned n, const unsigned *modes, unsigned mode)
{
    for (unsigned i = 0; i < n; i++)
        if (modes[i] == mode)
            return (int)i;
    return -1;
}

/* The register of a step's element: the modes that the step covers have their
 * digits from the element, the others theirs from the step. */
static uint32_t step_register(const tc_shared_tile *t, unsigned step,
                              unsigned element)
{
    unsigned modes[4 + 2], n = 0;
    if (t->matrix) {
        for (unsigned i = 0; i < t->m.nwithin; i++)
            modes[n++] = t->m.within[i];
        for (unsigned i = 0; i < t->m.nmatrix; i++)
            modes[n++] = t->m.matrix[i];
    } else {
        for (unsigned i = 0; 1u << i < t->access.vector; i++)
            modes[n++] = t->access.modes[i];
    }
    uint32_t r = 0, weight = 1;
    for (unsigned i = 0; i < t->tile->nmodes[TC_REGISTER]; i++) {
        uint32_t count = t->tile->modes[TC_REGISTER][i].count;
        int bit = position(n, modes, i);
        r += weight * (bit >= 0 ? element >> bit & 1 : step % count);
        if (bit < 0)
            step /= count;
        weight *= count;
    }
    return r;
}

void tc_shared_tile_step(const tc_shared_tile *t, unsigned step,
                         uint32_t registers[TC_STEP_ELEMENTS])
{
    for (unsigned i = 0; i < t->size; i++)
        registers[i] = step_register(t, step, i);
}

static LLVMValueRef step_address(tc_shared_tile *t, unsigned step,
                                 LLVMValueRef *immediate)
{
    /* The registers of a matrix access's addresses are its steps. */
    uint32_t r = t->matrix ? step : step_register(t, step, 0);
    return tc_shared_at_get(&t->at, r, immediate);
}

/* "{$1, $2}" from `first`, one operand without braces. */
static void operands(tc_text *text, unsigned first, unsigned n, bool braces)
{
    tc_text_add(text, braces ? "{" : "");
    for (unsigned i = 0; i < n; i++)
        tc_text_printf(text, "%s$%u", i ? ", " : "", first + i);
    tc_text_add(text, braces ? "}" : "");
}

/* The instruction up to its operands, without "ld" or "st". */
static void mnemonic(tc_text *text, const tc_shared_tile *t, const char *what)
{
    if (t->matrix) {
        tc_text_printf(text, "%smatrix.sync.aligned.m8n8.x%u%s.shared.b16 ",
                       what, t->m.count, t->m.trans ? ".trans" : "");
        return;
    }
    unsigned bits = t->size * t->bits;
    tc_text_printf(text, "%s.shared.", what);
    if (bits > 32)
        tc_text_printf(text, "v%u.", t->nwords);
    tc_text_printf(text, "b%u ", bits < 32 ? bits : 32);
}

/* ldmatrix.trans brings units of 16 bits: of bytes those of two columns, row by
 * row. Here the rows of each column come together, as products take them:
 *
 *   x0 y0 x1 y1  ->  x0 x1 y0 y1 */
static void exchange_bytes(const tc_shared_tile *t, unsigned n,
                           LLVMValueRef *words)
{
    enum { BYTES_0_2_1_3 = 0x3120 };
    if (!t->matrix || !t->m.trans || t->bits != 8)
        return;
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef args[] = {words[i], words[i],
                               tc_gen_i32(t->g, BYTES_0_2_1_3)};
        words[i] = tc_gen_intrinsic(t->g, "nvvm.prmt", 0, NULL, 3, args);
    }
}

void tc_shared_tile_load(tc_shared_tile *t, unsigned step,
                         LLVMValueRef words[TC_STEP_WORDS])
{
    tc_gen *g = t->g;
    unsigned n = t->nwords;
    tc_text text = {.arena = g->arena}, constraints = {.arena = g->arena};
    mnemonic(&text, t, "ld");
    operands(&text, 0, n, n > 1 || t->matrix);
    tc_text_printf(&text, ", [$%u+$%u];", n, n + 1);
    for (unsigned i = 0; i < n; i++)
        tc_text_add(&constraints, "=r,");
    tc_text_add(&constraints, "r,n,~{memory}");
    LLVMValueRef args[2];
    args[0] = step_address(t, step, &args[1]);
    LLVMTypeRef types[TC_STEP_WORDS] = {g->i32, g->i32, g->i32, g->i32};
    LLVMTypeRef result =
        n == 1 ? g->i32 : LLVMStructTypeInContext(g->llvm, types, n, false);
    LLVMValueRef all =
        tc_gen_asm(g, result, text.data, constraints.data, 2, args);
    for (unsigned i = 0; i < n; i++)
        words[i] = n == 1 ? all : LLVMBuildExtractValue(g->b, all, i, "");
    exchange_bytes(t, n, words);
}

static void store_step(tc_shared_tile *t, unsigned step,
                       LLVMValueRef words[TC_STEP_WORDS])
{
    tc_gen *g = t->g;
    unsigned n = t->nwords;
    tc_text text = {.arena = g->arena}, constraints = {.arena = g->arena};
    if (t->on)
        tc_text_printf(&text, "@$%u ", 2 + n);
    mnemonic(&text, t, "st");
    tc_text_add(&text, "[$0+$1], ");
    operands(&text, 2, n, n > 1 || t->matrix);
    tc_text_add(&text, ";");
    tc_text_add(&constraints, "r,n,");
    for (unsigned i = 0; i < n; i++)
        tc_text_add(&constraints, "r,");
    tc_text_add(&constraints, t->on ? "b,~{memory}" : "~{memory}");
    LLVMValueRef args[3 + TC_STEP_WORDS];
    args[0] = step_address(t, step, &args[1]);
    for (unsigned i = 0; i < n; i++)
        args[2 + i] = words[i];
    args[2 + n] = t->on;
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text.data, constraints.data,
               2 + n + (t->on != NULL), args);
}

/* ---- The ops ---- */

bool tc_shared_place(tc_gen *g, const tc_op *op, unsigned bytes, unsigned align)
{
    if (!tc_op_has_attr(op, "offset"))
        return tc_gen_error(g, op, "no offset; allocate-shared gives it one");
    int64_t offset = tc_op_int(op, "offset");
    if (offset % align)
        return tc_gen_error(g, op, "offset %lld, expected a multiple of %u",
                            (long long)offset, align);
    if (offset + bytes > g->f->shared_bytes)
        return tc_gen_error(g, op,
                            "bytes %lld to %lld are outside of the kernel's "
                            "shared(%u)",
                            (long long)offset, (long long)offset + bytes - 1,
                            g->f->shared_bytes);
    tc_gen_set(g, op->out[0])[0] = tc_gen_i32(g, offset);
    return true;
}

bool tc_nvptx_smem_alloc(tc_gen *g, const tc_op *op)
{
    return tc_shared_place(g, op, tc_smem_bytes(op->out[0]->type),
                           TC_SMEM_ALIGN);
}

bool tc_nvptx_smem_index(tc_gen *g, const tc_op *op)
{
    LLVMValueRef i = tc_gen_scalar(g, op->in[1]);
    if (LLVMTypeOf(i) == g->i64)
        i = LLVMBuildTrunc(g->b, i, g->i32, "");
    LLVMValueRef offset = LLVMBuildMul(
        g->b, i, tc_gen_i32(g, tc_smem_slot_bytes(op->in[0]->type)), "");
    tc_gen_set(g, op->out[0])[0] =
        LLVMBuildAdd(g->b, offset, tc_gen_get(g, op->in[0])[0], "");
    return true;
}

/* The layout in the type is the one of the view already. */
bool tc_nvptx_smem_trans(tc_gen *g, const tc_op *op)
{
    tc_gen_set(g, op->out[0])[0] = tc_gen_get(g, op->in[0])[0];
    return true;
}

bool tc_nvptx_smem_slice(tc_gen *g, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    tc_tile_part p = tc_op_part(op, 0);
    uint32_t first;
    (void)tc_layout_run(g->cx, t->layout, &p, &first);
    LLVMValueRef byte = tc_gen_i32(g, first * tc_type_bytes(t->elem));
    tc_gen_set(g, op->out[0])[0] =
        LLVMBuildAdd(g->b, tc_gen_get(g, op->in[0])[0], byte, "");
    return true;
}

/* Does an access bring some of the n registers from `first` on? (Of small parts
 * it may bring more than one.) */
static bool is_of_part(const uint32_t *registers, unsigned size, uint32_t first,
                       uint32_t n)
{
    for (unsigned i = 0; i < size; i++)
        if (registers[i] / n * n == first)
            return true;
    return false;
}

bool tc_nvptx_smem_load(tc_gen *g, const tc_op *op)
{
    const tc_type *tile = op->out[0]->type;
    uint32_t n = tc_layout_size(tile->layout, TC_REGISTER), first;
    const tc_layout *layout = tc_smem_load_layout(g->cx, op, &first);
    tc_shared_tile t;
    if (!tc_shared_tile_new(g, op, tc_gen_get(g, op->in[0])[0], op->in[0]->type,
                            layout, g->target->ldmatrix, &t))
        return false;
    LLVMValueRef *out = tc_gen_set(g, op->out[0]);
    for (unsigned i = 0; i < t.nsteps; i++) {
        LLVMValueRef words[TC_STEP_WORDS], elements[TC_STEP_ELEMENTS];
        uint32_t registers[TC_STEP_ELEMENTS] = {0};
        tc_shared_tile_step(&t, i, registers);
        if (!is_of_part(registers, t.size, first, n))
            continue;
        tc_shared_tile_load(&t, i, words);
        tc_words_unpack(g, tile->elem, t.size, elements, words);
        for (unsigned k = 0; k < t.size; k++)
            if (registers[k] / n * n == first)
                out[registers[k] - first] = elements[k];
    }
    return true;
}

/* i1: this lane takes the registers of the mode in the other order. */
static LLVMValueRef takes_other(tc_gen *g, const tc_layout *l, unsigned lane)
{
    uint32_t weight = 1;
    for (unsigned i = 0; i < lane; i++)
        weight *= l->modes[TC_LANE][i].count;
    LLVMValueRef bit = LLVMBuildAnd(g->b, g->lane, tc_gen_i32(g, weight), "");
    return LLVMBuildICmp(g->b, LLVMIntNE, bit, tc_gen_i32(g, 0), "");
}

/* The register that differs in this mode, of count 2, only. */
static uint32_t other_register(const tc_layout *l, unsigned mode, uint32_t r)
{
    uint32_t weight = 1;
    for (unsigned i = 0; i < mode; i++)
        weight *= l->modes[TC_REGISTER][i].count;
    return r / weight % 2 ? r - weight : r + weight;
}

/* Of equal copies each is stored: they say the same. By mbarriers one goes, the
 * first: it is its thread that arrives. */
bool tc_nvptx_smem_store(tc_gen *g, const tc_op *op)
{
    tc_shared_tile t;
    LLVMValueRef buffer = tc_gen_get(g, op->in[0])[0], other = NULL;
    const tc_layout *tile = op->in[1]->type->layout;
    if (!tc_shared_tile_new(g, op, buffer, op->in[0]->type, tile,
                            g->target->stmatrix, &t))
        return false;
    tc_stagger s = {0};
    if (!t.matrix)
        s = tc_layout_stagger(t.at.offsets, t.bits);
    if (s.offsets) {
        t.at = tc_shared_at_new(g, buffer, s.offsets, t.bits / 8);
        other = takes_other(g, tile, s.lane);
    }
    if (tc_op_int(op, "by_mbarrier") && !t.matrix)
        t.on = tc_coords_owner(g, tile);
    const LLVMValueRef *in = tc_gen_get(g, op->in[1]);
    for (unsigned i = 0; i < t.nsteps; i++) {
        LLVMValueRef words[TC_STEP_WORDS], elements[TC_STEP_ELEMENTS];
        uint32_t registers[TC_STEP_ELEMENTS];
        tc_shared_tile_step(&t, i, registers);
        for (unsigned k = 0; k < t.size; k++) {
            LLVMValueRef own = in[registers[k]];
            elements[k] =
                other ? LLVMBuildSelect(
                            g->b, other,
                            in[other_register(tile, s.reg, registers[k])], own,
                            "")
                      : own;
        }
        tc_words_pack(g, op->in[1]->type->elem, t.size, elements, words);
        exchange_bytes(&t, t.nwords, words);
        store_step(&t, i, words);
    }
    return true;
}
