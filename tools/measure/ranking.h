/* SPDX-License-Identifier: Apache-2.0
 *
 * The variants of a workload by their speed: tables and JSON.
 */
#ifndef TOOL_RANKING_H
#define TOOL_RANKING_H

#include "tools/measure/trial.h"

typedef struct ranked {
    variant variant;
    trial trial;
} ranked;

/* Tries each in a process of its own, with a line of progress on a terminal. */
void ranking_try(const workload *w, const space *s, const trial_options *o,
                 ranked *list, size_t n);
/* The fastest first, then what was not run, in the order of the space. */
void ranking_sort(ranked *list, size_t n);
void ranking_print(const workload *w, const space *s, const ranked *list,
                   size_t n);
/* An object a line. */
int ranking_print_json(const workload *w, const space *s, const ranked *list,
                       size_t n);
/* EXIT_INPUT where a variant is wrong or failed, or none has run. */
int ranking_code(const ranked *list, size_t n);

#endif
