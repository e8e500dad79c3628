/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress of long work: on a terminal one line of stderr that is overwritten,
 * elsewhere (a log, a pipe) a line every few seconds.
 */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include "tools/common/args.h"

#include <stdint.h>

#define PROGRESS_OPTION                                                        \
    {                                                                          \
        "--progress", "SECONDS",                                               \
            "where stderr is no terminal: a line so often (default: 5; 0: "    \
            "none)"                                                            \
    }

/* Reads --progress. Exit code. */
int progress_read(const tool_args *args);
/* No progress at all: stderr is read by a program. */
void progress_off(void);

/* Says what is done now: from now on, until the next call or progress_end. */
void progress_show(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* While waiting: a line if it is time for one. */
void progress_tick(void);
/* Seconds until it is time for the next line. */
double progress_interval(void);
/* Before anything else is written to stderr. */
void progress_end(void);

/* A progress callback for launches: after a second. */
void progress_launch(void *user, int64_t done, int64_t total);

#endif
