/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulation of one CTA: each warp group and the producer go through their
 * sections; a unit (tensor cores, special functions, copies) serves requests in
 * the order of time.
 *
 *   group 0    | wait k | issue q k | math ................. | release |
 *   group 1             | wait k  | turn ... | issue q k | math ....
 *   tensor cores        [ group 0 q k ][ group 1 q k ]
 *
 * The step is the one without rare branches; what the model does not know (a
 * barrier, a store, the issue of an instruction) takes no time. So a modelled
 * step is a bound that a measured one approaches.
 *
 * Full slots hide for many steps which unit is the slowest. So steps are
 * simulated until the state at the begin of one is that of an earlier one: from
 * there on they repeat.
 */
#include "passes/profile/steady_state.h"

#include "passes/analysis/roles.h"
#include "passes/profile/role_sections.h"
#include "passes/schedule/cost.h"
#include "passes/target/machine_model.h"

#include <math.h>
#include <string.h>

enum {
    STEPS = 512, /* simulated ones at most */
    WINDOW = 8,  /* the longest period, in steps; those that are measured */
    AFTER = 4,   /* steps that end after those */
    SHOWN = 3,
    PHASES = 4 * STEPS,  /* of an mbarrier */
    MOST_NUMBERS = 2048, /* of a state */
    MOST_CONSUMERS = 8,
    MOST_RINGS = 16,
    MOST_IN_FLIGHT = 64,
    MOST_SPANS = 4096
};

/* ---- The hot loops ---- */

/* Cycles. */
static double products_of(const void *target, const tc_op *loop)
{
    double sum = 0;
    tc_each_op (op, loop->regions[loop->nregions - 1])
        if (op->code == TC_MMA)
            sum += (double)tc_product_cycles(target, op);
    return sum;
}

static bool is_waited_for(const tc_steady_state *s, const tc_value *mbarrier)
{
    for (unsigned i = 0; i < s->nsections; i++)
        if (s->sections[i].mbarrier == mbarrier &&
            strcmp(s->sections[i].is.kind, "wait") == 0)
            return true;
    return false;
}

/* For mbarriers that the consumers' step waits for: a loop around the
 * producer's may copy more, but less often. */
static double bytes_of(const void *steady_state, const tc_op *loop)
{
    const tc_steady_state *s = steady_state;
    double sum = 0;
    tc_each_op (op, loop->regions[loop->nregions - 1])
        if (op->code == TC_MBARRIER_ARRIVE && tc_op_has_attr(op, "bytes") &&
            is_waited_for(s, op->in[0]))
            sum += (double)tc_op_int(op, "bytes");
    return sum;
}

/* The loop with most of what `amount` counts, of several the first. */
static const tc_op *find_loop(const tc_region *r, const void *user,
                              double (*amount)(const void *, const tc_op *))
{
    const tc_op *best = NULL;
    double most = 0;
    tc_each_nested (op, r) {
        double n = tc_op_is_loop(op) ? amount(user, op) : 0;
        if (n > most) {
            most = n;
            best = op;
        }
    }
    return best;
}

/* ---- The simulation ---- */

/* A ring of mbarriers: when its n-th phase was completed, by all arrivals. */
typedef struct phases {
    const tc_value *mbarrier;
    unsigned slots, n;         /* n: phases with an arrival */
    unsigned narrived[PHASES]; /* groups */
    double at[PHASES];
} phases;

typedef struct agent {
    bool produces, started; /* started: it is past what is before its loop */
    unsigned group, pc, step;
    double now;
    unsigned turns, nwaited[MOST_RINGS], narrived[MOST_RINGS];
    bool meets; /* it has arrived at the barrier that it waits at */
    unsigned nbarriers, nflying;
    double flying[MOST_IN_FLIGHT]; /* ends of products, oldest first */
    unsigned ncopying;
    double copying[MOST_IN_FLIGHT]; /* ends of groups of cp.async */
    double begun[STEPS + 1];        /* steps */
} agent;

typedef struct simulation {
    tc_arena *a;
    tc_steady_state *s;
    tc_role_sections consumer, producer;
    unsigned more;  /* slots of each ring that the kernel does not have */
    unsigned ahead; /* groups of cp.async that are in flight for them */
    agent agents[MOST_CONSUMERS + 1];
    unsigned nagents, nrings;
    phases rings[MOST_RINGS], barriers;
    double tensor_free, special_free, copies_free;
    unsigned passed[MOST_CONSUMERS]; /* turns that a group was given */
    double pass_at[MOST_CONSUMERS];
    tc_span *spans;
    unsigned nspans;
    unsigned first, last;   /* steps that are measured; 0: not known yet */
    unsigned period;        /* 0: none was found */
    double *states[WINDOW]; /* at the begins of the newest steps of group 0 */
    unsigned nnumbers[WINDOW];
} simulation;

/* -1: too many of them. */
static int ring_of(simulation *x, const tc_value *mbarrier)
{
    for (unsigned i = 0; i < x->nrings; i++)
        if (x->rings[i].mbarrier == mbarrier)
            return (int)i;
    if (x->nrings == MOST_RINGS)
        return -1;
    unsigned slots = mbarrier->type->slots ? mbarrier->type->slots : 1;
    x->rings[x->nrings] =
        (phases){.mbarrier = mbarrier, .slots = slots + x->more};
    return (int)x->nrings++;
}

static void add_span(simulation *x, tc_track_kind track, const agent *a,
                     double start, double end, const tc_step_section *section)
{
    if (x->first && x->nspans < MOST_SPANS && end > start)
        x->spans[x->nspans++] =
            (tc_span){track, a->group, start, end, a->step, section};
}

static const tc_role_sections *role_of(const simulation *x, const agent *a)
{
    return a->produces ? &x->producer : &x->consumer;
}

static const tc_step_section *section_of(const simulation *x, const agent *a)
{
    const tc_role_sections *r = role_of(x, a);
    return a->started ? &r->of[a->pc] : &r->before[a->pc];
}

/* Is the mbarrier one that the other side completes in its step? */
static bool has_arrival(const simulation *x, const agent *a, const tc_value *m)
{
    const tc_step_section *list = a->produces ? x->s->sections : x->s->producer;
    unsigned n = a->produces ? x->s->nsections : x->s->nproducer;
    for (unsigned i = 0; i < n; i++)
        if (list[i].mbarrier == m && strcmp(list[i].is.kind, "wait") != 0)
            return true;
    return false;
}

/* When the wait ends; below 0: not known yet. The producer's first waits for
 * each slot pass at once. */
static double end_of_wait(simulation *x, agent *a, const tc_step_section *s,
                          int ring)
{
    phases *p = &x->rings[ring];
    unsigned n = a->nwaited[ring];
    if (!has_arrival(x, a, s->mbarrier) || (a->produces && n < p->slots))
        return a->now;
    unsigned phase = a->produces ? n - p->slots : n;
    unsigned arrivals = a->produces ? x->s->ngroups : 1;
    if (phase >= PHASES || p->narrived[phase] < arrivals)
        return -1;
    return fmax(a->now, p->at[phase]);
}

static void arrive(simulation *x, agent *a, int ring, double at)
{
    phases *p = &x->rings[ring];
    unsigned n = a->narrived[ring]++;
    if (n >= PHASES)
        return;
    p->n = n >= p->n ? n + 1 : p->n;
    p->narrived[n]++;
    p->at[n] = fmax(p->at[n], at);
}

static double serve(double *unit_free, double now, double cycles)
{
    double start = fmax(*unit_free, now);
    *unit_free = start + cycles;
    return start;
}

static void issue(simulation *x, agent *a, const tc_step_section *s)
{
    double start = serve(&x->tensor_free, a->now, s->products);
    add_span(x, TC_TRACK_PRODUCTS, a, start, start + s->products, s);
    if (a->nflying < MOST_IN_FLIGHT)
        a->flying[a->nflying++] = start + s->products;
}

/* When all but the newest `pending` of a queue have ended. */
static double await(double now, double *ends, unsigned *n, unsigned pending)
{
    unsigned ended = *n > pending ? *n - pending : 0;
    double at = ended ? fmax(now, ends[ended - 1]) : now;
    *n -= ended;
    memmove(ends, ends + ended, *n * sizeof *ends);
    return at;
}

static double compute(simulation *x, agent *a, const tc_step_section *s)
{
    double end = a->now + s->lanes;
    if (s->products > 0) {
        double start = serve(&x->tensor_free, a->now, s->products);
        add_span(x, TC_TRACK_PRODUCTS, a, start, start + s->products, s);
        end = fmax(end, start + s->products);
    }
    if (s->special > 0) {
        double start = serve(&x->special_free, a->now, s->special);
        add_span(x, TC_TRACK_SPECIAL, a, start, start + s->special, s);
        end = fmax(end, start + s->special);
    }
    return end;
}

/* When the bytes are there. */
static double copy_bytes(simulation *x, agent *a, const tc_step_section *s,
                         double bytes)
{
    double cycles = bytes / TC_L2_BYTES_PER_CYCLE;
    double start = serve(&x->copies_free, a->now, cycles);
    add_span(x, TC_TRACK_COPIES, a, start, start + cycles, s);
    return fmax(start + cycles, a->now + TC_COPY_LATENCY_CYCLES);
}

static void copy(simulation *x, agent *a, const tc_step_section *s)
{
    double end = copy_bytes(x, a, s, s->bytes);
    int ring = s->mbarrier ? ring_of(x, s->mbarrier) : -1;
    if (ring >= 0)
        arrive(x, a, ring, end);
}

static void copy_async(simulation *x, agent *a, const tc_step_section *s)
{
    for (unsigned i = 0; i < s->commits && a->ncopying < MOST_IN_FLIGHT; i++)
        a->copying[a->ncopying++] =
            copy_bytes(x, a, s, s->async_bytes / s->commits);
}

static void release(simulation *x, agent *a, const tc_step_section *s)
{
    if (s->mbarrier) {
        int ring = ring_of(x, s->mbarrier);
        if (ring >= 0)
            arrive(x, a, ring, a->now);
    } else if (s->op->code == TC_ORDER_ARRIVE) {
        unsigned next = (a->group + 1) % x->s->ngroups;
        x->passed[next]++;
        x->pass_at[next] = a->now;
    }
}

/* When all groups are at the barrier; below 0: not known yet. */
static double meet(simulation *x, agent *a)
{
    phases *p = &x->barriers;
    unsigned n = a->nbarriers;
    if (n >= PHASES)
        return a->now;
    if (!a->meets) {
        p->n = n >= p->n ? n + 1 : p->n;
        p->narrived[n]++;
        p->at[n] = fmax(p->at[n], a->now);
    }
    a->meets = p->narrived[n] < x->s->ngroups;
    a->nbarriers += !a->meets;
    return a->meets ? -1 : p->at[n];
}

/* When the section ends; below 0: what it waits for has no time yet. */
static double run_section(simulation *x, agent *a, const tc_step_section *s)
{
    const char *kind = s->is.kind;
    if (s->op->code == TC_ASYNC_WAIT)
        return await(a->now, a->copying, &a->ncopying, s->pending + x->ahead);
    if (strcmp(kind, "wait") == 0 && s->mbarrier) {
        int ring = ring_of(x, s->mbarrier);
        double end = ring < 0 ? a->now : end_of_wait(x, a, s, ring);
        if (ring >= 0 && end >= 0)
            a->nwaited[ring]++;
        return end;
    }
    if (s->op->code == TC_BARRIER && !a->produces &&
        !tc_op_is_word(s->op, "scope", "group"))
        return meet(x, a);
    if (strcmp(kind, "turn") == 0) {
        if (x->passed[a->group] <= a->turns)
            return -1;
        a->turns++;
        return fmax(a->now, x->pass_at[a->group]);
    }
    if (strcmp(kind, "issue") == 0)
        issue(x, a, s);
    else if (strcmp(kind, "await") == 0)
        return await(a->now, a->flying, &a->nflying, s->pending);
    else if (strcmp(kind, "copy") == 0)
        copy(x, a, s);
    else if (strcmp(kind, "release") == 0)
        release(x, a, s);
    else if (strcmp(kind, "math") == 0)
        return compute(x, a, s);
    return a->now;
}

/* ---- Until steps repeat ---- */

/* What happens next depends on these numbers only: times are those since
 * `now`; before `past`, when no agent looks any more, they are all the same. */
typedef struct state {
    double *of, now, past;
    unsigned n;
} state;

static void put(state *s, double number)
{
    if (s->n < MOST_NUMBERS)
        s->of[s->n++] = number;
}

static void put_time(state *s, double at)
{
    put(s, fmax(at, s->past) - s->now);
}

static void put_agent(state *s, const simulation *x, const agent *a)
{
    put(s, a->pc);
    put(s, (double)a->step - x->agents[0].step);
    put_time(s, a->now);
    if (!a->produces) {
        put(s, x->passed[a->group] - (double)a->turns);
        put_time(s, x->pass_at[a->group]);
    }
    put(s, a->meets);
    put(s, (double)a->nbarriers - x->barriers.n);
    put(s, a->nflying);
    for (unsigned i = 0; i < a->nflying; i++)
        put_time(s, a->flying[i]);
    put(s, a->ncopying);
    for (unsigned i = 0; i < a->ncopying; i++)
        put_time(s, a->copying[i]);
    for (unsigned i = 0; i < x->nrings; i++) {
        put(s, (double)a->nwaited[i] - x->rings[i].n);
        put(s, (double)a->narrived[i] - x->rings[i].n);
    }
}

static void put_ring(state *s, const phases *p)
{
    for (unsigned i = 0; i < 2 * p->slots && i < p->n; i++) {
        put(s, p->narrived[p->n - 1 - i]);
        put_time(s, p->at[p->n - 1 - i]);
    }
}

static void put_state(state *s, const simulation *x)
{
    for (unsigned i = 0; i < x->nagents; i++)
        s->past = fmin(s->past, x->agents[i].now);
    for (unsigned i = 0; i < x->nagents; i++)
        put_agent(s, x, &x->agents[i]);
    for (unsigned i = 0; i < x->nrings; i++)
        put_ring(s, &x->rings[i]);
    put_ring(s, &x->barriers);
    put_time(s, x->tensor_free);
    put_time(s, x->special_free);
    put_time(s, x->copies_free);
}

static bool is_same_state(const simulation *x, unsigned i, unsigned k)
{
    if (!x->states[k] || x->nnumbers[i] != x->nnumbers[k] ||
        x->nnumbers[i] == MOST_NUMBERS)
        return false;
    for (unsigned n = 0; n < x->nnumbers[i]; n++)
        if (fabs(x->states[i][n] - x->states[k][n]) > 1e-3)
            return false;
    return true;
}

/* At the begin of a step of group 0. */
static void watch_steps(simulation *x, const agent *a)
{
    unsigned i = a->step % WINDOW;
    if (x->first)
        return;
    if (!x->states[i])
        x->states[i] = tc_arena_array(x->a, double, MOST_NUMBERS);
    state s = {x->states[i], a->now, a->now, 0};
    put_state(&s, x);
    x->nnumbers[i] = s.n;
    for (unsigned p = 1; p < WINDOW && !x->period; p++)
        if (is_same_state(x, i, (i + WINDOW - p) % WINDOW))
            x->period = p;
    if (x->period || a->step + 2 * WINDOW + 2 * AFTER > STEPS) {
        unsigned p = x->period ? x->period : WINDOW;
        x->first = a->step + AFTER;
        x->last = x->first + p * ((SHOWN + p) / p);
    }
}

/* ---- Agents in the order of time ---- */

static bool advance(simulation *x, agent *a)
{
    const tc_step_section *s = section_of(x, a);
    double end = run_section(x, a, s);
    if (end < 0)
        return false;
    copy_async(x, a, s);
    add_span(x, a->produces ? TC_TRACK_PRODUCER : TC_TRACK_GROUP, a, a->now,
             end, s);
    a->now = end;
    if (++a->pc < (a->started ? role_of(x, a)->n : role_of(x, a)->nbefore))
        return true;
    a->pc = 0;
    if (!a->started) {
        a->started = true;
        return true;
    }
    a->begun[++a->step] = a->now;
    if (a == x->agents)
        watch_steps(x, a);
    return true;
}

/* The one that is behind the others goes on; of those that cannot, the next. */
static bool step_once(simulation *x)
{
    bool tried[MOST_CONSUMERS + 1] = {false};
    for (unsigned n = 0; n < x->nagents; n++) {
        agent *next = NULL;
        for (unsigned i = 0; i < x->nagents; i++) {
            agent *a = &x->agents[i];
            if (!tried[i] && a->step < STEPS && (!next || a->now < next->now))
                next = a;
        }
        if (!next)
            return false;
        if (advance(x, next))
            return true;
        tried[next - x->agents] = true;
    }
    return false;
}

static bool is_done(const simulation *x)
{
    if (!x->first)
        return false;
    for (unsigned i = 0; i < x->s->ngroups; i++)
        if (x->agents[i].step < x->last + AFTER)
            return false;
    return true;
}

static bool simulate(simulation *x)
{
    tc_steady_state *s = x->s;
    for (unsigned i = 0; i < s->ngroups; i++)
        x->agents[x->nagents++] =
            (agent){.group = i, .started = !x->consumer.nbefore};
    if (s->nproducer)
        x->agents[x->nagents++] =
            (agent){.produces = true, .started = !x->producer.nbefore};
    x->barriers.slots = 1;
    x->passed[0] = 1;
    x->spans = tc_arena_array(x->a, tc_span, MOST_SPANS);
    while (!is_done(x))
        if (!step_once(x))
            return false;
    return true;
}

/* ---- The steady state ---- */

static bool is_of_role(const tc_span *p)
{
    return p->track == TC_TRACK_GROUP || p->track == TC_TRACK_PRODUCER;
}

/* Cycles of a step that nothing can be faster than. */
static double busiest_unit(const tc_steady_state *s)
{
    return fmax(fmax(s->products, s->special), s->copies);
}

/* Durations of sections, and the spans of the steps that are shown, from the
 * first group's. Without a period the slots may still hide the unit that is
 * slower by a little. */
static void conclude(simulation *x)
{
    tc_steady_state *s = x->s;
    const double *begun = x->agents[0].begun;
    double from = begun[x->first], n = x->last - x->first;
    s->cycles = (begun[x->last] - from) / n;
    if (!x->period)
        s->cycles = fmax(s->cycles, busiest_unit(s));
    s->shown = begun[x->first + SHOWN] - from;
    s->spans = tc_arena_array(x->a, tc_span, x->nspans + 1);
    for (unsigned i = 0; i < x->nspans; i++) {
        tc_span p = x->spans[i];
        tc_step_section *of = (tc_step_section *)(uintptr_t)p.section;
        bool producer = p.track == TC_TRACK_PRODUCER;
        if (is_of_role(&p) && p.step >= x->first && p.step < x->last)
            of->cycles += (p.end - p.start) / n / (producer ? 1 : s->ngroups);
        p.start = fmax(p.start - from, 0);
        p.end = fmin(p.end - from, s->shown);
        if (p.end > p.start)
            s->spans[s->nspans++] = p;
    }
}

static void sum_units(tc_steady_state *s)
{
    for (unsigned i = 0; i < s->nsections; i++) {
        s->products += s->ngroups * s->sections[i].products;
        s->special += s->ngroups * s->sections[i].special;
        s->lanes += s->ngroups * s->sections[i].lanes;
        s->copies +=
            s->ngroups * s->sections[i].async_bytes / TC_L2_BYTES_PER_CYCLE;
    }
    for (unsigned i = 0; i < s->nproducer; i++)
        s->copies += s->producer[i].bytes / TC_L2_BYTES_PER_CYCLE;
}

const tc_steady_state *tc_steady_state_with(tc_arena *a, tc_func *f,
                                            const tc_target *target,
                                            unsigned more)
{
    const tc_op *roles = tc_roles_of(f);
    const tc_region *body = roles ? tc_consumers(roles) : f->body;
    if (!target->products_per_cycle || !f->warps)
        return NULL;
    tc_steady_state *s = tc_arena_new(a, tc_steady_state);
    *s = (tc_steady_state){.loop = find_loop(body, target, products_of),
                           .ngroups = tc_warpgroups(f->warps)};
    if (s->ngroups == 0)
        s->ngroups = 1;
    if (!s->loop || s->ngroups > MOST_CONSUMERS)
        return NULL;
    tc_context *cx = f->module->cx;
    tc_role_sections consumer, producer = {0};
    bool fits = tc_read_role(a, cx, target, s->ngroups, s->loop, &consumer);
    s->nsections = consumer.n;
    s->sections = consumer.of;
    const tc_op *loads =
        roles ? find_loop(tc_producer(roles), s, bytes_of) : NULL;
    if (loads) {
        fits = tc_read_role(a, cx, target, 1, loads, &producer) && fits;
        s->nproducer = producer.n;
        s->producer = producer.of;
    }
    sum_units(s);
    simulation *x = tc_arena_new(a, simulation);
    *x = (simulation){.a = a,
                      .s = s,
                      .consumer = consumer,
                      .producer = producer,
                      .more = more};
    for (unsigned i = 0; i < s->nsections; i++)
        x->ahead += more * s->sections[i].commits;
    if (!fits || !s->nsections || !simulate(x))
        return NULL;
    conclude(x);
    return s;
}

const tc_steady_state *tc_steady_state_of(tc_arena *a, tc_func *f,
                                          const tc_target *target)
{
    return tc_steady_state_with(a, f, target, 0);
}
