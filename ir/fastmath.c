/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/fastmath.h"

#include <string.h>

/* In the order of their bits. */
static const char *const names[] = {"ninf", "nnan", "reassoc", "contract",
                                    "afn",  "arcp", "nneg"};
enum { NFLAGS = sizeof names / sizeof *names };

unsigned tc_fastmath_parse(const char *word, size_t n)
{
    for (unsigned i = 0; i < NFLAGS; i++)
        if (names[i][0] == *word && strlen(names[i]) == n &&
            memcmp(names[i], word, n) == 0)
            return 1u << i;
    return 0;
}

void tc_fastmath_print(tc_text *out, unsigned flags)
{
    const char *between = "";
    for (unsigned i = 0; i < NFLAGS; i++)
        if (flags >> i & 1) {
            tc_text_printf(out, "%s%s", between, names[i]);
            between = ", ";
        }
}

/* ---- Of ops ---- */

/* -1: such an op carries none. */
static int index_of(const tc_op *op)
{
    return tc_op_attr_index(op->code, "fastmath");
}

static bool has_floats(const tc_op *op)
{
    if (tc_op_is_call(op) || op->nin == 0)
        return true;
    const tc_type *elem = tc_type_elem(op->in[0]->type);
    return elem->kind > TC_F64 || tc_scalar_infos[elem->kind].is_float;
}

static unsigned carried_by(const tc_op *op)
{
    int i = index_of(op);
    return i < 0 || !has_floats(op)
               ? 0
               : tc_op_attr_decl(op->code, (unsigned)i).flags;
}

unsigned tc_op_own_fastmath(const tc_op *op)
{
    int i = index_of(op);
    return i >= 0 && op->attrs[i].kind == TC_ATTR_FLAGS
               ? (unsigned)op->attrs[i].i
               : 0;
}

unsigned tc_op_fastmath(const tc_op *op)
{
    return tc_op_own_fastmath(op) | (op->func->fastmath & carried_by(op));
}

void tc_op_set_fastmath(tc_op *op, unsigned flags)
{
    int i = index_of(op);
    flags &= carried_by(op) & ~op->func->fastmath;
    if (i >= 0)
        op->attrs[i] = flags ? (tc_attr){.kind = TC_ATTR_FLAGS, .i = flags}
                             : (tc_attr){.kind = TC_ATTR_NONE};
}

void tc_region_add_fastmath(tc_region *r, unsigned flags)
{
    if (!flags)
        return;
    tc_each_op (op, r) {
        tc_op_set_fastmath(op, tc_op_own_fastmath(op) | flags);
        for (unsigned i = 0; i < op->nregions; i++)
            tc_region_add_fastmath(op->regions[i], flags);
    }
}
