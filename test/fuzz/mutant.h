/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutants of a program's text: most of them are still programs, since what
 * takes a token's place is of its kind, and what takes a value's place is of
 * its type.
 */
#ifndef TEST_MUTANT_H
#define TEST_MUTANT_H

#include "ir/base/arena.h"
#include "test/numerics/number.h"

/* `text` with one to five changes; lines may come from `donor`. In the arena.
 */
char *mutant_new(tc_arena *a, num_rng *r, const char *text, const char *donor);

#endif
