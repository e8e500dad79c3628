/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a loop's step (overlap_step.c). schedule-mma decides their
 * stages (overlap_schedule.c) and their order (overlap_order.c); overlap-mma
 * builds the loop from these (overlap_expand.c).
 *
 * A step is the body of a loop, or any other region. Its parts are the ops of
 * the region except the terminator; nested ops belong to their part. Products
 * are asynchronous here, and each has a separate part that waits for it.
 */
#ifndef TC_OVERLAP_MMA_H
#define TC_OVERLAP_MMA_H

#include "passes/passes.h"

typedef enum tc_part_kind {
    TC_PART_PLAIN,
    TC_PART_PRODUCT, /* mma instr(m64*) async(true) */
    TC_PART_WAIT,    /* mma_wait of one of them */
    TC_PART_FULL,    /* mbarrier_wait: buffers hold their data */
    TC_PART_RELEASE  /* mbarrier_arrive: buffers were read */
} tc_part_kind;

/* The effects of a plain part. */
typedef enum tc_part_effect {
    TC_PART_LOADS = 1,  /* from global memory */
    TC_PART_WORLD = 2,  /* stores there, assert, print */
    TC_PART_SHARED = 4, /* reads shared memory */
    TC_PART_FILLS = 8,  /* stores a tile to a buffer that is in no ring */
    TC_PART_BULK = 16,  /* tma_store and its wait */
    TC_PART_MEETS = 32, /* barrier scope(group), fence_async */
    TC_PART_OTHER = 64  /* all else: stays where it is among effects */
} tc_part_effect;

/* Where a part is in a loop whose steps overlap. */
typedef enum tc_loop_section {
    TC_PROLOGUE, /* stage 0 of the first step */
    TC_TURN,     /* stage 0 of a step, stage 1 of the step before */
    TC_EPILOGUE, /* stage 1 of the last step */
    TC_NSECTIONS
} tc_loop_section;

typedef struct tc_part tc_part;
struct tc_part {
    tc_op *op;
    tc_part_kind kind;
    unsigned effects; /* tc_part_effect of a plain part */
    unsigned index;   /* among the parts, as the program has them */
    unsigned stage;   /* 1: runs one iteration after the step's own */
    bool late;        /* stage 0, after what stage 1 gives in this turn */
    bool lazy;        /* placed where something needs it, or at the end */
    bool placed;      /* in tc_step.order, there: */
    unsigned place;
    bool after_wait; /* needs the result of a product of its step, other than as
                      * a sum */
    bool constant;   /* the same in every step, and costs next to nothing */
    bool issuable;   /* scratch of the schedule */
    /* Values of the step (results of parts, the region's arguments) that it
     * or an op nested in it uses. */
    unsigned nuses;
    tc_value **uses;
    /* Parts of the same step that come first. */
    unsigned nbefore, room;
    tc_part **before;
    tc_part *product; /* WAIT: which; PRODUCT: its wait */
    bool spare;       /* WAIT: another one does */
    bool in_flight;   /* WAIT: for a sum that the next step adds to */
    unsigned slot;    /* such a sum's among those that the loop carries */
    unsigned pending[TC_NSECTIONS]; /* WAIT */
};

typedef struct tc_step {
    tc_arena *arena;
    const tc_target *target;
    tc_region *region;
    tc_op *loop; /* the `for` whose body it is, or NULL */
    unsigned nparts;
    tc_part **parts;
    unsigned norder; /* the parts as they shall run */
    tc_part **order;
} tc_step;

/* overlap_step.c. Keeps the parts in op->data. */
tc_step *tc_step_new(const tc_pass_env *env, tc_region *r);
bool tc_is_step_value(const tc_step *s, const tc_value *v);
/* The part whose result `v` is; NULL: an argument, or from outside. */
tc_part *tc_part_of(const tc_step *s, const tc_value *v);
/* May a product of the region read its buffers late? They must be guarded by
 * mbarriers and not written by the computing threads as long as the loop around
 * runs, or be the step's own, filled before with computed values. Other buffers
 * are for pipeline-loops. */
bool tc_may_run_on(tc_region *r, const tc_op *product);
/* Does a product read a buffer that is the step's own? */
bool tc_reads_own_buffer(const tc_step *s, const tc_op *product);

/* Does a product add to the sum of another one of its step, in its registers?
 */
bool tc_adds_to_product(const tc_step *s, const tc_part *p);

/* It can be issued before any other product of its step is done. */
bool tc_is_root(const tc_part *p);
/* One of the two parts fills a buffer: does that matter to the other one? For a
 * product its wait counts, if that comes before. */
bool tc_share_buffer(const tc_part *a, const tc_part *b);

/* From the sum that the step yields for a carried value back to that value:
 * products that add to each other's result, which nothing else uses. The last
 * one; NULL: something does. */
tc_part *tc_last_of_chain(const tc_step *s, unsigned slot);
/* Its sum goes from step to step without a wait between. */
void tc_keep_in_flight(tc_step *s, tc_part *last, unsigned slot);
void tc_keep_none_in_flight(tc_step *s);

/* overlap_registers.c. Why registers do not suffice for an iteration with the
 * stages that are set; NULL: they do (or the program insists). */
const char *tc_why_no_room(tc_step *s);
/* Moves all registers that the producer can spare to the consumers. */
void tc_take_registers(const tc_step *s);

/* overlap_order.c. Does the step need `first` before p? */
bool tc_comes_before(const tc_part *first, const tc_part *p);
bool tc_is_pure_part(const tc_part *p);
bool tc_has_tiles(const tc_op *op); /* as results */
/* Is operand A of a product in registers? */
bool tc_takes_registers(const tc_part *p);
/* Places the parts. ahead: the product of the next step that is issued in this
 * one, or NULL. */
void tc_order_parts(tc_step *s, bool hoist, tc_part *ahead);
/* A wait without users that nothing comes after: another one does. */
bool tc_is_idle(const tc_step *s, const tc_part *p);
/* For an order: what each wait leaves in flight, and which ones are spare. */
void tc_count_waits(tc_step *s);

/* overlap_schedule.c. Why steps cannot overlap at all; NULL: they may. */
const char *tc_why_apart(const tc_step *s);
/* Without overlap of steps: products are issued early
 * (`hoist`) or in program order, and awaited late. */
void tc_schedule_iteration(tc_step *s, bool hoist);
/* Steps that overlap: sets stages and the order of a turn. False: they cannot,
 * or it would give nothing; *why says why, where one would expect it. */
bool tc_schedule_modulo(tc_step *s, const char **why);
/* The same for a loop in which each step issues the first product of the next
 * step at its end. */
bool tc_schedule_prefetch(tc_step *s, const char **why);

/* overlap_mma.c. Constants, which have no place: they come first. */
bool tc_is_placed_first(const tc_part *p);

/* overlap_expand.c. The region's ops in the order of the schedule. */
void tc_expand_step(tc_step *s);
/* Prologue, loop and epilogue in place of the loop. */
void tc_expand_iterations(tc_step *s);

#endif
