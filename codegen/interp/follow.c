/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered accumulation (`follow`). Programs run one after another here, so that
 * the predecessor's step has been done, or never will be: a program may follow
 * earlier programs only.
 *
 * On a GPU they run concurrently, and a program goes on as soon as its
 * predecessor's word is large enough. So each value that a program publishes is
 * kept, with what it shows: which steps of which programs are done. A program
 * that waits learns what the first value that is large enough shows. Two
 * programs add to an element in one order if the second one has learned that
 * the first one's step is done; all else is a finding.
 */
#include "codegen/interp/state.h"

#include <string.h>

/* What a program knows: member i has done its steps before done[i]. */
typedef struct knowledge {
    uint32_t n; /* of the others nothing is known */
    int32_t *done;
} knowledge;

/* A value that was published. */
typedef struct said {
    struct said *next;
    int32_t value;
    knowledge shows;
} said;

/* A program with a word of its own; a tile, in a persistent kernel. */
typedef struct tc_imember {
    uint32_t number;
    int32_t program[3];
    knowledge known;
    said *first, *last;
} tc_imember;

static tc_imember *member_of(tc_interp *it, const int32_t *word)
{
    tc_imember *m = tc_map_get(&it->follow.members, word);
    if (m)
        return m;
    m = tc_arena_array(&it->arena, tc_imember, 1);
    *m = (tc_imember){.number = it->follow.nmembers++};
    memcpy(m->program, it->program, sizeof m->program);
    tc_map_set(&it->follow.members, word, m);
    return m;
}

static knowledge copy_of(tc_interp *it, const knowledge *k, uint32_t n)
{
    knowledge to = {n > k->n ? n : k->n, NULL};
    to.done = tc_arena_array(&it->arena, int32_t, to.n);
    for (uint32_t i = 0; i < to.n; i++)
        to.done[i] = i < k->n ? k->done[i] : INT32_MIN;
    return to;
}

static int32_t done_by(const knowledge *k, const tc_imember *m)
{
    return m->number < k->n ? k->done[m->number] : INT32_MIN;
}

/* The member waits until the one ahead has done `step`. */
static void learn(tc_interp *it, tc_imember *m, const tc_imember *ahead,
                  int32_t step)
{
    const said *s = ahead->first;
    while (s && s->value <= step)
        s = s->next;
    if (!s)
        return;
    if (m->known.n < s->shows.n)
        m->known = copy_of(it, &m->known, s->shows.n);
    for (uint32_t i = 0; i < s->shows.n; i++)
        if (m->known.done[i] < s->shows.done[i])
            m->known.done[i] = s->shows.done[i];
}

static void publish(tc_interp *it, tc_imember *m, int32_t value)
{
    said *s = tc_arena_array(&it->arena, said, 1);
    if (m->known.n <= m->number)
        m->known = copy_of(it, &m->known, m->number + 1);
    m->known.done[m->number] = value;
    *s = (said){NULL, value, copy_of(it, &m->known, 0)};
    if (m->last)
        m->last->next = s;
    else
        m->first = s;
    m->last = s;
}

/* Of a program's words: of each group of four warps its own. */
static int64_t nwords(const tc_interp *it)
{
    return it->nwarps > 4 ? it->nwarps / 4 : 1;
}

static int32_t *words_at(tc_interp *it, const tc_op *op, const tc_value *v)
{
    const tc_ivalue *p = tc_ivalue_of(v);
    if (p->poison[0])
        return (void)!tc_interp_poisoned(it, op, p->poison[0],
                                         "where it looks"),
               NULL;
    if (!tc_interp_pointer_ok(it, p->x[0].i, (unsigned)(4 * nwords(it))))
        return (void)!tc_interp_outside(it, op, "looks at"), NULL;
    return (int32_t *)(intptr_t)p->x[0].i;
}

/* All work before `step` is done, here and in the predecessor. */
static bool wait_and_tell(tc_interp *it, const tc_op *op, unsigned first,
                          int32_t step, int32_t done)
{
    if (it->agent->role == TC_ROLE_PRODUCER)
        return tc_interp_find(it, op, NULL, NULL,
                              "in the producer, which stores nothing") &&
               false;
    int32_t *own = words_at(it, op, op->in[first]);
    const int32_t *ahead = words_at(it, op, op->in[first + 1]);
    if (!own || !ahead)
        return false;
    tc_imember *m = member_of(it, own);
    if (m->last && m->last->value > done &&
        !tc_interp_find(it, op, NULL, NULL,
                        "step %d, after %d: expected steps that ascend", step,
                        m->last->value))
        return false;
    for (int64_t i = 0; i < nwords(it); i++) {
        if (own != ahead && ahead[i] <= step)
            return tc_interp_find(it, op, NULL, NULL,
                                  "waits for ever: the program ahead is done "
                                  "with %d steps, not with step %d, and none "
                                  "runs before this one ends",
                                  ahead[i], step) &&
                   false;
        own[i] = done;
        tc_interp_programs_acquire(it, &ahead[i]);
        tc_interp_programs_release(it, &own[i]);
    }
    const tc_imember *leader = own == ahead ? m : member_of(it, ahead);
    if (leader != m)
        learn(it, m, leader, done - 1);
    publish(it, m, done);
    if (leader != m)
        learn(it, m, leader, step);
    it->follow.now = m;
    it->follow.step = step;
    return true;
}

bool tc_interp_follow_at(tc_interp *it, const tc_op *op, unsigned first)
{
    const tc_ivalue *step = tc_ivalue_of(op->in[first + 2]);
    if (step->poison[0])
        return tc_interp_poisoned(it, op, step->poison[0], "for which step") &&
               false;
    int32_t n = (int32_t)step->x[0].i;
    if (n >= 0)
        return wait_and_tell(it, op, first, n, n);
    it->follow.now = NULL;
    return true;
}

bool tc_interp_follow(tc_interp *it, const tc_op *op)
{
    bool end = op->code == TC_FOLLOW_END;
    bool ok = end ? wait_and_tell(it, op, 0, INT32_MAX - 1, INT32_MAX)
                  : tc_interp_follow_at(it, op, 0);
    if (ok)
        tc_interp_meet(it);
    return ok;
}

/* ---- Additions ---- */

static bool stores(const tc_op *op)
{
    return op->code == TC_STORE || op->code == TC_TMA_STORE ||
           tc_interp_is_atomic(op);
}

/* An addition with a `follow` of its own, or right after one. */
static bool is_ordered(const tc_op *op)
{
    if (op->code == TC_TMA_STORE)
        return op->nin > 2;
    if (op->code != TC_STORE || !tc_op_is_word(op, "kind", "add"))
        return false;
    const tc_op *at = op->prev;
    while (at && at->code != TC_FOLLOW && at->nregions == 0 && !stores(at))
        at = at->prev;
    return at && at->code == TC_FOLLOW;
}

bool tc_interp_follow_add(tc_interp *it, const tc_op *op, tc_iadded *last)
{
    const tc_imember *m = it->follow.now, *other = last->member;
    if (!m || !is_ordered(op))
        return true;
    tc_iadded before = *last;
    *last = (tc_iadded){m, it->follow.step, tc_iop_of(op)->id};
    return !other || other == m || done_by(&m->known, other) > before.step ||
           tc_interp_find(it, op, it->ops[before.op], "added here",
                          "in no order: at step %d, and program (%d, %d, %d) "
                          "adds to the same element at step %d, which may not "
                          "be done then",
                          it->follow.step, other->program[0], other->program[1],
                          other->program[2], before.step);
}
