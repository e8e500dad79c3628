/* SPDX-License-Identifier: Apache-2.0
 *
 * delay-loads: a copy that the consumers await a step late is issued a step
 * late. The producer issues its copies in turn: one whose only slot is still
 * being read would hold up the copies of the next step, which are read first.
 *
 *   consumer, schedule(modulo): k awaited with stage(0), v with stage(1)
 *
 *   for %n0 = %lo to %hi {               for %n0 = %lo to %hi carry(%n1 = 0) {
 *     mbarrier_wait %empty.k, ..           mbarrier_wait %empty.k, ..
 *     tma_load k[%n0], %ring.k, ..         tma_load k[%n0], %ring.k, ..
 *     mbarrier_wait %empty.v, ..           if %n0 != %lo {
 *     tma_load v[%n0], %ring.v, ..           mbarrier_wait %empty.v, ..
 *   }                                        tma_load v[%n1], %ring.v, ..
 *                                          }
 *                                          yield %n0
 *                                        }
 *                                        if %lo < %hi { .. the last one .. }
 *
 * Rings of more slots stay: their producer is ahead by a step or more anyway.
 * Tests: test/ir/passes/delay-loads.
 */
#include "passes/passes.h"

#include "passes/analysis/loop_slots.h"
#include "passes/analysis/match.h"
#include "passes/analysis/roles.h"

#include <string.h>

enum { MOST_OF_STEP = 16 };

/* The copy's ops in the producer's loop, in their order. */
struct copy {
    tc_op *loop;
    tc_op *block, *wait, *arrive, *load;
    /* What they take that is of the step. */
    unsigned n;
    tc_value *of_step[MOST_OF_STEP];
};

/* ---- Which ---- */

static bool is_of_step(const struct copy *c, const tc_value *v)
{
    return (v->def ? v->def->parent : v->region) == c->loop->regions[0];
}

static bool add_operands(struct copy *c, const tc_op *op)
{
    for (unsigned i = 0; i < op->nin; i++) {
        tc_value *v = op->in[i];
        unsigned k = 0;
        if (!is_of_step(c, v) || v->def == c->block)
            continue;
        while (k < c->n && c->of_step[k] != v)
            k++;
        if (k == MOST_OF_STEP || !tc_has_int_lanes(v))
            return false;
        c->of_step[k] = v;
        c->n += k == c->n;
    }
    return true;
}

/* The one copy that %full reports, and the ops that go with it. */
static bool find_copy(const tc_value *full, struct copy *c)
{
    *c = (struct copy){0};
    tc_each_use (u, full) {
        if (u->op->code != TC_TMA_LOAD)
            continue;
        if (c->load)
            return false;
        c->load = u->op;
    }
    tc_region *r = c->load ? c->load->parent : NULL;
    c->loop = r ? r->op : NULL;
    if (!c->loop || c->loop->code != TC_FOR)
        return false;
    c->block = tc_match_op(c->load->in[0], TC_BLOCK);
    c->arrive = c->load->prev;
    while (c->arrive &&
           !(c->arrive->code == TC_MBARRIER_ARRIVE && c->arrive->in[0] == full))
        c->arrive = c->arrive->prev;
    c->wait = c->arrive;
    while (c->wait && c->wait->code != TC_MBARRIER_WAIT)
        c->wait = c->wait->prev;
    return c->wait && c->block && c->block->parent == r &&
           tc_value_has_one_use(c->block->out[0]) &&
           add_operands(c, c->block) && add_operands(c, c->wait) &&
           add_operands(c, c->arrive) && add_operands(c, c->load);
}

/* ---- A step later ---- */

static tc_value *later(const struct copy *c, tc_value *v, tc_value *const *now)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->of_step[i] == v)
            return now[i];
    return v;
}

static tc_op *build_again(const struct copy *c, const tc_op *op,
                          tc_value *const *now, tc_value *window, tc_builder *b)
{
    tc_value **in =
        tc_arena_array(&b->func->module->arena, tc_value *, op->nin);
    for (unsigned i = 0; i < op->nin; i++)
        in[i] = op->in[i]->def == c->block ? window : later(c, op->in[i], now);
    tc_op *again = tc_op_new(b->func, op->code, op->loc, op->nin, in, 0);
    memcpy(again->attrs, op->attrs, tc_op_nattrs(op->code) * sizeof *op->attrs);
    return again;
}

/* If that holds: the copy with these values of its step. */
static void build_copy(const struct copy *c, tc_builder *b, const char *pred,
                       tc_value *x, tc_value *y, tc_value *const *now)
{
    b->loc = c->load->loc;
    tc_builder then;
    tc_build_when(b, tc_build_cmp(b, pred, x, y), &then);
    tc_value *window =
        tc_build_op(&then, build_again(c, c->block, now, NULL, &then),
                    c->block->out[0]->type);
    const tc_op *const ops[] = {c->wait, c->arrive, c->load};
    for (unsigned i = 0; i < 3; i++)
        tc_op_insert(build_again(c, ops[i], now, window, &then), then.region,
                     then.before);
}

static void delay(struct copy *c)
{
    tc_value *init[MOST_OF_STEP], *now[MOST_OF_STEP];
    const char *names[MOST_OF_STEP];
    unsigned before = c->loop->nout;
    tc_builder b = tc_builder_before(c->loop);
    b.loc = c->load->loc;
    for (unsigned i = 0; i < c->n; i++) {
        init[i] = tc_build_int(&b, c->of_step[i]->type, 0);
        names[i] = "before";
    }
    c->loop = tc_slots_add(c->loop, c->n, init, names);
    for (unsigned i = 0; i < c->n; i++) {
        tc_slot_set_next(c->loop, before + i, c->of_step[i]);
        now[i] = tc_slot_arg(c->loop, before + i);
    }
    tc_region *r = c->loop->regions[0];
    b = tc_builder_before(tc_region_terminator(r));
    build_copy(c, &b, "ne", r->args[0], c->loop->in[0], now);
    for (unsigned i = 0; i < c->n; i++)
        now[i] = c->loop->out[before + i];
    b = c->loop->next ? tc_builder_before(c->loop->next)
                      : tc_builder_at_end(c->loop->parent, c->loop->loc);
    build_copy(c, &b, "lt", c->loop->in[0], c->loop->in[1], now);
    tc_op_erase(c->load);
    tc_op_erase(c->arrive);
    tc_op_erase(c->wait);
    tc_op_erase(c->block);
}

/* ---- The whole ---- */

/* Do threads wait for it once in the program, a step late? */
static bool is_awaited_late(const tc_value *full, const tc_op *wait)
{
    tc_each_use (u, full)
        if (u->op->code == TC_MBARRIER_WAIT && u->op != wait)
            return false;
    return wait->stage == 1 && full->type->slots < 2;
}

/* The request for a tile that moves into the last step of the loop with the
 * copies (prefetch_tile.c) wants that loop right before it. */
static bool is_before_request(const tc_op *loop)
{
    const tc_op *op = loop->next;
    while (op && tc_op_is_pure(op))
        op = op->next;
    return op && op->code == TC_NEXT_TILE &&
           tc_op_is_word(op, "prefetch", "last_step");
}

static bool delay_of_loop(tc_op *loop)
{
    bool any = false;
    struct copy c;
    tc_each_op (op, loop->regions[0])
        if (op->code == TC_MBARRIER_WAIT && is_awaited_late(op->in[0], op) &&
            find_copy(op->in[0], &c) && !is_before_request(c.loop)) {
            delay(&c);
            any = true;
        }
    return any;
}

static bool delay_within(tc_region *r)
{
    bool any = false;
    tc_each_op (op, r) {
        if (op->code == TC_FOR && tc_op_is_word(op, "schedule", "modulo"))
            any |= delay_of_loop(op);
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            any |= delay_within(op->regions[i]);
    }
    return any;
}

tc_change tc_pass_delay_loads(tc_func *f, tc_pass_env *env)
{
    (void)env;
    tc_op *roles = tc_roles_of(f);
    return roles && delay_within(tc_consumers(roles)) ? TC_CHANGED
                                                      : TC_UNCHANGED;
}
