/* SPDX-License-Identifier: Apache-2.0
 *
 * assign-shared: chooses a layout for each buffer in shared memory: the
 * candidate with the least cost of all its accesses together, by the layout
 * algebra: instructions and bank conflicts, weighted by the loops around them.
 *
 *   %s = smem_alloc : smem<64x64 x bf16, #rows>
 *   %t = smem_trans %s : smem<64x64 x bf16, #rows(order(0, 1))>
 *
 *   %s = smem_alloc : smem<64x64 x bf16, #swizzle128>
 *   %t = smem_trans %s : smem<64x64 x bf16, #swizzle128(order(0, 1))>
 *
 * Candidates: rows of either axis, in panels swizzled as TMA does it, or whole
 * with another xor, or plain. A buffer that a load writes may be written by
 * asynchronous copies, which need the load's vectors whole. A buffer that wgmma
 * reads must consist of panels that its descriptors can express. Tests:
 * test/ir/passes/assign-shared.
 */
#include "passes/layout/assign_shared.h"

#include "ir/types/layout.h"
#include "passes/instructions/mma.h"
#include "passes/instructions/wgmma.h"
#include "passes/sync/shared_memory.h"

static const char pass[] = "assign-shared";

enum { MOST_VIEWS = 4, MOST_ACCESSES = 32, MOST_CANDIDATES = 48 };

typedef struct access {
    const tc_op *op;
    unsigned operand;
    const tc_layout *tile;          /* the elements that threads hold of the
                                     * view; NULL: wgmma, which no thread
                                     * reads */
    const tc_op *views[MOST_VIEWS]; /* trans, slice: from the buffer outwards */
    unsigned nviews;
    unsigned depth;  /* loops around it */
    bool matrix;     /* ldmatrix or stmatrix may do it */
    unsigned vector; /* elements that must stay together; 1: none */
} access;

typedef struct buffer {
    tc_pass_env *env;
    tc_op *alloc;
    unsigned bits; /* of an element */
    unsigned n;
    access accesses[MOST_ACCESSES];
    bool complete;  /* all accesses are known */
    bool for_group; /* wgmma reads it */
} buffer;

typedef struct candidates {
    unsigned n;
    const tc_layout *of[MOST_CANDIDATES];
} candidates;

/* ---- Accesses ---- */

static unsigned loops_around(const tc_op *op)
{
    unsigned depth = 0;
    for (; op; op = op->parent ? op->parent->op : NULL)
        depth += tc_op_is_loop(op);
    return depth;
}

/* fma walks along K: a thread reads all of it, for the rows (columns) of the
 * accumulator that it holds. */
static const tc_layout *fma_tile(tc_context *cx, const tc_op *mma, unsigned i)
{
    const tc_layout *c =
        tc_layout_collapse(cx, mma->in[2]->type->layout, 1 - i);
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(mma->in[i]->type, sides);
    tc_layout_spec s = {.rank = 2, .shape = {sides[0], sides[1]}};
    unsigned k = 1 - i;
    int32_t power = sides[k] & -sides[k];
    for (int32_t n = 1; n < power; n *= 2)
        tc_layout_spec_add(&s, TC_REGISTER, 2, k, n);
    tc_layout_spec_add(&s, TC_REGISTER, (uint32_t)(sides[k] / power), k, power);
    for (int input = 0; input < TC_OFFSET; input++)
        for (unsigned m = 0; m < c->nmodes[input]; m++)
            tc_layout_spec_add_mode(&s, input, &c->modes[input][m]);
    return tc_layout_get(cx, &s);
}

static const tc_layout *mma_tile(tc_context *cx, const tc_op *mma, unsigned i)
{
    return tc_op_is_word(mma, "instr", "fma") ? fma_tile(cx, mma, i)
                                              : tc_mma_operand(cx, mma, i);
}

/* Elements that must stay together because the store writes the vectors of a
 * load, which an asynchronous copy could replace together with the store; 1:
 * the store writes something else. */
static unsigned copied_vector(const buffer *b, const tc_op *store)
{
    const tc_value *v = store->in[1];
    if (!b->env->target->cp_async || !v->def || v->def->code != TC_LOAD)
        return 1;
    const tc_layout *l = v->type->layout;
    unsigned most = 1;
    for (unsigned axis = 0; axis < l->rank; axis++) {
        unsigned n = tc_layout_contiguous(l, axis, 128 / b->bits);
        most = n > most ? n : most;
    }
    return most;
}

static bool by_descriptor(const access *a)
{
    return tc_is_group_mma(a->op);
}

static void fill_access(const buffer *b, access *a)
{
    const tc_op *op = a->op;
    tc_context *cx = b->env->cx;
    switch (op->code) {
    case TC_SMEM_LOAD:
        a->tile = tc_smem_load_layout(cx, op, &(uint32_t){0});
        a->matrix = b->env->target->ldmatrix;
        break;
    case TC_SMEM_STORE:
        a->tile = op->in[1]->type->layout;
        a->matrix = b->env->target->stmatrix;
        a->vector = copied_vector(b, op);
        break;
    case TC_MMA:
        if (by_descriptor(a))
            break;
        a->tile = mma_tile(cx, op, a->operand);
        a->matrix =
            b->env->target->ldmatrix && !tc_op_is_word(op, "instr", "fma");
        break;
    case TC_ASYNC_COPY:
        a->tile = tc_op_layout(op, "layout");
        if (!a->tile)
            a->tile = op->in[0]->type->layout;
        for (unsigned axis = 0; a->tile && axis < a->tile->rank; axis++) {
            unsigned n = tc_layout_contiguous(a->tile, axis, 128 / b->bits);
            a->vector = n > a->vector ? n : a->vector;
        }
        break;
    default: break;
    }
}

static void find_accesses(buffer *b, const tc_value *v, const access *seen)
{
    tc_each_use (u, v) {
        access a = *seen;
        if (tc_is_buffer_view(u->op)) {
            bool same = u->op->code == TC_SMEM_INDEX;
            if (!same && a.nviews < MOST_VIEWS)
                a.views[a.nviews++] = u->op;
            else if (!same)
                b->complete = false;
            find_accesses(b, u->op->out[0], &a);
            continue;
        }
        a.op = u->op;
        a.operand = u->index;
        a.depth = loops_around(u->op);
        fill_access(b, &a);
        b->for_group |= by_descriptor(&a);
        if ((a.tile || by_descriptor(&a)) && b->n < MOST_ACCESSES)
            b->accesses[b->n++] = a;
        else
            b->complete = false;
    }
}

/* ---- Costs ---- */

/* The cost of an access by the layout algebra: instructions of a warp, and the
 * cycles of shared memory that they take. */
typedef struct verdict {
    bool possible, matrix, trans, descriptor;
    unsigned count, vector, ways;
    uint64_t cost;
} verdict;

static unsigned registers_of(const tc_layout *tile, unsigned bits)
{
    unsigned n = tc_layout_size(tile, TC_REGISTER) * bits / 32;
    return n ? n : 1;
}

static verdict by_matrices(const buffer *b, const access *a,
                           const tc_layout *view)
{
    tc_matrix_access m;
    verdict v = {0};
    if (!a->matrix ||
        !tc_layout_matrix_access(b->env->cx, view, a->tile, b->bits, &m))
        return v;
    unsigned matrices = registers_of(a->tile, b->bits);
    v = (verdict){.possible = true,
                  .matrix = true,
                  .trans = m.trans,
                  .count = m.count,
                  .ways = m.ways};
    v.cost = (matrices + m.count - 1) / m.count + (uint64_t)matrices * m.ways;
    return v;
}

static verdict by_vectors(const buffer *b, const access *a,
                          const tc_layout *view)
{
    verdict v = {0};
    const tc_layout *offsets = tc_layout_offsets(b->env->cx, view, a->tile);
    if (!offsets)
        return v;
    tc_access x = tc_layout_access(offsets, b->bits);
    unsigned bytes = x.vector * b->bits / 8;
    unsigned n = tc_layout_size(a->tile, TC_REGISTER) / x.vector;
    unsigned phases = bytes > 4 ? bytes / 4 : 1;
    v = (verdict){.possible = true, .vector = x.vector, .ways = x.ways};
    v.cost = n + (uint64_t)n * phases * x.ways;
    return v;
}

/* Do all warp groups' columns begin at panels? */
static bool columns_begin_well(const access *a, const tc_wgmma_operand *o)
{
    int m, n;
    const tc_layout *c = a->op->out[0]->type->layout;
    if (a->operand != 1 || !tc_wgmma_grid(c, &m, &n) || n == 1)
        return true;
    return tc_wgmma_n(c->shape[1] / n) % o->row_unit == 0;
}

/* All that wgmma can read it reads without conflicts. */
static verdict by_group(const buffer *b, const access *a, const tc_layout *view)
{
    tc_context *cx = b->env->cx;
    const tc_type *t = tc_type_smem(cx, a->op->in[a->operand]->type, view, 0);
    tc_wgmma_operand o = {0};
    tc_bit_order columns;
    const char *why;
    verdict v = {.descriptor = true, .ways = 1};
    tc_mma_plain(a->op->out[0]->type->layout, &columns);
    t = tc_mma_plain_operand(cx, t, a->operand, &columns);
    v.possible = tc_wgmma_operand_of(cx, t, a->operand,
                                     tc_op_word(a->op, "instr"), &o, &why) &&
                 columns_begin_well(a, &o);
    v.count = o.swizzle;
    v.trans = !o.k_major;
    return v;
}

/* NULL: the views of the access do not fit such a layout. */
static const tc_layout *view_of(const buffer *b, const access *a,
                                const tc_layout *l)
{
    for (unsigned i = 0; i < a->nviews && l; i++)
        l = tc_smem_view_layout(b->env->cx, a->views[i], l);
    return l;
}

static verdict judge(const buffer *b, const access *a, const tc_layout *l)
{
    l = view_of(b, a, l);
    if (!l)
        return (verdict){0};
    if (by_descriptor(a))
        return by_group(b, a, l);
    verdict m = by_matrices(b, a, l), v = by_vectors(b, a, l);
    /* Broken vectors are more and narrower copies from global memory. */
    if (v.possible && v.vector < a->vector)
        v.cost += 1000 * (uint64_t)a->vector;
    return m.possible && a->vector == 1 && (!v.possible || m.cost <= v.cost)
               ? m
               : v;
}

/* No conflicts, vectors whole, fragments read by matrices. */
static bool is_ideal(const buffer *b, const access *a, const verdict *v)
{
    if (v->descriptor)
        return true;
    bool wants_matrix = a->matrix && a->op->code != TC_SMEM_STORE;
    return v->ways == 1 && (v->matrix || v->vector >= a->vector) &&
           (v->matrix || !wants_matrix || b->bits > 16);
}

/* UINT64_MAX: some access cannot be expressed. *ideal: no need to look
 * further. */
static uint64_t cost_of(const buffer *b, const tc_layout *l, bool *ideal)
{
    uint64_t sum = 0;
    *ideal = true;
    for (unsigned i = 0; i < b->n; i++) {
        const access *a = &b->accesses[i];
        verdict v = judge(b, a, l);
        if (!v.possible) {
            *ideal = false;
            return UINT64_MAX;
        }
        *ideal &= is_ideal(b, a, &v);
        sum += v.cost << (4 * (a->depth < 6 ? a->depth : 6));
    }
    return sum;
}

/* ---- Candidates ---- */

static void assign_shared_add(candidates *c, const tc_layout *l)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->of[i] == l)
            return;
    if (c->n < MOST_CANDIDATES)
        c->of[c->n++] = l;
}

static void add_order(candidates *c, const buffer *b, const unsigned *order)
{
    tc_context *cx = b->env->cx;
    const tc_type *t = b->alloc->out[0]->type;
    int32_t sides[TC_MAX_RANK];
    tc_type_sides(t, sides);
    int32_t row = sides[order[0]];
    /* A single row has no others to swizzle with. */
    unsigned widest = t->rank > 1 ? tc_layout_widest_swizzle(row, b->bits) : 0;
    for (unsigned s = widest; s >= 32; s /= 2)
        assign_shared_add(
            c, tc_layout_swizzled(cx, t->rank, sides, order, b->bits, s));
    assign_shared_add(
        c, tc_layout_swizzled(cx, t->rank, sides, order, b->bits, 0));
    unsigned vec = 128 / b->bits;
    if (t->rank < 2 || (int32_t)vec > row)
        return;
    for (unsigned phases = 8; phases >= 2; phases /= 2)
        for (unsigned per = 1; per <= 8 / phases; per *= 2)
            assign_shared_add(
                c, tc_layout_xor(cx, t->rank, sides, order, vec, per, phases));
    /* Two chunks at a time: 8 lanes along 32-bit columns, 4 down the rows. */
    for (unsigned phases = 4; phases >= 2; phases /= 2)
        assign_shared_add(
            c, tc_layout_xor(cx, t->rank, sides, order, 2 * vec, 1, phases));
}

/* The order of columns that products want of a view, as an order of one axis of
 * the buffer; n = 0: the usual one. */
static tc_bit_order wanted_order(const buffer *b, unsigned *axis)
{
    tc_bit_order columns = {0};
    for (unsigned i = 0; i < b->n && !columns.n; i++) {
        const access *a = &b->accesses[i];
        if (a->op->code != TC_MMA || a->operand != 1)
            continue;
        tc_mma_plain(a->op->out[0]->type->layout, &columns);
        *axis = a->nviews % 2 ? 0 : 1;
    }
    return columns;
}

static void add_reordered(candidates *c, const buffer *b)
{
    unsigned axis = 0, n = c->n;
    tc_bit_order columns = wanted_order(b, &axis);
    for (unsigned i = 0; i < n && columns.n; i++) {
        const tc_layout *l =
            tc_layout_reorder(b->env->cx, c->of[i], axis, &columns);
        if (l)
            assign_shared_add(c, l);
    }
}

/* Candidates with the last axis fastest come first, then those of the other
 * axis, all in the order that products want. If costs are equal the first
 * candidate wins. */
static candidates list_candidates(const buffer *b)
{
    unsigned order[TC_MAX_RANK], rank = b->alloc->out[0]->type->rank;
    candidates c = {0};
    for (unsigned i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    add_order(&c, b, order);
    if (rank == 2) {
        add_order(&c, b, (const unsigned[]){0, 1});
        add_reordered(&c, b);
    }
    return c;
}

/* ---- The choice ---- */

static const char *layout_text(const buffer *b, const tc_layout *l)
{
    tc_text text = {.arena = b->env->scratch};
    tc_layout_print(&text, l, b->bits);
    return text.data;
}

static void assign_shared_say(const buffer *b, const tc_layout *l)
{
    tc_context *cx = b->env->cx;
    if (!cx->want_remarks)
        return;
    tc_text text = {.arena = b->env->scratch};
    bool conflicts = false;
    for (unsigned i = 0; i < b->n; i++) {
        const access *a = &b->accesses[i];
        verdict v = judge(b, a, l);
        conflicts |= v.ways > 1;
        tc_text_printf(&text, "%s%s ", i ? "; " : "", tc_op_name(a->op));
        if (v.descriptor)
            tc_text_printf(&text, "by wgmma, %s",
                           v.trans ? "across K" : "along K");
        else if (v.matrix)
            tc_text_printf(&text, "by matrices x%u%s", v.count,
                           v.trans ? ".trans" : "");
        else
            tc_text_printf(&text, "by %u bytes",
                           v.vector * b->bits / 8 ? v.vector * b->bits / 8 : 1);
        if (v.ways > 1)
            tc_text_printf(&text, ", %u ways of bank conflicts", v.ways);
        else
            tc_text_add(&text, ", no bank conflicts");
    }
    (conflicts ? tc_missed : tc_remark)(cx, b->alloc->loc, pass,
                                        "smem_alloc: %s: %s", layout_text(b, l),
                                        text.data ? text.data : "not used");
}

static bool assign(tc_pass_env *env, tc_op *alloc)
{
    const tc_type *t = alloc->out[0]->type;
    buffer b = {.env = env,
                .alloc = alloc,
                .bits = 8 * tc_type_bytes(t->elem),
                .complete = true};
    find_accesses(&b, alloc->out[0], &(access){.vector = 1});
    const tc_layout *best = t->layout;
    if (!b.complete) {
        tc_remark(env->cx, alloc->loc, pass,
                  "smem_alloc: keeps %s: not all of its uses are known",
                  layout_text(&b, best));
        return false;
    }
    bool ideal = false;
    uint64_t least = cost_of(&b, best, &ideal);
    candidates c = {0};
    if (!env->options->no_swizzle || b.for_group)
        c = list_candidates(&b);
    ideal = false;
    for (unsigned i = 0; i < c.n && !ideal; i++) {
        uint64_t cost = cost_of(&b, c.of[i], &ideal);
        /* If costs are equal a candidate replaces the buffer's current layout,
         * but no earlier candidate. */
        if (cost < least || (cost == least && best == t->layout)) {
            least = cost;
            best = c.of[i];
        }
    }
    if (b.for_group && least == UINT64_MAX) {
        tc_missed(env->cx, alloc->loc, pass,
                  "smem_alloc: keeps %s: no layout suits wgmma and all else "
                  "that uses it",
                  layout_text(&b, t->layout));
        return false;
    }
    assign_shared_say(&b, best);
    if (best == t->layout)
        return false;
    tc_smem_set_layout(env->cx, alloc->out[0], best);
    return true;
}

/* ---- For others ---- */

unsigned tc_buffer_accesses(tc_pass_env *env, tc_op *alloc, unsigned most,
                            tc_buffer_access *out)
{
    const tc_type *t = alloc->out[0]->type;
    unsigned n = 0;
    buffer b = {.env = env, .alloc = alloc, .bits = 8 * tc_type_bytes(t->elem)};
    find_accesses(&b, alloc->out[0], &(access){.vector = 1});
    for (unsigned i = 0; i < b.n && n < most; i++) {
        verdict v = judge(&b, &b.accesses[i], t->layout);
        if (v.possible)
            out[n++] = (tc_buffer_access){
                .op = b.accesses[i].op,
                .by_descriptor = v.descriptor,
                .by_matrices = v.matrix,
                .bytes = v.vector * b.bits / 8,
                .ways = v.ways,
                .tile = b.accesses[i].tile,
                .view = view_of(&b, &b.accesses[i], t->layout)};
    }
    return n;
}

static bool assign_shared_visit(tc_pass_env *env, tc_op *op)
{
    return op->code == TC_SMEM_ALLOC && assign(env, op);
}

tc_change tc_pass_assign_shared(tc_func *f, tc_pass_env *env)
{
    return tc_visit_ops(f, env, assign_shared_visit);
}
