/* SPDX-License-Identifier: Apache-2.0
 *
 * swap-operands: computes sums of products transposed, with the operands
 * exchanged (swapAB of CUTLASS), where that suits the instruction or the store.
 *
 *   %sum = for .. carry(%acc = splat(0.0)) {    %x: 32 rows, %w: 64 columns
 *     yield dot %x, %w, %acc
 *   }
 *   store %y[..], cast(%sum * %f[none, :])
 * becomes
 *   %sum = for .. {
 *     yield dot trans(%w), trans(%x), %acc operands(swapped)
 *   }                                           64 rows: wgmma m64n32
 *   store %y[..], trans(cast(%sum * %f[:, none]))
 *
 * The transposes of operands are views of their buffers, and that of the sum is
 * a matter of its layout: a thread's registers hold the same elements. It goes
 * to the store, if nothing else would have to be transposed for that; TMA
 * stores write such tiles too (stmatrix .trans).
 *
 * Sums are computed transposed
 *   - where the text says so: operands(swap) of a dot. keep: never;
 *   - if they are stored, after elementwise ops only, to a tensor with
 *     contiguous columns: a thread then holds neighbours of a column;
 *   - if the cost model (swap_cost.c) says that it takes less time: rows that
 *     are no multiple of 64 (wgmma) or of 16 (mma.sync); operand B computed
 *     from what is loaded, where A is loaded: A of wgmma may come from
 *     registers.
 *
 * Tests: test/ir/passes/swap-operands.
 */
#include "passes/transpose/swap_operands.h"

#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/analysis/nesting.h"
#include "passes/target/machine_model.h"
#include "passes/transpose/sums.h"
#include "passes/transpose/transposes.h"

static const char pass[] = "swap-operands";

struct swapping {
    tc_pass_env *env;
    tc_func *f;
    tc_map known; /* dots that belong to a sum */
    bool changed, failed;
};

/* ---- Stores ---- */

/* The store that v is for, after ops with one use each, and for nothing else.
 */
static tc_op *only_store(const tc_value *v)
{
    while (tc_value_has_one_use(v) && v->uses->op->code != TC_STORE) {
        const tc_op *op = v->uses->op;
        if (op->nout != 1 || !tc_passes_transposes(op->out[0]))
            return NULL;
        v = op->out[0];
    }
    return tc_value_has_one_use(v) && v->uses->index == 1 ? v->uses->op : NULL;
}

static bool is_by_columns(const tc_op *store)
{
    tc_op *block = store->nin == 2 ? tc_block_of(store->in[0]) : NULL;
    return block && tc_contiguous_axis(block) == 0;
}

static int64_t side(const tc_value *tile, unsigned axis)
{
    return tc_dim_value(tile->type->dims[axis]);
}

/* Are there rows for all warps that had some, and for groups of four warps if
 * these multiply? */
static bool has_rows(const struct swapping *s, const tc_value *sum)
{
    int64_t rows = side(sum, 0), columns = side(sum, 1);
    int64_t step = s->env->target->wgmma && rows % TC_WARPGROUP_ROWS == 0
                       ? TC_WARPGROUP_ROWS
                       : TC_WARP_ROWS;
    return columns % step == 0 && rows % 8 == 0 &&
           (columns >= rows || columns % 128 == 0);
}

struct sources {
    unsigned transposed, turned;
};

static void count_source(void *user, tc_value *source, bool swapped)
{
    struct sources *n = user;
    *(swapped ? &n->transposed : &n->turned) += 1;
}

/* Moves the transposes of sums down to the store of v. */
static void sink_transposes(struct swapping *s, tc_op *store)
{
    tc_value *v = store->nin == 2 ? store->in[1] : NULL;
    struct sources n = {0};
    if (!v || !tc_is_flat(v) || tc_match_op(v, TC_TRANS))
        return;
    tc_each_source(v, true, count_source, &n);
    if (!n.turned || (n.transposed && !is_by_columns(store)))
        return;
    tc_arena *a = s->env->scratch;
    tc_transposes t = {.made = {{.arena = a}, {.arena = a}}};
    tc_value *turned = tc_transposed(&t, v, true);
    tc_builder b = tc_builder_before(store);
    tc_op_set_in(store, 1, tc_build(&b, TC_TRANS, 1, &turned, NULL));
    tc_erase_unused(v, a);
}

/* ---- Which sums ---- */

static bool asks(const tc_sum *sum, const char *word)
{
    for (unsigned i = 0; i < sum->ndots; i++)
        if (tc_op_is_word(sum->dots[i], "operands", word))
            return true;
    return false;
}

static void note_product(void *user, tc_value *source, bool swapped)
{
    bool *is_made = user;
    *is_made |= source->def && source->def->code != TC_LOAD;
    *is_made |= !source->def && source->region->op;
}

/* Is an operand made of results of the step's other ops than loads, such as
 * another product's? Its rows are what those ops want. */
static bool is_chained(const tc_sum *sum)
{
    bool is_made = false;
    for (unsigned i = 0; i < sum->ndots; i++)
        for (unsigned k = 0; k < 2; k++)
            tc_each_source(sum->dots[i]->in[k], false, note_product, &is_made);
    return is_made;
}

/* Is another product or a branch's result made of v? Its rows are what that
 * wants. */
static bool feeds_product(tc_map *seen, tc_value *v)
{
    if (tc_map_get(seen, v))
        return false;
    tc_map_set(seen, v, v);
    tc_each_use (u, v) {
        tc_op *op = u->op;
        if ((op->code == TC_DOT && u->index < 2) ||
            tc_op_has(op, TC_TERMINATOR))
            return true;
        for (unsigned i = 0; i < op->nout; i++)
            if (feeds_product(seen, op->out[i]))
                return true;
    }
    return false;
}

static bool saves_time(struct swapping *s, const tc_sum *sum)
{
    unsigned warps =
        s->env->options->warps ? s->env->options->warps : s->f->warps;
    int64_t plain = 0, swapped = 0;
    const char *from = NULL, *to = NULL;
    for (unsigned i = 0; i < sum->ndots; i++) {
        tc_product_time p =
            tc_product_time_of(s->env, warps, sum->dots[i], false);
        tc_product_time q =
            tc_product_time_of(s->env, warps, sum->dots[i], true);
        plain += p.cycles;
        swapped += q.cycles;
        from = p.instr;
        to = q.instr;
    }
    if (swapped * 100 > plain * TC_SWAP_PERCENT)
        return false;
    tc_remark(s->env->cx, sum->dots[0]->loc, pass,
              "dot: operands swapped: the products of a step take %lld cycles "
              "by %s, %lld by %s as they stand",
              (long long)swapped, to, (long long)plain, from);
    return true;
}

static bool suits_store(struct swapping *s, const tc_sum *sum)
{
    const tc_op *store = only_store(sum->value);
    if (!store || !is_by_columns(store) || !has_rows(s, sum->value))
        return false;
    tc_remark(s->env->cx, store->loc, pass,
              "store: %s lies by columns: the products that are stored are "
              "computed transposed",
              tc_value_name(s->env->cx, tc_block_of(store->in[0])->in[0]));
    return true;
}

/* Of a dot that no loop adds up, in a loop: others depend on its rows. */
static bool is_of_a_step(const tc_sum *sum)
{
    return sum->value->def->code == TC_DOT &&
           tc_loop_around(sum->value->def) != NULL;
}

static bool is_better(struct swapping *s, const tc_sum *sum)
{
    tc_map seen = {.arena = s->env->scratch};
    if (sum->why || asks(sum, "keep") || asks(sum, "swapped"))
        return false;
    return suits_store(s, sum) ||
           (!is_of_a_step(sum) && !is_chained(sum) &&
            !feeds_product(&seen, sum->value) && saves_time(s, sum));
}

static void refuse(struct swapping *s, const tc_sum *sum)
{
    tc_error(s->env->cx, sum->dots[0]->loc,
             "dot: operands(swap), but the sum cannot be computed transposed: "
             "%s; expected a sum that is carried by a loop or not added up, of "
             "products and elementwise ops",
             sum->why);
    s->failed = true;
}

static void visit_sum(struct swapping *s, tc_value *v)
{
    tc_sum sum = tc_sum_of(v);
    for (unsigned i = 0; i < sum.ndots; i++)
        tc_map_set(&s->known, sum.dots[i], sum.dots[i]);
    if (sum.ndots == 0)
        return;
    bool asked = asks(&sum, "swap");
    if (asked && sum.why)
        refuse(s, &sum);
    else if (asked || is_better(s, &sum)) {
        tc_sum_turn(&sum, s->env->scratch);
        s->changed = true;
    }
}

/* Its result is what another product adds to. */
static bool is_added_to(const tc_op *dot)
{
    const tc_use *u = dot->out[0]->uses;
    return u && !u->next && u->op->code == TC_DOT && u->index == 2;
}

static void visit_sums(struct swapping *s, tc_region *r)
{
    tc_each_op (op, r) {
        for (unsigned i = 0; op->code == TC_FOR && i < op->nout; i++)
            visit_sum(s, op->out[i]);
        if (op->code == TC_DOT && !tc_map_get(&s->known, op) &&
            !is_added_to(op))
            visit_sum(s, op->out[0]);
        for (unsigned i = 0; i < op->nregions; i++)
            visit_sums(s, op->regions[i]);
    }
}

static void visit_stores(struct swapping *s, tc_region *r)
{
    tc_each_nested_first (op, r) {
        if (op->code == TC_STORE)
            sink_transposes(s, op);
    }
}

tc_change tc_pass_swap_operands(tc_func *f, tc_pass_env *env)
{
    struct swapping s = {.env = env, .f = f, .known = {.arena = env->scratch}};
    visit_sums(&s, f->body);
    if (s.changed)
        visit_stores(&s, f->body);
    return s.failed ? TC_FAILED : s.changed ? TC_CHANGED : TC_UNCHANGED;
}
