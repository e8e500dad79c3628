/* SPDX-License-Identifier: Apache-2.0
 *
 * share-addresses: computes the address of a row, and looks up an element of a
 * row or column, once a warp.
 *
 * Where 16 lanes copy a row, each of them would compute the row's address, for
 * all of its rows:
 *
 *   %row = ptr_add %base, %offset : tile<64 x ptr, #l>      8 registers, each
 *   %p = expand_dims %row axis(1)                           in 16 lanes
 *   load (broadcast %p) + ..                     in a loop
 *
 * becomes
 *
 *   %row = ptr_add %base, %offset : tile<64 x ptr, #c>      1 register
 *   %q = convert_layout %row : tile<64 x ptr, #l>           shuffles
 *   %p = expand_dims %q axis(1)
 *
 * Likewise its mask. The rows of #c are those of #l, with registers in place of
 * the lanes that hold the same. The addresses of rows come from windows by
 * index (lower-windows); loads of blocks have none. Indices that are computed
 * cost less than the shuffles: those that are looked up (gather) are shared.
 *
 * A mod that looks something up for each key (%ids[%k]) has a tile <1xN> in the
 * layout of scores: a thread holds a quarter of the keys, eight lanes the same.
 *
 *   %k = expand_dims %0 axis(0) : tile<1x128 x i32, #mma>   32 registers
 *   %x = gather %ids, %k : tile<1x128 x i32, #mma>
 *
 * becomes a gather <128> of 4 registers, shuffles, and expand_dims.
 * Tests: test/ir/passes/share-addresses.
 */
#include "ir/base/map.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/passes.h"

#include "ir/types/layout.h"

#include <string.h>

/* Rows of a thread: fewer addresses are cheaper than the shuffles. */
enum { FEWEST_ROWS = 4 };

struct sharer {
    tc_pass_env *env;
    tc_map made; /* value -> itself in `to` */
    const tc_layout *from, *to;
    const tc_type *line; /* tiles of two axes that are lines; NULL: none */
    unsigned axis;       /* of a line, the one of side 1 */
    bool looks_up;
};

/* ---- The layout ---- */

static bool is_repeated(const tc_mode *m)
{
    return m->count == 2 && m->image[0] == 0;
}

/* Rank 1, with the last registers in place of lanes that hold the same. */
static const tc_layout *without_copies(tc_context *cx, const tc_layout *l)
{
    tc_layout_spec s;
    tc_layout_spec_of(l, &s);
    unsigned n = s.nmodes[TC_REGISTER];
    for (unsigned i = 0; i < s.nmodes[TC_LANE] && n > 0; i++) {
        const tc_mode *last = &s.modes[TC_REGISTER][n - 1];
        if (!is_repeated(&s.modes[TC_LANE][i]) || last->count != 2)
            continue;
        s.modes[TC_LANE][i] = *last;
        n--;
    }
    s.nmodes[TC_REGISTER] = n;
    return tc_layout_get(cx, &s);
}

static bool find_layouts(struct sharer *s, const tc_type *t)
{
    tc_context *cx = s->env->cx;
    s->from = t->layout;
    if (t->rank != 1 || !s->from ||
        tc_layout_size(s->from, TC_REGISTER) < FEWEST_ROWS)
        return false;
    s->to = without_copies(cx, s->from);
    return 2 * tc_layout_size(s->to, TC_REGISTER) <=
               tc_layout_size(s->from, TC_REGISTER) &&
           tc_layout_conversion(cx, s->to, s->from) == TC_CONVERT_SHUFFLES;
}

/* ---- The values ---- */

static bool can_compute(const tc_op *op)
{
    if (!op || op->nout != 1 || op->nregions)
        return false;
    switch (op->code) {
    case TC_SPLAT:
    case TC_RANGE:
    case TC_RAMP:
    case TC_GATHER: return true;
    default: return tc_op_has(op, TC_ELEMENTWISE) && tc_op_has(op, TC_PURE);
    }
}

/* Already computed so, and converted: from what. */
static tc_value *unconverted(const struct sharer *s, const tc_value *v)
{
    const tc_op *op = tc_match_op(v, TC_CONVERT_LAYOUT);
    return op && op->in[0]->type->layout == s->to ? op->in[0] : NULL;
}

static bool is_line(const struct sharer *s, const tc_value *v)
{
    return s->line && v->type->rank == 2 &&
           v->type->layout == s->line->layout &&
           v->type->dims[0] == s->line->dims[0] &&
           v->type->dims[1] == s->line->dims[1];
}

static bool is_expanded_line(const struct sharer *s, const tc_value *v)
{
    return is_line(s, v) && tc_match_op(v, TC_EXPAND_DIMS) &&
           tc_op_int(v->def, "axis") == s->axis;
}

/* Can all of it be computed in another layout? And is an index of it looked up
 * (looks_up)? */
static bool find_ops(struct sharer *s, const tc_value *v, tc_map *seen)
{
    if (v->type->kind != TC_TILE || tc_map_get(seen, v))
        return true;
    if (is_expanded_line(s, v))
        return find_ops(s, v->def->in[0], seen);
    if (!is_line(s, v) && v->type->layout != s->from)
        return false;
    if (unconverted(s, v))
        return true;
    if (!can_compute(v->def))
        return false;
    tc_map_set(seen, v, s);
    s->looks_up |= v->def->code == TC_GATHER;
    for (unsigned i = 0; i < v->def->nin; i++)
        if (!find_ops(s, v->def->in[i], seen))
            return false;
    return true;
}

/* The type of v, a line too, in the layout `to`. */
static const tc_type *type_in(struct sharer *s, const tc_value *v)
{
    const tc_type *t = v->type;
    if (t->rank == 2)
        t = tc_type_shaped(s->env->cx, TC_TILE, 1, &t->dims[!s->axis], t->elem);
    return tc_type_with_layout(s->env->cx, t, s->to);
}

static tc_value *compute(struct sharer *s, tc_value *v)
{
    if (v->type->kind != TC_TILE)
        return v;
    if (is_expanded_line(s, v))
        return compute(s, v->def->in[0]);
    if (unconverted(s, v))
        return unconverted(s, v);
    tc_value *made = tc_map_get(&s->made, v);
    if (made)
        return made;
    tc_op *op = v->def;
    tc_value **in = tc_arena_array(s->env->scratch, tc_value *, op->nin + 1);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = compute(s, op->in[i]);
    tc_builder b = tc_builder_before(op);
    made = tc_build_like(&b, op, in, type_in(s, v));
    made->name = v->name;
    tc_map_set(&s->made, v, made);
    return made;
}

static bool share(struct sharer *s, tc_op *expand)
{
    tc_map seen = {.arena = s->env->scratch};
    s->looks_up = false;
    if (!find_layouts(s, expand->in[0]->type) ||
        !find_ops(s, expand->in[0], &seen) || !s->looks_up)
        return false;
    s->made = (tc_map){.arena = s->env->scratch};
    tc_value *x = compute(s, expand->in[0]);
    tc_builder b = tc_builder_before(expand);
    x = tc_build(&b, TC_CONVERT_LAYOUT, 1, &x, expand->in[0]->type);
    tc_op_set_in(expand, 0, x);
    return true;
}

/* ---- Elements of lines ---- */

/* The first line below that has its other axis added: expand_dims. */
static const tc_op *find_expanded(const tc_value *v)
{
    const tc_op *op = v->def;
    if (!op || v->type->kind != TC_TILE || v->type->rank != 2)
        return NULL;
    if (op->code == TC_EXPAND_DIMS)
        return op;
    for (unsigned i = 0; can_compute(op) && i < op->nin; i++) {
        const tc_op *found = find_expanded(op->in[i]);
        if (found)
            return found;
    }
    return NULL;
}

static bool share_gather(tc_pass_env *env, tc_op *gather)
{
    const tc_op *expand = find_expanded(gather->out[0]);
    struct sharer s = {.env = env, .line = gather->out[0]->type};
    tc_map seen = {.arena = env->scratch};
    if (!expand || !tc_loop_around(gather))
        return false;
    s.axis = (unsigned)tc_op_int(expand, "axis");
    if (!is_expanded_line(&s, expand->out[0]) ||
        !find_layouts(&s, expand->in[0]->type) ||
        !find_ops(&s, gather->out[0], &seen))
        return false;
    s.made = (tc_map){.arena = env->scratch};
    tc_value *x = compute(&s, gather->out[0]);
    tc_builder b = tc_builder_before(gather);
    x = tc_build(&b, TC_CONVERT_LAYOUT, 1, &x,
                 tc_type_with_layout(env->cx, x->type, s.from));
    tc_op *again = tc_op_new(b.func, TC_EXPAND_DIMS, gather->loc, 1, &x, 0);
    tc_op_set_attr(again, "axis", *tc_op_attr(expand, "axis"));
    tc_value_replace(gather->out[0],
                     tc_build_op(&b, again, gather->out[0]->type));
    tc_remark(env->cx, gather->loc, "share-addresses",
              "each element is looked up by one lane of a warp");
    return true;
}

/* ---- The walk ---- */

/* The values from which the pointers, or the mask, of a load are made. */
static bool share_rows(struct sharer *s, const tc_value *v)
{
    tc_op *op = v->def;
    bool changed = false;
    if (!op || v->type->kind != TC_TILE)
        return false;
    switch (op->code) {
    case TC_EXPAND_DIMS: return share(s, op);
    case TC_BROADCAST:
    case TC_PTR_ADD:
    case TC_AND:
        for (unsigned i = 0; i < op->nin; i++)
            changed |= share_rows(s, op->in[i]);
        return changed;
    default: return false;
    }
}

static bool visit_op(tc_pass_env *env, tc_op *op)
{
    struct sharer s = {.env = env};
    if (op->code == TC_GATHER && op->out[0]->type->kind == TC_TILE)
        return share_gather(env, op);
    if (op->code != TC_LOAD || !tc_loop_around(op) ||
        op->in[0]->type->kind != TC_TILE || op->in[0]->type->rank != 2)
        return false;
    bool changed = share_rows(&s, op->in[0]);
    if (op->nin > 1)
        changed |= share_rows(&s, op->in[1]);
    if (changed)
        tc_remark(env->cx, op->loc, "share-addresses",
                  "the address of each row is computed by one lane of a warp");
    return changed;
}

tc_change tc_pass_share_addresses(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, visit_op);
}
