/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/profile/section.h"

#include "passes/sync/shared_memory.h"

#include <string.h>

/* ---- Names ---- */

const char *tc_section_name(tc_context *cx, const tc_value *v)
{
    tc_buffer buffers[TC_MAX_BUFFERS];
    if (v->type->kind == TC_SMEM &&
        tc_trace_buffers((tc_value *)(uintptr_t)v, buffers) == 1)
        v = buffers[0].alloc->out[0];
    if (v->def && v->def->code == TC_BLOCK)
        return tc_section_name(cx, v->def->in[0]);
    return v->name                    ? v->name
           : v->type->kind == TC_TILE ? "registers"
                                      : tc_value_name(cx, v);
}

const char *tc_section_product(tc_context *cx, const tc_value *product)
{
    const tc_op *mma = product->def;
    tc_each_use (u, product)
        if (u->op->code == TC_MMA_WAIT && u->op->out[0]->name)
            return u->op->out[0]->name;
    if (!mma)
        return "the product of the step before";
    if (product->name || (mma->code != TC_MMA && mma->code != TC_DOT))
        return tc_section_name(cx, product);
    return tc_arena_printf(&cx->diag_arena, "%s x %s",
                           tc_section_name(cx, mma->in[0]),
                           tc_section_name(cx, mma->in[1]));
}

const char *tc_section_loop(tc_context *cx, const tc_op *loop)
{
    const tc_region *step = loop->regions[loop->nregions - 1];
    return step->nargs
               ? tc_arena_printf(&cx->diag_arena, "%s %s", tc_op_name(loop),
                                 tc_value_name(cx, step->args[0]))
               : tc_op_name(loop);
}

/* ---- Kinds ---- */

/* operand: the one that is named; -1: none. */
typedef struct rule {
    tc_opcode code;
    const char *kind;
    int operand;
    const char *label;
} rule;

static const rule rules[] = {
    {TC_MBARRIER_WAIT, "wait", 0, NULL},
    {TC_ORDER_WAIT, "turn", -1, NULL},
    {TC_MBARRIER_ARRIVE, "release", 0, NULL},
    {TC_ORDER_ARRIVE, "release", -1, "turn"},
    {TC_TMA_LOAD, "copy", 1, NULL},
    {TC_SMEM_COPY, "copy", 1, NULL},
    {TC_TMA_STORE, "store", 1, NULL},
    {TC_TMA_STORE_WAIT, "wait", -1, "TMA stores"},
    {TC_ASYNC_WAIT, "wait", -1, "async copies"},
    {TC_BARRIER, "barrier", -1, NULL},
    {TC_NEXT_TILE, "tile", -1, NULL},
    {TC_STORE, "store", 0, NULL},
    {TC_ATOMIC, "store", 0, NULL},
    {TC_FOLLOW, "wait", -1, "the program before"},
    {TC_FOLLOW_END, "wait", -1, "the program before"},
};

bool tc_is_tile_math(const tc_op *op)
{
    return op->nout && op->out[0]->type->kind == TC_TILE &&
           op->code != TC_SPLAT && op->code != TC_BROADCAST &&
           op->code != TC_EXPAND_DIMS && op->code != TC_RANGE;
}

static const char *label_of_wait(tc_context *cx, const tc_op *op)
{
    return op->nin ? tc_section_product(cx, op->in[0]) : NULL;
}

/* The copy whose bytes the producer announces; NULL: the op announces none. */
static const tc_op *announced(const tc_op *op)
{
    if (op->code != TC_MBARRIER_ARRIVE || !tc_op_has_attr(op, "bytes"))
        return NULL;
    const tc_op *copy = op->next;
    while (copy && copy->code != TC_TMA_LOAD)
        copy = copy->next;
    return copy;
}

tc_section tc_section_of(tc_context *cx, const tc_op *op)
{
    const tc_op *copy = announced(op);
    op = copy ? copy : op;
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].code == op->code)
            return (tc_section){
                tc_string_get(cx, rules[i].kind),
                rules[i].operand < 0
                    ? rules[i].label
                    : tc_section_name(cx, op->in[rules[i].operand])};
    if (op->code == TC_MMA && tc_op_int(op, "async"))
        return (tc_section){tc_string_get(cx, "issue"),
                            tc_section_product(cx, op->out[0])};
    if (op->code == TC_MMA_WAIT)
        return (tc_section){tc_string_get(cx, "await"), label_of_wait(cx, op)};
    if (op->code == TC_LOAD && op->out[0]->type->kind == TC_TILE)
        return (tc_section){tc_string_get(cx, "load"),
                            tc_section_name(cx, op->in[0])};
    if (tc_is_tile_math(op) || op->code == TC_SMEM_STORE)
        return (tc_section){tc_string_get(cx, "math"), NULL};
    return (tc_section){NULL, NULL};
}

tc_section tc_section_of_regions(tc_context *cx, const tc_op *op)
{
    tc_section all = {NULL, NULL};
    for (unsigned i = 0; i < op->nregions; i++)
        tc_each_nested (inner, op->regions[i]) {
            tc_section s = tc_section_of(cx, inner);
            if (s.kind && strcmp(s.kind, "math") != 0)
                return (tc_section){NULL, NULL};
            all = s.kind ? s : all;
        }
    return all;
}

/* ---- Words ---- */

static const struct {
    const char *kind, *words, *span;
} kinds[] = {{"begin", "begin", "other"},
             {"end", "end", "other"},
             {"wait", "wait", "wait"},
             {"turn", "take the turn", "turn"},
             {"issue", "issue", "product"},
             {"await", "await", "wait"},
             {"math", "math", "math"},
             {"release", "release", "other"},
             {"copy", "copy to", "copy"},
             {"store", "store", "store"},
             {"load", "load", "copy"},
             {"barrier", "barrier", "barrier"},
             {"tile", "request the next tile", "other"}};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static unsigned find_kind(const char *kind)
{
    unsigned i = 0;
    while (i < NKINDS && strcmp(kinds[i].kind, kind) != 0)
        i++;
    return i;
}

const char *tc_section_words(const char *kind)
{
    unsigned i = find_kind(kind);
    return i < NKINDS ? kinds[i].words : kind;
}

const char *tc_section_span(const char *kind)
{
    unsigned i = find_kind(kind);
    return i < NKINDS ? kinds[i].span : "other";
}

bool tc_section_continues(tc_section now, tc_section next)
{
    if (!now.kind || strcmp(now.kind, next.kind) != 0)
        return false;
    return !now.label || !next.label || strcmp(now.label, next.label) == 0 ||
           strcmp(now.kind, "release") == 0;
}
