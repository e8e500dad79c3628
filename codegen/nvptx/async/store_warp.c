/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered accumulation by store warps next to the producer's thread, one for
 * each warp group. A tma_store that follows other programs is a message to the
 * store warp, and the warp group goes on; the store warp waits for the program
 * ahead, performs the addition, waits for its completion, and publishes the
 * progress.
 *
 *   group's first warp                 sender
 *   bar.sync empty  (tma_store_wait)   bar.arrive empty
 *   .. all write the buffer ..         again:
 *   st.shared %message                 bar.sync full
 *   bar.arrive full                    (steps were left out: await those ahead
 *                                      there, say so)
 *                                      await those ahead at this step
 *                                      cp.reduce.async.bulk ..
 *                                      wait until the buffer has been read
 *                                      bar.arrive empty
 *                                      wait until it is written, say so
 *
 * A message (32-bit words): the step; where the copy begins (3); the words of
 * the program and of the one ahead, 64 bits each; where it begins (2 more).
 * INT32_MAX: the program is done; INT32_MIN: so is the store warp. Less than 0:
 * the copy has no predecessor (and is of nothing: defer-atomic-adds).
 */
#include "codegen/nvptx/emit.h"

#include <limits.h>

enum { MESSAGE = 64, COORDS = 5 };
enum { SENDERS = TC_WARPGROUP_WARPS - 1 }; /* next to the producer's warp */
/* After those of all, of the consumer, of groups, and of their turns. */
enum { FIRST_BARRIER = 2 };

static unsigned ngroups(const tc_gen *g)
{
    return tc_warpgroups(g->f->warps);
}

static const tc_op *find_sent(const tc_region *r)
{
    tc_each_op (op, r) {
        if (op->code == TC_TMA_STORE && op->nin > 2)
            return op;
        for (unsigned i = 0; i < op->nregions; i++) {
            const tc_op *sent = find_sent(op->regions[i]);
            if (sent)
                return sent;
        }
    }
    return NULL;
}

bool tc_gen_has_senders(tc_gen *g, const tc_op *groups)
{
    g->sent = find_sent(groups->regions[1]);
    g->senders = g->sent && groups->nregions == 2 && ngroups(g) <= SENDERS;
    if (!g->senders)
        return false;
    g->messages = (g->shared_bytes + 15) / 16 * 16;
    g->shared_bytes = g->messages + MESSAGE * ngroups(g);
    return true;
}

/* `empty` or `full`, of one group and its sender; only: i1, or NULL. */
static void meet(tc_gen *g, const char *how, bool full, LLVMValueRef only)
{
    unsigned first = FIRST_BARRIER + (full ? 3 : 2) * ngroups(g);
    LLVMValueRef args[] = {
        LLVMBuildAdd(g->b, tc_gen_warp_group(g), tc_gen_i32(g, first), ""),
        tc_gen_i32(g, 2 * TC_WARP_THREADS), only};
    tc_gen_asm(
        g, LLVMVoidTypeInContext(g->llvm),
        tc_arena_printf(g->arena, "%sbar.%s $0, $1;", only ? "@$2 " : "", how),
        only ? "r,n,b,~{memory}" : "r,n,~{memory}", only ? 3 : 2, args);
}

static LLVMValueRef message_of(tc_gen *g)
{
    LLVMValueRef at =
        LLVMBuildMul(g->b, tc_gen_warp_group(g), tc_gen_i32(g, MESSAGE), "");
    at = LLVMBuildAdd(g->b, at, tc_gen_i32(g, g->messages), "");
    return LLVMBuildGEP2(g->b, g->i8, g->shared, &at, 1, "");
}

/* ---- The group ---- */

static LLVMValueRef is_first_warp(tc_gen *g)
{
    LLVMValueRef warp = LLVMBuildAnd(g->b, g->warp, tc_gen_i32(g, 3), "");
    return LLVMBuildICmp(g->b, LLVMIntEQ, warp, tc_gen_i32(g, 0), "");
}

void tc_gen_wait_until_sent(tc_gen *g)
{
    meet(g, "sync", false, is_first_warp(g));
}

static void post(tc_gen *g, LLVMValueRef step, LLVMValueRef own,
                 LLVMValueRef ahead, const LLVMValueRef *at, unsigned rank)
{
    LLVMValueRef zero = tc_gen_i32(g, 0), args[10] = {message_of(g)};
    args[1] = step;
    args[2] = own;
    args[3] = ahead;
    for (unsigned i = 0; i < COORDS; i++)
        args[4 + i] = i < rank ? at[i] : zero;
    args[9] = tc_gen_elected(g, true);
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm),
               "@$9 st.shared.v4.b32 [$0], {$1, $4, $5, $6};\n\t"
               "@$9 st.shared.v2.b64 [$0+16], {$2, $3};\n\t"
               "@$9 st.shared.v2.b32 [$0+32], {$7, $8};",
               "r,r,l,l,r,r,r,r,r,b,~{memory}", 10, args);
    meet(g, "arrive", true, is_first_warp(g));
}

/* The group's own word of a program. */
static LLVMValueRef word_of_group(tc_gen *g, LLVMValueRef words)
{
    LLVMValueRef group = tc_gen_warp_group(g);
    return LLVMBuildGEP2(g->b, g->i32, words, &group, 1, "");
}

static void plain(tc_gen *g, const char *text)
{
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, "~{memory}", 0, NULL);
}

/* Without senders a thread of the group does it, and says that an addition is
 * done when it begins the next one. */
static bool add_alone(tc_gen *g, const tc_op *store)
{
    tc_one one = tc_gen_elect(g, true);
    LLVMValueRef own = word_of_group(g, tc_gen_scalar(g, store->in[2]));
    LLVMValueRef ahead = word_of_group(g, tc_gen_scalar(g, store->in[3]));
    LLVMValueRef step = tc_gen_scalar(g, store->in[4]);
    plain(g, "cp.async.bulk.wait_group 0;");
    plain(g, "fence.proxy.async.global;");
    tc_gen_follow_step(g, own, ahead, step);
    plain(g, "fence.proxy.async.global;");
    if (!tc_gen_start_copies(g, store, tc_gen_get(g, store->in[0])))
        return false;
    tc_gen_join(g, one);
    return true;
}

bool tc_gen_send(tc_gen *g, const tc_op *store)
{
    const tc_value *window = store->in[0];
    g->sent = store;
    if (!g->senders)
        return add_alone(g, store);
    post(g, tc_gen_scalar(g, store->in[4]), tc_gen_scalar(g, store->in[2]),
         tc_gen_scalar(g, store->in[3]), tc_gen_get(g, window),
         tc_gen_parts(window));
    return true;
}

void tc_gen_send_end(tc_gen *g, LLVMValueRef own, LLVMValueRef ahead)
{
    LLVMValueRef last = tc_gen_i32(g, INT32_MAX - 1);
    if (!g->senders) {
        tc_one one = tc_gen_elect(g, true);
        own = word_of_group(g, own);
        ahead = word_of_group(g, ahead);
        plain(g, "cp.async.bulk.wait_group 0;");
        plain(g, "fence.proxy.async.global;");
        tc_gen_await(g, own, ahead, last, NULL);
        tc_gen_announce(g, own, tc_gen_i32(g, INT32_MAX));
        tc_gen_join(g, one);
        return;
    }
    tc_gen_wait_until_sent(g);
    post(g, tc_gen_i32(g, INT32_MAX), own, ahead, NULL, 0);
}

void tc_gen_dismiss_senders(tc_gen *g)
{
    LLVMValueRef none = LLVMConstNull(g->ptr1);
    tc_gen_wait_until_sent(g);
    post(g, tc_gen_i32(g, INT32_MIN), none, none, NULL, 0);
}

/* ---- The sender ---- */

static LLVMValueRef word(tc_gen *g, LLVMTypeRef type, unsigned byte)
{
    LLVMValueRef at = tc_gen_i32(g, byte);
    LLVMValueRef p = LLVMBuildGEP2(g->b, g->i8, message_of(g), &at, 1, "");
    LLVMValueRef x = LLVMBuildLoad2(g->b, type, p, "");
    LLVMSetVolatile(x, true);
    return x;
}

/* Does the message's addition have a predecessor? A step below 0 says that it
 * has none. */
static LLVMValueRef is_step(tc_gen *g, LLVMValueRef step)
{
    return LLVMBuildICmp(g->b, LLVMIntSGE, step, tc_gen_i32(g, 0), "");
}

/* The words of the program and of the one ahead, and what the sender knows of
 * them, an i32 each. */
typedef struct words {
    LLVMValueRef own, ahead;
    /* The last value that it wrote to its own word, and read from its
     * predecessor's. */
    LLVMValueRef said, seen;
} words;

static void await(tc_gen *g, const words *w, LLVMValueRef step)
{
    tc_gen_await(g, w->own, w->ahead, step, w->seen);
}

/* By one thread: the addition, as soon as those ahead have done theirs. */
static bool store_warp_add(tc_gen *g, LLVMValueRef step, const words *w)
{
    static const unsigned bytes[COORDS] = {4, 8, 12, 32, 36};
    LLVMBasicBlockRef follows = tc_gen_block_new(g, "follows");
    LLVMBasicBlockRef skips = tc_gen_block_new(g, "skips");
    LLVMBasicBlockRef next = tc_gen_block_new(g, "next");
    LLVMBasicBlockRef free = tc_gen_block_new(g, "free");
    LLVMValueRef at[COORDS], last = LLVMBuildLoad2(g->b, g->i32, w->said, "");
    LLVMValueRef is_next = LLVMBuildICmp(g->b, LLVMIntEQ, step, last, "");
    LLVMBuildCondBr(g->b, is_step(g, step), follows, free);
    LLVMPositionBuilderAtEnd(g->b, follows);
    LLVMBuildCondBr(g->b, is_next, next, skips);
    /* Later programs need not wait for steps that the program has not. */
    LLVMPositionBuilderAtEnd(g->b, skips);
    await(g, w, LLVMBuildSub(g->b, step, tc_gen_i32(g, 1), ""));
    tc_gen_announce(g, w->own, step);
    tc_gen_enter(g, next);
    await(g, w, step);
    plain(g, "fence.proxy.async.global;");
    tc_gen_enter(g, free);
    for (unsigned i = 0; i < COORDS; i++)
        at[i] = word(g, g->i32, bytes[i]);
    if (!tc_gen_start_copies(g, g->sent, at))
        return false;
    plain(g, "cp.async.bulk.wait_group.read 0;");
    return true;
}

/* By one thread. */
static bool act(tc_gen *g, LLVMValueRef step, LLVMValueRef is_end,
                const words *w)
{
    LLVMBasicBlockRef adds = tc_gen_block_new(g, "add");
    LLVMBasicBlockRef waits = tc_gen_block_new(g, "wait");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "acted");
    LLVMBuildCondBr(g->b, is_end, waits, adds);
    LLVMPositionBuilderAtEnd(g->b, waits);
    await(g, w, tc_gen_i32(g, INT32_MAX - 1));
    LLVMBuildBr(g->b, after);
    LLVMPositionBuilderAtEnd(g->b, adds);
    if (!store_warp_add(g, step, w))
        return false;
    tc_gen_enter(g, after);
    return true;
}

static void store_warp_say(tc_gen *g, LLVMValueRef step, LLVMValueRef is_end,
                           const words *w)
{
    LLVMBasicBlockRef says = tc_gen_block_new(g, "says");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "has.said");
    LLVMBuildCondBr(g->b, is_step(g, step), says, after);
    LLVMPositionBuilderAtEnd(g->b, says);
    LLVMValueRef done = LLVMBuildAdd(g->b, step, tc_gen_i32(g, 1), "");
    done = LLVMBuildSelect(g->b, is_end, step, done, "");
    plain(g, "cp.async.bulk.wait_group 0;");
    plain(g, "fence.proxy.async.global;");
    tc_gen_announce(g, w->own, done);
    LLVMBuildStore(g->b, done, w->said);
    /* The next program has another one ahead. */
    LLVMValueRef seen = LLVMBuildLoad2(g->b, g->i32, w->seen, "");
    seen = LLVMBuildSelect(g->b, is_end, tc_gen_i32(g, INT32_MIN), seen, "");
    LLVMBuildStore(g->b, seen, w->seen);
    tc_gen_enter(g, after);
}

bool tc_gen_sender(tc_gen *g, LLVMBasicBlockRef end)
{
    LLVMBasicBlockRef loop = tc_gen_block_new(g, "sender");
    LLVMBasicBlockRef work = tc_gen_block_new(g, "message");
    words w = {.said = tc_gen_alloca(g, g->i32),
               .seen = tc_gen_alloca(g, g->i32)};
    LLVMBuildStore(g->b, tc_gen_i32(g, INT32_MIN), w.said);
    LLVMBuildStore(g->b, tc_gen_i32(g, INT32_MIN), w.seen);
    meet(g, "arrive", false, NULL);
    tc_gen_enter(g, loop);
    meet(g, "sync", true, NULL);
    LLVMValueRef step = word(g, g->i32, 0);
    w.own = word_of_group(g, word(g, g->ptr1, 16));
    w.ahead = word_of_group(g, word(g, g->ptr1, 24));
    LLVMValueRef ends =
        LLVMBuildICmp(g->b, LLVMIntEQ, step, tc_gen_i32(g, INT32_MIN), "");
    LLVMValueRef is_end =
        LLVMBuildICmp(g->b, LLVMIntEQ, step, tc_gen_i32(g, INT32_MAX), "");
    LLVMBuildCondBr(g->b, ends, end, work);
    LLVMPositionBuilderAtEnd(g->b, work);
    tc_one one = tc_gen_elect_in_warp(g);
    if (!act(g, step, is_end, &w))
        return false;
    tc_gen_join(g, one);
    plain(g, "bar.warp.sync -1;");
    meet(g, "arrive", false, NULL);
    one = tc_gen_elect_in_warp(g);
    store_warp_say(g, step, is_end, &w);
    tc_gen_join(g, one);
    plain(g, "bar.warp.sync -1;");
    LLVMBuildBr(g->b, loop);
    return true;
}
