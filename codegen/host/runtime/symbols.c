/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/host/runtime/symbols.h"

#include "codegen/host/runtime/runtime.h"

#include <math.h>
#include <string.h>

const tc_host_symbol tc_host_runtime_symbols[] = {
    {"memcpy", (void *)memcpy},
    {"memmove", (void *)memmove},
    {"memset", (void *)memset},
    {"fma", (void *)fma},
    {"fmaf", (void *)fmaf},
    {"floor", (void *)floor},
    {"floorf", (void *)floorf},
    {"fmin", (void *)fmin},
    {"fminf", (void *)fminf},
    {"fmax", (void *)fmax},
    {"fmaxf", (void *)fmaxf},
    {"tc_host_rt_fail", (void *)tc_host_rt_fail},
    {"tc_host_rt_print", (void *)tc_host_rt_print},
    {"tc_host_rt_follow", (void *)tc_host_rt_follow},
    {NULL, NULL},
};

static void *find(const tc_host_symbol *list, const char *name)
{
    while (list->name && strcmp(list->name, name) != 0)
        list++;
    return list->address;
}

void *tc_host_symbol_find(const char *name)
{
    void *address = find(tc_host_runtime_symbols, name);
    return address ? address : find(tc_host_libm, name);
}
