/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the accumulators of dots fit in a thread's registers. Those of a loop
 * are live while its dots run: 64x512 x f32 in 4 warps are 256 registers, more
 * than a thread can have, and ptxas would spill them in every step. With twice
 * the warps each thread has half as many.
 *
 * Only accumulators that cannot fit count: nothing is known here of operands
 * and addresses but that they need some registers. Tests:
 * test/ir/passes/assign-layouts/registers.tile.
 */
#include "passes/layout/assign_layouts.h"

#include "passes/target/machine_model.h"

static const char pass[] = "assign-layouts";

static int64_t registers_of(const tc_value *v, unsigned warps)
{
    const tc_type *t = v->type;
    if (t->kind != TC_TILE || t->rank < 2)
        return 0;
    return tc_spread_registers(tc_type_count(t) * tc_type_bytes(t->elem),
                               warps);
}

static bool is_carried(tc_placing *s, const tc_dot *d)
{
    for (unsigned i = 0; d->loop && i < d->loop->nout; i++) {
        tc_class *c = tc_class_of(s, d->loop->out[i]);
        if (c && tc_class_root(c) == tc_class_root(d->c))
            return true;
    }
    return false;
}

/* Of the tiles that are in use when the dot is done. */
static int64_t needed(tc_placing *s, const tc_dot *d, unsigned warps)
{
    int64_t sum = is_carried(s, d) ? 0 : registers_of(d->op->out[0], warps);
    for (unsigned i = 0; d->loop && i < d->loop->nout; i++)
        sum += registers_of(d->loop->out[i], warps);
    return sum;
}

static int64_t room(const tc_placing *s, unsigned warps)
{
    return (int64_t)tc_max_registers(s->target, warps) - TC_SPARE_REGISTERS;
}

/* The first dot that has too few registers; NULL: all have enough. */
static const tc_dot *find_crowded(tc_placing *s, unsigned warps)
{
    for (const tc_dot *d = s->dots; d; d = d->next)
        if (needed(s, d, warps) > room(s, warps))
            return d;
    return NULL;
}

/* None of them idle, and as a kernel may have them. */
static bool is_possible(const tc_placing *s, unsigned warps)
{
    return tc_dots_share(s, warps) &&
           ((warps & (warps - 1)) == 0 || tc_dots_divide(s, warps));
}

/* The fewest warps, `warps` or some doubling of them, that suffice; 0: none. */
static unsigned find_enough(tc_placing *s, unsigned warps)
{
    for (; warps <= TC_MAX_WARPS; warps *= 2)
        if (!find_crowded(s, warps) && is_possible(s, warps))
            return warps;
    return 0;
}

unsigned tc_dots_spread(tc_placing *s, unsigned warps)
{
    const tc_dot *d = warps ? find_crowded(s, warps) : NULL;
    unsigned enough = d ? find_enough(s, 2 * warps) : 0;
    if (!enough)
        return warps;
    tc_remark(s->cx, d->op->loc, pass,
              "dot: %u warps: in %u its accumulators would take %lld registers "
              "of a thread, expected at most %lld",
              enough, warps, (long long)needed(s, d, warps),
              (long long)room(s, warps));
    return enough;
}

void tc_dots_warn_crowded(tc_placing *s)
{
    const tc_dot *d = find_crowded(s, s->warps);
    unsigned enough = d ? find_enough(s, 2 * s->warps) : 0;
    const char *remedy = "use smaller tiles";
    if (!d)
        return;
    if (enough)
        remedy = tc_arena_printf(s->scratch, "%u warps would do", enough);
    tc_warning(s->cx, d->op->loc,
               "dot: in %u warps its accumulators take %lld registers of a "
               "thread, expected at most %lld: they spill to memory%s; %s",
               s->warps, (long long)needed(s, d, s->warps),
               (long long)room(s, s->warps), d->loop ? " in every step" : "",
               remedy);
}
