/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of the gradients of captured values. A tile of contributions is reduced
 * along the axes on which the index is the same, carried through the loops (and
 * out of the branches) in which it does not change, and added to memory after
 * them:
 *
 *   for .. {                                %sum = for .. carry(%s0 = 0.0) {
 *     %d = vjp @bias(%s, %h) seed(%g)         %d, %c =
 *              into(bias=%grad)                   call @bias.vjp(%s, %h, %g)
 *   }                                         %r = reduce %c axis(1) kind(sum)
 *                                             yield %s0 + %r
 *                                           }
 *                                           %i = call @bias.index(%h)
 *                                           atomic (base %grad + ..), sum(%sum)
 *
 * Within a program the order is fixed. Programs that add to the same element do
 * so in any order: with accumulate(1) to floats; otherwise to the bins of
 * exact_sums.h, tensors `bins.NAME` that the kernel gets for it, unless each
 * element belongs to one program only.
 */
#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/bind/exact_sums.h"
#include "passes/grad/reverse.h"

#include <string.h>

struct sum {
    tc_pass_env *env;
    const tc_op *call;
    const tc_gradient_site *site;
    tc_value *const *args;
    tc_value *tensor;
    const tc_type *shape; /* of the contributions; NULL: a scalar */
    unsigned axes;        /* on which the index differs */
    tc_op *loop;          /* the outermost that it is the same in, or NULL */
    tc_value *value;
    unsigned summed; /* axes that are gone */
    tc_accumulate how;
};

/* ---- Shapes ---- */

static unsigned all_axes(const struct sum *s)
{
    return s->shape ? (1u << s->shape->rank) - 1 : 0;
}

static unsigned axes_of(const tc_value *v)
{
    unsigned axes = 0;
    if (v->type->kind != TC_TILE)
        return 0;
    for (unsigned i = 0; i < v->type->rank; i++)
        axes |= (unsigned)!tc_dim_is(v->type->dims[i], 1) << i;
    /* A tile of one element is no scalar. */
    return axes ? axes : 1u << (v->type->rank - 1);
}

static tc_value *argument(const struct sum *s, unsigned i)
{
    return tc_match_unbroadcast(s->args[s->site->from[i]]);
}

/* The call's shape with sides of 1 on the axes where the index is the same. */
static const tc_type *index_shape(const struct sum *s, const tc_type *elem)
{
    const tc_dim *dims[TC_MAX_RANK];
    for (unsigned i = 0; i < s->shape->rank; i++)
        dims[i] =
            s->axes >> i & 1 ? s->shape->dims[i] : tc_dim_const(s->env->cx, 1);
    return tc_type_shaped(s->env->cx, TC_TILE, s->shape->rank, dims, elem);
}

/* ---- How far out ---- */

enum { MOST_OPS = 64 };

/* Can v be computed before `op`? */
static bool is_computable(const tc_value *v, const tc_op *op, unsigned *nops)
{
    if (tc_value_is_visible(v, op))
        return true;
    if (!v->def || v->def->nregions || !tc_op_has(v->def, TC_PURE) ||
        ++*nops > MOST_OPS)
        return false;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (!is_computable(v->def->in[i], op, nops))
            return false;
    return true;
}

static bool is_same_in(const struct sum *s, const tc_op *loop)
{
    unsigned nops = 0;
    for (unsigned i = 0; i < s->site->nfrom; i++)
        if (!is_computable(argument(s, i), loop, &nops))
            return false;
    return true;
}

static tc_op *find_loop(const struct sum *s)
{
    tc_op *loop = NULL;
    for (tc_op *op = s->call->parent->op; op; op = op->parent->op) {
        if (op->code == TC_FOR && is_same_in(s, op))
            loop = op;
        else if (op->code != TC_IF)
            break;
    }
    return loop;
}

/* ---- Adding up ---- */

static tc_value *sum_axis(struct sum *s, tc_builder *b, unsigned axis)
{
    unsigned gone = 0;
    for (unsigned i = 0; i < axis; i++)
        gone += s->summed >> i & 1;
    tc_op *op = tc_op_new(b->func, TC_REDUCE, b->loc, 1, &s->value, 0);
    tc_op_set_int(op, "axis", axis - gone);
    tc_op_set_word(op, "kind", "sum");
    s->summed |= 1u << axis;
    return tc_build_op(b, op, NULL);
}

static void sum_axes(struct sum *s, tc_builder *b, unsigned axes)
{
    for (unsigned i = TC_MAX_RANK; i-- > 0;)
        if (axes >> i & 1 && !(s->summed >> i & 1))
            s->value = sum_axis(s, b, i);
}

/* Hands the value out of the op that holds it, as one more result. */
static tc_op *carry_out(struct sum *s, tc_op *op, unsigned region)
{
    if (op->code == TC_IF) {
        tc_region *other = op->regions[1 - region];
        tc_builder b = tc_builder_before(tc_region_terminator(other));
        tc_value *none = tc_build_int_const(&b, s->value->type, 0);
        return tc_slots_add_result(op, region, s->value, none);
    }
    tc_builder b = tc_builder_before(op);
    b.loc = s->call->loc;
    tc_value *none = tc_build_int_const(&b, s->value->type, 0);
    const char *name = s->tensor->name;
    tc_op *now = tc_slots_add(op, 1, &none, &name);
    unsigned slot = now->nout - 1;
    b = tc_builder_before(tc_slot_yield(now));
    b.loc = s->call->loc;
    tc_value *sum =
        tc_build_binary(&b, TC_ADD, tc_slot_arg(now, slot), s->value);
    tc_slot_set_next(now, slot, sum);
    return now;
}

/* Moves the sum to after the loop; gives the op after which the value is
 * known. */
static tc_op *carry_past_loop(struct sum *s)
{
    tc_region *r = s->call->parent;
    for (;;) {
        tc_op *op = r->op;
        bool last = op == s->loop;
        op = carry_out(s, op, op->nregions == 2 && r == op->regions[1]);
        s->value = op->out[op->nout - 1];
        if (last)
            return op;
        r = op->parent;
    }
}

/* ---- To memory ---- */

/* Is the index one of the dim's? */
static tc_value *in_range(tc_builder *b, tc_value *tensor, unsigned dim,
                          tc_value *index)
{
    tc_value *size =
        tc_build_cast(b, tc_build_at(b, TC_SIZE, tensor, "dim", dim), TC_I64);
    tc_value *none = tc_build_int_const(b, index->type, 0);
    tc_value *in[] = {
        tc_build_cmp(b, "ge", index, none),
        tc_build_cmp(b, "lt", index, tc_build_spread(b, size, index->type))};
    return tc_build(b, TC_AND, 2, in, NULL);
}

void tc_gradient_scatter(tc_builder *b, tc_value *tensor, unsigned n,
                         tc_value *const *indices, tc_value *g,
                         tc_value *condition)
{
    tc_value *inside = condition;
    tc_value *at = tc_build(b, TC_BASE, 1, &tensor, NULL);
    at = tc_build_spread(b, at, g->type);
    for (unsigned i = 0; i < n; i++) {
        tc_value *index = tc_build_cast(b, indices[i], TC_I64);
        tc_value *stride = tc_build_at(b, TC_STRIDE, tensor, "dim", i);
        tc_value *offset = tc_build_binary(
            b, TC_MUL, index, tc_build_spread(b, stride, index->type));
        tc_value *ok = in_range(b, tensor, i, index);
        at = tc_build_binary(b, TC_PTR_ADD, at, offset);
        inside = tc_build_both(b, inside, ok);
    }
    if (tensor->type->elem->kind == TC_I64) {
        tc_value *stride =
            tc_build_at(b, TC_STRIDE, tensor, "dim", tensor->type->rank - 1);
        tc_exact_add(b, at, stride, g, inside);
        return;
    }
    tc_value *in[] = {at, g, inside};
    tc_op *op = tc_op_new(b->func, TC_ATOMIC, b->loc, inside ? 3 : 2, in, 0);
    tc_op_set_word(op, "kind", "add");
    tc_op_set_word(op, "order", "relaxed");
    tc_build_op(b, op, NULL);
}

/* ---- The index ---- */

/* v, computed again where it cannot be seen. */
static tc_value *recompute(tc_builder *b, tc_value *v, const tc_op *after)
{
    if (!after || tc_value_is_visible(v, after))
        return v;
    tc_value **in =
        tc_arena_array(&b->func->module->arena, tc_value *, v->def->nin);
    for (unsigned i = 0; i < v->def->nin; i++)
        in[i] = recompute(b, v->def->in[i], after);
    return tc_build_like(b, v->def, in, v->type);
}

/* The indices, in the smallest shape. */
static tc_value **build_index(struct sum *s, tc_builder *b, const tc_op *after)
{
    const tc_gradient_site *site = s->site;
    tc_arena *a = s->env->scratch;
    tc_value **in = tc_arena_array(a, tc_value *, site->nfrom);
    for (unsigned i = 0; i < site->nfrom; i++) {
        tc_value *v = recompute(b, argument(s, i), after);
        if (v->type->kind == TC_TILE) {
            const tc_type *type = index_shape(s, v->type->elem);
            v = v->type == type ? v : tc_build(b, TC_BROADCAST, 1, &v, type);
        }
        in[i] = v;
    }
    tc_op *call = tc_op_new(b->func, TC_CALL, b->loc, site->nfrom, in, 0);
    tc_op_set_word(call, "callee", tc_arena_printf(a, "@%s", site->at->name));
    unsigned n = site->at->nresults;
    const tc_type **types = tc_arena_array(a, const tc_type *, n);
    for (unsigned i = 0; i < n; i++)
        types[i] = s->axes ? index_shape(s, site->at->results[i])
                           : site->at->results[i];
    tc_op_set_results(call, n, types);
    tc_op_insert(call, b->region, b->before);
    return call->out;
}

static void flush(struct sum *s, tc_builder *b, const tc_op *after)
{
    sum_axes(s, b, all_axes(s) & ~s->axes);
    if (!s->site->at) {
        tc_gradient_scatter(b, s->tensor, 0, NULL, s->value, NULL);
        return;
    }
    tc_value **at = build_index(s, b, after);
    for (unsigned i = 0; s->axes && i < s->shape->rank; i++)
        if (s->summed >> i & 1) {
            tc_op *op =
                tc_op_new(b->func, TC_EXPAND_DIMS, b->loc, 1, &s->value, 0);
            tc_op_set_int(op, "axis", i);
            s->value = tc_build_op(b, op, NULL);
        }
    tc_gradient_scatter(b, s->tensor, s->site->at->nresults, at, s->value,
                        NULL);
}

/* ---- Elements of one program ---- */

/* Is v first + 0, 1, 2, .. along its axis (perhaps cut off at the end), where
 * first is side * program_id(axis)? */
static bool is_position(const tc_value *v, unsigned *grid_axis)
{
    const tc_op *op;
    if ((op = tc_match_op(v, TC_EXPAND_DIMS)))
        v = op->in[0];
    if ((op = tc_match_op(v, TC_MIN)))
        v = op->in[0];
    if (v->type->kind != TC_TILE || v->type->rank != 1 ||
        !(op = tc_match_op(v, TC_ADD)) || !tc_match_op(op->in[1], TC_RANGE) ||
        !(op = tc_match_op(op->in[0], TC_SPLAT)) ||
        !(op = tc_match_op(op->in[0], TC_MUL)) ||
        !tc_match_op(op->in[0], TC_PROGRAM_ID))
        return false;
    *grid_axis = (unsigned)tc_op_int(op->in[0]->def, "axis");
    const tc_op *side = op->in[1]->def;
    if (!side || (side->code != TC_DIM && side->code != TC_CONST))
        return false;
    int64_t n = side->code == TC_DIM
                    ? tc_dim_value(tc_op_attr(side, "value")->dims[0])
                    : tc_op_attr(side, "value")->number.i;
    return n == tc_dim_value(v->type->dims[0]);
}

/* Do all lanes and programs read elements of their own? (Lanes that are cut off
 * share one, and contribute nothing to it.) */
static bool is_exclusive(const struct sum *s)
{
    const tc_gradient_site *site = s->site;
    unsigned axes = 0, grid = 0;
    if (!s->shape || !site->at)
        return false;
    const tc_op *ret = tc_region_terminator(site->at->body);
    for (unsigned i = 0; i < ret->nin; i++) {
        const tc_value *index = ret->in[i];
        if (index->def) /* computed indices may be equal in two lanes */
            continue;
        tc_value *v = argument(s, index->index);
        unsigned axis, of = axes_of(v);
        if (v->type->kind == TC_TILE && is_position(v, &axis) && !(of & axes) &&
            !(grid >> axis & 1)) {
            axes |= of;
            grid |= 1u << axis;
        }
    }
    return s->shape->rank == 2 && axes == 3 && grid == 3;
}

/* ---- Bins ---- */

bool tc_gradient_has_bins(const tc_func *f, const tc_value *tensor)
{
    return tensor->type->elem->kind == TC_I64 ||
           (f->is_kernel && !tensor->def && tensor->region == f->body &&
            strncmp(tensor->name, "grad.", 5) == 0);
}

tc_value *tc_gradient_bins(tc_pass_env *env, tc_func *f, tc_value *tensor)
{
    tc_context *cx = env->cx;
    if (tensor->type->elem->kind == TC_I64)
        return tensor;
    const char *name = tc_string_get(
        cx, tc_arena_printf(env->scratch, "bins.%s", tensor->name + 5));
    for (unsigned i = 0; i < f->body->nargs; i++)
        if (f->body->args[i]->name == name)
            return f->body->args[i];
    const tc_type *type = tc_exact_bins(cx, tensor->type);
    tc_region_add_arg(f->grid, type, name, tensor->loc);
    return tc_region_add_arg(f->body, type, name, tensor->loc);
}

static void report(const struct sum *s)
{
    tc_context *cx = s->env->cx;
    bool all = s->axes && s->axes == all_axes(s);
    const char *how = !s->shape ? "a number at a time"
                      : all     ? "element by element"
                      : s->axes ? "summed along the axes on which the index is "
                                  "the same"
                                : "summed over the whole tile";
    const char *when =
        s->loop ? "carried to the end of a loop" : "added where it arises";
    const char *order =
        s->tensor->type->elem->kind == TC_I64
            ? "by integer atomics: the same bits in every run"
        : s->how == TC_ACCUMULATE_ANY
            ? "by float atomics: programs meet in any order"
            : "each element by one program: the same bits in every run";
    tc_remark(cx, s->call->loc, "differentiate", "vjp: %s: %s, %s, %s",
              tc_value_name(cx, s->tensor), how, when, order);
}

void tc_gradient_add_up(tc_pass_env *env, const tc_op *call, unsigned i,
                        const tc_gradient_site *site, tc_value *tensor,
                        tc_value *const *args, tc_accumulate how, bool alone)
{
    struct sum s = {.env = env,
                    .call = call,
                    .site = site,
                    .args = args,
                    .tensor = tensor,
                    .value = call->out[i],
                    .how = how};
    s.shape = s.value->type->kind == TC_TILE ? s.value->type : NULL;
    for (unsigned k = 0; k < site->nfrom; k++)
        s.axes |= axes_of(argument(&s, k));
    bool elements = s.shape && s.shape->rank > 1 && s.axes == all_axes(&s);
    if (how != TC_ACCUMULATE_ANY && elements != (how == TC_ACCUMULATE_ELEMENTS))
        return;
    if (how != TC_ACCUMULATE_ANY && !(alone && is_exclusive(&s)))
        s.tensor = tc_gradient_bins(env, call->func, tensor);
    s.loop = find_loop(&s);
    if (env->cx->want_remarks)
        report(&s);
    tc_builder b = {.func = call->func,
                    .region = call->parent,
                    .before = call->next,
                    .loc = call->loc};
    const tc_op *after = NULL;
    if (s.loop) {
        /* Along the last axis the sums of each step are cheap; the rest waits
         * until the loop is done. */
        unsigned rest = s.axes ? 0 : all_axes(&s) & 1;
        bool keep = s.shape && s.shape->rank > 1;
        sum_axes(&s, &b, all_axes(&s) & ~s.axes & ~(keep ? rest : 0));
        tc_op *op = carry_past_loop(&s);
        b = (tc_builder){.func = op->func,
                         .region = op->parent,
                         .before = op->next,
                         .loc = call->loc};
        after = op->next;
    }
    flush(&s, &b, after);
}
