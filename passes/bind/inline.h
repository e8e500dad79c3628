/* SPDX-License-Identifier: Apache-2.0
 *
 * Inlining into one function, for passes that need a body without calls, or
 * that bind compile-time parameters.
 */
#ifndef TC_INLINE_H
#define TC_INLINE_H

#include "passes/passes.h"

/* Replaces the calls in f, and in what it calls. False: reported. */
bool tc_inline_calls(tc_func *f, tc_pass_env *env) TC_MUST_CHECK;
/* The same of the calls in `f`, and in the funcs of the module, whose callee
 * inherits compile-time parameters, or that give values for some: before those
 * of `f` are bound, and gone. *changed: there was such a call. */
bool tc_inline_inheriting(tc_module *m, tc_func *f, tc_pass_env *env,
                          bool *changed) TC_MUST_CHECK;
/* Erases the funcs that inherit, once nothing calls them. Whether there were
 * any. */
bool tc_erase_inheriting(tc_module *m);

#endif
