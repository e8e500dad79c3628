/* SPDX-License-Identifier: Apache-2.0
 *
 * split-batches: a product of a batch becomes one product for each matrix of
 * the batch, and so does what feeds it and what is computed from it: later
 * passes see tiles with two axes.
 *
 *   %a = load (block %x[%b +: 2, %m +: 64, 0 +: 32]) : tile<2x64x32 x bf16>
 *   %c = dot %a, %y : tile<2x64x16 x f32>
 *   store (block %z[%b +: 2, %m +: 64, 0 +: 16]), %c
 * becomes
 *   %a0 = load (block %x[%b, %m +: 64, 0 +: 32]) : tile<64x32 x bf16>
 *   %a1 = load (block %x[%b + 1, %m +: 64, 0 +: 32]) : tile<64x32 x bf16>
 *   %c0 = dot %a0, (slice %y axis(0) side(1)) : tile<64x16 x f32>
 *   ..
 *   store (block %z[%b, %m +: 64, 0 +: 16]), %c0
 *
 * Values that loops carry are split too. Where an op is not known here, its
 * operands are slices of a tile, and it reads a join of the parts.
 *
 * Tests: test/ir/passes/split-batches, test/numerics/shapes.c.
 */
#include "ir/base/map.h"
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/passes.h"

#include <string.h>

/* The parts of a value. From a product: the whole is made of the parts, and
 * what is computed from it is split as well. Else: the whole is still there. */
typedef struct parts {
    tc_value **v;
    bool from_product;
} parts;

typedef struct splitting {
    tc_func *f;
    tc_context *cx;
    tc_arena *scratch;
    tc_map parts; /* of a value: parts */
    tc_map joins; /* of a value: the whole, made of the parts */
} splitting;

static const parts *parts_of(splitting *s, tc_value *v);

static unsigned batch_of(const tc_value *v)
{
    return (unsigned)tc_dim_value(v->type->dims[0]);
}

static const tc_type *part_type(const splitting *s, const tc_type *t)
{
    return tc_type_shaped(s->cx, TC_TILE, t->rank - 1, t->dims + 1, t->elem);
}

static bool is_batch(const tc_value *v)
{
    return v->type->kind == TC_TILE && v->type->rank >= 2;
}

/* ---- Loops ---- */

/* The argument that carries a result of a loop; NULL: v is none. */
static tc_value *arg_of_result(const tc_value *v)
{
    bool is = v->def && tc_op_is_loop(v->def);
    return is ? tc_slot_arg(v->def, v->index) : NULL;
}

static bool is_carried(const tc_value *v)
{
    const tc_op *op = v->def ? NULL : v->region->op;
    return op && tc_op_is_loop(op);
}

/* The slot whose argument is v. */
static unsigned slot_of(const tc_value *v)
{
    unsigned i = 0;
    while (tc_slot_arg(v->region->op, i) != v)
        i++;
    return i;
}

static parts *new_parts(splitting *s, tc_value *v, bool from_product)
{
    parts *p = tc_arena_new(s->scratch, parts);
    p->v = tc_arena_array(s->scratch, tc_value *, batch_of(v));
    p->from_product = from_product;
    tc_map_set(&s->parts, v, p);
    tc_module_spend(s->f->module, batch_of(v));
    return p;
}

/* A slot for each part, after the others. */
static const parts *split_slot(splitting *s, tc_value *arg)
{
    unsigned n = batch_of(arg), slot = slot_of(arg);
    tc_region *r = arg->region;
    const parts *init = parts_of(s, tc_slot_init(r->op, slot));
    const char **names = tc_arena_array(s->scratch, const char *, n);
    unsigned first = r->op->nout;
    for (unsigned i = 0; i < n; i++)
        names[i] = arg->name;
    tc_slots_add(r->op, n, init->v, names);
    parts *p = new_parts(s, arg, true);
    for (unsigned i = 0; i < n; i++)
        p->v[i] = tc_slot_arg(r->op, first + i);
    const parts *next = parts_of(s, tc_slot_yield(r->op)->in[slot]);
    for (unsigned i = 0; i < n; i++)
        tc_slot_set_next(r->op, first + i, next->v[i]);
    return p;
}

/* Of a loop's result: those that carry the parts. They are looked up each time,
 * since a loop that gets more slots has new results. */
static const parts *parts_of_result(splitting *s, tc_value *v, tc_value *arg)
{
    unsigned n = batch_of(v), slot = v->index;
    const tc_region *r = arg->region;
    const parts *carried = parts_of(s, arg);
    v = r->op->out[slot];
    parts *p = new_parts(s, v, true);
    for (unsigned i = 0; i < n; i++)
        p->v[i] = r->op->out[slot_of(carried->v[i])];
    return p;
}

/* ---- Ops ---- */

/* What an op like `op` is to have as attributes. */
typedef void adapt_fn(splitting *s, const tc_op *op, tc_op *part);

static bool is_split(const splitting *s, const tc_value *v)
{
    const tc_value *arg = arg_of_result(v);
    const parts *p = tc_map_get(&s->parts, arg ? arg : v);
    return p && p->from_product;
}

/* The same op for each part, on parts of its tiles. */
static const parts *repeat(splitting *s, tc_op *op, adapt_fn *adapt)
{
    tc_value *out = op->out[0];
    bool from_product = op->code == TC_DOT;
    for (unsigned i = 0; i < op->nin; i++) {
        if (is_batch(op->in[i]))
            (void)parts_of(s, op->in[i]);
        from_product |= is_split(s, op->in[i]);
    }
    if (tc_map_get(&s->parts, out)) /* by way of a loop that carries it */
        return tc_map_get(&s->parts, out);
    parts *p = new_parts(s, out, from_product);
    tc_builder b = tc_builder_before(op);
    for (unsigned k = 0; k < batch_of(out); k++) {
        tc_value *in[TC_MAX_RANK];
        for (unsigned i = 0; i < op->nin; i++)
            in[i] =
                is_batch(op->in[i]) ? parts_of(s, op->in[i])->v[k] : op->in[i];
        p->v[k] = tc_build_like(&b, op, in, part_type(s, out->type));
        p->v[k]->name = out->name;
        if (adapt)
            adapt(s, op, p->v[k]->def);
    }
    return p;
}

static void adapt_axis(splitting *s, const tc_op *op, tc_op *part)
{
    (void)s;
    tc_op_set_int(part, "axis", tc_op_int(op, "axis") - 1);
}

static void adapt_perm(splitting *s, const tc_op *op, tc_op *part)
{
    (void)s;
    int64_t perm[TC_MAX_RANK];
    unsigned n = op->out[0]->type->rank;
    if (tc_op_attr(op, "perm")->kind == TC_ATTR_NONE)
        return;
    for (unsigned i = 1; i < n; i++)
        perm[i - 1] = tc_op_attr(op, "perm")->ints[i] - 1;
    tc_op_set_ints(part, "perm", n - 1, perm);
}

static const parts *repeat_plain(splitting *s, tc_op *op)
{
    return repeat(s, op, NULL);
}

static const parts *repeat_on_axis(splitting *s, tc_op *op)
{
    return repeat(s, op, adapt_axis);
}

static const parts *repeat_trans(splitting *s, tc_op *op)
{
    return repeat(s, op, adapt_perm);
}

static bool is_matrix_op(const tc_op *op)
{
    return op->out[0]->type->rank == 3;
}

static bool keeps_batch(const tc_op *op)
{
    return is_batch(op->out[0]) &&
           op->in[0]->type->dims[0] == op->out[0]->type->dims[0];
}

static bool is_behind_batch(const tc_op *op)
{
    return keeps_batch(op) && is_batch(op->in[0]) && tc_op_int(op, "axis") > 0;
}

static bool is_reduce_of_one(const tc_op *op)
{
    return op->nregions == 0 && op->nin == 1 && is_behind_batch(op);
}

static bool is_trans_of_matrices(const tc_op *op)
{
    const tc_attr *perm = tc_op_attr(op, "perm");
    return perm->kind == TC_ATTR_NONE ? op->out[0]->type->rank >= 3
                                      : perm->ints[0] == 0;
}

/* ---- Memory ---- */

/* The dim of a block that is axis 0 of the window; has it a place of its own,
 * no tile of indices? */
static bool batch_dim(const tc_op *block, unsigned *dim)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    if (tc_block_index(block) || sides->kind != TC_ATTR_DIMS)
        return false;
    for (*dim = 0; *dim < sides->n && !sides->dims[*dim]; ++*dim)
        ;
    return *dim < sides->n;
}

static bool is_by_block(const tc_op *op)
{
    const tc_op *block = tc_match_op(op->in[0], TC_BLOCK);
    unsigned dim;
    return block && op->nin <= 1u + (op->code == TC_STORE) &&
           batch_dim(block, &dim);
}

/* Is the batch checked for the end of the tensor? Then its axis stays. */
static bool checks_batch(const tc_op *op)
{
    const tc_attr *a = tc_op_attr(op, "boundary");
    for (unsigned i = 0; a->kind == TC_ATTR_INTS && i < a->n; i++)
        if (a->ints[i] == 0)
            return true;
    return false;
}

/* The window of part k; its axis of the batch is left out, or has side 1. */
static tc_value *window(splitting *s, tc_builder *b, const tc_op *access,
                        unsigned k)
{
    const tc_op *block = access->in[0]->def;
    const tc_attr *sides = tc_op_attr(block, "sides");
    const tc_dim *dims[TC_MAX_RANK];
    tc_value *in[TC_MAX_RANK + 1];
    unsigned dim;
    (void)batch_dim(block, &dim);
    memcpy(in, block->in, block->nin * sizeof *in);
    memcpy(dims, sides->dims, sides->n * sizeof *dims);
    in[1 + dim] = tc_build_binary(b, TC_ADD, in[1 + dim],
                                  tc_build_int(b, in[1 + dim]->type, k));
    dims[dim] = checks_batch(access) ? tc_dim_const(s->cx, 1) : NULL;
    tc_op *op = tc_op_new(s->f, TC_BLOCK, block->loc, block->nin, in, 0);
    tc_op_set_dims(op, "sides", sides->n, dims);
    return tc_build_op(b, op, NULL);
}

static void adapt_boundary(const tc_op *op, tc_op *part)
{
    const tc_attr *a = tc_op_attr(op, "boundary");
    int64_t axes[TC_MAX_RANK];
    if (a->kind != TC_ATTR_INTS || checks_batch(op))
        return;
    for (unsigned i = 0; i < a->n; i++)
        axes[i] = a->ints[i] - 1;
    tc_op_set_ints(part, "boundary", a->n, axes);
}

static const tc_type *one_of_batch(const splitting *s, const tc_type *t)
{
    const tc_dim *dims[TC_MAX_RANK];
    memcpy(dims, t->dims, t->rank * sizeof *dims);
    dims[0] = tc_dim_const(s->cx, 1);
    return tc_type_shaped(s->cx, TC_TILE, t->rank, dims, t->elem);
}

static tc_value *reshape(tc_builder *b, tc_value *v, const tc_type *t)
{
    return v->type == t ? v : tc_build(b, TC_RESHAPE, 1, &v, t);
}

static const parts *split_load(splitting *s, tc_op *op)
{
    if (op->in[0]->type->kind == TC_TILE)
        return repeat(s, op, NULL);
    tc_value *out = op->out[0];
    parts *p = new_parts(s, out, false);
    tc_builder b = tc_builder_before(op);
    const tc_type *t =
        checks_batch(op) ? one_of_batch(s, out->type) : part_type(s, out->type);
    for (unsigned k = 0; k < batch_of(out); k++) {
        tc_value *in = window(s, &b, op, k);
        p->v[k] = tc_build_like(&b, op, &in, t);
        adapt_boundary(op, p->v[k]->def);
        p->v[k] = reshape(&b, p->v[k], part_type(s, out->type));
        p->v[k]->name = out->name;
    }
    return p;
}

static bool is_split_access(const tc_op *op)
{
    return op->in[0]->type->kind == TC_TILE || is_by_block(op);
}

static void split_store(splitting *s, tc_op *op)
{
    bool by_block = op->in[0]->type->kind == TC_BLOCK_PTR;
    for (unsigned i = 0; i < op->nin; i++)
        if (is_batch(op->in[i]))
            (void)parts_of(s, op->in[i]);
    tc_builder b = tc_builder_before(op);
    for (unsigned k = 0; k < batch_of(op->in[1]); k++) {
        tc_value *in[TC_MAX_RANK];
        for (unsigned i = 0; i < op->nin; i++)
            in[i] =
                is_batch(op->in[i]) ? parts_of(s, op->in[i])->v[k] : op->in[i];
        if (by_block)
            in[0] = window(s, &b, op, k);
        if (by_block && checks_batch(op))
            in[1] = reshape(&b, in[1], one_of_batch(s, op->in[1]->type));
        tc_op *part = tc_build_effect(&b, TC_STORE, op->nin, in);
        memcpy(part->attrs, op->attrs,
               tc_op_nattrs(op->code) * sizeof *part->attrs);
        adapt_boundary(op, part);
    }
    tc_op_erase(op);
}

/* ---- The rules ---- */

/* One matrix for the whole batch: all parts are that. */
static const parts *split_broadcast(splitting *s, tc_op *op)
{
    tc_value *in = op->in[0], *out = op->out[0];
    if (keeps_batch(op))
        return repeat(s, op, NULL);
    tc_builder b = tc_builder_before(op);
    const tc_op *expand = tc_match_op(in, TC_EXPAND_DIMS);
    tc_value *one = is_split(s, in) ? parts_of(s, in)->v[0]
                    : expand && tc_op_int(expand, "axis") == 0
                        ? expand->in[0]
                        : reshape(&b, in, part_type(s, in->type));
    const tc_type *t = part_type(s, out->type);
    if (one->type != t)
        one = tc_build(&b, TC_BROADCAST, 1, &one, t);
    parts *p = new_parts(s, out, is_split(s, in));
    for (unsigned k = 0; k < batch_of(out); k++)
        p->v[k] = one;
    return p;
}

typedef struct rule {
    bool (*fits)(const tc_op *op);
    const parts *(*split)(splitting *s, tc_op *op);
} rule;
static const rule rules[TC_OPCODE_COUNT] = {
    [TC_DOT] = {is_matrix_op, repeat_plain},
    [TC_TRANS] = {is_trans_of_matrices, repeat_trans},
    [TC_EXPAND_DIMS] = {is_behind_batch, repeat_on_axis},
    [TC_REDUCE] = {is_reduce_of_one, repeat_on_axis},
    [TC_BROADCAST] = {NULL, split_broadcast},
    [TC_SPLAT] = {NULL, repeat_plain},
    [TC_LOAD] = {is_split_access, split_load},
};
static const rule lanes = {NULL, repeat_plain};

static const rule *rule_of(const tc_op *op)
{
    const rule *r = tc_op_has(op, TC_ELEMENTWISE) ? &lanes : &rules[op->code];
    return r->split && op->nout == 1 && is_batch(op->out[0]) &&
                   (!r->fits || r->fits(op))
               ? r
               : NULL;
}

/* A load that others read as a whole is not repeated. */
static bool is_worth_repeating(const tc_op *op)
{
    if (op->code != TC_LOAD)
        return true;
    tc_each_use (u, op->out[0])
        if (!rule_of(u->op))
            return false;
    return true;
}

static const parts *slices(splitting *s, tc_value *v)
{
    tc_builder b = tc_builder_after(s->f, v, v->loc);
    const tc_dim *one = tc_dim_const(s->cx, 1);
    parts *p = new_parts(s, v, false);
    for (unsigned k = 0; k < batch_of(v); k++) {
        const tc_dim *at = tc_dim_const(s->cx, k);
        tc_op *op = tc_op_new(s->f, TC_SLICE, v->loc, 1, &v, 0);
        tc_op_set_int(op, "axis", 0);
        if (k)
            tc_op_set_dims(op, "at", 1, &at);
        tc_op_set_dims(op, "side", 1, &one);
        p->v[k] = reshape(&b, tc_build_op(&b, op, NULL), part_type(s, v->type));
    }
    return p;
}

static const parts *parts_of(splitting *s, tc_value *v)
{
    tc_value *arg = arg_of_result(v);
    if (arg)
        return parts_of_result(s, v, arg);
    const parts *p = tc_map_get(&s->parts, v);
    if (p)
        return p;
    if (is_carried(v))
        return split_slot(s, v);
    const rule *r = v->def ? rule_of(v->def) : NULL;
    return r && is_worth_repeating(v->def) ? r->split(s, v->def) : slices(s, v);
}

/* ---- From products on ---- */

static bool has_split_operand(const splitting *s, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++)
        if (is_split(s, op->in[i]))
            return true;
    return false;
}

/* A slot that is not split and gets a value that is; NULL: none. */
static tc_value *slot_to_split(const splitting *s, const tc_op *op)
{
    for (unsigned i = 0; tc_op_is_loop(op) && i < op->nout; i++) {
        tc_value *arg = tc_slot_arg(op, i);
        if (!is_split(s, arg) && (is_split(s, tc_slot_init(op, i)) ||
                                  is_split(s, tc_slot_yield(op)->in[i])))
            return arg;
    }
    return NULL;
}

static bool split_op(splitting *s, tc_op *op)
{
    tc_value *slot = slot_to_split(s, op);
    const rule *r = rule_of(op);
    bool is_product = op->code == TC_DOT && r;
    if (slot)
        (void)parts_of(s, slot);
    else if (r && !is_split(s, op->out[0]) &&
             (is_product || has_split_operand(s, op)))
        (void)r->split(s, op);
    else if (op->code == TC_STORE && is_split(s, op->in[1]) &&
             is_split_access(op))
        split_store(s, op);
    else
        return false;
    return true;
}

/* One op a turn: loops may be others after it. */
static bool split_next(splitting *s)
{
    tc_each_nested (op, s->f->body)
        if (split_op(s, op))
            return true;
    return false;
}

/* ---- The rest ---- */

static tc_value *joined(splitting *s, tc_value *v)
{
    tc_value *whole = tc_map_get(&s->joins, v);
    if (whole)
        return whole;
    unsigned n = batch_of(v);
    const parts *p = parts_of(s, v);
    tc_builder b = tc_builder_after(s->f, v, v->loc);
    tc_value **in = tc_arena_array(s->scratch, tc_value *, n);
    for (unsigned k = 0; k < n; k++)
        in[k] = tc_build_at(&b, TC_EXPAND_DIMS, p->v[k], "axis", 0);
    whole = in[0];
    if (n > 1) {
        tc_op *op = tc_op_new(s->f, TC_JOIN, v->loc, n, in, 0);
        tc_op_set_int(op, "axis", 0);
        whole = tc_build_op(&b, op, NULL);
    }
    whole->name = v->name;
    tc_map_set(&s->joins, v, whole);
    return whole;
}

/* Does the op only hand the operand on to what is split? */
static bool is_replaced(const splitting *s, const tc_op *op, unsigned i)
{
    const tc_op *loop = op->parent->op;
    unsigned before = tc_op_is_loop(op) ? tc_slot_operands_before(op) : 0;
    if (tc_op_is_loop(op))
        return i >= before && is_split(s, tc_slot_arg(op, i - before));
    if (loop && tc_op_is_loop(loop) && op == tc_slot_yield(loop))
        return is_split(s, tc_slot_arg(loop, i));
    return op->nout == 1 && is_split(s, op->out[0]);
}

static void join_for_others(splitting *s, tc_region *r)
{
    tc_each_nested (op, r)
        for (unsigned i = 0; i < op->nin; i++)
            if (is_split(s, op->in[i]) && !is_replaced(s, op, i))
                tc_op_set_in(op, i, joined(s, op->in[i]));
}

static void erase_wholes(splitting *s, tc_region *r);

static void erase_slots(splitting *s, tc_op *loop)
{
    bool *drop = tc_arena_array(s->scratch, bool, loop->nout), any = false;
    for (unsigned i = 0; i < loop->nout; i++)
        any |= drop[i] = is_split(s, tc_slot_arg(loop, i));
    if (any)
        tc_slots_unyield(loop, drop);
    for (unsigned i = loop->nregions; i-- > 0;)
        erase_wholes(s, loop->regions[i]);
    if (any)
        tc_slots_remove(loop, drop);
}

/* From the last op to the first: what is used by others is left. */
static void erase_wholes(splitting *s, tc_region *r)
{
    for (tc_op *op = r->last, *before; op; op = before) {
        before = op->prev;
        if (tc_op_is_loop(op)) {
            erase_slots(s, op);
            continue;
        }
        for (unsigned i = op->nregions; i-- > 0;)
            erase_wholes(s, op->regions[i]);
        if (op->nout == 1 && is_split(s, op->out[0]) && !tc_op_is_used(op))
            tc_op_erase(op);
    }
}

tc_change tc_pass_split_batches(tc_func *f, tc_pass_env *env)
{
    splitting s = {.f = f, .cx = env->cx, .scratch = env->scratch};
    s.parts.arena = s.joins.arena = env->scratch;
    bool changed = false;
    while (split_next(&s))
        changed = true;
    if (!changed)
        return TC_UNCHANGED;
    join_for_others(&s, f->body);
    erase_wholes(&s, f->body);
    return TC_CHANGED;
}
