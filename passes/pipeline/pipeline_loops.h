/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of pipeline-loops: which loads (classify), how far ahead (the pass
 * itself), and the new loop (expand), or copies without a loop (straight).
 */
#ifndef TC_PIPELINE_LOOPS_H
#define TC_PIPELINE_LOOPS_H

#include "passes/analysis/axis_info.h"
#include "passes/sync/shared_memory.h"

/* A load whose tile goes to a buffer of its own, and nowhere else:
 *
 *   %t = load %window
 *   %s = smem_alloc
 *   smem_store %s, %t
 */
typedef struct tc_staged tc_staged;
struct tc_staged {
    tc_op *load, *store, *alloc;
    uint32_t bytes;      /* of the buffer */
    unsigned width;      /* bytes that one copy moves */
    const char *refusal; /* why it must stay a load; NULL: it need not */
    bool own;            /* each thread reads what it copies, and no more */
    tc_staged *next;
};

typedef struct tc_pipeliner {
    tc_pass_env *env;
    tc_func *f;
    tc_axis_analysis *axes;
    bool changed;
} tc_pipeliner;

/* ---- Classify (classify.c) ---- */

/* The load's buffer and store (no width, no refusal yet). False: it goes to
 * none. */
bool tc_staged_of(tc_op *load, tc_staged *s);
/* Why no copy of any kind can do it; NULL: one may. */
const char *tc_why_not_copied(const tc_staged *s);
/* The loads of a region that go to buffers, in order; those of nested regions
 * are not among them. */
tc_staged *tc_find_staged(tc_pipeliner *p, tc_region *r);
/* Does a load go to a buffer, whether it can be copied there or not? */
bool tc_is_staged(const tc_op *load);
/* Why no load may run ahead in this loop; NULL: it may. */
const char *tc_why_nothing_ahead(const tc_op *loop);
/* Why a load's address is not known some steps before; NULL: it is. */
const char *tc_why_not_ahead(tc_pipeliner *p, const tc_op *loop,
                             const tc_op *load);
/* The pointer that a load reads through, as text for messages: `%k`. */
const char *tc_loaded_name(tc_context *cx, const tc_op *load);

/* ---- Expand (expand.c) ---- */

/* What happens in which step: the copies of step i + ahead in step i, so that
 * the rings have ahead + 1 slots. Loads that the copies' addresses depend on
 * come a step before that, their values being carried. */
typedef struct tc_schedule {
    tc_op *loop;
    unsigned ahead;
    tc_staged *copies; /* all may be copied (no refusal) */
} tc_schedule;

/* Is it not too far ahead, and the loop's step not too large? */
bool tc_can_expand(tc_pipeliner *p, const tc_schedule *s);
typedef struct tc_expanded {
    tc_op *loop;     /* the new one */
    tc_op *prologue; /* the first op of the prologue, which ends at the loop */
} tc_expanded;
/* ahead is 1 or more. */
tc_expanded tc_expand_loop(tc_pipeliner *p, const tc_schedule *s);
/* Of the copies at the begin of each step: rings have one slot. */
void tc_copy_in_step(tc_pipeliner *p, const tc_schedule *s);

/* ---- Straight (straight.c) ---- */

/* A load becomes a copy at its own place. Why it may not: NULL, it may. */
const char *tc_why_not_in_place(const tc_staged *s);
void tc_copy_in_place(tc_pipeliner *p, tc_staged *s);
/* Waits for the copies of region r that have none yet, before the first use of
 * each. */
void tc_place_waits(tc_pipeliner *p, tc_region *r);
/* Moves a prologue up to before the first use of what was copied earlier, so
 * that the copies overlap; where it cannot, it stays. */
void tc_raise_prologue(tc_pipeliner *p, const tc_expanded *e);

/* ---- Copies (copies.c) ---- */

/* mask may be NULL, cond too. */
void tc_build_copy(tc_builder *b, const tc_staged *s, tc_value *from,
                   tc_value *to, tc_value *cond, tc_value *mask);
void tc_build_commit(tc_builder *b);
tc_op *tc_build_wait(tc_builder *b, unsigned pending);

#endif
