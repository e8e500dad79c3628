/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of results, of commands that measure.
 */
#ifndef TOOL_ROW_H
#define TOOL_ROW_H

#include <cjson/cJSON.h>
#include <stdint.h>

/* The object as a line of standard output; frees it. The exit code. */
int row_print(cJSON *row);

/* "32/8" of two sizes, "32" where they are equal. */
typedef struct sizes_text {
    char text[48];
} sizes_text;
sizes_text sizes_name(int64_t a, int64_t b);

#endif
