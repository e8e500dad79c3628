/* SPDX-License-Identifier: Apache-2.0
 *
 * lower-storage: replaces storage types (u8 u16 u32 f8e8m0 i4 u4 f4e2m1) by the
 * ints that hold their codes. No later pass and no target knows them.
 *
 *   kernel @k(%x: tensor<[?] x u8>) ..
 *     %v = load %x[0 +: 64] : tile<64 x u8>
 *     %f = cast %v : tile<64 x f32>
 *   ->
 *   kernel @k(%x: tensor<[?] x i8, holds(u8)>) ..
 *     %v = load %x[0 +: 64] : tile<64 x i8>
 *     %0 = cast %v : tile<64 x i32>
 *     %f = cast (and %0, 255) : tile<64 x f32>
 *
 * First all values get their new types: ops that only move elements are done by
 * that. Then those that look at elements are rewritten, by the types that the
 * values had: casts (codes.c), accesses of tensors with two elements a byte
 * (packed.c), products of u8. An op comes after those that use its results: it
 * still has the operands of which the types are known.
 *
 * Tests: test/ir/passes/lower-storage, test/numerics/storage.c.
 */
#include "ir/eval/stored.h"
#include "passes/analysis/match.h"
#include "passes/storage/codes.h"
#include "passes/storage/packed.h"

typedef struct lowering {
    tc_context *cx;
    tc_func *f;
    tc_map
        before; /* value -> the type that it had, where that is another one */
    const tc_axis_analysis *axes;
} lowering;

/* ---- Types ---- */

static const tc_type *type_before(const lowering *s, const tc_value *v)
{
    const tc_type *t = tc_map_get(&s->before, v);
    return t ? t : v->type;
}

/* The kind of what v's elements were: of a tensor, pointer or window of what
 * lies there. */
static tc_kind kind_before(const lowering *s, const tc_value *v)
{
    const tc_type *t = type_before(s, v);
    while (t->elem)
        t = t->elem;
    return t->kind;
}

static bool was_stored(const lowering *s, const tc_value *v)
{
    return tc_kind_is_stored(kind_before(s, v));
}

static bool is_packed(const lowering *s, const tc_value *v)
{
    return tc_kind_is_packed(kind_before(s, v));
}

static const tc_type *with_bytes(lowering *s, const tc_type *t, unsigned axis,
                                 const tc_type *elem)
{
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++)
        dims[i] = i == axis ? tc_packed_bytes(s->cx, t->dims[i]) : t->dims[i];
    return tc_type_shaped(s->cx, t->kind, t->rank, dims, elem);
}

/* Of an argument the type keeps what the launch has to give. */
static const tc_type *lowered_tensor(lowering *s, const tc_value *v,
                                     const tc_type *code)
{
    const tc_type *t = v->type;
    bool packed = tc_kind_is_packed(t->elem->kind);
    unsigned axis = packed ? tc_type_contiguous(t) : TC_MAX_RANK;
    const tc_type *r = with_bytes(s, t, axis, code);
    if (t->contiguous)
        r = tc_type_with_contiguous(s->cx, r, t->contiguous);
    return v->def ? r : tc_type_with_holds(s->cx, r, t->elem);
}

static const tc_type *lowered(lowering *s, const tc_value *v)
{
    const tc_type *t = v->type, *elem = t;
    while (elem->elem)
        elem = elem->elem;
    const tc_type *code =
        tc_type_scalar(s->cx, tc_scalar_infos[elem->kind].code);
    switch (t->kind) {
    case TC_TENSOR: return lowered_tensor(s, v, code);
    case TC_PTR: return tc_type_ptr(s->cx, code);
    case TC_TILE:
        return tc_type_with_elem(
            s->cx, t,
            t->elem->kind == TC_PTR ? tc_type_ptr(s->cx, code) : code);
    case TC_BLOCK_PTR:
        return with_bytes(s, t,
                          tc_kind_is_packed(elem->kind)
                              ? tc_contiguous_axis(tc_block_of(v))
                              : TC_MAX_RANK,
                          code);
    default: return code;
    }
}

typedef void value_fn(lowering *s, tc_value *v);

static void each_value(lowering *s, tc_region *r, value_fn *visit)
{
    for (unsigned i = 0; i < r->nargs; i++)
        visit(s, r->args[i]);
    tc_each_nested (op, r) {
        for (unsigned i = 0; i < op->nout; i++)
            visit(s, op->out[i]);
        for (unsigned i = 0; i < op->nregions; i++)
            for (unsigned k = 0; k < op->regions[i]->nargs; k++)
                visit(s, op->regions[i]->args[k]);
    }
}

/* The new type, kept until all are known: those of windows follow from their
 * tensors. */
static void find_type(lowering *s, tc_value *v)
{
    if (tc_type_is_stored(v->type))
        tc_map_set(&s->before, v, (void *)lowered(s, v));
}

static void set_type(lowering *s, tc_value *v)
{
    const tc_type *t = tc_map_get(&s->before, v);
    if (!t)
        return;
    tc_map_set(&s->before, v, (void *)v->type);
    v->type = t;
}

/* ---- Ops that look at elements ---- */

static void replace(tc_op *op, tc_value *with)
{
    if (!with->name) {
        with->name = op->out[0]->name;
        with->loc = op->out[0]->loc;
    }
    tc_value_replace(op->out[0], with);
    tc_op_erase(op);
}

static void lower_cast(lowering *s, tc_op *op)
{
    tc_kind from = kind_before(s, op->in[0]), to = kind_before(s, op->out[0]);
    tc_builder b = tc_builder_before(op);
    if (tc_kind_is_stored(from) && tc_kind_is_stored(to))
        replace(op, tc_stored_convert(&b, op->in[0], from, to));
    else if (tc_kind_is_stored(from))
        replace(op, tc_stored_decode(&b, op->in[0], from, to));
    else if (tc_kind_is_stored(to))
        replace(op, tc_stored_encode(&b, op->in[0], to));
}

/* Codes of 8 bits and more are the bits. */
static void lower_bitcast(lowering *s, tc_op *op)
{
    tc_kind to = kind_before(s, op->out[0]);
    tc_builder b = tc_builder_before(op);
    if (tc_kind_is_packed(to))
        replace(op, tc_stored_of_low_bits(&b, op->in[0], to));
    else if (op->in[0]->type == op->out[0]->type)
        replace(op, op->in[0]);
}

static void lower_print(lowering *s, tc_op *op)
{
    tc_builder b = tc_builder_before(op);
    for (unsigned i = 0; i < op->nin; i++) {
        tc_kind kind = kind_before(s, op->in[i]);
        if (tc_kind_is_stored(kind))
            tc_op_set_in(
                op, i,
                tc_stored_decode(&b, op->in[i], kind, tc_stored_widest(kind)));
    }
}

static void lower_dot(lowering *s, tc_op *op)
{
    static const char *const words[] = {"none", "a", "b", "both"};
    unsigned n = 0;
    for (unsigned i = 0; i < 2; i++)
        n |= (unsigned)(kind_before(s, op->in[i]) == TC_U8) << i;
    if (n)
        tc_op_set_word(op, "unsigned", words[n]);
}

/* Both elements of a byte outside of a packed tensor are the pad. */
static void lower_pad(lowering *s, tc_op *op)
{
    const tc_attr *pad = tc_op_attr(op, "pad");
    tc_kind kind = kind_before(s, op->in[0]);
    int64_t code;
    if (pad->kind == TC_ATTR_NONE || !tc_kind_is_stored(kind) ||
        !tc_stored_code(kind, pad->number, &code))
        return;
    if (op->code != TC_TAKE && is_packed(s, op->in[0]))
        code = tc_stored_twice(code);
    tc_attr value = *pad;
    value.number = (tc_number){.i = code};
    tc_op_set_attr(op, "pad", value);
}

/* ---- Two elements a byte ---- */

static void lower_size(lowering *s, tc_op *op)
{
    if (!is_packed(s, op->in[0]))
        return;
    unsigned dim = (unsigned)tc_op_int(op, "dim");
    bool unit = dim == tc_type_contiguous(op->in[0]->type);
    if (unit != (op->code == TC_SIZE))
        return;
    tc_builder b = tc_builder_before(op);
    tc_value *v = tc_build_like(&b, op, op->in, op->out[0]->type);
    replace(op,
            tc_build_binary(&b, TC_MUL, v, tc_build_int_const(&b, v->type, 2)));
}

static void lower_block(lowering *s, tc_op *op)
{
    if (!is_packed(s, op->in[0]))
        return;
    unsigned dim = tc_type_contiguous(op->in[0]->type);
    const tc_attr *sides = tc_op_attr(op, "sides");
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < sides->n; i++)
        dims[i] =
            i == dim ? tc_packed_bytes(s->cx, sides->dims[i]) : sides->dims[i];
    tc_op_set_dims(op, "sides", sides->n, dims);
    tc_packed_halve_offset(op, 1 + dim);
}

static void lower_advance(lowering *s, tc_op *op)
{
    if (is_packed(s, op->in[0]))
        tc_packed_halve_offset(
            op, 1 + tc_type_contiguous(tc_block_of(op->in[0])->in[0]->type));
}

static void lower_load(lowering *s, tc_op *op)
{
    lower_pad(s, op);
    if (!is_packed(s, op->in[0]))
        return;
    tc_builder b = tc_builder_before(op);
    tc_value *bytes =
        tc_build_like(&b, op, op->in, tc_type_pointee(s->cx, op->in[0]->type));
    unsigned axis = tc_contiguous_axis(tc_block_of(op->in[0]));
    replace(op, tc_packed_unpack(&b, bytes, axis, kind_before(s, op->in[0])));
}

static void lower_store(lowering *s, tc_op *op)
{
    if (!is_packed(s, op->in[0]))
        return;
    tc_builder b = tc_builder_before(op);
    unsigned axis = tc_contiguous_axis(tc_block_of(op->in[0]));
    tc_op_set_in(op, 1, tc_packed_pack(&b, op->in[1], axis));
}

static void lower_gather(lowering *s, tc_op *op)
{
    lower_pad(s, op);
    if (!is_packed(s, op->in[0]))
        return;
    unsigned at = 1 + tc_type_contiguous(op->in[0]->type);
    tc_value *index = op->in[at];
    tc_packed_halve_offset(op, at);
    tc_builder b = tc_builder_before(op);
    tc_value *bytes = tc_build_like(&b, op, op->in, op->out[0]->type);
    replace(op, tc_packed_select(&b, bytes, index, kind_before(s, op->in[0])));
}

/* ---- The pass ---- */

typedef void lower_fn(lowering *s, tc_op *op);

static lower_fn *const rules[TC_OPCODE_COUNT] = {
    [TC_CAST] = lower_cast,     [TC_BITCAST] = lower_bitcast,
    [TC_PRINT] = lower_print,   [TC_DOT] = lower_dot,
    [TC_SIZE] = lower_size,     [TC_STRIDE] = lower_size,
    [TC_BLOCK] = lower_block,   [TC_ADVANCE] = lower_advance,
    [TC_LOAD] = lower_load,     [TC_STORE] = lower_store,
    [TC_GATHER] = lower_gather, [TC_TAKE] = lower_pad,
};

static bool looks_at_stored(const lowering *s, const tc_op *op)
{
    bool stored = op->nout == 1 && was_stored(s, op->out[0]);
    for (unsigned i = 0; i < op->nin && !stored; i++)
        stored = was_stored(s, op->in[i]);
    return stored;
}

static void rewrite(lowering *s, tc_arena *scratch, tc_region *r)
{
    unsigned n = 0;
    tc_op **ops = tc_arena_array(scratch, tc_op *, tc_region_count(r));
    tc_each_nested (op, r)
        if (rules[op->code] && looks_at_stored(s, op))
            ops[n++] = op;
    while (n--)
        rules[ops[n]->code](s, ops[n]);
}

/* Masks are of elements, of which a byte holds two. */
static bool has_no_mask(const lowering *s, const tc_op *op)
{
    unsigned mask = op->code == TC_LOAD ? 1 : 2;
    return op->nin <= mask ||
           tc_error(s->cx, op->loc,
                    "%s: a mask, expected none: a byte holds two elements; "
                    "select after the load, or store whole bytes",
                    tc_op_name(op));
}

static bool check_windows(const lowering *s)
{
    bool ok = true;
    tc_each_nested (op, s->f->body) {
        bool window = op->code == TC_BLOCK || op->code == TC_ADVANCE;
        bool access = op->code == TC_LOAD || op->code == TC_STORE;
        if (!op->nin || !is_packed(s, op->in[0]))
            continue;
        if (window)
            ok &= tc_packed_is_whole(s->axes, op);
        else if (access)
            ok &= has_no_mask(s, op);
    }
    return ok;
}

static void count_stored(lowering *s, tc_value *v)
{
    if (tc_type_is_stored(v->type))
        tc_map_set(&s->before, v, (void *)v->type);
}

tc_change tc_pass_lower_storage(tc_func *f, tc_pass_env *env)
{
    lowering s = {.cx = env->cx, .f = f, .before = {.arena = env->scratch}};
    each_value(&s, f->body, count_stored);
    if (s.before.nused == 0)
        return TC_UNCHANGED;
    s.axes = tc_axis_analyse(env->scratch, f, 0);
    if (!check_windows(&s))
        return TC_FAILED;
    tc_region *regions[] = {f->grid, f->body};
    for (unsigned i = 0; i < 2; i++)
        if (regions[i])
            each_value(&s, regions[i], find_type);
    for (unsigned i = 0; i < 2; i++)
        if (regions[i])
            each_value(&s, regions[i], set_type);
    for (unsigned i = 0; i < 2; i++)
        if (regions[i])
            rewrite(&s, env->scratch, regions[i]);
    return TC_CHANGED;
}
