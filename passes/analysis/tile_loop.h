/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops whose iterations are tiles of the grid: persist-tiles makes them and
 * marks them `over_tiles(true)`; each role of a kernel has its own.
 */
#ifndef TC_TILE_LOOP_H
#define TC_TILE_LOOP_H

#include "ir/ir.h"

bool tc_is_tile_loop(const tc_op *op);
void tc_mark_tile_loop(tc_op *loop);

#endif
