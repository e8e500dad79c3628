/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/bind/index_witness.h"

#include "ir/eval/eval.h"
#include "passes/analysis/int_range.h"

#include <string.h>

/* The longest sequences that are looked at. */
enum { FAR = (1 << 20) - 1 };
static const int positions[] = {0, 1, 2, 1000, FAR};
enum { NPOSITIONS = sizeof positions / sizeof *positions };

/* An int at the positions under trial. */
typedef struct known {
    bool is_known, wraps;
    int64_t i;
} known;

typedef struct trial {
    tc_context *cx;
    tc_arena *scratch;
    const tc_func *f;
    const tc_map *given;
    const char *text; /* of the positions; NULL: nobody asked yet */
} trial;

static const known *value_of(const tc_value *v)
{
    static const known nothing;
    return v->data ? v->data : &nothing;
}

static void set(const trial *t, tc_value *v, known x)
{
    v->data = tc_arena_copy(t->scratch, &x, sizeof x);
}

/* Without wrapping; false: the op is another, or the result is too large. */
static bool exactly(const tc_op *op, const tc_scalar *in, int64_t *out)
{
    switch (op->code) {
    case TC_ADD: return !__builtin_add_overflow(in[0].i, in[1].i, out);
    case TC_SUB: return !__builtin_sub_overflow(in[0].i, in[1].i, out);
    case TC_MUL: return !__builtin_mul_overflow(in[0].i, in[1].i, out);
    case TC_NEG: return !__builtin_sub_overflow(0, in[0].i, out);
    default: return false;
    }
}

/* Ops that mix bits, as hash functions do: their ints are meant to wrap. */
static bool is_of_bits(const tc_op *op)
{
    return op->code == TC_AND || op->code == TC_XOR || op->code == TC_REM ||
           op->code == TC_SHR || op->code == TC_SHRU || op->code == TC_MULHI ||
           op->code == TC_REMU;
}

static bool is_int(const tc_value *v)
{
    return tc_type_is_scalar(v->type) && v->type->kind <= TC_I64;
}

static void try_op(const trial *t, tc_op *op)
{
    tc_scalar in[4], out;
    int64_t exact;
    if (op->nout != 1 || !is_int(op->out[0]) || op->nregions || op->nin > 4 ||
        !tc_op_has(op, TC_PURE))
        return;
    known x = {.is_known = true};
    for (unsigned i = 0; i < op->nin; i++) {
        const known *from = value_of(op->in[i]);
        if (!from->is_known)
            return;
        in[i] = (tc_scalar){from->i, 0};
        x.wraps |= from->wraps;
    }
    if (!tc_eval_op(op, in, &out))
        return;
    x.i = out.i;
    x.wraps = (x.wraps && !is_of_bits(op)) ||
              (exactly(op, in, &exact) && exact != out.i);
    set(t, op->out[0], x);
}

/* Parameters that are ints, as "%q = 1, %k = 0". */
static const char *describe(trial *t)
{
    if (t->text)
        return t->text;
    const char *text = "";
    const tc_region *body = t->f->body;
    for (unsigned i = 0; i < body->nargs; i++)
        if (value_of(body->args[i])->is_known)
            text = tc_arena_printf(t->scratch, "%s%s%s = %lld", text,
                                   *text ? ", " : "",
                                   tc_value_name(t->cx, body->args[i]),
                                   (long long)value_of(body->args[i])->i);
    return t->text = *text ? text : "any position";
}

/* Keeps the first that wraps, or else the first outside. */
static void try_gather(trial *t, const tc_op *op)
{
    tc_index_witness *found = op->data;
    const tc_type *type = op->in[0]->type;
    for (unsigned d = 0; d < type->rank; d++) {
        const known *x = value_of(op->in[1 + d]);
        tc_index_witness *w = &found[d];
        const tc_dim *size = type->dims[d];
        bool outside =
            x->i < 0 || x->i >= (size ? tc_dim_value(size) : TC_MAX_SIZE);
        if (!x->is_known || w->wraps || (!x->wraps && (w->at || !outside)))
            continue;
        *w = (tc_index_witness){x->wraps, outside, x->i, describe(t)};
    }
}

static void try_once(trial *t)
{
    t->text = NULL;
    tc_each_op (op, t->f->body) {
        for (unsigned i = 0; i < op->nout; i++)
            op->out[i]->data = NULL;
        if (op->code == TC_GATHER)
            try_gather(t, op);
        else
            try_op(t, op);
    }
}

/* An int that may be passed there: i, or what is nearest. */
static void guess(const trial *t, tc_value *arg, int64_t i)
{
    const tc_int_range *s = tc_map_get(t->given, arg);
    if (s && i < s->low)
        i = s->low;
    if (s && i > s->high)
        i = s->high;
    set(t, arg, (known){.is_known = true, .i = i});
}

/* Of a tensor: sizes are from 0 to the largest one. */
static bool is_size(const tc_int_range *s)
{
    return s && s->low == 0 && s->high == TC_MAX_SIZE;
}

/* Query and key are what differs from lane to lane; where nothing does, the
 * last two ints of which something is known, that are no sizes. */
static bool is_position(const tc_op *call, unsigned i, const tc_int_range *s)
{
    bool tiles = false;
    for (unsigned j = 0; j < call->nin; j++)
        tiles |= call->in[j]->type->kind == TC_TILE;
    bool is_any = !s || (s->low == INT32_MIN && s->high == INT32_MAX);
    return tiles ? call->in[i]->type->kind == TC_TILE : !is_any && !is_size(s);
}

static void forget_findings(const trial *t)
{
    tc_each_op (op, t->f->body) {
        unsigned n = op->code == TC_GATHER ? op->in[0]->type->rank : 0;
        size_t size = n * sizeof(tc_index_witness);
        op->data = n ? memset(tc_arena_alloc(t->scratch, size), 0, size) : NULL;
    }
}

void tc_indices_try(tc_context *cx, tc_arena *scratch, const tc_func *f,
                    const tc_op *call, const tc_map *given)
{
    trial t = {cx, scratch, f, given, NULL};
    tc_value *pair[2] = {NULL, NULL};
    forget_findings(&t);
    for (unsigned i = 0; i < f->body->nargs; i++) {
        tc_value *arg = f->body->args[i];
        arg->data = NULL;
        if (!is_int(arg) || arg->type->kind == TC_I1)
            continue;
        const tc_int_range *span = tc_map_get(given, arg);
        guess(&t, arg, is_size(span) ? FAR + 1 : 1);
        if (is_position(call, i, span)) {
            pair[0] = pair[1];
            pair[1] = arg;
        }
    }
    for (int i = 0; i < NPOSITIONS * NPOSITIONS; i++) {
        if (pair[0])
            guess(&t, pair[0], positions[i / NPOSITIONS]);
        if (pair[1])
            guess(&t, pair[1], positions[i % NPOSITIONS]);
        try_once(&t);
    }
}
