/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the verifier, for each other (the entries are tc_module_verify
 * and tc_func_verify in ir.h; verify.c states the rules).
 *
 *   verify.c        modules, functions, kernels, compile-time parameters
 *   verify_type.c   types and sizes
 *   verify_walk.c   structure and SSA: regions, ops, values, uses
 *   verify_op.c     what only some ops ask for
 *   verify_machine.c   the same of the machine level
 *   verify_mark.c   marks of a profile
 *   verify_plan.c   the same of plans
 *   verify_tune.c   tuning spaces of kernels
 */
#ifndef TC_VERIFY_H
#define TC_VERIFY_H

#include "ir/ir.h"

enum {
    TC_MAX_DEPTH = 66, /* of regions in regions; the parser allows 64 */
    TC_MAX_CALL_DEPTH = 64,
    TC_MAX_TILE_COUNT = 1 << 24 /* elements */
};

/* One function's verification. While it runs, value->data == the verifier
 * marks the values that can be used where the walk stands. */
typedef struct tc_verifier {
    tc_context *cx;
    const tc_func *f;
    unsigned depth;
    const tc_op *combiner; /* the `reduce` whose region the walk is in */
    bool speculated;       /* the walk is in what may run unasked */
    bool in_grid;
    bool refused_generic; /* of the machine level, reported: once */
    bool broken; /* something could not be entered: lists, types are missing */
    const tc_dim *bad_sides[8]; /* reported: each once */
    unsigned nbad_sides;
} tc_verifier;

/* Why `t` is no type for a value of f, NULL if it is one. The text lives until
 * the diagnostics are cleared. */
const char *tc_type_problem(const tc_func *f, const tc_type *t);
/* The first side of a tile or block pointer that is none; NULL: all are. */
const tc_dim *tc_type_bad_side(const tc_func *f, const tc_type *t);
/* The same for a size expression (not `?`). */
const char *tc_dim_problem(const tc_func *f, const tc_dim *d);
/* The same for the default of a compile-time parameter. */
const char *tc_default_problem(const tc_func *f, const tc_dim *d);

/* tune(..) of a kernel. */
bool tc_verify_tune(const tc_func *f) TC_MUST_CHECK;
/* Body or grid of v->f, and all in it. */
bool tc_verify_region(tc_verifier *v, tc_region *r) TC_MUST_CHECK;

/* The op may stand in a grid. Calls: see verify.c. */
bool tc_verify_fits_grid(const tc_op *op);
/* Of an op whose structure, operands and attributes are right: its regions'
 * number and arguments, and its entry in the table of extra rules. */
bool tc_verify_op_rules(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
/* Of a function whose ops are right: does it mix levels? */
bool tc_verify_level(const tc_verifier *v) TC_MUST_CHECK;
bool tc_verify_mark(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
bool tc_verify_machine_op(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
/* Does the number fit an element of that type? `what` is "pad ", "". */
bool tc_verify_fits(const tc_verifier *v, const tc_op *op, const char *what,
                    tc_number n, const tc_type *elem) TC_MUST_CHECK;
/* Plans: may the op stand in v->f? Its own rules. */
bool tc_verify_plan_place(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
bool tc_verify_workspace(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
bool tc_verify_fill(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
bool tc_verify_launch(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
/* Its number of regions, a region's of arguments, its boundary(...). */
bool tc_verify_region_count(const tc_verifier *v, const tc_op *op,
                            unsigned n) TC_MUST_CHECK;
bool tc_verify_arg_count(const tc_verifier *v, const tc_region *r,
                         unsigned n) TC_MUST_CHECK;
bool tc_verify_follow(const tc_verifier *v, const tc_op *op,
                      unsigned first) TC_MUST_CHECK;
bool tc_verify_boundary(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
/* Tiles among the operands have this layout. */
bool tc_verify_places(const tc_verifier *v, const tc_op *op,
                      const tc_layout *layout) TC_MUST_CHECK;
/* Whether a terminator hands the owner of its region what that expects. */
bool tc_verify_terminator(const tc_verifier *v, const tc_op *op) TC_MUST_CHECK;
/* The terminator that the region must end in. */
tc_opcode tc_expected_terminator(const tc_region *r);
/* `for: region 0`, `body of @f`: for messages. */
const char *tc_region_name(tc_context *cx, const tc_region *r);

#endif
