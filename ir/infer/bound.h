/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions bound to function parameters.
 */
#ifndef TC_BOUND_H
#define TC_BOUND_H

#include "ir/ir.h"

/* The types of the parameters and results of a function. */
typedef struct tc_signature {
    unsigned nins, nouts;
    const tc_type *const *ins, *const *outs;
} tc_signature;

tc_signature tc_signature_of(tc_arena *a, const tc_func *f);
/* That of a function parameter, with names replaced by what they are bound
 * to. */
tc_signature tc_signature_wanted(tc_context *cx, tc_arena *a, const tc_param *p,
                                 const tc_bindings *b);
bool tc_signature_is_same(const tc_signature *a, const tc_signature *b);
/* (f32, i32) -> f32 */
const char *tc_signature_text(tc_arena *a, const tc_signature *s);

/* Does f begin with the parameters of the signature, and has it its results?
 * What a generic one infers from them goes to `b`. */
bool tc_func_fits(const tc_func *f, const tc_signature *wanted, tc_bindings *b);

/* Of a call of `f` whose other parameters are bound by `b`: do the functions
 * that it gives or that f inherits have the signatures that f states, and does
 * a function that it gives capture each named argument, with its type?
 * Reports. */
bool tc_bound_check(const tc_op *call, const tc_func *f,
                    const tc_bindings *b) TC_MUST_CHECK;

#endif
