/* SPDX-License-Identifier: Apache-2.0
 *
 * The roles of a warp-specialized kernel: the regions of its one `warp_groups`
 * op.
 */
#ifndef TC_ROLES_H
#define TC_ROLES_H

#include "ir/ir.h"

enum { TC_PRODUCER_REGION, TC_CONSUMERS_REGION, TC_TRANSPOSER_REGION };

/* `warp_groups` of a kernel; NULL: its warps have no roles. */
tc_op *tc_roles_of(const tc_func *f);
/* `warp_groups` that the op is in; NULL: it is in none. */
tc_op *tc_roles_around(const tc_op *op);

/* One thread that issues copies; its warp group may hold store warps too. */
tc_region *tc_producer(const tc_op *roles);
/* The kernel's warps (tc_func.warps), which compute. */
tc_region *tc_consumers(const tc_op *roles);
/* Warps that put tiles into another order; NULL: there is no such role. */
tc_region *tc_transposer(const tc_op *roles);

#endif
