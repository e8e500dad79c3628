/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of a function parameter becomes a call of the function bound to it.
 */
#ifndef TC_DIRECT_CALL_H
#define TC_DIRECT_CALL_H

#include "ir/ir.h"

/* The operand that a call or vjp offers under that name, or NULL. */
tc_value *tc_call_offer(const tc_op *call, const char *name);
/* Replaces a call of a function parameter, likewise a vjp, by that of f:
 *
 *   call mod(%a, n=%n)  ->  call @f(%a, %n, %captured)
 *
 * `in` has a value for each parameter of f; those of the signature come first
 * and are the arguments of the call. Returns the new op. */
tc_op *tc_call_direct(tc_arena *scratch, tc_op *call, const tc_func *f,
                      tc_value *const *in);
/* Replaces `op` by `with`, which is detached and has as many results. */
void tc_call_replace(tc_op *op, tc_op *with);

#endif
