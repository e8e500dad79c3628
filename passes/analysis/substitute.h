/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces compile-time names by their bindings in the types and attributes of
 * ops (used by bind-params and inline).
 */
#ifndef TC_SUBSTITUTE_H
#define TC_SUBSTITUTE_H

#include "ir/ir.h"

void tc_substitute_region(tc_region *r, const tc_bindings *b);
/* Empty bindings with room for the parameters of f, in arena a. */
tc_bindings tc_bindings_of(tc_arena *a, const tc_func *f);

#endif
