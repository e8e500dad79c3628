/* SPDX-License-Identifier: Apache-2.0
 *
 * TMA copies. A tensor map, which the host makes, describes the tensor and the
 * box (passes/instructions/tma.h); a copy gives the start of the box, the
 * contiguous dim first:
 *
 *  cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
 *       [%buffer+8192], [%map, {%column, %row}], [%mbarrier+16];
 *
 * All are issued by one thread.
 */
#include "passes/instructions/tma.h"
#include "codegen/nvptx/memory/hints.h"
#include "codegen/nvptx/memory/shared.h"
#include "passes/analysis/axis_info.h"
#include "passes/sync/shared_memory.h"

#include <string.h>

/* ---- Tensor maps ---- */

static bool fits_map(const tc_tensor_map *m, const tc_tma *t)
{
    return m->arg == t->arg && m->swizzle == t->swizzle &&
           m->nparts == t->nparts &&
           memcmp(m->box, t->box, sizeof m->box) == 0 &&
           memcmp(m->parts, t->parts, sizeof m->parts) == 0;
}

/* The kernel's map for a copy; nmaps: it has none yet. */
static unsigned map_of(const tc_gen *g, const tc_tma *t)
{
    unsigned i = 0;
    while (i < g->nmaps && !fits_map(&g->maps[i], t))
        i++;
    return i;
}

static bool copy_of(tc_gen *g, const tc_op *op, tc_tma *t)
{
    const char *why;
    return tc_tma_of_op(op, t, &why) || tc_gen_error(g, op, "%s", why);
}

static bool add_map(tc_gen *g, const tc_op *op)
{
    tc_tma t;
    if (!copy_of(g, op, &t))
        return false;
    unsigned i = map_of(g, &t);
    if (i < g->nmaps)
        return true;
    if (i == TC_MAX_TENSOR_MAPS)
        return tc_gen_error(g, op, "more than %d tensor maps",
                            TC_MAX_TENSOR_MAPS);
    tc_tensor_map *m = &g->maps[g->nmaps++];
    *m = (tc_tensor_map){.arg = t.arg,
                         .elem = op->in[1]->type->elem->kind,
                         .rank = t.rank,
                         .contiguous = t.contiguous,
                         .swizzle = t.swizzle};
    memcpy(m->box, t.box, sizeof m->box);
    m->apart = t.apart;
    m->nparts = t.nparts;
    memcpy(m->parts, t.parts, sizeof m->parts);
    return true;
}

static bool find_in(tc_gen *g, const tc_region *r)
{
    tc_each_op (op, r) {
        if ((op->code == TC_TMA_LOAD || op->code == TC_TMA_STORE) &&
            !add_map(g, op))
            return false;
        for (unsigned i = 0; i < op->nregions; i++)
            if (!find_in(g, op->regions[i]))
                return false;
    }
    return true;
}

bool tc_gen_find_maps(tc_gen *g)
{
    return find_in(g, g->f->body);
}

/* ---- Copies ---- */

/* The op that a buffer is from, through views; NULL: not known. */
static const tc_op *alloc_of(const tc_value *buffer)
{
    const tc_op *op = buffer->def;
    while (op && tc_is_buffer_view(op))
        op = op->in[0]->def;
    return op && op->code == TC_SMEM_ALLOC ? op : NULL;
}

static bool check(tc_gen *g, const tc_op *op, const tc_tma *t)
{
    if (!g->target->tma)
        return tc_gen_error(g, op, "%s has no TMA copies", g->target->name);
    const tc_op *alloc = alloc_of(op->in[1]);
    unsigned align = t->swizzle ? 8 * t->swizzle : 128;
    if (!alloc)
        return true;
    const tc_type *ring = alloc->out[0]->type;
    int64_t offset = tc_op_int(alloc, "offset");
    bool fits = offset % align == 0 &&
                (!ring->slots || tc_smem_slot_bytes(ring) % align == 0);
    return fits || tc_gen_error(g, op,
                                "buffer %s at offset %lld, expected it and "
                                "its slots at multiples of %u",
                                tc_value_name(g->cx, alloc->out[0]),
                                (long long)offset, align);
}

/* The distance from the first group's part to this group's, `step` from group
 * to group. */
static LLVMValueRef of_group(tc_gen *g, uint32_t step)
{
    return LLVMBuildMul(g->b, tc_gen_warp_group(g), tc_gen_i32(g, step), "");
}

/* Where copy i begins along the k-th dim of the map. */
static LLVMValueRef place_along(tc_gen *g, const LLVMValueRef *window,
                                const tc_tma *t, unsigned i, unsigned k)
{
    unsigned dim = tc_dim_by_stride(t->rank, t->contiguous, k);
    LLVMValueRef at = LLVMBuildAdd(g->b, window[dim],
                                   tc_gen_i32(g, t->copies[i].at[dim]), "");
    if (t->group_byte && dim == t->group_dim)
        at = LLVMBuildAdd(g->b, at, of_group(g, (uint32_t)t->group_at), "");
    return at;
}

/* The same where rows are taken apart: all other dims are counted along the
 * first one, in elements, of which there are less than 2^31; of the rows only
 * groups, along the last one. */
static LLVMValueRef place_apart(tc_gen *g, const tc_op *op,
                                const LLVMValueRef *window, const tc_tma *t,
                                unsigned i, unsigned k)
{
    const LLVMValueRef *tensor = tc_gen_get(g, tc_block_of(op->in[0])->in[0]);
    const int32_t *copy = t->copies[i].at;
    LLVMValueRef sum = tc_gen_i32(g, 0);
    if (k == t->nparts) {
        int group = (int)t->parts[k - 1].step;
        sum = LLVMBuildAdd(g->b, window[t->apart],
                           tc_gen_i32(g, copy[t->apart]), "");
        return LLVMBuildAShr(g->b, sum,
                             tc_gen_i32(g, __builtin_ctz((unsigned)group)), "");
    }
    for (unsigned dim = 0; k == 0 && dim < t->rank; dim++) {
        LLVMValueRef at =
            LLVMBuildAdd(g->b, window[dim], tc_gen_i32(g, copy[dim]), "");
        LLVMValueRef stride =
            LLVMBuildTrunc(g->b, tensor[1 + t->rank + dim], g->i32, "");
        if (dim != t->contiguous)
            at = LLVMBuildMul(g->b, at, stride, "");
        if (dim != t->apart)
            sum = LLVMBuildAdd(g->b, sum, at, "");
    }
    return sum;
}

/* The operands of an instruction that is put together from its parts. */
typedef struct operands {
    LLVMValueRef args[7 + TC_TMA_MAX_RANK];
    unsigned n, rank;
    tc_text place, constraints; /* place: "[map, {coordinates}]" */
} operands;

static void add_place(tc_gen *g, const tc_op *op, const LLVMValueRef *window,
                      const tc_tma *t, unsigned i, operands *o)
{
    o->rank = t->nparts ? 1 + t->nparts : t->rank;
    o->args[o->n] = g->map_params[map_of(g, t)];
    tc_text_add(&o->constraints, o->n ? ",l" : "l");
    tc_text_printf(&o->place, "[$%u, {", o->n++);
    for (unsigned k = 0; k < o->rank; k++) {
        o->args[o->n] = t->nparts ? place_apart(g, op, window, t, i, k)
                                  : place_along(g, window, t, i, k);
        tc_text_printf(&o->place, "$%u%s", o->n++,
                       k + 1 < o->rank ? ", " : "}]");
        tc_text_add(&o->constraints, ",r");
    }
}

/* only: where this i1 is true, or NULL. */
static void build_instruction(tc_gen *g, operands *o, const char *text,
                              LLVMValueRef only)
{
    if (only) {
        text = tc_arena_printf(g->arena, "@$%u %s", o->n, text);
        o->args[o->n++] = only;
        tc_text_add(&o->constraints, ",b");
    }
    tc_text_add(&o->constraints, ",~{memory}");
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, o->constraints.data,
               o->n, o->args);
}

/* One box; mbarrier: NULL of a store. */
static void copy_box(tc_gen *g, const tc_op *op, const LLVMValueRef *window,
                     const tc_tma *t, unsigned i, LLVMValueRef *mbarrier,
                     LLVMValueRef only)
{
    operands o = {.place = {.arena = g->arena},
                  .constraints = {.arena = g->arena}};
    LLVMValueRef to = LLVMBuildAdd(g->b, tc_gen_get(g, op->in[1])[0],
                                   tc_gen_i32(g, t->copies[i].byte), "");
    bool add = !mbarrier && tc_op_is_word(op, "kind", "add");
    tc_gen_hints hints = tc_gen_hints_of(g, op);
    if (t->group_byte)
        to = LLVMBuildAdd(g->b, to, of_group(g, t->group_byte), "");
    o.args[0] = tc_shared_address(g, to, &o.args[1]);
    o.n = 2;
    tc_text_add(&o.constraints, "r,n");
    add_place(g, op, window, t, i, &o);
    const char *text = tc_arena_printf(
        g->arena,
        "cp.%sasync.bulk.tensor.%ud.global.shared::cta%s.tile.bulk_group%s %s, "
        "[$0+$1]",
        add ? "reduce." : "", o.rank, add ? ".add" : "", hints.words,
        o.place.data);
    if (mbarrier) {
        text = tc_arena_printf(
            g->arena,
            "cp.async.bulk.tensor.%ud.shared::cta.global.tile."
            "mbarrier::complete_tx::bytes%s [$0+$1], %s, [$%u+$%u]",
            o.rank, hints.words, o.place.data, o.n, o.n + 1);
        o.args[o.n++] = mbarrier[0];
        o.args[o.n++] = mbarrier[1];
        tc_text_add(&o.constraints, ",r,n");
    }
    if (hints.policy) {
        text = tc_arena_printf(g->arena, "%s, $%u", text, o.n);
        o.args[o.n++] = hints.policy;
        tc_text_add(&o.constraints, ",l");
    }
    text = tc_arena_printf(g->arena, "%s;", text);
    build_instruction(g, &o, text, only);
}

static void prefetch_box(tc_gen *g, const tc_op *op, const LLVMValueRef *window,
                         const tc_tma *t, unsigned i)
{
    operands o = {.place = {.arena = g->arena},
                  .constraints = {.arena = g->arena}};
    add_place(g, op, window, t, i, &o);
    build_instruction(g, &o,
                      tc_arena_printf(g->arena,
                                      "cp.async.bulk.prefetch.tensor.%ud.L2."
                                      "global.tile %s;",
                                      o.rank, o.place.data),
                      NULL);
}

static bool plain(tc_gen *g, const char *text)
{
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, "~{memory}", 0, NULL);
    return true;
}

/* ---- The ops ---- */

bool tc_nvptx_tma_load(tc_gen *g, const tc_op *op)
{
    tc_tma t;
    if (!copy_of(g, op, &t) || !check(g, op, &t))
        return false;
    tc_one one = tc_gen_elect(g, false);
    LLVMValueRef mbarrier[2];
    mbarrier[0] = tc_mbarrier_address(g, op->in[2], op->in[3], &mbarrier[1]);
    for (unsigned i = 0; i < t.ncopies; i++)
        copy_box(g, op, tc_gen_get(g, op->in[0]), &t, i, mbarrier, NULL);
    tc_gen_join(g, one);
    return true;
}

bool tc_nvptx_tma_prefetch(tc_gen *g, const tc_op *op)
{
    tc_tma t;
    if (!copy_of(g, op, &t) || !check(g, op, &t))
        return false;
    tc_one one = tc_gen_elect(g, false);
    for (unsigned i = 0; i < t.ncopies; i++)
        prefetch_box(g, op, tc_gen_get(g, op->in[0]), &t, i);
    tc_gen_join(g, one);
    return true;
}

/* i1: copy i does not begin before the tensor. */
static LLVMValueRef is_inside(tc_gen *g, const LLVMValueRef *window,
                              const tc_tma *t, unsigned i)
{
    LLVMValueRef any = tc_gen_i32(g, 0); /* the sign is that of any */
    for (unsigned k = 0; k < t->rank; k++)
        any = LLVMBuildOr(g->b, any, place_along(g, window, t, i, k), "");
    return LLVMBuildICmp(g->b, LLVMIntSGE, any, tc_gen_i32(g, 0), "");
}

static void store_boxes(tc_gen *g, const tc_op *store,
                        const LLVMValueRef *window, const tc_tma *t,
                        LLVMValueRef only)
{
    for (unsigned i = 0; i < t->ncopies; i++) {
        LLVMValueRef when = only;
        if (tc_op_int(store, "front")) {
            when = is_inside(g, window, t, i);
            when = only ? LLVMBuildAnd(g->b, only, when, "") : when;
        }
        copy_box(g, store, window, t, i, NULL, when);
    }
    plain(g, "cp.async.bulk.commit_group;");
}

bool tc_gen_start_copies(tc_gen *g, const tc_op *store,
                         const LLVMValueRef *window)
{
    tc_tma t;
    if (!copy_of(g, store, &t) || !check(g, store, &t))
        return false;
    store_boxes(g, store, window, &t, NULL);
    return true;
}

bool tc_nvptx_tma_store(tc_gen *g, const tc_op *op)
{
    enum { FEW = 2 };
    tc_tma t;
    if (op->nin > 2)
        return tc_gen_send(g, op);
    if (!copy_of(g, op, &t) || !check(g, op, &t))
        return false;
    bool each = tc_op_is_word(op, "scope", "group");
    /* Few copies stand in no branch: after one ptxas at times keeps nothing in
     * uniform registers, and steps of products take half as many instructions
     * more. With more copies the branch is faster. */
    LLVMValueRef only = t.ncopies <= FEW ? tc_gen_elected(g, each) : NULL;
    tc_one one = only ? (tc_one){NULL} : tc_gen_elect(g, each);
    store_boxes(g, op, tc_gen_get(g, op->in[0]), &t, only);
    tc_gen_join(g, one);
    return true;
}

/* The other threads have no groups and need not wait. */
bool tc_nvptx_tma_store_wait(tc_gen *g, const tc_op *op)
{
    if (!g->target->tma)
        return tc_gen_error(g, op, "%s has no TMA copies", g->target->name);
    if (tc_op_int(op, "sent") && g->senders) {
        tc_gen_wait_until_sent(g);
        return true;
    }
    return plain(g,
                 tc_arena_printf(g->arena, "cp.async.bulk.wait_group%s %lld;",
                                 tc_op_int(op, "written") ? "" : ".read",
                                 (long long)tc_op_int(op, "pending")));
}

bool tc_nvptx_fence_async(tc_gen *g, const tc_op *op)
{
    if (!g->target->tma)
        return tc_gen_error(g, op, "%s has no TMA copies", g->target->name);
    return plain(g, "fence.proxy.async.shared::cta;");
}
