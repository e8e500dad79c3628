/* SPDX-License-Identifier: Apache-2.0
 *
 * Which keys a schedule deals: those in the reach of the mask.
 */
#ifndef TC_KVCACHE_REACH_H
#define TC_KVCACHE_REACH_H

#include "lib/mods/mods_job.h"

/* Adds a function to the program, which has the mask and @mask_reach of
 * attention_kvcache.tile: *binding, for `reach` of @kvcache_schedule. It
 * captures what the mask captures. NULL: there is none, as the mask shows all
 * keys, or as the compiler does not find which (remarks say it). keys: of a
 * step; has_offsets: query_offsets says where queries stand. False: reported.
 */
bool tc_kv_find_reach(tc_job *job, const tc_mod *mask, int64_t keys,
                      bool has_offsets, const char **binding) TC_MUST_CHECK;

#endif
