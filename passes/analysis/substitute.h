/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces compile-time names by their bindings in the types and attributes of
 * ops (used by bind-params and inline).
 */
#ifndef TC_SUBSTITUTE_H
#define TC_SUBSTITUTE_H

#include "ir/ir.h"

void tc_substitute_region(tc_region *r, const tc_bindings *b);

#endif
