/* SPDX-License-Identifier: Apache-2.0
 *
 * Casts from and to storage types as ops on their codes, ints that hold one in
 * a register (tc_scalar_info.code): of u8, u16 and u32 the same bits, of i4 and
 * u4 the number, of f8e8m0 and f4e2m1 the bits of the format.
 */
#ifndef TC_CODES_H
#define TC_CODES_H

#include "ir/ir.h"

/* The elements of v, codes of `from`, cast to `to`: no storage type. */
tc_value *tc_stored_decode(tc_builder *b, tc_value *v, tc_kind from,
                           tc_kind to);
/* The elements of v, of no storage type, cast to `to`: codes. */
tc_value *tc_stored_encode(tc_builder *b, tc_value *v, tc_kind to);
/* Codes of one storage type cast to codes of another one. */
tc_value *tc_stored_convert(tc_builder *b, tc_value *v, tc_kind from,
                            tc_kind to);
/* The type in which all values of a storage type are exact: i32, i64 or f32. */
tc_kind tc_stored_widest(tc_kind kind);
/* The low 4 bits of each byte as a code. */
tc_value *tc_stored_of_low_bits(tc_builder *b, tc_value *v, tc_kind kind);

/* For what comes after lower-storage: false where a value of a storage type is
 * left, which is reported; `user` cannot take it. */
bool tc_storage_is_lowered(const tc_func *f, const char *user) TC_MUST_CHECK;

#endif
