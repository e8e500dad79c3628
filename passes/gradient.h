/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of functions of scalars, by reverse mode (gradient.c), and what
 * each op contributes (gradient_rules.c).
 */
#ifndef TC_GRADIENT_H
#define TC_GRADIENT_H

#include "ir/map.h"
#include "passes/passes.h"

/* A derivative under construction. Values of the function being differentiated
 * hold in `data` what stands for them in the derivative. */
typedef struct tc_adjoints {
    tc_builder b;
    tc_map active; /* depends on what a gradient is wanted for */
    tc_map sums;   /* active value -> its adjoint so far */
} tc_adjoints;

bool tc_is_active(const tc_adjoints *a, const tc_value *v);
/* NULL: zero. */
tc_value *tc_adjoint(const tc_adjoints *a, const tc_value *v);
void tc_adjoint_add(tc_adjoints *a, tc_value *v, tc_value *g);

/* Adds what `op`, whose result has the adjoint g, contributes to the adjoints
 * of its operands. False: the op has no rule. */
bool tc_gradient_rule(tc_adjoints *a, const tc_op *op,
                      tc_value *g) TC_MUST_CHECK;

/* `@NAME.vjp`: takes what f takes and a seed, gives the gradient for the first
 * parameter. `f` has no compile-time parameters and is used up: it goes.
 * NULL: it has no gradient; reported, with a note at `wanted`. */
tc_func *tc_gradient_build(tc_pass_env *env, tc_func *f, const char *name,
                           tc_loc wanted);

#endif
