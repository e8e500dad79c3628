/* SPDX-License-Identifier: Apache-2.0
 *
 * Two elements combined, of each operand of a reduction or a scan.
 */
#ifndef TC_INTERP_COMBINE_H
#define TC_INTERP_COMBINE_H

#include "codegen/interp/state.h"

/* x becomes x combined with y: by the op's kind (floats in f32, or f64), or by
 * its region. x, y and their poison: one for each operand combined. */
bool tc_interp_combine(tc_interp *it, const tc_op *op, tc_inum *x,
                       tc_ipoison *poison, const tc_inum *y,
                       const tc_ipoison *other) TC_MUST_CHECK;
/* What an exclusive scan begins with. */
tc_inum tc_interp_neutral(const tc_op *op);

#endif
