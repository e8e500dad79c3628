/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/program/marks.h"

#include "lib/program/json_text.h"
#include "lib/program/timeline.h"
#include "passes/analysis/roles.h"
#include "passes/profile/section.h"
#include "passes/target/machine_model.h"

typedef struct listing {
    tc_text *out;
    tc_context *cx;
    tc_func *f;
    const char *role;
    int nloops, nmarks;
} listing;

static const char *const roles[] = {"producer", "consumers", "transposer"};

static void put_comma(listing *l, int n)
{
    tc_text_add(l->out, n ? "," : "");
}

/* ---- Writers ---- */

static void put_writer(listing *l, int n, const char *role, unsigned group)
{
    put_comma(l, n);
    tc_text_add(l->out, "{");
    tc_json_put_member(l->out, "role", role);
    tc_text_printf(l->out, ",\"group\":%u}", group);
}

static void put_writers(listing *l, const tc_op *groups)
{
    unsigned n = (l->f->warps + TC_WARPGROUP_WARPS - 1) / TC_WARPGROUP_WARPS;
    const char *role = groups ? roles[TC_CONSUMERS_REGION] : "all warps";
    tc_text_add(l->out, ",\"writers\":[");
    for (unsigned i = 0; i < n; i++)
        put_writer(l, (int)i, role, i);
    if (groups)
        put_writer(l, 1, roles[TC_PRODUCER_REGION], 0);
    if (groups && tc_transposer(groups))
        put_writer(l, 1, roles[TC_TRANSPOSER_REGION], 0);
    tc_text_add(l->out, "]");
}

/* ---- Loops and marks ---- */

static void put_loop(listing *l, const tc_op *loop, int parent)
{
    put_comma(l, l->nloops);
    tc_text_add(l->out, "{");
    tc_json_put_member(l->out, "role", l->role);
    tc_json_put_member(l->out, "name", tc_section_loop(l->cx, loop));
    tc_text_printf(l->out, ",\"parent\":%d", parent);
    tc_json_put_place(l->out, loop->loc);
    tc_text_add(l->out, "}");
}

/* Where a walk is: the innermost loop, and branches within that. */
typedef struct place {
    int loop, branches;
} place;

static void put_mark(listing *l, const tc_op *mark, place at)
{
    const char *label = tc_op_word(mark, "label");
    put_comma(l, l->nmarks++);
    tc_text_printf(l->out, "{\"number\":%d,\"loop\":%d,\"branches\":%d",
                   (int)tc_op_int(mark, "number"), at.loop, at.branches);
    tc_json_put_member(l->out, "role", l->role);
    tc_json_put_member(l->out, "kind", tc_op_word(mark, "kind"));
    tc_json_put_member(l->out, "name", label ? label : "");
    tc_json_put_place(l->out, mark->loc);
    tc_text_add(l->out, "}");
}

/* Two walks, each of which numbers the loops as they come. */
static void put_region(listing *l, const tc_region *r, place at, bool loops)
{
    tc_each_op (op, r) {
        place inner = at;
        if (op->code == TC_MARK && !loops)
            put_mark(l, op, at);
        if (tc_op_is_loop(op) && loops)
            put_loop(l, op, at.loop);
        if (tc_op_is_loop(op))
            inner = (place){l->nloops++, 0};
        inner.branches += op->code == TC_IF;
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            put_region(l, op->regions[i], inner, loops);
    }
}

static void put_list(listing *l, const tc_op *groups, bool loops)
{
    l->nloops = l->nmarks = 0;
    tc_text_printf(l->out, ",\"%s\":[", loops ? "loops" : "marks");
    for (unsigned i = 0; groups && i < groups->nregions; i++) {
        l->role = roles[i];
        put_region(l, groups->regions[i], (place){-1, 0}, loops);
    }
    l->role = "all warps";
    if (!groups)
        put_region(l, l->f->body, (place){-1, 0}, loops);
    tc_text_add(l->out, "]");
}

void tc_marks_json(tc_text *out, tc_func *f, const tc_target *target)
{
    listing l = {.out = out, .cx = f->module->cx, .f = f};
    const tc_op *groups = tc_roles_of(f);
    tc_text_add(out, "{");
    tc_json_put_member(out, "kernel", f->name);
    tc_json_put_member(out, "target", target->name);
    put_writers(&l, groups);
    put_list(&l, groups, true);
    put_list(&l, groups, false);
    tc_text_add(out, ",\"model\":");
    tc_timeline_json(out, f, target);
    tc_text_add(out, "}");
}
