/* SPDX-License-Identifier: Apache-2.0 */
#include "test/machine/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEM(name, kernel, tolerance, sizes, bindings)                      \
    {name, kernel, tolerance, sizes, bindings},

const kernel_row kernels_by_warps[] = {
#include "test/machine/kernels_by_warps.def"
    {0},
};

const kernel_row kernels_by_groups[] = {
#include "test/machine/kernels_by_groups.def"
    {0},
};

static void check_row(const kernel_row *row, bool fits)
{
    if (fits)
        return;
    printf("%s: bindings are more than %d, or not all NAME=VALUE: %s\n",
           row->name, PROBLEM_BINDINGS, row->bindings);
    exit(2);
}

problem kernel_problem(const kernel_row *row, kernel_words *words)
{
    problem p = {
        .name = row->name, .kernel = row->kernel, .tolerance = row->tolerance};
    unsigned count = 0;
    check_row(row, strlen(row->bindings) < sizeof words->text);
    strcpy(words->text, row->bindings);
    memcpy(p.size, row->size, sizeof p.size);
    for (char *w = strtok(words->text, " "); w; w = strtok(NULL, " ")) {
        char *value = strchr(w, '=');
        check_row(row, value && count < PROBLEM_BINDINGS);
        *value = '\0';
        p.bindings[count++] = (tc_binding){w, value + 1};
    }
    return p;
}
