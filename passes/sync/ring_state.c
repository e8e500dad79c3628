/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/sync/ring_state.h"

#include "ir/eval/eval.h"
#include "passes/analysis/loop_slots.h"

#include <string.h>

enum { MOST_DEPTH = 32, MOST_OPERANDS = 4 };

/* ---- Values ---- */

static bool is_int_scalar(const tc_value *v)
{
    return v->type->kind <= TC_I64;
}

static bool find_known(const tc_known *known, const tc_value *v, int64_t *x,
                       bool *certain)
{
    for (const tc_known *k = known; k; k = k->outer)
        for (unsigned i = 0; i < k->n; i++)
            if (k->values[i] == v) {
                *x = k->are[i];
                *certain = k->certain[i];
                return true;
            }
    return false;
}

static bool compute(const tc_known *known, const tc_value *v, unsigned depth,
                    int64_t *x)
{
    bool certain;
    if (find_known(known, v, x, &certain))
        return certain;
    const tc_op *op = v->def;
    if (!op || !is_int_scalar(v) || !tc_op_has(op, TC_PURE) || op->nregions ||
        op->nin > MOST_OPERANDS || depth == MOST_DEPTH)
        return false;
    tc_scalar in[MOST_OPERANDS] = {{0}}, out;
    for (unsigned i = 0; i < op->nin; i++)
        if (!is_int_scalar(op->in[i]) ||
            !compute(known, op->in[i], depth + 1, &in[i].i))
            return false;
    if (!tc_eval_op(op, in, &out))
        return false;
    *x = out.i;
    return true;
}

bool tc_known_int(const tc_known *known, const tc_value *v, int64_t *x)
{
    return compute(known, v, 0, x);
}

/* ---- Which carried values matter ---- */

struct collector {
    tc_op *loop;
    bool *wanted; /* by slot */
};

/* The carried values of the loop that v is computed from. */
static void want(struct collector *c, const tc_value *v, unsigned depth)
{
    if (!is_int_scalar(v) || depth == MOST_DEPTH)
        return;
    if (!v->def) {
        bool carried = v->region == c->loop->regions[0] && v->index > 0;
        if (carried && !c->wanted[v->index - 1]) {
            c->wanted[v->index - 1] = true;
            want(c, tc_slot_yield(c->loop)->in[v->index - 1], depth + 1);
        }
        return;
    }
    for (unsigned i = 0; i < v->def->nin; i++)
        want(c, v->def->in[i], depth + 1);
    /* The start of a ring's index in a loop nested in this one. (The first
     * region of a `while` hands on no values: its second one does.) */
    for (unsigned i = 0; i < v->def->nregions; i++) {
        const tc_op *last = tc_region_terminator(v->def->regions[i]);
        if (last->code == TC_YIELD)
            want(c, last->in[v->index], depth + 1);
    }
}

static void want_indices(struct collector *c, const tc_region *r)
{
    tc_each_op (op, r) {
        if (op->code == TC_SMEM_INDEX)
            want(c, op->in[1], 0);
        for (unsigned i = 0; i < op->nregions; i++)
            want_indices(c, op->regions[i]);
        for (unsigned i = 0; op->nregions && i < op->nin; i++)
            want(c, op->in[i], 0);
    }
}

static void choose_values(tc_arena *a, tc_op *loop, tc_ring_states *s)
{
    struct collector c = {loop, tc_arena_array(a, bool, loop->nout)};
    want_indices(&c, loop->regions[0]);
    s->values = tc_arena_array(a, tc_value *, loop->nout);
    for (unsigned i = 0; i < loop->nout; i++)
        if (c.wanted[i])
            s->values[s->nvalues++] = tc_slot_arg(loop, i);
}

/* ---- The states ---- */

static void add_state(tc_arena *a, tc_ring_states *s)
{
    s->are[s->n] = tc_arena_array(a, int64_t, s->nvalues);
    s->certain[s->n] = tc_arena_array(a, bool, s->nvalues);
    s->n++;
}

static void first_state(tc_arena *a, const tc_op *loop, const tc_known *outer,
                        tc_ring_states *s)
{
    add_state(a, s);
    for (unsigned i = 0; i < s->nvalues; i++)
        s->certain[0][i] = tc_known_int(
            outer, tc_slot_init(loop, s->values[i]->index - 1), &s->are[0][i]);
}

static void next_state(tc_arena *a, const tc_op *loop, const tc_known *outer,
                       tc_ring_states *s)
{
    unsigned now = s->n - 1;
    tc_known known = {s->nvalues, s->values, s->are[now], s->certain[now],
                      outer};
    const tc_op *yield = tc_slot_yield(loop);
    add_state(a, s);
    for (unsigned i = 0; i < s->nvalues; i++) {
        int64_t x = 0;
        s->certain[now + 1][i] =
            tc_known_int(&known, yield->in[s->values[i]->index - 1], &x);
        s->are[now + 1][i] = s->certain[now + 1][i] ? x : 0;
    }
}

/* The earlier state that the last one repeats, or its own number. */
static unsigned find_repeated(const tc_ring_states *s)
{
    unsigned last = s->n - 1;
    for (unsigned k = 0; k < last; k++)
        if (memcmp(s->are[k], s->are[last], s->nvalues * sizeof **s->are) ==
                0 &&
            memcmp(s->certain[k], s->certain[last],
                   s->nvalues * sizeof **s->certain) == 0)
            return k;
    return last;
}

tc_ring_states tc_find_ring_states(tc_arena *a, tc_op *loop,
                                   const tc_known *outer)
{
    tc_ring_states s = {0};
    s.are = tc_arena_array(a, int64_t *, TC_MAX_RING_STATES + 1);
    s.certain = tc_arena_array(a, bool *, TC_MAX_RING_STATES + 1);
    choose_values(a, loop, &s);
    first_state(a, loop, outer, &s);
    for (;;) {
        next_state(a, loop, outer, &s);
        s.again = find_repeated(&s);
        if (s.again < s.n - 1)
            break;
        if (s.n <= TC_MAX_RING_STATES)
            continue;
        /* The states do not repeat: no value is known. */
        s.n = 2;
        s.again = 0;
        memset(s.certain[0], 0, s.nvalues * sizeof **s.certain);
        break;
    }
    s.n--; /* the last one is a repetition */
    return s;
}
