/* SPDX-License-Identifier: Apache-2.0
 *
 * A function of scalars applied to tiles, lane by lane (see inline.c).
 */
#ifndef TC_LIFT_H
#define TC_LIFT_H

#include "passes/passes.h"

/* `body` is a detached copy of the callee's body, its types known; `call` has
 * tile operands of one shape. Builds the lifted ops before `call` and writes
 * the values of the results to `results`, in the shape of the call. False: it
 * cannot be done; reported. `callee` is its name, for messages. */
bool tc_lift(tc_pass_env *env, tc_region *body, tc_op *call, const char *callee,
             tc_value **results) TC_MUST_CHECK;

#endif
