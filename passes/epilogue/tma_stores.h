/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of tma-stores: which stores become TMA stores and how
 * (tma_stores.c), shared memory for their buffers (tma_store_room.c), other
 * accesses of the memory that they write (tma_store_order.c), and those in each
 * step of a loop (tma_store_steps.c).
 */
#ifndef TC_TMA_STORES_H
#define TC_TMA_STORES_H

#include "passes/passes.h"

/* A copy in a step of a loop within a tile, and the wait before its buffer is
 * written. */
typedef struct tc_step_copy {
    const tc_op *copy;
    tc_op *wait;
    struct tc_step_copy *next;
} tc_step_copy;

typedef struct tc_tma_stores {
    tc_pass_env *env;
    tc_func *f;
    tc_op *tiles; /* the loop over tiles, or NULL */
    bool changed, waits_at_end;
    /* The buffer from which a loop adds to a tensor; stores after the loop to
     * the same tensor use it too. */
    tc_value *added_from;
    const tc_value *added_to;
    tc_step_copy *steps;
} tc_tma_stores;

/* ---- tma_stores.c ---- */

/* The stored tile before a conversion that would take it through shared memory;
 * it may be transposed after that. */
tc_value *tc_tma_store_source(tc_tma_stores *s, const tc_op *store);
bool tc_tma_store_is_transposed(const tc_op *store, const tc_value *source);
/* A store of kind(add). */
bool tc_tma_store_adds(const tc_op *store);
/* Waits for all copies that this thread has issued. */
tc_op *tc_tma_store_build_wait(tc_builder *b);

/* ---- tma_store_room.c ---- */

/* How long a buffer lives. NOWHERE: there is no room even while it is written
 * and copied. */
typedef enum tc_tma_store_place {
    TC_TMA_STORE_NOWHERE,
    TC_TMA_STORE_WHILE_COPIED,
    TC_TMA_STORE_IN_LOOP,
    TC_TMA_STORE_SHARED, /* with another store */
    TC_TMA_STORE_ALWAYS
} tc_tma_store_place;
tc_tma_store_place tc_tma_store_find_place(tc_tma_stores *s, tc_op *store,
                                           const tc_type *buffer);
/* The innermost loop around the op within that over the tiles, or NULL; the
 * outermost one. */
const tc_op *tc_tma_store_loop(const tc_tma_stores *s, const tc_op *op);
tc_op *tc_tma_store_whole_loop(const tc_tma_stores *s, const tc_op *op);
/* Slots that each load of the hot loop is to have at least. */
unsigned tc_tma_store_hot_slots(const tc_tma_stores *s);

/* ---- tma_store_steps.c ---- */

/* Does each step of the loop around the store write other elements? */
bool tc_tma_store_moves(const tc_tma_stores *s, const tc_op *store);
/* Sets how many later copies the waits of `steps` leave outstanding. */
void tc_tma_store_count_waits(const tc_tma_stores *s);

/* ---- tma_store_order.c ---- */

/* A TMA copy's writes come when it likes: nothing else of the program may need
 * them, or have written there. NULL: nothing does. */
const char *tc_tma_store_why_ordered(const tc_region *r, const tc_op *store);
/* May another op of the loops around a store within a tile write its tensor? */
bool tc_tma_store_is_mixed(const tc_tma_stores *s, const tc_op *store);
/* Others that write there wait until the store is over; a branch does it where
 * it is taken. */
void tc_tma_store_wait_before_writers(const tc_op *store,
                                      const tc_value *tensor);

#endif
