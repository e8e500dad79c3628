/* SPDX-License-Identifier: Apache-2.0
 *
 * The repository's programs: .tile files, in pieces where they hold several,
 * and the examples of Markdown files.
 */
#ifndef TEST_TEXTS_H
#define TEST_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct texts {
    char **all;
    size_t n, room;
} texts;

/* Adds what a file or all files below a folder hold, in the order of their
 * names. */
void texts_read(texts *t, const char *path);
void texts_free(texts *t);

#endif
