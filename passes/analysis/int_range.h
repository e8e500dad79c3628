/* SPDX-License-Identifier: Apache-2.0
 *
 * Value ranges of an int, or of the ints of a tile, as far as compile time
 * knows them: sizes are not negative, a program's index is below the grid's
 * length, a loop's index lies between its bounds, and so on.
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
