/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/host/jit/cpus.h"

#include <stddef.h>
#include <string.h>

#define V2 "+cx16,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3"
#define V3 V2 ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
#define V4 V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"

static const tc_host_cpu cpus[] = {
    {"x86-64-v2", V2}, {"x86-64-v3", V3}, {"x86-64-v4", V4}};
enum { CPUS = sizeof cpus / sizeof *cpus };

static int index_of(const char *name)
{
    for (int i = 0; i < CPUS; i++)
        if (strcmp(cpus[i].name, name) == 0)
            return i;
    return -1;
}

const tc_host_cpu *tc_host_cpu_get(const char *name)
{
    int i = index_of(name);
    return i < 0 ? NULL : &cpus[i];
}

/* Features by which the levels are told apart: all CPUs with them have the
 * others. */
static int machine_level(void)
{
    int level = -1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
        level = 0;
    if (level == 0 && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        level = 1;
    if (level == 1 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        level = 2;
#endif
    return level;
}

int tc_host_cpu_rank(const char *name)
{
    int i = index_of(name);
    return i <= machine_level() ? i : -1;
}
