/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_DOUBLES_H
#define TOOLS_DOUBLES_H

#include <stddef.h>

/* The smallest first. */
void sort_doubles(double *x, size_t n);

#endif
