/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile-time parameters that a func inherits from its caller.
 */
#ifndef TC_INHERIT_H
#define TC_INHERIT_H

#include "ir/ir.h"

/* The type of an argument has the parameter by itself, as a size or an element:
 * what is passed determines it. */
bool tc_param_is_inferred(const tc_func *f, const tc_param *p);
/* The parameter of a func that no argument determines. */
bool tc_param_is_inherited(const tc_func *f, const tc_param *p);
/* The func has such a parameter. */
bool tc_func_inherits(const tc_func *f);
/* Binds what `f` inherits to the parameters of the function that the call
 * stands in, which have the kind that f asks for (signatures of functions: see
 * bound.h). False: reported. */
bool tc_inherit(const tc_op *call, const tc_func *f,
                tc_bindings *b) TC_MUST_CHECK;
/* The same of the callee `f`, to which the call may give values in brackets
 * (ir/given.h): these are bound instead. */
bool tc_bind_call(const tc_op *call, const tc_func *f,
                  tc_bindings *b) TC_MUST_CHECK;

#endif
