/* SPDX-License-Identifier: Apache-2.0
 *
 * print: the first thread calls the driver's printf. A tile lies in a buffer in
 * shared memory (lower-conversions); it goes out in lines like those of the
 * CPU, in several calls:
 *
 *   program (1, 0, 0): scores 3        a call
 *     [0, :] 0.5 1 1.5 ..              one for the start of each row, one for
 *     [1, :] ..                        every 8 elements, one for its end
 *
 * Calls of one thread come out in their order. A word in global memory, which
 * the thread holds from the first to the last of them, keeps those of other
 * programs out; in kernels that print scalars only a print is one call, and
 * needs none.
 */
#include "codegen/nvptx/memory/shared.h"

#include <string.h>

enum { DRIVERS_MOST = 32, IDS = 3, AT_ONCE = 8 };

/* ---- The driver's printf ---- */

/* `%` of a user's message is no format. */
static void add_escaped(tc_text *t, const char *s)
{
    for (; *s; s++)
        tc_text_add(t, *s == '%' ? "%%" : (char[]){*s, 0});
}

/* The digits that the CPU prints. */
static const char *format_of_type(const tc_type *t)
{
    switch (t->kind) {
    case TC_PTR: return " %#llx";
    case TC_F64: return " %.15g";
    case TC_F32: return " %.7g";
    default: return tc_scalar_infos[t->kind].is_float ? " %.5g" : " %lld";
    }
}

/* As printf's arguments are laid out: 8 bytes each. NaN has no sign. */
static LLVMValueRef word_of(tc_gen *g, const tc_type *t, LLVMValueRef x)
{
    x = tc_gen_widen(g, t, x);
    if (t->kind == TC_PTR)
        return LLVMBuildPtrToInt(g->b, x, g->i64, "");
    if (t->kind == TC_I1)
        return LLVMBuildZExt(g->b, x, g->i64, "");
    if (!tc_scalar_infos[t->kind].is_float)
        return LLVMBuildSExt(g->b, x, g->i64, "");
    x = LLVMBuildFPExt(g->b, x, g->f64, "");
    LLVMValueRef nan = LLVMBuildFCmp(g->b, LLVMRealUNO, x, x, "");
    LLVMValueRef one = LLVMConstBitCast(
        LLVMConstInt(g->i64, 0x7ff8000000000000, false), g->f64);
    return LLVMBuildSelect(g->b, nan, one, x, "");
}

static LLVMValueRef generic(tc_gen *g, LLVMValueRef p)
{
    return LLVMBuildAddrSpaceCast(g->b, p, LLVMPointerTypeInContext(g->llvm, 0),
                                  "");
}

static LLVMValueRef string_of(tc_gen *g, const char *s)
{
    LLVMValueRef text = LLVMConstStringInContext2(g->llvm, s, strlen(s), false);
    LLVMValueRef global =
        LLVMAddGlobalInAddressSpace(g->module, LLVMTypeOf(text), "format", 1);
    LLVMSetInitializer(global, text);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    return generic(g, global);
}

static void call_printf(tc_gen *g, const char *format, unsigned n,
                        const LLVMValueRef *words)
{
    LLVMTypeRef p = LLVMPointerTypeInContext(g->llvm, 0);
    LLVMValueRef args = tc_gen_alloca(g, LLVMArrayType2(g->i64, n ? n : 1));
    LLVMSetAlignment(args, 8);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef at = tc_gen_i32(g, i);
        LLVMBuildStore(g->b, words[i],
                       LLVMBuildGEP2(g->b, g->i64, args, &at, 1, ""));
    }
    LLVMTypeRef types[] = {p, p};
    LLVMTypeRef type = LLVMFunctionType(g->i32, types, 2, false);
    LLVMValueRef fn = LLVMGetNamedFunction(g->module, "vprintf");
    if (!fn)
        fn = LLVMAddFunction(g->module, "vprintf", type);
    LLVMValueRef both[] = {string_of(g, format), args};
    LLVMBuildCall2(g->b, type, fn, both, 2, "");
}

/* ---- The first line ---- */

static bool is_tile(const tc_value *v)
{
    return v->type->kind == TC_SMEM;
}

static void print_line(tc_gen *g, const tc_op *op)
{
    tc_text t = {.arena = g->arena};
    LLVMValueRef words[DRIVERS_MOST];
    const char *message = tc_op_word(op, "message");
    unsigned n = 0;
    for (; n < IDS; n++)
        words[n] =
            LLVMBuildZExt(g->b, tc_gen_reported_id(g, op, n), g->i64, "");
    tc_text_add(&t, "program (%lld, %lld, %lld): ");
    add_escaped(&t, message ? message : "");
    for (unsigned i = 0; i < tc_op_nreported(op); i++) {
        const tc_value *v = op->in[i];
        if (is_tile(v))
            continue;
        tc_text_add(&t, format_of_type(v->type));
        words[n++] = word_of(g, v->type, tc_gen_scalar(g, v));
    }
    tc_text_add(&t, "\n");
    call_printf(g, t.data, n, words);
}

/* ---- Tiles ---- */

/* A loop of n steps around what comes next: i32, its step. */
typedef struct loop {
    LLVMBasicBlockRef body;
    LLVMValueRef i;
} loop;

static loop loop_begin(tc_gen *g)
{
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    loop l = {.body = tc_gen_block_new(g, "print.loop")};
    LLVMValueRef zero = tc_gen_i32(g, 0);
    tc_gen_enter(g, l.body);
    l.i = LLVMBuildPhi(g->b, g->i32, "");
    LLVMAddIncoming(l.i, &zero, &before, 1);
    return l;
}

static void loop_end(tc_gen *g, const loop *l, unsigned n)
{
    LLVMBasicBlockRef last = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef after = tc_gen_block_new(g, "print.next");
    LLVMValueRef next = LLVMBuildAdd(g->b, l->i, tc_gen_i32(g, 1), "");
    LLVMValueRef more =
        LLVMBuildICmp(g->b, LLVMIntULT, next, tc_gen_i32(g, n), "");
    LLVMAddIncoming(l->i, &next, &last, 1);
    tc_gen_forbid_unrolling(g, LLVMBuildCondBr(g->b, more, l->body, after));
    LLVMPositionBuilderAtEnd(g->b, after);
}

/* `  [2, 0, :]`: where the row is along all axes but the last. */
static void print_row_begin(tc_gen *g, const tc_type *t, LLVMValueRef row)
{
    LLVMValueRef words[TC_MAX_RANK];
    tc_text text = {.arena = g->arena};
    unsigned n = t->rank - 1;
    tc_text_add(&text, "  [");
    for (unsigned i = n; i-- > 0;) {
        LLVMValueRef side = tc_gen_i32(g, tc_dim_value(t->dims[i]));
        LLVMValueRef at = LLVMBuildURem(g->b, row, side, "");
        words[i] = LLVMBuildZExt(g->b, at, g->i64, "");
        row = LLVMBuildUDiv(g->b, row, side, "");
        tc_text_add(&text, "%lld, ");
    }
    tc_text_add(&text, ":]");
    call_printf(g, text.data, n, words);
}

/* Elements from number `first` (i32) on. */
static void print_elements(tc_gen *g, const tc_value *v, LLVMValueRef first,
                           unsigned n)
{
    const tc_type *elem = v->type->elem;
    unsigned bytes = tc_type_bytes(elem);
    LLVMValueRef words[AT_ONCE], immediate;
    LLVMValueRef at = tc_shared_address(g, tc_gen_get(g, v)[0], &immediate);
    tc_text text = {.arena = g->arena};
    LLVMValueRef bytes_to = LLVMBuildMul(g->b, first, tc_gen_i32(g, bytes), "");
    at = LLVMBuildAdd(g->b, at, bytes_to, "");
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef x = tc_shared_element(
            g, elem, LLVMBuildAdd(g->b, at, tc_gen_i32(g, i * bytes), ""),
            immediate);
        words[i] = word_of(g, elem, x);
        tc_text_add(&text, format_of_type(elem));
    }
    call_printf(g, text.data, n, words);
}

static void print_tile(tc_gen *g, const tc_value *v)
{
    const tc_type *t = v->type;
    unsigned columns = (unsigned)tc_dim_value(t->dims[t->rank - 1]);
    unsigned rows = (unsigned)tc_type_count(t) / columns;
    unsigned some = columns < AT_ONCE ? columns : AT_ONCE;
    loop row = loop_begin(g);
    print_row_begin(g, t, row.i);
    loop part = loop_begin(g);
    LLVMValueRef first =
        LLVMBuildMul(g->b, row.i, tc_gen_i32(g, columns / some), "");
    first = LLVMBuildAdd(g->b, first, part.i, "");
    first = LLVMBuildMul(g->b, first, tc_gen_i32(g, some), "");
    print_elements(g, v, first, some);
    loop_end(g, &part, columns / some);
    call_printf(g, "\n", 0, NULL);
    loop_end(g, &row, rows);
}

/* ---- One program at a time ---- */

static const char take_text[] =
    "{ .reg .pred print_taken; .reg .b32 print_old;\n"
    "print_again: atom.acquire.gpu.global.cas.b32 print_old, [$0], 0, 1;\n"
    "setp.ne.s32 print_taken, print_old, 0;\n"
    "@print_taken bra print_again; }";
static const char give_text[] = "st.release.gpu.global.b32 [$0], 0;";

static bool prints_tiles(const tc_func *f)
{
    tc_each_nested (op, f->body)
        for (unsigned i = 0; op->code == TC_PRINT && i < op->nin; i++)
            if (is_tile(op->in[i]))
                return true;
    return false;
}

static void call_lock(tc_gen *g, const char *text)
{
    LLVMValueRef word = LLVMGetNamedGlobal(g->module, "print_lock");
    if (!word) {
        word = LLVMAddGlobalInAddressSpace(g->module, g->i32, "print_lock", 1);
        LLVMSetInitializer(word, tc_gen_i32(g, 0));
        LLVMSetLinkage(word, LLVMInternalLinkage);
        LLVMSetAlignment(word, 4);
    }
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, "l,~{memory}", 1,
               &word);
}

bool tc_nvptx_print(tc_gen *g, const tc_op *op)
{
    unsigned nscalars = 0;
    for (unsigned i = 0; i < tc_op_nreported(op); i++) {
        nscalars += !is_tile(op->in[i]);
        if (op->in[i]->type->kind == TC_TILE)
            return tc_gen_error(g, op,
                                "%s is a tile in registers, expected one in "
                                "shared memory: lower-conversions stores it",
                                tc_value_name(g->cx, op->in[i]));
    }
    if (nscalars > DRIVERS_MOST - IDS)
        return tc_gen_error(g, op, "%u values, GPUs print %d at once", nscalars,
                            DRIVERS_MOST - IDS);
    LLVMBasicBlockRef inside = tc_gen_block_new(g, "print");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "printed");
    bool locks = prints_tiles(op->func);
    LLVMBuildCondBr(g->b, tc_gen_first_thread(g), inside, after);
    LLVMPositionBuilderAtEnd(g->b, inside);
    if (locks)
        call_lock(g, take_text);
    print_line(g, op);
    for (unsigned i = 0; i < tc_op_nreported(op); i++)
        if (is_tile(op->in[i]))
            print_tile(g, op->in[i]);
    if (locks)
        call_lock(g, give_text);
    tc_gen_enter(g, after);
    return !g->failed;
}
