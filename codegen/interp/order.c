/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that wait for each other. They run one after the other here, so that
 * what a program awaits has been announced, or never will be: it may wait for
 * those before it only. What is announced must be written: by a thread that
 * does so alone what it has stored itself, in bulk.
 */
#include "codegen/interp/state.h"

static int64_t words_of(const tc_op *op)
{
    return tc_op_has_attr(op, "words") ? tc_op_int(op, "words") : 1;
}

/* The words that count: a group's own are those of all groups together. */
static int64_t nwords(const tc_interp *it, const tc_op *op)
{
    return tc_op_is_word(op, "scope", "group") ? it->sync.nconsumers
                                               : words_of(op);
}

static int32_t *words_at(tc_interp *it, const tc_op *op, int64_t n)
{
    const tc_ivalue *p = tc_ivalue_of(op->in[0]), *x = tc_ivalue_of(op->in[1]);
    if (it->agent->role == TC_ROLE_PRODUCER)
        return (void)!tc_interp_find(it, op, NULL, NULL,
                                     "in the producer, which stores nothing"),
               NULL;
    if (p->poison[0] || x->poison[0])
        return (void)!tc_interp_poisoned(
                   it, op, p->poison[0] ? p->poison[0] : x->poison[0],
                   "where it looks, or for what"),
               NULL;
    if (!tc_interp_pointer_ok(it, p->x[0].i, (unsigned)(4 * n)))
        return (void)!tc_interp_outside(it, op, "looks at"), NULL;
    return (int32_t *)(intptr_t)p->x[0].i;
}

bool tc_interp_await(tc_interp *it, const tc_op *op)
{
    int64_t n = nwords(it, op), value = tc_ivalue_of(op->in[1])->x[0].i;
    const int32_t *words = words_at(it, op, n);
    for (int64_t i = 0; words && i < n; i++)
        if (words[i] < value)
            return tc_interp_find(it, op, NULL, NULL,
                                  "waits for ever: word %lld is %d, awaits "
                                  "%lld, and no program before has announced "
                                  "that",
                                  (long long)i, words[i], (long long)value) &&
                   false;
    return words &&
           (!tc_op_is_word(op, "scope", "all") || tc_interp_barrier(it, op));
}

/* Of the threads that announce: what they have stored in bulk. */
static bool have_written(tc_interp *it, const tc_op *op)
{
    tc_isync *s = &it->sync;
    for (unsigned g = 0; s->store && g < s->ngroups; g++) {
        unsigned stores = tc_clock_stores(s, g);
        if (!tc_interp_knows(it, tc_actor_first(s, g), tc_clock_written(s, g),
                             s->now[stores]))
            return tc_interp_find(it, op, s->store, "stored here",
                                  "what it announces may not be written yet") &&
                   false;
    }
    return true;
}

bool tc_interp_announce(tc_interp *it, const tc_op *op)
{
    int64_t n = nwords(it, op);
    int32_t *words = words_at(it, op, n);
    if (!words || !have_written(it, op) ||
        (tc_op_is_word(op, "scope", "all") && !tc_interp_barrier(it, op)))
        return false;
    for (int64_t i = 0; i < n; i++)
        words[i] = (int32_t)tc_ivalue_of(op->in[1])->x[0].i;
    return true;
}
