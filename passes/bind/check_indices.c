/* SPDX-License-Identifier: Apache-2.0
 *
 * check-indices: checks the indices at which functions that a kernel calls read
 * tensors.
 *
 *   func @bias(%score: f32, .., %q: i32, %k: i32, %q_len: i32,
 *              %table: tensor<[?] x f32>) -> f32 {
 *     %row = mul %q, %q_len : i32         wraps for %q = 1048575, ..
 *     %i = add %row, %k : i32
 *     %b = gather %table, %i : f32
 *
 * becomes
 *
 *     %row = mul cast(%q, i64), cast(%q_len, i64) : i64
 *     %i = add %row, cast(%k, i64) : i64
 *     %b = gather %table, %i : f32        outside of the tensor: the pad
 *
 * The value ranges of the passed ints (int_range.h) bound an index made of
 * sums, differences and products. An index that is never inside of the tensor
 * is an error; an index that may wrap to another element is computed in 64
 * bits. If the ranges do not decide that (after a quotient, or a minimum) some
 * positions are evaluated (index_witness.h): an int that wraps there is a
 * warning. Reads outside of a tensor give the pad, and a remark says where
 * there are any. Tests: test/ir/passes/check-indices.
 */
#include "passes/analysis/int_range.h"
#include "passes/analysis/match.h"
#include "passes/bind/index_witness.h"
#include "passes/passes.h"

typedef struct checker {
    tc_context *cx;
    tc_arena *scratch;
    tc_module *m;
    tc_map given; /* parameters of functions -> tc_int_range */
    tc_map seen;  /* functions */
    bool ok, changed;
} checker;

/* ---- What is passed ---- */

static void check_indices_join(checker *c, tc_map *into, const tc_op *call)
{
    const tc_func *f = tc_op_callee(call);
    for (unsigned i = 0; f && i < f->body->nargs; i++) {
        const tc_value *from = call->in[i], *arg = f->body->args[i];
        if (!tc_has_int_lanes(from))
            continue;
        tc_int_range now = tc_int_range_given(from, &c->given);
        const tc_int_range *old = tc_map_get(into, arg);
        if (old && old->low < now.low)
            now.low = old->low;
        if (old && old->high > now.high)
            now.high = old->high;
        tc_map_set(into, arg, tc_arena_copy(c->scratch, &now, sizeof now));
    }
}

static void join_all(checker *c, tc_map *into, const tc_region *r)
{
    tc_each_nested_first (op, r) {
        check_indices_join(c, into, op);
    }
}

/* An argument may be the result of another function, so ranges begin unknown
 * and get narrower. */
static void find_given(checker *c)
{
    enum { TURNS = 3 };
    for (int i = 0; i < TURNS; i++) {
        tc_map next = {.arena = c->scratch};
        tc_each_func (f, c->m)
            join_all(c, &next, f->body);
        c->given = next;
    }
}

/* ---- Sums, differences and products ---- */

/* Expressions are not followed further. */
enum { DEPTH = 8 };

static bool is_followed(const tc_value *v, unsigned depth)
{
    if (depth == DEPTH)
        return false;
    tc_opcode code = v->def ? v->def->code : TC_CONST;
    return code == TC_ADD || code == TC_SUB || code == TC_MUL || code == TC_NEG;
}

static int64_t clamped(__int128 x)
{
    return x < INT64_MIN ? INT64_MIN : x > INT64_MAX ? INT64_MAX : (int64_t)x;
}

static tc_int_range products(tc_int_range a, tc_int_range b)
{
    const __int128 all[] = {(__int128)a.low * b.low, (__int128)a.low * b.high,
                            (__int128)a.high * b.low,
                            (__int128)a.high * b.high};
    tc_int_range out = {INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        int64_t x = clamped(all[i]);
        out.low = x < out.low ? x : out.low;
        out.high = x > out.high ? x : out.high;
    }
    return out;
}

/* As if nothing wrapped. */
static tc_int_range exact_span(const checker *c, const tc_value *v,
                               unsigned depth)
{
    if (!is_followed(v, depth))
        return tc_int_range_given(v, &c->given);
    const tc_op *op = v->def;
    tc_int_range a = exact_span(c, op->in[0], depth + 1), b = {0, 0};
    if (op->nin > 1)
        b = exact_span(c, op->in[1], depth + 1);
    switch (op->code) {
    case TC_ADD:
        return (tc_int_range){clamped((__int128)a.low + b.low),
                              clamped((__int128)a.high + b.high)};
    case TC_MUL: return products(a, b);
    case TC_NEG: return products(a, (tc_int_range){-1, -1});
    default:
        return (tc_int_range){clamped((__int128)a.low - b.high),
                              clamped((__int128)a.high - b.low)};
    }
}

/* Up to 2^32 an index wraps to a negative one, which is outside as well. */
static bool may_read_another(tc_int_range s)
{
    return s.low < INT32_MIN || s.high > UINT32_MAX;
}

static tc_value *in_64_bits(tc_builder *b, tc_value *v, unsigned depth)
{
    const tc_type *i64 = tc_type_scalar(b->func->module->cx, TC_I64);
    if (v->type == i64)
        return v;
    if (!is_followed(v, depth))
        return tc_build(b, TC_CAST, 1, &v, i64);
    tc_value *in[2];
    for (unsigned i = 0; i < v->def->nin; i++)
        in[i] = in_64_bits(b, v->def->in[i], depth + 1);
    return tc_build(b, v->def->code, v->def->nin, in, i64);
}

static const char *text_of(const checker *c, const tc_value *v, unsigned depth,
                           bool nested);

/* "rem(%q, 3)" */
static const char *call_text(const checker *c, const tc_op *op, unsigned depth)
{
    const char *text = tc_arena_printf(c->scratch, "%s(", tc_op_name(op));
    for (unsigned i = 0; i < op->nin; i++)
        text = tc_arena_printf(c->scratch, "%s%s%s", text, i ? ", " : "",
                               text_of(c, op->in[i], depth, false));
    return tc_arena_printf(c->scratch, "%s)", text);
}

/* As one would write it. */
static const char *text_of(const checker *c, const tc_value *v, unsigned depth,
                           bool nested)
{
    static const char signs[TC_OPCODE_COUNT] = {
        [TC_ADD] = '+', [TC_SUB] = '-', [TC_MUL] = '*', [TC_DIV] = '/'};
    tc_scalar x;
    if (tc_match_const(v, &x))
        return tc_arena_printf(c->scratch, "%lld", (long long)x.i);
    const tc_op *op = v->def;
    if (!op || op->nout > 1 || depth == DEPTH ||
        (v->name && !is_followed(v, depth)))
        return tc_value_name(c->cx, v);
    const char *a = op->nin ? text_of(c, op->in[0], depth + 1, true) : "";
    if (op->code == TC_NEG)
        return tc_arena_printf(c->scratch, "-%s", a);
    if (!signs[op->code])
        return call_text(c, op, depth + 1);
    return tc_arena_printf(
        c->scratch, "%s%s %c %s%s", nested ? "(" : "", a, signs[op->code],
        text_of(c, op->in[1], depth + 1, true), nested ? ")" : "");
}

/* ---- One index ---- */

static bool is_never_inside(const tc_op *op, unsigned d, tc_int_range s)
{
    const tc_dim *size = op->in[0]->type->dims[d];
    return s.high < 0 || s.low >= (size ? tc_dim_value(size) : TC_MAX_SIZE);
}

/* "index 0 of %table, %q - %k," */
static const char *name_of(const checker *c, const tc_op *op, unsigned d)
{
    return tc_arena_printf(c->scratch, "index %u of %s, %s,", d,
                           tc_value_name(c->cx, op->in[0]),
                           text_of(c, op->in[1 + d], 0, false));
}

static void refuse(checker *c, const tc_op *op, unsigned d,
                   const tc_index_witness *w)
{
    const tc_dim *size = op->in[0]->type->dims[d];
    tc_error(c->cx, op->loc, "check-indices: %s is never inside%s",
             name_of(c, op, d),
             size ? tc_arena_printf(c->scratch, ", expected 0 to %lld",
                                    (long long)tc_dim_value(size) - 1)
                  : "");
    if (w->at)
        tc_note(c->cx, op->loc, "it is %lld for %s", (long long)w->index,
                w->at);
    c->ok = false;
}

static void widen(checker *c, tc_op *op, unsigned d, const tc_index_witness *w)
{
    if (c->cx->want_remarks) /* names take as long as the function's text */
        tc_remark(c->cx, op->loc, "check-indices",
                  "%s is computed in 64 bits: %s%s", name_of(c, op, d),
                  w->wraps ? "32 wrap for " : "32 may wrap",
                  w->wraps ? w->at : "");
    tc_builder b = tc_builder_before(op);
    tc_op_set_in(op, 1 + d, in_64_bits(&b, op->in[1 + d], 0));
    c->changed = true;
}

static void check_index(checker *c, tc_op *op, unsigned d)
{
    static const tc_index_witness none;
    const tc_index_witness *found = op->data, *w = found ? found + d : &none;
    tc_value *index = op->in[1 + d];
    tc_int_range s = exact_span(c, index, 0);
    if (is_never_inside(op, d, s))
        refuse(c, op, d, w);
    else if (index->type->kind == TC_I32 && may_read_another(s))
        widen(c, op, d, w);
    else if (w->wraps)
        tc_warning(c->cx, op->loc,
                   "%s reads element %lld for %s, as an int wraps there: "
                   "compute it in 64 bits",
                   name_of(c, op, d), (long long)w->index, w->at);
    else if (w->at && c->cx->want_remarks)
        tc_missed(c->cx, op->loc, "check-indices",
                  "%s is %lld for %s: reads there give the pad",
                  name_of(c, op, d), (long long)w->index, w->at);
}

/* ---- All calls ---- */

static void check_region(checker *c, tc_region *r)
{
    tc_each_nested_first (op, r) {
        unsigned rank = op->code == TC_GATHER ? op->in[0]->type->rank : 0;
        for (unsigned d = 0; d < rank; d++)
            check_index(c, op, d);
    }
}

/* A function, and the first call of it. */
typedef struct called {
    struct called *next;
    const tc_func *f;
    const tc_op *op;
} called;

/* Appends what the region calls for the first time. */
static called **note_calls(checker *c, const tc_region *r, called **end)
{
    static char mark;
    tc_each_nested_first (op, r) {
        const tc_func *f = tc_op_callee(op);
        if (!f || f->nparams || tc_map_get(&c->seen, f))
            continue;
        tc_map_set(&c->seen, f, &mark);
        *end = tc_arena_new(c->scratch, called);
        **end = (called){NULL, f, op};
        end = &(*end)->next;
    }
    return end;
}

/* Callers before those that they call. */
static void check_calls(checker *c, const tc_region *r)
{
    called *first = NULL, **end = note_calls(c, r, &first);
    for (const called *at = first; at; at = at->next) {
        tc_indices_try(c->cx, c->scratch, at->f, at->op, &c->given);
        check_region(c, at->f->body);
        end = note_calls(c, at->f->body, end);
    }
}

tc_change tc_pass_check_indices(tc_module *m, tc_pass_env *env)
{
    checker c = {.cx = env->cx, .scratch = env->scratch, .m = m, .ok = true};
    c.given.arena = c.seen.arena = env->scratch;
    find_given(&c);
    tc_each_func (f, m)
        if (f->is_kernel)
            check_calls(&c, f->body);
    return !c.ok ? TC_FAILED : c.changed ? TC_CHANGED : TC_UNCHANGED;
}
