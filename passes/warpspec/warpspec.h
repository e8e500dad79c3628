/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of specialize-warps: which loads become TMA loads (the pass
 * itself), the ops that the producer needs for them (slice), the number of
 * slots of their rings (budget), and the roles (producer, transposer,
 * consumer).
 */
#ifndef TC_WARPSPEC_H
#define TC_WARPSPEC_H

#include "ir/base/map.h"
#include "passes/pipeline/pipeline_loops.h"
#include "passes/windows/row_boxes.h"

typedef struct tc_ring tc_ring;

/* A load that may become a TMA copy. */
typedef struct tc_tma_candidate tc_tma_candidate;
struct tc_tma_candidate {
    tc_staged staged;
    uint32_t bytes;      /* bytes that the copies of a step move */
    tc_row_boxes boxes;  /* of windows by index; rows 0: one window */
    const char *refusal; /* why it stays a load; NULL: it does not */
    tc_value *buffers;   /* the ring's memory */
    /* Not by a TMA copy but by a smem_copy, staged.store: from what this one
     * brings. NULL: it is a TMA copy, and `moved` says whether all that it
     * brings goes on so. */
    tc_tma_candidate *from;
    bool moved;
    tc_ring *ring;
    tc_tma_candidate *next;
};

/* What goes from the producer to the consumers: the tiles of a load (or of two
 * that one mma takes), or scalars. Each time its region runs it is filled once
 * and used once. */
struct tc_ring {
    tc_region *region;
    bool once; /* the region is the kernel's body */
    const char *name;
    tc_tma_candidate *bulk[2];
    unsigned nbulk;
    /* Scalars, in the order in which they are made, and the memory of each. One
     * that is fetched is handed over before an op of the region (NULL: the
     * terminator). */
    unsigned nscalars;
    tc_value **scalars, **boxes;
    bool fetched;
    const tc_op *before;
    bool for_transposer; /* it reads some of them too */

    unsigned slots;
    bool asked; /* so many slots, by the text or the options */
    /* One slot, which others may use from the last use to the step's end: it is
     * released there. */
    bool lent;
    /* Its loop runs once: after it others may use its memory. */
    bool freed;
    /* The producer fills it after what it does in the first step of that loop;
     * or NULL. */
    const tc_op *after;
    tc_value *full, *empty;
    /* The position of the role that is being built, at the place of its
     * builder: how often the region ran, modulo `period`, or slot and phase.
     * Rings that advance together share it: `pace` is the ring whose fields
     * count. */
    tc_value *count, *slot, *phase, *zero;
    unsigned period;
    tc_ring *pace;
    tc_value *at; /* the slot */
    tc_ring *next;
};

typedef struct tc_warpspec {
    tc_pass_env *env;
    tc_func *f;
    unsigned groups;        /* of consumers */
    tc_tma_candidate *bulk; /* all that were looked at */
    tc_ring *rings;         /* in the order of the program */
    tc_op *end_tiles;       /* or NULL */
    tc_map needed;          /* ops and values (slots) of the producer */
    tc_map moving;          /* of the transposer, scalars that it is told too */
    tc_map both;            /* scalar ops before the roles, which both can
                             * use */
    tc_op *roles;
} tc_warpspec;

/* Decides which loads become TMA loads, and their rings; changes nothing.
 * False: there is nothing to specialize. say: with remarks. */
bool tc_plan_rings(tc_warpspec *s, tc_func *f, tc_pass_env *env, bool say);

/* ---- Rings (rings.c) ---- */

/* Bytes of one slot. */
uint32_t tc_ring_slot_bytes(const tc_ring *r);
/* Ops of the ring's region between which its tiles are read (a branch or loop
 * counts as one op). */
typedef struct tc_ring_uses {
    tc_op *first, *last; /* NULL: nothing reads them */
    /* Warps of a group may be apart between them: they read by other ops than
     * m64 mma, or there is a step without a product. */
    bool by_threads;
} tc_ring_uses;
tc_ring_uses tc_find_ring_uses(tc_arena *a, const tc_ring *r);
/* By ops of the step itself, none of them a loop: into registers. */
bool tc_is_read_at_once(tc_arena *a, const tc_ring *r);

/* Initializes the rings' counts at the start of a role, where the builder
 * stands. */
void tc_start_rings(tc_warpspec *s, tc_builder *b);
/* The values that a loop carries for the rings in it. */
typedef struct tc_carried_rings {
    unsigned n;
    tc_value ***at; /* where each is kept */
    const char **names;
} tc_carried_rings;
tc_carried_rings tc_rings_carried_by(tc_warpspec *s, const tc_op *loop);
/* To the next slot, of the rings that region r fills. */
void tc_advance_rings(tc_warpspec *s, const tc_region *r, tc_builder *b);
/* Finds the slot, which what follows here works on. */
void tc_find_slot(tc_ring *r, tc_builder *b);
/* The buffer (or mbarrier) of the slot. */
tc_value *tc_build_slot(const tc_ring *r, tc_builder *b, tc_value *buffers);
tc_op *tc_build_tma_load(const tc_ring *r, tc_builder *b, tc_value *window,
                         tc_value *buffers);
void tc_wait_until_full(const tc_ring *r, tc_builder *b);
void tc_wait_until_empty(const tc_ring *r, tc_builder *b);
/* which: the mbarriers `full` or `empty`. */
tc_op *tc_build_arrive(const tc_ring *r, tc_builder *b, tc_value *which);

/* Are scalars and votes read during a tile's last product (overlap_epilogue.c)?
 * Not by three groups: the others multiply while one is between two tiles, and
 * what is read early takes registers, of which these have few. */
bool tc_reads_channel_early(const tc_func *f);

/* ---- Slice (slice.c) ---- */

/* Why the producer, one thread ahead of the others, cannot do the op (a load or
 * next_tile), or the steps of the loops around it; NULL: it can. */
const char *tc_why_not_ahead_alone(tc_warpspec *s, const tc_op *op);
/* The producer will do it. */
void tc_need_in_producer(tc_warpspec *s, const tc_op *op);
/* The same for a value. */
bool tc_can_be_ahead(tc_warpspec *s, const tc_value *v);
void tc_need_value(tc_warpspec *s, const tc_value *v);
/* The transposer will do a copy from buffer to buffer: it needs the loops
 * around the copy, and scalars that the consumers are told. After
 * tc_find_channel. */
void tc_need_in_transposer(tc_warpspec *s, const tc_op *copy);
/* Does the producer need that op, or that result of a loop or branch? */
bool tc_is_needed(const tc_warpspec *s, const void *op_or_value);

/* ---- The scalar channel (scalar_channel.c) ---- */

/* Adds rings of scalars that cost the consumers more to compute than to read.
 */
void tc_find_channel(tc_warpspec *s);
/* In the consumers' region: reads them where they are used. */
void tc_read_channel(tc_warpspec *s, tc_ring *r);

/* ---- Budget (budget.c) ---- */

/* Chooses the slots of all rings. False: not even one each fits (a remark says
 * so). */
bool tc_choose_slots(tc_warpspec *s);
/* False: not even rings of one slot fit next to the other buffers. */
bool tc_may_fit(tc_warpspec *s);
/* A loop with an mma, and no such loop in it. */
bool tc_is_innermost_product(const tc_op *loop);

/* ---- Roles (producer.c, transposer.c, consumer.c) ---- */

/* A role of scalars (role.c), built from the kernel's body, which is
 * still as it was. */
typedef struct tc_role_builder tc_role_builder;
/* An element of a tile of indices, looked up in a region of the producer. */
typedef struct tc_row_index tc_row_index;
struct tc_row_index {
    tc_row_index *next;
    const tc_region *region;
    unsigned row;
    tc_value *v;
};
struct tc_role_builder {
    tc_warpspec *s;
    const tc_map *needed;
    const tc_role_builder *outer; /* knows the other values, or NULL */
    tc_map values;                /* of the body: what they are here */
    tc_map indices; /* tiles of indices -> tc_row_index: rows known here */
    /* Before the op of the region (NULL: at its end). */
    void (*before)(tc_role_builder *e, const tc_region *r, const tc_op *op,
                   tc_builder *b);
    /* Does something instead of the op; false: it is done where it is needed.
     */
    bool (*instead)(tc_role_builder *e, const tc_op *op, tc_builder *b);
    void (*after)(tc_role_builder *e, const tc_op *op,
                  tc_builder *b); /* or NULL */
};
void tc_build_role(tc_role_builder *e, tc_builder *b);
tc_value *tc_role_here(const tc_role_builder *e, tc_value *v);
/* The same op here, which has no regions. */
void tc_role_emit(tc_role_builder *e, const tc_op *op, tc_builder *b);
void tc_role_is_here(tc_role_builder *e, const tc_value *v, tc_value *now);

/* The kernel's body is still as it was. */
void tc_build_producer(tc_warpspec *s);
/* The same; there are smem_copies for it. */
void tc_build_transposer(tc_warpspec *s);
/* `barrier scope(group)`. */
tc_op *tc_build_group_barrier(tc_builder *b);
/* Erases an op that nothing needs any more, and what only it needed; carried
 * values are left to dce. */
void tc_erase_if_dead(tc_arena *a, tc_op *op);
/* The kernel's body is the consumer's region by now. */
void tc_build_consumer(tc_warpspec *s);

#endif
