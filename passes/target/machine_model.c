/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/target/machine_model.h"

const tc_target *tc_machine(const tc_target *t)
{
    return t->max_registers ? t : tc_target_get("sm_90a");
}

unsigned tc_warpgroups(unsigned warps)
{
    return warps / TC_WARPGROUP_WARPS;
}

int64_t tc_threads(unsigned warps)
{
    return (int64_t)TC_WARP_THREADS * warps;
}

int64_t tc_spread_registers(int64_t bytes, unsigned warps)
{
    return bytes / (4 * tc_threads(warps));
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

static int64_t whole_steps(int64_t n)
{
    return n / TC_REGISTER_STEP * TC_REGISTER_STEP;
}

unsigned tc_max_registers(const tc_target *t, unsigned warps)
{
    return (unsigned)at_most(t->registers_per_sm / tc_threads(warps),
                             t->max_registers);
}

int64_t tc_expected_consumer_registers(const tc_target *t, unsigned warps)
{
    int64_t producer = TC_WARPGROUP_THREADS * TC_ROLE_MIN_REGISTERS;
    int64_t all = (int64_t)t->registers_per_sm - producer;
    return at_most(whole_steps(all / tc_threads(warps)), TC_ROLE_MAX_REGISTERS);
}

unsigned tc_expected_warps(unsigned asked, int64_t carried)
{
    bool few = tc_spread_registers(carried, TC_DEFAULT_WARPS) <=
               TC_SHARING_MAX_REGISTERS;
    return asked ? asked : few ? TC_DEFAULT_WARPS : TC_DEFAULT_MAX_WARPS;
}

int64_t tc_resident_ctas(const tc_target *t, unsigned warps, int64_t rings,
                         int64_t carried)
{
    int64_t registers = tc_spread_registers(carried, warps) +
                        TC_SPARE_WGMMA_REGISTERS + TC_SPARE_REGISTERS;
    int64_t by_registers =
        t->registers_per_sm / (registers * tc_threads(warps + 1));
    int64_t by_bytes =
        t->shared_per_sm / (rings + TC_BLOCK_RESERVE + TC_CHANNEL_RESERVE);
    int64_t n = at_most(by_registers, by_bytes);
    return n < 1 || tc_warpgroups(warps) > 1 ? 1 : n;
}

bool tc_split_registers(const tc_target *t, unsigned groups, unsigned fewest,
                        bool keep_step, tc_role_registers *out)
{
    int64_t n = groups, threads = TC_WARPGROUP_THREADS * (n + 1);
    int64_t each = whole_steps(t->registers_per_sm / threads);
    if (!t->setmaxnreg || each >= TC_ROLE_MAX_REGISTERS)
        return false;
    int64_t all = each * (n + 1);
    out->consumer =
        at_most(whole_steps((all - fewest) / n), TC_ROLE_MAX_REGISTERS);
    out->producer = whole_steps(all - n * out->consumer);
    if (keep_step && out->producer == TC_ROLE_MIN_REGISTERS) {
        out->consumer -= TC_REGISTER_STEP;
        out->producer = whole_steps(all - n * out->consumer);
    }
    return true;
}

bool tc_lend_registers(unsigned groups, tc_role_registers *r)
{
    int64_t n = groups;
    int64_t spare = r->producer - TC_ROLE_MIN_REGISTERS;
    int64_t steps =
        at_most(spare / (TC_REGISTER_STEP * n),
                (TC_ROLE_MAX_REGISTERS - r->consumer) / TC_REGISTER_STEP);
    if (steps <= 0)
        return false;
    r->producer -= steps * TC_REGISTER_STEP * n;
    r->consumer += steps * TC_REGISTER_STEP;
    return true;
}

unsigned tc_planned_slots(unsigned stages)
{
    return stages == 1 ? 1 : TC_CHAINED_SLOTS;
}

/* As many as arrive in the time that one takes. */
unsigned tc_busy_slots(uint64_t bytes)
{
    uint64_t busy = TC_L2_BYTES_PER_CYCLE * TC_BUSY_LATENCY_CYCLES;
    uint64_t n = (busy + bytes / 2) / bytes;
    return n < TC_UNCHAINED_SLOTS   ? TC_UNCHAINED_SLOTS
           : n > TC_MAX_ASKED_SLOTS ? TC_MAX_ASKED_SLOTS
                                    : (unsigned)n;
}
