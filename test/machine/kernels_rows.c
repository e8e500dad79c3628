/* SPDX-License-Identifier: Apache-2.0 */
#include "test/machine/kernels.h"

#include <assert.h>
#include <stdio.h>
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

problem kernel_problem(const kernel_row *row, kernel_words *words)
{
    problem p = {
        .name = row->name, .kernel = row->kernel, .tolerance = row->tolerance};
    int n = snprintf(words->text, sizeof words->text, "%s", row->bindings);
    unsigned count = 0;
    assert(n >= 0 && (size_t)n < sizeof words->text);
    memcpy(p.size, row->size, sizeof p.size);
    for (char *w = strtok(words->text, " "); w; w = strtok(NULL, " ")) {
        char *value = strchr(w, '=');
        assert(value && count < PROBLEM_BINDINGS);
        *value = '\0';
        p.bindings[count++] = (tc_binding){w, value + 1};
    }
    return p;
}
