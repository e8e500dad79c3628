/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding compile-time parameters, for `bind-params` (one kernel) and
 * `bind-plan` (a plan and its kernels).
 */
#ifndef TC_BIND_PARAMS_H
#define TC_BIND_PARAMS_H

#include "passes/passes.h"

/* Values for the parameters of one function. */
typedef struct tc_parameters {
    const tc_binding *all;
    unsigned n;
    tc_loc loc; /* the place of the values, for messages; or nowhere */
} tc_parameters;

/* The values of the parameters of f, with its defaults. Reports values that are
 * wrong, unknown or missing. Types and funcs are by parameter, in scratch. */
bool tc_bind_params_value(tc_func *f, const tc_parameters *p, tc_pass_env *env,
                          tc_bindings *types,
                          const tc_func *const **funcs) TC_MUST_CHECK;
/* bind_clause.c: is it the name of a clause, `for.pingpong`? Writes it at the
 * kernel or its loops, where the text leaves it open. */
bool tc_is_clause(const char *name);
bool tc_bind_clause(tc_func *kernel, tc_loc loc,
                    const tc_binding *given) TC_MUST_CHECK;
/* A kernel without parameters is left of it. */
bool tc_bind_params_kernel(tc_func *f, const tc_parameters *p,
                           tc_pass_env *env) TC_MUST_CHECK;

#endif
