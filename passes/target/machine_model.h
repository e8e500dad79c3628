/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of the machine by which several passes decide: threads of a warp
 * group, registers of a warp role, bytes of shared memory that are set aside,
 * slots of rings, thresholds. What differs from GPU to GPU is a column of
 * target.h. A claim is a row of test/bench/claims.json, which can be measured
 * again; numbers without source or claim are estimates.
 * test/style/machine_facts.py finds copies of these numbers in passes.
 */
#ifndef TC_MACHINE_MODEL_H
#define TC_MACHINE_MODEL_H

#include "passes/target/target.h"

#include <stdint.h>

/* The GPU whose numbers count: the target, or sm_90a where a pass runs by
 * itself on a kernel (`tilec opt -p`), with none. */
const tc_target *tc_machine(const tc_target *t);

/* ---- Threads ---- */

enum {
    TC_WARP_THREADS = 32,
    TC_WARP_ROWS = 16,      /* of A that a warp has in mma.m16 and in wgmma */
    TC_WARPGROUP_WARPS = 4, /* PTX ISA, wgmma: a warp group */
    TC_WARPGROUP_ROWS = TC_WARPGROUP_WARPS * TC_WARP_ROWS, /* M of wgmma */
    /* Of a kernel that asks for none, and of one with large tiles. */
    TC_DEFAULT_WARPS = 4,
    TC_DEFAULT_MAX_WARPS = 8,
    TC_WARPGROUP_THREADS = TC_WARPGROUP_WARPS * TC_WARP_THREADS
};

/* Whole warp groups of that many warps. */
unsigned tc_warpgroups(unsigned warps);
int64_t tc_threads(unsigned warps);

/* ---- Registers of a thread, 32 bits each ---- */

enum {
    /* PTX ISA, setmaxnreg: multiples of 8, 24 at least. */
    TC_REGISTER_STEP = 8,
    TC_ROLE_MIN_REGISTERS = 24,
    /* The most that a consumer is given: two groups' share. */
    TC_ROLE_MAX_REGISTERS = 240,
    /* The least where a transposer role shares the producer's warp group. */
    TC_TRANSPOSER_MIN_REGISTERS = 40,
    /* Addresses, counters and scalars next to the tiles that a loop holds, by
     * what the tiles are counted from, so that ptxas need not spill. */
    TC_SPARE_REGISTERS = 24,       /* all accumulators of the step */
    TC_SPARE_WGMMA_REGISTERS = 48, /* wgmma: accumulators, operands kept */
    TC_SPARE_MMA_REGISTERS = 40,   /* mma.m16: the same, or fragments */
    TC_SPARE_SUMS_REGISTERS = 44,  /* sums of a loop, three tiles of a step */
    /* Of tiles that a loop carries, with which CTAs share an SM. */
    TC_SHARING_MAX_REGISTERS = 64,
    /* CTAs of an SM whose loops add up what they read, and of kernels that move
     * memory; the least registers of a thread where CTAs share one. */
    TC_SUMS_CTAS = 2,
    TC_MOVING_CTAS = 4,
    TC_CTA_MIN_REGISTERS = 32,
    /* Registers that a step may hold without spilling, if its layouts are not
     * known yet or its instruction is mma.m16. */
    TC_STEP_MAX_REGISTERS = 200,
    /* An epilogue's tile this small can move before the last wgmma is done. */
    TC_SMALL_TILE_REGISTERS = 4,
    /* f32 of a product that is worth the branch of skip-rescale. */
    TC_RESCALE_MIN_REGISTERS = 16,
    /* Columns of a step's sums for which lazy-rescale gains time. */
    TC_LAZY_RESCALE_MIN_COLUMNS = 256
};

/* 32-bit registers of each thread that a tile of `bytes` takes, spread over all
 * warps. */
int64_t tc_spread_registers(int64_t bytes, unsigned warps);
/* Registers of a thread if all threads have equally many. */
unsigned tc_max_registers(const tc_target *t, unsigned warps);
/* Registers that a consumer can be expected to have before roles are made: all
 * but those of a producer's warp group. */
int64_t tc_expected_consumer_registers(const tc_target *t, unsigned warps);

/* Warps of a kernel that asks for so many (0: for none), by the bytes of the
 * tiles that its loop carries. */
unsigned tc_expected_warps(unsigned asked, int64_t carried);
/* CTAs that an SM has room for: by the bytes of their rings, and by registers,
 * of which several warp groups take all. */
int64_t tc_resident_ctas(const tc_target *t, unsigned warps, int64_t rings,
                         int64_t carried);

/* `registers` of warp_groups. */
typedef struct tc_role_registers {
    int64_t producer, consumer;
} tc_role_registers;
/* All threads of the block start with equally many; the producer's group keeps
 * at least `fewest` and the consumers' groups share the rest. With `keep_step`
 * a producer that would get TC_ROLE_MIN_REGISTERS gets more, one step of each
 * consumer group. False: there is nothing to gain. */
bool tc_split_registers(const tc_target *t, unsigned groups, unsigned fewest,
                        bool keep_step, tc_role_registers *out);
/* As many steps more for the consumers as the producer can give; false: none.
 */
bool tc_lend_registers(unsigned groups, tc_role_registers *r);

/* ---- Shared memory, bytes ---- */

enum {
    /* The widest access of a thread, the least of a TMA copy, and what tensors
     * are aligned to (tc_func.aligned). */
    TC_VECTOR_BYTES = 16,
    /* Of a thread, after all buffers: where one thread tells the others what an
     * atomic or next_tile gave it. */
    TC_MESSAGE_BYTES = 8,
    TC_SECTOR_BYTES = 32, /* of global memory: what a store writes at least */
    TC_MBARRIER_BYTES = 8,
    /* Set aside for each resident block (CUDA programming guide, compute
     * capabilities 8.x and 9.0). */
    TC_BLOCK_RESERVE = 1024,
    /* Set aside for mbarriers and scalar channels that later passes add: ... */
    TC_CHANNEL_RESERVE = 1024, /* .. next to buffers that a tile has once */
    /* .. and next to a buffer of the hot loop: one slot less for its loads
     * costs more than a TMA store that is waited for. */
    TC_STORE_RESERVE = 3072,
    TC_DEFERRED_ADD_RESERVE = 4096, /* .. and a ring of defer-atomic-adds */
    TC_RING_GAPS = 512,             /* between buffers aligned to 1024 */
    TC_SLOT_MBARRIERS = 2 * TC_MBARRIER_BYTES, /* full and empty */
    /* Of a row, in a piece of a tile whose ring has one slot (split-loads):
     * two panels of the widest swizzle, 8 products of 16 bits. */
    TC_PIECE_BYTES = 256,
    /* A tile smaller than that is not worth two barriers. */
    TC_STAGED_MIN_BYTES = 1024,
    /* Buffers that keep memory of their own in a loop: each, and all. */
    TC_OWN_MAX_BYTES = 1024,
    TC_OWN_ALL_MAX_BYTES = 8192,
    /* Side by side in a thread, of copies that it reads itself: a matrix load
     * hands 4 to other lanes. */
    TC_OWN_COPY_BYTES = 8,
    /* Loads that a recurrence keeps in registers for a step: each, and all. */
    TC_PREFETCHED_MOST_BYTES = 1024,
    TC_PREFETCHED_ALL_BYTES = 4096
};

/* ---- Slots of rings ---- */

enum {
    TC_CHAINED_SLOTS = 2,    /* products that need each other's results */
    TC_UNCHAINED_SLOTS = 4,  /* products that wait for memory only: at least */
    TC_MAX_ASKED_SLOTS = 16, /* that can be asked for */
    /* cp.async: where two blocks share an SM, and where one has it alone. */
    TC_MIN_STAGES = 2,
    TC_MAX_STAGES = 4,
    TC_STAGES_ALONE = 3
};

/* Slots that a load of a hot loop will have at least, where options ask for
 * `stages` (0: for none). */
unsigned tc_planned_slots(unsigned stages);
/* Slots of `bytes`, of products that wait for memory only, with which a CTA
 * that has a multiprocessor alone keeps its share of the memory busy. */
unsigned tc_busy_slots(uint64_t bytes);

/* ---- Thresholds ---- */

enum {
    /* Elements of a tile whose masking is worth a branch around it. */
    TC_MASK_MIN_ELEMENTS = 2048,
    /* Elements of a tile that wgmma or mma may wait for (remarks). */
    TC_LOAD_MIN_ELEMENTS = 1024,

    /* pingpong: cycles of special functions, as percent of those of products,
     * that are worth turns in each step, and at a loop's begin; at more than
     * the most a group always wants the special functions. Claim pingpong-sfu.
     */
    TC_PINGPONG_MIN_PERCENT = 40,
    TC_PINGPONG_BEGIN_MIN_PERCENT = 25,
    TC_PINGPONG_MAX_PERCENT = 250,
    /* Cycles of 8-bit products in a step. Claim pingpong-narrow. */
    TC_PINGPONG_MIN_CYCLES_8BIT = 1152,
    /* choose_blocks.c: lanes of f32 ops of an SM in a cycle; cycles of a step
     * that do not depend on its tiles; bytes of an operand that wgmma reads
     * from shared memory in each step (half of 128 a cycle is hidden);
     * registers next to a step's tiles; columns, more of which were never
     * faster; a length. */
    TC_LANES_PER_CYCLE = 128,
    TC_STEP_CYCLES = 450,
    TC_BLOCKS_LENGTH = 4096, /* if it is not known */
    TC_BLOCKS_SPARE_REGISTERS = 32,
    TC_BLOCKS_MAX_COLUMNS = 128,
    TC_OPERAND_BYTES_PER_CYCLE = 256,
    /* launch_cost.c, fitted to 1000 times of matmul (claim matmul-tiles). Of an
     * SM in a cycle: bytes of rings from memory if all SMs load; of rings at
     * all; of results, as sums; of sums that are stored for the next kernel,
     * and that it adds. Cycles of that kernel, and of a CTA before and after
     * its loop; of a step of wgmma at least; of one of mma, and for each 16 of
     * its depth. What a product takes if a CTA is alone on its SM, and what
     * sharing a tile must gain, percent. The most bytes of a right operand of
     * mma in a step. */
    TC_RING_MEMORY_BYTES_PER_CYCLE = 16,
    TC_RING_BYTES_PER_CYCLE = 57,
    TC_RESULT_BYTES_PER_CYCLE = 256,
    TC_STORE_BYTES_PER_CYCLE = 8,
    TC_MERGE_BYTES_PER_CYCLE = 7,
    TC_MERGE_CYCLES = 700,
    TC_ROUND_CYCLES = 2300,
    TC_WGMMA_STEP_CYCLES = 250,
    TC_MMA_STEP_CYCLES = 450,
    TC_MMA_CYCLES = 22,
    TC_ALONE_PERCENT = 120,
    TC_SPLIT_GAIN_PERCENT = 5,
    TC_HIDDEN_DIVISOR = 128, /* of what other work hides */
    TC_MMA_STEP_BYTES = 16384,
    /* Bytes from memory, and from the L2 cache. */
    TC_MEMORY_BYTES_PER_CYCLE = 19,
    TC_L2_BYTES_PER_CYCLE = 50,
    /* From the issue of a TMA load of what is in L2 to its mbarrier; the same
     * where all SMs load as fast as they can (claim busy-slots). */
    TC_COPY_LATENCY_CYCLES = 700,
    TC_BUSY_LATENCY_CYCLES = 2750,
    /* Instructions for an element's conversion from int; cycles of elementwise
     * ops, alone and not, as percent of their lanes' share. */
    TC_INT_CAST_INSTRUCTIONS = 4,
    TC_LANES_ALONE_PERCENT = 110,
    TC_LANES_PERCENT = 150,
    /* swap_cost.c: bytes of shared memory that an SM reads in a cycle; products
     * of mma.sync as percent of those of wgmma; cycles between computing an
     * operand and a product, in which an SM has nothing else to do; a time that
     * is worth exchanging operands, as percent of that of a product as it
     * stands. */
    TC_SHARED_BYTES_PER_CYCLE = 128,
    TC_MMA_PERCENT = 62,
    TC_COMPUTED_WAIT_CYCLES = 480,
    TC_SWAP_PERCENT = 90,
    TC_PINGPONG_THREE_GROUPS = 3, /* warp groups that take turns each step */

    /* Warp groups that can read the scalar channel during the last product:
     * three have no registers for that. */
    TC_EARLY_CHANNEL_MAX_GROUPS = 2,

    /* linear_bias.c: columns of the product, and its K. Claim linear-bias. */
    TC_LINEAR_BIAS_MAX_COLUMNS = 256,
    TC_LINEAR_BIAS_MAX_DEPTH = 128,

    /* Programs that read a tensor in an order that no instruction wants, for
     * which a transposed copy pays: where they would read it byte by byte
     * (claim transposed-values), and where a transposer role reorders it (claim
     * values-copied). */
    TC_BYTEWISE_MIN_READERS = 4,
    TC_TRANSPOSED_MIN_READERS = 16,
    /* The same for @copied_attention; wide heads have short rings. */
    TC_BYTEWISE_MIN_PROGRAMS = 2,
    TC_WIDE_MIN_READERS = 8,
    TC_WIDE_HEAD = 128,

    /* attention_config.c: blocks of so many rows, fewer than multiprocessors,
     * on fewer keys than that: `few` of a configuration. Claim few-blocks. */
    TC_FEW_BLOCKS_ROWS = 128,
    TC_FEW_BLOCKS_KEYS = 2048,

    /* rasterize.c: bytes that the loops of a section of tiles read, half of
     * what fits in L2 with the copies of its halves. Claim l2-sections. */
    TC_SECTION_BYTES = 16 << 20,
    TC_SIDE_BY_SIDE_TILES = 128 /* about as many as there are SMs */
};

#endif
