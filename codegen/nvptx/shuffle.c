/* SPDX-License-Identifier: Apache-2.0
 *
 * convert_layout: the same tile in other registers and lanes of its warp.
 *
 * For each register of the result the solution says where its element is: in
 * which register of which lane. The lane is a constant xor the thread's part:
 * one shuffle, or none where it is the thread itself. Where the register too
 * depends on the reader, each register that can be meant is shuffled, and the
 * reader selects.
 *
 *   from: register (0,1)  lane (0,2)      to: register (0,2)  lane (0,1)
 *   result[r] = lane & 1 ? shfl(v1, r) : shfl(v0, r)
 */
#include "codegen/nvptx/shared.h"

#include <string.h>

enum { AT_REGISTER, AT_LANE, AT_WARP };

typedef struct solution {
    tc_gen *g;
    const tc_layout *from, *places; /* places: from tc_layout_solve */
    LLVMValueRef *in;
    const tc_type *elem;
    /* What the reader adds to the register: its values, and a thread that has
     * each of them. */
    unsigned nchoices;
    uint32_t *choices, *lanes, *warps;
    LLVMValueRef *chosen; /* i1 each, but for the first */
    LLVMValueRef lane;    /* i32: the thread's part of the lane */
    tc_lanes lane_map;
    bool same_lane; /* the thread's part is its own lane */
    struct moved *moved;
} solution;

/* A shuffle that was emitted. */
struct moved {
    uint32_t reg, lane;
    LLVMValueRef value;
    struct moved *next;
};

static uint32_t place(const solution *s, unsigned what, uint32_t r,
                      uint32_t lane, uint32_t warp)
{
    int32_t coord[TC_MAX_RANK];
    tc_layout_apply(s->places,
                    (uint32_t[TC_INPUT_COUNT]){
                        [TC_REGISTER] = r, [TC_LANE] = lane, [TC_WARP] = warp},
                    coord);
    return (uint32_t)coord[what];
}

static void find_choices(solution *s)
{
    uint32_t lanes = tc_layout_size(s->places, TC_LANE);
    uint32_t warps = tc_layout_size(s->places, TC_WARP);
    s->choices = tc_arena_array(s->g->arena, uint32_t, lanes * warps);
    s->lanes = tc_arena_array(s->g->arena, uint32_t, lanes * warps);
    s->warps = tc_arena_array(s->g->arena, uint32_t, lanes * warps);
    for (uint32_t i = 0; i < lanes * warps; i++) {
        uint32_t x = place(s, AT_REGISTER, 0, i % lanes, i / lanes);
        unsigned k = 0;
        while (k < s->nchoices && s->choices[k] != x)
            k++;
        if (k < s->nchoices)
            continue;
        s->choices[k] = x;
        s->lanes[k] = i % lanes;
        s->warps[k] = i / lanes;
        s->nchoices++;
    }
    s->chosen = tc_arena_array(s->g->arena, LLVMValueRef, s->nchoices);
    if (s->nchoices == 1)
        return;
    LLVMValueRef thread = tc_lanes_get(s->g, s->places, AT_REGISTER).thread;
    for (unsigned k = 1; k < s->nchoices; k++)
        s->chosen[k] = LLVMBuildICmp(s->g->b, LLVMIntEQ, thread,
                                     tc_gen_i32(s->g, s->choices[k]), "");
}

static bool is_same_lane(const solution *s)
{
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t w = 0; w < tc_layout_size(s->places, TC_WARP); w++)
            if (place(s, AT_LANE, 0, lane, w) != lane)
                return false;
    return true;
}

/* One 32-bit word from another lane. */
static LLVMValueRef shuffle_word(tc_gen *g, LLVMValueRef word,
                                 LLVMValueRef lane)
{
    LLVMValueRef args[] = {tc_gen_i32(g, -1), word, lane, tc_gen_i32(g, 31)};
    return tc_gen_intrinsic(g, "nvvm.shfl.sync.idx.i32", 0, NULL, 4, args);
}

static LLVMValueRef shuffle(tc_gen *g, const tc_type *elem, LLVMValueRef v,
                            LLVMValueRef lane)
{
    LLVMValueRef words[2];
    tc_words_pack(g, elem, 1, &v, words);
    words[0] = shuffle_word(g, words[0], lane);
    if (tc_type_bytes(elem) == 8)
        words[1] = shuffle_word(g, words[1], lane);
    tc_words_unpack(g, elem, 1, &v, words);
    return v;
}

/* Register `reg` of `from`, of the lane that register r of the result asks. */
static LLVMValueRef move(solution *s, uint32_t reg, uint32_t r)
{
    tc_gen *g = s->g;
    uint32_t constant = place(s, AT_LANE, r, 0, 0);
    if (s->same_lane && constant == 0)
        return s->in[reg];
    for (struct moved *m = s->moved; m; m = m->next)
        if (m->reg == reg && m->lane == constant)
            return m->value;
    struct moved *m = tc_arena_new(g->arena, struct moved);
    LLVMValueRef lane = tc_lanes_at(g, &s->lane_map, r);
    *m = (struct moved){reg, constant, shuffle(g, s->elem, s->in[reg], lane),
                        s->moved};
    s->moved = m;
    return m->value;
}

static LLVMValueRef result(solution *s, uint32_t r)
{
    LLVMValueRef v = NULL;
    for (unsigned k = 0; k < s->nchoices; k++) {
        uint32_t reg = place(s, AT_REGISTER, r, s->lanes[k], s->warps[k]);
        LLVMValueRef choice = move(s, reg, r);
        v = k ? LLVMBuildSelect(s->g->b, s->chosen[k], choice, v, "") : choice;
    }
    return v;
}

bool tc_nvptx_convert_layout(tc_gen *g, const tc_op *op)
{
    const tc_layout *from = op->in[0]->type->layout;
    const tc_layout *to = op->out[0]->type->layout;
    LLVMValueRef *in = tc_gen_get(g, op->in[0]);
    LLVMValueRef *out = tc_gen_set(g, op->out[0]);
    unsigned n = tc_gen_registers(op->out[0]->type);
    tc_conversion kind = tc_layout_conversion(g->cx, from, to);
    if (kind == TC_CONVERT_NOTHING) {
        memcpy(out, in, n * sizeof *out);
        return true;
    }
    const tc_layout *places =
        kind == TC_CONVERT_SHARED ? NULL : tc_layout_solve(g->cx, from, to);
    if (!places)
        return tc_gen_error(g, op,
                            "from %s to %s goes through shared memory, which "
                            "lower-exchanges makes explicit",
                            tc_type_name(g->cx, op->in[0]->type),
                            tc_type_name(g->cx, op->out[0]->type));
    solution s = {.g = g,
                  .from = from,
                  .places = places,
                  .in = in,
                  .elem = op->in[0]->type->elem};
    find_choices(&s);
    s.same_lane = is_same_lane(&s);
    s.lane_map = tc_lanes_get(g, places, AT_LANE);
    for (unsigned r = 0; r < n; r++)
        out[r] = result(&s, r);
    return true;
}
