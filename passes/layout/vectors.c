/* SPDX-License-Identifier: Apache-2.0
 *
 * The widths of memory accesses: which tensors must be aligned for them, and
 * the remarks about them. The remarks state what code generation does
 * (tc_access_vector); test/nvptx/widths.py compares them with PTX.
 *
 * Threads share a side by powers of two: of 1000 elements, 8 * 125, two threads
 * of 4 have a part of their own, and all others hold the same. A remark states
 * that, too.
 */
#include "passes/layout/assign_layouts.h"

#include "ir/types/layout.h"
#include "passes/analysis/match.h"
#include "passes/target/machine_model.h"

static const char pass[] = "assign-layouts";

/* The tile that an access moves, in its layout. */
static const tc_type *moved(const tc_op *op)
{
    switch (op->code) {
    case TC_LOAD:
    case TC_GATHER:
    case TC_ATOMIC:
    case TC_ATOMIC_CAS: return op->out[0]->type;
    case TC_STORE: return op->in[1]->type;
    default: return NULL;
    }
}

/* The access width from which an alignment is asked of the launch. For adds to
 * memory the number of accesses counts, and from sm_90 on f32 adds come in
 * vectors; stores of single bytes would be as many. */
static unsigned least_vector(const tc_placing *s, const tc_op *op)
{
    if (op->code != TC_STORE)
        return 16;
    bool adds = tc_op_is_word(op, "kind", "add") && s->target->major >= 9;
    return adds || tc_type_bytes(moved(op)->elem) == 1 ? 8 : 16;
}

/* Does a TMA copy bring it to shared memory? */
static bool comes_in_bulk(const tc_placing *s, const tc_op *op,
                          const tc_value *tensor)
{
    if (op->code != TC_LOAD || !tensor || tensor->def ||
        !(s->f->ragged >> tensor->index & 1))
        return false;
    tc_each_use (u, op->out[0])
        if (u->op->code != TC_SMEM_STORE)
            return false;
    return true;
}

static unsigned held_of(const tc_placing *s, const tc_op *op)
{
    tc_vector v = tc_axis_vector(s->axes, op);
    return tc_layout_contiguous(moved(op)->layout, v.axis, v.elements);
}

/* A tensor must be aligned if an access of it moves so many bytes at once. */
static void plan_access(tc_placing *s, const tc_op *op)
{
    const tc_type *t = moved(op);
    if (!t || t->kind != TC_TILE)
        return;
    unsigned bytes = held_of(s, op) * tc_type_bytes(t->elem);
    const tc_value *tensor = tc_accessed_tensor(op);
    if (bytes >= least_vector(s, op) && tensor && !tensor->def &&
        tensor->index < 64)
        s->f->aligned |= (uint64_t)1 << tensor->index;
}

void tc_vectors_plan(tc_placing *s, const tc_region *r)
{
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            tc_vectors_plan(s, op->regions[i]);
        plan_access(s, op);
    }
}

/* ---- What came of it ---- */

static const char *why_one(const tc_placing *s, const tc_op *op)
{
    tc_vector v = tc_axis_vector(s->axes, op);
    unsigned held = held_of(s, op);
    unsigned bytes = tc_type_bytes(moved(op)->elem);
    if (held < v.elements)
        return tc_arena_printf(s->scratch,
                               "its layout, which follows from others, has %u "
                               "side by side, %u bytes, expected %u",
                               held, held * bytes, least_vector(s, op));
    if (op->code == TC_GATHER && !v.why)
        return "each has an index of its own; a load of pointers (base, "
               "stride) "
               "moves neighbours at once";
    if (!v.why && v.elements > 1)
        return op->code == TC_STORE && tc_op_is_word(op, "kind", "add")
                   ? "the target adds to one at a time"
                   : "the mask has a lane for each; a mask is for pointers, a "
                     "block has its boundary";
    return v.why;
}

/* Bytes that one access moves, as `axes` know what the kernel asks for. */
static unsigned bytes_at_once(const tc_placing *s, const tc_axis_analysis *axes,
                              const tc_op *op)
{
    const tc_type *t = moved(op);
    unsigned n = tc_access_vector(axes, op, t->layout);
    if (op->code == TC_STORE && tc_op_is_word(op, "kind", "add"))
        n = tc_added_at_once(s->target, t->elem, n);
    return n * tc_type_bytes(t->elem);
}

static void say_access(tc_placing *s, const tc_axis_analysis *axes,
                       const tc_op *op)
{
    const tc_type *t = moved(op);
    if (!t || t->kind != TC_TILE)
        return;
    const char *name = tc_op_name(op);
    unsigned bytes = bytes_at_once(s, axes, op);
    if (bytes > tc_type_bytes(t->elem)) {
        tc_remark(s->cx, op->loc, pass, "%s: in vectors of %u bytes", name,
                  bytes);
        return;
    }
    const char *why = why_one(s, op);
    if (why && !comes_in_bulk(s, op, tc_accessed_tensor(op)))
        tc_missed(s->cx, op->loc, pass, "%s: element by element: %s", name,
                  why);
}

/* ---- Sides that threads cannot share ---- */

/* Does its tile go to shared memory only? It may then be copied there. */
static bool is_staged(const tc_op *op)
{
    tc_each_use (u, op->out[0])
        if (u->op->code != TC_SMEM_STORE)
            return false;
    return true;
}

static int64_t power_above(int64_t side)
{
    int64_t power = 1;
    while (power < side)
        power *= 2;
    return power;
}

/* The longest side that is no power of two; 0: there is none. */
static int64_t odd_side(const tc_type *t)
{
    int64_t most = 0;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t side = tc_dim_value(t->dims[i]);
        if (power_above(side) != side && side > most)
            most = side;
    }
    return most;
}

/* How many threads hold each element because a side has few factors of 2; 1:
 * each element has one holder, or there is another reason. */
static int64_t holders_of(const tc_placing *s, const tc_type *t, int64_t each)
{
    int64_t threads = tc_threads(s->warps), count = tc_type_count(t);
    int64_t side = odd_side(t);
    bool padded_is_less =
        side && count / side * power_above(side) / threads < each;
    return count >= threads && padded_is_less ? threads * each / count : 1;
}

/* Each thread holds more than its part, or more than it has room for. */
static void say_held(tc_placing *s, const tc_op *op)
{
    const tc_type *t = op->nout ? moved(op) : NULL;
    if (!t || t->kind != TC_TILE || is_staged(op))
        return;
    int64_t each = tc_layout_size(t->layout, TC_REGISTER);
    int64_t holders = holders_of(s, t, each), side = odd_side(t);
    int64_t registers = (each * tc_type_bytes(t->elem) + 3) / 4;
    bool many = registers > tc_machine(s->target)->max_registers;
    const char *text = tc_arena_printf(
        s->scratch,
        "%s: each element is held by %lld threads, %lld registers of each%s: "
        "threads share a side by powers of two, and %lld has few; use %lld "
        "(pow2ceil) and let the boundary cut it",
        tc_op_name(op), (long long)holders, (long long)registers,
        many ? ", more than the 255 that there are" : "", (long long)side,
        (long long)power_above(side));
    if (holders >= 2 && many)
        tc_warning(s->cx, op->loc, "%s", text);
    else if (holders >= 2)
        tc_missed(s->cx, op->loc, pass, "%s", text);
    else if (many)
        tc_missed(s->cx, op->loc, pass,
                  "%s: its tile takes %lld registers of a thread, more than "
                  "the 255 that there are: use smaller tiles%s",
                  tc_op_name(op), (long long)registers,
                  s->warps < TC_DEFAULT_MAX_WARPS ? ", or more warps" : "");
}

static void say_accesses(tc_placing *s, const tc_axis_analysis *axes,
                         const tc_region *r)
{
    tc_each_op (op, r) {
        for (unsigned i = 0; i < op->nregions; i++)
            say_accesses(s, axes, op->regions[i]);
        say_access(s, axes, op);
        say_held(s, op);
    }
}

void tc_vectors_say(tc_placing *s)
{
    say_accesses(s, tc_axis_analyse(s->scratch, s->f, s->f->aligned),
                 s->f->body);
}
