/* SPDX-License-Identifier: Apache-2.0
 *
 * What mods capture, as arguments of a launch.
 */
#ifndef TC_CAPTURED_H
#define TC_CAPTURED_H

#include "lib/handles.h"

/* Is it the name of a gradient, "grad.score.bias"? */
bool tc_is_gradient(const char *name);

/* Arguments by parameter of the kernel: out has room for k->nparams, and those
 * that have no name were not given. */

/* Values that mod expressions hold; those that k does not capture are left out.
 */
void tc_captured_values(const tilec_kernel *k, const tilec_argument *values,
                        unsigned n, tilec_argument *out);
/* The caller's values, by name: "mask.offsets", or "offsets" where that is
 * unambiguous. TILEC_USAGE: no mod captures it. */
tilec_status tc_captured_place(const tilec_kernel *k,
                               const tilec_argument *given, size_t n,
                               tilec_argument *out, tilec_error *error);
/* The same for gradients, by the names of what they are of. */
tilec_status tc_captured_place_gradients(const tilec_kernel *k,
                                         const tilec_argument *given, size_t n,
                                         tilec_argument *out,
                                         tilec_error *error);

#endif
