/* SPDX-License-Identifier: Apache-2.0
 *
 * assign-layouts: from tile level to machine level. Chooses the number of
 * warps, gives every tile a layout, turns dots into mma with operands in shared
 * memory or registers, and inserts convert_layout where layouts meet.
 *
 *   kernel @k(...) grid {..} {
 *     %q = load %a : tile<64x64 x bf16>
 *     %s = dot %q, %k : tile<64x64 x f32>
 *     %m = reduce %s axis(1) kind(max) : tile<64 x f32>
 *
 *   kernel @k(...) aligned(0, 1) warps(4) grid {..} {
 *     %q = load %a : tile<64x64 x bf16, #blocked(1x8, 4x8, 4x1)>
 *     %0 = smem_alloc : smem<64x64 x bf16, #rows>
 *     smem_store %0, %q
 *     ...
 *     %s = mma %0, %1, %2 instr(m16n8k16) : tile<64x64 x f32, #mma(4x1)>
 *     %m = reduce %s axis(1) kind(max)
 *         : tile<64 x f32, #slice(1 of 64, #mma(4x1))>
 *
 * It recognizes no particular kernel: see classes.c, dots.c, choice.c and
 * rows.c. Tests: test/ir/passes/assign-layouts.
 */
#include "passes/layout/assign_layouts.h"

#include "ir/parts.h"
#include "passes/analysis/match.h"
#include "passes/storage/codes.h"
#include "passes/target/machine_model.h"

/* ---- Types ---- */

static void set_layout(tc_placing *s, tc_value *v, const tc_layout *l)
{
    v->type = tc_type_with_layout(s->cx, v->type, l);
}

/* Layouts to try for the operand of a reshape where neither side's fits. */
static const tc_layout *any_reshape(tc_placing *s, const tc_op *op)
{
    const tc_type *t = op->in[0]->type;
    tc_class *classes[] = {tc_class_of(s, op->in[0]), NULL};
    const tc_layout *tries[] = {
        classes[0] ? classes[0]->layout : NULL,
        tc_layout_default(s, tc_type_with_layout(s->cx, t, NULL))};
    for (unsigned i = 0; i < 2; i++)
        if (tries[i] && tc_layout_of_result(s->cx, op, tries[i]))
            return tries[i];
    return NULL;
}

static tc_value *insert(tc_placing *s, tc_op *before, tc_opcode code,
                        tc_value *in, const tc_type *type)
{
    tc_op *op = tc_op_new(s->f, code, before->loc, 1, &in, 0);
    tc_op_set_results(op, 1, &type);
    tc_op_insert(op, before->parent, before);
    return op->out[0];
}

/* If no single layout suits both shapes, the tile goes through one long row:
 * with the digits of one shape first, then, after an exchange between threads,
 * with those of the other. */
static bool reshape_in_two(tc_placing *s, tc_op *op, const tc_layout *l)
{
    const tc_type *t = tc_type_with_layout(s->cx, op->in[0]->type, NULL);
    int32_t count = (int32_t)tc_type_count(t);
    const tc_dim *dims[] = {tc_dim_const(s->cx, count)};
    const tc_layout *in = tc_layout_default(s, t);
    const tc_layout *from = tc_layout_reshape(s->cx, in, 1, &count);
    const tc_layout *to = tc_layout_reshape(s->cx, l, 1, &count);
    if (!from || !to || tc_layout_of_result(s->cx, op, to) != l)
        return tc_error(
            s->cx, op->loc,
            "reshape: %s cannot become %s in registers; use sides "
            "that are powers of two",
            tc_type_name(s->cx, t),
            tc_type_name(s->cx,
                         tc_type_with_layout(s->cx, op->out[0]->type, NULL)));
    t = tc_type_shaped(s->cx, TC_TILE, 1, dims, t->elem);
    tc_value *v = insert(s, op, TC_RESHAPE, op->in[0],
                         tc_type_with_layout(s->cx, t, from));
    tc_map_set(&s->shapes, v->def, (void *)in);
    v = insert(s, op, TC_CONVERT_LAYOUT, v, tc_type_with_layout(s->cx, t, to));
    tc_op_set_in(op, 0, v);
    tc_map_set(&s->shapes, op, (void *)to);
    return true;
}

static bool type_reshape(tc_placing *s, tc_op *op, const tc_layout *l)
{
    if (tc_layout_of_operand(s->cx, op, l))
        return true;
    const tc_layout *from = any_reshape(s, op);
    if (!from)
        return reshape_in_two(s, op, l);
    tc_map_set(&s->shapes, op, (void *)from);
    set_layout(s, op->out[0], tc_layout_of_result(s->cx, op, from));
    return true;
}

static bool type_op(tc_placing *s, tc_op *op)
{
    const tc_layout *fixed = NULL;
    if (op->code == TC_REDUCE && tc_class_of(s, op))
        fixed = tc_layout_of_result(s->cx, op, tc_class_of(s, op)->layout);
    if (op->code == TC_SCAN)
        fixed = tc_layout_of_scan(s, op);
    for (unsigned i = 0; i < op->nout; i++) {
        tc_class *c = tc_class_of(s, op->out[i]);
        if (c)
            set_layout(s, op->out[i], fixed ? fixed : c->layout);
    }
    if (tc_op_is_parts(op))
        tc_parts_type(s, op);
    if (op->code != TC_RESHAPE)
        return true;
    return type_reshape(s, op, op->out[0]->type->layout);
}

static bool type_region(tc_placing *s, tc_region *r)
{
    for (unsigned i = 0; i < r->nargs; i++) {
        tc_class *c = tc_class_of(s, r->args[i]);
        if (c)
            set_layout(s, r->args[i], c->layout);
    }
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            if (!type_region(s, op->regions[i]))
                return false;
        if (!type_op(s, op))
            return false;
    }
    return true;
}

/* ---- Operands ---- */

static const tc_layout *yielded(const tc_op *yield, unsigned i)
{
    const tc_op *owner = yield->parent->op;
    switch (owner->code) {
    case TC_FOR: return owner->regions[0]->args[1 + i]->type->layout;
    case TC_WHILE: return owner->regions[0]->args[i]->type->layout;
    case TC_IF: return owner->out[i]->type->layout;
    default: return NULL; /* scalars of a reduce */
    }
}

/* The layout of the tile that is loaded or stored: windows get theirs from
 * it. */
static const tc_layout *layout_of_access(const tc_op *op)
{
    return op->code == TC_STORE ? op->in[1]->type->layout
                                : op->out[0]->type->layout;
}

/* The layout that an op wants of operand i, a tile. */
static const tc_layout *wanted(tc_placing *s, const tc_op *op, unsigned i)
{
    const tc_layout *l;
    switch (op->code) {
    case TC_EXPAND_DIMS:
    case TC_BROADCAST:
    case TC_TRANS:
        return tc_layout_of_operand(s->cx, op, op->out[0]->type->layout);
    case TC_RESHAPE:
        l = tc_map_get(&s->shapes, op);
        return l ? l
                 : tc_layout_of_operand(s->cx, op, op->out[0]->type->layout);
    case TC_SLICE:
    case TC_JOIN:
    case TC_INTERLEAVE: return tc_parts_wanted(s, op, i);
    case TC_STORE:
        l = tc_map_get(&s->stores, op);
        return l ? l : tc_class_of(s, op)->layout;
    case TC_REDUCE: return tc_class_of(s, op)->layout;
    case TC_TAKE:
        l = i ? op->out[0]->type->layout : op->in[0]->type->layout;
        return l ? l : tc_layout_default(s, op->in[i]->type);
    case TC_YIELD: return yielded(op, i);
    case TC_FOR: return op->regions[0]->args[i - 2]->type->layout;
    case TC_WHILE: return op->regions[0]->args[i]->type->layout;
    case TC_HISTOGRAM:
    case TC_ASSERT:
    case TC_ASSUME:
    case TC_PRINT:
        l = op->in[i]->type->layout;
        return l ? l : tc_layout_default(s, op->in[i]->type);
    case TC_BLOCK: /* of windows that one op accesses */
        return tc_layout_of_operand(s->cx, op->out[0]->uses->op,
                                    layout_of_access(op->out[0]->uses->op));
    default: return op->nout ? op->out[0]->type->layout : NULL;
    }
}

static void place_operands(tc_placing *s, tc_op *op)
{
    if (op->code == TC_DOT || op->code == TC_CONVERT_LAYOUT ||
        (op->nout == 1 && tc_relayout_is_cheap(&s->relayout, op->out[0])))
        return;
    for (unsigned i = 0; i < op->nin; i++)
        if (op->in[i]->type->kind == TC_TILE)
            tc_op_set_in(
                op, i,
                tc_relayout_get(&s->relayout, op->in[i], wanted(s, op, i)));
}

/* Ops are walked from last to first: ops that are inserted next to the current
 * one have their layouts already and are not visited. */
static void place_region(tc_placing *s, tc_region *r)
{
    for (tc_op *op = r->last, *prev; op; op = prev) {
        prev = op->prev;
        for (unsigned i = 0; i < op->nregions; i++)
            place_region(s, op->regions[i]);
        place_operands(s, op);
    }
}

/* The indices of windows get the layout of one access: each has a block of its
 * own. */
static void split_windows(tc_region *r)
{
    tc_each_nested_first (op, r) {
        while (op->code == TC_BLOCK && tc_block_index(op) && op->out[0]->uses &&
               !tc_value_has_one_use(op->out[0])) {
            tc_use *u = op->out[0]->uses;
            tc_builder b = tc_builder_before(op);
            tc_op_set_in(u->op, u->index,
                         tc_build_like(&b, op, op->in, op->out[0]->type));
        }
    }
}

/* ---- Warps and vectors ---- */

static void find_largest(const tc_region *r, int64_t *most)
{
    tc_each_nested_first (op, r) {
        for (unsigned i = 0; i < op->nout; i++)
            if (op->out[i]->type->kind == TC_TILE &&
                tc_type_count(op->out[i]->type) > *most)
                *most = tc_type_count(op->out[i]->type);
    }
}

/* Elements that threads carry round the loops of the region, in the one that
 * carries most. */
static int64_t most_carried(const tc_region *r)
{
    int64_t most = 0;
    tc_each_nested_first (op, r) {
        int64_t n = 0;
        for (unsigned i = 0; tc_op_is_loop(op) && i < op->nout; i++)
            if (op->out[i]->type->kind == TC_TILE)
                n += tc_type_count(op->out[i]->type);
        most = n > most ? n : most;
    }
    return most;
}

unsigned tc_layout_warps_by_size(const tc_func *f)
{
    int64_t largest = 1;
    unsigned warps = TC_DEFAULT_WARPS;
    find_largest(f->body, &largest);
    int64_t held = largest + most_carried(f->body);
    while (warps < TC_DEFAULT_MAX_WARPS && held / tc_threads(warps) > 32)
        warps *= 2;
    while (warps > 1 && largest < tc_threads(warps))
        warps /= 2;
    return warps;
}

/* A number of warps that is no power of two suits only kernels whose tiles'
 * rows it divides: other tiles would leave a part of the warps idle. */
static bool can_have(const tc_placing *s, unsigned warps)
{
    return (warps & (warps - 1)) == 0 ||
           (warps % TC_WARPGROUP_WARPS == 0 && tc_dots_divide(s, warps));
}

static bool choose_warps(tc_placing *s)
{
    unsigned warps = s->env->options->warps;
    warps = warps ? warps : s->f->warps;
    warps = warps ? warps : tc_dots_spread(s, tc_dots_warps(s));
    warps = warps ? warps : tc_layout_warps_by_size(s->f);
    if (warps > TC_MAX_WARPS || !can_have(s, warps))
        return tc_error(s->cx, s->f->loc,
                        "@%s: %u warps, expected a power of two up to %d, or a "
                        "multiple of 4 that divides the rows of a dot in 16s",
                        s->f->name, warps, TC_MAX_WARPS);
    s->warps = s->f->warps = warps;
    tc_dots_warn_crowded(s);
    if (s->env->options->ptxas_level)
        s->f->ptxas_level = s->env->options->ptxas_level;
    return true;
}

/* Tensors that only TMA copies read may end anywhere: if threads read them
 * after all they do so element by element. Of tensors whose columns are
 * contiguous, which are as long as a sequence. */
static void find_ragged(tc_placing *s)
{
    for (const tc_dot *d = s->dots; d; d = d->next)
        for (unsigned i = 0; i < 2 && tc_dot_is_group(d); i++) {
            const tc_value *v = d->op->in[i];
            const tc_op *trans = tc_match_op(v, TC_TRANS);
            const tc_op *load = tc_match_op(trans ? trans->in[0] : v, TC_LOAD);
            const tc_value *tensor = load ? tc_accessed_tensor(load) : NULL;
            if (tensor && !tensor->def && tensor->index < 64 &&
                tensor->type->contiguous && tc_is_aligned(s->axes, tensor) &&
                !tensor->type->dims[tc_type_contiguous(tensor->type)])
                s->f->ragged |= (uint64_t)1 << tensor->index;
        }
    s->f->aligned |= s->f->ragged;
}

static uint64_t can_be_aligned(const tc_placing *s)
{
    uint64_t bits = 0;
    const tc_region *body = s->f->body;
    if (s->env->options->any_alignment)
        return 0;
    for (unsigned i = 0; i < body->nargs && i < 64; i++)
        if (body->args[i]->type->kind == TC_TENSOR &&
            tc_can_be_aligned(body->args[i]->type))
            bits |= (uint64_t)1 << i;
    return bits;
}

/* Layouts that the program has already are for a fixed number of warps. */
static bool has_warps_asked_for(const tc_func *f, const tc_pass_env *env)
{
    unsigned asked = env->options->warps;
    return !asked || asked == f->warps ||
           tc_error(env->cx, f->loc,
                    "@%s: %u warps are asked for, but the text is at machine "
                    "level, for %u: leave the number of warps open, or give "
                    "the program at tile level",
                    f->name, asked, f->warps);
}

static bool is_product_of_batch(const tc_op *op)
{
    return op->code == TC_DOT && op->out[0]->type->rank != 2;
}

tc_change tc_pass_assign_layouts(tc_func *f, tc_pass_env *env)
{
    if (tc_func_machine_op(f))
        return has_warps_asked_for(f, env) ? TC_UNCHANGED : TC_FAILED;
    if (tc_region_any(f->body, tc_op_is_call))
        return (void)tc_error(env->cx, f->loc,
                              "assign-layouts: @%s calls functions: `inline` "
                              "comes first",
                              f->name),
               TC_FAILED;
    if (!tc_storage_is_lowered(f, "assign-layouts"))
        return TC_FAILED;
    if (tc_region_any(f->body, is_product_of_batch))
        return (void)tc_error(env->cx, f->loc,
                              "assign-layouts: @%s has products of batches: "
                              "`split-batches` comes first",
                              f->name),
               TC_FAILED;
    /* Without a named GPU the features that all have. */
    const tc_target *target =
        env->target->shared_per_block ? env->target : tc_target_get("sm_80");
    tc_placing s = {.env = env,
                    .cx = env->cx,
                    .scratch = env->scratch,
                    .f = f,
                    .target = target,
                    .relayout = {.cx = env->cx, .arena = env->scratch}};
    s.shapes.arena = s.moved.arena = env->scratch;
    if (env->options->any_alignment)
        f->aligned = f->ragged = 0; /* that the program asks for, too */
    split_windows(f->body);
    tc_dots_prepare(&s);
    s.axes = tc_axis_analyse(env->scratch, f, can_be_aligned(&s));
    s.relayout = (tc_relayout){.cx = env->cx, .arena = env->scratch};
    tc_classes_build(&s);
    tc_parts_cut(&s);
    tc_dots_group(&s);
    if (!choose_warps(&s))
        return TC_FAILED;
    tc_dots_arrange(&s);
    tc_dots_reorder(&s);
    tc_dots_widen(&s);
    tc_layouts_choose(&s);
    if (!type_region(&s, f->body))
        return TC_FAILED;
    place_region(&s, f->body);
    find_ragged(&s);
    tc_dots_lower(&s);
    if (s.failed)
        return TC_FAILED;
    tc_region_sweep(f->body);
    tc_rows_stage(&s, f->body);
    tc_loads_stage(&s, f->body);
    s.axes = tc_axis_analyse(env->scratch, f, s.axes->aligned);
    tc_vectors_plan(&s);
    tc_vectors_say(&s);
    return TC_CHANGED;
}
