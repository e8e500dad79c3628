/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/target/target.h"

#include <string.h>

/* Shared memory and registers: CUDA C++ programming guide, compute
 * capabilities. The PTX version is the first that has what the target uses and
 * that knows the processor. */
static const tc_target targets[] = {
    {.name = "cpu", .pipeline = "cpu"},
    {.name = "sm_80",
     .cpu = "sm_80",
     .feature = "+ptx70",
     .major = 8,
     .minor = 0,
     .pipeline = "gpu",
     .shared_per_block = 166912,
     .shared_per_sm = 167936,
     .registers_per_sm = 65536,
     .max_registers = 255,
     .multiprocessors = 108,
     .special_per_cycle = 16,
     .products_per_cycle = 1024,
     .cp_async = true,
     .ldmatrix = true},
    {.name = "sm_86",
     .cpu = "sm_86",
     .feature = "+ptx71",
     .major = 8,
     .minor = 6,
     .pipeline = "gpu",
     .shared_per_block = 101376,
     .shared_per_sm = 102400,
     .registers_per_sm = 65536,
     .max_registers = 255,
     .multiprocessors = 84,
     .special_per_cycle = 16,
     .products_per_cycle = 512,
     .cp_async = true,
     .ldmatrix = true},
    {.name = "sm_89",
     .cpu = "sm_89",
     .feature = "+ptx84",
     .major = 8,
     .minor = 9,
     .pipeline = "gpu",
     .shared_per_block = 101376,
     .shared_per_sm = 102400,
     .registers_per_sm = 65536,
     .max_registers = 255,
     .multiprocessors = 142,
     .special_per_cycle = 16,
     .products_per_cycle = 512,
     .cp_async = true,
     .ldmatrix = true,
     .mma_fp8 = true},
    {.name = "sm_90",
     .cpu = "sm_90",
     .feature = "+ptx84",
     .major = 9,
     .minor = 0,
     .pipeline = "gpu",
     .shared_per_block = 232448,
     .shared_per_sm = 233472,
     .registers_per_sm = 65536,
     .max_registers = 255,
     .multiprocessors = 132,
     .special_per_cycle = 16,
     .products_per_cycle = 2048,
     .cp_async = true,
     .ldmatrix = true,
     .stmatrix = true,
     .mma_fp8 = true},
    {.name = "sm_90a",
     .cpu = "sm_90a",
     .feature = "+ptx86",
     .major = 9,
     .minor = 0,
     .pipeline = "gpu",
     .shared_per_block = 232448,
     .shared_per_sm = 233472,
     .registers_per_sm = 65536,
     .max_registers = 255,
     .multiprocessors = 132,
     .special_per_cycle = 16,
     .products_per_cycle = 2048,
     .cp_async = true,
     .ldmatrix = true,
     .stmatrix = true,
     .mma_fp8 = true,
     .tma = true,
     .wgmma = true,
     .setmaxnreg = true,
     .exact = true},
};
enum { NTARGETS = sizeof targets / sizeof *targets };

const tc_target *tc_target_get(const char *name)
{
    for (size_t i = 0; i < NTARGETS; i++)
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    return NULL;
}

const tc_target *tc_target_at(size_t index)
{
    return index < NTARGETS ? &targets[index] : NULL;
}

const char *tc_target_names(tc_arena *a)
{
    const char *all = targets[0].name;
    for (size_t i = 1; i < NTARGETS; i++)
        all = tc_arena_printf(a, "%s, %s", all, targets[i].name);
    return all;
}

const tc_target *tc_target_for_device(unsigned major, unsigned minor)
{
    const tc_target *best = NULL;
    for (size_t i = 1; i < NTARGETS; i++) {
        const tc_target *t = &targets[i];
        bool same = t->major == major && t->minor == minor;
        bool earlier =
            same || t->major < major || (t->major == major && t->minor < minor);
        if (t->exact ? same : earlier)
            best = t;
    }
    return best;
}
