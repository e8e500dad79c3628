/* SPDX-License-Identifier: Apache-2.0
 *
 * Which buffers an mbarrier guards, as the producer uses it.
 */
#ifndef TC_RING_GUARDS_H
#define TC_RING_GUARDS_H

#include "ir/ir.h"

/* May a thread that waits for the mbarrier, or arrives at it, mean the buffer
 * of that smem_alloc? True unless the producer shows that it means others,
 * which only products of warp groups read. (Threads that read a tile themselves
 * meet before they release it; that is best done once, for all such rings.) */
bool tc_may_guard(const tc_value *mbarrier, const tc_op *alloc);

#endif
