/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/doubles.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_doubles(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_size);
}
