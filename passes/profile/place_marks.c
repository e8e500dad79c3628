/* SPDX-License-Identifier: Apache-2.0
 *
 * place-marks: in a kernel with profile(..), a `mark` where a section of a
 * role's work begins. The last pass: no other one sees marks.
 *
 *   mbarrier_wait %full.k, ..        mark number(4) kind(wait) label("full.k")
 *   %s = mma %q, %k async(true)      mbarrier_wait %full.k, ..
 *   %p = exp2(..)             =>     mark number(5) kind(issue) label("s")
 *                                    %s = mma %q, %k async(true)
 *                                    mark number(6) kind(math)
 *                                    %p = exp2(..)
 *
 * A loop's step begins with a mark, so that a profile counts steps. A loop or
 * branch that only computes is one section with the ops around it.
 * Tests: test/ir/passes/place-marks.
 */
#include "passes/analysis/roles.h"
#include "passes/passes.h"
#include "passes/profile/section.h"

#include <string.h>

enum { MOST_MARKS = 65535 };

typedef struct placing {
    tc_context *cx;
    unsigned n;
} placing;

static void place_before(placing *p, tc_op *before, tc_section s)
{
    tc_builder b = tc_builder_before(before);
    tc_op *mark = tc_build_effect(&b, TC_MARK, 0, NULL);
    tc_op_set_int(mark, "number", ++p->n);
    tc_op_set_word(mark, "kind", s.kind);
    if (s.label)
        tc_op_set_attr(mark, "label",
                       (tc_attr){.kind = TC_ATTR_STRING,
                                 .s = tc_string_get(p->cx, s.label)});
}

/* Has the op sections other than math in its regions? */
static bool has_sections(placing *p, const tc_op *op)
{
    for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
        tc_each_nested (inner, op->regions[i]) {
            tc_section s = tc_section_of(p->cx, inner);
            if (s.kind && strcmp(s.kind, "math") != 0)
                return true;
        }
    return false;
}

static tc_section section_of(placing *p, const tc_op *op)
{
    return op->nregions && !tc_op_combines(op)
               ? tc_section_of_regions(p->cx, op)
               : tc_section_of(p->cx, op);
}

static void place_in(placing *p, tc_region *r, tc_section now)
{
    static const tc_section unknown = {NULL, NULL};
    tc_each_op (op, r) {
        if (op->code == TC_MARK)
            continue;
        if (has_sections(p, op)) {
            for (unsigned i = 0; i < op->nregions; i++)
                place_in(p, op->regions[i], tc_op_is_loop(op) ? unknown : now);
            now = unknown;
            continue;
        }
        tc_section s = section_of(p, op);
        if (!s.kind)
            continue;
        if (!tc_section_continues(now, s))
            place_before(p, op, s);
        now = s;
    }
}

static void place_in_role(placing *p, tc_region *r)
{
    const tc_section begin = {"begin", NULL}, end = {"end", NULL};
    tc_op *first = r->first;
    place_before(p, first, begin);
    place_in(p, r, begin);
    place_before(p, tc_region_terminator(r), end);
}

tc_change tc_pass_place_marks(tc_func *f, tc_pass_env *env)
{
    placing p = {.cx = env->cx};
    tc_op *roles = tc_roles_of(f);
    if (!f->profile || tc_region_has_op(f->body, TC_MARK))
        return TC_UNCHANGED;
    if (roles) {
        place_in_role(&p, tc_producer(roles));
        place_in_role(&p, tc_consumers(roles));
    }
    if (roles && tc_transposer(roles))
        place_in_role(&p, tc_transposer(roles));
    if (!roles)
        place_in_role(&p, f->body);
    if (p.n <= MOST_MARKS)
        return TC_CHANGED;
    tc_error(env->cx, f->loc,
             "place-marks: %u sections, a profile has at most %d: profile a "
             "kernel with smaller branches",
             p.n, MOST_MARKS);
    return TC_FAILED;
}
