/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of at most 64 KiB that ask for as much compiling as they can.
 *
 * Each is a row of a table: what begins it, a piece that is repeated, and what
 * ends it. Rows of masks and scores are functions, compiled with a kernel of
 * the library.
 */
#ifndef TC_TEST_GROWTH_TEXTS_H
#define TC_TEST_GROWTH_TEXTS_H

#include "lib/tilec.h"

#include <stdbool.h>
#include <stddef.h>

enum { GROWTH_MOST = 64 * 1024, GROWTH_BINDINGS = 8 };

/* The text: head, piece 1 to n, middle, close n to 1, tail. In them $i is the
 * number of the piece, $p and $n those before and after it, $l is n, $e the
 * number after n. */
struct growth_case {
    const char *name;
    const char *head, *piece, *middle, *close, *tail;
    unsigned most;      /* pieces; 0: as many as fit */
    const char *kernel; /* an embedded one; NULL: @k, or the only plan */
    const char *bindings[GROWTH_BINDINGS]; /* NAME=VALUE */
    bool gpu_only;                         /* at machine level */
};
extern const struct growth_case growth_cases[];
extern const unsigned growth_ncases;

/* NULL: there is no such case. */
const struct growth_case *growth_find(const char *name);
/* With so many pieces, or (0) as many as fit. To be freed; at most GROWTH_MOST
 * bytes. */
char *growth_text(const struct growth_case *c, unsigned pieces);
/* Compiles that; the result is to be freed, NULL where it failed. */
tilec_status growth_compile(tilec_context *cx, const struct growth_case *c,
                            const char *target, unsigned pieces,
                            tilec_kernel **out);

#endif
