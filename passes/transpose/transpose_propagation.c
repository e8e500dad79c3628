/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose-propagation: moves transposes of dot operands to where they cost
 * nothing.
 *
 *   %x = load .. : tile<64x128 x bf16>
 *   %w = cast %x : tile<64x128 x f8e4m3>
 *   %d = dot %p, %w                        K is the slow axis of %w
 * becomes, if the instruction takes only a B whose columns are contiguous,
 *   %0 = trans %x : tile<128x64 x bf16>
 *   %w = cast %0 : tile<128x64 x f8e4m3>
 *   %1 = trans %w : tile<64x128 x f8e4m3>
 *   %d = dot %p, %1
 *
 * A transpose of a dot's operand is a view of a buffer, and a transpose of a
 * loaded tile only changes which thread reads which element. In between,
 * elements would be stored across the rows of a buffer, or be read byte by
 * byte. So transposes move up, through casts, factors and broadcasts, if the
 * instruction takes one order only; otherwise down into the dot, as far as that
 * leaves fewer of them.
 *
 * A tile that is multiplied as it was loaded keeps its order: the tensor would
 * need another order (passes/transpose/transpose_plan.c). Tests:
 * test/ir/passes/transpose-propagation.
 */
#include "passes/analysis/axis_info.h"
#include "passes/analysis/match.h"
#include "passes/passes.h"
#include "passes/target/machine_model.h"
#include "passes/transpose/transposes.h"

static const char pass[] = "transpose-propagation";

struct propagation {
    tc_pass_env *env;
    tc_transposes transposes;
    bool changed;
};

static tc_transposes new_transposes(const struct propagation *p)
{
    tc_arena *a = p->env->scratch;
    return (tc_transposes){.made = {{.arena = a}, {.arena = a}}};
}

/* Counts the sources that would have to be transposed. */
struct misfits {
    unsigned n;
    const tc_value *last;
};

static void count_misfit(void *user, tc_value *source, bool swapped)
{
    struct misfits *m = user;
    tc_axis_order order = tc_source_order(source);
    if (order == (swapped ? TC_ORDER_ROWS : TC_ORDER_COLUMNS)) {
        m->n++;
        m->last = source;
    }
}

static struct misfits misfits_of(tc_value *v, bool swapped)
{
    struct misfits m = {0};
    tc_each_source(v, swapped, count_misfit, &m);
    return m;
}

static const char *source_name(const struct propagation *p, const tc_value *v)
{
    const tc_value *tensor =
        v->def && v->def->code == TC_LOAD ? tc_accessed_tensor(v->def) : NULL;
    return tensor ? tc_arena_printf(p->env->scratch, "the load of %s",
                                    tc_value_name(p->env->cx, tensor))
                  : "what it is computed from";
}

static void say_moved(const struct propagation *p, const tc_op *dot, unsigned i,
                      const struct misfits *m)
{
    tc_context *cx = p->env->cx;
    const char letter = i ? 'B' : 'A';
    if (m->n)
        tc_remark(cx, dot->loc, pass,
                  "dot: operand %c is computed transposed, %s in one piece: "
                  "from %s on",
                  letter, i ? "each column" : "each row",
                  source_name(p, m->last));
    else
        tc_remark(cx, dot->loc, pass,
                  "dot: operand %c is computed as its sources lie in memory; "
                  "the dot reads it transposed",
                  letter);
}

static void set_operand(struct propagation *p, tc_op *dot, unsigned i,
                        bool swapped)
{
    tc_value *v = tc_transposed(&p->transposes, dot->in[i], swapped);
    if (swapped) {
        tc_builder b = tc_builder_before(dot);
        v = tc_build(&b, TC_TRANS, 1, &v, NULL);
    }
    if (v == dot->in[i])
        return;
    tc_op_set_in(dot, i, v);
    p->changed = true;
}

/* The order that the instruction wants is worth any number of transposes. */
static void visit_operand(struct propagation *p, tc_op *dot, unsigned i)
{
    tc_value *v = dot->in[i];
    if (tc_is_source(v))
        return;
    struct misfits plain = misfits_of(v, false), swapped = misfits_of(v, true);
    bool only = p->env->options->enforce != TC_ENFORCE_OFF &&
                tc_dot_is_k_major_only(dot, p->env->target);
    bool swap = only ? i == 1 : swapped.n < plain.n;
    bool is_swapped = tc_match_op(v, TC_TRANS) != NULL;
    const struct misfits *left = swap ? &swapped : &plain;
    if (swap == is_swapped && left->n >= tc_count_transposes(v) - is_swapped)
        return;
    set_operand(p, dot, i, swap);
    if (!tc_is_source(dot->in[i]))
        say_moved(p, dot, i, left);
}

static void transpose_propagation_visit(struct propagation *p, tc_region *r)
{
    tc_each_nested_first (op, r) {
        for (unsigned i = 0; op->code == TC_DOT && i < 2; i++)
            visit_operand(p, op, i);
    }
}

tc_change tc_pass_transpose_propagation(tc_func *f, tc_pass_env *env)
{
    struct propagation p = {.env = env};
    p.transposes = new_transposes(&p);
    transpose_propagation_visit(&p, f->body);
    return p.changed ? TC_CHANGED : TC_UNCHANGED;
}
