/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over tiles of a persistent kernel, as persist-tiles builds it.
 */
#ifndef TC_TILE_LOOP_H
#define TC_TILE_LOOP_H

#include "ir/ir.h"

/* Is it the loop over tiles that persist-tiles makes? Also within
 * `warp_groups`, as long as it counts or fetches. */
bool tc_is_tile_loop(const tc_op *op);
/* The same, or the consumers' part of such a loop, which the producer tells
 * what tiles there are. */
bool tc_goes_through_tiles(const tc_op *op);

#endif
