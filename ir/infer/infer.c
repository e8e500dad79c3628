/* SPDX-License-Identifier: Apache-2.0
 *
 * The types of an op's results. "=" and ":" of ops.def are generic; "!" and "*"
 * have a rule in `rules` below. Parser, builder and verifier all ask here, so
 * that a rule is written once.
 */
#include "ir/infer/infer.h"
#include "ir/types/layout.h"

#include <assert.h>

/* ---- What rules share ---- */

bool tc_results_add(tc_results *r, const tc_type *t)
{
    r->types[r->n++] = t;
    return true;
}

const tc_type *tc_infer_tile(const tc_op *op, unsigned rank,
                             const tc_dim *const *dims, const tc_type *elem)
{
    return tc_type_shaped(tc_op_context(op), TC_TILE, rank, dims, elem);
}

const tc_type *tc_infer_placed(const tc_op *op, const tc_type *t,
                               const tc_layout *layout)
{
    return layout ? tc_type_with_layout(tc_op_context(op), t, layout) : t;
}

bool tc_infer_check_axis(const tc_op *op, const char *attr, unsigned count)
{
    int64_t axis = tc_op_int(op, attr);
    return (axis >= 0 && axis < count) ||
           tc_error(tc_op_context(op), op->loc,
                    "%s: %s %lld is out of range, expected 0 to %d",
                    tc_op_name(op), attr, (long long)axis, (int)count - 1);
}

/* ---- Rules ---- */

static const tc_type *i32_type(const tc_op *op)
{
    return tc_type_scalar(tc_op_context(op), TC_I32);
}

static bool rule_grid_axis(const tc_op *op, tc_results *r)
{
    return tc_infer_check_axis(op, "axis", TC_MAX_GRID_AXES) &&
           tc_results_add(r, i32_type(op));
}

static bool rule_dim(const tc_op *op, tc_results *r)
{
    const tc_attr *a = tc_op_attr(op, "value");
    if (a->n != 1 || !a->dims[0])
        return tc_error(tc_op_context(op), op->loc,
                        "dim: expected one size expression");
    return tc_results_add(r, i32_type(op));
}

static bool rule_size(const tc_op *op, tc_results *r)
{
    tc_kind k = op->code == TC_SIZE ? TC_I32 : TC_I64;
    return tc_infer_check_axis(op, "dim", op->in[0]->type->rank) &&
           tc_results_add(r, tc_type_scalar(tc_op_context(op), k));
}

static bool rule_base(const tc_op *op, tc_results *r)
{
    if (tc_kind_is_packed(op->in[0]->type->elem->kind))
        return tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                        "base: operand 0 is %s, expected elements of whole "
                        "bytes: half a byte has no address",
                        tc_op_in_type(op, 0));
    return tc_results_add(
        r, tc_type_ptr(tc_op_context(op), op->in[0]->type->elem));
}

/* An offset of a block: a scalar, or, of a dim without a side, a tile in the
 * shape of the other ones. */
static bool check_offset(const tc_op *op, unsigned dim, const tc_type *like)
{
    const tc_type *t = op->in[1 + dim]->type;
    tc_context *cx = tc_op_context(op);
    tc_kind kind = tc_type_elem(t)->kind;
    const char *got = tc_op_in_type(op, 1 + dim);
    if (kind != TC_I32 && kind != TC_I64)
        return tc_error(cx, tc_op_in_loc(op, 1 + dim),
                        "block: offset %u is %s, expected i32 or i64, or a "
                        "tile of them",
                        dim, got);
    if (t->kind != TC_TILE)
        return true;
    if (tc_op_attr(op, "sides")->dims[dim])
        return tc_error(cx, tc_op_in_loc(op, 1 + dim),
                        "block: offset %u is %s, and a side follows it: with a "
                        "side an offset is a scalar",
                        dim, got);
    return tc_type_same_shape(t, like) ||
           tc_error(cx, tc_op_in_loc(op, 1 + dim),
                    "block: offset %u is %s, expected indices in the shape of "
                    "%s",
                    dim, got, tc_type_name(cx, like));
}

static bool rule_block(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = op->in[0]->type;
    const tc_attr *sides = tc_op_attr(op, "sides");
    if (op->nin != 1 + t->rank || sides->n != t->rank)
        return tc_error(cx, op->loc,
                        "block: %u given, expected %u offsets, one a dim of %s",
                        op->nin - 1, t->rank, tc_op_in_type(op, 0));
    const tc_value *index = tc_block_index(op);
    const tc_dim *dims[2 * TC_MAX_RANK];
    unsigned first = index ? index->type->rank : 0, rank = first;
    for (unsigned i = 0; i < first; i++)
        dims[i] = index->type->dims[i];
    bool ok = true;
    for (unsigned i = 0; i < sides->n; i++) {
        ok &= check_offset(op, i, index ? index->type : NULL);
        if (sides->dims[i])
            dims[rank++] = sides->dims[i];
    }
    if (rank == first)
        return tc_error(cx, op->loc,
                        "block: no side is given, expected `offset +: side` "
                        "for at least one dim");
    if (rank > TC_MAX_RANK)
        return tc_error(cx, op->loc,
                        "block: %u axes of indices and %u of sides, expected "
                        "at most %d in all",
                        first, rank - first, TC_MAX_RANK);
    if (!ok)
        return false;
    return tc_results_add(
        r, tc_type_shaped(cx, TC_BLOCK_PTR, rank, dims, t->elem));
}

static bool rule_load(const tc_op *op, tc_results *r)
{
    const tc_type *t = tc_type_pointee(tc_op_context(op), op->in[0]->type);
    const tc_type *stated = r->nstated == 1 ? r->stated[0] : NULL;
    /* A block pointer leaves the layout to the text. */
    if (op->in[0]->type->kind == TC_BLOCK_PTR && stated &&
        stated->kind == TC_TILE && tc_type_same_sides(stated, t))
        t = tc_infer_placed(op, t, stated->layout);
    return tc_results_add(r, t);
}

static bool rule_gather(const tc_op *op, tc_results *r)
{
    const tc_type *t = op->in[0]->type;
    if (op->nin != 1 + t->rank)
        return tc_error(
            tc_op_context(op), op->loc,
            "gather: %u given, expected %u indices, one a dim of %s",
            op->nin - 1, t->rank, tc_op_in_type(op, 0));
    const tc_type *like = t->rank ? op->in[1]->type : t->elem;
    for (unsigned i = 1; i < op->nin; i++) {
        tc_kind k = tc_type_elem(op->in[i]->type)->kind;
        if ((k != TC_I32 && k != TC_I64) ||
            !tc_type_same_shape(op->in[i]->type, like))
            return tc_error(tc_op_context(op), tc_op_in_loc(op, i),
                            "gather: index %u is %s, expected i32 or i64 in "
                            "the shape of %s",
                            i - 1, tc_op_in_type(op, i),
                            tc_type_name(tc_op_context(op), like));
    }
    return tc_results_add(r,
                          tc_type_with_elem(tc_op_context(op), like, t->elem));
}

static bool rule_bisect(const tc_op *op, tc_results *r)
{
    const tc_type *t = op->in[0]->type, *x = op->in[1]->type;
    tc_kind k = t->elem->kind;
    if (t->rank != 1 || (k != TC_I32 && k != TC_I64))
        return tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                        "bisect: operand 0 is %s, expected a tensor of one "
                        "dim, of i32 or i64",
                        tc_op_in_type(op, 0));
    if (tc_type_elem(x) != t->elem)
        return tc_error(tc_op_context(op), tc_op_in_loc(op, 1),
                        "bisect: operand 1 is %s, expected elements of %s",
                        tc_op_in_type(op, 1),
                        tc_type_name(tc_op_context(op), t->elem));
    const tc_type *i32 = tc_type_scalar(tc_op_context(op), TC_I32);
    return tc_results_add(r, tc_type_with_elem(tc_op_context(op), x, i32));
}

static bool is_dot_int(const tc_type *elem)
{
    return elem->kind == TC_I8 || elem->kind == TC_U8;
}

static bool is_dot_elem(const tc_type *elem)
{
    return elem->kind == TC_TYPE_PARAM || is_dot_int(elem) ||
           tc_kind_is_float(elem->kind);
}

/* Products of i8 and u8, and of f64, have sums of their own; of one such type
 * and of another type there are none. */
static bool are_dot_elems(const tc_type *a, const tc_type *b)
{
    bool open = a->kind == TC_TYPE_PARAM || b->kind == TC_TYPE_PARAM;
    bool apart = a->kind == TC_F64 || b->kind == TC_F64 || is_dot_int(a) ||
                 is_dot_int(b);
    return open || a == b || !apart || (is_dot_int(a) && is_dot_int(b));
}

static tc_kind dot_sum(const tc_type *a)
{
    return a->kind == TC_F64 ? TC_F64 : is_dot_int(a) ? TC_I32 : TC_F32;
}

static bool may_be(const tc_type *elem, tc_kind kind)
{
    return elem->kind == kind || elem->kind == TC_TYPE_PARAM;
}

/* The element type of the result: that of the accumulator where the operands
 * leave a choice, else the one that they have. Compile-time types are a choice
 * until they are bound. */
static const tc_type *dot_elem(const tc_op *op)
{
    const tc_type *a = op->in[0]->type->elem, *b = op->in[1]->type->elem;
    const tc_type *sum = tc_type_scalar(tc_op_context(op), dot_sum(a));
    if (op->nin < 3)
        return sum;
    const tc_type *c = op->in[2]->type->elem;
    bool open = a->kind == TC_TYPE_PARAM || b->kind == TC_TYPE_PARAM;
    bool fits = c->kind == TC_TYPE_PARAM ||
                (c->kind == TC_F16 && may_be(a, TC_F16) && may_be(b, TC_F16)) ||
                (open && (c->kind == TC_F64 || c->kind == TC_I32));
    return fits ? c : sum;
}

static bool check_dot_shapes(const tc_op *op)
{
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type;
    unsigned r = a->rank;
    bool fits = (r == 2 || r == 3) && b->rank == r &&
                a->dims[r - 1] == b->dims[r - 2] &&
                (r == 2 || a->dims[0] == b->dims[0]);
    return fits ||
           tc_error(tc_op_context(op), op->loc,
                    "dot: operands are %s and %s, expected [M, K] and [K, N] "
                    "with the same K, or [B, M, K] and [B, K, N] with the same "
                    "B and K",
                    tc_op_in_type(op, 0), tc_op_in_type(op, 1));
}

static bool check_dot_elems(const tc_op *op)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type;
    if (!is_dot_elem(a->elem) || !is_dot_elem(b->elem))
        return tc_error(
            cx, op->loc,
            "dot: operands are %s and %s, expected floats, i8 or u8",
            tc_op_in_type(op, 0), tc_op_in_type(op, 1));
    if (!are_dot_elems(a->elem, b->elem))
        return tc_error(cx, op->loc,
                        "dot: operands are %s and %s, expected both f64 or "
                        "neither, both i8 or u8 or neither",
                        tc_op_in_type(op, 0), tc_op_in_type(op, 1));
    if (!tc_op_is_word(op, "unsigned", "none") && a->elem->kind != TC_I8)
        return tc_error(cx, op->loc,
                        "dot: unsigned(%s) of %s, expected i8: u8 needs no "
                        "attribute",
                        tc_op_word(op, "unsigned"), tc_op_in_type(op, 0));
    return true;
}

static bool rule_dot(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    if (!check_dot_shapes(op) || !check_dot_elems(op))
        return false;
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type;
    unsigned rank = a->rank;
    const tc_dim *dims[] = {a->dims[0], a->dims[rank - 2], b->dims[rank - 1]};
    const tc_type *t = tc_infer_tile(op, rank, dims + 3 - rank, dot_elem(op));
    if (op->nin == 3 && op->in[2]->type != t)
        return tc_error(cx, tc_op_in_loc(op, 2),
                        op->in[2]->type->elem->kind == TC_F16
                            ? "dot: accumulator is %s, expected %s: only "
                              "products of f16 by f16 are added in f16"
                            : "dot: accumulator is %s, expected %s",
                        tc_op_in_type(op, 2), tc_type_name(cx, t));
    return tc_results_add(r, t);
}

/* Is it a maximum of floats that permits slack (max_slack)? */
static bool check_max_slack(const tc_op *op)
{
    int64_t slack = tc_op_int(op, "max_slack");
    if (slack == 0 || (slack > 0 && tc_op_is_word(op, "kind", "max") &&
                       tc_type_is_float(op->in[0]->type->elem)))
        return true;
    return tc_error(tc_op_context(op), op->loc,
                    "reduce: max_slack(%lld), expected a maximum of floats "
                    "and a positive number",
                    (long long)slack);
}

/* Bitwise kinds want ints or i1, the others numbers. */
static bool check_combined_elem(const tc_op *op)
{
    static const char *const bitwise[] = {"and", "or", "xor"};
    const tc_type *elem = tc_type_elem(op->in[0]->type);
    if (tc_op_is_word(op, "kind", "region"))
        return true;
    bool bits = false;
    for (int i = 0; i < 3; i++)
        bits |= tc_op_is_word(op, "kind", bitwise[i]);
    bool fits = bits ? tc_type_is_int(elem) || tc_type_is_bool(elem)
                     : tc_type_is_int(elem) || tc_type_is_float(elem);
    return fits ||
           tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                    "%s: operand is %s, expected %s for kind(%s)",
                    tc_op_name(op), tc_op_in_type(op, 0),
                    bits ? "ints or i1" : "numbers", tc_op_word(op, "kind"));
}

bool tc_infer_check_combined(const tc_op *op)
{
    tc_context *cx = tc_op_context(op);
    unsigned n = tc_op_ncombined(op);
    if (n == 0)
        return tc_error(cx, op->loc, "%s: expected an operand", tc_op_name(op));
    const tc_type *first = op->in[0]->type;
    if (!tc_infer_check_axis(op, "axis", first->rank))
        return false;
    bool region = tc_op_is_word(op, "kind", "region");
    if (region != (op->nregions == 1))
        return tc_error(cx, op->loc,
                        region ? "%s: expected a kind, as kind(sum), or a "
                                 "combining region"
                               : "%s: a kind and a region are given, expected "
                                 "one of them",
                        tc_op_name(op));
    if (!region && n != 1)
        return tc_error(cx, op->loc,
                        "%s: %u operands, expected 1 (a region combines "
                        "several)",
                        tc_op_name(op), n);
    for (unsigned i = 1; i < n; i++)
        if (!tc_type_same_shape(op->in[i]->type, first))
            return tc_error(cx, tc_op_in_loc(op, i),
                            "%s: operand %u is %s, expected the shape of %s",
                            tc_op_name(op), i, tc_op_in_type(op, i),
                            tc_op_in_type(op, 0));
    return check_combined_elem(op);
}

static bool rule_reduce(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    if (!tc_infer_check_combined(op) || !check_max_slack(op))
        return false;
    const tc_type *first = op->in[0]->type;
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (!tc_op_is_word(op, "within", "block"))
        return tc_infer_partial(op, r);
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < first->rank; i++)
        if (i != axis)
            dims[i - (i > axis)] = first->dims[i];
    const tc_layout *layout = first->layout && first->rank > 1
                                  ? tc_layout_slice(cx, first->layout, axis)
                                  : NULL;
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        tc_results_add(
            r, first->rank == 1
                   ? t->elem
                   : tc_infer_placed(
                         op, tc_infer_tile(op, first->rank - 1, dims, t->elem),
                         layout));
    }
    return true;
}

static bool rule_cmp(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = op->in[0]->type;
    if (tc_op_word(op, "pred")[0] == 'u' && !tc_type_is_int(t))
        return tc_error(cx, op->loc,
                        "cmp: operands are %s, expected ints for %s",
                        tc_op_in_type(op, 0), tc_op_word(op, "pred"));
    return tc_results_add(r,
                          tc_type_with_elem(cx, t, tc_type_scalar(cx, TC_I1)));
}

static bool rule_select(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = op->in[1]->type;
    if (op->in[2]->type != t)
        return tc_error(cx, op->loc,
                        "select: operands are %s and %s, expected one type",
                        tc_op_in_type(op, 1), tc_op_in_type(op, 2));
    /* A scalar condition chooses between whole values of any type. */
    if (op->in[0]->type->kind == TC_TILE &&
        !tc_type_same_shape(op->in[0]->type, t))
        return tc_error(cx, tc_op_in_loc(op, 0),
                        "select: condition is %s, expected the shape of %s",
                        tc_op_in_type(op, 0), tc_op_in_type(op, 1));
    return tc_results_add(r, t);
}

static bool rule_atomic(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *t = tc_type_pointee(cx, op->in[0]->type);
    if (op->code == TC_ATOMIC) {
        static const char *const bitwise[] = {"and", "or", "xor"};
        bool bits = false;
        for (int i = 0; i < 3; i++)
            bits |= tc_op_is_word(op, "kind", bitwise[i]);
        if (bits && !tc_type_is_int(t))
            return tc_error(cx, op->loc,
                            "atomic: value is %s, expected ints for kind(%s)",
                            tc_type_name(cx, t), tc_op_word(op, "kind"));
    }
    if (!tc_type_is_int(t) && !tc_type_is_float(t))
        return tc_error(cx, op->loc, "%s: value is %s, expected numbers",
                        tc_op_name(op), tc_type_name(cx, t));
    return tc_results_add(r, t);
}

static bool rule_for(const tc_op *op, tc_results *r)
{
    const tc_type *lo = op->in[0]->type;
    if (op->in[1]->type != lo || op->in[2]->type != lo)
        return tc_error(tc_op_context(op), op->loc,
                        "for: bounds and step are %s, %s and %s, expected one "
                        "type",
                        tc_op_in_type(op, 0), tc_op_in_type(op, 1),
                        tc_op_in_type(op, 2));
    for (unsigned i = 3; i < op->nin; i++)
        tc_results_add(r, op->in[i]->type);
    return true;
}

static bool rule_while(const tc_op *op, tc_results *r)
{
    for (unsigned i = 0; i < op->nin; i++)
        tc_results_add(r, op->in[i]->type);
    return true;
}

/* The branches determine the results. */
static bool rule_if(const tc_op *op, tc_results *r)
{
    tc_op *yield = op->nregions ? tc_region_terminator(op->regions[0]) : NULL;
    for (unsigned i = 0; yield && i < yield->nin; i++)
        tc_results_add(r, yield->in[i]->type);
    return true;
}

/* ---- Types that the text states ---- */

static bool rule_const(const tc_op *op, tc_results *r)
{
    const tc_type *t = r->types[0];
    if (!tc_type_is_scalar(t) || t->kind == TC_PTR ||
        tc_kind_is_stored(t->kind))
        return tc_error(tc_op_context(op), op->loc,
                        "const: type is %s, expected an int or float type",
                        tc_type_name(tc_op_context(op), t));
    if (tc_op_attr(op, "value")->number.is_float && !tc_type_is_float(t))
        return tc_error(tc_op_context(op), op->loc,
                        "const: a float literal cannot be %s",
                        tc_type_name(tc_op_context(op), t));
    return true;
}

static bool rule_cast(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    if (tc_type_is_scalar(to) && from->kind == TC_TILE)
        to = r->types[0] = tc_type_with_elem(cx, from, to);
    const tc_type *a = tc_type_elem(from), *b = tc_type_elem(to);
    bool pointers = a->kind == TC_PTR || b->kind == TC_PTR;
    bool fits = tc_type_same_shape(from, to) &&
                (tc_type_is_scalar(to) || to->kind == TC_TILE);
    if (fits && op->code == TC_CAST)
        fits = !pointers;
    else if (fits)
        fits = tc_type_may_bitcast(a, b);
    const char *expected = op->code == TC_CAST
                               ? "ints or floats in the same shape"
                           : pointers ? "an i64 for a pointer"
                                      : "an element of the same width";
    return fits || tc_error(cx, op->loc, "%s: %s cannot become %s, expected %s",
                            tc_op_name(op), tc_op_in_type(op, 0),
                            tc_type_name(cx, to), expected);
}

static tc_infer_fn *const rules[TC_OPCODE_COUNT] = {
    [TC_FOR] = rule_for,
    [TC_IF] = rule_if,
    [TC_WHILE] = rule_while,
    [TC_CALL] = tc_infer_call,
    [TC_VJP] = tc_infer_vjp,
    [TC_CONST] = rule_const,
    [TC_DIM] = rule_dim,
    [TC_PROGRAM_ID] = rule_grid_axis,
    [TC_NUM_PROGRAMS] = rule_grid_axis,
    [TC_SIZE] = rule_size,
    [TC_STRIDE] = rule_size,
    [TC_BASE] = rule_base,
    [TC_MAKE_TENSOR] = tc_infer_make_tensor,
    [TC_BLOCK] = rule_block,
    [TC_LOAD] = rule_load,
    [TC_GATHER] = rule_gather,
    [TC_BISECT] = rule_bisect,
    [TC_ATOMIC] = rule_atomic,
    [TC_ATOMIC_CAS] = rule_atomic,
    [TC_SPLAT] = tc_infer_splat,
    [TC_RANGE] = tc_infer_range,
    [TC_RAMP] = tc_infer_ramp,
    [TC_EXPAND_DIMS] = tc_infer_expand_dims,
    [TC_BROADCAST] = tc_infer_broadcast,
    [TC_TRANS] = tc_infer_trans,
    [TC_RESHAPE] = tc_infer_reshape,
    [TC_SLICE] = tc_infer_slice,
    [TC_JOIN] = tc_infer_join,
    [TC_INTERLEAVE] = tc_infer_interleave,
    [TC_TAKE] = tc_infer_take,
    [TC_SMEM_TAKE] = tc_infer_take,
    [TC_HISTOGRAM] = tc_infer_histogram,
    [TC_DOT] = rule_dot,
    [TC_REDUCE] = rule_reduce,
    [TC_SCAN] = tc_infer_scan,
    [TC_SCAN_CARRY] = tc_infer_scan_carry,
    [TC_SORT] = tc_infer_sort,
    [TC_CMP] = rule_cmp,
    [TC_SELECT] = rule_select,
    [TC_CAST] = rule_cast,
    [TC_BITCAST] = rule_cast,
    [TC_CONVERT_LAYOUT] = tc_infer_convert_layout,
    [TC_MMA] = tc_infer_mma,
    [TC_MMA_WAIT] = tc_infer_mma_wait,
    [TC_MBARRIER_ALLOC] = tc_infer_mbarrier_alloc,
    [TC_SMEM_LOAD_SCALAR] = tc_infer_smem_load_scalar,
    [TC_NUM_SMS] = tc_infer_i32,
    [TC_WARPGROUP_ROW] = tc_infer_i32,
    [TC_NEXT_TILE] = tc_infer_i32,
    [TC_SMEM_ALLOC] = tc_infer_smem_alloc,
    [TC_SMEM_INDEX] = tc_infer_smem_index,
    [TC_SMEM_TRANS] = tc_infer_trans,
    [TC_SMEM_RESHAPE] = tc_infer_smem_reshape,
    [TC_SMEM_SLICE] = tc_infer_slice,
    [TC_SMEM_LOAD] = tc_infer_smem_load,
};

/* and, or, xor, not: of ints and i1 only, which no letter says. */
static bool check_bitwise(const tc_op *op)
{
    bool bitwise = op->code == TC_AND || op->code == TC_OR ||
                   op->code == TC_XOR || op->code == TC_NOT;
    const tc_type *t = bitwise ? op->in[0]->type : NULL;
    return !bitwise || tc_type_is_int(t) || tc_type_is_bool(t) ||
           tc_error(tc_op_context(op), tc_op_in_loc(op, 0),
                    "%s: operand is %s, expected ints or i1", tc_op_name(op),
                    tc_op_in_type(op, 0));
}

/* Room for the most results that an op can have. */
static unsigned room_for_results(const tc_op *op)
{
    unsigned n = 8 + op->nin;
    tc_op *yield = op->nregions ? tc_region_terminator(op->regions[0]) : NULL;
    if (yield)
        n += yield->nin;
    if (op->code == TC_CALL) {
        const char *callee = tc_op_word(op, "callee");
        const tc_func *f = tc_op_callee(op);
        const tc_param *p = callee ? tc_func_param(op->func, callee) : NULL;
        n += (f ? f->nresults : 0) + (p ? p->nouts : 0);
    }
    return n;
}

static bool result_types(const tc_op *op, tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    const char *out = tc_op_infos[op->code].out;
    r->types = tc_arena_array(&op->func->module->arena, const tc_type *,
                              room_for_results(op));
    if (*out == '=')
        tc_results_add(r, op->in[0]->type);
    if (*out == ':') {
        if (r->nstated != 1 || !r->stated[0])
            return tc_error(cx, op->loc,
                            "%s: the type of the result must be stated, as "
                            "`: tile<64 x f32>`",
                            tc_op_name(op));
        tc_results_add(r, r->stated[0]);
    }
    return check_bitwise(op) && (!rules[op->code] || rules[op->code](op, r));
}

static bool check_stated(const tc_op *op, const tc_results *r)
{
    tc_context *cx = tc_op_context(op);
    if (r->nstated && r->nstated != r->n)
        return tc_error(cx, op->loc, "%s: %u result type%s stated, expected %u",
                        tc_op_name(op), r->nstated, r->nstated == 1 ? "" : "s",
                        r->n);
    for (unsigned i = 0; i < r->nstated; i++) {
        const tc_type *stated = r->stated[i];
        /* An element type on a cast means a tile of it. */
        bool short_form = *tc_op_infos[op->code].out == ':';
        if (stated && stated != r->types[i] && !short_form)
            return tc_error(cx, op->loc,
                            "%s: result %u is %s, but %s is stated",
                            tc_op_name(op), i, tc_type_name(cx, r->types[i]),
                            tc_type_name(cx, stated));
    }
    return true;
}

bool tc_op_infer(tc_op *op, unsigned nstated, const tc_type *const *stated)
{
    tc_results r = {nstated, stated, 0, NULL};
    if (!tc_op_check_signature(op) || !result_types(op, &r))
        return false;
    /* tc_build states NULL for "as inferred", whatever the count. */
    if (nstated == 1 && !stated[0])
        r.nstated = 0;
    if (!check_stated(op, &r))
        return false;
    tc_op_set_results(op, r.n, r.types);
    return true;
}

bool tc_op_check_results(const tc_op *op)
{
    unsigned n = op->nout;
    const tc_type **own =
        tc_arena_array(&op->func->module->arena, const tc_type *, n);
    for (unsigned i = 0; i < n; i++)
        own[i] = op->out[i]->type;
    tc_results r = {n, own, 0, NULL};
    if (!result_types(op, &r))
        return false;
    tc_context *cx = tc_op_context(op);
    if (r.n != n)
        return tc_error(cx, op->loc, "%s: %u result%s, expected %u",
                        tc_op_name(op), n, n == 1 ? "" : "s", r.n);
    for (unsigned i = 0; i < n; i++)
        if (own[i] != r.types[i])
            return tc_error(cx, op->loc, "%s: result %u is %s, expected %s",
                            tc_op_name(op), i, tc_type_name(cx, own[i]),
                            tc_type_name(cx, r.types[i]));
    return true;
}
