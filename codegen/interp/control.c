/* SPDX-License-Identifier: Apache-2.0
 *
 * Control flow, which is uniform: bounds and conditions are scalars, the same
 * for all threads (scalars that come from tiles are checked to be: shape.c). So
 * no barrier can stand where only some threads pass.
 */
#include "codegen/interp/state.h"

#include <math.h>
#include <string.h>

/* Hands in[skip..] of a terminator to values, all at once: a loop may swap
 * what it carries. */
static void hand_over(tc_interp *it, const tc_op *from, tc_value *const *to)
{
    tc_iop *info = tc_iop_of(from);
    unsigned n = from->nin;
    tc_ivalue *held = info->plan;
    if (!held) {
        info->plan = held = tc_arena_array(&it->arena, tc_ivalue, n);
        for (unsigned i = 0; i < n; i++) {
            held[i].n = tc_ivalue_of(from->in[i])->n;
            held[i].x = tc_arena_array(&it->arena, tc_inum, held[i].n);
            held[i].poison = tc_arena_array(&it->arena, tc_ipoison, held[i].n);
        }
    }
    for (unsigned i = 0; i < n; i++)
        tc_interp_copy(&held[i], tc_ivalue_of(from->in[i]));
    for (unsigned i = 0; i < n; i++)
        tc_interp_copy(tc_ivalue_of(to[i]), &held[i]);
}

static void copy_values(tc_value *const *from, tc_value *const *to, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        tc_interp_copy(tc_ivalue_of(to[i]), tc_ivalue_of(from[i]));
}

/* ---- Regions ---- */

static tc_iframe *top(tc_interp *it)
{
    return &it->agent->frames[it->agent->depth - 1];
}

void tc_interp_enter(tc_interp *it, const tc_region *r)
{
    tc_iagent *a = it->agent;
    if (a->depth == a->room) {
        unsigned room = 2 * a->room + 16;
        tc_iframe *more = tc_arena_array(&it->arena, tc_iframe, room);
        if (a->depth)
            memcpy(more, a->frames, a->depth * sizeof *more);
        a->frames = more;
        a->room = room;
    }
    a->frames[a->depth++] = (tc_iframe){.region = r, .next = r->first};
}

static void leave(tc_interp *it)
{
    it->agent->depth--;
}

/* The same frame, at the begin of a region. */
static void go_to(tc_interp *it, const tc_region *r)
{
    top(it)->region = r;
    top(it)->next = r->first;
}

/* Checks the promise about the loop's ends. */
static bool check_ends(tc_interp *it, const tc_op *op, int64_t lo, int64_t hi)
{
    bool fits = lo >= 0 && hi >= -TC_MAX_SIZE && hi <= TC_MAX_SIZE;
    return fits || !tc_op_int(op, "by_rows") ||
           tc_interp_find(it, op, NULL, NULL,
                          "by_rows: it runs from %lld to %lld, expected 0 or "
                          "more, and ends within %d of 0",
                          (long long)lo, (long long)hi, TC_MAX_SIZE);
}

bool tc_interp_for(tc_interp *it, const tc_op *op)
{
    tc_inum lo, hi, step;
    if (!tc_interp_decide(it, op, 0, &lo) ||
        !tc_interp_decide(it, op, 1, &hi) ||
        !tc_interp_decide(it, op, 2, &step) || !check_ends(it, op, lo.i, hi.i))
        return false;
    const tc_region *r = op->regions[0];
    uint64_t trips = tc_trip_count(lo.i, hi.i, step.i);
    copy_values(op->in + 3, r->args + 1, r->nargs - 1);
    tc_ivalue_of(r->args[0])->x[0] = lo;
    if (trips == 0) {
        copy_values(r->args + 1, op->out, op->nout);
        return true;
    }
    tc_interp_enter(it, r);
    top(it)->trips = trips - 1;
    top(it)->step = (uint64_t)step.i;
    return true;
}

static bool end_for(tc_interp *it, const tc_op *op, const tc_op *yield)
{
    const tc_region *r = op->regions[0];
    tc_iframe *f = top(it);
    tc_inum *i = &tc_ivalue_of(r->args[0])->x[0];
    hand_over(it, yield, r->args + 1);
    if (f->trips == 0) {
        copy_values(r->args + 1, op->out, op->nout);
        leave(it);
        return true;
    }
    f->trips--;
    i->i =
        tc_int_wrap(op->in[0]->type->kind, (int64_t)((uint64_t)i->i + f->step));
    go_to(it, r);
    return true;
}

bool tc_interp_if(tc_interp *it, const tc_op *op)
{
    tc_inum condition;
    if (!tc_interp_decide(it, op, 0, &condition))
        return false;
    tc_interp_enter(it, op->regions[condition.i ? 0 : 1]);
    return true;
}

static bool end_if(tc_interp *it, const tc_op *op, const tc_op *yield)
{
    copy_values(yield->in, op->out, op->nout);
    leave(it);
    return true;
}

bool tc_interp_while(tc_interp *it, const tc_op *op)
{
    const tc_region *head = op->regions[0];
    copy_values(op->in, head->args, head->nargs);
    tc_interp_enter(it, head);
    return true;
}

/* Of both regions: the condition, and what the body hands back. */
static bool end_while(tc_interp *it, const tc_op *op, const tc_op *end)
{
    const tc_region *head = op->regions[0], *body = op->regions[1];
    tc_inum more;
    if (top(it)->region == body) {
        hand_over(it, end, head->args);
        go_to(it, head);
        /* Empty regions must come to an end as well. */
        if (it->steps++ >= it->max_steps)
            return tc_interp_find(it, op, NULL, NULL, "no end after %llu steps",
                                  (unsigned long long)it->max_steps) &&
                   false;
        return true;
    }
    if (!tc_interp_decide(it, end, 0, &more))
        return false;
    if (more.i) {
        go_to(it, body);
        return true;
    }
    copy_values(head->args, op->out, op->nout);
    leave(it);
    return true;
}

bool tc_interp_leave(tc_interp *it, const tc_op *end)
{
    const tc_op *op = top(it)->region->op;
    switch (op ? op->code : TC_RETURN) {
    case TC_FOR: return end_for(it, op, end);
    case TC_IF: return end_if(it, op, end);
    case TC_WHILE: return end_while(it, op, end);
    default: leave(it); return true;
    }
}

/* Whether all elements are true; the first poison. */
static bool all_true(const tc_ivalue *v, tc_ipoison *poison)
{
    bool all = true;
    *poison = 0;
    for (unsigned i = 0; i < v->n; i++) {
        all &= v->x[i].i != 0;
        if (!*poison)
            *poison = v->poison[i];
    }
    return all;
}

/* The program that the op is of. */
static void program_of(const tc_interp *it, const tc_op *op,
                       int32_t program[TC_GRID_AXES])
{
    unsigned n = tc_op_nreported(op);
    for (unsigned i = 0; i < TC_GRID_AXES; i++)
        program[i] = n < op->nin ? (int32_t)tc_ivalue_of(op->in[n + i])->x[0].i
                                 : it->program[i];
}

bool tc_interp_assert(tc_interp *it, const tc_op *op)
{
    tc_ipoison poison;
    bool holds = all_true(tc_ivalue_of(op->in[0]), &poison);
    if (poison)
        return tc_interp_poisoned(it, op, poison, "the condition");
    if (holds)
        return true;
    program_of(it, op, it->program); /* the run ends here */
    tc_interp_find(it, op, NULL, NULL, "%s", tc_op_word(op, "message"));
    return false;
}

bool tc_interp_exit_if(tc_interp *it, const tc_op *op)
{
    const tc_ivalue *v = tc_ivalue_of(op->in[0]);
    if (v->poison[0])
        return tc_interp_poisoned(it, op, v->poison[0], "what decides");
    if (v->x[0].i)
        leave(it);
    return true;
}

bool tc_interp_assume(tc_interp *it, const tc_op *op)
{
    tc_ipoison poison;
    bool holds = all_true(tc_ivalue_of(op->in[0]), &poison);
    if (poison)
        return tc_interp_poisoned(it, op, poison, "the condition");
    return holds || tc_interp_find(it, op, NULL, NULL, "the promise is broken");
}

/* ---- print ---- */

static void add_number(tc_text *t, const tc_type *elem, tc_inum x)
{
    if (elem->kind > TC_F64)
        tc_text_printf(t, " %#llx", (unsigned long long)x.i);
    else if (!tc_type_is_float(elem))
        tc_text_printf(t, " %lld", (long long)x.i);
    else if (isnan(x.f))
        tc_text_add(t, " nan");
    else
        tc_text_printf(t, " %.*g",
                       elem->kind == TC_F64   ? 15
                       : elem->kind == TC_F32 ? 7
                                              : 5,
                       x.f);
}

static void send(tc_interp *it, tc_text *t)
{
    if (it->options->print)
        it->options->print(it->options->user, t->data);
    t->len = 0;
}

/* The elements of a tile, or of the buffer that it was stored to: the first
 * thread reads it. */
static bool printed_elements(tc_interp *it, const tc_op *op, unsigned operand,
                             uint32_t n, tc_inum *x, tc_ipoison *poison)
{
    if (op->in[operand]->type->kind == TC_TILE)
        return tc_interp_gather(it, op, operand, x, poison);
    uint8_t *groups = tc_arena_array(&it->arena, uint8_t, n);
    memset(groups, 1, n);
    return tc_interp_shared_read(it, op, operand, TC_READ_THREADS, groups, x,
                                 poison);
}

static bool print_tile(tc_interp *it, const tc_op *op, unsigned operand,
                       tc_arena *a)
{
    const tc_type *type = op->in[operand]->type;
    uint32_t n = (uint32_t)tc_type_count(type);
    tc_inum *x = tc_arena_array(a, tc_inum, n);
    tc_ipoison *poison = tc_arena_array(a, tc_ipoison, n);
    if (!printed_elements(it, op, operand, n, x, poison))
        return false;
    int32_t sides[TC_MAX_RANK], coord[TC_MAX_RANK];
    tc_type_sides(type, sides);
    tc_text t = {.arena = a};
    for (uint32_t i = 0; i < n; i++) {
        unsigned last = type->rank - 1;
        tc_interp_decode(sides, type->rank, i, coord);
        if (coord[last] == 0) {
            tc_text_add(&t, "  [");
            for (unsigned k = 0; k < last; k++)
                tc_text_printf(&t, "%d, ", coord[k]);
            tc_text_add(&t, ":]");
        }
        if (poison[i] &&
            !tc_interp_poisoned(it, op, poison[i], "what is printed"))
            return false;
        add_number(&t, type->elem, x[i]);
        if (coord[last] == sides[last] - 1)
            send(it, &t);
    }
    return true;
}

static bool has_elements(const tc_type *t)
{
    return t->kind == TC_TILE || t->kind == TC_SMEM;
}

static bool print_all(tc_interp *it, const tc_op *op, tc_arena *a)
{
    tc_text t = {.arena = a};
    unsigned n = tc_op_nreported(op);
    int32_t program[TC_GRID_AXES];
    program_of(it, op, program);
    tc_text_printf(&t, "program (%d, %d, %d): %s", program[0], program[1],
                   program[2], tc_op_word(op, "message"));
    for (unsigned i = 0; i < n; i++) {
        const tc_ivalue *v = tc_ivalue_of(op->in[i]);
        if (has_elements(op->in[i]->type))
            continue;
        if (v->poison[0] &&
            !tc_interp_poisoned(it, op, v->poison[0], "what is printed"))
            return false;
        add_number(&t, op->in[i]->type, v->x[0]);
    }
    send(it, &t);
    for (unsigned i = 0; i < n; i++)
        if (has_elements(op->in[i]->type) && !print_tile(it, op, i, a))
            return false;
    return true;
}

bool tc_interp_print(tc_interp *it, const tc_op *op)
{
    return print_all(it, op, &it->arena);
}
