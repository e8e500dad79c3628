/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a key that every query sees.
 *
 *   sliding_window(w=8)  its own position: q <= q and q - q < 8
 *   causal_bottom_right  q + (kv_len - q_len)
 *   document_causal      its own position: bisect(x, q) is bisect(x, q)
 *   natten(..)           not known
 *
 * The mask is evaluated for that key, with symbolic values for the numbers of
 * its expression, and simplified: the result is true for all queries, or
 * unknown.
 */
#ifndef TC_MASK_ROWS_H
#define TC_MASK_ROWS_H

#include "lib/mods/mods_job.h"

/* Which key, in words, and in a remark; NULL: not known, or there may be none.
 * The mask's sources are all that has been parsed yet. */
const char *tc_mask_sure_key(tc_job *job, const tc_mod *mask, int64_t queries,
                             int64_t keys);

/* Does the mask surely hide key k from query q, of so many? */
bool tc_mask_hides(tc_job *job, const tc_mod *mask, int64_t q, int64_t queries,
                   int64_t k, int64_t keys);

#endif
