/* SPDX-License-Identifier: Apache-2.0
 *
 * Atomics in global memory, one element at a time.
 *
 *   @%p atom.relaxed.gpu.global.add.f32 %old, [%address], %x;
 *
 * Atomics without an instruction (bf16 before sm_90, max of floats, ...) read,
 * combine and compare-and-swap until no other thread interfered. One thread
 * does it if several hold an element; if the old value is used, it tells the
 * others through shared memory.
 *
 * An atomic that releases must come after all writes of the program's other
 * threads, one that acquires before all their reads: barriers.
 */
#include "codegen/nvptx/emit.h"

#include <string.h>

static const char *order_of(const tc_op *op)
{
    return tc_op_word(op, "order");
}

static const char *scope_of(const tc_op *op)
{
    return tc_op_is_word(op, "scope", "block")    ? "cta"
           : tc_op_is_word(op, "scope", "system") ? "sys"
                                                  : "gpu";
}

static bool releases(const tc_op *op)
{
    return !tc_op_is_word(op, "order", "relaxed") &&
           !tc_op_is_word(op, "order", "acquire");
}

static bool acquires(const tc_op *op)
{
    return !tc_op_is_word(op, "order", "relaxed") &&
           !tc_op_is_word(op, "order", "release");
}

/* ---- Bits ---- */

static LLVMTypeRef bits_type(tc_gen *g, const tc_type *elem)
{
    return LLVMIntTypeInContext(g->llvm, 8 * tc_type_bytes(elem));
}

static char letter_of(const tc_type *elem)
{
    unsigned bytes = tc_type_bytes(elem);
    return bytes == 8 ? 'l' : bytes == 4 ? 'r' : 'h';
}

static LLVMValueRef to_bits(tc_gen *g, const tc_type *elem, LLVMValueRef x)
{
    return LLVMBuildBitCast(g->b, x, bits_type(g, elem), "");
}

static LLVMValueRef from_bits(tc_gen *g, const tc_type *elem, LLVMValueRef x)
{
    return LLVMBuildBitCast(g->b, x, tc_gen_type(g, elem), "");
}

/* ---- Instructions ---- */

/* The instruction's operation and type ("add.f32"); NULL: there is none. */
static const char *instruction_of(tc_gen *g, const char *kind,
                                  const tc_type *elem)
{
    unsigned bits = tc_scalar_infos[elem->kind].bits;
    bool real = tc_scalar_infos[elem->kind].is_float;
    if (strcmp(kind, "exchange") == 0)
        return bits < 32 ? NULL : tc_arena_printf(g->arena, "exch.b%u", bits);
    if (strcmp(kind, "add") == 0) {
        if (elem->kind == TC_BF16)
            return g->target->major >= 9 ? "add.noftz.bf16" : NULL;
        if (elem->kind == TC_F16)
            return "add.noftz.f16";
        return tc_arena_printf(g->arena, "add.%c%u", real ? 'f' : 'u', bits);
    }
    if (real)
        return NULL;
    bool order = strcmp(kind, "max") == 0 || strcmp(kind, "min") == 0;
    return tc_arena_printf(g->arena, "%s.%c%u", kind, order ? 's' : 'b', bits);
}

/* Done if `on`; else the result is 0. Gives the bits of the old value. */
static LLVMValueRef emit_instruction(tc_gen *g, const tc_op *op,
                                     const tc_type *elem, const char *name,
                                     LLVMValueRef p, LLVMValueRef x,
                                     LLVMValueRef on)
{
    char c = letter_of(elem);
    LLVMValueRef args[] = {p, x, on, LLVMConstNull(bits_type(g, elem))};
    const char *text =
        tc_arena_printf(g->arena, "@$3 atom.%s.%s.global.%s $0, [$1], $2;",
                        order_of(op), scope_of(op), name);
    const char *constraints =
        tc_arena_printf(g->arena, "=%c,l,%c,b,0,~{memory}", c, c);
    return tc_gen_asm(g, bits_type(g, elem), text, constraints, 4, args);
}

/* Without a use of the old value; red neither acquires nor returns. */
static void emit_reduction(tc_gen *g, const tc_op *op, const tc_type *elem,
                           const char *name, LLVMValueRef p, LLVMValueRef x,
                           LLVMValueRef on)
{
    LLVMValueRef args[] = {p, x, on};
    const char *text =
        tc_arena_printf(g->arena, "@$2 red.%s.%s.global.%s [$0], $1;",
                        order_of(op), scope_of(op), name);
    const char *constraints =
        tc_arena_printf(g->arena, "l,%c,b,~{memory}", letter_of(elem));
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, constraints, 3, args);
}

static LLVMValueRef exchange(tc_gen *g, const tc_op *op, const tc_type *elem,
                             LLVMValueRef p, LLVMValueRef expected,
                             LLVMValueRef next)
{
    char c = letter_of(elem);
    LLVMValueRef args[] = {p, expected, next};
    const char *text =
        tc_arena_printf(g->arena, "atom.%s.%s.global.cas.b%u $0, [$1], $2, $3;",
                        order_of(op), scope_of(op), 8 * tc_type_bytes(elem));
    const char *constraints =
        tc_arena_printf(g->arena, "=%c,l,%c,%c,~{memory}", c, c, c);
    return tc_gen_asm(g, bits_type(g, elem), text, constraints, 3, args);
}

static LLVMValueRef first_look(tc_gen *g, const tc_op *op, const tc_type *elem,
                               LLVMValueRef p)
{
    const char *text =
        tc_arena_printf(g->arena, "ld.relaxed.%s.global.b%u $0, [$1];",
                        scope_of(op), 8 * tc_type_bytes(elem));
    const char *constraints =
        tc_arena_printf(g->arena, "=%c,l,~{memory}", letter_of(elem));
    return tc_gen_asm(g, bits_type(g, elem), text, constraints, 1, &p);
}

static LLVMValueRef next_value(tc_gen *g, const char *kind, const tc_type *elem,
                               LLVMValueRef seen, LLVMValueRef x)
{
    if (strcmp(kind, "exchange") == 0)
        return x;
    LLVMValueRef a = tc_gen_widen(g, elem, from_bits(g, elem, seen));
    LLVMValueRef b = tc_gen_widen(g, elem, from_bits(g, elem, x));
    a = tc_gen_combine(g, kind, elem, a, b);
    return to_bits(g, elem, tc_gen_narrow(g, elem, a));
}

static LLVMValueRef combine_loop(tc_gen *g, const tc_op *op,
                                 const tc_type *elem, const char *kind,
                                 LLVMValueRef p, LLVMValueRef x)
{
    LLVMValueRef first = first_look(g, op, elem, p);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef again = tc_gen_block_new(g, "again");
    LLVMBasicBlockRef done = tc_gen_block_new(g, "exchanged");
    tc_gen_enter(g, again);
    LLVMValueRef seen = LLVMBuildPhi(g->b, LLVMTypeOf(first), "");
    LLVMAddIncoming(seen, &first, &before, 1);
    LLVMValueRef next = next_value(g, kind, elem, seen, x);
    LLVMValueRef found = exchange(g, op, elem, p, seen, next);
    LLVMValueRef held = LLVMBuildICmp(g->b, LLVMIntEQ, found, seen, "");
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->b);
    LLVMAddIncoming(seen, &found, &end, 1);
    LLVMBuildCondBr(g->b, held, done, again);
    LLVMPositionBuilderAtEnd(g->b, done);
    return seen;
}

/* ---- One element ---- */

typedef struct element {
    const tc_type *elem;
    LLVMValueRef p, x, y, on; /* bits; y: new value of a compare-and-swap */
} element;

static LLVMValueRef by_branch(tc_gen *g, const tc_op *op, const element *e)
{
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef inside = tc_gen_block_new(g, "atomic");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "atomic.end");
    LLVMBuildCondBr(g->b, e->on, inside, after);
    LLVMPositionBuilderAtEnd(g->b, inside);
    LLVMValueRef old =
        e->y ? exchange(g, op, e->elem, e->p, e->x, e->y)
             : combine_loop(g, op, e->elem, tc_op_word(op, "kind"), e->p, e->x);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->b);
    tc_gen_enter(g, after);
    LLVMValueRef r = LLVMBuildPhi(g->b, LLVMTypeOf(old), "");
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(old));
    LLVMAddIncoming(r, &zero, &before, 1);
    LLVMAddIncoming(r, &old, &end, 1);
    return r;
}

/* The bits of the old value; 0 where it is not `on`. */
static LLVMValueRef emit_element(tc_gen *g, const tc_op *op, const element *e)
{
    const char *name =
        e->y ? NULL : instruction_of(g, tc_op_word(op, "kind"), e->elem);
    if (!name)
        return by_branch(g, op, e);
    bool unused = !op->out[0]->uses;
    bool exchanges = strncmp(name, "exch", 4) == 0;
    if (!unused || acquires(op) || exchanges)
        return emit_instruction(g, op, e->elem, name, e->p, e->x, e->on);
    emit_reduction(g, op, e->elem, name, e->p, e->x, e->on);
    return LLVMConstNull(bits_type(g, e->elem));
}

/* ---- Telling the others ---- */

/* TC_MESSAGE_BYTES a thread, after what the kernel has in shared memory:
 * allocate-shared keeps room for them. */
static LLVMValueRef slot_of(tc_gen *g, LLVMValueRef thread)
{
    if (!g->exchange) {
        unsigned at = (g->shared_bytes + 15) / 16 * 16;
        g->exchange = at + 1;
        g->shared_bytes =
            at + TC_MESSAGE_BYTES * (uint32_t)tc_threads(g->f->warps);
    }
    LLVMValueRef at =
        LLVMBuildMul(g->b, thread, tc_gen_i32(g, TC_MESSAGE_BYTES), "");
    at = LLVMBuildAdd(g->b, at, tc_gen_i32(g, g->exchange - 1), "");
    return LLVMBuildGEP2(g->b, g->i8, g->shared, &at, 1, "");
}

LLVMValueRef tc_gen_share(tc_gen *g, LLVMValueRef from, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef own = LLVMBuildShl(g->b, g->warp, tc_gen_i32(g, 5), "");
    own = LLVMBuildAdd(g->b, own, g->lane, "");
    LLVMSetAlignment(LLVMBuildStore(g->b, x, slot_of(g, own)), 8);
    tc_gen_barrier(g);
    x = LLVMBuildLoad2(g->b, type, slot_of(g, from), "");
    LLVMSetAlignment(x, 8);
    /* Waits before the slots are written again. */
    tc_gen_barrier(g);
    return x;
}

/* ---- The op ---- */

static LLVMValueRef condition(tc_gen *g, const tc_op *op, LLVMValueRef owner,
                              unsigned r)
{
    LLVMValueRef on = owner ? owner : LLVMConstInt(g->i1, 1, false);
    if (op->code == TC_ATOMIC && op->nin > 2)
        on = LLVMBuildAnd(g->b, on, tc_gen_get(g, op->in[2])[r], "");
    return on;
}

bool tc_nvptx_atomic(tc_gen *g, const tc_op *op)
{
    const tc_type *t = op->in[0]->type, *elem = tc_type_elem(op->in[1]->type);
    bool is_tile = t->kind == TC_TILE, cas = op->code == TC_ATOMIC_CAS;
    LLVMValueRef *p = tc_gen_get(g, op->in[0]), *x = tc_gen_get(g, op->in[1]),
                 *y = cas ? tc_gen_get(g, op->in[2]) : NULL;
    LLVMValueRef *out = tc_gen_set(g, op->out[0]);
    LLVMValueRef owner = is_tile ? tc_coords_owner(g, t->layout)
                         : g->role == TC_ROLE_PRODUCER ? NULL
                                                       : tc_gen_first_thread(g);
    LLVMValueRef from = !owner    ? NULL
                        : is_tile ? tc_coords_owning_thread(g, t->layout)
                                  : tc_gen_i32(g, 0);
    tc_held held = {0};
    if (is_tile)
        held = tc_held_new(g, t->layout);
    if (releases(op))
        tc_gen_barrier(g);
    for (unsigned r = 0; r < tc_gen_registers(t); r++) {
        int32_t coord[TC_MAX_RANK];
        if (is_tile) {
            tc_coords_first(t->layout, r, coord);
            int64_t first = tc_held_find(&held, coord);
            out[r] = out[first];
            if (first != r)
                continue;
        }
        element e = {elem, p[r], to_bits(g, elem, x[r]),
                     y ? to_bits(g, elem, y[r]) : NULL,
                     condition(g, op, owner, r)};
        LLVMValueRef old = emit_element(g, op, &e);
        if (op->out[0]->uses && from)
            old = tc_gen_share(g, from, old);
        out[r] = from_bits(g, elem, old);
    }
    if (acquires(op))
        tc_gen_barrier(g);
    return true;
}
