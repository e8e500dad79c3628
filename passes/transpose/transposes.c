/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/transpose/transposes.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"

/* ---- What is passed through ---- */

static bool is_flat(const tc_value *v)
{
    return v->type->kind == TC_TILE && v->type->rank == 2 && !v->type->layout;
}

static bool is_swap(const tc_op *trans)
{
    const tc_attr *perm = tc_op_attr(trans, "perm");
    return perm->kind == TC_ATTR_NONE || perm->ints[0] == 1;
}

/* Ops that cost nothing if computed twice. */
static bool only_moves(const tc_op *op)
{
    return op->code == TC_SPLAT || op->code == TC_BROADCAST ||
           op->code == TC_TRANS ||
           (op->code == TC_EXPAND_DIMS && op->in[0]->type->rank == 1);
}

static bool is_lanes(const tc_op *op)
{
    return tc_op_has(op, TC_ELEMENTWISE) || op->code == TC_GATHER ||
           (op->code == TC_LOAD && op->in[0]->type->kind == TC_TILE);
}

static bool is_operand_of_dots(const tc_value *v)
{
    tc_each_use (u, v)
        if (u->op->code != TC_DOT || u->index > 1)
            return false;
    return true;
}

/* Used elsewhere too: not worth computing in both orders. */
static bool is_shared(const tc_value *v)
{
    return v->uses && v->uses->next && !is_operand_of_dots(v);
}

static bool passes(const tc_value *v)
{
    return v->def && is_flat(v) &&
           (only_moves(v->def) || (is_lanes(v->def) && !is_shared(v)));
}

bool tc_is_source(const tc_value *v)
{
    if (is_flat(v) && tc_match_op(v, TC_TRANS))
        v = v->def->in[0];
    return !passes(v);
}

void tc_each_source(tc_value *v, bool swapped, tc_source_fn *fn, void *user)
{
    if (!is_flat(v))
        return;
    if (!passes(v)) {
        fn(user, v, swapped);
        return;
    }
    if (v->def->code == TC_TRANS)
        swapped ^= is_swap(v->def);
    for (unsigned i = 0; i < v->def->nin; i++)
        tc_each_source(v->def->in[i], swapped, fn, user);
}

unsigned tc_count_transposes(const tc_value *v)
{
    unsigned n = 0;
    if (!is_flat(v) || !passes(v))
        return 0;
    n = v->def->code == TC_TRANS && is_swap(v->def);
    for (unsigned i = 0; i < v->def->nin; i++)
        n += tc_count_transposes(v->def->in[i]);
    return n;
}

/* ---- How sources lie ---- */

tc_axis_order tc_source_order(const tc_value *v)
{
    for (unsigned i = 0; i < 2; i++)
        if (tc_dim_is(v->type->dims[i], 1))
            return TC_ORDER_ANY;
    if (!v->def || v->def->code != TC_LOAD)
        return TC_ORDER_ROWS;
    tc_op *block = tc_block_of(v->def->in[0]);
    unsigned axis = block ? tc_contiguous_axis(block) : TC_MAX_RANK;
    return axis == 0   ? TC_ORDER_COLUMNS
           : axis == 1 ? TC_ORDER_ROWS
                       : TC_ORDER_ANY;
}

/* ---- Sums of products ---- */

static const tc_type *swapped_type(tc_context *cx, const tc_type *t)
{
    const tc_dim *dims[] = {t->dims[1], t->dims[0]};
    return tc_type_shaped(cx, TC_TILE, 2, dims, t->elem);
}

/* Is v, through ops with one use each, only stored? */
static bool is_only_stored(const tc_value *v)
{
    while (tc_value_has_one_use(v) && v->uses->op->code != TC_STORE) {
        const tc_op *op = v->uses->op;
        if (op->nout != 1 || !passes(op->out[0]))
            return false;
        v = op->out[0];
    }
    return tc_value_has_one_use(v);
}

/* The dot of a sum that a loop carries, and nothing else looks at; or the dot
 * itself. */
static tc_op *dot_of_sum(const tc_value *v)
{
    tc_op *op = v->def;
    if (!op || !is_flat(v) || !is_only_stored(v))
        return NULL;
    if (op->code == TC_DOT)
        return op;
    if (op->code != TC_FOR)
        return NULL;
    const tc_value *arg = op->regions[0]->args[1 + v->index];
    tc_value *next = tc_region_terminator(op->regions[0])->in[v->index];
    tc_op *dot = tc_match_op(next, TC_DOT);
    bool adds = dot && dot->nin == 3 && dot->in[2] == arg;
    return adds && tc_value_has_one_use(next) && tc_value_has_one_use(arg) &&
                   tc_match_op(op->in[3 + v->index], TC_SPLAT)
               ? dot
               : NULL;
}

static void look_for_sum(void *user, tc_value *source, bool swapped)
{
    tc_op **dot = user;
    if (!*dot)
        *dot = dot_of_sum(source);
}

tc_op *tc_transposable_dot(tc_value *v)
{
    tc_op *dot = NULL;
    tc_each_source(v, true, look_for_sum, &dot);
    return dot;
}

/* (a b)^T = b^T a^T: the same products, added up in the same order. */
static tc_value *turned_dot(tc_transposes *t, tc_op *dot)
{
    tc_builder b = tc_builder_before(dot);
    const tc_type *type =
        swapped_type(dot->func->module->cx, dot->out[0]->type);
    tc_value *in[3];
    for (unsigned i = 0; i < 2; i++)
        in[i] = tc_build(&b, TC_TRANS, 1, &dot->in[1 - i], NULL);
    if (dot->nin == 3)
        in[2] = tc_transposed(t, dot->in[2], true);
    tc_value *r = tc_build_like(&b, dot, in, type);
    if (tc_dot_is_unsigned(dot, 0) != tc_dot_is_unsigned(dot, 1))
        tc_op_set_word(r->def, "unsigned",
                       tc_dot_is_unsigned(dot, 0) ? "b" : "a");
    r->name = dot->out[0]->name;
    r->loc = dot->out[0]->loc;
    return r;
}

/* The loop's sum itself becomes the transposed one. */
static tc_value *turned_sum(tc_transposes *t, tc_value *v)
{
    tc_op *dot = dot_of_sum(v), *loop = v->def;
    if (loop == dot)
        return turned_dot(t, dot);
    tc_value *arg = loop->regions[0]->args[1 + v->index];
    tc_op *yield = tc_region_terminator(loop->regions[0]);
    tc_op_set_in(loop, 3 + v->index,
                 tc_transposed(t, loop->in[3 + v->index], true));
    arg->type = v->type = swapped_type(loop->func->module->cx, v->type);
    tc_map_set(&t->made[true], arg, arg);
    tc_op_set_in(yield, v->index, turned_dot(t, dot));
    tc_op_erase(dot);
    return v;
}

/* ---- The same, transposed ---- */

static tc_value *made(tc_transposes *t, tc_value *v, bool swapped,
                      tc_value *with)
{
    tc_map_set(&t->made[swapped], v, with);
    return with;
}

static tc_value *transposed_source(tc_value *v)
{
    tc_func *f = v->def ? v->def->func : v->region->func;
    tc_builder b = tc_builder_after(f, v, v->loc);
    return tc_build(&b, TC_TRANS, 1, &v, NULL);
}

static tc_value *transposed_op(tc_transposes *t, tc_op *op, bool swapped)
{
    enum { MOST = TC_MAX_RANK + 3 };
    tc_value *in[MOST], *v = op->out[0];
    bool same = !swapped;
    if (op->nin > MOST)
        return swapped ? transposed_source(v) : v;
    for (unsigned i = 0; i < op->nin; i++) {
        in[i] = is_flat(op->in[i]) ? tc_transposed(t, op->in[i], swapped)
                                   : op->in[i];
        same &= in[i] == op->in[i];
    }
    if (same)
        return v;
    tc_builder b = tc_builder_before(op);
    tc_context *cx = op->func->module->cx;
    tc_value *r = tc_build_like(&b, op, in,
                                swapped ? swapped_type(cx, v->type) : v->type);
    if (op->code == TC_EXPAND_DIMS)
        tc_op_set_int(r->def, "axis", 1 - tc_op_int(op, "axis"));
    r->name = v->name;
    r->loc = v->loc;
    return r;
}

tc_value *tc_transposed(tc_transposes *t, tc_value *v, bool swapped)
{
    tc_value *r = tc_map_get(&t->made[swapped], v);
    if (r)
        return r;
    if (!passes(v) && swapped)
        return made(t, v, swapped,
                    t->turn_sums && dot_of_sum(v) ? turned_sum(t, v)
                                                  : transposed_source(v));
    if (!passes(v))
        return v;
    if (v->def->code == TC_TRANS)
        return tc_transposed(t, v->def->in[0], swapped ^ is_swap(v->def));
    return made(t, v, swapped, transposed_op(t, v->def, swapped));
}

/* ---- Who minds ---- */

static bool is_8_bits(const tc_value *v)
{
    return tc_kind_is_f8(tc_lane_kind(v));
}

bool tc_dot_is_k_major_only(const tc_op *dot, const tc_target *target)
{
    bool ints = tc_lane_kind(dot->in[0]) == TC_I8;
    return (ints && target->shared_per_block > 0) ||
           (target->mma_fp8 && is_8_bits(dot->in[0]) && is_8_bits(dot->in[1]));
}
