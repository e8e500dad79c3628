/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of buffers in shared memory: which buffer a value is, its users, and
 * its lifetime.
 */
#ifndef TC_SHARED_MEMORY_H
#define TC_SHARED_MEMORY_H

#include "passes/analysis/nesting.h"
#include "passes/passes.h"

/* The text of the error for too much shared memory. */
#define TC_TOO_MUCH_SHARED "bytes of shared memory at once"

/* The possible meaning of a value of shared memory: a buffer, or one slot of
 * it. */
typedef struct tc_buffer {
    tc_op *alloc;    /* smem_alloc */
    tc_value *index; /* which slot of a ring; NULL: all there is */
} tc_buffer;

enum { TC_MAX_BUFFERS = 8 };
/* Looks through views, loops and branches; the number found. More than
 * TC_MAX_BUFFERS: only that many are listed, and the number is one more. */
unsigned tc_trace_buffers(tc_value *smem, tc_buffer out[TC_MAX_BUFFERS]);

/* Only seen in another way: smem_index, smem_trans, smem_reshape,
 * smem_slice. */
bool tc_is_buffer_view(const tc_op *op);
/* The layout of such a view, but smem_index, of a buffer in layout `l`; NULL:
 * the part is not in one piece. */
const tc_layout *tc_smem_view_layout(tc_context *cx, const tc_op *view,
                                     const tc_layout *l);
/* Of a buffer, and of what is a view of it. */
void tc_smem_set_layout(tc_context *cx, tc_value *buffer, const tc_layout *l);
/* How an op uses its operand `i`, which is in shared memory: an async_copy is
 * no write until it was waited for, and an asynchronous mma or a tma_store
 * reads until then. */
typedef enum tc_buffer_use {
    TC_BUFFER_NOT_USED, /* a view, or handed on to a loop or branch; a tma_load,
                         * smem_store_scalar or smem_load_scalar: mbarriers
                         * order these */
    TC_BUFFER_READ,
    TC_BUFFER_WRITTEN,
    TC_BUFFER_COPIED_TO,
    TC_BUFFER_READ_FROM_NOW /* until waited for */
} tc_buffer_use;
tc_buffer_use tc_buffer_use_of(const tc_op *op, unsigned i);
/* The op that waits until what `op` does to shared memory is done (async_wait,
 * mma_wait, tma_store_wait); TC_OPCODE_COUNT: it is, when the op is. */
tc_opcode tc_waited_for_by(const tc_op *op);
/* Does it read shared memory not as threads do, but as TMA copies do: mma of
 * warp groups, tma_store? */
bool tc_reads_as_bulk(const tc_op *op);

/* The layout of the whole buffer that continues the layout of a smem_load's
 * result: with n registers a part, the result has those from *first on. Without
 * `at` it is the result's own layout. */
const tc_layout *tc_smem_load_layout(tc_context *cx, const tc_op *load,
                                     uint32_t *first);

/* When the buffers of a function are in use. */
typedef struct tc_lifetime {
    tc_op *alloc; /* smem_alloc, mbarrier_alloc */
    uint32_t bytes, align;
    unsigned first, last;      /* positions of its first and last use */
    tc_op *first_op, *last_op; /* NULL: never used */
    /* The buffer is not used between these (equal: there is no such time): the
     * consumers of a TMA load have read it, and have not released it yet. */
    unsigned lent_first, lent_last;
    uint32_t offset; /* of the plan below */
} tc_lifetime;

typedef struct tc_lifetimes {
    unsigned n;
    tc_lifetime *of;
} tc_lifetimes;

/* From the program's text. `loose`: what is used in a loop is in use in all of
 * it, so that they do not share memory, nor do small ones in a nest: that costs
 * memory and saves barriers. */
tc_lifetimes tc_find_lifetimes(tc_arena *a, tc_func *f, bool loose);
/* Is the buffer in use at some time while `op` runs? Valid only until op->data
 * is used for something else. */
bool tc_is_in_use_at(const tc_lifetime *l, const tc_op *op);
/* Assigns offsets, to the largest buffers first, each the lowest that fits.
 * Returns the bytes that they need together. */
uint32_t tc_plan_shared(tc_arena *a, tc_lifetimes *all);
/* Does each thread load what it copied itself? (Of 8 bytes side by side or
 * more, which no matrix load hands to other lanes.) */
bool tc_is_own_copy(const tc_op *copy, const tc_op *load);
/* Bytes that a conversion or reduction will need if it goes through shared
 * memory (lower-conversions); 0: none. */
uint64_t tc_exchange_bytes(tc_context *cx, const tc_op *op);
/* The most shared memory of a block on this target. */
uint32_t tc_shared_limit(const tc_target *target);

#endif
