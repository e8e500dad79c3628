/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered accumulation (`follow`). Programs run one after another here, so that
 * the predecessor's step has been done, or never will be: a program may follow
 * earlier programs only.
 */
#include "codegen/interp/state.h"

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
    for (int64_t i = 0; own && ahead && i < nwords(it); i++) {
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
    return own && ahead;
}

bool tc_interp_follow_at(tc_interp *it, const tc_op *op, unsigned first)
{
    const tc_ivalue *step = tc_ivalue_of(op->in[first + 2]);
    if (step->poison[0])
        return tc_interp_poisoned(it, op, step->poison[0], "for which step") &&
               false;
    int32_t n = (int32_t)step->x[0].i;
    return wait_and_tell(it, op, first, n, n);
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
