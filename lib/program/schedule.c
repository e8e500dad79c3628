/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec compile --emit=schedule: the schedule of a kernel, read from the
 * attributes and ops of the program after its passes.
 *
 *   consumers, a step of for %n0: schedule(modulo) pingpong(once)
 *     wait full.k                          |
 *     issue s = q x ring.k, 512 cycles     | v
 *     wait full.v                          | |
 *     issue acc += p x ring.v, 512 cycles  | | v
 *     await s                                ^ |
 *     ..
 *
 * A column is a product in flight: v, it is issued, ^, it has ended.
 */
#include "lib/program/schedule.h"

#include "ir/types/layout.h"
#include "lib/handles.h"
#include "passes/analysis/roles.h"
#include "passes/schedule/cost.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

enum { MOST_LANES = 12, TEXT_WIDTH = 58, SCALAR_BYTES = 8 };

typedef struct view {
    tc_text *out;
    tc_context *cx;
    tc_func *f;
    const tc_target *target;
    bool async; /* some products are asynchronous: loops without do not count */
    /* The products in flight, oldest first, and the column of each. */
    unsigned nflying, lane_of[MOST_LANES];
    const tc_value *flying[MOST_LANES];
    /* Tile ops since the last line, and their cycles of special functions. */
    unsigned nmath;
    int64_t special;
} view;

/* ---- Names ---- */

static bool is_product(const tc_op *op)
{
    return op->code == TC_MMA || op->code == TC_DOT;
}

static const char *name_of(const view *v, const tc_value *x)
{
    tc_buffer buffers[TC_MAX_BUFFERS];
    if (x->type->kind == TC_SMEM &&
        tc_trace_buffers((tc_value *)x, buffers) == 1)
        x = buffers[0].alloc->out[0];
    if (x->def && x->def->code == TC_BLOCK)
        return name_of(v, x->def->in[0]);
    return x->name                    ? x->name
           : x->type->kind == TC_TILE ? "registers"
                                      : tc_value_name(v->cx, x);
}

/* That of its wait, which the text names; else its operands. */
static const char *name_of_product(const view *v, const tc_value *product)
{
    const tc_op *mma = product->def;
    tc_each_use (u, product)
        if (u->op->code == TC_MMA_WAIT && u->op->out[0]->name)
            return u->op->out[0]->name;
    if (!mma)
        return "the product of the step before";
    if (product->name || !is_product(mma))
        return name_of(v, product);
    return tc_arena_printf(&v->cx->diag_arena, "%s x %s",
                           name_of(v, mma->in[0]), name_of(v, mma->in[1]));
}

/* ---- Lines ---- */

static void put_line(const view *v, unsigned depth, const char *text, char mark,
                     unsigned marked)
{
    char lanes[2 * MOST_LANES + 1];
    memset(lanes, ' ', sizeof lanes);
    for (unsigned i = 0; i < v->nflying; i++)
        lanes[2 * v->lane_of[i]] = '|';
    for (unsigned i = 0; i < MOST_LANES; i++)
        if (marked >> i & 1)
            lanes[2 * i] = mark;
    unsigned n = sizeof lanes - 1;
    while (n && lanes[n - 1] == ' ')
        n--;
    lanes[n] = 0;
    int indent = (int)(2 * depth);
    if (n)
        tc_text_printf(v->out, "%*s%-*s %s\n", indent, "", TEXT_WIDTH - indent,
                       text, lanes);
    else
        tc_text_printf(v->out, "%*s%s\n", indent, "", text);
}

static void put_math(view *v, unsigned depth)
{
    if (v->nmath == 0)
        return;
    tc_text text = {.arena = &v->cx->diag_arena};
    tc_text_printf(&text, "%u tile op%s", v->nmath, v->nmath == 1 ? "" : "s");
    if (v->special)
        tc_text_printf(&text, ", %lld cycles of special functions",
                       (long long)v->special);
    put_line(v, depth, text.data, ' ', 0);
    v->nmath = 0;
    v->special = 0;
}

/* ---- Products in flight ---- */

static unsigned free_lane(const view *v)
{
    unsigned lane = 0;
    for (unsigned i = 0; i < v->nflying; i++)
        if (v->lane_of[i] == lane) {
            lane++;
            i = UINT32_MAX; /* from the first again */
        }
    return lane;
}

static bool is_async(const tc_op *op)
{
    return op->code == TC_MMA && tc_op_int(op, "async");
}

/* The mark of its column. A sum that another product adds to stays there. */
static unsigned begin_product(view *v, const tc_op *mma)
{
    if (!is_async(mma) || v->nflying == MOST_LANES)
        return 0;
    unsigned lane = free_lane(v);
    v->lane_of[v->nflying] = lane;
    v->flying[v->nflying++] = mma->out[0];
    return 1u << lane;
}

/* All but the `pending` youngest ones. */
static unsigned end_products(view *v, const tc_op *wait)
{
    unsigned pending = (unsigned)tc_op_int(wait, "pending"), marks = 0;
    unsigned ended = v->nflying > pending ? v->nflying - pending : 0;
    for (unsigned i = 0; i < ended; i++)
        marks |= 1u << v->lane_of[i];
    v->nflying -= ended;
    memmove(v->flying, v->flying + ended, v->nflying * sizeof *v->flying);
    memmove(v->lane_of, v->lane_of + ended, v->nflying * sizeof *v->lane_of);
    return marks;
}

/* ---- What a line says ---- */

/* The operands that are named; -1: none. */
typedef struct event {
    tc_opcode code;
    const char *words;
    int from, to;
} event;

static const event events[] = {
    {TC_MBARRIER_WAIT, "wait", 0, -1},
    {TC_MBARRIER_ARRIVE, "arrive", 0, -1},
    {TC_ORDER_WAIT, "take the turn", -1, -1},
    {TC_ORDER_ARRIVE, "pass the turn", -1, -1},
    {TC_TMA_LOAD, "TMA load", 0, 1},
    {TC_TMA_STORE, "TMA store", 1, 0},
    {TC_TMA_STORE_WAIT, "await TMA stores", -1, -1},
    {TC_ASYNC_COPY, "async copy", 0, 1},
    {TC_ASYNC_WAIT, "await async copies", -1, -1},
    {TC_SMEM_COPY, "smem_copy", 0, 1},
    {TC_SMEM_STORE, "smem_store", 0, -1},
    {TC_SMEM_LOAD, "smem_load", 0, -1},
    {TC_SMEM_TAKE, "smem_take", 0, -1},
    {TC_SMEM_COUNT, "smem_count", 0, -1},
    {TC_SMEM_LOAD_SCALAR, "read scalar", 0, -1},
    {TC_SMEM_STORE_SCALAR, "send scalar", 0, -1},
    {TC_BARRIER, "barrier", -1, -1},
    {TC_NEXT_TILE, "request the next tile", -1, -1},
    {TC_LOAD, "load", 0, -1},
    {TC_STORE, "store", 0, -1},
    {TC_ATOMIC, "atomic", 0, -1},
};

static const event *event_of(const tc_op *op)
{
    for (unsigned i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i].code == op->code)
            return &events[i];
    return NULL;
}

/* Does it add to a sum that is not 0? */
static bool adds(const tc_op *product)
{
    const tc_value *c = product->nin > 2 ? product->in[2] : NULL;
    return c &&
           (!c->def || (c->def->code != TC_SPLAT && c->def->code != TC_CONST));
}

static const char *product_text(const view *v, const tc_op *op)
{
    tc_arena *a = &v->cx->diag_arena;
    const char *of = tc_arena_printf(a, "%s x %s", name_of(v, op->in[0]),
                                     name_of(v, op->in[1]));
    const char *name = name_of_product(v, op->out[0]);
    const char *text = tc_arena_printf(
        a, "%s %s", tc_op_any(op, is_async) ? "issue" : "compute", name);
    if (strcmp(name, of) != 0)
        text = tc_arena_printf(a, "%s %s %s", text, adds(op) ? "+=" : "=", of);
    if (tc_op_is_word(op, "operands", "swapped"))
        text = tc_arena_printf(a, "%s, operands swapped", text);
    if (!tc_target_is_gpu(v->target) || !v->target->products_per_cycle)
        return text;
    return tc_arena_printf(a, "%s, %lld cycles", text,
                           (long long)tc_product_cycles(v->target, op));
}

static const char *event_text(const view *v, const tc_op *op, const event *e)
{
    tc_arena *a = &v->cx->diag_arena;
    const char *text = e->words;
    if (e->from >= 0)
        text = tc_arena_printf(a, "%s %s", text, name_of(v, op->in[e->from]));
    if (e->to >= 0)
        text = tc_arena_printf(a, "%s -> %s", text, name_of(v, op->in[e->to]));
    if (op->code == TC_BARRIER && tc_op_is_word(op, "scope", "group"))
        text = "barrier of the warp group";
    return text;
}

static const char *wait_text(const view *v, const tc_op *op)
{
    if (op->nin == 0)
        return tc_arena_printf(&v->cx->diag_arena,
                               "await products but the last %lld",
                               (long long)tc_op_int(op, "pending"));
    return tc_arena_printf(&v->cx->diag_arena, "await %s",
                           name_of_product(v, op->in[0]));
}

static bool is_event(const tc_op *op)
{
    return is_product(op) || op->code == TC_MMA_WAIT || event_of(op);
}

/* ---- A step ---- */

static bool moves_tiles(const tc_op *op)
{
    return op->code == TC_TMA_LOAD || op->code == TC_SMEM_COPY;
}

/* Its own ops, not those of loops in it. */
static bool has_own(const tc_op *loop, bool (*is)(const tc_op *))
{
    tc_each_op (op, loop->regions[loop->nregions - 1])
        if (is(op))
            return true;
    return false;
}

/* Does the loop get a timeline of its own? */
static bool is_shown(const view *v, const tc_op *op)
{
    bool drains = op->code == TC_FOR &&
                  strncmp(tc_op_word(op, "schedule"), "drain", 5) == 0;
    return tc_op_is_loop(op) && (drains || has_own(op, moves_tiles) ||
                                 has_own(op, v->async ? is_async : is_product));
}

static const char *name_of_loop(const view *v, const tc_op *loop)
{
    const tc_region *step = loop->regions[loop->nregions - 1];
    return step->nargs
               ? tc_arena_printf(&v->cx->diag_arena, "%s %s", tc_op_name(loop),
                                 tc_value_name(v->cx, step->args[0]))
               : tc_op_name(loop);
}

static void put_ops(view *v, const tc_region *r, unsigned depth);

/* What stands before region i of an op. */
static const char *words_of(const view *v, const tc_op *op, unsigned i)
{
    if (op->code != TC_IF)
        return tc_op_name(op);
    const char *clause = tc_op_word(op, "epilogue");
    return i ? "else"
           : strcmp(clause, "auto") == 0
               ? "if"
               : tc_arena_printf(&v->cx->diag_arena, "if epilogue(%s)", clause);
}

static void put_nested(view *v, const tc_op *op, unsigned depth)
{
    put_math(v, depth);
    if (is_shown(v, op)) {
        put_line(v, depth, name_of_loop(v, op), ' ', 0);
        return;
    }
    for (unsigned i = 0; i < op->nregions; i++) {
        if (!tc_region_any(op->regions[i], is_event))
            continue;
        put_line(v, depth, words_of(v, op, i), ' ', 0);
        put_ops(v, op->regions[i], depth + 1);
        put_math(v, depth + 1);
    }
}

static void put_op(view *v, const tc_op *op, unsigned depth)
{
    const event *e = event_of(op);
    if (op->nregions && !tc_op_combines(op) && tc_op_any(op, is_event)) {
        put_nested(v, op, depth);
        return;
    }
    if (!is_event(op)) {
        bool tile = op->nout && op->out[0]->type->kind == TC_TILE;
        v->nmath += tile && op->code != TC_SPLAT && op->code != TC_BROADCAST &&
                    op->code != TC_EXPAND_DIMS;
        if (tc_target_is_gpu(v->target))
            v->special += tc_special_cycles(v->target, op);
        return;
    }
    put_math(v, depth);
    if (is_product(op)) {
        const char *text = product_text(v, op);
        unsigned mark = begin_product(v, op);
        put_line(v, depth, text, 'v', mark);
    } else if (op->code == TC_MMA_WAIT) {
        unsigned marks = end_products(v, op);
        put_line(v, depth, wait_text(v, op), '^', marks);
    } else {
        put_line(v, depth, event_text(v, op, e), ' ', 0);
    }
}

static void put_ops(view *v, const tc_region *r, unsigned depth)
{
    tc_each_op (op, r)
        put_op(v, op, depth);
}

/* What is in flight when a step of the steady state begins. */
static void fly_in(view *v, const tc_region *step)
{
    v->nflying = 0;
    tc_each_op (op, step) {
        if (is_product(op))
            begin_product(v, op);
        else if (op->code == TC_MMA_WAIT)
            end_products(v, op);
    }
}

static void put_clauses(const view *v, const tc_op *loop)
{
    static const char *const words[] = {"schedule", "pingpong", "trim",
                                        "epilogue", "l2_prefetch"};
    if (loop->code != TC_FOR)
        return;
    if (tc_op_has_attr(loop, "stages"))
        tc_text_printf(v->out, " stages(%lld)",
                       (long long)tc_op_int(loop, "stages"));
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (!tc_op_is_word(loop, words[i], "auto"))
            tc_text_printf(v->out, " %s(%s)", words[i],
                           tc_op_word(loop, words[i]));
}

static void put_loops(view *v, const char *role, const tc_region *r)
{
    tc_each_op (op, r) {
        if (is_shown(v, op)) {
            const tc_region *step = op->regions[op->nregions - 1];
            tc_text_printf(v->out, "\n%s, a step of %s:", role,
                           name_of_loop(v, op));
            put_clauses(v, op);
            tc_text_add(v->out, "\n");
            fly_in(v, step);
            put_ops(v, step, 1);
            put_math(v, 1);
        }
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            put_loops(v, role, op->regions[i]);
    }
}

/* ---- Tables ---- */

static void put_roles(const view *v, const tc_op *roles)
{
    const tc_attr *registers = tc_op_attr(roles, "registers");
    bool split = registers->kind != TC_ATTR_NONE;
    tc_text_add(v->out, "\nrole        threads  registers\n");
    const char *const names[] = {"producer", "consumers", "transposer"};
    for (unsigned i = 0; i < roles->nregions; i++) {
        int64_t threads = i == TC_CONSUMERS_REGION ? tc_threads(v->f->warps)
                          : i == TC_PRODUCER_REGION
                              ? 1
                              : TC_WARPGROUP_THREADS - TC_WARP_THREADS;
        tc_text_printf(v->out, "%-10s  %7lld", names[i], (long long)threads);
        if (split)
            tc_text_printf(
                v->out, "  %9lld",
                (long long)registers->ints[i == TC_CONSUMERS_REGION]);
        tc_text_add(v->out, "\n");
    }
}

static void put_buffers(const view *v)
{
    unsigned nscalars = 0;
    bool any = false;
    tc_each_op (op, v->f->body) {
        const tc_type *t = op->nout ? op->out[0]->type : NULL;
        if (op->code != TC_SMEM_ALLOC)
            continue;
        unsigned slots = t->slots ? t->slots : 1;
        if (tc_type_count(t) * tc_type_bytes(t->elem) <= SCALAR_BYTES) {
            nscalars++;
            continue;
        }
        if (!any)
            tc_text_add(v->out, "\nbuffer        slots  bytes   tile\n");
        any = true;
        tc_text_printf(v->out, "%-12s  %5u  %6u  ", name_of(v, op->out[0]),
                       slots, tc_smem_bytes(t) / slots);
        tc_type_print(v->out, t);
        tc_text_add(v->out, "\n");
    }
    if (nscalars)
        tc_text_printf(v->out, "%sscalars and votes: %u\n", any ? "" : "\n",
                       nscalars);
}

void tc_schedule_print(tc_text *out, tc_func *f, const tc_target *target)
{
    view v = {.out = out,
              .cx = f->module->cx,
              .f = f,
              .target = target,
              .async = tc_region_any(f->body, is_async)};
    const tc_op *roles = tc_roles_of(f);
    tc_text_printf(out, "@%s on %s", f->name, target->name);
    if (f->warps)
        tc_text_printf(out, ": %u warps, %u bytes of shared memory", f->warps,
                       f->shared_bytes);
    if (f->ctas)
        tc_text_printf(out, ", ctas(%u)", f->ctas);
    if (f->tiles)
        tc_text_printf(out, ", tiles(%s)", tc_tiles_word(f->tiles));
    if (f->raster)
        tc_text_printf(out, " raster(%s)", tc_raster_word(f->raster));
    tc_text_add(out, "\n");
    if (roles)
        put_roles(&v, roles);
    put_buffers(&v);
    if (!roles) {
        put_loops(&v, f->warps ? "all warps" : "each program", f->body);
        return;
    }
    put_loops(&v, "producer", tc_producer(roles));
    if (tc_transposer(roles))
        put_loops(&v, "transposer", tc_transposer(roles));
    put_loops(&v, "consumers", tc_consumers(roles));
}
