/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of marks (verify.c, rule 53).
 */
#include "ir/verify/verify.h"

enum { MOST_NUMBER = 65535 };

/* The region of the mark's role, or the kernel's body. */
static const tc_region *region_of(const tc_verifier *v, const tc_op *op)
{
    const tc_region *r = op->parent;
    while (r->op && r->op->code != TC_WARP_GROUPS)
        r = r->op->parent;
    return r->op ? r : v->f->body;
}

static const tc_op *first_mark(const tc_region *r)
{
    tc_each_nested (op, r)
        if (op->code == TC_MARK)
            return op;
    return NULL;
}

static const tc_op *last_mark(const tc_region *r)
{
    const tc_op *last = NULL;
    tc_each_nested (op, r)
        if (op->code == TC_MARK)
            last = op;
    return last;
}

static bool is_kind(const tc_op *mark, const char *kind)
{
    return tc_op_is_word(mark, "kind", kind);
}

static bool check_order(const tc_verifier *v, const tc_op *op,
                        const tc_region *r)
{
    const tc_op *first = first_mark(r), *last = last_mark(r);
    bool begins = is_kind(op, "begin"), ends = is_kind(op, "end");
    if (begins != (op == first))
        return tc_error(v->cx, op->loc,
                        begins ? "mark: a second begin of this role, expected "
                                 "it before all other marks"
                               : "mark: expected a mark kind(begin) of this "
                                 "role before it");
    if (ends != (op == last))
        return tc_error(v->cx, op->loc,
                        ends ? "mark: the end of this role's marks, expected "
                               "it after all others"
                             : "mark: expected a mark kind(end) of this role "
                               "after it");
    return (!begins && !ends) || op->parent == r ||
           tc_error(v->cx, op->loc,
                    "mark: kind(%s) in a loop or branch, expected it in the "
                    "region of the role itself",
                    tc_op_word(op, "kind"));
}

bool tc_verify_mark(const tc_verifier *v, const tc_op *op)
{
    int64_t number = tc_op_int(op, "number");
    const tc_region *r = region_of(v, op);
    if (number < 1 || number > MOST_NUMBER)
        return tc_error(v->cx, op->loc, "mark: number %lld, expected 1 to %d",
                        (long long)number, MOST_NUMBER);
    if (!v->f->is_kernel || !v->f->profile)
        return tc_error(v->cx, op->loc,
                        "mark: the kernel has no ring for it, expected "
                        "profile(2048) in its header");
    return check_order(v, op, r);
}
