/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that are not pipelined: where they start, and where they are awaited.
 *
 *   %q = load %window                  %s = smem_alloc
 *   %s = smem_alloc                    async_copy %window, %s
 *   smem_store %s, %q                  async_commit
 *   ...                      becomes   ...
 *   %f = smem_load %s                  prologue of a loop: 2 groups
 *   for .. {                           async_wait pending(2)
 *                                      %f = smem_load %s
 *                                      for .. {
 *
 * A wait does not cover groups that began later, so the first copies of the
 * loop are in flight while its operand is awaited.
 */
#include "passes/pipeline/pipeline_loops.h"

#include "passes/analysis/effects.h"

/* ---- First uses ---- */

/* Does `op`, or an op nested in it, read the buffer? */
static bool reads(const tc_op *op, const tc_op *alloc)
{
    for (unsigned i = 0; i < op->nin; i++) {
        if (tc_buffer_use_of(op, i) != TC_BUFFER_READ)
            continue;
        tc_buffer buffers[TC_MAX_BUFFERS];
        unsigned n = tc_trace_buffers(op->in[i], buffers);
        for (unsigned k = 0; k < n && k < TC_MAX_BUFFERS; k++)
            if (buffers[k].alloc == alloc)
                return true;
        if (n > TC_MAX_BUFFERS)
            return true;
    }
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_op (inner, op->regions[i]) {
            if (reads(inner, alloc))
                return true;
        }
    return false;
}

static tc_op *first_read(const tc_op *from, const tc_op *alloc)
{
    for (tc_op *op = from->next; op; op = op->next)
        if (reads(op, alloc))
            return op;
    return NULL;
}

/* A copy to a buffer that is no ring: of this file, or of a loop of one stage.
 * Its alloc, or NULL. */
static tc_op *plain_target(const tc_op *op)
{
    if (op->code != TC_ASYNC_COPY || !op->in[1]->def)
        return NULL;
    tc_op *alloc = op->in[1]->def;
    return alloc->code == TC_SMEM_ALLOC && !alloc->out[0]->type->slots ? alloc
                                                                       : NULL;
}

/* ---- In place of a load ---- */

/* A copy reads memory until it is waited for. */
const char *tc_why_not_in_place(const tc_staged *s)
{
    const tc_op *use = first_read(s->store, s->alloc);
    for (const tc_op *op = s->load->next; op && op != use; op = op->next)
        if (tc_op_effects(op).stores_global)
            return "memory is stored to before it is used";
    return NULL;
}

void tc_copy_in_place(tc_pipeliner *p, tc_staged *s)
{
    tc_op *load = s->load;
    tc_op_remove(s->alloc);
    tc_op_insert(s->alloc, load->parent, load);
    tc_builder b = tc_builder_before(load);
    tc_build_copy(&b, s, load->in[0], s->alloc->out[0], NULL,
                  load->nin > 1 ? load->in[1] : NULL);
    tc_build_commit(&b);
    tc_op_erase(s->store);
    tc_op_erase(load);
}

/* ---- Waits ---- */

/* The wait at the begin of each step of a pipelined loop, or NULL. */
static const tc_op *wait_in(const tc_op *op)
{
    const tc_op *first = op->code == TC_FOR ? op->regions[0]->first : NULL;
    return first && first->code == TC_ASYNC_WAIT ? first : NULL;
}

/* Between a copy and its first use: groups that ended after the copy's own,
 * and whether some wait covers it. */
static bool is_waited_for(const tc_op *copy, const tc_op *use, unsigned *groups)
{
    unsigned ended = 0;
    for (const tc_op *op = copy->next; op && op != use; op = op->next) {
        ended += op->code == TC_ASYNC_COMMIT;
        if (op->code == TC_ASYNC_WAIT && tc_op_int(op, "pending") < ended)
            return true;
    }
    *groups = ended ? ended - 1 : 0;
    const tc_op *wait = wait_in(use);
    return wait && tc_op_int(wait, "pending") < ended;
}

void tc_place_waits(tc_pipeliner *p, tc_region *r)
{
    tc_each_op (op, r) {
        const tc_op *alloc = plain_target(op);
        tc_op *use = alloc ? first_read(op, alloc) : NULL;
        unsigned groups;
        if (!use || is_waited_for(op, use, &groups))
            continue;
        tc_builder b = tc_builder_before(use);
        tc_build_wait(&b, groups);
    }
}

/* ---- Prologues ---- */

/* The first op before `end` that must wait for a copy, and comes after all
 * loops that are pipelined already. */
static tc_op *first_waiting_use(const tc_op *end)
{
    enum { MOST_COPIES = 32 };
    const tc_op *copied[MOST_COPIES];
    unsigned n = 0;
    tc_op *first = NULL;
    for (tc_op *op = end->parent->first; op != end; op = op->next) {
        for (unsigned i = 0; i < n && !first; i++)
            first = reads(op, copied[i]) ? op : NULL;
        const tc_op *alloc = plain_target(op);
        if (alloc && n < MOST_COPIES)
            copied[n++] = alloc;
        if (wait_in(op)) {
            n = 0;
            first = NULL;
        }
    }
    return first;
}

static bool may_be_raised(const tc_op *op)
{
    return op->nregions == 0 && !tc_op_has(op, TC_WRITES) &&
           (tc_op_has(op, TC_PURE) || op->code == TC_LOAD ||
            op->code == TC_GATHER);
}

/* A loop whose buffers another role fills: they take the shared memory. */
static bool is_fed(const tc_op *op)
{
    return op->code == TC_FOR &&
           tc_region_has_op(op->regions[0], TC_MBARRIER_WAIT);
}

/* Marks in op->data, from the loop backwards to `to`, what has to move. False:
 * something cannot, or such a loop stands between. */
static bool mark_raised(tc_op *to, const tc_op *prologue, tc_op *loop)
{
    static char mark;
    bool in_prologue = true;
    for (tc_op *op = to; op; op = op->next)
        op->data = NULL;
    for (tc_op *op = loop->prev;; op = op->prev) {
        bool needed = in_prologue || op->data;
        if (!in_prologue && (tc_op_effects(op).stores_global || wait_in(op) ||
                             is_fed(op) || (needed && !may_be_raised(op))))
            return false;
        for (unsigned i = 0; needed && i < op->nin; i++)
            if (op->in[i]->def && op->in[i]->def->parent == op->parent)
                op->in[i]->def->data = &mark;
        op->data = needed ? &mark : NULL;
        if (op == prologue)
            in_prologue = false;
        if (op == to)
            return !op->data;
    }
}

void tc_raise_prologue(tc_pipeliner *p, const tc_expanded *e)
{
    tc_op *to = first_waiting_use(e->prologue);
    if (!to || !mark_raised(to, e->prologue, e->loop))
        return;
    for (tc_op *op = to->next, *next; op != e->loop; op = next) {
        next = op->next;
        if (!op->data)
            continue;
        tc_region *r = op->parent;
        tc_op_remove(op);
        tc_op_insert(op, r, to);
    }
}
