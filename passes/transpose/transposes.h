/* SPDX-License-Identifier: Apache-2.0
 *
 * Analyzes an expression of tiles with two axes, and builds the same expression
 * with its axes exchanged:
 *
 *   trans(cast(%x) * %row[none, :])  =  cast(trans(%x)) * %row[:, none]
 *
 * The analysis passes through elementwise ops, broadcasts and reads by tiles of
 * pointers or indices; other ops are the sources of the expression. If the
 * sources are windows of tensors, one of their axes is contiguous in memory.
 */
#ifndef TC_TRANSPOSES_H
#define TC_TRANSPOSES_H

#include "ir/base/map.h"
#include "ir/ir.h"
#include "passes/target/target.h"

/* A tile with two axes that has no layout yet. */
bool tc_is_flat(const tc_value *v);
/* Is v computed by an op that the analysis passes through? */
bool tc_passes_transposes(const tc_value *v);
const tc_type *tc_transposed_type(tc_context *cx, const tc_type *t);

/* Called for each source; `swapped`: the expression sees it transposed. */
typedef void tc_source_fn(void *user, tc_value *source, bool swapped);
void tc_each_source(tc_value *v, bool swapped, tc_source_fn *fn, void *user);
/* The number of transposes between the expression and its sources. */
unsigned tc_count_transposes(const tc_value *v);
/* Is v a source or the trans of one, so that nothing is computed between
 * them? */
bool tc_is_source(const tc_value *v);

typedef enum tc_axis_order {
    TC_ORDER_ANY,
    TC_ORDER_ROWS,   /* axis 1 in one piece */
    TC_ORDER_COLUMNS /* axis 0 */
} tc_axis_order;
/* How the tile lies in memory; what is computed has its rows in one piece. */
tc_axis_order tc_source_order(const tc_value *source);

/* The expression, transposed if `swapped`, of sources transposed where that is
 * needed, or of what the maps hold for them. What is made is kept in the maps
 * (of the two values of `swapped`), for expressions that share a part. */
typedef struct tc_transposes {
    tc_map made[2];
} tc_transposes;
tc_value *tc_transposed(tc_transposes *t, tc_value *v, bool swapped);

/* Is operand A wanted with each row in one piece, B with each column, and
 * nothing else? (passes/instructions/mma.h says why.) */
bool tc_dot_is_k_major_only(const tc_op *dot, const tc_target *target);

#endif
