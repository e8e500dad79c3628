/* SPDX-License-Identifier: Apache-2.0
 *
 * The widths of memory accesses: which tensors must be aligned for them, and
 * the remarks about them. The remarks state what code generation does
 * (tc_access_vector); test/nvptx/widths.py compares them with PTX.
 *
 * Threads share a side by powers of two: where pad-sides could not lengthen a
 * side, several hold the same elements. A remark states that, too.
 */
#include "passes/layout/assign_layouts.h"

#include "ir/types/layout.h"
#include "passes/analysis/match.h"
#include "passes/target/machine_model.h"

static const char pass[] = "assign-layouts";

enum { WORD = 4 };

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

/* The tensor argument in whose memory an access moves several elements at once,
 * and how many bytes; NULL: it is not known, or cannot be aligned. */
static const tc_value *moved_at_once(const tc_placing *s, const tc_op *op,
                                     unsigned *bytes)
{
    const tc_type *t = moved(op);
    if (!t || t->kind != TC_TILE)
        return NULL;
    unsigned n = held_of(s, op);
    const tc_value *tensor = tc_tensor_argument(tc_accessed_tensor(op));
    *bytes = n * tc_type_bytes(t->elem);
    return n > 1 && tensor && tensor->index < 64 ? tensor : NULL;
}

static bool has_any_size(const tc_value *tensor)
{
    return !tensor->type->dims[tc_type_contiguous(tensor->type)];
}

static bool is_stored(const tc_value *tensor, const tc_region *r)
{
    tc_each_nested (op, r) {
        if (op->code == TC_STORE && tc_accessed_tensor(op) == tensor)
            return true;
    }
    return false;
}

/* Does the kernel ask of the sizes of some tensor's rows already? (Rows of a
 * product's operands and of its result have different lengths.) */
static bool asks_of_sizes(const tc_placing *s)
{
    const tc_region *body = s->f->body;
    for (unsigned i = 0; i < body->nargs && i < 64; i++)
        if ((s->f->aligned & ~s->f->ragged) >> i & 1 &&
            body->args[i]->type->kind == TC_TENSOR &&
            has_any_size(body->args[i]) &&
            (!s->dots || is_stored(body->args[i], body)))
            return true;
    return false;
}

/* In each step of a loop with products. */
static bool is_stored_in_steps(const tc_placing *s, const tc_op *op)
{
    const tc_op *loop = tc_layout_loop(op);
    if (op->code != TC_STORE || tc_op_is_word(op, "kind", "add"))
        return false;
    for (const tc_dot *d = s->dots; d; d = d->next)
        if (loop && d->loop == loop)
            return true;
    return false;
}

/* For 4 bytes at once alignment is asked only where it costs launches nothing:
 * rows of a known length, or of kernels that ask it of other rows. (A bias as
 * long as a sequence may end anywhere.) Next to products that holds of 8 bytes,
 * too, and a store in the layout of their sums is worth it only in each step of
 * their loop. */
static bool is_worth_asking(const tc_placing *s, const tc_op *op,
                            const tc_value *tensor, unsigned bytes, bool asks)
{
    bool is_free = asks || !has_any_size(tensor);
    if (s->dots)
        return (asks && op->code == TC_LOAD) ||
               (is_free && is_stored_in_steps(s, op));
    return is_free || bytes >= 2 * WORD;
}

/* A tensor must be aligned if an access of it moves 16 bytes at once; where
 * `narrow`, also for fewer. */
static void plan_accesses(tc_placing *s, const tc_region *r, bool narrow,
                          bool asks)
{
    tc_each_nested_first (op, r) {
        unsigned bytes;
        const tc_value *tensor = moved_at_once(s, op, &bytes);
        if (!tensor)
            continue;
        if (narrow
                ? bytes >= WORD && is_worth_asking(s, op, tensor, bytes, asks)
                : bytes >= least_vector(s, op))
            s->f->aligned |= (uint64_t)1 << tensor->index;
    }
}

void tc_vectors_plan(tc_placing *s)
{
    plan_accesses(s, s->f->body, false, false);
    plan_accesses(s, s->f->body, true, asks_of_sizes(s));
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
    if (!v.why && v.elements > 1)
        return op->code == TC_STORE && tc_op_is_word(op, "kind", "add")
                   ? "the target adds to one at a time"
                   : tc_arena_printf(
                         s->scratch,
                         "%u bytes are too few to ask launches to align rows "
                         "of any length for",
                         held * bytes);
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

int64_t tc_power_from(int64_t side)
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
        if (tc_power_from(side) != side && side > most)
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
        side && count / side * tc_power_from(side) / threads < each;
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
        (long long)tc_power_from(side));
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
    tc_each_nested_first (op, r) {
        say_access(s, axes, op);
        say_held(s, op);
    }
}

void tc_vectors_say(tc_placing *s)
{
    say_accesses(s, tc_axis_analyse(s->scratch, s->f, s->f->aligned),
                 s->f->body);
}
