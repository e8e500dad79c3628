/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies, the groups that they end in, and waits for them.
 *
 * A copy has the thread layout of its load, but with lanes along no more than
 * 128 bytes of a row, the width of one access to shared memory:
 *
 *   64x256 x bf16: #blocked(1x8, 1x32, 8x1)    8 rows of 512 bytes at a time
 *             becomes #blocked(1x8, 4x8, 8x1)  32 rows of 128 bytes
 *
 * So the pieces of a row are constant distances apart: fewer addresses and
 * checks of rows. Where each thread reads what it copied itself, with no
 * barrier, the copy has the layout of the load. Tests:
 * test/ir/passes/pipeline-loops/wide-rows.tile, own-rows.tile.
 */
#include "passes/pipeline/pipeline_loops.h"

#include "ir/types/layout.h"
#include "passes/analysis/effects.h"
#include "passes/instructions/hints.h"
#include "passes/target/machine_model.h"

#include <string.h>

enum { ROW_BYTES = 128 };

static unsigned lanes_along(const tc_layout *l, unsigned axis)
{
    unsigned n = 1;
    for (unsigned i = 0; i < l->nmodes[TC_LANE]; i++)
        if (l->modes[TC_LANE][i].image[axis])
            n *= (unsigned)l->modes[TC_LANE][i].count;
    return n;
}

static const tc_layout *layout_of_copy(tc_context *cx, const tc_staged *s)
{
    const tc_type *tile = s->load->out[0]->type;
    const tc_layout *l = tile->layout;
    if (s->own)
        return l;
    unsigned bytes = tc_type_bytes(tile->elem), axis = 0, vector = 1;
    for (unsigned i = 0; i < l->rank; i++) {
        unsigned n = tc_layout_contiguous(l, i, TC_VECTOR_BYTES / bytes);
        if (n >= vector) {
            axis = i;
            vector = n;
        }
    }
    unsigned lanes = ROW_BYTES / (vector * bytes);
    if (l->rank != 2 || lanes >= lanes_along(l, axis))
        return l;
    const unsigned order[] = {axis, !axis};
    int32_t each[2], warp[2], warps[2];
    each[axis] = (int32_t)vector;
    warp[axis] = (int32_t)lanes;
    warp[!axis] = (int32_t)(TC_WARP_THREADS / lanes);
    warps[!axis] = (int32_t)tc_layout_size(l, TC_WARP);
    each[!axis] = warps[axis] = 1;
    return tc_layout_blocked(cx, 2, l->shape, each, warp, warps, order);
}

/* PTX ISA, cp.async: .cg is for 16 bytes only. */
static void say_hints(tc_op *copy, const tc_staged *s)
{
    const char *cache = tc_op_hint(s->load, "cache");
    bool narrow = cache && strcmp(cache, "cg") == 0 && s->width < 16;
    if (narrow)
        tc_op_set_word(s->load, "cache", "auto");
    if (narrow)
        tc_missed(tc_op_context(copy), s->load->loc, "pipeline-loops",
                  "load: cache(cg) has no effect: a cp.async copy of %u bytes "
                  "has ca only",
                  s->width);
    tc_hints_move("pipeline-loops", copy, s->load,
                  "a cp.async copy has ca and cg only");
}

void tc_build_copy(tc_builder *b, const tc_staged *s, tc_value *from,
                   tc_value *to, tc_value *cond, tc_value *mask)
{
    tc_context *cx = b->func->module->cx;
    if (mask && !cond)
        cond = tc_build_int(b, tc_type_scalar(cx, TC_I1), 1);
    tc_value *in[] = {from, to, cond, mask};
    unsigned nin = 2 + (cond != NULL) + (mask != NULL);
    tc_op *copy = tc_op_new(b->func, TC_ASYNC_COPY, s->load->loc, nin, in, 0);
    tc_op_set_attr(copy, "boundary", *tc_op_attr(s->load, "boundary"));
    say_hints(copy, s);
    if (from->type->kind == TC_BLOCK_PTR)
        tc_op_set_layout(copy, "layout", layout_of_copy(cx, s));
    else
        tc_op_set_int(copy, "bytes", s->width);
    tc_op_insert(copy, b->region, b->before);
    tc_forget_speculatable(b->region);
}

void tc_build_commit(tc_builder *b)
{
    tc_build_effect(b, TC_ASYNC_COMMIT, 0, NULL);
}

tc_op *tc_build_wait(tc_builder *b, unsigned pending)
{
    tc_op *wait = tc_build_effect(b, TC_ASYNC_WAIT, 0, NULL);
    tc_op_set_int(wait, "pending", pending);
    return wait;
}
