/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of programs.c; one without a name ends each.
 */
#ifndef TEST_PROGRAMS_H
#define TEST_PROGRAMS_H

#include "test/numerics/world.h"

extern const world_test programs_control[], programs_memory[],
    programs_values[];

#endif
