/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/profile/role_sections.h"

#include "passes/schedule/cost.h"
#include "passes/target/machine_model.h"

#include <string.h>

enum {
    MOST_SECTIONS = 64,
    MOST_BEFORE = 256 /* sections before the loop */
};

typedef struct reading {
    tc_arena *a;
    tc_context *cx;
    const tc_target *target;
    double groups;
    tc_step_section *list;
    unsigned n, most, mark;
    double async_bytes; /* of the copies that are not committed yet */
    bool too_many;
} reading;

/* Of an op that computes a tile, with the ops in it. */
static double lane_cycles(const tc_op *op)
{
    double sum = 0;
    const tc_type *t = op->nout ? op->out[0]->type : NULL;
    if (tc_op_combines(op) && op->nin)
        t = op->in[0]->type;
    if (t && t->kind == TC_TILE && tc_is_tile_math(op)) {
        double each = tc_op_has(op, TC_ELEMENTWISE) || tc_op_combines(op);
        if (op->code == TC_CAST && tc_type_bytes(t->elem) == 2)
            each = 0.5; /* two elements an instruction */
        sum += each * (double)tc_type_count(t) / TC_LANES_PER_CYCLE;
    }
    for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
        tc_each_op (inner, op->regions[i])
            sum += lane_cycles(inner);
    return sum;
}

static tc_step_section *section_at(reading *r, const tc_op *op, tc_section is)
{
    tc_step_section *last = r->n ? &r->list[r->n - 1] : NULL;
    bool is_apart =
        strcmp(is.kind, "release") == 0 || strcmp(is.kind, "copy") == 0;
    if (last && !r->mark && !is_apart && tc_section_continues(last->is, is))
        return last;
    if (r->n == r->most) {
        r->too_many = true;
        return last;
    }
    tc_step_section *s = &r->list[r->n++];
    *s = (tc_step_section){.op = op, .is = is, .mark = r->mark};
    r->mark = 0;
    return s;
}

/* Copies of cp.async start in the section where they are committed. */
static void read_async_copy(reading *r, const tc_op *op)
{
    if (op->code == TC_ASYNC_COPY)
        r->async_bytes += (double)(tc_type_count(op->in[1]->type) *
                                   tc_type_bytes(op->in[1]->type->elem));
    if (op->code == TC_ASYNC_COMMIT) {
        tc_step_section *s =
            r->n ? &r->list[r->n - 1]
                 : section_at(r, op, (tc_section){"copy", NULL});
        s->commits++;
        s->async_bytes += r->async_bytes / r->groups;
        r->async_bytes = 0;
    }
}

static void add_product(const reading *r, tc_step_section *s, const tc_op *mma)
{
    double of_groups = 1 / r->groups;
    const tc_type *a = mma->in[0]->type;
    double k = (double)tc_dim_value(a->dims[a->rank - 1]);
    if (tc_op_is_word(mma, "instr", "fma"))
        s->lanes += of_groups * k * (double)tc_type_count(mma->out[0]->type) /
                    TC_LANES_PER_CYCLE;
    else
        s->products += of_groups * (double)tc_product_cycles(r->target, mma);
}

static void read_op(reading *r, const tc_op *op)
{
    tc_section is = tc_section_of(r->cx, op);
    if (op->code == TC_MARK) {
        r->mark = (unsigned)tc_op_int(op, "number");
        return;
    }
    read_async_copy(r, op);
    if (op->nregions && !tc_op_combines(op))
        is = tc_section_of_regions(r->cx, op);
    if (!is.kind)
        return;
    tc_step_section *s = section_at(r, op, is);
    double of_groups = 1 / r->groups;
    if (op->code == TC_MMA)
        add_product(r, s, op);
    else
        s->lanes += of_groups * lane_cycles(op);
    s->special += of_groups * (double)tc_special_cycles(r->target, op);
    if (op->code == TC_MMA_WAIT || op->code == TC_ASYNC_WAIT)
        s->pending = (unsigned)tc_op_int(op, "pending");
    if (op->code == TC_MBARRIER_WAIT || op->code == TC_MBARRIER_ARRIVE)
        s->mbarrier = op->in[0];
    if (op->code == TC_MBARRIER_ARRIVE && tc_op_has_attr(op, "bytes"))
        s->bytes = (double)tc_op_int(op, "bytes");
}

static void begin_list(reading *r, unsigned most)
{
    r->list = tc_arena_array(r->a, tc_step_section, most);
    r->most = most;
    r->n = r->mark = 0;
    r->async_bytes = 0;
}

static unsigned read_step(reading *r, const tc_op *loop)
{
    begin_list(r, MOST_SECTIONS);
    tc_each_op (op, loop->regions[loop->nregions - 1])
        read_op(r, op);
    return r->n;
}

/* What comes before the loop in the same tile: peeled steps leave products and
 * copies in flight, and slots that a later step releases. */
static void read_before(reading *r, const tc_op *loop)
{
    const tc_op *around = loop->parent->op;
    if (around && !tc_op_is_loop(around) && around->code != TC_WARP_GROUPS)
        read_before(r, around);
    for (const tc_op *op = loop->parent->first; op != loop; op = op->next)
        if (!tc_op_is_loop(op))
            read_op(r, op);
}

bool tc_read_role(tc_arena *a, tc_context *cx, const tc_target *target,
                  unsigned groups, const tc_op *loop, tc_role_sections *out)
{
    reading r = {.a = a, .cx = cx, .target = target, .groups = groups};
    out->n = read_step(&r, loop);
    out->of = r.list;
    begin_list(&r, MOST_BEFORE);
    read_before(&r, loop);
    out->nbefore = r.n;
    out->before = r.list;
    return !r.too_many;
}
