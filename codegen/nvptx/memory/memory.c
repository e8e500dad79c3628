/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads, stores and gathers in global memory.
 *
 * A block's address is base + sum over the axes of (offset + coordinate) *
 * stride. The offsets' part is the same in all threads, the thread's part is
 * computed once, and a register contributes only a constant: it becomes the
 * access's own offset if the stride is known to be 1, else a product with the
 * stride that all registers of a row share.
 *
 * Elements that may lie outside need no branch: the access itself has the
 * condition, and a load's registers hold the pad before it.
 *
 *   @%p ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+256];
 */
#include "codegen/nvptx/memory/hints.h"

enum { MAX_WORDS = 4 };

/* ---- Accesses ---- */

/* How n elements travel: words of 8, 16, 32 or 64 bits. */
typedef struct words {
    unsigned n, bits;
    LLVMTypeRef type; /* of a register: i16 for bytes */
    char letter;      /* its constraint */
} words;

static words words_of(tc_gen *g, const tc_type *elem, unsigned n)
{
    unsigned each = tc_type_bytes(elem), bytes = n * each;
    if (each == 8)
        return (words){n, 64, g->i64, 'l'};
    if (bytes >= 4)
        return (words){bytes / 4, 32, g->i32, 'r'};
    return (words){1, 8 * bytes, g->i16, 'h'};
}

static LLVMValueRef two_bytes(tc_gen *g, const tc_type *elem,
                              const LLVMValueRef *x)
{
    LLVMValueRef byte[2];
    for (unsigned i = 0; i < 2; i++)
        byte[i] =
            LLVMBuildZExt(g->b, tc_gen_to_memory(g, elem, x[i]), g->i16, "");
    byte[1] = LLVMBuildShl(g->b, byte[1], LLVMConstInt(g->i16, 8, false), "");
    return LLVMBuildOr(g->b, byte[0], byte[1], "");
}

static void to_words(tc_gen *g, const tc_type *elem, unsigned n, words w,
                     const LLVMValueRef *x, LLVMValueRef *out)
{
    if (w.bits == 32) {
        tc_gen_pack(g, elem, n, x, out);
    } else if (w.n == 1 && n == 2) {
        out[0] = two_bytes(g, elem, x);
    } else {
        for (unsigned i = 0; i < n; i++) {
            out[i] = tc_gen_to_memory(g, elem, x[i]);
            out[i] = w.bits == 8 ? LLVMBuildZExt(g->b, out[i], w.type, "")
                                 : LLVMBuildBitCast(g->b, out[i], w.type, "");
        }
    }
}

static void from_words(tc_gen *g, const tc_type *elem, unsigned n, words w,
                       const LLVMValueRef *in, LLVMValueRef *x)
{
    if (w.bits == 32) {
        tc_gen_unpack(g, elem, n, x, in);
        return;
    }
    LLVMTypeRef type = tc_gen_memory_type(g, elem);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef v = in[w.n == 1 ? 0 : i];
        if (tc_type_bytes(elem) == 1) {
            v = LLVMBuildLShr(g->b, v, LLVMConstInt(g->i16, 8 * i, false), "");
            v = LLVMBuildTrunc(g->b, v, g->i8, "");
        } else {
            v = LLVMBuildBitCast(g->b, v, type, "");
        }
        x[i] = tc_gen_from_memory(g, elem, v);
    }
}

/* "{$0,$1}", or "$0" of one. */
static const char *list_of(tc_gen *g, unsigned first, unsigned n)
{
    tc_text t = {.arena = g->arena};
    tc_text_add(&t, n > 1 ? "{" : "");
    for (unsigned i = 0; i < n; i++)
        tc_text_printf(&t, "%s$%u", i ? ", " : "", first + i);
    tc_text_add(&t, n > 1 ? "}" : "");
    return t.data;
}

static const char *vector_suffix(words w)
{
    return w.n == 4 ? ".v4" : w.n == 2 ? ".v2" : "";
}

/* $0..: results; then the address, the condition and what they were before
 * (NULL: always), the policy. */
static void load_words(tc_gen *g, words w, LLVMValueRef p, LLVMValueRef on,
                       const tc_gen_hints *h, LLVMValueRef *x)
{
    tc_text c = {.arena = g->arena}, text = {.arena = g->arena};
    LLVMTypeRef types[MAX_WORDS];
    LLVMValueRef args[3 + MAX_WORDS] = {p};
    unsigned n = 1;
    for (unsigned i = 0; i < w.n; i++) {
        tc_text_printf(&c, "=%c,", w.letter);
        types[i] = w.type;
    }
    tc_text_add(&c, "l");
    if (on) {
        tc_text_printf(&text, "@$%u ", w.n + n);
        tc_text_add(&c, ",b");
        args[n++] = on;
    }
    for (unsigned i = 0; on && i < w.n; i++) {
        tc_text_printf(&c, ",%u", i);
        args[n++] = x[i];
    }
    tc_text_printf(&text, "ld.global%s%s.b%u %s, [$%u]", h->words,
                   vector_suffix(w), w.bits, list_of(g, 0, w.n), w.n);
    if (h->policy) {
        tc_text_printf(&text, ", $%u", w.n + n);
        tc_text_add(&c, ",l");
        args[n++] = h->policy;
    }
    tc_text_add(&text, ";");
    tc_text_add(&c, ",~{memory}");
    LLVMTypeRef result =
        w.n == 1 ? w.type : LLVMStructTypeInContext(g->llvm, types, w.n, false);
    LLVMValueRef all = tc_gen_asm(g, result, text.data, c.data, n, args);
    for (unsigned i = 0; i < w.n; i++)
        x[i] = w.n == 1 ? all : LLVMBuildExtractValue(g->b, all, i, "");
}

/* Without a condition it is LLVM's, which may then move it. */
static void load_always(tc_gen *g, words w, LLVMValueRef p, LLVMValueRef *x)
{
    LLVMTypeRef type = w.bits == 8 ? g->i8 : w.type;
    type = w.n > 1 ? LLVMVectorType(type, w.n) : type;
    LLVMValueRef all = LLVMBuildLoad2(g->b, type, p, "");
    LLVMSetAlignment(all, w.n * w.bits / 8);
    for (unsigned i = 0; i < w.n; i++)
        x[i] = w.n > 1
                   ? LLVMBuildExtractElement(g->b, all, tc_gen_i32(g, i), "")
                   : all;
    if (w.bits == 8)
        x[0] = LLVMBuildZExt(g->b, all, g->i16, "");
}

/* Where `on` (NULL: always) the elements from p on, n * bytes in 1, 2, 4, 8 or
 * 16 bytes of that alignment; x holds what else the load gives, and then the
 * result. */
static void load(tc_gen *g, const tc_op *op, const tc_type *elem, unsigned n,
                 LLVMValueRef p, LLVMValueRef on, LLVMValueRef *x)
{
    words w = words_of(g, elem, n);
    tc_gen_hints h = tc_gen_hints_of(g, op);
    LLVMValueRef bits[MAX_WORDS];
    if (on || *h.words) {
        if (on)
            to_words(g, elem, n, w, x, bits);
        load_words(g, w, p, on, &h, bits);
    } else {
        load_always(g, w, p, bits);
    }
    from_words(g, elem, n, w, bits, x);
}

/* An instruction that writes words: $0 the address, $1 the condition, the
 * words, the policy. */
static void write_words(tc_gen *g, words w, const char *instruction,
                        LLVMValueRef p, LLVMValueRef on, const tc_gen_hints *h,
                        const LLVMValueRef *x)
{
    tc_text c = {.arena = g->arena}, text = {.arena = g->arena};
    LLVMValueRef args[3 + MAX_WORDS] = {p, on};
    unsigned n = 2;
    tc_text_add(&c, "l,b");
    for (unsigned i = 0; i < w.n; i++) {
        tc_text_printf(&c, ",%c", w.letter);
        args[n++] = x[i];
    }
    tc_text_printf(&text, "@$1 %s [$0], %s", instruction, list_of(g, 2, w.n));
    if (h->policy) {
        tc_text_printf(&text, ", $%u", n);
        tc_text_add(&c, ",l");
        args[n++] = h->policy;
    }
    tc_text_add(&text, ";");
    tc_text_add(&c, ",~{memory}");
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text.data, c.data, n, args);
}

static LLVMValueRef always(tc_gen *g)
{
    return LLVMConstInt(g->i1, 1, false);
}

static void store_always(tc_gen *g, words w, LLVMValueRef p,
                         const LLVMValueRef *x)
{
    LLVMValueRef all = x[0];
    if (w.n > 1) {
        all = LLVMGetPoison(LLVMVectorType(w.type, w.n));
        for (unsigned i = 0; i < w.n; i++)
            all = LLVMBuildInsertElement(g->b, all, x[i], tc_gen_i32(g, i), "");
    } else if (w.bits == 8) {
        all = LLVMBuildTrunc(g->b, all, g->i8, "");
    }
    LLVMSetAlignment(LLVMBuildStore(g->b, all, p), w.n * w.bits / 8);
}

static void store(tc_gen *g, const tc_op *op, const tc_type *elem, unsigned n,
                  LLVMValueRef p, LLVMValueRef on, const LLVMValueRef *x)
{
    words w = words_of(g, elem, n);
    tc_gen_hints h = tc_gen_hints_of(g, op);
    LLVMValueRef bits[MAX_WORDS];
    to_words(g, elem, n, w, x, bits);
    if (on || *h.words)
        write_words(g, w,
                    tc_arena_printf(g->arena, "st.global%s%s.b%u", h.words,
                                    vector_suffix(w), w.bits),
                    p, on ? on : always(g), &h, bits);
    else
        store_always(g, w, p, bits);
}

/* ---- Adding ---- */

static void add_words(tc_gen *g, const tc_gen_hints *h, const tc_type *elem,
                      unsigned n, LLVMValueRef p, LLVMValueRef on,
                      const LLVMValueRef *x)
{
    char type = tc_scalar_infos[elem->kind].is_float ? 'f' : 'u';
    words w = words_of(g, elem, 1);
    LLVMValueRef bits[MAX_WORDS];
    for (unsigned i = 0; i < n; i++)
        bits[i] = LLVMBuildBitCast(g->b, x[i], w.type, "");
    w.n = n;
    write_words(g, w,
                tc_arena_printf(g->arena, "red.relaxed.gpu.global.add%s%s.%c%u",
                                h->words, vector_suffix(w), type, w.bits),
                p, on, h, bits);
}

static void add_to_memory(tc_gen *g, const tc_op *op, const tc_type *elem,
                          unsigned n, LLVMValueRef p, LLVMValueRef on,
                          const LLVMValueRef *x)
{
    unsigned each = tc_added_at_once(g->target, elem, n);
    tc_gen_hints h = tc_gen_hints_of(g, op);
    for (unsigned i = 0; i < n; i += each) {
        LLVMValueRef at = i ? tc_gen_address(g, elem, p, tc_gen_i64(g, i)) : p;
        add_words(g, &h, elem, each, at, on ? on : always(g), x + i);
    }
}

/* Emits a `store` of n elements. */
static void memory_put(tc_gen *g, const tc_op *op, const tc_type *elem,
                       unsigned n, LLVMValueRef p, LLVMValueRef on,
                       const LLVMValueRef *x)
{
    if (tc_op_is_word(op, "kind", "add"))
        add_to_memory(g, op, elem, n, p, on, x);
    else
        store(g, op, elem, n, p, on, x);
}

/* ---- Blocks ---- */

/* A block that is read or written in a layout. */
typedef struct window {
    tc_gen *g;
    const tc_op *op;
    const tc_type *elem;
    const tc_layout *layout;
    tc_gen_block w;
    tc_coords lanes[TC_MAX_RANK];
    bool bounded[TC_MAX_RANK];
    LLVMValueRef here;   /* base and offsets */
    LLVMValueRef thread; /* and the thread's part */
    unsigned vector;     /* registers that one access moves */
    LLVMValueRef *mask;  /* of the op; NULL: none */
} window;

static LLVMValueRef scaled(const window *w, LLVMValueRef x, unsigned axis)
{
    x = LLVMBuildSExt(w->g->b, x, w->g->i64, "");
    return LLVMBuildMul(w->g->b, x, w->w.stride[axis], "");
}

static window window_of(tc_gen *g, const tc_op *op, const tc_layout *l)
{
    window w = {.g = g,
                .op = op,
                .elem = op->in[0]->type->elem,
                .layout = l,
                .w = tc_gen_block_of(g, op->in[0]),
                .vector = tc_gen_vector(g, op, l)};
    w.here = w.w.base;
    for (unsigned i = 0; i < l->rank; i++) {
        w.lanes[i] = tc_coords_get(g, l, i);
        w.here =
            tc_gen_address(g, w.elem, w.here, scaled(&w, w.w.offset[i], i));
    }
    w.thread = w.here;
    for (unsigned i = 0; i < l->rank; i++)
        w.thread = tc_gen_address(g, w.elem, w.thread,
                                  scaled(&w, w.lanes[i].thread, i));
    const tc_attr *boundary = tc_op_attr(op, "boundary");
    for (unsigned i = 0; i < boundary->n; i++)
        w.bounded[boundary->ints[i]] = true;
    return w;
}

/* Address of register r: constants are added where they can be. */
static LLVMValueRef address_at(const window *w, uint32_t r)
{
    tc_gen *g = w->g;
    uint32_t c[TC_MAX_RANK];
    bool add, all = true;
    for (unsigned i = 0; i < w->layout->rank; i++) {
        c[i] = tc_coords_constant(&w->lanes[i], r, &add);
        all &= add;
    }
    LLVMValueRef p = all ? w->thread : w->here;
    for (unsigned i = 0; i < w->layout->rank; i++) {
        LLVMValueRef at =
            all ? tc_gen_i32(g, c[i]) : tc_coords_at(g, &w->lanes[i], r);
        /* The known stride last: it is the access's own offset. */
        if ((int)i != w->w.unit)
            p = tc_gen_address(g, w->elem, p, scaled(w, at, i));
    }
    if (w->w.unit < 0)
        return p;
    unsigned unit = (unsigned)w->w.unit;
    LLVMValueRef at =
        all ? tc_gen_i32(g, c[unit]) : tc_coords_at(g, &w->lanes[unit], r);
    return tc_gen_address(g, w->elem, p, scaled(w, at, unit));
}

/* Is the access that begins with register r in the tensor, and does the mask
 * let it? NULL: always. (Along the axis of vectors they are wholly inside or
 * outside: sizes and offsets are multiples.) */
static LLVMValueRef condition_at(const window *w, uint32_t r)
{
    tc_gen *g = w->g;
    LLVMValueRef all = w->mask ? w->mask[r] : NULL;
    for (unsigned i = 0; i < w->layout->rank; i++) {
        if (!w->bounded[i])
            continue;
        LLVMValueRef at = tc_coords_at(g, &w->lanes[i], r);
        at = LLVMBuildAdd(g->b, w->w.offset[i], at, "");
        LLVMValueRef in = LLVMBuildICmp(g->b, LLVMIntULT, at, w->w.size[i], "");
        all = all ? LLVMBuildAnd(g->b, all, in, "") : in;
    }
    return all;
}

static LLVMValueRef pad_of(tc_gen *g, const tc_op *op, const tc_type *elem)
{
    tc_number pad = {0};
    if (tc_op_has_attr(op, "pad"))
        pad = tc_op_attr(op, "pad")->number;
    return tc_gen_literal(g, elem, pad);
}

static bool load_block(tc_gen *g, const tc_op *op)
{
    window w = window_of(g, op, op->out[0]->type->layout);
    w.mask = op->nin > 1 ? tc_gen_get(g, op->in[1]) : NULL;
    LLVMValueRef *other = op->nin > 2 ? tc_gen_get(g, op->in[2]) : NULL;
    LLVMValueRef pad = pad_of(g, op, w.elem);
    LLVMValueRef *x = tc_gen_set(g, op->out[0]);
    unsigned n = tc_gen_registers(op->out[0]->type);
    for (unsigned r = 0; r < n; r += w.vector) {
        for (unsigned i = 0; i < w.vector; i++)
            x[r + i] = pad;
        load(g, op, w.elem, w.vector, address_at(&w, r), condition_at(&w, r),
             x + r);
    }
    for (unsigned r = 0; other && r < n; r++)
        x[r] = LLVMBuildSelect(g->b, w.mask[r], x[r], other[r], "");
    return !g->failed;
}

static LLVMValueRef both(tc_gen *g, LLVMValueRef a, LLVMValueRef b)
{
    return a && b ? LLVMBuildAnd(g->b, a, b, "") : a ? a : b;
}

static bool store_block(tc_gen *g, const tc_op *op)
{
    window w = window_of(g, op, op->in[1]->type->layout);
    w.mask = op->nin > 2 ? tc_gen_get(g, op->in[2]) : NULL;
    LLVMValueRef *x = tc_gen_get(g, op->in[1]);
    LLVMValueRef owner = tc_coords_owner(g, w.layout);
    for (unsigned r = 0; r < tc_gen_registers(op->in[1]->type); r += w.vector)
        memory_put(g, op, w.elem, w.vector, address_at(&w, r),
                   both(g, owner, condition_at(&w, r)), x + r);
    return !g->failed;
}

/* ---- Pointers ---- */

static LLVMValueRef *optional(tc_gen *g, const tc_op *op, unsigned i)
{
    return i < op->nin ? tc_gen_get(g, op->in[i]) : NULL;
}

static unsigned vector_of(tc_gen *g, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    return t->kind == TC_TILE ? tc_gen_vector(g, op, t->layout) : 1;
}

static bool load_pointers(tc_gen *g, const tc_op *op)
{
    const tc_type *elem = tc_type_elem(op->out[0]->type);
    LLVMValueRef *p = tc_gen_get(g, op->in[0]), *mask = optional(g, op, 1),
                 *other = optional(g, op, 2);
    LLVMValueRef *x = tc_gen_set(g, op->out[0]);
    LLVMValueRef pad = pad_of(g, op, elem);
    unsigned n = tc_gen_registers(op->out[0]->type), v = vector_of(g, op);
    for (unsigned r = 0; r < n; r += v) {
        for (unsigned i = 0; i < v; i++)
            x[r + i] = other ? other[r + i] : pad;
        load(g, op, elem, v, p[r], mask ? mask[r] : NULL, &x[r]);
    }
    return !g->failed;
}

/* A scalar is the same in all threads: the first stores it. */
static bool store_pointers(tc_gen *g, const tc_op *op)
{
    const tc_type *t = op->in[0]->type, *elem = tc_type_elem(op->in[1]->type);
    LLVMValueRef *p = tc_gen_get(g, op->in[0]), *x = tc_gen_get(g, op->in[1]),
                 *mask = optional(g, op, 2);
    LLVMValueRef owner = t->kind == TC_TILE ? tc_coords_owner(g, t->layout)
                                            : tc_gen_first_thread(g);
    unsigned v = vector_of(g, op);
    for (unsigned r = 0; r < tc_gen_registers(t); r += v)
        memory_put(g, op, elem, v, p[r], both(g, owner, mask ? mask[r] : NULL),
                   &x[r]);
    return !g->failed;
}

bool tc_nvptx_load(tc_gen *g, const tc_op *op)
{
    return op->in[0]->type->kind == TC_BLOCK_PTR ? load_block(g, op)
                                                 : load_pointers(g, op);
}

bool tc_nvptx_store(tc_gen *g, const tc_op *op)
{
    return op->in[0]->type->kind == TC_BLOCK_PTR ? store_block(g, op)
                                                 : store_pointers(g, op);
}

/* ---- gather ---- */

/* The address at the indices that register r has; *inside: whether they lie in
 * the tensor. (Neighbours that one access moves are wholly inside or outside,
 * as in a block.) */
static LLVMValueRef gathered_at(tc_gen *g, const tc_op *op, unsigned r,
                                LLVMValueRef *inside)
{
    const tc_type *t = op->in[0]->type;
    LLVMValueRef *parts = tc_gen_get(g, op->in[0]), p = parts[0];
    *inside = NULL;
    for (unsigned i = 0; i < t->rank; i++) {
        LLVMValueRef index = tc_gen_get(g, op->in[1 + i])[r];
        LLVMTypeRef type = LLVMTypeOf(index);
        LLVMValueRef size = LLVMBuildZExt(g->b, parts[1 + i], type, "");
        LLVMValueRef at = LLVMBuildSExt(g->b, index, g->i64, "");
        /* Unsigned: negative ones are beyond the end. */
        *inside =
            both(g, *inside, LLVMBuildICmp(g->b, LLVMIntULT, index, size, ""));
        at = LLVMBuildMul(g->b, at, parts[1 + t->rank + i], "");
        p = tc_gen_address(g, t->elem, p, at);
    }
    return p;
}

bool tc_nvptx_gather(tc_gen *g, const tc_op *op)
{
    const tc_type *elem = op->in[0]->type->elem, *to = op->out[0]->type;
    LLVMValueRef *x = tc_gen_set(g, op->out[0]);
    LLVMValueRef pad = pad_of(g, op, elem);
    unsigned v = to->kind == TC_TILE ? tc_gen_vector(g, op, to->layout) : 1;
    for (unsigned r = 0; r < tc_gen_registers(to); r += v) {
        LLVMValueRef inside, p = gathered_at(g, op, r, &inside);
        for (unsigned i = 0; i < v; i++)
            x[r + i] = pad;
        load(g, op, elem, v, p, inside, &x[r]);
    }
    return !g->failed;
}
