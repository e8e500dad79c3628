/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that a call gives for function parameters of its callee.
 */
#ifndef TC_BIND_GIVEN_H
#define TC_BIND_GIVEN_H

#include "passes/passes.h"

/* `body` is a detached copy of the callee's body; its arguments are those of
 * the callee, then what the call offers by name. Calls (and vjps) of function
 * parameters that the call gives become calls of what it gives:
 *
 *   func @frame[step: func(f32) -> f32](%x: f32) { .. call step(%y) .. }
 *   call @frame[step=@add](%a, by=%b)
 *
 *   call step(%y)  ->  call @add(%y, %by)
 *
 * where @add captures %by. A function parameter of the caller stands in the
 * same way, and the offers go to it. False: nothing offers what a function
 * captures, or the new call is wrong; reported. */
bool tc_bind_given(tc_pass_env *env, const tc_op *call, const tc_func *callee,
                   tc_region *body) TC_MUST_CHECK;

#endif
