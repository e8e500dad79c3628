/* SPDX-License-Identifier: Apache-2.0
 *
 * Block pointers. As a value one is its offsets, an i32 for each dim of its
 * tensor; the tensor is known, since a block pointer is a window on one.
 *
 * How much one access may move follows from what is known: the kernel wants
 * the tensor aligned, and the offset along its last dim is a multiple.
 */
#include "codegen/nvptx/emit.h"

#include "ir/eval.h"

#include <assert.h>

enum { MOST_DIVISOR = 1024, VECTOR_BYTES = 16, MAX_DEPTH = 64 };

const tc_op *tc_gen_block_origin(const tc_value *v)
{
    const tc_op *op = v->def ? v->def : v->region->op;
    unsigned i = v->index;
    switch (op->code) {
    case TC_BLOCK: return op;
    case TC_ADVANCE: return tc_gen_block_origin(op->in[0]);
    case TC_FOR: return tc_gen_block_origin(op->in[3 + i - !v->def]);
    default: return tc_gen_block_origin(op->in[i]); /* while */
    }
}

/* ---- Divisors of ints ---- */

/* What is assumed of a carried value while its next one is looked at. */
typedef struct assumption {
    const tc_value *v;
    unsigned dim; /* of a block pointer's offset */
    unsigned divisor;
    const struct assumption *outer;
} assumption;

static unsigned divisor_of(const tc_value *v, const assumption *a,
                           unsigned depth);

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned divisor_of_number(int64_t i)
{
    uint64_t low = (uint64_t)i & -(uint64_t)i;
    return low == 0 || low > MOST_DIVISOR ? MOST_DIVISOR : (unsigned)low;
}

/* A constant; false: it is none. */
static bool constant_of(const tc_value *v, int64_t *x)
{
    if (!v->def)
        return false;
    if (v->def->code == TC_CONST) {
        const tc_attr *a = tc_op_attr(v->def, "value");
        *x = a->number.i;
        return !a->number.is_float;
    }
    if (v->def->code == TC_DIM) {
        *x = tc_dim_value(tc_op_attr(v->def, "value")->dims[0]);
        return *x >= 0;
    }
    return false;
}

/* A carried value: what it starts with divides, and if so what comes next. The
 * assumption only falls, so this ends. */
static unsigned divisor_carried(unsigned start, const tc_value *v, unsigned dim,
                                const tc_value *next, const assumption *a,
                                unsigned depth,
                                unsigned of(const tc_value *, unsigned,
                                            const assumption *, unsigned))
{
    for (;;) {
        assumption more = {v, dim, start, a};
        unsigned d = least(start, of(next, dim, &more, depth + 1));
        if (d == start)
            return d;
        start = d;
    }
}

static bool assumed(const assumption *a, const tc_value *v, unsigned dim,
                    unsigned *divisor)
{
    for (; a; a = a->outer)
        if (a->v == v && a->dim == dim) {
            *divisor = a->divisor;
            return true;
        }
    return false;
}

static unsigned value_divisor(const tc_value *v, unsigned dim,
                              const assumption *a, unsigned depth)
{
    (void)dim;
    return divisor_of(v, a, depth);
}

static unsigned divisor_of_argument(const tc_value *v, const assumption *a,
                                    unsigned depth)
{
    const tc_op *op = v->region->op;
    if (!op || op->code != TC_FOR)
        return 1;
    if (v->index == 0) /* lo + n * step */
        return least(divisor_of(op->in[0], a, depth + 1),
                     divisor_of(op->in[2], a, depth + 1));
    unsigned d;
    if (assumed(a, v, 0, &d))
        return d;
    d = divisor_of(op->in[2 + v->index], a, depth + 1);
    return divisor_carried(d, v, 0, v->region->last->in[v->index - 1], a, depth,
                           value_divisor);
}

static unsigned divisor_of_product(const tc_op *op, const assumption *a,
                                   unsigned depth)
{
    unsigned x = divisor_of(op->in[0], a, depth + 1),
             y = divisor_of(op->in[1], a, depth + 1);
    return least(x * y, MOST_DIVISOR);
}

static unsigned divisor_of_shift(const tc_op *op, const assumption *a,
                                 unsigned depth)
{
    int64_t by;
    if (!constant_of(op->in[1], &by) || by < 0 || by > 10)
        return 1;
    return least(divisor_of(op->in[0], a, depth + 1) << by, MOST_DIVISOR);
}

/* x / c for a power of two c that divides x is exact. */
static unsigned divisor_of_quotient(const tc_op *op, const assumption *a,
                                    unsigned depth)
{
    int64_t c;
    unsigned x = divisor_of(op->in[0], a, depth + 1);
    bool exact =
        constant_of(op->in[1], &c) && c > 0 && (c & (c - 1)) == 0 && c <= x;
    return exact ? x / (unsigned)c : 1;
}

static unsigned divisor_of(const tc_value *v, const assumption *a,
                           unsigned depth)
{
    int64_t x;
    if (depth > MAX_DEPTH)
        return 1;
    if (constant_of(v, &x))
        return divisor_of_number(x);
    const tc_op *op = v->def;
    if (!op)
        return divisor_of_argument(v, a, depth);
    switch (op->code) {
    case TC_MUL: return divisor_of_product(op, a, depth);
    case TC_SHL: return divisor_of_shift(op, a, depth);
    case TC_DIV: return divisor_of_quotient(op, a, depth);
    case TC_CAST:
        return tc_type_is_int(op->in[0]->type)
                   ? divisor_of(op->in[0], a, depth + 1)
                   : 1;
    case TC_NEG: return divisor_of(op->in[0], a, depth + 1);
    case TC_ADD:
    case TC_SUB:
    case TC_MIN:
    case TC_MAX:
    case TC_REM:
        return least(divisor_of(op->in[0], a, depth + 1),
                     divisor_of(op->in[1], a, depth + 1));
    case TC_SELECT:
        return least(divisor_of(op->in[1], a, depth + 1),
                     divisor_of(op->in[2], a, depth + 1));
    case TC_IF:
        return least(
            divisor_of(op->regions[0]->last->in[v->index], a, depth + 1),
            divisor_of(op->regions[1]->last->in[v->index], a, depth + 1));
    case TC_FOR:
        return divisor_of(op->regions[0]->args[1 + v->index], a, depth + 1);
    default: return 1;
    }
}

unsigned tc_gen_divisor(const tc_gen *g, const tc_value *v)
{
    (void)g;
    return divisor_of(v, NULL, 0);
}

/* Of a block pointer's offset along a dim of its tensor. */
static unsigned offset_divisor(const tc_value *v, unsigned dim,
                               const assumption *a, unsigned depth)
{
    const tc_op *op = v->def ? v->def : v->region->op;
    if (depth > MAX_DEPTH)
        return 1;
    if (op->code == TC_BLOCK)
        return divisor_of(op->in[1 + dim], a, depth + 1);
    if (op->code == TC_ADVANCE)
        return least(offset_divisor(op->in[0], dim, a, depth + 1),
                     divisor_of(op->in[1 + dim], a, depth + 1));
    if (op->code != TC_FOR)
        return 1;
    unsigned i = v->index - !v->def, d;
    const tc_value *arg = op->regions[0]->args[1 + i];
    if (assumed(a, arg, dim, &d))
        return d;
    d = offset_divisor(op->in[3 + i], dim, a, depth + 1);
    return divisor_carried(d, arg, dim, op->regions[0]->last->in[i], a, depth,
                           offset_divisor);
}

/* ---- The ops ---- */

/* An i64 offset beyond i32 is outside of every tensor, as is the nearest i32:
 * sizes are below 2^31 and sides below 2^24, so comparing the sum without a
 * sign sees it outside even where it wraps. */
static LLVMValueRef offset_of(tc_gen *g, const tc_value *v)
{
    LLVMValueRef x = tc_gen_scalar(g, v);
    if (LLVMTypeOf(x) == g->i32)
        return x;
    LLVMValueRef most[] = {x, tc_gen_i64(g, INT32_MAX)};
    x = tc_gen_intrinsic(g, "smin", 1, &g->i64, 2, most);
    LLVMValueRef floor[] = {x, tc_gen_i64(g, INT32_MIN)};
    x = tc_gen_intrinsic(g, "smax", 1, &g->i64, 2, floor);
    return LLVMBuildTrunc(g->b, x, g->i32, "");
}

bool tc_emit_block(tc_gen *g, const tc_op *op)
{
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned i = 1; i < op->nin; i++)
        to[i - 1] = offset_of(g, op->in[i]);
    return true;
}

bool tc_emit_advance(tc_gen *g, const tc_op *op)
{
    LLVMValueRef *from = tc_gen_get(g, op->in[0]);
    LLVMValueRef *to = tc_gen_set(g, op->out[0]);
    for (unsigned i = 1; i < op->nin; i++)
        to[i - 1] =
            LLVMBuildAdd(g->b, from[i - 1], offset_of(g, op->in[i]), "");
    return true;
}

static bool is_aligned(const tc_gen *g, const tc_value *tensor)
{
    unsigned i = tensor->index;
    return !tensor->def && tensor->region == g->f->body && i < 64 &&
           (g->f->aligned >> i & 1);
}

tc_gen_block tc_gen_block_of(tc_gen *g, const tc_value *v)
{
    const tc_op *origin = tc_gen_block_origin(v);
    const tc_value *tensor = origin->in[0];
    const tc_type *elem = tensor->type->elem;
    unsigned rank = tensor->type->rank;
    LLVMValueRef *parts = tc_gen_get(g, tensor), *offset = tc_gen_get(g, v);
    tc_gen_block w = {.base = parts[0], .unit = -1, .vector = 1};
    const tc_attr *sides = tc_op_attr(origin, "sides");
    for (unsigned i = 0; i < rank; i++) {
        LLVMValueRef stride = parts[1 + rank + i];
        if (!sides->dims[i]) {
            LLVMValueRef at = LLVMBuildSExt(g->b, offset[i], g->i64, "");
            at = LLVMBuildMul(g->b, at, stride, "");
            w.base = tc_gen_address(g, elem, w.base, at);
            continue;
        }
        w.offset[w.rank] = offset[i];
        w.size[w.rank] = parts[1 + i];
        w.stride[w.rank] = stride;
        if (i == rank - 1 && is_aligned(g, tensor)) {
            w.unit = (int)w.rank;
            w.vector = least(VECTOR_BYTES / tc_type_bytes(elem),
                             offset_divisor(v, i, NULL, 0));
        }
        w.rank++;
    }
    return w;
}
