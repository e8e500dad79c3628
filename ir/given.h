/* SPDX-License-Identifier: Apache-2.0
 *
 * Values for compile-time parameters that a call or a launch gives in brackets:
 *
 *   @f[N=64, T=bf16, mod=@g](%x)
 *
 * They are attributes of the op: `params` are the names; entry i of `sizes` is
 * the size, or NULL and entry i of `words` is a type or a function, by its name
 * or that of a parameter of the function in which the op stands.
 */
#ifndef TC_GIVEN_H
#define TC_GIVEN_H

#include "ir/ir.h"

/* The number of the value for that parameter; -1: none is given. */
int tc_given_index(const tc_op *op, const char *param);
/* The function for that parameter: "@f", or the name of a parameter; NULL: none
 * is given. */
const char *tc_given_func(const tc_op *op, const char *param);
/* The func that it gives for that function parameter; NULL: it gives none, or a
 * parameter. */
tc_func *tc_given_callee(const tc_op *op, const tc_param *param);
/* Are all of them parameters of f, each once, with a value of its kind?
 * Reports. */
bool tc_given_check(const tc_op *op, const tc_func *f) TC_MUST_CHECK;
/* Binds the sizes and types among them, which have been checked. */
void tc_given_bind(const tc_op *op, const tc_func *f, tc_bindings *b);

#endif
