/* SPDX-License-Identifier: Apache-2.0
 *
 * Warp specialization: the threads of each role, and named barriers, which
 * belong to a role.
 *
 *   threads 0 .. 32n-1      the consumer: warp and lane are what they are
 *                           without roles
 *   32n .. 32n+127          the producer: a group of four warps, since
 *                           registers move by groups; one thread of its first
 *                           warp works. The other three warps are the
 *                           transposer, if there is one: its warps are 0, 1, 2;
 *                           or one for each of the consumer's groups is its
 *                           store warp (store_warp.c).
 *
 * Barrier 0 is for all threads of the block, 1 for the consumer, 2, 3, ... for
 * its groups of four warps, one each, and then one for the ping-pong turn of
 * each; the last one is the transposer's.
 */
#include "codegen/nvptx/emit.h"

enum { ALL_THREADS, CONSUMER, FIRST_GROUP, TRANSPOSER = 15 };
/* Of the producer's warp group, all but its first warp. */
enum { TRANSPOSER_WARPS = TC_WARPGROUP_WARPS - 1 };

unsigned tc_gen_role_warps(const tc_gen *g)
{
    return g->role == TC_ROLE_TRANSPOSER ? TRANSPOSER_WARPS : g->f->warps;
}

unsigned tc_gen_threads(const tc_gen *g)
{
    unsigned others = g->groups ? TC_WARPGROUP_WARPS : 0;
    return (unsigned)tc_threads(g->f->warps + others);
}

/* ---- Barriers ---- */

static void sync(tc_gen *g, LLVMValueRef id, unsigned threads)
{
    LLVMValueRef args[] = {id, tc_gen_i32(g, threads)};
    const char *constraints =
        LLVMIsAConstantInt(id) ? "n,n,~{memory}" : "r,n,~{memory}";
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), "bar.sync $0, $1;",
               constraints, 2, args);
}

void tc_gen_barrier(tc_gen *g)
{
    if (g->role == TC_ROLE_CONSUMER)
        sync(g, tc_gen_i32(g, CONSUMER), (unsigned)tc_threads(g->f->warps));
    if (g->role == TC_ROLE_TRANSPOSER)
        sync(g, tc_gen_i32(g, TRANSPOSER), TC_WARP_THREADS * TRANSPOSER_WARPS);
    if (g->role == TC_ROLE_ALL)
        tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), "bar.sync 0;",
                   "~{memory}", 0, NULL);
}

/* The number in a register makes ptxas reserve all barriers; blocks with groups
 * are alone on their multiprocessor. */
static void sync_group(tc_gen *g)
{
    LLVMValueRef id = LLVMBuildAdd(g->b, tc_gen_warp_group(g),
                                   tc_gen_i32(g, FIRST_GROUP), "");
    sync(g, id, TC_WARPGROUP_THREADS);
}

bool tc_nvptx_barrier(tc_gen *g, const tc_op *op)
{
    if (g->role == TC_ROLE_PRODUCER)
        return tc_gen_error(g, op, "in the producer, which is one thread");
    if (!tc_op_is_word(op, "scope", "group") || g->role == TC_ROLE_TRANSPOSER)
        tc_gen_barrier(g);
    else if (g->f->warps % TC_WARPGROUP_WARPS)
        return tc_gen_error(g, op,
                            "scope group of %u warps, expected groups "
                            "of four",
                            g->f->warps);
    else
        sync_group(g);
    return true;
}

/* ---- Turns ---- */

/* A barrier for each group, after the groups' own: the group itself waits
 * there, the one before arrives. */
static void meet_turn(tc_gen *g, const char *text, LLVMValueRef group)
{
    unsigned first = FIRST_GROUP + tc_warpgroups(g->f->warps);
    LLVMValueRef args[] = {LLVMBuildAdd(g->b, group, tc_gen_i32(g, first), ""),
                           tc_gen_i32(g, 2 * TC_WARPGROUP_THREADS)};
    tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm), text, "r,n,~{memory}", 2,
               args);
}

static bool has_turns(const tc_gen *g)
{
    return g->role == TC_ROLE_CONSUMER && g->f->warps > TC_WARPGROUP_WARPS;
}

bool tc_nvptx_order_wait(tc_gen *g, const tc_op *op)
{
    (void)op;
    if (has_turns(g))
        meet_turn(g, "bar.sync $0, $1;", tc_gen_warp_group(g));
    return true;
}

bool tc_nvptx_order_arrive(tc_gen *g, const tc_op *op)
{
    (void)op;
    if (!has_turns(g))
        return true;
    LLVMValueRef next =
        LLVMBuildAdd(g->b, tc_gen_warp_group(g), tc_gen_i32(g, 1), "");
    LLVMValueRef is_last = LLVMBuildICmp(
        g->b, LLVMIntEQ, next, tc_gen_i32(g, tc_warpgroups(g->f->warps)), "");
    next = LLVMBuildSelect(g->b, is_last, tc_gen_i32(g, 0), next, "");
    meet_turn(g, "bar.arrive $0, $1;", next);
    return true;
}

/* Done by one group only. */
static void meet_first_turn(tc_gen *g, const char *text, unsigned group)
{
    LLVMBasicBlockRef chosen = tc_gen_block_new(g, "turn");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "turns");
    LLVMValueRef is = LLVMBuildICmp(g->b, LLVMIntEQ, tc_gen_warp_group(g),
                                    tc_gen_i32(g, group), "");
    LLVMBuildCondBr(g->b, is, chosen, after);
    LLVMPositionBuilderAtEnd(g->b, chosen);
    meet_turn(g, text, tc_gen_i32(g, 0));
    tc_gen_enter(g, after);
}

/* The last group passes on a turn that it has not had, and the first one ends
 * with the turn that no group takes: so barriers end in the state in which they
 * began. */
static bool emit_in_turns(tc_gen *g, const tc_region *r)
{
    bool turns = has_turns(g) && tc_region_has_op(r, TC_ORDER_WAIT);
    if (turns)
        meet_first_turn(g, "bar.arrive $0, $1;",
                        tc_warpgroups(g->f->warps) - 1);
    if (!tc_nvptx_region(g, r))
        return false;
    if (turns)
        meet_first_turn(g, "bar.sync $0, $1;", 0);
    return true;
}

bool tc_nvptx_warpgroup_row(tc_gen *g, const tc_op *op)
{
    int64_t rows = tc_op_int(op, "rows") / tc_warpgroups(g->f->warps);
    LLVMValueRef row = LLVMBuildMul(g->b, tc_gen_warp_group(g),
                                    tc_gen_i32(g, (int32_t)rows), "");
    int32_t last = tc_op_int(op, "last") ? (int32_t)rows - 1 : 0;
    *tc_gen_set(g, op->out[0]) =
        LLVMBuildAdd(g->b, row, tc_gen_i32(g, last), "");
    return true;
}

/* ---- One thread ---- */

/* i1: of the current warp one thread, always the same. */
static LLVMValueRef elect_of_warp(tc_gen *g)
{
    LLVMValueRef all = tc_gen_i32(g, -1);
    LLVMValueRef r = tc_gen_intrinsic(g, "nvvm.elect.sync", 0, NULL, 1, &all);
    return g->failed ? LLVMGetUndef(g->i1)
                     : LLVMBuildExtractValue(g->b, r, 1, "");
}

/* The current warp is `warp` (i1): one of its threads goes to `chosen`, the
 * rest to `after`. */
static void elect_in(tc_gen *g, LLVMValueRef warp, LLVMBasicBlockRef chosen,
                     LLVMBasicBlockRef after)
{
    LLVMBasicBlockRef elect = tc_gen_block_new(g, "elect");
    LLVMBuildCondBr(g->b, warp, elect, after);
    LLVMPositionBuilderAtEnd(g->b, elect);
    LLVMBuildCondBr(g->b, elect_of_warp(g), chosen, after);
    LLVMPositionBuilderAtEnd(g->b, chosen);
}

/* Of the warps whose number, or what is left of it, is 0. */
static tc_one elect(tc_gen *g, LLVMValueRef warp)
{
    LLVMBasicBlockRef chosen = tc_gen_block_new(g, "one");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "all");
    LLVMValueRef first =
        LLVMBuildICmp(g->b, LLVMIntEQ, warp, tc_gen_i32(g, 0), "");
    elect_in(g, first, chosen, after);
    return (tc_one){after};
}

static LLVMValueRef warp_of(tc_gen *g, bool each)
{
    return each ? LLVMBuildAnd(g->b, g->warp, tc_gen_i32(g, 3), "") : g->warp;
}

tc_one tc_gen_elect(tc_gen *g, bool each)
{
    return g->role == TC_ROLE_PRODUCER ? (tc_one){NULL}
                                       : elect(g, warp_of(g, each));
}

LLVMValueRef tc_gen_elected(tc_gen *g, bool each)
{
    if (g->role == TC_ROLE_PRODUCER)
        return NULL;
    LLVMValueRef first =
        LLVMBuildICmp(g->b, LLVMIntEQ, warp_of(g, each), tc_gen_i32(g, 0), "");
    return LLVMBuildAnd(g->b, first, elect_of_warp(g), "");
}

tc_one tc_gen_elect_in_warp(tc_gen *g)
{
    LLVMBasicBlockRef chosen = tc_gen_block_new(g, "one");
    LLVMBasicBlockRef after = tc_gen_block_new(g, "all");
    LLVMBuildCondBr(g->b, elect_of_warp(g), chosen, after);
    LLVMPositionBuilderAtEnd(g->b, chosen);
    return (tc_one){after};
}

void tc_gen_join(tc_gen *g, tc_one one)
{
    if (one.after)
        tc_gen_enter(g, one.after);
}

/* ---- The op ---- */

static void set_registers(tc_gen *g, const tc_op *op, bool consumer)
{
    if (!tc_op_has_attr(op, "registers"))
        return;
    LLVMValueRef n = tc_gen_i32(g, tc_op_attr(op, "registers")->ints[consumer]);
    tc_gen_intrinsic(g,
                     consumer ? "nvvm.setmaxnreg.inc.sync.aligned.u32"
                              : "nvvm.setmaxnreg.dec.sync.aligned.u32",
                     0, NULL, 1, &n);
}

/* The first copies need not wait for their maps. */
void tc_gen_prefetch_maps(tc_gen *g, LLVMValueRef condition)
{
    for (unsigned i = 0; i < g->nmaps; i++) {
        LLVMValueRef args[] = {g->map_params[i], condition};
        tc_gen_asm(g, LLVMVoidTypeInContext(g->llvm),
                   condition ? "@$1 prefetch.tensormap [$0];"
                             : "prefetch.tensormap [$0];",
                   condition ? "l,b,~{memory}" : "l,~{memory}",
                   condition ? 2 : 1, args);
    }
}

/* Its warps count from the first one after the producer's. */
static bool emit_transposer(tc_gen *g, const tc_op *op, LLVMBasicBlockRef end)
{
    tc_phase outer = tc_gen_phase(g);
    tc_gen_enter_again(g);
    g->warp =
        LLVMBuildSub(g->entry, g->warp, tc_gen_i32(g, g->f->warps + 1), "");
    g->role = TC_ROLE_TRANSPOSER;
    if (!tc_nvptx_region(g, tc_transposer(op)))
        return false;
    tc_gen_resume(g, &outer);
    LLVMBuildBr(g->b, end);
    return true;
}

/* The group's first warp continues here, the other warps there. */
static void split_producer(tc_gen *g, LLVMBasicBlockRef others)
{
    LLVMBasicBlockRef copier = tc_gen_block_new(g, "copier");
    LLVMValueRef first =
        LLVMBuildICmp(g->b, LLVMIntEQ, g->warp, tc_gen_i32(g, g->f->warps), "");
    LLVMBuildCondBr(g->b, first, copier, others);
    LLVMPositionBuilderAtEnd(g->b, copier);
}

/* After the consumer's code, which makes the buffers. */
static bool emit_senders(tc_gen *g, LLVMBasicBlockRef senders,
                         LLVMBasicBlockRef end)
{
    LLVMBasicBlockRef sender = tc_gen_block_new(g, "sends");
    LLVMValueRef outer = g->group;
    LLVMPositionBuilderAtEnd(g->b, senders);
    g->group = LLVMBuildSub(g->b, g->warp, tc_gen_i32(g, g->f->warps + 1), "");
    LLVMValueRef has_group =
        LLVMBuildICmp(g->b, LLVMIntULT, g->group,
                      tc_gen_i32(g, tc_warpgroups(g->f->warps)), "");
    LLVMBuildCondBr(g->b, has_group, sender, end);
    LLVMPositionBuilderAtEnd(g->b, sender);
    if (!tc_gen_sender(g, end))
        return false;
    g->group = outer;
    return true;
}

/* senders: where their code will be, or NULL. */
static bool emit_producer(tc_gen *g, const tc_op *op, LLVMBasicBlockRef senders,
                          LLVMBasicBlockRef end)
{
    set_registers(g, op, false);
    if (op->nregions == 3) {
        LLVMBasicBlockRef transposer = tc_gen_block_new(g, "transposer");
        split_producer(g, transposer);
        LLVMBasicBlockRef copier = LLVMGetInsertBlock(g->b);
        LLVMPositionBuilderAtEnd(g->b, transposer);
        if (!emit_transposer(g, op, end))
            return false;
        LLVMPositionBuilderAtEnd(g->b, copier);
    } else if (senders) {
        split_producer(g, senders);
    }
    LLVMValueRef first =
        LLVMBuildICmp(g->b, LLVMIntEQ, g->warp, tc_gen_i32(g, g->f->warps), "");
    elect_in(g, first, tc_gen_block_new(g, "produce"), end);
    g->role = TC_ROLE_PRODUCER;
    if (!g->is_prepared)
        tc_gen_prefetch_maps(g, NULL);
    if (g->roles_wait)
        tc_gen_wait_for_stream(g);
    if (!tc_nvptx_region(g, tc_producer(op)))
        return false;
    LLVMBuildBr(g->b, end);
    return true;
}

/* The places of its threads are computed here, in registers of this role. */
static bool emit_consumer(tc_gen *g, const tc_op *op, LLVMBasicBlockRef end)
{
    tc_phase outer = tc_gen_phase(g);
    set_registers(g, op, true);
    tc_gen_enter_again(g);
    g->role = TC_ROLE_CONSUMER;
    if (g->roles_wait)
        tc_gen_wait_for_stream(g);
    if (!emit_in_turns(g, tc_consumers(op)))
        return false;
    if (g->senders) {
        tc_gen_enter_again(g);
        tc_gen_dismiss_senders(g);
    }
    tc_gen_resume(g, &outer);
    LLVMBuildBr(g->b, end);
    return true;
}

bool tc_nvptx_warp_groups(tc_gen *g, const tc_op *op)
{
    if (!g->target->tma)
        return tc_gen_error(g, op, "%s has no mbarriers for it",
                            g->target->name);
    if (tc_op_has_attr(op, "registers") && !g->target->setmaxnreg)
        return tc_gen_error(g, op, "%s cannot move registers between groups",
                            g->target->name);
    LLVMBasicBlockRef producer = tc_gen_block_new(g, "producer");
    LLVMBasicBlockRef consumer = tc_gen_block_new(g, "consumer");
    LLVMBasicBlockRef end = tc_gen_block_new(g, "roles.end"), senders = NULL;
    if (tc_gen_has_senders(g, op))
        senders = tc_gen_block_new(g, "senders");
    g->roles_wait = op == g->waits_before && op->nregions == 2 && !senders;
    if (op == g->waits_before && !g->roles_wait)
        tc_gen_wait_for_stream(g);
    LLVMValueRef after = LLVMBuildICmp(g->b, LLVMIntUGE, g->warp,
                                       tc_gen_i32(g, g->f->warps), "");
    LLVMBuildCondBr(g->b, after, producer, consumer);
    LLVMPositionBuilderAtEnd(g->b, producer);
    if (!emit_producer(g, op, senders, end))
        return false;
    LLVMPositionBuilderAtEnd(g->b, consumer);
    if (!emit_consumer(g, op, end) ||
        (senders && !emit_senders(g, senders, end)))
        return false;
    g->role = TC_ROLE_ALL;
    LLVMPositionBuilderAtEnd(g->b, end);
    return true;
}
