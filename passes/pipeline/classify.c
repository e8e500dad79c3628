/* SPDX-License-Identifier: Apache-2.0
 *
 * Which loads can be copied to shared memory without passing through
 * registers, and which of them can be copied some steps ahead.
 */
#include "passes/pipeline/pipeline_loops.h"

#include "ir/types/layout.h"
#include "passes/analysis/effects.h"
#include "passes/analysis/match.h"
#include "passes/sync/hazards.h"

/* ---- Names ---- */

const char *tc_loaded_name(tc_context *cx, const tc_op *load)
{
    const tc_value *tensor = tc_accessed_tensor(load);
    return tc_value_name(cx, tensor ? tensor : load->in[0]);
}

/* ---- The pattern ---- */

/* The one op that uses v, or NULL. */
static tc_op *only_user(const tc_value *v)
{
    return v->uses && !v->uses->next ? v->uses->op : NULL;
}

static bool is_store_of(const tc_op *op, const tc_value *v)
{
    return op->code == TC_SMEM_STORE && op->in[1] == v;
}

/* A smem_store of the load's tile, if there is one. */
static tc_op *store_of(const tc_op *load)
{
    tc_each_use (u, load->out[0])
        if (is_store_of(u->op, load->out[0]))
            return u->op;
    return NULL;
}

bool tc_is_staged(const tc_op *load)
{
    return store_of(load) != NULL;
}

/* All uses of the buffer, through views, are reads after the store. */
static bool only_read_after(const tc_value *buffer, tc_op *store)
{
    tc_each_use (u, buffer) {
        if (u->op == store)
            continue;
        tc_op *at = tc_ancestor_in(store->parent, u->op);
        bool after = false;
        for (tc_op *op = at; op && !after; op = op->prev)
            after = op == store;
        bool view = tc_is_buffer_view(u->op);
        if (!after && !(view && at))
            return false;
        if (view ? !only_read_after(u->op->out[0], store)
                 : tc_buffer_use_of(u->op, u->index) != TC_BUFFER_READ)
            return false;
    }
    return true;
}

static bool is_read(const tc_value *buffer)
{
    tc_each_use (u, buffer)
        if (tc_is_buffer_view(u->op)
                ? is_read(u->op->out[0])
                : tc_buffer_use_of(u->op, u->index) == TC_BUFFER_READ)
            return true;
    return false;
}

static bool has_own_buffer(const tc_staged *s)
{
    const tc_op *alloc = s->store->in[0]->def;
    return alloc && alloc->code == TC_SMEM_ALLOC &&
           !alloc->out[0]->type->slots &&
           only_read_after(alloc->out[0], s->store);
}

/* ---- Can it be a copy? ---- */

/* Zero, and not -0.0. */
static bool is_zero(const tc_op *load, tc_number n)
{
    return n.is_float ? n.f == 0 && !__builtin_signbit(n.f) : n.i == 0;
}

static const char *why_padded(const tc_op *load)
{
    const tc_attr *pad = tc_op_attr(load, "pad");
    bool other_zero = load->nin < 3 || tc_match_int(load->in[2], 0) ||
                      tc_match_float(load->in[2], 0.0);
    if ((pad->kind == TC_ATTR_NONE || is_zero(load, pad->number)) && other_zero)
        return NULL;
    return "what is outside is not 0, and a copy can only fill with zeros: "
           "load zeros and choose with a mask where it is used";
}

/* Bytes that one copy can move: neighbours in global memory, in a thread's
 * registers and in shared memory. */
static unsigned width_of(tc_pipeliner *p, const tc_staged *s, tc_vector *global)
{
    *global = tc_axis_vector(p->axes, s->load);
    const tc_type *tile = s->load->out[0]->type;
    unsigned bytes = tc_type_bytes(tile->elem), most = 16 / bytes;
    unsigned n = global->elements < most ? global->elements : most;
    unsigned run = tc_layout_contiguous(tile->layout, global->axis, most);
    n = run < n ? run : n;
    const tc_layout *offsets = tc_layout_offsets(
        p->env->cx, s->alloc->out[0]->type->layout, tile->layout);
    run = offsets ? tc_layout_contiguous(offsets, 0, most) : 1;
    n = run < n ? run : n;
    return n * bytes;
}

static const char *why_narrow(tc_pipeliner *p, const tc_staged *s,
                              const tc_vector *global)
{
    unsigned bytes = tc_type_bytes(s->load->out[0]->type->elem);
    const char *why =
        global->elements * bytes < 4 && global->why
            ? global->why
            : "its layout in registers and in shared memory have no more "
              "neighbours in common: store the tensor the other way round, or "
              "transpose it where it is made";
    return tc_arena_printf(p->env->scratch,
                           "only %u contiguous bytes a thread, a copy needs 4, "
                           "8 or 16: %s",
                           s->width, why);
}

const char *tc_why_not_copied(const tc_staged *s)
{
    if (only_user(s->load->out[0]) != s->store)
        return "it is also used in registers, or in two buffers of different "
               "layouts";
    if (!has_own_buffer(s))
        return "its buffer is written elsewhere too";
    if (!is_read(s->alloc->out[0]))
        return "nothing reads its buffer";
    return why_padded(s->load);
}

static const char *refuse(tc_pipeliner *p, tc_staged *s)
{
    if (!p->env->target->cp_async && p->env->target->shared_per_block)
        return "the target has no asynchronous copies";
    if (s->store->parent != s->load->parent)
        return "it is stored under a condition";
    const char *why = tc_why_not_copied(s);
    if (why)
        return why;
    tc_vector global;
    s->width = width_of(p, s, &global);
    return s->width < 4 ? why_narrow(p, s, &global) : NULL;
}

/* All reads of the buffer are by the threads that loaded. */
static bool is_read_back(const tc_staged *s)
{
    tc_each_use (u, s->alloc->out[0])
        if (u->op != s->store &&
            (u->op->code != TC_SMEM_LOAD ||
             u->op->out[0]->type->layout != s->load->out[0]->type->layout))
            return false;
    return true;
}

bool tc_staged_of(tc_op *load, tc_staged *s)
{
    tc_op *store = load->code == TC_LOAD ? store_of(load) : NULL;
    if (!store || !store->in[0]->def)
        return false;
    *s = (tc_staged){.load = load,
                     .store = store,
                     .alloc = store->in[0]->def,
                     .bytes = tc_smem_slot_bytes(store->in[0]->type)};
    return true;
}

tc_staged *tc_find_staged(tc_pipeliner *p, tc_region *r)
{
    bool products = tc_region_has_op(r, TC_MMA);
    tc_staged *first = NULL, **end = &first;
    tc_each_op (op, r) {
        tc_staged found;
        if (!tc_staged_of(op, &found))
            continue;
        found.refusal = refuse(p, &found);
        found.own = !products && is_read_back(&found);
        *end = tc_arena_new(p->env->scratch, tc_staged);
        **end = found;
        end = &(*end)->next;
    }
    return first;
}

/* ---- Ahead of its step ---- */

const char *tc_why_nothing_ahead(const tc_op *loop)
{
    if (loop->code != TC_FOR)
        return "the loop is a `while`, whose next step is not known before "
               "this one ends: use `for`";
    if (tc_region_has_op(loop->regions[0], TC_ASSERT))
        return "an assert in the loop may have to come first: assert before "
               "the loop, or in the grid";
    return NULL;
}

/* ---- Its address ---- */

/* Ops whose result is worth computing twice. */
static bool is_cheap(const tc_op *op)
{
    return tc_op_has(op, TC_PURE) && op->nregions == 0 && op->nout == 1 &&
           !tc_op_combines(op) && op->code != TC_DOT &&
           op->code != TC_CONVERT_LAYOUT;
}

/* Addresses of rows, handed out by shuffles (share-addresses). */
static bool is_exchange(tc_pipeliner *p, const tc_op *op)
{
    return op->code == TC_CONVERT_LAYOUT && op->out[0]->type->rank == 1 &&
           tc_layout_conversion(p->env->cx, op->in[0]->type->layout,
                                op->out[0]->type->layout) ==
               TC_CONVERT_SHUFFLES;
}

static const char *why_changed(const tc_op *loop, const tc_op *load)
{
    return tc_may_change_loaded_in(loop->regions[0], load)
               ? "the loop stores to memory, which a load of a later step "
                 "might read: store after the loop"
               : NULL;
}

/* Loads that may be repeated steps ahead: of a scalar, or of a few indices. */
static bool is_index_load(const tc_op *op)
{
    enum { MOST_INDICES = 1024 };
    const tc_type *t = op->nout ? op->out[0]->type : NULL;
    return (op->code == TC_LOAD || op->code == TC_GATHER) &&
           (t->kind != TC_TILE || tc_type_count(t) <= MOST_INDICES);
}

/* The carried values on the way to v, as they may depend on themselves. */
struct way {
    const tc_value *v;
    const struct way *before;
};

static const char *why_unknown(tc_pipeliner *p, const tc_op *loop,
                               const tc_value *v, const struct way *before);

static const char *why_operands_unknown(tc_pipeliner *p, const tc_op *loop,
                                        const tc_op *op,
                                        const struct way *before)
{
    for (unsigned i = 0; i < op->nin; i++) {
        const char *why = why_unknown(p, loop, op->in[i], before);
        if (why)
            return why;
    }
    return NULL;
}

static const char *why_carried_unknown(tc_pipeliner *p, const tc_op *loop,
                                       const tc_value *v,
                                       const struct way *before)
{
    for (const struct way *w = before; w; w = w->before)
        if (w->v == v)
            return NULL;
    struct way here = {v, before};
    if (v->index == 0)
        return NULL;
    const tc_op *yield = tc_region_terminator(loop->regions[0]);
    return why_unknown(p, loop, yield->in[v->index - 1], &here);
}

static const char *why_unknown(tc_pipeliner *p, const tc_op *loop,
                               const tc_value *v, const struct way *before)
{
    if (!v->def && v->region == loop->regions[0])
        return why_carried_unknown(p, loop, v, before);
    if (!v->def || !tc_is_nested_in(v->def, loop))
        return NULL;
    const char *changed =
        is_index_load(v->def) ? why_changed(loop, v->def) : NULL;
    if (changed)
        return changed;
    if (is_cheap(v->def) || is_index_load(v->def) || is_exchange(p, v->def))
        return why_operands_unknown(p, loop, v->def, before);
    return tc_arena_printf(
        p->env->scratch,
        "its address depends on %s, which the `%s` of line %u computes in the "
        "same step",
        tc_value_name(p->env->cx, v), tc_op_name(v->def), v->def->loc.line);
}

const char *tc_why_not_ahead(tc_pipeliner *p, const tc_op *loop,
                             const tc_op *load)
{
    const char *changed = why_changed(loop, load);
    return changed ? changed : why_operands_unknown(p, loop, load, NULL);
}
