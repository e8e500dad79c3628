/* SPDX-License-Identifier: Apache-2.0
 *
 * The rewrite rules of canonicalize, in sparse tables by opcode.
 *
 * A rule looks at one op (of one result) and returns the value that replaces
 * it, built at the cursor just before the op; or op->out[0] where it changed
 * the op in place; or NULL where it does not apply. Rules make programs
 * smaller or move them towards the canonical form, never back, so applying
 * them ends. Rules on floats are exact, NaN and the sign of zero included.
 *
 * To add one: a function of a few lines in the file of its kind, its line in
 * the table there, its case in test/unit/fold.c, and a file in
 * test/ir/passes/canonicalize.
 */
#ifndef TC_FOLD_H
#define TC_FOLD_H

#include "passes/analysis/match.h"

enum { TC_MAX_RULES = 8 };

typedef tc_value *tc_rule(tc_builder *b, tc_op *op);
typedef tc_rule *const tc_rule_table[TC_OPCODE_COUNT][TC_MAX_RULES];

extern tc_rule_table tc_arith_rules; /* fold_arith.c: + - * / and the like */
extern tc_rule_table tc_logic_rules; /* fold_logic.c: bits, cmp, select, cast */
extern tc_rule_table tc_shape_rules; /* fold_shape.c: splat, trans, views */
/* Rules of all elementwise ops, fold_lanes.c. */
extern tc_rule *const tc_lane_rules[TC_MAX_RULES];

/* Control flow: true where the op was changed (it may be erased, or replaced
 * by a smaller one). */
typedef bool tc_control_rule(tc_op *op);
extern tc_control_rule *const tc_control_rules[TC_OPCODE_COUNT][TC_MAX_RULES];

#endif
