/* SPDX-License-Identifier: Apache-2.0
 *
 * split-loads: where a ring has room for one tile only, the tile of a product
 * is loaded in pieces along the sums of the product, each to a ring of its own.
 * The next tile's first piece is on its way while this tile's last ones are
 * multiplied, in the same memory.
 *
 *   %t = load block %k[%n0 +: 64, 0 +: 256]
 *   %b = smem_alloc : smem<64x256>
 *   smem_store %b, %t
 *   %c = smem_trans %b
 *   %s = mma %a, %c, %z instr(m64k16)
 *
 * becomes
 *
 *   %t0 = load block %k[%n0 +: 64, 0 +: 128]
 *   %t1 = load block %k[%n0 +: 64, 128 +: 128]
 *   .. the same for both ..
 *   %a0 = smem_slice %a axis(1) side(128)
 *   %s0 = mma %a0, %c0, %z instr(m64k16)
 *   %a1 = smem_slice %a axis(1) at(128) side(128)
 *   %s = mma %a1, %c1, %s0 instr(m64k16)
 *
 * The sums stay in the registers of the accumulator: they are those of one
 * product, to the last bit. Tests: test/ir/passes/split-loads.
 */
#include "passes/warpspec/warpspec.h"

#include "ir/types/layout.h"
#include "passes/analysis/match.h"
#include "passes/instructions/mma.h"
#include "passes/target/machine_model.h"

#include <string.h>

static const char pass[] = "split-loads";

/* A product and the load of its operand B. */
struct product {
    tc_func *f;
    tc_op *mma;
    tc_staged b;
    int32_t columns; /* of both: what is summed */
    int32_t width;   /* of a piece */
};

/* ---- Which ---- */

static const tc_layout *piece_layout(tc_context *cx, const tc_type *buffer,
                                     int32_t at, int32_t side)
{
    tc_tile_part p = {1, at, 1, side};
    return tc_layout_run(cx, buffer->layout, &p, &(uint32_t){0});
}

/* Whole panels of both buffers, which lie in one piece of memory. */
static bool has_pieces(const struct product *p, const tc_type *buffer)
{
    tc_context *cx = p->f->module->cx;
    if (buffer->kind != TC_SMEM || buffer->slots || buffer->rank != 2 ||
        tc_dim_value(buffer->dims[1]) != p->columns)
        return false;
    for (int32_t at = 0; at < p->columns; at += p->width)
        if (!piece_layout(cx, buffer, at,
                          p->columns - at < p->width ? p->columns - at
                                                     : p->width))
            return false;
    return true;
}

/* The only op that reads a buffer next to the store of its tile; NULL: others
 * do. */
static tc_op *only_reader(const tc_staged *s)
{
    tc_op *reader = NULL;
    tc_each_use (u, s->alloc->out[0]) {
        if (u->op == s->store)
            continue;
        if (reader)
            return NULL;
        reader = u->op;
    }
    return reader;
}

/* The ring's one load is of operand B of one product of the step, each column
 * of which lies in one piece. */
static bool find_product(tc_warpspec *s, const tc_ring *r, struct product *p)
{
    const tc_tma_candidate *c = r->bulk[0];
    *p = (struct product){.f = s->f, .b = c->staged};
    if (r->nbulk != 1 || c->from || c->moved || c->boxes.rows || r->asked ||
        r->lent || r->slots != 1 || !r->region->op ||
        !tc_is_innermost_product(r->region->op))
        return false;
    const tc_op *trans = only_reader(&p->b);
    if (!trans || trans->code != TC_SMEM_TRANS ||
        !tc_value_has_one_use(trans->out[0]))
        return false;
    p->mma = trans->out[0]->uses->op;
    if (!tc_is_group_mma(p->mma) || p->mma->parent != r->region ||
        p->mma->in[1] != trans->out[0])
        return false;
    const tc_type *b = p->b.alloc->out[0]->type;
    p->columns = (int32_t)tc_dim_value(b->dims[b->rank - 1]);
    p->width = TC_PIECE_BYTES / (int32_t)tc_type_bytes(b->elem);
    return p->columns > p->width && has_pieces(p, b) &&
           has_pieces(p, p->mma->in[0]->type);
}

/* ---- Pieces ---- */

static tc_op *new_like(tc_func *f, const tc_op *op, tc_value *const *in)
{
    tc_op *like = tc_op_new(f, op->code, op->loc, op->nin, in, 0);
    memcpy(like->attrs, op->attrs, tc_op_nattrs(op->code) * sizeof *op->attrs);
    return like;
}

static tc_value *build_block(tc_builder *b, const tc_op *block, int32_t at,
                             int32_t side)
{
    const tc_attr *sides = tc_op_attr(block, "sides");
    const tc_dim *dims[TC_MAX_RANK];
    tc_value *in[1 + TC_MAX_RANK];
    unsigned last = sides->n - 1;
    memcpy(in, block->in, block->nin * sizeof *in);
    memcpy(dims, sides->dims, sides->n * sizeof *dims);
    if (at)
        in[1 + last] = tc_build_with(b, TC_ADD, in[1 + last], at);
    dims[last] = tc_dim_const(b->func->module->cx, side);
    tc_op *op = tc_op_new(b->func, TC_BLOCK, block->loc, block->nin, in, 0);
    tc_op_set_dims(op, "sides", sides->n, dims);
    return tc_build_op(b, op, NULL);
}

/* Vectors of 16 bytes, lanes along the row first: some other op reads the tile
 * if the load is not made a copy after all. */
static const tc_type *loaded_type(const tc_func *f, const tc_type *tile,
                                  int32_t side)
{
    tc_context *cx = f->module->cx;
    static const unsigned order[] = {1, 0};
    int32_t sides[] = {(int32_t)tc_dim_value(tile->dims[0]), side};
    int32_t vector = 16 / (int32_t)tc_type_bytes(tile->elem);
    int32_t along = side / vector & -(side / vector);
    along = along < TC_WARP_THREADS ? along : TC_WARP_THREADS;
    const int32_t per_thread[] = {1, vector};
    const int32_t lanes[] = {TC_WARP_THREADS / along, along};
    const int32_t warps[] = {(int32_t)f->warps, 1};
    const tc_dim *dims[] = {tile->dims[0], tc_dim_const(cx, side)};
    return tc_type_with_layout(
        cx, tc_type_shaped(cx, TC_TILE, 2, dims, tile->elem),
        tc_layout_blocked(cx, 2, sides, per_thread, lanes, warps, order));
}

/* A load of some columns, with a buffer of its own. */
static tc_value *split_load(tc_func *f, const tc_staged *s, int32_t at,
                            int32_t side)
{
    tc_builder b = tc_builder_before(s->load);
    b.loc = s->load->loc;
    tc_value *window = build_block(&b, s->load->in[0]->def, at, side);
    const tc_type *tile = loaded_type(f, s->load->out[0]->type, side);
    tc_value *t = tc_build_op(&b, new_like(f, s->load, &window), tile);
    t->name = s->load->out[0]->name;
    b = tc_builder_before(s->store);
    b.loc = s->alloc->loc;
    const tc_type *whole = s->alloc->out[0]->type;
    tc_op *alloc = tc_op_new(f, TC_SMEM_ALLOC, s->alloc->loc, 0, NULL, 0);
    const tc_layout *l = piece_layout(f->module->cx, whole, at, side);
    tc_value *buffer =
        tc_build_op(&b, alloc, tc_type_smem(f->module->cx, tile, l, 0));
    tc_value *in[] = {buffer, t};
    b.loc = s->store->loc;
    tc_build_effect(&b, TC_SMEM_STORE, 2, in);
    return buffer;
}

static tc_value *slice_of(tc_builder *b, tc_value *buffer, int32_t at,
                          int32_t side)
{
    tc_context *cx = b->func->module->cx;
    tc_op *view = tc_op_new(b->func, TC_SMEM_SLICE, b->loc, 1, &buffer, 0);
    const tc_dim *first = tc_dim_const(cx, at), *n = tc_dim_const(cx, side);
    tc_op_set_int(view, "axis", 1);
    tc_op_set_dims(view, "at", 1, &first);
    tc_op_set_dims(view, "side", 1, &n);
    return tc_build_op(b, view, NULL);
}

static void split(tc_warpspec *s, const struct product *p)
{
    tc_op *trans = p->mma->in[1]->def;
    tc_builder b = tc_builder_before(p->mma);
    b.loc = p->mma->loc;
    tc_value *sum = p->mma->in[2];
    unsigned n = 0;
    for (int32_t at = 0; at < p->columns; at += p->width, n++) {
        int32_t left = p->columns - at;
        int32_t side = left < p->width ? left : p->width;
        tc_value *rows = split_load(p->f, &p->b, at, side);
        tc_value *in[] = {slice_of(&b, p->mma->in[0], at, side), NULL, sum};
        in[1] = tc_build_op(&b, new_like(p->f, trans, &rows), NULL);
        sum = tc_build_op(&b, new_like(p->f, p->mma, in), p->mma->out[0]->type);
    }
    sum->name = p->mma->out[0]->name;
    tc_remark(s->env->cx, p->b.load->loc, pass,
              "tile of %s loaded in %u pieces: its ring has room for one tile, "
              "which is filled again as the pieces are multiplied",
              tc_loaded_name(s->env->cx, p->b.load), n);
    tc_value_replace(p->mma->out[0], sum);
    tc_op_erase(p->mma);
    tc_op_erase(trans);
    tc_op_erase(p->b.store);
    tc_op_erase(p->b.alloc);
    tc_erase_if_dead(s->env->scratch, p->b.load);
}

/* ---- The whole ---- */

static uint64_t loaded_bytes(const tc_region *r)
{
    uint64_t sum = 0;
    tc_each_op (op, r) {
        tc_staged s;
        if (tc_staged_of(op, &s))
            sum += s.bytes;
        for (unsigned i = 0; i < op->nregions && !tc_op_combines(op); i++)
            sum += loaded_bytes(op->regions[i]);
    }
    return sum;
}

tc_change tc_pass_split_loads(tc_func *f, tc_pass_env *env)
{
    tc_warpspec s;
    if (2 * loaded_bytes(f->body) <= tc_shared_limit(env->target) ||
        !tc_plan_rings(&s, f, env, false))
        return TC_UNCHANGED;
    bool any = false;
    for (const tc_ring *r = s.rings; r; r = r->next) {
        struct product p;
        if (!r->nbulk || !find_product(&s, r, &p))
            continue;
        split(&s, &p);
        any = true;
    }
    return any ? TC_CHANGED : TC_UNCHANGED;
}
