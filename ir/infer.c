/* SPDX-License-Identifier: Apache-2.0
 *
 * What an op's results are. "=" and ":" of ops.def are generic; "!" and "*"
 * have a rule in `rules` below. Parser, builder and verifier all ask here, so
 * that a rule is written once.
 */
#include "ir/ir.h"
#include "ir/layout.h"

#include <assert.h>
#include <string.h>

static tc_context *context_of(const tc_op *op)
{
    return op->func->module->cx;
}

static const char *name_of(const tc_op *op)
{
    return tc_op_infos[op->code].name;
}

static const char *type_of(const tc_op *op, unsigned i)
{
    return tc_type_name(context_of(op), op->in[i]->type);
}

/* ---- Results ---- */

/* What a rule sees and fills in. `stated[i]` may be NULL. */
typedef struct results {
    unsigned nstated;
    const tc_type *const *stated;
    unsigned n;
    const tc_type **types; /* room for as many as the op may have */
} results;

typedef bool rule_fn(const tc_op *op, results *r);

static bool one(results *r, const tc_type *t)
{
    r->types[r->n++] = t;
    return true;
}

static const tc_type *i32_type(const tc_op *op)
{
    return tc_type_scalar(context_of(op), TC_I32);
}

static const tc_type *tile_type(const tc_op *op, unsigned rank,
                                const tc_dim *const *dims, const tc_type *elem)
{
    return tc_type_shaped(context_of(op), TC_TILE, rank, dims, elem);
}

/* The type in a layout that follows from an operand's; none: as it is. */
static const tc_type *placed(const tc_op *op, const tc_type *t,
                             const tc_layout *layout)
{
    return layout ? tc_type_with_layout(context_of(op), t, layout) : t;
}

static bool check_axis(const tc_op *op, const char *attr, unsigned count)
{
    int64_t axis = tc_op_int(op, attr);
    return (axis >= 0 && axis < count) ||
           tc_error(context_of(op), op->loc,
                    "%s: %s %lld is out of range, expected 0 to %d",
                    name_of(op), attr, (long long)axis, (int)count - 1);
}

static bool rule_grid_axis(const tc_op *op, results *r)
{
    return check_axis(op, "axis", 3) && one(r, i32_type(op));
}

static bool rule_dim(const tc_op *op, results *r)
{
    const tc_attr *a = tc_op_attr(op, "value");
    if (a->n != 1 || !a->dims[0])
        return tc_error(context_of(op), op->loc,
                        "dim: expected one size expression");
    return one(r, i32_type(op));
}

static bool rule_size(const tc_op *op, results *r)
{
    tc_kind k = op->code == TC_SIZE ? TC_I32 : TC_I64;
    return check_axis(op, "dim", op->in[0]->type->rank) &&
           one(r, tc_type_scalar(context_of(op), k));
}

static bool rule_base(const tc_op *op, results *r)
{
    return one(r, tc_type_ptr(context_of(op), op->in[0]->type->elem));
}

static bool rule_block(const tc_op *op, results *r)
{
    const tc_type *t = op->in[0]->type;
    const tc_attr *sides = tc_op_attr(op, "sides");
    if (op->nin != 1 + t->rank || sides->n != t->rank)
        return tc_error(context_of(op), op->loc,
                        "block: %u given, expected %u offsets, one a dim of %s",
                        op->nin - 1, t->rank, type_of(op, 0));
    const tc_dim *dims[TC_MAX_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < sides->n; i++)
        if (sides->dims[i])
            dims[rank++] = sides->dims[i];
    if (rank == 0)
        return tc_error(context_of(op), op->loc,
                        "block: no side is given, expected `offset +: side` "
                        "for at least one dim");
    return one(
        r, tc_type_shaped(context_of(op), TC_BLOCK_PTR, rank, dims, t->elem));
}

static bool rule_load(const tc_op *op, results *r)
{
    const tc_type *t = tc_type_pointee(context_of(op), op->in[0]->type);
    const tc_type *stated = r->nstated == 1 ? r->stated[0] : NULL;
    /* A block pointer leaves the layout to the text. */
    if (op->in[0]->type->kind == TC_BLOCK_PTR && stated &&
        stated->kind == TC_TILE && tc_type_same_sides(stated, t))
        t = placed(op, t, stated->layout);
    return one(r, t);
}

static bool rule_gather(const tc_op *op, results *r)
{
    const tc_type *t = op->in[0]->type;
    if (op->nin != 1 + t->rank)
        return tc_error(
            context_of(op), op->loc,
            "gather: %u given, expected %u indices, one a dim of %s",
            op->nin - 1, t->rank, type_of(op, 0));
    const tc_type *like = t->rank ? op->in[1]->type : t->elem;
    for (unsigned i = 1; i < op->nin; i++) {
        tc_kind k = tc_type_elem(op->in[i]->type)->kind;
        if ((k != TC_I32 && k != TC_I64) ||
            !tc_type_same_shape(op->in[i]->type, like))
            return tc_error(context_of(op), op->loc,
                            "gather: index %u is %s, expected i32 or i64 in "
                            "the shape of %s",
                            i - 1, type_of(op, i),
                            tc_type_name(context_of(op), like));
    }
    return one(r, tc_type_with_elem(context_of(op), like, t->elem));
}

static bool rule_expand_dims(const tc_op *op, results *r)
{
    const tc_type *t = op->in[0]->type;
    if (t->rank == TC_MAX_RANK)
        return tc_error(context_of(op), op->loc,
                        "expand_dims: %s has %d axes, which is the most",
                        type_of(op, 0), TC_MAX_RANK);
    if (!check_axis(op, "axis", t->rank + 1))
        return false;
    const tc_dim *dims[TC_MAX_RANK];
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    for (unsigned i = 0; i < t->rank; i++)
        dims[i + (i >= axis)] = t->dims[i];
    dims[axis] = tc_dim_const(context_of(op), 1);
    return one(r, placed(op, tile_type(op, t->rank + 1, dims, t->elem),
                         t->layout
                             ? tc_layout_expand(context_of(op), t->layout, axis)
                             : NULL));
}

static bool rule_trans(const tc_op *op, results *r)
{
    const tc_type *t = op->in[0]->type;
    const tc_attr *perm = tc_op_attr(op, "perm");
    const tc_dim *dims[TC_MAX_RANK];
    unsigned seen = 0, order[TC_MAX_RANK] = {0};
    if (perm->kind == TC_ATTR_NONE && t->rank < 2)
        return tc_error(context_of(op), op->loc,
                        "%s: operand is %s, expected at least two axes",
                        name_of(op), type_of(op, 0));
    for (unsigned i = 0; i < t->rank; i++) {
        /* No perm: the last two swap. */
        int64_t from = i + 2 < t->rank ? i : 2 * t->rank - 3 - i;
        if (perm->kind != TC_ATTR_NONE)
            from = i < perm->n ? perm->ints[i] : -1;
        if (from >= 0 && from < t->rank) {
            seen |= 1u << from;
            dims[i] = t->dims[from];
            order[i] = (unsigned)from;
        }
    }
    if (seen != (1u << t->rank) - 1 ||
        (perm->kind != TC_ATTR_NONE && perm->n != t->rank))
        return tc_error(context_of(op), op->loc,
                        "%s: perm is no permutation of the %u axes of %s",
                        name_of(op), t->rank, type_of(op, 0));
    const tc_type *tile = tile_type(op, t->rank, dims, t->elem);
    const tc_layout *layout =
        t->layout ? tc_layout_trans(context_of(op), t->layout, order) : NULL;
    return one(r, t->kind == TC_SMEM
                      ? tc_type_smem(context_of(op), tile, layout, t->slots)
                      : placed(op, tile, layout));
}

static bool is_dot_elem(const tc_type *elem)
{
    return elem->kind == TC_TYPE_PARAM ||
           (elem->kind >= TC_F8E4M3 && elem->kind <= TC_F64);
}

static bool rule_dot(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type;
    if (a->rank != 2 || b->rank != 2 || a->dims[1] != b->dims[0])
        return tc_error(cx, op->loc,
                        "dot: operands are %s and %s, expected [M, K] and "
                        "[K, N] with the same K",
                        type_of(op, 0), type_of(op, 1));
    if (!is_dot_elem(a->elem) || !is_dot_elem(b->elem))
        return tc_error(cx, op->loc,
                        "dot: operands are %s and %s, expected floats",
                        type_of(op, 0), type_of(op, 1));
    bool wide = a->elem->kind == TC_F64;
    if (wide != (b->elem->kind == TC_F64) && a->elem->kind != TC_TYPE_PARAM &&
        b->elem->kind != TC_TYPE_PARAM)
        return tc_error(cx, op->loc,
                        "dot: operands are %s and %s, expected both f64 or "
                        "neither",
                        type_of(op, 0), type_of(op, 1));
    const tc_dim *dims[] = {a->dims[0], b->dims[1]};
    const tc_type *t =
        tile_type(op, 2, dims, tc_type_scalar(cx, wide ? TC_F64 : TC_F32));
    if (op->nin == 3 && op->in[2]->type != t)
        return tc_error(cx, op->loc, "dot: accumulator is %s, expected %s",
                        type_of(op, 2), tc_type_name(cx, t));
    return one(r, t);
}

/* Within warps only: the axis stays, with a part for each warp along it. */
static bool partial_results(const tc_op *op, unsigned axis, results *r)
{
    tc_context *cx = context_of(op);
    const tc_type *first = op->in[0]->type;
    if (!first->layout)
        return tc_error(cx, op->loc,
                        "reduce: partial(true) of %s, expected a tile with a "
                        "layout",
                        type_of(op, 0));
    const tc_layout *layout = tc_layout_partial(cx, first->layout, axis);
    const tc_dim *dims[TC_MAX_RANK];
    memcpy(dims, first->dims, first->rank * sizeof *dims);
    dims[axis] = tc_dim_const(cx, layout->shape[axis]);
    for (unsigned i = 0; i < op->nin; i++)
        one(r,
            placed(op, tile_type(op, first->rank, dims, op->in[i]->type->elem),
                   layout));
    return true;
}

static bool rule_reduce(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
    if (op->nin == 0)
        return tc_error(cx, op->loc, "reduce: expected an operand");
    const tc_type *first = op->in[0]->type;
    if (!check_axis(op, "axis", first->rank))
        return false;
    bool region = tc_op_is_word(op, "kind", "region");
    if (region != (op->nregions == 1))
        return tc_error(cx, op->loc,
                        region ? "reduce: expected a kind, as kind(sum), or "
                                 "a combining region"
                               : "reduce: a kind and a region are given, "
                                 "expected one of them");
    if (!region && op->nin != 1)
        return tc_error(cx, op->loc,
                        "reduce: %u operands, expected 1 (a region combines "
                        "several)",
                        op->nin);
    unsigned axis = (unsigned)tc_op_int(op, "axis");
    if (tc_op_int(op, "partial"))
        return partial_results(op, axis, r);
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < first->rank; i++)
        if (i != axis)
            dims[i - (i > axis)] = first->dims[i];
    const tc_layout *layout = first->layout && first->rank > 1
                                  ? tc_layout_slice(cx, first->layout, axis)
                                  : NULL;
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        if (!tc_type_same_shape(t, first))
            return tc_error(cx, op->loc,
                            "reduce: operand %u is %s, expected the shape of "
                            "%s",
                            i, type_of(op, i), type_of(op, 0));
        one(r, first->rank == 1
                   ? t->elem
                   : placed(op, tile_type(op, first->rank - 1, dims, t->elem),
                            layout));
    }
    return true;
}

/* Bitwise kinds want ints or i1, the others numbers. */
static bool check_reduce_elem(const tc_op *op)
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
    return fits || tc_error(context_of(op), op->loc,
                            "reduce: operand is %s, expected %s for kind(%s)",
                            type_of(op, 0), bits ? "ints or i1" : "numbers",
                            tc_op_word(op, "kind"));
}

static bool rule_reduce_checked(const tc_op *op, results *r)
{
    return rule_reduce(op, r) && check_reduce_elem(op);
}

static bool rule_cmp(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
    const tc_type *t = op->in[0]->type;
    if (tc_op_word(op, "pred")[0] == 'u' && !tc_type_is_int(t))
        return tc_error(cx, op->loc,
                        "cmp: operands are %s, expected ints for %s",
                        type_of(op, 0), tc_op_word(op, "pred"));
    return one(r, tc_type_with_elem(cx, t, tc_type_scalar(cx, TC_I1)));
}

static bool rule_select(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
    const tc_type *t = op->in[1]->type;
    if (op->in[2]->type != t)
        return tc_error(cx, op->loc,
                        "select: operands are %s and %s, expected one type",
                        type_of(op, 1), type_of(op, 2));
    /* A scalar condition chooses between whole values of any type. */
    if (op->in[0]->type->kind == TC_TILE &&
        !tc_type_same_shape(op->in[0]->type, t))
        return tc_error(cx, op->loc,
                        "select: condition is %s, expected the shape of %s",
                        type_of(op, 0), type_of(op, 1));
    return one(r, t);
}

static bool rule_atomic(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
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
                        name_of(op), tc_type_name(cx, t));
    return one(r, t);
}

static bool rule_for(const tc_op *op, results *r)
{
    const tc_type *lo = op->in[0]->type;
    if (op->in[1]->type != lo || op->in[2]->type != lo)
        return tc_error(context_of(op), op->loc,
                        "for: bounds and step are %s, %s and %s, expected one "
                        "type",
                        type_of(op, 0), type_of(op, 1), type_of(op, 2));
    for (unsigned i = 3; i < op->nin; i++)
        one(r, op->in[i]->type);
    return true;
}

static bool rule_while(const tc_op *op, results *r)
{
    for (unsigned i = 0; i < op->nin; i++)
        one(r, op->in[i]->type);
    return true;
}

/* The branches say what the results are. */
static bool rule_if(const tc_op *op, results *r)
{
    tc_op *yield = op->nregions ? tc_region_terminator(op->regions[0]) : NULL;
    for (unsigned i = 0; yield && i < yield->nin; i++)
        one(r, yield->in[i]->type);
    return true;
}

/* ---- Calls ---- */

static bool is_scalar_func(unsigned nins, const tc_type *const *ins)
{
    for (unsigned i = 0; i < nins; i++)
        if (ins[i]->kind == TC_TILE)
            return false;
    return true;
}

/* The shape that a call of a scalar function is applied in: that of the tile
 * arguments, which must agree; NULL for scalars only. Reports. */
static bool lanes_of_call(const tc_op *op, unsigned nins,
                          const tc_type *const *ins, const tc_type **lanes)
{
    *lanes = NULL;
    if (!is_scalar_func(nins, ins))
        return true;
    for (unsigned i = 0; i < op->nin; i++) {
        const tc_type *t = op->in[i]->type;
        if (t->kind != TC_TILE)
            continue;
        if (*lanes && !tc_type_same_shape(t, *lanes))
            return tc_error(context_of(op), op->loc,
                            "call: arguments are %s and %s, expected one "
                            "shape",
                            type_of(op, i),
                            tc_type_name(context_of(op), *lanes));
        *lanes = t;
    }
    return true;
}

static bool call_results(const tc_op *op, unsigned nins,
                         const tc_type *const *ins, unsigned nouts,
                         const tc_type *const *outs, tc_bindings *b, results *r)
{
    tc_context *cx = context_of(op);
    const char *callee = tc_op_word(op, "callee");
    const tc_type *lanes;
    unsigned npositional = op->nin - tc_op_attr(op, "names")->n;
    if (npositional != nins)
        return tc_error(cx, op->loc, "call: %s takes %u argument%s, found %u",
                        callee, nins, nins == 1 ? "" : "s", npositional);
    if (!lanes_of_call(op, nins, ins, &lanes))
        return false;
    bool ok = true;
    for (unsigned i = 0; i < nins; i++) {
        const tc_type *got = op->in[i]->type;
        if (lanes && ins[i]->kind != TC_TENSOR)
            got = tc_type_elem(got);
        if (!tc_type_unify(cx, ins[i], got, b))
            ok = tc_error(cx, op->loc,
                          "call: argument %u of %s is %s, expected %s", i,
                          callee, type_of(op, i),
                          tc_type_name(cx, tc_type_substitute(cx, ins[i], b)));
    }
    for (unsigned i = 0; ok && i < nouts; i++) {
        const tc_type *t = tc_type_substitute(cx, outs[i], b);
        one(r, lanes ? tc_type_with_elem(cx, lanes, t) : t);
    }
    return ok;
}

static const tc_param *param_of(const tc_func *f, const char *name)
{
    for (unsigned i = 0; i < f->nparams; i++)
        if (strcmp(f->params[i].name, name) == 0)
            return &f->params[i];
    return NULL;
}

static bool call_of_func(const tc_op *op, const tc_func *f, results *r)
{
    tc_arena *a = &op->func->module->arena;
    tc_bindings b = {f->nparams, tc_arena_array(a, const char *, f->nparams),
                     tc_arena_array(a, const tc_dim *, f->nparams),
                     tc_arena_array(a, const tc_type *, f->nparams)};
    for (unsigned i = 0; i < f->nparams; i++)
        b.names[i] = f->params[i].name;
    unsigned nins = f->body->nargs;
    const tc_type **ins = tc_arena_array(a, const tc_type *, nins);
    for (unsigned i = 0; i < nins; i++)
        ins[i] = f->body->args[i]->type;
    return call_results(op, nins, ins, f->nresults, f->results, &b, r);
}

static bool rule_call(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
    const char *callee = tc_op_word(op, "callee");
    if (callee[0] != '@') {
        const tc_param *p = param_of(op->func, callee);
        tc_bindings none = {0};
        if (!p || p->kind != TC_PARAM_FUNC)
            return tc_error(cx, op->loc,
                            "call: %s is no function parameter of @%s (a "
                            "function is called as @%s)",
                            callee, op->func->name, callee);
        return call_results(op, p->nins, p->ins, p->nouts, p->outs, &none, r);
    }
    const tc_func *f = tc_func_find(op->func->module, callee + 1);
    if (!f || f->is_kernel)
        return tc_error(cx, op->loc,
                        f ? "call: %s is a kernel, expected a func"
                          : "call: there is no function %s",
                        callee);
    if (tc_op_has_attr(op, "names"))
        return tc_error(cx, op->loc,
                        "call: named arguments are for function parameters, "
                        "%s takes its arguments by position",
                        callee);
    return call_of_func(op, f, r);
}

/* ---- Types that the text states ---- */

static bool rule_const(const tc_op *op, results *r)
{
    const tc_type *t = r->types[0];
    if (!tc_type_is_scalar(t) || t->kind == TC_PTR)
        return tc_error(context_of(op), op->loc,
                        "const: type is %s, expected an int or float type",
                        tc_type_name(context_of(op), t));
    if (tc_op_attr(op, "value")->number.is_float && !tc_type_is_float(t))
        return tc_error(context_of(op), op->loc,
                        "const: a float literal cannot be %s",
                        tc_type_name(context_of(op), t));
    return true;
}

/* ---- Machine level ---- */

/* Of a buffer and a tile. */
static bool same_dims(const tc_type *a, const tc_type *b)
{
    return a->rank == b->rank &&
           memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static bool rule_convert_layout(const tc_op *op, results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    bool fits = to->kind == TC_TILE && to->layout && from->layout &&
                to->elem == from->elem && tc_type_same_sides(from, to);
    return fits || tc_error(context_of(op), op->loc,
                            "convert_layout: %s cannot become %s, expected the "
                            "same tile in another layout",
                            type_of(op, 0), tc_type_name(context_of(op), to));
}

static bool rule_mma(const tc_op *op, results *r)
{
    const tc_type *a = op->in[0]->type, *b = op->in[1]->type,
                  *c = op->in[2]->type;
    bool fits = a->rank == 2 && b->rank == 2 && c->rank == 2 &&
                a->dims[0] == c->dims[0] && a->dims[1] == b->dims[0] &&
                b->dims[1] == c->dims[1] && a->layout && b->layout &&
                c->layout && !a->slots && !b->slots;
    if (!fits)
        return tc_error(context_of(op), op->loc,
                        "mma: operands are %s, %s and %s, expected [M, K], "
                        "[K, N] and [M, N] with layouts",
                        type_of(op, 0), type_of(op, 1), type_of(op, 2));
    return one(r, c);
}

static bool rule_smem_alloc(const tc_op *op, results *r)
{
    const tc_type *t = r->types[0];
    return t->kind == TC_SMEM ||
           tc_error(context_of(op), op->loc,
                    "smem_alloc: result is %s, expected smem<...>",
                    tc_type_name(context_of(op), t));
}

static bool rule_smem_index(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
    const tc_type *t = op->in[0]->type;
    if (!t->slots)
        return tc_error(cx, op->loc,
                        "smem_index: operand is %s, expected a ring",
                        type_of(op, 0));
    return one(r, tc_type_smem(cx, tile_type(op, t->rank, t->dims, t->elem),
                               t->layout, 0));
}

static bool rule_smem_load(const tc_op *op, results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    bool fits = to->kind == TC_TILE && to->layout && to->elem == from->elem &&
                !from->slots && same_dims(from, to);
    return fits || tc_error(context_of(op), op->loc,
                            "smem_load: %s cannot be read as %s, expected a "
                            "tile of the same sides with a layout",
                            type_of(op, 0), tc_type_name(context_of(op), to));
}

static bool expect_tile(const tc_op *op, const tc_type *t)
{
    return t->kind == TC_TILE ||
           tc_error(context_of(op), op->loc,
                    "%s: result is %s, expected a tile", name_of(op),
                    tc_type_name(context_of(op), t));
}

static bool rule_splat(const tc_op *op, results *r)
{
    const tc_type *t = r->types[0];
    if (!expect_tile(op, t))
        return false;
    return t->elem == op->in[0]->type ||
           tc_error(context_of(op), op->loc,
                    "splat: operand is %s, expected %s, the element of the "
                    "result",
                    type_of(op, 0), tc_type_name(context_of(op), t->elem));
}

static bool rule_range(const tc_op *op, results *r)
{
    const tc_type *t = r->types[0];
    return (t->kind == TC_TILE && t->rank == 1 && t->elem->kind == TC_I32) ||
           tc_error(context_of(op), op->loc,
                    "range: result is %s, expected a tile of i32 with one axis",
                    tc_type_name(context_of(op), t));
}

static bool rule_broadcast(const tc_op *op, results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    const tc_layout *layout = to->layout;
    bool fits =
        to->kind == TC_TILE && to->rank == from->rank && to->elem == from->elem;
    for (unsigned i = 0; fits && i < to->rank; i++)
        fits = from->dims[i] == to->dims[i] || tc_dim_is(from->dims[i], 1);
    for (unsigned i = 0; fits && to->layout && i < to->rank; i++)
        if (from->dims[i] != to->dims[i])
            layout = tc_layout_collapse(context_of(op), layout, i);
    fits = fits && layout == from->layout;
    return fits || tc_error(context_of(op), op->loc,
                            "broadcast: %s does not broadcast to %s, expected "
                            "the same axes, or side 1 in the operand",
                            type_of(op, 0), tc_type_name(context_of(op), to));
}

static bool rule_reshape(const tc_op *op, results *r)
{
    const tc_type *from = op->in[0]->type, *to = r->types[0];
    if (!expect_tile(op, to))
        return false;
    bool generic = tc_type_is_generic(from) || tc_type_is_generic(to);
    bool fits = from->elem == to->elem &&
                (generic || tc_type_count(from) == tc_type_count(to));
    if (fits && (from->layout || to->layout)) {
        int32_t sides[TC_MAX_RANK];
        tc_type_sides(to, sides);
        fits = from->layout && to->layout &&
               tc_layout_reshape(context_of(op), from->layout, to->rank,
                                 sides) == to->layout;
    }
    return fits || tc_error(context_of(op), op->loc,
                            "reshape: %s cannot become %s, expected as many "
                            "elements of the same type",
                            type_of(op, 0), tc_type_name(context_of(op), to));
}

static bool rule_cast(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
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
        fits = tc_type_is_generic(a) || tc_type_is_generic(b) ||
               ((a->kind == TC_PTR) == (b->kind == TC_PTR) &&
                (a->kind == TC_I1) == (b->kind == TC_I1) &&
                tc_type_bytes(a) == tc_type_bytes(b));
    return fits ||
           tc_error(cx, op->loc, "%s: %s cannot become %s, expected %s",
                    name_of(op), type_of(op, 0), tc_type_name(cx, to),
                    op->code == TC_CAST ? "ints or floats in the same shape"
                                        : "an element of the same width");
}

static rule_fn *const rules[TC_OPCODE_COUNT] = {
    [TC_FOR] = rule_for,
    [TC_IF] = rule_if,
    [TC_WHILE] = rule_while,
    [TC_CALL] = rule_call,
    [TC_CONST] = rule_const,
    [TC_DIM] = rule_dim,
    [TC_PROGRAM_ID] = rule_grid_axis,
    [TC_NUM_PROGRAMS] = rule_grid_axis,
    [TC_SIZE] = rule_size,
    [TC_STRIDE] = rule_size,
    [TC_BASE] = rule_base,
    [TC_BLOCK] = rule_block,
    [TC_LOAD] = rule_load,
    [TC_GATHER] = rule_gather,
    [TC_ATOMIC] = rule_atomic,
    [TC_ATOMIC_CAS] = rule_atomic,
    [TC_SPLAT] = rule_splat,
    [TC_RANGE] = rule_range,
    [TC_EXPAND_DIMS] = rule_expand_dims,
    [TC_BROADCAST] = rule_broadcast,
    [TC_TRANS] = rule_trans,
    [TC_RESHAPE] = rule_reshape,
    [TC_DOT] = rule_dot,
    [TC_REDUCE] = rule_reduce_checked,
    [TC_CMP] = rule_cmp,
    [TC_SELECT] = rule_select,
    [TC_CAST] = rule_cast,
    [TC_BITCAST] = rule_cast,
    [TC_CONVERT_LAYOUT] = rule_convert_layout,
    [TC_MMA] = rule_mma,
    [TC_SMEM_ALLOC] = rule_smem_alloc,
    [TC_SMEM_INDEX] = rule_smem_index,
    [TC_SMEM_TRANS] = rule_trans,
    [TC_SMEM_LOAD] = rule_smem_load,
};

/* and, or, xor, not: of ints and i1 only, which no letter says. */
static bool check_bitwise(const tc_op *op)
{
    bool bitwise = op->code == TC_AND || op->code == TC_OR ||
                   op->code == TC_XOR || op->code == TC_NOT;
    const tc_type *t = bitwise ? op->in[0]->type : NULL;
    return !bitwise || tc_type_is_int(t) || tc_type_is_bool(t) ||
           tc_error(context_of(op), op->loc,
                    "%s: operand is %s, expected ints or i1", name_of(op),
                    type_of(op, 0));
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
        const tc_func *f = callee && callee[0] == '@'
                               ? tc_func_find(op->func->module, callee + 1)
                               : NULL;
        const tc_param *p = callee ? param_of(op->func, callee) : NULL;
        n += (f ? f->nresults : 0) + (p ? p->nouts : 0);
    }
    return n;
}

static bool result_types(const tc_op *op, results *r)
{
    tc_context *cx = context_of(op);
    const char *out = tc_op_infos[op->code].out;
    r->types = tc_arena_array(&op->func->module->arena, const tc_type *,
                              room_for_results(op));
    if (*out == '=')
        one(r, op->in[0]->type);
    if (*out == ':') {
        if (r->nstated != 1 || !r->stated[0])
            return tc_error(cx, op->loc,
                            "%s: the type of the result must be stated, as "
                            "`: tile<64 x f32>`",
                            name_of(op));
        one(r, r->stated[0]);
    }
    return check_bitwise(op) && (!rules[op->code] || rules[op->code](op, r));
}

static bool check_stated(const tc_op *op, const results *r)
{
    tc_context *cx = context_of(op);
    if (r->nstated && r->nstated != r->n)
        return tc_error(cx, op->loc, "%s: %u result type%s stated, expected %u",
                        name_of(op), r->nstated, r->nstated == 1 ? "" : "s",
                        r->n);
    for (unsigned i = 0; i < r->nstated; i++) {
        const tc_type *stated = r->stated[i];
        /* An element type on a cast means a tile of it. */
        bool short_form = *tc_op_infos[op->code].out == ':';
        if (stated && stated != r->types[i] && !short_form)
            return tc_error(cx, op->loc,
                            "%s: result %u is %s, but %s is stated",
                            name_of(op), i, tc_type_name(cx, r->types[i]),
                            tc_type_name(cx, stated));
    }
    return true;
}

bool tc_op_infer(tc_op *op, unsigned nstated, const tc_type *const *stated)
{
    results r = {nstated, stated, 0, NULL};
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
    results r = {n, own, 0, NULL};
    if (!result_types(op, &r))
        return false;
    tc_context *cx = context_of(op);
    if (r.n != n)
        return tc_error(cx, op->loc, "%s: %u result%s, expected %u",
                        name_of(op), n, n == 1 ? "" : "s", r.n);
    for (unsigned i = 0; i < n; i++)
        if (own[i] != r.types[i])
            return tc_error(cx, op->loc, "%s: result %u is %s, expected %s",
                            name_of(op), i, tc_type_name(cx, own[i]),
                            tc_type_name(cx, r.types[i]));
    return true;
}
