/* SPDX-License-Identifier: Apache-2.0
 *
 * convert_layout: the same tile in other registers and lanes of its warp.
 *
 * For each register of the result the solution gives the position of its
 * element: a register of a lane. The lane is a constant xor the thread's part:
 * one shuffle, or none if it is the thread itself. If the register, too,
 * depends on the reader, each possible register is shuffled, and the reader
 * selects.
 *
 *   from: register (0,1)  lane (0,2)      to: register (0,2)  lane (0,1)
 *   result[r] = lane & 1 ? shfl(v1, r) : shfl(v0, r)
 *
 * Narrow elements that one reader needs from the same lane share a word.
 *
 * That is twice the shuffles that move anything. If a mode of the result's
 * registers leads to two lanes, half of the readers may take the two in the
 * other order, such that no lane has to provide two registers at once: it
 * selects the register that it gives, and readers reorder the values that they
 * got (an exchange):
 *
 *   u0 = shfl(s0 ? v1 : v0, ..)   u1 = shfl(s0 ? v0 : v1, ..)
 *   result[r], result[r + m] = t1 ? u1, u0 : u0, u1
 */
#include "codegen/nvptx/memory/shared.h"

#include <string.h>

enum { AT_REGISTER, AT_LANE, AT_WARP };

typedef struct exchange exchange;

typedef struct solution {
    tc_gen *g;
    const tc_layout *from, *places; /* places: from tc_layout_solve */
    LLVMValueRef *in;
    const tc_type *elem;
    /* The register that a reader takes varies with the reader: its values, and
     * for each a thread that has it. */
    unsigned nchoices;
    uint32_t *choices, *lanes, *warps;
    LLVMValueRef *chosen; /* i1 each, but for the first */
    tc_coords lane_map;
    bool same_lane; /* the thread's part is its own lane */
    /* Registers of the result that are moved together: r + member[i]. */
    unsigned nmembers;
    uint32_t member[4];
    struct moved *moved;
    exchange *exchange; /* NULL: none */
} solution;

/* A shuffle that was emitted: of the first register, for a lane's constant. An
 * element of 64 bits has two words. */
struct moved {
    uint32_t reg, lane;
    LLVMValueRef words[2];
    struct moved *next;
};

/* Readers with bit `bit` of the lane want the other register; those of the
 * result that differ in the mode that weighs `weight` come from two lanes,
 * `far` apart. */
struct exchange {
    unsigned bit;
    uint32_t weight, far;
    uint32_t asked;        /* a lane with an odd number of these bits gives to a
                            * reader that has the bit */
    LLVMValueRef odd, has; /* i1: this lane has an odd number; the bit */
    LLVMValueRef from;     /* the lane to read first, less register's part */
};

static uint32_t shuffle_place(const solution *s, unsigned what, uint32_t r,
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
        uint32_t x = shuffle_place(s, AT_REGISTER, 0, i % lanes, i / lanes);
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
    LLVMValueRef thread = tc_coords_get(s->g, s->places, AT_REGISTER).thread;
    for (unsigned k = 1; k < s->nchoices; k++)
        s->chosen[k] = LLVMBuildICmp(s->g->b, LLVMIntEQ, thread,
                                     tc_gen_i32(s->g, s->choices[k]), "");
}

static bool is_same_lane(const solution *s)
{
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t w = 0; w < tc_layout_size(s->places, TC_WARP); w++)
            if (shuffle_place(s, AT_LANE, 0, lane, w) != lane)
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

/* Modes of the result's registers that lead to other registers of the same
 * lane, as many as a word has room for. */
static void find_members(solution *s)
{
    const tc_layout *p = s->places;
    uint32_t weight = 1;
    s->nmembers = 1;
    for (unsigned i = 0; i < p->nmodes[TC_REGISTER]; i++) {
        const tc_mode *m = &p->modes[TC_REGISTER][i];
        bool fits = m->count == 2 && m->image[AT_REGISTER] &&
                    !m->image[AT_LANE] && !m->image[AT_WARP] &&
                    s->nmembers * 2 * tc_type_bytes(s->elem) <= 4;
        for (unsigned k = 0; fits && k < s->nmembers; k++)
            s->member[s->nmembers + k] = s->member[k] + weight;
        s->nmembers *= fits ? 2 : 1;
        weight *= m->count;
    }
}

static bool stays(const solution *s, uint32_t r)
{
    return s->same_lane && shuffle_place(s, AT_LANE, r, 0, 0) == 0;
}

/* The words that register r and its fellows want if the reader's choice is
 * k, in the lane that has them. */
static uint32_t gather(solution *s, uint32_t r, unsigned k,
                       LLVMValueRef words[2])
{
    LLVMValueRef x[4];
    for (unsigned i = s->nmembers; i-- > 0;)
        x[i] = s->in[shuffle_place(s, AT_REGISTER, r + s->member[i],
                                   s->lanes[k], s->warps[k])];
    tc_words_pack(s->g, s->elem, s->nmembers, x, words);
    return shuffle_place(s, AT_REGISTER, r, s->lanes[k], s->warps[k]);
}

/* The same in the reader. */
static void move(solution *s, uint32_t r, unsigned k, LLVMValueRef words[2])
{
    tc_gen *g = s->g;
    uint32_t lane = shuffle_place(s, AT_LANE, r, 0, 0);
    struct moved *m = s->moved;
    uint32_t reg = gather(s, r, k, words);
    if (stays(s, r))
        return;
    while (m && (m->reg != reg || m->lane != lane))
        m = m->next;
    if (!m) {
        LLVMValueRef from = tc_coords_at(g, &s->lane_map, r);
        m = tc_arena_new(g->arena, struct moved);
        *m = (struct moved){reg, lane, {0}, s->moved};
        for (unsigned i = 0; i < (tc_type_bytes(s->elem) == 8 ? 2u : 1u); i++)
            m->words[i] = shuffle_word(g, words[i], from);
        s->moved = m;
    }
    memcpy(words, m->words, sizeof m->words);
}

/* Register r of the result, and its fellows. */
static void fill_in(solution *s, uint32_t r, LLVMValueRef *out)
{
    tc_gen *g = s->g;
    LLVMValueRef words[2] = {0}, choice[2] = {0}, x[4];
    if (stays(s, r) && s->nchoices == 1) {
        for (unsigned i = 0; i < s->nmembers; i++)
            out[r + s->member[i]] =
                s->in[shuffle_place(s, AT_REGISTER, r + s->member[i], 0, 0)];
        return;
    }
    move(s, r, 0, words);
    for (unsigned k = 1; k < s->nchoices; k++) {
        move(s, r, k, choice);
        for (unsigned i = 0; i < 2 && choice[i]; i++)
            words[i] =
                LLVMBuildSelect(g->b, s->chosen[k], choice[i], words[i], "");
    }
    tc_words_unpack(g, s->elem, s->nmembers, x, words);
    for (unsigned i = 0; i < s->nmembers; i++)
        out[r + s->member[i]] = x[i];
}

/* ---- Exchanges ---- */

static bool is_odd(uint32_t bits)
{
    return __builtin_parity(bits);
}

/* The only lane bit on which the register depends; 5: not one alone. */
static unsigned choosing_bit(const tc_layout *p)
{
    unsigned found = 5;
    if (p->nmodes[TC_LANE] != 5 || p->period[AT_LANE] != 32)
        return 5;
    for (unsigned i = 0; i < p->nmodes[TC_LANE]; i++) {
        if (p->modes[TC_LANE][i].image[AT_REGISTER] && found < 5)
            return 5;
        if (p->modes[TC_LANE][i].image[AT_REGISTER])
            found = i;
    }
    for (unsigned i = 0; i < p->nmodes[TC_WARP]; i++)
        if (p->modes[TC_WARP][i].image[AT_REGISTER] ||
            p->modes[TC_WARP][i].image[AT_LANE])
            return 5;
    return found;
}

/* In the order of the exchange, readers with and without the bit ask other
 * lanes: bits of the lane that tell these apart. 0: they do not. */
static uint32_t find_asked(const tc_layout *p, unsigned bit, uint32_t far)
{
    for (uint32_t asked = 1; asked < 32; asked++) {
        bool fits = true;
        for (unsigned i = 0; i < 5; i++) {
            uint32_t to = (uint32_t)p->modes[TC_LANE][i].image[AT_LANE];
            fits &= is_odd(asked & (i == bit ? to ^ far : to)) == (i == bit);
        }
        if (fits)
            return asked;
    }
    return 0;
}

static bool is_member(const solution *s, uint32_t weight)
{
    for (unsigned i = 0; i < s->nmembers; i++)
        if (s->member[i] == weight)
            return true;
    return false;
}

static bool find_exchange(const solution *s, exchange *x)
{
    const tc_layout *p = s->places;
    x->bit = choosing_bit(p);
    if (s->nchoices != 2 || x->bit == 5 || tc_type_bytes(s->elem) > 4)
        return false;
    x->weight = 1;
    for (unsigned i = 0; i < p->nmodes[TC_REGISTER]; i++) {
        const tc_mode *m = &p->modes[TC_REGISTER][i];
        x->far = (uint32_t)m->image[AT_LANE];
        if (m->count == 2 && x->far && !is_member(s, x->weight)) {
            x->asked = find_asked(p, x->bit, x->far);
            if (x->asked)
                return true;
        }
        x->weight *= m->count;
    }
    return false;
}

static LLVMValueRef is_one(tc_gen *g, LLVMValueRef x)
{
    x = LLVMBuildAnd(g->entry, x, tc_gen_i32(g, 1), "");
    return LLVMBuildICmp(g->entry, LLVMIntNE, x, tc_gen_i32(g, 0), "");
}

static LLVMValueRef lane_bit(tc_gen *g, unsigned bit)
{
    return LLVMBuildLShr(g->entry, g->lane, tc_gen_i32(g, (int)bit), "");
}

static void begin_exchange(solution *s, exchange *x)
{
    tc_gen *g = s->g;
    LLVMValueRef sum = tc_gen_i32(g, 0);
    for (unsigned bit = 0; bit < 5; bit++)
        if (x->asked >> bit & 1)
            sum = LLVMBuildXor(g->entry, sum, lane_bit(g, bit), "");
    x->odd = is_one(g, sum);
    x->has = is_one(g, lane_bit(g, x->bit));
    LLVMValueRef far = LLVMBuildSelect(g->entry, x->has, tc_gen_i32(g, x->far),
                                       tc_gen_i32(g, 0), "");
    x->from = LLVMBuildXor(g->entry, s->lane_map.thread, far, "");
}

/* The word for readers with the bit (to = 1) or without, of registers r and its
 * fellows. */
static LLVMValueRef given(solution *s, uint32_t r, unsigned to)
{
    LLVMValueRef x[4], word[2];
    uint32_t lane = to << s->exchange->bit;
    for (unsigned i = 0; i < s->nmembers; i++)
        x[i] = s->in[shuffle_place(s, AT_REGISTER, r + s->member[i], lane, 0)];
    if (s->nmembers * tc_type_bytes(s->elem) == 4)
        tc_gen_pack(s->g, s->elem, s->nmembers, x, word);
    else
        tc_words_pack(s->g, s->elem, s->nmembers, x, word);
    return word[0];
}

/* Shuffle `turn` of r's two: readers with the bit get what is r + weight of the
 * first, r of the second. */
static LLVMValueRef trade(solution *s, uint32_t r, unsigned turn)
{
    tc_gen *g = s->g;
    const exchange *x = s->exchange;
    uint32_t lane = shuffle_place(s, AT_LANE, r + turn * x->weight, 0, 0);
    LLVMValueRef to[2];
    for (unsigned i = 0; i < 2; i++)
        to[i] = given(s, r + (i ^ turn) * x->weight, i);
    bool other = is_odd(x->asked & lane);
    LLVMValueRef word =
        LLVMBuildSelect(g->b, x->odd, to[!other], to[other], "");
    return shuffle_word(
        g, word, LLVMBuildXor(g->b, x->from, tc_gen_i32(g, (int)lane), ""));
}

/* A register of the result among the bytes of the two words that came. */
typedef struct arrival {
    uint32_t reg;
    unsigned turn, byte; /* of a reader without the bit */
} arrival;

static unsigned list_arrivals(const solution *s, uint32_t r, arrival *list)
{
    unsigned n = 0, bytes = tc_type_bytes(s->elem);
    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned i = 0; i < s->nmembers; i++) {
            uint32_t reg = r + turn * s->exchange->weight + s->member[i];
            unsigned at = n++;
            for (; at > 0 && list[at - 1].reg > reg; at--)
                list[at] = list[at - 1];
            list[at] = (arrival){reg, turn, i * bytes};
        }
    return n;
}

/* Which bytes of the two words (0 to 7) a word is made of: prmt's selector. */
static uint32_t selector_of(const solution *s, const arrival *list, unsigned n,
                            bool has)
{
    unsigned bytes = tc_type_bytes(s->elem);
    uint32_t selector = 0;
    for (unsigned i = 0; i < n; i++)
        for (unsigned b = 0; b < bytes; b++)
            selector |= (4 * (list[i].turn ^ has) + list[i].byte + b)
                        << 4 * (i * bytes + b);
    return selector;
}

static void exchange_all(solution *s, uint32_t r, LLVMValueRef *out)
{
    tc_gen *g = s->g;
    arrival list[8];
    LLVMValueRef x[4], args[3] = {trade(s, r, 0), trade(s, r, 1)};
    unsigned n = list_arrivals(s, r, list);
    unsigned each = 4 / tc_type_bytes(s->elem);
    each = each < n ? each : n;
    for (unsigned i = 0; i < n; i += each) {
        LLVMValueRef of[2];
        for (unsigned has = 0; has < 2; has++)
            of[has] = tc_gen_i32(g, (int)selector_of(s, list + i, each, has));
        args[2] = LLVMBuildSelect(g->entry, s->exchange->has, of[1], of[0], "");
        LLVMValueRef word = tc_gen_intrinsic(g, "nvvm.prmt", 0, NULL, 3, args);
        tc_gen_unpack(g, s->elem, each, x, &word);
        for (unsigned k = 0; k < each; k++)
            out[list[i + k].reg] = x[k];
    }
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
                            "lower-conversions makes explicit",
                            tc_type_name(g->cx, op->in[0]->type),
                            tc_type_name(g->cx, op->out[0]->type));
    solution s = {.g = g,
                  .from = from,
                  .places = places,
                  .in = in,
                  .elem = op->in[0]->type->elem};
    find_choices(&s);
    s.same_lane = is_same_lane(&s);
    s.lane_map = tc_coords_get(g, places, AT_LANE);
    find_members(&s);
    exchange x;
    if (find_exchange(&s, &x)) {
        begin_exchange(&s, &x);
        s.exchange = &x;
    }
    memset(out, 0, n * sizeof *out);
    for (unsigned r = 0; r < n; r++) {
        if (!out[r] && s.exchange)
            exchange_all(&s, r, out);
        else if (!out[r])
            fill_in(&s, r, out);
    }
    return true;
}
