/* SPDX-License-Identifier: Apache-2.0
 *
 * What an int, or the ints of a tile, can be, as far as it is known at compile
 * time: sizes are not negative, a program's index is below the grid's length,
 * that of a loop between its ends, and so on.
 */
#ifndef TC_INT_RANGE_H
#define TC_INT_RANGE_H

#include "ir/base/map.h"
#include "ir/ir.h"

typedef struct tc_int_range {
    int64_t low, high; /* both included */
} tc_int_range;

/* All ints of a kind. */
tc_int_range tc_int_range_of_kind(tc_kind kind);
/* Of a scalar int, or of all lanes of a tile of ints. */
tc_int_range tc_int_range_of(const tc_value *v);
/* The same where something is known of arguments of functions: value ->
 * tc_int_range. */
tc_int_range tc_int_range_given(const tc_value *v, const tc_map *given);

#endif
