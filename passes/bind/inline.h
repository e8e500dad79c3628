/* SPDX-License-Identifier: Apache-2.0
 *
 * Inlining into one function, for passes that want a body without calls.
 */
#ifndef TC_INLINE_H
#define TC_INLINE_H

#include "passes/passes.h"

/* Replaces the calls in f, and in what it calls. False: reported. */
bool tc_inline_calls(tc_func *f, tc_pass_env *env) TC_MUST_CHECK;

#endif
