/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as codes of storage types (ir/types/type.h).
 */
#ifndef TC_STORED_H
#define TC_STORED_H

#include "ir/ir.h"

/* The code of a literal, as the int that holds it in a register: wrapped.
 * False: the type has no such number. */
bool tc_stored_code(tc_kind kind, tc_number n, int64_t *code) TC_MUST_CHECK;
/* The byte, as an i8, whose two elements both have this code of 4 bits. */
int8_t tc_stored_twice(int64_t code);

#endif
