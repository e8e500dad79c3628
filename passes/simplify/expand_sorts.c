/* SPDX-License-Identifier: Apache-2.0
 *
 * expand-sorts: expands `sort` into a bitonic network (Batcher 1968) of
 * butterflies. Elements that are j apart, j a power of two, exchange their
 * values by a reduction with xor along an axis of side 2:
 *
 *   %pairs = reshape %x : tile<8x2x4 x i32>         // j is 4
 *   %both = reduce %pairs axis(1) kind(xor)         // a ^ b
 *   %other = xor %x, (%both of each, in the shape of %x)   // b for a, a for b
 *   %y = select %keeps_small, min(%x, %other), max(%x, %other)
 *
 * so the layout stays, and a step is a shuffle, or registers alone. Keys are
 * ints in the network: bits of floats in an order that has NaN as the largest
 * and -0 below 0. Other operands move as their keys do.
 *
 * Of first(m), runs of m are sorted, up and down in turn; of each two, only the
 * m smallest elements stay, until one run is left.
 *
 * Tests: test/ir/passes/expand-sorts, test/numerics/shapes.c.
 */
#include "passes/analysis/match.h"
#include "passes/passes.h"

typedef struct network {
    tc_builder b;
    tc_context *cx;
    unsigned axis, count; /* count: operands, the key first */
    int64_t n;            /* elements along the axis, so far */
    tc_value **v;         /* as ints of the same width */
} network;

/* ---- Keys ---- */

static tc_value *largest_int(network *s, const tc_type *t)
{
    unsigned bits = tc_scalar_infos[tc_type_elem(t)->kind].bits;
    return tc_build_int_const(&s->b, t, (int64_t)(~0ull >> (65 - bits)));
}

/* The bits of floats as ints of the same order, and back. */
static tc_value *flip_negative(network *s, tc_value *bits)
{
    unsigned width = tc_scalar_infos[tc_type_elem(bits->type)->kind].bits;
    tc_value *sign = tc_build_with(&s->b, TC_SHR, bits, width - 1);
    tc_value *flip =
        tc_build_binary(&s->b, TC_AND, sign, largest_int(s, bits->type));
    return tc_build_binary(&s->b, TC_XOR, bits, flip);
}

static tc_value *key_of(network *s, tc_value *v, bool descending)
{
    tc_value *key = tc_build_bitcast(&s->b, v, tc_bits_type(s->cx, v->type));
    if (key != v) {
        tc_value *nan = tc_build_cmp(&s->b, "ne", v, v);
        key = tc_build_select(&s->b, nan, largest_int(s, key->type),
                              flip_negative(s, key));
    }
    return descending ? tc_build_unary(&s->b, TC_NOT, key) : key;
}

static tc_value *value_of(network *s, tc_value *key, const tc_type *t,
                          bool descending)
{
    if (descending)
        key = tc_build_unary(&s->b, TC_NOT, key);
    if (key->type != t)
        key = flip_negative(s, key);
    return tc_build_bitcast(&s->b, key, t);
}

/* ---- Shapes ---- */

static const tc_type *shaped(network *s, tc_value *like, unsigned rank,
                             const int64_t *sides)
{
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < rank; i++)
        dims[i] = tc_dim_const(s->cx, sides[i]);
    return tc_type_shaped(s->cx, TC_TILE, rank, dims, tc_type_elem(like->type));
}

static tc_value *reshape(network *s, tc_value *v, const tc_type *t)
{
    return v->type == t ? v : tc_build(&s->b, TC_RESHAPE, 1, &v, t);
}

/* Pairs that are j apart: before, n / 2j, 2, j, after. */
static tc_value *pairs_of(network *s, tc_value *v, int64_t j)
{
    int64_t sides[] = {1, s->n / (2 * j), 2, j, 1};
    for (unsigned i = 0; i < v->type->rank; i++)
        if (i != s->axis)
            sides[i < s->axis ? 0 : 4] *= tc_dim_value(v->type->dims[i]);
    return reshape(s, v, shaped(s, v, 5, sides));
}

/* What lies j before or after each element, in its pair. */
static tc_value *partner(network *s, tc_value *v, int64_t j)
{
    tc_value *pairs = pairs_of(s, v, j);
    tc_value *both = tc_build_reduce(&s->b, pairs, 2, "xor");
    both = tc_build_at(&s->b, TC_EXPAND_DIMS, both, "axis", 2);
    both = tc_build(&s->b, TC_BROADCAST, 1, &both, pairs->type);
    return tc_build_binary(&s->b, TC_XOR, v, reshape(s, both, v->type));
}

/* Where bit j of the position is that of bit k (0: none), as i1. */
static tc_value *same_bits(network *s, int64_t j, int64_t k)
{
    const tc_type *t = s->v[0]->type;
    tc_value *at = tc_build_range(&s->b, t->dims[s->axis]);
    tc_value *mask = tc_build_int_const(&s->b, at->type, j | k);
    tc_value *zero = tc_build_int_const(&s->b, at->type, 0);
    tc_value *bits = tc_build_binary(&s->b, TC_AND, at, mask);
    tc_value *same = tc_build_cmp(&s->b, "eq", bits, zero);
    if (k)
        same = tc_build_binary(&s->b, TC_OR, same,
                               tc_build_cmp(&s->b, "eq", bits, mask));
    return tc_build_along(&s->b, same, s->axis, t);
}

/* ---- The network ---- */

/* In runs of k, up and down in turn (0: up alone): of elements j apart the
 * smaller one first. */
static void exchange(network *s, int64_t j, int64_t k)
{
    tc_builder *b = &s->b;
    tc_value *key = s->v[0], *other = partner(s, key, j);
    tc_value *keeps_small = same_bits(s, j, k < s->n ? k : 0);
    if (s->count == 1) {
        s->v[0] = tc_build_select(b, keeps_small,
                                  tc_build_binary(b, TC_MIN, key, other),
                                  tc_build_binary(b, TC_MAX, key, other));
        return;
    }
    tc_value *moves =
        tc_build_select(b, keeps_small, tc_build_cmp(b, "lt", other, key),
                        tc_build_cmp(b, "gt", other, key));
    for (unsigned i = 0; i < s->count; i++) {
        tc_value *from = i ? partner(s, s->v[i], j) : other;
        s->v[i] = tc_build_select(b, moves, from, s->v[i]);
    }
}

/* Of elements j apart the smaller one stays, the first of equals. */
static void halve(network *s, int64_t j)
{
    tc_builder *b = &s->b;
    tc_value *key = s->v[0], *stays = NULL;
    if (s->count > 1) {
        tc_value *other = partner(s, key, j);
        tc_value *equal = tc_build_binary(
            b, TC_AND, tc_build_cmp(b, "eq", key, other), same_bits(s, j, 0));
        stays =
            tc_build_binary(b, TC_OR, tc_build_cmp(b, "lt", key, other), equal);
    }
    for (unsigned i = 0; i < s->count; i++) {
        tc_value *v = s->v[i];
        if (i)
            v = tc_build_select(b, stays, v, tc_build_int_const(b, v->type, 0));
        int64_t sides[TC_MAX_RANK];
        for (unsigned a = 0; a < v->type->rank; a++)
            sides[a] = a == s->axis ? s->n / 2 : tc_dim_value(v->type->dims[a]);
        const tc_type *half = shaped(s, v, v->type->rank, sides);
        s->v[i] = reshape(
            s, tc_build_reduce(b, pairs_of(s, v, j), 2, i ? "or" : "min"),
            half);
    }
    s->n /= 2;
}

static void merge(network *s, int64_t k)
{
    for (int64_t j = k / 2; j; j /= 2)
        exchange(s, j, k);
}

static void sort_first(network *s, int64_t first)
{
    for (int64_t k = 2; k <= first; k *= 2)
        merge(s, k);
    while (s->n > first) {
        halve(s, first);
        merge(s, first);
    }
}

static bool expand(tc_pass_env *env, tc_op *op)
{
    if (op->code != TC_SORT)
        return false;
    network s = {tc_builder_before(op),
                 env->cx,
                 (unsigned)tc_op_int(op, "axis"),
                 op->nin,
                 0,
                 NULL};
    s.n = tc_dim_value(op->in[0]->type->dims[s.axis]);
    s.v = tc_arena_array(env->scratch, tc_value *, op->nin);
    bool descending = tc_op_int(op, "descending");
    s.v[0] = key_of(&s, op->in[0], descending);
    for (unsigned i = 1; i < op->nin; i++)
        s.v[i] = tc_build_bitcast(&s.b, op->in[i],
                                  tc_bits_type(s.cx, op->in[i]->type));
    sort_first(&s, tc_dim_value(op->out[0]->type->dims[s.axis]));
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->out[i]->type;
        tc_value *v = i ? tc_build_bitcast(&s.b, s.v[i], t)
                        : value_of(&s, s.v[i], t, descending);
        if (!v->name)
            v->name = op->out[i]->name;
        tc_value_replace(op->out[i], v);
    }
    tc_op_erase(op);
    return true;
}

tc_change tc_pass_expand_sorts(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, expand);
}
